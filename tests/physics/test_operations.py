"""The operation-level model reduces to the two equations, and behaves as physics must."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from computeledger.facts.load import load_model, load_system
from computeledger.facts.schema import System
from computeledger.physics import collectives
from computeledger.physics.blackboard.ledgers import BlackboardMachine, BlackboardModel, decode_times
from computeledger.physics.calibration.efficiency import IDEAL, efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision, bound, bound_times_s, total_s
from computeledger.physics.serving.memory import serving_memory, weights_bytes_per_gpu
from computeledger.physics.serving.operations import Step, distinct_experts, forward, prefill
from computeledger.physics.transformer import kv_bytes_per_token, n_params_active, n_params_total

LLAMA, DEEPSEEK = load_model("llama-3.1-8b"), load_model("deepseek-v3")
H100, GB200 = load_system("h100-nvl8"), load_system("gb200-nvl72")
FP8 = Precision("fp8", "fp8", "fp8")


def blackboard(system: System) -> BlackboardMachine:
    chip = system.accelerator
    return BlackboardMachine(chip.peak_flop_per_s["bf16"].value, chip.hbm_bytes_per_s.value)


def scaled(system: System, factor: float) -> System:
    """The same system with every rate multiplied and every latency divided."""
    chip = system.accelerator
    rates = {name: replace(fact, value=fact.value * factor) for name, fact in chip.peak_flop_per_s.items()}
    hbm = replace(chip.hbm_bytes_per_s, value=chip.hbm_bytes_per_s.value * factor)
    links = {
        name: replace(getattr(system, name), value=getattr(system, name).value * factor)
        for name in ("scale_up_bytes_per_s_per_gpu", "scale_out_bytes_per_s_per_gpu")
    }
    waits = {
        name: replace(getattr(system, name), value=getattr(system, name).value / factor)
        for name in ("scale_up_latency_s", "scale_out_latency_s")
    }
    return replace(system, accelerator=replace(chip, peak_flop_per_s=rates, hbm_bytes_per_s=hbm), **links, **waits)


def step_s(batch: float, context: float, layout: Layout, system: System = H100, model=LLAMA) -> float:
    return float(total_s(forward(model, Step(batch, context), layout, Precision(), Machine(system))))


def two_equations(batch: float, context: float) -> tuple[float, float]:
    n_active = n_params_active(LLAMA)
    model = BlackboardModel(n_active, n_active, kv_bytes_per_token=kv_bytes_per_token(LLAMA, 2.0))
    times = decode_times(batch, context, model, blackboard(H100))
    return float(times.compute_s), float(times.memory_s)


@pytest.mark.parametrize("context", [1.0, 1024.0, 32768.0])
def test_small_batch_is_the_memory_equation(context: float) -> None:
    """Batch 1: every operation is memory-bound, so the sum is (weights + KV) / bandwidth."""
    _, memory = two_equations(1.0, context)
    assert step_s(1.0, context - 1, Layout()) == pytest.approx(memory, rel=1e-9)


def test_large_batch_is_the_compute_equation() -> None:
    """At large batch the sum tends to 2 B N / F, and the cache is read one operation after the products."""
    compute, memory = two_equations(1e5, 1.0)
    cache = 1e5 * kv_bytes_per_token(LLAMA, 2.0) / H100.accelerator.hbm_bytes_per_s.value
    assert compute > 10 * memory
    assert step_s(1e5, 0.0, Layout()) == pytest.approx(compute + cache, rel=1e-4)


@given(batch=st.floats(1, 4096), context=st.floats(1, 65536))
@settings(max_examples=60, deadline=None)
def test_never_faster_than_either_equation(batch: float, context: float) -> None:
    compute, memory = two_equations(batch, context)
    assert step_s(batch, context - 1, Layout()) >= max(compute, memory) * (1 - 1e-9)


@given(batch=st.floats(1, 4096), context=st.floats(1, 65536), factor=st.floats(1.1, 8.0))
@settings(max_examples=40, deadline=None)
def test_scale_invariance(batch: float, context: float, factor: float) -> None:
    """Every rate times f and every latency over f: every time over f."""
    layout = Layout(tp=4)
    assert step_s(batch, context, layout, scaled(H100, factor)) == pytest.approx(
        step_s(batch, context, layout) / factor, rel=1e-9
    )


@given(batch=st.floats(1, 2048), context=st.floats(1, 65536), more=st.floats(1.0, 3.0))
@settings(max_examples=40, deadline=None)
def test_monotone_in_batch_and_context(batch: float, context: float, more: float) -> None:
    for layout in (Layout(), Layout(tp=8), Layout(tp=2, pp=4)):
        assert step_s(batch * more, context, layout) >= step_s(batch, context, layout) * (1 - 1e-12)
        assert step_s(batch, context * more, layout) >= step_s(batch, context, layout) * (1 - 1e-12)


def test_monotone_in_bandwidth_and_peak() -> None:
    chip = H100.accelerator
    faster = replace(chip, hbm_bytes_per_s=replace(chip.hbm_bytes_per_s, value=2 * chip.hbm_bytes_per_s.value))
    assert step_s(1, 1024, Layout(), replace(H100, accelerator=faster)) == pytest.approx(step_s(1, 1024, Layout()) / 2)
    stronger = replace(chip, peak_flop_per_s={"bf16": replace(chip.peak_flop_per_s["bf16"], value=1e18)})
    assert step_s(4096, 1, Layout(), replace(H100, accelerator=stronger)) < step_s(4096, 1, Layout())


def test_real_is_never_faster_than_ideal() -> None:
    step = Step(np.array([1.0, 64.0, 1024.0]), 4096.0)
    for model, system, layout in ((LLAMA, H100, Layout()), (DEEPSEEK, GB200, Layout(dp=32, ep=32))):
        limit = total_s(forward(model, step, layout, FP8, Machine(system, IDEAL)))
        assert np.all(total_s(forward(model, step, layout, FP8, Machine(system, efficiency()))) > limit)


def test_arrays_equal_single_numbers() -> None:
    layouts = [Layout(tp=8, ep=8), Layout(dp=64, ep=64), Layout(tp=2, pp=2, dp=8, ep=16), Layout(tp=4, dp=4, ep=4)]
    batch, context = np.array([1.0, 37.0, 512.0, 4096.0]), np.array([128.0, 4096.0, 1e5, 777.0])
    columns = {name: np.array([float(getattr(one, name)) for one in layouts]) for name in ("tp", "pp", "dp", "ep")}
    machine = Machine(GB200, efficiency())
    together = total_s(forward(DEEPSEEK, Step(batch, context), Layout(**columns), FP8, machine))
    for i, layout in enumerate(layouts):
        alone = total_s(forward(DEEPSEEK, Step(batch[i], context[i]), layout, FP8, machine))
        assert float(alone) == pytest.approx(together[i], rel=1e-12)


@given(tokens=st.floats(0.01, 1e6), k=st.integers(1, 32))
def test_distinct_experts(tokens: float, k: int) -> None:
    """One token hits k; many hit all; never more than either bound."""
    hit = float(distinct_experts(256, k, tokens))
    assert hit <= min(256, k * max(tokens, 1.0)) * (1 + 1e-12)
    assert float(distinct_experts(256, k, 1.0)) == pytest.approx(k)
    assert float(distinct_experts(256, k, 1e7)) == pytest.approx(256)


def test_experts_of_one_token_launch_less_and_dense_layers_do_not() -> None:
    def floors_s(name: str, sequences: float, ratio: float) -> float:
        machine = Machine(load_system("h200-nvl8"), replace(efficiency(), single_experts_ratio=ratio))
        steps = forward(load_model(name), Step(sequences, 1024.0, decode=True), Layout(), Precision(), machine)
        return float(np.sum([one.overhead_s for one in steps if one.kind == "launch floors"]))

    saved_s = [floors_s("qwen3-30b-a3b", n, 1.0) - floors_s("qwen3-30b-a3b", n, 0.6) for n in (1.0, 2.0, 64.0)]
    constants = efficiency()
    assert saved_s[0] == pytest.approx(0.4 * 48 * float(constants.experts_floor_s * constants.floor_ratio))
    assert saved_s[1] == pytest.approx(saved_s[0] / 2) and saved_s[2] == pytest.approx(0.0, abs=1e-12)
    assert floors_s("llama-3.1-8b", 1.0, 0.6) == floors_s("llama-3.1-8b", 1.0, 1.0)


def test_parts_add_up_to_the_step() -> None:
    machine = Machine(GB200, efficiency())
    for operations in (
        forward(DEEPSEEK, Step(2048.0, 8192.0), Layout(dp=64, ep=64), FP8, machine),
        prefill(DEEPSEEK, Step(64.0, 0.0, 4096.0, decode=False), Layout(dp=64, ep=64), FP8, machine),
    ):
        assert float(sum(bound_times_s(operations).values())) == pytest.approx(float(total_s(operations)))
        assert str(bound(operations)) in bound_times_s(operations)


@pytest.mark.parametrize("layout", [Layout(tp=8, ep=8), Layout(tp=4, ep=1)])
def test_weights_are_conserved(layout: Layout) -> None:
    """Without attention-DP nothing is replicated: the GPUs together hold the model once."""
    bf16 = Precision()
    held = float(weights_bytes_per_gpu(DEEPSEEK, layout, bf16) * layout.n_gpus)
    assert held == pytest.approx(2 * n_params_total(DEEPSEEK), rel=1e-3)


def test_latent_cache_is_not_cut_by_tensor_parallelism() -> None:
    """MLA replicates over TP; GQA beyond its KV heads too."""
    one = serving_memory(DEEPSEEK, GB200, Layout(tp=1), FP8, (1.0, 1000.0)).sequence_bytes
    eight = serving_memory(DEEPSEEK, GB200, Layout(tp=8), FP8, (1.0, 1000.0)).sequence_bytes
    assert float(one) == float(eight) == 70272.0 * 1000
    llama = [float(serving_memory(LLAMA, H100, Layout(tp=tp), FP8, (1.0, 1.0)).sequence_bytes) for tp in (1, 8, 16)]
    assert llama == [131072.0, 131072.0 / 8, 131072.0 / 8]


def test_pipelining_saves_weights_not_cache_per_sequence_in_flight() -> None:
    """Memory yes, KV no: a stage holds 1/p of each sequence, but p times as many sequences are in flight.

    The ends hold a whole table besides their layers: vLLM logs 4.26 GiB of Llama 3.1 8B in four stages, not 15 / 4.
    """
    one, four = (serving_memory(LLAMA, H100, Layout(pp=pp), Precision(), (1.0, 4096.0)) for pp in (1, 4))
    table = 2.0 * LLAMA.vocab_size * LLAMA.hidden_size
    assert float(four.weights_bytes) == pytest.approx((float(one.weights_bytes) - 2 * table) / 4 + table)
    assert float(four.sequence_bytes) * 4 == pytest.approx(float(one.sequence_bytes))


def test_two_batches_hide_traffic_behind_work_and_no_more() -> None:
    """Ideal: the longer of work and traffic. Else at least the exposed share shows; weights are read twice."""
    layout = Layout(dp=32, ep=32)
    step = Step(32.0 * np.array([2.0, 64.0, 512.0]), 4096.0)

    def parts(machine: Machine, overlapped: bool) -> tuple[np.ndarray, np.ndarray]:
        operations = forward(DEEPSEEK, replace(step, overlapped=overlapped), layout, FP8, machine)
        traffic = sum(np.asarray(one.time_s) for one in operations if one.name == "all-to-all")
        return np.asarray(total_s(operations)), np.asarray(traffic)

    ideal = Machine(H100)
    half = forward(DEEPSEEK, replace(step, sequences=step.sequences / 2), layout, FP8, ideal)
    sent = 2 * np.asarray(next(one.time_s for one in half if one.name == "all-to-all"))
    whole = parts(ideal, overlapped=True)[0]
    assert np.allclose(whole, np.maximum(sent, 2 * np.asarray(total_s(half)) - sent))
    real = replace(ideal, efficiency=replace(ideal.efficiency, exposed_dispatch_fraction=0.3))
    assert np.all(parts(real, overlapped=True)[1] >= 0.3 * sent * (1 - 1e-9))
    assert np.all(parts(real, overlapped=True)[0] >= whole)
    plain = parts(real, overlapped=False)[0]
    assert parts(real, overlapped=True)[0][-1] < plain[-1]  # pays at large batches
    assert parts(real, overlapped=True)[0][0] > plain[0]  # not at small ones: weights are read twice


def test_a_forwarded_token_crosses_once_per_domain() -> None:
    """One destination: nothing to forward. Inside one domain the fabric beyond plays no part."""
    machine = Machine(H100)
    one = collectives.forwarded_all_to_all_s(1e8, 1, 32, machine)
    assert one == pytest.approx(float(collectives.all_to_all_s(1e8, 32, machine)), rel=0.02)
    inside = collectives.forwarded_all_to_all_s(1e8, 8, 8, machine)
    copies = 8 * (1 - (1 - 1 / 8) ** 8)
    assert inside == pytest.approx(float(collectives.all_to_all_s(1e8 * copies, 8, machine)))


def test_attention_products_run_at_their_own_precision() -> None:
    """In fp8 they take half the time on a chip with twice the peak; nothing else moves."""
    step = Step(1.0, 0.0, 131072.0, decode=False)
    wide, narrow = (
        {
            one.name: float(one.time_s)
            for one in forward(DEEPSEEK, step, Layout(), replace(FP8, scores=name), Machine(H100))
        }
        for name in ("bf16", "fp8")
    )
    ratio = H100.accelerator.peak("fp8") / H100.accelerator.peak("bf16")
    assert wide.pop("latent attention") == pytest.approx(ratio * narrow.pop("latent attention"))
    assert wide == narrow
