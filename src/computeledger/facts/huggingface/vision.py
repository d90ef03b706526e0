"""The vision encoder beside a language model: its matrices, kept out of the language model's counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.errors import ModelConfigError
from computeledger.facts.architecture import VisionEncoder
from computeledger.facts.huggingface.fields import Fields


def read_vision(config: Mapping[str, Any], text_hidden_size: int) -> VisionEncoder | None:
    """Count the matrices of a vision encoder: patches, positions, attention, MLP and the way into the text model.

    Norms and biases are left out, so the count is up to 1 % low.
    """
    raw = config.get("vision_config")
    if raw is None:
        return None
    if not isinstance(raw, Mapping):
        raise ModelConfigError(f"vision_config: {raw!r} is not an object")
    f = Fields(raw, "vision_config.", "vision")
    n = f.optional_integer("depth", "num_hidden_layers", "vt_num_hidden_layers")
    d = f.optional_integer("hidden_size", "vt_hidden_size")
    mlp = f.optional_integer("intermediate_size", "vt_intermediate_size")
    if n is None or d is None or mlp is None:
        return None
    attention = 4 * d * f.integer("qkv_hidden_size", default=d)
    gated = raw.get("model_type") == "gemma4_vision"
    layers = n * (attention + (3 if gated else 2) * d * mlp)
    patch = f.integer("patch_size", default=14)
    pixels = f.integer("in_channels", "num_channels", default=3) * patch * patch
    patches = d * pixels * f.integer("temporal_patch_size", default=1)
    around = patches + _positions(f, d) + _projector(f, d, text_hidden_size)
    return VisionEncoder(layers + around, n, _tokens(config, f))


def _positions(f: Fields, hidden: int) -> int:
    height = f.integer("init_pos_emb_height", default=0, minimum=0)
    two_sided = 2 * f.integer("position_embedding_size", default=0, minimum=0)
    learned = f.integer("num_position_embeddings", default=two_sided, minimum=0)
    return hidden * (learned or height * f.integer("init_pos_emb_width", default=height, minimum=0))


def _projector(f: Fields, hidden: int, text_hidden_size: int) -> int:
    """Neighbouring patches are merged, mixed once at that width and projected; some layers feed one each."""
    side = f.optional_integer("spatial_merge_size")
    kernel = f.value("merge_kernel_size")
    merged = side * side if side else (kernel[0] * kernel[1] if isinstance(kernel, list) and len(kernel) == 2 else 1)
    width = hidden * merged
    if merged == 1:
        return hidden * text_hidden_size
    deep = f.value("deepstack_visual_indexes")
    return (1 + (len(deep) if isinstance(deep, list) else 0)) * width * (width + text_hidden_size)


def _tokens(config: Mapping[str, Any], f: Fields) -> int | None:
    stated = config.get("vision_soft_tokens_per_image") or f.value("default_output_length")
    return stated if isinstance(stated, int) else None
