"""A posterior from clues, exact: mixtures of normal distributions, updated by linear clues that may each be wrong.

Parameters, tokens, FLOP, GPU-hours and cost are products and ratios of one another, so their logarithms are linear. A
clue is then linear too, with normal noise. With probability :data:`WRONG` it is wrong, and off by a factor whose
standard deviation is :data:`WRONG_RATIO`: every clue doubles the number of normal distributions; nothing is sampled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Probability that a clue is wrong, and the factor (one standard deviation) by which it is then off (assumptions).
WRONG, WRONG_RATIO = 0.05, 10.0
#: Share of the weight below which a distribution is dropped; points at which a distribution function is read.
_LEAST, _POINTS = 1e-7, 400
_REACH = 6.0
_erf = np.vectorize(math.erf, otypes=[float])


@dataclass(frozen=True, slots=True)
class Clue:
    """One thing said of a model: ``value = matrix @ state`` with normal noise.

    Attributes
    ----------
    name, said : str
        What it is of, and what it says, in words.
    matrix : ndarray
        A row for each figure that it states, a column for each part of the state [-].
    value : ndarray
        What it states, as logarithms less the constants of its law [-].
    noise : ndarray
        Covariance of that [-].
    may_be_wrong : bool
        False for what is taken as it is.
    """

    name: str
    said: str
    matrix: Floats
    value: Floats
    noise: Floats
    may_be_wrong: bool = True


@dataclass(frozen=True, slots=True)
class Mixture:
    """Weighted normal distributions of a state.

    Attributes
    ----------
    weight : ndarray
        Adds up to 1 [-].
    mean, covariance : ndarray
        By distribution [-].
    wrong : ndarray
        By distribution and clue so far: 1 where it takes the clue to be wrong [-].
    """

    weight: Floats
    mean: Floats
    covariance: Floats
    wrong: Floats

    def along(self, row: Floats, shift: float = 0.0) -> tuple[Floats, Floats]:
        """Means and standard deviations of a linear function of the state.

        Parameters
        ----------
        row : ndarray
            Its coefficients [-].
        shift : float
            Its constant [-].

        Returns
        -------
        tuple of ndarray
            By distribution [-].

        Examples
        --------
        >>> one = Mixture(np.ones(1), np.array([[1.0, 2.0]]), np.eye(2)[None], np.zeros((1, 0)))
        >>> [float(part[0].round(3)) for part in one.along(np.array([1.0, 1.0]))]
        [3.0, 1.414]
        """
        variance = np.einsum("i,kij,j->k", row, self.covariance, row)
        return self.mean @ row + shift, np.sqrt(np.maximum(variance, 1e-18))

    def quantiles(self, row: Floats, shift: float, shares: Sequence[float]) -> Floats:
        """Quantiles of a linear function of the state.

        Parameters
        ----------
        row : ndarray
            Its coefficients [-].
        shift : float
            Its constant [-].
        shares : sequence of float
            Wanted shares [-].

        Returns
        -------
        ndarray
            One each [-].

        Examples
        --------
        >>> one = Mixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)), np.zeros((1, 0)))
        >>> one.quantiles(np.ones(1), 0.0, (0.05, 0.5)).round(2).tolist()
        [-1.64, 0.0]
        """
        mean, spread = self.along(row, shift)
        points = np.linspace((mean - _REACH * spread).min(), (mean + _REACH * spread).max(), _POINTS)
        for _ in range(2):  # the second reading is of the part that holds the quantiles
            reached = self._reached(points, mean, spread)
            places = np.searchsorted(reached, (min(shares), max(shares)))
            points = np.linspace(points[max(places[0] - 1, 0)], points[min(places[1], _POINTS - 1)], _POINTS)
        return np.interp(shares, self._reached(points, mean, spread), points)

    def _reached(self, points: Floats, mean: Floats, spread: Floats) -> Floats:
        scores = (points[:, None] - mean) / spread / math.sqrt(2.0)
        return np.asarray(0.5 * (1.0 + _erf(scores)) @ self.weight, float)


def learn(prior: Mixture, clues: Sequence[Clue]) -> Mixture:
    """The posterior: each clue in turn, once as it is and once as if it were wrong.

    Parameters
    ----------
    prior : Mixture
        What is known before.
    clues : sequence of Clue
        In any order: the answer is the same.

    Returns
    -------
    Mixture
        Posterior.

    Examples
    --------
    >>> prior = Mixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)), np.zeros((1, 0)))
    >>> clue = Clue("x", "", np.ones((1, 1)), np.array([1.0]), np.ones((1, 1)), may_be_wrong=False)
    >>> after = learn(prior, [clue])
    >>> float(after.mean[0, 0]), float(after.covariance[0, 0, 0])
    (0.5, 0.5)
    """
    for clue in clues:
        branches = [_update(prior, clue, 0.0, 1.0)]
        if clue.may_be_wrong:
            branches = [_update(prior, clue, 0.0, 1.0 - WRONG), _update(prior, clue, math.log(WRONG_RATIO) ** 2, WRONG)]
        log_weight = np.concatenate([one[0] for one in branches])
        weight = np.exp(log_weight - log_weight.max())
        keep = weight >= _LEAST * weight.sum()
        flags = [np.column_stack([prior.wrong, np.full(len(prior.weight), place)]) for place in range(len(branches))]
        parts = [np.concatenate(group)[keep] for group in zip(*[one[1:] for one in branches], strict=True)]
        prior = Mixture(weight[keep] / weight[keep].sum(), parts[0], parts[1], np.concatenate(flags)[keep])
    return prior


def _update(prior: Mixture, clue: Clue, more: float, share: float) -> tuple[Floats, Floats, Floats]:
    """Log weight, mean and covariance of each distribution after a clue (the update of Kalman's filter)."""
    matrix = clue.matrix
    crossed = prior.covariance @ matrix.T
    spread = matrix @ crossed + clue.noise + more * np.eye(len(clue.value))
    inverse = np.linalg.inv(spread)
    missed = clue.value - prior.mean @ matrix.T
    gain = crossed @ inverse
    fit = np.einsum("ki,kij,kj->k", missed, inverse, missed)
    log_weight = np.log(prior.weight * share) - 0.5 * (fit + np.linalg.slogdet(spread)[1])
    mean = prior.mean + np.einsum("kij,kj->ki", gain, missed)
    return log_weight, mean, prior.covariance - gain @ np.swapaxes(crossed, 1, 2)


def surprise(others: Mixture, clue: Clue) -> float:
    """Probability of a clue that is at least as far off, where the others hold and it is not wrong.

    Parameters
    ----------
    others : Mixture
        What all other clues say.
    clue : Clue
        Of one figure or two.

    Returns
    -------
    float
        From 0, which cannot be, to 1 [-].

    Examples
    --------
    >>> known = Mixture(np.ones(1), np.zeros((1, 1)), np.zeros((1, 1, 1)), np.zeros((1, 0)))
    >>> clue = Clue("x", "", np.ones((1, 1)), np.array([1.96]), np.ones((1, 1)))
    >>> round(surprise(known, clue), 2)
    0.05
    """
    missed = clue.value - others.mean @ clue.matrix.T
    spread = clue.matrix @ others.covariance @ clue.matrix.T + clue.noise
    fit = np.einsum("ki,kij,kj->k", missed, np.linalg.inv(spread), missed)
    beyond = 1.0 - _erf(np.sqrt(fit / 2.0)) if len(clue.value) == 1 else np.exp(-fit / 2.0)
    return float(np.sum(others.weight * beyond))
