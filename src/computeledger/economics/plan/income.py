"""What a plan's inference earns: sales by month from its streams, and what they return on the training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num, Range, Uncertain, centred_ranks
from computeledger.economics.income.breakeven import (
    FACTORS,
    RATES,
    BreakEven,
    Cash,
    CurvePoint,
    best_replacement,
    fewer,
    moved_by_factor,
    rate_break_even,
    rate_curve,
    ratio_break_even,
)
from computeledger.economics.income.months import (
    MOST_MONTHS,
    SOLD,
    Market,
    Months,
    Sales,
    behaviour,
    months_of,
)
from computeledger.economics.income.returns import internal_rate, last_month, monthly, payback_of, value_of_months
from computeledger.economics.plan.gpu_hour import HourValue, hour_values
from computeledger.economics.plan.phases import Carried, Phase
from computeledger.economics.plan.read import INCOME, SHARED, Plan, Section, way_of_paying
from computeledger.errors import PlanError
from computeledger.units import DAY_S, MONTH_S, TOKENS_PER_MTOK
from computeledger.workloads.result import Figure, Term

Floats = NDArray[np.float64]
#: Rank correlation below which an input is no driver.
WEAKEST_DRIVER = 0.05
#: Input that says which share of the GPU-hours paid for is busy.
OCCUPANCY = "inference.occupancy"
_MARKET = ("growth", "churn", "conversion", "price_decline", "follow", "demand_elasticity", "cost_decline")


@dataclass(frozen=True, slots=True)
class IncomeDriver:
    """An uncertain input and how strongly it moves the net present value."""

    name: str
    value: Range
    npv_correlation: float


@dataclass(frozen=True, slots=True)
class Users:
    """What users cost, and what they read and write.

    Attributes
    ----------
    free_user_usd : ndarray or None
        What serving a free user costs a month [USD].
    conversion_usd : ndarray or None
        What serving free users costs for each who starts to pay [USD].
    daily_tokens : mapping of str to ndarray
        Of a paying and of a free user, cached ones included [token].
    """

    free_user_usd: Floats | None
    conversion_usd: Floats | None
    daily_tokens: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Returns:
    """What a model earns over its life.

    Attributes
    ----------
    capital_usd : ndarray
        Pretraining, RL and experiments, spent before release [USD].
    revenue_usd, cost_usd : ndarray
        Of the life: sales, and what serving them costs, free users included [USD].
    sold_for : ndarray
        In which tokens are sold one by one: their price covers the cost of serving them; infinite where none have a
        price [month].
    demand_ratio : ndarray
        Tokens served over the life over those of the ledger, which holds the first month's traffic to its end [-].
    margin_fraction : ndarray
        Of the revenue left after serving; minus infinity without revenue [-].
    payback : ndarray
        From release until the margins have returned the capital; infinite where they do not within the life [month].
    npv_usd : ndarray
        Net present value at ``discount_rate``, when training is paid [USD].
    irr_per_year : ndarray
        Rate at which that is zero [-].
    retirement : ndarray
        After which serving earns nothing more; infinite where that lies beyond ten years [month].
    next_release : ndarray
        When the next model of the same cost and income is best released; infinite beyond ten years, or where none
        pays [month].
    price_ratio_break_even : ndarray
        All prices over the plan's at which the net present value is zero [-].
    traffic_ratio_break_even : ndarray
        All traffic over the plan's at which it is; infinite where serving itself loses [-].
    users : Users
        What free ones cost, what all read and write.
    break_even : tuple of BreakEven
        Of each driver: where the net present value is zero.
    curves : mapping of str to list of CurvePoint
        Margin, payback and value along each driver.
    worth : tuple of HourValue
        What one more GPU-hour brings in each ledger.
    schedule : Months
        Sales and costs by month.
    figures : tuple of Figure
        Working.
    assumptions : tuple of Term
        How the market behaves where the plan is silent.
    drivers : tuple of IncomeDriver
        Strongest first.
    """

    capital_usd: Floats
    revenue_usd: Floats
    cost_usd: Floats
    sold_for: Floats
    demand_ratio: Floats
    margin_fraction: Floats
    payback: Floats
    npv_usd: Floats
    irr_per_year: Floats
    retirement: Floats
    next_release: Floats
    price_ratio_break_even: Floats
    traffic_ratio_break_even: Floats
    users: Users
    break_even: tuple[BreakEven, ...]
    curves: Mapping[str, list[CurvePoint]]
    worth: tuple[HourValue, ...]
    schedule: Months
    figures: tuple[Figure, ...]
    assumptions: tuple[Term, ...]
    drivers: tuple[IncomeDriver, ...]

    @property
    def pays_back_fraction(self) -> float:
        """Share of the samples that pay back within the life [-]."""
        return float(np.mean(np.isfinite(self.payback)))


def estimate_income(
    plan: Plan, phases: Mapping[str, Phase], inputs: Mapping[str, Uncertain], draws: Mapping[str, Num]
) -> Returns | None:
    """Work out what a plan earns; None where it says no prices.

    The traffic of the inference is that of the first month: tokens, and what serving them costs, follow demand.

    ``NPV = -K + sum over months of (revenue - cost) (1 + r)^-(t + 1 + build)``

    Raises
    ------
    PlanError
        Where it is sold for longer than ten years.
    """
    if plan.income is None:
        return None
    section, inference = plan.income, plan.sections["inference"]
    streams = {one.name: one for one in inference.traffic or (inference,)}
    of_streams = {one.key: way_of_paying(streams[one.key], section) for one in phases["inference"].carried}
    served_by, ways = _by_sender(phases["inference"], of_streams, section, draws)
    sales = _sales(section, served_by, ways, draws, [*streams.values()])
    market = Market(**{name: draws[f"{INCOME}.{name}"] for name in _MARKET})
    months = months_of(sales, market)
    capital = np.atleast_1d(np.asarray(sum(one.usd for name, one in phases.items() if name != "inference"), float))
    capital, revenue, cost = np.broadcast_arrays(
        capital, months.over_life(months.revenue_usd), months.over_life(months.revenue_usd - months.margin_usd)
    )
    rate, delay = monthly(draws[f"{INCOME}.discount_rate"]), draws[f"{INCOME}.build_time"] / MONTH_S
    money = Cash(sales, market, months, capital, rate, delay)
    few = fewer(money)
    cash = months.margin_usd * months.served
    earned = value_of_months(months.revenue_usd * months.served, rate, delay)
    npv = value_of_months(cash, rate, delay) - capital
    price_ratio = ratio_break_even(money, "price")
    margin = 1 - _over(cost, revenue)
    traffic_ratio = _over(capital, np.maximum(npv + capital, 0.0))
    return Returns(
        capital_usd=capital,
        revenue_usd=revenue,
        cost_usd=cost,
        sold_for=months.over_life(months.sold) if "output_price" in section else np.asarray(np.inf),
        demand_ratio=_demand_ratio(months, sales.life, served_by, ways),
        margin_fraction=margin,
        payback=payback_of(capital, cash),
        npv_usd=npv,
        irr_per_year=internal_rate(capital, cash, delay),
        retirement=last_month(months.margin_usd),
        next_release=best_replacement(money),
        price_ratio_break_even=price_ratio,
        traffic_ratio_break_even=traffic_ratio,
        users=_users(months, sales.life, served_by.carried, ways, draws[f"{INCOME}.conversion"]),
        break_even=(
            *_of_prices(money, served_by, ways, price_ratio),
            *_of_use(
                money,
                served_by,
                traffic_ratio,
                ratio_break_even(money, "serving_cost"),
                None if {"gpu_hours", "utilization"} & set(inference.values) else draws.get(OCCUPANCY, 1.0),
            ),
            *(rate_break_even(few, name) for name in _moving(money)),
        ),
        curves=_curves(few),
        worth=hour_values(
            *_followed(phases, months, sales.life, served_by, ways),
            draws,
            earned * (1 + rate) ** delay,
            (npv + capital) * (1 + rate) ** delay,
        ),
        schedule=months,
        figures=_figures((capital, revenue, cost, margin, npv), sales),
        assumptions=_assumptions(section, draws),
        drivers=_drivers(inputs, draws, npv),
    )


def _over(top: Floats, bottom: Floats) -> Floats:
    """A ratio; infinite over nothing."""
    return np.where(bottom > 0, top / np.where(bottom > 0, bottom, 1.0), np.inf)


def _demand_ratio(months: Months, life: Num, inference: Phase, ways: Mapping[str, str]) -> Floats:
    """Tokens served over those of the ledger."""
    tokens = sum((_tokens(one) for one in inference.carried), start=np.zeros(()))
    served = (_tokens(one) * months.over_life(months.demand[ways[one.key]]) for one in inference.carried)
    return np.asarray(sum(served, start=np.zeros(())) / life / np.maximum(tokens, 1e-300))


def _followed(
    phases: Mapping[str, Phase], months: Months, life: Num, served_by: Phase, ways: Mapping[str, str]
) -> tuple[Mapping[str, Phase], Num]:
    """Phases whose inference takes the GPU-time that demand asks for, and the share of it that is paid for."""
    asked = [(ways[one.key], one.time_fraction * months.over_life(months.demand[ways[one.key]]) / life)
             for one in served_by.carried]  # fmt: skip
    total = sum((time for _, time in asked), start=np.zeros(()))
    paid = sum((time for way, time in asked if way != "nothing"), start=np.zeros(()))
    total = np.where(total > 0, total, 1.0)  # nothing is served: what it would bring is none
    of = phases["inference"]
    inference = replace(of, gpu_hours=of.gpu_hours * total, usd=of.usd * total)
    return {**phases, "inference": inference}, paid / total


def _by_sender(
    inference: Phase, ways: Mapping[str, str], section: Section, draws: Mapping[str, Num]
) -> tuple[Phase, Mapping[str, str]]:
    """One stream as its parts by who sends them, where the income states their shares."""
    shares = {way: draws[f"{INCOME}.{key}"] for key, way in SHARED.items() if key in section}
    if not shares:
        return inference, ways
    (one,) = inference.carried
    rest = 1 - sum(shares.values(), start=np.zeros(()))
    if np.any(rest < 0):
        raise PlanError("[income] subscription_traffic and free_traffic share one stream: together at most 100 %")
    shares = {ways[one.key]: rest + shares.pop(ways[one.key], 0.0)} | shares
    parts = tuple(
        Carried(way, one.prefilled_tokens * share, one.cached_tokens * share, one.output_tokens * share,
                one.time_fraction * share)
        for way, share in shares.items()
    )  # fmt: skip
    return replace(inference, carried=parts), {way: way for way in shares}


def _of_prices(money: Cash, inference: Phase, ways: Mapping[str, str], ratio: Floats) -> Iterator[BreakEven]:
    """Prices at which the net present value is zero, all of them together, in the first month."""
    sold = sum((_tokens(one) for one in inference.carried if ways[one.key] == "tokens"), start=np.zeros(()))
    if np.any(np.asarray(money.sales.token_usd) > 0):
        per_mtok = money.sales.token_usd / np.maximum(sold, 1e-300) * TOKENS_PER_MTOK
        yield BreakEven("token_price", per_mtok, per_mtok * ratio, True, (0.0, np.inf), "USD/Mtok")
    if np.any(np.asarray(money.sales.subscription_usd) > 0):
        monthly_usd = money.sales.subscription_usd
        yield BreakEven("subscription_price", monthly_usd, monthly_usd * ratio, True, (0.0, np.inf), "USD")


def _of_use(
    money: Cash, inference: Phase, traffic_ratio: Floats, cost_ratio: Floats, occupancy: Num | None
) -> Iterator[BreakEven]:
    """Traffic, and use of the GPUs that serve it, at which the net present value is zero."""
    tokens = sum((_tokens(one) for one in inference.carried), start=np.zeros(()))
    per_day = tokens / (money.sales.life * MONTH_S / DAY_S)
    yield BreakEven("traffic", per_day, per_day * traffic_ratio, True, (0.0, np.inf), "tokens/day")
    if occupancy is not None:
        needed = np.where(cost_ratio > 0, occupancy / np.where(cost_ratio > 0, cost_ratio, 1.0), np.inf)
        yield BreakEven("occupancy", occupancy, needed, True, (0.0, 1.0), "fraction")


def _tokens(one: Carried) -> Num:
    return one.prefilled_tokens + one.cached_tokens + one.output_tokens


def _moving(money: Cash) -> list[str]:
    """Rates of the market that move this income."""
    of = money.sales
    sold, paying, free = (bool(np.any(np.asarray(one) > 0)) for one in (of.token_usd, of.paying_users, of.free_users))
    pays = bool(np.any(np.asarray(of.subscription_usd) > 0))
    used = {"price_decline": sold, "churn": paying, "conversion": free and pays, "growth": True}
    return [name for name in RATES if used[name]]


def _curves(few: Cash) -> dict[str, list[CurvePoint]]:
    """Margin, payback and value along each driver."""
    scaled = {
        driver: [moved_by_factor(few, driver, factor) for factor in FACTORS]
        for driver in ("price", "traffic", "serving_cost")
    }
    return scaled | {name: rate_curve(few, name) for name in _moving(few)}


def _sales(
    section: Section, inference: Phase, ways: Mapping[str, str], draws: Mapping[str, Num], streams: list[Section]
) -> Sales:
    """Income of the tokens at the first month's prices, and the cost of each way of paying."""

    def priced(key: str, instead: str = "") -> Num:
        return draws.get(f"{INCOME}.{key}", draws.get(f"{INCOME}.{instead}", 0.0))

    by_token = [one for one in inference.carried if ways[one.key] == "tokens"]
    whole_price = sum(
        one.prefilled_tokens * priced("input_price") + one.output_tokens * priced("output_price")
        + one.cached_tokens * priced("cached_price", "input_price")
        for one in by_token
    ) / TOKENS_PER_MTOK  # fmt: skip
    lives = [draws[f"{one.name}.life"] for one in streams if "life" in one]
    life = draws[f"{INCOME}.life"] if "life" in section else np.maximum.reduce(np.broadcast_arrays(*lives))
    life = life / MONTH_S
    if np.max(life) > MOST_MONTHS:
        raise PlanError(f"[income] life = {np.max(life):.3g} months: it is at most {MOST_MONTHS}, ten years")
    return Sales(
        life=life,
        token_usd=whole_price * (1 - priced("batch_share") * priced("batch_discount")),
        cost_usd={
            way: sum(inference.usd * one.time_fraction for one in inference.carried if ways[one.key] == way)
            for way in SOLD
        },
        subscription_usd=priced("subscription_price"),
        paying_users=priced("paying_users"),
        free_users=priced("free_users"),
    )


def _users(months: Months, life: Num, carried: tuple[Carried, ...], ways: Mapping[str, str], conversion: Num) -> Users:
    """What a free user and a conversion cost, and tokens of a user and day."""
    per_month: Floats | None = None
    per_conversion: Floats | None = None
    per_day: dict[str, Floats] = {}
    for name, way, users in (("paying", "subscription", months.paying_users), ("free", "nothing", months.free_users)):
        user_months = months.over_life(users)
        own = [one for one in carried if ways[one.key] == way]
        if not own or not np.all(user_months > 0):
            continue
        tokens = sum(_tokens(one) for one in own) * months.over_life(months.demand[way]) / life
        per_day[name] = np.asarray(tokens / user_months / (MONTH_S / DAY_S))
        if name == "free":
            cost = months.over_life(months.cost_usd[way])
            per_month = cost / user_months
            per_conversion = cost / (user_months * conversion) if np.all(np.asarray(conversion) > 0) else None
    return Users(per_month, per_conversion, per_day)


def _figures(found: tuple[Floats, Floats, Floats, Floats, Floats], sales: Sales) -> tuple[Figure, ...]:
    """Working of the money."""
    capital, revenue, cost, margin, npv = found
    said = (Term("revenue", revenue, "USD"), Term("cost", cost, "USD"))
    own = (Term("a life of first months' tokens", sales.token_usd, "USD"),
           Term("subscription", sales.subscription_usd, "USD", "plan", "income.subscription_price"),
           Term("life", sales.life, "months"))  # fmt: skip
    formula = "sum over months of tokens sold, as demand has them, x own price + paying users x subscription"
    return (
        Figure("income.revenue_usd", revenue, "USD", formula, own),
        Figure("income.margin_fraction", margin, "", "1 - cost / revenue", said),
        Figure("income.npv_usd", npv, "USD", "-K + sum over months of (revenue - cost) (1 + r)^-(t + 1 + build)",
               (Term("K", capital, "USD", "figure", "pretraining, RL and experiments"), *said)),
    )  # fmt: skip


def _assumptions(section: Section, draws: Mapping[str, Num]) -> tuple[Term, ...]:
    """How the market behaves where the plan is silent, as far as it moves anything."""
    silent = [name for name in behaviour() if name not in section]
    idle = {"batch_discount": "batch_share", "churn": "paying_users", "conversion": "free_users"}
    idle |= dict.fromkeys(("price_decline", "follow", "demand_elasticity", "batch_share"), "output_price")
    return tuple(
        Term(f"{INCOME}.{name}", draws[f"{INCOME}.{name}"], "fraction" if name in _FRACTIONS else "",
             *_origin(behaviour()[name][1]))
        for name in silent
        if name not in idle or idle[name] in section
    )  # fmt: skip


_FRACTIONS = ("price_decline", "batch_share", "batch_discount", "growth", "churn", "conversion", "cost_decline",
              "discount_rate")  # fmt: skip


def _origin(ground: str) -> tuple[str, str]:
    """Whether it is assumed or published, and where that is said."""
    head, _, rest = ground.partition(": ")
    return ("assumption", rest) if head == "assumption" else ("fact", ground)


def _drivers(inputs: Mapping[str, Uncertain], draws: Mapping[str, Num], npv: Floats) -> tuple[IncomeDriver, ...]:
    """Rank correlation of every uncertain input with the net present value."""
    ranks = centred_ranks(npv)
    found = [
        IncomeDriver(name, value, float(np.sum(centred_ranks(draws[name]) * ranks)))
        for name, value in inputs.items()
        if isinstance(value, Range)
    ]
    strong = [one for one in found if abs(one.npv_correlation) >= WEAKEST_DRIVER]
    return tuple(sorted(strong, key=lambda one: abs(one.npv_correlation), reverse=True))
