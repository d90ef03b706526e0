"""Limits that no training answer crosses, however it is asked: arithmetic, memory, and what a run can have."""

from __future__ import annotations

from typing import Any

import pytest

import computeledger as cl
from computeledger.errors import ComputeLedgerError
from computeledger.facts.architecture import Lora
from computeledger.facts.load import load_accelerator, load_model, load_system
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.training.batch import Batch
from computeledger.physics.training.memory_phases import stage_phases
from computeledger.physics.training.sites import Sites
from computeledger.physics.transformer import n_params_active
from computeledger.workloads.pretraining.confidence import confidence_of
from computeledger.workloads.pretraining.estimate import PretrainingScenario, as_run, estimate_pretraining

LLAMA: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100-nvl8", "gpus": 64}


@pytest.mark.parametrize(
    "system", ["64xh20", "256xtpu-v5p", "64xa100-sxm4-80gb", "64xb200-sxm", "64xmi300x", "64xl40s"]
)
def test_no_draw_of_a_step_is_faster_than_the_arithmetic(system: str) -> None:
    answer = cl.pretrain(model="llama-3.1-8b", system=system)
    executed = answer.result.hfu_fraction
    assert executed.max() <= 1 + 1e-9
    assert 0.15 < answer.mfu_fraction.p50 < 0.95


def test_a_chip_of_ample_power_is_no_measured_one() -> None:
    h20, h100 = load_accelerator("h20-sxm5-96gb"), load_accelerator("h100-sxm5-80gb")
    assert h20.chip_tdp_w.value / h20.peak("bf16") > 3 * h100.chip_tdp_w.value / h100.peak("bf16")
    asked = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(4096.0, 64.0))
    assert [confidence_of(asked, load_system(one)).name for one in ("h200-nvl8", "h20-nvl8")] == ["unseen", "chip"]


@pytest.mark.parametrize("system", ["h100-nvl8", "b200-nvl8"])
def test_frozen_weights_stand_somewhere(system: str) -> None:
    model = load_model("llama-3.1-70b")
    for sharded in (False, True):
        batch = Batch(4096.0, 64.0, recompute="full", sharded_weights=sharded)
        asked = PretrainingScenario(model, Layout(dp=8), Precision(), batch, lora=Lora(16))
        held = estimate_pretraining(asked, Machine(load_system(system))).memory
        assert float(held.weights_bytes) >= 2 * 70.5e9 / (8 if sharded else 1)


@pytest.mark.parametrize(
    "changes", [{"lora": Lora(16)}, {"sites": Sites(2, 1e11, 0.02, 100)}, {"lora": Lora(8), "sites": Sites(4, 1e11)}]
)
@pytest.mark.parametrize("sharded", [False, True])
def test_the_busiest_stage_is_the_memory_that_is_printed(changes: dict[str, Any], sharded: bool) -> None:
    batch = Batch(4096.0, 512.0, recompute="full", sharded_weights=sharded)
    asked = PretrainingScenario(
        load_model("qwen3-30b-a3b"), Layout(dp=16, pp=1 if sharded else 4), Precision(), batch, **changes
    )
    total = float(estimate_pretraining(asked, Machine(load_system("h100-nvl8"))).memory.total_bytes)
    layout, run = as_run(asked)
    assert max(one.peak_bytes for one in stage_phases(asked.model, run, layout)) == pytest.approx(total, rel=1e-12)


def test_adapters_do_less_than_they_execute() -> None:
    answer = cl.pretrain(**LLAMA, lora_rank=16, recompute="full")
    assert answer.result.utilization_fraction.max() < answer.result.hfu_fraction.max()
    linear, active = 4 / 6, n_params_active(load_model("llama-3.1-8b"))
    whole = 6 * active * answer.result.tokens_per_s_per_gpu / answer.result.peak_flop_per_s
    assert float((answer.result.utilization_fraction / whole).max()) == pytest.approx(linear, rel=0.02)


def test_more_gpus_than_sequences_do_not_slow_a_search_down() -> None:
    asked: dict[str, Any] = {
        "model": "llama-3.1-405b",
        "system": "h100-nvl8",
        "global_batch_tokens": 16e6,
        "sequence_tokens": 8192,
    }
    steps = [cl.pretrain(**asked, gpus=n).step_s.p50 for n in (16384, 32768, 65536)]
    assert steps[0] > steps[1] > steps[2]
    stated = cl.pretrain(**asked, gpus=65536, layout="tp8-pp16-dp128-cp4").step_s.p50
    assert steps[2] <= stated


def test_a_searched_context_rank_has_two_chunks_of_the_sequence() -> None:
    answer = cl.pretrain(model="qwen3-235b-a22b", system="gb200-nvl72", gpus=288, sequence_tokens=131072)
    for option in answer.layouts:
        cp = int(option.option.layout.cp)
        assert cp & (cp - 1) == 0 or 131072 % (2 * cp) == 0


def test_torchtitan_searches_its_own_selective_recomputation() -> None:
    asked: dict[str, Any] = {**LLAMA, "framework": "torchtitan", "sequence_tokens": 8192, "gpus": 8}
    named, own = (cl.pretrain(**asked, recompute=mode) for mode in ("selective", "selective-op"))
    assert named.step_s.p50 == own.step_s.p50
    assert cl.pretrain(**asked).step_s.p50 <= own.step_s.p50


def test_row_wise_scales_gain_less_than_one_scale() -> None:
    """Llama 3 8B on eight H100: 5,760, 6,412 to 6,424, and 7,186 tokens/s (torchtitan 7a04053)."""
    asked: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100-nvl8", "framework": "torchtitan", "layout": "dp8"}
    asked |= {"sequence_tokens": 8192, "global_batch_tokens": 65536, "recompute": "selective-op"}
    step, row, tensor = (
        cl.pretrain(**asked, precision=precision, recipe=recipe).step_s.p50
        for precision, recipe in (("bf16", "tensor"), ("fp8", "row"), ("fp8", "tensor"))
    )
    assert step / row == pytest.approx(6418 / 5760, rel=0.05)
    assert step / tensor == pytest.approx(7186 / 5760, rel=0.05)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"recompute": "full,layernorm"}, "full stands alone"),
        ({"lora_rank": 99999}, "at most 1024, the smallest side of an adapted matrix of"),
        ({"expert_imbalance": 1.5}, "has no routed experts"),
        ({"capacity_factor": 1.25}, "has no routed experts"),
        ({"layout": "tp8", "virtual_stages": 3}, "has no pipeline"),
        (
            {"layout": "pp16-dp4", "virtual_stages": 2, "global_batch_tokens": 131072},
            "multiples of the 16 stages, not 8",
        ),
        ({"global_batch_tokens": 100}, "less than one sequence of 4096 tokens"),
        ({"sites": 2, "site_bandwidth": "100GB/s", "local_steps": 1_000_000}, "the whole run has 250000 steps"),
    ],
)
def test_what_a_run_cannot_have_is_refused_in_one_line(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ComputeLedgerError, match=says) as refused:
        cl.pretrain(**{**LLAMA, **given})
    assert "\n" not in str(refused.value)


def test_a_layout_fills_the_gpus_that_a_system_counts() -> None:
    assert str(cl.pretrain(model="llama-3.1-8b", system="32xmi300x", layout="tp8").layout) == "tp8-dp4"


def test_chips_of_a_pod_are_counted_in_equal_slices() -> None:
    """PaLM trained on two slices of 3,072 TPU v4; nodes of GPUs are not cut."""
    palm = load_system("6144xtpu-v4")
    assert (palm.n_gpus, palm.n_gpus_scale_up.value) == (6144, 3072)
    for other in ("8009xtpu-v4", "12xh100-sxm5-80gb"):
        with pytest.raises(ComputeLedgerError, match="fill no whole number of nodes"):
            load_system(other)


@pytest.mark.parametrize(("named", "plain"), [("mxfp8", "fp8"), ("nvfp4", "fp4")])
def test_a_format_by_its_name_has_its_scales(named: str, plain: str) -> None:
    asked: dict[str, Any] = {"model": "llama-3.1-8b", "system": "b200-nvl8", "layout": "dp8"}
    by_name, by_parts = cl.pretrain(**asked, precision=named), cl.pretrain(**asked, precision=plain, recipe="block")
    assert by_name.step_s.p50 == by_parts.step_s.p50
