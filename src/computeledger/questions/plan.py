"""The question of ``computeledger plan``: the life-cycle ledger of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.fields import asked
from computeledger.workloads.questions.setup import Sampled

if TYPE_CHECKING:
    from computeledger.economics.plan.read import Plan


@dataclass(frozen=True, kw_only=True)
class PlanQuestion(Sampled):
    """The three phases of a plan in FLOP and in GPU-time."""

    plan: str | Plan = asked("text", "Plan file.", ..., metavar="PLAN.toml", takes_record=True)
    calibration: str | None = asked("text", "Utilisations of past runs, written by reconcile.", metavar="FILE")
