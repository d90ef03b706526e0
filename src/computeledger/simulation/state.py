"""What a simulation knows at one moment, as a few tables that kernels change in place.

One row per request or replica, one column per quantity; the columns have names here. Few tables rather than many
arrays, because compiled kernels hand every array of their arguments on one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from computeledger.simulation.prefix_cache import PrefixCache, make_cache

Times = NDArray[np.float64]
Counts = NDArray[np.int64]

#: Gaps between tokens are counted in bins of this ratio, from the shortest gap on: a percentile is known to a
#: thousandth.
GAP_RATIO, SHORTEST_GAP_S, N_GAPS = 1.002, 1e-6, 12_000

#: Prompts in a step up to which the busiest rank is tabulated; beyond, its lead over the mean stays.
MOST_PROMPTS = 64

#: Columns of ``World.req``: tokens to read and to write; oldest weights that may serve it; tokens written so far, of
#: the prompt still to be read (-1: its cache comes along), before the next chunk, found in the cache; place in the
#: order of admission; next in the list it is in, -1 at the end; where it is or was; how often it was put back;
#: weights with which it began; tokens of a cache that is kept while its tool answers, and its neighbours in the order
#: in which such caches give way, -1 at the ends; tokens of its prompt that another's cache holds when it is first read;
#: its class, 0 the most urgent; the adapter that it names; the replica where its conversation went before.
(Q_PROMPT, Q_OUTPUT, Q_VERSION, Q_WRITTEN, Q_UNREAD, Q_CHUNK_START, Q_CACHED, Q_ORDER, Q_LINK, Q_REPLICA,
 Q_PREEMPTIONS, Q_BEGAN, Q_KEPT, Q_NEXT_KEPT, Q_LAST_KEPT, Q_PREFIX, Q_CLASS, Q_ADAPTER,
 Q_HOME) = range(19)  # fmt: skip
#: Columns of ``World.when`` [s]: seen first by a replica; let in first; first token; last token before it was put back;
#: done. Not a number until then.
Q_READY, Q_ADMITTED, Q_FIRST, Q_LAST, Q_FINISHED = range(5)
#: Columns of ``World.rep``: pool; weights that are loaded; steps of the present run, and done so far; tokens in the
#: caches of decoding sequences, and of all live ones with shared blocks once; sequences that write, that read or
#: write, that wait; ends of the lists of those that wait and that read, -1 where empty; whether new ones stay out;
#: whether work waits that the present step cannot take; rollouts that wait for a tool; tokens of caches kept for them,
#: and ends of the list of those, the longest kept first; first of those whose prompt was read and that
#: have not taken a step since, where they came from elsewhere or the others stood still; adapters that live sequences
#: name, and that are on the chips; last of those at the head of the line that the adapters named now keep out; whether
#: the next one had no room and nobody has left since.
(POOL, VERSION, PLANNED, STEPS, CONTEXT, USED, DECODING, LIVE, WAITING, FIRST_WAITING, LAST_WAITING, FIRST_READING,
 LAST_READING, HELD, BLOCKED, AWAY, KEPT, FIRST_KEPT, LAST_KEPT, FIRST_MOVED, NAMED, ON_CHIP, SKIPPED,
 FULL) = range(24)  # fmt: skip
#: Columns of ``World.clock`` [s]: beginning of the present run; when it must be looked at in any case; time in
#: decoding, and in reading prompts; within the watched window, time in which work waited for room; time of steps
#: broken off; how much later than the present step the first tokens of its prompts come out of the pipeline; what a
#: first token waits beside others, in steps and in time; share of outputs that is kept free; time since the last step
#: that decoded; loading of caches that the next step waits for; copying of adapters, by which it is longer, and of one.
(NOW, INTERRUPT, DECODE_BUSY, PREFILL_BUSY, BLOCKED_TIME, LOST_TIME, FIRST_LAG, ADMISSION, ADMISSION_TIME, KEPT_FREE,
 PAUSED, LOADING, COPYING, COPY_TIME) = range(14)  # fmt: skip
#: Columns of ``World.limits``: see :class:`Limits`.
(L_LIVE, L_KV, L_RESERVE, L_STATE, L_CHUNK, L_RANKS, L_STAGES, L_HANDS_OVER, L_COUNTS_DECODE, L_READS_ALONE,
 L_KEEPS_FREE, L_WITHIN_BUDGET, L_ORDER, L_SHARE, L_QUEUE, L_ADAPTERS, L_LONG) = range(17)  # fmt: skip
#: Entries of ``World.counters``: length of ``done``, admissions, times a sequence was put back, runs of steps, requests
#: sent to the replicas of the first pool and of the second.
N_DONE, N_ADMITTED, N_PUT_BACK, N_RUNS, N_SENT, N_SENT_ON = range(6)


class StepTimes(NamedTuple):
    """How long the steps of a replica take: tables of what the physics gives.

    ``decode = decode_s[B] + context_s[B] x (tokens in the caches of all B sequences)``;
    ``prefill = prefill_s(x) + prefill_context_s(x) x (tokens before the chunk)``, linear between the ``x`` of the
    table. Beside others a first token waits ``admission_steps`` decode steps and ``admission_s`` more.
    """

    decode_s: Times
    context_s: Times
    chunk_tokens: Times
    prefill_s: Times
    prefill_context_s: Times
    beside_batch: Times
    beside_s: Times
    beside_context_s: Times
    shared_fraction: Times
    busiest_prompts: Times
    admission_steps: float = 0.0
    admission_s: float = 0.0
    adapter_copy_s: float = 0.0


class HostTimes(NamedTuple):
    """Time of requests outside of steps, straight between inputs; and what a first token takes more beside others."""

    input_tokens: tuple[float, ...] = (1.0,)
    s: tuple[float, ...] = (0.0,)
    more_beside_s: float = 0.0

    @property
    def least_s(self) -> float:
        """What every request takes before it reaches a replica [s]."""
        return min(self.s)

    def at_s(self, input_tokens: float | Times | Counts) -> Times:
        """By request.

        Examples
        --------
        >>> float(HostTimes((1.0, 101.0), (0.0, 1.0)).at_s(51.0))
        0.5
        """
        return np.asarray(np.interp(input_tokens, self.input_tokens, self.s))


NO_HOST_TIMES = HostTimes()


class Limits(NamedTuple):
    """What a replica takes at once, and its scheduler's rules; the share kept free is in thousandths of its default,
    a queue of 0 has no end, adapters of 0 are not limited, of a prompt a step reads ``long_tokens`` (0: a whole chunk).
    """

    live: int
    kv_tokens: int
    reserve_tokens: int
    state_tokens: int
    chunk_tokens: int
    ranks: int = 1
    stages: int = 1
    hands_over: int = 0
    counts_decode: int = 0
    reads_alone: int = 0
    keeps_free: int = 0
    within_budget: int = 0
    order: int = 0
    share_permille: int = 1000
    queue: int = 0
    adapters: int = 0
    long_tokens: int = 0


class Pool(NamedTuple):
    """Replicas that are alike; shares of requests by adapter, where not all are on the chips."""

    n_replicas: int
    times: StepTimes
    limits: Limits
    adapter_shares: tuple[float, ...] = ()


class World(NamedTuple):
    """Everything that the kernels of a replica see."""

    decode: Times
    chunks: Times
    beside_batch: Times
    beside: Times
    busiest: Times
    limits: Counts
    req: Counts
    when: Times
    rep: Counts
    clock: Times
    tree: Times
    finish_step: Counts
    finish_request: Counts
    cache: PrefixCache
    gaps: Times
    done: Counts
    counters: Counts
    window_s: Times
    ends: Counts
    adapters: Counts


def make_world(
    pools: list[Pool],
    ready_s: Times,
    prompt_tokens: Counts,
    output_tokens: Counts,
    cache: PrefixCache | None = None,
    n_classes: int = 1,
) -> World:
    """Put a simulation together: requests that nothing has happened to, replicas that stand idle.

    Examples
    --------
    >>> example_world().req[:, Q_PROMPT]
    array([10, 10])
    """
    n, sizes = len(ready_s), [one.n_replicas for one in pools]
    most_live = max(one.limits.live for one in pools)
    n_replicas = sum(sizes)
    req = np.zeros((n, 19), np.int64)
    req[:, Q_PROMPT], req[:, Q_OUTPUT] = prompt_tokens, output_tokens
    req[:, Q_LINK] = req[:, Q_REPLICA] = req[:, Q_NEXT_KEPT] = req[:, Q_LAST_KEPT] = req[:, Q_HOME] = -1
    when = np.full((n, 5), np.nan)
    when[:, Q_READY] = ready_s
    rep = np.zeros((n_replicas, 24), np.int64)
    rep[:, POOL] = np.repeat(np.arange(len(pools)), sizes)
    rep[:, FIRST_WAITING : LAST_READING + 1] = rep[:, FIRST_KEPT : FIRST_MOVED + 1] = -1
    rep[:, SKIPPED] = -1
    clock = np.zeros((n_replicas, 14))
    clock[:, INTERRUPT] = np.inf
    clock[:, ADMISSION] = np.repeat([one.times.admission_steps for one in pools], sizes)
    clock[:, ADMISSION_TIME] = np.repeat([one.times.admission_s for one in pools], sizes)
    clock[:, COPY_TIME] = np.repeat([one.times.adapter_copy_s for one in pools], sizes)
    leaves = 1 << max(n_replicas - 1, 0).bit_length()
    return World(
        decode=np.stack([_padded(one.times, most_live) for one in pools]),
        chunks=_chunk_tables(pools),
        beside_batch=_stacked([one.times.beside_batch for one in pools]),
        beside=_stacked([np.stack([one.times.beside_s, one.times.beside_context_s], axis=2) for one in pools]),
        busiest=np.stack([_busiest(one) for one in pools]),
        limits=np.array([one.limits for one in pools], np.int64),
        req=req,
        when=when,
        rep=rep,
        clock=clock,
        tree=np.full(2 * leaves, np.inf),
        finish_step=np.zeros((n_replicas, most_live), np.int64),
        finish_request=np.zeros((n_replicas, most_live), np.int64),
        cache=make_cache(n_replicas) if cache is None else cache,
        gaps=np.zeros(N_GAPS),
        done=np.zeros(most_live + 1, np.int64),
        counters=np.zeros(6, np.int64),
        window_s=np.array([0.0, np.inf, -np.inf, np.inf]),
        ends=np.full((n_replicas, n_classes), -1, np.int64),
        adapters=np.zeros((n_replicas, max(len(one.adapter_shares) for one in pools), 2), np.int64),
    )


def _padded(times: StepTimes, most_live: int) -> Times:
    """A pool's decode table, as long as the longest."""
    table = np.stack([times.decode_s, times.context_s], axis=1)
    return np.pad(table, ((0, max(most_live + 1 - len(table), 0)), (0, 0)), "edge")


def _stacked(tables: list[Times]) -> Times:
    """Tables of all pools, each as large as the largest in every direction: the last entries repeat."""
    shape = np.max([table.shape for table in tables], axis=0)
    pads = [[(0, int(most - size)) for most, size in zip(shape, table.shape, strict=True)] for table in tables]
    return np.stack([np.pad(table, pad, "edge") for table, pad in zip(tables, pads, strict=True)])


def _busiest(pool: Pool) -> Times:
    """Prompts on the busiest attention-DP rank, by prompts in a step."""
    if len(pool.times.busiest_prompts):
        return np.asarray(pool.times.busiest_prompts)
    n = np.arange(MOST_PROMPTS + 1.0)
    return np.maximum(n / (pool.limits.ranks // pool.limits.stages), n > 0)


def _chunk_tables(pools: list[Pool]) -> Times:
    """Prefill tables of all pools, as long as the longest: the last entry repeats further out."""
    tables = [
        np.stack(
            [one.times.chunk_tokens, one.times.prefill_s, one.times.prefill_context_s, one.times.shared_fraction],
            axis=1,
        )
        for one in pools
    ]
    longest = max(len(table) for table in tables)
    out = np.stack([np.pad(table, ((0, longest - len(table)), (0, 0)), "edge") for table in tables])
    for row, table in zip(out, tables, strict=True):
        row[len(table) :, 0] += np.arange(1, longest - len(table) + 1)
    return out


def plain_step_times(decode: tuple[Times, Times], chunks: tuple[Times, Times, Times], beside: float = 1.0) -> StepTimes:
    """Step times in which a chunk adds a fixed share of its own time to the decodes that it joins.

    Examples
    --------
    >>> zero = np.zeros(2)
    >>> plain_step_times((zero, zero), (np.array([1.0, 2.0]), np.ones(2), zero), 0.5).beside_s[:, 0]
    array([0.5, 0.5])
    """
    tokens, fixed_s, context_s = chunks
    return StepTimes(
        *decode, tokens, fixed_s, context_s, np.ones(1), beside * fixed_s[:, None], beside * context_s[:, None],
        np.zeros(len(tokens)), np.zeros(0),
    )  # fmt: skip


def constant_step_times(live: int, decode_s: float, prefill_s: float) -> StepTimes:
    """Step times that depend on nothing, for limits with a known answer.

    Examples
    --------
    >>> constant_step_times(1, 0.5, 0.1).decode_s
    array([0. , 0.5])
    """
    decode = np.full(live + 1, decode_s)
    decode[0] = 0.0
    chunks = (np.array([1.0, 2.0]), np.full(2, prefill_s), np.zeros(2))
    return plain_step_times((decode, np.zeros(live + 1)), chunks)


def example_world() -> World:
    """Two requests of ten tokens in and three out, and one replica whose every step takes a second.

    Examples
    --------
    >>> example_world().rep.shape
    (1, 24)
    """
    limits = Limits(live=2, kv_tokens=100, reserve_tokens=0, state_tokens=0, chunk_tokens=100)
    pool = Pool(1, constant_step_times(2, 1.0, 1.0), limits)
    return make_world([pool], np.zeros(2), np.full(2, 10), np.full(2, 3))
