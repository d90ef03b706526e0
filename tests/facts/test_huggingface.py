"""Configurations are read, counted as published, or refused in one line that names the field."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from computeledger.errors import ModelConfigError
from computeledger.facts.architecture import Model
from computeledger.facts.huggingface import KNOWN_MODEL_TYPES, parse_config
from computeledger.facts.load import load_model
from computeledger.physics.transformer import n_params_active, n_params_active_with_embeddings, n_params_total

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    "rope_scaling": {"factor": 8.0, "rope_type": "llama3"}, "attention_bias": False, "pretraining_tp": 1,
}  # fmt: skip
MIXTRAL: dict[str, Any] = {
    "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
    "vocab_size": 32000, "max_position_embeddings": 32768, "sliding_window": None,
}  # fmt: skip
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
    "vocab_size": 129280, "max_position_embeddings": 163840, "num_nextn_predict_layers": 1, "n_group": 8,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
}  # fmt: skip
SMALL: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 1000, "max_position_embeddings": 8192,
}  # fmt: skip


def small(model_type: str, **fields: Any) -> dict[str, Any]:
    """A tiny configuration of a family."""
    return {**SMALL, "model_type": model_type, **fields}


def read(config: dict[str, Any]) -> Model:
    """Read a configuration under a name without meaning."""
    return parse_config(config, "test")


def test_llama_is_counted_tensor_by_tensor() -> None:
    d, f, k_width = 4096, 14336, 8 * 128
    layer = 2 * d * d + 2 * d * k_width + 3 * d * f + 2 * d
    model = read(LLAMA)
    assert n_params_total(model) == 32 * layer + 2 * 128256 * d + d == 8_030_261_248
    assert n_params_active(model) == 32 * (layer - 2 * d) + 128256 * d
    assert n_params_active_with_embeddings(model) == n_params_active(model) + 128256 * d
    assert (model.n_layers, model.max_context_tokens, model.weight_precision) == (32, 131072, "bf16")


def test_deepseek_is_counted_tensor_by_tensor() -> None:
    d, n, r, rope = 7168, 128, 512, 64
    attention = d * 1536 + 1536 * n * 192 + d * (r + rope) + r * n * (128 + 128) + n * 128 * d
    moe = 256 * 3 * d * 2048 + 3 * d * 2048 + d * 256 + 256
    norms = 2 * d + 1536 + 512
    model = read(DEEPSEEK)
    expected = 61 * (attention + norms) + 3 * 3 * d * 18432 + 58 * moe + 2 * 129280 * d + d
    assert n_params_total(model) == expected == 671_026_419_200
    assert [group.count for group in model.layers] == [3, 58]
    assert (model.n_mtp_layers, model.weight_precision, model.expert_precision) == (1, "fp8-block", "fp8-block")


@dataclass(frozen=True)
class Published:
    """Figures as printed, in billions, and what the publisher's active count includes."""

    total: float
    active: float | None = None
    counts: str = "head"  # head: output head; both: and the input embedding; neither
    total_tolerance: float = 0.01
    active_tolerance: float = 0.03


#: A wider tolerance is half a unit of the last digit printed: "1T", "1.6T", "A3B", "A4B".
PUBLISHED = {
    "meta-llama/Meta-Llama-3.1-8B": Published(8.03),
    "meta-llama/Meta-Llama-3.1-70B": Published(70.6),
    "meta-llama/Meta-Llama-3.1-405B": Published(405.9),
    "meta-llama/Llama-2-7b-hf": Published(6.74),
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": Published(109, 17, "both", 0.012),  # 109 with 0.9 of vision encoder
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": Published(400, 17, "both"),
    "mistralai/Mistral-7B-v0.3": Published(7.25),
    "mistralai/Mixtral-8x7B-v0.1": Published(46.7, 12.9, "both"),
    "mistralai/Mixtral-8x22B-v0.1": Published(141, 39),
    "Qwen/Qwen2.5-7B": Published(7.62),
    "Qwen/Qwen2.5-72B": Published(72.7),
    "Qwen/Qwen3-8B": Published(8.2),
    "Qwen/Qwen3-32B": Published(32.8),
    "Qwen/Qwen3-30B-A3B": Published(30.5, 3.3, "both"),
    "Qwen/Qwen3-235B-A22B": Published(235, 22, "both"),
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": Published(480, 35, "both"),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": Published(80, 3, "neither", active_tolerance=0.17),
    "Qwen/Qwen3.5-35B-A3B": Published(35, 3),
    "Qwen/Qwen3.5-122B-A10B": Published(122, 10, "both"),
    "Qwen/Qwen3.5-397B-A17B": Published(397, 17, "both"),
    "deepseek-ai/DeepSeek-V2-Lite": Published(15.7, 2.4),
    "deepseek-ai/DeepSeek-V3": Published(671, 37, "both"),
    "deepseek-ai/DeepSeek-V4-Flash": Published(284, 13),
    "deepseek-ai/DeepSeek-V4-Pro": Published(1600, 49, total_tolerance=0.031),
    "moonshotai/Kimi-K2-Instruct": Published(1000, 32, total_tolerance=0.05),
    "zai-org/GLM-4.5-Air": Published(106, 12, "neither"),
    "zai-org/GLM-5": Published(744, 40, "neither"),
    "openai/gpt-oss-120b": Published(116.8, 5.1),
    "openai/gpt-oss-20b": Published(20.9, 3.6),
    "MiniMaxAI/MiniMax-M1-80k": Published(456, 45.9, "neither"),
    "MiniMaxAI/MiniMax-M2.5": Published(229, 10, "neither"),
    "XiaomiMiMo/MiMo-V2-Flash": Published(309, 15),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": Published(31.6, 3.6, "both"),
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8": Published(120, 12),
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": Published(550, 55),
    "nvidia/Nemotron-H-56B-Base-8K": Published(56),
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1": Published(49, total_tolerance=0.02),
    "google/gemma-2-9b": Published(9.24),
    "google/gemma-2-27b": Published(27.2),
    "google/gemma-3-27b-it": Published(27.0),
    "google/gemma-4-26B-A4B": Published(26, 4, total_tolerance=0.03, active_tolerance=0.125),
    "microsoft/Phi-3-mini-4k-instruct": Published(3.8),
    "microsoft/phi-4": Published(14.7),
    "allenai/OLMo-2-1124-7B": Published(7.3),
    "allenai/OLMo-2-1124-13B": Published(13.7),
    "tiiuae/falcon-40b": Published(41.8),
    "tiiuae/falcon-180B": Published(179.5),
}


@pytest.mark.parametrize("model_id", PUBLISHED)
def test_counts_agree_with_published_ones(model_id: str) -> None:
    model, published = load_model(model_id), PUBLISHED[model_id]
    assert n_params_total(model) / 1e9 == pytest.approx(published.total, rel=published.total_tolerance)
    head = model.vocab_size * model.hidden_size
    counted = {
        "head": n_params_active(model),
        "both": n_params_active_with_embeddings(model),
        "neither": n_params_active(model) - head,
    }[published.counts]
    if published.active is not None:
        assert counted / 1e9 == pytest.approx(published.active, rel=published.active_tolerance)


def test_every_configuration_of_the_shared_data_is_read(shared_data: Path) -> None:
    paths = sorted((shared_data / "configs").glob("*.json"))
    assert len(paths) >= 96
    for path in paths:
        model = parse_config(json.loads(path.read_text("utf-8")), path.stem)
        assert 0 < n_params_active(model) <= n_params_total(model), path.name
        assert model.n_layers > 0, path.name
        assert model.max_context_tokens > 0, path.name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("deepseek-ai--DeepSeek-V3", ("fp8-block", "fp8-block", "fp8-block")),
        ("deepseek-ai--DeepSeek-V4-Flash", ("fp8-block", "fp8-block", "fp4")),
        ("nvidia--DeepSeek-V4-Pro-NVFP4", ("fp8", "fp8", "fp4")),
        ("Qwen--Qwen3-235B-A22B-FP8", ("fp8-block", "fp8-block", "fp8-block")),
        ("moonshotai--Kimi-K2.5", ("bf16", "bf16", "int4-g32")),
        ("moonshotai--Kimi-K3", ("bf16", "bf16", "mxfp4-a16")),
        ("nvidia--Kimi-K2.5-NVFP4", ("bf16", "fp4", "fp4")),
        ("nvidia--GLM-5.2-NVFP4", ("bf16", "bf16", "fp4")),
        ("nvidia--Gemma-4-31B-IT-NVFP4", ("bf16", "fp4", "fp4")),
        ("nvidia--Gemma-4-26B-A4B-NVFP4", ("bf16", "bf16", "fp4")),
        ("nvidia--MiniMax-M3-NVFP4", ("mxfp8", "mxfp8", "fp4")),
        ("nvidia--Qwen3.6-27B-NVFP4", ("fp8", "fp4-a16", "fp4-a16")),
        ("nvidia--Qwen3.5-397B-A17B-NVFP4", ("bf16", "bf16", "fp4")),
        ("openai--gpt-oss-120b", ("bf16", "bf16", "mxfp4")),
        ("zai-org--GLM-5-FP8", ("fp8-block", "fp8-block", "fp8-block")),
    ],
)
def test_precision_of_quantised_checkpoints(shared_data: Path, name: str, expected: tuple[str, str, str]) -> None:
    config = json.loads((shared_data / "configs" / f"{name}_config.json").read_text("utf-8"))
    model = parse_config(config, name)
    assert (model.weight_precision, model.dense_precision, model.expert_precision) == expected


def test_a_precision_that_another_file_holds_is_noted() -> None:
    assert "no quantization_config" in parse_config(LLAMA, "somebody/Llama-3.1-8B-FP8").notes[0]
    assert parse_config(LLAMA, "somebody/Llama-3.1-8B").notes == ()


@pytest.mark.parametrize(
    ("quantised", "expected"),
    [
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}}, "fp8"),
        ({"quant_method": "awq", "bits": 4}, "int4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        ({"quant_algo": "NVFP4", "ignore": [f"model.layers.{i}.self_attn*" for i in range(4)]}, "bf16"),
        ({"quant_algo": "NVFP4", "ignore": ["model.layers.0.self_attn*", "lm_head"]}, "fp4"),
        ({"quant_algo": "NVFP4", "ignore": ["model.layers.0.self_attn.k_norm", "model.visual.*.attn"]}, "fp4"),
        (None, "bf16"),
    ],
)
def test_precision_of_mixers(quantised: dict[str, Any] | None, expected: str) -> None:
    assert read(small("qwen3", quantization_config=quantised)).weight_precision == expected


MXFP4 = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32}
FP8 = {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}


def quark(weight: object, inputs: object, exclude: Sequence[str] = (), layers: object = None) -> dict[str, Any]:
    """A ``quantization_config`` as AMD's checkpoints have it."""
    whole = {"weight": weight, "input_tensors": inputs, "output_tensors": None, "bias": None}
    left = {"exclude": ["lm_head", *exclude], "layer_quant_config": layers or {}}
    return {"quant_method": "quark", "global_quant_config": whole, **left}


@pytest.mark.parametrize(
    ("quantised", "expected"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, ("fp8-block",) * 3),
        ({"quant_method": "fp8", "activation_scheme": "static"}, ("fp8",) * 3),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}, ("fp8-block",) * 3),
        # amd/Kimi-K2.5-MXFP4 and amd/DeepSeek-R1-MXFP4: routers, attention and head left out
        (quark(MXFP4, MXFP4, ["re:.*\\.gate$", "re:.*self_attn.*"]), ("bf16", "mxfp4", "mxfp4")),
        (quark(MXFP4, MXFP4), ("mxfp4",) * 3),
        (quark(MXFP4, None), ("mxfp4-a16",) * 3),
        # amd/Llama-3.1-405B-Instruct-FP8-KV
        (quark(FP8, FP8), ("fp8",) * 3),
        (quark({"dtype": "int4", "qscheme": "per_group", "group_size": 128}, None), ("int4",) * 3),
        (quark({"dtype": "int8", "qscheme": "per_channel"}, {"dtype": "int8"}), ("int8",) * 3),
        (
            quark([FP8, {"dtype": "int4", "qscheme": "per_channel"}], FP8,
                  ["re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"]),
            ("bf16", "bf16", "w4a8"),
        ),
        (
            quark(FP8, FP8, (), {"layers.*.mlp.experts.*.gate_proj": {"weight": MXFP4, "input_tensors": MXFP4}}),
            ("fp8", "fp8", "mxfp4"),
        ),
    ],
)  # fmt: skip
def test_precision_by_block_and_by_quark(quantised: dict[str, Any], expected: tuple[str, str, str]) -> None:
    model = read(small("qwen3_moe", quantization_config=quantised, num_experts=8, moe_intermediate_size=128,
                      num_experts_per_tok=2))  # fmt: skip
    assert (model.weight_precision, model.dense_precision, model.expert_precision) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"quantization": {"group_size": 64, "bits": 4}, "quantization_config": {"group_size": 64, "bits": 4}},
            "mlx-4bit",
        ),
        ({"quantization": {"group_size": 32, "bits": 8}}, "mlx-8bit"),
        ({"quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}}, "mxfp4-a16"),
    ],
)
def test_the_table_of_mlx_is_of_embedding_and_head_too(fields: dict[str, Any], expected: str) -> None:
    model = read(small("qwen3", **fields))
    found = (model.weight_precision, model.dense_precision, model.head_precision, model.embedding_precision)
    assert found == (expected,) * 4


@pytest.mark.parametrize(
    ("quantised", "expected"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, "nf4-dq"),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "int4-channel"),
        (quark({"dtype": "int4", "qscheme": "per_channel"}, None), "int4-channel"),
    ],
)
def test_scales_of_four_bits_are_counted_by_their_group(quantised: dict[str, Any], expected: str) -> None:
    assert read(small("qwen3", quantization_config=quantised)).dense_precision == expected


def test_a_type_of_quark_that_is_not_understood_is_one_line() -> None:
    with pytest.raises(ModelConfigError, match="'uint2' of quark is not understood; did you mean 'uint8'"):
        read(small("qwen3", quantization_config=quark({"dtype": "uint2"}, None)))


def test_windows() -> None:
    def seen(config: dict[str, Any]) -> list[int | None]:
        return [group.attention.window for group in read(config).layers for _ in range(group.count)]

    assert seen(small("mistral", sliding_window=1024)) == [1024] * 4
    assert seen(small("mistral", sliding_window=8192)) == [None] * 4  # as wide as the context
    assert seen(small("qwen2", sliding_window=1024, use_sliding_window=False, max_window_layers=2)) == [None] * 4
    upper = small("qwen2", sliding_window=1024, use_sliding_window=True, max_window_layers=2)
    assert seen(upper) == [None, None, 1024, 1024]
    assert seen(small("gemma2", sliding_window=1024)) == [1024, 1024, None, None]  # every other one, grouped
    layer_types = ["sliding_attention", "full_attention"] * 2
    experts = {"num_local_experts": 8, "num_experts_per_tok": 2}
    assert seen(small("gpt_oss", sliding_window=128, layer_types=layer_types, **experts)) == [128, 128, None, None]


def test_chunks_and_experts_of_llama_4() -> None:
    maverick = load_model("meta-llama/Llama-4-Maverick-17B-128E-Instruct")
    by_kind = {(g.attention.chunked, g.feed_forward.n_experts): g.count for g in maverick.layers}
    assert by_kind == {(True, 0): 24, (True, 128): 12, (False, 128): 12}


def test_hybrids() -> None:
    kinds = {
        "Qwen/Qwen3-Next-80B-A3B-Instruct": {"gated_delta": 36, "gqa": 12},
        "MiniMaxAI/MiniMax-M1-80k": {"lightning": 70, "gqa": 10},
        "moonshotai/Kimi-K3": {"kda": 69, "mla": 24},
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": {"mamba2": 23, "none": 23, "gqa": 6},
        "nvidia/Llama-3_3-Nemotron-Super-49B-v1": {"gqa": 49, "none": 31},
    }
    for model_id, expected in kinds.items():
        counts: dict[str, int] = {}
        for group in load_model(model_id).layers:
            counts[group.attention.kind] = counts.get(group.attention.kind, 0) + group.count
        assert counts == expected, model_id


def test_caches_that_layers_share() -> None:
    layer_types = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
    extra = {"sliding_window": 512, "layer_types": layer_types, "global_head_dim": 32, "attention_k_eq_v": True}
    model = read(small("gemma4_text", num_kv_shared_layers=2, num_global_key_value_heads=1, **extra))
    shared = [group.attention for group in model.layers if group.attention.shares_kv]
    assert len(shared) == 2
    full = next(g.attention for g in model.layers if g.attention.window is None and not g.attention.shares_kv)
    assert (full.qk_head_dim, full.n_kv_heads, full.one_kv_projection) == (32, 1, True)
    assert model.tied_embeddings


def test_layers_that_reuse_an_indexers_choice() -> None:
    choosing = {group.attention.index_heads: group for group in load_model("zai-org/GLM-5.2").layers}
    assert set(choosing) == {0, 32}
    assert choosing[0].attention.sparse_tokens == choosing[32].attention.sparse_tokens == 2048
    assert choosing[0].count == 57


def test_gemma_3_leaves_out_the_defaults_of_its_class() -> None:
    text = {
        "model_type": "gemma3_text", "hidden_size": 3840, "intermediate_size": 15360, "num_hidden_layers": 48,
        "num_attention_heads": 16, "num_key_value_heads": 8, "sliding_window": 1024,
    }  # fmt: skip
    model = read({"model_type": "gemma3", "text_config": text, "mm_tokens_per_image": 256})
    assert (model.vocab_size, model.layers[0].attention.qk_head_dim) == (262_208, 256)
    assert sum(g.count for g in model.layers if g.attention.window is None) == 8


def test_a_multimodal_configuration_keeps_the_encoder_apart() -> None:
    vision = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 16, "spatial_merge_size": 2}
    text = small("qwen3_vl_text")
    model = read({"model_type": "qwen3_vl", "text_config": text, "vision_config": vision, "image_token_id": 7})
    assert model.vision is not None
    assert 0.4e9 < model.vision.n_params < 0.5e9
    assert n_params_total(model) == n_params_total(read(small("qwen3")))


LONG = [1] * 50
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("truncated", {"model_type": "llama", "hidden_size": 4096}, "num_hidden_layers: missing"),
    ("no type", {"hidden_size": 4096}, "model_type: missing"),
    ("unknown type", {**LLAMA, "model_type": "lama"}, "did you mean 'llama'"),
    ("type is a number", {**LLAMA, "model_type": 3}, "model_type: 3 is not a known model type"),
    ("missing field", {k: v for k, v in LLAMA.items() if k != "vocab_size"}, "vocab_size: missing"),
    ("null field", {**LLAMA, "intermediate_size": None}, "intermediate_size: missing"),
    ("text for a number", {**LLAMA, "hidden_size": "4096"}, "hidden_size: '4096' is not an integer"),
    ("fraction", {**LLAMA, "hidden_size": 4096.5}, "hidden_size: 4096.5 is not an integer"),
    ("boolean", {**LLAMA, "num_hidden_layers": True}, "num_hidden_layers: True is not an integer"),
    ("zero", {**LLAMA, "num_attention_heads": 0}, "num_attention_heads: 0 is not allowed"),
    ("negative", {**LLAMA, "vocab_size": -1}, "vocab_size: -1 is not allowed"),
    ("endless", {**LLAMA, "num_hidden_layers": 10**9}, "num_hidden_layers: 1000000000 is not allowed"),
    ("unknown field", {**LLAMA, "num_memory_slots": 64}, "num_memory_slots: 64 is not understood"),
    ("unknown list", {**LLAMA, "layer_kinds": LONG}, "layer_kinds: list of 50 is not understood"),
    ("unknown object", {**LLAMA, "router": {"depth": 2}}, "router: {'depth': 2} is not understood"),
    ("unknown switch", {**LLAMA, "use_conv_mixer": True}, "use_conv_mixer: True is not understood"),
    ("unknown pattern", {**LLAMA, "mixer_pattern": "ML"}, "mixer_pattern: 'ML' is not understood"),
    ("another family's field", {**LLAMA, "sliding_window": 4096}, "sliding_window: 4096 is not understood"),
    ("top-k above experts", {**MIXTRAL, "num_experts_per_tok": 9}, "num_experts_per_tok: 9 experts per token, but"),
    ("width over heads", {**LLAMA, "num_attention_heads": 33, "num_key_value_heads": 33}, "33 does not divide"),
    ("heads over key heads", {**LLAMA, "num_key_value_heads": 5}, "num_key_value_heads: 5 does not divide"),
    ("dense layers", {**DEEPSEEK, "first_k_dense_replace": None}, "first_k_dense_replace: missing"),
    ("latent head", {**DEEPSEEK, "qk_head_dim": 100}, "qk_head_dim: 100 is not"),
    ("contradiction", {**MIXTRAL, "num_experts": 16}, "contradictory names"),
    ("layers", small("gpt_oss", sliding_window=9, layer_types=["full_attention"], num_local_experts=4,
                     num_experts_per_tok=1), "layer_types: 1 entries for 4 layers"),
    ("layer type", small("qwen3", layer_types=["odd"] * 4), "layer_types: 'odd' is not understood"),
    ("window", small("qwen3", layer_types=["sliding_attention"] * 4), "sliding_window: missing"),
    ("letters", small("nemotron_h", hybrid_override_pattern="MXM*"), "hybrid_override_pattern: 'X'"),
    ("quantisation", {**LLAMA, "quantization_config": {"quant_method": "magic"}}, "quant_method: 'magic' is not"),
    ("algorithm", {**LLAMA, "quantization_config": {"quant_algo": "NVFP5"}}, "quant_algo: 'NVFP5' is not"),
    ("tied", {**LLAMA, "tie_word_embeddings": "no"}, "tie_word_embeddings: 'no' is not true or false"),
    ("text part", {"model_type": "qwen3_vl", "text_config": []}, "text_config: [] is not an object"),
    ("inner type", {"model_type": "qwen3_vl", "text_config": {"model_type": "odd"}}, "text_config.model_type: 'odd'"),
    ("inner field", {"model_type": "qwen3_vl", "text_config": small("qwen3_vl_text", extra_heads=2)},
     "text_config.extra_heads: 2 is not understood"),
    ("outer field", {"model_type": "qwen3_vl", "text_config": small("qwen3_vl_text"), "bridge_layers": 2},
     "bridge_layers: 2 is not understood"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "expected"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_configuration_is_refused_in_one_line(config: dict[str, Any], expected: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        read(config)
    message = str(caught.value)
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize("given", [[], "llama", None, 3])
def test_what_is_no_object_is_refused(given: Any) -> None:
    with pytest.raises(ModelConfigError, match="object of fields"):
        parse_config(given, "test")


def test_fields_without_consequence_are_passed_over() -> None:
    extra = {
        "bos_token_id": 1, "attention_dropout": 0.1, "initializer_range": 0.02, "some_new_flag": False, "added": None,
        "rope_local_base_freq": 10000.0, "hidden_act": "silu", "comment": "made by hand", "transformers_version": "5",
    }  # fmt: skip
    assert read({**LLAMA, **extra}) == read(LLAMA)


def test_the_known_types_are_listed() -> None:
    assert {"llama", "deepseek_v4", "kimi_k3", "gemma4", "nemotron-nas"} <= set(KNOWN_MODEL_TYPES)
    with pytest.raises(ModelConfigError, match=", ".join(KNOWN_MODEL_TYPES[:3])):
        read({**LLAMA, "model_type": "zzz"})
