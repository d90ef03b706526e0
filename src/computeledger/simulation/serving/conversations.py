"""Loads of conversations: turns that follow one another, in steady state, and what a fleet carries of them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace

import numpy as np

from computeledger.physics.calibration.efficiency import median_of
from computeledger.simulation.serving.arrivals import Arrivals, DrawnLoad, draw_arrivals, spread_of
from computeledger.simulation.serving.clock import ServingClock
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.serving.turns import Turns
from computeledger.simulation.state import Pool
from computeledger.workloads.questions.conversations import Conversation
from computeledger.workloads.serving.conversations import (
    SAMPLE_SEED,
    CacheHits,
    CacheLoad,
    Sessions,
    cache_hits,
    draw_sessions,
    most_turns,
    n_samples,
)

#: Share of turns that come within the warm-up of a run.
WARM_FRACTION = 0.95
#: Rounds in which hits and the time of a turn agree.
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class DrawnConversations(DrawnLoad):
    """A load of conversations that lasts: its arrivals are those of turns, all conversations together.

    Attributes
    ----------
    conversation : Conversation
        How turns hang together; ``lengths`` are those of first prompts and of every output.
    """

    conversation: Conversation = field(kw_only=True)

    def __call__(self, n_requests: int, requests_per_s: float) -> Trace:
        """Draw conversations of so many turns in all; the last ones may have more."""
        n = max(math.ceil(n_requests / self.mean_turns), 1)
        sessions = self.sessions(n, self.seed)
        n = int(np.sum(sessions.turn == 0))
        rng = np.random.default_rng([self.seed, 0])
        arrivals = replace(self.arrivals, requests_per_s=requests_per_s / self.mean_turns)
        return _trace(sessions, draw_arrivals(arrivals, n, rng), rng)

    @property
    def mean_turns(self) -> float:
        """Of a conversation; those that fill the context end there [-]."""
        return self.sample().mean_turns

    def sample(self) -> Sessions:
        """Conversations that stand for all, whatever the rate and the seed."""
        if self.requests is None and self.sharing is None and not self.by_stretch:
            return _sampled(replace(self, arrivals=Arrivals("even", 1.0, 0.0), seed=0))
        return self.drawn_sample()

    def drawn_sample(self) -> Sessions:
        """The same, drawn."""
        return self.sessions(n_samples(self._mean_asked), SAMPLE_SEED)

    @property
    def _mean_asked(self) -> float:
        """Turns of the mean conversation, or of as many as the context has room for [-]."""
        output = spread_of(self.lengths[1])
        least = 1.0 if output.form or self.requests is not None else round(median_of(output.mean))
        most = most_turns(self.conversation, self._longest_tokens, least)
        return min(median_of(self.conversation.turns.mean), most)

    @property
    def _longest_tokens(self) -> float:
        """Context at which a conversation ends [token]."""
        return math.inf if self.longest_tokens is None else float(self.longest_tokens)

    def sessions(self, n: int, seed: int) -> Sessions:
        """Draw conversations, turn by turn."""
        load = DrawnLoad(**{one.name: getattr(self, one.name) for one in fields(DrawnLoad)} | {"seed": seed})
        drawn = load(max(n, math.ceil(n * (self._mean_asked + 1))), self.requests_per_s)
        firsts = drawn.input_tokens[:n].astype(float), drawn.output_tokens.astype(float)
        return draw_sessions(self.conversation, firsts, np.random.default_rng([seed, 5]), self._longest_tokens)


@functools.lru_cache(maxsize=8)
def _sampled(load: DrawnConversations) -> Sessions:
    """A search asks for the same sample hundreds of times."""
    return load.drawn_sample()


def conversations_of(load: DrawnLoad, conversation: Conversation, longest_tokens: int | None) -> DrawnConversations:
    """A load whose requests are turns: its lengths are those of first prompts and of outputs.

    Examples
    --------
    >>> from computeledger.simulation.serving.arrivals import Arrivals
    >>> from computeledger.distributions import Spread
    >>> load = conversations_of(DrawnLoad(Arrivals("even", 2.0, 0.0), ("100", "20")), Conversation(Spread(3.0)), None)
    >>> load(6, 2.0).input_tokens
    array([100, 100, 120, 140, 120, 140])
    """
    known = {one.name: getattr(load, one.name) for one in fields(DrawnLoad)}
    known["longest_tokens"] = load.longest_tokens if longest_tokens is None else int(longest_tokens)
    return DrawnConversations(**known, conversation=conversation)


def _trace(sessions: Sessions, arrival_s: np.ndarray, rng: np.random.Generator) -> Trace:
    """Turns as requests: first turns in order of arrival, later ones behind them."""
    is_first = sessions.turn == 0
    n_open, total = int(np.sum(is_first)), len(is_first)
    session = np.cumsum(is_first) - 1
    number = np.empty(total, np.int64)
    number[is_first], number[~is_first] = np.arange(n_open), np.arange(n_open, total)
    following = np.where(np.isfinite(sessions.delay_s), np.concatenate([number[1:], [-1]]), -1)
    order = np.argsort(number)
    prefix = rng.integers(0, sessions.n_prefixes, n_open)
    turns = Turns(
        n_open, following[order], np.where(np.isfinite(sessions.delay_s), sessions.delay_s, 0.0)[order],
        session[order], prefix[session][order], np.full(total, sessions.shared_tokens, np.int64),
    )  # fmt: skip
    arrivals = np.full(total, np.nan)
    arrivals[:n_open] = arrival_s
    prompt, output = (one[order].astype(np.int64) for one in (sessions.input_tokens, sessions.output_tokens))
    return Trace(arrivals, prompt, output, turns=turns)


def expected_hits(fleet: ServingClock, load: DrawnConversations, requests_per_s: float) -> CacheHits:
    """What the closed form says of a fleet's caches under a load of conversations.

    Parameters
    ----------
    fleet : ServingClock
        Its routing says whether conversations return to their replica.
    load : DrawnConversations
        Conversations.
    requests_per_s : float
        Turns of the whole fleet [1/s].

    Returns
    -------
    CacheHits
        At the time of a turn that these hits give.
    """
    pool, sessions = fleet.pools[0], load.sample()
    n, limits, is_split = pool.n_replicas, pool.limits, len(fleet.pools) > 1
    prompt, output = float(np.mean(sessions.input_tokens)), float(np.mean(sessions.output_tokens))
    is_affine = n == 1 or fleet.routing in ("prefix", "session")
    room = float(limits.kv_tokens) if fleet.uses_prefixes else 0.0
    tiers = tuple((one.kv_tokens if fleet.uses_prefixes else 0.0, one.is_shared) for one in fleet.tiers)
    # from what a cache without end finds: a fleet that lives of its caches has a second, slower state without them
    endless = cache_hits(sessions, CacheLoad(requests_per_s, n, math.inf, 0.0, is_affine, is_split=is_split))
    unread = prompt - float(np.mean(endless.by_turn)) * fleet.uses_prefixes
    for _ in range(_ROUNDS):
        here_s, away_s = turn_s(fleet, (unread, prompt, output), requests_per_s)
        hits = cache_hits(sessions, CacheLoad(requests_per_s, n, room, here_s, is_affine, tiers, away_s, is_split))
        left, unread = unread, prompt - float(np.mean(hits.by_turn))
        if unread == left:
            break
    return hits


def turn_s(fleet: ServingClock, tokens: tuple[float, float, float], requests_per_s: float) -> tuple[float, float]:
    """Time of a request on the replica that keeps its cache, and after it on one that only decodes, by Little's law.

    Tokens are means: to prefill, of the whole prompt, of the output.

    Examples
    --------
    >>> from computeledger.simulation.state import Limits, constant_step_times
    >>> pool = Pool(1, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512))
    >>> [round(one, 3) for one in turn_s(ServingClock((pool,)), (100.0, 100.0, 11.0), 1.0)]
    [1.1, 0.0]
    >>> apart = ServingClock((pool, pool), (1, 1), handover_s=0.5)
    >>> [round(one, 3) for one in turn_s(apart, (100.0, 100.0, 11.0), 1.0)]
    [0.0, 1.6]
    """
    unread, prompt, output = tokens
    first, last = fleet.pools[0], fleet.pools[-1]
    read_s = _read_s(first, unread, prompt)
    each, decoding = requests_per_s / first.n_replicas, (prompt, output, requests_per_s / last.n_replicas)
    if len(fleet.pools) == 1:  # beside the steps of others, their prompts are read as well, one in each stage
        return _decoded_s(last, decoding, (each * read_s / first.limits.stages, read_s)), 0.0
    busy = min(each * read_s / first.limits.stages, 0.95)
    queue_s = busy / (1 - busy) / 2 * read_s / first.limits.stages  # even prompts one after another (M/D/1)
    handed_s = fleet.handover_s + fleet.handover_s_per_token * prompt
    return read_s + queue_s, handed_s + _decoded_s(last, decoding, (0.0, 0.0))


def _read_s(pool: Pool, unread: float, prompt: float) -> float:
    """Time to read what is left of a prompt, chunk by chunk."""
    times, chunk = pool.times, float(pool.limits.chunk_tokens)
    before = max(prompt - unread, 0.0) + unread / 2
    last = unread % chunk if unread > chunk else unread
    each = [np.interp(one, times.chunk_tokens, times.prefill_s + before * times.prefill_context_s)
            for one in (chunk, last)]  # fmt: skip
    return float((unread - last) / chunk * each[0] + each[1])


def _decoded_s(pool: Pool, decoding: tuple[float, float, float], reading: tuple[float, float]) -> float:
    """Time to decode an output in the batch that the load makes; prompts take a share of the time, and its own some."""
    prompt, output, requests_per_s = decoding
    times, batch = pool.times, np.arange(1, pool.limits.live + 1)
    token_s = times.decode_s[batch] + times.context_s[batch] * batch * (prompt + output / 2)
    turn = token_s * output / np.maximum(1.0 - reading[0], 0.05) + reading[1]
    enough = np.nonzero(batch / turn >= requests_per_s)[0]
    return float(turn[enough[0] if len(enough) else -1])


def as_requests(load: DrawnConversations, hits: CacheHits) -> Callable[[int, float], Trace]:
    """The turns of a load as requests of their own, in any order, that find what the closed form says they do."""
    sample = load.sample()

    def draw(n_requests: int, requests_per_s: float) -> Trace:
        """So many of them."""
        del requests_per_s
        at = np.random.default_rng([load.seed, 6]).integers(0, len(sample.turn), n_requests)
        return Trace(
            np.zeros(n_requests), sample.input_tokens[at].astype(np.int64), sample.output_tokens[at].astype(np.int64),
            cached_tokens=hits.by_turn[at].astype(np.int64),
        )  # fmt: skip

    return draw


def turn_ages_s(sessions: Sessions, service_s: float) -> np.ndarray:
    """How long after its conversation's beginning each turn comes [s].

    Examples
    --------
    >>> drawn = Sessions(np.ones(3), np.ones(3), np.array([5.0, 5.0, np.inf]), np.arange(3))
    >>> turn_ages_s(drawn, 1.0)
    array([ 0.,  6., 12.])
    """
    passed = np.cumsum(np.where(np.isfinite(sessions.delay_s), sessions.delay_s + service_s, 0.0))
    before = np.concatenate([[0.0], passed[:-1]])
    starts = np.nonzero(sessions.turn == 0)[0]
    return np.asarray(before - before[starts].repeat(np.diff([*starts, len(before)])))
