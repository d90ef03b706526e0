"""Steps of a batch: how long they take, and the gaps between tokens that they leave."""

from __future__ import annotations

import math

from computeledger.simulation.compiled import kernel
from computeledger.simulation.state import (
    CONTEXT,
    DECODING,
    FIRST_READING,
    GAP_RATIO,
    L_CHUNK,
    L_RANKS,
    N_GAPS,
    POOL,
    Q_CHUNK_START,
    Q_LINK,
    Q_UNREAD,
    SHORTEST_GAP_S,
    World,
)

_LOG_RATIO = math.log(GAP_RATIO)


@kernel
def decode_step_s(world: World, r: int) -> tuple[float, float]:
    """Time of the next decode step, and what each further one adds.

    Parameters
    ----------
    world : World
        Of all replicas.
    r : int
        Replica [-].

    Returns
    -------
    tuple of float
        [s], [s].

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

    Parameters
    ----------
    first_s, more_s : float
        Of the first step, and what each further one adds [s].
    n : int
        Steps [-].

    Returns
    -------
    float
        Of all of them [s].

    Examples
    --------
    >>> run_s(1.0, 0.5, 3)
    4.5
    """
    return n * first_s + more_s * (0.5 * n * (n - 1))


@kernel
def steps_until(first_s: float, more_s: float, gap_s: float) -> int:
    """Fewest steps, at least 1, that take a time.

    Parameters
    ----------
    first_s, more_s : float
        Of the first step, and what each further one adds [s].
    gap_s : float
        The time [s].

    Returns
    -------
    int
        Steps [-].

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

    Parameters
    ----------
    gap_s : float
        The gap [s].

    Returns
    -------
    int
        Place in ``World.gaps`` [-].

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

    Parameters
    ----------
    world : World
        Changed in place.
    first_s, more_s : float
        Of the first step, and what each further one adds [s].
    n, live : int
        Steps and sequences [-].

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
def next_chunk(world: World, r: int) -> tuple[float, float, bool]:
    """Tokens that the busiest rank reads in the next step, tokens before them, and whether more must wait.

    Parameters
    ----------
    world : World
        Of all replicas.
    r : int
        Replica [-].

    Returns
    -------
    tuple of (float, float, bool)
        [token], [token].

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> world = example_world()
    >>> next_chunk(world, 0)
    (0.0, 0.0, False)
    """
    rep, req, pool = world.rep, world.req, world.rep[r, POOL]
    most, ranks = world.limits[pool, L_CHUNK], world.limits[pool, L_RANKS]
    budget = most * ranks
    total, longest, before, has_more = 0, 0, 0.0, False
    q = rep[r, FIRST_READING]
    while q >= 0:
        take = min(req[q, Q_UNREAD], most, budget - total)
        has_more = has_more or take < req[q, Q_UNREAD]
        if take == 0:
            break
        total += take
        longest = max(longest, take)
        before += take * float(req[q, Q_CHUNK_START])
        q = req[q, Q_LINK]
    return float(max(total / ranks, float(longest))), float(before / max(total, 1)), bool(has_more)


@kernel
def reading_s(world: World, pool: int, rank_tokens: float, start_tokens: float) -> float:
    """Time to read a chunk of a prompt with nothing beside it.

    Parameters
    ----------
    world : World
        With its step times.
    pool : int
        Row of the tables [-].
    rank_tokens, start_tokens : float
        New tokens on the busiest rank, and tokens before them [token].

    Returns
    -------
    float
        Of the step [s].

    Examples
    --------
    >>> from computeledger.simulation.state import example_world
    >>> float(reading_s(example_world(), 0, 100.0, 0.0))
    1.0
    """
    table = world.chunks[pool]
    low, high = 0, len(table) - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if table[middle, 0] <= rank_tokens:
            low = middle
        else:
            high = middle
    share = max((rank_tokens - table[low, 0]) / (table[high, 0] - table[low, 0]), 0.0)
    fixed = table[low, 1] + share * (table[high, 1] - table[low, 1])
    slope = table[low, 2] + share * (table[high, 2] - table[low, 2])
    return float(fixed + slope * start_tokens)
