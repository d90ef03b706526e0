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
    """What is sold and served over a life, at the prices and costs of its first month.

    Attributes
    ----------
    life : float or ndarray
        How long it is served [month].
    token_usd : float or ndarray
        Income of all tokens that are sold one by one, at the first month's price [USD].
    cost_usd : mapping of str to float or ndarray
        Cost of serving the tokens of each way of paying, see :data:`SOLD` [USD].
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
    """Each month, whole, on the first axis; ``served`` is the part of it within the life."""

    served: Floats
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


def months_of(sales: Sales, market: Market, horizon: int = MOST_MONTHS) -> Months:
    """Spread a life's sales and costs over its months.

    With ``t`` the month, ``d`` the decline of competitors' price, ``f`` the exponent that follows it, ``e`` the
    elasticity and ``g`` the growth: own price ``(1 - d)^(f t)``, tokens sold one by one
    ``(1 + g)^t (1 - d)^((1 - f) e t)``; free users ``F <- F (1 + g - c)``, paying ones
    ``P <- P (1 + g) (1 - k) + c F``. The tokens of each way of paying follow its users, and add up to the life's.

    Examples
    --------
    >>> sales = Sales(2.0, 300.0, {"tokens": 100.0})
    >>> found = months_of(sales, Market(price_decline=0.5))
    >>> found.token_usd[:3, 0], found.cost_usd["tokens"][:3, 0]
    (array([150. ,  75. ,  37.5]), array([50., 50., 50.]))
    """
    t = np.arange(horizon, dtype=float)[:, None]
    parts = (market.growth, market.price_decline, market.follow, market.demand_elasticity, market.cost_decline,
             market.churn, market.conversion, sales.life, sales.paying_users, sales.free_users)  # fmt: skip
    g, d, f, e, k, lost, won, life, paying_0, free_0 = np.broadcast_arrays(*(np.atleast_1d(one) for one in parts))
    served = np.clip(life - t, 0.0, 1.0)
    own_price = (1 - d) ** (f * t)
    paying, free = _users(np.stack([paying_0, free_0]), g, lost, won, horizon)
    shapes = {"tokens": (1 + g) ** t * (1 - d) ** ((1 - f) * e * t), "subscription": paying, "nothing": free}
    shares = {name: shape / _some((shape * served).sum(axis=0)) for name, shape in shapes.items()}
    cheaper = (1 - k) ** t
    return Months(
        served=served,
        token_usd=sales.token_usd * own_price * shares["tokens"],
        subscription_usd=sales.subscription_usd * paying,
        cost_usd={name: cost * shares[name] * cheaper for name, cost in sales.cost_usd.items()},
        paying_users=paying,
        free_users=free,
    )


def _some(total: Floats) -> Floats:
    """A sum to divide by: nothing shared stays nothing."""
    return np.where(total > 0, total, 1.0)


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
