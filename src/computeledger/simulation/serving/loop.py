"""The events of a serving fleet in order of time: arrivals, step boundaries, hand-overs, scaling, failures."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from computeledger.simulation.admission import drop_first_waiting
from computeledger.simulation.compiled import kernel
from computeledger.simulation.heaps import first_leaf, pop, push
from computeledger.simulation.prefix_cache import IDLE, evict, reached_blocks
from computeledger.simulation.replica import enqueue, evacuate, finish_run, schedule, stall
from computeledger.simulation.serving.scaling import Autoscale, Scaling, desired_replicas, make_scaling
from computeledger.simulation.state import (
    DECODING,
    FIRST_WAITING,
    INTERRUPT,
    L_KV,
    L_QUEUE,
    LIVE,
    N_DONE,
    N_SENT,
    N_SENT_ON,
    NOW,
    PLANNED,
    POOL,
    Q_ADMITTED,
    Q_FINISHED,
    Q_HOME,
    Q_LINK,
    Q_PROMPT,
    Q_READY,
    Q_UNREAD,
    USED,
    WAITING,
    Counts,
    Times,
    World,
)
from computeledger.simulation.steps import decode_step_s, steps_until

#: How a request finds its replica; the number is the kernels'.
ROUTINGS = {"round-robin": 0, "random": 1, "least-requests": 2, "least-tokens": 3, "prefix": 4, "session": 5}
OFF, ON, DRAINING = 0, 1, 2


class Fleet(NamedTuple):
    """What changes the number of replicas, and how often they fail."""

    status: Counts
    ready_s: Times
    on_since_s: Times
    paid_s: Times
    fails_s: Times
    tick_s: float
    start_s: float
    repair_s: float
    scaling: Scaling
    fail_gaps_s: Times
    on_s: Times
    on_replicas: Times
    cursor: Counts


class ServingRun(NamedTuple):
    """A simulation of serving, ready to run."""

    world: World
    fleet: Fleet
    routing: int
    n_first: int
    draws: Times
    handover_s: Times
    moves_s: Times
    moves: NDArray[np.int64]
    n_open: int
    next_turn: Counts
    delay_s: Times


@kernel
def serve_loop(run: ServingRun) -> float:
    """Run until every request is done.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> run = plain_run(example_world())
    >>> float(serve_loop(run)), run.world.when[:, Q_FINISHED]
    (3.0, array([3., 3.]))
    """
    world, fleet = run.world, run.fleet
    ready_s, tree = world.when[:, Q_READY], world.tree
    n, at, n_done, n_moves, now_s = len(ready_s), 0, 0, 0, 0.0
    n_later = 0  # turns of conversations that came after an earlier one
    tick_s = ready_s[0] + fleet.tick_s
    while n_done < n:
        arrival_s = ready_s[at] if at < run.n_open else np.inf
        move_s = run.moves_s[0] if n_moves > 0 else np.inf
        if min(arrival_s, move_s) <= min(tree[1], tick_s):
            if arrival_s <= move_s:
                now_s, q, low, high = arrival_s, at, 0, run.n_first
                at += 1
            else:
                now_s, q = move_s, run.moves[0]
                pop(run.moves_s, run.moves, n_moves)
                n_moves -= 1
                low, high = _moves_to(run, q, now_s)
                n_later += low == 0
            n_away = _send(run, q, (low, high), now_s)
            n_done += n_away
            n_later += max(n_away - 1, 0)
        elif tick_s < tree[1]:
            now_s = tick_s
            _scale(run, now_s, at + n_later - n_done)
            tick_s += fleet.tick_s
        else:
            r = first_leaf(tree)
            now_s = tree[1]
            finish_run(world, r)
            for place in range(world.counters[N_DONE]):
                is_done = not math.isnan(world.when[world.done[place], Q_FINISHED])
                n_done += is_done
                if not is_done or len(run.next_turn) > 0:
                    n_moves += _send_on(run, world.done[place], n_moves, now_s)
            if fleet.fails_s[r] <= now_s:
                _fail(run, r, now_s)
            else:
                schedule(world, r)
                if fleet.status[r] == DRAINING and world.rep[r, LIVE] + world.rep[r, WAITING] == 0:
                    _switch_off(fleet, r, now_s)
    return now_s


@kernel
def _send(run: ServingRun, q: int, between: tuple[int, int], now_s: float) -> int:
    """Send a request to a replica of a pool.

    Where the first pool's line is full it is turned away for good, with the later turns of its conversation: how many.
    """
    world = run.world
    r = _route(run, q, between, now_s)
    line = world.limits[world.rep[r, POOL], L_QUEUE]
    if between[0] == 0 and 0 < line <= world.rep[r, WAITING]:
        n_away = 0
        while q >= 0:
            world.when[q, Q_FINISHED] = now_s
            n_away += 1
            q = run.next_turn[q] if len(run.next_turn) > 0 else -1
        return n_away
    enqueue(world, r, q, now_s)
    return 0


@kernel
def _moves_to(run: ServingRun, q: int, now_s: float) -> tuple[int, int]:
    """Replicas that may take what comes now: a later turn as any arrival, a request that was read with its cache."""
    if math.isnan(run.world.when[q, Q_ADMITTED]):
        run.world.when[q, Q_READY] = now_s
        return 0, run.n_first
    run.world.req[q, Q_UNREAD] = -1
    return run.n_first, len(run.fleet.status)


@kernel
def _send_on(run: ServingRun, q: int, n_moves: int, now_s: float) -> int:
    """What follows from a request that leaves its replica: its hand-over, or the next turn of its conversation."""
    if math.isnan(run.world.when[q, Q_FINISHED]):
        push(run.moves_s, run.moves, n_moves, now_s + run.handover_s[q], q)
        return 1
    if len(run.next_turn) > 0 and run.next_turn[q] >= 0:
        push(run.moves_s, run.moves, n_moves, now_s + run.delay_s[q], run.next_turn[q])
        return 1
    return 0


@kernel
def _used_tokens(world: World, r: int, now_s: float) -> int:
    """Tokens in a replica's cache after the steps that its present run has taken by now."""
    rep, done = world.rep, 0
    if rep[r, PLANNED] > 1:
        first_s, more_s = decode_step_s(world, r)
        done = min(steps_until(first_s, more_s, now_s - world.clock[r, NOW]), rep[r, PLANNED]) - 1
    return int(rep[r, USED] + rep[r, DECODING] * done)


@kernel
def _queued_tokens(world: World, r: int, now_s: float) -> float:
    """Tokens in a replica's cache and in the prompts that wait for it."""
    q, tokens = world.rep[r, FIRST_WAITING], _used_tokens(world, r, now_s)
    while q >= 0:
        tokens += world.req[q, Q_PROMPT]
        q = world.req[q, Q_LINK]
    return float(tokens)


@kernel
def _route(run: ServingRun, q: int, between: tuple[int, int], now_s: float) -> int:
    """Choose a replica of a pool."""
    world, fleet = run.world, run.fleet
    low, high = between
    rep, status, ready_s = world.rep, fleet.status, fleet.ready_s
    usable = 0
    for r in range(low, high):
        if status[r] == ON and ready_s[r] <= now_s:
            usable += 1
    least, chosen, count = np.inf, low, 0
    wanted, is_by_prefix = -1, run.routing == 4 and world.cache.block_tokens > 0
    if run.routing == 0:
        counter = N_SENT if low == 0 else N_SENT_ON
        wanted = world.counters[counter] % max(usable, 1)
        world.counters[counter] += 1
    elif run.routing == 1:
        wanted = int(run.draws[q] * usable)
    of_session = low == 0 and run.routing == 5 and len(run.next_turn) > 0
    if of_session and _is_home(run, world.req[q, Q_HOME], now_s):
        return _settled(run, q, int(world.req[q, Q_HOME]))
    # of prefill workers, most often idle, and for turns to come the load at this moment says little
    is_emptiest = (of_session and run.next_turn[q] >= 0) or (is_by_prefix and low == 0 and high < len(status))
    for r in range(low, high):
        if status[r] != ON or (usable > 0 and ready_s[r] > now_s):
            continue
        if count == wanted:
            return r
        count += 1
        load = float(rep[r, LIVE] + rep[r, WAITING]) if run.routing != 3 else _queued_tokens(world, r, now_s)
        if load < least:
            least, chosen = load, r
        elif is_emptiest and load == least and _kept_tokens(world, r, now_s) < _kept_tokens(world, chosen, now_s):
            chosen = r
    if is_by_prefix:
        return _by_prefix(run, q, between, (chosen, least), now_s)
    return _settled(run, q, chosen) if of_session else chosen


@kernel
def _is_home(run: ServingRun, r: int, now_s: float) -> bool:
    """Whether a conversation has a replica, and that one serves."""
    return r >= 0 and run.fleet.status[r] == ON and run.fleet.ready_s[r] <= now_s


@kernel
def _settled(run: ServingRun, q: int, r: int) -> int:
    """The replica of a turn, where the next one of its conversation will come too."""
    if run.next_turn[q] >= 0:
        run.world.req[run.next_turn[q], Q_HOME] = r
    return r


@kernel
def _evict_by_now(world: World, r: int, now_s: float) -> None:
    """Idle blocks give way to what the present run has written so far."""
    rep = world.rep
    room = world.limits[rep[r, POOL], L_KV] - _used_tokens(world, r, now_s) - rep[r, DECODING]
    evict(world.cache, r, room)


@kernel
def _kept_tokens(world: World, r: int, now_s: float) -> int:
    """Tokens that a prefill worker has in memory, idle caches included: of equal load the emptiest is taken."""
    _evict_by_now(world, r, now_s)
    return int(_used_tokens(world, r, now_s) + world.cache.chain[r, IDLE])


@kernel
def _by_prefix(run: ServingRun, q: int, between: tuple[int, int], best: tuple[int, float], now_s: float) -> int:
    """The replica that has most of a prompt, unless it carries a quarter and four more than the least loaded."""
    world, rep, status = run.world, run.world.rep, run.fleet.status
    chosen, least = best
    _evict_by_now(world, chosen, now_s)
    most = reached_blocks(world.cache, chosen, q)
    for r in range(between[0], between[1]):
        if status[r] == ON and rep[r, LIVE] + rep[r, WAITING] <= 1.25 * least + 4:
            _evict_by_now(world, r, now_s)
            matched = reached_blocks(world.cache, r, q)
            if matched > most:
                most, chosen = matched, r
    return chosen


@kernel
def _fail(run: ServingRun, r: int, now_s: float) -> None:
    """A replica fails: what it carried starts over elsewhere, of a decode worker with a prefill worker."""
    world, fleet, between = run.world, run.fleet, (0, run.n_first)
    evacuate(world, r, now_s)
    if world.cache.block_tokens > 0:
        evict(world.cache, r, 0)
    n_lost = world.counters[N_DONE]
    until_s = now_s + fleet.repair_s
    fleet.ready_s[r] = until_s
    fleet.cursor[2] += 1
    fleet.fails_s[r] = until_s + fleet.fail_gaps_s[fleet.cursor[0] % len(fleet.fail_gaps_s)]
    fleet.cursor[0] += 1
    world.clock[r, INTERRUPT] = fleet.fails_s[r]
    stall(world, r, until_s)
    for place in range(n_lost - 1, -1, -1):
        q = world.done[place]
        enqueue(world, _route(run, q, between, now_s), q, now_s)
    for _ in range(world.rep[r, WAITING]):
        q = drop_first_waiting(world, r)
        world.req[q, Q_UNREAD] = 0  # a cache that was handed over is lost
        enqueue(world, _route(run, q, between, now_s), q, now_s)


@kernel
def _scale(run: ServingRun, now_s: float, in_flight: int) -> None:
    """Bring the number of replicas towards what is wanted; of two pools those that decode, by what they have."""
    fleet, n_on, low, high = run.fleet, 0, 0, run.n_first
    if run.n_first < len(fleet.status):
        low, high, in_flight = run.n_first, len(fleet.status), 0
        for r in range(low, high):
            in_flight += run.world.rep[r, LIVE] + run.world.rep[r, WAITING]
    for r in range(low, high):
        if fleet.status[r] == ON:
            n_on += 1
    wanted = desired_replicas(fleet.scaling, now_s, (n_on, high - low), float(in_flight))
    for r in range(low, high):
        if n_on < wanted and fleet.status[r] == DRAINING:
            fleet.status[r] = ON
            n_on += 1
    for r in range(low, high):
        if n_on < wanted and fleet.status[r] == OFF:
            fleet.status[r] = ON
            fleet.on_since_s[r] = now_s
            fleet.ready_s[r] = now_s + fleet.start_s
            stall(run.world, r, now_s + fleet.start_s)
            _note(fleet, now_s, 1)
            n_on += 1
    for r in range(high - 1, low - 1, -1):
        if n_on > wanted and fleet.status[r] == ON:
            fleet.status[r] = DRAINING
            n_on -= 1
            if run.world.rep[r, LIVE] + run.world.rep[r, WAITING] == 0:
                _switch_off(fleet, r, now_s)


@kernel
def _switch_off(fleet: Fleet, r: int, now_s: float) -> None:
    """A replica is no longer paid for."""
    fleet.status[r] = OFF
    fleet.paid_s[r] += now_s - fleet.on_since_s[r]
    _note(fleet, now_s, -1)


@kernel
def _note(fleet: Fleet, now_s: float, change: int) -> None:
    """Remember when the number of paid replicas changed."""
    place = fleet.cursor[1]
    if place < len(fleet.on_s):
        fleet.on_s[place] = now_s
        fleet.on_replicas[place] = (fleet.on_replicas[place - 1] if place > 0 else 0.0) + change
        fleet.cursor[1] = place + 1


def make_fleet(n_replicas: int) -> Fleet:
    """Make a fleet of replicas that are on from the first moment, never fail and stay.

    Examples
    --------
    >>> make_fleet(2).status
    array([1, 1])
    """
    return Fleet(
        status=np.full(n_replicas, ON),
        ready_s=np.zeros(n_replicas), on_since_s=np.zeros(n_replicas), paid_s=np.zeros(n_replicas),
        fails_s=np.full(n_replicas, np.inf),
        tick_s=np.inf, start_s=0.0, repair_s=0.0, scaling=make_scaling(Autoscale(1, 1.0)),
        fail_gaps_s=np.full(1, np.inf), on_s=np.zeros(1), on_replicas=np.full(1, float(n_replicas)),
        cursor=np.array([0, 1, 0]),
    )  # fmt: skip


def plain_run(world: World, routing: str = "least-requests", draws: Times | None = None) -> ServingRun:
    """Make a run over replicas of one pool.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> plain_run(example_world()).n_first
    1
    """
    n, n_requests = len(world.rep), len(world.req)
    draws = np.zeros(n_requests) if draws is None else draws
    none = np.zeros(0, np.int64)
    return ServingRun(
        world, make_fleet(n), ROUTINGS[routing], n, draws, np.zeros(1), np.zeros(1), np.zeros(1, np.int64),
        n_requests, none, np.zeros(0),
    )  # fmt: skip
