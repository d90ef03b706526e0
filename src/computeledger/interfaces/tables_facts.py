"""Terminal tables of what a GPU-hour costs, and of facts that differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from computeledger.interfaces.tables import DIM, console, interval, new_table, note, print_figure
from computeledger.units import format_percent

_KIND_WORDS = {"rent": "rent, by the hour", "reserve": "reserve, by contract", "own": "own"}
_PART_WORDS = {
    "price": "price",
    "capital": "capital (annuity)",
    "electricity": "electricity",
    "operation": "operation",
    "idle": "idle hours",
}


def print_cost(document: Mapping[str, Any], working: bool = False) -> None:
    """Print a GPU-hour's cost in three ways."""
    out = console()
    where = f" in {document['system']}" if document["system"] else ""
    title = f"One used GPU-hour of {document['accelerator']}{where}"
    out.print(Text(title, style="bold").append(": median, and the 90 % interval beside it", style="not bold"))
    kinds = document["kinds"]
    table = new_table("", "", *(_KIND_WORDS[kind] for kind in kinds))
    table.add_row("USD per used GPU-hour", *(interval(one["usd_per_gpu_hour"], "USD/h") for one in kinds.values()))
    for part, words in _PART_WORDS.items():
        if any(part in one["components"] for one in kinds.values()):
            cells = [_part(one["components"].get(part)) for one in kinds.values()]
            table.add_row(f"  {words}", *cells)
    out.print(table)
    table = new_table("", "", "")
    table.add_row("energy at the meter", interval(document["energy_j_per_gpu_hour"], "J"))
    table.add_row("carbon dioxide", interval(document["carbon_kg_per_gpu_hour"], "kg"))
    out.print(table)
    for kind, why in document["missing"].items():
        note(out, f"{kind}: {why}")
    editions = ", ".join(f"{name} {edition}" for name, edition in document["editions"].items())
    note(out, f"editions: {editions}; a reserved or owned GPU is paid for while it stands idle")
    if working:
        for one in kinds.values():
            print_figure(out, one["working"])


def _part(value: Any) -> Text:
    return Text("–", style=DIM) if value is None else interval(value, "USD/h")


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
