"""Quantities that differ from case to case, as people write them: a number, a range, or a distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from computeledger.errors import InputError, nearest, shown
from computeledger.units import parse_quantity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from computeledger.arrays import Uncertain

#: Standard score of the 95th percentile.
_Z_95 = NormalDist().inv_cdf(0.95)

#: Ways to write a distribution, and what follows its name.
FORMS = {"lognormal": "P50:P95", "uniform": "LOW:HIGH", "exponential": "MEAN"}


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity that differs from case to case: its mean, which may be uncertain, and how it differs."""

    mean: Uncertain
    form: str = ""
    ends: tuple[float, ...] = ()

    @property
    def deviation(self) -> float:
        """Standard deviation over the mean [-]."""
        if self.form == "exponential":
            return 1.0
        if self.form == "uniform":
            low, high = self.ends
            return (high - low) / math.sqrt(12) / ((high + low) / 2)
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
        return rng.lognormal(0.0, self.sigma, n) * (mean * math.exp(-(self.sigma**2) / 2))


def read_spread(text: str, option: str, dimension: str) -> Spread:
    """Read a number, a range of an uncertain one, or a distribution.

    Examples
    --------
    >>> read_spread("uniform:5:15", "--turns", "count")
    Spread(mean=10.0, form='uniform', ends=(5.0, 15.0))
    >>> round(read_spread("lognormal:2s:10s", "--tool-latency", "s").mean, 2)
    3.23
    >>> read_spread("normal:2s:10s", "--tool-latency", "s")
    Traceback (most recent call last):
    computeledger.errors.InputError: --tool-latency 'normal:2s:10s': did you mean 'lognormal'? write lognormal:P50:P95
    """
    name, *numbers = text.split(":")
    unit = None if dimension == "s" else ""
    if numbers and name not in FORMS:
        raise InputError(f"{option} {shown(text)}: {nearest(name, FORMS)} write lognormal:{FORMS['lognormal']}")
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
        return Spread(ends[0] * math.exp(sigma**2 / 2), name, ends)
    return Spread(sum(ends) / len(ends), name, ends)


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
