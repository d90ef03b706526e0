"""The training step: limits, closed forms, what each part of the software changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from computeledger.facts.load import load_accelerator, load_model, load_system
from computeledger.physics.calibration.training import (
    TrainingEfficiency,
    chip_family,
    load_training_factors,
    training_efficiency,
)
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision, parse_precision
from computeledger.physics.training.batch import Batch, Stack
from computeledger.physics.training.counts import layer_counts
from computeledger.physics.training.memory import training_memory
from computeledger.physics.training.operations import microbatch
from computeledger.physics.training.step import step_time
from computeledger.physics.transformer import n_params_active, n_params_total

LLAMA, DEEPSEEK = load_model("llama-3.1-8b"), load_model("deepseek-v3")
H100, GB200 = load_system("h100-nvl8"), load_system("gb200-nvl72")
TYPICAL = Machine(H100, training=training_efficiency())
BATCH = Batch(4096.0, 64.0)


def seconds(batch: Batch, layout: Layout, machine: Machine = TYPICAL, model=LLAMA, precision=None) -> float:
    return float(step_time(model, batch, layout, precision or Precision(), machine).step_s)


def with_stack(**traits) -> Batch:
    return replace(BATCH, stack=Stack(**traits))


def operation(batch: Batch, layout: Layout, name: str, machine: Machine = TYPICAL, model=LLAMA):
    return next(one for one in microbatch(model, batch, layout, Precision(), machine) if one.name == name)


@pytest.mark.parametrize("model", [LLAMA, DEEPSEEK, load_model("gpt-oss-120b"), load_model("nemotron-3-nano")])
def test_counts_are_the_models_parameters(model) -> None:
    counts = layer_counts(model.layers, model.hidden_size)
    head = model.vocab_size * model.hidden_size
    assert counts.dense_params + counts.routed_params + head == n_params_active(model)
    tables = head * (1 if model.tied_embeddings else 2)
    assert counts.dense_params + counts.stored_params + tables == pytest.approx(n_params_total(model), rel=1e-3)


def test_calibration_is_small_and_grounded() -> None:
    fitted = [one for one in load_training_factors().values() if one.kind == "calibration"]
    assert 10 <= len(fitted) <= 20
    assert all(one.date and "residual" in one.why for one in fitted)


def test_chips_outside_the_calibration_get_a_wider_interval() -> None:
    ratios = {name: load_training_factors()[f"training_{name}_ratio"].value for name in ("known", "unseen", "chip")}
    assert ratios["known"].high < ratios["unseen"].high < ratios["chip"].high
    families = [chip_family(load_accelerator(one)) for one in ("mi300x", "mi250x", "trainium2")]
    assert families == ["cdna", "cdna", "other"]
    drawn = TrainingEfficiency(training_chip_ratio=2.0, training_unseen_ratio=1.0)
    plain = seconds(BATCH, Layout(dp=8), Machine(load_system("mi300x-8")))
    assert seconds(BATCH, Layout(dp=8), Machine(load_system("mi300x-8"), training=drawn)) == pytest.approx(2 * plain)


def test_adapters_skip_the_weight_gradients() -> None:
    whole = operation(BATCH, Layout(dp=8), "matrix products")
    adapters = operation(with_stack(trained_fraction=0.0), Layout(dp=8), "matrix products")
    assert float(adapters.flop / whole.flop) == pytest.approx(2 / 3)
    memory = training_memory(LLAMA, with_stack(trained_fraction=0.0), Layout(dp=8))
    assert float(memory.optimizer_bytes) == float(memory.gradients_bytes) == 0.0


def test_the_last_stage_runs_the_head() -> None:
    """Where the stages divide the layers, the busiest one has a whole head and its share of the layers."""
    ideal, layout = Machine(H100), Layout(pp=4, dp=2)
    parts = {one.name: float(np.asarray(one.time_s)) for one in microbatch(LLAMA, BATCH, layout, Precision(), ideal)}
    head = float(operation(BATCH, Layout(dp=8), "output head", ideal).time_s)
    assert parts["uneven stages"] + parts["output head"] == pytest.approx(head, rel=1e-3)
    odd = replace(LLAMA, layers=(replace(LLAMA.layers[0], count=30),))
    assert float(operation(BATCH, layout, "uneven stages", ideal, odd).time_s) < parts["uneven stages"]


def test_schedules_leave_less_of_the_bubble() -> None:
    layout, times = Layout(pp=8, dp=1), {}
    for schedule in ("1f1b", "dualpipe", "zero-bubble"):
        times[schedule] = step_time(LLAMA, with_stack(schedule=schedule), layout, Precision(), TYPICAL).bubble_s
    assert float(times["zero-bubble"]) < float(times["dualpipe"]) < float(times["1f1b"])


def test_software_moves_the_step_the_right_way() -> None:
    layout = Layout(tp=2, dp=4)
    plain = seconds(BATCH, layout)
    assert seconds(with_stack(hidden_tensor_parallel=True), layout) < plain
    assert seconds(with_stack(compiled=False), layout) > plain
    assert seconds(with_stack(attention="flash2"), layout) > plain
    assert seconds(with_stack(attention="unfused"), layout) > seconds(with_stack(attention="flash2"), layout)
    fp8 = parse_precision("fp8")
    assert seconds(BATCH, layout, precision=fp8) < plain
    assert seconds(with_stack(recipe="block"), layout, precision=fp8) > seconds(BATCH, layout, precision=fp8)
    assert seconds(with_stack(recipe="row"), layout, precision=fp8) > seconds(BATCH, layout, precision=fp8)


def test_experts() -> None:
    """All-to-all stays inside a large scale-up domain; fused kernels, graphs and prediction modules count."""
    layout, fp8 = Layout(dp=64, ep=64), parse_precision("fp8", True)
    batch = Batch(4096.0, 256.0)
    near = operation(batch, layout, "all-to-all", Machine(GB200, training=training_efficiency()), DEEPSEEK)
    far = operation(batch, layout, "all-to-all", TYPICAL, DEEPSEEK)
    assert float(far.time_s) > 4 * float(near.time_s)
    plain = seconds(batch, layout, TYPICAL, DEEPSEEK, fp8)
    fused = replace(batch, stack=Stack(fused_experts=True, graphs=True))
    assert seconds(fused, layout, TYPICAL, DEEPSEEK, fp8) < plain
    assert seconds(replace(batch, stack=Stack(mtp_layers=1)), layout, TYPICAL, DEEPSEEK, fp8) > plain
    assert seconds(replace(batch, stack=Stack(imbalance=1.3)), layout, TYPICAL, DEEPSEEK, fp8) > plain


def test_clocks_follow_power() -> None:
    factors = TrainingEfficiency(training_power_exponent=1.0)
    assert factors.power_ratio(load_accelerator("h100-sxm5-80gb")) == pytest.approx(1.0)
    # GB300: 1,400 W for 2,500 TFLOP/s; B200: 1,000 W for 2,250 (the facts)
    assert factors.power_ratio(load_accelerator("gb300-gpu")) == pytest.approx(1400 / 2500 * 2250 / 1000)


def test_reversible_layers_trade_memory_for_time() -> None:
    layout = Layout(tp=2, pp=4, dp=1)
    few = replace(LLAMA, vocab_size=256)  # a layer is computed back when the logits are gone: none to speak of here
    held, times = {}, {}
    for mode in ("none", "full", "reversible"):
        batch = replace(BATCH, recompute=mode)
        held[mode] = float(training_memory(few, batch, layout).activations_bytes)
        times[mode] = seconds(batch, layout)
    # one layer is alive at a time, with both halves of its output (blackboard: a (L - r (L - 1)) at r = 1)
    single = replace(few, layers=(replace(LLAMA.layers[0], count=1),))
    alone = float(training_memory(single, replace(BATCH, recompute="none"), Layout(tp=2)).activations_bytes)
    halves = BATCH.sequence_tokens * 2 * LLAMA.hidden_size * 2 / layout.tp
    assert held["reversible"] == pytest.approx(alone + halves, rel=0.01)
    assert held["reversible"] < held["full"] / 2 < held["none"] / 8
    assert times["reversible"] == times["full"] > times["none"]
    # at the logits that layer is gone; both halves of the last output are not
    at_logits = training_memory(LLAMA, replace(BATCH, recompute="reversible"), Layout(tp=2))
    assert at_logits.logits_bytes > alone and float(at_logits.activations_bytes) == pytest.approx(halves)
    deep = replace(LLAMA, layers=(replace(LLAMA.layers[0], count=64),))
    batch, one = replace(BATCH, recompute="reversible"), Layout(tp=2, dp=4)
    shallow = training_memory(LLAMA, batch, one).activations_bytes
    assert float(training_memory(deep, batch, one).activations_bytes) == pytest.approx(float(shallow) / 1.0, rel=1e-9)


def test_residual_streams_cross_stages() -> None:
    """Connections across layers multiply what a stage hands on and what elementwise kernels read."""
    layout = Layout(pp=4, dp=2)
    one, four = (operation(with_stack(residual_streams=n), layout, "pipeline hops") for n in (1.0, 4.0))
    assert float(four.network_s) == pytest.approx(4 * float(one.network_s))
    assert seconds(with_stack(residual_streams=4.0), layout) > seconds(BATCH, layout)
    own = replace(LLAMA, residual_streams=4)  # as a configuration states them, for training and for serving alike
    assert seconds(BATCH, layout, model=own) == pytest.approx(seconds(with_stack(residual_streams=4.0), layout))
    assert load_model("deepseek-ai/DeepSeek-V4-Pro").residual_streams == 4


def test_long_context_is_attention() -> None:
    """At a million tokens attention takes nearly all of a step, however the sequence is cut."""
    batch = Batch(2.0**20, 1.0, recompute="none")
    for layout in (Layout(tp=8, cp=16), Layout(tp=8, cp=32)):
        step = step_time(LLAMA, batch, layout, Precision(), TYPICAL)
        share = {one.name: float(np.asarray(one.time_s)) for one in step.operations}
        assert share["attention"] > 0.8 * float(step.microbatch_s)


def test_the_busiest_stage_of_a_model_with_experts() -> None:
    """DeepSeek-V3 cut to four layers over two stages, measured 114.0 GiB (SimuMax, B200, EP4 PP2 DP4)."""
    dense, routed = DEEPSEEK.layers[0], DEEPSEEK.layers[-1]
    model = replace(DEEPSEEK, layers=(replace(dense, count=1), replace(routed, count=3)))
    batch = Batch(4096.0, 128.0, recompute="none")
    memory = training_memory(model, batch, Layout(pp=2, dp=4, ep=4))
    assert float(memory.total_bytes) / 2**30 == pytest.approx(114.0, rel=0.12)
