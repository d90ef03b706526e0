"""Steady state: how much a fleet carries, and what it does under a load that lasts.

A queue is stable when work arrives more slowly than the same fleet finishes it with a line that never empties (the
saturation rule, Baccelli and Foss 1995). So capacity takes no search: a replica with an endless line is simulated, and
a load is saturated where it reaches that rate, however many requests are sent. Runs begin as they go on, with
sequences in flight whose progress is spread evenly, so that requests of equal length do not move in step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Z_95
from computeledger.errors import QuantityError
from computeledger.simulation.measures import in_state
from computeledger.simulation.serving.clock import ServingClock, ServingClockResult, Window, simulate_serving
from computeledger.simulation.serving.conversations import (
    WARM_FRACTION,
    DrawnConversations,
    as_requests,
    expected_hits,
    turn_ages_s,
    turn_s,
)
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import Q_ADMITTED, Q_FINISHED, Counts, Pool, Times
from computeledger.units import format_si

#: Lifetimes of a request that a run takes before it is measured, and that it goes on after the last measured arrival.
WARM_LIFETIMES, TAIL_LIFETIMES = 3.0, 1.5
#: Least lifetimes and requests that are measured; requests at which a run gives up converging.
LEAST_LIFETIMES, LEAST_REQUESTS, MOST_REQUESTS = 4, 2_000, 100_000
#: Stretches of the window whose means tell the noise, and half of the 90 % interval at which a mean has converged.
BATCHES, STEADY_FRACTION = 10, 0.01
#: Requests of one run at most: about 4 GB of records.
MOST_RUN = 20_000_000
#: Turns a second at which caches are hardly used.
LEAST_TURNS_PER_S = 1e-6
#: Means of a queue near capacity wander for long: a looser limit for the time a request takes.
CLOSE_TIME_FRACTION = 0.05

#: Load over capacity beyond which a saturated fleet is simulated at this ratio.
MOST_OVERLOAD_RATIO = 1.1

#: Times that grow with the line, which under too much load has no end.
OF_THE_LINE = ("ttft_s", "end_to_end_s")

Draw = Callable[[int, float], Trace]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over a window, and what chance may have done to it.

    Attributes
    ----------
    value, low, high : float
        The mean and its 90 % interval over runs of this length [-], in the unit of the quantity.
    has_converged : bool
        Whether the interval is as narrow as asked for.
    """

    value: float
    low: float
    high: float
    has_converged: bool


@dataclass(frozen=True, slots=True)
class Steady:
    """A load in steady state.

    Attributes
    ----------
    result : ServingClockResult
        Of the measured window.
    requests_per_s : Estimate
        Throughput [1/s].
    end_to_end_s : Estimate
        Mean time of a request [s].
    capacity : Estimate
        Largest rate at which the queue is stable [1/s].
    is_saturated : bool
        Whether the load reaches the capacity: the line then grows without end, and times with it.
    """

    result: ServingClockResult
    requests_per_s: Estimate
    end_to_end_s: Estimate
    capacity: Estimate
    is_saturated: bool

    @property
    def percentiles(self) -> dict[str, dict[str, float]]:
        """By quantity: p50, p90, p99; infinite for times that a line without end makes, not for those of a step [s]."""
        found = self.result.percentiles
        endless = OF_THE_LINE if self.is_saturated else ()
        return found | {name: dict.fromkeys(found[name], math.inf) for name in endless}

    @property
    def times_s(self) -> dict[str, Times]:
        """As those of the run; infinite where a line without end makes them [s]."""
        found = self.result.times_s
        endless = OF_THE_LINE if self.is_saturated else ()
        return found | {name: np.full_like(found[name], math.inf) for name in endless}


def batch_means(values: Times, close_fraction: float = STEADY_FRACTION) -> Estimate:
    """Mean of consecutive stretches, with the interval that their scatter gives.

    Parameters
    ----------
    values : ndarray of float
        Means of stretches that are long enough to be nearly independent.
    close_fraction : float
        Half of the interval over the mean at which it has converged [-].

    Returns
    -------
    Estimate
        Normal, 90 %.

    Examples
    --------
    >>> batch_means(np.array([1.0, 1.0, 1.0]))
    Estimate(value=1.0, low=1.0, high=1.0, has_converged=True)
    >>> batch_means(np.array([1.0, 3.0])).has_converged
    False
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return Estimate(mean, 0.0, math.inf, False)
    half = Z_95 * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half, half <= close_fraction * abs(mean))


def capacity(fleet: ServingClock, draw: Draw, seed: int = 0) -> Estimate:
    """Find the largest rate of requests at which a fleet's queue is stable.

    Replicas are alike, so one of each pool is simulated with a line that never empties, and the slower pool decides.
    Replicas under repair carry nothing; the work of steps that a failure breaks is left out. Prefixes are not found.

    Parameters
    ----------
    fleet : ServingClock
        Its routing and scaling are set aside: all replicas are on, and have the same load.
    draw : callable
        Gives so many requests at a rate; their arrivals are set aside.
    seed : int
        Of the progress of what is in flight at the beginning [-].

    Returns
    -------
    Estimate
        Of the whole fleet [1/s].

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, constant_step_times
    >>> pool = Pool(2, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512))
    >>> def draw(n, rate):
    ...     return Trace(np.arange(n) / rate, np.full(n, 100), np.full(n, 11))
    >>> round(capacity(ServingClock((pool,)), draw).value, 2)  # 2 replicas x 4 places over 11 steps of 0.1 s
    7.27
    """
    if isinstance(draw, DrawnConversations):  # turns find what they do at the load that was asked for
        draw = as_requests(draw, expected_hits(fleet, draw, draw.requests_per_s))
    lone = capacities(fleet, draw, seed)
    scaled = [
        Estimate(one.value * pool.n_replicas, one.low * pool.n_replicas, one.high * pool.n_replicas, one.has_converged)
        for one, pool in zip(lone, fleet.pools, strict=True)
    ]
    return min(scaled, key=lambda one: one.value)


def capacities(fleet: ServingClock, draw: Draw, seed: int = 0) -> tuple[Estimate, ...]:
    """Find the largest rate at which the queue before one replica is stable, by pool.

    Parameters
    ----------
    fleet : ServingClock
        Its numbers of replicas are set aside.
    draw : callable
        Gives so many requests at a rate; their arrivals are set aside.
    seed : int
        Of the progress of what is in flight at the beginning [-].

    Returns
    -------
    tuple of Estimate
        Of one replica of each pool [1/s].

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, constant_step_times
    >>> pool = Pool(2, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512))
    >>> def draw(n, rate):
    ...     return Trace(np.arange(n) / rate, np.full(n, 100), np.full(n, 11))
    >>> [round(one.value, 2) for one in capacities(ServingClock((pool,)), draw)]
    [3.64]
    """
    if isinstance(draw, DrawnConversations):  # at most: of turns that find what those of a fleet with time do
        lone_fleet = replace(fleet, pools=tuple(pool._replace(n_replicas=1) for pool in fleet.pools))
        draw = as_requests(draw, expected_hits(lone_fleet, draw, LEAST_TURNS_PER_S))
    up = 1.0 if math.isinf(fleet.failure_s) else fleet.failure_s / (fleet.failure_s + fleet.repair_s)
    lone = [_saturated(fleet, place, draw, seed) for place in range(len(fleet.pools))]
    return tuple(Estimate(up * one.value, up * one.low, up * one.high, one.has_converged) for one in lone)


def _saturated(fleet: ServingClock, place: int, draw: Draw, seed: int) -> Estimate:
    """Rate at which one replica of a pool finishes requests out of a line that never empties [1/s]."""
    is_split = len(fleet.pools) > 1
    one = fleet.pools[place]
    # behind a line without end wait enough requests of any few adapters to fill a batch
    pool = one._replace(n_replicas=1, limits=one.limits._replace(queue=0, adapters=0), adapter_shares=())
    alone = ServingClock((pool,), routing="round-robin", uses_prefixes=False)
    n = at_once = 3 * pool.limits.live + LEAST_REQUESTS
    while True:
        drawn = draw(at_once, 1.0)
        prompt, output = drawn.input_tokens, drawn.output_tokens
        if is_split and place == 0:
            output = np.ones_like(output)
        elif is_split:  # a cache comes without its last prompt's token, which is read as if it were written
            prompt, output = np.maximum(prompt - 1, 1), output + 1
        written = _in_flight(output, pool.limits.live, seed)
        if is_split and place == 1:
            written = np.maximum(written, 1)
        trace = Trace(np.zeros(at_once), prompt, output, cached_tokens=drawn.cached_tokens)
        when = simulate_serving(alone, trace, seed, Window(0.0, 0.0, written)).world.when
        while n <= at_once:  # a longer run begins as a shorter one
            found = _departures(when[:n], pool.limits.live)
            if found.has_converged or n >= MOST_REQUESTS:
                return found
            n *= 2
        wide = (found.value / found.low - 1) / STEADY_FRACTION if found.low > 0 and math.isfinite(found.value) else 1.0
        at_once = _run_at_once(draw, n, int(n / 2 * wide**2), pool.limits.kv_tokens - pool.limits.state_tokens)


def _run_at_once(draw: Draw, n: int, enough: int, room_tokens: int) -> int:
    """Requests of the next run, ``n`` or some doublings of it: an interval narrows as the root of a run's length.

    As long as a longer draw begins as a shorter one (conversations do not), and a replica can hold each request.
    """
    one = draw(n, 1.0)
    while 2 * n <= enough and n < MOST_REQUESTS:
        longer = draw(2 * n, 1.0)
        tokens = longer.input_tokens + longer.output_tokens
        begins = np.array_equal(one.input_tokens + one.output_tokens, tokens[:n])
        is_same = begins and np.array_equal(one.output_tokens, longer.output_tokens[:n])
        if not is_same or len(tokens) != 2 * n or int(tokens.max()) >= room_tokens:
            break
        one, n = longer, 2 * n
    return n


def _departures(when: Times, live: int) -> Estimate:
    """Rate at which these requests leave while any of them waits."""
    done_s = np.sort(when[:, Q_FINISHED])
    last_s = float(np.max(when[:, Q_ADMITTED]))  # from here on the line is empty
    return _rate(done_s[done_s <= last_s], live)


def _rate(done_s: Times, live: int) -> Estimate:
    """Rate of departures over whole lifetimes, in each of which as many leave as a replica holds."""
    later = done_s[2 * live :] if len(done_s) > 3 * live else done_s
    n_lifetimes = max((len(later) - 1) // live, 1)
    per_batch = max(n_lifetimes // BATCHES, 1) * live
    edges = later[:: min(per_batch, max(len(later) - 1, 1))]
    gaps_s = np.diff(edges)
    if not len(gaps_s) or not gaps_s.sum():
        return Estimate(math.inf, 0.0, math.inf, False)
    taken = batch_means(gaps_s / min(per_batch, max(len(later) - 1, 1)))
    return Estimate(1 / taken.value, 1 / taken.high, 1 / max(taken.low, 1e-300), taken.has_converged)


def _in_flight(output_tokens: Counts, n_in_flight: int, seed: int) -> Counts:
    """Tokens that the first requests have written: in steady state any progress is as likely as any other."""
    rng = np.random.default_rng([seed, 4])
    written = np.zeros_like(output_tokens)
    n = min(n_in_flight, len(output_tokens))
    written[:n] = np.floor(rng.uniform(size=n) * output_tokens[:n]).astype(output_tokens.dtype)
    return np.minimum(written, output_tokens - 1)


def steady_serving(
    fleet: ServingClock,
    draw: Draw,
    requests_per_s: float,
    seed: int = 0,
    carried: Estimate | None = None,
    n_requests: tuple[int, int] = (LEAST_REQUESTS, MOST_REQUESTS),
) -> Steady:
    """Simulate a load that lasts: from in flight to in flight, longer until its means hold still.

    Parameters
    ----------
    fleet : ServingClock
        Of constant size.
    draw : callable
        Gives so many requests at a rate.
    requests_per_s : float
        The load [1/s].
    seed : int
        Of random routing and of the progress of what is in flight at the beginning [-].
    carried : Estimate, optional
        From :func:`capacity`, where it is known.
    n_requests : tuple of int
        Fewest that are measured, and how many a run may have to converge [-].

    Returns
    -------
    Steady
        Of a window of whole lifetimes.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, constant_step_times
    >>> fleet = ServingClock((Pool(2, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512)),))
    >>> def draw(n, rate):
    ...     return Trace(np.arange(n) / rate, np.full(n, 100), np.full(n, 11))
    >>> some, more = (steady_serving(fleet, draw, rate) for rate in (4.0, 12.0))
    >>> round(some.requests_per_s.value, 2), some.is_saturated, round(more.requests_per_s.value, 2), more.is_saturated
    (4.0, False, 7.28, True)
    """
    carried = capacity(fleet, draw, seed) if carried is None else carried
    has_line_end = fleet.pools[0].limits.queue > 0
    is_saturated = requests_per_s >= carried.value and not has_line_end
    # a line that grows without end tells nothing more when it grows faster
    rate = requests_per_s if has_line_end else min(requests_per_s, MOST_OVERLOAD_RATIO * carried.value)
    in_flight, lifetime_s = _lifetime(fleet, draw, min(rate, carried.value))
    lifetimes = max(LEAST_LIFETIMES, math.ceil(n_requests[0] / (rate * lifetime_s)))
    while True:
        found = _measured(fleet, draw, (rate, in_flight, lifetime_s, lifetimes), seed)
        done, time_s = _throughput(found, math.inf if is_saturated or has_line_end else rate), _mean_time_s(found)
        is_still = is_saturated or (done.has_converged and time_s.has_converged)
        if is_still or 2 * len(found.trace.arrival_s) > n_requests[1]:
            return Steady(found, done, time_s, carried, is_saturated)
        lifetimes *= 2


def _measured(fleet: ServingClock, draw: Draw, size: tuple[float, int, float, int], seed: int) -> ServingClockResult:
    """One run: what is in flight, then arrivals through warm-up, window and tail."""
    requests_per_s, in_flight, lifetime_s, lifetimes = size
    if isinstance(draw, DrawnConversations):
        return _measured_turns(fleet, draw, (requests_per_s, lifetime_s, lifetimes), seed)
    warm_s = WARM_LIFETIMES * lifetime_s * (1 if in_flight else 2)
    n = max(_run_length(requests_per_s, warm_s + (lifetimes + TAIL_LIFETIMES) * lifetime_s), 2)
    drawn, begun = draw(n, requests_per_s), draw(n + in_flight, requests_per_s)
    before = slice(n, n + in_flight)
    output = np.concatenate([begun.output_tokens[before], drawn.output_tokens])
    written = np.concatenate([_in_flight(output[:in_flight], in_flight, seed), np.zeros(n, np.int64)])
    trace = Trace(
        np.concatenate([np.zeros(in_flight), drawn.arrival_s]),
        np.concatenate([begun.input_tokens[before], drawn.input_tokens]),
        output,
    )
    window = Window(warm_s, warm_s + lifetimes * lifetime_s, written)
    return simulate_serving(fleet, trace, seed, window)


def _run_length(requests_per_s: float, span_s: float) -> int:
    """Requests that arrive in a run [-]."""
    n = requests_per_s * span_s
    if n > MOST_RUN:
        raise QuantityError(
            f"{requests_per_s:,.3g} requests/s for {format_si(span_s, 's')}, until what is in flight is as it stays: "
            f"{n:,.3g} requests are too many to simulate; at most {MOST_RUN:,}"
        )
    return math.ceil(n)


def _measured_turns(
    fleet: ServingClock, load: DrawnConversations, size: tuple[float, float, float], seed: int
) -> ServingClockResult:
    """One run of conversations, from an empty fleet; it is measured once nearly all turns are as they stay."""
    requests_per_s, lifetime_s, lifetimes = size
    ages_s = turn_ages_s(load.sample(), lifetime_s)
    warm_s = float(np.quantile(ages_s, WARM_FRACTION)) + WARM_LIFETIMES * lifetime_s
    end_s = warm_s + lifetimes * lifetime_s
    trace = load(_run_length(requests_per_s, end_s + TAIL_LIFETIMES * lifetime_s), requests_per_s)
    return simulate_serving(fleet, trace, seed, Window(warm_s, end_s, np.zeros_like(trace.input_tokens)))


def _lifetime(fleet: ServingClock, draw: Draw, requests_per_s: float) -> tuple[int, float]:
    """Sequences in flight over the fleet and the lifetime of one; conversations begin with an empty fleet."""
    if not isinstance(draw, DrawnConversations):
        return _fluid(fleet, draw(LEAST_REQUESTS, requests_per_s), requests_per_s)
    sample, hits = draw.sample(), expected_hits(fleet, draw, requests_per_s)
    prompt, output = float(np.mean(sample.input_tokens)), float(np.mean(sample.output_tokens))
    unread = prompt - float(np.mean(hits.by_turn))
    return 0, sum(turn_s(fleet, (unread, prompt, output), requests_per_s))


def _throughput(found: ServingClockResult, load_per_s: float) -> Estimate:
    """Requests done per second: what arrives, less what a stable queue came to hold in the window.

    That difference is chance, and dies out as the window grows; its size shows in how the number in flight scatters.
    """
    begin_s, end_s = found.window_s
    edges_s = np.linspace(begin_s, end_s, BATCHES + 1)
    done_s = found.world.when[:, Q_FINISHED]
    if math.isinf(load_per_s):
        return batch_means(np.histogram(done_s[found.finished], edges_s)[0] / np.diff(edges_s))
    held = in_state(found.trace.arrival_s, done_s, edges_s)
    value = load_per_s - float(held[-1] - held[0]) / found.span_s
    half = Z_95 * math.sqrt(2) * float(np.std(held, ddof=1)) / found.span_s
    is_close = max(half, abs(value - load_per_s)) <= STEADY_FRACTION * load_per_s
    return Estimate(min(value, load_per_s), value - half, value + half, is_close)


def _mean_time_s(found: ServingClockResult) -> Estimate:
    """Mean time of a request, from stretches of the window."""
    edges_s = np.linspace(*found.window_s, BATCHES + 1)
    times_s = found.times_s["end_to_end_s"]
    stretch = np.clip(np.searchsorted(edges_s, found.trace.arrival_s[found.measured]) - 1, 0, BATCHES - 1)
    served = ~np.isnan(times_s)
    kept = [times_s[(stretch == one) & served] for one in range(BATCHES)]
    means = [float(one.mean()) for one in kept if len(one)]
    return batch_means(np.array(means), CLOSE_TIME_FRACTION)


def _fluid(fleet: ServingClock, lengths: Trace, requests_per_s: float) -> tuple[int, float]:
    """Sequences in flight over the fleet and the lifetime of one, by Little's law on mean lengths."""
    prompt, output = float(np.mean(lengths.input_tokens)), float(np.mean(lengths.output_tokens))
    pool = fleet.pools[-1]
    rate = requests_per_s / pool.n_replicas
    batch = np.arange(1, pool.limits.live + 1)
    token_s = _token_s(pool, batch, (prompt, output), reads=len(fleet.pools) == 1)
    enough = np.nonzero(batch / (token_s * output) >= rate)[0]
    at = int(enough[0]) if len(enough) else len(batch) - 1
    first_s = float(np.interp(prompt, fleet.pools[0].times.chunk_tokens, fleet.pools[0].times.prefill_s))
    lifetime_s = float(token_s[at] * output) + first_s
    if len(fleet.pools) > 1:
        return 0, lifetime_s + fleet.handover_s + fleet.handover_s_per_token * prompt
    return int(batch[at]) * pool.n_replicas, lifetime_s


def _token_s(pool: Pool, batch: Counts, lengths: tuple[float, float], reads: bool) -> Times:
    """Mean time of a step by number of decoding sequences, with the prompts that come in meanwhile."""
    (prompt, output), times = lengths, pool.times
    step_s = times.decode_s[batch] + times.context_s[batch] * batch * (prompt + output / 2)
    if not reads:
        return np.asarray(step_s)
    near = np.searchsorted(times.beside_batch, batch).clip(0, len(times.beside_batch) - 1)
    by_batch = np.array([np.interp(prompt, times.chunk_tokens, column) for column in times.beside_s.T])
    return np.asarray(step_s + batch / output * by_batch[near] / pool.limits.ranks)
