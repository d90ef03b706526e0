"""Models from headers of GGUF and safetensors files: shapes as their configurations have them, bytes exactly."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from computeledger.errors import ComputeLedgerError
from computeledger.facts.architecture import Model
from computeledger.facts.formats import FORMATS
from computeledger.facts.load import load_model
from computeledger.physics.parallelism import Layout
from computeledger.physics.serving.memory import weights_bytes_per_gpu
from computeledger.physics.weights import precision_of
from tests.headers import LLAMA_8B, gguf, llama_tensors, safetensors


def written(folder: Path, name: str, header: bytes) -> str:
    """A file's path."""
    (folder / name).write_bytes(header)
    return str(folder / name)


def test_a_gguf_file_is_the_model_of_its_configuration_and_weighs_what_its_tensors_do(tmp_path: Path) -> None:
    model = load_model(written(tmp_path, "llama.gguf", gguf(LLAMA_8B, llama_tensors())))
    published = load_model("llama-3.1-8b")
    assert (model.layers, model.vocab_size, model.max_context_tokens) == (published.layers, 128256, 131072)
    assert not model.tied_embeddings
    assert (model.dense_precision, model.head_precision, model.embedding_precision) == ("q4_k", "q6_k", "q4_k")
    stored = float(weights_bytes_per_gpu(model, Layout(), precision_of(model, None)))
    types = {"F32": "f32", "Q4_K": "q4_k", "Q6_K": "q6_k"}
    exact = sum(math.prod(shape) * FORMATS[types[kind]].bits / 8 for _, shape, kind in llama_tensors())
    assert stored == pytest.approx(exact, rel=1e-12)
    by_rule = weights_bytes_per_gpu(published, Layout(), precision_of(published, "gguf-q4_k_m"))
    assert float(by_rule) == pytest.approx(exact, rel=1e-5), "the rule, without the last norm and the rope factors"


#: Metadata of other architectures, as llama.cpp's converter writes it, by the bundled model of that shape.
ARCHITECTURES: dict[str, dict[str, object]] = {
    "qwen3-30b-a3b": {
        "general.architecture": "qwen3moe", "block_count": 48, "context_length": 40960, "embedding_length": 2048,
        "feed_forward_length": 6144, "attention.head_count": 32, "attention.head_count_kv": 4,
        "attention.key_length": 128, "expert_count": 128, "expert_used_count": 8, "expert_feed_forward_length": 768,
    },
    "gpt-oss-20b": {
        "general.architecture": "gpt-oss", "block_count": 24, "context_length": 131072, "embedding_length": 2880,
        "feed_forward_length": 2880, "attention.head_count": 64, "attention.head_count_kv": 8,
        "attention.key_length": 64, "attention.sliding_window": 128, "expert_count": 32, "expert_used_count": 4,
        "expert_feed_forward_length": 2880,
    },
    "deepseek-v3": {
        "general.architecture": "deepseek2", "block_count": 61, "context_length": 163840, "embedding_length": 7168,
        "feed_forward_length": 18432, "attention.head_count": 128, "attention.head_count_kv": 1,
        "attention.key_length": 576, "attention.value_length": 512, "attention.key_length_mla": 192,
        "attention.value_length_mla": 128, "attention.q_lora_rank": 1536, "attention.kv_lora_rank": 512,
        "rope.dimension_count": 64, "leading_dense_block_count": 3, "expert_count": 256, "expert_used_count": 8,
        "expert_shared_count": 1, "expert_feed_forward_length": 2048, "expert_group_count": 8,
        "expert_group_used_count": 4,
    },
    "gemma-3-12b-it": {
        "general.architecture": "gemma3", "block_count": 48, "context_length": 131072, "embedding_length": 3840,
        "feed_forward_length": 15360, "attention.head_count": 16, "attention.head_count_kv": 8,
        "attention.key_length": 256, "attention.sliding_window": 1024,
    },
    "mixtral-8x7b-v0.1": {
        "general.architecture": "llama", "block_count": 32, "context_length": 32768, "embedding_length": 4096,
        "feed_forward_length": 14336, "attention.head_count": 32, "attention.head_count_kv": 8,
        "rope.dimension_count": 128, "expert_count": 8, "expert_used_count": 2,
    },
    "phi-4": {
        "general.architecture": "phi3", "block_count": 40, "context_length": 16384, "embedding_length": 5120,
        "feed_forward_length": 17920, "attention.head_count": 40, "attention.head_count_kv": 10,
        "attention.sliding_window": 0,
    },
    "qwen2.5-7b": {
        "general.architecture": "qwen2", "block_count": 28, "context_length": 131072, "embedding_length": 3584,
        "feed_forward_length": 18944, "attention.head_count": 28, "attention.head_count_kv": 4,
    },
    "glm-4.5-air": {
        "general.architecture": "glm4moe", "block_count": 47, "context_length": 131072, "embedding_length": 4096,
        "feed_forward_length": 10944, "attention.head_count": 96, "attention.head_count_kv": 8,
        "attention.key_length": 128, "leading_dense_block_count": 1, "expert_count": 128, "expert_used_count": 8,
        "expert_shared_count": 1, "expert_feed_forward_length": 1408, "nextn_predict_layers": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures_have_the_shape_of_their_configuration(tmp_path: Path, name: str) -> None:
    published = load_model(name)
    values = dict(ARCHITECTURES[name])
    family = values.pop("general.architecture")
    metadata = {"general.architecture": family} | {f"{family}.{key}": value for key, value in values.items()}
    table = (published.hidden_size, published.vocab_size)
    tensors: list[tuple[str, Sequence[int], str]] = [
        ("token_embd.weight", table, "F16"),
        ("output.weight", table, "F16"),
    ]
    tensors += [("blk.0.attn_q.bias", (64,), "F32")] if family in ("gpt-oss", "glm4moe") else []
    model = load_model(written(tmp_path, "model.gguf", gguf(metadata, tensors)))
    assert model.layers == published.layers
    assert model.n_mtp_layers == (1 if family == "glm4moe" else 0)
    assert (model.hidden_size, model.vocab_size) == table


#: Further architectures by a bundled model of the family.
FAMILIES = [
    ("bailingmoe", "inclusionAI/Ling-lite"), ("bailingmoe2", "inclusionAI/Ring-flash-2.0"),
    ("bloom", "bigscience/bloom"), ("command-r", "CohereLabs/c4ai-command-r-plus"), ("dbrx", "databricks/dbrx-base"),
    ("falcon", "tiiuae/falcon-7b"), ("ernie4_5-moe", "baidu/ERNIE-4.5-21B-A3B-PT"), ("falcon", "tiiuae/falcon-40b"),
    ("glm-dsa", "zai-org/GLM-5"), ("glm-dsa", "zai-org/GLM-5.2"), ("gptneox", "EleutherAI/gpt-neox-20b"),
    ("internlm2", "internlm/internlm2-20b"), ("granitemoe", "ibm-granite/granite-3.0-1b-a400m-base"),
    ("llama4", "meta-llama/Llama-4-Scout-17B-16E"), ("llama4", "meta-llama/Llama-4-Maverick-17B-128E-Instruct"),
    ("minimax-m2", "MiniMaxAI/MiniMax-M2.5"), ("nemotron", "nvidia/Nemotron-4-340B-Base"),
    ("olmoe", "allenai/OLMoE-1B-7B-0924"), ("smollm3", "HuggingFaceTB/SmolLM3-3B"),
    ("phimoe", "microsoft/Phi-3.5-MoE-instruct"), ("qwen35", "Qwen/Qwen3.5-27B"),
    ("qwen35moe", "Qwen/Qwen3.5-35B-A3B"), ("qwen3next", "Qwen/Qwen3-Next-80B-A3B-Instruct"),
    ("qwen3vl", "Qwen/Qwen3-VL-8B-Instruct"), ("qwen3vlmoe", "Qwen/Qwen3-VL-30B-A3B-Instruct"),
    ("deepseek2", "zai-org/GLM-4.7-Flash"),
]  # fmt: skip


def metadata_of(model: Model) -> dict[str, object]:
    """What llama.cpp's converters write of a model."""
    mixers = [group.attention for group in model.layers for _ in range(group.count)]
    parts = [group.feed_forward for group in model.layers for _ in range(group.count)]
    full = next(one for one in mixers if one.kind in ("gqa", "mla"))
    moe = next((one for one in parts if one.n_experts), None)
    width = next((one.width for one in parts if one.width), moe.expert_width if moe else 0)
    out: dict[str, object] = {
        "block_count": model.n_layers + model.n_mtp_layers, "embedding_length": model.hidden_size,
        "context_length": model.max_context_tokens, "nextn_predict_layers": model.n_mtp_layers,
        "feed_forward_length": width, "attention.head_count": full.n_query_heads,
        "attention.head_count_kv": full.n_kv_heads, "attention.key_length": full.qk_head_dim,
    }  # fmt: skip
    if moe is not None:
        out |= {
            "expert_count": moe.n_experts, "expert_used_count": moe.n_experts_active,
            "expert_feed_forward_length": moe.expert_width, "expert_shared_count": moe.n_shared_experts,
            "expert_shared_feed_forward_length": moe.shared_width, "expert_group_count": moe.n_groups,
            "expert_group_used_count": moe.n_groups_active, "leading_dense_block_count": parts.index(moe),
            "interleave_moe_layer_step": 2 if any(one.n_experts == 0 for one in parts[2:]) else 1,
        }  # fmt: skip
    if delta := next((one for one in mixers if one.kind == "gated_delta"), None):
        out |= {
            "ssm.time_step_rank": delta.n_query_heads, "ssm.group_count": delta.n_kv_heads,
            "full_attention_interval": 4,
            "ssm.state_size": delta.qk_head_dim, "ssm.inner_size": delta.n_query_heads * delta.v_head_dim,
            "ssm.conv_kernel": delta.conv_width,
        }  # fmt: skip
    if full.kind == "mla":
        out |= {
            "attention.head_count_kv": 1, "attention.key_length": full.kv_lora_rank + full.rope_head_dim,
            "attention.value_length": full.kv_lora_rank, "attention.key_length_mla": full.qk_head_dim,
            "attention.value_length_mla": full.v_head_dim, "attention.q_lora_rank": full.q_lora_rank,
            "attention.kv_lora_rank": full.kv_lora_rank, "rope.dimension_count": full.rope_head_dim,
            "attention.indexer.head_count": full.index_heads, "attention.indexer.key_length": full.index_head_dim,
            "attention.indexer.top_k": full.sparse_tokens or 0,
        }  # fmt: skip
    return out


@pytest.mark.parametrize(("family", "model_id"), FAMILIES)
def test_a_family_has_the_shape_of_its_bundled_model(tmp_path: Path, family: str, model_id: str) -> None:
    published = load_model(model_id)
    metadata = {f"{family}.{key}": value for key, value in metadata_of(published).items()}
    tensors: list[tuple[str, Sequence[int], str]] = [
        ("token_embd.weight", (published.hidden_size, published.vocab_size), "F16"),
        ("blk.0.attn_q_norm.weight", (128,), "F32"),
    ]
    mixers = [group.attention for group in published.layers for _ in range(group.count)]
    tensors += [(f"blk.{i}.indexer.proj.weight", (64, 64), "F16") for i, one in enumerate(mixers) if one.index_heads]
    path = written(tmp_path, "model.gguf", gguf({"general.architecture": family, **metadata}, tensors))
    read = load_model(path)
    assert sorted(read.layers, key=repr) == sorted(published.layers, key=repr)
    assert (read.hidden_size, read.vocab_size, read.n_mtp_layers) == (
        published.hidden_size, published.vocab_size, published.n_mtp_layers,
    )  # fmt: skip


def tensors_of_layers(model: Model) -> list[tuple[str, Sequence[int], str]]:
    """Tensors that tell the kinds of a model's layers, as wide as llama.cpp's converters write them."""
    out: list[tuple[str, Sequence[int], str]] = []
    d, layers = model.hidden_size, [group for group in model.layers for _ in range(group.count)]
    for i, layer in enumerate(layers):
        mixer, part, here = layer.attention, layer.feed_forward, f"blk.{i}."
        if mixer.kind == "gqa":
            out += [
                (f"{here}attn_q.weight", (d, mixer.n_query_heads * mixer.qk_head_dim), "F16"),
                (f"{here}attn_k.weight", (d, mixer.n_kv_heads * mixer.qk_head_dim), "F16"),
            ]
            out += [] if mixer.one_kv_projection else [(f"{here}attn_v.weight", (d, 64), "F16")]
            out += [(f"{here}attn_sinks.weight", (64,), "F32")] if mixer.window else []
        elif mixer.kind == "mamba2":
            out += [(f"{here}ssm_in.weight", (d, 64), "F16"), (f"{here}ssm_conv1d.bias", (64,), "F32")]
        out += [(f"{here}ffn_up.weight", (d, part.width), "F16")] if part.width else []
        if part.n_experts:
            out += [(f"{here}ffn_gate_inp.weight", (d, 64), "F32"), (f"{here}ffn_up_exps.weight", (d, 64, 2), "F16")]
    return out


@pytest.mark.parametrize(
    ("family", "model_id"),
    [
        ("gemma4", "google/gemma-4-26B-A4B"), ("gemma4", "nvidia/Gemma-4-31B-IT-NVFP4"),
        ("mimo2", "XiaomiMiMo/MiMo-V2-Flash"), ("nemotron_h", "nvidia/Nemotron-H-56B-Base-8K"),
        ("nemotron_h_moe", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
        ("nemotron_h_moe", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16"),
    ],
)  # fmt: skip
def test_layers_that_differ_are_told_by_their_tensors(tmp_path: Path, family: str, model_id: str) -> None:
    published = load_model(model_id)
    table = (published.hidden_size, published.vocab_size)
    tensors = [("token_embd.weight", table, "F16"), *tensors_of_layers(published)]
    mixers = [group.attention for group in published.layers for _ in range(group.count)]
    full = next(one for one in mixers if one.kind == "gqa" and one.window is None)
    near = next((one for one in mixers if one.window), full)
    state = next((one for one in mixers if one.kind == "mamba2"), full)
    moe = next((g.feed_forward for g in published.layers if g.feed_forward.n_experts), None)
    values = metadata_of(published) | {
        "feed_forward_length": [1, 2], "attention.head_count_kv": [1, 2], "attention.key_length": full.qk_head_dim,
        "attention.head_count": full.n_query_heads, "attention.key_length_swa": near.qk_head_dim,
        "attention.value_length": full.v_head_dim, "attention.sliding_window": near.window or 0,
        "ssm.time_step_rank": state.n_query_heads, "ssm.inner_size": state.n_query_heads * state.v_head_dim,
        "ssm.state_size": state.qk_head_dim, "ssm.group_count": state.n_kv_heads, "ssm.conv_kernel": state.conv_width,
        "moe_latent_size": moe.latent_width if moe else 0, "leading_dense_block_count": 0,
    }  # fmt: skip
    head: list[tuple[str, Sequence[int], str]] = [] if published.tied_embeddings else [("output.weight", table, "F16")]
    metadata = {"general.architecture": family} | {f"{family}.{key}": value for key, value in values.items()}
    read = load_model(written(tmp_path, "model.gguf", gguf(metadata, [*tensors, *head])))
    assert read.layers == published.layers
    assert (read.vocab_size, read.tied_embeddings) == (published.vocab_size, published.tied_embeddings)
    absent = [one for one in tensors if "attn_k" not in one[0]]
    with pytest.raises(ComputeLedgerError, match=r"attn_k\.weight: missing; its layers differ"):
        load_model(written(tmp_path, "model.gguf", gguf(metadata, absent)))


def test_layers_that_share_a_cache_need_no_keys_in_the_file(tmp_path: Path) -> None:
    published = load_model("google/gemma-4-26B-A4B")
    tensors = [("token_embd.weight", (2816, 262144), "F16"), *tensors_of_layers(published)]
    tensors = [one for one in tensors if "blk.29.attn_k" not in one[0]]
    tensors += [(f"blk.{i}.attn_v.weight", (2816, 64), "F16") for i in range(25, 29)]
    values = metadata_of(published) | {
        "attention.key_length": 512, "attention.key_length_swa": 256, "attention.sliding_window": 1024,
        "attention.shared_kv_layers": 1,
    }  # fmt: skip
    metadata = {"general.architecture": "gemma4"} | {f"gemma4.{key}": value for key, value in values.items()}
    last = load_model(written(tmp_path, "model.gguf", gguf(metadata, tensors))).layers[-1].attention
    assert (last.shares_kv, last.one_kv_projection) == (True, False)


@pytest.mark.parametrize("n_more", [0, 1])
def test_deepseek_v4_is_read_from_its_list_of_compressions(tmp_path: Path, n_more: int) -> None:
    """Files have the drafting block behind the last layer, or leave it out and still say that there is one."""
    published = load_model("deepseek-ai/DeepSeek-V4-Flash")
    ratios = [0, 0, *[4, 128] * 20, 4, 0]
    values: dict[str, object] = {
        "block_count": 43 + n_more, "context_length": 1048576, "embedding_length": 4096, "nextn_predict_layers": 1,
        "attention.head_count": 64, "attention.head_count_kv": 1, "attention.key_length": 512,
        "attention.q_lora_rank": 1024, "attention.output_lora_rank": 1024, "attention.output_group_count": 8,
        "attention.compress_ratios": ratios, "attention.sliding_window": 128, "rope.dimension_count": 64,
        "attention.indexer.head_count": 64, "attention.indexer.key_length": 128, "attention.indexer.top_k": 512,
        "hyper_connection.count": 4, "expert_count": 256, "expert_used_count": 6, "expert_shared_count": 1,
        "expert_feed_forward_length": 2048,
    }  # fmt: skip
    metadata = {"general.architecture": "deepseek4"} | {f"deepseek4.{key}": value for key, value in values.items()}
    tensors: list[tuple[str, Sequence[int], str]] = [
        ("token_embd.weight", (4096, 129280), "F16"), ("output.weight", (4096, 129280), "F16"),
    ]  # fmt: skip
    tensors += [("blk.43.nextn.eh_proj.weight", (8192, 4096), "F16")] * n_more
    read = load_model(written(tmp_path, "model.gguf", gguf(metadata, tensors)))
    assert (read.layers, read.n_mtp_layers) == (published.layers, n_more)
    short = metadata | {"deepseek4.attention.compress_ratios": ratios[:5]}
    with pytest.raises(ComputeLedgerError, match="43 whole numbers are needed, one per layer"):
        load_model(written(tmp_path, "model.gguf", gguf(short, tensors)))


def test_every_architecture_of_llama_cpp_is_read_or_says_why_not(tmp_path: Path) -> None:
    for family, why in (
        ("step35", "in lists that are not read"),
        ("mamba", "is not known"),
        ("qwen33", "did you mean"),
    ):
        with pytest.raises(ComputeLedgerError, match=rf"{why}.*read are: bailingmoe, .*smollm3") as caught:
            load_model(written(tmp_path, "model.gguf", gguf({"general.architecture": family}, [])))
        assert "\n" not in str(caught.value)


def test_parts_of_a_file_are_read_together(tmp_path: Path) -> None:
    tensors = llama_tensors()
    written(tmp_path, "llama-00002-of-00002.gguf", gguf({}, tensors[100:]))
    first = written(tmp_path, "llama-00001-of-00002.gguf", gguf(LLAMA_8B, tensors[:100]))
    whole = load_model(written(tmp_path, "llama.gguf", gguf(LLAMA_8B, tensors)))
    assert load_model(first).stored == whole.stored
    (tmp_path / "llama-00002-of-00002.gguf").unlink()
    with pytest.raises(ComputeLedgerError, match=r"llama-00002-of-00002\.gguf: no such file"):
        load_model(first)


def test_a_folder_with_one_gguf_file_is_that_file(tmp_path: Path) -> None:
    tensors = llama_tensors()
    written(tmp_path, "llama-00002-of-00002.gguf", gguf({}, tensors[100:]))
    first = written(tmp_path, "llama-00001-of-00002.gguf", gguf(LLAMA_8B, tensors[:100]))
    assert load_model(str(tmp_path)).stored == load_model(first).stored
    written(tmp_path, "other.gguf", gguf(LLAMA_8B, tensors))
    with pytest.raises(ComputeLedgerError, match=r"name one: llama-00001-of-00002\.gguf, other\.gguf"):
        load_model(str(tmp_path))


QWEN = {
    "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16,
    "num_hidden_layers": 2, "num_key_value_heads": 8, "vocab_size": 151936, "head_dim": 128,
    "max_position_embeddings": 40960, "tie_word_embeddings": True,
}  # fmt: skip


def qwen_tensors(layer: int) -> Mapping[str, tuple[str, Sequence[int], int]]:
    """One layer in int4 by 128, packed as GPTQ packs: bytes as the file has them."""
    shapes = {"q": (1024, 2048), "k": (1024, 1024), "v": (1024, 1024), "o": (2048, 1024)}
    out: dict[str, tuple[str, Sequence[int], int]] = {}
    for part, names in (
        ("self_attn", shapes),
        ("mlp", {"gate": (1024, 3072), "up": (1024, 3072), "down": (3072, 1024)}),
    ):
        for name, (rows, columns) in names.items():
            base = f"model.layers.{layer}.{part}.{name}_proj"
            out[f"{base}.qweight"] = ("I32", (rows // 8, columns), rows * columns // 2)
            out[f"{base}.scales"] = ("F16", (rows // 128, columns), rows * columns // 128 * 2)
            out[f"{base}.qzeros"] = ("I32", (rows // 128, columns // 8), rows * columns // 128 // 2)
    return out | {f"model.layers.{layer}.input_layernorm.weight": ("BF16", (1024,), 2048)}


def test_a_checkpoint_folder_weighs_what_its_headers_say(tmp_path: Path) -> None:
    quantised = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    (tmp_path / "config.json").write_text(json.dumps(QWEN | {"quantization_config": quantised}))
    table = {"model.embed_tokens.weight": ("BF16", (151936, 1024), 151936 * 1024 * 2)}
    files = {f"model-0000{i + 1}-of-00002.safetensors": qwen_tensors(i) for i in range(2)}
    files["model-00001-of-00002.safetensors"] = table | dict(files["model-00001-of-00002.safetensors"])
    for name, tensors in files.items():
        written(tmp_path, name, safetensors(tensors))
    listed = {one: name for name, tensors in files.items() for one in tensors}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": listed}))
    model = load_model(str(tmp_path))
    exact = sum(size for tensors in files.values() for _, _, size in tensors.values())
    assert model.dense_precision == "int4"
    assert float(weights_bytes_per_gpu(model, Layout(), precision_of(model, None))) == pytest.approx(exact, rel=1e-12)
    next(tmp_path.glob("*-00002*")).unlink()
    with pytest.raises(ComputeLedgerError, match="the index names it, but it is not there: 1 of 2 are"):
        load_model(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "header", "message"),
    [
        ("a.gguf", b"PK\x03\x04", "does not begin with GGUF"),
        ("a.gguf", gguf({"x": 1}, []), "architecture: missing"),
        ("a.gguf", gguf({}, [])[:-8] + struct.pack("<QQsIIQ", 1, 1, b"a", 9, 8, 2_000_000), "texts in lists"),
        ("a.gguf", gguf(LLAMA_8B, llama_tensors())[:5000], "the file is cut off"),
        ("a.gguf", b"GGUF" + struct.pack("<IQQ", 3, 2**60, 1), "tensors; at most"),
        ("a.gguf", b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62), "characters; at most"),
        ("a.gguf", b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        ("a.gguf", gguf({**LLAMA_8B, "general.architecture": "lama"}, []), "did you mean 'llama'"),
        ("a.gguf", gguf({**LLAMA_8B, "llama.attention.head_count": [32, 16]}, []), "lists by layer are not read"),
        ("a.safetensors", struct.pack("<Q", 2**60), "its header would have"),
        ("a.safetensors", safetensors({"x": ("BF16", (2,), 4)})[:20], "the file is cut off"),
        ("a.safetensors", struct.pack("<Q", 12) + b'{"x": [1,2]}', "no shape and data_offsets"),
    ],
)
def test_a_damaged_header_is_one_clear_line(tmp_path: Path, name: str, header: bytes, message: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    with pytest.raises(ComputeLedgerError, match=message) as caught:
        load_model(written(tmp_path, name, header))
    assert "\n" not in str(caught.value)


def llama_shapes(
    layers: int, head: bool = True, more: Mapping[str, Sequence[int]] | None = None
) -> dict[str, tuple[str, Sequence[int], int]]:
    """Tensors of a small Llama in 16 bits: 8 heads of 128, 2 of keys."""
    shapes: dict[str, Sequence[int]] = {"model.embed_tokens.weight": (1000, 512), "model.norm.weight": (512,)}
    if head:
        shapes["lm_head.weight"] = (1000, 512)
    for i in range(layers):
        own = {
            "self_attn.q_proj.weight": (1024, 512), "self_attn.k_proj.weight": (256, 512),
            "self_attn.v_proj.weight": (256, 512), "self_attn.o_proj.weight": (512, 1024),
            "mlp.gate_proj.weight": (1536, 512), "mlp.up_proj.weight": (1536, 512), "mlp.down_proj.weight": (512, 1536),
            "input_layernorm.weight": (512,), "post_attention_layernorm.weight": (512,), **(more or {}),
        }  # fmt: skip
        shapes |= {f"model.layers.{i}.{name}": shape for name, shape in own.items()}
    return {name: ("BF16", shape, 2 * math.prod(shape)) for name, shape in shapes.items()}


def test_a_lone_safetensors_file_is_read_from_its_tensors(tmp_path: Path) -> None:
    tensors = llama_shapes(3)
    model = load_model(written(tmp_path, "lone.safetensors", safetensors(tensors)))
    (group,) = model.layers
    mixer = group.attention
    assert (group.count, mixer.n_query_heads, mixer.n_kv_heads, mixer.qk_head_dim) == (3, 8, 2, 128)
    assert (model.hidden_size, model.vocab_size, group.feed_forward.width) == (512, 1000, 1536)
    exact = sum(size for _, _, size in tensors.values())
    assert float(weights_bytes_per_gpu(model, Layout(), precision_of(model, None))) == pytest.approx(exact, rel=1e-12)
    assert "heads of 128 (assumption)" in model.remarks[0]
    normed = llama_shapes(2, False, {"self_attn.q_norm.weight": (64,), "self_attn.k_norm.weight": (64,)})
    small = load_model(written(tmp_path, "small.safetensors", safetensors(normed)))
    assert (small.layers[0].attention.qk_head_dim, small.tied_embeddings) == (64, True)


def test_a_part_is_read_with_the_others_and_says_which_is_missing(tmp_path: Path) -> None:
    tensors = list(llama_shapes(2).items())
    for i, some in enumerate((tensors[:10], tensors[10:])):
        written(tmp_path, f"model-0000{i + 1}-of-00002.safetensors", safetensors(dict(some)))
    assert load_model(str(tmp_path / "model-00001-of-00002.safetensors")).n_layers == 2
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ComputeLedgerError, match=r"model-00002-of-00002\.safetensors: no such file"):
        load_model(str(tmp_path / "model-00001-of-00002.safetensors"))


@pytest.mark.parametrize(
    ("tensors", "why"),
    [
        ({}, "it lacks self_attn.q_proj.weight"),
        (llama_shapes(1, more={"mlp.experts.0.gate_proj.weight": (64, 512)}), "experts per token stand in no tensor"),
        (qwen_tensors(0), "its weights are packed"),
        (llama_shapes(1, more={"self_attn.kv_a_proj_with_mqa.weight": (64, 512)}), "its attention is not plain"),
        ({k.replace("layers.0", "layers.5"): v for k, v in llama_shapes(1).items()}, "it lacks self_attn.q_proj"),
    ],
)
def test_a_lone_safetensors_file_says_what_is_missing(
    tmp_path: Path, tensors: Mapping[str, tuple[str, Sequence[int], int]], why: str
) -> None:
    with pytest.raises(ComputeLedgerError, match=rf"config\.json, which is not beside it, and not in the .*{why}"):
        load_model(written(tmp_path, "a.safetensors", safetensors(tensors)))
