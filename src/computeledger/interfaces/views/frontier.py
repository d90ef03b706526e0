"""The views of what power and money can train, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from computeledger.facts.load import model_name
from computeledger.frontier.conditional import TREND
from computeledger.frontier.epoch_files import shipped_runs
from computeledger.interfaces.plots import frontier as plots
from computeledger.interfaces.plots.known_runs import data_figure, runs_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, quantity_cell, quantity_table, with_interval
from computeledger.interfaces.views.display_names import in_names, system_words
from computeledger.interfaces.views.frontier_words import (
    HARDLY,
    critical_row,
    leaning,
    step_months,
    system_card,
    system_headline,
    system_sentence,
)
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
    short_model,
    show,
    span,
    words,
)
from computeledger.units import format_si

Document = Mapping[str, Any]
#: A share below this is printed as less than it.
_LEAST = 0.01
#: Site-dates that are listed, at most.
_MOST_ROWS = 400
#: Beyond so many a terminal lists only the largest sites, so many of them.
_MANY_ROWS, _LARGEST = 60, 20
_SITE_COLUMNS = ("site", "date", "facility #", "published H100e #", "recomputed #", "remark")
_RUN_NAMES = {"dense": "dense model", "moe": "mixture of experts"}


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


_STEPS = ("model", "batch #", "over critical #", "step #", "MFU #", "months, no stop #", "with stops #", "layout")


def _steps(trains: Document) -> Table:
    rows = [
        (said, words(row["batch_tokens"], "tokens"), f"{_over_critical(trains[name], row):.2g}x", *_step_cells(row))
        for name, said in _RUN_NAMES.items()
        for row in trains[name]["batches"]
    ]
    title = "The step, by the size of its batch"
    note = (
        "from the operation model, at the critical batch and at both ends of its 90 % interval; batch: as many "
        "whole sequences for each rank of the layout as come near; over critical: that batch over the "
        "median critical batch of the run; with stops: every failure stops the whole job, at rates measured on up to "
        "16K GPUs"
    )
    return Table(title, _STEPS, rows, "dense.step_s", note, drops=("layout",), is_detail=True)


def _over_critical(run: Document, row: Document) -> float:
    """A batch as the layout takes it, over the median of the run's critical batch."""
    return float(row["batch_tokens"] / point(run["critical_batch_tokens"]))


def _step_cells(row: Document) -> tuple[str, ...]:
    if row["problem"]:
        return "", "", "", "", row["problem"]
    cut = " + ".join(f"{part['layout']} on {part['n_gpus']:,} {in_names(part['accelerator'])}" for part in row["parts"])
    return words(row["step_s"], "s"), percent(row["mfu_fraction"]), *step_months(row), cut


def _run_tables(trains: Document) -> tuple[Table, Table]:
    """What both runs train: one column each, what decides first."""
    rows: list[list[str | Cell]] = [
        [label, *(quantity_cell(trains[name][key], unit) for name in _RUN_NAMES)] for label, key, unit in _RUN_ROWS
    ]
    columns = ("", *(f"{said} #" for said in _RUN_NAMES.values()))
    first = Table("The run", columns, rows[:_MAIN_ROWS], "dense.flop", is_stacked=True)
    return first, Table("The run in detail", columns, rows[_MAIN_ROWS:], "dense.flop", is_stacked=True, is_detail=True)


def _system_tables(system: Document, trains: Document) -> list[Table]:
    whole = replace(quantity_table("The system", system_rows(system), "chips"), is_detail=True)
    return [*_run_tables(trains), _steps(trains), whole]


_REACH = (
    "FLOP of published training runs by date of release, as Epoch AI estimates them (hollow: speculative), and of the "
    "run that fills this system's time, with its 90 % interval."
)
_TEXT = (
    "Parameters and tokens of the dense model and of the mixture of experts that this compute trains, with 90 % "
    "intervals, beside published runs; the grey band is the stock of text with its 90 % interval."
)
_POWER = (
    "Facility power of the sites that are largest now; hollow marks are projections, bars are the 90 % interval of the "
    "largest one, from revisions of the data."
)
_FITS = "weights of 8 bit, in the memory of one scale-up domain: GPUs that a fast link joins into one"


def _fits(document: Document, key: str) -> Table:
    """The smallest system that holds each model's weights, or how many of the largest do."""
    by_model: dict[str, list[Document]] = {}
    for one in document["fits"]:
        by_model.setdefault(one["model"], []).append(one)
    rows = [[_model_words(model), *_holder(some)] for model, some in by_model.items()]
    columns = ("model", "smallest system that holds it", "of its memory #")
    return Table("Where a model fits", columns, rows, key, _FITS, is_detail=True)


def _holder(some: list[Document]) -> tuple[str, str]:
    """Of the systems that hold a model the one that it fills most; where none does, how many of the largest."""
    held = [one for one in some if one["weights_fraction"] <= 1]
    share = max((one["weights_fraction"] for one in held), default=min(one["weights_fraction"] for one in some))
    names = [system_words(one["system"]).partition(" (")[0] for one in some if one["weights_fraction"] == share]
    if not held:
        return f"none: it takes {share:.2g} {names[0]}", ""
    return " or ".join(names), "< 1 %" if share < _LEAST else words(share, "fraction", 2)


def _model_words(model: str) -> str:
    """A shipped model's name, or which of the two that fill the system's time."""
    own = {name: f"this run, {said}" for name, said in _RUN_NAMES.items()}
    return own.get(model) or short_model(model if "/" in model or model[:1].isupper() else model_name(model))


def _forecast(document: Document) -> View:
    target = format_si(document["target"], "FLOP")
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
        context=_stopped(document),
        tiles=_forecast_tiles(document),
        main="date",
        plots=plots_,
        tables=(
            _slices(document),
            assumed_table(document["scenarios"], "date"),
            *_system_tables(document["needs"], document["trains"]),
            _fits(document, "date"),
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
        growth = f"with {document['scenario']} ({document['scenario_note']}) the largest run reaches it on"
    return headline_words(subject, f"{growth} {date['p50']} (90\u00a0%: {date['p05']} to {date['p95']})")


def _stopped(document: Document) -> str:
    """That a run on so many chips hardly advances, where published failure rates say so."""
    rows = [row for name in _RUN_NAMES for row in document["trains"][name]["batches"] if not row["problem"]]
    if not rows or any(step_months(row)[1] != HARDLY for row in rows):
        return ""
    return (
        f"The date counts FLOP alone: on {figure_words(document['needs']['chips'], '')} chips, with a stop of the "
        "whole job for every failure at rates measured on up to 16K GPUs, a run hardly advances."
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
    rows = []
    for one in document["scenarios"]:
        chance = [percent(one["probability"])] if by else []
        date, then = one["date"], one["needs_then"]
        taken = ["", ""] if then is None else [
            figure_words(then["capex_usd"], "USD"), figure_words(then["facility_w"], "W")
        ]  # fmt: skip
        rows.append([one["scenario"], *chance, Cell(date["p50"], below=f"{date['p05']} \u2013 {date['p95']}"), *taken])
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


def _systems(document: Document) -> View:
    assumed = [one["accelerator"] for one in document["generations"] if one["assumed_accelerator"]]
    months = [(name, value, "FLOP") for name, value in document["flop_per_month"].items()]
    trains = document["trains"]
    run, *details = _system_tables(document, trains)
    return View(
        title=document["spec"],
        headline=system_headline(document),
        card=system_card(document),
        context=f"{system_sentence(document)}.",
        main="dense.flop",
        tiles=_system_tiles(document),
        plots=(
            Plot("reach", "What it can train, beside known runs", _REACH,
                 runs_figure(document["spec"], trains["dense"]["flop"], shipped_runs()), "dense.flop"),
            Plot("text", "The run against the stock of text", _TEXT,
                 data_figure(trains, document["text"], shipped_runs()), "dense.flop", is_detail=True),
        ),
        tables=(run, _fits(document, "weights_fraction"), _rl(document), _served(document), *details,
                replace(quantity_table("FLOP of a month", months, "dense.flop"), is_detail=True)),
        notes=(*_clue(document), *leaning(document)),
        grounds=(*((f"assumed: {assumed[0]}; name another with 'of ACCELERATOR_ID'",) if assumed else ()),
                 "published training runs: Epoch AI, CC BY 4.0 (https://epoch.ai/data)"),
        sources=tuple(sorted({one.source for one in shipped_runs()})),
    )  # fmt: skip


def _clue(document: Document) -> tuple[str, ...]:
    """Which reading of a count the power allows."""
    clue = document.get("power_clue")
    if clue is None:
        return ()
    said = [
        f"{one['unit']} {'fit' if one['fits'] else 'do not fit'} ({span(one['low_w'], one['high_w'], 'W')} "
        f"{'IT' if one['boundary'] == 'it' else one['boundary']})"
        for one in clue["readings"]
    ]
    return (f"{words(clue['given_w'], 'W')} tells {clue['taken']['unit']}: {', '.join(said)}",)


def _system_tiles(document: Document) -> tuple[Tile, ...]:
    """What is trained, how long it takes with failures, and what the system is."""
    trains = document["trains"]
    run, row = trains["dense"], critical_row(trains["dense"])
    named = " + ".join(one["accelerator"] for one in document["generations"])
    chips = ", ".join(part for part in (named, interval_words(document["chips"], "")) if part)
    asked = f"asked: {trains['months']:.3g} months"
    tiles = [with_interval(Tile("Training run", "", key="dense.flop"), run["flop"], "FLOP")]
    if not row["problem"]:
        busy, calendar = step_months(row)
        told = f"{calendar} months" if calendar[:1].isdigit() else calendar
        mfu = percent(row["mfu_fraction"])
        tiles.append(Tile("With failures", told, f"{asked}; {busy} without failures, at {mfu} of the peak",
                          key="dense.step_s"))  # fmt: skip
    capital = document["capex_usd"]
    return (
        *tiles,
        Tile("Chips", figure_words(document["chips"], ""), chips, key="chips"),
        Tile("Capital", figure_words(capital, "USD"), interval_words(capital, "USD"), key="capex_usd"),
        Tile("Facility power", figure_words(document["power_w"]["facility"], "W"), "cooling and losses included",
             key="power_w"),
    )  # fmt: skip


def _rl(document: Document) -> Table:
    """RL by model and chip."""
    rows = []
    for row in document["rl"]["by"]:
        fits = "no: " + row["problem"] if row["problem"] else "fits" if row["is_efficient"] else "fits, inefficiently"
        cells = ["", "", "", ""]
        if not row["problem"]:
            cells = [format_si(row["rollouts_per_world"]), words(row["longest_trace_tokens"], "tokens"),
                     figure_words(row["sampled_tokens_per_s"], "tokens/s"), row["layout"]]  # fmt: skip
        rows.append([_model_words(row["model"]), in_names(row["accelerator"]), fits, *cells])
    title = f"RL, rollouts of {words(document['assumptions']['mean_rollout_tokens'], 'tokens')} on average"
    columns = (
        "model",
        "chip",
        "in one scale-up domain",
        "rollouts there #",
        "efficient up to #",
        "sampled #",
        "layout",
    )
    return Table(title, columns, rows, "sampled_tokens_per_s", drops=("layout", "sampled"), is_detail=True)


def _served(document: Document) -> Table:
    """Serving by model and chip."""
    given = document["assumptions"]
    lengths = f"{given['served_input_tokens']:,.0f} tokens in, {given['served_output_tokens']:,.0f} out"
    rows = []
    for row in document["serves"]["by"]:
        cells = ["", "", row["problem"]]
        if not row["problem"]:
            cells = [figure_words(row["output_tokens_per_s"], "tokens/s"), words(row["tpot_s"], "s"), row["layout"]]
        rows.append([_model_words(row["model"]), in_names(row["accelerator"]), *cells])
    title = f"Serves requests of {lengths}, a token in {words(given['served_tpot_s'], 's')} at most"
    columns = ("model", "chip", "all chips #", "token #", "layout")
    return Table(title, columns, rows, "sampled_tokens_per_s", is_detail=True)


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


def system_rows(document: Document) -> list[tuple[str, Any, str]]:
    """What a system has and costs: label, quantity, unit."""
    power = document["power_w"]
    rows = [("chips", document["chips"], ""), ("compute dies", document["dies"], "")]
    rows += [
        ("H100-equivalents, bf16", document["h100e_bf16"], ""),
        ("H100-equivalents, 8 bit", document["h100e_8bit"], ""),
    ]
    rows += [(f"peak {name}", value, "FLOP/s") for name, value in document["peak_flop_per_s"].items()]
    rows += [(f"power, {'IT' if name == 'it' else name}", power[name], "W") for name in ("chip", "it", "facility")]
    rows += [("HBM", document["hbm_bytes"], "B")]
    for one in document["generations"]:
        if one["scale_up_worlds"] is not None:
            world = f"{one['scale_up_chips']:g} {one['accelerator']}, {show(one['scale_up_hbm_bytes'], 'B')} each"
            rows.append((f"scale-up domains of {world}", one["scale_up_worlds"], ""))
    rows += [("capital", document["capex_usd"], "USD")]
    rows += [(f"capital per {one['accelerator']}", one["capex_usd_per_chip"], "USD") for one in document["generations"]]
    return [*rows, ("cost of a year", document["yearly_usd"], "USD")]


#: What a run trains: label, key and unit; so many of them decide.
_MAIN_ROWS = 5
_RUN_ROWS = (
    ("compute", "flop", "FLOP"),
    ("active parameters", "n_params_active", ""),
    ("total parameters", "n_params_total", ""),
    ("tokens", "tokens", "tokens"),
    ("passes over the stock of text", "epochs", ""),
    ("could memorise of that stock", "absorbs_fraction", "fraction"),
    ("critical batch", "critical_batch_tokens", "tokens"),
    ("steps", "steps", ""),
    ("longest step, to end in time", "step_s_allowed", "s"),
    ("a dense model would take", "dense_equivalent_flop", "FLOP"),
)


_VIEWS: dict[str, tuple[str, Callable[[Document], View]]] = {
    "ForecastAnswer": ("forecast", _forecast),
    "SystemsAnswer": ("systems", _systems),
    "SitesAnswer": ("sites", _sites),
    "LabAnswer": ("sites", _lab),
    "ClaimAnswer": ("sites", _claim),
    "GrowthAnswer": ("growth", growth_view),
    "BacktestAnswer": ("backtest", _backtest),
}
