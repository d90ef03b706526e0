"""A workload: how long requests are and when they arrive, by name, from a trace, or from a small TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from computeledger.distributions import Spread, read_spread, spread_of_values
from computeledger.errors import InputError, QuantityError, nearest, shown
from computeledger.facts.traffic import NamedWorkload, named_workloads
from computeledger.fields import Asked, asked, fields_of, question_from
from computeledger.files import of_files, read_toml, user_files_allowed
from computeledger.simulation.serving.arrivals import MOST_RATES, TRACED, Arrivals, DrawnLoad, StretchLengths
from computeledger.simulation.serving.sharing import Sharing
from computeledger.simulation.serving.traces import Trace, read_trace
from computeledger.workloads.questions.serve import ServeQuestion

if TYPE_CHECKING:
    from computeledger.arrays import Uncertain

#: Largest of the relative rates.
_LARGEST_RATE = 1e6
#: Largest correlation of input and output: at one, each would follow from the other.
MOST_CORRELATION = 0.99


@dataclass(frozen=True, kw_only=True)
class StatedWorkload(Asked):
    """A workload as a TOML file states it."""

    #: What errors call it.
    called: ClassVar[str] = "a workload"

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
    rates: str | None = asked("text", "Rates in stretches of equal length, over and over, relative to one another.")
    stretch: float | None = asked("s", "Length of such a stretch.", unit=None, is_open=True, is_single=True)
    input_by_stretch: str | None = asked(
        "text", "Input in equal parts of a round of those rates: distributions with semicolons between them."
    )
    output_by_stretch: str | None = asked("text", "Output in the same parts.")
    correlation_by_stretch: str | None = asked("text", "Correlation in the same parts.")
    continued_fraction: float | None = asked(
        "fraction", "Share of prompts that begin with the whole of an earlier one.", is_single=True
    )
    fresh_tokens: Uncertain | Spread | None = asked(
        "tokens", "Length of a prompt that does not.", unit="tokens", is_open=True, takes_spread=True
    )
    added_tokens: Uncertain | Spread | None = asked(
        "tokens", "What a prompt has beyond the one that it continues.", unit="tokens", is_open=True,
        takes_spread=True,
    )  # fmt: skip
    continued_after: Uncertain | Spread | None = asked(
        "s", "Time since that one arrived.", unit=None, is_open=True, takes_spread=True
    )
    common_tokens: int = asked("whole", "Tokens with which every prompt begins.", 0, least=0)
    block_tokens: int = asked("whole", "Tokens of a block of a prefix cache.", 512, least=1, most=1e6)

    def check(self) -> None:
        """Refuse parts that say nothing without one another."""
        if (self.rates is None) != (self.stretch is None):
            raise InputError("rates and stretch belong together")
        lengths = (self.input_by_stretch, self.output_by_stretch, self.correlation_by_stretch)
        if any((one is None) != (lengths[0] is None) for one in lengths) or (lengths[0] and not self.rates):
            raise InputError("rates, input_by_stretch, output_by_stretch and correlation_by_stretch belong together")
        parts = (self.fresh_tokens, self.added_tokens, self.continued_after)
        if any((one is None) != (self.continued_fraction is None) for one in parts):
            raise InputError("continued_fraction, fresh_tokens, added_tokens and continued_after belong together")


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
    rates : tuple of float
        Rates in stretches of equal length, over and over, relative to one another [-].
    stretch_s : float
        Length of one at its own rate; at another it is as many requests long [s].
    sharing : Sharing or None
        How prompts share beginnings.
    by_stretch : tuple of StretchLengths
        Lengths in equal parts of a round of those rates, where they change with it.
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
    rates: tuple[float, ...] = ()
    stretch_s: float = 0.0
    sharing: Sharing | None = None
    published_spread: float | None = None
    by_stretch: tuple[StretchLengths, ...] = ()

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
        own = self.requests_per_s or requests_per_s
        arrivals = Arrivals(
            process, requests_per_s, found, rates=self.rates, stretch_s=self.stretch_s * own / requests_per_s
        )
        return self.drawn(arrivals, seed)

    def drawn(self, arrivals: Arrivals, seed: int = 0) -> DrawnLoad:
        """A load that lasts, with arrivals of their own."""
        return DrawnLoad(
            arrivals, self._lengths, seed, correlation=self.correlation, requests=self.trace,
            sharing=self.sharing, by_stretch=self.by_stretch if arrivals.rates else (),
        )  # fmt: skip

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
    >>> read_workload("azure-conv")
    Traceback (most recent call last):
    computeledger.errors.InputError: --workload 'azure-conv': no such workload or file; did you mean 'azure-conv-2023'?
    """
    known = named_workloads()
    if given in known:
        return _named(known[given])
    path = Path(given).expanduser()
    if not user_files_allowed() or not (path.suffix or path.exists()):
        raise InputError(f"--workload {shown(given)}: no such workload{of_files(' or file')}; {nearest(given, known)}")
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
    >>> stated_workload({"input_tokens": 1000, "output_token": 200}, "mine.toml")
    Traceback (most recent call last):
    computeledger.errors.InputError: mine.toml: 'output_token': no field of a workload; did you mean ...
    """
    try:
        one = question_from(StatedWorkload, table, lambda field: field.name)
    except InputError as error:
        raise type(error)(f"{name}: {error}") from None
    sides = ("input_tokens", "output_tokens", "fresh_tokens", "added_tokens", "continued_after")
    known = {side: _single(name, side, getattr(one, side)) for side in sides if getattr(one, side) is not None}
    sharing = None
    if one.continued_fraction:
        parts = (known["fresh_tokens"], known["added_tokens"], known["continued_after"])
        sharing = Sharing(one.continued_fraction, *parts, one.common_tokens, one.block_tokens)
    rates = () if one.rates is None else _numbers(name, "rates", one.rates)
    if any(rate < 0 for rate in rates) or (rates and not any(rates)):
        raise QuantityError(f"{name}: rates {shown(str(one.rates))}: none may be negative, nor all 0")
    return Workload(
        name, known["input_tokens"], known["output_tokens"], one.correlation, one.requests_per_s, one.arrival_spread,
        rates=rates, stretch_s=one.stretch or 0.0, sharing=sharing, by_stretch=_by_stretch(name, one),
    )  # fmt: skip


def _by_stretch(name: str, one: StatedWorkload) -> tuple[StretchLengths, ...]:
    if one.input_by_stretch is None or one.output_by_stretch is None or one.correlation_by_stretch is None:
        return ()
    sides = {"input_by_stretch": one.input_by_stretch, "output_by_stretch": one.output_by_stretch}
    inputs, outputs = (
        [read_spread(part.strip(), f"{name}: {side}", "tokens") for part in text.split(";")]
        for side, text in sides.items()
    )
    together = _numbers(name, "correlation_by_stretch", one.correlation_by_stretch)
    if any(abs(correlation) > MOST_CORRELATION for correlation in together):
        raise QuantityError(f"{name}: correlation_by_stretch: expected -{MOST_CORRELATION} to {MOST_CORRELATION}")
    if not len(inputs) == len(outputs) == len(together):
        counts = f"{len(inputs)}, {len(outputs)} and {len(together)}"
        raise QuantityError(f"{name}: {counts} parts of input, output and correlation by stretch: expected as many")
    return tuple(StretchLengths(*of) for of in zip(inputs, outputs, together, strict=True))


def _single(name: str, side: str, value: Uncertain | Spread) -> Spread:
    spread = value if isinstance(value, Spread) else Spread(value)
    if not isinstance(spread.mean, float):
        raise QuantityError(f"{name}: {side} {shown(str(value))}: expected one number or a distribution")
    return spread


def _numbers(name: str, what: str, text: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(one) for one in text.replace(",", " ").split())
    except ValueError:
        numbers = ()
    if not 2 <= len(numbers) <= MOST_RATES or not all(abs(one) < _LARGEST_RATE for one in numbers):
        raise QuantityError(f"{name}: {what} {shown(text)}: write 2 to {MOST_RATES} numbers, such as '0.5 1 1.5'")
    return numbers


def traced_workload(path: Path) -> Workload:
    """Make a workload of a trace; its lengths are drawn together, or replayed."""
    trace = read_trace(path)
    rate = trace.requests_per_s
    return Workload(
        str(path), spread_of_values(trace.input_tokens), spread_of_values(trace.output_tokens),
        requests_per_s=rate if np.isfinite(rate) else None, trace=trace,
    )  # fmt: skip


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
