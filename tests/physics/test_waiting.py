"""Waits of a line with even services: the closed form against the event simulation, and its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from computeledger.physics.serving.waiting import wait_within_s, waits_probability
from computeledger.simulation.serving.clock import ServingClock, simulate_serving
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import Q_ADMITTED, Limits, Pool, constant_step_times

SERVICE_S = 0.2


@pytest.mark.parametrize(("n", "busy"), [(1, 0.5), (1, 0.8), (3, 0.7), (3, 0.9)])
def test_long_waits_are_those_of_simulated_prefill_workers(n: int, busy: float) -> None:
    """Each has a line of its own there, and a prompt goes where fewest are: within a quarter at p95 and p99."""
    rate, rng = busy * n / SERVICE_S, np.random.default_rng(0)
    arrival_s = np.cumsum(rng.exponential(1 / rate, 40_000))
    reading = Pool(n, constant_step_times(1, 0.001, SERVICE_S), Limits(1, 10**6, 0, 0, 512))
    decoding = Pool(1, constant_step_times(64, 1e-4, SERVICE_S), Limits(64, 10**9, 0, 0, 512))
    trace = Trace(arrival_s, np.full(len(arrival_s), 100), np.ones(len(arrival_s), np.int64))
    waited = simulate_serving(ServingClock((reading, decoding), (1, 1)), trace).world.when[:, Q_ADMITTED] - arrival_s
    for share in (0.95, 0.99):
        assert wait_within_s(rate, SERVICE_S, n, share) == pytest.approx(float(np.quantile(waited, share)), rel=0.25)


def test_limits_and_order() -> None:
    """None without load, endless without room; more load, fewer servers and more of the arrivals wait longer."""
    assert wait_within_s(0.0, 1.0, 1, 0.99) == 0
    assert math.isinf(wait_within_s(4.0, 1.0, 4, 0.5))
    for waits in (
        [wait_within_s(rate, 1.0, 4, 0.95) for rate in (1.0, 2.0, 3.0, 3.5, 3.9)],
        [wait_within_s(3.5, 1.0, n, 0.95) for n in (8, 6, 5, 4)],
        [wait_within_s(3.5, 1.0, 4, share) for share in (0.5, 0.9, 0.95, 0.999)],
    ):
        assert waits == sorted(waits)
    assert waits_probability(1, 0.3) == pytest.approx(0.3)
