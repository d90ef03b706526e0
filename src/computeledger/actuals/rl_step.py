"""A step of somebody's RL run by phase: as typed, or the median of a log's steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from computeledger.actuals.readers.all_tools import read_actuals, reader_of
from computeledger.actuals.readers.tally import Hints, Tally
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
    """

    step_s: float
    phases_s: Mapping[str, float]
    source: str
    n_steps: int = 1


def read_measured_step(text: str, n_gpus: int) -> MeasuredStep:
    """Read phases as they are typed, or the steps of a log; GPUs only where a log's reader asks for them.

    Examples
    --------
    >>> one = read_measured_step("step=290,gen=180,old_log_prob=10,ref=12s,update=70", 8)
    >>> one.step_s, one.phases_s
    (290.0, {'generation': 180.0, 'log-probs': 22.0, 'update': 70.0})
    """
    if "=" in text:
        return _typed(text)
    return _logged(Path(text), n_gpus)


def _typed(text: str) -> MeasuredStep:
    """Read ``step=290,generation=180``."""
    found: dict[str, float] = {}
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
        found[_PHASE[word]] = found.get(_PHASE[word], 0.0) + read_s
    step_s = found.pop("step", 0.0)
    if not step_s:
        raise InputError(f"--compare-to {shown(text)}: the step's own time is missing: step=290,generation=180")
    return MeasuredStep(step_s, found, "as stated")


def _logged(path: Path, n_gpus: int) -> MeasuredStep:
    """Medians over the steps of a log."""
    steps: dict[tuple[str, int, int], dict[str, float]] = {}
    tool = reader_of(path).tool
    for entry in read_actuals(path, Hints(devices=n_gpus), Tally()):
        if entry.workload != "rl" or entry.step is None or entry.phase in _BESIDE:
            continue
        times = steps.setdefault((entry.run, entry.attempt, entry.step), {})
        times[entry.phase] = times.get(entry.phase, 0.0) + entry.duration_s
    if not steps:
        raise InputError(f"{shown(str(path))}: a {tool} without a step of RL")
    phases = {name: [one.get(key, 0.0) for one in steps.values()] for key, name in PHASE_OF_ENTRY.items()}
    return MeasuredStep(
        step_s=float(np.median([sum(one.values()) for one in steps.values()])),
        phases_s={name: float(np.median(times)) for name, times in phases.items() if any(times)},
        source=f"{tool}, {format_count(len(steps), 'step')}",
        n_steps=len(steps),
    )
