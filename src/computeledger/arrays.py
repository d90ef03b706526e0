"""Numbers as arrays: one code path for a point, a sweep and a cloud of samples.

``Num`` is the type of every quantity: a float or an array of floats. Functions broadcast, so one
more axis turns a point into a sweep, and one more into a Monte Carlo cloud.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import QuantityError, shown

Num = float | NDArray[np.float64]

#: Longest sample axis; a million draws know a quantile to a thousandth.
MAX_SAMPLES = 1_000_000

#: Standard normal quantile of 0.95: half the width of a 90 % interval in standard deviations.
Z_95 = 1.6448536269514722
#: The same of 0.9, for an 80 % interval.
Z_90 = 1.2815515655446004


def t_95(n_free: int) -> float:
    """Student's 0.95 quantile by the expansion of Cornish and Fisher.

    Parameters
    ----------
    n_free : int
        Degrees of freedom, 2 or more (1.2 % too small at 2, 0.3 % at 3) [-].

    Returns
    -------
    float
        Quantile [-].

    Examples
    --------
    >>> round(t_95(10), 2), round(t_95(17), 2)
    (1.81, 1.74)
    """
    z, v = Z_95, float(n_free)
    one, two = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    three = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + one / v + two / v**2 + three / v**3


@dataclass(frozen=True, slots=True)
class Range:
    """A 90 % interval of an uncertain quantity.

    Attributes
    ----------
    low, high : float
        5 % and 95 % quantiles, in the quantity's own unit.
    bounded : bool
        True for fractions: the distribution is then logit-normal and stays inside (0, 1).
        Otherwise it is log-normal for positive bounds and normal where a bound is not positive.
    mid : float or None
        Median, where it is known and not the middle of the ends: each side is then log-normal of its own width, in the
        quantity's own unit [-].
    inner : tuple of float or None
        10 % and 90 % quantiles, where they are known beside a median: the logarithm is then linear in the score
        between the five, and beyond them as between the last two [-].
    """

    low: float
    high: float
    bounded: bool = False
    mid: float | None = field(default=None, repr=False)
    inner: tuple[float, float] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise QuantityError(f"range {self.low}..{self.high}: both ends must be finite")
        if self.low >= self.high:
            raise QuantityError(f"range {self.low:g}..{self.high:g}: the low end must lie below the high end")
        if self.mid is not None and not (self.low > 0 and self.low <= self.mid <= self.high):
            raise QuantityError(f"range {self.low:g}..{self.high:g}: its median {self.mid:g} must lie inside")
        if self.bounded and not 0 < self.low < self.high < 1:
            raise QuantityError(f"range {self.low:g}..{self.high:g}: a fraction's range must lie inside 0..1")
        if self.inner is not None and not self.low <= self.inner[0] <= (self.mid or 0.0) <= self.inner[1] <= self.high:
            raise QuantityError(f"range {self.low:g}..{self.high:g}: {self.inner} must lie inside, around its median")

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"

    def quantile(self, z: Num) -> Num:
        """Value at a standard normal score.

        Parameters
        ----------
        z : float or ndarray
            Standard normal score [-]; -1.645 gives ``low`` and +1.645 gives ``high``.

        Returns
        -------
        float or ndarray
            The quantity at that score, in the range's own unit.

        Examples
        --------
        >>> round(float(Range(1e7, 1e8).quantile(0.0)) / 1e7, 3)
        3.162
        """
        if self.mid is not None and self.inner is not None:
            return self._through_five(np.asarray(z, float), self.mid, self.inner)
        if self.mid is not None:
            side = np.asarray(z) / Z_95
            end = np.where(side < 0, math.log(self.mid / self.low), math.log(self.high / self.mid))
            return self.mid * np.exp(end * side)
        share = 0.5 * (1 + np.asarray(z) / Z_95)
        if self.bounded:
            low, high = (math.log(x / (1 - x)) for x in (self.low, self.high))
            return 1 / (1 + np.exp(-(low + (high - low) * share)))
        if self.low > 0:
            return self.low * np.exp(math.log(self.high / self.low) * share)
        return self.low + (self.high - self.low) * share

    def times(self, factor: float) -> Range:
        """The range of the quantity times a number.

        Parameters
        ----------
        factor : float
            Positive [-].

        Returns
        -------
        Range
            In the range's own unit.

        Examples
        --------
        >>> half = Range(1.0, 4.0, mid=2.0).times(0.5)
        >>> half.low, half.mid, half.high
        (0.5, 1.0, 2.0)
        """
        inner = None if self.inner is None else (self.inner[0] * factor, self.inner[1] * factor)
        mid = None if self.mid is None else self.mid * factor
        return replace(self, low=self.low * factor, high=self.high * factor, mid=mid, inner=inner)

    def widened(self, spread: float) -> Range:
        """The range with another uncertainty of the same quantity, in quadrature of the logarithms.

        Parameters
        ----------
        spread : float
            Standard deviation of the logarithm [-].

        Returns
        -------
        Range
            Around the same median, in the range's own unit.

        Examples
        --------
        >>> wide = Range(0.5, 2.0).widened(0.5)
        >>> round(wide.low, 3), round(wide.high, 3)
        (0.341, 2.932)
        """
        mid = float(self.quantile(0.0))

        def moved(end: float, score: float) -> float:
            distance = math.log(end / mid)
            return mid * math.exp(math.copysign(math.hypot(distance, score * spread), distance))

        inner = self.inner and (moved(self.inner[0], Z_90), moved(self.inner[1], Z_90))
        return Range(moved(self.low, Z_95), moved(self.high, Z_95), mid=self.mid, inner=inner)

    def _through_five(self, z: NDArray[np.float64], mid: float, inner: tuple[float, float]) -> Num:
        """The quantile function through five known quantiles."""
        scores = (-Z_95, -Z_90, 0.0, Z_90, Z_95)
        values = np.log([self.low, inner[0], mid, inner[1], self.high])
        below = (z < -Z_95) * (z + Z_95) * (values[1] - values[0]) / (Z_95 - Z_90)
        above = (z > Z_95) * (z - Z_95) * (values[4] - values[3]) / (Z_95 - Z_90)
        return np.asarray(np.exp(np.interp(z, scores, values) + below + above))


Uncertain = float | Range


def sample(inputs: Mapping[str, Uncertain], n_samples: int = 4096, seed: int = 0) -> dict[str, Num]:
    """Draw every range as an axis of samples; exact numbers stay numbers.

    Each input has a stream of its own, derived from the seed and its name, so that adding an input
    leaves the others' samples as they were. Draws are stratified (Latin hypercube): the marginals are
    exact to 1 / n_samples.

    Parameters
    ----------
    inputs : mapping of str to float or Range
        Quantities by name.
    n_samples : int
        Length of the sample axis, 2 to 1,000,000 [-].
    seed : int
        Seed of the random streams, not negative [-].

    Returns
    -------
    dict of str to float or ndarray
        The same names; a range becomes an array of shape (n_samples,).

    Raises
    ------
    QuantityError
        Fewer than two samples or more than the limit, or a negative seed.

    Examples
    --------
    >>> draws = sample({"rate": Range(1e7, 1e8), "months": 2.0})
    >>> draws["months"], draws["rate"].shape
    (2.0, (4096,))
    """
    if not isinstance(inputs, Mapping):
        raise QuantityError(f"{shown(inputs)}: expected quantities by name, such as {{'rate': Range(1e7, 1e8)}}")
    for name, given in (("samples", n_samples), ("seed", seed)):
        if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
            raise QuantityError(f"{name} = {shown(given)}: expected a whole number")
    if n_samples < 2:
        raise QuantityError(f"samples = {n_samples}: at least 2 are needed")
    if n_samples > MAX_SAMPLES:
        raise QuantityError(f"samples = {n_samples}: at most {MAX_SAMPLES:,} are drawn")
    if seed < 0:
        raise QuantityError(f"seed = {seed}: a seed must not be negative")
    out: dict[str, Num] = {}
    for name, value in inputs.items():
        if not isinstance(value, Range):
            out[name] = float(_numbers(value))
            continue
        draw = _drawn if n_samples <= _LONGEST_KEPT else _drawn.__wrapped__
        out[name] = draw(name, value, n_samples, seed)
    return out


#: Inputs whose samples are kept, and the longest sample axis of one: people change one input at a time.
_KEPT, _LONGEST_KEPT = 128, 8192


@functools.lru_cache(maxsize=_KEPT)
def _drawn(name: str, value: Range, n_samples: int, seed: int) -> NDArray[np.float64]:
    """Samples of one input; others may hold them too, so they cannot be written to."""
    stream = np.random.default_rng([seed, *name.encode()])
    places = stream.permutation(n_samples)
    strata = (places + stream.random(n_samples)) / n_samples
    # looked up in order, which a table's search finds from one to the next
    rising = np.empty_like(strata)
    rising[places] = strata
    drawn = np.asarray(value.quantile(_normal_quantile(rising)[places]))
    drawn.flags.writeable = False
    return drawn


def _normal_quantile(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inverse of the standard normal distribution, by table and linear interpolation (error < 1e-6)."""
    return np.asarray(np.interp(p, _TABLE_P, _TABLE_Z))


_TABLE_Z = np.linspace(-6.0, 6.0, 24001)
_TABLE_P = np.array([0.5 * math.erfc(-z / math.sqrt(2)) for z in _TABLE_Z])


def centred_ranks(values: Num) -> NDArray[np.float64]:
    """Ranks of samples about their mean, of length one: the product of two is their rank correlation.

    Parameters
    ----------
    values : float or ndarray
        Samples [-].

    Returns
    -------
    ndarray
        All 0 where the samples do not vary [-].

    Examples
    --------
    >>> centred_ranks(np.array([1.0, 8.0])).round(3).tolist()
    [-0.707, 0.707]
    """
    array = np.asarray(values, float)
    if array.ndim == 0 or np.ptp(array) == 0:
        return np.zeros(1)
    order = np.argsort(array)
    rising = array[order]
    if np.any(rising[1:] == rising[:-1]):
        order = np.argsort(array, kind="stable")
    ranks = np.empty(array.size)
    ranks[order] = np.arange(array.size) - (array.size - 1) / 2
    return ranks / np.linalg.norm(ranks)


def ends_over_centre(own: Num, outcome: Num) -> tuple[float, float]:
    """How many times its centre an outcome is where one of its inputs is at its 5th and at its 95th percentile.

    The logarithm of the outcome is regressed on the normal score of the input and its square, so that the other inputs,
    which vary as they are, stay at what is usual of them.

    Parameters
    ----------
    own, outcome : float or ndarray
        Samples of the input, and of what it moves, which is above zero [-].

    Returns
    -------
    tuple of float
        At the input's low end and at its high end [-].

    Examples
    --------
    >>> own = np.exp(np.random.default_rng(0).standard_normal(4096))
    >>> [round(ratio, 1) for ratio in ends_over_centre(own, 7.0 / own)]
    [5.1, 0.2]
    >>> ends_over_centre(own, 7.0)
    (1.0, 1.0)
    """
    array, outcomes = np.asarray(own, float), np.asarray(outcome, float)
    if array.ndim == 0 or outcomes.ndim == 0 or np.min(outcomes) <= 0:
        return 1.0, 1.0
    slope, bend = _curve_weights(array.size) @ np.log(outcomes[np.argsort(array, kind="stable")])
    end = float(_normal_quantile(np.array(_HIGH_SHARE)))
    return math.exp(bend * end**2 - slope * end), math.exp(bend * end**2 + slope * end)


_HIGH_SHARE = 0.95


@functools.lru_cache(maxsize=8)
def _curve_weights(n: int) -> NDArray[np.float64]:
    """Weights of least squares by which rising samples give the slope and the bend over their normal scores."""
    scores = _normal_quantile((np.arange(n) + 0.5) / n)
    return np.asarray(np.linalg.pinv(np.stack([np.ones(n), scores, scores**2], axis=1))[1:])


QUANTILES = {"p05": 0.05, "p10": 0.10, "p50": 0.50, "p90": 0.90, "p95": 0.95}
_SHARES = np.array(list(QUANTILES.values()))


def quantiles(value: Num) -> dict[str, float] | float:
    """Summarise samples as quantiles; an exact number stays a number.

    Parameters
    ----------
    value : float or ndarray
        One number, or samples on one axis, in its own unit.

    Returns
    -------
    dict of str to float, or float
        ``{"p05", "p10", "p50", "p90", "p95"}``, in the quantity's own unit.

    Examples
    --------
    >>> quantiles(3.0)
    3.0
    >>> quantiles(np.arange(101.0))["p90"]
    90.0
    """
    array = _numbers(value)
    if array.ndim == 0:
        return float(array)
    if not array.size:
        raise QuantityError("no samples: quantiles need one number at least")
    rising = np.sort(array, axis=None)
    if rising[-1] == rising[0]:
        return float(rising[0])
    # as np.quantile, which takes five times as long for a few thousand samples
    place = (rising.size - 1) * _SHARES
    low, share = place.astype(int), place % 1
    start, end = rising[low], rising[np.minimum(low + 1, rising.size - 1)]
    points = np.where(share < 0.5, start + (end - start) * share, end - (end - start) * (1 - share))
    points = np.where(np.isnan(rising[-1]), rising[-1], points)
    return dict(zip(QUANTILES, points.tolist(), strict=True))


def _numbers(value: Num) -> NDArray[np.float64]:
    """A number or samples as an array; what is neither is refused in one line."""
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise QuantityError(f"{shown(value)}: expected a number, a Range, or an array of samples") from None


def median(value: Num) -> float:
    """Middle of the samples, or the number itself.

    Parameters
    ----------
    value : float or ndarray
        One number or samples, in its own unit.

    Returns
    -------
    float
        The median, in the quantity's own unit.

    Examples
    --------
    >>> median(np.array([1.0, 5.0, 2.0]))
    2.0
    """
    array = np.asarray(value, float)
    return float(np.median(array)) if array.ndim else float(array)


def blocks(n: int, size: int = 8192) -> Iterator[slice]:
    """Cut a long axis into pieces that stay in the processor's cache.

    Parameters
    ----------
    n : int
        Length of the axis [-].
    size : int
        Length of a piece [-].

    Yields
    ------
    slice
        Consecutive pieces that cover the axis once.

    Examples
    --------
    >>> list(blocks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
