"""RL through time: what must be conserved, what more of something can never do, and a run that can be done by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from computeledger.errors import DoesNotFitError, QuantityError
from computeledger.simulation.rl import tables
from computeledger.simulation.rl.clock import RLClockResult, simulate_rl
from computeledger.simulation.rl.scenario import RLClockScenario, Rollouts, Trainer, WeightSync
from computeledger.simulation.state import Limits, Pool, plain_step_times


def pool(n_replicas: int = 4, live: int = 16) -> Pool:
    batch = np.arange(live + 1.0)
    times = plain_step_times(
        (np.where(batch > 0, 0.01 + 2e-4 * batch, 0.0), np.full(live + 1, 2e-8)),
        (np.array([1.0, 4096.0]), np.array([0.01, 0.2]), np.full(2, 1e-7)),
        0.9,
    )
    return Pool(n_replicas, times, Limits(live, 500_000, 500, 0, 4096))


def scenario(**changes: Any) -> RLClockScenario:
    plain = RLClockScenario(pool(), 1.0, 4.0, Trainer(4.0, 0.5, 2e-6, 6e-6), False, 8, 64, n_verifiers=16)
    return replace(plain, **changes)


def rollouts(n: int, sigma: float = 0.8, verify_s: float = 0.5, seed: int = 0) -> Rollouts:
    rng = np.random.default_rng(seed)
    output = np.exp(np.log(400) + sigma * rng.standard_normal(n) - sigma**2 / 2)
    return Rollouts(
        np.full(n, 100), np.maximum(np.rint(output), 1).astype(int), rng.exponential(verify_s, n), rng.random(n) < 0.8
    )


def run(one: RLClockScenario, **drawn: Any) -> RLClockResult:
    return simulate_rl(one, rollouts(one.n_rollouts, **drawn))


VARIANTS: list[dict[str, Any]] = [
    {},
    {"is_colocated": True},
    {"policy_lag_steps": 1},
    {"policy_lag_steps": 4, "sync": WeightSync(0.3, is_in_flight=False)},
    {"policy_lag_steps": 4, "sync": WeightSync(0.3, rereads=True)},
    {"policy_lag_steps": 2, "sync": WeightSync(0.3, n_remote=2, remote_s=2.0, return_s=0.1)},
    {"policy_lag_steps": 2, "failure_s": 20.0, "repair_s": 4.0},
    {"is_colocated": True, "started_ratio": 1.5},
    {"is_colocated": True, "started_ratio": 1.5, "keeps_partial": True},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_what_is_conserved(changes: dict[str, Any]) -> None:
    result = run(scenario(**changes))
    one, gpu_s = result.scenario, result.gpu_s()
    assert sum(gpu_s.values()) == pytest.approx(one.n_gpus * result.end_s)
    assert min(gpu_s.values()) > -1e-6 * one.n_gpus * result.end_s
    fate = result.run.fate[:, tables.F_STEP]
    written = result.world.req[:, 3]
    unfinished = written[fate == tables.UNTRAINED].sum()
    assert result.sampled_tokens == result.trained_tokens + result.dropped_tokens + unfinished
    trained = result.trained
    assert len(set(trained.tolist())) == len(trained) == one.n_steps * one.rollouts_per_step
    assert np.array_equal(written[trained], result.world.req[trained, 1]), "trained on whole rollouts"
    verified = np.isfinite(result.run.rollouts[:, tables.R_VERIFIED])
    assert np.array_equal(verified, np.isfinite(result.world.when[:, 4])), "one verdict per finished rollout"
    steps = result.run.steps[: one.n_steps]
    assert np.all(np.diff(steps[:, [1, 2, 3, 4]], axis=1) >= -1e-9), "generated, verified, trained, done"
    if not one.keeps_partial:
        assert result.staleness_steps.max() <= one.policy_lag_steps
    assert (result.dropped_tokens > 0) == (one.started_ratio > 1 and not one.keeps_partial)
    again = run(scenario(**changes))
    assert np.array_equal(again.run.steps, result.run.steps, equal_nan=True)


def test_a_run_by_hand() -> None:
    """Two rollouts on one replica, one verifier: 0.1 s to read, 0.1 s per token, 1 s per verdict, 2 s to train."""
    times = plain_step_times(
        (np.array([0.0, 0.1, 0.1]), np.zeros(3)), (np.array([1.0, 2.0]), np.full(2, 0.1), np.zeros(2))
    )
    one = RLClockScenario(
        Pool(1, times, Limits(2, 1000, 0, 0, 100)), 1.0, 1.0, Trainer(1.0, 2.0, 0.0, 0.0), True, 2, 2,
        sync=WeightSync(0.5),
    )  # fmt: skip
    drawn = Rollouts(np.full(4, 10), np.array([11, 21, 11, 21]), np.ones(4), np.ones(4, bool))
    result = simulate_rl(one, drawn)
    generated = 0.1 + 20 * 0.1
    first = [0.0, generated, generated + 1.0, generated + 1.0, generated + 3.0]
    np.testing.assert_allclose(result.run.steps[0], first)
    np.testing.assert_allclose(result.run.steps[1], np.array(first) + first[-1] + np.array([0, 0.5, 0.5, 0.5, 0.5]))


@pytest.mark.parametrize("changes", [{}, {"is_colocated": True}, {"policy_lag_steps": 3}], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_more_verifiers_never_slow_a_step(changes: dict[str, Any], seed: int) -> None:
    steps = [run(scenario(n_verifiers=n, **changes), verify_s=4.0, seed=seed).step_s for n in (1, 2, 8, 32, 1024)]
    assert all(after <= before * (1 + 1e-9) for before, after in pairwise(steps)), steps


@pytest.mark.parametrize("update_s", [6e-6, 4e-4])
@pytest.mark.parametrize("seed", range(2))
def test_a_larger_lag_does_not_raise_the_step_time(update_s: float, seed: int) -> None:
    """Where generation binds, and where training does: the same GPUs and seed."""
    trainer = Trainer(4.0, 0.5, 2e-6, update_s)
    n = scenario(policy_lag_steps=8, n_steps=16).n_rollouts
    drawn = rollouts(n, seed=seed)
    steps = [
        simulate_rl(scenario(policy_lag_steps=lag, n_steps=16, trainer=trainer), drawn).step_s
        for lag in (0, 1, 2, 4, 8)
    ]
    assert all(after <= before * 1.003 for before, after in pairwise(steps)), steps


def test_a_heavier_tail_leaves_more_idle() -> None:
    idle = []
    for sigma in (0.2, 0.5, 0.8, 1.1, 1.4):
        gpu_s = run(scenario(is_colocated=True), sigma=sigma, verify_s=0.01).gpu_s()
        idle.append(gpu_s["waiting for the longest rollouts"] / sum(gpu_s.values()))
    assert idle == sorted(idle)


def test_a_slow_line_between_sites_costs_time_only_without_lag() -> None:
    def step_s(lag: int, remote_s: float) -> float:
        return run(scenario(policy_lag_steps=lag, sync=WeightSync(0.1, n_remote=2, remote_s=remote_s))).step_s

    assert step_s(0, 10.0) > step_s(0, 0.0) + 2.0
    assert step_s(4, 3.0) < 1.2 * step_s(4, 0.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policy_lag_steps": -1}, "policy_lag_steps -1: must not be negative"),
        ({"n_verifiers": 0}, "n_verifiers 0: must be at least 1"),
        ({"is_colocated": True, "policy_lag_steps": 2}, "GPUs of its own"),
        ({"started_ratio": 0.5}, "started_ratio 0.5: must be at least 1"),
        ({"policy_lag_steps": 1, "started_ratio": 1.5}, "need max_lag = 0"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(QuantityError, match=message):
        simulate_rl(scenario(**changes), rollouts(2000))


def test_no_room_for_one_rollout() -> None:
    one = scenario()
    with pytest.raises(DoesNotFitError, match="no room for one rollout"):
        simulate_rl(one, replace(rollouts(one.n_rollouts), prompt_tokens=np.full(one.n_rollouts, 10**6)))
