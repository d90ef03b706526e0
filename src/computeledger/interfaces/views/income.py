"""Tables of what a plan earns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.view import Cell, Table, quantity_cell, share_cell
from computeledger.questions.wording import PHASE_NAMES, interval_words, joined, percent, point, span, words

#: Figures of an income in the order of their table: key, unit as words have it, what it is.
_ROWS = (
    ("capital_usd", "USD", "training and experiments, paid before release"),
    ("revenue_usd", "USD", "revenue over the life"),
    ("cost_usd", "USD", "cost of serving it"),
    ("margin_fraction", "fraction", "gross margin of serving (margin_fraction)"),
    ("payback_months", "months", "months until margins have paid for the training (payback_months)"),
    ("irr_per_year", "fraction", "internal rate of return, by year"),
    ("npv_usd", "USD", "net present value"),
    ("retire_months", "months", "month after which serving no longer covers its cost"),
    ("price_ratio_break_even", "x", "all prices at which the net present value is zero, over the plan's"),
    ("traffic_ratio_break_even", "x", "all traffic at which it is zero, over the plan's"),
    ("usd_per_free_user_month", "USD", "cost of a free user and month"),
    ("usd_per_conversion", "USD", "cost of free users for each who starts to pay"),
)
#: What a figure that does not exist means.
_NONE = {
    "margin_fraction": "no revenue", "payback_months": "not within the life", "irr_per_year": "none",
    "retire_months": "beyond ten years", "price_ratio_break_even": "none: no revenue",
    "traffic_ratio_break_even": "none: serving itself loses", "over_price_ratio": "it is free",
}  # fmt: skip
_DRIVERS = 8


def income_sentence(income: Mapping[str, Any]) -> str:
    """What it earns, in a sentence."""
    if income["margin_fraction"] is None:
        return "It earns nothing."
    margin = _cell(income["margin_fraction"], "fraction", "margin_fraction")[0]
    months, band = _cell(income["payback_months"], "months", "payback_months")
    share = income["pays_back_fraction"]
    if income["payback_months"] is None or months == _NONE["payback_months"]:
        chance = f" in {percent(1 - share)} of the samples" if share else ""
        return f"Serving keeps {margin} of the revenue; the training is not paid back within the life{chance}."
    return (
        f"Serving keeps {margin} of the revenue and pays the training back in {months}{f' ({band})' if band else ''}."
    )


def income_tables(income: Mapping[str, Any]) -> tuple[Table, ...]:
    """What it earns, and what moves it."""
    rows: list[tuple[str | Cell, ...]] = [
        (said, _shown(income[key], unit, key)) for key, unit, said in _ROWS if key in income
    ]
    rows += [
        (f"tokens of a {name} user and day", quantity_cell(value, ""))
        for name, value in income["tokens_per_user_day"].items()
    ]
    note = "Sold at list price to the end of the life; staff, sales and taxes are left out."
    found = [Table("Income", ("", "median and 90 % interval #"), rows, "usd", note)]
    hours: list[tuple[str | Cell, ...]] = [
        (PHASE_NAMES[one["phase"]], one["how"], quantity_cell(one["usd_per_hour"], "USD/h"),
         _shown(one["over_price_ratio"], "x", "over_price_ratio"))
        for one in income["value_per_gpu_hour"]
    ]  # fmt: skip
    columns = ("ledger", "used for", "brings #", "over its price #")
    said = "Before its own price. More users count as far as demand is turned away today (unserved)."
    found.append(Table("What one more GPU-hour brings", columns, hours, "usd", said))
    drivers: list[tuple[str | Cell, ...]] = [
        (one["name"], span(one["low"], one["high"], one["unit"]), share_cell(abs(rho), f"{rho:+.2f}"))
        for one in income["drivers"][:_DRIVERS]
        for rho in (one["rank_correlation"]["npv_usd"],)
    ]
    if drivers:
        title = "What drives the net present value (rank correlation)"
        found.append(Table(title, ("input", "90 % interval", "of value"), drivers, "usd"))
    return tuple(found)


def _shown(value: Any, unit: str, key: str) -> Cell:
    said, band = _cell(value, unit, key)
    return Cell(said, below=band)


def _cell(value: Any, unit: str, key: str) -> tuple[str, str]:
    """A figure and its interval in words, where parts of it may not exist."""
    if value is None:
        return _NONE[key], ""
    if not isinstance(value, Mapping):
        return _words(value, unit), ""
    if None not in value.values():
        low, high = (_words(point(value, end), unit) for end in ("p05", "p95"))
        return _words(point(value), unit), joined(low, high) if unit == "months" else interval_words(value, unit)
    ends = [_NONE[key] if value[end] is None else _words(value[end], unit) for end in ("p05", "p50", "p95")]
    return ends[1], "" if ends[0] == ends[2] else f"{ends[0]} – {ends[2]}"


def _words(value: float, unit: str) -> str:
    if unit == "months":
        return f"{value:.3g}\u00a0months"
    return words(value, unit)
