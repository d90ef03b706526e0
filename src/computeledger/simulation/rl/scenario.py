"""An RL run to simulate: rollouts, trainer, the way of the weights, and what they add up to."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.bounds import AT_LEAST_ONE, POSITIVE, Bound, check_record
from computeledger.errors import QuantityError
from computeledger.fields import MOST_COUNT
from computeledger.simulation.state import Counts, Pool, Times
from computeledger.workloads.rl.scenario import JUDGE_NEEDS_GPUS


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Rollouts of a run, in order of release; what they write is cut into turns by their calls of tools."""

    prompt_tokens: Counts
    output_tokens: Counts
    verify_s: Times
    is_kept: NDArray[np.bool_]
    n_calls: Counts | None = None
    call_observed_tokens: int = 0
    call_s: Times | None = None
    n_failures: Counts | None = None
    failed_fractions: Times | None = None
    kind: Counts | None = None
    group_size: int = 1

    @property
    def failures(self) -> Counts:
        """Attempts at each that fail before the one that does not."""
        return np.zeros(len(self.output_tokens), np.int64) if self.n_failures is None else self.n_failures

    @property
    def calls(self) -> Counts:
        """Calls of tools: fewer than tokens, so that every turn has one."""
        if self.n_calls is None:
            return np.zeros(len(self.output_tokens), np.int64)
        return np.minimum(self.n_calls, self.output_tokens - 1)

    @property
    def sequence_tokens(self) -> Counts:
        """Prompt, what is written and what is observed [token]."""
        return self.prompt_tokens + self.output_tokens + self.calls * self.call_observed_tokens


@dataclass(frozen=True, slots=True)
class Trainer:
    """What a training step takes; of its GPUs some may be outside its layout."""

    n_gpus: float
    fixed_s: float
    logprob_s_per_token: float
    update_s_per_token: float
    n_spare: float = 0.0


@dataclass(frozen=True, slots=True)
class WeightSync:
    """How new weights reach the replicas."""

    load_s: float = 0.0
    is_in_flight: bool = True
    rereads: bool = False
    n_remote: int = 0
    remote_s: float = 0.0
    return_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JudgePool:
    """Replicas of a model that judges rollouts: what they find in their cache is not read, and a score is a token."""

    pool: Pool
    n_gpus_per_replica: float
    own_gpus: float
    shared_tokens: int
    verdict_tokens: int
    votes: int
    n_params_active: float

    def __post_init__(self) -> None:
        check_record(self, n_gpus_per_replica=POSITIVE, verdict_tokens=AT_LEAST_ONE, votes=AT_LEAST_ONE)

    @property
    def is_apart(self) -> bool:
        """Whether it has GPUs of its own; else it judges in turn on the generators'."""
        return self.own_gpus > 0


@dataclass(frozen=True, slots=True)
class RLClockScenario:
    """An RL run to simulate."""

    pool: Pool
    n_gpus_per_replica: float
    n_gpus_generation: float
    trainer: Trainer
    is_colocated: bool
    n_steps: int
    rollouts_per_step: int
    policy_lag_steps: int = 0
    n_verifiers: int = 1
    sync: WeightSync = WeightSync()
    started_ratio: float = 1.0
    keeps_partial: bool = False
    failure_s: float = np.inf
    repair_s: float = 0.0
    environments: float = np.inf
    judge: JudgePool | None = None
    agents: int = 1
    trained_agents: int = 1
    takes_turns: bool = False
    sampling_rounds: float = 1.0
    verifiers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_record(
            self, n_gpus_per_replica=POSITIVE, n_gpus_generation=POSITIVE, n_steps=AT_LEAST_ONE,
            rollouts_per_step=AT_LEAST_ONE, started_ratio=AT_LEAST_ONE, n_verifiers=AT_LEAST_ONE,
            failure_s=Bound(is_open=True, is_endless=True), environments=Bound(1.0, is_endless=True),
            sampling_rounds=AT_LEAST_ONE, agents=AT_LEAST_ONE, trained_agents=AT_LEAST_ONE,
        )  # fmt: skip
        if self.verifiers and min(self.verifiers) < 1:
            raise QuantityError(f"verifiers {self.verifiers}: each kind needs at least 1")

    @property
    def kinds_of_verifiers(self) -> tuple[int, ...]:
        """Verdicts at a time by kind of task [-]."""
        return self.verifiers or (self.n_verifiers,)

    @property
    def n_started(self) -> int:
        """Rollouts started together: for a round of a step, under a lag for all its rounds [-]."""
        rounds = self.sampling_rounds if self.policy_lag_steps else 1.0
        return max(round(self.rollouts_per_step * self.started_ratio * rounds), self.rollouts_per_step)

    @property
    def n_rollouts(self) -> int:
        """Rollouts that the run may start at most [-]."""
        rounds = self.n_steps if self.policy_lag_steps else math.ceil(self.n_steps * self.sampling_rounds)
        return (rounds + (self.started_ratio > 1)) * self.n_started

    @property
    def n_gpus(self) -> float:
        """GPUs of the run [-]."""
        judges = 0.0 if self.judge is None else self.judge.own_gpus
        return judges + self.n_gpus_generation + (0.0 if self.is_colocated else self.trainer.n_gpus)

    @property
    def n_spare_generating(self) -> float:
        """GPUs of the generators that no whole replica takes [-]."""
        return max(self.n_gpus_generation - self.pool.n_replicas * self.n_gpus_per_replica, 0.0)


def check_run(one: RLClockScenario) -> None:
    """Refuse what no run can do.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, constant_step_times
    >>> pool = Pool(1, constant_step_times(8, 0.1, 0.1), Limits(8, 10_000, 0, 0, 512))
    >>> check_run(RLClockScenario(pool, 1.0, 1.0, Trainer(1.0, 1.0, 0.0, 0.0), True, 2, 4, policy_lag_steps=1))
    Traceback (most recent call last):
    computeledger.errors.QuantityError: a lag needs GPUs of its own for training: give training_gpus, or max_lag = 0
    """
    if one.n_rollouts > MOST_COUNT:
        raise QuantityError(
            f"{one.n_steps} steps start {one.n_rollouts:.3g} rollouts: at most {MOST_COUNT:,} are simulated"
        )
    if one.pool.n_replicas < 1:
        raise QuantityError("no replica is left to generate: give generation more GPUs, or a smaller layout")
    if one.is_colocated and one.policy_lag_steps > 0:
        raise QuantityError("a lag needs GPUs of its own for training: give training_gpus, or max_lag = 0")
    if one.judge is not None and one.policy_lag_steps > 0 and not one.judge.is_apart:
        raise QuantityError(JUDGE_NEEDS_GPUS)
    if one.policy_lag_steps > 0 and (one.started_ratio > 1 or one.keeps_partial):
        raise QuantityError("oversampling and partial_rollouts cut a synchronous step short: they need max_lag = 0")
