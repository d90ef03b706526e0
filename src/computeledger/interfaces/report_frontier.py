"""A forecast as one HTML page that needs nothing from the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces import plot_parts
from computeledger.interfaces.page import assets, page_template, plotly_script, script_json, version
from computeledger.interfaces.plots_frontier import ahead_figure, cost_figure, fits_figure
from computeledger.interfaces.tables_frontier import run_rows, system_rows
from computeledger.interfaces.wording import interval_words, point, words
from computeledger.units import format_percent, format_si


def frontier_report(document: Mapping[str, Any]) -> str:
    """Render a forecast as a whole page with its styles, scripts and data inside."""
    figures = [
        ("runs", "Training compute", "The largest training run known at the end of each quarter, and its forecast.",
         ahead_figure(document["ahead"], document["target"])),
        ("sites", "Power of the largest site", "Facility power; projections of the data are left out.",
         ahead_figure(document["sites_ahead"], point(document["needs"]["power_w"]["facility"]))),
        ("cost", "Cost against compute", "Capital of the sites as they stand, in dollars of 2025, and of this system.",
         cost_figure(document)),
        ("fits", "What fits where", "8-bit weights over the HBM of a scale-up domain; from 100 % on they do not fit.",
         fits_figure(document)),
    ]  # fmt: skip
    data = {"figures": {name: spec for name, _, _, spec in figures}, "config": plot_parts.CONFIG,
            "templates": {"light": plot_parts.template(), "dark": plot_parts.template(dark=True)}}  # fmt: skip
    date = document["date"]
    return page_template("frontier.html").render(
        title=f"A run of {format_si(document['target'], 'FLOP')}",
        lead=f"The trend of the largest runs reaches it on {date['p50']}, 90 % interval {date['p05']} to {date['p95']}",
        tiles=_tiles(document),
        figures=[(name, heading, text) for name, heading, text, _ in figures],
        tables=[
            ("The system", _rows(system_rows(document["needs"]))),
            *((f"The run: {name}", _rows(run_rows(name, run))) for name, run in document["trains"].items()),
        ],
        credit=document["credit"],
        version=version(),
        data=script_json(data),
        plotly=plotly_script(),
        style=assets("report.css"),
        script=assets("simulate.js"),
    )


def _rows(rows: list[tuple[str, Any, str]]) -> list[tuple[str, str, str]]:
    return [(name, words(point(value), unit), interval_words(value, unit)) for name, value, unit in rows]


def _tiles(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    date, needs = document["date"], document["needs"]
    by = document.get("probability_by")
    chance = (
        (f"Chance by {by['date']}", format_percent(by["probability"]), "share of the sampled paths")
        if by
        else ("Latest", date["p95"], "95 % of the paths are there")
    )
    return [
        ("Median date", date["p50"], f"{date['p05']} to {date['p95']}"),
        chance,
        ("Chips", words(point(needs["chips"]), ""), needs["generations"][0]["accelerator"]),
        ("Capital", words(point(needs["capex_usd"]), "USD"), interval_words(needs["capex_usd"], "USD")),
    ]
