"""Answer what power and money can train, and when: systems, sites, growth, forecasts, runs over several sites."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.arrays import median
from computeledger.errors import InputError, nearest, shown
from computeledger.facts.load import load_model
from computeledger.fields import Given
from computeledger.frontier.abilities import MIXTURE, Trainable, trains
from computeledger.frontier.decoding import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    REFERENCE_MODEL,
    ROLLOUT_TOKENS,
    Reinforces,
    Serves,
    reinforces,
    serves,
)
from computeledger.frontier.epoch_files import (
    CREDIT,
    checked_day,
    read_chips,
    read_timelines,
    shipped_chips,
    shipped_sites,
)
from computeledger.frontier.fits import MODELS, SYSTEMS, Fit, weights_fractions
from computeledger.frontier.forecast import (
    Backtest,
    Reached,
    forecast_series,
    run_series,
    site_series,
    when_reached,
)
from computeledger.frontier.forecast import backtest as backtest_series
from computeledger.frontier.growth import (
    Growth,
    Projection,
    dated_quantities,
    fitted_growth,
    flat_funding_slowdown,
    largest_systems,
    load_scenarios,
    project,
    years_to_grow,
)
from computeledger.frontier.labs import LabDate, lab_timeline
from computeledger.frontier.memory import hbm_share
from computeledger.frontier.needs import Needed, needed_system
from computeledger.frontier.sites import ClaimedPower, SiteRow, check_claimed_power, share_within, site_rows
from computeledger.frontier.steps import SEQUENCE_TOKENS, RunStep, run_model, run_steps
from computeledger.frontier.systems import TrainingSystem, described_system, flop_per_month
from computeledger.frontier.text import text_facts
from computeledger.frontier.trends import Predicted, Series, date_of, year_of
from computeledger.frontier.working import (
    growth_figures,
    reached_figures,
    run_figures,
    served_figures,
    site_figures,
    system_figures,
)
from computeledger.physics.calibration.efficiency import median_of
from computeledger.progress import stage
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.document import document
from computeledger.questions.documents import frontier as documents
from computeledger.questions.documents.records import figure_document
from computeledger.questions.frontier import (
    BacktestQuestion,
    ForecastQuestion,
    GrowthQuestion,
    SitesQuestion,
    SystemsQuestion,
)
from computeledger.units import MONTH_S
from computeledger.workloads.result import quantity
from computeledger.workloads.serving.search import SLOWEST_TPOT_S


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SystemsAnswer(Answer):
    """What a system has, costs, trains, does RL with, and serves."""

    question: SystemsQuestion
    system: TrainingSystem
    runs: Mapping[str, Trainable]
    steps: Mapping[str, Sequence[RunStep]]
    rl: Sequence[Reinforces]
    served: Sequence[Serves]
    fits: Sequence[Fit]

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger frontier systems --json`` prints it."""
        utilization, duration = median_of(self.question.utilization), median_of(self.question.duration)
        system, runs = self.system, self.runs
        found = documents.system_document(system)
        monthly = flop_per_month(system, utilization)
        found["flop_per_month"] = {one: quantity(value, "FLOP") for one, value in monthly.items()}
        found["trains"] = {"months": duration / MONTH_S, "utilization_fraction": utilization, "precision": "bf16"}
        found["trains"] |= {name: documents.timed_run_document(run, self.steps[name]) for name, run in runs.items()}
        found |= documents.decoding_document(self.rl, self.served)
        stock = text_facts()["stock_tokens"]
        tokens = quantity(stock.value, "tokens")
        found["text"] = {"stock_tokens": tokens, "low": stock.low, "high": stock.high}
        found["fits"] = [document(one) for one in self.fits]
        found["assumptions"] = _assumed(utilization)
        if working:
            steps = {name: found["trains"][name]["step_s"] for name in runs}
            own = len(system.generations)
            sampled = sum((one.sampled_tokens_per_s for one in self.rl[:own]), start=0.0)
            sold = sum((one.output_tokens_per_s for one in self.served[:own]), start=0.0)
            first = next(one for one in self.fits if one.model == REFERENCE_MODEL)
            found["working"] = [figure_document(one) for one in (
                *system_figures(system), *run_figures(dict(runs), system, (duration, utilization), steps),
                *served_figures(sampled, sold, first),
            )]  # fmt: skip
        return found


def systems(question: SystemsQuestion | None = None, /, **given: Given) -> SystemsAnswer:
    """What a system of chips, power, money or buildings has, costs, trains and serves.

    Parameters
    ----------
    question : SystemsQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or Range
        Fields of :class:`~computeledger.questions.frontier.SystemsQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    SystemsAnswer
        The system, the runs that fill its time with their steps, RL, serving, and which models fit.

    Raises
    ------
    InputError
        For a text that describes no system, and for less than one chip.

    Examples
    --------
    >>> run = systems(spec="1K chips of h100-sxm5-80gb", samples=16).runs
    >>> bool(run["dense"].n_params_active < run["moe"].n_params_total)
    True
    """
    return from_python(SystemsQuestion, answer_systems, question, given)


def answer_systems(question: SystemsQuestion) -> SystemsAnswer:
    """Answer ``computeledger frontier systems``."""
    system = described_system(question.spec, question.samples, question.seed)
    if median(system.chips) < 1:
        raise InputError(f"{shown(question.spec)}: that is less than one chip")
    runs = trains(system, median_of(question.duration), median_of(question.utilization))
    models = [load_model(REFERENCE_MODEL), *(run_model(run, name) for name, run in runs.items())]
    names = [one.system.id for one in system.generations if one.system is not None]
    return SystemsAnswer(
        question=question,
        system=system,
        runs=runs,
        steps={name: run_steps(run, system.generations, name) for name, run in runs.items()},
        rl=[reinforces(model, one) for model in models for one in system.generations],
        served=[serves(model, one) for model in models for one in system.generations],
        fits=weights_fractions([*MODELS, *models[1:]], list(dict.fromkeys([*names, *SYSTEMS]))),
    )


def _assumed(utilization: float) -> dict[str, Any]:
    return {
        "utilization_fraction": utilization,
        "sequence_tokens": SEQUENCE_TOKENS,
        "reference_model": REFERENCE_MODEL,
        "served_tpot_s": SLOWEST_TPOT_S,
        "served_input_tokens": INPUT_TOKENS,
        "served_output_tokens": OUTPUT_TOKENS,
        "mean_rollout_tokens": ROLLOUT_TOKENS,
        "moe_total_over_active_ratio": MIXTURE.total_over_active_ratio,
        "moe_tokens_ratio": MIXTURE.tokens_ratio,
        "moe_compute_ratio": MIXTURE.compute_ratio,
    }


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SitesAnswer(Answer):
    """Sites over time, with how many of them agree with what was published."""

    question: SitesQuestion
    rows: Sequence[SiteRow]
    shares: Mapping[str, tuple[int, int]]

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger frontier sites --json`` prints it."""
        found = documents.sites_document(self.rows, self.shares)
        if working:
            figures = site_figures(list(self.rows), self.shares["power_checked"])
            found["working"] = [figure_document(one) for one in figures]
        return found


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class LabAnswer(Answer):
    """Chips of a lab over time, at the sites that the data name."""

    lab: Sequence[LabDate]
    credit: str = CREDIT


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ClaimAnswer(Answer):
    """A claim about a site beside the data."""

    found: ClaimedPower

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger frontier sites --claim --json`` prints it."""
        return {
            "claim": document(self.found) | {"interval_from": documents.interval_document()},
            "credit": CREDIT,
        }


AnySites = SitesAnswer | LabAnswer | ClaimAnswer


def sites(question: SitesQuestion | None = None, /, **given: Given) -> AnySites:
    """Data-centre sites over time, a lab's chips, or a claim about a site.

    Parameters
    ----------
    question : SitesQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or Range
        Fields of :class:`~computeledger.questions.frontier.SitesQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    SitesAnswer, LabAnswer or ClaimAnswer
        Sites with H100-equivalents recomputed from chip counts beside the published ones; a lab's chips with ``lab``; a
        verdict with ``claim``.

    Raises
    ------
    InputError
        For bad input, and for a site or lab that the data do not name.

    Examples
    --------
    >>> one = sites(site="Stargate Abilene", claim="400 MW", date="2025-12-31").found
    >>> one.interval_w[0] < one.facility_w < one.interval_w[1]
    True
    """
    return from_python(SitesQuestion, answer_sites, question, given)


def answer_sites(question: SitesQuestion) -> AnySites:
    """Answer ``computeledger frontier sites``."""
    date = None if question.date is None else checked_day(question.date, "--date")
    folder = None if question.data is None else Path(question.data)
    timelines = list(shipped_sites()) if folder is None else read_timelines(folder)
    if question.claim is not None:
        return ClaimAnswer(check_claimed_power(question.site or "", median_of(question.claim), date or "", timelines))
    chips = list(shipped_chips()) if folder is None else read_chips(folder)
    if question.lab is not None:
        dated = lab_timeline(question.lab, chips)
        return LabAnswer([one for one in dated if date is None or one.date <= date])
    rows = site_rows(timelines, chips)
    shares = {
        "power_checked": share_within(rows),
        "power_checked_observed": share_within(rows, projected=False),
        "counted": share_within(rows, counted=True),
        "counted_observed": share_within(rows, projected=False, counted=True),
    }
    asked = question.site
    kept = [row for row in rows if asked is None or asked.lower() in row.published.name.lower()]
    if not kept:
        raise InputError(f"--site {asked!r}: {nearest(asked or '', {r.published.name for r in rows})}")
    rows = [row for row in kept if date is None or row.published.date <= date]
    return SitesAnswer(question, rows, shares)


def _sites(data: str | None) -> Any:
    return None if data is None else read_timelines(Path(data))


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class BacktestAnswer(Answer):
    """Forecasts from a cut-off beside what came."""

    result: Backtest

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
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

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger frontier growth --json`` prints it."""
        fits = dict(self.fits)
        return {
            **({"working": [figure_document(one) for one in growth_figures(fits)]} if working else {}),
            "growth": [documents.growth_document(one, self.dated[one.name]) for one in fits.values()],
            "flat_funding_slowdown": flat_funding_slowdown(fits["site_h100e"], fits["h100e_per_usd"]),
            "hbm_capex_fraction": document(hbm_share()),
            "scenarios": [documents.projection_document(one) for one in self.projections],
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
    return GrowthAnswer(question, fits, dated_quantities(sites), projections)


@dataclass(frozen=True, slots=True)
class Ahead:
    """A series with its forecast at the ends of quarters."""

    series: Series
    dates: Sequence[str]
    predicted: Predicted


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ForecastAnswer(Answer):
    """When a training run is possible, and what it takes."""

    question: ForecastQuestion
    reached: Reached
    needed: Needed
    steps: Mapping[str, Sequence[RunStep]]
    powered: Reached
    ahead: Mapping[str, Ahead]

    def probability_by(self, date: str) -> float:
        """Chance that the run is possible by a day, YYYY-MM-DD [-]."""
        return self.reached.probability_by(checked_day(date, "date"))

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger frontier forecast --json`` prints it."""
        question, needed = self.question, self.needed
        found = documents.reached_document(self.reached)
        if question.by is not None:
            found["probability_by"] = {"date": question.by, "probability": self.reached.probability_by(question.by)}
        if question.scenario is not None:
            found["scenarios"] = _scenario_dates(question.scenario, self.reached.series, median_of(question.flop))
        found["needs"] = documents.system_document(needed.system)
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
    series = run_series()
    reached = when_reached(series, target, question.samples, question.seed)
    needed = needed_system(target, question.accelerator, duration, utilization)
    both = {"ahead": series, "sites_ahead": site_series()}
    return ForecastAnswer(
        question=question,
        reached=reached,
        needed=needed,
        steps={name: run_steps(one, needed.system.generations, name) for name, one in needed.runs.items()},
        powered=when_reached(site_series(), float(np.median(needed.system.power_w["facility"])), question.samples),
        ahead={name: Ahead(one, *forecast_series(one, "2030-12-31")) for name, one in both.items()},
    )


def _scenario_dates(given: str, series: Series, target: float) -> list[dict[str, Any]]:
    """When the largest run reaches a size if it grows as the largest system does in a scenario: a date, no interval."""
    fits, known, last = fitted_growth(), float(series.values[-1]), year_of(series.dates[-1])
    found = []
    for one in load_scenarios(given).values():
        years = years_to_grow(one, fits, target / known)
        date = date_of(last + years) if math.isfinite(years) else None
        found.append({"scenario": one.name, "note": one.note, "date": date})
    return found
