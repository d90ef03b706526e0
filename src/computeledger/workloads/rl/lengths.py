"""How long rollouts are: a distribution as positions that a falling share of rollouts reaches."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95, Num
from computeledger.errors import QuantityError

Array = NDArray[np.float64]

#: Standard scores of the positions; the share that reaches one is that of a normal variable above its score.
_SCORES = np.linspace(-4.0, 5.5, 77)
#: Share of rollouts that reach each position, from the start to the longest that is allowed.
SURVIVAL: Array = np.array([1.0, 1.0, *(0.5 * math.erfc(z / math.sqrt(2)) for z in _SCORES[1:-1]), 0.0, 0.0])
#: Standard score of each position of :data:`SURVIVAL`.
SCORES: Array = np.concatenate([_SCORES[:1], _SCORES, _SCORES[-1:]])[:, None]
#: Spread of the logarithm of rollout lengths where none is given (assumption: 0.4 to 1.2 in published runs).
LENGTH_SPREAD = 0.8
#: Where rollouts are cut when nothing is said, over their mean or their 95th percentile (assumption); a model's context
#: may cut them sooner.
LONGEST_OVER_MEAN, LONGEST_OVER_P95 = 3.0, 3.0
_COLUMN = SURVIVAL[:, None]
#: Weight of each position, without start and end, in the mean.
_WEIGHTS = (SURVIVAL[:-2] - SURVIVAL[2:]) / 2
#: Shortest rollout [token].
_SHORTEST = 1.0
#: Search for a mean: how close it must come, its most steps, and the flattest slope it believes.
_CLOSE, _MOST_STEPS, _FLAT = 1e-6, 60, 1e-3
#: Failures of one rollout that are told apart.
_MOST_FAILURES = 4
#: Digits to which multiples of a mean are told apart: a quotient's last ones are rounding.
_RATIO_DECIMALS = 12


@dataclass(frozen=True)
class Lengths:
    """A distribution of rollout lengths.

    Attributes
    ----------
    tokens : ndarray
        Positions that :data:`SURVIVAL` of the rollouts reach, along the first axis; samples along the second [token].
    """

    tokens: Array

    def integral(self, rate: Num) -> Num:
        """Add up a rate over the positions.

        Parameters
        ----------
        rate : float or ndarray
            At each position, along the first axis; per token, in any unit [-].

        Returns
        -------
        float or ndarray
            In the unit of the rate, times token [-].

        Examples
        --------
        >>> round(float(exact_lengths(100.0).integral(SURVIVAL[:, None])), 6)
        100.0
        """
        return single(np.einsum("p...,p...->...", np.asarray(rate), self._widths))

    @functools.cached_property
    def _widths(self) -> Array:
        """Tokens that each position stands for: half of the way to either neighbour."""
        widths = np.empty_like(self.tokens)
        np.subtract(self.tokens[2:], self.tokens[:-2], out=widths[1:-1])
        widths[0], widths[-1] = self.tokens[1] - self.tokens[0], self.tokens[-1] - self.tokens[-2]
        widths /= 2
        return widths

    @functools.cached_property
    def mean_tokens(self) -> Num:
        """Mean length [token]."""
        return self.integral(_COLUMN)

    @functools.cached_property
    def mean_age_tokens(self) -> Num:
        """Tokens that a rollout under way has written on average, ``E[L^2] / 2 E[L]`` [token]."""
        return self.integral(_COLUMN * self.tokens) / self.mean_tokens

    @property
    def longest_tokens(self) -> Num:
        """Longest rollout that the distribution allows [token]."""
        return single(self.tokens[-1])

    def expected_longest_tokens(self, n: Num) -> Num:
        """Longest of several rollouts, on average.

        Parameters
        ----------
        n : float or ndarray
            Rollouts [-].

        Returns
        -------
        float or ndarray
            ``integral of 1 - (1 - S)^n`` [token].

        Examples
        --------
        >>> some = lognormal_lengths(1000.0, 4000.0, 8000.0)
        >>> bool(some.mean_tokens < some.expected_longest_tokens(64.0) < 8000)
        True
        """
        return self.integral(self.any_alive(n))

    def any_alive(self, n: Num) -> Array:
        """Chance that at least one of several rollouts reaches each position.

        Parameters
        ----------
        n : float or ndarray
            Rollouts [-].

        Returns
        -------
        ndarray
            Along the first axis [-].

        Examples
        --------
        >>> float(exact_lengths(10.0).any_alive(4.0)[0, 0])
        1.0
        """
        with np.errstate(divide="ignore"):
            found = np.asarray(n * np.log1p(-_COLUMN))
        np.expm1(found, out=found)
        return np.negative(found, out=found)

    def until(self, survival_fraction: Num) -> Lengths:
        """Cut where a share of rollouts is still being written.

        Parameters
        ----------
        survival_fraction : float or ndarray
            Share that reaches the cut [-].

        Returns
        -------
        Lengths
            The same below the cut.

        Examples
        --------
        >>> some = lognormal_lengths(1000.0, 4000.0, 8000.0)
        >>> round(float(some.until(0.5).longest_tokens), -2)
        1000.0
        """
        below = self.survival >= np.asarray(survival_fraction)
        cut = np.max(np.where(below, self.tokens, 0.0), axis=0, keepdims=True)
        return Lengths(np.minimum(self.tokens, cut))

    def repeated(self, share_fraction: Num) -> Lengths:
        """What is written where a share of rollouts fails, half-way on average, and is begun again.

        Parameters
        ----------
        share_fraction : float or ndarray
            Attempts that fail, below 1 [-].

        Returns
        -------
        Lengths
            Of whole rollouts and what was lost before them.

        Examples
        --------
        >>> exact = exact_lengths(1000.0)
        >>> round(float(exact.repeated(0.2).mean_tokens), -1), exact.repeated(0.0) is exact
        (1120.0, True)
        """
        share = np.asarray(share_fraction, float)
        if not np.any(share > 0):
            return self
        tokens, lost = np.broadcast_arrays(self.tokens, share / (1 - share))
        columns = [
            _mixed(column, float(part)) for column, part in zip(tokens.T, np.atleast_2d(lost.T)[:, 0], strict=True)
        ]
        return Lengths(np.stack(columns, axis=1))

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Lengths of single rollouts.

        Parameters
        ----------
        n : int
            Rollouts [-].
        rng : Generator
            Of the draws.

        Returns
        -------
        ndarray
            Of the first sample, each at least 1 [token].

        Examples
        --------
        >>> some = lengths_of_mean(1000.0, 3000.0)
        >>> drawn = some.draw(100_000, np.random.default_rng(0))
        >>> round(float(drawn.mean()), -1), float(drawn.max())
        (1000.0, 3000.0)
        """
        positions = self.tokens.reshape(len(self.tokens), -1)[::-1, 0]
        return np.maximum(np.interp(rng.random(n), SURVIVAL[::-1], positions), _SHORTEST)

    @property
    def survival(self) -> Array:
        """Share of rollouts that reach each position, shaped like the positions [-]."""
        return np.broadcast_to(_COLUMN, self.tokens.shape)


def _mixed(tokens: Array, failures: float) -> Array:
    """Positions where some rollouts have a number of failures before them, each half as long as the rollout."""
    counts = np.arange(_MOST_FAILURES + 1)
    rate = failures / (1 + failures)
    weights = (1 - rate) * rate**counts
    weights[-1] += 1 - weights.sum()
    # each position stands for a share of the rollouts: all of them, repeated and not, are put in order again
    middles, shares = (tokens[1:] + tokens[:-1]) / 2, SURVIVAL[:-1] - SURVIVAL[1:]
    longer = np.concatenate([middles * (1 + count / 2) for count in counts])
    parts = np.concatenate([weight * shares for weight in weights])
    order = np.argsort(longer, kind="stable")
    levels = np.cumsum(parts[order]) - parts[order] / 2
    found = np.interp(1 - SURVIVAL, levels, longer[order])
    found[0], found[-1] = 0.0, tokens[-1] * (1 + counts[-1] / 2)
    # a midpoint rule: the mean is that of the parts
    inside = Lengths(found)
    found[1:-1] *= float(np.dot(parts, longer)) / float(np.asarray(inside.mean_tokens))
    return np.asarray(np.maximum.accumulate(found))


def single(values: Array) -> Num:
    """Drop a sample axis of one: a point stays a number.

    Parameters
    ----------
    values : ndarray
        Along the sample axis, in any unit [-].

    Returns
    -------
    float or ndarray
        In the same unit [-].

    Examples
    --------
    >>> float(single(np.array([2.0])))
    2.0
    """
    return values.reshape(values.shape[1:]) if values.shape[:1] == (1,) else values


def agreed(values: Num) -> Num:
    """Say once what all samples say: what follows from it is then worked out once too.

    Parameters
    ----------
    values : float or ndarray
        Along the sample axis, in any unit [-].

    Returns
    -------
    float or ndarray
        The number that all samples share, or the samples [-].

    Examples
    --------
    >>> float(agreed(np.array([8.0, 8.0]))), agreed(np.array([8.0, 9.0])).tolist()
    (8.0, [8.0, 9.0])
    """
    array = np.asarray(values)
    return array.flat[0] if np.all(array == array.flat[0]) else array


def _positions(rising: Array, longest: Num) -> Lengths:
    """Put a start before the positions, cut them at the longest allowed, and end there."""
    n_rising, *samples = np.broadcast_shapes(rising.shape, np.shape(longest))
    tokens = np.empty((n_rising + 2, *samples))
    tokens[0], tokens[-1] = 0.0, longest
    np.clip(rising, _SHORTEST, longest, out=tokens[1:-1])
    return Lengths(tokens)


def exact_lengths(tokens: Num) -> Lengths:
    """Rollouts of one length.

    Parameters
    ----------
    tokens : float or ndarray
        Of every rollout [token].

    Returns
    -------
    Lengths
        Without a tail.

    Examples
    --------
    >>> float(exact_lengths(50.0).longest_tokens)
    50.0
    """
    return _positions(np.asarray(tokens, float) + 0.0 * _SCORES[:, None], tokens)


def lognormal_lengths(median_tokens: Num, p95_tokens: Num, longest_tokens: Num) -> Lengths:
    """Log-normal lengths, cut at the longest that is allowed: a rollout that reaches it ends there.

    Parameters
    ----------
    median_tokens, p95_tokens : float or ndarray
        Quantiles before the cut [token].
    longest_tokens : float or ndarray
        Where rollouts are cut [token].

    Returns
    -------
    Lengths
        The share beyond the cut stands at the cut.

    Raises
    ------
    QuantityError
        A 95 % quantile below the median, or a cut below it.

    Examples
    --------
    >>> round(float(lognormal_lengths(1000.0, 1000.0 * np.exp(1.6449), 1e9).mean_tokens), -1)
    1650.0
    """
    if np.any(np.asarray(p95_tokens) < np.asarray(median_tokens)):
        raise QuantityError("rollout lengths: the 95 % quantile must not lie below the median")
    if np.any(np.asarray(longest_tokens) < np.asarray(median_tokens)):
        raise QuantityError("rollout lengths: the longest must not lie below the median")
    spread = np.log(np.asarray(p95_tokens) / np.asarray(median_tokens)) / Z_95
    return _positions(median_tokens * np.exp(spread * _SCORES[:, None]), longest_tokens)


def lengths_of_mean(mean_tokens: Num, longest_tokens: Num, spread: float = LENGTH_SPREAD) -> Lengths:
    """Log-normal lengths, cut at the longest, whose mean after the cut is given.

    Parameters
    ----------
    mean_tokens : float or ndarray
        After the cut [token].
    longest_tokens : float or ndarray
        Where rollouts are cut [token].
    spread : float
        Standard deviation of the logarithm before the cut [-].

    Returns
    -------
    Lengths
        With that mean, to a part in a thousand.

    Raises
    ------
    QuantityError
        A mean above the longest.

    Examples
    --------
    >>> round(float(lengths_of_mean(1000.0, 4096.0).mean_tokens))
    1000
    """
    mean, longest = np.broadcast_arrays(np.asarray(mean_tokens, float), np.asarray(longest_tokens, float))
    if np.any(mean > longest):
        raise QuantityError(
            f"rollout lengths: a mean of {float(np.max(mean)):g} tokens exceeds the longest, {float(np.min(longest)):g}"
        )
    growth = np.exp(spread * _SCORES.reshape(-1, *(1,) * max(mean.ndim, 1)))
    # in means: samples whose longest is the same multiple of the mean have one distribution, unless its start is cut
    middle: Num = -(spread**2)
    end = agreed(np.round(longest / mean, _RATIO_DECIMALS))
    start = _SHORTEST / mean if np.any(np.exp(middle) * growth[0] < _SHORTEST / mean) else 0.0
    top = np.log(end) + 4 * spread + 1
    for _ in range(_MOST_STEPS):
        cut = np.clip(np.exp(middle) * growth, start, end)
        reached = np.tensordot(_WEIGHTS, cut, 1)
        if np.all(np.abs(reached - 1) < _CLOSE):
            break
        # the logarithm of the mean is concave in that of the median: Newton's steps come from below and do not pass it
        slope = np.tensordot(_WEIGHTS, np.where(cut < end, cut, 0.0), 1) / reached
        step = -np.log(reached) / np.maximum(slope, _FLAT)
        middle = np.minimum(middle + step, top)
    return _positions(mean * np.exp(middle) * growth, longest)


def default_longest(room_tokens: Num, mean_tokens: Num, p95_tokens: Num | None = None) -> Num:
    """Where rollouts are cut when nothing is said.

    Parameters
    ----------
    room_tokens : float or ndarray
        What the model's context leaves beside the prompt; infinite where it has no limit [token].
    mean_tokens : float or ndarray
        Of the rollouts [token].
    p95_tokens : float or ndarray, optional
        Their 95th percentile, where it is known [token].

    Returns
    -------
    float or ndarray
        Three times the percentile, or else the mean, inside the context [token].

    Examples
    --------
    >>> asked = ((1e9, 1000.0), (1e9, 1000.0, 2500.0), (2e3, 1e3))
    >>> tuple(float(default_longest(*one)) for one in asked)
    (3000.0, 7500.0, 2000.0)
    """
    wanted = LONGEST_OVER_MEAN * mean_tokens if p95_tokens is None else LONGEST_OVER_P95 * p95_tokens
    return np.maximum(np.minimum(wanted, room_tokens), 1.0)


def spread_of_lengths(largest_ratio: float, share_fraction: float) -> float:
    """Width of a log-normal distribution whose quantile over mean is known.

    ``exp(sigma z - sigma^2 / 2) = ratio``, of whose two answers the narrower is meant.

    Parameters
    ----------
    largest_ratio : float
        Quantile over mean, at least 1 [-].
    share_fraction : float
        Share of values below the quantile [-].

    Returns
    -------
    float
        Standard deviation of the logarithm; its largest where no distribution reaches the ratio [-].

    Examples
    --------
    >>> round(spread_of_lengths(3.0, 0.999), 3)
    0.379
    """
    z = NormalDist().inv_cdf(share_fraction)
    return z - math.sqrt(max(z * z - 2 * math.log(largest_ratio), 0.0))


def empirical_lengths(tokens: Sequence[float] | Array) -> Lengths:
    """Lengths as they were observed.

    Parameters
    ----------
    tokens : sequence of float
        One per rollout [token].

    Returns
    -------
    Lengths
        Its quantiles.

    Raises
    ------
    QuantityError
        No rollout, or one without tokens.

    Examples
    --------
    >>> found = empirical_lengths([100.0, 200.0, 300.0, 400.0])
    >>> round(float(found.mean_tokens)), float(found.longest_tokens)
    (250, 400.0)
    """
    given = np.sort(np.asarray(tokens, float))
    if not given.size or given[0] < _SHORTEST or not np.isfinite(given[-1]):
        raise QuantityError("rollout lengths: expected a list of token counts, each at least 1")
    # a midpoint rule keeps the mean: each observation stands for an equal share
    shares = (np.arange(given.size) + 0.5) / given.size
    return _positions(np.interp(1 - SURVIVAL[1:-1], shares, given)[:, None], given[-1])
