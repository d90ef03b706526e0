"""Frontier answers as HTML pages that need nothing from the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from computeledger.frontier.growth import GROWTH_WORDS
from computeledger.interfaces import plot_parts
from computeledger.interfaces import plots_frontier as plots
from computeledger.interfaces.page import assets, page_template, plotly_script, script_json, version
from computeledger.interfaces.plot_parts import Spec
from computeledger.interfaces.tables_frontier import run_rows, step_months, system_rows, system_sentence
from computeledger.questions.wording import interval_words, percent, point, words
from computeledger.units import format_si

Document = Mapping[str, Any]
#: Heading, columns, rows.
Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]
#: Site-dates that a page lists, at most.
_MOST_ROWS = 400


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows.

    Attributes
    ----------
    title, lead : str
        Heading, and one sentence.
    tiles : list of tuple of str
        Label, value, remark.
    figures : list of tuple
        Name, heading, caption, plotly specification.
    tables : list of tuple
        Heading, columns, rows.
    """

    title: str
    lead: str
    tiles: list[tuple[str, str, str]]
    figures: list[tuple[str, str, str, Spec]]
    tables: list[Table]


def frontier_page(command: str, document: Document) -> Page:
    """What the page of an answer shows: tiles, figures, tables."""
    return _PAGES[command](document)


def frontier_report(command: str, document: Document) -> str:
    """Render an answer as a whole page with its styles, scripts and data inside."""
    page = frontier_page(command, document)
    data = {"figures": {name: spec for name, _, _, spec in page.figures}, "config": plot_parts.CONFIG,
            "templates": {"light": plot_parts.template(), "dark": plot_parts.template(dark=True)}}  # fmt: skip
    return page_template("frontier.html").render(
        title=page.title,
        lead=page.lead,
        tiles=page.tiles,
        figures=[(name, heading, text) for name, heading, text, _ in page.figures],
        tables=page.tables,
        command=command,
        credit=document.get("credit", ""),
        version=version(),
        data=script_json(data),
        plotly=plotly_script(),
        style=assets("report.css"),
        script=assets("draw.js"),
    )


def _heading(text: str) -> str:
    return text[:1].upper() + text[1:]


_RUN_NAMES = {"dense": "dense model", "moe": "mixture of experts"}
_QUANTITIES = ("Quantity", "median", "90 % interval")


def _rows(rows: list[tuple[str, Any, str]]) -> list[tuple[str, ...]]:
    return [(name, words(point(value), unit), interval_words(value, unit)) for name, value, unit in rows]


def _system_tables(system: Document, trains: Document) -> list[Table]:
    runs: list[Table] = [
        (f"The run: {said}", _QUANTITIES, _rows(run_rows(said, trains[name]))) for name, said in _RUN_NAMES.items()
    ]
    return [_steps_table(trains), ("The system", _QUANTITIES, _rows(system_rows(system))), *runs]


_STEPS = ("Model", "batch", "over critical", "step", "MFU", "months, no stop", "with stops", "layout")


def _steps_table(trains: Document) -> Table:
    rows: list[tuple[str, ...]] = [
        (said, words(row["batch_tokens"], "tokens"), f"{row['batch_over_critical']:.2g}x", *_step_cells(row))
        for name, said in _RUN_NAMES.items()
        for row in trains[name]["batches"]
    ]  # fmt: skip
    return "The step, from the operation model", _STEPS, rows


def _step_cells(row: Document) -> tuple[str, ...]:
    if row["problem"]:
        return "", "", "", "", row["problem"]
    cut = " + ".join(f"{part['layout']} on {part['n_gpus']:,} {part['accelerator']}" for part in row["parts"])
    return words(row["step_s"], "s"), percent(row["mfu_fraction"]), *step_months(row), cut


_BATCHES = (
    "The dense model and the mixture of experts that fill the time, at the critical batch and at both ends of its 90 % "
    "interval: what lies beyond it costs loss per token."
)
_POWER = (
    "Facility power of the sites that are largest now; hollow marks are projections, bars are the 90 % interval of the "
    "largest one, from revisions of the data."
)
_FITS = "8-bit weights over the HBM of a scale-up domain, in percent, or a multiple; from 100 on they do not fit."


def _forecast(document: Document) -> Page:
    date = document["date"]
    figures = [
        ("runs", "Training compute", "The largest training run known at the end of each quarter, and its forecast.",
         plots.ahead_figure(document["ahead"], document["target"])),
        ("sites", "Power of the largest site", "Facility power; projections of the data are left out.",
         plots.ahead_figure(document["sites_ahead"], point(document["needs"]["power_w"]["facility"]))),
        ("cost", "Cost against compute", "Capital of the sites as they stand, in dollars of 2025, and of this system.",
         plots.cost_figure(document)),
        ("fits", "What fits where", _FITS, plots.fits_figure(document)),
    ]  # fmt: skip
    lead = (
        f"The trend of the largest runs reaches {format_si(document['target'], 'FLOP')} on {date['p50']}, 90 % "
        f"interval {date['p05']} to {date['p95']}"
    )
    title = f"A run of {format_si(document['target'], 'FLOP')}"
    tables = _system_tables(document["needs"], document["trains"])
    return Page(title, lead, _forecast_tiles(document), figures, tables)


def _forecast_tiles(document: Document) -> list[tuple[str, str, str]]:
    date, needs = document["date"], document["needs"]
    by = document.get("probability_by")
    chance = (
        (f"Chance by {by['date']}", percent(by["probability"]), "share of the sampled paths")
        if by
        else ("Latest", date["p95"], "95 % of the paths are there")
    )
    return [
        ("Median date", date["p50"], f"{date['p05']} to {date['p95']}"),
        chance,
        ("Chips", words(point(needs["chips"]), ""), needs["generations"][0]["accelerator"]),
        ("Capital", words(point(needs["capex_usd"]), "USD"), interval_words(needs["capex_usd"], "USD")),
    ]


def _systems(document: Document) -> Page:
    trains, rl = document["trains"], document["rl"]
    dense = trains["dense"]
    step = "none" if dense["step_s"] is None else words(dense["step_s"], "s")
    tiles = [
        (
            "Chips",
            words(point(document["chips"]), ""),
            " + ".join(one["accelerator"] for one in document["generations"]),
        ),
        ("Facility power", words(point(document["power_w"]["facility"]), "W"), "cooling and losses included"),
        ("Capital", words(point(document["capex_usd"]), "USD"), interval_words(document["capex_usd"], "USD")),
        (
            "Step, dense",
            step,
            f"at the critical batch; a run in time allows {words(point(dense['step_s_allowed']), 's')}",
        ),
    ]
    figures = [
        ("batches", "MFU by batch", _BATCHES, plots.batches_figure(document)),
        ("fits", "What fits where", _FITS, plots.fits_figure(document)),
    ]  # fmt: skip
    columns = ("Model", "chip", "RL in one scale-up world", "sampled", "serves")
    able: list[tuple[str, ...]] = [
        (one["model"], one["accelerator"], one["problem"] or f"fits, {format_si(one['rollouts_per_world'])} rollouts",
         "" if one["problem"] else words(point(one["sampled_tokens_per_s"]), "tokens/s"),
         two["problem"] or words(point(two["output_tokens_per_s"]), "tokens/s"))
        for one, two in zip(rl["by"], document["serves"]["by"], strict=True)
    ]  # fmt: skip
    counts = [words(point(document[name]), "") for name in ("h100e_bf16", "h100e_8bit")]
    bf16, eight_bit = counts
    lead = (
        f"{words(point(document['chips']), '')} chips, {bf16} H100-equivalents in bf16 and {eight_bit} in 8 bit. "
        f"{system_sentence(document)}"
    )
    given = document["assumptions"]
    asked = (
        f"RL and serving: rollouts of {given['mean_rollout_tokens']:,.0f} tokens; requests of "
        f"{given['served_input_tokens']:,.0f} in and {given['served_output_tokens']:,.0f} out, "
        f"{words(given['served_tpot_s'], 's')} a token"
    )
    tables: list[Table] = [(asked, columns, able), *_system_tables(document, trains)]
    return Page(document["spec"], lead, tiles, figures, tables)


def _sites(document: Document) -> Page:
    agree = document["agreement"]["power_checked"]
    rows = [row for row in document["sites"] if row["published_h100e_8bit"]]
    largest = max(rows, key=lambda row: 0.0 if row["projected"] else row["facility_w"] or 0.0)
    within = f"{agree['within_10_percent']} of {agree['compared']}"
    tiles = [
        ("Sites", str(len({row["name"] for row in document["sites"]})), f"{len(rows)} dates with capacity"),
        ("Largest now", words(largest["facility_w"] or 0.0, "W"), f"{largest['name']}, {largest['date']}"),
        (
            "Recomputed within 10 %",
            within,
            "the rest has its reason below",
        ),
    ]
    figures = [
        ("power", "Power of the sites", _POWER, plots.power_figure(document)),
        ("recomputed", "H100-equivalents", "Recomputed from the chips that the files count, against the published.",
         plots.recomputed_figure(document)),
    ]  # fmt: skip
    columns = ("Site", "date", "facility", "published H100e", "recomputed", "remark")
    table: list[tuple[str, ...]] = [
        (row["name"], row["date"] + (" (projected)" if row["projected"] else ""), words(row["facility_w"] or 0.0, "W"),
         format_si(row["published_h100e_8bit"]), "" if row["h100e_8bit"] is None else format_si(row["h100e_8bit"]),
         row["reason"])
        for row in rows[-_MOST_ROWS:]
    ]  # fmt: skip
    return Page("Sites", "Facility power and H100-equivalents over time", tiles, figures, [("Sites", columns, table)])


def _growth(document: Document) -> Page:
    rows = document["growth"]
    tiles = [
        (
            _heading(GROWTH_WORDS[one["name"]][0]),
            f"{one['ratio']:.2f}x",
            f"{one['low']:.2f}x to {one['high']:.2f}x a year",
        )
        for one in rows
        if one["name"] in ("run_flop", "site_w", "site_usd", "h100e_per_usd")
    ]
    figures = [
        (one["name"], _heading(GROWTH_WORDS[one["name"]][0]), f"{one['n']} points, {one['first']} to {one['last']}.",
         plots.growth_figure(document, one["name"], GROWTH_WORDS[one["name"]][1]))
        for one in rows
    ]  # fmt: skip
    figures.append(("scenarios", "Scenarios", "Compute of the largest system over today's.",
                    plots.scenarios_figure(document)))  # fmt: skip
    lead = f"If funding stays flat, compute grows {document['flat_funding_slowdown']:.1f} times slower"
    table: list[tuple[str, ...]] = [
        (one["scenario"], one["note"], one["binds_by_year"][-1]) for one in document["scenarios"]
    ]
    return Page("Growth", lead, tiles, figures, [("Scenarios", ("Scenario", "assumes", "binds at the end"), table)])


def _backtest(document: Document) -> Page:
    tiles = [
        ("Inside the 90 % interval", percent(document["coverage_90"]), f"of {document['n']} quarters"),
        ("Median error", f"{document['median_abs_log10_error']:.2f}", "powers of ten"),
        ("Widest interval", f"{document['largest_width_log10_90']:.2f}", "powers of ten"),
    ]
    figures = [
        (f"series-{place}", _heading(one["series"]),
         f"Model: {one['model']}, by the score of its intervals before the cut-off.",
         plots.backtest_figure(document, place))
        for place, one in enumerate(document["series"])
    ]  # fmt: skip
    lead = f"Forecast from what was known on {document['cutoff']}, and what came"
    return Page(f"Back-test from {document['cutoff']}", lead, tiles, figures, [])


_PAGES: dict[str, Callable[[Document], Page]] = {
    "forecast": _forecast,
    "systems": _systems,
    "sites": _sites,
    "growth": _growth,
    "backtest": _backtest,
}
