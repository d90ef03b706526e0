"""From a distribution of document lengths to what lies in the sequences of a step."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95
from computeledger.errors import InputError, shown
from computeledger.files import read_lengths
from computeledger.physics.training.documents import Documents
from computeledger.workloads.anchor import AnchorKey, parse_anchor

#: How documents share sequences: several, each attending to itself; several that attend to one another; one, padded.
PACKINGS = ("masked", "joined", "padded")
KEYS = {name: AnchorKey("tokens", "tokens") for name in ("p50", "p95", "longest")}
#: Longest document over the 95th percentile where nobody says (assumption).
LONGEST_DOCUMENT_RATIO = 100.0
#: Sequences and documents that are drawn, and the most context-parallel ranks that share a sequence, as a power of two.
_SEQUENCES, _DOCUMENTS, _MOST_RANK_BITS = 512, 200_000, 8
_SEED = 0

Array = NDArray[np.float64]


def read_documents(text: str, packing: str, sequence_tokens: float) -> Documents:
    """Read lengths of documents, ``p50=800,p95=8K`` or a file of one a line, and put them into sequences.

    Examples
    --------
    >>> chat = read_documents("p50=500,p95=3000", "masked", 8192.0)
    >>> round(chat.attended_tokens), chat.useful_fraction
    (2013, 1.0)
    >>> round(read_documents("p50=500,p95=3000", "padded", 8192.0).useful_fraction, 2)
    0.11
    """
    drawn = _drawn(text)
    if packing == "padded":
        held = np.minimum(drawn, sequence_tokens)
        return Documents(_attended(held), float(held.mean() / sequence_tokens))
    if packing == "joined":
        return Documents(sequence_tokens)
    n = int(min(_SEQUENCES, max(drawn.sum() // sequence_tokens, 16)))
    pieces, of = _pieces(drawn, n, sequence_tokens)
    work = np.bincount(of, pieces**2, n)
    ranks = (2**power for power in range(_MOST_RANK_BITS + 1))
    ratios = tuple(_busiest(pieces, n, sequence_tokens, count) for count in ranks)
    return Documents(_attended(pieces), 1.0, float(work.std() / work.mean()), ratios)


def _attended(pieces: Array) -> float:
    return float(np.sum(pieces**2) / np.sum(pieces))


def _drawn(text: str) -> Array:
    """Documents drawn from a log-normal distribution, or from those that were observed."""
    rng = np.random.default_rng(_SEED)
    if "=" not in text:
        try:
            observed = np.asarray(read_lengths(text), float)
        except InputError as error:
            raise InputError(f"documents: {error}; write p50=800,p95=8K, or a file of lengths") from None
        if not np.all(np.isfinite(observed) & (observed >= 1)):
            raise InputError(f"documents {shown(text)}: a length is a number of tokens, at least 1")
        return np.asarray(np.rint(rng.choice(observed, _DOCUMENTS)))
    said = parse_anchor(text, KEYS, "documents")
    if not {"p50", "p95"} <= set(said):
        raise InputError(f"documents {shown(text)}: needs p50 and p95, such as p50=800,p95=8K")
    p50, p95 = float(said["p50"]), float(said["p95"])
    longest = float(said.get("longest", LONGEST_DOCUMENT_RATIO * p95))
    if not p50 <= p95 <= longest:
        raise InputError(f"documents {shown(text)}: p50, p95 and longest must rise")
    spread = math.log(p95 / p50) / Z_95
    found = np.clip(p50 * np.exp(spread * rng.standard_normal(_DOCUMENTS)), 1.0, longest)
    return np.asarray(np.rint(found))


def _pieces(drawn: Array, n_sequences: int, sequence_tokens: float) -> tuple[Array, NDArray[np.intp]]:
    """Documents one behind the other, cut where a sequence ends: length of each piece, and its sequence."""
    whole = n_sequences * sequence_tokens
    ends = np.cumsum(np.tile(drawn, math.ceil(whole / drawn.sum()) + 1))
    cuts = sequence_tokens * np.arange(1, n_sequences + 1)
    edges = np.unique(np.concatenate([[0.0], ends[ends < whole], cuts]))
    return np.diff(edges), (edges[:-1] // sequence_tokens).astype(np.intp)


def _busiest(pieces: Array, n: int, sequence_tokens: float, ranks: int) -> float:
    """Mean over sequences of the busiest rank's work over the mean.

    Each of ``ranks`` has two chunks, one from either end, which is even for one document.
    """
    if ranks == 1:
        return 1.0
    chunk = sequence_tokens / (2 * ranks)
    starts = np.cumsum(pieces) - pieces
    # a query at p in a document that begins at s attends to p - s tokens: chunk by chunk the integral is quadratic
    edges = np.unique(np.concatenate([starts, np.arange(n * 2 * ranks) * chunk]))
    ends = np.append(edges[1:], n * sequence_tokens)
    begin = starts[np.searchsorted(starts, edges, side="right") - 1]
    work = ((ends - begin) ** 2 - (edges - begin) ** 2) / 2
    piece = ((edges + ends) / 2 // chunk).astype(np.intp)
    chunks = np.bincount(piece, work, n * 2 * ranks).reshape(n, 2 * ranks)
    each = chunks[:, :ranks] + chunks[:, ranks:][:, ::-1]
    return float(np.mean(each.max(axis=1) / each.mean(axis=1)))
