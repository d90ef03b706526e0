"""The question of ``computeledger reconcile``: a plan's budget against what its runs took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from computeledger.fields import Asked, asked

if TYPE_CHECKING:
    from computeledger.economics.plan.read import Plan


@dataclass(frozen=True, kw_only=True)
class ReconcileQuestion(Asked):
    """Budget against actuals by phase, and the utilisation that the next plan can count on."""

    plan: str | Plan = asked("text", "Plan file.", ..., metavar="PLAN.toml", takes_record=True)
    actuals: tuple[str, ...] = asked(
        "texts", "Run ledgers, logs, trackers' files, jobs, pods and bills.", ..., metavar="ACTUALS..."
    )
    price: float | None = asked(
        "usd_per_hour", "Price paid per GPU-hour.", unit="$/h", is_open=True, is_single=True, metavar="$/h",
        blank="the bill's, else the plan's",
    )  # fmt: skip
    gpus: int | None = asked(
        "whole", "GPUs of the run, for logs that do not state them.", least=1, metavar="N", blank="as logged"
    )
    sequence_tokens: int | None = asked(
        "whole", "Sequence length, for logs that do not state it.", least=1, metavar="N", blank="as logged"
    )
    rollouts_per_step: int | None = asked(
        "whole", "Rollouts of an RL step, for logs of TRL, NeMo RL and slime.", least=1, metavar="N", blank="unknown"
    )
    duration: float | None = asked(
        "s", "Time covered by vLLM's counters.", unit=None, is_open=True, is_single=True, metavar="TIME",
        blank="as stamped",
    )  # fmt: skip
    profiled_steps: int | None = asked(
        "whole", "Optimizer steps that a profile covers, for profiles that do not mark them.", least=1, metavar="N",
        blank="as marked",
    )  # fmt: skip
    calibration: str = asked(
        "text", "File to write the calibration for plan --calibration to.", "calibration.toml", metavar="FILE"
    )
