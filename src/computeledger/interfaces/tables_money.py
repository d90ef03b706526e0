"""Allocations, inversions, price sheets and routes as terminal tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from computeledger.interfaces.tables import console, new_table
from computeledger.units import format_percent

_ROWS = 18
_READ = {"paper": "paper", "authors": "authors' file", "reproduced": "copies, reproduced", "notes": "notes only"}


def print_price_check(document: Mapping[str, Any]) -> None:
    """Print how well prices tell sizes."""
    out = console()
    out.print(Text(f"Size from price on {document['n']} models, each left out in turn", style="bold"))
    table = new_table("", "", ">")
    for level, share in document["coverage"].items():
        table.add_row(f"inside the {level} % interval", format_percent(share))
    for key, name in (("median_abs_log10_error", "active parameters"),
                      ("median_abs_log10_error_size", "sqrt(active x total)"),
                      ("median_abs_log10_error_regression", "active, plain regression on input price")):  # fmt: skip
        table.add_row(f"median error, {name}", f"x{10 ** document[key]:.2f}")
    table.add_row("median width of the 90 % interval", f"x{10 ** document['median_width_log10_90']:.1f}")
    out.print(table)
