"""Answer questions about single runs: over several sites, a published model's FLOP, and the calendar of a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from computeledger.errors import InputError
from computeledger.facts.architecture import Model
from computeledger.facts.load import load_model, load_system
from computeledger.fields import Given
from computeledger.frontier.abilities import optimal_tokens
from computeledger.frontier.described import DEFAULT_ACCELERATOR
from computeledger.frontier.epoch_files import checked_day
from computeledger.frontier.shapes import shaped_model
from computeledger.frontier.sheets import (
    UTILIZATION,
    Schedule,
    SheetLine,
    Spending,
    model_sheet,
    published_chip,
    release_dates,
)
from computeledger.frontier.spread import (
    DomainStep,
    SitesPrice,
    Spread,
    SpreadResult,
    estimate_spread,
    fibre,
    levers,
    prices_of_sites,
    steps_by_domain,
)
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.critical_batch import critical_batch_tokens
from computeledger.physics.transformer import n_params_total
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.document import document
from computeledger.questions.frontier import FlopSheetQuestion, ScheduleQuestion, SpreadQuestion
from computeledger.units import KILO, MONTH_S

#: Of a step that an exchange between sites may take where nothing is said (assumption: one second of six).
EXCHANGE_SHARE = 1 / 6


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SpreadAnswer(Answer):
    """A run over several sites: its links, what changes them, and its step by size of the scale-up domain."""

    question: SpreadQuestion
    run: Spread
    changed: Mapping[str, SpreadResult]
    domains: Sequence[DomainStep]
    batch_tokens: float
    prices: Sequence[SitesPrice]

    @property
    def links(self) -> SpreadResult:
        """What the links between the sites need, as asked."""
        return self.changed["as asked"]

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger frontier spread --json`` prints it."""
        run, rate = self.run, fibre()
        return {
            "n_params": run.n_params,
            "n_sites": run.n_sites,
            "local_steps": run.local_steps,
            "site_step_s": run.step_s,
            "bytes_per_gradient": run.bytes_per_gradient,
            **document(self.links),
            "fibre_bytes_per_s": {"value": rate.value, "low": rate.low, "high": rate.high, "source": rate.source},
            "levers": [{"change": name} | document(one) for name, one in self.changed.items()],
            "domains": [_domain_document(one) for one in self.domains],
            "batch_tokens": self.batch_tokens,
            "prices": [document(one) for one in self.prices],
        }


def _domain_document(one: DomainStep) -> dict[str, Any]:
    """A step on domains of one size; no figures where none is found."""
    return {
        "n_scale_up": one.n_scale_up,
        "layout": one.layout,
        "problem": one.problem,
        "step_s": None if one.problem else one.step_s,
        "mfu_fraction": None if one.problem else one.mfu_fraction,
        "links": None if one.result is None else document(one.result),
    }


def spread(question: SpreadQuestion | None = None, /, **given: Given) -> SpreadAnswer:
    """One training run over several sites: what its links must carry, and what changes that.

    Parameters
    ----------
    question : SpreadQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or Range
        Fields of :class:`~computeledger.questions.frontier.SpreadQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    SpreadAnswer
        Bytes sent, rates each way, pairs of fibres and the mean step, as asked and with one thing changed.

    Raises
    ------
    InputError
        For bad input, and for an exchange that light alone takes longer for.

    Examples
    --------
    >>> answer = spread(params="405B", step="6s", exchange="1s")
    >>> halved = spread(answer.question, bytes_per_gradient=2)
    >>> halved.links.bytes_per_s / answer.links.bytes_per_s
    0.5
    """
    return from_python(SpreadQuestion, answer_spread, question, given)


def answer_spread(question: SpreadQuestion) -> SpreadAnswer:
    """Answer ``computeledger frontier spread``."""
    model, params = _spread_model(question)
    given = None if question.step is None else median_of(question.step)
    asked = question.batch_tokens
    batch_tokens = float(critical_batch_tokens(optimal_tokens(params))) if asked is None else median_of(asked)
    run = Spread(
        n_params=params,
        step_s=1.0 if given is None else given,
        n_sites=question.sites,
        distance_metres=question.distance_km * KILO,
        local_steps=question.local_steps,
        bytes_per_gradient=question.bytes_per_gradient,
    )
    domains = _spread_domains(model, run, question, batch_tokens / question.sites)
    if given is None:
        own = next(one for one in domains if one.n_scale_up == _scale_up(question.system or ""))
        if own.result is None:
            raise InputError(f"--system {question.system}: {own.problem}")
        run = replace(run, step_s=own.step_s)
    exchange = float(run.step_s) * EXCHANGE_SHARE if question.exchange is None else median_of(question.exchange)
    prices = prices_of_sites(run, optimal_tokens(params), question.gpus)
    return SpreadAnswer(question, run, levers(run, exchange), domains, batch_tokens, prices)


def _scale_up(system: str) -> int:
    return int(load_system(system).n_gpus_scale_up.value)


def _spread_model(question: SpreadQuestion) -> tuple[Model, float]:
    if question.params is not None:
        params = median_of(question.params)
        return shaped_model("dense", params), params
    model = load_model(question.model or "")
    return model, float(n_params_total(model))


def _spread_domains(model: Model, run: Spread, question: SpreadQuestion, share: float) -> list[DomainStep]:
    if question.system is None or question.gpus is None:
        return []
    estimate_spread(replace(run, step_s=MONTH_S), MONTH_S)  # sites and local steps are checked before the search
    return steps_by_domain(model, load_system(question.system), (question.gpus, share), run, EXCHANGE_SHARE)


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class FlopSheetAnswer(Answer):
    """A published model's training FLOP from several sides, and whether they agree."""

    question: FlopSheetQuestion
    model: str
    accelerator: str
    accelerator_ground: str
    lines: Sequence[SheetLine]
    reconciled: bool


def flop_sheet(question: FlopSheetQuestion | None = None, /, **given: Given) -> FlopSheetAnswer:
    """A published model's training FLOP from parameters, hardware-time and price: reconciled, or in conflict.

    Parameters
    ----------
    question : FlopSheetQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or Range
        Fields of :class:`~computeledger.questions.frontier.FlopSheetQuestion`: texts with units, or numbers in SI
        units.

    Returns
    -------
    FlopSheetAnswer
        A line for each side that is known, and whether all of them agree with 6 N D.

    Raises
    ------
    InputError
        For bad input, and for a model whose training tokens are not published.

    Examples
    --------
    >>> answer = flop_sheet(model="deepseek-v3")
    >>> answer.reconciled, flop_sheet(answer.question, claim=5e24).reconciled
    (True, False)
    """
    return from_python(FlopSheetQuestion, answer_flop_sheet, question, given)


def answer_flop_sheet(question: FlopSheetQuestion) -> FlopSheetAnswer:
    """Answer ``computeledger frontier sheet``."""
    hours, usd, claim = (
        None if one is None else median_of(one) for one in (question.gpu_hours, question.usd, question.claim)
    )
    named, published = question.accelerator, published_chip(question.model)
    spending = Spending(
        accelerator_id=named or published or DEFAULT_ACCELERATOR,
        gpu_hours=hours,
        usd=usd,
        usd_per_gpu_hour=median_of(question.price),
        precision=question.precision,
        utilization_fraction=question.utilization or UTILIZATION,
        claimed_flop=claim,
    )
    lines = model_sheet(question.model, spending)
    ground = "as asked" if named else "as published" if published else "assumed"
    reconciled = all(line.agrees for line in lines)
    return FlopSheetAnswer(question, question.model, spending.accelerator_id, ground, lines, reconciled)


@dataclass(frozen=True, slots=True)
class Day:
    """A day with its 90 % interval, YYYY-MM-DD."""

    p05: str
    p50: str
    p95: str


@dataclass(frozen=True, repr=False, slots=True)
class ScheduleAnswer(Answer):
    """Ends of the steps on the way to a release."""

    start: str
    ends: Mapping[str, Day]

    @property
    def release(self) -> Day:
        """When the model is out."""
        return self.ends["post-training"]


def schedule(question: ScheduleQuestion | None = None, /, **given: Given) -> ScheduleAnswer:
    """When a model is out: delivery, installation, pretraining and post-training one after the other.

    Parameters
    ----------
    question : ScheduleQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or Range
        Fields of :class:`~computeledger.questions.frontier.ScheduleQuestion`: texts with units, or numbers in seconds.

    Returns
    -------
    ScheduleAnswer
        The end of each step with its 90 % interval.

    Raises
    ------
    InputError
        For a day that is none, and for bad lengths.

    Examples
    --------
    >>> schedule(start="2025-01-15", installation="5 months").release.p50
    '2025-11-15'
    """
    return from_python(ScheduleQuestion, answer_schedule, question, given)


def answer_schedule(question: ScheduleQuestion) -> ScheduleAnswer:
    """Answer ``computeledger frontier schedule``."""
    lengths = Schedule(question.delivery, question.installation, question.pretraining, question.post_training)
    ends = release_dates(checked_day(question.start, "start"), lengths)
    return ScheduleAnswer(question.start, {name: Day(*days) for name, days in ends.items()})
