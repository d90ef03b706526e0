"""What a training GPU holds, against published accounts: kept activations, stages, schedules, precisions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from computeledger.facts.load import load_model
from computeledger.physics.parallelism import Layout
from computeledger.physics.training.batch import RECOMPUTE_CHOICES, RECOMPUTED, REVERSIBLE, Batch, Stack
from computeledger.physics.training.memory import training_memory
from computeledger.units import GIGA

GPT, LLAMA, DEEPSEEK = load_model("megatron-gpt-175b"), load_model("llama-3.1-405b"), load_model("deepseek-v3")
BATCH = Batch(4096.0, 2048.0, recompute="none")


def kept(batch: Batch, layout: Layout, model=DEEPSEEK) -> float:
    return float(training_memory(model, batch, layout).activations_bytes)


def staged(count: int, model=LLAMA):
    return replace(model, layers=(replace(model.layers[-1], count=count),))


def test_kept_activations_are_korthikantis() -> None:
    """ArXiv 2205.05198, section 4.1: 34 sbh per layer without attention's scores; two dropout masks are 2 sbh of it."""
    batch = Batch(2048.0, 64.0, recompute="none")
    whole = kept(batch, Layout(tp=8, dp=1), GPT)
    per_layer = whole / GPT.n_layers / 2048 / GPT.hidden_size * 8
    assert per_layer == pytest.approx(34 - 2)


def test_megatrons_own_account_of_deepseek_v3() -> None:
    """ArXiv 2603.07685, table 3: bf16 on 256 GPUs, PP4 x VPP4 x EP64: 36.4 + 32.1 + 131.0 = 199.5 GB per GPU."""
    batch = Batch(4096.0, 8192.0, recompute="none", virtual_stages=4.0, stack=Stack(mtp_layers=1))
    memory = training_memory(DEEPSEEK, batch, Layout(pp=4, dp=64, ep=64))
    held = float(memory.weights_bytes + memory.gradients_bytes)
    assert float(memory.total_bytes) == pytest.approx(199.5 * GIGA, rel=0.02)
    assert held == pytest.approx(36.4 * GIGA, rel=0.1)
    assert float(memory.optimizer_bytes) == pytest.approx(32.1 * GIGA, rel=0.1)
    assert float(memory.activations_bytes) == pytest.approx(131.0 * GIGA, rel=0.05)


def test_dualpipe_is_the_published_table() -> None:
    """DualPipe's README at 89f5de1: 1F1B keeps PP activations and one set of parameters, DualPipe PP + 1 and two."""
    model, layout = staged(64), Layout(tp=8, pp=8, dp=2)
    runs = {
        name: training_memory(model, replace(BATCH, stack=Stack(schedule=name)), layout)
        for name in ("1f1b", "dualpipe")
    }
    assert float(runs["dualpipe"].activations_bytes / runs["1f1b"].activations_bytes) == pytest.approx(9 / 8)
    # a GPU of the ends holds both tables, the first stage alone holds one
    assert float(runs["dualpipe"].weights_bytes / runs["1f1b"].weights_bytes) == pytest.approx(2)
    assert float(runs["dualpipe"].optimizer_bytes / runs["1f1b"].optimizer_bytes) == pytest.approx(1)


def test_llama_405b_has_a_layer_less_on_either_end() -> None:
    """Herd paper, section 3.3.2: the first and the last stage have a layer less; the second then holds the most."""
    layout = Layout(tp=8, pp=16, dp=128)
    memory = training_memory(LLAMA, replace(BATCH, sequence_tokens=8192.0, virtual_stages=8.0), layout)
    layer = 2 * 16384 * (16384 + 8 * 128) + 3 * 16384 * 53248
    assert float(memory.weights_bytes) == pytest.approx(2 * 8 * layer / 8, rel=1e-6)


def test_named_operations_by_hand() -> None:
    """DeepSeek-V3 report, sections 3.2.3 and 3.3.3: what stays of an expert layer, in bytes of one token."""
    moe = replace(DEEPSEEK, layers=(replace(DEEPSEEK.layers[-1], count=4),), n_mtp_layers=0)
    batch = replace(
        BATCH, recompute="layernorm,mla_up_proj,moe_act", stack=Stack(activation_precision="fp8"), global_sequences=64.0
    )
    d, latents, heads, width = 7168, 1536 + 512 + 64, 128 * 128, 9 * 2048
    wide, narrow = 2 * d + latents + heads, 8 * d + 2 * width
    assert kept(batch, Layout(dp=64, ep=64), moe) == pytest.approx(4096 * 4 * (2 * wide + narrow))


def test_what_each_mechanism_saves() -> None:
    layout = Layout(pp=16, dp=128, ep=64)
    plain = training_memory(DEEPSEEK, BATCH, layout)
    for operation in RECOMPUTED[1:]:
        assert kept(replace(BATCH, recompute=operation), layout) < float(plain.activations_bytes)
    narrow = training_memory(DEEPSEEK, replace(BATCH, stack=Stack(activation_precision="fp8")), layout)
    assert 0.5 < float(narrow.activations_bytes / plain.activations_bytes) < 1
    moments = training_memory(DEEPSEEK, replace(BATCH, stack=Stack(moment_precision="bf16")), layout)
    assert float(moments.optimizer_bytes / plain.optimizer_bytes) == pytest.approx(8 / 12)
    pieces = replace(BATCH, virtual_stages=4.0)
    shared = training_memory(DEEPSEEK, replace(pieces, stack=Stack(sharded_gradients=True)), layout)
    whole = training_memory(DEEPSEEK, pieces, layout)
    assert 0.25 < float(shared.gradients_bytes / whole.gradients_bytes) < 0.5


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["1f1b", "zero-bubble", "dualpipe"]),
    st.sampled_from(RECOMPUTE_CHOICES),
    st.sampled_from(["bf16", "fp8"]),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.integers(1, 8),
)
def test_memory_grows_with_the_microbatch(schedule: str, recompute: str, precision: str, pp: int, micro: int) -> None:
    batch = replace(BATCH, recompute=recompute, stack=Stack(schedule=schedule, activation_precision=precision))
    layout = Layout(pp=pp, dp=16, ep=16)
    less, more = (
        training_memory(DEEPSEEK, replace(batch, microbatch_sequences=float(n)), layout) for n in (micro, micro + 1)
    )
    assert float(less.total_bytes) < float(more.total_bytes)
    again = replace(batch, recompute="full", microbatch_sequences=float(micro))
    least, own = kept(again, layout), float(less.activations_bytes)
    assert own < least if recompute == REVERSIBLE and pp > 1 else least <= own or recompute == REVERSIBLE
