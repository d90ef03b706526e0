"""Somebody's RL step beside the modelled one: is it normal, where does it differ, and what would help most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from computeledger.actuals.rl_step import MeasuredStep, read_measured_step
from computeledger.arrays import Num, median
from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.transformer import n_params_active
from computeledger.questions.answer import Quantity
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.result import quantity
from computeledger.workloads.rl.estimate import RLResult
from computeledger.workloads.rl.levers import LEAST_GAIN, Lever
from computeledger.workloads.rl.run import RunCost

REST = "everything else"
#: Phases that follow one another in a step without a lag, and those that the trainer does under one.
_IN_TURN = ("generation", "log-probs", "update", "weight sync")
_OF_TRAINER = ("exposed generation", "log-probs", "update")
#: Under a lag, sides that work beside one another: phases that frameworks log of each, and changes to one of them.
_SIDES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "generators": (
        ("generation",),
        ("more GPUs that generate", "fp8 rollout", "speculative decoding", "another layout", "larger generation batch",
         "more lag", "asynchrony"),
    ),
    "trainer": (("log-probs", "update"), ("more GPUs that train", "fewer optimizer steps")),
}  # fmt: skip
#: Changes that an answer lists; a phase counts as slow from so many times the expected time (choices).
_SHOWN, _SLOW_RATIO = 6, 1.1
#: From how far apart a log and the question differ: logs round, and lengths vary from step to step (a choice).
_SAME_RATIO = 1.05
#: What logs state of a run, in words, with its unit and what states the same in a question.
_STATED: Mapping[str, tuple[str, str, str]] = {
    "n_params_active": ("active parameters", "params", "--model"),
    "gpus": ("GPUs", "GPUs", "--gpus"),
    "rollout_tokens": ("mean rollout", "tokens", "--rollout-tokens"),
    "prompt_tokens": ("mean prompt", "tokens", "--prompt-tokens"),
    "rollouts": ("rollouts a step", "", "--prompts-per-step and --group-size"),
}
#: Fields that tell how long rollouts are.
_LENGTHS = ("rollout_tokens", "rollout_p50_tokens", "rollout_lengths")


@dataclass(frozen=True, slots=True)
class Difference:
    """What a log states otherwise than the question."""

    name: str
    unit: str
    logged: float
    asked: float
    option: str


@dataclass(frozen=True, slots=True)
class LoggedQuestion:
    """A question, its measured step, and what of the log was taken where the question says nothing, by field."""

    question: RLQuestion
    measured: MeasuredStep | None = None
    taken: Mapping[str, float] = field(default_factory=dict)


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
    differences: tuple[Difference, ...] = ()
    taken: Mapping[str, float] = field(default_factory=dict)

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


def with_log(question: RLQuestion) -> LoggedQuestion:
    """Read a question's step, and take the mean rollout and the GPUs from its log where nobody names them."""
    if question.compare_to is None:
        return LoggedQuestion(question)
    measured, taken = read_measured_step(question.compare_to), dict[str, float]()
    asked = question
    if not any(getattr(question, name) is not None for name in _LENGTHS):
        if "rollout_tokens" not in measured.stated:
            tool = measured.source.partition(",")[0]
            raise InputError(f"--rollout-tokens: needed, as the {tool} does not state how long rollouts are")
        taken["rollout_tokens"] = round(measured.stated["rollout_tokens"], 1)
        asked = replace(asked, rollout_tokens=taken["rollout_tokens"])
    said = (question.gpus, question.generation_gpus, question.training_gpus, load_system(question.system).n_gpus)
    if "gpus" in measured.stated and not any(said):
        taken["gpus"] = round(measured.stated["gpus"])
        asked = replace(asked, gpus=round(measured.stated["gpus"]))
    return LoggedQuestion(asked, measured, taken)


def compare_step(logged: LoggedQuestion, run: RunCost, typical: RLResult, levers: list[Lever]) -> Comparison:
    """Lay a step, as typed or logged, beside a run's own."""
    split, measured = run.result.scenario.split, logged.measured
    if measured is None:
        raise InputError("--compare-to: no step to compare with")
    lagged = split.max_lag > 0
    measured.check(lagged)
    stated = dict(measured.phases_s)
    if lagged and measured.is_logged and "generation" in stated:
        stated["exposed generation"] = stated.pop("generation")  # a log has what its trainer waited for
    expected = _merged(run.result.phases_s)
    found = [ComparedPhase(name, value, expected[name]) for name, value in stated.items()]
    found += _rest(measured.step_s, stated, typical)
    modelled = np.asarray(run.result.step_s, float)
    step = ComparedPhase("step", measured.step_s, run.result.step_s)
    return Comparison(
        measured=measured,
        step=step,
        phases=tuple(found),
        slower_fraction=float(np.mean(modelled < measured.step_s)),
        savings=tuple(_savings(step, found, levers, typical)),
        differences=_differences(measured, typical),
        taken=logged.taken,
    )


def _differences(measured: MeasuredStep, typical: RLResult) -> tuple[Difference, ...]:
    """Where a log is of another run than the question's."""
    one = typical.scenario
    asked = {
        "n_params_active": float(n_params_active(one.engine.model)),
        "gpus": median(one.split.n_gpus),
        "rollout_tokens": median(one.sampling.lengths.mean_tokens),
        "prompt_tokens": median(one.sampling.prompt_tokens),
        "rollouts": median(one.algorithm.rollouts),
    }
    said = {**_named_model(measured), **measured.stated}
    return tuple(
        Difference(words, unit, said[name], asked[name], _option(option, said[name]))
        for name, (words, unit, option) in _STATED.items()
        if name in said and asked[name] and not 1 / _SAME_RATIO <= said[name] / asked[name] <= _SAME_RATIO
    )


def _named_model(measured: MeasuredStep) -> dict[str, float]:
    """Active parameters of the model that a log's settings name, where the last part of the path is a known one."""
    try:
        return {"n_params_active": float(n_params_active(load_model(measured.model.rstrip("/").rpartition("/")[2])))}
    except InputError:
        return {}


def _option(name: str, logged: float) -> str:
    """How a question says what a log states; a model and a product of two have no number to give."""
    return f"{name} {logged:.0f}" if name.endswith(("-tokens", "--gpus")) else name


def _savings(step: ComparedPhase, phases: list[ComparedPhase], levers: list[Lever], typical: RLResult) -> list[Saving]:
    """What would make the measured step shorter: slow phases mended, and changes in proportion of the modelled step.

    Under a lag neither saves more than the other side leaves of the step.
    """
    found, modelled_s, is_lagged = [], median(typical.step_s), typical.scenario.split.max_lag > 0
    sides = {name: sum(one.measured_s for one in phases if one.name in own) for name, (own, _) in _SIDES.items()}

    def left_s(name: str) -> float:
        """What the sides that a change leaves alone leave of the step."""
        others = [s for side, s in sides.items() if not any(name in own for own in _SIDES[side])] if is_lagged else []
        return max(step.measured_s - max(others, default=0.0), 0.0)

    for one in levers:
        wanted_s = step.measured_s * (1 - one.step_s / modelled_s)
        saved_s = min(wanted_s, left_s(one.name))
        if saved_s >= LEAST_GAIN * step.measured_s:
            grown = (step.measured_s - saved_s) / (step.measured_s - wanted_s)
            found.append(Saving(one.name, one.why, saved_s, one.gpu_time_ratio * grown))
    for phase in phases:
        is_slow = phase.ratio is not None and phase.ratio > _SLOW_RATIO and phase.name in (*_IN_TURN, *_OF_TRAINER)
        saved_s = min(phase.excess_s, step.excess_s, left_s(phase.name))
        if is_slow and saved_s > 0:
            why = f"it takes {phase.ratio:.2g} times that"
            found.append(Saving(f"{phase.name} in its expected time", why, saved_s, 1 - saved_s / step.measured_s))
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
        "stated": dict(one.measured.stated),
        "taken": dict(one.taken),
        "other_run": [
            {"name": each.name, "unit": each.unit, "logged": each.logged, "asked": each.asked, "option": each.option}
            for each in one.differences
        ],
        "not_stated": [] if not one.measured.is_logged else [
            "model" if name == "n_params_active" else words for name, (words, _, _) in _STATED.items()
            if name not in one.measured.stated and not (name == "n_params_active" and one.measured.model)
        ],
        "remarks": list(one.measured.remarks),
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
