"""The autoscaler against the examples of Kubernetes' documentation and its rule written plainly."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import computeledger as cl
from computeledger.errors import InputError, QuantityError
from computeledger.simulation.measures import in_state
from computeledger.simulation.serving.clock import ServingClock, simulate_serving
from computeledger.simulation.serving.scaling import (
    USUAL_FALL,
    USUAL_RISE,
    Autoscale,
    Policies,
    desired_replicas,
    make_scaling,
    parse_policies,
)
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import Q_FINISHED, Limits, Pool, constant_step_times

MOST = 100
AT_ONCE = Autoscale(1, 100.0, fall_window_s=0.0, rise=parse_policies("1000/15s"))


def course(rule: Autoscale, n: int, in_flight: list[float]) -> list[int]:
    """Replicas after every tick."""
    scaling, found = make_scaling(rule), []
    for tick, requests in enumerate(in_flight):
        n = desired_replicas(scaling, tick * rule.tick_s, (n, MOST), requests)
        found.append(n)
    return found


@pytest.mark.parametrize(
    ("n", "metric", "wanted"),
    # kubernetes.io "Horizontal Pod Autoscaling", Algorithm details: 200 of 100 doubles, 50 of 100 halves, and a
    # ratio within 0.1 of 1 is left; the page on configurable tolerance: 50 replicas at 90 of 75 become 60
    [(3, 200.0, 6), (4, 50.0, 2), (5, 109.0, 5), (5, 91.0, 5), (5, 112.0, 6), (50, 100 * 90 / 75, 60)],
)
def test_the_ratio_of_the_documentation(n: int, metric: float, wanted: int) -> None:
    assert course(AT_ONCE, n, [n * metric]) == [wanted]


def test_the_fall_of_the_documentation() -> None:
    """Scaling policies: of 80 replicas 8 go, of 72 then 8, and below 40 four at a time, down to the 10 asked for."""
    rule = replace(AT_ONCE, tick_s=60.0, fall=parse_policies("4/60s,10%/60s"))
    found = course(rule, 80, [1000.0] * 14)
    assert found[:2] == [72, 64]
    assert found[5:] == [40, 36, 32, 28, 24, 20, 16, 12, 10]
    slower = course(replace(rule, fall=parse_policies("min:4/60s,10%/60s")), 80, [1000.0] * 3)
    assert slower == [76, 72, 68]
    assert course(replace(rule, fall=parse_policies("never")), 80, [1000.0] * 3) == [80, 80, 80]


def test_the_defaults_rise_at_once_and_fall_after_five_minutes() -> None:
    """The larger of four and twice as many each 15 s; the most that was asked for in 300 s stays."""
    assert course(Autoscale(1, 1.0), 1, [1000.0] * 5) == [5, 10, 20, 40, 80]
    found = course(Autoscale(1, 10.0), 8, [80.0] + [10.0] * 21)
    assert found == [8] * 20 + [1, 1]


def test_a_period_counts_what_changed_within_it() -> None:
    rule = replace(AT_ONCE, rise=parse_policies("2/60s"))
    assert course(rule, 1, [5000.0] * 9) == [3, 3, 3, 3, 5, 5, 5, 5, 7]


def plain(rule: Autoscale, n: int, in_flight: list[float]) -> list[int]:
    """The rule as it is documented, with whole lists of what was asked for and changed."""
    asked: list[tuple[float, int]] = []
    changed: list[tuple[float, int]] = []
    found = []
    for tick, requests in enumerate(in_flight):
        now = tick * rule.tick_s
        ratio = requests / (rule.target_requests * n)
        wish = n if abs(1 - ratio) <= rule.tolerance else math.ceil(requests / rule.target_requests)
        up = min([wish, *(one for at, one in asked if at > now - rule.rise_window_s)])
        down = max([wish, *(one for at, one in asked if at > now - rule.fall_window_s)])
        asked.append((now, wish))
        wanted = max(n, up)
        wanted = min(wanted, down)
        policies = rule.rise if wanted > n else rule.fall
        limits = []
        for amount, is_share, period in policies.rows:
            before = n - sum(one for at, one in changed if at > now - period)
            change = (1 if wanted > n else -1) * amount
            exact = before * (1 + change) if is_share else before + change
            limits.append(math.ceil(exact) if wanted > n else int(exact))
        pick = max if (wanted > n) != policies.takes_least else min
        limit = pick(limits) if limits else n
        wanted = min(wanted, max(limit, n)) if wanted > n else max(wanted, min(limit, n))
        wanted = min(max(wanted, rule.least), MOST)
        changed += [(now, wanted - n)] if wanted != n else []
        n = wanted
        found.append(n)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_the_kernel_is_the_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def policies() -> Policies:
        rows = [(float(rng.integers(1, 9)), False, float(rng.choice([15, 45, 60, 120])))]
        rows += [(float(rng.choice([0.25, 0.5, 1.0])), True, float(rng.choice([15, 60])))] * int(rng.integers(0, 2))
        return Policies(tuple(rows), bool(rng.integers(0, 2)))

    rule = Autoscale(
        int(rng.integers(1, 4)), 10.0, 15.0, 0.0, float(rng.choice([0.0, 0.1, 0.5])), float(rng.choice([0, 30, 90])),
        float(rng.choice([0, 60, 300])), policies(), policies(),
    )  # fmt: skip
    load = [float(one) for one in np.abs(np.cumsum(rng.normal(0, 60, 120)))]
    assert course(rule, rule.least, load) == plain(rule, rule.least, load)


def test_a_fleet_follows_its_load() -> None:
    """Without windows and limits the paid replicas are requests in flight over the target; windows only add to them."""
    times = constant_step_times(64, 0.05, 0.2)
    fleet = ServingClock((Pool(20, times, Limits(64, 100_000, 400, 0, 256)),))
    rng = np.random.default_rng(1)
    rates = np.repeat([2.0, 20.0, 2.0], [600, 6000, 600])
    n = len(rates)
    load = Trace(np.cumsum(rng.exponential(1 / rates)), rng.integers(10, 200, n), rng.integers(50, 150, n))

    def paid(rule: Autoscale) -> tuple[float, float]:
        result = simulate_serving(replace(fleet, autoscale=rule), load)
        assert len(result.times_s["ttft_s"]) == n
        return float(result.paid_s().sum()), result.percentiles["ttft_s"]["p99"]

    swift = Autoscale(1, 8.0, 1.0, 0.0, 0.0, 0.0, 0.0, parse_policies("20/1s"), parse_policies("20/1s"))
    result = simulate_serving(replace(fleet, autoscale=swift), load)
    ticks_s = np.arange(load.arrival_s[0], result.end_s, 1.0)
    held = np.maximum(np.ceil(in_state(load.arrival_s, result.world.when[:, Q_FINISHED], ticks_s) / 8.0), 1.0)
    least_s, _ = paid(swift)
    assert 0.999 * held.sum() <= least_s <= 1.1 * held.sum(), "what is in flight over the target; some still drain"
    usual = replace(swift, tick_s=15.0, fall_window_s=300.0, rise=USUAL_RISE, fall=USUAL_FALL)
    some_s, soon = paid(usual)
    assert least_s < some_s
    assert paid(replace(usual, start_s=120.0))[1] > soon


@pytest.mark.parametrize("text", ["4", "4/", "/15s", "x/15s", "4.5/15s", "4/0s", "0/15s", "", "min:"])
def test_policies_that_are_none(text: str) -> None:
    with pytest.raises(QuantityError, match=r"expected (policies such as|a whole number)"):
        parse_policies(text)


def test_the_question_takes_them() -> None:
    asked = {
        "model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "replicas": 8, "autoscale": 1,
        "target_requests": 16, "start": "30s", "arrivals": "poisson:20", "requests": 2000,
    }  # fmt: skip
    usual = cl.simulate_serve(**asked).to_dict()  # type: ignore[arg-type]
    kept = cl.simulate_serve(**asked, scale_up="never").to_dict()  # type: ignore[arg-type]
    assert kept["usd"] < usual["usd"]
    with pytest.raises(InputError, match=r"scale_up '4': .*expected policies such as"):
        cl.simulate_serve(**asked, scale_up="4")  # type: ignore[arg-type]


def test_windows_hold_so_many_decisions() -> None:
    """Memory is bounded by what is declared, not by what is asked."""
    rule = Autoscale(1, 10.0, tick_s=1e-6, fall_window_s=1e6)
    with pytest.raises(QuantityError, match=r"may hold 100,000 decisions; at least 10 s"):
        make_scaling(rule)
    make_scaling(replace(rule, tick_s=10.0))
