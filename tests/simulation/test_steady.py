"""Steady state: capacity without a search, loads that last, and what queueing theory and the closed form say."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import parse_layout
from computeledger.physics.roofline import Machine, parse_precision
from computeledger.simulation.engine import Engine, timed_pool
from computeledger.simulation.measures import Slo
from computeledger.simulation.serving import steady
from computeledger.simulation.serving.arrivals import DrawnLoad, parse_arrivals
from computeledger.simulation.serving.clock import ServingClock
from computeledger.simulation.serving.search import most_carried, most_load
from computeledger.simulation.serving.steady import capacity, steady_serving
from computeledger.simulation.state import Limits, Pool, constant_step_times, plain_step_times
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving, largest_batch

#: Model, system, layout, precision, input and output: dense and sparse, every kind of layout.
QUESTIONS = [
    ("qwen3-235b-a22b", "h100-nvl8", "tp4-pp2-ep4", "fp8", 6000, 500),
    ("qwen3-235b-a22b", "h100-nvl8", "tp2-dp4-ep8", "fp8", 4000, 300),
    ("llama-3.1-70b", "h100-nvl8", "tp4", "fp8", 6000, 100),
]
MORE_QUESTIONS = [
    ("llama-3.1-8b", "h100-nvl8", "tp1", "bf16", 1024, 256),
    ("llama-3.1-8b", "h100-nvl8", "tp1", "bf16", 8000, 200),
    ("llama-3.1-70b", "h100-nvl8", "tp8", "bf16", 2000, 500),
    ("llama-3.1-70b", "h100-nvl8", "tp4", "fp8", 500, 1000),
    ("llama-3.1-70b", "h100-nvl8", "tp2-pp2", "bf16", 2000, 500),
    ("llama-3.1-405b", "h100-nvl8", "tp8-pp2", "fp8", 20000, 500),
    ("qwen3-30b-a3b", "h100-nvl8", "tp1", "fp8", 3000, 1000),
    ("qwen3-235b-a22b", "h200-nvl8", "tp8-ep8", "fp8", 1000, 2000),
    ("deepseek-v3", "h200-nvl8", "tp8-ep8", "fp8", 2000, 1000),
    ("deepseek-v3", "h200-nvl8", "tp1-dp8-ep8", "fp8", 2000, 1000),
    ("deepseek-v3", "h100-nvl8", "tp1-dp32-ep32", "fp8", 2000, 1000),
    ("gpt-oss-120b", "h100-nvl8", "tp4", "bf16", 3000, 300),
]
Question = tuple[str, str, str, str, int, int]


def plain_fleet(n_replicas: int = 2, live: int = 4, step_s: float = 0.1) -> ServingClock:
    """Places that take a step per token whatever the batch; a prompt costs nothing."""
    return ServingClock((Pool(n_replicas, constant_step_times(live, step_s, 0.0), Limits(live, 10**6, 0, 0, 10**6)),))


def load(text: str, lengths: tuple[str, str] = ("100", "11"), seed: int = 0) -> DrawnLoad:
    return DrawnLoad(parse_arrivals(text), lengths, seed)


def crowded_fleet(n_replicas: int = 2) -> ServingClock:
    """Prompts make the decodes beside them wait, and batches cost."""
    live = 16
    batch = np.arange(live + 1.0)
    decode = (np.where(batch > 0, 0.02 + 1e-3 * batch, 0.0), np.full(live + 1, 1e-7))
    times = plain_step_times(decode, (np.array([1.0, 1000.0]), np.array([0.01, 0.2]), np.zeros(2)), 0.9)
    return ServingClock((Pool(n_replicas, times, Limits(live, 10**5, 100, 0, 4096)),))


@pytest.mark.parametrize(("live", "output"), [(4, 11), (7, 100)])
def test_capacity_is_places_over_the_time_of_a_request(live: int, output: int) -> None:
    found = capacity(plain_fleet(3, live), load("even:1", ("100", str(output))))
    assert found.value == pytest.approx(3 * live / (output * 0.1), rel=1e-3)
    assert found.has_converged


def test_capacity_scales_with_replicas_and_ends_with_the_slower_pool() -> None:
    lengths = ("uniform:10:400", "uniform:40:120")
    one, four = (capacity(crowded_fleet(n), load("poisson:1", lengths)) for n in (1, 4))
    assert four.value == pytest.approx(4 * one.value, rel=1e-12)
    (pool,) = plain_fleet(1).pools
    slow = pool._replace(times=constant_step_times(4, 0.1, 2.0))
    split = ServingClock((slow, pool._replace(n_replicas=100)), (1, 1))
    # four prompts share a chunk of two seconds, and nothing decodes beside them
    assert capacity(split, load("even:1")).value == pytest.approx(4 / 2.0, rel=0.01)


def test_failures_take_what_they_keep_a_replica_away() -> None:
    whole = capacity(plain_fleet(), load("even:1"))
    failing = capacity(replace(plain_fleet(), failure_s=600.0, repair_s=200.0), load("even:1"))
    assert failing.value == pytest.approx(0.75 * whole.value)


@pytest.mark.parametrize("process", ["even", "poisson", "gamma"])
def test_throughput_never_falls_as_load_rises_and_saturation_is_the_loads(process: str) -> None:
    fleet, bursty = crowded_fleet(), ":2" if process == "gamma" else ""
    carried = capacity(fleet, load("even:1", ("300", "60")))
    before = 0.0
    for share in (0.3, 0.7, 0.9, 1.1, 3.0):
        rate = share * carried.value
        drawn = load(f"{process}:{rate}{bursty}", ("300", "60"))
        found = steady_serving(fleet, drawn, rate, carried=carried, n_requests=(2_000, 8_000))
        done = found.requests_per_s.value
        assert found.is_saturated == (share > 1)
        assert 0.97 * min(share, 1) * carried.value <= done <= 1.02 * min(share, 1) * carried.value
        assert done >= 0.99 * before
        before = done


@pytest.mark.parametrize("n", [50, 400, 3000])
def test_how_many_are_sent_does_not_decide_who_is_saturated(n: int) -> None:
    fleet = crowded_fleet()
    carried = capacity(fleet, load("even:1", ("300", "60")))
    for share in (0.9, 1.2):
        rate = share * carried.value
        drawn = load(f"even:{rate}", ("300", "60"))
        found = steady_serving(fleet, drawn, rate, carried=carried, n_requests=(n, 20_000))
        assert found.is_saturated == (share > 1)
        assert found.requests_per_s.value == pytest.approx(min(rate, carried.value), rel=0.02)


def test_littles_law() -> None:
    """The number in flight is the rate times the time of a request."""
    rate = 6.0
    steady = steady_serving(crowded_fleet(), load(f"poisson:{rate}", ("uniform:10:400", "exponential:60")), rate)
    found = steady.result
    counts = found.timeline(4000)
    in_flight = float(np.mean(counts["waiting"] + counts["reading"] + counts["writing"]))
    arrived = found.measured.sum() / found.span_s
    assert in_flight == pytest.approx(arrived * float(np.mean(found.times_s["end_to_end_s"])), rel=0.03)


def erlang_c(n_servers: int, offered: float) -> float:
    """Chance of waiting in M/M/c."""
    terms = [offered**k / math.factorial(k) for k in range(n_servers)]
    last = offered**n_servers / math.factorial(n_servers) * n_servers / (n_servers - offered)
    return last / (sum(terms) + last)


def test_m_m_c() -> None:
    """Places of one replica under random lengths are the servers of M/M/c."""
    live, mean, step_s, busy = 4, 200.0, 0.01, 0.8
    fleet = plain_fleet(1, live, step_s)
    rate = busy * live / (mean * step_s)
    # the longer the run, the closer: waits in a queue this full wander for long
    drawn = load(f"poisson:{rate}", ("10", f"exponential:{mean}"))
    found = steady_serving(fleet, drawn, rate, n_requests=(15_000, 40_000))
    wait_s = float(np.mean(found.result.times_s["ttft_s"]))
    expected_s = erlang_c(live, busy * live) * mean * step_s / (live * (1 - busy))
    assert wait_s == pytest.approx(expected_s, rel=0.15)


def test_equal_lengths_do_not_move_in_step() -> None:
    """Even arrivals of equal requests: everyone takes the same time, from the first measured one on."""
    fleet = crowded_fleet()
    found = steady_serving(fleet, load("even:8", ("300", "60")), 8.0).result
    times = found.times_s["end_to_end_s"]
    assert np.quantile(times, 0.95) < 1.15 * np.quantile(times, 0.05)


def test_the_search_ends_below_capacity_and_within_the_objective() -> None:
    fleet, slo = crowded_fleet(), Slo(ttft_s=0.5, tpot_s=0.06)
    drawn = load("poisson:3", ("300", "120"))
    carried = most_carried(fleet, drawn)
    best, seen = most_load(fleet, drawn, slo)
    free, _ = most_load(fleet, drawn, Slo())
    assert best.meets(slo) and best.requests_per_s < free.requests_per_s < carried.value
    assert free.requests_per_s == pytest.approx(carried.value, rel=0.02)
    above = [one for one in seen if one.ratio > best.ratio]
    assert not above[0].meets(slo) and above[0].ratio < 1.03 * best.ratio
    again, _ = most_load(fleet, replace(drawn, arrivals=parse_arrivals("poisson:12")), slo)
    assert again.requests_per_s == pytest.approx(best.requests_per_s, rel=0.02), "the pace one starts from is no matter"


def sized(question: Question, n_replicas: int) -> tuple[float, ServingClock]:
    """What replicas carry by the closed form, as ``serve --requests-per-s`` sizes them, and the same fleet."""
    name, system, layout, precision, prompt, output = question
    machine = Machine(load_system(system), efficiency())
    model = load_model(name)
    made_of = parse_precision(precision, moe=True)
    one = ServingScenario(model, parse_layout(layout), made_of, float(prompt), float(output), 1.0)
    full = estimate_serving(replace(one, batch=float(largest_batch(one, machine))), machine)
    contexts = (float(prompt), float(prompt + output))
    timed = timed_pool(one, machine, Engine(n_replicas, contexts_tokens=contexts))
    fleet = ServingClock((timed.pool,), (timed.n_gpus_per_replica,), host_s=timed.host_s)
    return n_replicas * float(full.requests_per_s), fleet


def check_agreement(question: Question, search: Callable[[ServingClock, DrawnLoad], float]) -> None:
    *_, prompt, output = question
    rate, fleet = sized(question, 3)
    assert capacity(fleet, load("even:1", (str(prompt), str(output)))).value == pytest.approx(rate, rel=0.05)
    for process in ("even", "poisson"):
        assert search(fleet, load(f"{process}:{rate}", (str(prompt), str(output)))) == pytest.approx(rate, rel=0.1)


def found_load(fleet: ServingClock, drawn: DrawnLoad) -> float:
    return most_load(fleet, drawn, Slo())[0].requests_per_s


@pytest.mark.parametrize("question", QUESTIONS[:1])
def test_the_simulator_finds_what_serve_sizes(question: Question) -> None:
    check_agreement(question, found_load)


@pytest.mark.parametrize("question", QUESTIONS[1:])
def test_an_endless_line_is_served_as_fast_as_serve_says(question: Question) -> None:
    *_, prompt, output = question
    rate, fleet = sized(question, 1)
    assert capacity(fleet, load("even:1", (str(prompt), str(output)))).value == pytest.approx(rate, rel=0.05)


@pytest.mark.stress
@pytest.mark.parametrize("question", [*QUESTIONS[1:], *MORE_QUESTIONS])
def test_the_simulator_finds_what_serve_sizes_at_large(question: Question) -> None:
    check_agreement(question, found_load)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("lengths", [("exponential:300", "exponential:40"), ("uniform:50:700", "uniform:5:400")])
def test_a_run_that_is_made_longer_at_once_is_stopped_where_a_shorter_one_would_be(
    lengths: tuple[str, str], place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A longer run of an endless line begins as a shorter one: capacities are those of doubling, to the last digit."""
    pools = crowded_fleet(1).pools
    fleets = [ServingClock(pools), ServingClock((pools[0], pools[0]))]
    asked = load("poisson:1", lengths)
    at_once = steady.capacities(fleets[place], asked)
    monkeypatch.setattr(steady, "_run_at_once", lambda draw, n, enough, room: n)
    assert steady.capacities(fleets[place], asked) == at_once
