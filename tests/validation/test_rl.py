"""Measured RL steps: bars, skipped rows with their reasons, beta of published runs, the fit that is shipped."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from computeledger.physics.calibration.rl import FITTED, load_rl_text
from computeledger.validation.compare import comparison_document
from computeledger.validation.measured_table import curated_rows
from computeledger.validation.rl.beta import CURATED_RL, published_betas
from computeledger.validation.rl.fit import calibration_text, fit_rl
from computeledger.validation.rl.points import compare_rl
from computeledger.validation.rl.rows import NEEDED, rl_runs
from computeledger.validation.tables import TABLES, table_of

SHARED = Path("../shared/data")
needs_data = pytest.mark.skipif(not (SHARED / "measured" / "rl.csv").exists(), reason="the measurements are not here")


def test_shipped_rows_are_told_apart_and_within_the_bars() -> None:
    rows = curated_rows(CURATED_RL)
    assert table_of(rows, CURATED_RL).name == "RL steps"
    assert len({table.needed for table in TABLES}) == len(TABLES)
    document = comparison_document(compare_rl(rows), ["model_kind"])
    assert document["step_time"]["n"] == 31, "16 of them by the split of GPUs in their recipes"
    assert document["step_time"]["median_abs_error"] <= 0.12
    assert document["step_time"]["p90_abs_error"] <= 0.35
    assert document["step_time"]["coverage_90"] >= 0.8
    assert document["skipped"] == {}


def row(**changed: str) -> dict[str, str]:
    rows = curated_rows(CURATED_RL)
    base = next(one for one in rows if one["model"] == "LLAMA3.1_8B" and "On policy" in one["algorithm"])
    return {**base, **changed}


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"rollout_len_tokens": "max_response 28K"}, "mean generated length not stated"),
        ({"rollout_len_tokens": ""}, "mean generated length not stated"),
        ({"algorithm": "DAPO; On policy"}, "sampling rounds not stated"),
        ({"gpu_split": "async non-colocated (split in recipe yaml)"}, "GPU split not stated"),
        ({"metric": "gen_share"}, "not the time of a step"),
        ({"notes": "memory, unverified"}, "inputs from memory, not read at the source"),
        ({"model": "nobody"}, "model not known"),
        ({"hardware": ""}, "hardware not stated"),
        ({"batch": ""}, "rollouts per step not stated"),
        ({"value": "-3"}, "a number that is not greater than 0"),
        ({"n_gpus": ""}, "number of GPUs not stated"),
    ],
)
def test_what_a_row_leaves_out_is_said(changed: dict[str, str], reason: str) -> None:
    runs, skipped = rl_runs([row(**changed)])
    assert not runs and dict(skipped) == {reason: 1}


def test_a_stated_split_is_used_and_metrics_of_one_run_are_one() -> None:
    stated = row()["gpu_split"].partition("colocated")[0] + "gen 4 / train 12"
    apart = row(gpu_split=stated, algorithm="GRPO; 2-step Off")
    rate = {**apart, "metric": "tokens_per_s_per_gpu", "value": "1500", "unit": "tokens/s/GPU"}
    runs, skipped = rl_runs([apart, rate])
    assert len(runs) == 1 and not skipped
    split = runs[0].scenario.split
    assert (split.n_generation, split.n_training, split.max_lag) == (4, 12, 2)
    assert runs[0].step_s == float(apart["value"])
    only_rate, _ = rl_runs([rate])
    assert only_rate[0].step_s == pytest.approx(2048 * 1019 / 1500 / 16, rel=1e-6)


def test_layouts_and_the_longest_are_supplied_where_a_row_states_the_rest() -> None:
    bare = row(
        gpu_split="gen 8 / train 8",
        algorithm="DAPO; 1-step Off",
        notes="",
        batch="128 prompts x n=16, mini 32, 1.5 rounds",
    )
    runs, skipped = rl_runs([bare])
    assert not skipped
    scenario = runs[0].scenario
    assert (scenario.algorithm.sampling_rounds, scenario.algorithm.optimizer_steps) == (1.5, 4)
    assert float(scenario.sampling.lengths.longest_tokens) == pytest.approx(3 * (1019 - 150))
    assert float(scenario.trainer.layout.n_gpus) == 8


def test_beta_of_published_runs() -> None:
    """The study's table of the same rows: dense 19 to 44, experts of 30 to 235B 97 to 544, and all parts add up."""
    betas = published_betas()
    dense = [one.beta_gpu_time for one in betas if one.run.row["model_kind"] == "dense"]
    assert (round(min(dense)), round(max(dense))) == (19, 44)
    middle = [one.beta_gpu_time for one in betas if one.run.row["model"].startswith(("Qwen3-30B", "Qwen3-235B"))]
    assert (round(min(middle), -1), round(max(middle), -1)) == (100, 540)
    assert min(one.beta_gpu_time for one in betas) > 12
    assert all(9 < one.beta_flop < 11 for one in betas)
    for one in betas:
        assert sum(one.parts.values()) == pytest.approx(one.modelled_beta_gpu_time)


def test_columns_are_those_of_the_table() -> None:
    assert set(NEEDED) <= set(curated_rows(CURATED_RL)[0])


@pytest.mark.stress
@needs_data
def test_the_shipped_constants_come_out_of_the_fit_again() -> None:
    found = fit_rl(SHARED)
    written = tomllib.loads(calibration_text(found))
    shipped = tomllib.loads(load_rl_text())
    for name in FITTED:
        assert written["constants"][name]["value"] == pytest.approx(shipped["constants"][name]["value"], rel=0.02)
    left = np.abs(np.expm1(found.residuals["model"]))
    assert np.median(left) <= 0.20
