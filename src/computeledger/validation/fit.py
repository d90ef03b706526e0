"""Fitting a physical model's constants: robust least squares on log ratios with a prior on every constant.

The model is evaluated on an axis of parameter vectors, so one call gives all derivatives by differences. Residuals that
are a module's function with its data (``functools.partial``) can be sent to other processes.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from computeledger.workloads.sweep import sweep

Array = NDArray[np.float64]

#: Step of the differences, in log of a constant: downwards, where a share that stands at its cap still has a slope.
STEP = -1e-3
#: Longest move of a constant in one iteration, in log.
LONGEST_MOVE = 0.5
#: Gain of an iteration, of the loss, below which the fit has arrived.
SMALLEST_GAIN = 1e-3
#: Damping that is tried at once in every iteration, over the last one.
DAMPINGS = (0.1, 1.0, 10.0, 100.0, 1000.0)
#: What a cross-validation counts.
LEFT_OUT_GROUPS = "groups left out"


@dataclass(frozen=True, slots=True)
class Fit:
    """What is fitted to what; a constant that reaches its highest value stays there, where it still has a slope."""

    residuals: Callable[[Array], Array]
    scales: Array
    weights: Array
    prior_sd: Array
    highest: Array | float = np.inf

    def without(self, chosen: NDArray[np.bool_]) -> Fit:
        """The same fit with some measurements left out.

        Examples
        --------
        >>> one = Fit(lambda x: x.T, np.ones(2), np.ones(2), np.ones(2))
        >>> one.without(np.array([True, False])).weights
        array([0., 1.])
        """
        return replace(self, weights=np.where(chosen, 0.0, self.weights))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fit's result."""

    change: Array
    sd: Array
    loss: float


def _loss(fit: Fit, residuals: Array, change: Array) -> float:
    return float(fit.weights @ np.log1p((residuals / fit.scales) ** 2) + np.sum((change / fit.prior_sd) ** 2))


def fit_constants(fit: Fit, start: Array | None = None, iterations: int = 20) -> Fitted:
    """Minimise a Cauchy loss plus the prior's by damped Gauss-Newton steps.

    ``sum w log(1 + (r / s)^2) + sum (x / sd)^2``; the Cauchy loss lets single measurements be wrong by any factor.

    Examples
    --------
    >>> truth = np.log(np.array([1.1, 1.1, 1.1, 9.0]))
    >>> found = fit_constants(Fit(lambda x: x[:, 0] - truth[:, None], np.full(4, 0.1), np.ones(4), np.ones(1)))
    >>> round(float(np.exp(found.change[0])), 2)
    1.1
    """
    n = len(fit.prior_sd)
    change = np.minimum(np.zeros(n) if start is None else np.array(start, float), fit.highest)
    damping = 1e-2
    for _ in range(iterations):
        here, slopes = _slopes(fit, change)
        pull = fit.weights / (fit.scales**2 + here**2)
        curvature = slopes.T @ (pull[:, None] * slopes) + np.diag(fit.prior_sd**-2)
        gradient = slopes.T @ (pull * here) + change / fit.prior_sd**2
        tried = [damping * factor for factor in DAMPINGS]
        moves = [np.linalg.solve(curvature + one * np.diag(np.diag(curvature)), gradient) for one in tried]
        candidates = np.minimum(change - np.clip(np.array(moves), -LONGEST_MOVE, LONGEST_MOVE), fit.highest)
        losses = [_loss(fit, r, x) for r, x in zip(fit.residuals(candidates).T, candidates, strict=True)]
        best = int(np.argmin(losses))
        gain = _loss(fit, here, change) - losses[best]
        if gain > 0:
            change, damping = candidates[best], max(tried[best], 1e-6)
        if gain < SMALLEST_GAIN * losses[best]:
            break
    last = fit.residuals(change[None, :])[:, 0]
    return Fitted(change, np.sqrt(np.diag(np.linalg.inv(curvature))), _loss(fit, last, change))


def _slopes(fit: Fit, change: Array) -> tuple[Array, Array]:
    """Residuals at a point, and their derivatives by differences."""
    around = fit.residuals(np.vstack([change, change + STEP * np.eye(len(change))]))
    return around[:, 0], (around[:, 1:] - around[:, :1]) / STEP


def linear_at(fit: Fit, change: Array) -> Fit:
    """The same fit with residuals that are linear around a point: its folds then cost next to nothing.

    Examples
    --------
    >>> one = Fit(lambda x: np.exp(x).T, np.ones(1), np.ones(1), np.ones(1))
    >>> linear_at(one, np.zeros(1)).residuals(np.array([[0.0], [0.1]])).round(2).tolist()
    [[1.0, 1.1]]
    """
    here, slopes = _slopes(fit, change)
    return replace(fit, residuals=partial(_linear, here, slopes, change))


def _linear(here: Array, slopes: Array, change: Array, changes: Array) -> Array:
    return np.asarray(here[:, None] + slopes @ (changes - change).T)


def cross_validate_near(fit: Fit, linear: Fit, folds: NDArray[np.int64], start: Array) -> Array:
    """Predict every measurement from constants that a linear fit found without its fold.

    Examples
    --------
    >>> truth = np.log(np.array([1.0, 1.0, 1.2, 1.2]))
    >>> one = Fit(lambda x: x[:, 0] - truth[:, None], np.ones(4), np.ones(4), np.full(1, 100.0))
    >>> cross_validate_near(one, linear_at(one, np.zeros(1)), np.array([0, 0, 1, 1]), np.zeros(1)).round(2).tolist()
    [0.18, 0.18, -0.18, -0.18]
    """
    out = np.full(len(folds), np.nan)
    names = sorted(set(folds[folds >= 0].tolist()))
    found = np.array([fit_constants(linear.without(folds == one), start).change for one in names])
    residuals = fit.residuals(found) if names else np.empty((len(folds), 0))
    for place, one in enumerate(names):
        out[folds == one] = residuals[folds == one, place]
    return out


def cross_validate(fit: Fit, folds: NDArray[np.int64], start: Array, executor: Executor | None = None) -> Array:
    """Predict every measurement from constants that were fitted without its fold; an executor fits several at once.

    Examples
    --------
    >>> truth = np.log(np.array([1.0, 1.0, 1.2, 1.2]))
    >>> one = Fit(lambda x: x[:, 0] - truth[:, None], np.ones(4), np.ones(4), np.full(1, 100.0))
    >>> cross_validate(one, np.array([0, 0, 1, 1]), np.zeros(1)).round(2).tolist()
    [0.18, 0.18, -0.18, -0.18]
    """
    out = np.full(len(folds), np.nan)
    groups = [folds == fold for fold in sorted(set(folds[folds >= 0].tolist()))]
    found = sweep(partial(_predicted_without, fit, start), groups, executor, what=LEFT_OUT_GROUPS)
    for left, residuals in zip(groups, found, strict=True):
        out[left] = residuals
    return out


def _predicted_without(fit: Fit, start: Array, left: NDArray[np.bool_]) -> Array:
    found = fit_constants(fit.without(left), start)
    return np.asarray(fit.residuals(found.change[None, :])[left, 0])
