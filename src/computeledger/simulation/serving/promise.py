"""The fewest replicas that keep a promise in percentiles, by simulation, and how it breaks as the load grows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from computeledger.fields import WITHIN_ALL, Promise
from computeledger.simulation.measures import Slo, is_good
from computeledger.simulation.serving.arrivals import DrawnLoad
from computeledger.simulation.serving.clock import ServingClock
from computeledger.simulation.serving.conversations import DrawnConversations
from computeledger.simulation.serving.steady import Estimate, Steady, steady_serving
from computeledger.simulation.state import Times
from computeledger.workloads.serving.tails import MEDIAN_FRACTION

#: Replicas that are simulated at most, twice as many of two pools: as many stand for a larger fleet, with their share
#: of the load, which is slightly slower than the whole, since routing then has fewer replicas to choose from.
MOST_SIMULATED = 64
#: How much busier the simulated part of two pools may be than the whole, by rounding its replicas.
MOST_DISTORTION = 0.03
#: Prefill workers over those expected, at which they are taken to be no limit; decode workers beyond the fewest that
#: are tried for the sake of fewer prefill workers.
PLENTY_RATIO, MOST_TRADES = 2, 3
#: Fewest and most requests of a run of a search, and of the fleet that was found.
SIZING_REQUESTS, CONFIRMING_REQUESTS = (4_000, 8_000), (10_000, 40_000)
#: How many times as many turns of conversations: caches fill slowly from empty, and a fleet whose caches no longer hold
#: them falls behind late (assumption: 8B on one replica at 52 turns/s keeps up for 10,000 turns and not for 80,000).
TURNS_RATIO = 4
#: Least load of one replica over its capacity at which it is taken to be alone with a request.
ALONE_FRACTION = 0.01
#: Turns done over turns that arrive below which a fleet of conversations falls behind (assumption).
KEEPING_UP = 0.98

Promises = Mapping[str, Promise]
Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PromisedLoad:
    """What a fleet is put under, and what is promised of it.

    Attributes
    ----------
    load : DrawnLoad
        Arrivals and lengths.
    promises : mapping of str to Promise
        Limits by ``ttft_s``, ``tpot_s`` and ``end_to_end_s``; ``within_all`` has the share that keeps all at once.
    seed : int
        Of the simulation [-].
    """

    load: DrawnLoad
    promises: Promises
    seed: int = 0

    @property
    def slo(self) -> Slo:
        """What counts as a good request: one within all limits."""
        return slo_of(self.promises)


def slo_of(promises: Promises) -> Slo:
    """What counts as a good request: one within all limits.

    Examples
    --------
    >>> slo_of({"ttft_s": Promise(0.9, 2.0)}).ttft_s
    2.0
    """
    names = ("ttft_s", "tpot_s", "end_to_end_s")
    limits = {name: promises[name].limit if name in promises else math.inf for name in names}
    share = promises[WITHIN_ALL].share_fraction if WITHIN_ALL in promises else Slo().share_fraction
    return Slo(share_fraction=share, **limits)


@dataclass(frozen=True, slots=True)
class Unit:
    """What a fleet consists of: one replica, or one prefill and one decode worker.

    Attributes
    ----------
    clock : ServingClock
        With one replica of each pool.
    carried : tuple of Estimate
        By pool: rate at which the queue before one of its replicas stops being stable [1/s].
    tail_ratios : mapping of str to float
        By time: real percentiles beyond the median over simulated ones; 1 where it is not among them [-].
    """

    clock: ServingClock
    carried: tuple[Estimate, ...]
    tail_ratios: Mapping[str, float] = field(default_factory=dict)

    def carried_by(self, counts: Counts) -> Estimate:
        """Rate that so many replicas of each pool carry: that of the slowest pool [1/s].

        Examples
        --------
        >>> unit = Unit(ServingClock(()), (Estimate(3.0, 3.0, 3.0, True), Estimate(1.0, 1.0, 1.0, True)))
        >>> unit.carried_by((1, 2)).value, unit.carried_by((1, 4)).value
        (2.0, 3.0)
        """
        each = [
            Estimate(n * one.value, n * one.low, n * one.high, one.has_converged)
            for n, one in zip(counts, self.carried, strict=True)
        ]
        return min(each, key=lambda one: one.value)

    def fewest(self, requests_per_s: float) -> Counts:
        """Replicas of each pool below which a queue grows without end [-].

        Examples
        --------
        >>> unit = Unit(ServingClock(()), (Estimate(3.0, 3.0, 3.0, True), Estimate(1.0, 1.0, 1.0, True)))
        >>> unit.fewest(3.5)
        (2, 4)
        """
        return tuple(
            math.floor(requests_per_s / one.value) + 1 if math.isfinite(one.value) else 1 for one in self.carried
        )


@dataclass(frozen=True, slots=True)
class Attained:
    """A fleet under a load.

    Attributes
    ----------
    counts : tuple of int
        Replicas of each pool of the whole fleet [-].
    requests_per_s : float
        Its load [1/s].
    steady : Steady
        The part of it that was simulated.
    tail_ratios : mapping of str to float
        As of a :class:`Unit` [-].
    """

    counts: Counts
    requests_per_s: float
    steady: Steady
    tail_ratios: Mapping[str, float] = field(default_factory=dict)

    @property
    def n_replicas(self) -> int:
        """Replicas of the only pool, or of that which decodes [-]."""
        return self.counts[-1]

    @property
    def n_simulated(self) -> int:
        """Replicas of all pools that were simulated, with their share of the load [-]."""
        return sum(pool.n_replicas for pool in self.steady.result.scenario.pools)

    def quantile_s(self, name: str, share_fraction: float) -> float:
        """Time that a share of requests does not exceed; infinite where the fleet falls behind [s]."""
        times = self.times_s(name, share_fraction)
        known = times[~np.isnan(times)]
        return float(np.quantile(known, share_fraction, method="higher")) if len(known) else 0.0

    def times_s(self, name: str, share_fraction: float) -> Times:
        """Time of every request, as a share of them sees it: beyond the median by the ratio of percentiles [s].

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> one = Attained((1,), 1.0, SimpleNamespace(times_s={"ttft_s": np.ones(2)}), {"ttft_s": 1.5})
        >>> one.times_s("ttft_s", 0.5).tolist(), one.quantile_s("ttft_s", 0.95)
        ([1.0, 1.0], 1.5)
        """
        ratio = self.tail_ratios.get(name, 1.0) if share_fraction > MEDIAN_FRACTION else 1.0
        return ratio * self.steady.times_s[name]

    def used_fraction(self, promises: Promises) -> float:
        """Attained time over the limit of the promise that is nearest to break, or furthest broken [-]."""
        each = {name: one for name, one in promises.items() if name != WITHIN_ALL}
        used = [self.quantile_s(name, one.share_fraction) / one.limit for name, one in each.items()]
        if WITHIN_ALL in promises:  # of each request by the limit that it is nearest to, or furthest beyond
            share = promises[WITHIN_ALL].share_fraction
            times = {name: np.nan_to_num(self.times_s(name, share), nan=0.0) for name in each}
            most = np.max([times[name] / one.limit for name, one in each.items()], axis=0)
            used.append(float(np.quantile(most, share, method="higher")))
        return max(used)

    def keeps(self, promises: Promises) -> bool:
        """Whether every promise holds and the queue does not grow."""
        return not self.steady.is_saturated and self.used_fraction(promises) <= 1.0

    def good_fraction(self, promises: Promises) -> float:
        """Share of requests within all limits at once [-]."""
        slo = slo_of(promises)
        good = is_good({name: self.times_s(name, slo.share_fraction) for name in self.steady.times_s}, slo)
        return float(np.mean(good)) if len(good) else 0.0


def with_replicas(fleet: ServingClock, counts: Counts) -> ServingClock:
    """A fleet with other numbers of replicas, by pool.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512)),))
    >>> with_replicas(fleet, (3,)).pools[0].n_replicas
    3
    """
    pools = zip(fleet.pools, counts, strict=True)
    return replace(fleet, pools=tuple(pool._replace(n_replicas=n) for pool, n in pools))


def simulated_part(counts: Counts) -> tuple[Counts, float]:
    """Replicas of each pool that stand for a fleet, and their share of its load.

    Two pools keep the ratio of their numbers; what rounding leaves makes the part slightly slower than the whole.

    Examples
    --------
    >>> simulated_part((160,)), simulated_part((3, 4)), simulated_part((400, 600))
    (((64,), 0.4), ((3, 4), 1.0), ((52, 78), 0.13))
    """
    if len(counts) == 1:
        n = min(counts[0], MOST_SIMULATED)
        return (n,), n / counts[0]
    few, many = sorted(counts)
    if few + many <= 2 * MOST_SIMULATED:
        return counts, 1.0
    for small in range(1, few):
        large = max(math.floor(small * many / few), 1)
        is_enough = small + large >= 2 * MOST_SIMULATED
        if is_enough and small * many <= (1 + MOST_DISTORTION) * large * few:
            part = (small, large) if counts[0] == few else (large, small)
            return part, max(small / few, large / many)
    return counts, 1.0


def attained(
    unit: Unit, size: tuple[Counts, float], asked: PromisedLoad, n_requests: tuple[int, int] = SIZING_REQUESTS
) -> Attained:
    """Simulate so many replicas of each pool under so many requests a second.

    Examples
    --------
    >>> from computeledger.simulation.serving.arrivals import Arrivals
    >>> from computeledger.simulation.serving.steady import capacity
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512)),))
    >>> asked = PromisedLoad(DrawnLoad(Arrivals("poisson", 1.0), ("100", "11")), {"ttft_s": Promise(0.9, 2.0)})
    >>> unit = Unit(fleet, (capacity(fleet, asked.load),))
    >>> few, more = (attained(unit, ((n,), 8.0), asked) for n in (2, 4))
    >>> few.keeps(asked.promises), more.keeps(asked.promises), more.used_fraction(asked.promises) < 1
    (False, True, True)
    """
    counts, requests_per_s = size
    part, share = simulated_part(counts)
    rate = requests_per_s * share
    load = replace(asked.load, arrivals=replace(asked.load.arrivals, requests_per_s=rate))
    fleet = with_replicas(unit.clock, part)
    if isinstance(load, DrawnConversations):
        n_requests = (TURNS_RATIO * n_requests[0], TURNS_RATIO * n_requests[1])
    steady = steady_serving(fleet, load, rate, asked.seed, unit.carried_by(part), n_requests)
    if isinstance(load, DrawnConversations) and steady.requests_per_s.high < KEEPING_UP * rate:
        steady = replace(steady, is_saturated=True)  # caches that gave way: more work than the unit's rate knows of
    return Attained(counts, requests_per_s, steady, unit.tail_ratios)


def fewest_replicas(unit: Unit, asked: PromisedLoad, start: int, most: int) -> Attained | None:
    """Find the fewest replicas of one pool that keep every promise, by bisection; none where ``most`` do not.

    Examples
    --------
    >>> from computeledger.simulation.serving.arrivals import Arrivals
    >>> from computeledger.simulation.serving.steady import capacity
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512)),))
    >>> asked = PromisedLoad(DrawnLoad(Arrivals("poisson", 8.0), ("100", "11")), {"ttft_s": Promise(0.9, 2.0)})
    >>> found = fewest_replicas(Unit(fleet, (capacity(fleet, asked.load),)), asked, 1, 100)
    >>> found.n_replicas
    3
    """
    rate = asked.load.requests_per_s

    def at(n: int) -> Attained:
        return attained(unit, ((n,), rate), asked)

    # a queue is stable only below capacity: fewer replicas than these always fall behind
    return _fewest(at, asked.promises, (unit.fewest(rate)[0], start, most))


def _fewest(at: Callable[[int], Attained], promises: Promises, between: tuple[int, int, int]) -> Attained | None:
    """The fewest that keep every promise, from the least that may, beginning where they are expected."""
    least, start, most = between
    below, n = least - 1, min(max(start, least), most)
    if n < least:
        return None
    best = at(n)
    while not best.keeps(promises):
        if n >= most:
            return None
        below, n = n, min(max(n + 1, math.ceil(1.25 * n)), most)
        best = at(n)
    while n - below > 1:
        fewer = n - 1 if n == start else (below + n) // 2  # the guess is near: look beside it first
        one = at(fewer)
        if one.keeps(promises):
            best, n = one, fewer
        else:
            below = fewer
    return best


def fewest_workers(
    unit: Unit, asked: PromisedLoad, start: Counts, prices: tuple[float, ...], most: float
) -> Attained | None:
    """Find the prefill and decode workers that keep every promise on the fewest GPUs, or for the least money.

    More of either never harms, so what keeps a promise is bounded by a staircase: it is followed from the fewest
    decode workers on, as long as fewer prefill workers may make up for one more of them.

    Parameters
    ----------
    unit : Unit
        One worker of each pool.
    asked : PromisedLoad
        The load and what is promised.
    start : tuple of int
        Workers of each pool that are expected to be enough [-].
    prices : tuple of float
        GPUs of a worker of each pool, or what it costs.
    most : float
        Of both pools.

    Returns
    -------
    Attained or None
        None where no fleet for so much keeps them.

    Examples
    --------
    >>> from computeledger.simulation.serving.arrivals import Arrivals
    >>> from computeledger.simulation.serving.steady import capacities
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> one = Pool(1, constant_step_times(4, 0.1, 0.2), Limits(4, 1000, 0, 0, 512))
    >>> fleet = ServingClock((one, one), (1, 1))
    >>> asked = PromisedLoad(DrawnLoad(Arrivals("poisson", 8.0), ("100", "11")), {"ttft_s": Promise(0.9, 2.0)})
    >>> fewest_workers(Unit(fleet, capacities(fleet, asked.load)), asked, (2, 3), (1, 1), 100).counts
    (1, 3)
    """
    rate, seen = asked.load.requests_per_s, dict[Counts, Attained]()
    least = unit.fewest(rate)

    def at(*counts: int) -> Attained:
        if counts not in seen:
            seen[counts] = attained(unit, (counts, rate), asked)
        return seen[counts]

    most_decode = int((most - least[0] * prices[0]) // prices[1])
    plenty, enough = (PLENTY_RATIO * max(one) for one in zip(start, least, strict=True))
    while True:
        within = least[1], start[1], min(enough, most_decode)
        fewest = _fewest(lambda n, plenty=plenty: at(plenty, n), asked.promises, within)  # type: ignore[misc]
        if fewest is not None:
            break
        if plenty * prices[0] >= most and enough >= most_decode:
            return None
        plenty, enough = PLENTY_RATIO * plenty, PLENTY_RATIO * enough  # bursts need many that are idle on average
    best: Attained | None = None
    for n_decode in range(fewest.counts[1], min(fewest.counts[1] + MOST_TRADES, most_decode) + 1):
        limit = int((most - n_decode * prices[1]) // prices[0])
        if best is not None:  # it has to be cheaper than what is known
            limit = math.ceil((_price(best, prices) - n_decode * prices[1]) / prices[0]) - 1
        begin = min(max(start[0], least[0]), limit)
        best = _fewest(lambda n, d=n_decode: at(n, d), asked.promises, (least[0], begin, limit)) or best  # type: ignore[misc]
    return best


def _price(one: Attained, prices: tuple[float, ...]) -> float:
    return sum(n * each for n, each in zip(one.counts, prices, strict=True))


def alone(unit: Unit, asked: PromisedLoad) -> Attained:
    """One replica of each pool that is nearly always free: the best that the layout can promise.

    Its requests come one by one, as those of a burst do where replicas abound.

    Examples
    --------
    >>> from computeledger.simulation.serving.arrivals import Arrivals
    >>> from computeledger.simulation.serving.steady import capacity
    >>> from computeledger.simulation.state import Limits, Pool, constant_step_times
    >>> fleet = ServingClock((Pool(1, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512)),))
    >>> asked = PromisedLoad(DrawnLoad(Arrivals("poisson", 8.0), ("100", "11")), {"tpot_s": Promise(0.9, 0.05)})
    >>> round(alone(Unit(fleet, (capacity(fleet, asked.load),)), asked).used_fraction(asked.promises), 6)
    2.0
    """
    ones = (1,) * len(unit.carried)
    one_by_one = replace(asked.load, arrivals=replace(asked.load.arrivals, spread_ratio=0.0))
    rate = ALONE_FRACTION * unit.carried_by(ones).value
    return attained(unit, (ones, rate), replace(asked, load=one_by_one))


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
