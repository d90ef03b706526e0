"""Documents as terminal tables: two or three digits, intervals beside medians, what binds in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from computeledger.interfaces.fitting import FittingTable, Page
from computeledger.questions.wording import joined, point, show
from computeledger.units import format_si

DIM = "bright_black"
ACCENT = "cyan"


def console() -> Console:
    """A console as wide as the terminal or as ``COLUMNS`` says; words in square brackets are units, no markup."""
    return Page()


def span(low: float, high: float, unit: str) -> str:
    """Two numbers of one unit, the unit written once where both carry the same."""
    return joined(show(low, unit), show(high, unit)) or show(low, unit)


def interval(value: Any, unit: str) -> Text:
    """Median, and the 90 % interval beside it in a quieter colour."""
    text = Text(show(point(value), unit))
    ends = (
        joined(show(point(value, "p05"), unit), show(point(value, "p95"), unit)) if isinstance(value, Mapping) else ""
    )
    return text.append(f"  {ends}", style=DIM) if ends else text


def new_table(title: str, *columns: str) -> Table:
    """An empty table; a column whose name starts with ``>`` holds numbers and is set right."""
    named = any(columns)
    table = FittingTable(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD if named else None,
        pad_edge=False,
        header_style=DIM,
        show_header=named,
        padding=(0, 2, 0, 0),
    )
    for name in columns:
        justify: JustifyMethod = "right" if name.startswith(">") else "left"
        table.add_column(name.removeprefix(">"), justify=justify)
    return table


def note(out: Console, text: str) -> None:
    """Print a quiet line."""
    out.print(Text(text, style=DIM))


def bar(fraction: float, width: int = 20) -> Text:
    """A share as a bar."""
    filled = round(max(0.0, min(fraction, 1.0)) * width)
    return Text().append("█" * filled, style=ACCENT).append("·" * (width - filled) + " ", style=DIM)


def print_working(out: Console, document: Mapping[str, Any]) -> None:
    """Print every figure's formula, inputs and sources."""
    out.print(Text("Working", style="bold"))
    for figure in document["working"]:
        print_figure(out, figure)
    print_efficiency(out, document)


def print_figure(out: Console, figure: Mapping[str, Any]) -> None:
    """Print one figure's formula, inputs and sources."""
    out.print(Text(figure["name"], style="bold").append(f" = {figure['formula']}", style="not bold"))
    out.print(Text("    = ").append(interval(figure["value"], _unit(figure["unit"]))))
    for term in figure["terms"]:
        line = Text(f"    {term['name']} = ").append(interval(term["value"], _unit(term["unit"])))
        out.print(line.append(f"   [{term['origin']}] {term['ground']}", style=DIM))


def print_efficiency(out: Console, document: Mapping[str, Any]) -> None:
    """Print the efficiency factors with their grounds."""
    if "efficiency" not in document:
        return
    table = new_table("Efficiency factors", "factor", "90 % interval", "ground")
    for name, one in document["efficiency"].items():
        unit = "s" if name.endswith("_s") else ""
        ends = span(one["low"], one["high"], unit)
        source = "" if one["source"] == "assumption" else f" ({one['source']})"
        table.add_row(name, ends, Text(f"{one['kind']}: {one['why']}{source}", style=DIM))
    out.print(table)


_UNITS = {
    "usd": "USD", "usd_per_hour": "USD/h", "usd_per_kwh": "USD/kWh", "usd_per_w": "USD/W", "usd_per_year": "USD/year",
    "flop_per_s": "FLOP/s", "kg_per_kwh": "kg/kWh", "w": "W", "tokens": "", "params": "", "GPUs": "", "ratio": "",
    "count": "", "bytes": "B",
}  # fmt: skip


def _unit(unit: str) -> str:
    return _UNITS.get(unit, unit)


#: Assumptions whose name alone does not say what they are.
_ASSUMED = {"cache_share_of_free_hbm_fraction": "the cache's share of the HBM that weights and workspace leave"}


def print_grounds(out: Console, document: Mapping[str, Any], more: str) -> None:
    """Print what an answer rests on: its price, its factors, what was assumed."""
    price = _price_words(document["price"])
    limit = document.get("backend") == "ideal"  # nothing is fitted there
    factors = "" if limit else "; efficiency factors are fitted or assumed, each with its ground (--working)"
    note(out, f"GPU-hour: {price}{factors}{more}")
    words = []
    for name, value in document.get("assumptions", {}).items():
        unit = "B" if name.endswith("_bytes") else "s" if "_s_" in name else "fraction" if "fraction" in name else ""
        plain = name.replace("_bytes", "").replace("_s_", " ").replace("_", " ")
        words.append(f"{_ASSUMED.get(name, plain)} {show(value, unit)}")
    if words:
        note(out, f"assumed: {', '.join(words)}")


def _price_words(price: Mapping[str, Any]) -> str:
    if price["origin"] == "given":
        return "as given"
    return f"{price['given']} ({price['kind']}, edition {price['edition']}, {price['source']})"


def print_memory(out: Console, memory: Mapping[str, float], remark: str, pool: str = "") -> None:
    """Print the memory of one GPU by tenant, against its HBM or the part of it that can be used."""
    parts = [name for name in memory if name not in ("total", "capacity", "usable")]
    text = Text(f"Memory of one GPU{f' of the {pool}' if pool else ''}  ", style="bold")
    text.append(
        "  ".join(f"{name.replace('_', ' ')} {format_si(memory[name], 'B')}" for name in parts), style="not bold"
    )
    key = "capacity" if "capacity" in memory else "usable"
    total, held = format_si(memory["total"], "B"), format_si(memory[key], "B")
    what = "of HBM" if key == "capacity" else "usable"
    text.append(f"  = {total} of {held} {what}; {remark}", style="not bold")
    out.print(text)
