"""Somebody's RL step beside the modelled one: is it normal, where does it differ, and what would help most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from computeledger.actuals.rl_step import MeasuredStep, read_measured_step
from computeledger.arrays import Num, median
from computeledger.questions.answer import Quantity
from computeledger.questions.answers.rl.document import phases_s
from computeledger.workloads.result import quantity
from computeledger.workloads.rl.estimate import RLResult
from computeledger.workloads.rl.levers import Lever
from computeledger.workloads.rl.run import RunCost

REST = "everything else"
#: Phases that follow one another in a step without a lag, and those that the trainer does under one.
_IN_TURN = ("generation", "log-probs", "update", "weight sync")
_OF_TRAINER = ("exposed generation", "log-probs", "update")
#: Changes that an answer lists; a phase counts as slow from so many times the expected time (choices).
_SHOWN, _SLOW_RATIO = 6, 1.1


@dataclass(frozen=True, slots=True)
class Saving:
    """A change to a measured step: what it saves [s], and GPU-time of a token with it over without [-]."""

    name: str
    why: str
    saved_s: float
    gpu_time_ratio: float


@dataclass(frozen=True, slots=True)
class ComparedPhase:
    """One phase of both steps [s]."""

    name: str
    measured_s: float
    expected_s: Num

    @property
    def expected(self) -> Quantity:
        """What runs like this take [s]."""
        return Quantity.of(self.expected_s, "s")

    @property
    def ratio(self) -> float | None:
        """Measured over expected [-]; None where nothing is expected."""
        return self.measured_s / self.expected.p50 if self.expected.p50 > 0 else None

    @property
    def is_inside(self) -> bool:
        """Whether it lies in the 90 % interval."""
        return self.expected.p05 <= self.measured_s <= self.expected.p95

    @property
    def excess_s(self) -> float:
        """Measured minus the expected median [s]."""
        return self.measured_s - self.expected.p50


@dataclass(frozen=True, slots=True)
class Comparison:
    """A measured step beside the modelled one."""

    measured: MeasuredStep
    step: ComparedPhase
    phases: tuple[ComparedPhase, ...]
    slower_fraction: float
    savings: tuple[Saving, ...]

    @property
    def verdict(self) -> str:
        """Where the step lies: ``within`` the 90 % interval, ``slower`` or ``faster``."""
        if self.step.is_inside:
            return "within"
        return "slower" if self.measured.step_s > self.step.expected.p50 else "faster"

    @property
    def largest(self) -> ComparedPhase | None:
        """The phase that the difference of both steps is mostly from; None where no phase is known."""
        sign = 1.0 if self.step.excess_s >= 0 else -1.0
        return max(self.phases, key=lambda one: sign * one.excess_s, default=None)


def compare_step(text: str, run: RunCost, typical: RLResult, levers: list[Lever]) -> Comparison:
    """Lay a step, as typed or logged, beside a run's own."""
    split = run.result.scenario.split
    measured = read_measured_step(text, int(median(split.n_gpus)))
    lagged = split.max_lag > 0
    stated = dict(measured.phases_s)
    if lagged and measured.source != "as stated" and "generation" in stated:
        stated["exposed generation"] = stated.pop("generation")  # a log has what its trainer waited for
    expected = _merged(phases_s(run))
    found = [ComparedPhase(name, value, expected[name]) for name, value in stated.items()]
    found += _rest(measured.step_s, stated, typical)
    modelled = np.asarray(run.result.step_s, float)
    step = ComparedPhase("step", measured.step_s, run.result.step_s)
    return Comparison(
        measured=measured,
        step=step,
        phases=tuple(found),
        slower_fraction=float(np.mean(modelled < measured.step_s)),
        savings=tuple(_savings(step, found, levers, median(typical.step_s))),
    )


def _savings(step: ComparedPhase, phases: list[ComparedPhase], levers: list[Lever], modelled_s: float) -> list[Saving]:
    """What would make the measured step shorter: slow phases mended, and changes in proportion of the modelled step.

    Phases that hide behind others are left to their own: mending them may save nothing.
    """
    found = [
        Saving(one.name, one.why, step.measured_s * (1 - one.step_s / modelled_s), one.gpu_time_ratio) for one in levers
    ]
    for phase in phases:
        is_slow = phase.ratio is not None and phase.ratio > _SLOW_RATIO and phase.name in (*_IN_TURN, *_OF_TRAINER)
        saved_s = min(phase.excess_s, step.excess_s)
        if is_slow and saved_s > 0:
            why = f"it takes {phase.ratio:.2g} times as long as expected"
            found.append(Saving(f"{phase.name} as expected", why, saved_s, 1 - saved_s / step.measured_s))
    return sorted(found, key=lambda one: -one.saved_s)[:_SHOWN]


def _merged(phases: Mapping[str, Num]) -> dict[str, Num]:
    """Phases of a step, log-probs of both policies as one, as logs of most frameworks have them."""
    both = ("old-policy log-probs", "reference log-probs")
    found = {name: part for name, part in phases.items() if name not in both}
    return found | {"log-probs": sum((phases[name] for name in both), start=0.0)}


def _rest(step_s: float, stated: Mapping[str, float], typical: RLResult) -> list[ComparedPhase]:
    """What the stated phases leave of either step, where they are those that follow one another."""
    in_turn = _OF_TRAINER if typical.scenario.split.max_lag else _IN_TURN
    known = [name for name in in_turn if name in stated]
    if len(known) < 2:
        return []
    parts = _merged(typical.phases_s)
    own_s = median(typical.step_s) - sum(median(parts[name]) for name in known)
    left_s = step_s - sum(stated[name] for name in known) - stated.get("reward", 0.0)
    return [ComparedPhase(REST, max(left_s, 0.0), max(own_s, 0.0))]


def comparison_document(one: Comparison) -> dict[str, Any]:
    """As answers print it."""
    largest = one.largest
    return {
        "source": one.measured.source,
        "steps": one.measured.n_steps,
        "verdict": one.verdict,
        "slower_than_fraction": one.slower_fraction,
        "step": _phase_document(one.step),
        "phases": {phase.name: _phase_document(phase) for phase in one.phases},
        "differs_most": None if largest is None else largest.name,
        "levers": [
            {"name": each.name, "why": each.why, "saved_s": each.saved_s,
             "gpu_time_per_token_ratio": each.gpu_time_ratio}
            for each in one.savings
        ],
    }  # fmt: skip


def _phase_document(one: ComparedPhase) -> dict[str, Any]:
    return {
        "measured_s": one.measured_s,
        "expected_s": quantity(one.expected_s, "s"),
        "ratio": one.ratio,
        "excess_s": one.excess_s,
        "inside": one.is_inside if one.expected.p05 < one.expected.p95 else None,
    }
