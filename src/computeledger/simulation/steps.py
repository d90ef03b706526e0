"""Steps of a batch: how long they take, and the gaps between tokens that they leave."""

from __future__ import annotations

import math

from computeledger.simulation.compiled import kernel
from computeledger.simulation.schedulers import step_tokens
from computeledger.simulation.state import (
    CONTEXT,
    DECODING,
    FIRST_READING,
    GAP_RATIO,
    L_RANKS,
    L_STAGES,
    N_GAPS,
    POOL,
    Q_CHUNK_START,
    Q_LINK,
    Q_UNREAD,
    SHORTEST_GAP_S,
    Times,
    World,
)

_LOG_RATIO = math.log(GAP_RATIO)


@kernel
def decode_step_s(world: World, r: int) -> tuple[float, float]:
    """Time of the next decode step, and what each further one adds.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> [float(one) for one in decode_step_s(world, 0)]
    [0.0, 0.0]
    """
    rep = world.rep
    pool, live = rep[r, POOL], rep[r, DECODING]
    slope = world.decode[pool, live, 1]
    return world.decode[pool, live, 0] + slope * rep[r, CONTEXT], slope * live


@kernel
def run_s(first_s: float, more_s: float, n: int) -> float:
    """Time of steps that grow evenly.

    Examples
    --------
    >>> run_s(1.0, 0.5, 3)
    4.5
    """
    return n * first_s + more_s * (0.5 * n * (n - 1))


@kernel
def steps_until(first_s: float, more_s: float, gap_s: float) -> int:
    """Fewest steps, at least 1, that take a time.

    Examples
    --------
    >>> steps_until(1.0, 0.5, 4.5), steps_until(1.0, 0.5, 4.6), steps_until(1.0, 0.0, 0.1)
    (3, 4, 1)
    """
    if gap_s <= first_s:
        return 1
    half = 0.5 * more_s
    slope = first_s - half
    # the root written so that nothing cancels where steps hardly grow
    n = math.ceil(2 * gap_s / (slope + math.sqrt(slope * slope + 4 * half * gap_s)))
    while n > 1 and run_s(first_s, more_s, n - 1) >= gap_s:
        n -= 1
    while run_s(first_s, more_s, n) < gap_s:
        n += 1
    return n


@kernel
def gap_bin(gap_s: float) -> int:
    """Bin of a gap between two tokens.

    Examples
    --------
    >>> gap_bin(0.0), gap_bin(1.1e-6)
    (0, 47)
    """
    place = int(math.log(max(gap_s, SHORTEST_GAP_S) / SHORTEST_GAP_S) / _LOG_RATIO)
    return min(place, N_GAPS - 1)


@kernel
def count_gaps(world: World, first_s: float, more_s: float, n: int, live: int) -> None:
    """Count the gaps of a run: one per step and sequence.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> count_gaps(world, 1.0, 0.5, 3, 2), float(world.gaps.sum())
    (None, 6.0)
    """
    place, last = gap_bin(first_s), gap_bin(first_s + (n - 1) * more_s)
    left = n
    while place < last:
        edge_s = SHORTEST_GAP_S * math.exp(_LOG_RATIO * (place + 1))
        below = min(math.ceil((edge_s - first_s) / more_s), n) - (n - left)
        if below > 0:
            world.gaps[place] += below * live
            left -= below
        place += 1
    world.gaps[last] += left * live


@kernel
def next_chunk(world: World, r: int) -> tuple[float, float, float, float, float]:
    """What the next step reads.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> tuple(map(float, next_chunk(world, 0)))
    (0.0, 0.0, 0.0, 0.0, 0.0)
    """
    rep, req, pool = world.rep, world.req, world.rep[r, POOL]
    ranks, stages = world.limits[pool, L_RANKS], world.limits[pool, L_STAGES]
    most, budget = step_tokens(world, r)
    total, longest, before, n, left = 0, 0, 0.0, 0, 0
    q = rep[r, FIRST_READING]
    while q >= 0:
        take = min(req[q, Q_UNREAD], most, budget - total)
        left += req[q, Q_UNREAD] - take
        if take == 0:
            break
        total += take
        n += 1
        longest = max(longest, take)
        before += take * float(req[q, Q_CHUNK_START])
        q = req[q, Q_LINK]
    last = world.busiest.shape[1] - 1
    busiest = world.busiest[pool, min(n, last)] + max(n - last, 0) * stages / ranks
    own = busiest * total / max(n, 1) / stages
    if busiest >= 1.0:  # less where prompts are gathered over several steps
        own = max(own, longest / stages)
    return total / ranks, max(own, total / ranks), float(longest), before / max(total, 1), float(left)


@kernel
def _between(column: Times, value: float) -> tuple[int, float]:
    """Place in a rising column, and how far towards the next entry; beyond the last one the line goes on."""
    low, high = 0, len(column) - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if column[middle] <= value:
            low = middle
        else:
            high = middle
    if high == low:
        return low, 0.0
    return low, max((value - column[low]) / (column[high] - column[low]), 0.0)


@kernel
def reading_s(world: World, pool: int, rank_tokens: float, start_tokens: float) -> float:
    """Time to read a chunk of a prompt with nothing beside it.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> float(reading_s(example_world(), 0, 100.0, 0.0))
    1.0
    """
    table = world.chunks[pool]
    low, share = _between(table[:, 0], rank_tokens)
    fixed = table[low, 1] + share * (table[low + 1, 1] - table[low, 1])
    slope = table[low, 2] + share * (table[low + 1, 2] - table[low, 2])
    return float(fixed + slope * start_tokens)


@kernel
def _added_s(world: World, pool: int, live: int, rank_tokens: float, start_tokens: float) -> float:
    """What a chunk of so many tokens on every rank adds to a decode step."""
    table, column = world.beside[pool], world.beside_batch[pool]
    low, share = _between(world.chunks[pool, :, 0], rank_tokens)
    b, part = _between(column, float(live))
    part = min(part, 1.0)
    next_b = min(b + 1, len(column) - 1)
    total = 0.0
    for k in range(2):
        here = table[low, b, k] + part * (table[low, next_b, k] - table[low, b, k])
        there = table[low + 1, b, k] + part * (table[low + 1, next_b, k] - table[low + 1, b, k])
        total += (here + share * (there - here)) * (start_tokens if k else 1.0)
    return float(max(total, 0.0))


@kernel
def reading_beside_s(world: World, pool: int, live: int, chunk: tuple[float, float, float, float, float]) -> float:
    """What reading adds to a decode step: ranks wait for the busiest one with what is its own.

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> float(reading_beside_s(example_world(), 0, 1, (100.0, 100.0, 100.0, 0.0, 0.0)))
    1.0
    """
    mean, busiest, start = chunk[0], chunk[1], chunk[3]
    own_s = _added_s(world, pool, live, busiest, start)
    if busiest <= mean:
        return own_s
    table = world.chunks[pool]
    low, share = _between(table[:, 0], mean)
    together = min(max(table[low, 3] + min(share, 1.0) * (table[low + 1, 3] - table[low, 3]), 0.0), 1.0)
    if together <= 0.0:
        return own_s
    return float((1.0 - together) * own_s + together * _added_s(world, pool, live, mean, start))
