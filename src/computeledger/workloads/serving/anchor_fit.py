"""What a user's measurements of a deployment teach, over its batch and its inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Range
from computeledger.physics.calibration.anchors import AnchorSpread, load_anchor_calibration
from computeledger.physics.calibration.efficiency import median_of
from computeledger.workloads.anchor_fit import Lesson, Prior, Seen, learned, posterior
from computeledger.workloads.serving.intervals import Interval


@dataclass(frozen=True, slots=True)
class MeasuredRatio:
    """Measured over predicted time of one point, and where that point lies."""

    ratio: float
    batch: float
    input_tokens: float


def learn(
    interval: Interval,
    quantity: str,
    ratios: Sequence[MeasuredRatio],
    at: tuple[float | None, float | None] = (None, None),
    spread: AnchorSpread | None = None,
) -> Lesson:
    """Shift and narrow an interval by measurements of the user's own deployment.

    Its slopes run over doublings of batch and input from the middle of the measurements; the ends of the interval are
    as many standard deviations away as they were on sources left out.

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
    prior = _prior(interval, quantity, load_anchor_calibration().spreads[quantity] if spread is None else spread)
    seen = _seen(ratios, math.log(median_of(before)), at)
    return learned(before, [one.ratio for one in ratios], seen, prior)


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
    seen = _seen([known], middle, (target.batch, target.input_tokens))
    mean, sd = posterior(seen, _prior(interval, quantity, spread))
    return (math.log(target.ratio) - middle - mean) / sd


def _prior(interval: Interval, quantity: str, spread: AnchorSpread) -> Prior:
    """Of a deployment that is run like those of its class, or as other people's are."""
    slopes = spread.per_batch_doubling_sd, spread.per_input_doubling_sd
    levels = interval.between_runs[quantity], spread.between_sd
    return Prior(levels, slopes, spread.scatter_sd, spread.tails)


def _seen(ratios: Sequence[MeasuredRatio], middle: float, at: tuple[float | None, float | None]) -> Seen:
    """Places in doublings from the measurements' middle."""
    places = np.log2([[one.batch, max(one.input_tokens, 1.0)] for one in ratios])
    centre = np.mean(places, axis=0)
    target = np.array([c if x is None else math.log2(max(x, 1.0)) for x, c in zip(at, centre, strict=True)])
    rows = np.column_stack([np.ones(len(ratios)), places - centre])
    return Seen(np.log([one.ratio for one in ratios]) - middle, rows, np.append(1.0, target - centre))
