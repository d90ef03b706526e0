"""The view of growth: what is fitted, and what scenarios give and take by year."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from computeledger.frontier.growth import GROWTH_WORDS, scenario_words
from computeledger.frontier.trends import year_of
from computeledger.interfaces.plots import frontier as plots
from computeledger.interfaces.view import Plot, Table, Tile, View
from computeledger.questions.wording import headline_words, percent, words
from computeledger.units import format_si

Document = Mapping[str, Any]


def heading(text: str) -> str:
    """A text with its first letter large."""
    return text[:1].upper() + text[1:]


def assumed_table(scenarios: list[Document], key: str) -> Table:
    """What each scenario assumes, in its own words; the key of the figure that it bears on."""
    rows = [[scenario_words(one["scenario"]), one["note"]] for one in scenarios]
    return Table("What the scenarios assume", ("scenario", "assumes"), rows, key, is_detail=True)


def growth_view(document: Document) -> View:
    """Growth a year with its intervals, and the years ahead by scenario."""
    rows = document["growth"]
    trend, flat = document["trend_ratio_per_year"], document["flat_ratio_per_year"]
    system = Tile(
        "Compute of the largest system",
        f"{trend:.2f}x",
        f"{flat:.2f}x a year if funding stays flat",
        trend,
        "growth.system",
    )
    fitted = {one["name"]: one for one in rows}
    tiles = tuple(
        Tile(heading(GROWTH_WORDS[name][0]), f"{fitted[name]['ratio']:.2f}x",
             f"{fitted[name]['low']:.2f}x to {fitted[name]['high']:.2f}x a year", key=f"growth.{name}")
        for name in ("site_usd", "h100e_per_usd", "run_flop", "site_w")
        if name in fitted
    )  # fmt: skip
    figures = [
        Plot("scenarios", "Scenarios", "Compute of the largest system over today's.",
             plots.scenarios_figure(document), "growth.system"),
        *(Plot(one["name"], heading(GROWTH_WORDS[one["name"]][0]), f"{one['n']:,} points, {one['first']} to "
             f"{one['last']}.", plots.growth_figure(document, one["name"], GROWTH_WORDS[one["name"]][1]),
             f"growth.{one['name']}")
        for one in rows),
    ]  # fmt: skip
    share = document["hbm_capex_fraction"]
    cost, margin = (percent(share[name]) for name in ("at_cost_fraction", "with_margin_fraction"))
    return View(
        title="Growth of compute, power and capital",
        headline=_flat_words(document),
        context=_slower_words(document),
        tiles=(system, *tiles),
        main="growth.system",
        plots=tuple(figures),
        tables=(
            _fits(rows),
            _scenarios(document["scenarios"]),
            assumed_table(document["scenarios"], "growth.site_usd"),
            *_taken(document),
            _supply(document),
        ),
        notes=(
            f"HBM is {cost} of a system's capital at cost, {margin} with the chip maker's margin on it",
            *_ahead_words(document),
        ),
    )


def _ahead_words(document: Document) -> tuple[str, ...]:
    """That scenarios look further ahead than the fits look back, where they do."""
    ahead = len(document["scenarios"][0]["compute_ratio_by_year"]) - 1
    back = min(year_of(one["last"]) - year_of(one["first"]) for one in document["growth"])
    if ahead <= back + 1:
        return ()
    return (f"the scenarios look {ahead} years ahead, the fits {back:.1f} back: growth beyond that was never seen",)


def _flat_words(document: Document) -> str:
    """Growth under flat funding against the trend's, as the table of scenarios has both."""
    trend, flat = document["trend_ratio_per_year"], document["flat_ratio_per_year"]
    said = f"grows {trend:.3g}x a year on the trend, {flat:.3g}x if funding stays flat"
    return headline_words("Compute of the largest system", said)


def _slower_words(document: Document) -> str:
    """How much longer compute takes under flat funding to grow as much."""
    slower = document["flat_funding_slowdown"]
    said = f"takes {slower:.1f} times as long to grow as much" if math.isfinite(slower) else "does not grow"
    run = next((one["ratio"] for one in document["growth"] if one["name"] == "run_flop"), 0.0)
    runs = f" Training runs have grown faster, {run:.2f}x." if run > document["trend_ratio_per_year"] else ""
    return f"With flat funding it {said}.{runs}"


def _fits(rows: list[Document]) -> Table:
    cells = [
        [GROWTH_WORDS[one["name"]][0], *(f"{one[key]:.2f}x" for key in ("ratio", "low", "high")), str(one["n"]),
         f"{one['first']} to {one['last']}"]
        for one in rows
    ]  # fmt: skip
    columns = ("quantity", "fit #", "5 % #", "95 % #", "points #", "window")
    return Table("Growth per year", columns, cells, "growth.run_flop")


def _years(n: int) -> tuple[str, ...]:
    return tuple(f"{f'+{year}' if year else 'now'} #" for year in range(n))


def _scenarios(rows: list[Document]) -> Table:
    years = range(len(rows[0]["compute_ratio_by_year"]))
    cells = [
        [
            scenario_words(one["scenario"]),
            *(f"{x:.3g}x" for x in one["compute_ratio_by_year"]),
            one["binds_by_year"][-1],
        ]
        for one in rows
    ]
    columns = ("scenario", *_years(len(years)), "binds last")
    return Table("Compute of the largest system over today's, years from now", columns, cells, "growth.system")


_TAKEN = (("usd_by_year", "Capital of the largest system, years from now", "USD"),
          ("facility_w_by_year", "Its facility power", "W"), ("n_chips_by_year", "Its chips", ""))  # fmt: skip


def _taken(document: Document) -> list[Table]:
    """Dollars, watts and chips by scenario and year."""
    today, out = document["largest_system"], []
    note = f"today: {today['site']}, {today['date']}; chips in packages of {today['accelerator_id']} at a steady price"
    for key, title, unit in _TAKEN:
        rows = [
            [scenario_words(one["scenario"]), *(words(value, unit) for value in one[key])]
            for one in document["scenarios"]
        ]
        columns = ("scenario", *_years(len(rows[0]) - 1))
        out.append(Table(title, columns, rows, "growth.run_flop", note if unit == "" else "", is_detail=True))
    return out


def _supply(document: Document) -> Table:
    """What the chips of the last year are made of, beside what is made."""
    cells = [
        [
            scenario_words(one["scenario"]),
            format_si(one["n_cowos_wafers_by_year"][-1]),
            percent(one["cowos_year_fraction_by_year"][-1]),
            words(one["hbm_bytes_by_year"][-1], "B"),
            percent(one["hbm_year_fraction_by_year"][-1]),
        ]
        for one in document["scenarios"]
    ]
    facts = document["supply"]
    wafers, least, memory = (facts[name]["value"] for name in (
        "n_cowos_wafers_per_month_2026", "n_cowos_wafers_per_month_2025", "hbm_bytes_2026"))  # fmt: skip
    note = (
        f"supply as analysts report it: {format_si(wafers)} CoWoS wafers a month at the end of 2026 "
        f"({format_si(least)} a year before), {words(memory, 'B')} of HBM in 2026; "
        f"{document['wafer_law']['n_packages_per_wafer']:.0f} good packages on a wafer (Epoch's account of 2025) of "
        f"{facts['n_packages_per_wafer']['value']:g} that fit (unverified)"
    )
    last = len(document["scenarios"][0]["n_cowos_wafers_by_year"]) - 1
    columns = ("scenario", "CoWoS wafers #", "of a year's #", "HBM #", "of a year's HBM #")
    return Table(
        f"What the chips of +{last} years are made of", columns, cells, "growth.run_flop", note, is_detail=True
    )
