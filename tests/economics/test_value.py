"""Income as the objective of a split: equal returns by steps, what binds, and the limit of a fixed demand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import computeledger as cl
from computeledger.economics.scaling.allocation import (
    PHASES,
    AllocationScenario,
    PhaseCosts,
    RLGain,
    allocate,
    phase_gpu_hours,
)
from computeledger.economics.scaling.earnings import Buyers, Earnings, allocate_for_income
from computeledger.economics.scaling.laws import load_loss_law, pretraining_loss
from computeledger.errors import InputError
from computeledger.interfaces.views.allocate import view

HOURS = phase_gpu_hours(989.4e12, PhaseCosts(0.4, 0.13, 0.13))
LAW = load_loss_law("besiroglu_2024")
SPLIT = AllocationScenario(LAW, 2.5e7, HOURS, HOURS, 2e13)
PRICE = 2.0
FEW, SOME, MANY = 1e11, 2e13, 3e15


def income(buyers: Buyers, found: Earnings, spent: dict[str, float], n: float) -> float:
    """Revenue of a size and of GPU-hours of each ledger, from the laws alone."""
    assert buyers.usd_per_token is not None
    demand = float(found.lowest_loss.ledgers.tokens_inference)
    tokens = spent["pretraining"] / float(HOURS.pretraining) / (6 * n)
    served = spent["inference"] / float(HOURS.inference) / (2 * n)
    rl = spent["rl"] / float(HOURS.rl)
    loss = float(pretraining_loss(n, tokens, LAW)) - float(buyers.rl_nats) * math.log2(
        rl / float(found.lowest_loss.flop["rl"])
    )
    sold = served / demand
    more = sold if sold <= 1 else sold ** (1 - 1 / float(buyers.elasticity))
    worth = math.exp(-float(buyers.value_per_nat) * (loss - float(found.lowest_loss.loss)))
    return float(buyers.usd_per_token) * demand * more * worth


@pytest.mark.parametrize(
    ("demand", "elasticity", "binds"), [(FEW, 2.5, "price"), (SOME, 1.2, "demand"), (MANY, 2.5, "budget")]
)
def test_by_small_steps_every_ledger_brings_what_is_printed_and_all_alike(
    demand: float, elasticity: float, binds: str
) -> None:
    buyers = Buyers(12.0, elasticity, 2e-6, 0.012)
    found = allocate_for_income(replace(SPLIT, tokens_inference=demand), buyers, PRICE)
    assert found.binds[binds] == 1.0
    spent = {phase: float(found.allocation.gpu_hours[phase]) for phase in PHASES}
    assert sum(spent.values()) == pytest.approx(2.5e7, rel=1e-6)
    n = float(found.allocation.ledgers.n_params_active)
    assert income(buyers, found, spent, n) == pytest.approx(float(found.revenue_usd), rel=1e-9)

    def brings(phase: str, size_too: bool = False) -> float:
        step = 1e-5 * spent[phase]
        ends = [
            income(buyers, found, spent | {phase: spent[phase] + by},
                   n * (spent[phase] + by) / spent[phase] if size_too else n)
            for by in (-step, step)
        ]  # fmt: skip
        return (ends[1] - ends[0]) / (2 * step)

    steps = [brings("pretraining"), brings("rl"), brings("inference", size_too=True)]
    assert steps == pytest.approx([float(found.usd_per_gpu_hour[phase]) for phase in PHASES], rel=1e-4)
    assert steps == pytest.approx([steps[0]] * 3, rel=2e-4)
    more_users = float(found.more_users_usd_per_gpu_hour)
    if binds == "demand":
        assert more_users < steps[0] < float(found.revenue_usd) / spent["inference"]  # one more, one fewer
    else:
        assert more_users == pytest.approx(steps[0], rel=1e-4) == pytest.approx(brings("inference"), rel=1e-4)


@pytest.mark.parametrize("change", [{"tokens_rl": 1e12}, {"tokens_rl": 0.0}, {"rl_gain": RLGain(0.05, 1e24)}])
def test_where_demand_is_fixed_the_highest_income_is_the_lowest_loss(change: dict[str, object]) -> None:
    scenario = replace(SPLIT, **change)  # type: ignore[arg-type]
    found, least = allocate_for_income(scenario, Buyers(12.0), PRICE), allocate(scenario)
    assert found.allocation.ledgers.n_params_active == pytest.approx(least.ledgers.n_params_active, rel=1e-9)
    assert found.allocation.flop == pytest.approx(least.flop, rel=1e-9)
    assert found.revenue_usd == pytest.approx(2.5e7 * PRICE, rel=1e-6)  # without a price, that which earns the cost


def test_no_other_split_of_a_grid_earns_more() -> None:
    scenario = replace(SPLIT, tokens_inference=MANY, tokens_rl=0.0)
    best = allocate_for_income(scenario, Buyers(20.0, 0.5, 2e-6), PRICE)
    n, highest = float(best.allocation.ledgers.n_params_active), np.log(best.revenue_usd)
    sizes, shares = np.meshgrid(n * np.geomspace(0.2, 5, 81), np.linspace(0.005, 0.995, 199))
    loss = pretraining_loss(sizes, shares * 2.5e7 / HOURS.pretraining / (6 * sizes), LAW)
    served = (1 - shares) * 2.5e7 / HOURS.inference / (2 * sizes)
    others = np.log(2e-6 * np.minimum(served, MANY)) - 20.0 * (loss - best.lowest_loss.loss)
    assert others.max() == pytest.approx(highest, abs=2e-3) and others.max() <= highest + 1e-9


def test_the_more_a_nat_is_worth_the_larger_the_model_and_the_more_are_turned_away() -> None:
    found = allocate_for_income(replace(SPLIT, tokens_inference=MANY), Buyers(np.array([5.0, 20.0, 80.0])), PRICE)
    assert np.all(np.diff(found.allocation.ledgers.n_params_active) > 0) and np.all(np.diff(found.served_ratio) < 0)


def test_the_command_returns_alike_in_every_ledger_and_refuses_what_it_does_not_read() -> None:
    asked = cl.allocate(budget="$50M", objective="value", samples=64)
    value = asked.to_dict()["value"]
    *better, more = value["value_per_gpu_hour"]
    medians = [one["usd_per_hour"]["p50"] for one in better]
    assert medians == pytest.approx([medians[0]] * 3, rel=1e-3) and more["usd_per_hour"]["p50"] < medians[0]
    assert sum(value["binds"].values()) == pytest.approx(1.0) and value["binds"]["demand"] > 0.5
    assert asked.earnings is not None
    assert np.all(asked.earnings.revenue_usd >= np.asarray(asked.earnings.lowest_loss_revenue_usd) * (1 - 1e-9))
    for change, said in (
        ({"budget": "5.76e23 FLOP"}, "GPU-hours or USD"), ({"at_n_params": "8B"}, "at_n_params"),
        ({"objective": "loss", "value_per_nat": "5"}, "value_per_nat goes with"),
        ({"rl_tokens": "1T", "rl_nats": "0.01"}, "what twice the RL gains"),
        ({"budget": None, "n_params": "8B", "tokens": "1T"}, "splits a"), ({"inference_tokens": "0"}, "greater than 0"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            cl.allocate(asked.question, **change)


def test_the_answer_does_not_contradict_itself_on_other_demands_prices_and_the_lowest_loss() -> None:
    asked = cl.allocate(budget="$50M", objective="value", inference_tokens="22T", rl_nats="0.0122", samples=64)
    found = asked.to_dict()
    at = [row["inference_over_pretraining_tokens_ratio"] for row in found["curve"]]
    size = np.interp(found["inference_over_pretraining_tokens_ratio"]["p50"], at,
                     [row["n_params_active"] for row in found["curve"]])  # fmt: skip
    assert size == pytest.approx(found["n_params_active"]["p50"], rel=0.15)  # RL held at its tokens: a third too small
    value = found["value"]
    ratio = value["value_per_gpu_hour"][0]["usd_per_hour"]["p50"] / value["usd_per_gpu_hour"]["p50"]
    headline = view(asked, False).context
    assert ratio < 1 and "a smaller budget would leave more" in headline
    assert "RL that costs what pretraining does" in headline and "/Mtok" in headline
    change = {"token_price": "$100/Mtok"}
    dear = cl.allocate(asked.question, **change)
    assert "a larger budget would leave more" in view(dear, False).context
