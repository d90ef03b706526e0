"""The table of the measurement of a GPU."""

from __future__ import annotations

from typing import Any

from rich import box

from computeledger.interfaces.fitting import FittingTable, Page
from rntp.gpu.table import HEAD, about, lines_of, measured_with, notes_of


def print_gpu(report: dict[str, Any], output: str) -> None:
    """Print what was measured beside what is predicted, and what is missing."""
    console = Page()
    for said in measured_with(report):
        console.print(said)
    table = FittingTable(title=f"{report['device']}, {report['date']}", box=box.SIMPLE_HEAD)
    for number, name in enumerate(HEAD):
        table.add_column(name, justify="left" if number < 2 else "right")
    for line in lines_of(report):
        table.add_row(*line)
    console.print(table)
    for note in (about(report), *notes_of(report), f"report.json, report.md and facts/ are in {output}"):
        console.print(note)
