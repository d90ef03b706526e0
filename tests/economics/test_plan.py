"""Plans that contradict themselves are refused, and never read in half."""

from __future__ import annotations

from typing import Any

import pytest

from computeledger.economics.plan.read import read_plan
from computeledger.errors import PlanError

PRETRAINING: dict[str, Any] = {"tokens": "15T tokens", "gpus": 1024}
RL: dict[str, Any] = {
    "gpus": 64,
    "prompts_per_step": 128,
    "group_size": 8,
    "rollout": "4K tokens",
    "prompt": "300 tokens",
    "tokens": "1B tokens",
}
INFERENCE: dict[str, Any] = {"input": "2000 tokens", "output": "500 tokens"}
STREAM = {"tokens": "1T tokens", "name": "chat"}
SKIP = {"skip": "done by others"}


def plan(**changes: Any) -> None:
    whole = {"model": "llama-3.1-8b", "system": "h100-nvl8", "pretraining": PRETRAINING, "rl": RL}
    read_plan({**whole, "inference": {**INFERENCE, "traffic": [STREAM]}, **changes})


def test_the_plan_itself_is_read() -> None:
    plan()
    plan(rl={**RL, "prompt": "0 tokens", "verifier_time": "0 s"}, efficiency={"host_step_s": "0 s"})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pretraining": {**PRETRAINING, "tokens": "balanced", "gpu_hours": "1M GPU-hours"}}, "contradict"),
        ({"rl": {**RL, "tokens": "balanced", "gpu_hours": "1M GPU-hours"}}, "contradict"),
        ({"inference": {**INFERENCE, "traffic": [STREAM], "tokens": "1T tokens"}}, "tokens stands beside"),
        ({"inference": {**INFERENCE, "traffic": [STREAM], "kinds": {"output": "1T tokens"}}}, "kinds stands beside"),
        ({"inference": {**INFERENCE, "traffic": [STREAM, STREAM]}}, "'chat' is given twice"),
        ({"inference": {**SKIP, "traffic": [{**STREAM, **INFERENCE}]}}, "skip stands alone"),
        ({"pretraining": SKIP, "experiments": {"gpu_time_of_pretraining": "1..2"}}, "needs a .pretraining. section"),
        ({"pretraining": {**PRETRAINING, "tokens": "0 tokens"}}, "must be greater than 0"),
        (
            {"pretraining": {**PRETRAINING, "schedule": "dualpipe", "virtual_stages": 2}},
            "schedule has no virtual stages",
        ),
        ({"pretraining": {**PRETRAINING, "recompute": "moe_act, layernrom"}}, "did you mean 'layernorm'"),
        ({"pretraining": {**PRETRAINING, "sharding": "zero-4"}}, "did you mean 'zero-"),
        ({"pretraining": {**PRETRAINING, "gpus": 1024.5}}, "expected one whole number"),
        ({"rl": {**RL, "utilization": "0%"}}, "must be greater than 0"),
        ({"efficiency": {"gemm_fraction_bf16": 0}}, "must be greater than 0"),
        ({"pretraining": SKIP, "rl": {**RL, "tokens": "balanced"}}, "needs a .pretraining. section"),
        ({"inference": SKIP, "pretraining": {**PRETRAINING, "tokens": "balanced"}}, "needs an .inference. section"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        plan(**changes)
