"""The critical batch: how many tokens a step may hold before more of them stop helping, and how it grows."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Z_95, Num, Range
from computeledger.facts.catalog import shipped_file
from computeledger.facts.reading import read_facts, read_file
from computeledger.facts.schema import Fact

_LAW = "critical_batch"
#: Pieces of the integral over a stage, and the power of the tokens in which they are even: early ones are short.
_PIECES, _EARLY = 200, 0.25


@functools.cache
def critical_batch_facts() -> dict[str, Fact]:
    """Load what was measured of the critical batch.

    Returns
    -------
    dict of str to Fact
        ``first_seen_tokens``, ``first_batch_tokens``, ``plateau_seen_tokens``, ``plateau_batch_tokens``,
        ``exponent_ratio``, ``overhead_ratio``.

    Examples
    --------
    >>> critical_batch_facts()["plateau_batch_tokens"].value
    16777216.0
    """
    document = read_file(shipped_file("laws.toml"), shipped=True)
    return read_facts(document, _LAW, document.table[_LAW])


def critical_batch_tokens(seen_tokens: Num, exponent: Num | None = None) -> Num:
    """Tokens of a step beyond which a larger batch trains worse per token, ``B (t / t0)^p``.

    The level is measured: 8.4M tokens after 168B and 16.8M after 503B, on 1B and 7B models; it does not depend on the
    size of the model. Up to there ``p`` is the slope between the two points. Beyond, nobody measured it: ``p`` is
    that of smaller runs (85M to 1.2B parameters), and :func:`exponent_beyond` says how unsure it is.

    Parameters
    ----------
    seen_tokens : float or ndarray
        Tokens the model was trained on so far; measured to 5.03e11 [token].
    exponent : float or ndarray, optional
        Beyond the measured range; the published median when left out [-].

    Returns
    -------
    float or ndarray
        Tokens per optimizer step [token].

    References
    ----------
    merrill-2025; zhang-2024-critical-batch.

    Examples
    --------
    >>> float(critical_batch_tokens(503e9)) / 4096
    4096.0
    >>> round(float(critical_batch_tokens(15e12)) / 1e6, 1)
    82.7
    """
    first, last = _points()
    times = np.maximum(seen_tokens, 1.0) / last[0]
    beyond = critical_batch_facts()["exponent_ratio"].value if exponent is None else exponent
    return last[1] * times ** np.where(times > 1, beyond, _measured_exponent(first, last))


def exponent_beyond(score: Num) -> Num:
    """Exponent of the growth beyond the measured range, at a standard normal score.

    The 5 % end takes the plateau that the last measured points showed as lasting (no growth), the 95 % end the growth
    measured before it (0.63); the median is what smaller runs gave (assumption: these ends are 90 %).

    Parameters
    ----------
    score : float or ndarray
        Standard normal score [-].

    Returns
    -------
    float or ndarray
        Between the two ends [-].

    Examples
    --------
    >>> [round(float(exponent_beyond(score)), 2) for score in (-1.645, 0.0, 1.645)]
    [0.0, 0.47, 0.63]
    """
    ends = [0.0, critical_batch_facts()["exponent_ratio"].value, _measured_exponent(*_points())]
    return np.asarray(np.interp(score, [-Z_95, 0.0, Z_95], ends))


def critical_batch_range(seen_tokens: float) -> Range | float:
    """Interval of the critical batch: exact to the eye within what was measured, wider the further beyond.

    Parameters
    ----------
    seen_tokens : float
        Tokens the model was trained on so far [token].

    Returns
    -------
    Range or float
        90 % interval with its median [token].

    Examples
    --------
    >>> found = critical_batch_range(15e12)
    >>> [round(value / 1e6) for value in (found.low, found.mid, found.high)]
    [17, 83, 143]
    """
    low, mid, high = (float(critical_batch_tokens(seen_tokens, exponent_beyond(z))) for z in (-Z_95, 0.0, Z_95))
    return Range(low, high, mid=mid) if low < high else mid


def _points() -> tuple[tuple[float, float], tuple[float, float]]:
    """Tokens seen and batch at both published points."""
    values = {name: fact.value for name, fact in critical_batch_facts().items()}
    return (
        (values["first_seen_tokens"], values["first_batch_tokens"]),
        (values["plateau_seen_tokens"], values["plateau_batch_tokens"]),
    )


def _measured_exponent(first: tuple[float, float], last: tuple[float, float]) -> float:
    return math.log(last[1] / first[1]) / math.log(last[0] / first[0])


def _allowed_after(batch_tokens: float) -> float:
    """Tokens seen at which the critical batch reaches a batch."""
    first, last = _points()
    over = batch_tokens / last[1]
    exponent = critical_batch_facts()["exponent_ratio"].value if over > 1 else _measured_exponent(first, last)
    return float(last[0] * over ** (1 / exponent))


@dataclass(frozen=True, slots=True)
class BatchPhase:
    """A part of a run with one batch.

    Attributes
    ----------
    batch_tokens : float
        Tokens per optimizer step [token].
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


def worth_of_batches(phases: Sequence[BatchPhase], exponent: Num | None = None) -> Num:
    """What the tokens of a run are worth in tokens of a small batch.

    Tokens for the same loss grow as ``1 + B / B_noise`` with the batch; a noise scale of five critical batches makes
    that 20 % at the critical batch, as its definition says. It grows with the tokens ``t`` seen: the integral of
    ``dt / (1 + 0.2 B / B_crit(t))``.

    Parameters
    ----------
    phases : sequence of BatchPhase
        Of the run, from its first token to its last.
    exponent : float or ndarray, optional
        Of the critical batch beyond the measured range; the published median when left out [-].

    Returns
    -------
    float or ndarray
        Tokens of a small batch [token].

    References
    ----------
    mccandlish-2018; zhang-2024-critical-batch; merrill-2025.

    Examples
    --------
    >>> whole = [BatchPhase(16e6, 0.0, 503e9)]
    >>> grown = [BatchPhase(4e6, 0.0, 168e9), BatchPhase(16e6, 168e9, 503e9)]
    >>> [round(float(worth_of_batches(one)) / 503e9, 3) for one in (whole, grown)]
    [0.725, 0.808]
    """
    extra = critical_batch_facts()["overhead_ratio"].value - 1
    total: Num = 0.0
    for one in phases:
        edges = np.linspace(one.start_tokens**_EARLY, one.end_tokens**_EARLY, _PIECES + 1) ** (1 / _EARLY)
        middle = ((edges[1:] + edges[:-1]) / 2)[:, None]
        over = one.batch_tokens / critical_batch_tokens(middle, exponent)
        total = total + np.sum(np.diff(edges)[:, None] / (1 + extra * over), axis=0)
    return np.squeeze(total)


def growing_batch(first_batch_tokens: float, last_batch_tokens: float, run_tokens: float) -> list[BatchPhase]:
    """Let a batch double whenever the critical batch, at its median, allows twice as much.

    Parameters
    ----------
    first_batch_tokens : float
        Tokens per step at the start [token].
    last_batch_tokens : float
        Where it stops growing [token].
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
    >>> [round(one.batch_tokens / 2**20) for one in growing_batch(2**23, 2**26, 15e12)]
    [8, 16, 32, 64]
    """
    phases, start, batch = [], 0.0, first_batch_tokens
    while batch < last_batch_tokens:
        allowed = _allowed_after(2 * batch)
        if allowed >= run_tokens:
            break
        if allowed > start:
            phases.append(BatchPhase(batch, start, allowed))
            start = allowed
        batch *= 2
    return [*phases, BatchPhase(min(batch, max(last_batch_tokens, first_batch_tokens)), start, run_tokens)]
