"""Phases of an RL step and weight synchronisations against measurements: what is asked, what is left out, and bars."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from computeledger.physics.calibration.rl import rl_factors
from computeledger.physics.calibration.weight_sync import load_sync_text
from computeledger.validation.compare import comparison_document
from computeledger.validation.measured_table import curated_rows, read_rows
from computeledger.validation.rl.fit import fitted_phases, read_logged
from computeledger.validation.rl.points import compare_rl, predict_figures
from computeledger.validation.rl.rows import rl_runs
from computeledger.validation.rl.syncs import CURATED_SYNC, fit_syncs, read_syncs, sync_text
from computeledger.validation.tables import table_of

SHARED = Path("../shared/data")
needs_data = pytest.mark.skipif(
    not (SHARED / "measured" / "rl_open.csv").exists(), reason="the measurements are not here"
)
STEP = {
    "source": "NeMo-RL issue", "system": "NeMo RL v0.3 (Megatron train + vLLM gen)", "model": "Llama 3.1 8B Instruct",
    "algorithm": "GRPO; On policy", "hardware": "H100", "n_gpus": "8", "gpu_split": "gen TP1; train TP1 PP2; colocated",
    "rollout_len_tokens": "795", "batch": "64 prompts x 32, T-GBS=512 (4 optimiser steps)", "unit": "s",
    "notes": "max sequence 4096; bf16", "note": "rollout_len = generated tokens",
}  # fmt: skip


def test_every_metric_of_a_run_is_a_figure_of_its_own_phase() -> None:
    logged = {"step_time": "112", "gen_time": "58", "logprob_time": "18", "policy_training_time": "28",
              "refit_time": "5"}  # fmt: skip
    rows = [{**STEP, "metric": name, "value": value} for name, value in logged.items()]
    runs, skipped = rl_runs(rows)
    assert len(runs) == 1 and not skipped
    assert [name for _, name, _ in runs[0].figures] == [
        "step_time", "generation_time", "logprob_time", "update_time", "weight_sync_time",
    ]  # fmt: skip
    assert runs[0].scenario.algorithm.logprob_passes == 2, "NeMo RL scores with policy and reference"
    assert float(runs[0].scenario.engine.output_tokens) == 795, "the prompt is not counted where the row says so"
    document = comparison_document(compare_rl(rows), ["metric"])
    assert document["by"]["metric"]["gen_time"]["generation_time"]["n"] == 1
    assert document["generation_time"]["median_abs_error"] < 0.15
    assert document["step_time"]["n"] == 1


@pytest.mark.parametrize(
    ("changed", "seconds"),
    [
        ({"metric": "time_25_steps", "value": "1652.8"}, 66.112),
        ({"metric": "time_1_epoch", "value": "2", "unit": "hours",
          "batch": "131.9k prompts of 256 + 256 generated tokens, 1 epoch, at most 1024 pairs per step"}, 55.898),
        # 13 sequences/s of OPT-6.7B in Figure 4 of the publisher's blog: an epoch has all its 264,292 samples
        ({"metric": "time_1_epoch", "value": "5.7", "unit": "hours", "source": "DeepSpeed-Chat README",
          "system": "DeepSpeed-Chat hybrid engine", "gpu_split": "colocated", "note": "length fixed",
          "batch": "131.9k prompts of 256 + 256 generated tokens, 1 epoch, at most 1024 pairs per step"}, 1024 / 12.88),
    ],
)  # fmt: skip
def test_times_of_several_steps_are_the_time_of_one(changed: dict[str, str], seconds: float) -> None:
    runs, skipped = rl_runs([{**STEP, **changed}])
    assert not skipped and runs[0].step_s == pytest.approx(seconds, rel=1e-3)


def test_a_split_that_says_nothing_of_a_lag_is_synchronous() -> None:
    apart = {**STEP, "metric": "step_time", "value": "100", "gpu_split": "4 policy (FSDP2) : 4 inference (4 x TP1)"}
    (run,), _ = rl_runs([{**apart, "algorithm": "GRPO"}])
    assert run.scenario.split.max_lag == 0 and run.scenario.trainer.is_sharded
    (beside,), _ = rl_runs([{**apart, "algorithm": "GRPO", "notes": "async, sync every update"}])
    assert beside.scenario.split.max_lag == 1


def test_shipped_synchronisations_are_asked_and_within_a_factor_of_1_6() -> None:
    rows = curated_rows(CURATED_SYNC)
    assert table_of(rows, CURATED_SYNC).name == "RL steps"
    syncs, skipped = read_syncs(rows)
    assert len(syncs) == len(rows) == 24 and not skipped
    assert {one.mechanism.id for one in syncs} == {"checkpoint-engine", "nccl-shard", "colocated", "rdma", "disk",
                                                  "nccl-broadcast"}  # fmt: skip
    found = comparison_document(compare_rl(rows), ["mechanism"])["weight_sync_time"]
    assert found["n"] == 24 and found["median_abs_error"] < 0.6
    assert comparison_document(compare_rl([{**rows[0], "notes": "by hand"}]))["skipped"] == {
        "mechanism of weight sync not stated": 1
    }


@needs_data
def test_rows_that_state_lengths_batch_and_gpus_are_asked() -> None:
    rows = read_rows(SHARED / "measured" / "rl_open.csv")
    document = comparison_document(compare_rl(rows), ["source", "metric"])
    asked = sum(one["n"] for one in document.values() if isinstance(one, dict) and "n" in one)
    stated = len(rows) - document["skipped"]["mean generated length not stated"]
    assert asked == 89 and asked > 0.9 * stated
    assert document["step_time"]["median_abs_error"] <= 0.2
    assert document["step_time"]["coverage_90"] >= 0.82
    assert document["generation_time"]["median_abs_error"] <= 0.1
    assert document["logprob_time"]["median_abs_error"] <= 0.3
    assert document["by"]["metric"]["refit_time"]["weight_sync_time"]["median_abs_error"] <= 0.3
    runs, factors = read_logged(SHARED), rl_factors()
    steps = [(run, at) for run in runs for at, figure in enumerate(run.figures) if figure[1] == "step_time"]
    ratios = [float(predict_figures(run, factors, 1)[at, 0]) / run.figures[at][2] for run, at in steps]
    assert np.median(np.abs(np.array(ratios) - 1)) <= 0.2, "no effect of a framework is needed for the bar"


@needs_data
def test_fitted_phases_are_of_the_fitted_framework_alone() -> None:
    logged = fitted_phases(read_logged(SHARED))
    assert {run.row["framework"] for run in logged} == {"nemo-rl"}
    assert {name for run in logged for _, name, _ in run.figures} == {"generation_time", "logprob_time"}


@needs_data
def test_the_shipped_mechanisms_come_out_of_the_fit_again() -> None:
    found = fit_syncs(SHARED)
    written, shipped = tomllib.loads(sync_text(found)), tomllib.loads(load_sync_text())
    assert written["mechanisms"] == shipped["mechanisms"]
    for name in found.names:
        assert written["constants"][name]["value"] == pytest.approx(shipped["constants"][name]["value"], rel=0.02)
    left = np.abs(found.residuals["source"])
    assert np.exp(np.median(left)) <= 1.4 and np.mean(left <= np.log(1.6)) >= 0.75
    shared = np.array([one.sides.is_colocated for one in found.syncs])
    assert np.median(np.expm1(left[shared])) <= 0.3, "NeMo RL left out, priors and other publishers alone"
