"""What a simulated fleet did, in numbers: percentiles, goodput, saturation, and how many were in which state when."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.simulation.state import (
    BLOCKED_TIME,
    GAP_RATIO,
    POOL,
    Q_ADMITTED,
    Q_FINISHED,
    Q_FIRST,
    Q_OUTPUT,
    SHORTEST_GAP_S,
    Times,
    World,
)

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
#: Share of the second half of the arrivals in which work waits for room, from which on a pool counts as saturated.
BLOCKED_FRACTION = 0.95
#: A queue that grows by more than this share of what arrives, and by more than chance explains, never stops growing.
GROWTH_FRACTION, GROWTH_SIGMAS = 0.01, 3.0


@dataclass(frozen=True, slots=True)
class Slo:
    """What counts as good service.

    Attributes
    ----------
    ttft_s, tpot_s : float
        Longest time to first token, and per further token, of a request that counts as good [s].
    share_fraction : float
        Share of requests that must be good [-].
    end_to_end_s : float
        Longest time of a whole request [s].
    """

    ttft_s: float = math.inf
    tpot_s: float = math.inf
    share_fraction: float = 0.9
    end_to_end_s: float = math.inf


def latencies(world: World, arrival_s: Times) -> dict[str, Times]:
    """Times of every request.

    Parameters
    ----------
    world : World
        At its end.
    arrival_s : ndarray of float
        When each request was sent [s].

    Returns
    -------
    dict of str to ndarray of float
        ``ttft_s``, ``tpot_s`` (not a number for a single token), ``end_to_end_s`` [s].

    Examples
    --------
    >>> from computeledger.simulation.serving.loop import plain_run, serve_loop
    >>> from computeledger.simulation.state import example_world
    >>> run = plain_run(example_world())
    >>> _ = serve_loop(run)
    >>> latencies(run.world, np.zeros(2))["tpot_s"]
    array([1., 1.])
    """
    first, finished = world.when[:, Q_FIRST], world.when[:, Q_FINISHED]
    more = world.req[:, Q_OUTPUT] - 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(more > 0, (finished - first) / more, np.nan)
    # what was turned away has no first token, and no time at all
    ended = np.where(np.isnan(first), np.nan, finished)
    return {"ttft_s": first - arrival_s, "tpot_s": tpot, "end_to_end_s": ended - arrival_s}


def percentiles(times_s: Mapping[str, Times], gaps: Times) -> dict[str, dict[str, float]]:
    """Percentiles of the requests' times, and of the gaps between tokens.

    Parameters
    ----------
    times_s : mapping of str to ndarray of float
        From :func:`latencies` [s].
    gaps : ndarray of float
        Counted by length [-].

    Returns
    -------
    dict of str to dict of str to float
        ``p50``, ``p90``, ``p95``, ``p99`` by quantity [s]; 0 where no request has any.

    Examples
    --------
    >>> percentiles({"ttft_s": np.array([1.0, 2.0, 3.0])}, np.zeros(10))["ttft_s"]["p50"]
    2.0
    """
    out = {}
    for name, values in times_s.items():
        known = values[np.isfinite(values)]
        points = np.quantile(known, list(PERCENTILES.values())) if len(known) else np.zeros(len(PERCENTILES))
        out[name] = {key: float(value) for key, value in zip(PERCENTILES, points, strict=True)}
    out["itl_s"] = {key: gap_quantile_s(gaps, share) for key, share in PERCENTILES.items()}
    return out


def gap_quantile_s(gaps: Times, share_fraction: float) -> float:
    """Quantile of the gaps between tokens, from their counts, straight between neighbours in rank.

    Parameters
    ----------
    gaps : ndarray of float
        Counted by length [-].
    share_fraction : float
        Share of gaps that are shorter [-].

    Returns
    -------
    float
        Of the middles of the bins [s].

    Examples
    --------
    >>> gap_quantile_s(np.array([0.0, 5.0]), 0.5) > 1e-6
    True
    """
    total = float(gaps.sum())
    if total == 0:
        return 0.0
    rank = share_fraction * (total - 1)
    places = np.searchsorted(np.cumsum(gaps), np.array([math.floor(rank), math.ceil(rank)]), side="right")
    low, high = SHORTEST_GAP_S * GAP_RATIO ** (places + 0.5)
    return float(low + (rank - math.floor(rank)) * (high - low))


def is_good(times_s: Mapping[str, Times], slo: Slo) -> NDArray[np.bool_]:
    """Which requests met an objective.

    Parameters
    ----------
    times_s : mapping of str to ndarray of float
        From :func:`latencies` [s].
    slo : Slo
        The objective.

    Returns
    -------
    ndarray of bool
        By request; one token needs no time per further token.

    Examples
    --------
    >>> is_good({"ttft_s": np.array([1.0, 3.0]), "tpot_s": np.array([np.nan, 0.1])}, Slo(2.0, 0.5))
    array([ True, False])
    """
    tpot = np.nan_to_num(times_s["tpot_s"], nan=0.0)
    good = (times_s["ttft_s"] <= slo.ttft_s) & (tpot <= slo.tpot_s)
    if math.isfinite(slo.end_to_end_s):
        good = good & (times_s["end_to_end_s"] <= slo.end_to_end_s)
    return np.asarray(good)


def is_saturated(world: World, arrival_s: Times) -> bool:
    """Whether a fleet falls behind: percentiles then say how long the trace is, not how good the service.

    Either work waits for room nearly all through the second half of the arrivals, or the number of requests without a
    first token grows there by more than a hundredth of the arrivals and three standard deviations of chance.

    Parameters
    ----------
    world : World
        At its end, its window set to the second half of the arrivals.
    arrival_s : ndarray of float
        When each request was sent [s].

    Returns
    -------
    bool
        True also where all arrive at once and some had to wait.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> world.when[:, Q_FIRST] = world.when[:, Q_ADMITTED] = 0.0
    >>> is_saturated(world, np.array([0.0, 1.0]))
    False
    """
    begin_s, end_s = world.window_s[:2]
    if end_s <= begin_s:
        return bool(np.any(world.clock[:, BLOCKED_TIME] > 0)) or bool(np.any(world.when[:, Q_ADMITTED] > arrival_s[-1]))
    pools = world.rep[:, POOL]
    shares = [world.clock[pools == pool, BLOCKED_TIME].mean() / (end_s - begin_s) for pool in np.unique(pools)]
    first = world.when[:, Q_FIRST]
    waiting = [np.sum((arrival_s <= at) & (first > at)) for at in (begin_s, end_s)]
    grown = float(waiting[1] - waiting[0])
    came = float(np.sum((arrival_s > begin_s) & (arrival_s <= end_s)))
    grows = grown > GROWTH_FRACTION * came and grown > GROWTH_SIGMAS * math.sqrt(came)
    return bool(max(shares) >= BLOCKED_FRACTION or grows)


def in_state(begin_s: Times, end_s: Times, at_s: Times) -> Times:
    """Count how many intervals hold each moment.

    Parameters
    ----------
    begin_s, end_s : ndarray of float
        Ends of the intervals; what is not a number never comes [s].
    at_s : ndarray of float
        Moments, rising [s].

    Returns
    -------
    ndarray of float
        Intervals that have begun and not ended [-].

    Examples
    --------
    >>> in_state(np.array([0.0, 1.0]), np.array([2.0, 3.0]), np.array([0.5, 1.5, 2.5]))
    array([1., 2., 1.])
    """
    begun = np.searchsorted(np.sort(begin_s[np.isfinite(begin_s)]), at_s, side="right")
    ended = np.searchsorted(np.sort(end_s[np.isfinite(end_s)]), at_s, side="right")
    return np.asarray(begun - ended, float)
