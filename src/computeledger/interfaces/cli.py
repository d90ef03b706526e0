"""The command line. Every command takes ``--json`` and then prints exactly one JSON document on stdout.

Imports of the engine stand inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from computeledger.errors import ComputeLedgerError, InputError, shown

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
working_option = click.option("--working", is_flag=True, help="Show formula, inputs and sources of every figure.")
samples_option = click.option("--samples", default=4096, show_default=True, help="Samples of uncertain inputs.")
seed_option = click.option("--seed", default=0, show_default=True, help="Seed of the sampling.")


def _help_alone(context: click.Context) -> None:
    """A group that is called without a command prints its help."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@click.group(context_settings=_CONTEXT, invoke_without_command=True)
@click.version_option(package_name="computeledger", message="%(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Plan, run and reconcile the compute of a language model's life in GPU-time.

    Three ledgers (pretraining, reinforcement learning, inference), two currencies (FLOP and GPU-time), every number
    with its source and an interval. A quantity may be a range: "10M..100M" is a 90 % interval.
    """
    _help_alone(context)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: exit code 2 and one line for bad input, no traceback.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command and options; the process's own when left out.

    Examples
    --------
    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    try:
        code = cli.main(args=list(arguments) if arguments is not None else None, standalone_mode=False)
    except click.ClickException as error:
        _fail(error.format_message().replace("\n", " "), 2)
    except click.exceptions.Abort:
        _fail("interrupted", 130)
    except InputError as error:
        _fail(str(error).replace("\n", " "), 2)
    except ComputeLedgerError as error:
        _fail(str(error), 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(f"{shown(error.filename or 'a file')}: {(error.strerror or 'cannot be used').lower()}", 2)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    message = re.sub(r"(\S{80})\S{200,}", r"\1...", message)  # what was given may be a whole file
    click.echo(f"computeledger: {message}", err=True)
    sys.exit(code)


def _print_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, indent=2, allow_nan=False, default=float))


def _write_file(path: str, text: str, read_from: str | None = None) -> None:
    """Write a whole file or nothing, and never over the file that was read."""
    target = Path(path)
    try:
        _check_target(path, target, read_from)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".computeledger-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            Path(temporary).chmod(0o644)
            Path(temporary).replace(target)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{shown(path)}: cannot be written ({(error.strerror or 'unknown reason').lower()})") from None


def _check_target(path: str, target: Path, read_from: str | None) -> None:
    if not path:
        raise InputError("--html: a file name is missing")
    if not target.parent.is_dir():
        raise InputError(f"{path}: the folder {shown(str(target.parent))} does not exist")
    if target.is_dir():
        raise InputError(f"{path}: is a folder, a file name is needed")
    if target.exists() and not target.is_file():
        raise InputError(f"{path}: is no regular file and is left as it is")
    if read_from is not None and target.exists() and target.samefile(read_from):
        raise InputError(f"{path}: is the plan itself; the report needs a file of its own")


@cli.command()
@click.argument("plan_file", metavar="PLAN.toml", required=False)
@click.option("--html", "html_file", metavar="FILE", help="Write the report as one self-contained HTML file.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of plans for editors, and stop.")
@samples_option
@seed_option
@working_option
@json_option
def plan(
    plan_file: str | None, html_file: str | None, schema: bool, samples: int, seed: int, working: bool, as_json: bool
) -> None:
    """The life-cycle ledger of a plan: three phases in FLOP and GPU-time, with intervals and working."""
    from computeledger.economics.plan import load_plan
    from computeledger.economics.plan_keys import json_schema

    if schema:
        _print_json(json_schema())
        return
    if plan_file is None:
        raise InputError("PLAN.toml is missing: computeledger plan PLAN.toml (see examples/)")
    from computeledger.economics.ledger import estimate_ledger
    from computeledger.interfaces.documents import plan_document

    ledger = estimate_ledger(load_plan(plan_file), samples, seed)
    document = plan_document(ledger, working=working or html_file is not None)
    if html_file is not None:
        from computeledger.interfaces.report import plan_report

        _write_file(html_file, plan_report(ledger, document), plan_file)
    if as_json:
        _print_json(document)
        return
    from computeledger.interfaces.tables import print_plan

    print_plan(document, working)
    if html_file is not None:
        click.echo(f"report: {html_file}")


def _quantity(dimension: str, default_unit: str) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Parse an option's quantity, so that the message names the option."""

    def parse(_context: click.Context, parameter: click.Parameter, text: str | None) -> Any:
        if text is None:
            return None
        from computeledger.units import parse_quantity

        try:
            return parse_quantity(text, dimension, default_unit)
        except InputError as error:
            raise InputError(f"{parameter.opts[0]} {error}") from None

    return parse


def _at_least_one(_context: click.Context, parameter: click.Parameter, value: int) -> int:
    if value < 1:
        raise InputError(f"{parameter.opts[0]} {value}: at least 1 is needed")
    return value


_tokens = _quantity("tokens", "tokens")
_seconds = _quantity("s", "s")
_price = _quantity("usd_per_hour", "$/h")
_count = _quantity("count", "")


def _common(command: Callable[..., None]) -> Callable[..., None]:
    options = [
        click.option("--model", required=True, help="Model id, or path to a config.json."),
        click.option("--system", required=True, help="System id, or path to a system TOML."),
        click.option("--gpus", callback=_count, metavar="N", help="GPUs at hand."),
        click.option("--layout", metavar="tp8-pp1-dp1-ep1", help="Parallel layout; searched when left out."),
        click.option("--precision", metavar="P", help="bf16, fp8 or fp4; left out: as stored, bf16 to pretrain."),
        click.option("--price", callback=_price, metavar="$/h", help="GPU-hour; the edition's rent when left out."),
        samples_option,
        seed_option,
        working_option,
        json_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@cli.command()
@_common
@click.option(
    "--batch", callback=_count, metavar="B", help="Sequences decoding per replica, all attention-DP ranks together."
)
@click.option("--input-tokens", default="4096", show_default=True, callback=_tokens, metavar="I", help="New input.")
@click.option("--output-tokens", default="1024", show_default=True, callback=_tokens, metavar="O", help="Output.")
@click.option("--cached-tokens", default="0", show_default=True, callback=_tokens, metavar="C", help="Cached prefix.")
@click.option("--kv-precision", default="bf16", show_default=True, metavar="P", help="Precision of the KV cache.")
@click.option(
    "--requests-per-s",
    callback=_quantity("requests_per_s", "requests/s"),
    metavar="R",
    help="Load to size a fleet for.",
)
@click.option("--ttft", callback=_seconds, metavar="T", help="Slowest acceptable time to first token, such as 2s.")
@click.option("--tpot", callback=_seconds, metavar="T", help="Slowest acceptable time per output token, such as 50ms.")
def serve(**options: Any) -> None:
    """Serving: prefill and decode by operation, TTFT, TPOT, throughput, USD/Mtok, memory.

    Without --batch, the Pareto front of speed against throughput over legal layouts and batches; with
    --requests-per-s, how many GPUs that load needs.
    """
    from computeledger.interfaces.answers import answer_serve

    document = answer_serve(options)
    if options["as_json"]:
        _print_json(document)
        return
    from computeledger.interfaces.tables import print_serve

    print_serve(document, options["working"])


@cli.command()
@_common
@click.option(
    "--tokens", default="1T tokens", show_default=True, callback=_tokens, metavar="D", help="Tokens of the run."
)
@click.option(
    "--sequence-tokens", default="4096", show_default=True, callback=_tokens, metavar="S", help="Length of a sequence."
)
@click.option(
    "--global-batch-tokens",
    default="4M",
    show_default=True,
    callback=_tokens,
    metavar="T",
    help="Tokens per optimiser step.",
)
@click.option("--microbatch-sequences", type=int, metavar="M", help="Sequences that pass a stage at once.")
@click.option("--recompute", metavar="MODE", help="none, selective or full.")
@click.option(
    "--virtual-stages", default=1, show_default=True, metavar="V", help="Interleaved chunks per pipeline stage."
)
@click.option("--top", default=10, show_default=True, callback=_at_least_one, metavar="K", help="Best layouts to list.")
def pretrain(**options: Any) -> None:
    """Pretraining: step time by part, MFU, HFU, memory, days and GPU-hours, the best legal layouts."""
    from computeledger.interfaces.answers import answer_pretrain

    document = answer_pretrain(options)
    if options["as_json"]:
        _print_json(document)
        return
    from computeledger.interfaces.tables import print_pretrain

    print_pretrain(document, options["working"])


@cli.group(context_settings=_CONTEXT, invoke_without_command=True)
@click.pass_context
def facts(context: click.Context) -> None:
    """Look facts up, with source, date and locator."""
    _help_alone(context)


@facts.command("model")
@click.argument("model", metavar="PATH_OR_ID")
@click.option("--kv-precision", default="bf16", show_default=True, metavar="P", help="Precision of the KV cache.")
@json_option
def facts_model(model: str, kv_precision: str, as_json: bool) -> None:
    """A model's parameters, cache and shape, read from its configuration."""
    from computeledger.interfaces.answers_facts import answer_model

    document = answer_model(model, kv_precision)
    if as_json:
        _print_json(document)
        return
    from computeledger.interfaces.tables import print_model

    print_model(document)


@facts.command("show")
@click.argument("fact_id", metavar="ID")
@json_option
def facts_show(fact_id: str, as_json: bool) -> None:
    """An accelerator, a system, a model, an edition or a source, every figure with its source."""
    from computeledger.interfaces.answers_facts import answer_fact

    document = answer_fact(fact_id)
    if as_json:
        _print_json(document)
        return
    from computeledger.interfaces.tables import print_facts

    print_facts(document)


@facts.command("search")
@click.argument("query", nargs=-1, required=True)
@json_option
def facts_search(query: tuple[str, ...], as_json: bool) -> None:
    """Ids and facts whose name, value, note or source mentions every word."""
    from computeledger.interfaces.answers_facts import answer_search

    document = answer_search(" ".join(query))
    if as_json:
        _print_json(document)
        return
    from computeledger.interfaces.tables import print_search

    print_search(document)


@facts.command("diff")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@json_option
def facts_diff(first: str, second: str, as_json: bool) -> None:
    """Facts in which two editions, accelerators, systems or models differ; either may be your own file."""
    from computeledger.interfaces.answers_facts import answer_diff

    document = answer_diff(first, second)
    if as_json:
        _print_json(document)
        return
    from computeledger.interfaces.tables_facts import print_diff

    print_diff(document)


@cli.command()
@click.option("--system", metavar="ID", help="System id, or path to a system TOML.")
@click.option("--accelerator", metavar="ID", help="Accelerator id, or path to a TOML, where no system is meant.")
@click.option("--kind", multiple=True, metavar="KIND", help="rent, reserve or own; may be repeated. [default: all]")
@click.option(
    "--occupancy", callback=_quantity("fraction", ""), metavar="F", help="Used hours over hours paid, such as 60%..90%."
)
@click.option(
    "--electricity", callback=_quantity("usd_per_kwh", "$/kWh"), metavar="$/kWh", help="Price of electricity."
)
@click.option("--life", callback=_quantity("years", "years"), metavar="Y", help="Years of service.")
@click.option("--cost-of-capital", callback=_quantity("fraction", ""), metavar="F", help="Per year, such as 8%..12%.")
@click.option("--capex", callback=_quantity("usd", "$"), metavar="$", help="Purchase of one GPU, building included.")
@click.option(
    "--operation", callback=_quantity("usd_per_year", "$/year"), metavar="$/year", help="Staff, repair, space."
)
@samples_option
@seed_option
@working_option
@json_option
def cost(**options: Any) -> None:
    """The same GPU-hour rented, reserved and owned: components, grounds, energy and carbon.

    What an option does not state comes from the newest price and ownership editions. The cost is that of an hour that
    is used: a reserved or owned GPU is paid for while it stands idle.
    """
    from computeledger.interfaces.answers_facts import answer_cost

    document = answer_cost(options)
    if options["as_json"]:
        _print_json(document)
        return
    from computeledger.interfaces.tables_facts import print_cost

    print_cost(document, options["working"])


@cli.command()
@click.option(
    "--data", "data_file", required=True, metavar="F.csv", help="Measured serving points (InferenceX columns)."
)
@click.option("--by", default="", metavar="COLS", help="Columns to slice by, such as backend,system.")
@samples_option
@seed_option
@json_option
def validate(data_file: str, by: str, samples: int, seed: int, as_json: bool) -> None:
    """Predicted against measured: errors, bias and interval coverage, over all rows and by slice."""
    from computeledger.interfaces.answers import answer_validate

    document = answer_validate(data_file, by, samples, seed)
    if as_json:
        _print_json(document)
        return
    from computeledger.interfaces.tables import print_validation

    print_validation(document)


@cli.command()
@click.argument("target", metavar="PLAN.toml|KEY", nargs=-1, required=True)
@json_option
def cite(target: tuple[str, ...], as_json: bool) -> None:
    """BibTeX of the sources that a plan's result rests on, or of source keys."""
    from computeledger.interfaces.answers_facts import answer_cite

    document = answer_cite(target)
    if as_json:
        _print_json(document)
        return
    click.echo(document["bibtex"])


@cli.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--verdict", metavar="V", help="Only these: holds, holds_if, fails, input or not_checkable.")
@click.option("--html", "html_file", metavar="FILE", help="Write the claims as one self-contained HTML file.")
@json_option
def claims(ids: tuple[str, ...], verdict: str | None, html_file: str | None, as_json: bool) -> None:
    """Every quantitative claim of the source documents, recomputed: holds, holds if, or does not hold, and why."""
    from computeledger.interfaces.documents_claims import claims_document
    from computeledger.validation.claims import check_claims

    document = claims_document(check_claims(ids, verdict))
    if html_file is not None:
        from computeledger.interfaces.report_claims import claims_report

        _write_file(html_file, claims_report(document))
    if as_json:
        _print_json(document)
        return
    from computeledger.interfaces.tables_claims import print_claims

    print_claims(document)
    if html_file is not None:
        click.echo(f"report: {html_file}")
