"""What a user's measurements teach: a run's own ratio of real over predicted time, near them and away from them.

In log space a point's residual is ``b + g . d + e``: the run's constant ``b`` about the class's median, its slopes
``g`` over the distances ``d`` from the middle of the measurements, and scatter ``e``, all normal. The posterior at the
question's point is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95, Range
from computeledger.physics.calibration.efficiency import median_of

#: A ratio nearer to the prediction than this says nothing of how much is carried over.
_NO_NEWS = 1e-6
#: Measurements that the fitted spreads count for, when measurements contradict one another (assumption).
PRIOR_MEASUREMENTS = 4.0
#: A spread of the constant under which no level is a contradiction.
_ANY_LEVEL = 100.0


@dataclass(frozen=True, slots=True)
class Lesson:
    """What measurements of one time taught.

    Attributes
    ----------
    ratios : tuple of float
        Measured over predicted, by measurement [-].
    before, after : Range
        Ratio of real over predicted time [-].
    carried_fraction : float
        How much of the measurements' mean ratio, in logarithms, the answer takes over at their middle [-].
    differ_ratio : float
        Largest over smallest of the ratios [-].
    widening : float
        Factor on the spread where measurements differ by more than those of one run do; 1 where they agree [-].
    fitted : tuple of float
        Ratio that the lesson expects at each measurement: what is left of the measured one is its residual [-].
    """

    ratios: tuple[float, ...]
    before: Range
    after: Range
    carried_fraction: float = 0.0
    differ_ratio: float = 1.0
    widening: float = 1.0
    fitted: tuple[float, ...] = ()

    @property
    def shift(self) -> float:
        """Median after over median before [-]."""
        return median_of(self.after) / median_of(self.before)

    @property
    def residuals(self) -> tuple[float, ...]:
        """Measured over what the lesson expects there, less one, by measurement [-]."""
        return tuple(ratio / one - 1 for ratio, one in zip(self.ratios, self.fitted, strict=True))


@dataclass(frozen=True, slots=True)
class Seen:
    """Measured points and the one that is asked about.

    Attributes
    ----------
    logs : ndarray
        Logarithms of the ratios about the class's median, by measurement [-].
    rows : ndarray
        By measurement, 1 for the constant and the distance along each slope [-].
    at : ndarray
        The same of the question's point [-].
    """

    logs: NDArray[np.float64]
    rows: NDArray[np.float64]
    at: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Prior:
    """Standard deviations before anything was measured.

    Attributes
    ----------
    levels : tuple of float
        Of the constant: as between runs of the class, or as between other people's; either is as likely [-].
    slopes : tuple of float
        Of each slope, per unit of its distance [-].
    scatter : float
        Of what no slope explains [-].
    tails : tuple of float
        Ends of the 90 % and the 80 % interval, low to high, in predicted standard deviations [-].
    """

    levels: tuple[float, ...]
    slopes: tuple[float, ...]
    scatter: float
    tails: tuple[float, float, float, float] = (-1.0, -1.0, 1.0, 1.0)

    def sds(self, level: float) -> NDArray[np.float64]:
        """Of the constant and the slopes, for one spread of the constant.

        Parameters
        ----------
        level : float
            Of the constant [-].

        Returns
        -------
        ndarray
            One for each column of the rows [-].

        Examples
        --------
        >>> Prior((0.3,), (0.1, 0.2), 0.05).sds(0.3).tolist()
        [0.3, 0.1, 0.2]
        """
        return np.array([level, *self.slopes])


def learned(before: Range, ratios: Sequence[float], seen: Seen, prior: Prior) -> Lesson:
    """Shift and narrow an interval by measurements.

    Parameters
    ----------
    before : Range
        Ratio of real over predicted time of the question's class [-].
    ratios : sequence of float
        Measured over predicted [-].
    seen : Seen
        The same about the class's median, with the place of each and of the question.
    prior : Prior
        Spreads of other people's runs.

    Returns
    -------
    Lesson
        With the interval as it was where nothing was measured.

    Examples
    --------
    >>> rows, at = np.array([[1.0, 0.0]]), np.array([1.0, 3.0])
    >>> near, far = (learned(Range(0.7, 1.4), [1.2], Seen(np.log([1.2]), rows, np.array([1.0, d])),
    ...              Prior((0.2,), (0.03,), 0.05, (-1.6, -1.3, 1.3, 1.6))).after for d in (0.0, 3.0))
    >>> 1.1 < near.mid < 1.2, near.high / near.low < far.high / far.low < 2
    (True, True)
    """
    if not len(ratios):
        return Lesson((), before, before)
    middle, levels = math.log(median_of(before)), _levels(seen, prior)
    shift, sd = _mixed(levels, seen.at, seen.logs)
    widening = _widening(seen, prior)
    after = _range(middle + shift, sd * widening, prior.tails)
    if widening == 1.0:  # a measurement teaches something or nothing
        after = _within(after, before)
    fitted = tuple(math.exp(middle + _mixed(levels, row, seen.logs)[0]) for row in seen.rows)
    differ = math.exp(float(np.ptp(seen.logs)))
    constant = np.zeros(seen.rows.shape[1])
    constant[0] = 1.0
    level = _mixed(levels, constant, seen.logs)[0]
    said = float(np.mean(seen.logs))
    carried = level / said if abs(said) > _NO_NEWS else 1.0
    return Lesson(tuple(ratios), before, after, carried, differ, widening, fitted)


def posterior(seen: Seen, prior: Prior) -> tuple[float, float]:
    """Mean and standard deviation at the question's point.

    The constant is spread as in the class or as between other people's runs: either is as likely before it was
    measured.

    Parameters
    ----------
    seen : Seen
        What was measured, and where.
    prior : Prior
        Spreads of other people's runs.

    Returns
    -------
    tuple of float
        In logarithms [-].

    Examples
    --------
    >>> one = Seen(np.array([0.3]), np.array([[1.0]]), np.array([1.0]))
    >>> [round(value, 2) for value in posterior(one, Prior((0.1,), (), 0.1))]
    [0.15, 0.12]
    """
    return _mixed(_levels(seen, prior), seen.at, seen.logs)


@dataclass(frozen=True, slots=True)
class _Level:
    """What measurements say under one spread of the constant, at any point."""

    gain: NDArray[np.float64]
    left: NDArray[np.float64]
    noise: float
    log_likelihood: float


def _levels(seen: Seen, prior: Prior) -> list[_Level]:
    """For each spread of the constant: how measurements move the columns, what is left, how likely they then are."""
    found = []
    for level in prior.levels:
        before, noise = np.diag(prior.sds(level) ** 2), prior.scatter**2
        whole = seen.rows @ before @ seen.rows.T + noise * np.eye(len(seen.logs))
        gain = before @ seen.rows.T @ np.linalg.inv(whole)
        left = before - gain @ seen.rows @ before
        likely = -0.5 * (np.linalg.slogdet(whole)[1] + seen.logs @ np.linalg.solve(whole, seen.logs))
        found.append(_Level(gain, left, noise, float(likely)))
    return found


def _mixed(levels: Sequence[_Level], at: NDArray[np.float64], logs: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and standard deviation at a point, the spreads weighed by how likely the measurements are under each."""
    parts = np.array([(float(at @ one.gain @ logs), float(at @ one.left @ at) + one.noise) for one in levels])
    likely = np.array([one.log_likelihood for one in levels])
    weight = np.exp(likely - np.max(likely))
    weight /= np.sum(weight)
    mean = float(weight @ parts[:, 0])
    return mean, math.sqrt(float(weight @ (parts[:, 1] + (parts[:, 0] - mean) ** 2)))


def _widening(seen: Seen, prior: Prior) -> float:
    """The factor by which measurements widen what they say where they contradict one another."""
    others = len(seen.logs) - 1
    if not others:
        return 1.0
    free = prior.sds(_ANY_LEVEL)
    whole = seen.rows @ np.diag(free**2) @ seen.rows.T + prior.scatter**2 * np.eye(len(seen.logs))
    # the fitted spreads are of normal parts, the tails of what was left out are longer
    longer = (prior.tails[3] - prior.tails[0]) / (2 * Z_95)
    misfit = float(seen.logs @ np.linalg.solve(whole, seen.logs)) / longer**2
    return math.sqrt(max((PRIOR_MEASUREMENTS + misfit) / (PRIOR_MEASUREMENTS + others), 1.0))


def ends(one: Range) -> dict[str, float]:
    """The 90 % interval of a ratio with its median.

    Parameters
    ----------
    one : Range
        Real over predicted time [-].

    Returns
    -------
    dict of str to float
        ``p05``, ``p50`` and ``p95`` [-].

    Examples
    --------
    >>> ends(Range(0.5, 2.0))
    {'p05': 0.5, 'p50': 1.0, 'p95': 2.0}
    """
    return {"p05": one.low, "p50": median_of(one), "p95": one.high}


def _range(middle: float, sd: float, tails: tuple[float, float, float, float]) -> Range:
    low, inner_low, inner_high, high = (math.exp(middle + sd * tail) for tail in tails)
    return Range(low, high, mid=math.exp(middle), inner=(inner_low, inner_high))


def _within(after: Range, before: Range) -> Range:
    """The later interval about its median, no wider than the earlier one."""
    widest = math.log(before.high / before.low) / math.log(after.high / after.low)
    if widest >= 1 or after.mid is None or after.inner is None:
        return after
    middle = after.mid
    ends = (after.low, *after.inner, after.high)
    low, inner_low, inner_high, high = (middle * (end / middle) ** widest for end in ends)
    return Range(low, high, mid=middle, inner=(inner_low, inner_high))
