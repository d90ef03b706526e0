"""A workload: how long requests are and when they arrive, by name, from a trace, or from a small TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from computeledger.errors import InputError, QuantityError, nearest, shown
from computeledger.facts.traffic import NamedWorkload, named_workloads
from computeledger.fields import Asked, asked, fields_of, question_from
from computeledger.files import read_toml, user_files_allowed
from computeledger.simulation.serving.arrivals import TRACED, Arrivals, DrawnLoad
from computeledger.simulation.serving.traces import Trace, read_trace
from computeledger.spread import Spread, spread_of_quantiles
from computeledger.workloads.questions.serve import ServeQuestion

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain
    from computeledger.simulation.state import Counts

#: Largest correlation of input and output: at one, each would follow from the other.
MOST_CORRELATION = 0.99
#: Shares at which a trace's lengths are said where they are not replayed themselves.
_SHARES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True, kw_only=True)
class StatedWorkload(Asked):
    """A workload as a TOML file states it."""

    name: str | None = asked("text", "What it is.")
    input_tokens: Uncertain | Spread = asked(
        "tokens", "Input tokens of a request, or how they differ.", ..., unit="tokens", is_open=True, takes_spread=True
    )
    output_tokens: Uncertain | Spread = asked(
        "tokens", "Output tokens of a request, or how they differ.", ..., unit="tokens", is_open=True,
        takes_spread=True,
    )  # fmt: skip
    correlation: float = asked(
        "ratio", "Correlation of the normal scores of input and output.", 0.0, least=-MOST_CORRELATION,
        most=MOST_CORRELATION, is_single=True,
    )  # fmt: skip
    requests_per_s: float | None = asked(
        "requests_per_s", "Mean rate of arrival.", unit="requests/s", is_open=True, is_single=True
    )
    arrival_spread: float | None = asked(
        "ratio", "Standard deviation of the gaps between arrivals over their mean.", most=20.0, is_single=True,
        blank="1: Poisson",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Workload:
    """How long requests are and when they arrive.

    Attributes
    ----------
    name : str
        As it was named, or its file.
    input_tokens, output_tokens : Spread
        Lengths; their means are those of the closed form [token].
    correlation : float
        Of the normal scores of input and output [-].
    requests_per_s : float or None
        Its own rate, where it has one [1/s].
    arrival_spread : float or None
        Standard deviation of the gaps over their mean, where it is to hold [-].
    trace : Trace or None
        Requests that can be replayed.
    published_spread : float or None
        The same of the trace that a named workload was counted from, which says more of that hour than of a load [-].
    """

    name: str
    input_tokens: Spread
    output_tokens: Spread
    correlation: float = 0.0
    requests_per_s: float | None = None
    arrival_spread: float | None = None
    trace: Trace | None = None
    published_spread: float | None = None

    def load(self, requests_per_s: float, spread: float | None = None, seed: int = 0) -> DrawnLoad:
        """A load that lasts, at a rate; a trace's own arrivals are replayed where no spread of the gaps is given.

        Examples
        --------
        >>> read_workload("inferencex-1k1k").load(4.0)(1000, 4.0).input_tokens.max()
        np.int64(1024)
        """
        if self.trace is not None and spread is None:
            return DrawnLoad(
                Arrivals(TRACED, requests_per_s, gap_spread(self.trace)), self._lengths, seed, requests=self.trace
            )
        found = next((one for one in (spread, self.arrival_spread) if one is not None), 1.0)
        process = "poisson" if found == 1.0 else "gamma" if found else "even"
        arrivals = Arrivals(process, requests_per_s, found)
        return self.drawn(arrivals, seed)

    def drawn(self, arrivals: Arrivals, seed: int = 0) -> DrawnLoad:
        """A load that lasts, with arrivals of their own."""
        return DrawnLoad(arrivals, self._lengths, seed, correlation=self.correlation, requests=self.trace)

    @property
    def _lengths(self) -> tuple[Spread, Spread]:
        return self.input_tokens, self.output_tokens


def read_workload(given: str) -> Workload:
    """Read a workload: a name, a trace, or a TOML file.

    Parameters
    ----------
    given : str
        A name of :func:`~computeledger.facts.traffic.named_workloads`, or the path of a file.

    Returns
    -------
    Workload
        With a trace where one was named.

    Raises
    ------
    InputError
        What is neither a name nor a file, and a file that says nothing clear.

    Examples
    --------
    >>> round(read_workload("azure-code-2023").output_tokens.mean)
    28
    >>> read_workload("azure-chat")
    Traceback (most recent call last):
    computeledger.errors.InputError: --workload 'azure-chat': no such workload or file; did you ...
    """
    known = named_workloads()
    if given in known:
        return _named(known[given])
    path = Path(given).expanduser()
    if not user_files_allowed() or not (path.suffix or path.exists()):
        raise InputError(f"--workload {shown(given)}: no such workload or file; {nearest(given, known)}")
    return stated_workload(read_toml(path), str(path)) if path.suffix == ".toml" else traced_workload(path)


def _named(one: NamedWorkload) -> Workload:
    return Workload(
        one.id, one.lengths("input"), one.lengths("output"), one.value("length_correlation_ratio") or 0.0,
        published_spread=one.value("gap_spread_ratio"),
    )  # fmt: skip


def stated_workload(table: Mapping[str, Any], name: str) -> Workload:
    """Make a workload of the fields of a file.

    Examples
    --------
    >>> stated_workload({"input_tokens": "lognormal:1000:4000", "output_tokens": 200}, "mine.toml").output_tokens.mean
    200.0
    >>> stated_workload({"input_tokens": 1000, "output": 200}, "mine.toml")
    Traceback (most recent call last):
    computeledger.errors.InputError: mine.toml: 'output': no field of StatedWorkload; did you mean 'output_tokens'?
    """
    try:
        one = question_from(StatedWorkload, table, lambda field: field.name)
    except InputError as error:
        raise type(error)(f"{name}: {error}") from None
    lengths = []
    for side in ("input_tokens", "output_tokens"):
        value = getattr(one, side)
        spread = value if isinstance(value, Spread) else Spread(value)
        if not isinstance(spread.mean, float):
            raise QuantityError(f"{name}: {side} {shown(str(value))}: expected one number or a distribution")
        lengths.append(spread)
    return Workload(name, lengths[0], lengths[1], one.correlation, one.requests_per_s, one.arrival_spread)


def traced_workload(path: Path) -> Workload:
    """Make a workload of a trace; its lengths are drawn together, or replayed."""
    trace = read_trace(path)
    rate = trace.requests_per_s
    return Workload(
        str(path), spread_of_counts(trace.input_tokens), spread_of_counts(trace.output_tokens),
        requests_per_s=rate if np.isfinite(rate) else None, trace=trace,
    )  # fmt: skip


def spread_of_counts(tokens: Counts) -> Spread:
    """Quantiles of counted lengths, with their own mean.

    Examples
    --------
    >>> spread_of_counts(np.array([100, 200, 300])).mean
    200.0
    """
    values = np.quantile(tokens, _SHARES)
    if values[0] == values[-1]:
        return Spread(float(values[0]))
    found = spread_of_quantiles(dict(zip(_SHARES, (float(one) for one in values), strict=True)))
    return replace(found, mean=float(np.mean(tokens)))


def gap_spread(trace: Trace) -> float:
    """Standard deviation of the gaps between arrivals over their mean; 0 where all arrive at once.

    Examples
    --------
    >>> gap_spread(Trace(np.arange(4.0), np.full(4, 9), np.full(4, 9)))
    0.0
    """
    gaps = np.diff(trace.arrival_s)
    return float(np.std(gaps) / np.mean(gaps)) if len(gaps) and np.mean(gaps) > 0 else 0.0


def with_workload(question: ServeQuestion, workload: Workload) -> ServeQuestion:
    """The question with the lengths of its workload, which it may not state itself.

    Examples
    --------
    >>> asked = ServeQuestion(model="qwen3-8b", system="h100-nvl8", workload="inferencex-1k1k", output_tokens=10)
    >>> with_workload(asked, read_workload("inferencex-1k1k"))
    Traceback (most recent call last):
    computeledger.errors.InputError: --output-tokens: the lengths are those of --workload inferencex-1k1k: leave out one
    """
    for name, one in (("input_tokens", workload.input_tokens), ("output_tokens", workload.output_tokens)):
        if getattr(question, name) not in (fields_of(ServeQuestion)[name].default, one):
            raise InputError(
                f"--{name.replace('_', '-')}: the lengths are those of --workload {question.workload}: leave out one"
            )
    return replace(question, input_tokens=workload.input_tokens, output_tokens=workload.output_tokens)
