"""Orders of those that wait, other than by arrival: SGLang's ``--schedule-policy`` ``lof`` and ``lpm``.

The longest output is first, or the request of whose prompt the cache, tiers below HBM included, has most. In the
latter case one whose beginning is not in the cache waits behind all others while one before it in line begins alike:
when that has been read, it will be found. With more than 128 in line all stays as it is (release 0.5.23,
``managers/schedule_policy.py``: ``_compute_prefix_matches``, ``_sort_by_longest_prefix``,
``_determine_active_policy``). Left out: ``dfs-weight``, which walks the whole tree of what waits at every attempt.
"""

from __future__ import annotations

from computeledger.simulation.compiled import kernel
from computeledger.simulation.prefix_cache import BLOCK, FIRST, SIZE, PrefixCache, matched_blocks, reached_blocks
from computeledger.simulation.state import (
    FIRST_WAITING,
    LAST_WAITING,
    Q_CHUNK_START,
    Q_CLASS,
    Q_LINK,
    Q_ORDER,
    Q_OUTPUT,
    Q_PROMPT,
    Q_UNREAD,
    SKIPPED,
    WAITING,
    World,
)

#: Requests in line beyond which nothing is sorted by prefix; tokens of a prompt up to which it counts as not in the
#: cache, and from which two begin alike [token].
MOST_SORTED, FEW_TOKENS = 128, 32
_BEHIND_ALL = 1 << 62


@kernel
def place_by_output(world: World, r: int, q: int) -> int:
    """The request behind which a new one waits: the last of its class that writes as much, or of those before; or -1.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> place_by_output(example_world(), 0, 0)
    -1
    """
    req, rank = world.req, world.req[q, Q_CLASS]
    before = -1
    for urgent in range(rank):
        if world.ends[r, urgent] >= 0:
            before = world.ends[r, urgent]
    after = world.rep[r, FIRST_WAITING] if before < 0 else req[before, Q_LINK]
    while after >= 0 and req[after, Q_CLASS] == rank and req[after, Q_OUTPUT] >= req[q, Q_OUTPUT]:
        before, after = after, req[after, Q_LINK]
    return int(before)


@kernel
def is_last_of_class(world: World, q: int) -> bool:
    """Whether nobody of its class waits behind a request.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> is_last_of_class(example_world(), 0)
    True
    """
    after = world.req[q, Q_LINK]
    return bool(after < 0 or world.req[after, Q_CLASS] != world.req[q, Q_CLASS])


@kernel
def sort_by_prefix(world: World, r: int) -> None:
    """Put those first in line of whose prompts the cache has most; equals stay in order.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> sort_by_prefix(example_world(), 0)
    """
    rep, req = world.rep, world.req
    if world.cache.block_tokens == 0 or rep[r, WAITING] < 2 or rep[r, WAITING] > MOST_SORTED:
        return
    _set_keys(world, r)
    first = last = rep[r, FIRST_WAITING]
    q = req[first, Q_LINK]
    while q >= 0:
        after = req[q, Q_LINK]
        if req[q, Q_ORDER] >= req[last, Q_ORDER]:
            req[last, Q_LINK], last = q, q
        elif req[q, Q_ORDER] < req[first, Q_ORDER]:
            req[q, Q_LINK], first = first, q
        else:
            before = first
            while req[req[before, Q_LINK], Q_ORDER] <= req[q, Q_ORDER]:
                before = req[before, Q_LINK]
            req[q, Q_LINK] = req[before, Q_LINK]
            req[before, Q_LINK] = q
        req[last, Q_LINK] = -1
        q = after
    rep[r, FIRST_WAITING], rep[r, LAST_WAITING], rep[r, SKIPPED] = first, last, -1
    world.ends[r, req[last, Q_CLASS]] = last


@kernel
def _set_keys(world: World, r: int) -> None:
    """Keys of those that wait go where the order of admission will stand, and the mark of those that begin anew."""
    req, cache = world.req, world.cache
    q = world.rep[r, FIRST_WAITING]
    while q >= 0:
        most = (req[q, Q_PROMPT] - 1) // cache.block_tokens
        req[q, Q_CHUNK_START] = 0
        if req[q, Q_UNREAD] < 0:
            req[q, Q_ORDER] = 0
        else:
            req[q, Q_ORDER] = -min(reached_blocks(cache, r, q), most)
            if min(matched_blocks(cache, r, q), most) * cache.block_tokens <= FEW_TOKENS:
                other = world.rep[r, FIRST_WAITING]
                while other != q and not (req[other, Q_CHUNK_START] == 1 and begin_alike(cache, other, q)):
                    other = req[other, Q_LINK]
                if other != q:
                    req[q, Q_ORDER] = _BEHIND_ALL
                else:
                    req[q, Q_CHUNK_START] = 1
        q = req[q, Q_LINK]


@kernel
def begin_alike(cache: PrefixCache, one: int, other: int) -> bool:
    """Whether two prompts share their first tokens, enough of them to wait for.

    Examples
    --------
    >>> import numpy as np
    >>> from computeledger.simulation.prefix_cache import make_cache, whole_blocks
    >>> cache = make_cache(1, whole_blocks([np.array([0, 1], np.int32), np.array([0, 2], np.int32)], 16))
    >>> begin_alike(cache, 0, 1), begin_alike(cache, 0, 0)
    (False, True)
    """
    tokens, place, there = 0, cache.prompts[one, FIRST], cache.prompts[other, FIRST]
    while place < cache.prompts[one + 1, FIRST] and there < cache.prompts[other + 1, FIRST]:
        sizes = cache.places[place, SIZE], cache.places[there, SIZE]
        if cache.places[place, BLOCK] != cache.places[there, BLOCK]:
            return False
        tokens += min(sizes) * cache.block_tokens
        if tokens >= FEW_TOKENS or sizes[0] != sizes[1]:
            return bool(tokens >= FEW_TOKENS)
        place, there = place + 1, there + 1
    return False
