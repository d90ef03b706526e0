"""Who has which GPUs in a plan's RL section: what it states holds, and what it leaves out is shared without idling."""

from __future__ import annotations

import pytest

from computeledger.arrays import median
from computeledger.economics.plan.ledger import Ledger, estimate_ledger
from computeledger.economics.plan.read import read_plan
from computeledger.errors import PlanError


def planned(**stated: object) -> Ledger:
    """An asynchronous run of an 8B model on 32 GPUs."""
    rl = {
        "gpus": 32, "steps": 10, "prompts_per_step": 64, "group_size": 16, "rollout": "4K tokens",
        "prompt": "300 tokens", **({} if "max_lag" in stated else {"mode": "asynchronous"}), **stated,
    }  # fmt: skip
    top = {"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h"}
    skipped = {"pretraining": {"skip": "open weights"}, "inference": {"skip": "not served"}}
    return estimate_ledger(read_plan({**top, **skipped, "rl": rl}), n_samples=16)


def details(ledger: Ledger, name: str) -> float:
    return float(median(ledger.phases["rl"].details[name][0]))


def test_a_stated_split_holds() -> None:
    stated = planned(generation_gpus=24, training_gpus=8)
    assert "24 generate, 8 train" in stated.phases["rl"].choices["mode"]
    rest = planned(training_gpus=8)
    assert details(rest, "step_s") == details(stated, "step_s"), "the rest of the GPUs generates"


def test_a_balanced_split_is_the_fastest() -> None:
    """No stated split with the same trainer is faster; of GPU-time less than a tenth waits."""
    balanced = planned()
    waiting = sum(
        details(balanced, f"{who}_fraction") for who in ("generators waiting", "trainer waiting for rollouts")
    )
    assert waiting < 0.1, waiting
    step_s = details(balanced, "step_s")
    for training in (4, 8, 12, 16, 20, 24):
        assert details(planned(training_gpus=training), "step_s") > 0.999 * step_s, training


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"generation_gpus": 24, "training_gpus": 16}, "together 40, and gpus says 32"),
        ({"mode": "synchronous", "max_lag": 2}, "contradict"),
        ({"mode": "asynchronous", "max_lag": 0}, "contradict"),
        ({"max_lag": 1.5}, "whole number"),
    ],
)
def test_contradictions_are_refused(stated: dict[str, object], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        planned(**stated)


def test_a_lag_alone_makes_it_asynchronous() -> None:
    assert planned(max_lag=2).phases["rl"].choices["mode"].startswith("asynchronous")


def test_what_only_the_clock_reads_is_named() -> None:
    assert planned(step_overhead="5 s").phases["rl"].choices["left to simulate rl"] == "step_overhead"
    assert "left to simulate rl" not in planned().phases["rl"].choices


def test_the_tail_of_a_plan_is_read() -> None:
    """A heavier tail waits longer for the last rollout of a synchronous step; a limit cuts it."""
    light, heavy = (planned(mode="synchronous", rollout_p95=f"{p95}K tokens") for p95 in (6, 12))
    cut = planned(mode="synchronous", rollout_p95="12K tokens", rollout_limit="13K tokens")
    steps = [details(one, "step_s") for one in (light, cut, heavy)]
    assert steps == sorted(steps) and steps[2] > 1.2 * steps[0], steps
    with pytest.raises(PlanError, match="below the mean"):
        planned(rollout_p95="3K tokens")
