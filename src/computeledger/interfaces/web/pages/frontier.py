"""The page *Frontier*: what power and money can train, sites, growth, and when a run is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from computeledger.fields import Record
from computeledger.interfaces.web.ask import ask_question
from computeledger.interfaces.web.spec import Answer, Control, Page, Values
from computeledger.questions.answer import Answer as CommandAnswer
from computeledger.questions.answers.frontier.forecast import answer_forecast, answer_growth
from computeledger.questions.answers.frontier.sites import answer_sites
from computeledger.questions.answers.frontier.systems import answer_systems
from computeledger.questions.frontier import ForecastQuestion, GrowthQuestion, SitesQuestion, SystemsQuestion

#: By what is asked about: the command, its question, its answer, the controls it takes, and its argument.
_KINDS: dict[str, tuple[str, type[Record], Callable[[Any], CommandAnswer], tuple[str, ...], str]] = {
    "a system": ("systems", SystemsQuestion, answer_systems, ("duration", "utilization", "spec"), "spec"),
    "a run": ("forecast", ForecastQuestion, answer_forecast, ("by", "duration", "utilization", "flop"), "flop"),
    "sites": ("sites", SitesQuestion, answer_sites, ("site",), ""),
    "growth": ("growth", GrowthQuestion, answer_growth, ("first", "years"), ""),
}
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


def _answer(values: Values, working: bool) -> Answer:
    name, question, answer, wanted, argument = _KINDS[values["about"]]
    asked = {one: values[one] for one in wanted if one in values}
    return ask_question(f"frontier {name}", question, answer, asked, working, argument)


PAGE = Page(
    "frontier", "Frontier", "What can power and money train, and when?", _CONTROLS, _answer,
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
