"""The prefix cache of replicas: blocks of prompt tokens that stay after their sequence, the longest unused go first.

A block is live while a sequence holds it and idle afterwards. Idle blocks keep their place until live memory needs it.
Arrays have one row per replica and one column per block id.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from computeledger.simulation.compiled import kernel

Counts = NDArray[np.int64]


class PrefixCache(NamedTuple):
    """Blocks by replica."""

    block_tokens: int
    ids: NDArray[np.int32]
    first: Counts
    holds: NDArray[np.bool_]
    blocks: NDArray[np.int32]
    chain: Counts


USERS, BEFORE, AFTER = range(3)
OLDEST, NEWEST, IDLE = range(3)


def make_cache(n_replicas: int, blocks: list[NDArray[np.int32]] | None, block_tokens: int) -> PrefixCache:
    """Make an empty cache.

    Examples
    --------
    >>> make_cache(2, [np.array([0, 1], np.int32)], 512).blocks.shape
    (2, 2, 3)
    """
    if blocks is None:
        blocks, block_tokens, n_requests = [], 0, 0
    else:
        n_requests = len(blocks)
    ids = np.concatenate(blocks).astype(np.int32) if n_requests else np.zeros(0, np.int32)
    first = np.zeros(n_requests + 1, np.int64)
    np.cumsum([len(one) for one in blocks], out=first[1:])
    n_ids = int(ids.max()) + 1 if len(ids) else 0
    chain = np.full((n_replicas, 3), -1, np.int64)
    chain[:, IDLE] = 0
    table = np.full((n_replicas, n_ids, 3), -1, np.int32)
    return PrefixCache(block_tokens, ids, first, np.zeros(len(ids), np.bool_), table, chain)


@kernel
def matched_blocks(cache: PrefixCache, r: int, q: int) -> int:
    """Blocks at the head of a request's prompt that a replica has.

    Examples
    --------
    >>> cache = make_cache(1, [np.array([0, 1], np.int32)], 512)
    >>> cache.blocks[0, 0, USERS] = 0
    >>> matched_blocks(cache, 0, 0)
    1
    """
    if cache.block_tokens == 0:
        return 0
    start, end = cache.first[q], cache.first[q + 1]
    n = 0
    for place in range(start, end):
        if cache.blocks[r, cache.ids[place], USERS] < 0:
            break
        n += 1
    return n


@kernel
def idle_blocks(cache: PrefixCache, r: int, q: int, n_blocks: int) -> int:
    """Blocks among a request's first ones that no sequence holds: taking them makes them live.

    Examples
    --------
    >>> cache = make_cache(1, [np.array([0, 1], np.int32)], 512)
    >>> cache.blocks[0, 0, USERS] = 0
    >>> idle_blocks(cache, 0, 0, 1)
    1
    """
    n = 0
    if n_blocks == 0:
        return n
    for place in range(cache.first[q], cache.first[q] + n_blocks):
        if cache.blocks[r, cache.ids[place], USERS] == 0:
            n += 1
    return n


@kernel
def take_blocks(cache: PrefixCache, r: int, q: int, n_blocks: int) -> None:
    """Hold the first blocks of a request's prompt, which are in the cache.

    Examples
    --------
    >>> cache = make_cache(1, [np.array([0], np.int32)], 512)
    >>> put_blocks(cache, 0, 0)
    1
    >>> drop_blocks(cache, 0, 0), take_blocks(cache, 0, 0, 1), int(cache.blocks[0, 0, USERS])
    (1, None, 1)
    """
    if n_blocks == 0:
        return
    for place in range(cache.first[q], cache.first[q] + n_blocks):
        block = cache.ids[place]
        if cache.blocks[r, block, USERS] == 0:
            _unchain(cache, r, block)
        cache.blocks[r, block, USERS] += 1
        cache.holds[place] = True


@kernel
def put_blocks(cache: PrefixCache, r: int, q: int) -> int:
    """Put the blocks of a prompt that was read into the cache; what another sequence put there before stays its own.

    Examples
    --------
    >>> put_blocks(make_cache(1, [np.array([0, 1], np.int32)], 512), 0, 0)
    2
    """
    n = 0
    if cache.block_tokens == 0:
        return n
    for place in range(cache.first[q], cache.first[q + 1]):
        block = cache.ids[place]
        if not cache.holds[place] and cache.blocks[r, block, USERS] < 0:
            cache.blocks[r, block, USERS] = 1
            cache.holds[place] = True
            n += 1
    return n


@kernel
def drop_blocks(cache: PrefixCache, r: int, q: int) -> int:
    """Let go of a request's blocks: those that nobody else holds become idle, the last of the prompt first.

    Examples
    --------
    >>> cache = make_cache(1, [np.array([0, 1], np.int32)], 512)
    >>> put_blocks(cache, 0, 0), drop_blocks(cache, 0, 0), int(cache.chain[0, IDLE]), int(cache.chain[0, OLDEST])
    (2, 2, 1024, 1)
    """
    n = 0
    if cache.block_tokens == 0:
        return n
    for place in range(cache.first[q + 1] - 1, cache.first[q] - 1, -1):
        if cache.holds[place]:
            block = cache.ids[place]
            cache.holds[place] = False
            cache.blocks[r, block, USERS] -= 1
            if cache.blocks[r, block, USERS] == 0:
                _chain(cache, r, block)
                n += 1
    return n


@kernel
def held_blocks(cache: PrefixCache, q: int) -> int:
    """Shared blocks that a request holds.

    Examples
    --------
    >>> cache = make_cache(1, [np.array([0, 1], np.int32)], 512)
    >>> put_blocks(cache, 0, 0), held_blocks(cache, 0)
    (2, 2)
    """
    n = 0
    if cache.block_tokens == 0:
        return n
    for place in range(cache.first[q], cache.first[q + 1]):
        if cache.holds[place]:
            n += 1
    return n


@kernel
def evict(cache: PrefixCache, r: int, room_tokens: int) -> None:
    """Drop the longest unused idle blocks until the rest fits a room.

    Examples
    --------
    >>> cache = make_cache(1, [np.array([0, 1], np.int32)], 512)
    >>> put_blocks(cache, 0, 0), drop_blocks(cache, 0, 0), evict(cache, 0, 600), int(cache.chain[0, IDLE])
    (2, 2, None, 512)
    """
    while cache.chain[r, IDLE] > room_tokens and cache.chain[r, OLDEST] >= 0:
        block = cache.chain[r, OLDEST]
        _unchain(cache, r, block)
        cache.blocks[r, block, USERS] = -1


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
    cache.chain[r, IDLE] += cache.block_tokens


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
    cache.chain[r, IDLE] -= cache.block_tokens
