"""One replica of continuous batching, from event to event.

Decoding sequences advance together, one token per step. Between two changes of the batch the step time grows by the
same amount each step, because every cache grows by one token; so a run of ``n`` steps takes

    n (a + c K) + c B n (n - 1) / 2

with ``B`` sequences, ``K`` tokens in their caches, and ``a``, ``c`` from the table of step times. A run ends at the
next finish, when the cache is full, or at the first step boundary after something else happened. Steps that read
prompts are taken one by one: there are few of them.
"""

from __future__ import annotations

import math

import numpy as np

from computeledger.simulation.adapters import takes_adapter
from computeledger.simulation.admission import (
    admit,
    enqueue_last,
    make_room,
    note_moved,
    put_back_latest,
    release,
    retract,
    start_writing,
    take_off_latest,
)
from computeledger.simulation.compiled import kernel
from computeledger.simulation.heaps import (
    pop,
    put_end,
)
from computeledger.simulation.prefix_cache import (
    evict,
    extend_blocks,
    put_blocks,
    share_blocks,
)
from computeledger.simulation.schedulers import SHARE, first_share, lower_share, step_tokens
from computeledger.simulation.state import (
    ADMISSION,
    ADMISSION_TIME,
    BLOCKED,
    BLOCKED_TIME,
    CONTEXT,
    COPYING,
    DECODE_BUSY,
    DECODING,
    FIRST_LAG,
    FIRST_MOVED,
    FIRST_READING,
    FIRST_WAITING,
    FULL,
    INTERRUPT,
    KEPT,
    KEPT_FREE,
    L_ADAPTERS,
    L_HANDS_OVER,
    L_KEEPS_FREE,
    L_KV,
    L_LIVE,
    L_READS_ALONE,
    L_STAGES,
    LAST_READING,
    LIVE,
    LOADING,
    LOST_TIME,
    N_DONE,
    N_RUNS,
    NOW,
    PAUSED,
    PLANNED,
    POOL,
    PREFILL_BUSY,
    Q_CHUNK_START,
    Q_FINISHED,
    Q_FIRST,
    Q_LAST,
    Q_LINK,
    Q_OUTPUT,
    Q_PROMPT,
    Q_REPLICA,
    Q_UNREAD,
    Q_WRITTEN,
    STEPS,
    USED,
    World,
)
from computeledger.simulation.steps import (
    count_gaps,
    decode_step_s,
    gap_bin,
    next_chunk,
    reading_beside_s,
    reading_s,
    run_s,
    steps_until,
)


@kernel
def enqueue(world: World, r: int, q: int, now_s: float) -> None:
    """Give a request to a replica, which sees it at its next step boundary.

    Examples
    --------
    >>> from computeledger.simulation.state import WAITING, example_world
    >>> world = example_world()
    >>> enqueue(world, 0, 1, 0.0), int(world.rep[0, WAITING])
    (None, 1)
    """
    rep, clock = world.rep, world.clock
    world.req[q, Q_REPLICA] = r
    enqueue_last(world, r, q)
    if rep[r, PLANNED] == 0:
        look_s = max(now_s, clock[r, NOW])
        if look_s < world.tree[(len(world.tree) >> 1) + r]:
            put_end(world.tree, r, look_s)
    elif rep[r, PLANNED] > 1 and rep[r, LIVE] < world.limits[rep[r, POOL], L_LIVE]:
        is_limited = world.limits[rep[r, POOL], L_ADAPTERS] > 0
        if takes_adapter(world, r, q) if is_limited else rep[r, FIRST_WAITING] == q:
            interrupt(world, r, now_s)


@kernel
def interrupt(world: World, r: int, now_s: float) -> None:
    """End a replica's run at the first step boundary from now on.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> enqueue(world, 0, 0, 0.0), schedule(world, 0), finish_run(world, 0), schedule(world, 0)
    (None, None, None, None)
    >>> interrupt(world, 0, 1.5), float(world.tree[1])
    (None, 2.0)
    """
    rep, clock = world.rep, world.clock
    if rep[r, PLANNED] > 1 and rep[r, FIRST_READING] < 0:
        first_s, more_s = decode_step_s(world, r)
        n = steps_until(first_s, more_s, now_s - clock[r, NOW])
        if n < rep[r, PLANNED]:
            rep[r, PLANNED] = n
            put_end(world.tree, r, clock[r, NOW] + run_s(first_s, more_s, n))


@kernel
def finish_run(world: World, r: int) -> None:
    """Carry out the run that a replica had planned; ``world.done`` lists what ended or is to be handed over.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> enqueue(world, 0, 0, 0.0), schedule(world, 0), finish_run(world, 0), float(world.when[0, Q_FIRST])
    (None, None, None, 1.0)
    """
    rep, clock = world.rep, world.clock
    begin_s, end_s, n = clock[r, NOW], world.tree[(len(world.tree) >> 1) + r], rep[r, PLANNED]
    world.counters[N_DONE] = 0
    world.counters[N_RUNS] += 1
    rep[r, PLANNED] = 0
    clock[r, NOW] = max(begin_s, end_s)
    if n == 0:
        return
    if rep[r, BLOCKED]:
        clock[r, BLOCKED_TIME] += max(min(end_s, world.window_s[1]) - max(begin_s, world.window_s[0]), 0.0)
    if rep[r, FIRST_READING] >= 0 and world.limits[rep[r, POOL], L_READS_ALONE]:
        if rep[r, DECODING] > 0:
            clock[r, PAUSED] += end_s - begin_s
        clock[r, PREFILL_BUSY] += _counted_fraction(world, begin_s, end_s) * (end_s - begin_s)
    else:
        _decode(world, r, (begin_s, end_s), n)
    if world.cache.block_tokens > 0:
        evict(world.cache, r, world.limits[rep[r, POOL], L_KV] - rep[r, USED])
    if rep[r, FIRST_READING] >= 0:
        _read_chunk(world, r, end_s)
    _finish_sequences(world, r, end_s)


@kernel
def _decode(world: World, r: int, times_s: tuple[float, float], n: int) -> None:
    """Carry out steps that write a token for every sequence, whether or not they read prompts beside."""
    rep, clock, live = world.rep, world.clock, world.rep[r, DECODING]
    begin_s, end_s = times_s
    first_s, more_s = decode_step_s(world, r)
    counted = _counted_fraction(world, begin_s, end_s)
    step_s = end_s - begin_s if rep[r, FIRST_READING] >= 0 else first_s
    if rep[r, FIRST_MOVED] >= 0 or clock[r, PAUSED] > 0:
        _count_moved(world, r, (begin_s, step_s), counted > 0)
    if rep[r, FIRST_READING] >= 0:
        if live > 0 and counted > 0:
            count_gaps(world, step_s, 0.0, 1, live)
        clock[r, DECODE_BUSY] += counted * first_s
        clock[r, PREFILL_BUSY] += counted * (step_s - first_s)
    else:
        if counted > 0:
            count_gaps(world, first_s, more_s, n, live)
        clock[r, DECODE_BUSY] += counted * (end_s - begin_s)
    rep[r, STEPS] += n
    rep[r, CONTEXT] += n * live
    rep[r, USED] += n * live
    if live > 0 and world.limits[rep[r, POOL], L_KEEPS_FREE] == SHARE:
        lower_share(world, r, n)


@kernel
def _count_moved(world: World, r: int, step: tuple[float, float], is_counted: bool) -> None:
    """Gaps that are longer than this first step: after a pause, and of sequences whose prompt was read meanwhile.

    Of sequences that were handed over it is no gap: this step gives the first token that their client sees.
    """
    rep, req = world.rep, world.req
    begin_s, step_s = step
    q, others, weight = rep[r, FIRST_MOVED], rep[r, DECODING], 1.0 if is_counted else 0.0
    while q >= 0:
        others -= 1
        world.gaps[gap_bin(step_s)] -= weight
        if math.isnan(world.when[q, Q_FIRST]):
            world.when[q, Q_FIRST] = begin_s + step_s
        else:
            world.gaps[gap_bin(begin_s + step_s - world.when[q, Q_LAST])] += weight
        world.when[q, Q_LAST] = np.nan
        after = req[q, Q_LINK]
        req[q, Q_LINK] = -1
        q = after
    if world.clock[r, PAUSED] > 0:
        world.gaps[gap_bin(step_s)] -= weight * others
        world.gaps[gap_bin(step_s + world.clock[r, PAUSED])] += weight * others
        world.clock[r, PAUSED] = 0.0
    rep[r, FIRST_MOVED] = -1


@kernel
def _counted_fraction(world: World, begin_s: float, end_s: float) -> float:
    """Share of a run of steps that lies within the measured window."""
    within_s = min(end_s, world.window_s[3]) - max(begin_s, world.window_s[2])
    return float(max(min(within_s / max(end_s - begin_s, 1e-300), 1.0), 0.0))


@kernel
def schedule(world: World, r: int) -> None:
    """Put back what no longer fits, let in what does, and plan the next run.

    Parameters
    ----------
    world : World
        Changed in place.
    r : int
        Replica, between two runs [-].

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> enqueue(world, 0, 0, 0.0), schedule(world, 0), float(world.tree[1])
    (None, None, 1.0)
    """
    rep, limits = world.rep, world.limits[world.rep[r, POOL]]
    kv_tokens = limits[L_KV]
    is_full = False
    if rep[r, LIVE] == 0 and (rep[r, FIRST_WAITING] < 0 or rep[r, STEPS] == 0):
        world.clock[r, KEPT_FREE] = first_share(world, r)
    if limits[L_KEEPS_FREE] == SHARE:
        admit(world, r)
        if rep[r, FIRST_READING] < 0 or not limits[L_READS_ALONE]:
            is_full = retract(world, r)
    else:
        while rep[r, LIVE] > 1 and rep[r, USED] + rep[r, DECODING] > kv_tokens:
            put_back_latest(world, r)
            is_full = True
        if not is_full:
            admit(world, r)
    if rep[r, KEPT] > 0:
        make_room(world, r, kv_tokens - rep[r, USED] - rep[r, DECODING])
    if world.cache.block_tokens > 0:
        evict(world.cache, r, kv_tokens - rep[r, USED] - rep[r, DECODING])
    _plan(world, r, 1 if is_full else kv_tokens)


@kernel
def evacuate(world: World, r: int, now_s: float) -> None:
    """Take everything off a replica at once, in the middle of a step if need be: progress of the broken step is lost.

    ``world.done`` then lists the live sequences, latest admitted first; those that wait stay in line.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> enqueue(world, 0, 0, 0.0), schedule(world, 0), evacuate(world, 0, 0.5), float(world.clock[0, LOST_TIME])
    (None, None, None, 0.5)
    """
    rep, clock = world.rep, world.clock
    broken_s = 0.0
    if rep[r, PLANNED] > 0:
        begin_s = clock[r, NOW]
        n = 0
        first_s, more_s = decode_step_s(world, r)
        if rep[r, FIRST_READING] < 0:
            n = min(steps_until(first_s, more_s, now_s - begin_s) - 1, rep[r, PLANNED] - 1)
        if n > 0:
            rep[r, PLANNED] = n
            whole_s = run_s(first_s, more_s, n)
            put_end(world.tree, r, begin_s + whole_s)
            finish_run(world, r)
            begin_s += whole_s
        broken_s = max(now_s - begin_s, 0.0)
    clock[r, LOST_TIME] += broken_s * _counted_fraction(world, now_s - broken_s, now_s)
    rep[r, PLANNED] = 0
    clock[r, NOW] = max(clock[r, NOW], now_s)
    world.counters[N_DONE] = 0
    while rep[r, LIVE] > 0:
        q = take_off_latest(world, r)
        world.done[world.counters[N_DONE]] = q
        world.counters[N_DONE] += 1
    clock[r, PAUSED] = 0.0
    put_end(world.tree, r, np.inf)


@kernel
def stall(world: World, r: int, until_s: float) -> None:
    """Let a replica do nothing for a while, between two runs.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> stall(world, 0, 2.0), float(world.tree[1])
    (None, 2.0)
    """
    world.rep[r, PLANNED] = 0
    world.clock[r, NOW] = until_s
    put_end(world.tree, r, until_s)


@kernel
def _read_chunk(world: World, r: int, end_s: float) -> None:
    """Read what :func:`next_chunk` counted; prompts that are read to their end give a token."""
    rep, req = world.rep, world.req
    most, budget = step_tokens(world, r)
    before, q = -1, rep[r, FIRST_READING]
    while q >= 0 and budget > 0:
        take = min(req[q, Q_UNREAD], most, budget)
        budget -= take
        req[q, Q_UNREAD] -= take
        req[q, Q_CHUNK_START] += take
        after = req[q, Q_LINK]
        if req[q, Q_UNREAD] == 0:
            if before < 0:
                rep[r, FIRST_READING] = after
            else:
                req[before, Q_LINK] = after
            if after < 0:
                rep[r, LAST_READING] = before
            req[q, Q_LINK] = -1
            _first_token(world, r, q, end_s)
        else:
            before = q
        q = after
    if rep[r, FIRST_READING] >= 0:
        rep[r, FULL] = 0


@kernel
def _first_token(world: World, r: int, q: int, end_s: float) -> None:
    """A prompt is read: its sequence has a token more, and writes on or ends; or it is handed over without one."""
    rep, req, when = world.rep, world.req, world.when
    if world.cache.block_tokens > 0:
        put_blocks(world.cache, r, q)
    if world.limits[rep[r, POOL], L_HANDS_OVER]:  # who decodes makes the first token, out of the cache that comes
        release(world, r, q, req[q, Q_PROMPT] + req[q, Q_WRITTEN])
        world.done[world.counters[N_DONE]] = q
        world.counters[N_DONE] += 1
        return
    req[q, Q_WRITTEN] += 1
    if math.isnan(when[q, Q_FIRST]):
        when[q, Q_FIRST] = end_s + world.clock[r, FIRST_LAG]
    elif not math.isnan(when[q, Q_LAST]):
        world.gaps[gap_bin(end_s - when[q, Q_LAST])] += 1.0
        when[q, Q_LAST] = np.nan
    held = req[q, Q_PROMPT] + req[q, Q_WRITTEN] - 1
    limits = world.limits[rep[r, POOL]]
    if req[q, Q_WRITTEN] < req[q, Q_OUTPUT]:
        start_writing(world, r, q, held)
        if limits[L_READS_ALONE]:
            note_moved(world, r, q, end_s)
        return
    when[q, Q_FINISHED] = max(end_s, when[q, Q_FIRST])
    release(world, r, q, held)
    world.done[world.counters[N_DONE]] = q
    world.counters[N_DONE] += 1


@kernel
def _finish_sequences(world: World, r: int, end_s: float) -> None:
    """Sequences that have written their last token leave."""
    rep, req, when = world.rep, world.req, world.when
    while rep[r, DECODING] > 0 and world.finish_step[r, 0] <= rep[r, STEPS]:
        q = world.finish_request[r, 0]
        pop(world.finish_step[r], world.finish_request[r], rep[r, DECODING])
        rep[r, DECODING] -= 1
        req[q, Q_WRITTEN] = req[q, Q_OUTPUT]
        when[q, Q_FINISHED] = max(end_s, when[q, Q_FIRST])
        held = req[q, Q_PROMPT] + req[q, Q_OUTPUT] - 1
        rep[r, CONTEXT] -= held
        if world.cache.block_tokens > 0:
            extend_blocks(world.cache, r, q, held - req[q, Q_PROMPT])
            if rep[r, POOL] > 0:
                share_blocks(world.cache, r, q, held - req[q, Q_PROMPT])
        release(world, r, q, held)
        world.done[world.counters[N_DONE]] = q
        world.counters[N_DONE] += 1


@kernel
def _plan(world: World, r: int, most_steps: int) -> None:
    """Plan the steps until the batch changes."""
    rep, clock = world.rep, world.clock
    pool, live, now_s = rep[r, POOL], rep[r, DECODING], clock[r, NOW]
    is_blocked = rep[r, FIRST_WAITING] >= 0
    first_s, more_s = decode_step_s(world, r)
    if rep[r, FIRST_READING] >= 0:
        chunk = next_chunk(world, r)
        read_s = reading_s(world, pool, max(chunk[0], chunk[2]), chunk[3])
        clock[r, FIRST_LAG] = 0.0
        if live > 0:
            beside_s = reading_beside_s(world, pool, live, chunk)
            if world.limits[pool, L_STAGES] > 1:  # the other stages go on meanwhile: a prompt's own way is longer
                clock[r, FIRST_LAG] = max(read_s - beside_s, 0.0)
            read_s = beside_s
            clock[r, FIRST_LAG] += clock[r, ADMISSION] * first_s + clock[r, ADMISSION_TIME]
        if clock[r, LOADING] > 0:
            read_s = max(read_s, clock[r, LOADING])
            clock[r, LOADING] = 0.0
        read_s += clock[r, COPYING]
        clock[r, COPYING] = 0.0
        rep[r, PLANNED] = 1
        is_blocked = is_blocked or chunk[4] > 0
        end_s = now_s + read_s + (0.0 if world.limits[pool, L_READS_ALONE] else first_s)
    elif live > 0:
        room = max((world.limits[pool, L_KV] - rep[r, USED]) // live, 1)
        n = min(world.finish_step[r, 0] - rep[r, STEPS], room, most_steps)
        if clock[r, INTERRUPT] < np.inf:
            n = min(n, steps_until(first_s, more_s, clock[r, INTERRUPT] - now_s))
        rep[r, PLANNED] = n
        end_s = now_s + run_s(first_s, more_s, n)
    else:
        end_s = clock[r, INTERRUPT] if clock[r, INTERRUPT] > now_s else np.inf
    rep[r, BLOCKED] = is_blocked
    put_end(world.tree, r, end_s)
