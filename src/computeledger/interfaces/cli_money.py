"""The commands ``allocate``, ``prices``, ``invert`` and ``route``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from computeledger.interfaces.asking import asked_by, question_options, report_option, show_answer
from computeledger.interfaces.cli_options import (
    CONTEXT,
    NUMBER,
    OF_PEAK,
    help_alone,
    json_option,
    parse_count,
    parse_price,
    parse_seconds,
    parse_tokens,
    print_json,
    quantity_option,
    samples_option,
    seed_option,
    working_option,
)
from computeledger.questions.invert import InvertQuestion

_ratio, _fraction = quantity_option("ratio", ""), quantity_option("fraction", "")
_rate, _flop = quantity_option("tokens_per_s", "tokens/s"), quantity_option("flop", "FLOP")


def _print_working(document: Mapping[str, Any]) -> None:
    """Print the working where it was asked for."""
    if "working" in document:
        from computeledger.interfaces.tables import console, print_working

        print_working(console(), document)


@click.command()
@click.option("--law", default="besiroglu_2024", show_default=True, metavar="NAME", help="Loss law.")
@click.option(
    "--laws", is_flag=True, help="List the laws: where each was read, what it was fitted on, whether it is on."
)
@click.option("--unverified", is_flag=True, help="Allow laws and constants that were read in notes only.")
@click.option("--unique-tokens", callback=parse_tokens, metavar="N", help="Fresh data there are; more repeats.")
@click.option("--sparsity-ratio", type=NUMBER, metavar="R", help="Total over active parameters of a sparse model.")
@click.option(
    "--sparsity-multiplier", callback=_ratio, metavar="M", help="Dense compute it is worth; left out: read off."
)
@click.option("--train-bits", metavar="W/A/KV", help="Precision of training, such as 8/8/16: Kumar et al.'s law.")
@click.option("--budget", metavar="AMOUNT", help="'5.76e23 FLOP', '2.7M GPU-hours' or '$50M'.")
@click.option("--inference-tokens", "tokens_inference", callback=parse_tokens, metavar="N", help="Tokens served.")
@click.option("--rate", callback=_rate, metavar="N/s", help="Tokens served per second; with --life.")
@click.option("--life", callback=parse_seconds, metavar="TIME", help="Time in service; with --rate.")
@click.option("--rl-tokens", "tokens_rl", callback=parse_tokens, metavar="N", help="Tokens of RL.")
@click.option("--beta", callback=_ratio, help="FLOP of RL per parameter and token. [default: 8 to 12, median 10]")
@click.option("--samples-per-kept", callback=_ratio, metavar="N", help="RL samples per one trained on: sets beta.")
@click.option("--rl-gain", callback=_ratio, metavar="LOSS", help="Loss that unlimited RL is worth; with --rl-mid.")
@click.option("--rl-mid", callback=_flop, metavar="FLOP", help="RL compute at which half of it is reached.")
@click.option("--rl-recipe", metavar="NAME", help="ScaleRL's sigmoid instead of --rl-mid: scalerl, 32k, scout, ...")
@click.option("--rl-exponent", callback=_ratio, metavar="B", help="Steepness of the sigmoid; 1 when left out.")
@click.option("--elasticity", default="0", help="Demand falls as price^-elasticity; a number, or 'published'.")
@click.option("--at-n-params", "n_params_reference", callback=parse_count, metavar="N", help="Size of that demand.")
@click.option("--utilization-pretraining", callback=_fraction, metavar="F", help=f"FLOP over peak; {OF_PEAK} assumed.")
@click.option(
    "--utilization-rl", callback=_fraction, metavar="F", help="Of RL, waiting included; that of published steps."
)
@click.option("--utilization-inference", callback=_fraction, metavar="F", help="Of inference; a third assumed.")
@click.option("--system", default="h100-nvl8", show_default=True, help="System whose GPUs are counted.")
@click.option("--price", callback=parse_price, metavar="$/h", help="GPU-hour; the edition's rent when left out.")
@click.option("--n-params", callback=parse_count, metavar="N", help="Judge ledgers that exist: active parameters.")
@click.option("--tokens", "tokens_pretraining", callback=parse_tokens, metavar="N", help="And pretraining tokens.")
@click.option("--preset", metavar="NAME", help="Judge an assumed lab: consumer-app or api-only.")
@click.option("--levers", metavar="MODEL", help="What sparsity, caches, drafts, bits and routing do, on this model.")
@click.option("--html", "html_file", metavar="FILE", help="Write plots as one self-contained HTML file.")
@samples_option
@seed_option
@json_option
def allocate(as_json: bool, html_file: str | None, laws: bool, **options: Any) -> None:
    """Split a budget over size, pretraining, RL and inference by equal marginal returns.

    Without --inference-tokens or --rl-tokens the ledger is as large as pretraining's: a choice, and no law.
    """
    if laws:
        _laws(as_json)
        return
    from computeledger.questions.answers.allocate import answer_allocate

    document = answer_allocate(options)
    if html_file is not None:
        from computeledger.interfaces.report_money import write_allocation

        write_allocation(html_file, document)
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_money import print_allocation

    print_allocation(document)
    if html_file is not None:
        click.echo(f"report: {html_file}")


def _laws(as_json: bool) -> None:
    """The list of laws."""
    from computeledger.questions.answers.laws import laws_document

    document = laws_document()
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_money import print_laws

    print_laws(document)


@click.command()
@click.argument("sheet", metavar="[SHEET.toml]", required=False)
@question_options(InvertQuestion, leave_out=("sheet",))
@report_option
@working_option
@json_option
def invert(**options: Any) -> None:
    """Say what a price sheet reveals of the model behind it, and what it does not.

    Sizes come from prices of open models of known size; intervals are those that left-out models keep.
    """
    from computeledger.questions.answers.invert import answer_invert

    show_answer(answer_invert(asked_by(InvertQuestion, options)), options)


@click.command()
@click.argument("task_file", metavar="[TASK.toml]", required=False)
@click.option("--attempts", metavar="F.csv", help="Fit models to attempts: model, task, success, cost; CSV or JSONL.")
@click.option("--check", is_flag=True, help="Predict cascades of one half of the attempts' tasks from the other half.")
@click.option("--html", "html_file", metavar="FILE", help="Write the front as one self-contained HTML file.")
@working_option
@seed_option
@json_option
def route(as_json: bool, html_file: str | None, **options: Any) -> None:
    """Cost, time and success of a completed task: single models, retries, best-of-k and cascades.

    Failures are correlated: what independence would promise is printed as an upper bound only.
    """
    from computeledger.questions.answers.route import answer_route

    document = answer_route(options)
    if html_file is not None and not options["check"]:
        from computeledger.interfaces.report_money import write_route

        write_route(html_file, document)
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_money import print_route, print_routing_check

    (print_routing_check if options["check"] else print_route)(document)
    _print_working(document)
    if html_file is not None:
        click.echo(f"report: {html_file}")


@click.group(context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def prices(context: click.Context) -> None:
    """Price sheets of tokens: list, show, bill and compare, history, and the cost floor of an open model."""
    help_alone(context)


def _print(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_money import print_prices

    print_prices(document)


@prices.command("list")
@click.argument("text", default="")
@json_option
def list_sheets(text: str, as_json: bool) -> None:
    """Models of the snapshot whose provider/name holds TEXT."""
    from computeledger.questions.answers.prices import list_document

    _print(list_document(text), as_json)


@prices.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """The sheet of provider/name or of a TOML file: every price with its tiers and modes."""
    from computeledger.questions.answers.prices import sheet_document, sheet_named

    _print(sheet_document(sheet_named(name)), as_json)


_tokens: dict[str, Any] = {"default": "0", "callback": parse_tokens, "metavar": "N"}


@prices.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--input-tokens", **_tokens, help="New input, as in serve: the prompt without what the cache holds.")
@click.option("--output-tokens", **_tokens, help="The answer.")
@click.option("--cached-tokens", **_tokens, help="Cached prefix, as in serve: the rest of the prompt.")
@click.option(
    "--cache-write-tokens",
    default="0",
    callback=parse_tokens,
    metavar="N",
    help="Of the new input, written to the cache for 5 minutes.",
)
@click.option(
    "--cache-write-1h-tokens",
    default="0",
    callback=parse_tokens,
    metavar="N",
    help="Of the new input, written to it for an hour.",
)
@click.option("--mode", default="standard", show_default=True, help="Or batch, priority: what the sheet has.")
@json_option
def bill(names: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """What one request costs at one or more sheets, cheapest first."""
    from computeledger.questions.answers.prices import bill_document

    _print(bill_document(names, options), as_json)


@prices.command()
@click.argument("name")
@json_option
def history(name: str, as_json: bool) -> None:
    """Every dated set of prices that the source has for provider/name."""
    from computeledger.questions.answers.prices import history_document

    _print(history_document(name), as_json)


@prices.command()
@click.option("--model", required=True, help="Model id, or path to a config.json.")
@click.option("--system", required=True, help="System id, or path to a system TOML.")
@click.option("--price", metavar="$/h", help="GPU-hour; the edition's rent when left out.")
@click.option("--market", metavar="NAME", help="Its name in the table of market prices.")
@json_option
def floor(as_json: bool, **options: Any) -> None:
    """Cost of an open model's tokens on given hardware beside its market prices: who sells below cost."""
    from computeledger.questions.answers.prices import floor_document

    _print(floor_document(options), as_json)
