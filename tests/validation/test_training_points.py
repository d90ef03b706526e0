"""Published training runs against the training model, and the fit that calibrates it."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from computeledger.errors import InputError
from computeledger.interfaces.cli import main
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.calibration.training import load_training_factors, training_efficiency
from computeledger.validation.compare import comparison_document
from computeledger.validation.fit import Fitted
from computeledger.validation.training.calibration_file import SLACK, calibration_toml
from computeledger.validation.training.constants import CONSTANTS, Problem, effects_of, fit_constants, plain
from computeledger.validation.training.fit import CLASSES, TrainingFit, conformal_factor, fit_training
from computeledger.validation.training.points import compare_training, predict_runs
from computeledger.validation.training.rows import read_training_table, training_runs
from computeledger.validation.training.sources import describe_run
from computeledger.workloads.frameworks import load_framework

DATA = Path(os.environ.get("COMPUTELEDGER_DATA", "../shared/data"))
TABLE = DATA / "measured" / "training.csv"
needs_data = pytest.mark.skipif(not TABLE.is_file(), reason="the folder of measurements is not here")

COLUMNS = (
    *("source", "model", "hardware", "n_gpus", "tp", "pp", "dp", "cp", "ep", "micro_batch", "global_batch_tokens"),
    *("seq_len", "precision", "recompute", "metric", "value", "unit", "notes"),
)
SELENE = "Korthikanti et al. 2022 Table 5"
#: Step times of table 5 of "Reducing Activation Recomputation in Large Transformer Models" (arXiv 2205.05198), as
#: recorded in the validation of calculon: model, GPUs, pp, global tokens, recompute, seconds.
SELENE_STEPS = [
    ("megatron-22B", 8, 1, 8192, "full (no sequence parallel)", 1.42),
    ("gpt3-175B", 64, 8, 131072, "full (no sequence parallel)", 18.13),
    ("turing-530B", 280, 35, 573440, "full (no sequence parallel)", 49.05),
    ("turing-530B", 280, 35, 573440, "selective (attn only) + sequence parallel", 37.83),
    ("megatron-1T", 512, 64, 1048576, "full (no sequence parallel)", 94.42),
]


def row(**values: object) -> dict[str, str]:
    return {**dict.fromkeys(COLUMNS, ""), **{name: str(value) for name, value in values.items()}}


def selene() -> list[dict[str, str]]:
    return [
        row(
            source=SELENE,
            model=model,
            hardware="A100 80GB SXM (Selene)",
            n_gpus=gpus,
            tp=8,
            pp=pp,
            micro_batch=4 if gpus == 8 else 1,
            global_batch_tokens=tokens,
            seq_len=2048,
            precision="fp16",
            recompute=recompute,
            metric="step_time",
            value=value,
            unit="s/iteration",
            notes="interleave: 175B & 530B =3" if "selective" in recompute else "",
        )
        for model, gpus, pp, tokens, recompute, value in SELENE_STEPS
    ]


def mosaic(metric: str, value: float, unit: str) -> dict[str, str]:
    """One llm-foundry configuration: MPT-70B on 256 H100, 1,035 tokens/s/GPU, MFU 42.42 %, full recomputation."""
    return row(
        source="MosaicML llm-foundry training benchmarks",
        model="MPT-70b",
        hardware="h100_80gb",
        n_gpus=256,
        tp=1,
        pp=1,
        micro_batch=8,
        global_batch_tokens=4194304,
        seq_len=2048,
        precision="amp_bf16",
        recompute="full",
        metric=metric,
        value=value,
        unit=unit,
        notes="FSDP FULL_SHARD",
    )


def test_selene_steps() -> None:
    comparison = compare_training(selene())
    summary = comparison_document(comparison, ["model_kind"])
    assert summary["step_time"]["n"] == len(SELENE_STEPS)
    assert summary["step_time"]["mean_abs_error"] <= 0.06
    assert summary["by"]["model_kind"]["dense"]["step_time"]["coverage_90"] == 1.0
    assert summary["memory"]["n"] == 0


def test_throughput_and_utilisation_of_one_run_mean_one_step() -> None:
    """The source's own two figures agree once its FLOP convention is applied: attention in full, not causal."""
    both = [mosaic("MFU", 42.42, "%"), mosaic("tokens_per_s_per_gpu", 1035, "tokens/s/GPU")]
    runs, _ = training_runs(both)
    assert len(runs) == 1
    assert runs[0].step_s == pytest.approx(4194304 / 1035 / 256)
    alone, _ = training_runs(both[:1])
    assert alone[0].step_s == pytest.approx(runs[0].step_s, rel=0.005)


def test_what_is_not_stated_is_counted_by_reason() -> None:
    good = selene()[0]
    broken = [
        {**good, "model": "nobody's"},
        {**good, "hardware": "abacus"},
        {**good, "global_batch_tokens": ""},
        {**good, "tp": ""},
        {**good, "metric": "time_to_train", "notes": "another run"},
        {**good, "value": "fast"},
    ]
    comparison = compare_training([good, *broken])
    assert len(comparison.rows) == 1
    assert sum(comparison.skipped.values()) == len(broken) == len(comparison.skipped)


def test_what_each_source_means() -> None:
    bridge = row(
        source="NVIDIA Megatron-Bridge performance summary",
        model="DeepSeekV3",
        hardware="GB300",
        n_gpus=256,
        tp=1,
        pp=2,
        ep=32,
        micro_batch=1,
        global_batch_tokens=16777216,
        seq_len=4096,
        precision="MXFP8",
        notes="section: 26.08 NeMo Container / Pre-Training Performance; VP=8",
    )
    run = describe_run(bridge)
    assert (run.stack.mtp_layers, run.stack.recipe, run.stack.fused_experts) == (1, "block", True)
    assert (run.virtual_stages, int(run.layout.dp), run.system.id) == (8.0, 128, "gb300-nvl72")
    earlier = describe_run({**bridge, "notes": "section: 26.02 NeMo Container", "model": "DeepSeekV3 (w/o MTP)"})
    assert (earlier.stack.mtp_layers, earlier.stack.fused_experts) == (0, False)
    # 1,635 model TFLOP/s/GPU and 6,288 tokens/s/GPU are published for this run
    counted = {**bridge, "metric": "TFLOPs_per_gpu", "value": "1635", "unit": "model TFLOP/s/GPU"}
    assert training_runs([counted])[0][0].step_s == pytest.approx(16777216 / 6288 / 256, rel=0.005)
    tpu = row(source="MaxText README (TPU v5e)", model="MaxText 32B", hardware="TPU v5e (2x v5e-256)", n_gpus=512)
    maxtext = describe_run({**tpu, "precision": "bf16"})
    assert (maxtext.microbatch_sequences, maxtext.recompute, maxtext.sharded_weights) == (4.0, "full", True)


def test_validate_reads_the_table_by_its_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "training.csv"
    lines = [",".join(COLUMNS), *(",".join(one[name] for name in COLUMNS) for one in selene())]
    path.write_text("\n".join(lines))
    with pytest.raises(SystemExit) as stop:
        main(["validate", "--data", str(path), "--by", "source,model_kind", "--json"])
    assert not stop.value.code
    document = json.loads(capsys.readouterr().out)
    assert set(document["by"]) == {"source", "model_kind"}
    assert document["step_time"]["n"] == len(SELENE_STEPS)
    path.write_text("source,model\n")
    with pytest.raises(InputError, match="missing"):
        read_training_table(path)


def test_fit_finds_the_constants_that_made_the_steps() -> None:
    """Steps made by the model itself lead back to its constants, from other starting values."""
    truth = replace(
        plain(training_efficiency()), training_gemm_fraction_ampere=0.6, training_attention_fraction_ampere=0.3
    )
    made = [mosaic("step_time", 1.0, "s")]
    runs = []
    for tokens in (1024, 2048, 4096, 8192, 16384, 32768, 65536):
        for size in ("MPT-1b", "MPT-3b", "MPT-7b"):
            one = {**made[0], "model": size, "hardware": "a100_80gb", "n_gpus": "8", "seq_len": str(tokens)}
            runs += training_runs([{**one, "global_batch_tokens": str(65536 * 8), "micro_batch": "1"}])[0]
    steps = predict_runs(runs, truth, 1)[0][:, 0]
    made_runs = [replace(run, step_s=float(step)) for run, step in zip(runs, steps, strict=True)]
    found = fit_constants(made_runs)
    assert found.training_gemm_fraction_ampere == pytest.approx(0.6, rel=0.01)
    assert found.training_attention_fraction_ampere == pytest.approx(0.3, rel=0.01)
    assert found.training_gemm_fraction_hopper == pytest.approx(CONSTANTS["training_gemm_fraction_hopper"].start)


def test_no_constant_exceeds_its_measured_kernel() -> None:
    factors = load_training_factors()
    for name, one in CONSTANTS.items():
        assert median_of(factors[name].value) <= one.cap * (1 + 1e-6)


def test_conformal_intervals_cover_what_they_promise() -> None:
    errors = np.random.default_rng(0).standard_t(3, (400, 60)) * 0.1
    covered = [np.abs(one[-1]) <= np.log(conformal_factor(one[:-1])) for one in errors]
    assert np.mean(covered) == pytest.approx(0.9, abs=0.04)


def test_the_shipped_file_is_what_a_fit_writes() -> None:
    ratios = dict.fromkeys((*CLASSES, "memory"), 1.2)
    text = calibration_toml(TrainingFit((), ratios, {}, training_efficiency()), "2026-11-21")
    assert tomllib.loads(text)["training_known_ratio"]["value"] == f"{1.2**-SLACK:.4g}..{1.2**SLACK:.4g}"


@needs_data
def test_errors_on_the_folder() -> None:
    """What the calibration was fitted to: errors and coverage within the targets set for unseen runs."""
    document = comparison_document(compare_training(read_training_table(TABLE)), ["model_kind"])
    kinds = {name: part["step_time"] for name, part in document["by"]["model_kind"].items()}
    assert kinds["dense"]["median_abs_error"] <= 0.07
    assert kinds["dense"]["p90_abs_error"] <= 0.18
    assert kinds["moe"]["median_abs_error"] <= 0.15
    assert kinds["moe"]["p90_abs_error"] <= 0.40
    # intervals are those of sources left out, which rows of fitted sources fill less
    assert all(part["coverage_90"] >= 0.85 for part in kinds.values())
    assert document["memory"]["median_abs_error"] <= 0.05
    assert document["memory"]["p90_abs_error"] <= 0.12
    total = document["step_time"]["n"] + sum(document["skipped"].values())
    assert sum(document["skipped"].values()) <= total / 3


@needs_data
@pytest.mark.stress
def test_errors_on_sources_that_a_fit_has_not_seen() -> None:
    fit = fit_training(DATA)
    unseen = fit.tables["leave_one_source_out"]
    dense, moe = (unseen[kind].median_abs_error for kind in ("dense", "moe"))
    assert dense is not None and dense <= 0.14
    assert moe is not None and moe <= 0.18
    held = [part.coverage_90 for part in unseen.values()]
    assert all(one is not None and 0.84 <= one <= 0.96 for one in held)
    shipped = load_training_factors()
    for one in fit.constants:
        assert one.value == pytest.approx(median_of(shipped[one.name].value), rel=0.01)


def test_a_framework_that_grew_out_of_another_has_its_effect() -> None:
    """Of Megatron-Bridge alone nothing was measured here, so it takes what NeMo does."""
    run = training_runs([mosaic("step_time", 1.0, "s")])[0][0]
    assert load_framework("megatron-bridge").follows == "nemo"
    runs = [replace(run, framework=load_framework(one)) for one in ("megatron-bridge", "nemo", "torchtitan")]
    problem = Problem(runs, plain(training_efficiency()))
    change = np.zeros(len(problem.fit().prior_sd))
    change[len(CONSTANTS) + problem.frameworks[0].index("nemo")] = np.log(0.9)
    found = effects_of(problem, Fitted(change, np.zeros(0), 0.0))[0]
    assert found == pytest.approx({"megatron-bridge": 0.9, "nemo": 0.9, "torchtitan": 1.0})
    before, after = (problem.fit().residuals(one[None, :])[:, 0] for one in (np.zeros(len(change)), change))
    assert after - before == pytest.approx(np.log([0.9, 0.9, 1.0]))
