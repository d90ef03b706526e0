"""Serving through time: a fleet of replicas under a load, with queues, tails and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.bounds import AT_LEAST_ONE, Bound, check_record
from computeledger.display import Displayed
from computeledger.errors import DoesNotFitError, QuantityError, nearest
from computeledger.progress import stage
from computeledger.simulation import measures
from computeledger.simulation.compiled import can_compile, compiled, for_events, is_stored
from computeledger.simulation.prefix_cache import (
    EVICTED,
    LOADED,
    ROW,
    PrefixCache,
    Prompts,
    Tier,
    make_cache,
    whole_blocks,
)
from computeledger.simulation.schedulers import LONGEST_PREFIX
from computeledger.simulation.serving import loop as serving_loop
from computeledger.simulation.serving.loop import OFF, ON, ROUTINGS, ServingRun
from computeledger.simulation.serving.scaling import Autoscale, make_scaling
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import (
    DECODE_BUSY,
    INTERRUPT,
    LOST_TIME,
    NO_HOST_TIMES,
    POOL,
    PREFILL_BUSY,
    Q_ADAPTER,
    Q_ADMITTED,
    Q_CACHED,
    Q_CLASS,
    Q_FINISHED,
    Q_FIRST,
    Q_OUTPUT,
    Q_PREEMPTIONS,
    Q_PREFIX,
    Q_PROMPT,
    Q_READY,
    Q_REPLICA,
    Q_UNREAD,
    Q_WRITTEN,
    Counts,
    HostTimes,
    Limits,
    Pool,
    Times,
    World,
    constant_step_times,
    make_world,
)
from computeledger.units import HOUR_S, format_si

#: Events that a request takes beside the steps that read its prompt, and changes of the number of replicas remembered.
_EVENTS_PER_REQUEST, _MOST_CHANGES = 5, 100_000
#: Share of the paid time below which idle time is what rounding leaves.
_ROUNDING = 1e-9
#: Places for sequences on all replicas together; 16 bytes each.
_MOST_PLACES = 50_000_000
#: Entries of a prefix cache, over all replicas and blocks, beyond which it is refused.
_MOST_BLOCKS = 300_000_000


@dataclass(frozen=True, slots=True)
class ServingClock:
    """A fleet to simulate.

    Attributes
    ----------
    pools : tuple of Pool
        One pool that does everything, or one that reads prompts and one that writes.
    n_gpus_per_replica : tuple of int
        By pool [-].
    routing : str
        One of :data:`~computeledger.simulation.serving.loop.ROUTINGS`.
    host_s : HostTimes
        Of a request outside of steps: what all take before they reach a replica, what is more with the first token [s].
    handover_s, handover_s_per_token : float
        To move a cache between pools: once [s], and per token of the prompt [s/token].
    uses_prefixes : bool
        Whether prompts find their beginning in the cache.
    tiers : tuple of Tier
        Memory below HBM that keeps caches, the fastest first.
    autoscale : Autoscale or None
        None for a fixed number of replicas.
    failure_s, repair_s : float
        Mean time between failures of a replica, and until it is back [s].
    class_shares : tuple of float
        Of requests by class, the most urgent first; drawn at random. Empty where all are alike [-].
    """

    pools: tuple[Pool, ...]
    n_gpus_per_replica: tuple[int, ...] = (1,)
    routing: str = "least-requests"
    host_s: HostTimes = NO_HOST_TIMES
    handover_s: float = 0.0
    handover_s_per_token: float = 0.0
    uses_prefixes: bool = True
    tiers: tuple[Tier, ...] = ()
    autoscale: Autoscale | None = None
    failure_s: float = np.inf
    repair_s: float = 0.0
    class_shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_record(self, failure_s=Bound(is_open=True, is_endless=True))
        if problem := AT_LEAST_ONE.problem(self.n_gpus_per_replica):
            raise QuantityError(f"n_gpus_per_replica {problem}")
        if len(self.class_shares) > 1 and any(one.limits.order == LONGEST_PREFIX for one in self.pools):
            raise QuantityError("class_shares: requests that wait by what the cache has of them have no classes")


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a run that is measured, so that filling and draining a fleet do not count."""

    begin_s: float
    end_s: float
    written_tokens: Counts


@dataclass(frozen=True, slots=True)
class ServingClockResult(Displayed):
    """What a simulated fleet did: over a whole trace, or within a window of steady state."""

    scenario: ServingClock
    trace: Trace
    run: ServingRun
    end_s: float
    window: Window | None = None

    @property
    def world(self) -> World:
        """Requests and replicas at the end."""
        return self.run.world

    @property
    def window_s(self) -> tuple[float, float]:
        """Beginning and end of what is measured [s]."""
        if self.window is None:
            return float(self.trace.arrival_s[0]), self.end_s
        return self.window.begin_s, self.window.end_s

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Which requests count: those that arrive within the window."""
        begin_s, end_s = self.window_s
        arrival_s = self.trace.arrival_s
        fresh = True if self.window is None else self.window.written_tokens == 0
        return np.asarray((arrival_s >= begin_s) & (arrival_s <= end_s) & fresh)

    @property
    def times_s(self) -> dict[str, Times]:
        """Time to first token, per further token and end to end of every measured request [s]."""
        measured, late_s = self.measured, self._late_s
        found = measures.latencies(self.world, self.trace.arrival_s)
        later = {name: found[name] + late_s for name in ("ttft_s", "end_to_end_s")}
        return {name: values[measured] for name, values in (found | later).items()}

    @property
    def _late_s(self) -> Times:
        """What each request's own prompt takes outside of steps, beyond what all of them take before."""
        req, host = self.world.req, self.scenario.host_s
        return host.at_s(req[:, Q_PROMPT] - req[:, Q_CACHED]) - host.least_s

    @property
    def percentiles(self) -> dict[str, dict[str, float]]:
        """By quantity: p50, p90, p99 [s]."""
        return measures.percentiles(self.times_s, self.world.gaps)

    @property
    def span_s(self) -> float:
        """Length of the window; from the first arrival to the last token of a trace [s]."""
        begin_s, end_s = self.window_s
        return max(end_s - begin_s, np.finfo(float).tiny)

    @property
    def rejected(self) -> NDArray[np.bool_]:
        """Measured requests that were turned away."""
        when = self.world.when[self.measured]
        return np.asarray(np.isnan(when[:, Q_FIRST]) & ~np.isnan(when[:, Q_FINISHED]))

    @property
    def served_fraction(self) -> float:
        """Share of measured requests that were let in [-]."""
        return float(1 - np.mean(self.rejected)) if len(self.rejected) else 1.0

    @property
    def request_classes(self) -> Counts:
        """Class of every measured request [-]."""
        return np.asarray(self.world.req[self.measured, Q_CLASS])

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Requests whose last token falls within the window."""
        begin_s, end_s = self.window_s
        done_s = self.world.when[:, Q_FINISHED]
        return np.asarray((done_s >= begin_s) & (done_s <= end_s) & ~np.isnan(self.world.when[:, Q_FIRST]))

    @property
    def is_saturated(self) -> bool:
        """Whether the queue grows throughout the trace; of a load in steady state, see ``capacity``."""
        return measures.is_saturated(self.world, self.trace.arrival_s)

    @property
    def n_gpus(self) -> int:
        """GPUs of the fleet at its largest [-]."""
        one = self.scenario
        return sum(pool.n_replicas * gpus for pool, gpus in zip(one.pools, one.n_gpus_per_replica, strict=True))

    @property
    def requests_per_s(self) -> float:
        """Requests done within the window [1/s]."""
        return float(np.sum(self.finished)) / self.span_s

    @property
    def output_tokens_per_s(self) -> float:
        """Output tokens of the requests done within the window [token/s]."""
        return float(self.world.req[self.finished, Q_OUTPUT].sum()) / self.span_s

    @property
    def n_put_back(self) -> int:
        """Times that a sequence lost its cache because memory was full [-]."""
        return int(self.world.req[self.measured, Q_PREEMPTIONS].sum())

    @property
    def cached_fraction(self) -> float:
        """Share of prompt tokens found in the prefix cache [-]."""
        req = self.world.req[self.measured]
        return float(req[:, Q_CACHED].sum() / req[:, Q_PROMPT].sum())

    @property
    def hits(self) -> dict[str, float]:
        """Share of prompt tokens found in HBM, and in each tier below [-]."""
        measured, cache = self.measured, self.world.cache
        prompts = float(self.world.req[measured, Q_PROMPT].sum())
        loaded = cache.prompts[:-1, LOADED:][measured].sum(axis=0) / prompts if cache.block_tokens else np.zeros(0)
        below = {tier.name: float(share) for tier, share in zip(self.scenario.tiers, loaded, strict=False)}
        return {"hbm": self.cached_fraction - sum(below.values()), **below}

    @property
    def prefilled_tokens(self) -> int:
        """Prompt tokens that no cache held [token]."""
        req = self.world.req[self.measured]
        return int((req[:, Q_PROMPT] - req[:, Q_CACHED]).sum())

    @property
    def evicted_tokens(self) -> dict[str, int]:
        """Tokens of cache that gave way in HBM, and in each tier below, over the whole run [token]."""
        cache, n = self.world.cache, len(self.world.rep)
        below = {tier.name: int(cache.chain[np.unique(rows), EVICTED].sum())
                 for tier, rows in zip(self.scenario.tiers, cache.chain[:n, ROW:].T, strict=False)}  # fmt: skip
        return {"hbm": int(cache.chain[:n, EVICTED].sum()), **below}

    def goodput_requests_per_s(self, slo: measures.Slo) -> float:
        """Requests that met an objective, over the span."""
        return float(measures.is_good(self.times_s, slo).sum()) / self.span_s

    def gpu_s(self) -> dict[str, float]:
        """Split the fleet's paid GPU-time by what it does."""
        gpus = self._gpus()
        clock = self.world.clock
        busy = {
            name: float((clock[:, column] * gpus).sum())
            for name, column in (("decode", DECODE_BUSY), ("prefill", PREFILL_BUSY), ("lost", LOST_TIME))
        }
        paid_s = float((self.paid_s() * gpus).sum())
        idle_s = paid_s - sum(busy.values())
        return {**busy, "idle": idle_s if idle_s > _ROUNDING * paid_s else 0.0}

    def paid_s(self) -> Times:
        """Time that each replica is paid for."""
        fleet = self.run.fleet
        if self.scenario.autoscale is None:
            return np.full(len(self.world.rep), self.span_s)
        return np.asarray(fleet.paid_s + np.where(fleet.status != OFF, self.end_s - fleet.on_since_s, 0.0))

    def _gpus(self) -> Times:
        one = self.scenario
        return np.asarray(np.array(one.n_gpus_per_replica, float)[self.world.rep[:, POOL]])

    def paid_gpu_s(self) -> Times:
        """Paid GPU-time by pool."""
        pools = self.world.rep[:, POOL]
        return np.asarray(np.bincount(pools, self.paid_s() * self._gpus(), len(self.scenario.pools)), np.float64)

    def usd(self, usd_per_gpu_hour: float | Times) -> float:
        """What the paid GPU-time costs, at one price or at one of each pool."""
        return float(np.sum(self.paid_gpu_s() * usd_per_gpu_hour)) / HOUR_S

    def flop(self, n_params_active: float) -> float:
        """Model FLOP of the requests done, ``2 N (I + O)``: cached tokens are read, not multiplied."""
        req = self.world.req[self.finished]
        return 2 * n_params_active * float((req[:, Q_PROMPT] - req[:, Q_CACHED] + req[:, Q_OUTPUT]).sum())

    def records(self) -> dict[str, np.ndarray]:
        """Every request as columns."""
        measured = self.measured
        req, when, times = self.world.req[measured], self.world.when[measured], self.times_s
        late_s = self._late_s[measured]
        return {
            "arrival_s": self.trace.arrival_s[measured],
            "input_tokens": req[:, Q_PROMPT], "output_tokens": req[:, Q_OUTPUT], "cached_tokens": req[:, Q_CACHED],
            "admitted_s": when[:, Q_ADMITTED], "first_token_s": when[:, Q_FIRST] + late_s,
            "finished_s": when[:, Q_FINISHED] + late_s,
            **times, "replica": req[:, Q_REPLICA], "preemptions": req[:, Q_PREEMPTIONS],
        }  # fmt: skip

    def timeline(self, n_points: int = 400) -> dict[str, Times]:
        """How many requests wait, are read and written, and how many replicas are paid for."""
        when = self.world.when
        let_in = ~(np.isnan(when[:, Q_FIRST]) & ~np.isnan(when[:, Q_FINISHED]))
        at_s = np.linspace(*self.window_s, n_points)
        fleet, n = self.run.fleet, self.run.fleet.cursor[1]
        on = np.searchsorted(fleet.on_s[:n], at_s, side="right") - 1
        return {
            "time_s": at_s,
            "waiting": measures.in_state(self.trace.arrival_s[let_in], when[let_in, Q_ADMITTED], at_s),
            "reading": measures.in_state(when[:, Q_ADMITTED], when[:, Q_FIRST], at_s),
            "writing": measures.in_state(when[:, Q_FIRST], when[:, Q_FINISHED], at_s),
            "replicas": fleet.on_replicas[np.maximum(on, 0)],
        }


def compile_ahead() -> None:
    """Leave the simulator compiled for processes that start later, where none left it so; without numba nothing.

    Whoever limits the time of a question needs it: no question that may take seconds gets through half a minute of
    compiling, so each would begin anew.
    """
    if not can_compile() or is_stored(serving_loop.serve_loop):
        return
    pool = Pool(1, constant_step_times(1, 1.0, 1.0), Limits(1, 16, 0, 0, 16))
    run = _prepared(ServingClock((pool,)), Trace(np.zeros(1), np.ones(1, np.int64), np.ones(1, np.int64)), 0)
    compiled(serving_loop.serve_loop)(run)


def simulate_serving(
    scenario: ServingClock, trace: Trace, seed: int = 0, window: Window | None = None
) -> ServingClockResult:
    """Simulate a fleet under a load.

    Parameters
    ----------
    scenario : ServingClock
        The fleet.
    trace : Trace
        The load.
    seed : int
        Of random routing and of failures [-].
    window : Window, optional
        What is measured, and what is in flight when the run begins; the whole trace when left out.

    Returns
    -------
    ServingClockResult
        With every record.

    Raises
    ------
    DoesNotFitError
        Where a request is longer than a replica's cache.
    QuantityError
        Where the fleet contradicts itself.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, constant_step_times
    >>> pool = Pool(1, constant_step_times(4, 0.1, 0.5), Limits(4, 1000, 0, 0, 512))
    >>> load = Trace(np.array([0.0, 10.0]), np.array([100, 100]), np.array([3, 3]))
    >>> result = simulate_serving(ServingClock((pool,)), load)
    >>> [round(result.percentiles[name]["p50"], 3) for name in ("ttft_s", "end_to_end_s")], result.is_saturated
    ([0.5, 0.7], False)
    """
    stage("a fleet under load")
    _check(scenario, trace)
    run = _prepared(scenario, trace, seed)
    if window is not None:
        _begin_in_flight(run.world, window)
    chunks = int(np.sum(trace.input_tokens // max(scenario.pools[0].limits.chunk_tokens, 1)))
    n_events = _EVENTS_PER_REQUEST * len(trace.arrival_s) + chunks
    end_s = float(for_events(serving_loop.serve_loop, n_events)(run))
    if trace.turns is not None:  # when later turns came is known now
        trace = replace(trace, arrival_s=run.world.when[:, Q_READY] - scenario.host_s.least_s)
    return ServingClockResult(scenario, trace, run, end_s, window)


def _begin_in_flight(world: World, window: Window) -> None:
    """Requests that have written something arrive with their cache; only the window counts."""
    begun = window.written_tokens > 0
    world.req[begun, Q_WRITTEN] = window.written_tokens[begun]
    world.req[begun, Q_UNREAD] = -1
    world.when[begun, Q_FIRST] = world.when[begun, Q_READY]
    world.window_s[2:] = window.begin_s, window.end_s


def _check(one: ServingClock, trace: Trace) -> None:
    """Refuse what no fleet can do."""
    if one.routing not in ROUTINGS:
        raise QuantityError(f"routing {one.routing!r}: {nearest(one.routing, ROUTINGS)}")
    if not len(trace.arrival_s):
        raise QuantityError("the trace has no requests")
    if min(pool.n_replicas for pool in one.pools) < 1:
        raise QuantityError("replicas = 0: at least 1 is needed in every pool")
    total = trace.input_tokens + trace.output_tokens
    longest = int(np.argmax(total))
    for pool in one.pools:
        if total[longest] + pool.limits.state_tokens > pool.limits.kv_tokens:
            raise DoesNotFitError(
                f"request {longest + 1}: {total[longest]:,} tokens, a replica's cache holds {pool.limits.kv_tokens:,}"
            )
    n, live = sum(pool.n_replicas for pool in one.pools), max(pool.limits.live for pool in one.pools)
    if n * live > _MOST_PLACES:
        raise QuantityError(
            f"replicas {n:,}, each of up to {live:,} sequences: too many to simulate; at most {_MOST_PLACES // live:,}"
        )
    alone_s = float(one.pools[-1].times.decode_s[1]) * int(trace.output_tokens.max())
    if alone_s > one.failure_s:
        raise QuantityError(
            f"failures every {format_si(one.failure_s, 's')}: the longest request decodes for "
            f"{format_si(alone_s, 's')} when it is alone, starts over at each, and hardly ever ends"
        )


def _prepared(one: ServingClock, trace: Trace, seed: int) -> ServingRun:
    """The run at its beginning."""
    rng = np.random.default_rng([seed, 3])
    n, sizes = len(trace.arrival_s), [pool.n_replicas for pool in one.pools]
    pools = list(one.pools)
    if len(pools) > 1:
        pools[0] = pools[0]._replace(limits=pools[0].limits._replace(hands_over=1))
    ready_s = trace.arrival_s + one.host_s.least_s
    made = _cache(one, trace, sum(sizes))
    world = make_world(pools, ready_s, trace.input_tokens, trace.output_tokens, made, max(len(one.class_shares), 1))
    turns = trace.turns
    n_open = n if turns is None else turns.n_open
    world.window_s[:2] = float(trace.arrival_s[n_open // 2]), float(trace.arrival_s[n_open - 1])
    if one.class_shares:
        world.req[:, Q_CLASS] = np.random.default_rng([seed, 5]).choice(len(one.class_shares), n, p=one.class_shares)
    if shares := one.pools[0].adapter_shares:
        world.req[:, Q_ADAPTER] = np.random.default_rng([seed, 6]).choice(len(shares), n, p=shares)
    if trace.cached_tokens is not None:
        world.req[:, Q_PREFIX] = trace.cached_tokens
    moves = n if len(pools) > 1 or turns is not None else 1
    run = serving_loop.plain_run(world, one.routing, rng.random(n) if one.routing == "random" else np.zeros(n))
    return run._replace(
        fleet=_fleet(one, run.fleet, float(trace.arrival_s[0]), rng, world),
        n_first=sizes[0],
        handover_s=np.asarray(one.handover_s + one.handover_s_per_token * trace.input_tokens, np.float64),
        moves_s=np.zeros(moves),
        moves=np.zeros(moves, np.int64),
        n_open=n_open,
        next_turn=run.next_turn if turns is None else turns.next_turn,
        delay_s=run.delay_s if turns is None else turns.delay_s + one.host_s.least_s,
    )


def _cache(one: ServingClock, trace: Trace, n_replicas: int) -> PrefixCache:
    """The empty prefix cache of a run; none where prompts share nothing."""
    prompts: Prompts | None = None
    if one.uses_prefixes and trace.turns is not None:
        prompts = trace.turns.prompts(trace.input_tokens)
    elif one.uses_prefixes and trace.blocks is not None:
        prompts = whole_blocks(list(trace.blocks), trace.block_tokens)
    if prompts is not None:
        n_ids = int(prompts.ids.max()) + 1 if len(prompts.ids) else 0
        if n_ids * n_replicas * (1 + len(one.tiers)) > _MOST_BLOCKS:
            raise QuantityError(f"{n_ids} prefix blocks on {n_replicas} replicas are too many: use part of the trace")
    return make_cache(n_replicas, prompts, one.tiers)


def _fleet(
    one: ServingClock, fleet: serving_loop.Fleet, begin_s: float, rng: np.random.Generator, world: World
) -> serving_loop.Fleet:
    """Failures and scaling, where they are asked for."""
    fleet.on_since_s[:] = begin_s
    fleet.on_s[:] = begin_s
    n = len(world.rep)
    if np.isfinite(one.failure_s):
        gaps = rng.exponential(one.failure_s, max(4096, n))
        fleet = fleet._replace(fails_s=begin_s + np.resize(gaps, n), fail_gaps_s=gaps, repair_s=one.repair_s)
        fleet.cursor[0] = n
        world.clock[:, INTERRUPT] = fleet.fails_s
    if one.autoscale is None:
        return fleet
    rule, most = one.autoscale, one.pools[-1].n_replicas
    if not 1 <= rule.least <= most:
        raise QuantityError(f"autoscale from {rule.least} to {most} replicas: the fewest must lie in 1..{most}")
    n_first = n - most + rule.least
    fleet.status[:] = np.where(np.arange(n) < n_first, ON, OFF)
    on_s, on_replicas = np.zeros(_MOST_CHANGES), np.zeros(_MOST_CHANGES)
    on_s[0], on_replicas[0] = begin_s, n_first
    return fleet._replace(
        tick_s=rule.tick_s, start_s=rule.start_s, scaling=make_scaling(rule), on_s=on_s, on_replicas=on_replicas
    )


def at_pace(scenario: ServingClock, trace: Trace, ratio: float, seed: int = 0) -> ServingClockResult:
    """Simulate the same requests arriving faster or slower.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, constant_step_times
    >>> pool = Pool(1, constant_step_times(4, 0.1, 0.5), Limits(4, 1000, 0, 0, 512))
    >>> load = Trace(np.array([0.0, 10.0]), np.array([100, 100]), np.array([3, 3]))
    >>> round(at_pace(ServingClock((pool,)), load, 2.0).end_s, 3)
    5.7
    """
    return simulate_serving(scenario, trace.faster(ratio), seed)
