"""Answer ``computeledger plan``: the ledger of a model's life."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from computeledger.actuals.plan_calibration import calibrated, read_calibration
from computeledger.arrays import QUANTILES, Num
from computeledger.economics.income.breakeven import CurvePoint
from computeledger.economics.plan.income import Returns
from computeledger.economics.plan.keys import dimension_of_key
from computeledger.economics.plan.ledger import Ledger, estimate_ledger
from computeledger.economics.plan.phases import Phase
from computeledger.economics.plan.read import Plan, load_plan, read_plan
from computeledger.economics.plan.setting import has_own_engine, serving_anchors, serving_constants
from computeledger.facts.reading import dimension_of
from computeledger.fields import Given
from computeledger.questions.answer import Answer, Quantity, from_python, remarked, remarks_of, unit_name_of
from computeledger.questions.answers.serving.anchors import anchor_document
from computeledger.questions.document import UNITS, picked, unit_of
from computeledger.questions.grounds import efficiency_document, figure_document, term_document
from computeledger.questions.plan import PlanQuestion
from computeledger.workloads.result import quantities, quantity

PHASE_QUANTITIES = ("tokens", "flop", "gpu_hours", "utilization_fraction", "usd", "energy_j")


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PlanAnswer(Answer):
    """The ledger of a plan."""

    question: PlanQuestion
    ledger: Ledger

    @property
    def gpu_hours(self) -> Quantity:
        """GPU-time of all phases, experiments included [GPU-hour]."""
        return Quantity.of(self.ledger.total("gpu_hours"), "GPU-hours")

    @property
    def usd(self) -> Quantity:
        """Cost of all phases, experiments included [USD]."""
        return Quantity.of(self.ledger.total("usd"), "USD")

    @property
    def flop(self) -> Quantity:
        """FLOP of all phases [FLOP]."""
        return Quantity.of(self.ledger.total("flop"), "FLOP")

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger plan --json`` prints it; with ``working``, every formula, input and source."""
        anchored = anchor_document(serving_anchors(self.ledger.plan))
        return remarked(plan_document(self.ledger, working=working), self.remarks) | anchored

    @property
    def unit_name(self) -> str:
        """Of the chips of its phases."""
        return unit_name_of(one.chip for one in self.ledger.phases.values())

    @property
    def remarks(self) -> tuple[str, ...]:
        """Of the models of its phases."""
        plan = self.ledger.plan
        sections = [plan.top, *(one for one in plan.sections.values() if "skip" not in one)]
        return remarks_of(
            tuple(text for one in sections for part in (one, *one.traffic) if (text := part.text("model")))
        )


def plan(
    plan: str | PathLike[str] | Plan | Mapping[str, Any] | PlanQuestion | None = None, /, **given: Given
) -> PlanAnswer:
    """The life-cycle ledger of a plan: three phases in FLOP and GPU-time, with intervals and working.

    Parameters
    ----------
    plan : str, path, Plan, mapping or PlanQuestion
        A plan file, a plan as read, its tables as a file would have them, or a question made before.
    **given : str, float or int
        Fields of :class:`~computeledger.questions.plan.PlanQuestion`: ``samples``, ``seed``, ``calibration``.

    Returns
    -------
    PlanAnswer
        With the :class:`~computeledger.economics.plan.ledger.Ledger` and its samples.

    Raises
    ------
    InputError
        For bad input; errors of a file name its line.

    Examples
    --------
    >>> tables = {"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h", "rl": {"skip": "not planned"},
    ...           "pretraining": {"tokens": "15T tokens", "utilization": "30%..50%"}, "inference": {"skip": "-"}}
    >>> answer = plan(tables, samples=256)
    >>> answer.gpu_hours.p05 < answer.gpu_hours.p50 < answer.gpu_hours.p95
    True
    """
    if isinstance(plan, PlanQuestion):
        return from_python(PlanQuestion, answer_plan, plan, given)
    if isinstance(plan, Mapping):
        plan = read_plan(plan)
    if plan is not None:
        given = {"plan": plan, **given}  # type: ignore[dict-item]
    return from_python(PlanQuestion, answer_plan, None, given)


def answer_plan(question: PlanQuestion) -> PlanAnswer:
    """Answer ``computeledger plan``."""
    loaded = load_plan(question.plan) if isinstance(question.plan, str) else question.plan
    note = {}
    if question.calibration is not None:
        calibration = read_calibration(question.calibration)
        loaded = calibrated(loaded, calibration)
        note = {"utilisation": f"{question.calibration} of {calibration.date}"}
    ledger = estimate_ledger(loaded, question.samples, question.seed)
    return PlanAnswer(question, replace(ledger, editions={**ledger.editions, **note}))


def phase_document(phase: Phase) -> dict[str, Any]:
    """A ledger's phase."""
    return {
        **picked(phase, *PHASE_QUANTITIES, "accelerator", "model", "peak_flop_per_s"),
        "peak_precision": "bf16",
        "choices": dict(phase.choices),
        "details": quantities(phase.details),
    }


def plan_document(ledger: Ledger, working: bool = False) -> dict[str, Any]:
    """A plan's ledger as JSON, the shape that ``plan --json`` prints.

    Parameters
    ----------
    ledger : Ledger
        From :func:`computeledger.economics.plan.ledger.estimate_ledger`.
    working : bool
        Whether every figure's formula, inputs and grounds come along.

    Returns
    -------
    dict
        Phases, totals, shares, balance, drivers, assumptions, editions and sources.

    Examples
    --------
    >>> from computeledger.economics.plan.ledger import estimate_ledger
    >>> from computeledger.economics.plan.read import read_plan
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"tokens": "15T tokens", "utilization": "40%"},
    ...                   "rl": {"skip": "none"}, "inference": {"skip": "none"}})
    >>> list(plan_document(estimate_ledger(plan, n_samples=16))["phases"])
    ['pretraining']
    """
    three = {name: phase for name, phase in ledger.phases.items() if name != "experiments"}
    skipped = {name: one.text("skip") for name, one in ledger.plan.sections.items() if "skip" in one}
    document: dict[str, Any] = {
        "title": ledger.plan.top.text("title") or ledger.plan.name,
        "phases": {name: phase_document(phase) for name, phase in three.items()},
        "skipped": skipped,
        "experiments": phase_document(ledger.phases["experiments"]) if "experiments" in ledger.phases else None,
        "total": {
            name: quantity(ledger.total(name), unit_of(name)) for name in ("flop", "gpu_hours", "usd", "energy_j")
        },
        "shares": {
            "flop": quantities({name: (share, "") for name, share in ledger.shares("flop").items()}),
            "gpu_time": quantities({name: (share, "") for name, share in ledger.shares("gpu_hours").items()}),
            "usd": quantities({name: (share, "") for name, share in ledger.shares_of_cost().items()}),
        },
        "balance": quantities(ledger.balance),
        "drivers": [
            {
                "name": one.name,
                "low": one.value.low,
                "high": one.value.high,
                "unit": driver_unit(one.name),
                "rank_correlation": {"gpu_hours": one.gpu_hours_correlation, "usd": one.usd_correlation},
                "total_at_low": {"gpu_hours": one.gpu_hours_ends[0], "usd": one.usd_ends[0]},
                "total_at_high": {"gpu_hours": one.gpu_hours_ends[1], "usd": one.usd_ends[1]},
            }
            for one in ledger.drivers
        ],
        "assumptions": [term_document(term) for term in ledger.assumptions],
        "editions": dict(ledger.editions),
        "sources": list(ledger.sources),
        "n_samples": ledger.n_samples,
        "seed": ledger.seed,
    }
    if ledger.income is not None:
        document["income"] = income_document(ledger.income)
        document |= {name: document["income"][name] for name in ("payback_months", "margin_fraction")}
    if working:
        everything = [*(figure for phase in ledger.phases.values() for figure in phase.figures), *ledger.figures]
        document["working"] = [figure_document(figure) for figure in everything]
        own = ledger.plan.efficiency.values
        document["efficiency"] = efficiency_document(overrides=own)
        inference = ledger.plan.sections.get("inference")
        if inference is not None and has_own_engine(ledger.plan, inference):
            engine = serving_constants(ledger.plan, inference)
            document["efficiency_of_inference"] = efficiency_document(engine, own)
    return document


#: What an income may lack, by its unit: where it is infinite it does not exist.
_EARNED = {
    "capital_usd": "USD", "revenue_usd": "USD", "cost_usd": "USD", "sold_months": "months", "demand_ratio": "",
    "margin_fraction": "", "payback_months": "months",
    "npv_usd": "USD", "irr_per_year": "", "retire_months": "months", "next_release_months": "months",
    "price_ratio_break_even": "", "traffic_ratio_break_even": "",
}  # fmt: skip


#: Fields in months, whose unit stands in the name of a document only.
_FIELDS = {"payback_months": "payback", "retire_months": "retirement", "next_release_months": "next_release",
           "sold_months": "sold_for"}  # fmt: skip


def income_document(found: Returns) -> dict[str, Any]:
    """What a plan earns, as JSON has it: null where a figure does not exist, such as a payback that never comes.

    Examples
    --------
    >>> tables = {"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h", "pretraining": {"skip": "open"},
    ...           "rl": {"skip": "none"}, "inference": {"rate": "1B tokens/day", "life": "6 months",
    ...           "input_tokens": "2K tokens", "output_tokens": "500 tokens", "layout": "tp1", "batch": 64},
    ...           "income": {"input_price": "0 $/Mtok", "output_price": "0 $/Mtok"}}
    >>> document = plan(tables, samples=16).to_dict()["income"]
    >>> document["revenue_usd"], document["margin_fraction"], document["retire_months"]
    (0.0, None, 0.0)
    """
    users = {"usd_per_free_user_month": found.users.free_user_usd, "usd_per_conversion": found.users.conversion_usd}
    return {
        **{name: _where_finite(getattr(found, _FIELDS.get(name, name)), unit) for name, unit in _EARNED.items()},
        "pays_back_fraction": found.pays_back_fraction,
        **{name: _where_finite(value, "USD") for name, value in users.items() if value is not None},
        "tokens_per_user_day": {
            name: _where_finite(value, "tokens") for name, value in found.users.daily_tokens.items()
        },
        "break_even": [
            {
                "name": one.name,
                "unit": one.unit,
                "must": "stay_above" if one.is_floor else "stay_below",
                "planned": quantity(one.planned, one.unit),
                "value": _where_finite(one.value, one.unit),
                "bounds": [end if np.isfinite(end) else None for end in one.bounds],
            }
            for one in found.break_even
        ],
        "curves": {name: [_point_document(one) for one in points] for name, points in found.curves.items()},
        "value_per_gpu_hour": [
            {
                "phase": one.phase,
                "how": one.how,
                "usd_per_hour": quantity(one.usd, "USD/h"),
                "over_price_ratio": _where_finite(one.over_price, ""),
            }
            for one in found.worth
        ],
        "drivers": [
            {
                "name": one.name,
                "low": one.value.low,
                "high": one.value.high,
                "unit": driver_unit(one.name),
                "rank_correlation": {"npv_usd": one.npv_correlation},
            }
            for one in found.drivers
        ],
    }


def _point_document(one: CurvePoint) -> dict[str, Any]:
    """Money where a driver has one value."""
    return {
        "value": one.value,
        "margin_fraction": _where_finite(one.margin_fraction, ""),
        "payback_months": _where_finite(one.payback, "months"),
        "npv_usd": quantity(one.npv_usd, "USD"),
    }


def _where_finite(value: Num, unit: str) -> Any:
    """A quantity; a quantile that is infinite is null, and so is the whole where all are."""
    samples = np.sort(np.atleast_1d(np.asarray(value, float)))
    if np.all(np.isfinite(samples)):
        return quantity(value, unit)
    if samples[0] == samples[-1]:
        return None
    points = {name: float(samples[round(share * (samples.size - 1))]) for name, share in QUANTILES.items()}
    return {**{name: one if np.isfinite(one) else None for name, one in points.items()}, "unit": unit}


def driver_unit(name: str) -> str:
    """Unit of an uncertain input, told from its name."""
    head, _, key = name.rpartition(".")
    if head.endswith("efficiency"):
        return "s" if key.endswith("_s") else ""
    if head.startswith("price"):
        return "USD/h"
    if head.startswith("power"):
        return "W"
    if head.startswith("ownership"):
        dimension = dimension_of(key)
        return UNITS.get(dimension, dimension)
    dimension = dimension_of_key(head, key)
    return "fraction" if dimension in ("fraction", "growth") else UNITS.get(dimension, "")
