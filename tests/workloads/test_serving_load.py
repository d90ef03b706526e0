"""How many requests are in flight: what interrupts a decode, and the first tokens of a burst."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.simulation.engine import Engine, timed_pool
from computeledger.simulation.serving.clock import ServingClock, simulate_serving
from computeledger.simulation.serving.traces import Trace
from computeledger.workloads.serving.burst import start_wait_s
from computeledger.workloads.serving.columns import ServingBlock, evaluate_block
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving, packed_prefill_s

H100 = Machine(load_system("h100-nvl8"), efficiency())
LONG = ServingScenario(load_model("llama-3.1-70b"), Layout(tp=8), Precision(), 120_000.0, 256.0, 1.0, 0.0, 2.0)
CACHED = replace(LONG, input_tokens=1.0, cached_tokens=119_999.0)


def test_a_request_alone_decodes_as_if_its_prompt_had_been_cached() -> None:
    alone, cached = estimate_serving(LONG, H100), estimate_serving(CACHED, H100)
    assert float(alone.tpot_s) == pytest.approx(float(cached.tpot_s), rel=0.02)
    assert float(alone.tpot_s) == pytest.approx(float(alone.decode_s))
    block = evaluate_block(ServingBlock(LONG, H100, (LONG.layout,), (1, 2)))
    assert block["tpot_s"][0] == pytest.approx(float(alone.tpot_s))
    assert block["tpot_s"][1] > 2 * block["tpot_s"][0], "one other request in flight interrupts"


def test_the_replica_still_pays_for_the_prompt_of_a_request_alone() -> None:
    """Over a cycle of one request: its first token, then the others, and nothing else."""
    alone = estimate_serving(LONG, H100)
    assert 1 / float(alone.requests_per_s) == pytest.approx(float(alone.ttft_s + 255 * alone.tpot_s))
    paid = 120_000 * alone.usd_per_mtok_input + 256 * alone.usd_per_mtok_output
    assert float(paid) / 1e6 == pytest.approx(8 * 2.0 / 3600 / float(alone.requests_per_s))


def test_interference_grows_with_the_others_in_flight() -> None:
    batch = np.array([1.0, 2.0, 3.0, 5.0])
    result = estimate_serving(replace(LONG, input_tokens=4096.0, output_tokens=512.0, batch=batch), H100)
    waits = np.asarray(result.prefill_wait_s) / np.asarray(result.prefill_joined_s) * 512
    assert waits.tolist() == pytest.approx([0.0, 1.0, 2.0, 4.0])


def test_cached_tokens_cost_no_more_than_new_ones_at_the_same_length() -> None:
    for tokens in (1024.0, 8192.0, 120_000.0):
        result = estimate_serving(replace(LONG, input_tokens=tokens, batch=8.0), H100)
        assert result.usd_per_mtok_cached_read < result.usd_per_mtok_input


@pytest.mark.parametrize("name", ["mean", "median", "p90"])
def test_a_burst_waits_as_the_simulation_says(name: str) -> None:
    """32 prompts at once on one replica: each reads in turn, and waits spread evenly over the whole queue."""
    n = 32
    asked = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 8192.0, 8.0, float(n), rounds=1.0)
    timed = timed_pool(asked, H100, Engine(live=n, contexts_tokens=(8192.0, 8200.0)))
    times = timed.pool.times
    alone_s, context_s = (
        np.broadcast_to(one[:, None], times.beside_s.shape).copy() for one in (times.prefill_s, times.prefill_context_s)
    )
    whole = times._replace(beside_s=alone_s, beside_context_s=context_s)  # in a burst a prompt's pass counts in full
    trace = Trace(np.zeros(n), np.full(n, 8192), np.full(n, 8))
    found = simulate_serving(ServingClock((timed.pool._replace(times=whole),)), trace).times_s["ttft_s"]
    waits = found - found.min()
    waited = {"mean": waits.mean(), "median": np.median(waits), "p90": np.quantile(waits, 0.9)}[name]
    longest_s = (n - 1) * packed_prefill_s(asked, H100)[0]
    assert float(start_wait_s(longest_s, 1.0, name)) == pytest.approx(float(waited), rel=0.1)


def test_statistics_of_a_run_are_those_of_its_requests() -> None:
    """One request in R is of the first round: mean and quantiles of such a sample, request by request."""
    longest, n = 10.0, 4000
    for rounds in (1, 2, 5, 10):
        waits = np.concatenate([np.linspace(0, longest, n), np.zeros(n * (rounds - 1))])
        for name, expected in (("mean", waits.mean()), ("median", np.median(waits)), ("p90", np.quantile(waits, 0.9))):
            assert float(start_wait_s(longest, float(rounds), name)) == pytest.approx(expected, abs=0.01), (
                rounds,
                name,
            )


def test_the_result_gives_every_statistic_and_the_scenario_chooses_one() -> None:
    one = replace(LONG, input_tokens=2048.0, batch=64.0, rounds=4.0)
    mean = estimate_serving(one, H100)
    for name in ("mean", "median", "p90", "last"):
        chosen = estimate_serving(replace(one, statistic=name), H100)
        assert float(chosen.ttft_s) == pytest.approx(float(mean.ttft_statistic_s(name)))
        assert float(chosen.tpot_s) == float(mean.tpot_s)
    assert mean.ttft_statistic_s("median") < mean.ttft_s / 3, "half of the requests meet no burst"


def test_a_request_of_one_burst_meets_half_of_the_others_prompts() -> None:
    """Each decodes while those behind it are read: on average half of them, as the simulation says."""
    n, out = 32, 64
    asked = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 8192.0, float(out), float(n), rounds=1.0)
    found = estimate_serving(asked, H100)
    assert float(found.prefill_wait_s * out / found.prefill_joined_s) == pytest.approx((n - 1) / 2)
    more = estimate_serving(replace(asked, rounds=np.array([2.0, 10.0, np.inf])), H100)
    assert (more.prefill_wait_s * out / more.prefill_joined_s).tolist() == pytest.approx([23.25, 29.45, 31.0])
    timed = timed_pool(asked, H100, Engine(live=n, contexts_tokens=(8192.0, 8192.0 + out)))
    trace = Trace(np.zeros(n), np.full(n, 8192), np.full(n, out))
    simulated = simulate_serving(ServingClock((timed.pool,)), trace).times_s["tpot_s"]
    assert float(found.tpot_s) == pytest.approx(float(np.mean(simulated)), rel=0.1)


@pytest.mark.parametrize(
    ("model", "layout", "prompt"), [("llama-3.1-8b", Layout(), 1024.0), ("llama-3.1-70b", Layout(tp=8), 8192.0)]
)
def test_requests_in_flight_are_rate_times_time(model: str, layout: Layout, prompt: float) -> None:
    """Little's law from one output token on, and never more requests for longer outputs."""
    output = np.array([1.0, 2.0, 3.0, 8.0, 32.0, 128.0, 1000.0])
    batch = np.array([[1.0], [8.0], [32.0], [256.0]])
    found = estimate_serving(ServingScenario(load_model(model), layout, Precision(), prompt, output, batch), H100)
    in_flight = found.requests_per_s * (found.ttft_s + (output - 1) * found.tpot_s)
    assert np.all(np.abs(in_flight / batch - 1) < 0.02)
    assert np.all(np.diff(found.requests_per_s, axis=1) < 0)


@pytest.mark.parametrize("rounds", [1.0, 2.0, 8.0])
def test_a_burst_yields_its_tokens_over_its_own_time(rounds: float) -> None:
    asked = replace(LONG, input_tokens=1024.0, output_tokens=512.0, batch=32.0, rounds=rounds)
    found = estimate_serving(asked, H100)
    own_s = found.ttft_statistic_s("mean") + 511 * found.tpot_s
    assert 8 * float(found.output_tokens_per_s_per_gpu) == pytest.approx(32 * 512 / float(own_s), rel=1e-6)
    paid = 1024 * found.usd_per_mtok_input + 512 * found.usd_per_mtok_output
    assert float(paid) / 1e6 == pytest.approx(8 * 2.0 / 3600 * float(own_s) / 32)
