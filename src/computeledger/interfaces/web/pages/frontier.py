"""The page *Frontier*: what power and money can train, when a run is possible, sites, labs, growth."""

from __future__ import annotations

from computeledger.facts.reliability import published_interruptions_per_gpu_s
from computeledger.frontier.growth import shipped_scenarios
from computeledger.interfaces.web.ask import Kind, ask_kind, of_kinds
from computeledger.interfaces.web.spec import JUDGE, Answer, Control, Page, Values
from computeledger.questions.answers.frontier.forecast import answer_forecast, answer_growth
from computeledger.questions.answers.frontier.labs import answer_labs
from computeledger.questions.answers.frontier.sites import answer_sites
from computeledger.questions.answers.frontier.systems import answer_systems
from computeledger.questions.frontier import (
    ForecastQuestion,
    GrowthQuestion,
    LabsQuestion,
    SitesQuestion,
    SystemsQuestion,
)
from computeledger.units import YEAR_S

_TRAINING = ("duration", "utilization")
_FAILURES = "interruptions_per_gpu_year"
_RATE = published_interruptions_per_gpu_s()
_PUBLISHED = f"{_RATE.low * YEAR_S:.2g}..{_RATE.high * YEAR_S:.2g}"
#: By what is asked about.
KINDS = {
    "a system": Kind("frontier systems", SystemsQuestion, answer_systems, ("spec", *_TRAINING, _FAILURES), "spec"),
    "a run": Kind(
        "frontier forecast", ForecastQuestion, answer_forecast, ("flop", "scenario", "by", *_TRAINING), "flop"
    ),
    "sites": Kind("frontier sites", SitesQuestion, answer_sites, ("site",)),
    "labs": Kind("frontier labs", LabsQuestion, answer_labs, ("date", "lab", "scenario", *_TRAINING)),
    "growth": Kind("frontier growth", GrowthQuestion, answer_growth, ("first", "years", "scenario")),
}
_CONTROLS = of_kinds(KINDS, (
    Control("spec", "System", "text", default="400 MW facility of gb200-gpu", group="A system",
            help="Such as 5 GW facility of GB200, 100K GB200 GPUs, $10bn of GB200, 7 buildings x 65 MW IT of "
            "Trainium2."),
    Control("flop", "Size of the run", unit="FLOP", default="1e28", low=1e25, high=1e31, group="A run"),
    Control("by", "By the day", "text", group="A run", blank="any", help="Such as 2028-12-31: with what chance?"),
    Control("scenario", "Scenario", "choice", choices=("", *shipped_scenarios()), group="Growth",
            blank="the trend, beside all", help="What growth follows from today on."),
    Control("site", "Site", "text", group="Sites", blank="all", help="Part of its name."),
    Control("date", "On the day", "text", default="2026-08-22", group="Labs", help="A day, or a month: its last day."),
    Control("lab", "Lab", "text", group="Labs", blank="all"),
    Control("first", "Data since", "text", unit="day", default="2022-01-01", group="Growth"),
    Control("years", "Years ahead", unit="years", default="5", low=1, high=15, log=False, whole=True, group="Growth"),
    Control("duration", "Length if nothing failed", "text", default="4 months", group="Training",
            help="What you ask for: with the utilisation it sets the size of the run. Slower steps and failures add "
            "to it."),
    Control("utilization", "Utilisation", unit="fraction", default="0.4", low=0.05, high=0.7, log=False,
            group="Training", help="FLOP over dense bf16 peak."),
    Control(_FAILURES, "Failures", unit="per GPU and year", blank=_PUBLISHED, low=0.01, high=2,
            group="Training", help="Empty: what published runs range over."),
))  # fmt: skip


def _answer(values: Values, working: bool) -> Answer:
    return ask_kind(KINDS, values, working)


PAGE = Page(
    "frontier", "Frontier", "What can power and money train, and when?", _CONTROLS, _answer,
    short="What can power and money train?", section=JUDGE,
    presets={
        "A 400 MW site of GB200": {},
        "A 1 GW site of GB200": {"spec": "1 GW facility of gb200-gpu"},
        "A 5 GW site of GB200": {"spec": "5 GW facility of gb200-gpu"},
        "100,000 H100": {"spec": "100K chips of h100-sxm5-80gb"},
        "$10bn of GB200": {"spec": "$10bn of gb200-gpu"},
        "1e28 FLOP: when?": {"about": "a run"},
        "1e28 FLOP, power short": {"about": "a run", "scenario": "power-limited", "by": "2028-12-31"},
        "Known sites": {"about": "sites"},
        "Labs in August 2026": {"about": "labs"},
        "Growth and scenarios": {"about": "growth"},
    },
)  # fmt: skip
