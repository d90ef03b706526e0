"""Failures and scaling with two pools: what a decode worker loses is prefilled again; decode workers scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from computeledger.simulation.serving.clock import ServingClock, simulate_serving
from computeledger.simulation.serving.scaling import Autoscale
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import (
    DECODE_BUSY,
    PREFILL_BUSY,
    Q_FINISHED,
    Q_FIRST,
    USED,
    Limits,
    Pool,
    constant_step_times,
)

READ_S, STEP_S = 0.2, 0.05


def fleet(failure_s: float) -> ServingClock:
    one = Pool(1, constant_step_times(8, STEP_S, READ_S), Limits(8, 10**6, 0, 0, 100))
    return ServingClock((one, one._replace(n_replicas=2)), (1, 1), handover_s=0.1, failure_s=failure_s, repair_s=5.0)


@pytest.mark.parametrize("failure_s", [float("inf"), 60.0])
def test_decode_workers_never_prefill(failure_s: float) -> None:
    """All requests finish and all memory is free; each failure costs prefill workers a pass of what it broke."""
    n = 300
    trace = Trace(np.arange(n) / 2.0, np.full(n, 100), np.full(n, 40))
    result = simulate_serving(fleet(failure_s), trace, seed=3)
    clock, when, failed = result.world.clock, result.world.when, int(result.run.fleet.cursor[2])
    assert (failed > 3) == np.isfinite(failure_s)
    assert np.all(np.isfinite(when[:, Q_FINISHED]))
    assert np.all(result.world.rep[:, USED] == 0)
    assert np.all(clock[1:, PREFILL_BUSY] == 0)
    passes = clock[0, PREFILL_BUSY] / READ_S
    assert passes == pytest.approx(n) if failed == 0 else passes > n + 3
    assert clock[1:, DECODE_BUSY].sum() >= STEP_S * 40
    whole_s = when[:, Q_FINISHED] - trace.arrival_s
    assert np.all(whole_s > READ_S + 0.1 + 40 * STEP_S - 1e-9)
    assert np.all(when[:, Q_FIRST] <= when[:, Q_FINISHED])
    if failed == 0:
        assert np.all(whole_s < READ_S + 0.1 + 43 * STEP_S)  # it joins at the boundary of a step
    else:
        assert np.max(whole_s) > 2.0 + READ_S
        assert np.max(result.times_s["ttft_s"]) > READ_S + 0.1 + 2 * STEP_S


def test_decode_workers_scale_by_what_they_have() -> None:
    """A burst of requests brings the second decode worker, which leaves after it; the prefill worker is always paid."""
    rule = Autoscale(1, 4.0, tick_s=5.0, start_s=5.0, fall_window_s=0.0)
    arrival_s = np.concatenate([np.arange(20) * 4.0, 80 + np.arange(80) / 4.0, 100 + np.arange(20) * 4.0])
    trace = Trace(arrival_s, np.full(120, 100), np.full(120, 40))
    result = simulate_serving(replace(fleet(float("inf")), autoscale=rule), trace, seed=3)
    paid_s, last_s = result.paid_s(), result.end_s - arrival_s[0]
    assert paid_s[0] == pytest.approx(last_s) and paid_s[1] == pytest.approx(last_s)
    assert 15.0 < paid_s[2] < 60.0
    assert np.all(np.isfinite(result.world.when[:, Q_FINISHED]))
    timeline = result.timeline()
    assert timeline["replicas"][0] == 2 and timeline["replicas"].max() == 3 and timeline["replicas"][-1] == 2
