"""Headers of checkpoint files, written to their specifications, without the values of tensors."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence

#: Types of ggml by number, as llama.cpp's ``gguf-py/gguf/constants.py`` has them.
GGML = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14, "MXFP4": 39}


def text(value: str) -> bytes:
    """A string of a GGUF file."""
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf(metadata: Mapping[str, object], tensors: Sequence[tuple[str, Sequence[int], str]], version: int = 3) -> bytes:
    """The header of a GGUF file; tensors are names, shapes (columns first) and types."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, value in metadata.items():
        out += text(key) + packed(value)
    for name, shape, kind in tensors:
        out += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, GGML[kind], 0)
    return out


def packed(value: object) -> bytes:
    """A value with its kind: texts, whole numbers, fractions, lists of them."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, list):
        parts = [packed(one) for one in value]
        return struct.pack("<I", 9) + parts[0][:4] + struct.pack("<Q", len(parts)) + b"".join(p[4:] for p in parts)
    raise TypeError(value)


def safetensors(tensors: Mapping[str, tuple[str, Sequence[int], int]]) -> bytes:
    """The header of a safetensors file; tensors are types, shapes and bytes."""
    at, table = 0, {}
    for name, (kind, shape, size) in tensors.items():
        table[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(table).encode()
    return struct.pack("<Q", len(raw)) + raw


#: Llama 3.1 8B as convert_hf_to_gguf.py writes it.
LLAMA_8B = {
    "general.architecture": "llama", "llama.block_count": 32, "llama.context_length": 131072,
    "llama.embedding_length": 4096, "llama.feed_forward_length": 14336, "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8, "llama.rope.freq_base": 500000.0, "llama.vocab_size": 128256,
    "tokenizer.ggml.tokens": ["a", "b", "c"], "tokenizer.ggml.scores": [0.5, 0.25],
}  # fmt: skip


def llama_tensors(layers: int = 32, wide: str = "Q6_K", narrow: str = "Q4_K") -> list[tuple[str, Sequence[int], str]]:
    """Tensors of Llama 3.1 8B in a file of the Q4_K_M mix: values and half of the down projections in more bits."""
    out: list[tuple[str, Sequence[int], str]] = [
        ("token_embd.weight", (4096, 128256), narrow), ("output.weight", (4096, 128256), wide),
        ("output_norm.weight", (4096,), "F32"), ("rope_freqs.weight", (64,), "F32"),
    ]  # fmt: skip
    for i in range(layers):
        more = wide if i < layers // 8 or i >= 7 * layers // 8 or (i - layers // 8) % 3 == 2 else narrow
        shapes = {
            "attn_q": ((4096, 4096), narrow), "attn_k": ((4096, 1024), narrow), "attn_v": ((4096, 1024), more),
            "attn_output": ((4096, 4096), narrow), "ffn_gate": ((4096, 14336), narrow),
            "ffn_up": ((4096, 14336), narrow), "ffn_down": ((14336, 4096), more),
            "attn_norm": ((4096,), "F32"), "ffn_norm": ((4096,), "F32"),
        }  # fmt: skip
        out += [(f"blk.{i}.{name}.weight", shape, kind) for name, (shape, kind) in shapes.items()]
    return out
