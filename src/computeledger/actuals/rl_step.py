"""A step of somebody's RL run by phase: as typed, or the median of a log's steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from computeledger.actuals.readers import run_ledger_lines
from computeledger.actuals.readers.all_tools import read_actuals, reader_of
from computeledger.actuals.readers.tally import ROUNDING, STATED, Hints, Tally
from computeledger.actuals.readers.trainer_state import STEPS_OF_RECORD
from computeledger.actuals.run_ledger import Entry
from computeledger.errors import InputError, nearest, shown
from computeledger.units import format_count, parse_quantity

#: Phase of a run ledger -> phase of a step as ``rl`` states it. What the trainer waits for is generation there.
PHASE_OF_ENTRY: Mapping[str, str] = {
    "generation": "generation", "verification": "reward", "log-probs": "log-probs", "update": "update",
    "weight sync": "weight sync",
}  # fmt: skip
#: Phases of a run ledger that are beside its steps.
_BESIDE = ("checkpoint", "evaluation", "restart", "next-token reference", "position selection")
#: What people and frameworks call the phases of a step, ``timing_s/`` and ``_time`` left out.
_CALLED: Mapping[str, tuple[str, ...]] = {
    "step": ("step", "total", "total_step"),
    "generation": ("generation", "gen", "rollout", "rollouts", "sampling"),
    "exposed generation": ("exposed_generation", "exposed", "wait"),
    "reward": ("reward", "rewards", "reward_calculation", "verification", "verify"),
    "log-probs": ("log_probs", "logprobs", "logprob", "old_log_prob", "ref", "reference", "ref_log_probs",
                  "policy_and_reference_logprobs"),
    "update": ("update", "training", "train", "policy_training", "update_actor", "actor_train"),
    "weight sync": ("weight_sync", "sync", "refit", "update_weights", "weights"),
}  # fmt: skip
_TYPED = "as stated"
_PHASE = {word: phase for phase, words in _CALLED.items() for word in words}


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A step as it was measured.

    Attributes
    ----------
    step_s : float
        From one update to the next, or the median of several steps [s].
    phases_s : mapping of str to float
        Wall-clock time of those that are known [s].
    source : str
        Where it is from.
    n_steps : int
        Steps that it is the median of.
    stated : mapping of str to float
        What a log states beside times: mean lengths, rollouts, GPUs, active parameters [token, -].
    model : str
        Name or path of the model that a log's settings hold.
    remarks : tuple of str
        What is odd about a log.
    """

    step_s: float
    phases_s: Mapping[str, float]
    source: str
    n_steps: int = 1
    stated: Mapping[str, float] = field(default_factory=dict)
    model: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def is_logged(self) -> bool:
        """Whether it is read from a log."""
        return self.source != _TYPED

    def check(self, lagged: bool) -> None:
        """Refuse a typed step whose phases cannot lie within it.

        Phases follow one another without a lag. With one, generation is beside the trainer, whose phases remain.
        """
        if self.is_logged:
            return
        whole_s, words = ROUNDING * self.step_s, "phases beside one another are those of an asynchronous run: --max-lag"
        beside = ("generation",) if lagged else ()
        for name, time_s in self.phases_s.items():
            if time_s > whole_s and name not in beside:
                raise InputError(
                    f"--compare-to {name.replace(' ', '_')}={time_s:g}: longer than its step of {self.step_s:g} s"
                    + ("" if lagged else f"; {words}")
                )
        waited = "generation" if "generation" in self.phases_s and not lagged else "exposed generation"
        trainers = ("log-probs", "update") if lagged else ("log-probs", "update", "weight sync")
        in_turn = [name for name in (waited, *trainers) if name in self.phases_s]
        sum_s = sum(self.phases_s[name] for name in in_turn)
        if sum_s > whole_s:
            raise InputError(
                f"--compare-to: {' + '.join(in_turn)} take {sum_s:g} s of a step of {self.step_s:g} s"
                + ("" if lagged else f"; {words}")
            )


def is_log(text: str) -> bool:
    """Whether a comparison names a file, not phases as they are typed.

    Examples
    --------
    >>> is_log("step=290"), is_log("run.log")
    (False, True)
    """
    return "=" not in text


def read_measured_step(text: str) -> MeasuredStep:
    """Read phases as they are typed, or the steps of a log.

    Examples
    --------
    >>> one = read_measured_step("step=290,gen=180,old_log_prob=10,ref=12s,update=70")
    >>> one.step_s, one.phases_s
    (290.0, {'generation': 180.0, 'log-probs': 22.0, 'update': 70.0})
    """
    return _logged(Path(text)) if is_log(text) else _typed(text)


def _typed(text: str) -> MeasuredStep:
    """Read ``step=290,generation=180``; log-probs of the old policy and of a reference add up."""
    found: dict[str, float] = {}
    said: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        word = name.strip().lower().removeprefix("timing_s/").replace("-", "_").replace(" ", "_").removesuffix("_time")
        if word not in _PHASE:
            raise InputError(f"--compare-to {shown(part.strip())}: {nearest(word, tuple(_PHASE))}")
        try:
            read_s = parse_quantity(value.strip(), "s", "s")
        except InputError as error:
            raise InputError(f"--compare-to {error}") from None
        if not isinstance(read_s, float) or read_s < 0:
            raise InputError(f"--compare-to {shown(part.strip())}: a single time is needed, such as {word}=70")
        phase = _PHASE[word]
        before = said.setdefault(phase, word)
        if phase in found and (word == before or phase != "log-probs"):
            raise InputError(f"--compare-to {shown(part.strip())}: {before} has said it already")
        found[phase] = found.get(phase, 0.0) + read_s
    if "step" not in found:
        raise InputError(f"--compare-to {shown(text)}: the step's own time is missing: step=290,generation=180")
    step_s = found.pop("step")
    if not step_s:
        raise InputError(f"--compare-to {shown(text)}: a step takes more than 0 s")
    return MeasuredStep(step_s, found, _TYPED)


def _logged(path: Path) -> MeasuredStep:
    """Medians over the steps of a log; a phase that fewer than half of them have is left in the rest."""
    steps: dict[tuple[str, int, int], dict[str, float]] = {}
    tool, tally, counted = reader_of(path).tool, Tally(), _Counted()
    for entry in read_actuals(path, Hints(is_timed_only=True), tally):
        if entry.workload != "rl" or entry.step is None or entry.phase in _BESIDE:
            continue
        times = steps.setdefault((entry.run, entry.attempt, entry.step), {})
        times[entry.phase] = times.get(entry.phase, 0.0) + entry.duration_s
        counted.add(entry)
    if not steps:
        raise InputError(f"{shown(str(path))}: a {tool} without a step of RL")
    phases = {name: [one[key] for one in steps.values() if key in one] for key, name in PHASE_OF_ENTRY.items()}
    observed = {name: tally.observed[name].mean for name in STATED if name in tally.observed}
    # one record of a trainer's state stands for several steps
    each = tally.observed[STEPS_OF_RECORD].mean if STEPS_OF_RECORD in tally.observed else 1.0
    n_steps = round(len(steps) * each)
    usual = {name: times for name, times in phases.items() if 2 * len(times) >= len(steps)}
    return MeasuredStep(
        step_s=float(np.median([sum(one.values()) for one in steps.values()])) / each,
        phases_s={name: float(np.median(times)) / each for name, times in usual.items()},
        source=f"{tool}, {format_count(n_steps, 'step')}",
        n_steps=n_steps,
        stated=counted.stated(len(steps)) if tool == run_ledger_lines.TOOL else observed,
        model=next(iter(tally.models), ""),
        remarks=tuple(
            f"{words}: {format_count(seen.count, 'line')} of the log, line {seen.line} first"
            for words, seen in (*tally.damaged.items(), *tally.remarks.items())
        ),
    )


class _Counted:
    """What the entries of a run ledger say of its steps beside times."""

    def __init__(self) -> None:
        self.tokens = {"sampled": 0.0, "input": 0.0}
        self.sequences = {"generation": 0.0, "update": 0.0}
        self.devices = self.n_params = 0

    def add(self, entry: Entry) -> None:
        """Count an entry."""
        self.devices, self.n_params = entry.devices, entry.n_params_active or self.n_params
        if entry.phase in self.sequences:
            self.sequences[entry.phase] += entry.sequences or 0.0
        if entry.phase == "generation":
            for kind in self.tokens:
                self.tokens[kind] += entry.tokens_by_kind.get(kind, 0.0)

    def stated(self, n_steps: int) -> dict[str, float]:
        """Means of a step, where they are counted."""
        rollouts = self.sequences["generation"] or self.sequences["update"]
        found = {"gpus": float(self.devices), "n_params_active": float(self.n_params), "rollouts": rollouts / n_steps}
        if rollouts:
            found |= {f"{word}_tokens": self.tokens[kind] / rollouts
                      for word, kind in (("rollout", "sampled"), ("prompt", "input"))}  # fmt: skip
        return {name: value for name, value in found.items() if value}
