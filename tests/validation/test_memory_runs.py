"""Memory of one GPU against start-up logs of vLLM and SGLang: constants follow from the data, models are left out."""

from __future__ import annotations

import numpy as np
import pytest

from computeledger.validation.compare import summarize
from computeledger.validation.measured_table import curated_rows
from computeledger.validation.serving.memory_runs import FIGURES, compare_memory, fit_buffers, left_out, memory_runs
from computeledger.workloads.engines.vllm import VLLM_BUFFERS

ROWS = curated_rows("memory_curated.csv")
RUNS, SKIPPED = memory_runs(ROWS)


def test_the_logs_are_many_and_sourced() -> None:
    assert len(ROWS) >= 80 and len({run.model.id for run in RUNS}) >= 20
    assert all(row["url"].startswith("https://") and row["source"] for row in ROWS)
    assert set(SKIPPED) == {"model not known"}


def test_the_shipped_constants_are_those_of_the_logs() -> None:
    fitted = fit_buffers(RUNS, VLLM_BUFFERS)
    for name in ("logit_bytes", "workspace_bytes", "group_bytes", "graph_bytes", "graph_bytes_per_layer"):
        assert getattr(VLLM_BUFFERS, name) == pytest.approx(getattr(fitted, name), rel=0.02), name


def test_errors_with_a_whole_model_left_out() -> None:
    """Memory beside the cache within 3 % (median), the cache and its tokens within 1 %, on models that no fit saw."""
    compared = compare_memory(ROWS, runs=left_out(RUNS, VLLM_BUFFERS))
    of_vllm = np.array([row["engine"] == "vllm" for row in compared.rows])
    error = {
        name: summarize(compared.predicted[name][of_vllm], compared.measured[name][of_vllm]).median_abs_error
        for name in FIGURES
    }
    for name, most in (("used_memory", 0.005), ("activations_memory", 0.01), ("workspace_memory", 0.02),
                       ("weights_memory", 0.005), ("cache_memory", 0.005), ("cache_tokens", 0.001),
                       ("graphs_memory", 0.1)):  # fmt: skip
        found = error[name]
        assert found is not None and found < most, name


def test_the_interval_of_what_is_fitted_holds_most_of_the_logs() -> None:
    compared = compare_memory(ROWS)
    for name in ("activations_memory", "workspace_memory", "graphs_memory"):
        held = summarize(compared.predicted[name], compared.measured[name]).coverage_90
        assert held is not None and held > 0.8, name


def test_the_mechanisms_one_by_one() -> None:
    """Sampling takes the same on one GPU and four; its bytes fell in 0.17; a longer context takes no more."""
    llamas = [run for run in RUNS if run.row["model"] == "meta-llama/Llama-3.1-8B-Instruct"
              and run.row["engine_version"] == "0.19.0" and run.layout.pp == 1]  # fmt: skip
    taken = {run.layout.tp: float(np.asarray(run.held.activations_bytes(1024))) for run in llamas if run.held}
    assert taken[1] == taken[2] == taken[4]
    by_version = {run.row["engine_version"]: run for run in RUNS if run.model.id == "Qwen/Qwen3-14B"}
    before, after = (by_version[one].held for one in ("0.16.0", "0.17.0"))
    assert before is not None and after is not None
    assert 2 < before.activations_bytes(1024) / after.activations_bytes(1024) < 3
