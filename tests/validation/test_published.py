"""Published serving figures: how rows are read, what is refused, and the large deployments within a fifth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from computeledger.arrays import Num
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout, parse_layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.serving.batching import expected_busiest
from computeledger.validation.compare import Comparison, deviations
from computeledger.validation.measured_table import curated_rows
from computeledger.validation.published.points import compare_published, predict
from computeledger.validation.published.rows import NEEDED, Unpredictable, case_of
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving

LARGE = ("DeepSeek", "LMSYS", "TensorRT-LLM DeepSeek-R1", "TensorRT-LLM tech blog")
ROW = dict.fromkeys(NEEDED, "") | {
    "source": "somebody", "model": "DeepSeek-R1", "hardware": "B200", "n_gpus": "8", "isl": "1024", "osl": "2048",
    "parallelism": "DP8 attention + EP8", "precision": "NVFP4 weights, FP8 KV",
    "batch_or_concurrency": "concurrency 3,072",
    "metric": "output_tokens_per_s_total", "value": "36384", "unit": "tok/s",
}  # fmt: skip


@pytest.fixture(scope="module")
def large() -> Comparison:
    return compare_published([row for row in curated_rows("published_curated.csv") if row["source"].startswith(LARGE)])


def test_a_row_is_read_as_it_is_written() -> None:
    case = case_of(ROW)
    assert (case.quantity, case.kind, case.batch) == ("output_tokens_per_s_per_gpu", "mixed", 3072)
    assert case.measured == 36384 / 8
    assert case.layout == parse_layout("dp8-ep8")
    assert case.precision == Precision("bf16", "fp4", "fp4", "fp8")
    per_user = case_of({**ROW, "metric": "output_tokens_per_s_per_user", "value": "12.5"})
    assert (per_user.quantity, per_user.measured) == ("tpot", 0.08)
    tables = {"TP1,PP2": "pp2", "DEP4": "dp4-ep4", "tep8": "tp8-ep8", "TP8": "tp8", "DEP2,PP2": "pp2-dp2-ep2"}
    for text, layout in tables.items():
        assert case_of({**ROW, "parallelism": text}).layout == parse_layout(layout)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"source": "MLPerf Inference v5.1 closed (X)"}, "input lengths not stated"),
        ({"parallelism": "TP8 EP2, MTP3"}, "speculative acceptance not stated"),
        ({"batch_or_concurrency": ""}, "batch not stated"),
        ({"hardware": "RTX 6000 Pro Blackwell Server Edition"}, "hardware not bundled"),
        ({"model": "Somebody-9B"}, "model not known"),
        ({"isl": ""}, "lengths not stated"),
        ({"parallelism": ""}, "layout not stated"),
        ({"metric": "colour"}, "quantity not known"),
        ({"value": "0"}, "incomplete record"),
    ],
)
def test_what_a_row_lacks_is_the_reason(change: dict[str, str], reason: str) -> None:
    with pytest.raises(Unpredictable, match=reason):
        case_of({**ROW, **change})


def test_large_deployments_within_a_fifth(large: Comparison) -> None:
    """The issue's bar: median below 20 %. Sources and locators stand in the rows."""
    errors = [abs(one.ratio - 1) for name in large.measured for one in deviations(large, name)]
    assert len(errors) >= 16
    assert float(np.median(errors)) < 0.2
    assert float(np.quantile(errors, 0.9)) < 0.4


def test_a_day_of_production_within_a_fifth(large: Comparison) -> None:
    """226.75 nodes of 8 H800 on average: open-infra-index, day 6, 2025-02-27."""
    (day,) = deviations(large, "n_nodes")
    assert day.measured == 226.75
    assert day.ratio == pytest.approx(1.0, abs=0.2)


#: Figures of SGLang's blog of 2025-05-05 (decode table and ablation of two batches, 1.255 = "25.5 %"; its reading of
#: DeepSeek's profile-data) and of 2025-09-25 (batch of 1,408 at 2K), which no mechanism or assumption was chosen with.
UNSEEN = (
    ("H100", "decode EP72, TBO", "FP8", "2000", "256", "decode_output_tokens_per_s_per_node", 22282),
    ("H100", "decode EP72, no TBO", "FP8", "2000", "256", "decode_output_tokens_per_s_per_node", 22310 / 1.255),
    ("H100", "decode EP72, no TBO, MTP (60% accept)", "FP8", "4000", "128", "decode_output_tokens_per_s_per_node",
     12929),
    ("H800", "prefill EP32, TBO, perfectly balanced", "FP8", "4096", "16384 tokens/GPU",
     "prefill_input_tokens_per_s_per_node", 62713),
    ("H800", "decode EP128, TBO", "FP8", "4096", "128", "decode_output_tokens_per_s_per_node", 18598),
    ("GB200 NVL72", "decode 48 ranks EP", "FP8 attention + NVFP4 MoE", "2000", "1408",
     "decode_output_tokens_per_s_per_gpu", 13386),
)  # fmt: skip


def test_large_deployments_nobody_had_in_sight() -> None:
    """The same bar on figures that no mechanism was made with."""
    names = ("hardware", "parallelism", "precision", "isl", "batch_or_concurrency", "metric", "value")
    seen = {"source": "LMSYS/SGLang blog", "model": "DeepSeek-V3"}
    rows = [{**dict.fromkeys(NEEDED, ""), **seen, **dict(zip(names, map(str, one), strict=True))} for one in UNSEEN]
    found = compare_published(rows)
    errors = [abs(one.ratio - 1) for name in found.measured for one in deviations(found, name)]
    assert len(errors) == len(UNSEEN)
    assert float(np.median(errors)) < 0.2
    assert max(errors) < 0.3


def test_every_large_figure_is_explained(large: Comparison) -> None:
    assert large.explain is not None
    for name in ("input_tokens_per_s_per_gpu", "output_tokens_per_s_per_gpu", "n_nodes"):
        for one in deviations(large, name):
            found = large.explain(one.index, name)
            assert found is not None and found.bound and len(found.times_s) > 5


def test_the_busiest_rank_by_enumeration() -> None:
    """Against sampling, and its limits: one rank is the mean; many prompts per rank are even."""
    drawn = np.random.default_rng(0).poisson(0.4, (200_000, 8)).max(axis=1).mean()
    assert float(expected_busiest(0.4, 8)) == pytest.approx(drawn, rel=0.01)
    assert float(expected_busiest(3.7, 1)) == pytest.approx(3.7)
    assert float(expected_busiest(1000.0, 8)) == pytest.approx(1000.0, rel=0.06)


def test_prompts_on_one_rank_add_what_the_estimate_adds() -> None:
    """Below one prompt per step: the joint pass less the decode step, added up here part by part.

    A short prompt costs less than a fifth of its own pass, since the weights are read anyway.
    """
    machine = Machine(load_system("b200-nvl8"), efficiency(draws={"efficiency.serving_ratio": 1.0}))
    one = ServingScenario(load_model("llama-3.1-70b"), Layout(tp=8), Precision(), 1024.0, 1024.0, 256.0)
    result = estimate_serving(one, machine)
    decode = {part.name: part for part in result.decode}
    added_s: Num = 0.0
    for part in result.prefill:
        if part.name in ("attention projections", "dense and shared MLP", "output head"):
            beside = decode[part.name]
            computed_s = part.compute_s + beside.compute_s
            added_s += max(computed_s, part.memory_s, beside.memory_s) - beside.time_s
        elif part.name not in ("launch floors", "eager launches"):
            added_s += part.time_s
    eff = machine.efficiency
    wait_s = eff.prefill_interference * eff.step_ratio * added_s * (one.batch - 1) / one.output_tokens
    assert float(result.prefill_wait_s) == pytest.approx(float(wait_s), rel=1e-6)
    short = estimate_serving(replace(one, input_tokens=64.0), machine)
    assert float(short.prefill_joined_s) < 0.2 * float(short.prefill_s)
    many = replace(
        one, model=load_model("deepseek-r1"), layout=Layout(dp=8, ep=8), precision=Precision("fp8", "fp8", "fp8")
    )
    # ranks that hold prompts back until all have one never wait longer
    even = estimate_serving(replace(many, ranks_balanced=True), machine).prefill_wait_s
    assert estimate_serving(many, machine).prefill_wait_s > 2 * even


def test_a_faster_machine_is_never_slower() -> None:
    case = case_of(ROW)
    slow, fast = (predict(case, Machine(load_system(name), efficiency())) for name in ("h200-nvl8", "b200-nvl8"))
    assert float(np.mean(fast)) > float(np.mean(slow))
