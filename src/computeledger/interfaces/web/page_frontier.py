"""The page *Frontier*: what power and money can train, sites, growth, and when a run is possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from computeledger.interfaces import cli_frontier as commands
from computeledger.interfaces.report_frontier import frontier_page
from computeledger.interfaces.web.ask import ask
from computeledger.interfaces.web.spec import Answer, Control, Page, Plot, Table, Tile, Values, View
from computeledger.questions.answers.frontier import answer_forecast, answer_growth, answer_sites, answer_systems

Asked = Callable[[Mapping[str, Any]], dict[str, Any]]
_KINDS: dict[str, tuple[str, click.Command, Asked, tuple[str, ...]]] = {
    "a system": (
        "systems", commands.frontier_systems, lambda options: answer_systems(options["spec"], options),
        ("duration", "utilization", "spec"),
    ),
    "a run": (
        "forecast", commands.frontier_forecast, lambda options: answer_forecast(options["flop"], options),
        ("by", "duration", "utilization", "flop"),
    ),
    "sites": ("sites", commands.frontier_sites, answer_sites, ("site",)),
    "growth": ("growth", commands.frontier_growth, answer_growth, ("first", "years")),
}  # fmt: skip
_CONTROLS = (
    Control("about", "Ask about", "choice", default="a system", choices=tuple(_KINDS)),
    Control("spec", "System", "text", default="400 MW facility of gb200-gpu", group="A system", only="about=a system",
            help="Such as 5 GW facility of gb200-gpu, 100K chips of h100-sxm5-80gb, $10bn of gb200-gpu, 7 buildings x "
            "65 MW IT of trainium2."),
    Control("flop", "Size of the run", unit="FLOP", default="1e28", low=1e25, high=1e31, group="A run",
            only="about=a run"),
    Control("by", "By the day", "text", group="A run", only="about=a run", blank="any",
            help="Such as 2028-12-31: with what chance?"),
    Control("duration", "Length of the run", "text", default="4 months", group="Training", only="about=a system|a run"),
    Control("utilization", "Utilisation", unit="fraction", default="0.4", low=0.05, high=0.7, log=False,
            group="Training", only="about=a system|a run", help="FLOP over dense bf16 peak."),
    Control("site", "Site", "text", group="Sites", only="about=sites", blank="all", help="Part of its name."),
    Control("first", "Data since", "text", unit="day", default="2022-01-01", group="Growth", only="about=growth"),
    Control("years", "Years ahead", unit="years", default="5", low=1, high=15, log=False, whole=True, group="Growth",
            only="about=growth"),
)  # fmt: skip
#: What explains a tile, a plot or a table, by the first word of what it is called; the last rows by the page.
_KEYS = {
    "Chips": "chips", "Facility": "power_w", "Capital": "capex_usd", "Step,": "dense.step_s", "Median": "date",
    "Chance": "date", "Latest": "date", "MFU": "dense.step_s", "What": "weights_fraction", "RL": "sampled_tokens_per_s",
    "The step,": "dense.step_s", "The system": "chips", "The run: dense": "dense.flop", "The run: mixture": "moe.flop",
    "Training compute": "growth_per_year", "Power of the largest": "date", "Cost against": "capex_usd",
    "Sites": "sites.facility_w", "Largest": "sites.facility_w", "Recomputed": "agreement", "H100": "h100e_8bit",
    "Power": "sites.facility_w",
}  # fmt: skip
_OTHERWISE = {"systems": "chips", "forecast": "date", "sites": "sites.facility_w", "growth": "growth.run_flop"}


def _answer(values: Values, working: bool) -> Answer:
    name, command, answer, wanted = _KINDS[values["about"]]
    return ask(["frontier", name], command, answer, {one: values[one] for one in wanted if one in values}, working)


def _view(answer: Answer) -> View:
    name = answer.command.split()[2]
    page = frontier_page(name, answer.document)
    credit = answer.document.get("credit", "")

    def key(title: str) -> str:
        found = [one for one in _KEYS if title.startswith(one)]
        if name == "growth" or (name == "forecast" and title == "What fits where"):
            return _OTHERWISE[name]
        return _KEYS[max(found, key=len)] if found else _OTHERWISE[name]

    return View(
        f"{page.lead}.",
        tuple(Tile(label, value, remark, key=key(label)) for label, value, remark in page.tiles),
        tuple(Plot(each, heading, text, figure, _figure_key(name, each) or key(heading), each == "fits")
              for each, heading, text, figure in page.figures),
        tuple(Table(heading, columns, rows, key(heading)) for heading, columns, rows in page.tables),
        (credit,) if credit else (),
    )  # fmt: skip


def _figure_key(name: str, plot: str) -> str:
    """Of a plot of growth: the quantity that it shows."""
    return f"growth.{plot}" if name == "growth" and plot != "scenarios" else ""


PAGE = Page(
    "frontier", "Frontier", "What can power and money train, and when?", _CONTROLS, _answer, _view,
    presets={
        "A 400 MW site of GB200": {},
        "A 5 GW site of GB200": {"spec": "5 GW facility of gb200-gpu"},
        "100,000 H100": {"spec": "100K chips of h100-sxm5-80gb"},
        "$10bn of GB200": {"spec": "$10bn of gb200-gpu"},
        "When is a run of 1e28 FLOP possible?": {"about": "a run"},
        "Known sites": {"about": "sites"},
        "Growth and scenarios": {"about": "growth"},
    },
)  # fmt: skip
