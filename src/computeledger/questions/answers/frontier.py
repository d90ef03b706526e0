"""Answer what power and money can train, and when: systems, sites, growth, forecasts, runs over several sites."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.arrays import Range, median
from computeledger.errors import InputError, nearest, shown
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model, load_system
from computeledger.fields import Given
from computeledger.frontier.abilities import MIXTURE, Trainable, optimal_tokens, trains
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
from computeledger.frontier.described import DEFAULT_ACCELERATOR
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
    backtest,
    forecast_series,
    run_series,
    site_series,
    when_reached,
)
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
from computeledger.frontier.labs import lab_timeline
from computeledger.frontier.memory import hbm_share
from computeledger.frontier.needs import Needed, needed_system
from computeledger.frontier.shapes import shaped_model
from computeledger.frontier.sheets import UTILIZATION, Schedule, Spending, model_sheet, published_chip, release_dates
from computeledger.frontier.sites import check_claimed_power, share_within, site_rows
from computeledger.frontier.spread import DomainStep, Spread, estimate_spread, levers, steps_by_domain
from computeledger.frontier.steps import SEQUENCE_TOKENS, RunStep, run_model, run_steps
from computeledger.frontier.systems import TrainingSystem, described_system, flop_per_month
from computeledger.frontier.text import text_facts
from computeledger.frontier.trends import Series, date_of, year_of
from computeledger.frontier.working import (
    growth_figures,
    reached_figures,
    run_figures,
    served_figures,
    site_figures,
    system_figures,
)
from computeledger.physics.calibration.efficiency import middle
from computeledger.physics.critical_batch import critical_batch_tokens
from computeledger.physics.transformer import n_params_total
from computeledger.progress import stage
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.answers.setup import check_positive, whole_number
from computeledger.questions.documents import frontier as documents
from computeledger.questions.documents.records import figure_document
from computeledger.questions.frontier import (
    BacktestQuestion,
    ForecastQuestion,
    GrowthQuestion,
    SitesQuestion,
    SystemsQuestion,
)
from computeledger.units import KILO, MONTH_S
from computeledger.workloads.serving.search import SLOWEST_TPOT_S

#: Of a step that an exchange between sites may take where nothing is said (assumption: one second of six).
EXCHANGE_SHARE = 1 / 6


@dataclass(frozen=True, eq=False, slots=True)
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
        utilization, duration = middle(self.question.utilization), middle(self.question.duration)
        system, runs = self.system, self.runs
        document = documents.system_document(system)
        monthly = flop_per_month(system, utilization)
        document["flop_per_month"] = {one: documents.quantity(value, "FLOP") for one, value in monthly.items()}
        document["trains"] = {"months": duration / MONTH_S, "utilization_fraction": utilization, "precision": "bf16"}
        document["trains"] |= {name: documents.timed_run_document(run, self.steps[name]) for name, run in runs.items()}
        document |= documents.decoding_document(self.rl, self.served)
        stock = text_facts()["stock_tokens"]
        tokens = documents.quantity(stock.value, "tokens")
        document["text"] = {"stock_tokens": tokens, "low": stock.low, "high": stock.high}
        document["fits"] = documents.fits_document(list(self.fits))
        document["assumptions"] = _assumed(utilization)
        if working:
            steps = {name: document["trains"][name]["step_s"] for name in runs}
            own = len(system.generations)
            sampled = sum((one.sampled_tokens_per_s for one in self.rl[:own]), start=0.0)
            sold = sum((one.output_tokens_per_s for one in self.served[:own]), start=0.0)
            first = next(one for one in self.fits if one.model == REFERENCE_MODEL)
            document["working"] = [figure_document(one) for one in (
                *system_figures(system), *run_figures(dict(runs), system, (duration, utilization), steps),
                *served_figures(sampled, sold, first),
            )]  # fmt: skip
        return document


def answer_systems(question: SystemsQuestion) -> SystemsAnswer:
    """Answer ``computeledger frontier systems``."""
    system = described_system(question.spec, question.samples, question.seed)
    if median(system.chips) < 1:
        raise InputError(f"{shown(question.spec)}: that is less than one chip")
    runs = trains(system, middle(question.duration), middle(question.utilization))
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


@dataclass(frozen=True, eq=False, slots=True)
class SitesAnswer(Answer):
    """Sites over time, a lab's chips, or a claim about a site."""

    question: SitesQuestion
    document: Mapping[str, Any]
    working: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger frontier sites --json`` prints it."""
        return {**self.document, **({"working": list(self.working)} if working and self.working else {})}


def answer_sites(question: SitesQuestion) -> SitesAnswer:
    """Answer ``computeledger frontier sites``."""
    date = None if question.date is None else checked_day(question.date, "--date")
    folder = None if question.data is None else Path(question.data)
    timelines = list(shipped_sites()) if folder is None else read_timelines(folder)
    if question.claim is not None:
        found = check_claimed_power(question.site or "", middle(question.claim), date or "", timelines)
        return SitesAnswer(question, {"claim": documents.claim_document(found), "credit": CREDIT})
    chips = list(shipped_chips()) if folder is None else read_chips(folder)
    if question.lab is not None:
        dated = lab_timeline(question.lab, chips)
        return SitesAnswer(question, documents.lab_document([one for one in dated if date is None or one.date <= date]))
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
    figures = tuple(figure_document(one) for one in site_figures(rows, shares["power_checked"]))
    return SitesAnswer(question, documents.sites_document(rows, shares), figures)


def _sites(data: str | None) -> Any:
    return None if data is None else read_timelines(Path(data))


@dataclass(frozen=True, eq=False, slots=True)
class BacktestAnswer(Answer):
    """Forecasts from a cut-off beside what came."""

    result: Backtest

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger frontier backtest --json`` prints it."""
        return documents.backtest_document(self.result)


def answer_backtest(question: BacktestQuestion) -> BacktestAnswer:
    """Answer ``computeledger frontier backtest``."""
    return BacktestAnswer(backtest(checked_day(question.cutoff, "--cutoff"), _sites(question.data)))


@dataclass(frozen=True, eq=False, slots=True)
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
            "hbm_capex_fraction": dataclasses.asdict(hbm_share()),
            "scenarios": [documents.projection_document(one) for one in self.projections],
            "credit": CREDIT,
        }


def answer_growth(question: GrowthQuestion) -> GrowthAnswer:
    """Answer ``computeledger frontier growth``."""
    first, last = checked_day(question.first, "--first"), checked_day(question.last, "--last")
    sites = _sites(question.data)
    fits = fitted_growth(first, last, sites)
    years = np.arange(question.years + 1.0)
    projections = [project(one, fits, years) for one in load_scenarios(question.scenario).values()]
    return GrowthAnswer(question, fits, dated_quantities(sites), projections)


@dataclass(frozen=True, eq=False, slots=True)
class ForecastAnswer(Answer):
    """When a training run is possible, and what it takes."""

    question: ForecastQuestion
    reached: Reached
    needed: Needed
    steps: Mapping[str, Sequence[RunStep]]
    powered: Reached
    ahead: Mapping[str, Mapping[str, Any]]

    def probability_by(self, date: str) -> float:
        """Chance that the run is possible by a day, YYYY-MM-DD [-]."""
        return self.reached.probability_by(checked_day(date, "date"))

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger frontier forecast --json`` prints it."""
        question, needed = self.question, self.needed
        document = documents.reached_document(self.reached)
        if question.by is not None:
            document["probability_by"] = {"date": question.by, "probability": self.reached.probability_by(question.by)}
        if question.scenario is not None:
            document["scenarios"] = _scenario_dates(question.scenario, self.reached.series, middle(question.flop))
        document["needs"] = documents.system_document(needed.system)
        document["trains"] = {
            name: documents.timed_run_document(one, self.steps[name]) for name, one in needed.runs.items()
        }
        document["repetition"] = {name: documents.repetition_document(one) for name, one in needed.text.items()}
        document["gpu_time"] = documents.gpu_time_document(needed)
        document["largest_site_has_the_power"] = documents.reached_document(self.powered)
        document |= self.ahead
        document["known_systems"] = documents.known_systems_document(largest_systems())
        document["fits"] = documents.fits_document(weights_fractions())
        if working:
            steps = {name: document["trains"][name]["step_s"] for name in needed.runs}
            given = (middle(question.duration), middle(question.utilization))
            document["working"] = [figure_document(one) for one in (
                *reached_figures(self.reached), *system_figures(needed.system),
                *run_figures(needed.runs, needed.system, given, steps),
            )]  # fmt: skip
        return document | {"credit": CREDIT}


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
    target, duration, utilization = (middle(one) for one in (question.flop, question.duration, question.utilization))
    stage("the record so far")
    series = run_series()
    reached = when_reached(series, target, question.samples, question.seed)
    needed = needed_system(target, question.accelerator, duration, utilization)
    ahead = {}
    for name, one in (("ahead", series), ("sites_ahead", site_series())):
        ends, found = forecast_series(one, "2030-12-31")
        ahead[name] = documents.ahead_document(one, ends, found)
    return ForecastAnswer(
        question=question,
        reached=reached,
        needed=needed,
        steps={name: run_steps(one, needed.system.generations, name) for name, one in needed.runs.items()},
        powered=when_reached(site_series(), float(np.median(needed.system.power_w["facility"])), question.samples),
        ahead=ahead,
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


def answer_spread(options: Mapping[str, Any]) -> dict[str, Any]:
    """A run over several sites."""
    model, params = _spread_model(options)
    placed = options["system"] is not None and options["gpus"] is not None
    if (options["system"] is None) != (options["gpus"] is None):
        raise InputError("--system and --gpus (of one site) go together: the step comes from both")
    if options["step"] is None and not placed:
        raise InputError("--step T is missing; --system ID and --gpus N of one site give it from the operation model")
    given = None if options["step"] is None else middle(options["step"])
    check_positive("--step", given)
    check_positive("--params", params)
    batch = options["batch_tokens"]
    batch_tokens = float(critical_batch_tokens(optimal_tokens(params))) if batch is None else middle(batch)
    check_positive("--batch-tokens", batch_tokens)
    check_positive("--bytes-per-gradient", options["bytes_per_gradient"])
    if options["distance_km"] < 0:
        raise InputError(f"--distance-km {options['distance_km']:g}: must not be negative")
    run = Spread(
        n_params=params,
        step_s=1.0 if given is None else given,
        n_sites=options["sites"],
        distance_metres=options["distance_km"] * KILO,
        local_steps=options["local_steps"],
        bytes_per_gradient=options["bytes_per_gradient"],
    )
    domains = _spread_domains(model, run, options, batch_tokens / options["sites"]) if placed else []
    if given is None:
        own = next(
            one for one in domains if one.n_scale_up == int(load_system(options["system"]).n_gpus_scale_up.value)
        )
        if own.result is None:
            raise InputError(f"--system {options['system']}: {own.problem}")
        run = replace(run, step_s=own.step_s)
    exchange = float(run.step_s) * EXCHANGE_SHARE if options["exchange"] is None else middle(options["exchange"])
    return documents.spread_document(run, levers(run, exchange), domains) | {"batch_tokens": batch_tokens}


def _spread_model(options: Mapping[str, Any]) -> tuple[Model, float]:
    if (options["model"] is None) == (options["params"] is None):
        raise InputError("give --params N or --model ID, one of both: what is exchanged are its gradients")
    if options["model"] is not None:
        model = load_model(options["model"])
        return model, float(n_params_total(model))
    params = middle(options["params"])
    check_positive("--params", params)
    return shaped_model("dense", params), params


def _spread_domains(model: Model, run: Spread, options: Mapping[str, Any], share: float) -> list[DomainStep]:
    gpus = whole_number("--gpus", options["gpus"]) or 1
    estimate_spread(replace(run, step_s=MONTH_S), MONTH_S)  # sites and local steps are checked before the search
    return steps_by_domain(model, load_system(options["system"]), (gpus, share), run, EXCHANGE_SHARE)


def answer_sheet(model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """A model's training FLOP from three sides."""
    names = ("gpu_hours", "usd", "price", "claim")
    given = {name: None if options[name] is None else middle(options[name]) for name in names}
    for name, value in given.items():
        check_positive(f"--{name.replace('_', '-')}", value)
    used: float | Range = options["utilization"] or UTILIZATION
    named, published = options["accelerator"], published_chip(model)
    spending = Spending(
        accelerator_id=named or published or DEFAULT_ACCELERATOR,
        gpu_hours=given["gpu_hours"],
        usd=given["usd"],
        usd_per_gpu_hour=given["price"] or 0.0,
        precision=options["precision"],
        utilization_fraction=used,
        claimed_flop=given["claim"],
    )
    lines = model_sheet(model, spending)
    return {
        "model": model,
        "accelerator": spending.accelerator_id,
        "accelerator_ground": "as asked" if named else "as published" if published else "assumed",
        "lines": [documents.sheet_line_document(line) for line in lines],
        "reconciled": all(line.agrees for line in lines),
    }


def answer_schedule(start: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """When a model is out."""
    names = ("delivery", "installation", "pretraining", "post_training")
    schedule = Schedule(*(options[name] for name in names))
    ends = release_dates(checked_day(start, "START"), schedule)
    return {
        "start": start,
        "ends": {name: dict(zip(("p05", "p50", "p95"), one, strict=True)) for name, one in ends.items()},
    }
