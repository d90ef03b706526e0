"""What a plan earns: identities, limits, and DeepSeek's published day."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from computeledger.arrays import median
from computeledger.economics.income.months import Market, Sales, months_of
from computeledger.economics.income.returns import internal_rate, last_month, monthly, payback_of, value_of_months
from computeledger.economics.plan.gpu_hour import DEMAND_LAW, speed_for_cost
from computeledger.economics.plan.income import Returns
from computeledger.economics.plan.ledger import estimate_ledger
from computeledger.economics.plan.read import load_plan, read_plan
from computeledger.economics.scaling.laws import load_loss_law, pretraining_loss
from computeledger.errors import PlanError
from computeledger.interfaces.cli import main
from tests.commands import call

if TYPE_CHECKING:
    from computeledger.workloads.serving.search import PriceOfSpeed

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_PLAIN = {"price_decline": "0%", "input_price": "$1/Mtok", "output_price": "$4/Mtok"}
_INFERENCE = {"rate": "40B tokens/day", "life": "12 months", "layout": "tp1", "batch": 64, "utilization": "10%",
              "input_tokens": "3K tokens", "output_tokens": "1K tokens"}  # fmt: skip
_SOLD = {
    "model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h", "rl": {"skip": "none"},
    "pretraining": {"tokens": "15T tokens", "gpu_hours": "500K GPU-hours"},
    "inference": _INFERENCE,
}  # fmt: skip


def returns(income: dict[str, Any], **changes: Any) -> Returns:
    found = estimate_ledger(read_plan({**_SOLD, **changes, "income": income}), 256).income
    assert found is not None
    return found


def test_a_years_sales_by_hand() -> None:
    """40B tokens a day, a quarter of them output, at $1 and $4: $70K a day on a tenth of the peak."""
    found = returns({**_PLAIN, "discount_rate": "0%"})
    days = 365.25
    revenue = 40e3 * (0.75 * 1 + 0.25 * 4) * days
    hours = 2 * 7504658432 * 40e9 * days / (0.1 * 989.4e12 * 3600)
    margin = revenue - 2 * hours
    assert median(found.revenue_usd) == pytest.approx(revenue, rel=1e-9)
    assert median(found.cost_usd) == pytest.approx(2 * hours, rel=1e-3)
    assert median(found.capital_usd) == 1e6
    assert median(found.payback) == pytest.approx(1e6 / (margin / 12), rel=1e-3)
    assert median(found.npv_usd) == pytest.approx(margin - 1e6, rel=1e-3)
    assert np.all(np.isinf(found.retirement))


def test_deepseeks_day_earns_what_they_published() -> None:
    """Open-infra-index, day 6: $562,027 at R1's prices ($0.55, $0.14 cached, $2.19) against $87,072: 84.5 % kept."""
    tables: dict[str, Any] = tomllib.loads((EXAMPLES / "deepseek-day.toml").read_text("utf-8"))
    prices = {"input_price": "$0.55/Mtok", "cached_price": "$0.14/Mtok", "output_price": "$2.19/Mtok"}
    found = estimate_ledger(read_plan({**tables, "income": {**prices, "price_decline": "0%"}}), 512).income
    assert found is not None
    assert median(found.revenue_usd) == pytest.approx(562_027, rel=2e-4)
    assert median(found.margin_fraction) == pytest.approx(1 - 87_072 / 562_027, abs=0.02)
    low, high = np.quantile(found.margin_fraction, (0.05, 0.95))
    assert low < 1 - 87_072 / 562_027 < high


def test_without_revenue_nothing_is_paid_back() -> None:
    found = returns({**_PLAIN, "input_price": "$0/Mtok", "output_price": "$0/Mtok"})
    assert np.all(np.isinf(found.payback)) and np.all(np.isneginf(found.margin_fraction))
    assert np.all(np.isneginf(found.irr_per_year)) and np.all(found.retirement == 0)
    assert found.pays_back_fraction == 0 and np.all(np.isinf(found.price_ratio_break_even))


def test_twice_the_price_is_twice_the_revenue_at_the_same_cost() -> None:
    once, twice = returns(_PLAIN), returns({**_PLAIN, "input_price": "$2/Mtok", "output_price": "$8/Mtok"})
    assert twice.revenue_usd == pytest.approx(2 * once.revenue_usd)
    assert twice.cost_usd == pytest.approx(once.cost_usd)
    assert np.all(twice.payback < once.payback) and np.all(twice.npv_usd > once.npv_usd)


def test_at_its_break_even_price_and_its_break_even_traffic_the_value_is_nothing() -> None:
    found = returns({**_PLAIN, "build_time": "6 months"})
    price, traffic = median(found.price_ratio_break_even), median(found.traffic_ratio_break_even)
    priced = {"input_price": f"${price}/Mtok", "output_price": f"${4 * price}/Mtok", "build_time": "6 months"}
    assert median(returns({**_PLAIN, **priced}).npv_usd) == pytest.approx(0.0, abs=1.0)
    inference = {**_INFERENCE, "rate": f"{40 * traffic}B tokens/day"}
    fewer = returns({**_PLAIN, "build_time": "6 months"}, inference=inference)
    assert median(fewer.npv_usd) == pytest.approx(0.0, abs=1.0)


@pytest.mark.parametrize("delay", [0.0, 7.5])
def test_the_value_at_the_internal_rate_is_nothing(delay: float) -> None:
    rng = np.random.default_rng(3)
    cash, capital = rng.uniform(0.0, 10.0, (24, 50)), rng.uniform(1.0, 200.0, 50)
    rate = internal_rate(capital, cash, delay)
    assert np.all(np.isfinite(rate))
    assert value_of_months(cash, monthly(rate), delay) == pytest.approx(capital)
    assert np.all((rate > 0) == (cash.sum(axis=0) > capital))


def test_a_geometric_market_has_the_closed_form() -> None:
    """Price falls by d, tokens by (1 - f) e of it in the logarithm, cost by k, all from the first month's."""
    d, f, e, g, k, life = 0.1, 0.6, 1.2, 0.03, 0.02, 18
    months = months_of(Sales(float(life), 1000.0, {"tokens": 300.0}), Market(g, 0.0, 0.0, d, f, e, k))
    tokens = (1 + g) * (1 - d) ** ((1 - f) * e)
    for ratio, found, whole in (
        (tokens * (1 - d) ** f, months.token_usd, 1000.0), (tokens * (1 - k), months.cost_usd["tokens"], 300.0)
    ):  # fmt: skip
        assert months.over_life(found)[0] == pytest.approx(whole / life * (1 - ratio**life) / (1 - ratio))


@pytest.mark.parametrize("by", ["tokens", "subscription", "both"])
def test_prices_that_fall_faster_never_earn_more_and_growth_never_less(by: str) -> None:
    """Random markets: every step of the decline lowers revenue and value, every step of growth raises them."""
    rng = np.random.default_rng(11)
    n = 400
    token = rng.uniform(0.5, 2.0, n) * 1e3 * (by != "subscription")
    paying = 100.0 * (by != "tokens")
    costs = {"tokens": token * rng.uniform(0.1, 1.5, n), "subscription": rng.uniform(0.1, 1.0, n) * 10 * paying * 12}
    sales = Sales(rng.uniform(0.5, 24.0, n), token, costs, 10.0, paying)
    sales = replace(sales, cost_usd={**costs, "subscription": costs["subscription"] * sales.life / 12})
    known = Market(follow=rng.uniform(0, 1, n), demand_elasticity=rng.uniform(0, 2, n), churn=rng.uniform(0, 0.3, n),
                   cost_decline=rng.uniform(0, 0.1, n))  # fmt: skip
    rates = (0.0, 0.05, 0.17, 0.5, 0.6, 0.9, 0.99)

    def earned(**moved: float) -> tuple[np.ndarray[Any, Any], ...]:
        months = months_of(sales, replace(known, **moved), 24)
        return months.over_life(months.revenue_usd), value_of_months(months.margin_usd * months.served, 0.01)

    declining = [earned(price_decline=rate, growth=0.03) for rate in rates]
    growing = [earned(growth=rate, price_decline=0.17) for rate in (*rates, 3.0)]
    for of in (0, 1):
        for slow, fast in pairwise(declining):
            assert np.all(fast[of] <= slow[of] * (1 + 1e-9) + 1e-6)
        for slow, fast in pairwise(growing):
            assert np.all(fast[of] >= slow[of] * (1 - 1e-9) - 1e-6)


def test_the_shipped_plan_earns_less_the_faster_prices_fall() -> None:
    plan = tomllib.loads((EXAMPLES / "income.toml").read_text("utf-8"))
    found = []
    for decline in ("0%", "17%", "60%", "99%"):
        income = {**plan["income"], "price_decline": decline}
        found.append(estimate_ledger(read_plan({**plan, "income": income}), 64).income)
    for slow, fast in pairwise(one for one in found if one is not None):
        for name in ("npv_usd", "revenue_usd", "sold_for"):
            assert np.all(getattr(fast, name) <= getattr(slow, name) * (1 + 1e-9)), name
    assert len({median(one.npv_usd) for one in found if one is not None}) == len(found)


def test_tokens_of_a_user_stay_and_a_launch_starts_with_its_first_subscribers() -> None:
    months = months_of(Sales(6.0, 0.0, {"subscription": 60.0}, 10.0, 0.0, 1000.0), Market(conversion=0.01))
    assert months.paying_users[:2, 0] == pytest.approx([0.0, 10.0])
    assert months.cost_usd["subscription"][:6, 0] == pytest.approx(months.paying_users[:6, 0])
    unpaid = months_of(Sales(2.0, 0.0, {"nothing": 20.0}), Market(growth=0.5))
    assert unpaid.cost_usd["nothing"][:2, 0] == pytest.approx([10.0, 15.0])  # without a number of users too


def test_users_are_kept_lost_and_won() -> None:
    months = months_of(Sales(3.0, 0.0, {}, 10.0, 100.0, 1000.0), Market(growth=0.1, churn=0.2, conversion=0.05))
    assert months.paying_users[:3, 0] == pytest.approx([100, 138, 138 * 0.88 + 52.5])
    assert months.free_users[:3, 0] == pytest.approx([1000, 1050, 1102.5])
    assert months.subscription_usd == pytest.approx(10 * months.paying_users)


def test_a_price_that_falls_below_cost_ends_the_life() -> None:
    """At a tenth off a month, a margin of one half is gone after seven months: 0.9^7 < 1/2."""
    months = months_of(Sales(24.0, 200.0, {"tokens": 100.0}), Market(price_decline=0.1))
    assert last_month(months.margin_usd) == [7.0]
    assert payback_of(np.array([1e9]), months.margin_usd * months.served) == [np.inf]


def test_faster_declines_more_churn_and_dearer_gpus_earn_less() -> None:
    plan = tomllib.loads((EXAMPLES / "income.toml").read_text("utf-8"))

    def value(price: str = "$2/h", **income: str) -> float:
        tables = {**plan, "price": price, "income": {**plan["income"], **income}}
        found = estimate_ledger(read_plan(tables), 256).income
        assert found is not None
        return median(found.npv_usd)

    base = value()
    for less in ({"price_decline": "25..40%"}, {"churn": "10..20%"}, {"price": "$4/h"}, {"discount_rate": "50%"}):
        assert value(**less) < base
    assert value(conversion="2..4%") > base


def test_the_shipped_plan_says_what_it_assumes_and_prints_its_two_figures() -> None:
    found = estimate_ledger(load_plan(EXAMPLES / "income.toml"), 256).income
    assert found is not None
    assert found.users.free_user_usd is not None and found.users.conversion_usd is not None
    assert median(found.users.conversion_usd) > median(found.users.free_user_usd)
    assert {one.name for one in found.assumptions} >= {"income.follow", "income.demand_elasticity"}
    assert {one.origin for one in found.assumptions} <= {"assumption", "fact"}
    command = ["plan", str(EXAMPLES / "income.toml"), "--samples", "256"]
    document = json.loads(call(main, [*command, "--json"], EXAMPLES).stdout)
    assert document["payback_months"] == document["income"]["payback_months"]
    assert 0 < document["margin_fraction"]["p05"] < document["margin_fraction"]["p95"] < 1
    printed = call(main, command, EXAMPLES).stdout
    assert "payback_months" in printed and "margin_fraction" in printed


def test_a_silent_market_falls_as_published() -> None:
    income = {key: one for key, one in _PLAIN.items() if key != "price_decline"}
    (fact,) = (one for one in returns(income).assumptions if one.name == "income.price_decline")
    assert fact.origin == "fact" and fact.ground.startswith("epoch-price-decline")
    assert median(fact.value) == pytest.approx(0.213, abs=0.005)


@pytest.mark.parametrize(
    ("income", "changes", "said"),
    [
        ({}, {}, "give input_price and output_price, or subscription_price"),
        ({"input_price": "$1/Mtok"}, {}, "go together"),
        ({"subscription_price": "$20"}, {}, "paying_users is missing"),
        ({**_PLAIN, "subscription_price": "$20", "paying_users": 5}, {}, 'no stream is sold = "subscription"'),
        ({**_PLAIN, "free_users": "1M"}, {}, 'paid = "no"'),
        ({**_PLAIN, "price_decline": "100%"}, {}, "must be at most 0.99"),
        ({**_PLAIN, "cached_price": "$2/Mtok"}, {}, "cached_price is above input_price"),
        ({**_PLAIN, "life": "30 years"}, {}, "it is at most 120, ten years"),
        (_PLAIN, {"inference": {"skip": "not served"}}, "needs an [inference] section"),
        ({**_PLAIN, "outpt_price": "$1/Mtok"}, {}, "unknown key 'outpt_price'"),
    ],
)
def test_what_an_income_lacks_is_said(income: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as refused:
        returns(income, **changes)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_an_hour_of_pretraining_is_worth_what_a_little_more_of_it_sells() -> None:
    """By steps: tokens of a further hour, the loss that they take off, the demand for it, its margin."""
    found = returns(
        {**_PLAIN, "discount_rate": "0%", "demand_elasticity": 1.5, "value_per_nat": 20, "unserved": "100%"}
    )
    hours = {one.how: median(one.usd) for one in found.worth}
    law = load_loss_law(DEMAND_LAW)
    more = 15e12 * (1 + 1e-4)
    nats = float(pretraining_loss(8e9, 15e12, law) - pretraining_loss(8e9, more, law))
    margin = median(found.revenue_usd - found.cost_usd)
    assert hours["more tokens, a better model"] == pytest.approx(1.5 * 20 * nats * margin / 50, rel=1e-3)
    assert hours["more users"] == pytest.approx(2 * median(found.revenue_usd / found.cost_usd), rel=1e-6)


def test_speed_bought_with_batch_is_its_slope_along_the_curve() -> None:
    """Where time per token is proportional to the batch's square root, cost falls by it too: one for one."""
    batches = (1, 2, 4, 8, 16)
    options = tuple(SimpleNamespace(batch=b, tpot_s=b**0.5) for b in batches)

    def slope(batch: int) -> float:
        return speed_for_cost(cast("PriceOfSpeed", SimpleNamespace(options=options, batch=batch)))

    assert slope(16) == pytest.approx(1.0) and slope(1) == 0.0


def test_shares_of_one_stream_are_as_its_streams_apart() -> None:
    """A fifth of the traffic by subscription and half of it unpaid, written both ways."""
    users = {**_PLAIN, "subscription_price": "$20", "paying_users": "1M", "free_users": "9M", "conversion": "0.5%"}
    streams = [
        {"name": name, "rate": f"{40 * share:g}B tokens/day", "life": "12 months", **sold}
        for name, share, sold in (
            ("api", 0.3, {}),
            ("paid", 0.2, {"sold": "subscription"}),
            ("free", 0.5, {"paid": "no"}),
        )
    ]
    shared = {key: one for key, one in _INFERENCE.items() if key not in ("rate", "life")}
    apart = returns(users, inference={**shared, "traffic": streams})
    one = returns({**users, "subscription_traffic": "20%", "free_traffic": "50%"})
    for name in ("revenue_usd", "cost_usd", "npv_usd", "margin_fraction"):
        assert getattr(one, name) == pytest.approx(getattr(apart, name), rel=1e-6), name
    assert one.users.free_user_usd == pytest.approx(apart.users.free_user_usd, rel=1e-6)
    for income, said in (
        ({**users, "subscription_traffic": "60%", "free_traffic": "50%"}, "together at most 100 %"),
        ({**users, "subscription_traffic": "60%"}, "free_users have no traffic"),
    ):
        with pytest.raises(PlanError, match=said):
            returns(income)
