"""Predictions against measurements as terminal tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from computeledger.interfaces.documents_validation import quantity_words
from computeledger.interfaces.tables import ACCENT, DIM, bar, console, new_table, note
from computeledger.interfaces.wording import span, words
from computeledger.units import format_percent

_COLUMNS = (">n", ">median", ">mean", ">p90", ">bias", ">in 80 %", ">in 90 %")
_KEYS = ("median_abs_error", "mean_abs_error", "p90_abs_error", "bias", "coverage_80", "coverage_90")


def summary_cells(one: Mapping[str, Any]) -> list[str]:
    """Count, errors, bias and coverage of a summary."""
    figures = [f"{one[key]:.2f}" if key == "bias" else format_percent(one[key]) for key in _KEYS] if one["n"] else []
    return [str(one["n"]), *figures, *[""] * (len(_KEYS) - len(figures))]


def print_validation(document: Mapping[str, Any], title: str) -> None:
    """Print errors and coverage over all rows and by slice, groups in doubt, the worst rows, what was skipped."""
    out = console()
    out.print(Text(title, style="bold"))
    note(
        out, "error = |predicted / measured - 1|; bias = median of predicted / measured; in N % = inside that interval"
    )
    names = [name for name, held in document.items() if isinstance(held, dict) and "bias" in held]
    table = new_table("", "all rows", *_COLUMNS)
    for name in names:
        if document[name]["n"]:
            table.add_row(quantity_words(name), *summary_cells(document[name]))
    out.print(table)
    for column, values in document["by"].items():
        table = new_table(f"By {column.replace('_', ' ')}", column, "", *_COLUMNS)
        for value, found in values.items():
            for index, (name, one) in enumerate(found.items()):
                table.add_row("" if index else value, Text(quantity_words(name), style=DIM), *summary_cells(one))
        out.print(table)
    _print_suspects(out, document)
    for name, rows in document.get("worst", {}).items():
        _print_worst(out, name, rows)
    skipped = sorted(document["skipped"].items(), key=lambda pair: -pair[1])
    if skipped:
        table = new_table(f"Not predicted: {sum(n for _, n in skipped)} rows", ">rows", "reason")
        for reason, n in skipped:
            table.add_row(str(n), Text(reason, style=DIM))
        out.print(table)


def _print_suspects(out: Console, document: Mapping[str, Any]) -> None:
    suspects = document.get("rows", {}).get("suspects", {"groups": []})
    if not suspects["groups"]:
        return
    table = new_table("In doubt: counted above, reported apart", "group", ">n", ">median", ">bias", "why")
    first = next(iter(suspects["without"]))
    for group in suspects["groups"]:
        cells = summary_cells(group["summaries"][first])
        table.add_row(group["name"], str(group["n"]), cells[1], cells[4], Text(group["why"], style=DIM))
    out.print(table)
    with_, without = (summary_cells(held[first]) for held in (document, suspects["without"]))
    note(
        out,
        f"{quantity_words(first)}: median {with_[1]}, p90 {with_[3]} with these {suspects['n']} rows; "
        f"{without[1]}, {without[3]} without",
    )


def _print_worst(out: Console, name: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    table = new_table(
        f"Farthest from the measurement: {quantity_words(name)}", ">predicted", ">measured", ">ratio", "row", "made of"
    )
    for one in rows:
        unit, ends = one["unit"], one["predicted"]
        middle = Text(words(ends["p50"], unit)).append(f"\n{span(ends['p05'], ends['p95'], unit)}", style=DIM)
        doubt = Text(f"\nin doubt: {one['suspect']}", style=DIM) if one["suspect"] != "no" else Text()
        row = Text(one["row"]).append(doubt)
        ratio = Text(f"{one['ratio']:.2f}", style=ACCENT)
        table.add_row(middle, words(one["measured"], unit), ratio, row, _made_of(one.get("breakdown")))
    out.print(table)


def _made_of(breakdown: Mapping[str, Any] | None) -> Text:
    """The three longest parts, and what binds the whole."""
    if not breakdown or not breakdown["parts"]:
        return Text("")
    text = Text()
    for part in breakdown["parts"][:3]:
        text.append(bar(part["share_fraction"], 8)).append(f"{format_percent(part['share_fraction'])} {part['name']}\n")
    return text.append(f"{breakdown['of']}; bound by {breakdown['bound']}", style=DIM)
