"""How far a driver of income may move until the training is no longer paid back, and how the money moves with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from computeledger.arrays import Num, median
from computeledger.economics.income.months import Floats, Market, Months, Sales, first_users, months_of
from computeledger.economics.income.returns import payback_of, value_of_months

#: What all prices, all traffic and the cost of serving are multiplied by along a curve.
FACTORS = (0.25, 0.35, 0.5, 0.71, 1.0, 1.41, 2.0, 2.83, 4.0)
#: Drivers that are rates by month: the most that is looked at, and whether more of it is better.
RATES: Mapping[str, tuple[float, bool]] = {
    "price_decline": (0.95, False), "churn": (0.95, False), "conversion": (0.95, True), "growth": (0.5, True),
}  # fmt: skip
#: Points of a rate's curve; samples that it, and a rate's break-even, is worked out for; steps of the bisection.
_POINTS, _FEW, _STEPS = 9, 512, 16
#: Most steps towards a break-even of prices or costs.
_NEWTON = 32


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Money where a driver has one value."""

    value: float
    margin_fraction: Floats
    payback: Floats
    npv_usd: Floats


@dataclass(frozen=True, slots=True)
class BreakEven:
    """A driver's value at which the net present value is zero, all else as planned.

    Attributes
    ----------
    name : str
        Of the driver.
    planned : float or ndarray
        Its value in the plan.
    value : ndarray
        At which the value is zero; beyond an end of ``bounds`` where no value within them does it.
    is_floor : bool
        Whether it must stay above.
    bounds : tuple of float
        Within which it is looked for.
    unit : str
        Of both.
    """

    name: str
    planned: Num
    value: Floats
    is_floor: bool
    bounds: tuple[float, float]
    unit: str


@dataclass(frozen=True, slots=True)
class Cash:
    """A model's money by month, and how it is discounted.

    Attributes
    ----------
    sales : Sales
        At the first month's prices.
    market : Market
        As planned.
    planned : Months
        What they give.
    capital : ndarray
        Spent before [USD].
    rate : float or ndarray
        Of discount, by month [-].
    delay : float or ndarray
        Between spending and release [month].
    """

    sales: Sales
    market: Market
    planned: Months
    capital: Floats
    rate: Num
    delay: Num


def moved_by_factor(cash: Cash, driver: str, factor: float) -> CurvePoint:
    """Money where all prices, all traffic or the cost of serving is a multiple of the plan's.

    Demand does not answer to the price here: a break-even of the price is what it must stay above at the same sales.

    Parameters
    ----------
    cash : Cash
        As planned.
    driver : str
        ``price``, ``traffic`` or ``serving_cost``.
    factor : float
        Times the plan's [-].

    Returns
    -------
    CurvePoint
        Margin, payback and net present value.
    """
    months = months_of(_scaled(cash.sales, driver, factor), cash.market, len(cash.planned.served))
    spent = months.revenue_usd - months.margin_usd
    return _point(cash, factor, months.revenue_usd * months.served, spent * months.served)


def _scaled(sales: Sales, driver: str, factor: Num) -> Sales:
    """Sales with all prices, all traffic or the cost of serving a multiple."""
    cost = {name: one * factor for name, one in sales.cost_usd.items()}
    if driver == "serving_cost":
        return replace(sales, cost_usd=cost)
    if driver == "price":
        return replace(sales, token_usd=sales.token_usd * factor, subscription_usd=sales.subscription_usd * factor)
    return replace(sales, token_usd=sales.token_usd * factor, cost_usd=cost, paying_users=sales.paying_users * factor,
                   free_users=sales.free_users * factor)  # fmt: skip


def ratio_break_even(cash: Cash, driver: str) -> Floats:
    """What all prices, or the cost of serving, over the plan's make the net present value zero.

    Value is linear in either as long as the months stay in which tokens are sold, and convex as these follow: Newton's
    steps from the answer for a sale to the end of the life are exact after a few.

    Parameters
    ----------
    cash : Cash
        As planned.
    driver : str
        ``price`` or ``serving_cost``.

    Returns
    -------
    ndarray
        Of prices: infinite where nothing is earned; of the cost: not above 0 where revenue pays no training [-].
    """
    horizon = int(np.ceil(np.max(cash.sales.life)))
    ratio: Num = 1.0
    for step in range(_NEWTON):
        at = np.where(np.isfinite(ratio), ratio, 1.0)
        months = months_of(_scaled(cash.sales, driver, at), cash.market, horizon, to_the_end=step == 0)
        earned, cost = (
            value_of_months(one * months.served, cash.rate, cash.delay)
            for one in (months.revenue_usd, months.revenue_usd - months.margin_usd)
        )
        asked, base = (cost + cash.capital, earned) if driver == "price" else (earned - cash.capital, cost)
        none = np.where(asked > 0, np.inf, -np.inf) if step == 0 else ratio
        moves = np.isfinite(ratio) & (base != 0)
        found = np.where(moves, at * asked / np.where(moves, base, 1.0), none)
        if np.allclose(found, ratio, rtol=1e-12, atol=0.0):
            break
        ratio = found
    return np.asarray(ratio)


def _point(cash: Cash, value: float, earned: Floats, spent: Floats) -> CurvePoint:
    revenue, cost, left = earned.sum(axis=0), spent.sum(axis=0), earned - spent
    capital = np.broadcast_to(cash.capital, np.broadcast_shapes(cash.capital.shape, revenue.shape))
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = np.where(revenue > 0, 1 - cost / revenue, -np.inf)
    left = np.broadcast_to(left, (len(left), *capital.shape))
    npv = value_of_months(left, cash.rate, cash.delay) - capital
    return CurvePoint(value, margin, payback_of(capital, left), npv)


def moved_by_rate(cash: Cash, driver: str, value: Num) -> CurvePoint:
    """Money where a rate of the market has another value, from the same first month on.

    Parameters
    ----------
    cash : Cash
        As planned.
    driver : str
        One of :data:`RATES`.
    value : float or ndarray
        By month [-].

    Returns
    -------
    CurvePoint
        Margin, payback and net present value.
    """
    changed = months_of(cash.sales, replace(cash.market, **{driver: value}), len(cash.planned.served))
    # subscribers who come after release send what each of them does in the plan
    more = {"subscription": first_users(changed.paying_users) / first_users(cash.planned.paying_users)}
    spent = sum((cost * more.get(name, 1.0) for name, cost in changed.cost_usd.items()), start=np.zeros(()))
    earned = changed.revenue_usd * changed.served
    return _point(cash, float(np.median(value)), earned, spent * changed.served)


def rate_break_even(cash: Cash, driver: str) -> BreakEven:
    """The value of a rate at which the net present value is zero, by bisection.

    Parameters
    ----------
    cash : Cash
        As planned.
    driver : str
        One of :data:`RATES`.

    Returns
    -------
    BreakEven
        At an end of its bounds where no value between them does it.
    """
    end, is_floor = RATES[driver]
    most = max(end, float(np.max(getattr(cash.market, driver)))) if driver == "growth" else end
    low_end = -end if driver == "growth" else 0.0
    shape = cash.capital.shape
    low, high = np.full(shape, low_end), np.full(shape, most)
    for _ in range(_STEPS):
        half = (low + high) / 2
        pays = moved_by_rate(cash, driver, half).npv_usd >= 0
        lower = pays if is_floor else ~pays
        low, high = np.where(lower, low, half), np.where(lower, half, high)
    found = np.where(low == low_end, low_end, np.where(high == most, most, (low + high) / 2))
    planned: Num = getattr(cash.market, driver)
    return BreakEven(driver, planned, found, is_floor, (low_end, most), "fraction")


def rate_curve(cash: Cash, driver: str) -> list[CurvePoint]:
    """Money along a rate, from none of it (growth: from its loss) to five times the plan's median, or 5 % a month."""
    planned, end = median(getattr(cash.market, driver)), RATES[driver][0]
    most = min(max(5 * planned, 0.05), max(end, planned) if driver == "growth" else end)
    least = -min(most, end) if driver == "growth" else 0.0
    return [moved_by_rate(cash, driver, float(value)) for value in np.linspace(least, most, _POINTS)]


def fewer(cash: Cash) -> Cash:
    """The same with some hundred of the samples, and the months of the longest life alone."""
    size = cash.capital.size
    step = max(size // _FEW, 1)

    def thin(value: Num) -> Num:
        found = np.asarray(value)
        return found[..., ::step] if found.ndim and found.shape[-1] == size else value

    of = cash.sales
    sales = replace(
        of, life=thin(of.life), token_usd=thin(of.token_usd), subscription_usd=thin(of.subscription_usd),
        cost_usd={name: thin(one) for name, one in of.cost_usd.items()}, paying_users=thin(of.paying_users),
        free_users=thin(of.free_users),
    )  # fmt: skip
    market = Market(**{one.name: thin(getattr(cash.market, one.name)) for one in fields(Market)})
    horizon = int(np.ceil(np.max(sales.life)))
    return Cash(sales, market, months_of(sales, market, horizon), np.asarray(thin(cash.capital)), thin(cash.rate),
                thin(cash.delay))  # fmt: skip


def best_replacement(cash: Cash) -> Floats:
    """Months after release in which the next model of the same cost and income is best released.

    ``argmax over T of (-K (1 + r)^build + sum to T of m_t (1 + r)^-(t + 1)) r / (1 - (1 + r)^-T)``: the month from
    which a model of its own, as dear and as well received, earns more than this one still does.

    Parameters
    ----------
    cash : Cash
        As planned; margins count beyond the life.

    Returns
    -------
    ndarray
        Infinite where that lies beyond ten years, or where no such model pays [month].

    Examples
    --------
    >>> sales = Sales(120.0, 12000.0, {})  # 100 a month at first
    >>> market = Market(price_decline=0.1)
    >>> plan = Cash(sales, market, months_of(sales, market), np.array([25.0]), 1e-9, 0.0)
    >>> best_replacement(plan)
    array([2.])
    """
    rate = np.maximum(np.asarray(cash.rate, float), 1e-9)
    margin = cash.planned.margin_usd
    t = np.arange(1, len(margin) + 1, dtype=float)[:, None]
    total = np.cumsum(margin * (1 + rate) ** -t, axis=0) - cash.capital * (1 + rate) ** np.asarray(cash.delay, float)
    yearly = total * rate / -np.expm1(-t * np.log1p(rate))
    best = np.argmax(yearly, axis=0)
    pays = np.take_along_axis(yearly, best[None], axis=0)[0] > 0
    return np.where(pays & (best < len(margin) - 1), best + 1.0, np.inf)
