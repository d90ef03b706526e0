"""Answer ``computeledger plan``: the ledger of a model's life."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from computeledger.actuals.plan_calibration import calibrated, read_calibration
from computeledger.economics.plan.ledger import Ledger, estimate_ledger
from computeledger.economics.plan.read import Plan, load_plan, read_plan
from computeledger.fields import Given
from computeledger.questions.answer import Answer, Quantity, from_python, remarked, remarks_of
from computeledger.questions.documents.records import plan_document
from computeledger.questions.plan import PlanQuestion


@dataclass(frozen=True, eq=False, slots=True)
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

    @property
    def read_from(self) -> str | None:
        """The plan file, over which no report is written."""
        return self.question.plan if isinstance(self.question.plan, str) else None

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger plan --json`` prints it; with ``working``, every formula, input and source."""
        return remarked(plan_document(self.ledger, working=working), self.remarks)

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
