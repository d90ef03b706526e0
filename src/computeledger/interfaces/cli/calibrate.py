"""The command ``calibrate``."""

from __future__ import annotations

from typing import Any

import click

from computeledger.interfaces.options import (
    COUNT,
    at_least_one,
    json_option,
    parse_seconds,
    print_json,
    quantity_option,
)


@click.command()
@click.option("--name", default="this-machine", show_default=True, help="Name of the profile and of the system.")
@click.option("--write", "folder", metavar="FOLDER", help="Write profile.toml, system.toml and accelerator.toml there.")
@click.option(
    "--backend", type=click.Choice(["auto", "torch", "numpy"]), default="auto", show_default=True, help="Library."
)
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True, help="ROCm is cuda."
)
@click.option("--threads", type=COUNT, callback=lambda c, p, v: v and at_least_one(c, p, v), help="Of CPU kernels.")
@click.option(
    "--processes",
    default=1,
    type=COUNT,
    show_default=True,
    callback=at_least_one,
    help="All-reduce between so many, one per GPU.",
)
@click.option(
    "--budget", default="40s", show_default=True, callback=parse_seconds, metavar="T", help="Time for the rounds."
)
@click.option(
    "--like", default="ideal", show_default=True, metavar="P",
    help="Profile for what is not measured here, such as an engine's host time: vllm, sglang, trtllm, ideal.",
)  # fmt: skip
@click.option("--accelerator", metavar="ID", help="Shipped accelerator that this is: fractions are of its datasheet.")
@click.option("--power", callback=quantity_option("w", "W"), metavar="W", help="Power of the machine under load.")
@json_option
def calibrate(as_json: bool, **options: Any) -> None:
    """Measure this machine and fit its efficiency profile: products, memory, attention, launches, all-reduce.

    Other commands use it: serve --system FOLDER/system.toml --profile FOLDER/profile.toml.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from computeledger.questions.answers.calibrate import answer_calibrate, write_files

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    out = Console(stderr=True)
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("measuring", total=1.0)
        document, files = answer_calibrate(options, lambda done: bar.update(task, completed=done))
    if options["folder"] is not None:
        document["files"] = write_files(options["folder"], files)
    if document["busy"]:
        click.echo(f"warning: {document['warning']}", err=True)
    if as_json:
        print_json(document)
        return
    from computeledger.interfaces.tables_calibrate import print_calibration

    print_calibration(document)
