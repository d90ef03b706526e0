"""The simulator is compiled before anybody waits for it, for what fleets under load run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from computeledger.simulation.compiled import can_compile
from computeledger.simulation.serving import clock
from computeledger.simulation.serving.clock import ServingClock
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import Limits, Pool, constant_step_times


def kinds(record: Any) -> Any:
    """What a compiled kernel is compiled for: types of fields, of arrays with their dimensions."""
    if isinstance(record, tuple):
        return [type(record).__name__, *map(kinds, record)]
    return (str(record.dtype), record.ndim) if isinstance(record, np.ndarray) else type(record).__name__


def test_what_is_compiled_ahead_is_what_a_fleet_under_load_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and only where no earlier process left it."""
    ran: list[Any] = []

    def kept(kernel: Any) -> Any:
        def run(world: Any) -> Any:
            ran.append(kinds(world))
            return kernel(world)

        return run

    monkeypatch.setattr(clock, "compiled", kept)
    for is_stored in (True, False):
        monkeypatch.setattr(clock, "is_stored", lambda _kernel, is_stored=is_stored: is_stored)
        clock.compile_ahead()
    assert len(ran) == can_compile()
    monkeypatch.setattr(clock, "for_events", lambda kernel, _n: kept(kernel))
    pool = Pool(1, constant_step_times(4, 0.1, 0.5), Limits(4, 1000, 0, 0, 512))
    load = Trace(np.array([0.0, 10.0]), np.array([100, 100]), np.array([3, 3]))
    for pools in ((pool,), (pool, pool)):
        clock.simulate_serving(ServingClock(pools), load)
    assert len(ran) > 1 and all(one == ran[-1] for one in ran)
