"""Intervals of a step's parts: they add up to the step, none exceeds it, and time and GPU-hours tell the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import computeledger as cl
from computeledger.physics.calibration.rl import RLFactors
from computeledger.workloads.rl.scenario import Split
from computeledger.workloads.rl.shares import part_ratios

TOGETHER = ("generation", "waiting for the longest rollouts", "waiting for verifiers", "log-probs", "update",
            "weight sync", "once per step")  # fmt: skip
GENERATORS, TRAINER, BOTH = (
    ("generation", "generators waiting"), ("trainer waiting for rollouts", "log-probs", "update"),
    ("weight sync", "once per step"),
)  # fmt: skip
RATIOS = st.fixed_dictionaries(
    {f"rl_{name}_ratio": st.floats(0.1, 10.0) for name in ("generation", "scoring", "update", "once", "weight_sync")}
    | {"rl_step_ratio": st.floats(0.5, 2.0)}
)
ASKED: dict[str, Any] = {
    "model": "llama-3.1-8b", "system": "h100-nvl8", "gpus": 16, "rollout_tokens": 2000, "logprob_passes": 2,
}  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.0, 1e4), min_size=7, max_size=7), RATIOS)
def test_parts_add_up_to_the_step_on_every_side(times: list[float], ratios: dict[str, float]) -> None:
    factors, step = RLFactors(**ratios), ratios["rl_step_ratio"]
    parts = dict(zip(TOGETHER, times, strict=True))
    found = part_ratios(parts, Split(8, 8), factors)
    assert sum(parts[name] * found[name] for name in parts) == pytest.approx(step * sum(times), rel=1e-9, abs=1e-9)
    split = Split(24, 8, is_colocated=False)
    parts = dict(zip((*GENERATORS, *TRAINER, *BOTH), times, strict=True))
    found = part_ratios(parts, split, factors)
    whole = sum(parts[name] * found[name] for name in parts)
    assert whole == pytest.approx(step * sum(times), rel=1e-9, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(RATIOS, st.floats(0.1, 10.0))
def test_limits(ratios: dict[str, float], ratio: float) -> None:
    factors = RLFactors(**ratios)
    alone = part_ratios(dict.fromkeys(TOGETHER, 0.0) | {"generation": 7.0}, Split(8, 8), factors)
    assert alone["generation"] == pytest.approx(ratios["rl_step_ratio"]), "a part that is all of a step is the step"
    equal = RLFactors(**dict.fromkeys(ratios, ratio))
    found = part_ratios(dict.fromkeys(TOGETHER, 1.0), Split(8, 8), equal)
    assert list(found.values()) == pytest.approx([ratio] * len(found)), "parts that are all as slow are the step"


@pytest.mark.parametrize("more", [{}, {"training_gpus": 8, "max_lag": 1, "framework": "nemo-rl"}])
def test_a_phase_has_one_interval_in_time_gpu_hours_and_beta(more: dict[str, Any]) -> None:
    answer = cl.rl(**ASKED, **more)
    document = answer.to_dict()
    hours, walls, betas = document["phases"], document["phases_s"], document["beta"]["gpu_time_by_phase"]
    for logged, phase in (
        ("update", "update"), ("old-policy log-probs", "log-probs"), ("reference log-probs", "log-probs"),
        ("weight sync", "weight sync"),
    ):  # fmt: skip
        for end in ("p05", "p95"):
            width = hours[phase]["gpu_hours"][end] / hours[phase]["gpu_hours"]["p50"]
            assert walls[logged][end] / walls[logged]["p50"] == pytest.approx(width, rel=1e-9)
            assert betas[phase][end] / betas[phase]["p50"] == pytest.approx(width, rel=0.02)  # times the pretraining's
    shares = [answer.run.phase_fraction[name] for name in hours]
    assert sum(float(np.median(one)) for one in shares) == pytest.approx(1, abs=0.02)
    step = document["step_s"]
    for name in ("generation", "update", "weight sync"):
        assert walls[name]["p95"] < step["p95"] and step["p05"] / step["p50"] > walls[name]["p05"] / walls[name]["p50"]


def test_the_median_of_a_part_is_that_of_the_model() -> None:
    answer = cl.rl(**ASKED)
    for name, part in answer.typical.phases_gpu_s.items():
        assert np.median(answer.run.result.phases_gpu_s[name]) == pytest.approx(float(part), rel=0.02, abs=1e-3)


def test_a_part_without_end_or_time_keeps_its_ratio() -> None:
    parts = dict.fromkeys(TOGETHER, 0.0) | {"generation": np.array([np.inf, 0.0, 5.0])}
    found = part_ratios(parts, Split(8, 8), RLFactors(rl_generation_ratio=np.array([0.5, 1.0, 2.0]), rl_step_ratio=1.1))
    assert all(np.all(np.isfinite(one)) for one in found.values())


def test_no_phase_is_longer_than_its_step_and_rounding_is_no_idleness() -> None:
    sides: dict[str, Any] = {"gpus": 64, "training_gpus": 32, "max_lag": 1}
    answer = cl.rl(model="llama-3.1-70b", system="h100-nvl8", **sides, rollout_tokens=4000, samples=64)
    result = answer.run.result
    for name in ("generation", "exposed generation", "update"):
        assert np.all(result.phases_s[name] <= result.step_s), name
    assert answer.phases_s["generation"].p50 <= np.median(result.step_s)
    searched = cl.rl(
        model="qwen3-8b", system="h100-nvl8", gpus=32, rollout_tokens=4000, samples=64, max_lag=4, search=True
    )
    idle = np.asarray(searched.run.result.idle_fraction)
    assert np.all((idle == 0) | (idle >= 1e-9))


def test_both_sides_stated_are_all_gpus() -> None:
    found = cl.rl(
        model="qwen3-8b",
        system="h100-nvl8",
        rollout_tokens=4000,
        samples=16,
        max_lag=4,
        generation_gpus=8,
        training_gpus=16,
    )
    assert found.to_dict()["n_gpus"] == 24
