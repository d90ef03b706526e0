"""Prompts that begin as earlier ones: drawn, and fitted to a trace whose blocks say which do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.distributions import Spread, spread_of_values
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import Counts, Times


@dataclass(frozen=True, slots=True)
class Sharing:
    """How prompts share beginnings: all a common one, and some the whole of an earlier prompt.

    Attributes
    ----------
    continued_fraction : float
        Share of prompts that continue an earlier one [-].
    fresh_tokens : Spread
        Length of a prompt that does not, its common beginning included [token].
    added_tokens : Spread
        What a prompt has beyond the one that it continues [token].
    wait_s : Spread
        Time since that one arrived [s].
    common_tokens : int
        With which all prompts begin [token].
    block_tokens : int
        Of a block of a cache [token].
    """

    continued_fraction: float
    fresh_tokens: Spread
    added_tokens: Spread
    wait_s: Spread
    common_tokens: int = 0
    block_tokens: int = 512


def draw_prompts(
    sharing: Sharing, arrival_s: Times, scores: Times, rng: np.random.Generator, longest_tokens: int | None = None
) -> tuple[Counts, tuple[NDArray[np.int32], ...]]:
    """Draw prompts in order of arrival; each that continues another takes the one that arrived a drawn wait earlier.

    Parameters
    ----------
    sharing : Sharing
        How they share.
    arrival_s : ndarray of float
        Rising [s].
    scores : ndarray of float
        Standard normal scores of what each adds [-].
    rng : Generator
        Random numbers.
    longest_tokens : int, optional
        Longest prompt: one that would be longer begins anew, and is cut [token].

    Returns
    -------
    tuple of ndarray
        Lengths [token], and the blocks that each prompt fills.

    Examples
    --------
    >>> sharing = Sharing(1.0, Spread(1024.0), Spread(512.0), Spread(1.0), 0, 512)
    >>> lengths, blocks = draw_prompts(sharing, np.arange(3.0), np.zeros(3), np.random.default_rng(0))
    >>> lengths.tolist(), [one.tolist() for one in blocks]
    ([1024, 1536, 2048], [[0, 1], [0, 1, 2], [0, 1, 2, 3]])
    """
    n, size = len(arrival_s), sharing.block_tokens
    continues = rng.uniform(size=n) < sharing.continued_fraction
    since_s = arrival_s - sharing.wait_s.at_scores(rng.standard_normal(n))
    before = np.searchsorted(arrival_s, since_s, side="right") - 1
    continues &= (before >= 0) & (before < np.arange(n))
    added = np.where(continues, sharing.added_tokens.at_scores(scores), sharing.fresh_tokens.at_scores(scores))
    tokens, blocks = np.maximum(np.rint(added), 1).astype(np.int64), list[NDArray[np.int32]]()
    common = np.arange(sharing.common_tokens // size, dtype=np.int32)
    known = len(common)
    most = longest_tokens or np.iinfo(np.int64).max
    for at in range(n):
        head = blocks[before[at]] if continues[at] else common
        if continues[at] and len(head) * size + tokens[at] <= most:
            tokens[at] += len(head) * size
        else:
            tokens[at] = min(tokens[at], most)
            head = common[: tokens[at] // size]
        more = int(tokens[at]) // size - len(head)
        blocks.append(np.concatenate([head, np.arange(known, known + more, dtype=np.int32)]))
        known += more
    return tokens, tuple(blocks)


def fit_sharing(trace: Trace) -> Sharing | None:
    """Fit how the prompts of a trace share beginnings; none where it has no blocks, or nothing is shared.

    Parameters
    ----------
    trace : Trace
        With blocks.

    Returns
    -------
    Sharing or None
        A prompt that shares more than the common beginning continues the last one that held the same blocks.

    Examples
    --------
    >>> sharing = Sharing(0.5, Spread(1024.0), Spread(512.0), Spread(1.0), 512, 512)
    >>> at = np.arange(400.0)
    >>> lengths, blocks = draw_prompts(sharing, at, np.zeros(400), np.random.default_rng(0))
    >>> found = fit_sharing(Trace(at, lengths, lengths, blocks, 512))
    >>> round(found.continued_fraction, 1), found.common_tokens, found.added_tokens.mean, found.wait_s.mean
    (0.5, 512, 512.0, 1.0)
    """
    if trace.blocks is None or len(trace.blocks) < 2:
        return None
    last: dict[int, int] = {}
    shared, parent = np.zeros(len(trace.blocks), np.int64), np.full(len(trace.blocks), -1)
    for at, ids in enumerate(trace.blocks):
        shared[at] = next((place for place, one in enumerate(ids) if int(one) not in last), len(ids))
        if shared[at]:
            parent[at] = last[int(ids[shared[at] - 1])]
        last.update((int(one), at) for one in ids)
    common = int(np.bincount(shared[1:]).argmax())  # what most prompts share is no conversation of theirs
    more = shared > common
    if not np.any(more):
        return None
    size, wait_s = trace.block_tokens, trace.arrival_s - trace.arrival_s[parent]
    return Sharing(
        continued_fraction=float(np.mean(more)),
        fresh_tokens=spread_of_values(trace.input_tokens[~more]),
        added_tokens=spread_of_values(np.maximum(trace.input_tokens - shared * size, 1)[more]),
        wait_s=spread_of_values(np.maximum(wait_s[more], 1e-3)),
        common_tokens=common * size,
        block_tokens=size,
    )
