"""How an engine is run is asked alike everywhere: release, tuning and settings have one meaning and one answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.economics.plan.ledger import estimate_ledger
from computeledger.economics.plan.read import read_plan
from computeledger.questions.answers.serving.answer import ServeAnswer
from computeledger.questions.answers.simulation.serving import SimulateServeAnswer

ON: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100-nvl8"}
LENGTHS: dict[str, Any] = {"input_tokens": 2048.0, "output_tokens": 256.0}
RUNS: list[dict[str, Any]] = [
    {"tuning": "recipe", "backend_version": "2025-03"},
    {"tuning": "usual", "backend": "sglang", "backend_version": "0.4.6"},
]


def served(**asked: Any) -> ServeAnswer:
    answer = cl.serve(**ON, **LENGTHS, **asked)
    assert isinstance(answer, ServeAnswer)
    return answer


def simulated(**asked: Any) -> SimulateServeAnswer:
    lengths = {name: f"{value:g}" for name, value in LENGTHS.items()}
    return cl.simulate_serve(**ON, **lengths, layout="tp1", arrivals="poisson:1", requests=50, **asked)


@pytest.mark.parametrize("run", RUNS)
def test_release_and_tuning_have_one_answer(run: dict[str, Any]) -> None:
    best = cl.sweep(**ON, gpus=1, **LENGTHS, **run).best[0]
    one = served(layout=str(best.layout), batch=best.batch, **run)
    assert (best.tpot_s, best.ttft_s) == pytest.approx((one.chosen.tpot_s, one.chosen.ttft_s), rel=1e-9)
    factors, other = simulated(**run).fleet.machine.efficiency, one.setting.typical.efficiency
    for name in ("step_ratio", "floor_ratio", "admission_steps", "serving_ratio", "first_token_ratio"):
        assert getattr(factors, name) == pytest.approx(getattr(other, name), rel=1e-9), name
    skipped = {name: {"skip": "not asked"} for name in ("pretraining", "rl")}
    asked = {"tokens": "1B tokens", "layout": str(best.layout), "batch": best.batch, **run}
    asked |= {name: f"{value:g} tokens" for name, value in LENGTHS.items()}
    plan = read_plan({**ON, "price": "$2/h", **skipped, "inference": asked})
    phase = estimate_ledger(plan, one.question.samples).phases["inference"]
    assert float(np.median(phase.details["inference: tpot_s"][0])) == pytest.approx(one.tpot_s.p50, rel=1e-9)
    plain = served(layout=str(best.layout), batch=best.batch, backend=run.get("backend"))
    assert abs(plain.tpot_s.p50 / one.tpot_s.p50 - 1) > 1e-3
