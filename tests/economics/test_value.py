"""Value as the objective of a split, and what a GPU-hour of each ledger brings."""

from __future__ import annotations

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
from computeledger.economics.scaling.laws import load_loss_law, pretraining_loss
from computeledger.errors import InputError

HOURS = phase_gpu_hours(989.4e12, PhaseCosts(0.4, 0.13, 0.13))
SPLIT = AllocationScenario(load_loss_law("besiroglu_2024"), 3e25, PhaseCosts(), HOURS, None, 1e12, value_per_nat=20.0)


@pytest.mark.parametrize("change", [{}, {"tokens_rl": 0.0}, {"rl_gain": RLGain(0.05, 1e24)}])
def test_at_the_highest_value_all_ledgers_return_alike_and_the_budget_is_spent(change: dict[str, object]) -> None:
    best = allocate(replace(SPLIT, **change))  # type: ignore[arg-type]
    assert sum(best.flop.values()) == pytest.approx(3e25, rel=1e-6)
    returns = [best.marginal_return[phase] for phase in PHASES]
    assert returns == pytest.approx([returns[0]] * 3, rel=5e-3)


def test_no_other_split_of_a_grid_is_worth_more() -> None:
    best = allocate(replace(SPLIT, tokens_rl=0.0))
    n, served = best.ledgers.n_params_active, best.ledgers.tokens_inference
    highest = np.log(served) - 20.0 * best.loss
    sizes, shares = np.meshgrid(n * np.geomspace(0.2, 5, 81), np.linspace(0.005, 0.995, 199))
    loss = pretraining_loss(sizes, shares * 3e25 / (6 * sizes), SPLIT.law)
    others = np.log((1 - shares) * 3e25 / (2 * sizes)) - 20.0 * loss
    assert others.max() == pytest.approx(highest, abs=2e-3) and others.max() <= highest + 1e-9


def test_given_the_tokens_it_chose_the_lowest_loss_is_the_same_split() -> None:
    best = allocate(SPLIT)
    again = allocate(replace(SPLIT, tokens_inference=best.ledgers.tokens_inference, value_per_nat=None))
    assert again.ledgers.n_params_active == pytest.approx(best.ledgers.n_params_active, rel=1e-4)


def test_the_more_a_nat_is_worth_the_larger_the_model_and_the_fewer_the_tokens_served() -> None:
    found = allocate(replace(SPLIT, value_per_nat=np.array([5.0, 20.0, 80.0]))).ledgers
    assert np.all(np.diff(found.n_params_active) > 0) and np.all(np.diff(found.tokens_inference) < 0)


def test_the_command_chooses_value_and_refuses_what_it_chooses_itself() -> None:
    taken = cl.allocate(budget="$50M", objective="value", rl_tokens="1T", samples=16)
    steep = cl.allocate(taken.question, elasticity="1.5")
    assert steep.n_params_active.p50 > 2 * taken.n_params_active.p50
    assert any("price" in one for one in taken.to_dict()["assumptions"])
    for change, said in (
        ({"inference_tokens": "1T"}, "chooses the tokens served"), ({"elasticity": "0.8"}, "greater than 1"),
        ({"objective": "loss", "value_per_nat": "5"}, "value_per_nat goes with objective value"),
        ({"budget": None, "n_params": "8B", "tokens": "1T"}, "splits a budget"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            cl.allocate(taken.question, **change)
