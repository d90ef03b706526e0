"""Pretraining: limits, identities, memory by hand, published runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from computeledger.errors import DoesNotFitError, QuantityError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.blackboard.network import bubble_fraction
from computeledger.physics.calibration.efficiency import IDEAL, efficiency
from computeledger.physics.calibration.training import training_efficiency
from computeledger.physics.parallelism import Layout, parse_layout
from computeledger.physics.roofline import Machine, Precision, parse_precision
from computeledger.physics.training.batch import Batch
from computeledger.physics.training.memory import training_memory
from computeledger.physics.training.step import step_time
from computeledger.physics.transformer import n_params_total
from computeledger.workloads.pretraining.candidates import training_layouts
from computeledger.workloads.pretraining.estimate import (
    PretrainingScenario,
    estimate_pretraining,
)
from computeledger.workloads.pretraining.search import search_pretraining

LLAMA, H100 = load_model("llama-3.1-8b"), load_system("h100-nvl8")
BF16 = Precision()


def scenario(layout: Layout, batch: Batch, tokens: float = 1e12) -> PretrainingScenario:
    return PretrainingScenario(LLAMA, layout, BF16, batch, tokens)


def test_ideal_single_gpu_spends_exactly_its_flop() -> None:
    """One GPU, no recompute, ideal: the step is 6 N plus attention over the peak (attention 3.5 F, PaLM counts 3 F)."""
    batch = Batch(8192.0, 64.0, recompute="none")
    result = estimate_pretraining(scenario(Layout(), batch), Machine(H100, IDEAL))
    executed = sum(float(one.flop) for one in result.step.operations) * 64
    assert float(result.step_s) == pytest.approx(executed / 989.4e12, rel=0.01)
    assert 0.9 < float(result.mfu_fraction) < 1.0


def test_pipeline_bubble_is_the_closed_form() -> None:
    """Idle share of a pipelined step is (p - 1) / (v m + p - 1), what the stage with the head adds apart."""
    for stages, micro, virtual in ((4, 8, 1), (8, 64, 2)):
        batch = Batch(4096.0, float(micro), virtual_stages=float(virtual))
        step = step_time(LLAMA, batch, Layout(tp=1, pp=stages), BF16, Machine(H100, IDEAL))
        assert step.operations[-1].name == "uneven stages"
        busy = (step.microbatch_s - step.operations[-1].time_s) * step.microbatches
        assert float(step.bubble_s / (busy + step.bubble_s)) == pytest.approx(
            float(bubble_fraction(stages, micro, virtual))
        )


def test_parts_add_up() -> None:
    result = estimate_pretraining(
        scenario(Layout(tp=2, dp=4), Batch(8192.0, 64.0)), Machine(H100, efficiency(), training_efficiency())
    )
    assert float(sum(result.components_s.values())) == pytest.approx(float(result.step_s))


def test_recompute_trades_time_for_memory() -> None:
    machine = Machine(H100, efficiency(), training_efficiency())
    batches = {mode: Batch(8192.0, 64.0, recompute=mode) for mode in ("none", "selective", "full")}
    runs = {mode: estimate_pretraining(scenario(Layout(dp=8), batch), machine) for mode, batch in batches.items()}
    assert runs["none"].step_s < runs["selective"].step_s < runs["full"].step_s
    assert runs["full"].memory.activations_bytes < 0.2 * runs["none"].memory.activations_bytes
    for run in runs.values():
        assert run.hfu_fraction >= run.mfu_fraction


def test_memory_by_hand() -> None:
    """8 GPUs, TP 2: 2 bytes of weights, 4 of gradients, 12 of optimizer over 4 ranks, per parameter and TP share."""
    memory = training_memory(LLAMA, Batch(8192.0, 64.0), Layout(tp=2, dp=4))
    share = n_params_total(LLAMA) / 2
    assert float(memory.weights_bytes) == pytest.approx(2 * share, rel=1e-3)
    assert float(memory.gradients_bytes) == pytest.approx(4 * share, rel=1e-3)
    assert float(memory.optimizer_bytes) == pytest.approx(12 * share / 4, rel=1e-3)
    sharded = training_memory(LLAMA, Batch(8192.0, 64.0, sharded_weights=True), Layout(tp=2, dp=4))
    layer = 2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336
    assert float(sharded.weights_bytes) == pytest.approx(2 * (2 * layer + 2 * 128256 * 4096) / 2, rel=1e-3)
    assert float(sharded.gradients_bytes) == pytest.approx(4 * share / 4, rel=1e-3)


def test_more_gpus_never_slow_a_fixed_batch_per_gpu() -> None:
    """Weak scaling: tokens/s/GPU falls only by what the network takes."""
    machine = Machine(H100, efficiency(), training_efficiency())
    speeds = [
        float(
            estimate_pretraining(scenario(Layout(tp=2, dp=dp), Batch(8192.0, 8.0 * dp)), machine).tokens_per_s_per_gpu
        )
        for dp in (4, 32, 256)
    ]
    assert speeds == sorted(speeds, reverse=True)
    assert speeds[-1] > 0.8 * speeds[0]


def test_scale_invariance_of_the_ideal() -> None:
    chip = H100.accelerator
    faster = replace(
        H100,
        accelerator=replace(
            chip,
            peak_flop_per_s={name: replace(fact, value=3 * fact.value) for name, fact in chip.peak_flop_per_s.items()},
            hbm_bytes_per_s=replace(chip.hbm_bytes_per_s, value=3 * chip.hbm_bytes_per_s.value),
        ),
    )
    one, other = (
        estimate_pretraining(scenario(Layout(), Batch(8192.0, 8.0)), Machine(system, IDEAL))
        for system in (H100, faster)
    )
    assert float(one.step_s / other.step_s) == pytest.approx(3)
    assert float(one.mfu_fraction) == pytest.approx(float(other.mfu_fraction))


def test_search_is_sorted_fits_and_agrees_with_single_answers() -> None:
    machine = Machine(H100, efficiency(), training_efficiency())
    one = scenario(Layout(dp=64), Batch(8192.0, 256.0))
    options = search_pretraining(one, training_layouts(LLAMA, 64, 8), machine, top=50)
    assert [option.step_s for option in options] == sorted(option.step_s for option in options)
    for option in options[::7]:
        batch = replace(one.batch, microbatch_sequences=float(option.microbatch_sequences), recompute=option.recompute)
        alone = estimate_pretraining(replace(one, layout=option.layout, batch=batch), machine)
        assert float(alone.step_s) == pytest.approx(option.step_s)
        assert bool(alone.fits)


def test_too_large_a_model_is_refused() -> None:
    big = replace(scenario(Layout(dp=8), Batch(8192.0, 64.0)), model=load_model("llama-3.1-405b"))
    with pytest.raises(DoesNotFitError, match="does not train"):
        search_pretraining(big, training_layouts(big.model, 8, 8), Machine(H100, efficiency(), training_efficiency()))


def test_a_batch_that_divides_over_no_layout_is_told_from_one_that_does_not_fit() -> None:
    one = scenario(Layout(dp=64), Batch(8192.0, 127.0))
    layouts = [Layout(tp=2, dp=32), Layout(tp=4, dp=16)]
    with pytest.raises(QuantityError, match=r"127 sequences.*128 sequences"):
        search_pretraining(one, layouts, Machine(H100, efficiency(), training_efficiency()))


PUBLISHED = [
    # model, system, layout, precision, sequence, global sequences, published MFU or GPU-hours per token, tolerance:
    # factors are uncalibrated assumptions, so the median must come near and the 90 % interval is not yet a promise.
    # Llama 3 paper (arXiv 2407.21783), table 4: 405B on 8,192 and 16,384 H100, 43 % and 41 % BF16 MFU.
    ("llama-3.1-405b", "h100-nvl8", "tp8-pp16-dp64", "bf16", 8192.0, 2048.0, 0.43),
    ("llama-3.1-405b", "h100-nvl8", "tp8-pp16-dp128", "bf16", 8192.0, 2048.0, 0.41),
]


@pytest.mark.parametrize(("model", "system", "layout", "precision", "sequence", "sequences", "mfu"), PUBLISHED)
def test_published_mfu_within_a_fifth(model, system, layout, precision, sequence, sequences, mfu) -> None:
    batch = Batch(sequence, sequences, recompute="none", virtual_stages=8.0)
    one = PretrainingScenario(load_model(model), parse_layout(layout), parse_precision(precision), batch)
    result = estimate_pretraining(one, Machine(load_system(system), efficiency(), training_efficiency()))
    assert float(result.mfu_fraction) == pytest.approx(mfu, rel=0.2)


def test_samples_broadcast() -> None:
    machine = Machine(
        H100, training=replace(training_efficiency(), training_gemm_fraction_hopper=np.linspace(0.5, 0.9, 5))
    )
    result = estimate_pretraining(scenario(Layout(dp=8), Batch(8192.0, 64.0)), machine)
    assert result.gpu_hours.shape == (5,)
    assert np.all(np.diff(result.gpu_hours) < 0)
