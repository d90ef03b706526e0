"""Conversations and agents: requests that are turns, and how much of their prompts a prefix cache of a size holds.

A turn's prompt is all that was read and written before, and what the person or the tool adds. Between two turns the
cache of a conversation is idle, and gives way when it is the one that was used longest ago. In a cache that is used
evenly this happens at the same age for all, the characteristic time ``T`` (Che, Tung and Wang 2002), at which what
came into the cache within ``T`` fills it:

    rate x mean(size x min(idle time, T)) = room

A turn whose conversation was idle for less than ``T`` finds its cache, one that was idle for longer does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.distributions import Spread
from computeledger.physics.calibration.efficiency import median_of
from computeledger.workloads.questions.conversations import Conversation

Floats = NDArray[np.float64]

#: Conversations whose turns stand for all others in the closed form, turns that they may have together, fewest
#: conversations, and their seed.
N_SAMPLES, SAMPLED_TURNS, LEAST_SAMPLES, SAMPLE_SEED = 2_000, 1_000_000, 50, 17
#: Earlier turns that are looked at for the last one on the same replica.
MOST_TURNS_BACK = 64
#: Share of visits below which turns further back are left out.
_LEAST_SHARE = 1e-4
_HALVINGS = 80


@dataclass(frozen=True, slots=True)
class Sessions:
    """Drawn conversations, turn by turn; all turns of one stand together.

    Attributes
    ----------
    input_tokens, output_tokens : ndarray of float
        By turn; the input is the whole prompt [token].
    delay_s : ndarray of float
        From the end of a turn to the next one's arrival; infinite after the last [s].
    turn : ndarray of int
        Which turn of its conversation it is, from 0 [-].
    shared_tokens, n_prefixes : int
        As :class:`Conversation` has them.
    """

    input_tokens: Floats
    output_tokens: Floats
    delay_s: Floats
    turn: NDArray[np.int64]
    shared_tokens: int = 0
    n_prefixes: int = 1

    @property
    def mean_turns(self) -> float:
        """Of a conversation [-]."""
        return len(self.turn) / float(np.sum(self.turn == 0))


def n_samples(mean_turns: float) -> int:
    """Conversations that stand for all others: fewer where they are long.

    Examples
    --------
    >>> n_samples(10.0), n_samples(2_000.0), n_samples(100_000.0)
    (2000, 500, 50)
    """
    return max(min(N_SAMPLES, int(SAMPLED_TURNS / mean_turns)), LEAST_SAMPLES)


def most_turns(one: Conversation, longest_tokens: float, least_output: float) -> float:
    """Turns that a context has room for at most: each writes, and later ones add what is observed [-].

    Examples
    --------
    >>> most_turns(Conversation(Spread(1e4), observed_tokens=Spread(90.0)), 1_000.0, 10.0)
    11.0
    """
    added = 0.0 if one.observed_tokens.form else round(median_of(one.observed_tokens.mean))
    return 1.0 + longest_tokens / (max(least_output, 1.0) + added)


def draw_sessions(
    one: Conversation, firsts: tuple[Floats, Floats], rng: np.random.Generator, longest_tokens: float = math.inf
) -> Sessions:
    """Draw conversations.

    Parameters
    ----------
    one : Conversation
        How requests hang together.
    firsts : tuple of ndarray of float
        Tokens of first prompts, one per conversation, and of outputs, which are used in turn [token].
    rng : Generator
        Random numbers.
    longest_tokens : float
        Context at which a conversation ends [token].

    Returns
    -------
    Sessions
        With at least one turn each.

    Examples
    --------
    >>> chat = Conversation(Spread(3.0), Spread(5.0), Spread(50.0))
    >>> draw_sessions(chat, (np.array([100.0]), np.array([20.0])), np.random.default_rng(0)).input_tokens
    array([100., 170., 240.])
    """
    first, outputs = firsts
    n = len(first)
    drawn = _drawn(one.turns, n, rng)
    most = most_turns(one, longest_tokens, float(np.min(outputs)))
    # a mean between two whole numbers is a mixture of both
    turns = np.clip(np.floor(drawn + rng.uniform(size=n)), 1, most).astype(np.int64)
    starts = np.cumsum(turns) - turns
    total = int(turns.sum())
    turn = np.arange(total) - np.repeat(starts, turns)
    output = np.resize(outputs, total)
    observed = _drawn(one.observed_tokens, total, rng)
    delay_s = _drawn(one.delay_s, total, rng)
    added = np.where(turn == 0, 0.0, np.rint(observed) + np.concatenate([[0.0], output[:-1]]))
    added[starts] = np.maximum(first, one.shared_tokens + 1)
    grown = np.cumsum(added)
    prompt = grown - np.repeat(grown[starts] - added[starts], turns)
    begun = np.repeat(starts, turns)
    beyond = np.maximum.accumulate(np.where(prompt + output > longest_tokens, begun + 1, 0))
    kept = (beyond <= begun) | (turn == 0)
    prompt, output, delay_s, turn = prompt[kept], output[kept], delay_s[kept], turn[kept]
    last = np.concatenate([turn[1:] == 0, [True]])
    return Sessions(prompt, output, np.where(last, np.inf, delay_s), turn, one.shared_tokens, one.n_prefixes)


def _drawn(one: Spread, n: int, rng: np.random.Generator) -> Floats:
    mean = median_of(one.mean)
    return one.draw(n, mean, rng) if one.form else np.full(n, mean)


@dataclass(frozen=True, slots=True)
class CacheLoad:
    """What a fleet's caches are used by.

    Attributes
    ----------
    requests_per_s : float
        Turns of the whole fleet [1/s].
    n_replicas : int
        That share them evenly [-].
    kv_tokens : float
        Cache of a replica, in HBM [token].
    service_s : float
        From a turn's arrival to its last token here [s].
    is_affine : bool
        Whether a conversation returns to the replica that has its cache.
    tiers : tuple of (float, bool)
        Below HBM: tokens, and whether all replicas share them.
    away_s : float
        From where these replicas let go of a turn to its last token, where other workers decode it [s].
    is_split : bool
        Whether others decode: these replicas then hold prompts alone, and a shared tier what was written too.
    """

    requests_per_s: float
    n_replicas: int
    kv_tokens: float
    service_s: float
    is_affine: bool = True
    tiers: tuple[tuple[float, bool], ...] = ()
    away_s: float = 0.0
    is_split: bool = False


@dataclass(frozen=True, slots=True)
class CacheHits:
    """What prompts find.

    Attributes
    ----------
    tokens : tuple of float
        Of the mean prompt, in HBM and in each tier below [token].
    prompt_tokens : float
        The mean prompt [token].
    hold_s : tuple of float
        Characteristic time of HBM and of each tier: how long an idle conversation stays [s].
    by_turn : ndarray of float
        Tokens that each drawn turn finds, in whatever tier [token].
    """

    tokens: tuple[float, ...]
    prompt_tokens: float
    hold_s: tuple[float, ...]
    by_turn: Floats

    @property
    def fractions(self) -> tuple[float, ...]:
        """Share of prompt tokens found in HBM and in each tier [-]."""
        return tuple(one / self.prompt_tokens for one in self.tokens)


def characteristic_s(sizes: Floats, idle_s: Floats, per_s: float, room_tokens: float) -> float:
    """How long an idle cache stays, ``T`` of ``per_s x mean(sizes x min(idle_s, T)) = room_tokens``.

    Parameters
    ----------
    sizes : ndarray of float
        Caches that become idle, by turn [token].
    idle_s : ndarray of float
        Until each is used again [s].
    per_s : float
        Turns [1/s].
    room_tokens : float
        Of the cache [token].

    Returns
    -------
    float
        Infinite where all of them fit for ever [s].

    Examples
    --------
    >>> characteristic_s(np.array([100.0]), np.array([np.inf]), 2.0, 1000.0)
    5.0
    >>> characteristic_s(np.array([100.0]), np.array([3.0]), 2.0, 1000.0)
    inf
    """
    if room_tokens <= 0:
        return 0.0
    used_again = np.isfinite(idle_s) & (sizes > 0)
    idle, size = idle_s[used_again], sizes[used_again] * per_s / len(sizes)
    for_good = float(np.sum(sizes[np.isinf(idle_s)])) * per_s / len(sizes)
    order = np.argsort(idle)
    idle, size = idle[order], size[order]
    # of those idle for less than T the whole time counts, of the others T
    done = np.concatenate([[0.0], np.cumsum(idle * size)])
    left = np.concatenate([np.cumsum(size[::-1])[::-1], [0.0]]) + for_good
    at = int(np.searchsorted(done[:-1] + idle * left[:-1], room_tokens))
    return float((room_tokens - done[at]) / left[at]) if left[at] > 0 else math.inf


def cache_hits(sessions: Sessions, load: CacheLoad) -> CacheHits:
    """Share of prompts that a cache of a size holds, by the characteristic time of its least recently used blocks.

    Parameters
    ----------
    sessions : Sessions
        Conversations that stand for all.
    load : CacheLoad
        What uses the cache.

    Returns
    -------
    CacheHits
        Valid where many conversations share a replica; a cache that one prompt fills holds less.

    Examples
    --------
    >>> chat = Conversation(Spread(10.0), Spread(20.0), Spread(500.0))
    >>> drawn = draw_sessions(chat, (np.full(100, 4000.0), np.full(1000, 500.0)), np.random.default_rng(0))
    >>> small, large = (cache_hits(drawn, CacheLoad(1.0, 1, room, 5.0)).fractions[0] for room in (1e5, 1e7))
    >>> round(small, 2), round(large, 2)
    (0.0, 0.9)
    """
    per_s = load.requests_per_s / load.n_replicas
    read = sessions.input_tokens - sessions.shared_tokens
    written = read + sessions.output_tokens - 1
    own = read if load.is_split else written
    n_live = per_s * load.service_s
    free = 1.0 - math.exp(-n_live / sessions.n_prefixes)  # a shared prompt that a live sequence holds
    shared = sessions.n_prefixes * sessions.shared_tokens
    mean_live = float(np.mean(read if load.is_split else read + sessions.output_tokens / 2))
    room = load.kv_tokens - n_live * mean_live - free * shared
    backs = _visits(sessions, load)
    rooms = [(room, per_s, backs, 0.0, own)]
    for tokens, is_shared in load.tiers:
        everywhere = load.requests_per_s if is_shared else per_s
        seen = _visits(sessions, load, is_everywhere=True) if is_shared else backs
        rooms.append((tokens, everywhere, seen, load.service_s, written if is_shared else own))
    found, reached, holds = [], np.zeros_like(own), []
    for tokens, rate, visits, more_s, kept in rooms:
        sizes = np.concatenate([share * kept for share, *_ in visits])
        idle = np.concatenate([until + more_s for _, until, *_ in visits])
        hold_s = characteristic_s(sizes, idle, rate * len(visits), tokens - shared)
        holds.append(hold_s)
        hits = np.maximum(reached, _found(sessions, kept, visits, (hold_s, rate)))
        found.append(float(np.mean(hits - reached)))
        reached = hits
    return CacheHits(tuple(found), float(np.mean(sessions.input_tokens)), tuple(holds), reached)


_Visit = tuple[Floats, Floats, Floats, Floats]


def _visits(sessions: Sessions, load: CacheLoad, is_everywhere: bool = False) -> list[_Visit]:
    """Turns back on the same replica: share of caches next used so, when; share of prompts that find it, how old."""
    away_s = 0.0 if is_everywhere else load.away_s  # who decodes writes to what all share
    same = 1.0 if load.is_affine or is_everywhere else 1.0 / load.n_replicas
    n = len(sessions.turn)
    most = min(int(sessions.turn.max()) + 1, MOST_TURNS_BACK)
    rest, until, since = np.ones(n), np.zeros(n), np.zeros(n)
    out: list[_Visit] = []
    for back in range(1, most + 1):
        share = same * (1 - same) ** (back - 1)
        if share < _LEAST_SHARE and back > 1:
            break
        at = np.arange(n) + back - 1
        step_s = np.where(at < n, sessions.delay_s[np.minimum(at, n - 1)], np.inf) + away_s
        until = until + step_s + (load.service_s if back > 1 else 0.0)
        since = np.concatenate([np.full(back, np.inf), until[:-back]]) if back < n else np.full(n, np.inf)
        out.append((np.full(n, share), until.copy(), np.full(n, share), since))
        rest = rest - share
    out.append((np.maximum(rest, 0.0), np.full(n, np.inf), np.zeros(n), np.full(n, np.inf)))
    return out


def _found(sessions: Sessions, own: Floats, visits: list[_Visit], held: tuple[float, float]) -> Floats:
    """Tokens of each turn's prompt that a cache has: with a characteristic time and turns a second, of so much each."""
    hold_s, per_s = held
    met = 1.0 - math.exp(-min(per_s / sessions.n_prefixes * hold_s, 700.0)) if hold_s > 0 else 0.0
    out = np.full(len(own), met * sessions.shared_tokens)
    for back, (_, _, share, since) in enumerate(visits, start=1):
        earlier = np.concatenate([np.zeros(min(back, len(own))), own[:-back]])[: len(own)]
        out += np.where(since < hold_s, share * earlier, 0.0)
    return np.asarray(np.minimum(out, sessions.input_tokens - 1))
