"""The fewest replicas that keep a promise in percentiles, by simulation, and how it breaks as the load grows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from computeledger.fields import Promise
from computeledger.simulation.measures import Slo, is_good
from computeledger.simulation.serving.arrivals import DrawnLoad
from computeledger.simulation.serving.clock import ServingClock
from computeledger.simulation.serving.steady import Estimate, Steady, steady_serving

#: Replicas that are simulated at most: a larger fleet stands for as many of them with their share of the load, which
#: is slightly slower than the whole, since routing then has fewer replicas to choose from (assumption).
MOST_SIMULATED = 8
#: Fewest and most requests of a run of a search, and of the fleet that was found.
SIZING_REQUESTS, CONFIRMING_REQUESTS = (4_000, 8_000), (10_000, 40_000)
#: Least load of one replica over its capacity at which it is taken to be alone with a request.
ALONE_FRACTION = 0.01

Promises = Mapping[str, Promise]


@dataclass(frozen=True, slots=True)
class PromisedLoad:
    """What a fleet is put under, and what is promised of it.

    Attributes
    ----------
    load : DrawnLoad
        Arrivals and lengths.
    promises : mapping of str to Promise
        Limits by ``ttft_s``, ``tpot_s`` and ``end_to_end_s``.
    seed : int
        Of the simulation [-].
    """

    load: DrawnLoad
    promises: Promises
    seed: int = 0

    @property
    def slo(self) -> Slo:
        """What counts as a good request: one within the limits on first tokens and tokens."""
        limits = {name: one.limit for name, one in self.promises.items()}
        return Slo(limits.get("ttft_s", math.inf), limits.get("tpot_s", math.inf))


@dataclass(frozen=True, slots=True)
class Attained:
    """A fleet under a load.

    Attributes
    ----------
    n_replicas : int
        Of the whole fleet [-].
    requests_per_s : float
        Its load [1/s].
    steady : Steady
        The part of it that was simulated.
    """

    n_replicas: int
    requests_per_s: float
    steady: Steady

    def quantile_s(self, name: str, share_fraction: float) -> float:
        """Time that a share of requests does not exceed; infinite where the fleet falls behind [s]."""
        times = self.steady.times_s[name]
        known = times[~np.isnan(times)]
        return float(np.quantile(known, share_fraction, method="higher")) if len(known) else 0.0

    def used_fraction(self, promises: Promises) -> float:
        """Attained time over the limit of the promise that is nearest to break, or furthest broken [-]."""
        return max(self.quantile_s(name, one.share_fraction) / one.limit for name, one in promises.items())

    def keeps(self, promises: Promises) -> bool:
        """Whether every promise holds and the queue does not grow."""
        return not self.steady.is_saturated and self.used_fraction(promises) <= 1.0

    def good_fraction(self, slo: Slo, promises: Promises) -> float:
        """Share of requests within all limits at once [-]."""
        times = self.steady.times_s
        good = is_good(times, slo)
        if "end_to_end_s" in promises:
            good = good & (times["end_to_end_s"] <= promises["end_to_end_s"].limit)
        return float(np.mean(good)) if len(good) else 0.0


def with_replicas(fleet: ServingClock, n_replicas: int) -> ServingClock:
    """A fleet of one pool with another number of replicas.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512)),))
    >>> with_replicas(fleet, 3).pools[0].n_replicas
    3
    """
    (pool,) = fleet.pools
    return replace(fleet, pools=(pool._replace(n_replicas=n_replicas),))


def attained(
    fleet: ServingClock, size: tuple[int, float], asked: PromisedLoad, carried: Estimate,
    n_requests: tuple[int, int] = SIZING_REQUESTS,
) -> Attained:  # fmt: skip
    """Simulate so many replicas under so many requests a second.

    ``fleet`` is one replica and ``carried`` its capacity [1/s].

    Examples
    --------
    >>> from computeledger.simulation.serving.arrivals import Arrivals
    >>> from computeledger.simulation.serving.steady import capacity
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512)),))
    >>> asked = PromisedLoad(DrawnLoad(Arrivals("poisson", 1.0), ("100", "11")), {"ttft_s": Promise(0.9, 2.0)})
    >>> one = capacity(fleet, asked.load)
    >>> few, more = (attained(fleet, (n, 8.0), asked, one) for n in (2, 4))
    >>> few.keeps(asked.promises), more.keeps(asked.promises), more.used_fraction(asked.promises) < 1
    (False, True, True)
    """
    n_replicas, requests_per_s = size
    part = min(n_replicas, MOST_SIMULATED)
    each = [part * one for one in (carried.value, carried.low, carried.high)]
    of_part = Estimate(each[0], each[1], each[2], carried.has_converged)
    rate = requests_per_s * part / n_replicas
    load = replace(asked.load, arrivals=replace(asked.load.arrivals, requests_per_s=rate))
    steady = steady_serving(with_replicas(fleet, part), load, rate, asked.seed, of_part, n_requests)
    return Attained(n_replicas, requests_per_s, steady)


def fewest_replicas(
    fleet: ServingClock, asked: PromisedLoad, carried: Estimate, start: int, most: int
) -> Attained | None:
    """Find the fewest replicas that keep every promise, by bisection; none where ``most`` of them do not.

    Examples
    --------
    >>> from computeledger.simulation.serving.arrivals import Arrivals
    >>> from computeledger.simulation.serving.steady import capacity
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512)),))
    >>> asked = PromisedLoad(DrawnLoad(Arrivals("poisson", 8.0), ("100", "11")), {"ttft_s": Promise(0.9, 2.0)})
    >>> found = fewest_replicas(fleet, asked, capacity(fleet, asked.load), 1, 100)
    >>> found.n_replicas
    3
    """
    rate = asked.load.requests_per_s
    # a queue is stable only below capacity: fewer replicas than these always fall behind
    below = math.floor(rate / carried.value) if math.isfinite(carried.value) else 0
    n = min(max(start, below + 1), most)
    if n <= below:
        return None
    best = attained(fleet, (n, rate), asked, carried)
    while not best.keeps(asked.promises):
        if n >= most:
            return None
        below, n = n, min(max(n + 1, math.ceil(1.25 * n)), most)
        best = attained(fleet, (n, rate), asked, carried)
    while best.n_replicas - below > 1:
        n = (below + best.n_replicas) // 2
        one = attained(fleet, (n, rate), asked, carried)
        if one.keeps(asked.promises):
            best = one
        else:
            below = n
    return best


def alone(fleet: ServingClock, asked: PromisedLoad, carried: Estimate) -> Attained:
    """One replica that is nearly always free: the best that the layout can promise.

    Examples
    --------
    >>> from computeledger.simulation.serving.arrivals import Arrivals
    >>> from computeledger.simulation.serving.steady import capacity
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512)),))
    >>> asked = PromisedLoad(DrawnLoad(Arrivals("poisson", 8.0), ("100", "11")), {"tpot_s": Promise(0.9, 0.05)})
    >>> round(alone(fleet, asked, capacity(fleet, asked.load)).used_fraction(asked.promises), 6)
    2.0
    """
    return attained(fleet, (1, ALONE_FRACTION * carried.value), asked, carried)


def most_kept(points: Sequence[Attained], promises: Promises) -> float:
    """Largest of the simulated loads up to which all keep the promises; 0 where the smallest breaks one [1/s].

    Examples
    --------
    >>> most_kept([], {})
    0.0
    """
    most = 0.0
    for one in sorted(points, key=lambda point: point.requests_per_s):
        if not one.keeps(promises):
            break
        most = one.requests_per_s
    return most
