"""Hit rates of prefix caches that others published, of traces and conversations whose lengths are public."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from computeledger.distributions import Spread
from computeledger.simulation.prefix_cache import Tier
from computeledger.simulation.serving.arrivals import Arrivals, DrawnLoad
from computeledger.simulation.serving.clock import ServingClock, simulate_serving
from computeledger.simulation.serving.conversations import conversations_of
from computeledger.simulation.serving.traces import Trace, read_trace
from computeledger.simulation.state import Q_CACHED, Q_PROMPT, Limits, Pool, constant_step_times
from computeledger.workloads.questions.conversations import Conversation

#: One request after the other: only their order counts.
IN_TURN = constant_step_times(4, 1e-4, 1e-4)


def replica(kv_tokens: float, n: int = 1) -> Pool:
    return Pool(n, IN_TURN, Limits(4, int(kv_tokens), 0, 0, 10**6))


def test_the_mooncake_trace_by_capacity(shared_data: Path) -> None:
    """Llmtrafficlens 0.11.0, README, of the second half of the requests: 18.8 % with 4M tokens, 39.8 % without a limit.

    The FAST'25 paper's Figure 9 has 21.5 and 40.1 % over all requests, read from the curves' coordinates: its blocks
    are of 256 tokens (section 5.1), the published trace's of 512.
    """
    trace = read_trace(shared_data / "traces" / "mooncake_conversation.jsonl")
    half, n = len(trace.arrival_s) // 2, len(trace.arrival_s)
    endless = 1 - trace.unshared_tokens()[half:].sum() / trace.input_tokens[half:].sum()
    assert endless == pytest.approx(0.398, abs=0.001)
    in_turn = replace(trace, arrival_s=np.arange(n, dtype=float), output_tokens=np.ones(n, np.int64))
    req = simulate_serving(ServingClock((replica(4e6),)), in_turn).world.req
    assert req[half:, Q_CACHED].sum() / req[half:, Q_PROMPT].sum() == pytest.approx(0.188, abs=0.002)
    assert req[:, Q_CACHED].sum() / req[:, Q_PROMPT].sum() == pytest.approx(0.215, abs=0.05)


def rounds(n_clients: int, n_rounds: int, added_tokens: int, block_tokens: int) -> Trace:
    """Every client sends all that it sent before and a new part, all of them in every round, in random order."""
    rng, each = np.random.default_rng(0), added_tokens // block_tokens
    clients = np.concatenate([rng.permutation(n_clients) for _ in range(n_rounds)])
    number = np.repeat(np.arange(1, n_rounds + 1), n_clients)
    blocks = tuple(np.arange(one * each * n_rounds, one * each * n_rounds + each * of, dtype=np.int32)
                   for one, of in zip(clients, number, strict=True))  # fmt: skip
    n = len(number)
    return Trace(np.arange(n, dtype=float), number * added_tokens, np.ones(n, np.int64), blocks, block_tokens)


def test_rounds_that_outgrow_a_pool_of_memory() -> None:
    """Mooncake's page *SSD Offload Benchmark*: bench_multiturn with 20 clients, 10 rounds of 4,096 tokens, Qwen3-8B.

    A pool of 80 GB sustains more than 80 % up to round 6 and 83 % at its end, and overflows in round 7 (36 % there);
    with flash behind it 84 % and more through round 8.
    """
    kv_bytes, each = 36 * 2 * 8 * 128 * 2, 20  # layers, keys and values, KV heads, head size, bf16
    pool = Tier("pool", int(80e9 / kv_bytes), 1e-6, is_shared=True)
    found = {}
    for name, tiers in (("pool", (pool,)), ("flash", (pool, Tier("ssd", 10**8, 1e-6)))):
        trace = rounds(each, 10, 4096, 512)
        req = simulate_serving(ServingClock((replica(110_000),), tiers=tiers), trace).world.req
        cached, prompt = (req[:, one].reshape(10, each).sum(axis=1) for one in (Q_CACHED, Q_PROMPT))
        found[name] = cached / prompt
    endless = np.arange(10) / np.arange(1, 11)
    assert found["pool"][:6] == pytest.approx(endless[:6], abs=0.002)
    assert found["pool"][5] == pytest.approx(0.83, abs=0.005)
    assert np.all(found["pool"][6:] < 0.8)  # the store drops heads of prompts, so it loses more
    assert np.all(found["flash"][6:8] > 0.84) and found["flash"] == pytest.approx(endless, abs=0.002)


def test_agents_on_workers_in_turn_find_their_history_in_a_shared_pool() -> None:
    """VLLM's evaluation of Mooncake Store, section *Scaling out to multiple nodes*: above 95 %, round-robin.

    20K tokens of instructions, 10K of a first input, 2,048 a turn, 900 written, 30 turns.
    """
    turns = Conversation(Spread(30.0), Spread(1.0), Spread(2048.0), 20_000)
    load = conversations_of(DrawnLoad(Arrivals("poisson", 1.0), ("30000", "900")), turns, None)
    fleet = ServingClock((replica(300_000, 4),), routing="round-robin", tiers=(Tier("pool", 10**9, 1e-7, True),))
    found = simulate_serving(fleet, load(900, 1.0)).cached_fraction
    assert 0.95 < found < 0.98
    assert simulate_serving(replace(fleet, tiers=()), load(900, 1.0)).cached_fraction < found - 0.05
