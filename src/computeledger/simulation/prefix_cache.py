"""The prefix cache of replicas: what prompts begin with stays after their sequences, the longest unused goes first.

A prompt is a chain of blocks, each of so many units. A block is live while a sequence holds it and idle afterwards.
Idle blocks keep their place until live memory needs it; of the oldest block as many units go as are needed, from its
end. A trace has blocks of one unit of many tokens; a conversation has two blocks whose unit is a token: the prompt
that it shares with others, and its own turns so far, what was written included. Below HBM there may be tiers, which
are written through: they keep copies of what was last used. Arrays have a row per replica, then per tier, and a column
per block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from computeledger.simulation.compiled import kernel

Counts = NDArray[np.int64]


class Prompts(NamedTuple):
    """What prompts consist of: all their blocks in a row, units of each, where each prompt begins, tokens of a unit."""

    ids: NDArray[np.int32]
    units: NDArray[np.int32]
    first: Counts
    unit_tokens: int


class Tier(NamedTuple):
    """A kind of memory below HBM: its name, tokens that it holds, time to load one, whether all replicas share it."""

    name: str
    kv_tokens: int
    s_per_token: float
    is_shared: bool = False


class PrefixCache(NamedTuple):
    """Blocks by replica and tier, in few tables: kernels hand every array on."""

    block_tokens: int
    places: NDArray[np.int32]
    prompts: Counts
    blocks: NDArray[np.int32]
    chain: Counts
    tiers: NDArray[np.float64]


#: Columns of ``places``: block, its units in this prompt, units that the request holds.
BLOCK, SIZE, HELD = range(3)
#: Columns of ``prompts``: first place of a request; from the second on, tokens that each tier gave it.
FIRST, LOADED = range(2)
#: Columns of ``blocks``: sequences that hold it, or -1 where it is not there; neighbours among the idle; units.
USERS, BEFORE, AFTER, UNITS = range(4)
#: Columns of ``chain``: ends of the idle blocks, their tokens, tokens that gave way; from the fifth on rows of tiers.
OLDEST, NEWEST, IDLE, EVICTED, ROW = range(5)
#: Columns of ``tiers``: tokens that it holds, time to load one [s].
TOKENS, LOAD = range(2)


def make_cache(n_replicas: int, prompts: Prompts | None = None, tiers: tuple[Tier, ...] = ()) -> PrefixCache:
    """Make an empty cache.

    Examples
    --------
    >>> make_cache(2, whole_blocks([np.array([0, 1], np.int32)], 512)).blocks.shape
    (2, 2, 4)
    """
    if prompts is None:
        prompts, tiers = Prompts(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(1, np.int64), 0), ()
    n_ids, n_places = int(prompts.ids.max()) + 1 if len(prompts.ids) else 0, len(prompts.ids)
    n_rows = n_replicas + sum(1 if tier.is_shared else n_replicas for tier in tiers)
    chain = np.full((n_rows, ROW + len(tiers)), -1, np.int64)
    chain[:, IDLE : EVICTED + 1] = 0
    row = n_replicas
    for place, tier in enumerate(tiers):
        chain[:n_replicas, ROW + place] = row + (0 if tier.is_shared else np.arange(n_replicas))
        row += 1 if tier.is_shared else n_replicas
    blocks = np.full((n_rows, n_ids, 4), -1, np.int32)
    blocks[:, :, UNITS] = 0
    by_request = np.zeros((len(prompts.first), LOADED + len(tiers)), np.int64)
    by_request[:, FIRST] = prompts.first
    return PrefixCache(
        prompts.unit_tokens, np.stack([prompts.ids, prompts.units, np.zeros(n_places, np.int32)], axis=1), by_request,
        blocks, chain, np.array([(one.kv_tokens, one.s_per_token) for one in tiers], float).reshape(len(tiers), 2),
    )  # fmt: skip


def whole_blocks(ids: list[NDArray[np.int32]], block_tokens: int) -> Prompts:
    """Prompts of blocks that are found whole or not at all, as traces have them.

    Examples
    --------
    >>> whole_blocks([np.array([0, 1], np.int32)], 512).units
    array([1, 1], dtype=int32)
    """
    first = np.zeros(len(ids) + 1, np.int64)
    np.cumsum([len(one) for one in ids], out=first[1:])
    flat = np.concatenate(ids).astype(np.int32) if ids else np.zeros(0, np.int32)
    return Prompts(flat, np.ones(len(flat), np.int32), first, block_tokens)


@kernel
def matched_blocks(cache: PrefixCache, r: int, q: int) -> int:
    """Units at the head of a request's prompt that a replica has, or a tier's row.

    Examples
    --------
    >>> cache = make_cache(1, whole_blocks([np.array([0, 1], np.int32)], 512))
    >>> cache.blocks[0, 0, USERS], cache.blocks[0, 0, UNITS] = 0, 1
    >>> matched_blocks(cache, 0, 0)
    1
    """
    n = 0
    if cache.block_tokens == 0:
        return n
    for place in range(cache.prompts[q, FIRST], cache.prompts[q + 1, FIRST]):
        has = int(cache.blocks[r, cache.places[place, BLOCK], UNITS])
        n += min(has, int(cache.places[place, SIZE]))
        if has < cache.places[place, SIZE]:
            break
    return n


@kernel
def idle_blocks(cache: PrefixCache, r: int, q: int, n_blocks: int) -> int:
    """Units among a request's first ones that no sequence holds: taking them makes them live.

    Examples
    --------
    >>> cache = make_cache(1, whole_blocks([np.array([0, 1], np.int32)], 512))
    >>> cache.blocks[0, 0, USERS], cache.blocks[0, 0, UNITS] = 0, 1
    >>> idle_blocks(cache, 0, 0, 1)
    1
    """
    n, left = 0, n_blocks
    place = cache.prompts[q, FIRST] if n_blocks > 0 else 0
    while left > 0:
        taken = min(left, int(cache.places[place, SIZE]))
        if cache.blocks[r, cache.places[place, BLOCK], USERS] == 0:
            n += taken
        left -= taken
        place += 1
    return n


@kernel
def take_blocks(cache: PrefixCache, r: int, q: int, n_blocks: int) -> None:
    """Hold the first units of a request's prompt, which are in the cache.

    Examples
    --------
    >>> cache = make_cache(1, whole_blocks([np.array([0], np.int32)], 512))
    >>> put_blocks(cache, 0, 0)
    >>> drop_blocks(cache, 0, 0), take_blocks(cache, 0, 0, 1), int(cache.blocks[0, 0, USERS])
    (1, None, 1)
    """
    left = n_blocks
    place = cache.prompts[q, FIRST] if n_blocks > 0 else 0
    while left > 0:
        block, taken = cache.places[place, BLOCK], min(left, int(cache.places[place, SIZE]))
        if cache.blocks[r, block, USERS] == 0:
            _unchain(cache, r, block)
            cache.blocks[r, block, UNITS] = taken  # what lies beyond the prompt's last token but one is read anew
        cache.blocks[r, block, USERS] += 1
        cache.places[place, HELD] = taken
        left -= taken
        place += 1


@kernel
def load_blocks(cache: PrefixCache, r: int, q: int, tokens: tuple[int, int], is_first: bool) -> tuple[int, float]:
    """Tokens of a prompt that a replica has once the tiers below gave theirs, and how long they take to load.

    ``tokens`` are those that it has in HBM, and the most that it can have; what is loaded first is counted.

    Examples
    --------
    >>> below = (Tier("host", 1024, 1e-6),)
    >>> cache = make_cache(1, whole_blocks([np.array([0, 1], np.int32)], 512), below)
    >>> put_blocks(cache, 0, 0)
    >>> drop_blocks(cache, 0, 0), evict(cache, 0, 0), load_blocks(cache, 0, 0, (0, 1023), True)
    (2, None, (512, 0.000512))
    """
    seconds = 0.0
    has_tokens, most_tokens = tokens
    for tier in range(len(cache.tiers)):
        found = min(matched_blocks(cache, cache.chain[r, ROW + tier], q), most_tokens // cache.block_tokens)
        more = found * cache.block_tokens - has_tokens
        if is_first:
            cache.prompts[q, LOADED + tier] = max(more, 0)
        if more > 0:
            has_tokens += more
            seconds += more * float(cache.tiers[tier, LOAD])
    return has_tokens, seconds


@kernel
def reached_blocks(cache: PrefixCache, r: int, q: int) -> int:
    """Units at the head of a request's prompt that a replica need not prefill: it has them, or a tier below does.

    Examples
    --------
    >>> cache = make_cache(1, whole_blocks([np.array([0, 1], np.int32)], 512), (Tier("host", 1024, 1e-6),))
    >>> put_blocks(cache, 0, 0)
    >>> drop_blocks(cache, 0, 0), evict(cache, 0, 0), matched_blocks(cache, 0, 0), reached_blocks(cache, 0, 0)
    (2, None, 0, 2)
    """
    most = matched_blocks(cache, r, q)
    for tier in range(len(cache.tiers)):
        most = max(most, matched_blocks(cache, cache.chain[r, ROW + tier], q))
    return most


@kernel
def put_blocks(cache: PrefixCache, r: int, q: int) -> None:
    """Put the blocks of a prompt that was read into the cache; what a live sequence put there before stays its own.

    Examples
    --------
    >>> cache = make_cache(1, whole_blocks([np.array([0, 1], np.int32)], 512))
    >>> put_blocks(cache, 0, 0)
    >>> held_blocks(cache, 0)
    2
    """
    if cache.block_tokens == 0:
        return
    for place in range(cache.prompts[q, FIRST], cache.prompts[q + 1, FIRST]):
        block, units = cache.places[place, BLOCK], cache.places[place, SIZE]
        has, users = cache.blocks[r, block, UNITS], cache.blocks[r, block, USERS]
        if users == 0 and cache.block_tokens == 1:  # an older copy of a conversation: this one takes its place
            _unchain(cache, r, block)
            has, users = 0, -1
        if users < 0 or has < units:
            if cache.places[place, HELD] == 0:
                cache.blocks[r, block, USERS] = max(users, 0) + 1
            cache.places[place, HELD] += units - has
            cache.blocks[r, block, UNITS] = units
    _write_through(cache, r, q, (0, 0))


@kernel
def extend_blocks(cache: PrefixCache, r: int, q: int, more_units: int) -> None:
    """Add what a conversation's turn wrote to the cache; a trace does not say what its outputs are.

    Examples
    --------
    >>> cache = make_cache(1, Prompts(np.zeros(1, np.int32), np.full(1, 10, np.int32), np.array([0, 1]), 1))
    >>> put_blocks(cache, 0, 0)
    >>> extend_blocks(cache, 0, 0, 4), drop_blocks(cache, 0, 0), int(cache.chain[0, IDLE])
    (None, 14, 14)
    """
    place = cache.prompts[q + 1, FIRST] - 1 if cache.block_tokens == 1 else -1
    if place >= 0 and cache.places[place, HELD] > 0:
        cache.places[place, HELD] += more_units
        cache.blocks[r, cache.places[place, BLOCK], UNITS] += more_units
        _write_through(cache, r, q, (0, more_units))


@kernel
def share_blocks(cache: PrefixCache, r: int, q: int, more_units: int) -> None:
    """A worker that only decodes keeps no cache of a conversation: its turn goes to the tier that all share, if any.

    Examples
    --------
    >>> prompts = Prompts(np.zeros(1, np.int32), np.full(1, 10, np.int32), np.array([0, 1]), 1)
    >>> cache = make_cache(2, prompts, (Tier("host", 100, 0.0), Tier("pool", 100, 0.0, True)))
    >>> share_blocks(cache, 1, 0, 4), cache.chain[2:, IDLE].tolist()
    (None, [0, 0, 14])
    """
    place = cache.prompts[q + 1, FIRST] - 1 if cache.block_tokens == 1 else -1
    if place >= 0 and cache.places[place, HELD] == 0:
        for tier in range(len(cache.tiers)):
            if cache.chain[0, ROW + tier] == cache.chain[r, ROW + tier]:  # of different replicas: what all share
                _write_through(cache, r, q, (tier, more_units))
                return


@kernel
def _write_through(cache: PrefixCache, r: int, q: int, more: tuple[int, int]) -> None:
    """Write a prompt to every tier from one on, its last block with so much more; the head of it is the last to go."""
    last = cache.prompts[q + 1, FIRST] - 1
    first_tier, more_units = more
    for tier in range(first_tier, len(cache.tiers)):
        row = cache.chain[r, ROW + tier]
        for place in range(last, cache.prompts[q, FIRST] - 1, -1):
            block, units = cache.places[place, BLOCK], cache.places[place, SIZE] + (more_units if place == last else 0)
            if cache.blocks[row, block, USERS] == 0:
                units = max(units, cache.blocks[row, block, UNITS])
                _unchain(cache, row, block)
            cache.blocks[row, block, USERS], cache.blocks[row, block, UNITS] = 0, units
            _chain(cache, row, block)
        evict(cache, row, int(cache.tiers[tier, TOKENS]))


@kernel
def drop_blocks(cache: PrefixCache, r: int, q: int) -> int:
    """Let go of a request's blocks: those that nobody else holds become idle, the last of the prompt first.

    Examples
    --------
    >>> cache = make_cache(1, whole_blocks([np.array([0, 1], np.int32)], 512))
    >>> put_blocks(cache, 0, 0)
    >>> drop_blocks(cache, 0, 0), int(cache.chain[0, IDLE]), int(cache.chain[0, OLDEST])
    (2, 1024, 1)
    """
    n = 0
    if cache.block_tokens == 0:
        return n
    for place in range(cache.prompts[q + 1, FIRST] - 1, cache.prompts[q, FIRST] - 1, -1):
        if cache.places[place, HELD] > 0:
            block = cache.places[place, BLOCK]
            cache.places[place, HELD] = 0
            cache.blocks[r, block, USERS] -= 1
            if cache.blocks[r, block, USERS] == 0:
                _chain(cache, r, block)
                n += int(cache.blocks[r, block, UNITS])
    return n


@kernel
def held_blocks(cache: PrefixCache, q: int) -> int:
    """Units of the cache that a request holds.

    Examples
    --------
    >>> cache = make_cache(1, whole_blocks([np.array([0, 1], np.int32)], 512))
    >>> put_blocks(cache, 0, 0)
    >>> held_blocks(cache, 0)
    2
    """
    n = 0
    if cache.block_tokens == 0:
        return n
    for place in range(cache.prompts[q, FIRST], cache.prompts[q + 1, FIRST]):
        n += int(cache.places[place, HELD])
    return n


@kernel
def evict(cache: PrefixCache, r: int, room_tokens: int) -> None:
    """Drop the longest unused idle blocks until the rest fits a room.

    Examples
    --------
    >>> cache = make_cache(1, whole_blocks([np.array([0, 1], np.int32)], 512))
    >>> put_blocks(cache, 0, 0)
    >>> drop_blocks(cache, 0, 0), evict(cache, 0, 600), int(cache.chain[0, IDLE]), int(cache.chain[0, EVICTED])
    (2, None, 512, 512)
    """
    while cache.chain[r, IDLE] > room_tokens and cache.chain[r, OLDEST] >= 0:
        block = cache.chain[r, OLDEST]
        over, has = cache.chain[r, IDLE] - max(room_tokens, 0), int(cache.blocks[r, block, UNITS])
        if cache.block_tokens == 1 and has > over:
            cache.blocks[r, block, UNITS] -= over
            cache.chain[r, IDLE] -= over
            cache.chain[r, EVICTED] += over
            return
        cache.chain[r, EVICTED] += has * cache.block_tokens
        _unchain(cache, r, block)
        cache.blocks[r, block, USERS] = -1
        cache.blocks[r, block, UNITS] = 0


@kernel
def _chain(cache: PrefixCache, r: int, block: int) -> None:
    """Put a block at the young end of the idle chain."""
    last = cache.chain[r, NEWEST]
    cache.blocks[r, block, BEFORE] = last
    cache.blocks[r, block, AFTER] = -1
    if last >= 0:
        cache.blocks[r, last, AFTER] = block
    else:
        cache.chain[r, OLDEST] = block
    cache.chain[r, NEWEST] = block
    cache.chain[r, IDLE] += int(cache.blocks[r, block, UNITS]) * cache.block_tokens


@kernel
def _unchain(cache: PrefixCache, r: int, block: int) -> None:
    """Take a block out of the idle chain."""
    left, right = cache.blocks[r, block, BEFORE], cache.blocks[r, block, AFTER]
    if left >= 0:
        cache.blocks[r, left, AFTER] = right
    else:
        cache.chain[r, OLDEST] = right
    if right >= 0:
        cache.blocks[r, right, BEFORE] = left
    else:
        cache.chain[r, NEWEST] = left
    cache.chain[r, IDLE] -= int(cache.blocks[r, block, UNITS]) * cache.block_tokens
