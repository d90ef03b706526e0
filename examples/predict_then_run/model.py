"""A small Llama-like transformer in plain PyTorch, with a cache that is allocated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """Shape of a model; its Hugging Face configuration is what the prediction reads."""

    hidden_size: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    mlp_width: int
    vocab_size: int

    def config(self) -> dict[str, Any]:
        """Write the shape as a Hugging Face configuration."""
        return {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.n_layers,
            "num_attention_heads": self.n_heads,
            "num_key_value_heads": self.n_kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.mlp_width,
            "vocab_size": self.vocab_size,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "max_position_embeddings": 65536,
        }


SMALL = Shape(1024, 6, 16, 16, 64, 2816, 8192)
GROUPED = Shape(1280, 4, 20, 4, 64, 3584, 8192)
SEVEN_B = Shape(4096, 32, 32, 8, 128, 14336, 32000)


class Weights:
    """Random weights of every layer; 8-bit ones where the products run in fp8."""

    def __init__(self, shape: Shape, device: str, precision: str) -> None:
        heads = (shape.n_heads + 2 * shape.n_kv_heads) * shape.head_dim
        sizes = [
            (heads, shape.hidden_size),
            (shape.hidden_size, shape.n_heads * shape.head_dim),
            (2 * shape.mlp_width, shape.hidden_size),
            (shape.hidden_size, shape.mlp_width),
        ]
        kind = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}[precision]
        self.layers = [
            [(torch.randn(size, device=device, dtype=torch.bfloat16) * 0.02).to(kind) for size in sizes]
            for _ in range(shape.n_layers)
        ]
        self.table = torch.randn(shape.vocab_size, shape.hidden_size, device=device, dtype=torch.bfloat16) * 0.02
        self.scale = torch.ones(shape.hidden_size, device=device, dtype=torch.bfloat16)
        self.one = torch.ones((), device=device)


def product(x: torch.Tensor, weight: torch.Tensor, one: torch.Tensor) -> torch.Tensor:
    """``x weight^T``, rows rounded to 8 bits where the weight is."""
    if weight.dtype == torch.bfloat16:
        return functional.linear(x, weight)
    rows = x.flatten(0, -2)
    short = -rows.shape[0] % 16
    rows = functional.pad(rows, (0, 0, 0, short)).to(weight.dtype)
    # PyTorch has no public name for the 8-bit product
    out = torch._scaled_mm(rows, weight.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)  # noqa: SLF001
    return out[: out.shape[0] - short].unflatten(0, x.shape[:-1])


def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary positions."""
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat([-second, first], -1) * sine


class Transformer:
    """The model with room for a batch and a context."""

    def __init__(self, shape: Shape, weights: Weights, batch: int, room: int) -> None:
        self.shape, self.weights = shape, weights
        device = weights.table.device
        size = (batch, shape.n_kv_heads, room, shape.head_dim)
        self.cache = [
            [torch.randn(size, device=device, dtype=torch.bfloat16) for _ in "kv"] for _ in range(shape.n_layers)
        ]
        angle = torch.outer(torch.arange(room), 1e4 ** -(torch.arange(0, 1, 2 / shape.head_dim)))
        angle = torch.cat([angle, angle], -1)
        self.cosine, self.sine = (one.to(device, torch.bfloat16) for one in (angle.cos(), angle.sin()))

    def forward(self, tokens: torch.Tensor, start: int) -> torch.Tensor:
        """Scores of the next token of each sequence: a prefill from ``start`` on, or a decode step of one token."""
        shape, weights = self.shape, self.weights
        x = functional.embedding(tokens, weights.table)
        new = tokens.shape[1]
        part = slice(start, start + new)
        cosine, sine = self.cosine[part], self.sine[part]
        for (qkv, out, wide, narrow), (keys, values) in zip(weights.layers, self.cache, strict=True):
            h = functional.rms_norm(x, (shape.hidden_size,), weights.scale, 1e-6)
            projected = product(h, qkv, weights.one).unflatten(-1, (-1, shape.head_dim)).transpose(1, 2)
            query, key, value = projected.split([shape.n_heads, shape.n_kv_heads, shape.n_kv_heads], 1)
            query = rotate(query, cosine, sine)
            keys[:, :, part], values[:, :, part] = rotate(key, cosine, sine), value
            mixed = functional.scaled_dot_product_attention(
                query,
                keys[:, :, : part.stop],
                values[:, :, : part.stop],
                is_causal=new > 1,
                enable_gqa=shape.n_heads != shape.n_kv_heads,
            )
            x = x + product(mixed.transpose(1, 2).flatten(2), out, weights.one)
            h = functional.rms_norm(x, (shape.hidden_size,), weights.scale, 1e-6)
            first, second = product(h, wide, weights.one).chunk(2, -1)
            x = x + product(functional.silu(first) * second, narrow, weights.one)
        last = functional.rms_norm(x[:, -1], (shape.hidden_size,), weights.scale, 1e-6)
        return functional.linear(last, weights.table).argmax(-1)
