"""The terminal table of facts that differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from computeledger.interfaces.tables import DIM, console, new_table
from computeledger.units import format_percent


def print_diff(document: Mapping[str, Any]) -> None:
    """Print facts that differ."""
    out = console()
    differences = document["differences"]
    title = f"{len(differences)} facts differ, {document['n_equal']} are equal"
    table = new_table(title, "fact", document["a"], document["b"], ">change", "sources")
    for one in differences:
        sides = [one[side]["given"] if one[side] else "–" for side in ("a", "b")]
        sources = " → ".join(dict.fromkeys(_source(one[side]) for side in ("a", "b") if one[side]))
        table.add_row(one["name"], *sides, _change(one["ratio"]), Text(sources, style=DIM))
    out.print(table)


def _change(ratio: float | None) -> str:
    """A ratio as the change it means."""
    if ratio is None:
        return ""
    return f"{'+' if ratio > 1 else ''}{format_percent(ratio - 1)}"


def _source(fact: Mapping[str, Any]) -> str:
    return f"{fact['source']} {fact['date']}".strip()
