"""Intervals from residuals: split-conformal quantiles of log ratios, by class of question."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import QuantityError

Array = NDArray[np.float64]

#: Quantiles of measured over predicted that a class keeps.
LEVELS = (0.05, 0.10, 0.50, 0.90, 0.95)
#: Fewer residuals than this cannot carry a 90 % interval.
FEWEST_ERRORS = 20


def conformal_ratios(log_residuals: Array) -> tuple[float, ...]:
    """Factors that turn a prediction into its 5, 10, 50, 90 and 95 % quantiles.

    With ``n`` residuals the outer quantiles are the ``ceil(q (n + 1))``-th of them, which covers at least ``q`` of new
    measurements that are exchangeable with the old.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> [round(one, 1) for one in conformal_ratios(0.2 * rng.standard_normal(20_000))]
    [0.7, 0.8, 1.0, 1.3, 1.4]
    """
    n = len(log_residuals)
    if n < FEWEST_ERRORS:
        raise QuantityError(f"{n} residuals: at least {FEWEST_ERRORS} are needed for an interval")
    ordered = np.sort(-np.asarray(log_residuals, float))
    ranks = [math.floor(q * (n + 1)) if q < 0.5 else math.ceil(q * (n + 1)) for q in LEVELS]
    ranks[2] = (n + 1) // 2
    return tuple(float(np.exp(ordered[min(max(rank, 1), n) - 1])) for rank in ranks)


#: Members of a group that count at most.
MOST_OF_A_GROUP = 6


def capped_ratios(log_residuals: Array, groups: NDArray[np.int64]) -> tuple[float, ...]:
    """The same where no group counts for more than a few of its members: for one of a new group.

    Examples
    --------
    >>> residuals = np.concatenate([np.zeros(1000), np.repeat([0.5, -0.5, 0.25, -0.25], 5)])
    >>> groups = np.concatenate([np.zeros(1000, int), np.repeat([1, 2, 3, 4], 5)])
    >>> [round(one, 2) for one in capped_ratios(residuals, groups)]
    [0.61, 0.61, 1.0, 1.65, 1.65]
    """
    if len(log_residuals) < FEWEST_ERRORS:
        raise QuantityError(f"{len(log_residuals)} residuals: at least {FEWEST_ERRORS} are needed for an interval")
    _, places, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(-np.asarray(log_residuals, float))
    ordered = -np.asarray(log_residuals, float)[order]
    shares = np.minimum(1.0, MOST_OF_A_GROUP / counts[places])[order]
    above = np.cumsum(shares) / np.sum(shares)
    found = [ordered[min(int(np.searchsorted(above, level)), len(ordered) - 1)] for level in LEVELS]
    return tuple(float(np.exp(one)) for one in found)


def variance_parts(log_residuals: Array, groups: NDArray[np.int64]) -> tuple[float, float]:
    """Split the spread of residuals into what a group shares and what its members do not.

    Robust: 1.4826 times the median absolute deviation, of the groups' medians and of the members around them.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(2000), 10)
    >>> residuals = 0.3 * rng.standard_normal(2000)[groups] + 0.1 * rng.standard_normal(20_000)
    >>> [round(one, 1) for one in variance_parts(residuals, groups)]
    [0.3, 0.1]
    """
    names, places, counts = np.unique(groups, return_inverse=True, return_counts=True)
    medians = np.array([np.median(log_residuals[groups == one]) for one in names])
    several = counts >= _SEVERAL
    inner = (log_residuals - medians[places])[several[places]]
    # a group's median takes part of the spread with it
    return _spread(medians[several]), _spread(inner) * float(np.sqrt(_SEVERAL / (_SEVERAL - 1)))


#: Members that a group needs to tell its own spread.
_SEVERAL = 4


def _spread(values: Array) -> float:
    return float(1.4826 * np.median(np.abs(values - np.median(values)))) if len(values) else 0.0


def weighted_quantile(values: Array, weights: Array, share: float) -> float:
    """The value below which a share of the weight lies.

    Examples
    --------
    >>> weighted_quantile(np.array([1.0, 2.0, 9.0]), np.array([1.0, 1.0, 2.0]), 0.5)
    2.0
    """
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][min(int(np.searchsorted(reached, share * reached[-1])), len(values) - 1)])
