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
#: Share of the rollouts whose failures are not told apart: they stand at their mean number, so that the mean is exact.
_MANY_FAILURES = 1e-4
#: Three points with the mean, variance and skew of a normal variable, and their weights.
_THREE_POINTS, _THREE_WEIGHTS = np.array([-math.sqrt(3), 0.0, math.sqrt(3)]), np.array([1, 4, 1]) / 6
#: Digits to which multiples of a mean are told apart: a quotient's last ones are rounding.
_RATIO_DECIMALS = 12


@dataclass(frozen=True)
class Lengths:
    """A distribution of rollout lengths.

    Attributes
    ----------
    tokens : ndarray
        Positions that :data:`SURVIVAL` of the rollouts reach, along the first axis; samples along the second [token].
    attempt_tokens : ndarray or None
        Of them, those of the attempt under way; None where none fails [token].
    """

    tokens: Array
    attempt_tokens: Array | None = None

    @property
    def held_tokens(self) -> Array:
        """What a rollout that has reached each position has in its cache, its prompt apart [token]."""
        return self.tokens if self.attempt_tokens is None else self.attempt_tokens

    @functools.cached_property
    def mean_held_tokens(self) -> Num:
        """What a rollout under way has in its cache on average, its prompt apart [token]."""
        return self.integral(_COLUMN * self.held_tokens) / self.mean_tokens

    @property
    def longest_held_tokens(self) -> Num:
        """Longest attempt that the distribution allows [token]."""
        return single(self.held_tokens[-1])

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

    def expected_longest_tokens(self, n: Num, least_tokens: Num = 0.0) -> Num:
        """Longest of several rollouts, on average, or a least length where that is longer.

        Parameters
        ----------
        n : float or ndarray
            Rollouts [-].
        least_tokens : float or ndarray
            What the longest counts as at least [token].

        Returns
        -------
        float or ndarray
            ``integral of 1 - (1 - S)^n``, with 1 below the least [token].

        Examples
        --------
        >>> some = lognormal_lengths(1000.0, 4000.0, 8000.0)
        >>> bool(some.mean_tokens < some.expected_longest_tokens(64.0) < 8000)
        True
        """
        if not np.any(np.asarray(least_tokens) > 0):
            return self.integral(self.any_alive(n))
        beyond = np.maximum(least_tokens - self.longest_tokens, 0.0)
        return self.integral(np.where(self.tokens < least_tokens, 1.0, self.any_alive(n))) + beyond

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
        return Lengths(np.minimum(self.tokens, cut), self.attempt_tokens)

    def remaining(self, share_fraction: Num) -> tuple[Lengths, Array]:
        """What rollouts under way have still to write, where a share of them is at any point and the others begin.

        In a steady state ``P(more than x left) = integral of S beyond x / mean``; of those, the mean age is
        ``integral of (y - x) S(y) beyond x / integral of S beyond x``.

        Parameters
        ----------
        share_fraction : float or ndarray
            Of rollouts that are at any point [-].

        Returns
        -------
        tuple of Lengths and ndarray
            What is left, and how much has been written where so much of it is [token].

        Examples
        --------
        >>> some = lengths_of_mean(1000.0, 3000.0)
        >>> left, _ = some.remaining(1.0)
        >>> round(float(left.mean_tokens / some.mean_age_tokens), 2), some.remaining(0.0)[0] is some
        (1.0, True)
        """
        share = np.asarray(share_fraction, float)
        if not np.any(share > 0):
            return self, self.held_tokens
        steps = np.diff(self.tokens, axis=0)
        parts = steps * (_COLUMN[1:] + _COLUMN[:-1]) / 2
        beyond = np.concatenate([np.cumsum(parts[::-1], axis=0)[::-1], np.zeros_like(parts[:1])])
        moments = steps * (beyond[1:] + beyond[:-1]) / 2
        ahead = np.concatenate([np.cumsum(moments[::-1], axis=0)[::-1], np.zeros_like(parts[:1])])
        age = self.tokens + np.divide(ahead, beyond, where=beyond > 0, out=np.zeros_like(ahead))
        columns = [np.interp(-SURVIVAL, -column / column[0], place)
                   for column, place in zip(beyond.T, self.tokens.T, strict=True)]  # fmt: skip
        left = np.stack(columns, axis=1)
        held = np.broadcast_to(self.held_tokens, self.tokens.shape)
        ages = [np.interp(np.interp(at, place, column), place, cache)
                for at, place, column, cache in zip(left.T, self.tokens.T, age.T, held.T, strict=True)]  # fmt: skip
        return Lengths((1 - share) * self.tokens + share * left), (1 - share) * held + share * np.stack(ages, axis=1)

    def repeated(self, share_fraction: Num) -> Lengths:
        """What is written where a share of attempts fails, half-way on average, and is begun again.

        ``mean = L (1 + f / (1 - f) / 2)``: failures before the attempt that does not fail are geometric.

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
        >>> round(float(exact.repeated(0.9).mean_tokens), -1), float(exact.repeated(0.9).longest_held_tokens)
        (5500.0, 1000.0)
        """
        share = np.asarray(share_fraction, float)
        if not np.any(share > 0):
            return self
        tokens, failed = np.broadcast_arrays(self.tokens, share)
        shares = np.atleast_2d(failed.T)[:, 0]
        columns = [_mixed(column, float(part)) for column, part in zip(tokens.T, shares, strict=True)]
        found = Lengths(np.stack(columns, axis=1))
        # of the attempt under way by position: as in the sample whose share is the median one
        typical = int(np.argsort(shares)[len(shares) // 2])
        held = _held(tokens[:, typical], float(shares[typical]), columns[typical])
        held = held / np.maximum(columns[typical], _SHORTEST)
        many = failed[0] / (1 - failed[0])
        mean = self.mean_age_tokens * (1 + many / 3) / (1 + many / 2)
        inside = Lengths(found.tokens, held[:, None] * found.tokens)
        held_tokens = np.minimum(inside.held_tokens * mean / inside.mean_held_tokens, tokens[-1])
        held_tokens[-1] = tokens[-1]
        return Lengths(found.tokens, held_tokens)

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


def _failures(share_fraction: float) -> tuple[Array, Array]:
    """Count failures before an attempt that does not fail, and give their chances; many of them as their mean."""
    n = max(math.ceil(math.log(_MANY_FAILURES) / math.log(share_fraction)), 1) if share_fraction > 0 else 1
    counts = np.arange(n + 1, dtype=float)
    chances = (1 - share_fraction) * share_fraction**counts
    chances[-1] = share_fraction**n
    counts[-1] += share_fraction / (1 - share_fraction)
    return counts, chances


def _held(tokens: Array, share_fraction: float, written: Array) -> Array:
    """Tokens of the attempt under way where so many are written, half a rollout being lost by each failure."""
    counts, chances = _failures(share_fraction)
    middles, shares = (tokens[1:] + tokens[:-1]) / 2, SURVIVAL[:-1] - SURVIVAL[1:]
    halves = np.maximum(np.repeat(middles / 2, len(counts)), _SHORTEST / 2)
    count, chance = np.tile(counts, len(middles)), np.outer(shares, chances).ravel()
    at = written[:, None]
    age = at - halves * np.minimum(np.floor(at / halves), count)
    alive = chance * (at < halves * (count + 2))
    total = alive.sum(axis=1)
    ages = (alive * age).sum(axis=1)
    return np.asarray(np.divide(ages, total, where=total > 0, out=np.full(len(written), tokens[-1])))


def _mixed(tokens: Array, share_fraction: float) -> Array:
    """Positions where some rollouts have a number of failures before them, each anywhere in the rollout.

    What ``k`` of them lose is ``k / 2 +- sqrt(k / 12)`` rollouts: three points with that mean and deviation stand for
    it.
    """
    failures, chances = _failures(share_fraction)
    counts = (failures[:, None] + 2 * np.sqrt(failures[:, None] / 12) * _THREE_POINTS).ravel()
    weights = np.outer(chances, _THREE_WEIGHTS).ravel()
    # each position stands for a share of the rollouts: all of them, repeated and not, are put in order again
    middles, shares = (tokens[1:] + tokens[:-1]) / 2, SURVIVAL[:-1] - SURVIVAL[1:]
    longer = np.concatenate([middles * (1 + count / 2) for count in counts])
    parts = np.concatenate([weight * shares for weight in weights])
    order = np.argsort(longer, kind="stable")
    levels = np.cumsum(parts[order]) - parts[order] / 2
    found = np.interp(1 - SURVIVAL, levels, longer[order])
    found[0], found[-1] = 0.0, tokens[-1] * (1 + counts.max() / 2)
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
