"""Serving figures gathered from many sources: how each row is asked, and how far the answers lie."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from computeledger.facts.load import load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.roofline import Machine
from computeledger.validation.compare import Comparison
from computeledger.validation.measured_table import curated_rows
from computeledger.validation.published.rows import Unpredictable
from computeledger.validation.serving.open_points import NEEDED, compare_open, open_case, predict_open
from computeledger.workloads.serving.estimate import estimate_serving
from computeledger.workloads.serving.intervals import (
    ALONE,
    CHIP,
    ENGINE,
    LOCAL,
    LOCAL_SEVERAL,
    USUAL,
    interval_of,
)

ROW = dict.fromkeys(NEEDED, "") | {
    "model": "llama-3.1-8b", "accelerator": "h100-sxm5-80gb", "n_accelerators": "1", "engine": "vllm", "layout": "tp1",
    "weights": "bf16", "input_tokens": "1024", "output_tokens": "256", "concurrency": "8", "metric": "ttft",
    "statistic": "median", "value": "0.1", "rounds": "4",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"accelerator": "rtx-4099"}, "hardware"),
        ({"weights": "ternary"}, "weight format not known"),
        ({"concurrency": "", "requests_per_s": "2"}, "load"),
        ({"metric": "tpot", "statistic": "p90"}, "tails"),
        ({"model": "llama-3.1-70b"}, "do not fit"),
        ({"layout": "tp2"}, "another number"),
    ],
)
def test_what_a_row_does_not_tell_is_the_reason_to_leave_it_out(changes: dict[str, str], reason: str) -> None:
    with pytest.raises(Unpredictable, match=reason):
        open_case(ROW | changes)


def test_rows_are_asked_as_their_sources_measured() -> None:
    assert open_case(ROW).scenario.rounds == 4
    fixed = ROW | {"engine": "sglang", "note": "fixed lengths"}
    assert open_case(fixed).scenario.rounds == 1, "requests of one length stay in step where prompts go first"
    assert open_case(fixed | {"engine": "vllm"}).scenario.rounds == 4
    assert open_case(fixed | {"note": "output length 1 and all prompts sent together"}).scenario.rounds == 1
    weights_alone = open_case(ROW | {"engine": "gpt-fast", "weights": "int8"}).scenario.precision
    assert weights_alone.dense == "w8a16"
    experts = open_case(
        ROW | {"model": "qwen3-30b-a3b", "weights": "fp8", "expert_weights": "mxfp4", "n_accelerators": "1"}
    ).scenario.precision
    assert (experts.experts, experts.attention) == ("mxfp4", "fp8")
    cached = open_case(ROW | {"cached_fraction": "0.75"}).scenario
    assert (cached.cached_tokens, cached.input_tokens) == (768.0, 256.0)


def test_several_requests_on_a_local_engine_have_the_class_that_serve_gives_them() -> None:
    local = ROW | {"engine": "llama.cpp", "accelerator": "rtx-4090"}
    assert [open_case(local | {"concurrency": n, "rounds": "1"}).interval for n in ("1", "8", "64")] == [
        LOCAL, LOCAL_SEVERAL, LOCAL_SEVERAL,
    ]  # fmt: skip


def test_a_makers_published_launch_and_the_month_of_a_build_are_read() -> None:
    cookbook = {"source": "SGLang docs cookbook (docs_new)", "engine": "sglang"}
    assert [open_case(ROW | one).tuning for one in ({}, cookbook, cookbook | {"engine": "vllm"})] == [
        "usual", "published", "usual",
    ]  # fmt: skip
    dated = open_case(ROW | {"note": "engine SGLang main 2026-06-11"}).years
    assert dated == open_case(ROW | {"date": "2026-06-11"}).years > open_case(ROW).years == 0
    assert open_case(ROW | {"note": "main 2026-06-11", "date": "2025-06"}).years < 0, "a date of its own says more"


def test_drafts_and_scores_are_read_as_the_note_states_them() -> None:
    """Engines count the sure token among the draft tokens, and a column may repeat that count."""
    deepseek = ROW | {"model": "deepseek-v3", "n_accelerators": "8", "layout": "tp8", "weights": "fp8"}
    deepseek |= {"accelerator": "h200-sxm5-141gb", "draft_tokens": "3", "metric": "tpot", "statistic": "mean"}
    case = open_case(deepseek | {"note": "NEXTN with 2 draft tokens, accept length 1.8-1.9, precision FP8 (FP8 MLA)"})
    assert case.scenario.draft_tokens == 1
    assert case.scenario.tokens_per_step == pytest.approx(1.85)
    assert case.scenario.precision.scores == "fp8" and not case.is_acceptance_assumed
    plain = open_case(deepseek)
    assert (plain.scenario.draft_tokens, plain.scenario.precision.scores) == (3.0, "bf16")
    assert plain.is_acceptance_assumed


def test_settings_are_read_as_the_note_states_them() -> None:
    told = "--max-num-batched-tokens 512 --max-num-seqs 4, gpu_memory_utilization=0.5"
    plain, asked = (open_case(ROW | {"note": note}).scenario for note in ("max-num-seqs not stated", told))
    assert (asked.batch, asked.waiting, plain.batch, plain.waiting) == (4, 4, 8, 0)
    assert (asked.settings.chunk_tokens, plain.settings.chunk_tokens) == (512, 8192)
    assert (asked.host.buffers.whole_fraction, plain.settings.max_batch) == (0.5, np.inf)
    cached = ROW | {"cached_fraction": "0.75", "note": "--no-enable-prefix-caching"}
    assert open_case(cached).scenario.input_tokens == 1024


def test_fake_weights_send_every_token_to_the_same_experts() -> None:
    """Sixteen sequences of Mixtral were decoded faster than two A100 can read all its experts."""
    mixtral = ROW | {"model": "mixtral-8x7b", "accelerator": "a100-sxm4-80gb", "n_accelerators": "2", "layout": "tp2"}
    mixtral |= {"engine": "trtllm", "input_tokens": "2048", "output_tokens": "128", "static_batch": "16", "rounds": ""}
    asked = mixtral | {"concurrency": "", "metric": "tpot", "statistic": "mean", "value": "0.0122154"}
    machine = Machine(load_system("a100-nvl8"), efficiency("trtllm", {"efficiency.serving_ratio": 1.0}))
    all_read, fake = (
        float(np.ravel(predict_open(open_case(asked | {"note": note}), machine))[0]) for note in ("", "fake weights")
    )
    assert all_read > 2 * 0.0122154
    assert fake == pytest.approx(0.0122154, rel=0.15)


def test_an_acceptance_that_is_not_stated_is_assumed_and_widens_the_interval() -> None:
    drafted = ROW | {"model": "deepseek-v3", "n_accelerators": "8", "layout": "tp8", "weights": "fp8", "metric": "tpot"}
    drafted |= {"accelerator": "h200-sxm5-141gb", "statistic": "mean", "draft_tokens": "3"}
    stated = drafted | {"tokens_per_step": "2.4"}
    clouds = [compare_open([row], 256).predicted["tpot"][0] for row in (drafted, stated)]
    medians = [float(np.median(cloud)) for cloud in clouds]
    widths = [float(np.quantile(cloud, 0.95) / np.quantile(cloud, 0.05)) for cloud in clouds]
    assert medians[0] == pytest.approx(medians[1], rel=0.1)
    own = clouds[0] / clouds[1]  # the same draws but for the acceptance
    assert np.quantile(own, 0.95) / np.quantile(own, 0.05) > 1.2 and widths[0] > widths[1]


@pytest.mark.parametrize(
    ("metric", "figures"),
    [
        ("request_latency", {}),
        ("total_tokens_per_s", {}),
        ("decode_output_tokens_per_s_per_gpu", {"concurrency": "", "note": "48 req/GPU"}),
        ("prefill_input_tokens_per_s_per_node", {"concurrency": ""}),
        ("prefill_input_tokens_per_s_per_gpu", {"concurrency": "", "static_batch": "1"}),
    ],
)
def test_quantities_of_other_sources_follow_from_the_same_prediction(metric: str, figures: dict[str, str]) -> None:
    """Each is checked against what times to the first and to a further token give."""
    row = ROW | {"metric": metric, "statistic": "mean", "value": "1"} | figures
    found = compare_open([row], 4)
    (name,) = [name for name, values in found.measured.items() if np.isfinite(values[0])]
    predicted = float(np.median(found.predicted[name][0]))
    result = estimate_serving(open_case(row).scenario, Machine(load_system("h100-nvl8"), efficiency("vllm")))
    each_s, first_s = result.tpot_s, result.ttft_statistic_s("mean")
    expected = {
        "request_latency": first_s + 255 * each_s,
        "total_tokens_per_s_per_gpu": 8 * (1024 + 256) / (first_s + 256 * each_s),
        "decode_output_tokens_per_s_per_gpu": 48 / result.decode_s,
        "input_tokens_per_s_per_gpu": 1024 / result.prefill_s,
    }[name]
    assert predicted == pytest.approx(float(expected), rel=0.35)


@pytest.fixture(scope="module")
def compared(shared_data: Path) -> Comparison:
    with (shared_data / "measured" / "serving_open.csv").open(encoding="utf-8") as file:
        return compare_open(list(csv.DictReader(file)), 64)


def errors(comparison: Comparison, quantity: str, chosen: Callable[[dict[str, str]], bool]) -> np.ndarray:
    rows = np.array([chosen(dict(row)) for row in comparison.rows]) & np.isfinite(comparison.measured[quantity])
    middle = np.median(comparison.predicted[quantity][rows], axis=1)
    return np.abs(middle / comparison.measured[quantity][rows] - 1)


def test_one_request_with_a_million_tokens_of_prompt(compared: Comparison) -> None:
    """VLLM on 8 B200, one request at a time, 8K to 1M tokens: nobody else's prompt interrupts it."""
    found = errors(compared, "tpot", lambda row: "51494" in row["source"])
    assert len(found) == 9 and np.median(found) < 0.35


def test_bursts_by_the_statistic_that_the_source_states(compared: Comparison) -> None:
    few = errors(compared, "ttft", lambda row: "fixed lengths" in row["note"] or row["rounds"] != "")
    assert len(few) >= 18 and np.median(few) < 0.2
    whole = errors(compared, "ttft", lambda row: row["statistic"] == "whole batch")
    assert len(whole) == 36 and np.median(whole) < 0.3


def test_integer_weights_on_a_chip_without_8_bit_floats(compared: Comparison) -> None:
    """gpt-fast on A100 and one die of an MI250X: int4 and int8 weights alone, multiplied in 16 bits."""
    found = errors(compared, "tpot", lambda row: row["weights"] in ("int4", "int8"))
    assert len(found) == 5 and np.median(found) < 0.3


@pytest.mark.parametrize("name", [USUAL, CHIP, ENGINE])
def test_a_request_that_is_alone_has_a_first_token_of_its_own(name: str) -> None:
    """Nothing queues before it: its interval is a fraction of that of requests among others, around the same steps."""
    alone, queued = interval_of(f"{name}, {ALONE}"), interval_of(name)
    assert alone.tpot == queued.tpot and alone.ttft.high / alone.ttft.low < 7
    assert alone.ttft.high / alone.ttft.low < 0.7 * queued.ttft.high / queued.ttft.low


@pytest.mark.parametrize("name", [USUAL, CHIP, ENGINE])
def test_intervals_of_other_peoples_deployments_hold(compared: Comparison, name: str) -> None:
    """Over both tables; the classes' widths come from sources left out of the fit, of which none counts for much."""
    shipped = compare_open(curated_rows("serving_elsewhere.csv"), 64)
    for quantity in ("tpot", "ttft"):
        held = []
        for one in (compared, shipped):
            rows = np.array([row["class"].removesuffix(f", {ALONE}") == name for row in one.rows]) & np.isfinite(
                one.measured[quantity]
            )
            low, high = np.quantile(one.predicted[quantity][rows], [0.05, 0.95], axis=1)
            held += ((low <= one.measured[quantity][rows]) & (one.measured[quantity][rows] <= high)).tolist()
        assert len(held) > 30 and np.mean(held) > 0.8, quantity
