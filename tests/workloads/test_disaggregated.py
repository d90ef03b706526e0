"""Two pools: conservation of requests, limits, and what separates them from one pool."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from computeledger.arrays import Num
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving
from computeledger.workloads.serving.pools import DisaggregatedScenario, estimate_disaggregated

#: Nothing unmodelled: a class's median would scale the rate alone.
CENTRAL = {"efficiency.serving_ratio": 1.0, "efficiency.first_token_ratio": 1.0}
MACHINE = Machine(load_system("gb200-nvl72"), efficiency("trtllm", CENTRAL, tuning="recipe"))
ONE = ServingScenario(
    load_model("deepseek-r1"), Layout(tp=8, ep=8), Precision("fp8", "fp8", "fp4", "fp8"), 8192.0, 1024.0, 1.0
)


def pools(concurrency: Num, n_prefill: Num = 1.0, n_decode: Num = 4.0) -> DisaggregatedScenario:
    return DisaggregatedScenario(ONE, Layout(dp=4, ep=4), n_prefill, n_decode, concurrency)


def test_requests_are_somewhere() -> None:
    """Little's law: requests before, in and after prefill make up what is in flight."""
    load = np.array([8.0, 64.0, 512.0, 2048.0])
    result = estimate_disaggregated(pools(load), MACHINE)
    decoding = 4.0 * result.decode_batch
    reading = result.requests_per_s * (result.prefill.prefill_s + result.queue_s)
    assert decoding + reading == pytest.approx(load, rel=0.02)


def test_throughput_never_exceeds_the_slower_pool_and_reaches_it() -> None:
    load = np.array([1.0, 16.0, 256.0, 4096.0])
    result = estimate_disaggregated(pools(load), MACHINE)
    assert np.all(np.diff(result.requests_per_s) > -1e-9)
    assert result.prefill_busy_fraction[-1] == pytest.approx(1.0, abs=0.01)
    assert np.all(result.prefill_busy_fraction <= 1 + 1e-9)
    twice = estimate_disaggregated(pools(load, n_prefill=2.0), MACHINE)
    assert twice.requests_per_s[-1] > 1.5 * result.requests_per_s[-1]
    assert twice.ttft_s[-1] < result.ttft_s[-1]


def test_one_request_decodes_as_fast_as_a_worker_of_its_own() -> None:
    result = estimate_disaggregated(pools(1.0, n_decode=1.0), MACHINE)
    apart = replace(MACHINE, efficiency=replace(MACHINE.efficiency, prefill_interference=0.0))
    alone = estimate_serving(replace(ONE, batch=1.0), apart)
    assert float(result.tpot_s) == pytest.approx(float(alone.decode_s), rel=0.15)


def test_a_point_is_a_row_of_a_sweep() -> None:
    load = np.array([4.0, 400.0])
    sweep = estimate_disaggregated(pools(load), MACHINE)
    for place, one in enumerate(load):
        alone = estimate_disaggregated(pools(float(one)), MACHINE)
        assert float(alone.tpot_s) == pytest.approx(float(sweep.tpot_s[place]), rel=1e-9)
        assert float(alone.ttft_s) == pytest.approx(float(sweep.ttft_s[place]), rel=1e-9)
