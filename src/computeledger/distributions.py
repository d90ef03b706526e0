"""Quantities that differ from case to case, as people write them: a number, a range, or a distribution."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

from computeledger.errors import InputError, QuantityError, nearest, shown
from computeledger.units import parse_quantity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from computeledger.arrays import Uncertain

_NORMAL = NormalDist()
#: Standard score of the 95th percentile.
_Z_95 = _NORMAL.inv_cdf(0.95)
#: Score beyond which nothing is left of a distribution.
_LAST_SCORE = 9.0

#: Slopes of the logarithm beyond which a stretch is summed from its ends, and scores beyond which a series is exact.
_STEEP_SCORE, _MILLS_SCORE = 20.0, 20.0

#: Standard deviation over mean beyond which no sample tells the mean: a log-normal whose p95 is 1,200 times p50
#: (assumption).
MOST_DEVIATION = 10_000.0

#: Unit of a number that is written without one.
_UNITS = {"s": None, "tokens": "tokens"}

#: Shares at which what was counted is said.
_COUNTED_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95,
                   0.98, 0.99, 1.0)  # fmt: skip

#: Ways to write a distribution, and what follows its name.
FORMS = {"lognormal": "P50:P95", "uniform": "LOW:HIGH", "exponential": "MEAN", "quantiles": "p50=A,p90=B,p99=C"}


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity that differs from case to case: its mean, which may be uncertain, and how it differs.

    Quantiles have their shares beside them: the logarithm is linear in the standard score between two of them and goes
    on so beyond the first and the last, except beyond a share of 0 or 1, which are the smallest and the largest.
    """

    mean: Uncertain
    form: str = ""
    ends: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()

    @property
    def deviation(self) -> float:
        """Standard deviation over the mean [-]."""
        if self.form == "exponential":
            return 1.0
        if self.form == "uniform":
            low, high = self.ends
            return (high - low) / math.sqrt(12) / ((high + low) / 2)
        if self.form == "quantiles":
            pieces = _pieces(self.ends, self.shares)
            return math.sqrt(max(_moment(pieces, 2) / _moment(pieces, 1) ** 2 - 1.0, 0.0))
        return math.sqrt(math.expm1(self.sigma**2))

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm of a log-normal one; of others, of the log-normal as wide [-]."""
        if self.form == "lognormal":
            return math.log(self.ends[1] / self.ends[0]) / _Z_95
        return math.sqrt(math.log1p(self.deviation**2)) if self.form else 0.0

    def draw(self, n: int, mean: float, rng: np.random.Generator) -> NDArray[np.float64]:
        """Single cases about a mean."""
        if self.form == "exponential":
            return rng.exponential(mean, n)
        if self.form == "uniform":
            return rng.uniform(self.ends[0], self.ends[1], n)
        if self.form == "quantiles":
            return self.at_scores(rng.standard_normal(n)) * (mean / _moment(_pieces(self.ends, self.shares), 1))
        return rng.lognormal(0.0, self.sigma, n) * (mean * math.exp(-(self.sigma**2) / 2))

    def at_scores(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Cases at standard normal scores.

        Examples
        --------
        >>> import numpy as np
        >>> read_spread("quantiles:p50=100,p90=300", "--input-tokens", "tokens").at_scores(np.zeros(1)).round(6)
        array([100.])
        """
        import numpy as np  # noqa: PLC0415 (commands that only print help stay light)

        if not self.form:
            mean = self.mean if isinstance(self.mean, int | float) else self.mean.quantile(0.0)
            return np.full(np.shape(scores), float(mean))
        if self.form == "lognormal":
            return np.asarray(self.ends[0] * np.exp(self.sigma * scores))
        if self.form == "quantiles":
            return _at_pieces(_pieces(self.ends, self.shares), scores)
        below = np.vectorize(_NORMAL.cdf, otypes=[float])(scores)
        if self.form == "uniform":
            return np.asarray(self.ends[0] + below * (self.ends[1] - self.ends[0]))
        return np.asarray(-self.ends[0] * np.log1p(-np.minimum(below, 1 - 1e-16)))

    def at_score(self, score: float) -> float:
        """One case at a standard normal score.

        Examples
        --------
        >>> read_spread("uniform:5:15", "--turns", "count").at_score(0.0)
        10.0
        """
        import numpy as np  # noqa: PLC0415 (as above)

        return float(self.at_scores(np.array([score]))[0])

    def __str__(self) -> str:
        return self.written()

    def written(self, unit: str = "") -> str:
        """As :func:`read_spread` reads it, every number with a unit.

        Examples
        --------
        >>> Spread(10.0, "uniform", (5.0, 15.0)).written("s")
        'uniform:5s:15s'
        """
        if not self.form:
            return f"{self.mean:.10g}{unit}" if isinstance(self.mean, int | float) else str(self.mean)
        ends = [f"{end:.10g}{unit}" for end in self.ends]
        if self.form == "quantiles":
            parts = (f"p{100 * share:.10g}={end}" for share, end in zip(self.shares, ends, strict=True))
            return f"quantiles:{','.join(parts)}"
        return ":".join([self.form, *ends])


#: A stretch of scores, from one to another, with the logarithm at score 0 and its slope.
_Piece = tuple[float, float, float, float]


def _pieces(ends: tuple[float, ...], shares: tuple[float, ...]) -> tuple[_Piece, ...]:
    """Stretches on which the logarithm is linear in the score."""
    logs = [math.log(one) for one in ends]
    inner = [(_NORMAL.inv_cdf(share), log) for share, log in zip(shares, logs, strict=True) if 0 < share < 1]
    low, high = (logs[0] if shares[0] == 0 else -math.inf), (logs[-1] if shares[-1] == 1 else math.inf)
    out: list[_Piece] = []
    for (z, log), (next_z, next_log) in itertools.pairwise(inner):
        slope = (next_log - log) / (next_z - z)
        out.append((z, next_z, log - slope * z, slope))
    first, last = out[0], out[-1]
    from_z = (low - first[2]) / first[3] if first[3] else -math.inf
    to_z = (high - last[2]) / last[3] if last[3] else math.inf
    # a smallest and a largest one are reached where the slope leads there
    head = [(-math.inf, from_z, low, 0.0)] if from_z > -math.inf else []
    tail = [(to_z, math.inf, high, 0.0)] if to_z < math.inf else []
    out[0] = (min(from_z, first[1]), *out[0][1:])
    out[-1] = (out[-1][0], max(to_z, out[-1][0]), *out[-1][2:])
    return (*head, *out, *tail)


def _moment(pieces: tuple[_Piece, ...], power: int) -> float:
    """Mean of a power: each stretch is a part of a log-normal distribution."""
    total = 0.0
    for from_z, to_z, log, slope in pieces:
        moved = power * slope
        if moved > max(to_z, _STEEP_SCORE):  # nearly a step: the factors beside its share have no number
            total += sum(
                sign * math.exp(power * (log + slope * z) - z**2 / 2) * _mills(moved - z)
                for sign, z in ((1, to_z), (-1, from_z))
                if math.isfinite(z)
            )
            continue
        share = _below(to_z - moved) - _below(from_z - moved)
        total += math.exp(power * log + moved**2 / 2) * share
    return total


def _mills(score: float) -> float:
    """Share of normal cases beyond a large positive score, over ``exp(-score**2 / 2)``."""
    if score < _MILLS_SCORE:
        return math.erfc(score / math.sqrt(2)) / 2 * math.exp(score**2 / 2)
    return (1 - score**-2 + 3 * score**-4 - 15 * score**-6) / (score * math.sqrt(2 * math.pi))


def _below(score: float) -> float:
    return 0.0 if score < -4 * _LAST_SCORE else 1.0 if score > 4 * _LAST_SCORE else _NORMAL.cdf(score)


def _at_pieces(pieces: tuple[_Piece, ...], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cases at scores."""
    import numpy as np  # noqa: PLC0415 (as above)

    place = np.searchsorted([one[1] for one in pieces[:-1]], scores)
    logs, slopes = (np.array([one[column] for one in pieces]) for column in (2, 3))
    return np.asarray(np.exp(logs[place] + slopes[place] * scores))


def read_spread(text: str, option: str, dimension: str) -> Spread:
    """Read a number, a range of an uncertain one, or a distribution.

    Examples
    --------
    >>> read_spread("uniform:5:15", "--turns", "count").mean
    10.0
    >>> round(read_spread("lognormal:2s:10s", "--tool-latency", "s").mean, 2)
    3.23
    >>> round(read_spread("quantiles:p50=2s,p95=10s", "--tool-latency", "s").mean, 2)
    3.23
    >>> read_spread("normal:2s:10s", "--tool-latency", "s")
    Traceback (most recent call last):
    computeledger.errors.InputError: --tool-latency 'normal:2s:10s': did you mean 'lognormal'? write lognormal:P50:P95
    """
    name, *numbers = text.split(":")
    unit = _UNITS.get(dimension, "")
    if numbers and name not in FORMS:
        raise InputError(f"{option} {shown(text)}: {nearest(name, FORMS)} write lognormal:{FORMS['lognormal']}")
    if name == "quantiles":
        return _with_mean(lambda: _read_quantiles(text, option, dimension), text, option)
    try:
        if not numbers:
            return Spread(parse_quantity(name, dimension, unit))
        values = [parse_quantity(one, dimension, unit) for one in numbers]
    except InputError as error:
        raise InputError(f"{option} {error}") from None
    ends = tuple(one for one in values if isinstance(one, float) and one > 0)
    if len(ends) != FORMS[name].count(":") + 1 or len(ends) != len(values) or list(ends) != sorted(ends):
        raise InputError(f"{option} {shown(text)}: write {name}:{FORMS[name]}, rising numbers above 0")
    if name == "lognormal":
        sigma = math.log(ends[1] / ends[0]) / _Z_95
        return _with_mean(lambda: Spread(ends[0] * math.exp(sigma**2 / 2), name, ends), text, option)
    return Spread(sum(ends) / len(ends), name, ends)


def _with_mean(read: Callable[[], Spread], text: str, option: str) -> Spread:
    """A distribution whose tail leaves it a mean."""
    try:
        found = read()
        wide = found.deviation
    except OverflowError:
        wide = math.inf
    if wide > MOST_DEVIATION:
        raise InputError(
            f"{option} {shown(text)}: too wide: the standard deviation may be at most {MOST_DEVIATION:,.0f} means"
        )
    return found


def _read_quantiles(text: str, option: str, dimension: str) -> Spread:
    wrong = InputError(
        f"{option} {shown(text)}: write quantiles:{FORMS['quantiles']}, at least two percentiles between p0 and p100, "
        "rising numbers above 0"
    )
    unit = _UNITS.get(dimension, "")
    given: list[tuple[float, float]] = []
    for part in text.removeprefix("quantiles:").split(","):
        name, _, number = part.strip().partition("=")
        try:
            share = float(name.removeprefix("p")) / 100 if name.startswith("p") else math.nan
        except ValueError:
            raise wrong from None
        try:
            value = parse_quantity(number, dimension, unit)
        except InputError as error:
            raise InputError(f"{option} {error}") from None
        if not 0 <= share <= 1 or not isinstance(value, float) or not 0 < value < math.inf:
            raise wrong
        given.append((share, value))
    if len(dict(given)) < len(given):
        raise wrong
    try:
        return spread_of_quantiles(dict(given))
    except QuantityError:
        raise wrong from None


def spread_of_quantiles(quantiles: Mapping[float, float]) -> Spread:
    """Make the distribution of stated quantiles, by share of the cases below.

    Examples
    --------
    >>> round(spread_of_quantiles({0.5: 100.0, 1.0: 100.0, 0.9: 100.0}).mean, 6)
    100.0
    """
    shares, ends = zip(*sorted(quantiles.items()), strict=True)
    if sum(0 < one < 1 for one in shares) < 2 or list(ends) != sorted(ends):
        raise QuantityError("at least two quantiles beside the ends, rising")
    return Spread(_moment(_pieces(ends, shares), 1), "quantiles", ends, shares)


def spread_of_values(values: NDArray[np.float64] | NDArray[np.int64]) -> Spread:
    """Quantiles of what was counted, with their own mean.

    Examples
    --------
    >>> import numpy as np
    >>> spread_of_values(np.array([100, 200, 300])).mean
    200.0
    """
    import numpy as np  # noqa: PLC0415 (as above)

    found = np.maximum.accumulate(np.quantile(values, _COUNTED_SHARES))
    if found[0] == found[-1]:
        return Spread(float(found[0]))
    drawn = spread_of_quantiles(dict(zip(_COUNTED_SHARES, (float(one) for one in found), strict=True)))
    return replace(drawn, mean=float(np.mean(values)))


def low_of(value: Uncertain) -> float:
    """Lower end of a number, which may be uncertain.

    Examples
    --------
    >>> low_of(3.0)
    3.0
    """
    return value if isinstance(value, int | float) else value.low


def high_of(value: Uncertain) -> float:
    """Upper end of a number, which may be uncertain.

    Examples
    --------
    >>> high_of(3.0)
    3.0
    """
    return value if isinstance(value, int | float) else value.high
