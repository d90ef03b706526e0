"""Many simulations: a sweep over loads, and the most load that an objective allows, on any executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from computeledger.errors import QuantityError
from computeledger.simulation.measures import Slo, is_good
from computeledger.simulation.serving import ServingClock, at_pace
from computeledger.simulation.traces import Trace

#: Loads that one round of the search looks at, and how close it comes.
POINTS_PER_ROUND, CLOSE_FRACTION = 3, 0.01
#: Doublings or halvings before the search gives up.
MOST_DOUBLINGS = 24


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """A simulated load.

    Attributes
    ----------
    ratio : float
        Pace over that of the trace [-].
    requests_per_s : float
        Mean rate of arrival [1/s].
    goodput_requests_per_s : float
        Requests that met the objective over the span [1/s].
    good_fraction : float
        Their share [-].
    is_saturated : bool
        Whether the fleet falls behind.
    ttft_p90_s, tpot_p90_s : float
        90th percentiles [s].
    """

    ratio: float
    requests_per_s: float
    goodput_requests_per_s: float
    good_fraction: float
    is_saturated: bool
    ttft_p90_s: float
    tpot_p90_s: float

    def meets(self, slo: Slo) -> bool:
        """Whether enough requests are served well, and the queue does not grow.

        Parameters
        ----------
        slo : Slo
            The objective.

        Returns
        -------
        bool
            Of this load.
        """
        return not self.is_saturated and self.good_fraction >= slo.share_fraction


_Job = tuple[ServingClock, Trace, Slo, float, int]


def _simulate(job: _Job) -> LoadPoint:
    """One load; a function of the module, so that other processes find it."""
    scenario, trace, slo, ratio, seed = job
    result = at_pace(scenario, trace, ratio, seed)
    found = result.percentiles
    return LoadPoint(
        ratio=ratio,
        requests_per_s=result.trace.requests_per_s,
        goodput_requests_per_s=result.goodput_requests_per_s(slo),
        good_fraction=float(np.mean(is_good(result.times_s, slo))),
        is_saturated=result.is_saturated,
        ttft_p90_s=found["ttft_s"]["p90"],
        tpot_p90_s=found["tpot_s"]["p90"],
    )


def sweep_loads(
    scenario: ServingClock, trace: Trace, slo: Slo, ratios: Iterable[float], executor: Executor | None = None
) -> list[LoadPoint]:
    """Simulate the same requests at several paces.

    Parameters
    ----------
    scenario : ServingClock
        The fleet.
    trace : Trace
        The load at ratio 1.
    slo : Slo
        The objective that goodput counts.
    ratios : iterable of float
        Paces [-].
    executor : Executor, optional
        Where the simulations run; here, one after the other, when left out. The answer is the same.

    Returns
    -------
    list of LoadPoint
        In the order of the ratios.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.5), Limits(4, 1000, 0, 0, 512)),))
    >>> load = Trace(np.arange(50.0), np.full(50, 100), np.full(50, 3))
    >>> [one.is_saturated for one in sweep_loads(fleet, load, Slo(ttft_s=2.0), (1.0, 4.0))]
    [False, True]
    """
    jobs = [(scenario, trace, slo, float(ratio), 0) for ratio in ratios]
    return [_simulate(job) for job in jobs] if executor is None else list(executor.map(_simulate, jobs))


def most_load(
    scenario: ServingClock, trace: Trace, slo: Slo, executor: Executor | None = None
) -> tuple[LoadPoint, list[LoadPoint]]:
    """Find the fastest pace at which a fleet meets an objective, to one percent.

    Parameters
    ----------
    scenario : ServingClock
        The fleet.
    trace : Trace
        The load at ratio 1.
    slo : Slo
        The objective.
    executor : Executor, optional
        Where the simulations run.

    Returns
    -------
    tuple of LoadPoint and list of LoadPoint
        The best load that meets it, and everything that was looked at, by pace.

    Raises
    ------
    QuantityError
        Where no load meets the objective, or any does.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.5), Limits(4, 1000, 0, 0, 512)),))
    >>> load = Trace(np.arange(200.0), np.full(200, 100), np.full(200, 3))
    >>> best, _ = most_load(fleet, load, Slo(ttft_s=2.0))
    >>> 1.0 < best.requests_per_s < 4.0
    True
    """
    seen: dict[float, LoadPoint] = {}

    def look(ratios: list[float]) -> None:
        """Simulate what was not simulated before."""
        fresh = [ratio for ratio in ratios if ratio not in seen]
        seen.update(zip(fresh, sweep_loads(scenario, trace, slo, fresh, executor), strict=True))

    low, high = _bracket(look, seen, slo)
    while high / low > 1 + CLOSE_FRACTION:
        inner = list(np.geomspace(low, high, POINTS_PER_ROUND + 2))
        look(inner[1:-1])
        met = [seen[ratio].meets(slo) for ratio in inner[1:-1]]
        first_miss = met.index(False) if False in met else len(met)
        low, high = inner[first_miss], inner[first_miss + 1]
    return seen[low], [seen[ratio] for ratio in sorted(seen)]


def _bracket(look: Callable[[list[float]], None], seen: dict[float, LoadPoint], slo: Slo) -> tuple[float, float]:
    """A pace that meets the objective and one, twice as fast, that does not."""
    ratio = 1.0
    look([ratio])
    step = 2.0 if seen[ratio].meets(slo) else 0.5
    for _ in range(MOST_DOUBLINGS):
        following = ratio * step
        look([following])
        if seen[following].meets(slo) != (step > 1):
            return (ratio, following) if step > 1 else (following, ratio)
        ratio = following
    if step > 1:
        raise QuantityError("every load meets the objective: it has no limit on TTFT or TPOT that binds")
    alone = seen[ratio]
    raise QuantityError(
        f"no load meets the objective: at {alone.requests_per_s:.3g} requests/s the 90th percentiles are "
        f"TTFT {alone.ttft_p90_s:.3g} s, TPOT {alone.tpot_p90_s:.3g} s, and {alone.good_fraction:.0%} are good"
    )
