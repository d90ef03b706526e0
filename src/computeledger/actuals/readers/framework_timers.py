"""What RL frameworks call the times of a step, and the phase of a run ledger that each belongs to."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from computeledger.actuals.readers.tally import ROUNDING
from computeledger.errors import InputError, nearest, shown


@dataclass(frozen=True, slots=True)
class FrameworkTimers:
    """A framework's names of times and tokens.

    Attributes
    ----------
    source : str
        Where they were read, and when.
    phases : mapping of str to str
        Name of a time -> phase.
    step_s : str
        Name of the time of the step [s].
    total_tokens, prompt_tokens_mean, output_tokens_mean, sequence_tokens_mean : str
        Names of a step's tokens, prompts and completions, and of the means per sequence [token].
    throughput_per_gpu : str
        Name of the tokens per second and GPU [token/s].
    scoring : tuple of str
        Names of times in which the model goes over the sequences once, without gradients.
    rollouts : str
        Name of the number of rollouts [-].
    sum_of : str
        What the names of times begin with that add up to the step, where none is the step's own.
    is_beside : bool
        Whether generation may be timed whole where it goes on beside the trainer.
    """

    source: str
    phases: Mapping[str, str] = field(default_factory=dict)
    step_s: str = ""
    total_tokens: str = ""
    prompt_tokens_mean: str = ""
    output_tokens_mean: str = ""
    sequence_tokens_mean: str = ""
    throughput_per_gpu: str = ""
    scoring: tuple[str, ...] = ()
    rollouts: str = ""
    sum_of: str = ""
    is_beside: bool = False

    def with_step(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Metrics with the time of their step, which is the sum of its times where it has no name of its own."""
        parts = [value for name, value in metrics.items() if self.sum_of and name.startswith(self.sum_of)]
        return {**metrics, self.step_s: sum(parts)} if parts else dict(metrics)


@dataclass(frozen=True, slots=True)
class StepTimes:
    """A step by phase, what no timer covers as idle; whether phases overlapped and were scaled to their step."""

    by_phase: Mapping[str, float]
    overlap: bool


@functools.cache
def framework_timers(framework: str) -> FrameworkTimers:
    """Find a framework's names.

    Examples
    --------
    >>> framework_timers("nemo-rl").phases["timing/train/policy_training"]
    'update'
    >>> framework_timers("verls")
    Traceback (most recent call last):
    computeledger.errors.InputError: framework 'verls': did you mean 'verl'?
    """
    text = resources.files("computeledger.actuals.readers").joinpath("framework_timers.toml").read_text("utf-8")
    table = tomllib.loads(text)
    if framework not in table:
        raise InputError(f"framework {shown(framework)}: {nearest(framework, table)}")
    return FrameworkTimers(**table[framework])


def step_times(timers: FrameworkTimers, metrics: Mapping[str, float]) -> StepTimes | str:
    """Sort a step's times into phases; or say what is wrong with them.

    Evaluation that does not fit into the step was made after it, and is beside it.

    Examples
    --------
    >>> seen = {"timing_s/step": 10.0, "timing_s/gen": 6.0, "timing_s/update_actor": 3.0, "timing_s/testing": 50.0}
    >>> step_times(framework_timers("verl"), seen).by_phase
    {'generation': 6.0, 'update': 3.0, 'evaluation': 50.0, 'idle': 1.0}
    """
    step_s = metrics.get(timers.step_s)
    if not step_s:
        return "cut off before the time of its step"
    times: dict[str, float] = {}
    for name, phase in timers.phases.items():
        if duration_s := metrics.get(name):
            times[phase] = times.get(phase, 0.0) + duration_s
    booked = sum(times.values())
    if timers.is_beside and booked > ROUNDING * step_s:  # what the trainer waited for is what its own times leave
        times["generation"] = max(step_s - (booked - times.get("generation", 0.0)), 0.0)
        booked = sum(times.values())
    after: dict[str, float] = {}
    if booked > ROUNDING * step_s and booked - times.get("evaluation", 0.0) <= ROUNDING * step_s:
        after = {"evaluation": times.pop("evaluation")}
        booked = sum(times.values())
    if times.get("generation", 0.0) > ROUNDING * step_s or booked > 2 * step_s:
        return "its phases are longer than its step"
    if booked > step_s:
        times = {phase: duration_s * step_s / booked for phase, duration_s in times.items()}
    return StepTimes({**times, **after, "idle": max(step_s - booked, 0.0)}, booked > ROUNDING * step_s)
