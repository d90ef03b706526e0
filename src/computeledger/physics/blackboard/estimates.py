"""Estimates in closed form: Fermi totals, growth, and the odds of many samples.

Closed forms of the source documents ``compute-ledger`` and ``training-systems``; ``C...`` ids name rows of the claims
table. A :class:`computeledger.arrays.Range` becomes samples before it comes here.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.errors import QuantityError


def lifetime_tokens(tokens_per_s: Num, lifetime_s: Num) -> Num:
    """Fermi estimate of what a model serves in its life, ``rate x life``.

    Parameters
    ----------
    tokens_per_s : float or ndarray
        Mean rate over all deployments [token/s].
    lifetime_s : float or ndarray
        Time in service [s].

    Returns
    -------
    float or ndarray
        Lifetime tokens; multiplied bounds are wider than the interval of sampled inputs [token].

    References
    ----------
    compute-ledger C023, C024, C026; C167 samples it: 4.0e13 / 1.4e14 / 5.1e14 at 5 / 50 / 95 %.

    Examples
    --------
    >>> from computeledger.units import DAY_S
    >>> lifetime_tokens(10e6, 30 * DAY_S), lifetime_tokens(100e6, 90 * DAY_S)
    (25920000000000.0, 777600000000000.0)
    """
    return tokens_per_s * lifetime_s


def grown(start: Num, growth: Num, n_periods: Num) -> Num:
    """Value after compound growth, ``x g^n``.

    Parameters
    ----------
    start : float or ndarray
        Value now [-].
    growth : float or ndarray
        Factor per period, ``g`` [-].
    n_periods : float or ndarray
        Periods, ``n``; need not be whole [-].

    Returns
    -------
    float or ndarray
        Value then, in the unit of ``start`` [-].

    References
    ----------
    training-systems C040, C048..C050, C054.

    Examples
    --------
    >>> grown(25.0, 6.0, 2), round(grown(1.0, 1.5 / 1.4, 10), 2)
    (900.0, 1.99)
    """
    return start * growth**n_periods


def growth_per_period(ratio: Num, n_periods: Num) -> Num:
    """Factor per period that compounds to a ratio, ``ratio^(1 / n)``.

    Parameters
    ----------
    ratio : float or ndarray
        End over start [-].
    n_periods : float or ndarray
        Periods between them [-].

    Returns
    -------
    float or ndarray
        Factor per period [-].

    References
    ----------
    training-systems C047, C053.

    Examples
    --------
    >>> round(growth_per_period(2.2, 2), 2)
    1.48
    """
    return ratio ** (1.0 / n_periods)


def growth_periods(ratio: Num, growth: Num) -> Num:
    """Periods until a ratio is reached, ``ln ratio / ln g``: doubling time, and how much slower a slower growth is.

    Parameters
    ----------
    ratio : float or ndarray
        End over start; 2 gives the doubling time [-].
    growth : float or ndarray
        Factor per period, above 1 [-].

    Returns
    -------
    float or ndarray
        Periods. With ``ratio`` the factor of a faster growth per period, the slowdown [-].

    References
    ----------
    training-systems C051, C052, C055..C057.

    Examples
    --------
    >>> round(float(growth_periods(2.0, 1.35)), 2), round(float(growth_periods(14.0, 2.2)), 2)
    (2.31, 3.35)
    """
    return np.log(ratio) / np.log(growth)


def all_succeed_fraction(success_fraction: Num, n_tasks: Num) -> Num:
    """Chance that every one of independent tasks succeeds, ``p^n``.

    Parameters
    ----------
    success_fraction : float or ndarray
        Chance of one task [-].
    n_tasks : float or ndarray
        Tasks [-].

    Returns
    -------
    float or ndarray
        Chance of all [-].

    References
    ----------
    training-systems C103 (0.0028 %; the document writes 0.0003 %), C104.

    Examples
    --------
    >>> f"{all_succeed_fraction(0.35, 10):.3g}", round(all_succeed_fraction(0.9998, 10), 3)
    ('2.76e-05', 0.998)
    """
    return success_fraction**n_tasks


def samples_for_success(success_fraction: Num, target_fraction: Num) -> Num:
    """Samples at which one or more succeeds with a wanted chance, ``ln(1 - target) / ln(1 - p)``.

    Parameters
    ----------
    success_fraction : float or ndarray
        Chance of one sample, ``p`` [-].
    target_fraction : float or ndarray
        Wanted chance, below 1 [-].

    Returns
    -------
    float or ndarray
        Samples, not rounded, at least 1; infinite where ``p`` is 0 [-].

    References
    ----------
    training-systems C102, C105.

    Examples
    --------
    >>> round(float(samples_for_success(0.35, 0.9998)), 1), round(float(samples_for_success(0.35**10, 0.9998**10)))
    (19.8, 225315)
    """
    with np.errstate(divide="ignore"):
        wanted = np.log1p(-np.asarray(target_fraction, float)) / np.log1p(-np.asarray(success_fraction, float))
    return np.asarray(np.maximum(1.0, wanted))


def pass_at_k(n_samples: Num, n_correct: Num, k: Num) -> Num:
    """Unbiased estimate of pass@k, ``1 - C(n - c, k) / C(n, k)``.

    Parameters
    ----------
    n_samples, n_correct : float or ndarray
        Samples drawn for a problem and those that are right, whole numbers, ``n`` and ``c`` [-].
    k : float or ndarray
        Samples that are allowed, at most ``n`` [-].

    Returns
    -------
    float or ndarray
        Chance that one of ``k`` samples is right [-].

    Raises
    ------
    QuantityError
        More right samples than samples, ``k`` outside 1..n, or counts that are not whole.

    Examples
    --------
    >>> round(float(pass_at_k(10, 3, 1)), 12), float(pass_at_k(10, 8, 3))
    (0.3, 1.0)
    """
    n, c, draws = np.broadcast_arrays(*(np.asarray(x, float) for x in (n_samples, n_correct, k)))
    whole = (n == np.floor(n)) & (c == np.floor(c)) & (draws == np.floor(draws))
    wrong = ~(whole & (c >= 0) & (c <= n) & (draws >= 1) & (draws <= n))
    if wrong.any():
        given = f"n = {n[wrong][0]:g}, c = {c[wrong][0]:g}, k = {draws[wrong][0]:g}"
        raise QuantityError(f"{given}: whole numbers with 0 <= c <= n and 1 <= k <= n are needed")
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1.0, n.max() + 1.0)))))
    n_wrong = np.maximum(n - c, draws)  # fewer wrong samples than draws: one draw is certainly right
    log_all_wrong = _log_choose(log_factorial, n_wrong, draws) - _log_choose(log_factorial, n, draws)
    return np.where(n - c < draws, 1.0, -np.expm1(log_all_wrong))


def _log_choose(
    log_factorial: NDArray[np.float64], total: NDArray[np.float64], chosen: NDArray[np.float64]
) -> NDArray[np.float64]:
    of, taken = total.astype(int), chosen.astype(int)
    return np.asarray(log_factorial[of] - log_factorial[taken] - log_factorial[of - taken])


def best_of_n_mean(mean: Num, standard_deviation: Num, n_samples: Num) -> Num:
    """Expected best of normal draws, ``mu + sigma integral over x > 0 of 1 - P(x)^n - P(-x)^n``.

    The mean of the largest of ``n`` draws, by quadrature: ``P`` is the normal distribution. ``sigma sqrt(2 ln n)`` is
    its bound from above, 21 % too high for a hundred draws and 11 % for ten thousand.

    Parameters
    ----------
    mean, standard_deviation : float or ndarray
        Of one draw's score [-].
    n_samples : float or ndarray
        Draws, at least 1 [-].

    Returns
    -------
    float or ndarray
        Score of the best, in the unit of ``mean`` [-].

    Raises
    ------
    QuantityError
        Fewer than one draw.

    References
    ----------
    training-systems C101, which writes ``mean + variance log n``: that is not the normal's maximum.

    Examples
    --------
    >>> best_of_n_mean(0.0, 1.0, np.array([2, 10, 100, 10_000])).round(4)
    array([0.5642, 1.5388, 2.5076, 3.8516])
    """
    asked = np.asarray(n_samples, float)
    if not np.all(asked >= 1):
        raise QuantityError(f"n = {float(np.min(asked)):g}: at least one draw is needed")
    # each count once: thousands of ways to share GPUs have few counts of replicas
    counts, places = np.unique(asked, return_inverse=True)
    n = counts[:, None]
    step, above = _normal_tail()
    # the integrand is even, so that the trapezoid rule converges faster than any power of the step
    integrand = -np.expm1(n * np.log1p(-above)) - above**n
    gain: NDArray[np.float64] = step * (integrand.sum(axis=-1) - integrand[:, 0] / 2)
    return mean + standard_deviation * gain[places].reshape(asked.shape)


@functools.cache
def _normal_tail() -> tuple[float, NDArray[np.float64]]:
    """Step of a grid from 0 to 38 standard deviations, and the chance of a draw above each point."""
    step = 0.02
    return step, np.array([math.erfc(x / math.sqrt(2.0)) / 2.0 for x in np.arange(0.0, 38.0, step)])
