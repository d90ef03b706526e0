"""The command ``reconcile``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.errors import InputError
from computeledger.interfaces.options import (
    json_option,
    parse_count,
    parse_price,
    parse_seconds,
    parse_tokens,
    print_json,
)
from computeledger.writing import write_bytes, write_file


def _one(name: str, value: Any, whole: bool = False) -> Any:
    """A single number of an option, whole where it counts."""
    if value is None:
        return None
    if not isinstance(value, int | float) or value <= 0 or (whole and value != round(value)):
        raise InputError(f"--{name} {value}: a single {'whole ' if whole else ''}number above 0 is needed")
    return round(value) if whole else float(value)


@click.command()
@click.argument("plan_file", metavar="PLAN.toml")
@click.argument("files", metavar="ACTUALS...", nargs=-1, required=True)
@click.option("--price", callback=parse_price, metavar="$/h", help="GPU-hour as it was paid; the plan's when left out.")
@click.option("--gpus", callback=parse_count, metavar="N", help="GPUs that a log held which does not say it.")
@click.option(
    "--sequence-tokens", callback=parse_tokens, metavar="N", help="Length of a sequence, for a log without it."
)
@click.option(
    "--rollouts-per-step", callback=parse_count, metavar="N", help="Rollouts of an RL step, for trainer_state.json."
)
@click.option("--duration", callback=parse_seconds, metavar="TIME", help="Time that vLLM's counters cover.")
@click.option(
    "--calibration", "calibration_file", default="calibration.toml", show_default=True, metavar="FILE",
    help="Where the calibration for plan --calibration is written.",
)  # fmt: skip
@click.option("--html", "html_file", metavar="FILE", help="Write waterfalls and tables as one HTML file.")
@json_option
def reconcile(
    plan_file: str,
    files: tuple[str, ...],
    price: Any,
    gpus: Any,
    sequence_tokens: Any,
    rollouts_per_step: Any,
    duration: Any,
    calibration_file: str,
    html_file: str | None,
    as_json: bool,
) -> None:
    """Budget against actuals by phase; writes a calibration that the next plan can use.

    ACTUALS are run ledgers and logs, told apart by what is in them: Megatron-LM, torchtitan and verl consoles, verl's
    JSONL, trainer_state.json of TRL and the Trainer, results of vLLM's and SGLang's benchmarks, vLLM's /metrics, and
    power logs of nvidia-smi and DCGM, which go with the workload beside them.
    """
    from computeledger.actuals.readers.tally import Hints
    from computeledger.questions.answers.reconcile import answer_reconcile, check_calibration_file

    hints = Hints(
        devices=_one("gpus", gpus, whole=True),
        sequence_tokens=_one("sequence-tokens", sequence_tokens, whole=True),
        rollouts_per_step=_one("rollouts-per-step", rollouts_per_step, whole=True),
        duration_s=_one("duration", duration),
    )
    check_calibration_file(calibration_file)
    document, calibration = answer_reconcile(
        plan_file, files, hints, _one("price", price), calibration_file, lambda words: click.echo(words, err=True)
    )
    if html_file is not None:
        from computeledger.interfaces.report_reconcile import reconcile_report

        write_file(html_file, reconcile_report(document), plan_file)
    if calibration:
        write_bytes(calibration_file, calibration.encode(), "--calibration", plan_file)
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_reconcile import print_reconciliation

    print_reconciliation(document)
    if html_file is not None:
        click.echo(f"report: {html_file}")
