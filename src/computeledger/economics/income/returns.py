"""What capital earns: payback, net present value, internal rate of return, the month in which to stop."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.units import MONTHS_PER_YEAR

Floats = NDArray[np.float64]
#: Monthly rates between which a return is sought, and how many steps narrow it down.
_RATES = (*np.linspace(-0.5, -0.02, 25), *np.geomspace(1e-6, 10.0, 60))
_HALVINGS = 60


def value_of_months(cash: Floats, rate: Num, delay: Num = 0.0) -> Floats:
    """Present value of what months bring at their end, at a monthly rate.

    ``sum over t of cash_t (1 + r)^-(t + 1 + delay)``

    Parameters
    ----------
    cash : ndarray
        Months on the first axis [USD].
    rate : float or ndarray
        By month [-].
    delay : float or ndarray
        Until the first month starts [month].

    Returns
    -------
    ndarray
        On the other axes of ``cash`` [USD].

    Examples
    --------
    >>> float(value_of_months(np.array([[110.0], [121.0]]), 0.1)[0])
    200.0
    """
    discount = 1 / (1 + np.asarray(rate, float))
    total = np.zeros(np.broadcast_shapes(cash.shape[1:], discount.shape))
    for month in cash[::-1]:
        total = (total + month) * discount
    return np.asarray(total * discount ** np.asarray(delay, float))


def monthly(rate_per_year: Num) -> Num:
    """The rate by month that compounds to one by year.

    Examples
    --------
    >>> round(float(monthly(0.1)), 5)
    0.00797
    """
    return (1 + rate_per_year) ** (1 / MONTHS_PER_YEAR) - 1


def internal_rate(capital: Floats, cash: Floats, delay: Num = 0.0) -> Floats:
    """Yearly rate at which the net present value is zero: the largest, where cash changes its sign more than once.

    Parameters
    ----------
    capital : ndarray
        Spent before the first month [USD].
    cash : ndarray
        Months on the first axis [USD].
    delay : float or ndarray
        Between spending and the first month [month].

    Returns
    -------
    ndarray
        Yearly; minus infinity where most of the capital is lost within months at any rate, infinity without
        capital [-].

    Examples
    --------
    >>> cash = np.zeros((12, 1))
    >>> cash[11] = 120.0
    >>> round(float(internal_rate(np.array([100.0]), cash)[0]), 6)
    0.2
    """
    used = cash[: int(np.max(np.nonzero(np.any(cash != 0, axis=1))[0], initial=0)) + 1]

    def worth(rate: Num) -> Floats:
        return value_of_months(used, rate, delay) - capital

    low, high = np.full(capital.shape, -np.inf), np.full(capital.shape, np.inf)
    above = None
    for rate in reversed(_RATES):
        pays = (worth(rate) >= 0) & np.isneginf(low)
        low = np.where(pays, rate, low)
        high = np.where(pays, np.inf if above is None else above, high)
        above = rate
    found = np.isfinite(low) & np.isfinite(high)
    start, end = np.where(found, low, 0.0), np.where(found, high, 0.0)
    for _ in range(_HALVINGS if np.any(found) else 0):
        half = (start + end) / 2
        pays = worth(half) >= 0
        start, end = np.where(pays, half, start), np.where(pays, end, half)
    yearly = (1 + start) ** MONTHS_PER_YEAR - 1
    return np.where(found, yearly, np.where(np.isneginf(low), -np.inf, np.inf))


def payback_of(capital: Floats, cash: Floats) -> Floats:
    """Months of sales after which they have returned the capital; infinite where they never do.

    Parameters
    ----------
    capital : ndarray
        Spent before [USD].
    cash : ndarray
        Months on the first axis [USD].

    Returns
    -------
    ndarray
        A part of a month counts evenly [month].

    Examples
    --------
    >>> payback_of(np.array([25.0, 100.0]), np.full((3, 2), 10.0))
    array([2.5, inf])
    """
    total = np.cumsum(cash, axis=0)
    paid = total >= capital
    first = np.argmax(paid, axis=0)
    month = np.take_along_axis(cash, first[None], axis=0)[0]
    before = np.take_along_axis(total, first[None], axis=0)[0] - month
    part = (capital - before) / np.where(month > 0, month, 1.0)
    return np.where(paid.any(axis=0), np.where(month > 0, first + part, 0.0), np.inf)


def last_month(margin: Floats) -> Floats:
    """Month after which serving earns nothing more: where the sum of its margins is largest.

    Parameters
    ----------
    margin : ndarray
        Revenue less cost of whole months, on the first axis [USD].

    Returns
    -------
    ndarray
        0 where it never covers its cost, infinite where it still does in the last month [month].

    Examples
    --------
    >>> last_month(np.array([[3.0, -1.0, 1.0], [1.0, -1.0, 1.0], [-2.0, -1.0, 1.0]]))
    array([ 2.,  0., inf])
    """
    total = np.concatenate([np.zeros((1, *margin.shape[1:])), np.cumsum(margin, axis=0)])
    best = np.argmax(total, axis=0).astype(float)
    return np.where(best == len(margin), np.inf, best)
