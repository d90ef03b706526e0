"""Conversations: what caches of a size hold of them, in the simulation and in the closed form."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from computeledger.distributions import Spread
from computeledger.questions.simulate import SimulateServeQuestion
from computeledger.simulation.measures import latencies
from computeledger.simulation.prefix_cache import BLOCK, IDLE, LOADED, UNITS, USERS, Tier
from computeledger.simulation.serving.arrivals import Arrivals, DrawnLoad
from computeledger.simulation.serving.clock import ServingClock, ServingClockResult, simulate_serving
from computeledger.simulation.serving.conversations import DrawnConversations, conversations_of, expected_hits
from computeledger.simulation.serving.steady import steady_serving
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import (
    Q_ADMITTED,
    Q_CACHED,
    Q_FINISHED,
    Q_FIRST,
    Q_OUTPUT,
    Q_PROMPT,
    Q_READY,
    Q_REPLICA,
    USED,
    Limits,
    Pool,
    constant_step_times,
)
from computeledger.workloads.questions.conversations import Conversation
from tests.conftest import Command

ENDLESS = 10**9


def pool(n: int = 1, kv_tokens: int = ENDLESS, live: int = 16) -> Pool:
    """Steps that take the same whatever they read, so that hits do not change when turns come."""
    return Pool(n, constant_step_times(live, 0.05, 0.2), Limits(live, kv_tokens, 0, 0, 10**6))


def talks(rate: float = 1.0, **given: object) -> DrawnConversations:
    shape = {
        "turns": Spread(6.0, "uniform", (2.0, 10.0)), "delay_s": Spread(20.0, "exponential", (20.0,)),
        "observed_tokens": Spread(300.0), "shared_tokens": 500, "n_prefixes": 2,
    } | given  # fmt: skip
    load = DrawnLoad(Arrivals("poisson", rate), ("lognormal:1500:4000", "lognormal:200:600"), 3)
    return conversations_of(load, Conversation(**shape), None)  # type: ignore[arg-type]


def run(load: DrawnConversations, one: ServingClock, n: int = 600) -> ServingClockResult:
    return simulate_serving(one, load(n, load.requests_per_s), seed=1)


def earlier_tokens(result: ServingClockResult) -> np.ndarray:
    """Tokens of each prompt that some replica has computed before: those of the turn before, but its last."""
    turns, req = result.trace.turns, result.world.req
    assert turns is not None
    out = np.zeros(len(req), np.int64)
    has_next = turns.next_turn >= 0
    out[turns.next_turn[has_next]] = (req[:, Q_PROMPT] + req[:, Q_OUTPUT] - 1)[has_next]
    return out


def test_a_turn_comes_after_the_one_before() -> None:
    result = run(talks(), ServingClock((pool(),)))
    turns, when = result.trace.turns, result.world.when
    assert turns is not None
    has_next = turns.next_turn >= 0
    assert np.all(np.isfinite(when[:, Q_FINISHED]))
    later = when[turns.next_turn[has_next], Q_READY]
    assert later == pytest.approx(when[has_next, Q_FINISHED] + turns.delay_s[has_next], abs=1e-9)
    assert np.all(latencies(result.world, result.trace.arrival_s)["ttft_s"] > 0)


def test_an_endless_cache_holds_every_earlier_token_and_none_holds_none() -> None:
    result = run(talks(), ServingClock((pool(),)))
    known, cached = earlier_tokens(result), result.world.req[:, Q_CACHED]
    assert np.array_equal(cached[known > 0], known[known > 0])
    assert set(cached[known == 0].tolist()) == {0, 500}  # first turns find the shared prompt, but the first of all
    none = run(talks(), ServingClock((pool(),), uses_prefixes=False))
    assert none.cached_fraction == 0
    assert none.prefilled_tokens == none.world.req[:, Q_PROMPT].sum()


def test_one_turn_is_a_request_on_its_own() -> None:
    load = talks(turns=Spread(1.0), shared_tokens=0)
    fleet = ServingClock((pool(2, 40_000),))
    once = run(load, fleet)
    plain = simulate_serving(fleet, Trace(once.trace.arrival_s, once.trace.input_tokens, once.trace.output_tokens), 1)
    for column in (Q_ADMITTED, Q_FIRST, Q_FINISHED):
        assert np.array_equal(once.world.when[:, column], plain.world.when[:, column])


def test_conversations_end_where_the_context_does() -> None:
    """Turns that no context has room for are not drawn: ten thousand of them cost no more than those that fit."""
    given = {"turns": Spread(1e4), "observed_tokens": Spread(999.0), "delay_s": Spread(0.0)}
    load = DrawnLoad(Arrivals("poisson", 1.0), ("1000", "1"))
    found = conversations_of(load, Conversation(**given), 50_000).sample()  # type: ignore[arg-type]
    assert found.mean_turns == 49 and found.input_tokens.max() + found.output_tokens.max() <= 50_000


@pytest.mark.parametrize("routing", ["prefix", "round-robin"])
def test_memory_adds_up(routing: str) -> None:
    tiers = (Tier("host", 60_000, 1e-6), Tier("pool", 300_000, 1e-5, is_shared=True))
    result = run(talks(2.0), ServingClock((pool(3, 30_000, 6),), routing=routing, tiers=tiers))
    cache, rep = result.world.cache, result.world.rep
    assert np.all(rep[:, USED] == 0)
    assert np.all(cache.blocks[:, :, USERS] <= 0)
    assert np.array_equal(cache.chain[:, IDLE], cache.blocks[:, :, UNITS].sum(axis=1))
    assert np.all(cache.chain[:3, IDLE] <= 30_000)
    assert cache.chain[3:, IDLE].tolist() == pytest.approx([60_000] * 3 + [300_000], rel=0.01)
    assert set(np.unique(cache.places[:, BLOCK])) == set(range(cache.blocks.shape[1]))
    found = sum(result.hits.values()) * result.world.req[:, Q_PROMPT].sum()
    assert found + result.prefilled_tokens == pytest.approx(result.world.req[:, Q_PROMPT].sum())
    assert min(result.hits.values()) > 0.02
    assert np.all(result.world.req[:, Q_CACHED] < result.world.req[:, Q_PROMPT])


def split(n: int, kv_tokens: int = ENDLESS, **given: object) -> ServingClock:
    """Workers that prefill and hold caches, and three that only decode."""
    return ServingClock((pool(n, kv_tokens, 8), pool(3, ENDLESS, 64)), (1, 1), handover_s=0.1, **given)  # type: ignore[arg-type]


def test_prefill_workers_hold_prompts_and_a_shared_pool_what_was_decoded_too() -> None:
    """With caches without end a turn finds the prompt before it, and with a pool that all share its output as well."""
    alone = run(talks(), split(1))
    turns, req = alone.trace.turns, alone.world.req
    assert turns is not None
    later = turns.next_turn[turns.next_turn >= 0]
    assert np.array_equal(req[later, Q_CACHED], req[turns.next_turn >= 0, Q_PROMPT])
    shared = run(talks(), split(2, tiers=(Tier("pool", ENDLESS, 0.0, is_shared=True),), routing="round-robin"))
    assert np.array_equal(shared.world.req[later, Q_CACHED], earlier_tokens(shared)[later])
    crowded = run(talks(2.0), split(2, 30_000, tiers=(Tier("host", 60_000, 1e-6), Tier("pool", 300_000, 1e-5, True))))
    cache = crowded.world.cache
    assert np.all(crowded.world.rep[:, USED] == 0)
    assert np.array_equal(cache.chain[:, IDLE], cache.blocks[:, :, UNITS].sum(axis=1))
    assert cache.chain[2:5, IDLE].tolist() == [0, 0, 0]  # of workers that decode
    assert cache.chain[-1, IDLE] == pytest.approx(300_000, rel=0.01)


def test_the_closed_form_of_two_pools_against_the_simulation() -> None:
    """Hit rates within 3 points on average and 8 at most, with prefix routing, tiers, and a shared pool."""
    rng = np.random.default_rng(7)
    below = ((), (Tier("host", 150_000, 1e-7),), (Tier("pool", 300_000, 1e-7, is_shared=True),))
    misses = []
    for place, routing in enumerate(("prefix", "prefix", "prefix", "random", "round-robin")):
        n, delay = int(rng.integers(1, 4)), float(rng.uniform(2, 40))
        pauses = {"turns": Spread(float(rng.uniform(2, 8))), "delay_s": Spread(delay, "exponential", (delay,))}
        load = talks(float(rng.uniform(0.3, 1.0)) * n, **pauses)
        fleet = split(n, int(rng.integers(40_000, 150_000)), tiers=below[place % 3], routing=routing)
        found = steady_serving(fleet, load, load.requests_per_s, n_requests=(500, 500))
        expected = sum(expected_hits(fleet, load, load.requests_per_s).fractions)
        misses.append(expected - sum(found.result.hits.values()))
    assert np.mean(np.abs(misses)) < 0.03
    assert np.max(np.abs(misses)) < 0.08


def test_a_larger_cache_holds_no_less() -> None:
    hits = []
    for tokens in (1, 20_000, 50_000, 100_000, 200_000, 400_000, ENDLESS):
        tiers = (Tier("host", tokens, 0.0),)
        hits.append(run(talks(), ServingClock((pool(1, 20_000),), tiers=tiers)).cached_fraction)
    assert hits == sorted(hits)
    assert hits[0] < 0.5 * hits[-1]


def test_a_tier_costs_what_loading_takes() -> None:
    """Two conversations in turn on a replica that holds one of them: a second turn waits for what host memory gives."""
    one = Conversation(Spread(2.0), Spread(10.0), Spread(100.0))
    load = conversations_of(DrawnLoad(Arrivals("even", 0.2, 0.0), ("4000", "50")), one, None)
    for s_per_token in (1e-5, 1e-3):
        fleet = ServingClock((pool(1, 6_000, 1),), tiers=(Tier("host", ENDLESS, s_per_token),))
        result = simulate_serving(fleet, load(4, 0.2))
        req, first = result.world.req, result.times_s["ttft_s"]
        assert req[2, Q_CACHED] == 4049
        loaded = int(result.world.cache.prompts[2, LOADED])
        assert loaded > 2_000  # the other conversation took all but what was left of 6,000
        assert first[0] == pytest.approx(0.2)
        assert first[2] == pytest.approx(max(0.2, loaded * s_per_token))


def test_a_conversation_that_returns_to_its_replica_finds_more() -> None:
    found = {
        routing: run(talks(4.0), ServingClock((pool(4, 60_000),), routing=routing), 2000).cached_fraction
        for routing in ("prefix", "round-robin")
    }
    assert found["prefix"] > found["round-robin"] + 0.1


def test_a_conversation_stays_where_it_began() -> None:
    """Under routing by session every turn finds all that was computed before it; requests of their own go anywhere."""
    result = run(talks(4.0), ServingClock((pool(4),), routing="session"))
    turns, req = result.trace.turns, result.world.req
    assert turns is not None
    has_next = turns.next_turn >= 0
    assert np.array_equal(req[turns.next_turn[has_next], Q_REPLICA], req[has_next, Q_REPLICA])
    begun = np.bincount(req[: turns.n_open, Q_REPLICA], minlength=4)
    assert begun.min() > begun.mean() / 2, "new ones go to the replica with the fewest requests"
    known = earlier_tokens(result)
    assert np.array_equal(req[known > 0, Q_CACHED], known[known > 0])
    alone = Trace(np.arange(60.0) / 8, np.full(60, 900), np.full(60, 40))
    once, plain = (
        simulate_serving(ServingClock((pool(4),), routing=one), alone) for one in ("session", "least-requests")
    )
    assert np.array_equal(once.world.when, plain.world.when, equal_nan=True)


def test_turns_leave_a_replica_that_failed() -> None:
    load, fleet = talks(2.0), ServingClock((pool(2),), routing="session", failure_s=200.0, repair_s=30.0)
    result = run(load, fleet)
    turns, req = result.trace.turns, result.world.req
    assert turns is not None
    has_next = turns.next_turn >= 0
    moved = req[turns.next_turn[has_next], Q_REPLICA] != req[has_next, Q_REPLICA]
    assert 0 < np.mean(moved) < 0.3
    assert np.all(np.isfinite(result.world.when[:, Q_FINISHED]))


def test_pauses_that_are_one_number_are_exponential_about_it() -> None:
    """Equal ones keep turns in step: every prompt then waits for those that came with it."""
    asked: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100-nvl8", "arrivals": "poisson:1", "turns": "4"}
    told = [SimulateServeQuestion(**asked, tool_latency=text).conversation() for text in ("5s", "uniform:5s:5s", "0s")]
    assert [one.delay_s.form for one in told if one] == ["exponential", "uniform", ""]
    assert [one.delay_s.mean for one in told if one] == [5.0, 5.0, 0.0]
    pauses = Spread(5.0, "exponential", (5.0,)), Spread(5.0)
    drawn = [DrawnLoad(Arrivals("poisson", 2.0), ("1000", "100"), 3)] * 2
    loads = [
        conversations_of(one, Conversation(Spread(10.0), pause, Spread(300.0)), None)
        for one, pause in zip(drawn, pauses, strict=True)
    ]
    spread, equal = (run(one, ServingClock((pool(),))).percentiles["ttft_s"]["p50"] for one in loads)
    assert spread <= equal


def test_the_closed_form_against_the_simulation() -> None:
    """Random fleets with room for what is live: hit rates within 4 points on average and 11 at most."""
    rng = np.random.default_rng(7)
    misses = []
    for _ in range(8):
        n, delay = int(rng.integers(1, 5)), float(rng.uniform(2, 40))
        load = talks(
            float(rng.uniform(0.3, 1.2)) * n, turns=Spread(float(rng.uniform(1.5, 8))),
            delay_s=Spread(delay, "exponential", (delay,)), shared_tokens=int(rng.integers(0, 1500)),
        )  # fmt: skip
        tiers = (Tier("host", int(rng.integers(50_000, 400_000)), 1e-7),) if rng.uniform() < 0.5 else ()
        fleet = ServingClock(
            (pool(n, int(rng.integers(40_000, 200_000)), 64),), tiers=tiers,
            routing=str(rng.choice(["prefix", "round-robin", "random"])),
        )  # fmt: skip
        expected = sum(expected_hits(fleet, load, load.requests_per_s).fractions)
        found = steady_serving(fleet, load, load.requests_per_s, n_requests=(500, 500))
        if not found.is_saturated:
            misses.append(expected - sum(found.result.hits.values()))
    assert len(misses) >= 6
    assert np.mean(np.abs(misses)) < 0.04
    assert np.max(np.abs(misses)) < 0.11


ASKED = ["simulate", "serve", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--layout", "tp1", "--json"]
TALKS = ["--arrivals", "poisson:2", "--turns", "10", "--tool-latency", "exponential:120s",
         "--observation-tokens", "600", "--shared-tokens", "1000", "--output-tokens", "200",
         "--requests", "300"]  # fmt: skip


def test_the_command_derives_the_hit_rate(computeledger: Command) -> None:
    said = {}
    for name, more in {"hbm": [], "host": ["--host-cache", "300GB"]}.items():
        result = computeledger(*ASKED, *TALKS, *more)
        assert result.returncode == 0, result.stderr
        said[name] = json.loads(result.stdout)
    few, more = said["hbm"], said["host"]
    assert sum(more["cache"]["hit_fraction"].values()) == pytest.approx(more["cached_fraction"])
    assert more["cached_fraction"] > few["cached_fraction"]
    assert more["conversations"]["turns"] == pytest.approx(10)
    assert more["conversations"]["per_s"] == pytest.approx(0.2)
    for one in said.values():
        expected = sum(one["conversations"]["expected_hit_fraction"].values())
        assert one["cached_fraction"] == pytest.approx(expected, abs=0.1)  # of fifty conversations


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--tool-latency", "5s"], "--tool-latency: of how many turns? add --turns"),
        (["--turns", "0.5"], "--turns '0.5': must be at least 1"),
        (["--turns", "4", "--failures", "600s"], "--failures: conversations are drawn in steady state"),
    ],
)
def test_what_contradicts_is_refused(computeledger: Command, more: list[str], said: str) -> None:
    result = computeledger(*ASKED, "--arrivals", "poisson:2", *more)
    assert result.returncode == 2
    assert said in result.stderr
