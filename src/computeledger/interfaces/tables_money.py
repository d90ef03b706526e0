"""Allocations, inversions, price sheets and routes as terminal tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from computeledger.interfaces.tables import console, new_table, note
from computeledger.interfaces.views.invert import write_words
from computeledger.units import format_usd

_ROWS = 18
_READ = {"paper": "paper", "authors": "authors' file", "reproduced": "copies, reproduced", "notes": "notes only"}


def print_prices(document: Mapping[str, Any]) -> None:
    """Print a list, a sheet, bills, a history or a floor."""
    out = console()
    for name in document.get("models", ()):
        out.print(name)
    if "usd_per_mtok" in document:
        out.print(Text(f"{document['name']} ({document['origin']})", style="bold"))
        for mode, rates in {"standard": document["usd_per_mtok"], **document["modes"]}.items():
            for kind, rate in rates.items():
                tiers = "".join(f", {format_usd(t['price'], 6)} {'from' if t['inclusive'] else 'above'} "
                                f"{t['above_tokens']:,} tokens" for t in rate["tiers"])  # fmt: skip
                out.print(f"{mode:10} {kind:16} {format_usd(rate['base'], 6)}{tiers}")
        spans = document.get("store_or_resend_s", {})
        for kind, reads in document.get("reads_to_break_even", {}).items():
            out.print(f"{kind} {write_words(reads, spans[kind]) if kind in spans else 'always pays'}")
    for row in document.get("bills", ()):
        parts = ", ".join(f"{kind} {format_usd(value)}" for kind, value in row["parts"].items() if value)
        out.print(f"{format_usd(row['usd'], 6):>12}  {row['name']}  ({parts})")
    for row in document.get("history", ()):
        moved = row.get("ratio_to_previous", {})
        out.print(f"{row['since']}: " + ", ".join(
            f"{kind} {format_usd(price)}" + (f" (x{moved[kind]:.3g})" if moved.get(kind, 1.0) != 1 else "")
            for kind, price in row["usd_per_mtok"].items()
        ))  # fmt: skip
    if "providers" in document:
        cost = document["usd_per_mtok_cost"]
        out.print(Text(f"{document['model']} on {document['system']}: {format_usd(cost['input'])} in, "
                       f"{format_usd(cost['output'])} out per million tokens, {document['layout']}, "
                       f"batch {document['batch']:,}", style="bold"))  # fmt: skip
        table = new_table(
            f"Market of {document['market_date']}", "provider", ">in", ">out", ">price / cost", "90 %", ""
        )
        for row in document["providers"]:
            ends = f"{row['price_over_cost_ratio_p05']:.2f} – {row['price_over_cost_ratio_p95']:.2f}"
            told = "below cost" if row["below_cost"] else ""
            if row["below_cost"] and row["price_over_cost_ratio_p95"] >= 1:
                told = "below cost, perhaps"
            table.add_row(row["provider"], format_usd(row["input"]), format_usd(row["output"]),
                          f"{row['price_over_cost_ratio']:.2f}", ends, told)  # fmt: skip
        out.print(table)
        note(out, f"assumed: {'; '.join(document['assumptions'])}")
    for text in document.get("notes", ()):
        note(out, text)
