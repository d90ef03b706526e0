"""The critical batch: how many tokens a step may hold before more of them stop helping, and how it grows."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.catalog import shipped_file
from computeledger.facts.reading import read_facts, read_file
from computeledger.facts.schema import Fact

_LAW = "critical_batch_merrill_2025"


@functools.cache
def critical_batch_facts() -> dict[str, Fact]:
    """Load what was measured of the critical batch.

    Returns
    -------
    dict of str to Fact
        ``first_seen_tokens``, ``first_batch_tokens``, ``plateau_seen_tokens``, ``plateau_batch_tokens``.

    Examples
    --------
    >>> critical_batch_facts()["plateau_batch_tokens"].value
    16777216.0
    """
    document = read_file(shipped_file("laws.toml"), shipped=True)
    return read_facts(document, _LAW, document.table[_LAW])


def critical_batch_merrill_2025_tokens(seen_tokens: Num) -> Num:
    """Largest batch that costs no loss per token, ``min(B1, B1 (t / t1)^p)`` with ``p = ln(B1 / B0) / ln(t1 / t0)``.

    A power law through the two published points, flat from the second on. It does not depend on the size of the model
    (1B and 7B agree). Published large runs go beyond it early (Llama 3 405B trains with 8M tokens after 252M).

    Parameters
    ----------
    seen_tokens : float or ndarray
        Tokens the model was trained on so far; measured to 6e11 [token].

    Returns
    -------
    float or ndarray
        Tokens per optimiser step [token].

    References
    ----------
    merrill-2025.

    Examples
    --------
    >>> float(critical_batch_merrill_2025_tokens(503e9)) / 4096
    4096.0
    """
    first, plateau = _points()
    return plateau[1] * np.minimum((np.maximum(seen_tokens, 1.0) / plateau[0]) ** _exponent(first, plateau), 1.0)


def _points() -> tuple[tuple[float, float], tuple[float, float]]:
    """Tokens seen and batch at both published points."""
    values = {name: fact.value for name, fact in critical_batch_facts().items()}
    return (
        (values["first_seen_tokens"], values["first_batch_tokens"]),
        (values["plateau_seen_tokens"], values["plateau_batch_tokens"]),
    )


def _exponent(first: tuple[float, float], plateau: tuple[float, float]) -> float:
    return math.log(plateau[1] / first[1]) / math.log(plateau[0] / first[0])


@dataclass(frozen=True, slots=True)
class BatchPhase:
    """A part of a run with one batch.

    Attributes
    ----------
    batch_tokens : float
        Tokens per optimiser step [token].
    start_tokens, end_tokens : float
        Tokens seen when the part begins and ends [token].
    """

    batch_tokens: float
    start_tokens: float
    end_tokens: float

    @property
    def tokens(self) -> float:
        """Tokens of the part [token]."""
        return self.end_tokens - self.start_tokens


def growing_batch(first_batch_tokens: float, last_batch_tokens: float, run_tokens: float) -> list[BatchPhase]:
    """Let a batch double whenever the critical batch allows twice as much.

    Parameters
    ----------
    first_batch_tokens : float
        Tokens per step at the start [token].
    last_batch_tokens : float
        Where it stops growing; the plateau of the critical batch is never exceeded by growing [token].
    run_tokens : float
        Tokens of the run [token].

    Returns
    -------
    list of BatchPhase
        One after the other; together the run.

    Examples
    --------
    >>> [round(one.batch_tokens / 2**20) for one in growing_batch(2**21, 2**24, 1e12)]
    [2, 4, 8, 16]
    """
    first, plateau = _points()
    phases, start, batch = [], 0.0, first_batch_tokens
    while batch < last_batch_tokens and 2 * batch <= plateau[1]:
        allowed = plateau[0] * (2 * batch / plateau[1]) ** (1 / _exponent(first, plateau))
        if allowed >= run_tokens:
            break
        if allowed > start:
            phases.append(BatchPhase(batch, start, allowed))
            start = allowed
        batch *= 2
    return [*phases, BatchPhase(min(batch, max(last_batch_tokens, first_batch_tokens)), start, run_tokens)]
