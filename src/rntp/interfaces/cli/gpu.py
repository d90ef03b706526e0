"""The command ``gpu``."""

from __future__ import annotations

import click

from computeledger.interfaces.options import json_option, print_json


@click.command()
@click.option("--dry", is_flag=True, help="Run every part with tiny models on the CPU.")
@click.option("--output", metavar="FOLDER", default="runs/gpu", show_default=True, help="Folder of the report.")
@click.option(
    "--budget", "budget_s", metavar="SECONDS", type=click.FloatRange(5, 36_000), default=540.0, show_default=True,
    help="Time for all of it; what does not fit is left out, and named.",
)  # fmt: skip
@json_option
def gpu(dry: bool, output: str, budget_s: float, as_json: bool) -> None:
    """Measure one CUDA GPU: calibration, RL on text, serving and training steps, beside what the planner predicts."""
    from pathlib import Path

    from rntp.interfaces.answers.gpu import gpu_answer
    from rntp.interfaces.tables.gpu import print_gpu

    report = gpu_answer(Path(output), budget_s, lambda line: click.echo(line, err=True), dry=dry)
    if as_json:
        print_json(report)
    else:
        print_gpu(report, output)
    if report["failed"]:
        raise click.exceptions.Exit(1)
