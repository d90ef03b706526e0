"""Limits with a known answer: one place is the single-server queue; the fleet's books balance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.simulation.engine import Engine, timed_pool
from computeledger.simulation.measures import Slo
from computeledger.simulation.serving.clock import ServingClock, simulate_serving
from computeledger.simulation.serving.scaling import Autoscale
from computeledger.simulation.serving.search import most_load
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import Limits, Pool, plain_step_times
from computeledger.workloads.serving.estimate import ServingScenario

TOKEN_S = 1e-3


def single_server() -> ServingClock:
    """One place, reading takes no time: the service time is the number of tokens."""
    times = plain_step_times((np.array([0.0, TOKEN_S]), np.zeros(2)), (np.array([1.0, 2.0]), np.zeros(2), np.zeros(2)))
    return ServingClock((Pool(1, times, Limits(1, 10**9, 0, 0, 10**6)),))


def waits(gaps: np.ndarray, service: np.ndarray) -> np.ndarray:
    """Lindley's recursion: a customer waits for what the one before waited and took, less the gap between them."""
    steps = service[:-1] - gaps[1:]
    sums = np.concatenate([[0.0], np.cumsum(steps)])
    return sums - np.minimum.accumulate(sums)


@pytest.mark.parametrize(("law", "formula"), [("exponential", 1.0), ("constant", 0.5)])
def test_m_m_1_and_m_d_1(law: str, formula: float) -> None:
    """The simulator gives Lindley's waits one by one, and these have the mean of Pollaczek and Khinchine."""
    rng, load = np.random.default_rng(1), 0.7
    n = 400_000
    gaps = rng.exponential(1 / load, n)
    service = rng.exponential(1.0, n) if law == "exponential" else np.ones(n)
    tokens = np.maximum(np.rint(service / TOKEN_S), 1).astype(int)
    expected = waits(gaps, tokens * TOKEN_S)
    assert expected.mean() == pytest.approx(formula * load / (1 - load), rel=0.04)
    some = 3000
    # the first token comes with the prompt, which takes no time here
    trace = Trace(np.cumsum(gaps[:some]), np.ones(some, int), tokens[:some] + 1)
    result = simulate_serving(single_server(), trace)
    np.testing.assert_allclose(result.times_s["ttft_s"], expected[:some], atol=1e-6)
    assert not result.is_saturated


def fleet(n_replicas: int = 2, live: int = 8, **changes: Any) -> ServingClock:
    batch = np.arange(live + 1.0)
    decode = np.where(batch > 0, 0.01 + 5e-4 * batch, 0.0), np.full(live + 1, 1e-6)
    times = plain_step_times(decode, (np.array([1.0, 1000.0]), np.array([0.01, 0.2]), np.zeros(2)), 0.9)
    return ServingClock((Pool(n_replicas, times, Limits(live, 4000, 40, 0, 256)),), **changes)


def load(n: int = 300, rate: float = 4.0, seed: int = 0) -> Trace:
    rng = np.random.default_rng(seed)
    return Trace(np.cumsum(rng.exponential(1 / rate, n)), rng.integers(10, 400, n), rng.integers(1, 120, n))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"routing": "random"},
        {"routing": "least-tokens"},
        {"failure_s": 20.0, "repair_s": 5.0},
        {"autoscale": Autoscale(1, 4.0, 2.0, 5.0)},
    ],
)
def test_every_request_is_served_once_and_the_time_adds_up(changes: dict[str, Any]) -> None:
    result = simulate_serving(fleet(3, **changes), load())
    when = result.world.when
    assert np.all(np.diff(when[:, [0, 1, 2, 4]], axis=1) >= -1e-9), "ready, admitted, first token, finished"
    assert np.array_equal(result.world.req[:, 3], result.trace.output_tokens)
    gpu_s = result.gpu_s()
    assert min(gpu_s.values()) >= -1e-9
    assert sum(gpu_s.values()) == pytest.approx(result.paid_s().sum())
    assert result.world.rep[:, 5].tolist() == [0, 0, 0], "memory is given back"
    if "autoscale" in changes:
        assert result.paid_s().sum() < 3 * result.span_s
        assert set(result.timeline()["replicas"]) >= {1.0, 2.0}
    again = simulate_serving(fleet(3, **changes), load())
    assert np.array_equal(again.world.when, when, equal_nan=True)


def test_the_gaps_are_the_tokens() -> None:
    """One gap per token but the first, whose times add up to the time of writing."""
    result = simulate_serving(fleet(), load())
    assert result.world.gaps.sum() == (result.trace.output_tokens - 1).sum()


def test_pools_apart_serve_the_same_requests() -> None:
    one = fleet(2)
    apart = ServingClock((one.pools[0], one.pools[0]), (1, 1), handover_s=0.5)
    trace = load()
    together, split = simulate_serving(one, trace), simulate_serving(apart, trace)
    assert np.array_equal(split.world.req[:, 3], trace.output_tokens)
    assert np.all(split.times_s["ttft_s"] > 0.5), "whoever decodes sends the first token"
    one_pool, two_pools = together.percentiles["itl_s"], split.percentiles["itl_s"]
    assert two_pools["p90"] < one_pool["p90"], "no prompt stops the writing"
    assert two_pools["p99"] < 0.5, "no later token waits for the hand-over"


def test_more_load_is_worse_and_the_most_is_found() -> None:
    slo = Slo(ttft_s=1.0, tpot_s=0.05)
    best, seen = most_load(fleet(), load(400), slo)
    assert best.meets(slo)
    above = [one for one in seen if one.ratio > best.ratio]
    assert above and not above[0].meets(slo) and above[0].ratio < 1.02 * best.ratio


@pytest.mark.parametrize("ratio", [3.0, 10.0])
def test_saturation_is_flagged(ratio: float) -> None:
    assert simulate_serving(fleet(1), load(600).faster(ratio)).is_saturated


def test_a_prefix_cache_saves_reading_and_never_serves_what_was_not_read() -> None:
    n = 200
    trace = load(n)
    shared = Trace(
        trace.arrival_s, np.full(n, 300), trace.output_tokens, tuple(np.array([0, 1, 2, 3 + at]) for at in range(n)), 64
    )
    cold, warm = (simulate_serving(fleet(uses_prefixes=used), shared) for used in (False, True))
    assert cold.cached_fraction == 0
    assert 0.3 < warm.cached_fraction <= 192 / 300
    assert warm.world.req[0, 6] == 0, "the first prompt finds nothing"
    assert warm.gpu_s()["prefill"] < cold.gpu_s()["prefill"]


def test_engines_look_at_their_queue_in_every_step() -> None:
    """What usual runs show beyond that are clients that move in rounds; recipes that stream several tokens wait."""
    one = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 1.0)
    system = load_system("h100-nvl8")
    waits_of = {}
    for tuning in ("usual", "recipe"):
        constants = efficiency("trtllm", tuning=tuning)
        waits_of[tuning] = timed_pool(one, Machine(system, constants), Engine(live=8)).pool.times.admission_steps
    recipe = efficiency("trtllm", tuning="recipe")
    more = float(recipe.first_token_ratio * (recipe.admission_steps - recipe.usual_admission_steps))
    assert waits_of == {"usual": 0.0, "recipe": pytest.approx(more - 0.5)}
