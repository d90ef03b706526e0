"""Answer how compute grows, and when a run is possible: growth, forecasts, and forecasts from a cut-off."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.fields import Given
from computeledger.frontier.conditional import TREND, Pace, pace_of, predicted_under, reached_under
from computeledger.frontier.epoch_files import CREDIT, checked_day, read_timelines
from computeledger.frontier.fits import weights_fractions
from computeledger.frontier.forecast import Backtest, Reached, forecast_series, run_series, site_series, when_reached
from computeledger.frontier.forecast import backtest as backtest_series
from computeledger.frontier.growth import (
    Growth,
    Projection,
    Scenario,
    dated_quantities,
    fitted_growth,
    flat_funding_slowdown,
    largest_systems,
    load_scenarios,
    project,
    shipped_scenarios,
    trend_growth,
)
from computeledger.frontier.memory import hbm_share
from computeledger.frontier.needs import Needed, needed_system
from computeledger.frontier.priced import Then, taken_then
from computeledger.frontier.steps import RunStep, run_steps
from computeledger.frontier.supply import Largest, largest_today, supply_facts
from computeledger.frontier.systems import TrainingSystem
from computeledger.frontier.trends import Predicted, Series
from computeledger.frontier.wafers import fitted_wafers
from computeledger.frontier.working import growth_figures, reached_figures, run_figures, system_figures
from computeledger.physics.calibration.efficiency import median_of
from computeledger.progress import stage
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.answers.frontier import document as documents
from computeledger.questions.document import document
from computeledger.questions.executors import open_executor
from computeledger.questions.frontier import BacktestQuestion, ForecastQuestion, GrowthQuestion
from computeledger.questions.grounds import fact_document, figure_document
from computeledger.workloads.sweep import sweep

#: Last quarter that the plots of a forecast show.
_UNTIL = "2030-12-31"


def _sites(data: str | None) -> Any:
    return None if data is None else read_timelines(Path(data))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class BacktestAnswer(Answer):
    """Forecasts from a cut-off beside what came."""

    result: Backtest

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger frontier backtest --json`` prints it."""
        return documents.backtest_document(self.result)


def backtest(question: BacktestQuestion | None = None, /, **given: Given) -> BacktestAnswer:
    """Forecast from a cut-off what is known now, and hold the forecast against it.

    Parameters
    ----------
    question : BacktestQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str
        Fields of :class:`~computeledger.questions.frontier.BacktestQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    BacktestAnswer
        Coverage, error and width of the intervals.

    Raises
    ------
    InputError
        For a day that is none.

    Examples
    --------
    >>> backtest(cutoff="2023-12-31").result.coverage_90
    1.0
    """
    return from_python(BacktestQuestion, answer_backtest, question, given)


def answer_backtest(question: BacktestQuestion) -> BacktestAnswer:
    """Answer ``computeledger frontier backtest``."""
    return BacktestAnswer(backtest_series(checked_day(question.cutoff, "--cutoff"), _sites(question.data)))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class GrowthAnswer(Answer):
    """Growth fitted on data, and scenarios."""

    question: GrowthQuestion
    fits: Mapping[str, Growth]
    dated: Mapping[str, Any]
    projections: Sequence[Projection]
    largest: Largest

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger frontier growth --json`` prints it."""
        fits = dict(self.fits)
        return {
            **({"working": [figure_document(one) for one in growth_figures(fits)]} if working else {}),
            "growth": [documents.growth_document(one, self.dated[one.name]) for one in fits.values()],
            "flat_funding_slowdown": flat_funding_slowdown(fits),
            "trend_ratio_per_year": trend_growth(fits),
            "flat_ratio_per_year": fits["h100e_per_usd"].ratio,
            "hbm_capex_fraction": document(hbm_share()),
            "scenarios": [documents.projection_document(one, self.largest) for one in self.projections],
            "largest_system": document(self.largest),
            "supply": {name: fact_document(one) for name, one in supply_facts().items()},
            "wafer_law": document(fitted_wafers()),
            "credit": CREDIT,
        }


def growth(question: GrowthQuestion | None = None, /, **given: Given) -> GrowthAnswer:
    """Growth fitted on data with its interval, and scenarios of what bounds it.

    Parameters
    ----------
    question : GrowthQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str or int
        Fields of :class:`~computeledger.questions.frontier.GrowthQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    GrowthAnswer
        Yearly ratios with their intervals, and the compute of scenarios by year.

    Raises
    ------
    InputError
        For bad input, and for a scenario that is not known.

    Examples
    --------
    >>> fits = growth(first="2023-01-01", years=3).fits
    >>> fits["run_flop"].low < fits["run_flop"].ratio < fits["run_flop"].high
    True
    """
    return from_python(GrowthQuestion, answer_growth, question, given)


def answer_growth(question: GrowthQuestion) -> GrowthAnswer:
    """Answer ``computeledger frontier growth``."""
    first, last = checked_day(question.first, "--first"), checked_day(question.last, "--last")
    sites = _sites(question.data)
    fits = fitted_growth(first, last, sites)
    years = np.arange(question.years + 1.0)
    projections = [project(one, fits, years) for one in load_scenarios(question.scenario).values()]
    return GrowthAnswer(question, fits, dated_quantities(sites), projections, largest_today(sites))


@dataclass(frozen=True, slots=True)
class Ahead:
    """A series with its forecast at the ends of quarters."""

    series: Series
    dates: Sequence[str]
    predicted: Predicted


@dataclass(frozen=True, slots=True)
class Slice:
    """The forecast on condition that compute grows as in a scenario."""

    scenario: Scenario
    pace: Pace
    reached: Reached
    then: Then | None


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ForecastAnswer(Answer):
    """When a training run is possible, and what it takes."""

    question: ForecastQuestion
    scenario: Scenario
    reached: Reached
    slices: Mapping[str, Slice]
    then: Then | None
    needed: Needed
    steps: Mapping[str, Sequence[RunStep]]
    powered: Reached
    ahead: Mapping[str, Ahead]

    def probability_by(self, date: str) -> float:
        """Chance that the run is possible by a day, YYYY-MM-DD [-]."""
        return self.reached.probability_by(checked_day(date, "date"))

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger frontier forecast --json`` prints it."""
        question, needed = self.question, self.needed
        found = documents.reached_document(self.reached)
        if question.by is not None:
            found["probability"] = self.reached.probability_by(question.by)
            found["probability_by"] = {"date": question.by, "probability": found["probability"]}
        found["scenario"], found["scenario_note"] = self.scenario.name, self.scenario.note
        found["scenarios"] = [documents.slice_document((one.scenario, one.then), one.reached, question.by)
                              for one in self.slices.values()]  # fmt: skip
        found["needs"] = documents.system_document(needed.system)
        found["needs_then"] = None if self.then is None else documents.then_document(self.then)
        found["trains"] = {
            name: documents.timed_run_document(one, self.steps[name]) for name, one in needed.runs.items()
        }
        found["repetition"] = {name: document(one) for name, one in needed.text.items()}
        found["gpu_time"] = documents.gpu_time_document(needed)
        found["largest_site_has_the_power"] = documents.reached_document(self.powered)
        found |= {
            name: documents.ahead_document(one.series, one.dates, one.predicted) for name, one in self.ahead.items()
        }
        found["known_systems"] = documents.known_systems_document(largest_systems())
        found["fits"] = [document(one) for one in weights_fractions()]
        if working:
            steps = {name: found["trains"][name]["step_s"] for name in needed.runs}
            given = (median_of(question.duration), median_of(question.utilization))
            found["working"] = [figure_document(one) for one in (
                *reached_figures(self.reached), *system_figures(needed.system),
                *run_figures(needed.runs, needed.system, given, steps),
            )]  # fmt: skip
        return found | {"credit": CREDIT}


def forecast(question: ForecastQuestion | None = None, /, **given: Given) -> ForecastAnswer:
    """When a training run of a size is possible, with what chance, and what it takes.

    Parameters
    ----------
    question : ForecastQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float, bool or Range
        Fields of :class:`~computeledger.questions.frontier.ForecastQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    ForecastAnswer
        The date with its interval, chips, power and money of the system, and the months that the run takes.

    Raises
    ------
    InputError
        For bad input.

    Examples
    --------
    >>> answer = forecast(flop="1e28", samples=500)
    >>> answer.probability_by("2027-12-31") < answer.probability_by("2032-12-31")
    True
    """
    return from_python(ForecastQuestion, answer_forecast, question, given)


def answer_forecast(question: ForecastQuestion) -> ForecastAnswer:
    """Answer ``computeledger frontier forecast``."""
    if question.by is not None:
        question = replace(question, by=checked_day(question.by, "--by"))
    target, duration, utilization = (median_of(one) for one in (question.flop, question.duration, question.utilization))
    stage("the record so far")
    of_trend = (target, question.samples, question.seed)
    needed, largest = needed_system(target, question.accelerator, duration, utilization), largest_today()
    asked, free = load_scenarios(question.scenario), shipped_scenarios()[TREND]
    followed = [*{TREND: free, **asked}.values(), next(iter(asked.values())) if len(asked) == 1 else free]
    power_w = float(np.median(needed.system.power_w["facility"]))
    parts: list[Callable[[], Any]] = [
        functools.partial(when_reached, site_series(), power_w, question.samples),
        *(functools.partial(run_steps, one, needed.system.generations, name) for name, one in needed.runs.items()),
        *(functools.partial(_slice, one, of_trend, needed.system, largest) for one in followed),
    ]
    with open_executor(question.workers, question.cluster) as executor:
        powered, *found = sweep(_worked_out, parts, executor, what="parts of the forecast")
    steps, (*each, taken) = dict(zip(needed.runs, found, strict=False)), found[len(needed.runs) :]
    trend = _trend(*of_trend)
    runs, dates = run_series(), forecast_series(run_series(), _UNTIL)[0]
    ahead = Ahead(runs, dates, predicted_under(trend.model, runs, dates, taken.pace))
    return ForecastAnswer(
        question=question,
        scenario=taken.scenario,
        reached=taken.reached,
        slices={one.name: found for one, found in zip(followed, each, strict=False)},
        then=taken.then,
        needed=needed,
        steps=steps,
        powered=powered,
        ahead={"ahead": ahead, "sites_ahead": Ahead(site_series(), *forecast_series(site_series(), _UNTIL))},
    )


def _worked_out(part: Callable[[], Any]) -> Any:
    """A part of the forecast, which needs no other."""
    return part()


@functools.lru_cache(maxsize=1)
def _trend(target: float, samples: int, seed: int) -> Reached:
    """Paths of the trend: to draw them again in another process is quicker than to send them there."""
    return when_reached(run_series(), target, samples, seed)


def _slice(scenario: Scenario, of_trend: tuple[float, int, int], system: TrainingSystem, largest: Largest) -> Slice:
    """The trend's paths at the pace of a scenario, and what the system takes on the day that they give."""
    fits = fitted_growth()
    pace = pace_of(scenario, fits)
    reached = reached_under(_trend(*of_trend), pace)
    return Slice(scenario, pace, reached, taken_then(system, reached, (scenario, fits), largest))
