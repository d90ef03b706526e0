"""Models from headers of GGUF and safetensors files: shapes as their configurations have them, bytes exactly."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from computeledger.errors import ComputeLedgerError
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


def test_a_lone_safetensors_file_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ComputeLedgerError, match=r"its shape is in config\.json, which is not beside it"):
        load_model(written(tmp_path, "a.safetensors", safetensors({})))
