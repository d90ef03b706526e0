"""Many simulations: a sweep over loads, and the most load that a fleet carries, on any executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from computeledger.errors import QuantityError
from computeledger.simulation.measures import Slo, is_good
from computeledger.simulation.serving.arrivals import DrawnLoad
from computeledger.simulation.serving.clock import ServingClock, ServingClockResult, at_pace
from computeledger.simulation.serving.steady import Estimate, Steady, capacity, steady_serving
from computeledger.simulation.serving.traces import Trace

#: Loads that one round of the search looks at, and how close it comes.
POINTS_PER_ROUND, CLOSE_FRACTION = 3, 0.01
#: Fewest and most requests of one of many simulations.
SEARCH_REQUESTS = (2_000, 20_000)
#: Halvings before the search gives up.
MOST_HALVINGS = 24

#: What a fleet is put under: a load that lasts, or a trace with a beginning and an end.
Load = DrawnLoad | Trace


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """A simulated load."""

    ratio: float
    requests_per_s: float
    throughput_requests_per_s: float
    goodput_requests_per_s: float
    good_fraction: float
    is_saturated: bool
    ttft_p90_s: float
    tpot_p90_s: float
    e2e_p90_s: float

    def meets(self, slo: Slo) -> bool:
        """Whether enough requests are served well, and the queue does not grow."""
        return not self.is_saturated and self.good_fraction >= slo.share_fraction


_Job = tuple[ServingClock, Load, Slo, float, int, Estimate]


def _simulate(job: _Job) -> LoadPoint:
    """One load; a function of the module, so that other processes find it."""
    scenario, load, slo, ratio, seed, carried = job
    rate = ratio * load.requests_per_s
    result, done, is_saturated = _at_load(scenario, load, ratio, (seed, carried))
    found = result.percentiles
    good = float(np.mean(is_good(result.times_s, slo)))
    run = result.result if isinstance(result, Steady) else result
    return LoadPoint(
        ratio=ratio,
        requests_per_s=rate,
        throughput_requests_per_s=done,
        goodput_requests_per_s=good * done / run.served_fraction,
        good_fraction=good,
        is_saturated=is_saturated,
        ttft_p90_s=found["ttft_s"]["p90"],
        tpot_p90_s=found["tpot_s"]["p90"],
        e2e_p90_s=found["end_to_end_s"]["p90"],
    )


def _at_load(
    scenario: ServingClock, load: Load, ratio: float, known: tuple[int, Estimate]
) -> tuple[ServingClockResult | Steady, float, bool]:
    """A load's run, its throughput and whether it is saturated: steady where it lasts, as it is where it is a trace."""
    seed, carried = known
    if isinstance(load, Trace):
        result = at_pace(scenario, load, ratio, seed)
        return result, result.requests_per_s, is_too_much(result, carried)
    steady = steady_serving(scenario, load, ratio * load.requests_per_s, seed, carried, SEARCH_REQUESTS)
    return steady, steady.requests_per_s.value, steady.is_saturated


def is_too_much(result: ServingClockResult, carried: Estimate) -> bool:
    """Tell whether a trace arrives faster than the fleet could go on serving it, or its line grows all through it.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512)),))
    >>> loads = [Trace(np.arange(5.0) / rate, np.full(5, 100), np.full(5, 4)) for rate in (1.0, 20.0)]
    >>> [is_too_much(at_pace(fleet, one, 1.0), most_carried(fleet, one)) for one in loads]
    [False, True]
    """
    rate = result.trace.requests_per_s
    return result.is_saturated or bool(np.isfinite(rate) and rate >= carried.value)


def most_carried(scenario: ServingClock, load: Load, seed: int = 0) -> Estimate:
    """Find the largest rate at which a fleet's queue is stable, for requests like those of a load.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512)),))
    >>> round(float(most_carried(fleet, Trace(np.arange(5.0), np.full(5, 100), np.full(5, 4))).value), 6)
    10.0
    """
    return capacity(scenario, load.repeated if isinstance(load, Trace) else load, seed)


def sweep_loads(
    scenario: ServingClock,
    load: Load,
    slo: Slo,
    ratios: Iterable[float],
    executor: Executor | None = None,
    known: tuple[int, Estimate] | None = None,
) -> list[LoadPoint]:
    """Simulate the same kind of requests at several paces.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.5), Limits(4, 1000, 0, 0, 512)),))
    >>> load = Trace(np.arange(50.0), np.full(50, 100), np.full(50, 3))
    >>> [one.is_saturated for one in sweep_loads(fleet, load, Slo(ttft_s=2.0), (1.0, 8.0))]
    [False, True]
    """
    known = (0, most_carried(scenario, load)) if known is None else known
    jobs = [(scenario, load, slo, float(ratio), *known) for ratio in ratios]
    return [_simulate(job) for job in jobs] if executor is None else list(executor.map(_simulate, jobs))


def most_load(
    scenario: ServingClock,
    load: Load,
    slo: Slo,
    executor: Executor | None = None,
    known: tuple[int, Estimate] | None = None,
) -> tuple[LoadPoint, list[LoadPoint]]:
    """Find the largest load whose queue is stable and which meets an objective, to one percent.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.5), Limits(4, 1000, 0, 0, 512)),))
    >>> load = Trace(np.arange(200.0), np.full(200, 100), np.full(200, 3))
    >>> best, _ = most_load(fleet, load, Slo(ttft_s=2.0))
    >>> 1.0 < best.requests_per_s < 4.0
    True
    """
    known = (0, most_carried(scenario, load)) if known is None else known
    if not np.isfinite(load.requests_per_s):
        raise QuantityError("all requests of the trace arrive at once: there is no pace to change")
    seen: dict[float, LoadPoint] = {}

    def look(ratios: list[float]) -> None:
        """Simulate what was not simulated before."""
        fresh = [ratio for ratio in ratios if ratio not in seen]
        seen.update(zip(fresh, sweep_loads(scenario, load, slo, fresh, executor, known), strict=True))

    high = known[1].value / load.requests_per_s
    low = high * (1 - CLOSE_FRACTION)
    look([low])
    if not seen[low].meets(slo):
        low, high = _bracket(look, seen, slo, low)
    while high / low > (1 + CLOSE_FRACTION) / (1 - CLOSE_FRACTION):
        inner = list(np.geomspace(low, high, POINTS_PER_ROUND + 2))
        look(inner[1:-1])
        met = [seen[ratio].meets(slo) for ratio in inner[1:-1]]
        first_miss = met.index(False) if False in met else len(met)
        low, high = inner[first_miss], inner[first_miss + 1]
    return seen[low], [seen[ratio] for ratio in sorted(seen)]


def _bracket(
    look: Callable[[list[float]], None], seen: dict[float, LoadPoint], slo: Slo, high: float
) -> tuple[float, float]:
    """A pace that meets the objective and one, twice as fast, that does not."""
    for _ in range(MOST_HALVINGS):
        low = high / 2
        look([low])
        if seen[low].meets(slo):
            return low, high
        high = low
    alone = seen[high]
    limits = (("TTFT", slo.ttft_s, alone.ttft_p90_s), ("TPOT", slo.tpot_s, alone.tpot_p90_s),
              ("the whole request", slo.end_to_end_s, alone.e2e_p90_s))  # fmt: skip
    times = ", ".join(f"{name} {time:.3g} s (limit {limit:g} s)" for name, limit, time in limits if np.isfinite(limit))
    raise QuantityError(
        f"no load meets the objective: {slo.share_fraction:.4g} of requests are to be good, and "
        f"{alone.good_fraction:.3g} of lone requests are: their p90 is {times}"
    )
