"""What ``rntp soup`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box

from computeledger.interfaces.fitting import FittingTable, Page


def print_soup(document: Mapping[str, Any]) -> None:
    """Print the weights, and how the soup compares with each checkpoint where it was searched."""
    console = Page()
    found = document["search"]
    table = FittingTable(box=box.SIMPLE_HEAD)
    table.add_column("checkpoint")
    table.add_column("weight", justify="right")
    if found:
        table.add_column("alone", justify="right")
    for place, name in enumerate(document["checkpoints"]):
        alone = (f"{found['held_out_alone'][place]:.4f}",) if found else ()
        table.add_row(name, f"{document['weights'][place]:.4f}", *alone)
    console.print(table)
    if found:
        console.print(f"{found['measure']}, lower is better: {len(found['trials'])} soups tried")
        console.print(
            f"the best: {found['chosen_on']:.4f} where it was chosen, {found['held_out']:.4f} on the other half"
        )
        least = min(range(len(found["held_out_alone"])), key=found["held_out_alone"].__getitem__)
        if found["held_out_alone"][least] <= found["held_out"]:
            console.print(f"no better there than {document['checkpoints'][least]} alone")
    console.print(f"{document['method']} merge: {document['out']}")
