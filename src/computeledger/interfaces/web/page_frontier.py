"""The page *Frontier*: what power and money can train, sites, growth, and when a run is possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from computeledger.interfaces import cli_frontier as commands
from computeledger.interfaces.answers_frontier import answer_forecast, answer_growth, answer_sites, answer_systems
from computeledger.interfaces.report_frontier import frontier_page
from computeledger.interfaces.web.ask import ask
from computeledger.interfaces.web.spec import Answer, Control, Page, Plot, Table, Tile, Values, View

Asked = Callable[[Mapping[str, Any]], dict[str, Any]]
_KINDS: dict[str, tuple[str, click.Command, Asked, tuple[str, ...]]] = {
    "a system": (
        "systems", commands.frontier_systems, lambda options: answer_systems(options["spec"], options),
        ("duration", "utilization", "spec"),
    ),
    "a run": (
        "forecast", commands.frontier_forecast, lambda options: answer_forecast(options["flop"], options),
        ("by", "flop"),
    ),
    "sites": ("sites", commands.frontier_sites, answer_sites, ("site",)),
    "growth": ("growth", commands.frontier_growth, answer_growth, ("first", "years")),
}  # fmt: skip
_CONTROLS = (
    Control("about", "Ask about", "choice", default="a system", choices=tuple(_KINDS)),
    Control("spec", "System", "text", default="400 MW facility of gb200-gpu", group="A system",
            help="Such as 100K chips of h100-sxm5-80gb, $10bn of gb200-gpu, 7 buildings x 65 MW IT of trainium2."),
    Control("duration", "Run", "text", default="4 months", group="A system"),
    Control("utilization", "Utilisation", default="0.4", low=0.05, high=0.7, log=False, group="A system"),
    Control("flop", "Run of", unit="FLOP", default="1e28", low=1e25, high=1e31, group="A run"),
    Control("by", "By the day", "text", group="A run", help="Such as 2028-12-31: with what chance?"),
    Control("site", "Site", "text", group="Sites", help="Part of its name; empty: all."),
    Control("first", "Data since", "text", default="2022-01-01", group="Growth"),
    Control("years", "Years ahead", default="5", low=1, high=15, log=False, whole=True, group="Growth"),
)  # fmt: skip


def _answer(values: Values, _working: bool) -> Answer:
    name, command, answer, wanted = _KINDS[values["about"]]
    return ask(
        ["frontier", name], command, answer, {one: values[one] for one in wanted if one in values}, working=False
    )


def _view(answer: Answer) -> View:
    name = answer.command.split()[2]
    page = frontier_page(name, answer.document)
    credit = answer.document.get("credit", "")
    return View(
        page.lead,
        tuple(Tile(label, value, remark) for label, value, remark in page.tiles),
        tuple(Plot(each, heading, text, figure) for each, heading, text, figure in page.figures),
        tuple(Table(heading, columns, rows) for heading, columns, rows in page.tables),
        (credit,) if credit else (),
    )


PAGE = Page(
    "frontier", "Frontier", "What can power and money train, and when?", _CONTROLS, _answer, _view,
    presets={
        "A 400 MW site of GB200": {},
        "100,000 H100": {"spec": "100K chips of h100-sxm5-80gb"},
        "When is a run of 1e28 FLOP possible?": {"about": "a run"},
        "Known sites": {"about": "sites"},
        "Growth and scenarios": {"about": "growth"},
    },
)  # fmt: skip
