"""Sales and serving cost of a model by month: users, prices that follow a market, tokens that answer to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num, Range, Uncertain
from computeledger.economics.scaling.laws import read_law

Floats = NDArray[np.float64]
#: Months that are looked at, sold or not: the longest life, and how far ahead a date of retirement is sought.
MOST_MONTHS = 120
#: What a nat of loss takes off the logarithm of a token's price. Assumption: sellers ask 5 to 10 times as much for the
#: 70B as for the 8B of one family (``open_model_prices.csv``), which differ by 0.09 nats in the shipped law: 18 to 25;
#: who buys the small one says less.
VALUE_PER_NAT = Range(5.0, 25.0)
#: Ways in which a stream of tokens is paid for.
SOLD = ("tokens", "subscription", "nothing")


@dataclass(frozen=True, slots=True)
class Market:
    """How users, prices and costs move, each a fraction by month except the exponents.

    Attributes
    ----------
    growth : float or ndarray
        Of users and of the tokens sold one by one, before what prices do [1/month].
    churn : float or ndarray
        Share of paying users lost [1/month].
    conversion : float or ndarray
        Share of free users who start to pay [1/month].
    price_decline : float or ndarray
        By which competitors' price of the same quality falls [1/month].
    follow : float or ndarray
        Exponent with which the model's own token price follows: 0 keeps it, 1 keeps up [-].
    demand_elasticity : float or ndarray
        Tokens sold fall as ``(own price / competitors' price)^-elasticity`` [-].
    cost_decline : float or ndarray
        By which serving a token gets cheaper [1/month].
    """

    growth: Num = 0.0
    churn: Num = 0.0
    conversion: Num = 0.0
    price_decline: Num = 0.0
    follow: Num = 1.0
    demand_elasticity: Num = 0.0
    cost_decline: Num = 0.0


@dataclass(frozen=True, slots=True)
class Sales:
    """What is sold and served if a life were its first month over and over: that month's traffic, prices and costs.

    Attributes
    ----------
    life : float or ndarray
        How long it is served [month].
    token_usd : float or ndarray
        Income of the tokens that are sold one by one [USD].
    cost_usd : mapping of str to float or ndarray
        Cost of serving the traffic of each way of paying, see :data:`SOLD` [USD].
    subscription_usd : float or ndarray
        Of a paying user and month [USD].
    paying_users, free_users : float or ndarray
        At release [-].
    """

    life: Num
    token_usd: Num
    cost_usd: Mapping[str, Num]
    subscription_usd: Num = 0.0
    paying_users: Num = 0.0
    free_users: Num = 0.0


@dataclass(frozen=True, slots=True)
class Months:
    """Each month, whole, on the first axis.

    Attributes
    ----------
    served : ndarray
        The part of it within the life [-].
    demand : mapping of str to ndarray
        Traffic of each way of paying over the first month's (the first that has users) [-].
    sold : ndarray
        Whether tokens are sold one by one: while their price covers the cost of serving them.
    token_usd, subscription_usd : ndarray
        Sales [USD].
    cost_usd : mapping of str to ndarray
        Of serving each way of paying [USD].
    paying_users, free_users : ndarray
        At its start [-].
    """

    served: Floats
    demand: Mapping[str, Floats]
    sold: Floats
    token_usd: Floats
    subscription_usd: Floats
    cost_usd: Mapping[str, Floats]
    paying_users: Floats
    free_users: Floats

    @property
    def revenue_usd(self) -> Floats:
        """Of whole months [USD]."""
        return self.token_usd + self.subscription_usd

    @property
    def margin_usd(self) -> Floats:
        """Revenue less the cost of serving, of whole months [USD]."""
        return self.revenue_usd - sum(self.cost_usd.values())

    def over_life(self, monthly: Floats) -> Floats:
        """Sum of what months bring while the model is served."""
        return np.asarray((monthly * self.served).sum(axis=0))


def months_of(sales: Sales, market: Market, horizon: int = MOST_MONTHS, to_the_end: bool = False) -> Months:
    """Sales and costs by month, from the first month's traffic on: tokens and the cost of serving follow demand.

    With ``t`` the month, ``d`` the decline of competitors' price, ``f`` the exponent that follows it, ``e`` the
    elasticity and ``g`` the growth: own price ``(1 - d)^(f t)``, tokens sold one by one
    ``(1 + g)^t (1 - d)^((1 - f) e t)``; free users ``F <- F (1 + g - c)``, paying ones
    ``P <- P (1 + g) (1 - k) + c F``. The tokens of each way of paying follow its users; unpaid ones without users,
    ``g``. Tokens are sold one by one in the months in which their price covers the cost of serving them, ``to_the_end``
    in all.

    Examples
    --------
    >>> sales = Sales(2.0, 300.0, {"tokens": 100.0})
    >>> found = months_of(sales, Market(growth=1.0, price_decline=0.5))
    >>> found.token_usd[:3, 0], found.cost_usd["tokens"][:3, 0]
    (array([150., 150.,   0.]), array([ 50., 100.,   0.]))
    """
    t = np.arange(horizon, dtype=float)[:, None]
    parts = (market.growth, market.price_decline, market.follow, market.demand_elasticity, market.cost_decline,
             market.churn, market.conversion, sales.life, sales.paying_users, sales.free_users)  # fmt: skip
    g, d, f, e, k, lost, won, life, paying_0, free_0 = np.broadcast_arrays(*(np.atleast_1d(one) for one in parts))
    served = np.clip(life - t, 0.0, 1.0)
    own_price = (1 - d) ** (f * t)
    paying, free = _users(np.stack([paying_0, free_0]), g, lost, won, horizon)
    grown, cheaper = (1 + g) ** t, (1 - k) ** t
    is_covered = sales.token_usd * own_price >= sales.cost_usd.get("tokens", 0.0) * cheaper
    sold = np.where(to_the_end | is_covered, 1.0, 0.0)
    demand = {
        "tokens": grown * (1 - d) ** ((1 - f) * e * t) * sold,
        "subscription": paying / first_users(paying),
        "nothing": np.where(free_0 > 0, free / first_users(free), grown),
    }
    return Months(
        served=served,
        demand=demand,
        sold=sold,
        token_usd=sales.token_usd / life * own_price * demand["tokens"],
        subscription_usd=sales.subscription_usd * paying,
        cost_usd={name: cost / life * demand[name] * cheaper for name, cost in sales.cost_usd.items()},
        paying_users=paying,
        free_users=free,
    )


def first_users(users: Floats) -> Floats:
    """How many there are in the first month that has any; 1 where none has.

    Examples
    --------
    >>> first_users(np.array([[0.0, 3.0, 0.0], [2.0, 4.0, 0.0]]))
    array([2., 3., 1.])
    """
    found = np.take_along_axis(users, np.argmax(users > 0, axis=0)[None], axis=0)[0]
    return np.where(found > 0, found, 1.0)


def _users(start: Floats, growth: Floats, lost: Floats, won: Floats, horizon: int) -> tuple[Floats, Floats]:
    """Paying and free users at the start of each month."""
    paying, free = start
    out = np.empty((2, horizon, start.shape[1]))
    for month in range(horizon):
        out[:, month] = paying, free
        paying, free = paying * (1 + growth) * (1 - lost) + won * free, np.maximum(free * (1 + growth - won), 0.0)
    return out[0], out[1]


def behaviour() -> dict[str, tuple[Uncertain, str]]:
    """What a market does where nothing is said, with its source or the word assumption.

    Examples
    --------
    >>> value, ground = behaviour()["price_decline"]
    >>> round(value.low, 3), round(value.high, 3), ground.partition(",")[0]
    (0.167, 0.265, 'epoch-price-decline')
    """
    table, origin = read_law("price_decline_epoch")
    slow, fast = (1 - table["constants"][key] ** (-1 / 12) for key in ("slowest_per_year", "gpt4_science_per_year"))
    known = f"{origin['source']}, {origin['date']}, {origin['locator']}"
    return {
        "price_decline": (Range(slow, fast, bounded=True), known),
        "follow": (Range(0.25, 0.75, bounded=True), "assumption: the price of a model falls less than its quality's"),
        "demand_elasticity": (Range(0.5, 1.5), "assumption: around what hosts of one model see, not verified"),
        "growth": (0.0, "assumption: traffic does not grow of itself"),
        "churn": (0.0, "assumption: what new users replace"),
        "conversion": (0.0, "assumption: no free user starts to pay"),
        "cost_decline": (0.0, "assumption: the same GPUs and engine for life"),
        "batch_share": (0.0, "assumption: nothing is sold at the batch price"),
        "batch_discount": (0.5, "assumption: half the price"),
        "unserved": (0.0, "assumption: all demand is served"),
        "delay_elasticity": (Range(0.05, 0.3), "assumption: few users leave for speed"),
        "value_per_nat": (VALUE_PER_NAT, "assumption: what sellers ask for 70B over 8B of one family, or less"),
        "rl_nats": (Range(0.005, 0.03), "assumption: around what twice the tokens take off"),
        "discount_rate": (0.1, "assumption: a yearly cost of capital"),
        "build_time": (0.0, "assumption: sold as soon as it is paid for"),
    }
