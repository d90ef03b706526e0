"""Formats of stored weights: what is read, what multiplies, and which interval an answer carries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from computeledger.errors import InputError, UnknownIdError
from computeledger.facts.huggingface import parse_config
from computeledger.facts.load import load_accelerator, load_model, load_system
from computeledger.facts.schema import PRECISION_BYTES
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import (
    UNPACKED_FRACTION,
    Machine,
    OperationKind,
    Precision,
    parse_precision,
    parse_training_precision,
)
from computeledger.physics.serving.memory import weights_bytes_per_gpu
from computeledger.physics.serving.operations import Step, forward
from computeledger.physics.transformer import n_params_total
from computeledger.physics.weights import precision_of, weight_counts
from computeledger.questions.answers.serving.document import wider_products
from computeledger.questions.answers.setup import multiplied_in
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
        (group(4, "float", {"num_bits": 8, "type": "float"}, 32), "mxfp4-a8"),
        (group(4, "float", None, 32), "mxfp4-a16"),
        (group(4, "float", {"num_bits": 8, "type": "float"}, 16), "fp4-a8"),
        ({"quant_method": "mxfp8"}, "mxfp8"),
        (group(4, "float", None, 16), "fp4-a16"),
        ({"quant_algo": "NVFP4"}, "fp4"),
        ({"quant_algo": "W4A16_NVFP4"}, "fp4-a16"),
        ({"quant_algo": "W4A8_MXFP4_MXFP8"}, "mxfp4-a8"),
        (group(8, "float", {"num_bits": 8, "type": "float"}), "fp8"),
        ({"quant_algo": "W4A16_AWQ"}, "int4"),
        ({"quant_algo": "W4A8_AWQ"}, "w4a8"),
        ({"quant_algo": "W8A8_SQ_PER_CHANNEL"}, "int8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
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
        assert wide_s / narrow_s == pytest.approx(UNPACKED_FRACTION), "unpacking costs a little of both rates"
        assert narrow_read_s / wide_read_s == pytest.approx(PRECISION_BYTES[weights] / 2 / UNPACKED_FRACTION)


def test_four_bit_floats_multiply_in_what_their_activations_have() -> None:
    """W4A16_NVFP4 of Qwen3.6: 4-bit weights alone; its products ran at the rate of 4-bit units."""
    chip = load_accelerator("b200-sxm")
    assert [chip.native_precision(one) for one in ("fp4", "fp4-a8", "fp4-a16")] == ["fp4", "fp8", "bf16"]
    model = load_model("nvidia/Qwen3.6-27B-NVFP4")
    assert (model.weight_precision, model.dense_precision) == ("fp8", "fp4-a16")
    assert load_model("moonshotai/Kimi-K3").expert_precision == "mxfp4-a16"


def test_int8_runs_on_integer_units_where_they_are_faster() -> None:
    for name in ("a100-sxm4-80gb", "h100-sxm5-80gb", "tpu-v6e"):
        chip = load_accelerator(name)
        assert chip.native_precision("int8") == "int8" and chip.peak("int8") > 1.9 * chip.peak("bf16")
    assert load_accelerator("b300-sxm").native_precision("int8") == "bf16", "its integer units are slower"
    assert load_accelerator("trainium2").native_precision("int8") == "bf16", "no fact names any"


def test_integer_weights_are_never_a_deployment_that_was_measured_in_another_format() -> None:
    deepseek = load_model("deepseek-r1")
    assert interval_class(deepseek, "fp8", load_system("h200-nvl8"), "sglang", tuning="recipe") == KNOWN
    for weights in ("int4", "int8", "w4a8", "bf16", "fp4-a16"):
        assert interval_class(deepseek, weights, load_system("h200-nvl8"), "sglang", tuning="recipe") == NEW


#: Bits per weight that llama.cpp prints of Llama 3.1 8B: llama-cpp-gguf, tools/quantize/README.md, table of sizes.
LLAMA_8B_BITS = {
    "IQ1_S": 2.0042, "IQ1_M": 2.1460, "IQ2_XXS": 2.3824, "IQ2_XS": 2.5882, "IQ2_S": 2.7403, "IQ2_M": 2.9294,
    "IQ3_XXS": 3.2548, "IQ3_XS": 3.4977, "IQ3_S": 3.6606, "IQ3_M": 3.7628, "IQ4_XS": 4.4597, "IQ4_NL": 4.6818,
    "Q2_K_S": 2.9697, "Q2_K": 3.1593, "Q3_K_S": 3.6429, "Q3_K_L": 4.2979, "Q4_K_S": 4.6672, "Q4_K_M": 4.8944,
    "Q5_K_S": 5.5704, "Q5_K_M": 5.7036, "Q6_K": 6.5633, "Q8_0": 8.5008,
}  # fmt: skip


@pytest.mark.parametrize(("file", "bits"), LLAMA_8B_BITS.items())
def test_a_gguf_file_weighs_what_llama_cpp_says(file: str, bits: float) -> None:
    model = load_model("llama-3.1-8b")
    stored = float(weights_bytes_per_gpu(model, Layout(), precision_of(model, f"gguf-{file}")))
    assert 8 * stored / n_params_total(model) == pytest.approx(bits, rel=1e-4)


@pytest.mark.parametrize(
    ("written", "name"),
    [("nvfp4", "fp4"), ("MXFP4", "mxfp4"), ("awq", "int4"), ("gptq", "int4"), ("w8a8", "int8"), ("fp16", "bf16")],
)
def test_other_names_mean_a_format(written: str, name: str) -> None:
    assert parse_precision(written) == parse_precision(name)


def test_exact_bits_with_scales() -> None:
    """Blocks as their sources have them: 8 bits for 32 values in the MX formats, 32 for 128 x 128, ggml's structs."""
    bits = {"mxfp4": 4.25, "fp4": 4.5, "mxfp8": 8.25, "bfp8": 8.5, "q8_0": 8.5, "q6_k": 6.5625, "iq4_xs": 4.25}
    assert {name: 8 * PRECISION_BYTES[name] for name in bits} == bits
    assert PRECISION_BYTES["fp8-block"] == 1 + 4 / 128**2


def test_gpt_oss_is_read_in_its_own_format_and_multiplied_wide_on_hopper() -> None:
    """17 bytes for 32 values; Hopper has no 4-bit units, and its engines keep activations in 16 bits."""
    assert load_model("gpt-oss-120b").expert_precision == "mxfp4"
    assert load_accelerator("h100-sxm5-80gb").native_precision("mxfp4") == "bf16"
    assert load_accelerator("b200-sxm").native_precision("mxfp4") == "fp4"


def test_the_head_is_read_in_its_own_format() -> None:
    machine, model = Machine(load_system("h100-nvl8")), load_model("llama-3.1-8b")

    def head(precision: Precision) -> float:
        operations = forward(model, Step(1.0, 1024.0), Layout(), precision, machine)
        return float(next(one for one in operations if one.kind == OperationKind.OUTPUT_HEAD).bytes)

    assert head(precision_of(model, "q4_k_m")) / head(precision_of(model, "fp8")) == pytest.approx(6.5625 / 16)


@pytest.mark.parametrize(("kv", "bits"), [("fp16", 16), ("int8", 8), ("q8_0", 8.5), ("q4_0", 4.5), ("nvfp4", 4.5)])
def test_a_cache_has_exact_bits(kv: str, bits: float) -> None:
    assert 8 * PRECISION_BYTES[parse_precision("bf16", kv=kv).kv] == bits
    with pytest.raises(InputError, match="unknown precision 'q6_k'"):
        parse_precision("bf16", kv="q6_k")


def test_training_takes_no_integers() -> None:
    with pytest.raises(InputError, match="precision of training 'int4': allowed: bf16, fp4, fp8"):
        parse_training_precision("int4")
    assert parse_training_precision("nvfp4", moe=True) == parse_training_precision("fp4", moe=True)


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
        float(estimate_serving(wide, machine).prefill_s), rel=0.05
    )


@pytest.mark.parametrize(("name", "precision", "bits"), [("70B", "q4_k_m", 4.8), ("100B-A10B", "q8_0", 8.5)])
def test_a_model_of_numbers_has_widths_that_blocks_fit(name: str, precision: str, bits: float) -> None:
    """Its rule gives an MLP of 27,652, which no block of 256 divides; a GGUF file of it was twice too large."""
    model = load_model(name)
    n_params = sum(weight_counts(model).values())
    held = weights_bytes_per_gpu(model, Layout(), precision_of(model, precision))
    assert 8 * float(held) / n_params == pytest.approx(bits, rel=0.02)


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("gguf-q4km", "gguf-q4_k_m"), ("q4km", "gguf-q4_k_m"), ("GGUF-Q4KM", "gguf-q4_k_m"),
        ("gguf-q4_k_x", "gguf-q4_"), ("UD-Q4_K_XL", "gguf-q4_"), ("gguf-iq3xxs", "gguf-iq3_xxs"), ("q9_k_m", "gguf-q"),
        ("fp-8", "fp8"), ("fp6", "fp8"), ("8bit", "mlx-8bit"), ("int-4", "int4"),
    ],
)  # fmt: skip
def test_a_misspelt_format_says_the_nearest_one(given: str, near: str) -> None:
    with pytest.raises(UnknownIdError, match=f"unknown precision '{given}': did you mean '{near}"):
        parse_precision(given)


@pytest.mark.parametrize("given", ["q4_k_m", "Q4_K_M", "gguf-q4_k_m", "GGUF_Q4_K_M", "gguf-Q4-K-M"])
def test_a_gguf_file_needs_no_prefix(given: str) -> None:
    model = load_model("qwen3-14b")
    assert precision_of(model, given) == precision_of(model, "gguf-q4_k_m")


@pytest.mark.parametrize(
    ("system", "asked", "words"),
    [
        ("8xv100", "bf16", "has no bf16 units; 16-bit weights are multiplied in fp16"),
        ("2xt4", "fp16", "in fp16, at its peak"),
        ("1xm1", "bf16", "multiplied in fp16"), ("8xa100", "fp16", None), ("8xh100", "fp8-block", None),
    ],
)  # fmt: skip
def test_a_chip_without_bf16_units_says_what_16_bit_weights_are_multiplied_in(
    system: str, asked: str, words: str | None
) -> None:
    model = load_model("llama-3.1-8b")
    scenario = ServingScenario(model, Layout(), precision_of(model, asked), 100.0, 10.0, 1.0)
    told = wider_products(scenario, load_system(system))
    assert len(told) == bool(words)
    assert not words or words in told[0]
    assert multiplied_in(load_system(system).accelerator, [precision_of(model, asked).dense]).get("bf16") == (
        "fp16" if words else None
    )


def test_fp16_has_the_fp16_peak_of_a_chip_without_bf16_units() -> None:
    v100 = load_accelerator("v100-sxm2-32gb")
    assert v100.peak(parse_precision("fp16").dense) == 125e12
