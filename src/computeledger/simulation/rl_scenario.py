"""An RL run to simulate: rollouts, trainer, the way of the weights, and what they add up to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.bounds import AT_LEAST_ONE, MOST_COUNT, POSITIVE, Bound, check_record
from computeledger.errors import QuantityError
from computeledger.simulation.state import Counts, Pool, Times


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Rollouts of a run, in order of release.

    Attributes
    ----------
    prompt_tokens, output_tokens : ndarray of int
        Lengths [token].
    verify_s : ndarray of float
        Time a verifier spends on each, repeats included [s].
    is_kept : ndarray of bool
        Whether the update trains on it.
    """

    prompt_tokens: Counts
    output_tokens: Counts
    verify_s: Times
    is_kept: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Trainer:
    """What a training step takes.

    Attributes
    ----------
    n_gpus : float
        That train [-].
    fixed_s : float
        Of a step beside its tokens [s].
    logprob_s_per_token, update_s_per_token : float
        Wall time of log-probs over a token of any rollout, of the update over a token of a kept one [s/token].
    """

    n_gpus: float
    fixed_s: float
    logprob_s_per_token: float
    update_s_per_token: float


@dataclass(frozen=True, slots=True)
class WeightSync:
    """How new weights reach the replicas.

    Attributes
    ----------
    load_s : float
        A replica stands still to take them [s].
    is_in_flight : bool
        Whether live rollouts go on with the new weights; otherwise they end with the old ones first.
    rereads : bool
        Whether the caches of live rollouts are computed anew with them.
    n_remote : int
        Replicas at another site [-].
    remote_s, return_s : float
        Until weights have arrived there; until a rollout has come back [s].
    """

    load_s: float = 0.0
    is_in_flight: bool = True
    rereads: bool = False
    n_remote: int = 0
    remote_s: float = 0.0
    return_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RLClockScenario:
    """An RL run to simulate.

    Attributes
    ----------
    pool : Pool
        Replicas that generate.
    n_gpus_per_replica, n_gpus_generation : float
        Of one replica; of all of them, idle rest included [-].
    trainer : Trainer
        Its GPUs are the generators' own where ``is_colocated``.
    is_colocated : bool
        Whether generation and training take turns on the same GPUs.
    n_steps, rollouts_per_step : int
        Training steps, and rollouts each trains on [-].
    policy_lag_steps : int
        Largest policy lag [-].
    n_verifiers : int
        Rollouts that are verified at a time [-].
    sync : WeightSync
        Way of the weights.
    started_ratio : float
        Rollouts started over rollouts trained on; the rest is dropped, or kept where ``keeps_partial`` [-].
    keeps_partial : bool
        Whether rollouts unfinished at the end of a step go on in the next.
    failure_s, repair_s : float
        Mean time between failures of a replica, and until it is back [s].
    """

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

    def __post_init__(self) -> None:
        check_record(
            self, n_gpus_per_replica=POSITIVE, n_gpus_generation=POSITIVE, n_steps=AT_LEAST_ONE,
            rollouts_per_step=AT_LEAST_ONE, started_ratio=AT_LEAST_ONE, n_verifiers=AT_LEAST_ONE,
            failure_s=Bound(is_open=True, is_endless=True),
        )  # fmt: skip

    @property
    def n_started(self) -> int:
        """Rollouts started for a step [-]."""
        return max(round(self.rollouts_per_step * self.started_ratio), self.rollouts_per_step)

    @property
    def n_rollouts(self) -> int:
        """Rollouts that the run may start at most [-]."""
        return (self.n_steps + (self.started_ratio > 1)) * self.n_started

    @property
    def n_gpus(self) -> float:
        """GPUs of the run [-]."""
        return self.n_gpus_generation + (0.0 if self.is_colocated else self.trainer.n_gpus)


def check_run(one: RLClockScenario) -> None:
    """Refuse what no run can do.

    Parameters
    ----------
    one : RLClockScenario
        Before its rollouts are drawn.

    Raises
    ------
    QuantityError
        With what contradicts what, or more rollouts than are simulated.

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
    if one.policy_lag_steps > 0 and (one.started_ratio > 1 or one.keeps_partial):
        raise QuantityError("oversampling and partial_rollouts cut a synchronous step short: they need max_lag = 0")
