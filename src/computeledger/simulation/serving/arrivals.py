"""Traffic that is drawn: arrivals by a process, lengths by a distribution, a load that changes over the day."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Range
from computeledger.distributions import Spread, read_spread
from computeledger.errors import QuantityError, nearest, shown
from computeledger.simulation.serving.sharing import Sharing, draw_prompts
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.state import Counts, Times
from computeledger.units import DAY_S, HOUR_S, MINUTE_S, parse_quantity

PROCESSES = ("even", "gamma", "poisson")
#: The process of arrivals that are those of a trace.
TRACED = "trace"

#: Stretches of constant rate at most.
MOST_RATES = 1000

#: Requests of a draw that is kept, fewest and most, and draws that are kept: a search asks for the same ones again and
#: again, at other rates and in other numbers.
_KEPT_REQUESTS, _KEPT_DRAWS = (2**14, 2**18), 16

Drawn = TypeVar("Drawn", np.float64, np.int64)

#: Lengths as they are written, or as they were read.
Lengths = str | float | Range | Spread


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests arrive.

    Attributes
    ----------
    process : str
        ``poisson``, ``gamma`` (bursty where the spread is above 1) or ``even``; ``trace`` where those of a trace are
        replayed.
    requests_per_s : float
        Mean rate [1/s].
    spread_ratio : float
        Standard deviation of the gaps over their mean; 1 for poisson, 0 for even [-].
    curve : tuple of (float, float)
        Hour of the day and load there, relative to one another; straight between, the same every day [h], [-].
    rates : tuple of float
        Rates in stretches of equal length, relative to one another, over and over [-].
    stretch_s : float
        Length of a stretch [s].
    """

    process: str
    requests_per_s: float
    spread_ratio: float = 1.0
    curve: tuple[tuple[float, float], ...] = ()
    rates: tuple[float, ...] = field(default=(), repr=False)
    stretch_s: float = field(default=0.0, repr=False)


def parse_arrivals(text: str) -> Arrivals:
    """Read arrivals as they are written.

    Parameters
    ----------
    text : str
        ``poisson:RATE``, ``gamma:RATE:SPREAD`` or ``even:RATE``, with the rate per second.

    Returns
    -------
    Arrivals
        Without a daily curve.

    Raises
    ------
    QuantityError
        An unknown process, or a number that is missing or not positive.

    Examples
    --------
    >>> parse_arrivals("gamma:4:2.5")
    Arrivals(process='gamma', requests_per_s=4.0, spread_ratio=2.5, curve=())
    """
    name, *numbers = text.split(":")
    if name not in PROCESSES:
        raise QuantityError(f"arrivals {shown(text)}: {nearest(name, PROCESSES)}; write for example poisson:8")
    wanted = 2 if name == "gamma" else 1
    if len(numbers) != wanted:
        form = "gamma:RATE:SPREAD" if name == "gamma" else f"{name}:RATE"
        raise QuantityError(f"arrivals {shown(text)}: write {form}, the rate in requests per second")
    kinds = (("requests_per_s", "requests/s"), ("ratio", ""))
    values = [_positive(f"arrivals {shown(text)}", one, *kind) for one, kind in zip(numbers, kinds, strict=False)]
    return Arrivals(name, values[0], {"gamma": values[-1], "poisson": 1.0, "even": 0.0}[name])


def _positive(what: str, text: str, dimension: str, unit: str) -> float:
    try:
        value = parse_quantity(text, dimension, unit, signed=True)
    except QuantityError as error:
        raise QuantityError(f"{what}: {error}") from None
    if isinstance(value, Range) or not value > 0:
        raise QuantityError(f"{what}: {shown(text)} is not a positive number")
    return value


def parse_curve(text: str) -> tuple[tuple[float, float], ...]:
    """Read a daily load curve.

    Parameters
    ----------
    text : str
        ``0:0.4,9:1,15:1.6,22:0.8``: hour and load relative to the others.

    Returns
    -------
    tuple of (float, float)
        Hours and loads [h], [-].

    Raises
    ------
    QuantityError
        A pair that is none, hours out of order or beyond the day, or no load at all.

    Examples
    --------
    >>> parse_curve("0:1,12:3")
    ((0.0, 1.0), (12.0, 3.0))
    """
    pairs = []
    for part in text.split(","):
        hour, _, load = part.partition(":")
        try:
            pairs.append((float(hour), float(load)))
        except ValueError:
            raise QuantityError(f"load curve {shown(part)}: write HOUR:LOAD, such as 9:1.5") from None
    if not all(math.isfinite(load) for _, load in pairs):
        raise QuantityError(f"load curve {shown(text)}: loads must be finite numbers")
    hours = [hour for hour, _ in pairs]
    if not all(0 <= hour < DAY_S / HOUR_S for hour in hours) or sorted(set(hours)) != hours:
        raise QuantityError(f"load curve {shown(text)}: hours must rise, from 0 to below 24")
    if min(load for _, load in pairs) < 0 or max(load for _, load in pairs) <= 0:
        raise QuantityError(f"load curve {shown(text)}: loads must not be negative, nor all 0")
    return tuple(pairs)


def draw_arrivals(arrivals: Arrivals, n_requests: int, rng: np.random.Generator) -> Times:
    """Draw arrival times.

    With a curve, times of a steady process are stretched so that the rate follows the curve and its daily mean stays.

    Parameters
    ----------
    arrivals : Arrivals
        The process.
    n_requests : int
        How many [request].
    rng : Generator
        Random numbers.

    Returns
    -------
    ndarray of float
        Rising, the first at its own gap from 0 [s].

    Examples
    --------
    >>> draw_arrivals(Arrivals("even", 2.0, 0.0), 3, np.random.default_rng(0))
    array([0.5, 1. , 1.5])
    """
    even = arrivals.spread_ratio == 0
    return _arrived(arrivals, np.ones(n_requests) if even else rng.standard_gamma(_shape(arrivals), n_requests))


def _shape(arrivals: Arrivals) -> float:
    """Of the gamma distribution of gaps."""
    return 1 / arrivals.spread_ratio**2


def _arrived(arrivals: Arrivals, gaps: Times) -> Times:
    """Times of arrival from gaps: as the unit of their distribution has them."""
    mean_s = 1 / arrivals.requests_per_s
    times = np.cumsum((mean_s if arrivals.spread_ratio == 0 else mean_s / _shape(arrivals)) * gaps)
    if arrivals.rates:
        times = _in_stretches(times, arrivals.rates, arrivals.stretch_s)
    return _follow(times, arrivals.curve) if arrivals.curve else times


def _in_stretches(times_s: Times, rates: tuple[float, ...], stretch_s: float) -> Times:
    """Times at which stretches of these rates have brought as much as an even load at the times given."""
    brought = np.concatenate([[0.0], np.cumsum(rates)]) / sum(rates)
    span_s = stretch_s * len(rates)
    rounds, rest = np.divmod(times_s / span_s, 1.0)
    return np.asarray(span_s * (rounds + np.interp(rest, brought, np.linspace(0.0, 1.0, len(rates) + 1))))


def _follow(times_s: Times, curve: tuple[tuple[float, float], ...]) -> Times:
    """Times at which a load that follows the curve has brought as much as an even one at the times given."""
    hours, loads = (np.array(column) for column in zip(*curve, strict=True))
    grid_s = np.linspace(0.0, DAY_S, int(DAY_S / MINUTE_S) + 1)
    rate = np.interp(grid_s / HOUR_S, hours, loads, period=DAY_S / HOUR_S)
    brought = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2)])
    share = brought / brought[-1]
    days, rest = np.divmod(times_s / DAY_S, 1.0)
    return np.asarray(days * DAY_S + np.interp(rest, share, grid_s))


def spread_of(lengths: Lengths) -> Spread:
    """Read lengths as they are written; an uncertain one is its median.

    Parameters
    ----------
    lengths : str, float, Range or Spread
        ``4096``, ``uniform:LOW:HIGH``, ``exponential:MEAN``, ``lognormal:P50:P95`` or ``quantiles:p50=A,p90=B,p99=C``
        [token].

    Returns
    -------
    Spread
        Of lengths [token].

    Raises
    ------
    QuantityError
        An unknown distribution, or numbers that are missing or out of order.

    Examples
    --------
    >>> spread_of("uniform:100:300").mean
    200.0
    """
    if isinstance(lengths, str):
        lengths = read_spread(lengths, "lengths", "tokens")
    found = lengths if isinstance(lengths, Spread) else Spread(lengths)
    mean = found.mean
    if isinstance(mean, Range):
        return Spread(float(mean.quantile(0.0)))
    if not mean > 0:
        raise QuantityError(f"lengths {shown(str(found))}: not a positive number")
    return found


def draw_lengths(lengths: Lengths, n_requests: int, rng: np.random.Generator) -> Counts:
    """Draw lengths from a distribution.

    Parameters
    ----------
    lengths : str, float, Range or Spread
        As :func:`spread_of` reads them [token].
    n_requests : int
        How many [request].
    rng : Generator
        Random numbers.

    Returns
    -------
    ndarray of int
        At least 1 each [token].

    Examples
    --------
    >>> draw_lengths("512", 2, np.random.default_rng(0))
    array([512, 512])
    """
    spread = spread_of(lengths)
    if spread.form == "exponential":
        return _whole(rng.exponential(spread.ends[0], n_requests))
    if spread.form == "uniform":
        return _whole(rng.uniform(spread.ends[0], spread.ends[1], n_requests))
    return _whole(spread.at_scores(rng.standard_normal(n_requests)))


def _whole(drawn: Times) -> Counts:
    return np.maximum(np.rint(drawn), 1).astype(np.int64)


def draw_trace(
    arrivals: Arrivals,
    lengths: tuple[Lengths, Lengths],
    n_requests: int,
    seed: int,
    longest_tokens: int | None = None,
) -> Trace:
    """Draw a trace: arrivals, inputs and outputs each from a stream of its own.

    Parameters
    ----------
    arrivals : Arrivals
        The process.
    lengths : tuple of str, float, Range or Spread
        Distributions of input and output, as :func:`spread_of` reads them [token].
    n_requests : int
        How many [request].
    seed : int
        Of the streams [-].
    longest_tokens : int, optional
        Longest input and output together; what is drawn beyond has its output cut [token].

    Returns
    -------
    Trace
        Without prefixes.

    Examples
    --------
    >>> draw_trace(Arrivals("poisson", 2.0), ("100", "20"), 3, seed=0).output_tokens
    array([20, 20, 20])
    """
    prompt, output = (_kept(_lengths, (one, place + 1), n_requests, seed) for place, one in enumerate(lengths))
    return _cut(Trace(_arrivals(arrivals, n_requests, seed), prompt, output), longest_tokens)


def _arrivals(arrivals: Arrivals, n_requests: int, seed: int) -> Times:
    """Arrivals from the first stream of a seed."""
    if arrivals.spread_ratio == 0:
        return _arrived(arrivals, np.ones(n_requests))
    return _arrived(arrivals, _kept(_gaps, (_shape(arrivals),), n_requests, seed))


def _kept(draw: Callable[..., NDArray[Drawn]], of: tuple[Hashable, ...], n: int, seed: int) -> NDArray[Drawn]:
    """The first of a longer draw that is kept: more requests begin with the same ones."""
    fewest, most = _KEPT_REQUESTS
    if n > most:
        return draw(*of, n, seed)
    found: NDArray[Drawn] = _long_draw(draw, of, max(fewest, 1 << (n - 1).bit_length()), seed)[:n].copy()
    return found


@functools.lru_cache(maxsize=_KEPT_DRAWS)
def _long_draw(draw: Callable[..., NDArray[Any]], of: tuple[Hashable, ...], n: int, seed: int) -> NDArray[Any]:
    return draw(*of, n, seed)


def _gaps(shape: float, n: int, seed: int) -> Times:
    return np.random.default_rng([seed, 0]).standard_gamma(shape, n)


def _lengths(lengths: Lengths, stream: int, n: int, seed: int) -> Counts:
    """Lengths from a stream of their own."""
    return draw_lengths(lengths, n, np.random.default_rng([seed, stream]))


def _at_scores(lengths: Lengths, correlation: float, place: int, n: int, seed: int) -> Counts:
    """Lengths of input or output at scores that are correlated."""
    return _whole(spread_of(lengths).at_scores(_scores(correlation, n, seed)[place]))


def _scores(correlation: float, n: int, seed: int) -> tuple[Times, Times]:
    """Normal scores of input and output, as correlated as stated."""
    first, other = (np.random.default_rng([seed, place]).standard_normal(n) for place in (1, 2))
    return first, correlation * first + math.sqrt(1 - correlation**2) * other


def _cut(trace: Trace, longest_tokens: int | None) -> Trace:
    """Requests within a longest context."""
    if longest_tokens is None:
        return trace
    prompt = np.minimum(trace.input_tokens, longest_tokens - 1)
    return Trace(trace.arrival_s, prompt, np.minimum(trace.output_tokens, longest_tokens - prompt))


@dataclass(frozen=True, slots=True)
class StretchLengths:
    """Lengths of the requests of a part of a round of rates, and how they go together.

    Attributes
    ----------
    input_tokens, output_tokens : Spread
        Lengths [token].
    correlation : float
        Of their normal scores [-].
    """

    input_tokens: Spread
    output_tokens: Spread
    correlation: float = 0.0


@dataclass(frozen=True, slots=True)
class DrawnLoad:
    """A load that lasts as long as it is watched: a process of arrivals, and lengths.

    Attributes
    ----------
    arrivals : Arrivals
        The process.
    lengths : tuple of str, float, Range or Spread
        Distributions of input and output, as :func:`spread_of` reads them [token].
    seed : int
        Of the streams [-].
    longest_tokens : int or None
        Longest input and output together; what is drawn beyond has its output cut [token].
    correlation : float
        Of the normal scores of input and output [-].
    sharing : Sharing or None
        How prompts share beginnings, in place of the lengths of input.
    requests : Trace or None
        Requests whose lengths are drawn together, in place of ``lengths``; where arrivals are ``trace``, theirs are
        replayed over and over, at the pace that gives the rate.
    added_tokens : int
        Of every prompt beside its text, such as those of images [token].
    by_stretch : tuple of StretchLengths
        Lengths in equal parts of a round of the arrivals' rates, in place of ``lengths``.
    """

    arrivals: Arrivals
    lengths: tuple[Lengths, Lengths]
    seed: int = 0
    longest_tokens: int | None = None
    correlation: float = 0.0
    requests: Trace | None = None
    sharing: Sharing | None = None
    added_tokens: int = 0
    by_stretch: tuple[StretchLengths, ...] = ()

    @property
    def requests_per_s(self) -> float:
        """Mean rate of arrival [1/s]."""
        return self.arrivals.requests_per_s

    @property
    def round_requests(self) -> int:
        """Requests until lengths that change begin again; 0 where they do not change [request]."""
        seconds = len(self.arrivals.rates) * self.arrivals.stretch_s if self.by_stretch else 0.0
        return math.ceil(seconds * self.requests_per_s)

    def __call__(self, n_requests: int, requests_per_s: float) -> Trace:
        """Draw some of it; more requests begin with the same ones."""
        if self.added_tokens:
            longest = None if self.longest_tokens is None else max(self.longest_tokens - self.added_tokens, 2)
            text = replace(self, added_tokens=0, longest_tokens=longest)(n_requests, requests_per_s)
            return replace(text, input_tokens=text.input_tokens + self.added_tokens)
        arrivals = replace(self.arrivals, requests_per_s=requests_per_s)
        if self.requests is None:
            if self.by_stretch:
                return self._in_turn(arrivals, n_requests)
            if not (self.correlation or self.sharing):
                return draw_trace(arrivals, self.lengths, n_requests, self.seed, self.longest_tokens)
            prompt, output = (
                _kept(_at_scores, (one, self.correlation, place), n_requests, self.seed)
                for place, one in enumerate(self.lengths)
            )
            arrival_s = _arrivals(arrivals, n_requests, self.seed)
            together = _cut(Trace(arrival_s, prompt, output), self.longest_tokens)
            if self.sharing is None:
                return together
            return self._shared(together, _scores(self.correlation, n_requests, self.seed)[0])
        of, known = self.requests, len(self.requests.arrival_s)
        if arrivals.process == TRACED:
            at = np.arange(n_requests)
            return _cut(of.again(at, requests_per_s), self.longest_tokens)
        at = np.random.default_rng([self.seed, 1]).integers(known, size=n_requests)
        arrival_s = _arrivals(arrivals, n_requests, self.seed)
        return _cut(Trace(arrival_s, of.input_tokens[at], of.output_tokens[at]), self.longest_tokens)

    def _in_turn(self, arrivals: Arrivals, n_requests: int) -> Trace:
        """Requests whose lengths are those of the part of the round in which they arrive."""
        arrival_s, round_s = _arrivals(arrivals, n_requests, self.seed), len(arrivals.rates) * arrivals.stretch_s
        n_parts, (first, other) = len(self.by_stretch), _scores(0.0, n_requests, self.seed)
        part = np.minimum((arrival_s % round_s / round_s * n_parts).astype(np.int64), n_parts - 1)
        tokens = np.empty((2, n_requests), np.int64)
        for place, one in enumerate(self.by_stretch):
            here = part == place
            beside = one.correlation * first[here] + math.sqrt(1 - one.correlation**2) * other[here]
            tokens[0, here] = _whole(one.input_tokens.at_scores(first[here]))
            tokens[1, here] = _whole(one.output_tokens.at_scores(beside))
        return self._shared(_cut(Trace(arrival_s, tokens[0], tokens[1]), self.longest_tokens), first)

    def _shared(self, drawn: Trace, scores: Times) -> Trace:
        """The same arrivals and outputs with prompts that share beginnings, within the longest context."""
        if self.sharing is None:
            return drawn
        longest = None if self.longest_tokens is None else self.longest_tokens - 1
        rng = np.random.default_rng([self.seed, 3])
        tokens, blocks = draw_prompts(self.sharing, drawn.arrival_s, scores, rng, longest)
        output = drawn.output_tokens
        if self.longest_tokens is not None:
            output = np.minimum(output, self.longest_tokens - tokens)
        return Trace(drawn.arrival_s, tokens, output, blocks, self.sharing.block_tokens)
