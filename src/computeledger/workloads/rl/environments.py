"""What an agent's run needs beside its GPUs: environments that keep pace, cores, and what a longer horizon costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, median
from computeledger.workloads.rl.estimate import RLResult, estimate_rl
from computeledger.workloads.rl.lengths import Lengths
from computeledger.workloads.rl.scenario import RLMachines, RLScenario
from computeledger.workloads.rl.search import KEEPS_PACE_RATIO

#: Shares of the rollouts under way that are tried, and longer horizons.
_SHARES = np.geomspace(1 / 64, 1.0, 37)
_LONGER = (1.0, 2.0, 4.0)
#: Environments set the pace where more of them shorten a step by more than this share (a choice).
_PACED_FRACTION = 0.1


@dataclass(frozen=True, slots=True)
class Environments:
    """Environments of a run.

    Attributes
    ----------
    busy : float or ndarray
        Episodes under way on average: each holds one [-].
    at_most : float or ndarray
        Episodes that a step would have under way at once, were there an environment for each [-].
    keep_pace : float
        Fewest with which a step takes hardly longer than with one for each [-].
    calls_at_once : float or ndarray
        Calls of tools that are answered at the same time, on average [-].
    more_save_fraction : float
        Of a step, by an environment for each episode in place of those that the run has [-].
    """

    busy: Num
    at_most: Num
    keep_pace: float
    calls_at_once: Num
    more_save_fraction: float = 0.0

    @property
    def set_the_pace(self) -> bool:
        """Whether environments are what a step waits for."""
        return self.more_save_fraction > _PACED_FRACTION


def environments_of(result: RLResult, typical: RLScenario, machines: RLMachines) -> Environments:
    """Size the environments of a run; ``typical`` has single numbers, as have its machines."""
    one, step_s = result.scenario, result.step_s
    agents = one.algorithm.agents
    begun = one.algorithm.rollouts / agents * one.algorithm.sampling_rounds * one.algorithm.started_ratio
    at_most = begun * np.maximum(one.split.max_lag, 1)
    most = median(at_most)
    tried = np.unique(np.ceil(most * _SHARES))
    turns = replace(typical.sampling.turns, environments=tried * median(agents))
    steps = estimate_rl(replace(typical, sampling=replace(typical.sampling, turns=turns)), machines).step_s
    steps_s = np.broadcast_to(steps, tried.shape)
    enough = tried[steps_s <= KEEPS_PACE_RATIO * steps_s[-1]]
    now_s = median(estimate_rl(typical, machines).step_s)
    one_each = begun * result.generation.episode_s / step_s
    return Environments(
        busy=np.minimum(one_each, np.minimum(at_most, one.sampling.turns.environments / agents)),
        at_most=at_most,
        keep_pace=float(enough[0]) if enough.size else most,
        calls_at_once=one.calls * one.sampling.turns.latency_s / step_s,
        more_save_fraction=max(1 - float(steps_s[-1]) / now_s, 0.0),
    )


@dataclass(frozen=True, slots=True)
class Horizon:
    """A run whose episodes have more turns, each as long as before."""

    turns: float
    longest_tokens: float
    step_s: float
    episode_gpu_s: float
    fits: bool


def longer_horizons(scenario: RLScenario, machines: RLMachines) -> list[Horizon]:
    """Price the run with its turns, twice and four times as many: the same layouts, single numbers."""
    found = []
    limit = scenario.engine.model.max_context_tokens or np.inf
    mean = median(scenario.sampling.lengths.mean_tokens)
    turns = 1 + median(scenario.sampling.turns.calls_per_token) * mean
    for longer in _LONGER:
        calls = (longer * turns - 1) / (longer * mean)
        sampling = replace(
            scenario.sampling,
            lengths=Lengths(longer * scenario.sampling.lengths.tokens),
            turns=replace(scenario.sampling.turns, calls_per_token=calls),
        )
        moved = replace(scenario, sampling=sampling)
        result = estimate_rl(moved, machines)
        longest = median(moved.longest_sequence_tokens)
        found.append(
            Horizon(
                turns=longer * turns,
                longest_tokens=longest,
                step_s=median(result.step_s),
                episode_gpu_s=median(result.gpu_s_per_step * moved.algorithm.agents / moved.algorithm.rollouts),
                fits=bool(np.all(result.fits)) and longest <= limit,
            )
        )
    return found
