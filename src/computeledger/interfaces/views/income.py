"""Tables of what a plan earns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.plots.money import value_figure
from computeledger.interfaces.view import Cell, Plot, Table, quantity_cell, share_cell
from computeledger.questions.wording import (
    PHASE_NAMES,
    figure_words,
    input_words,
    interval_words,
    joined,
    percent,
    point,
    span,
    words,
)

_IRR = "internal rate of return, by year"
#: Figures of an income in the order of their table: key, unit as words have it, what it is.
_ROWS = (
    ("capital_usd", "USD", "training and experiments, paid before release"),
    ("revenue_usd", "USD", "revenue over the life"),
    ("cost_usd", "USD", "cost of serving it"),
    ("sold_months", "months", "months in which tokens are sold one by one: their price covers their serving"),
    ("demand_ratio", "x", "tokens served, over the ledger's, which holds the first month's traffic"),
    ("margin_fraction", "fraction", "gross margin of serving (margin_fraction)"),
    ("payback_months", "months", "months until margins have paid for the training (payback_months)"),
    ("irr_per_year", "fraction", _IRR),
    ("npv_usd", "USD", "net present value"),
    ("retire_months", "months", "month after which serving no longer covers its cost"),
    ("next_release_months", "months", "month in which the next model, of the same cost and sales, is best released"),
    ("price_ratio_break_even", "x", "all prices at which the net present value is zero, over the plan's"),
    ("traffic_ratio_break_even", "x", "all traffic at which it is zero, over the plan's"),
    ("usd_per_free_user_month", "USD", "cost of a free user and month"),
    ("usd_per_conversion", "USD", "cost of free users for each who starts to pay"),
)
#: What a figure that does not exist means.
_NONE = {
    "margin_fraction": "no revenue", "payback_months": "not within the life", "irr_per_year": "none",
    "retire_months": "beyond ten years",
    "next_release_months": "beyond ten years, or none pays", "price_ratio_break_even": "none: no revenue",
    "traffic_ratio_break_even": "none: serving itself loses", "over_price_ratio": "it is free",
}  # fmt: skip
#: Drivers of an income in words; what they are in the plan stands beside.
DRIVER_WORDS = {
    "token_price": "price of a token, all prices moving together", "subscription_price": "subscription, likewise",
    "traffic": "tokens a day, all kinds", "occupancy": "busy share of the GPU-hours paid for",
    "price_decline": "competitors' decline of prices, by month", "churn": "paying users lost, by month",
    "conversion": "free users who start to pay, by month", "growth": "growth, by month",
    "price": "all prices", "serving_cost": "cost of serving",
}  # fmt: skip
_MUST = {"stay_above": "above", "stay_below": "below"}
_MULTIPLES = ("price", "traffic", "serving_cost")
_SHOWN_FACTORS = (0.35, 0.5, 0.71, 1.0, 1.41, 2.0)
_DRIVERS = 8
#: Yearly return beyond which its size says nothing more: it is printed as over this.
_MOST_RETURN = 10.0


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
        (said, _shown(income[key], unit, key))
        for key, unit, said in _ROWS
        if key in income and (key != "sold_months" or income[key] is not None)
    ]
    at = next(place for place, row in enumerate(rows) if row[0] == _IRR)
    rows[at] = (_IRR, _return(income["irr_per_year"], point(income["npv_usd"]) > 0))
    rows += [
        (f"tokens of a {name} user and day", quantity_cell(value, ""))
        for name, value in income["tokens_per_user_day"].items()
    ]
    note = (
        "The inference's traffic is that of the first month: tokens and the cost of serving follow demand from there. "
        "Sold at list price, subscriptions to the end of the life; staff, sales and taxes are left out."
    )
    found = [Table("Income", ("", "median and 90 % interval #"), rows, "usd", note)]
    found += [_break_even(income), _moved(income)]
    hours: list[tuple[str | Cell, ...]] = [
        (PHASE_NAMES[one["phase"]], one["how"], quantity_cell(one["usd_per_hour"], "USD/h"),
         _shown(one["over_price_ratio"], "x", "over_price_ratio"))
        for one in income["value_per_gpu_hour"]
    ]  # fmt: skip
    columns = ("ledger", "used for", "brings #", "over its price #")
    said = "Before its own price. More users count as far as demand is turned away today (unserved)."
    found.append(Table("What one more GPU-hour brings", columns, hours, "usd", said, is_detail=True))
    drivers: list[tuple[str | Cell, ...]] = [
        (input_words(one["name"]), span(one["low"], one["high"], one["unit"]), share_cell(abs(rho), f"{rho:+.2f}"))
        for one in income["drivers"][:_DRIVERS]
        for rho in (one["rank_correlation"]["npv_usd"],)
    ]
    if drivers:
        title = "What drives the net present value (rank correlation)"
        found.append(Table(title, ("input", "90 % interval", "of value"), drivers, "usd", is_detail=True))
    return tuple(found)


def income_plots(income: Mapping[str, Any]) -> tuple[Plot, ...]:
    """Net present value along each driver: multiples of the plan's, and rates by month."""
    multiples = {name: of for name, of in income["curves"].items() if name in _MULTIPLES}
    rates = {name: of for name, of in income["curves"].items() if name not in _MULTIPLES}
    said = "Median, one driver moving; where a line crosses zero the training is just paid back."
    return (
        Plot("break_even", "Break-even: prices, traffic, cost of serving", said,
             value_figure(multiples, DRIVER_WORDS, False), "usd"),
        Plot("break_even_rates", "Break-even: rates by month", said, value_figure(rates, DRIVER_WORDS, True), "usd"),
    )  # fmt: skip


def _break_even(income: Mapping[str, Any]) -> Table:
    """How far each driver may move."""
    rows: list[tuple[str | Cell, ...]] = [
        (DRIVER_WORDS[one["name"]], _MUST[one["must"]], quantity_cell(one["planned"], _unit(one)), _limit(one))
        for one in income["break_even"]
    ]
    note = (
        "One driver moves, all else stays as planned; demand does not answer to the price here. "
        "any: within what was looked at, no value loses the training's cost; none: no value pays it back."
    )
    return Table("Where the net present value is zero", ("driver", "must stay", "planned #", "break-even #"), rows,
                 "usd", note, is_detail=True)  # fmt: skip


def _unit(one: Mapping[str, Any]) -> str:
    """As it is printed: tokens a day are a bare number, their name says what."""
    return "" if one["name"] == "traffic" else str(one["unit"])


def _limit(one: Mapping[str, Any]) -> Cell:
    """A break-even with its interval; an end of what was looked at is no break-even."""
    is_floor, (low, high) = one["must"] == "stay_above", one["bounds"]

    def said(value: float | None) -> str:
        if value is None or (high is not None and value >= high):
            return "none" if is_floor else "any"
        if value <= low:
            return "any" if is_floor else "none"
        return words(value, _unit(one))

    value = one["value"]
    ends = [said(value[end]) if isinstance(value, Mapping) else said(value) for end in ("p05", "p50", "p95")]
    return Cell(ends[1], below="" if ends[0] == ends[2] else f"{ends[0]} – {ends[2]}")


def _moved(income: Mapping[str, Any]) -> Table:
    """Margin and payback along the drivers that are multiples of the plan's; traffic leaves the margin as it is."""

    def said(one: Mapping[str, Any], key: str, unit: str) -> str:
        return _cell(one[key], unit, key)[0].replace(_NONE["payback_months"], "never")

    margin, payback = ("margin_fraction", "fraction"), ("payback_months", "months")
    shown = (("price", margin), ("price", payback), ("traffic", payback), ("serving_cost", margin),
             ("serving_cost", payback))  # fmt: skip
    curves = {name: {one["value"]: one for one in income["curves"][name]} for name in _MULTIPLES}
    rows = [
        (f"{factor:g} x", *(said(curves[name][factor], *what) for name, what in shown)) for factor in _SHOWN_FACTORS
    ]
    columns = ("times the plan's", "prices: margin #", "prices: payback #", "traffic: payback #",
               "serving cost: margin #", "serving cost: payback #")  # fmt: skip
    note = "Medians; never: not within the life. A report (--html) draws the net present value along every driver."
    return Table("Margin and payback as one driver moves", columns, rows, "usd", note, is_detail=True)


def _return(value: Any, is_gain: bool) -> Cell:
    """A yearly return, no further than it means anything; a rate that does not exist is above all or below all."""

    def said(one: float | None) -> str:
        if one is None:
            return over if is_gain else _NONE["irr_per_year"]
        return over if one > _MOST_RETURN else words(one, "fraction")

    over = f"over {percent(_MOST_RETURN)}"
    if not isinstance(value, Mapping):
        return Cell(said(value))
    low, median, high = (value[end] for end in ("p05", "p50", "p95"))
    ends = (_NONE["irr_per_year"] if low is None and not (is_gain and median is None) else said(low),
            over if high is None and median is not None else said(high))  # fmt: skip
    return Cell(said(median), below="" if ends[0] == ends[1] else f"{ends[0]} – {ends[1]}")


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
        if unit != "months":
            return figure_words(value, unit), interval_words(value, unit)
        return _words(point(value), unit), joined(*(_words(point(value, end), unit) for end in ("p05", "p95")))
    ends = [_NONE[key] if value[end] is None else _words(value[end], unit) for end in ("p05", "p50", "p95")]
    return ends[1], "" if ends[0] == ends[2] else f"{ends[0]} – {ends[2]}"


def _words(value: float, unit: str) -> str:
    if unit == "months":
        return f"{value:.3g}\u00a0month{'' if value == 1 else 's'}"
    return words(value, unit)
