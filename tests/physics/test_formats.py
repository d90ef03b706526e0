"""Formats of stored weights: what is read, what multiplies, and which interval an answer carries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from computeledger.errors import InputError
from computeledger.facts.huggingface import parse_config
from computeledger.facts.load import load_accelerator, load_model, load_system
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, OperationKind, Precision, parse_precision, parse_training_precision
from computeledger.physics.serving.operations import Step, forward
from computeledger.validation.serving.points import sort_points
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving
from computeledger.workloads.serving.intervals import KNOWN, NEW, interval_class

QWEN = {
    "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16,
    "num_hidden_layers": 28, "num_key_value_heads": 8, "vocab_size": 151936, "head_dim": 128,
    "max_position_embeddings": 40960,
}  # fmt: skip


def group(bits: int, kind: str, activations: object, size: int | None = None) -> dict[str, object]:
    weights = {"num_bits": bits, "type": kind, "group_size": size}
    groups = {"group_0": {"weights": weights, "input_activations": activations}}
    return {"quant_method": "compressed-tensors", "config_groups": groups}


INT8 = {"num_bits": 8, "type": "int"}


@pytest.mark.parametrize(
    ("quantised", "expected"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "int4-g32"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "w8a16"),
        (group(4, "int", None, 32), "int4-g32"),
        (group(4, "int", {"num_bits": 8, "type": "float"}, 128), "w4a8"),
        (group(8, "int", INT8), "int8"),
        (group(8, "int", None), "w8a16"),
        (group(4, "float", {"num_bits": 4, "type": "float"}, 16), "fp4"),
        (group(4, "float", {"num_bits": 8, "type": "float"}, 32), "fp4-a8"),
        (group(4, "float", None, 16), "fp4-a16"),
        ({"quant_algo": "NVFP4"}, "fp4"),
        ({"quant_algo": "W4A16_NVFP4"}, "fp4-a16"),
        ({"quant_algo": "W4A8_MXFP4_MXFP8"}, "fp4-a8"),
        (group(8, "float", {"num_bits": 8, "type": "float"}), "fp8"),
        ({"quant_algo": "W4A16_AWQ"}, "int4"),
        ({"quant_algo": "W4A8_AWQ"}, "w4a8"),
        ({"quant_algo": "W8A8_SQ_PER_CHANNEL"}, "int8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4-g64"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
    ],
)
def test_a_checkpoint_is_read_as_what_it_is(quantised: dict[str, object], expected: str) -> None:
    model = parse_config({**QWEN, "quantization_config": quantised}, "x/y")
    assert model.dense_precision == expected


def test_scales_are_counted() -> None:
    """AWQ: 4 bits, and 16 + 4 bits for 128 values; groups of 32 with a 16-bit scale are half a bit more."""
    assert PRECISION_BYTES["int4"] * 8 == pytest.approx(4 + 20 / 128)
    assert PRECISION_BYTES["int4-g32"] * 8 == pytest.approx(4.5)
    assert PRECISION_BYTES["w8a16"] * 8 == pytest.approx(8 + 16 / 128)


@pytest.mark.parametrize("system", ["h100-nvl8", "b200-nvl8", "a100-nvl8"])
def test_weight_only_formats_read_little_and_multiply_in_16_bits(system: str) -> None:
    machine, model = Machine(load_system(system), efficiency()), load_model("llama-3.1-70b")

    def products(weights: str, step: Step) -> tuple[float, float]:
        operations = forward(model, step, Layout(tp=4), parse_precision(weights), machine)
        one = next(one for one in operations if one.kind == OperationKind.DENSE_MLP)
        return float(one.compute_s), float(one.memory_s)

    for weights in ("int4", "w8a16", "fp4-a16"):
        (narrow_s, narrow_read_s), (wide_s, wide_read_s) = (
            products(one, Step(1.0, 0.0, 4096.0, decode=False)) for one in (weights, "bf16")
        )
        assert narrow_s == wide_s
        assert narrow_read_s / wide_read_s == pytest.approx(PRECISION_BYTES[weights] / 2)


def test_four_bit_floats_multiply_in_what_their_activations_have() -> None:
    """W4A16_NVFP4 of Qwen3.6: 4-bit weights alone; its products ran at the rate of 4-bit units."""
    chip = load_accelerator("b200-sxm")
    assert [chip.native_precision(one) for one in ("fp4", "fp4-a8", "fp4-a16")] == ["fp4", "fp8", "bf16"]
    model = load_model("nvidia/Qwen3.6-27B-NVFP4")
    assert (model.weight_precision, model.dense_precision) == ("fp8", "fp4-a16")
    assert load_model("moonshotai/Kimi-K3").expert_precision == "fp4-a16"


def test_int8_runs_on_integer_units_where_they_are_faster() -> None:
    for name in ("a100-sxm4-80gb", "h100-sxm5-80gb", "tpu-v6e"):
        chip = load_accelerator(name)
        assert chip.native_precision("int8") == "int8" and chip.peak("int8") > 1.9 * chip.peak("bf16")
    assert load_accelerator("b300-sxm").native_precision("int8") == "bf16", "its integer units are slower"
    assert load_accelerator("trainium2").native_precision("int8") == "bf16", "no fact names any"


def test_integer_weights_are_never_a_deployment_that_was_measured_in_another_format() -> None:
    deepseek = load_model("deepseek-r1")
    assert interval_class(deepseek, "fp8", load_system("h200-nvl8"), "sglang") == KNOWN
    for weights in ("int4", "int8", "w4a8", "bf16", "fp4-a16"):
        assert interval_class(deepseek, weights, load_system("h200-nvl8"), "sglang") == NEW


def test_training_takes_no_integers() -> None:
    with pytest.raises(InputError, match="precision of training 'int4': allowed: bf16, fp4, fp8"):
        parse_training_precision("int4")


KIMI = {
    "model_path": "moonshotai/Kimi-K2.5", "system": "b200_sxm", "backend": "vllm", "mode": "agg", "isl": "1024",
    "osl": "1024", "batch_size": "16", "tp_size": "8", "moe_ep_size": "1", "attention_dp_size": "1", "pp_size": "1",
    "precision": "int4", "gemm_quant_mode": "int4_wo", "moe_quant_mode": "int4_wo", "silicon_ttft_ms": "200",
    "silicon_tpot_ms": "15",
}  # fmt: skip


def test_a_point_in_a_native_int4_checkpoint_fits_and_is_asked() -> None:
    """Kimi-K2.5 as published: experts in int4 by 32, the rest in 16 bits; 577 GB on 8 x 180 GB."""
    (point,), skipped = sort_points([KIMI])
    assert not skipped
    assert point.precision == Precision("bf16", "bf16", "int4-g32")
    assert sort_points([KIMI | {"gemm_quant_mode": "ternary"}])[1] == {"weight format not known": 1}


def test_int4_decodes_faster_and_prefills_no_faster_than_16_bits() -> None:
    machine = Machine(load_system("h100-nvl8"), efficiency())
    wide = ServingScenario(load_model("llama-3.1-70b"), Layout(tp=4), Precision(), 4096.0, 512.0, 4.0)
    narrow = replace(wide, precision=parse_precision("int4"))
    assert estimate_serving(narrow, machine).decode_s < 0.6 * estimate_serving(wide, machine).decode_s
    assert estimate_serving(narrow, machine).prefill_s == pytest.approx(
        float(estimate_serving(wide, machine).prefill_s), rel=0.02
    )
