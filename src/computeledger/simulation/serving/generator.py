"""A generator fitted to a trace: lengths and how they go together, a rate that changes, bursts, shared beginnings."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from computeledger.distributions import spread_of_values
from computeledger.errors import InputError
from computeledger.simulation.serving.arrivals import StretchLengths
from computeledger.simulation.serving.sharing import fit_sharing
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.serving.workload import MOST_CORRELATION, Workload
from computeledger.simulation.state import Counts, Times

#: Fewest requests that a generator is fitted to, and that a stretch of constant rate holds on average; most stretches.
_FEWEST_REQUESTS, _PER_STRETCH, _MOST_STRETCHES = 20, 20, 200
#: Requests on average of a part of the trace with lengths of its own, and most such parts.
_PER_LENGTHS, _MOST_LENGTHS = 1000, 20
#: Requests of a window whose counts say how bursty arrivals are (assumption).
_PER_WINDOW = 20
#: Bounds of the spread of gaps that is fitted.
_LEAST_GAP_SPREAD, _MOST_GAP_SPREAD = 0.05, 20.0
_NORMAL = NormalDist()


def fit_workload(trace: Trace, name: str = "") -> Workload:
    """Fit a generator to a trace.

    Lengths keep 21 of their quantiles and the correlation of their normal scores, of the whole and of parts of a
    thousand requests on average; the rate changes from stretch to stretch as it did; within them gaps are gamma, as
    bursty as counts of 20 requests are; prompts share beginnings as
    :func:`~computeledger.simulation.serving.sharing.fit_sharing` finds.

    Parameters
    ----------
    trace : Trace
        At least 20 requests.
    name : str
        What to call it.

    Returns
    -------
    Workload
        Without the trace.

    Raises
    ------
    InputError
        A trace too short to tell.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> times = np.cumsum(rng.gamma(1 / 4, 4 / 10.0, 20_000))  # 10 requests/s, gaps with a spread of 2
    >>> lengths = rng.lognormal(6.0, 1.0, 20_000).astype(np.int64) + 1
    >>> found = fit_workload(Trace(times, lengths, lengths))
    >>> round(found.requests_per_s, 1), 1.7 < found.arrival_spread < 2.3, found.correlation
    (10.0, True, 0.99)
    """
    n, rate = len(trace.arrival_s), trace.requests_per_s
    if n < _FEWEST_REQUESTS or not math.isfinite(rate):
        raise InputError(f"a generator is fitted to at least {_FEWEST_REQUESTS} requests that do not arrive at once")
    rates, stretch_s = _rates(trace.arrival_s)
    whole = _lengths(trace, np.ones(n, np.bool_))
    return Workload(
        name, whole.input_tokens, whole.output_tokens, correlation=whole.correlation, requests_per_s=rate,
        arrival_spread=_burstiness(trace.arrival_s, rates, stretch_s), rates=rates, stretch_s=stretch_s,
        sharing=fit_sharing(trace), by_stretch=_by_stretch(trace) if rates else (),
    )  # fmt: skip


def _lengths(trace: Trace, here: NDArray[np.bool_]) -> StretchLengths:
    """Lengths of some of the requests, and how they go together."""
    tokens = trace.input_tokens[here], trace.output_tokens[here]
    of_input, of_output = (_scores(one) for one in tokens)
    both = np.corrcoef(of_input, of_output)[0, 1] if np.std(of_input) * np.std(of_output) > 0 else 0.0
    correlation = float(np.clip(both, -MOST_CORRELATION, MOST_CORRELATION))
    return StretchLengths(spread_of_values(tokens[0]), spread_of_values(tokens[1]), round(correlation, 4))


def _by_stretch(trace: Trace) -> tuple[StretchLengths, ...]:
    """Lengths of equal parts of the trace's time; none where a part would hold too few requests."""
    n = min(_MOST_LENGTHS, len(trace.arrival_s) // _PER_LENGTHS)
    part = np.minimum((trace.arrival_s / trace.arrival_s[-1] * n).astype(np.int64), n - 1)
    if n < 2 or np.min(np.bincount(part, minlength=n)) < _FEWEST_REQUESTS:
        return ()
    return tuple(_lengths(trace, part == one) for one in range(n))


def _rates(arrival_s: Times) -> tuple[tuple[float, ...], float]:
    """Rate over the mean in stretches of equal length, and that length; none where there are too few requests."""
    n, span_s = min(_MOST_STRETCHES, len(arrival_s) // _PER_STRETCH), float(arrival_s[-1])
    if n < 2:
        return (), 0.0
    counts = np.histogram(arrival_s, np.linspace(0.0, span_s, n + 1))[0]
    return tuple(round(float(one), 4) for one in counts / counts.mean()), span_s / n


def _burstiness(arrival_s: Times, rates: tuple[float, ...], stretch_s: float) -> float:
    """Spread of gamma gaps whose counts vary as much, once the rate is taken out.

    Gaps themselves say less: times that a log rounds put many requests at one moment.
    """
    if rates:
        brought = np.concatenate([[0.0], np.cumsum(rates)]) * stretch_s
        arrival_s = np.interp(arrival_s, stretch_s * np.arange(len(rates) + 1), brought)
    counts = np.histogram(arrival_s, max(len(arrival_s) // _PER_WINDOW, 2))[0]
    found = math.sqrt(float(np.var(counts, ddof=1) / np.mean(counts)))
    return round(min(max(found, _LEAST_GAP_SPREAD), _MOST_GAP_SPREAD), 4)


def _scores(tokens: Counts) -> Times:
    """Standard normal scores by rank; equal lengths share the middle of theirs."""
    _, place, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2 - 0.5
    scores = np.array([_NORMAL.inv_cdf(one / len(tokens)) for one in ranks])
    return np.asarray(scores[place])


def workload_toml(workload: Workload) -> str:
    """Write a workload as the file that ``--workload`` reads.

    Examples
    --------
    >>> from computeledger.distributions import Spread
    >>> print(workload_toml(Workload("", Spread(100.0), Spread(20.0), requests_per_s=2.0)))
    input_tokens = "100"
    output_tokens = "20"
    requests_per_s = 2
    <BLANKLINE>
    """
    sharing, lines = workload.sharing, list[str]()

    def add(key: str, value: object) -> None:
        text = f"{value:.10g}" if isinstance(value, int | float) else f'"{value}"'
        lines.append(f"{key} = {text}")

    add("input_tokens", workload.input_tokens)
    add("output_tokens", workload.output_tokens)
    for key in ("correlation", "requests_per_s", "arrival_spread"):
        value = getattr(workload, key)
        if value not in (None, 0.0):
            add(key, value)
    if workload.rates:
        add("rates", " ".join(f"{one:g}" for one in workload.rates))
        lines.append(f'stretch = "{workload.stretch_s:.10g} s"')
    if workload.by_stretch:
        add("input_by_stretch", "; ".join(str(one.input_tokens) for one in workload.by_stretch))
        add("output_by_stretch", "; ".join(str(one.output_tokens) for one in workload.by_stretch))
        add("correlation_by_stretch", " ".join(f"{one.correlation:g}" for one in workload.by_stretch))
    if sharing is not None:
        add("continued_fraction", sharing.continued_fraction)
        add("fresh_tokens", sharing.fresh_tokens)
        add("added_tokens", sharing.added_tokens)
        add("continued_after", sharing.wait_s.written("s"))
        add("common_tokens", sharing.common_tokens)
        add("block_tokens", sharing.block_tokens)
    return "\n".join(lines) + "\n"
