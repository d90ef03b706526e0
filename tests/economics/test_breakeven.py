"""How far each driver of an income may move: closed forms, agreement with the plan, when the next model pays."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from computeledger.economics.income.breakeven import (
    Cash,
    best_replacement,
    moved_by_factor,
    moved_by_rate,
    rate_break_even,
    ratio_break_even,
)
from computeledger.economics.income.months import Market, Sales, months_of
from computeledger.interfaces.cli import main
from tests.commands import call

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def cash_of(market: Market, capital: float, life: float = 12.0, cost: float = 0.0) -> Cash:
    """Tokens worth 1,200 at the first month's price, sold over a life, without interest."""
    sales = Sales(life, 1200.0, {"tokens": cost})
    return Cash(sales, market, months_of(sales, market, 120), np.array([capital]), 0.0, 0.0)


@pytest.mark.parametrize(("name", "capital"), [("price_decline", 700.0), ("growth", 700.0), ("growth", 3000.0)])
def test_a_rate_at_its_break_even_sums_to_the_capital(name: str, capital: float) -> None:
    """100 a month at first: the geometric sum of twelve months is the capital."""
    found = rate_break_even(cash_of(Market(), capital), name)
    rate = float(found.value[0])
    base = 1 + rate if name == "growth" else 1 - rate
    assert 100 * (1 - base**12) / (1 - base) == pytest.approx(capital, rel=1e-3)
    assert found.is_floor == (name == "growth")


def test_where_no_value_does_it_an_end_is_said() -> None:
    assert rate_break_even(cash_of(Market(), 50.0), "price_decline").value == [0.95]  # the first month pays
    assert rate_break_even(cash_of(Market(), 1e9), "price_decline").value == [0.0]  # nothing does


def test_the_planned_value_is_the_plans_own_point() -> None:
    cash = cash_of(Market(growth=0.03, price_decline=0.1, follow=0.5, demand_elasticity=1.2), 300.0, cost=200.0)
    months = cash.planned
    npv = months.over_life(months.margin_usd) - 300.0
    for driver, value in (("growth", 0.03), ("price_decline", 0.1)):
        assert moved_by_rate(cash, driver, value).npv_usd == pytest.approx(npv)
    for driver in ("price", "traffic", "serving_cost"):
        assert moved_by_factor(cash, driver, 1.0).npv_usd == pytest.approx(npv)
    assert moved_by_factor(cash, "traffic", 2.0).npv_usd == pytest.approx(2 * npv + 300.0)
    revenue = months.over_life(months.revenue_usd)
    cost = revenue - months.over_life(months.margin_usd)
    assert moved_by_factor(cash, "price", 2.0).margin_fraction == pytest.approx(1 - cost / (2 * revenue))


@pytest.mark.parametrize("driver", ["price", "serving_cost"])
def test_the_value_is_nothing_at_a_ratio_whose_months_of_sale_follow_it(driver: str) -> None:
    """A price that falls below its cost within the life: which months are sold depends on the ratio itself."""
    cash = cash_of(Market(price_decline=0.2), 100.0, cost=600.0)
    ratio = float(ratio_break_even(cash, driver)[0])
    assert moved_by_factor(cash, driver, ratio).npv_usd == pytest.approx([0.0], abs=1e-6)
    assert cash.planned.over_life(cash.planned.sold) == [4.0]  # 0.8^3 > 1/2 > 0.8^4


def test_the_next_model_comes_when_a_new_one_earns_more_than_the_old_still_does() -> None:
    """By hand: the month with the highest mean of what is left; later the dearer, at once if free, never if steady."""
    falling = Market(price_decline=0.08, follow=1.0)
    by_hand = [
        1 + max(range(120), key=lambda t: (100 * (1 - 0.92 ** (t + 1)) / 0.08 - capital) / (t + 1))
        for capital in (1e-3, 50.0, 200.0, 500.0)
    ]
    found = [float(best_replacement(cash_of(falling, capital))[0]) for capital in (1e-3, 50.0, 200.0, 500.0)]
    assert found == by_hand and found[0] == 1.0 and found == sorted(found)
    assert math.isinf(float(best_replacement(cash_of(Market(), 200.0))[0]))
    assert math.isinf(float(best_replacement(cash_of(falling, 1e6))[0]))  # none of them pays


def test_a_plan_prints_where_its_drivers_break_even_and_draws_them() -> None:
    command = ["plan", str(EXAMPLES / "income.toml"), "--samples", "64"]
    income = json.loads(call(main, [*command, "--json"], EXAMPLES).stdout)["income"]
    limits = {one["name"]: one for one in income["break_even"]}
    ratio = income["price_ratio_break_even"]["p50"]
    assert limits["subscription_price"]["value"]["p50"] == pytest.approx(10 * ratio)
    assert limits["token_price"]["must"] == "stay_above" and limits["churn"]["must"] == "stay_below"
    assert limits["occupancy"]["value"]["p50"] < limits["occupancy"]["planned"]["p50"]
    assert [one["value"] for one in income["curves"]["price"]][4] == 1.0
    values = [one["npv_usd"]["p50"] for one in income["curves"]["price"]]
    assert values == sorted(values) and values[0] < 0 < values[-1]
    printed = call(main, command, EXAMPLES).stdout
    assert "Where the net present value is zero" in printed and "is best released" in printed
