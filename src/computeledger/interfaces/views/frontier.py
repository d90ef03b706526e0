"""The views of when a run is possible, and of sites, labs and growth."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from computeledger.frontier.conditional import TREND
from computeledger.frontier.growth import scenario_words
from computeledger.interfaces.plots import frontier as plots
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, quantity_table
from computeledger.interfaces.views.frontier_systems import RUN_NAMES, fits_table, system_tables, systems_view
from computeledger.interfaces.views.frontier_words import HARDLY, step_months
from computeledger.interfaces.views.growth import assumed_table, growth_view, heading
from computeledger.interfaces.working import working_view
from computeledger.questions.answer import Answer
from computeledger.questions.wording import (
    ends_words,
    figure_words,
    headline_words,
    interval_words,
    percent,
    point,
    words,
)
from computeledger.units import format_si

Document = Mapping[str, Any]
#: Site-dates that are listed, at most.
_MOST_ROWS = 400
#: Beyond so many a terminal lists only the largest sites, so many of them.
_MANY_ROWS, _LARGEST = 60, 20
_SITE_COLUMNS = ("site", "date", "facility #", "published H100e #", "recomputed #", "remark")


def view(answer: Answer, working: bool) -> View:
    """Of a system, a forecast, sites, growth or a back-test."""
    document = answer.to_dict(working=working)
    name, make = _VIEWS[type(answer).__name__]
    credit = (document["credit"],) if "credit" in document else ()
    made = make(document)
    return replace(
        made,
        grounds=(*made.grounds, *credit),
        working=tuple(working_view(document)) if working else (),
        overline=f"frontier {name}",
    )


_POWER = (
    "Facility power of the sites that are largest now; hollow marks are projections, bars are the 90 % interval of the "
    "largest one, from revisions of the data."
)


def _forecast(document: Document) -> View:
    target = re.sub(r"\.0+(?=e\d)", "", format_si(document["target"], "FLOP"))
    plots_ = (
        Plot("chances", "Chance by the end of each year", "Share of the sampled paths that are there, by the scenario "
             "that growth follows.", plots.chances_figure(document["scenarios"], document["scenario"]), "date"),
        Plot("runs", "Training compute", "The largest training run known at the end of each quarter, and its forecast.",
             plots.ahead_figure(document["ahead"], document["target"]), "growth_per_year"),
        Plot("sites", "Power of the largest site", "Facility power; projections of the data are left out.",
             plots.ahead_figure(document["sites_ahead"], point(document["needs"]["power_w"]["facility"])), "date"),
        Plot("cost", "Cost against compute", "Capital of the sites as they stand, in dollars of 2025, and of this "
             "system.", plots.cost_figure(document), "capex_usd"),
    )  # fmt: skip
    return View(
        title=f"A run of {target}",
        headline=_reached(document, target),
        context=" ".join(filter(None, (_assumed(document), _stopped(document)))),
        tiles=_forecast_tiles(document),
        main="date",
        plots=plots_,
        tables=(
            _slices(document),
            assumed_table(document["scenarios"], "date"),
            *system_tables(document["needs"], document["trains"]),
            fits_table(document, "date"),
            _hours(document),
        ),
        notes=tuple(_forecast_notes(document)),
    )


def _reached(document: Document, target: str) -> str:
    """When the run is possible, or that one as large is known; a record is known by quarter."""
    date, subject = document["date"], f"A training run of {target}"
    if document["largest_known"] >= document["target"]:
        return headline_words(
            subject, f"known, the largest one had reached that by the end of the quarter, {date['p50']}"
        )
    growth = "the trend of the largest runs reaches it on"
    if document["scenario"] != TREND:
        growth = f"in the scenario \u201c{scenario_words(document['scenario'])}\u201d the largest run reaches it on"
    return headline_words(subject, f"{growth} {date['p50']} (90\u00a0%: {date['p05']} to {date['p95']})")


def _assumed(document: Document) -> str:
    """What the scenario that growth follows assumes, as far as a sentence takes it, where it is not the trend."""
    if document["scenario"] == TREND or document["largest_known"] >= document["target"]:
        return ""
    return f"Assumed: {re.split(': | [(]|; ', document['scenario_note'])[0]}."


def _stopped(document: Document) -> str:
    """That a run on so many chips hardly advances, where published failure rates say so."""
    rows = [row for name in RUN_NAMES for row in document["trains"][name]["batches"] if not row["problem"]]
    if not rows or any(step_months(row)[1] != HARDLY for row in rows):
        return ""
    return (
        f"The date counts FLOP alone: on {figure_words(document['needs']['chips'], '')} chips failures come so often "
        "that a run which restarts at each hardly advances."
    )


def _forecast_tiles(document: Document) -> tuple[Tile, ...]:
    date, needs, by = document["date"], document["needs"], document.get("probability_by")
    chance = Tile("Latest", date["p95"], "95 % of the paths are there", key="date")
    if by:
        chance = Tile(f"Chance by {by['date']}", percent(by["probability"]), "share of the sampled paths", key="date")
    return (
        Tile("Median date", date["p50"], f"{date['p05']} to {date['p95']}", key="date"),
        chance,
        Tile("Chips", figure_words(needs["chips"], ""), needs["generations"][0]["accelerator"], key="chips"),
        *_capital_tiles(document),
    )  # fmt: skip


def _capital_tiles(document: Document) -> tuple[Tile, ...]:
    """Capital at the prices of the run's day, and at today's."""
    today, then = document["needs"]["capex_usd"], document["needs_then"]
    now = Tile("Capital at today's prices", figure_words(today, "USD"), interval_words(today, "USD"), key="capex_usd")
    if then is None:
        return (now,)
    usd = then["capex_usd"]
    return (
        Tile(f"Capital at prices of {then['date'][:7]}", figure_words(usd, "USD"), interval_words(usd, "USD"),
             key="capex_usd"),
        now,
    )  # fmt: skip


def _slices(document: Document) -> Table:
    """The forecast on condition of each scenario."""
    by = document.get("probability_by")
    rows: list[list[str | Cell]] = []
    for one in document["scenarios"]:
        chance = [percent(one["probability"])] if by else []
        date, then = one["date"], one["needs_then"]
        taken = ["", ""] if then is None else [
            figure_words(then["capex_usd"], "USD"), figure_words(then["facility_w"], "W")
        ]  # fmt: skip
        when = Cell(date["p50"], below=f"{date['p05']} \u2013 {date['p95']}")
        rows.append([scenario_words(one["scenario"]), *chance, when, *taken])
    columns = (
        "scenario",
        *((f"by {by['date']} #",) if by else ()),
        "median date, 90 %",
        "capital then #",
        "power then #",
    )
    note = (
        "the trend's paths, from the last data on at the pace of the scenario's compute (frontier growth); capital and "
        "power of the same compute at that day's prices and watts"
    )
    return Table("If growth follows a scenario", columns, rows, "date", note)


def _forecast_notes(document: Document) -> list[str]:
    powered = document["largest_site_has_the_power"]["date"]
    ends = (
        f"{powered['p05']} to {powered['p95']}" if powered["p05"] != powered["p95"] else "already, end of the quarter"
    )
    own = "" if document["scenario"] == TREND else ", on its own trend"
    out = [_then_words(document)] if document["needs_then"] else []
    watts = figure_words(document["needs"]["power_w"]["facility"], "W")
    out.append(f"the largest site has the {watts} that today's chips take{own}: {powered['p50']} ({ends})")
    for name, one in document["repetition"].items():
        worth, chance = percent(one["worth_fraction"]), percent(one["exceeds_fraction"])
        out.append(f"{name}: its tokens are worth {worth} of fresh ones; chance that they exceed the stock: {chance}")
    return out


def _then_words(document: Document) -> str:
    """What the run's compute takes on its day, beside the largest system that the scenario has then."""
    then = document["needs_then"]
    usd, watts = figure_words(then["capex_usd"], "USD"), figure_words(then["facility_w"], "W")
    whole = words(then["largest_system_usd"], "USD")
    more = (
        ": no single system has it, as runs have grown faster than systems" if then["of_largest_fraction"] > 1 else ""
    )
    return (
        f"chips, power and capital below are today's; at the prices and watts of {then['date']} the same compute takes "
        f"{usd} and {watts}, {percent(then['of_largest_fraction'])} of the {whole} of the largest system then{more}"
    )


def _hours(document: Document) -> Table:
    """GPU-hours of the three ledgers."""
    hours, rates = document["gpu_time"], document["gpu_time"]["utilization"]
    rows = [(name.split("_")[0], value, "GPU-hours") for name, value in hours.items() if name != "utilization"]
    used = ", ".join(f"{name.replace('_', ' ')} {percent(value)}" for name, value in rates.items() if name != "basis")
    note = f"utilisation of bf16 peak: {used}; {rates['basis']}"
    return replace(quantity_table("GPU-hours", rows, "dense.flop"), note=note, is_detail=True)


def _sites(document: Document) -> View:
    agree = document["agreement"]["power_checked"]
    rows = [row for row in document["sites"] if row["published_h100e_8bit"]]
    largest = max(rows, key=lambda row: 0.0 if row["projected"] else row["facility_w"] or 0.0)
    within = f"{agree['within_10_percent']} of {agree['compared']}"
    key = "sites.facility_w"
    return View(
        title="Sites of large training systems",
        headline=headline_words(
            f"{largest['name']}, the largest site on {largest['date']}",
            f"{_power(largest)} of facility power{_site_ends(largest)}",
        ),
        tiles=(
            Tile("Sites", str(len({row["name"] for row in document["sites"]})), f"{len(rows):,} dates with capacity",
                 key=key),
            Tile("Largest now", _power(largest), f"{largest['name']}, {largest['date']}",
                 key=key),
            Tile("Recomputed within 10 %", within, "site-dates of the whole data, facility power checked",
                 key="agreement"),
        ),
        plots=(
            Plot("power", "Power of the sites", _POWER, plots.power_figure(document), key),
            Plot("recomputed", "H100-equivalents", "Recomputed from the chips that the files count, against the "
                 "published.", plots.recomputed_figure(document), "h100e_8bit"),
        ),
        tables=(_site_table(rows),),
        notes=tuple(_interval_notes(document)),
        grounds=tuple(f"within 10 %, {name.replace('_', ' ')}: {one['within_10_percent']} of {one['compared']}"
                      for name, one in document["agreement"].items()),
    )  # fmt: skip


def _power(row: Document) -> str:
    return "unknown" if row["facility_w"] is None else words(row["facility_w"], "W")


def _site_ends(row: Document) -> str:
    """The 90 % interval of a site's power."""
    if row["facility_w"] is None:
        return ""
    ends = dict(zip(("p05", "p95"), row["facility_w_interval"], strict=True))
    said = ends_words({**ends, "p50": row["facility_w"]}, "W")
    return f" ({said})" if said else ""


def _site_table(rows: list[Document]) -> Table:
    shown = [_site_row(row) for row in rows[-_MOST_ROWS:]]
    hidden = len(rows) - len(shown)
    note = f"{hidden:,} earlier rows are not shown; --site NAME or --json" if hidden else ""
    short = _largest_sites(rows) if len(rows) > _MANY_ROWS else None
    return Table("Sites", _SITE_COLUMNS, shown, "sites.facility_w", note, in_short=short)


def _site_row(row: Document) -> list[str | Cell]:
    power = Cell("")
    if row["facility_w"] is not None:
        ends = dict(zip(("p05", "p95"), row["facility_w_interval"], strict=True))
        power = Cell(words(row["facility_w"], "W"), below=interval_words(ends, "W"))
    remark = "; ".join(part for part in ("projected" if row["projected"] else "", row["reason"]) if part)
    found = "" if row["h100e_8bit"] is None else format_si(row["h100e_8bit"])
    return [row["name"], row["date"], power, format_si(row["published_h100e_8bit"]), found, remark]


def _largest_sites(rows: list[Document]) -> Table:
    """The largest sites as they are now."""
    now = {row["name"]: row for row in rows if not row["projected"]}
    most = sorted(now.values(), key=lambda row: -(row["facility_w"] or 0.0))[:_LARGEST]
    note = f"of {len(now)} sites; --site NAME shows one through time, --all every site and date"
    return Table("The largest sites now", _SITE_COLUMNS[:-1], [_site_row(row)[:-1] for row in most], "", note)


def _claim(document: Document) -> View:
    one = document["claim"]
    claimed, found = (words(one[name], "W") for name in ("claimed_w", "facility_w"))
    when = f"reached on {one['reached']}" if one["reached"] else "never reached in the data"
    low, high = one["interval_w"]
    said = f"{one['verdict']}, claimed {claimed}, the data have {found}"
    ends = {"p05": low, "p50": one["facility_w"], "p95": high}
    return View(
        title=f"A claim about {one['name']}",
        headline=headline_words(f"{one['name']}, {one['date']}", said, ends, "W"),
        context=f"{when[:1].upper()}{when[1:]}.",
        notes=tuple(_interval_notes(one)),
    )


def _lab(document: Document) -> View:
    cells = [
        [row["lab"], row["date"] + (" (projected)" if row["projected"] else ""),
         *(format_si(row[name]) for name in ("low", "mid", "high")), str(len(row["sites"]))]
        for row in document["lab"]
    ]  # fmt: skip
    columns = ("lab", "date", "confident #", "likely #", "all #", "sites #")
    return View(
        title="Chips of a lab",
        headline=_lab_headline(document["lab"]),
        context="H100-equivalents at the sites that the data name: a lower bound of the fleet.",
        tables=(Table("H100-equivalents at 8 bit", columns, cells),),
    )


def _lab_headline(rows: list[Document]) -> str:
    """The latest that is no projection, and how sure the data are that the lab uses it."""
    if not rows:
        return headline_words("The lab", "the data name no site of it")
    last = next((row for row in reversed(rows) if not row["projected"]), rows[-1])
    ends = f"{format_si(last['low'])} surely, {format_si(last['high'])} at most"
    return headline_words(last["lab"], f"likely {format_si(last['mid'])} H100-equivalents on {last['date']}, {ends}")


def _interval_notes(document: Document) -> list[str]:
    """What a site's interval rests on."""
    out = []
    for name, one in document["interval_from"].items():
        ends = f"{one['low_ratio']:.2f} to {one['high_ratio']:.2f} times what was {name}"
        idle = percent(one["not_running_fraction"])
        out.append(f"interval from three earlier copies: {ends} (90 %); {idle} did not run yet; {one['n_sites']} pairs")
    return out


def _backtest(document: Document) -> View:
    figures = tuple(
        Plot(f"series-{place}", heading(one["series"]),
             f"Model: {one['model']}, by the score of its intervals before the cut-off.",
             plots.backtest_figure(document, place))
        for place, one in enumerate(document["series"])
    )  # fmt: skip
    return View(
        title=f"Back-test from {document['cutoff']}",
        headline=headline_words(
            f"Forecasts from what was known on {document['cutoff']}",
            f"the 90\u00a0% interval holds {percent(document['coverage_90'])} of {document['n']} quarters that came",
        ),
        tiles=(
            Tile("Inside the 90 % interval", percent(document["coverage_90"]), f"of {document['n']} quarters"),
            Tile("Median error", f"{document['median_abs_log10_error']:.2f}", "powers of ten"),
            Tile("Median width", f"{document['median_width_log10_90']:.2f}", "powers of ten"),
            Tile("Widest interval", f"{document['largest_width_log10_90']:.2f}", "powers of ten"),
        ),
        plots=figures,
        tables=tuple(_quarters(one) for one in document["series"]),
    )


def _quarters(one: Document) -> Table:
    rows = [
        [row["date"], *(words(row[name], one["unit"]) for name in ("p50", "p05", "p95", "observed")),
         "yes" if row["inside"] else "no"]
        for row in one["quarters"]
    ]  # fmt: skip
    columns = ("quarter", "forecast #", "5 % #", "95 % #", "actual #", "inside")
    return Table(f"{heading(one['series'])} ({one['model']})", columns, rows, is_detail=True)


_VIEWS: dict[str, tuple[str, Callable[[Document], View]]] = {
    "ForecastAnswer": ("forecast", _forecast),
    "SystemsAnswer": ("systems", systems_view),
    "SitesAnswer": ("sites", _sites),
    "LabAnswer": ("sites", _lab),
    "ClaimAnswer": ("sites", _claim),
    "GrowthAnswer": ("growth", growth_view),
    "BacktestAnswer": ("backtest", _backtest),
}
