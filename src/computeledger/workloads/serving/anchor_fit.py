"""What a user's measurements teach: the run's own ratio of real over predicted time, near them and away from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95, Range
from computeledger.physics.calibration.anchors import AnchorSpread, load_anchor_calibration
from computeledger.physics.calibration.efficiency import median_of
from computeledger.workloads.serving.intervals import Interval

#: Measurements that the fitted spreads count for, when measurements contradict one another (assumption).
PRIOR_MEASUREMENTS = 4.0


@dataclass(frozen=True, slots=True)
class MeasuredRatio:
    """Measured over predicted time of one point, and where that point lies."""

    ratio: float
    batch: float
    input_tokens: float


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
        Factor on the spread where measurements differ by more than those of one deployment do; 1 where they agree [-].
    """

    ratios: tuple[float, ...]
    before: Range
    after: Range
    carried_fraction: float = 0.0
    differ_ratio: float = 1.0
    widening: float = 1.0

    @property
    def shift(self) -> float:
        """Median after over median before [-]."""
        return median_of(self.after) / median_of(self.before)


def learn(
    interval: Interval,
    quantity: str,
    ratios: Sequence[MeasuredRatio],
    at: tuple[float | None, float | None] = (None, None),
) -> Lesson:
    """Shift and narrow an interval by measurements of the user's own deployment.

    In log space a point's residual is ``b + g . d + e``: the deployment's constant ``b`` about the class's median, its
    slopes ``g`` over doublings ``d`` of batch and input from the middle of the measurements, and scatter ``e``. All are
    normal with the spreads of other people's deployments; the posterior at the question's point is exact, and the ends
    of the interval are as many of its standard deviations away as they were on sources left out.

    Parameters
    ----------
    interval : Interval
        Of the question's class.
    quantity : str
        ``tpot`` or ``ttft``.
    ratios : sequence of MeasuredRatio
        The user's points.
    at : tuple of float, optional
        Batch and input of the question [-, token]; the middle of the measurements where they are open.

    Returns
    -------
    Lesson
        With the interval as it was where nothing was measured.

    Examples
    --------
    >>> from computeledger.workloads.serving.intervals import interval_of
    >>> far = interval_of("chip never measured")
    >>> near = learn(far, "tpot", [MeasuredRatio(1.5, 32.0, 1024.0)], (32.0, 1024.0))
    >>> 1.4 < near.after.mid <= 1.5, near.after.high / near.after.low < 0.5 * far.tpot.high / far.tpot.low
    (True, True)
    """
    before: Range = getattr(interval, quantity)
    if not ratios:
        return Lesson((), before, before)
    spread, middle = load_anchor_calibration().spreads[quantity], math.log(median_of(before))
    places = np.log2([[one.batch, max(one.input_tokens, 1.0)] for one in ratios])
    logs = np.log([one.ratio for one in ratios]) - middle
    centre = np.mean(places, axis=0)
    target = np.array([c if x is None else math.log2(max(x, 1.0)) for x, c in zip(at, centre, strict=True)])
    shift, sd, widening = _posterior(logs, places, target, spread)
    after = _range(middle + shift, sd * widening, spread.tails)
    if widening == 1.0:  # a measurement teaches something or nothing
        after = _within(after, before)
    differ = math.exp(float(np.ptp(logs)))
    noise, level = spread.scatter_sd**2 / len(ratios), spread.between_sd**2
    return Lesson(tuple(one.ratio for one in ratios), before, after, level / (level + noise), differ, widening)


def _posterior(
    logs: NDArray[np.float64], places: NDArray[np.float64], target: NDArray[np.float64], spread: AnchorSpread
) -> tuple[float, float, float]:
    """Mean and standard deviation at the target, and the factor by which contradiction widens it."""
    centre = np.mean(places, axis=0)
    rows = np.column_stack([np.ones(len(logs)), places - centre])
    slopes = np.array([spread.per_batch_doubling_sd, spread.per_input_doubling_sd])
    precision = np.diag(1 / np.concatenate([[spread.between_sd], slopes]) ** 2)
    noise = spread.scatter_sd**2
    covariance = np.linalg.inv(precision + rows.T @ rows / noise)
    found = covariance @ rows.T @ logs / noise
    at = np.concatenate([[1.0], target - centre])
    # the fitted spreads are of normal parts, the tails of what was left out are longer
    longer = (spread.tails[3] - spread.tails[0]) / (2 * Z_95)
    misfit = float(np.sum((logs - rows @ found) ** 2) / noise + np.sum((found[1:] / slopes) ** 2)) / longer**2
    others = len(logs) - 1
    excess = (PRIOR_MEASUREMENTS + misfit) / (PRIOR_MEASUREMENTS + others) if others else 1.0
    sd = math.sqrt(float(at @ covariance @ at) + noise)
    return float(at @ found), sd, math.sqrt(max(excess, 1.0))


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
