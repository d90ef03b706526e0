"""The books as terminal tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from computeledger.interfaces.tables import console, new_table, note
from computeledger.questions.wording import words
from computeledger.units import format_percent, format_si, format_usd

_TITLES = (">GPU-hours", ">USD", ">energy", ">utilisation")


def print_books(document: Mapping[str, Any]) -> None:
    """Entries, then what they come to by month."""
    out = console()
    table = new_table(f"{document['book']}: {len(document['entries'])} entries", ">entry", "when", "kind", "name",
                      *_TITLES, "note")  # fmt: skip
    for one in document["entries"]:
        remark = " ".join(filter(None, (one["note"], one["copy_of"] and f"(copy of {one['copy_of']})")))
        table.add_row(str(one["id"]), one["happened"][:10], one["kind"], one["name"], *_figures(one), remark)
    out.print(table)
    _print_trends(out, document["trends"])


def _print_trends(out: Console, rows: list[Mapping[str, Any]]) -> None:
    table = new_table("By month", "month", "kind", ">entries", *_TITLES, ">USD per GPU-hour")
    for one in rows:
        price = "" if one["usd_per_gpu_hour"] is None else format_usd(one["usd_per_gpu_hour"])
        table.add_row(one["month"], one["kind"], str(one["entries"]), *_figures(one), price)
    out.print(table)
    note(out, "utilisation is weighted by GPU-time; copies of a file count once; empty: nobody measured or priced it")


def _figures(one: Mapping[str, Any]) -> list[str]:
    hours, usd, energy, share = (one[name] for name in ("gpu_hours", "usd", "energy_j", "utilization_fraction"))
    return [
        "" if hours is None else format_si(hours),
        "" if usd is None else format_usd(usd),
        "" if energy is None else words(energy, "J"),
        "" if share is None else format_percent(share),
    ]


def print_entry(document: Mapping[str, Any]) -> None:
    """One entry by phase."""
    out = console()
    table = new_table(f"{document['id']}: {document['kind']} {document['name']}", "phase", ">tokens", ">FLOP", *_TITLES)
    for phase, one in document["phases"].items():
        work = ("" if one[name] is None else format_si(one[name]) for name in ("tokens", "flop"))
        table.add_row(phase, *work, *_figures(one))
    out.print(table)
    note(out, "the whole document: --json")
