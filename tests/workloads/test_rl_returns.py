"""What RL buys: laws recovered from their own points, forecasts that refuse to reach too far, pass@k by counting."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from computeledger.errors import QuantityError
from computeledger.workloads.rl.coverage import (
    CoverageFit,
    budget_demand,
    fit_coverage,
    pass_at_k,
)
from computeledger.workloads.rl.returns import fit_reward, reward_power_law, reward_sigmoid

COMPUTE = np.geomspace(200.0, 16_000.0, 24)


def sigmoid(compute: np.ndarray) -> np.ndarray:
    return np.asarray(reward_sigmoid(compute, 0.25, 0.61, 2500.0, 1.97))


@pytest.mark.parametrize("n_runs", [5, pytest.param(20, marks=pytest.mark.stress)])
def test_sigmoid_is_recovered_and_its_interval_holds_the_truth(n_runs: int) -> None:
    """A = 0.61 and B = 1.97 as ScaleRL's 8B run (secondary, Figure 2); C_mid is ours."""
    truth = sigmoid(COMPUTE)
    inside = 0
    for seed in range(n_runs):
        fit = fit_reward(COMPUTE, truth + 0.004 * np.random.default_rng(seed).standard_normal(len(COMPUTE)))
        assert fit.values["asymptote"] == pytest.approx(0.61, abs=0.02)
        low, _, high = fit.forecast(48_000.0)
        inside += int(low <= float(sigmoid(np.array([48_000.0]))[0]) <= high)
    assert inside >= 0.8 * n_runs


def test_half_the_gain_stands_at_the_middle() -> None:
    assert reward_sigmoid(2500.0, 0.25, 0.61, 2500.0, 1.97) == pytest.approx((0.25 + 0.61) / 2)


def test_power_law_is_recovered_and_the_two_part_ways_beyond_the_points() -> None:
    fit = fit_reward(COMPUTE, np.asarray(reward_power_law(COMPUTE, 0.7, 3.0, 0.35)), "power law")
    assert fit.values["exponent"] == pytest.approx(0.35, rel=0.02)
    early = fit_reward(COMPUTE[:12], sigmoid(COMPUTE[:12]), "power law")
    late = float(sigmoid(COMPUTE[-1:])[0])
    assert abs(float(reward_power_law(float(COMPUTE[-1]), *early.values.values())) - late) > 0.005


def test_no_silent_extrapolation() -> None:
    fit = fit_reward(COMPUTE, sigmoid(COMPUTE))
    with pytest.raises(QuantityError, match="at most 4 times as far"):
        fit.forecast(1e6)
    with pytest.raises(QuantityError, match="at least 6"):
        fit_reward(COMPUTE[:5], COMPUTE[:5])


def test_pass_at_k_counts_subsets() -> None:
    samples = [1, 0, 0, 1, 0, 0, 0]
    for k in range(1, 8):
        hits = [any(chosen) for chosen in combinations(samples, k)]
        assert float(pass_at_k(7, 2, k)) == pytest.approx(np.mean(hits))


def test_coverage_law_is_recovered() -> None:
    ks = np.array([1.0, 2.0, 4.0, 8.0, 64.0, 256.0])
    base = CoverageFit(-1.6, -0.5, 0.0)
    found = fit_coverage(ks, np.asarray(base.coverage(ks)))
    assert found.a == pytest.approx(-1.6)
    assert found.b == pytest.approx(-0.5)


def test_ten_to_the_26_in_rl() -> None:
    """Claim C034: N = 100B and beta 8 take 1.25e14 tokens."""
    assert float(budget_demand(1e26, 8 * 100e9, (1e4, 1.0), (1.0, 1.0)).tokens) == pytest.approx(1.25e14, rel=1e-5)
