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

#: A ratio nearer to the prediction than this says nothing of how much is carried over.
_NO_NEWS = 1e-6
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
    spread: AnchorSpread | None = None,
) -> Lesson:
    """Shift and narrow an interval by measurements of the user's own deployment.

    In log space a point's residual is ``b + g . d + e``: the deployment's constant ``b`` about the class's median, its
    slopes ``g`` over doublings ``d`` of batch and input from the middle of the measurements, and scatter ``e``, all
    normal. The constant is spread as between runs of the class or as between other people's deployments, either as
    likely; the posterior at the question's point is exact, and the ends of the interval are as many of its standard
    deviations away as they were on sources left out.

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
    spread : AnchorSpread, optional
        Of other people's deployments; the shipped one where none is given.

    Returns
    -------
    Lesson
        With the interval as it was where nothing was measured.

    Examples
    --------
    >>> from computeledger.workloads.serving.intervals import interval_of
    >>> far = interval_of("chip never measured")
    >>> near = learn(far, "tpot", [MeasuredRatio(1.5, 32.0, 1024.0)], (32.0, 1024.0))
    >>> 1.4 < near.after.mid <= 1.5, near.after.high / near.after.low < 0.8 * far.tpot.high / far.tpot.low
    (True, True)
    """
    before: Range = getattr(interval, quantity)
    if not ratios:
        return Lesson((), before, before)
    spread = load_anchor_calibration().spreads[quantity] if spread is None else spread
    middle = math.log(median_of(before))
    seen = _measured(ratios, middle, at)
    levels = interval.between_runs[quantity], spread.between_sd
    shift, sd = _posterior(seen, levels, spread)
    widening = _widening(seen, spread)
    after = _range(middle + shift, sd * widening, spread.tails)
    if widening == 1.0:  # a measurement teaches something or nothing
        after = _within(after, before)
    differ = math.exp(float(np.ptp(seen.logs)))
    at_middle = _Measured(seen.logs, seen.rows, np.array([1.0, 0.0, 0.0]))
    level, said = _posterior(at_middle, levels, spread)[0], float(np.mean(seen.logs))
    carried = level / said if abs(said) > _NO_NEWS else 1.0
    return Lesson(tuple(one.ratio for one in ratios), before, after, carried, differ, widening)


@dataclass(frozen=True, slots=True)
class _Measured:
    """Logarithms of the ratios about the class's median, and doublings from the measurements' middle."""

    logs: NDArray[np.float64]
    rows: NDArray[np.float64]
    at: NDArray[np.float64]


def _measured(ratios: Sequence[MeasuredRatio], middle: float, at: tuple[float | None, float | None]) -> _Measured:
    places = np.log2([[one.batch, max(one.input_tokens, 1.0)] for one in ratios])
    centre = np.mean(places, axis=0)
    target = np.array([c if x is None else math.log2(max(x, 1.0)) for x, c in zip(at, centre, strict=True)])
    rows = np.column_stack([np.ones(len(ratios)), places - centre])
    return _Measured(np.log([one.ratio for one in ratios]) - middle, rows, np.append(1.0, target - centre))


def score(
    interval: Interval, quantity: str, known: MeasuredRatio, target: MeasuredRatio, spread: AnchorSpread
) -> float:
    """How many predicted standard deviations a point lies from what another of its deployment says.

    Parameters
    ----------
    interval : Interval
        Of the deployment's class.
    quantity : str
        ``tpot`` or ``ttft``.
    known, target : MeasuredRatio
        The point that is the anchor, and the one that is predicted.
    spread : AnchorSpread
        Of other people's deployments; its tails are not read.

    Returns
    -------
    float
        In logarithms [-].

    Examples
    --------
    >>> from computeledger.workloads.serving.intervals import interval_of
    >>> points = MeasuredRatio(1.0, 8.0, 1024.0), MeasuredRatio(1.2, 64.0, 1024.0)
    >>> spread = load_anchor_calibration().spreads["tpot"]
    >>> 0 < score(interval_of("engine never fitted"), "tpot", *points, spread) < 2
    True
    """
    middle = math.log(median_of(getattr(interval, quantity)))
    seen = _measured([known], middle, (target.batch, target.input_tokens))
    mean, sd = _posterior(seen, (interval.between_runs[quantity], spread.between_sd), spread)
    return (math.log(target.ratio) - middle - mean) / sd


def _posterior(seen: _Measured, levels: tuple[float, float], spread: AnchorSpread) -> tuple[float, float]:
    """Mean and standard deviation at the question's point.

    The deployment is run like those of its class, or as other people's are: either spread of its constant is as likely
    before it was measured.
    """
    parts = np.array([_of_level(seen, level, spread) for level in levels])
    weight = np.exp(parts[:, 2] - np.max(parts[:, 2]))
    weight /= np.sum(weight)
    mean = float(weight @ parts[:, 0])
    return mean, math.sqrt(float(weight @ (parts[:, 1] + (parts[:, 0] - mean) ** 2)))


def _of_level(seen: _Measured, level: float, spread: AnchorSpread) -> tuple[float, float, float]:
    """Mean and variance for one spread of the constant, and the logarithm of how likely the measurements then are."""
    prior, noise = np.diag(_sds(level, spread) ** 2), spread.scatter_sd**2
    whole = seen.rows @ prior @ seen.rows.T + noise * np.eye(len(seen.logs))
    gain = prior @ seen.rows.T @ np.linalg.inv(whole)
    left = prior - gain @ seen.rows @ prior
    likely = -0.5 * (np.linalg.slogdet(whole)[1] + seen.logs @ np.linalg.solve(whole, seen.logs))
    return float(seen.at @ gain @ seen.logs), float(seen.at @ left @ seen.at) + noise, float(likely)


def _sds(level: float, spread: AnchorSpread) -> NDArray[np.float64]:
    return np.array([level, spread.per_batch_doubling_sd, spread.per_input_doubling_sd])


def _widening(seen: _Measured, spread: AnchorSpread) -> float:
    """The factor by which measurements widen what they say where they contradict one another."""
    others = len(seen.logs) - 1
    if not others:
        return 1.0
    free = np.concatenate([[1.0], _sds(1.0, spread)[1:]]) * np.array([_ANY_LEVEL, 1.0, 1.0])
    noise = spread.scatter_sd**2
    whole = seen.rows @ np.diag(free**2) @ seen.rows.T + noise * np.eye(len(seen.logs))
    # the fitted spreads are of normal parts, the tails of what was left out are longer
    longer = (spread.tails[3] - spread.tails[0]) / (2 * Z_95)
    misfit = float(seen.logs @ np.linalg.solve(whole, seen.logs)) / longer**2
    return math.sqrt(max((PRIOR_MEASUREMENTS + misfit) / (PRIOR_MEASUREMENTS + others), 1.0))


#: A spread of the constant under which no level is a contradiction.
_ANY_LEVEL = 100.0


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
