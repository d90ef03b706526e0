"""Who is in a batch: letting sequences in, and giving their memory back."""

from __future__ import annotations

import math

from computeledger.simulation.adapters import leave_adapter, name_adapter, next_taken
from computeledger.simulation.compiled import kernel
from computeledger.simulation.heaps import (
    push,
    remove,
)
from computeledger.simulation.orders import is_last_of_class, place_by_output, sort_by_prefix
from computeledger.simulation.prefix_cache import (
    drop_blocks,
    held_blocks,
    idle_blocks,
    load_blocks,
    matched_blocks,
    take_blocks,
)
from computeledger.simulation.schedulers import (
    LONGEST_OUTPUT,
    LONGEST_PREFIX,
    SHARE,
    believed_tokens,
    free_tokens,
    raise_share,
    step_tokens,
    tokens_left,
)
from computeledger.simulation.state import (
    CONTEXT,
    DECODING,
    FIRST_KEPT,
    FIRST_MOVED,
    FIRST_READING,
    FIRST_WAITING,
    FULL,
    HELD,
    KEPT,
    L_HANDS_OVER,
    L_KEEPS_FREE,
    L_KV,
    L_LIVE,
    L_ORDER,
    L_RESERVE,
    L_STATE,
    LAST_KEPT,
    LAST_READING,
    LAST_WAITING,
    LIVE,
    LOADING,
    N_ADMITTED,
    N_PUT_BACK,
    NOW,
    PAUSED,
    POOL,
    Q_ADMITTED,
    Q_BEGAN,
    Q_CACHED,
    Q_CHUNK_START,
    Q_CLASS,
    Q_FIRST,
    Q_KEPT,
    Q_LAST,
    Q_LAST_KEPT,
    Q_LINK,
    Q_NEXT_KEPT,
    Q_ORDER,
    Q_OUTPUT,
    Q_PREEMPTIONS,
    Q_PREFIX,
    Q_PROMPT,
    Q_UNREAD,
    Q_VERSION,
    Q_WRITTEN,
    SKIPPED,
    STEPS,
    USED,
    VERSION,
    WAITING,
    World,
)


@kernel
def admit(world: World, r: int) -> None:
    """Let in from the head of the line what there is room for.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> enqueue_first(world, 0, 0), admit(world, 0), int(world.rep[0, LIVE]), int(world.rep[0, USED])
    (None, None, 1, 10)
    """
    rep, req, limits = world.rep, world.req, world.limits[world.rep[r, POOL]]
    if rep[r, FIRST_WAITING] < 0 or rep[r, FULL]:
        return
    keeps_free = limits[L_KEEPS_FREE] > 0 and not limits[L_HANDS_OVER]
    kept_free = free_tokens(world, r) if keeps_free else 0.0
    left, most = tokens_left(world, r), step_tokens(world, r)[0]
    if limits[L_ORDER] == LONGEST_PREFIX:
        sort_by_prefix(world, r)
    while rep[r, FIRST_WAITING] >= 0 and rep[r, LIVE] < limits[L_LIVE]:
        before, q = next_taken(world, r)
        if q < 0:
            return
        if req[q, Q_VERSION] > rep[r, VERSION] or (rep[r, HELD] == 1 and req[q, Q_WRITTEN] == 0):
            return
        was_read = req[q, Q_UNREAD] < 0
        if left <= 0 and not was_read:
            return
        n_blocks, need = _need(world, r, q)
        own = believed_tokens(world, rep[r, POOL], req[q, Q_OUTPUT] - req[q, Q_WRITTEN]) if keeps_free else 0
        beside = kept_free + own if keeps_free else rep[r, DECODING] + limits[L_RESERVE]
        if rep[r, LIVE] > 0 and need + beside > limits[L_KV] - rep[r, USED]:
            rep[r, FULL] = keeps_free and limits[L_KEEPS_FREE] == SHARE
            return
        kept_free += own
        _let_in(world, r, before, (n_blocks, need))
        if not was_read:
            left -= min(req[q, Q_UNREAD], most)


@kernel
def _need(world: World, r: int, q: int) -> tuple[int, int]:
    """Units of a request's prompt that are in the cache, and the room that it takes beside them."""
    req, cache = world.req, world.cache
    n_blocks, need = 0, req[q, Q_PROMPT] + req[q, Q_WRITTEN] + world.limits[world.rep[r, POOL], L_STATE]
    if req[q, Q_UNREAD] < 0:
        return n_blocks, need - 1
    if cache.block_tokens > 0:
        n_blocks = min(matched_blocks(cache, r, q), (req[q, Q_PROMPT] - 1) // cache.block_tokens)
    if n_blocks > 0:
        need -= (n_blocks - idle_blocks(cache, r, q, n_blocks)) * cache.block_tokens
    return n_blocks, need


@kernel
def _let_in(world: World, r: int, before: int, takes: tuple[int, int]) -> None:
    """The request behind another in line becomes live: units that it takes from the cache, and room beside them."""
    rep, req, when, clock, cache = world.rep, world.req, world.when, world.clock, world.cache
    n_blocks, need = takes
    q = drop_waiting(world, r, before)
    name_adapter(world, r, q)
    was_read = req[q, Q_UNREAD] < 0
    if n_blocks > 0:
        take_blocks(cache, r, q, n_blocks)
    cached = n_blocks * cache.block_tokens
    if not was_read and len(cache.tiers) > 0:
        cached, load_s = load_blocks(cache, r, q, (cached, req[q, Q_PROMPT] - 1), math.isnan(when[q, Q_ADMITTED]))
        clock[r, LOADING] += load_s
    rep[r, USED] += need
    rep[r, LIVE] += 1
    req[q, Q_ORDER] = world.counters[N_ADMITTED]
    world.counters[N_ADMITTED] += 1
    if math.isnan(when[q, Q_ADMITTED]):
        when[q, Q_ADMITTED] = clock[r, NOW]
        req[q, Q_CACHED] = cached
        req[q, Q_BEGAN] = rep[r, VERSION]
    if was_read:
        start_writing(world, r, q, req[q, Q_PROMPT] + req[q, Q_WRITTEN] - 1)
        note_moved(world, r, q, when[q, Q_FIRST] if math.isnan(when[q, Q_LAST]) else when[q, Q_LAST])
    else:
        _start_reading(world, r, q, cached + req[q, Q_KEPT] + req[q, Q_PREFIX])
        req[q, Q_PREFIX] = 0
        drop_kept(world, r, q)


@kernel
def _start_reading(world: World, r: int, q: int, cached_tokens: int) -> None:
    """A sequence joins the line of those whose prompt is read."""
    rep, req = world.rep, world.req
    req[q, Q_UNREAD] = req[q, Q_PROMPT] + req[q, Q_WRITTEN] - cached_tokens
    req[q, Q_CHUNK_START] = cached_tokens
    if rep[r, LAST_READING] < 0:
        rep[r, FIRST_READING] = q
    else:
        req[rep[r, LAST_READING], Q_LINK] = q
    rep[r, LAST_READING] = q


@kernel
def start_writing(world: World, r: int, q: int, held_tokens: int) -> None:
    """A sequence joins the decode batch.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> start_writing(world, 0, 0, 10), int(world.rep[0, DECODING])
    (None, 1)
    """
    rep, req = world.rep, world.req
    last_step = rep[r, STEPS] + req[q, Q_OUTPUT] - req[q, Q_WRITTEN]
    push(world.finish_step[r], world.finish_request[r], rep[r, DECODING], last_step, q)
    rep[r, DECODING] += 1
    rep[r, CONTEXT] += held_tokens


@kernel
def note_moved(world: World, r: int, q: int, token_s: float) -> None:
    """A sequence will wait longer for its next token than a step: it comes from elsewhere, or the others stand still.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> note_moved(world, 0, 1, 2.5), drop_moved(world, 0, 1), int(world.rep[0, FIRST_MOVED])
    (None, None, -1)
    """
    world.when[q, Q_LAST] = token_s
    world.req[q, Q_LINK] = world.rep[r, FIRST_MOVED]
    world.rep[r, FIRST_MOVED] = q


@kernel
def drop_moved(world: World, r: int, q: int) -> None:
    """Forget that a sequence waits for its next token, where it does.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> note_moved(world, 0, 0, 1.0), note_moved(world, 0, 1, 1.0), drop_moved(world, 0, 0)
    (None, None, None)
    >>> int(world.rep[0, FIRST_MOVED]), int(world.req[1, Q_LINK])
    (1, -1)
    """
    rep, req = world.rep, world.req
    before, at = -1, rep[r, FIRST_MOVED]
    while at >= 0 and at != q:
        before, at = at, req[at, Q_LINK]
    if at < 0:
        return
    if before < 0:
        rep[r, FIRST_MOVED] = req[q, Q_LINK]
    else:
        req[before, Q_LINK] = req[q, Q_LINK]


@kernel
def release(world: World, r: int, q: int, held_tokens: int) -> None:
    """A sequence gives its memory back; its blocks stay in the cache, idle.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> enqueue_first(world, 0, 0), admit(world, 0), release(world, 0, 0, 10), int(world.rep[0, USED])
    (None, None, None, 0)
    """
    rep, cache = world.rep, world.cache
    rep[r, USED] -= held_tokens + world.limits[rep[r, POOL], L_STATE]
    if cache.block_tokens > 0:
        rep[r, USED] += held_blocks(cache, q) * cache.block_tokens
        rep[r, USED] -= drop_blocks(cache, r, q) * cache.block_tokens
    rep[r, LIVE] -= 1
    leave_adapter(world, r, q)
    rep[r, FULL] = 0


@kernel
def keep(world: World, r: int, q: int, tokens: int) -> None:
    """A rollout waits for a tool: its cache stays until something else needs the room.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> keep(world, 0, 1, 60), keep(world, 0, 0, 30), make_room(world, 0, 90), make_room(world, 0, 50)
    (None, None, None, None)
    >>> world.req[:, Q_KEPT].tolist(), int(world.rep[0, KEPT])
    ([30, 0], 30)
    """
    rep, req = world.rep, world.req
    last = rep[r, LAST_KEPT]
    req[q, Q_KEPT], req[q, Q_LAST_KEPT], req[q, Q_NEXT_KEPT] = tokens, last, -1
    if last < 0:
        rep[r, FIRST_KEPT] = q
    else:
        req[last, Q_NEXT_KEPT] = q
    rep[r, LAST_KEPT] = q
    rep[r, KEPT] += tokens


@kernel
def drop_kept(world: World, r: int, q: int) -> None:
    """A cache that was kept is taken up again, or given up.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> keep(world, 0, 1, 60), drop_kept(world, 0, 1), int(world.rep[0, KEPT]), int(world.rep[0, FIRST_KEPT])
    (None, None, 0, -1)
    """
    rep, req = world.rep, world.req
    if req[q, Q_KEPT] == 0:
        return
    before, after = req[q, Q_LAST_KEPT], req[q, Q_NEXT_KEPT]
    if before < 0:
        rep[r, FIRST_KEPT] = after
    else:
        req[before, Q_NEXT_KEPT] = after
    if after < 0:
        rep[r, LAST_KEPT] = before
    else:
        req[after, Q_LAST_KEPT] = before
    rep[r, KEPT] -= req[q, Q_KEPT]
    req[q, Q_KEPT] = 0


@kernel
def make_room(world: World, r: int, tokens: int) -> None:
    """Give up caches that are kept, the longest kept first, until they take no more than a number of tokens.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> keep(world, 0, 1, 60), make_room(world, 0, 59), int(world.rep[0, KEPT])
    (None, None, 0)
    """
    while world.rep[r, KEPT] > max(tokens, 0):
        drop_kept(world, r, world.rep[r, FIRST_KEPT])


@kernel
def enqueue_first(world: World, r: int, q: int) -> None:
    """Put a request at the head of its class in a replica's line.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> enqueue_first(world, 0, 1), int(world.rep[0, FIRST_WAITING])
    (None, 1)
    """
    _enqueue(world, r, q, world.req[q, Q_CLASS] - 1)
    if world.ends[r, world.req[q, Q_CLASS]] < 0:
        world.ends[r, world.req[q, Q_CLASS]] = q


@kernel
def _enqueue(world: World, r: int, q: int, last_class: int) -> None:
    """Put a request behind all of the classes up to one."""
    before = -1
    while last_class >= 0 and before < 0:
        before = world.ends[r, last_class]
        last_class -= 1
    _link(world, r, q, before)


@kernel
def _link(world: World, r: int, q: int, before: int) -> None:
    """Put a request behind another, or at the head of the line."""
    rep, req = world.rep, world.req
    after = rep[r, FIRST_WAITING] if before < 0 else req[before, Q_LINK]
    req[q, Q_LINK] = after
    if before < 0:
        rep[r, FIRST_WAITING] = q
    else:
        req[before, Q_LINK] = q
    if after < 0:
        rep[r, LAST_WAITING] = q
    else:
        rep[r, SKIPPED] = -1
    rep[r, WAITING] += 1


@kernel
def drop_first_waiting(world: World, r: int) -> int:
    """Take the first request out of a replica's line.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> enqueue_first(world, 0, 1), drop_first_waiting(world, 0)
    (None, 1)
    """
    return int(drop_waiting(world, r, -1))


@kernel
def drop_waiting(world: World, r: int, before: int) -> int:
    """Take the request behind another out of a replica's line; behind -1 stands the first.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> enqueue_last(world, 0, 0), enqueue_last(world, 0, 1), drop_waiting(world, 0, 0), int(world.rep[0, LAST_WAITING])
    (None, None, 1, 0)
    """
    rep, req = world.rep, world.req
    q = rep[r, FIRST_WAITING] if before < 0 else req[before, Q_LINK]
    after = req[q, Q_LINK]
    if before < 0:
        rep[r, FIRST_WAITING] = after
    else:
        req[before, Q_LINK] = after
    if after < 0:
        rep[r, LAST_WAITING] = before
    rep[r, WAITING] -= 1
    req[q, Q_LINK] = -1
    if rep[r, SKIPPED] == q:
        rep[r, SKIPPED] = -1
    if world.ends[r, req[q, Q_CLASS]] == q:
        is_alike = before >= 0 and req[before, Q_CLASS] == req[q, Q_CLASS]
        world.ends[r, req[q, Q_CLASS]] = before if is_alike else -1
    return int(q)


@kernel
def put_back_latest(world: World, r: int) -> None:
    """The sequence that was let in last waits again, at the head of the line, and will be read anew.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> enqueue_first(world, 0, 0), admit(world, 0), put_back_latest(world, 0), int(world.rep[0, WAITING])
    (None, None, None, 1)
    """
    q = take_off_latest(world, r)
    world.req[q, Q_PREEMPTIONS] += 1
    world.counters[N_PUT_BACK] += 1
    enqueue_first(world, r, q)


@kernel
def retract(world: World, r: int) -> bool:
    """Put sequences that have written least back behind the line, of several the longest prompt, until a step fits.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> retract(example_world(), 0)
    False
    """
    rep, req, is_full = world.rep, world.req, False
    while rep[r, DECODING] > 1 and rep[r, USED] + rep[r, DECODING] > world.limits[rep[r, POOL], L_KV]:
        found, least = 0, (1 << 62, 0)
        for place in range(rep[r, DECODING]):
            q = world.finish_request[r, place]
            written = req[q, Q_OUTPUT] - (world.finish_step[r, place] - rep[r, STEPS])
            key = (written, -req[q, Q_PROMPT])
            if key < least or (key == least and req[q, Q_ORDER] > req[world.finish_request[r, found], Q_ORDER]):
                found, least = place, key
        q = take_off(world, r, found)
        req[q, Q_PREEMPTIONS] += 1
        world.counters[N_PUT_BACK] += 1
        enqueue_last(world, r, q)
        is_full = True
    if is_full:
        raise_share(world, r)
    return is_full


@kernel
def enqueue_last(world: World, r: int, q: int) -> None:
    """Put a request at the end of its class in a replica's line, or before those of it that write less.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> enqueue_last(world, 0, 1), enqueue_last(world, 0, 0), int(world.rep[0, FIRST_WAITING])
    (None, None, 1)
    """
    if world.limits[world.rep[r, POOL], L_ORDER] == LONGEST_OUTPUT:
        _link(world, r, q, place_by_output(world, r, q))
    else:
        _enqueue(world, r, q, world.req[q, Q_CLASS])
    if is_last_of_class(world, q):
        world.ends[r, world.req[q, Q_CLASS]] = q


@kernel
def take_off_latest(world: World, r: int) -> int:
    """Take the sequence that was let in last off its replica; what it has written it keeps, its cache is lost.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> enqueue_first(world, 0, 0), admit(world, 0), take_off_latest(world, 0)
    (None, None, 0)
    """
    return take_off(world, r, _latest(world, r))


@kernel
def take_off(world: World, r: int, found: int) -> int:
    """Take a sequence off its replica by its place in the heap, or -1 - q where it is still reading.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> enqueue_first(world, 0, 1), admit(world, 0), take_off(world, 0, -2)
    (None, None, 1)
    """
    rep, req, when, clock = world.rep, world.req, world.when, world.clock
    if found >= 0:
        q = world.finish_request[r, found]
        drop_moved(world, r, q)
        req[q, Q_WRITTEN] = req[q, Q_OUTPUT] - (world.finish_step[r, found] - rep[r, STEPS])
        remove(world.finish_step[r], world.finish_request[r], rep[r, DECODING], found)
        rep[r, DECODING] -= 1
        held = req[q, Q_PROMPT] + req[q, Q_WRITTEN] - 1
        rep[r, CONTEXT] -= held
    else:
        q = -1 - found
        before, at = -1, rep[r, FIRST_READING]
        while at != q:
            before, at = at, req[at, Q_LINK]
        if before < 0:
            rep[r, FIRST_READING] = req[q, Q_LINK]
        else:
            req[before, Q_LINK] = req[q, Q_LINK]
        if req[q, Q_LINK] < 0:
            rep[r, LAST_READING] = before
        held = req[q, Q_PROMPT] + req[q, Q_WRITTEN]
    if math.isnan(when[q, Q_LAST]) and req[q, Q_WRITTEN] > 0:
        when[q, Q_LAST] = clock[r, NOW] - clock[r, PAUSED]
    req[q, Q_UNREAD] = 0
    release(world, r, q, held)
    return int(q)


@kernel
def _latest(world: World, r: int) -> int:
    """The live sequence of the least urgent class that was let in last: its place in the heap, or -1 - q in reading."""
    rep, req = world.rep, world.req
    found, latest = 0, (-1, -1)
    for place in range(rep[r, DECODING]):
        q = world.finish_request[r, place]
        if (req[q, Q_CLASS], req[q, Q_ORDER]) > latest:
            found, latest = place, (req[q, Q_CLASS], req[q, Q_ORDER])
    q = rep[r, FIRST_READING]
    while q >= 0:
        if (req[q, Q_CLASS], req[q, Q_ORDER]) > latest:
            found, latest = -1 - q, (req[q, Q_CLASS], req[q, Q_ORDER])
        q = req[q, Q_LINK]
    return found
