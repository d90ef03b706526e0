"""The vision encoder beside a language model: its matrices, kept out of the language model's counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.errors import ModelConfigError
from computeledger.facts.architecture import VisionEncoder
from computeledger.facts.huggingface.fields import Fields

#: Families of encoders whose MLP has a gate.
_GATED = ("gemma4", "qwen2_5_vl", "mistral3", "pixtral")
#: Families by the type of a text model that a configuration states beside its encoder.
_OF_TEXT = {"gemma3_text": "gemma3", "mistral": "mistral3"}
#: Families whose encoder has a width, or a matrix, that their configurations do not state: the class's own.
_MLP_RATIO = {"qwen2_vl": 4}


def read_vision(config: Mapping[str, Any], text_hidden_size: int) -> VisionEncoder | None:
    """Count the matrices of a vision encoder: patches, positions, attention, MLP and the way into the text model.

    Norms and biases are left out, so the count is up to 1 % low.
    """
    raw = config.get("vision_config")
    if raw is None:
        return None
    if not isinstance(raw, Mapping):
        raise ModelConfigError(f"vision_config: {raw!r} is not an object")
    family = _family(config)
    f = Fields(raw, "vision_config.", "vision")
    n = f.optional_integer("depth", "num_hidden_layers", "vt_num_hidden_layers")
    # Qwen2-VL calls the width of the text model hidden_size
    d = f.optional_integer("embed_dim") or f.optional_integer("hidden_size", "vt_hidden_size")
    ratio = f.value("mlp_ratio") or _MLP_RATIO.get(family)
    stated = f.optional_integer("intermediate_size", "vt_intermediate_size")
    mlp = int(ratio * d) if stated is None and ratio and d else stated
    if n is None or d is None or mlp is None:
        return None
    wide = f.integer("qkv_hidden_size", default=d)
    layer = 4 * d * wide + (3 if family in _GATED else 2) * d * mlp
    patch = _side(f, "patch_size") or 14
    patches = d * f.integer("in_channels", "in_chans", "num_channels", default=3) * patch * patch
    patches *= f.integer("temporal_patch_size", default=1)
    side, projector = _merged(config, f), _projector(config, f, d, text_hidden_size)
    wide_projector = config.get("projector_hidden_size")
    if family == "minimax_m3_vl" and isinstance(wide_projector, int):  # two matrices before patches merge, two after
        patches += wide_projector * (d + text_hidden_size)
        projector = (side * side + 1) * text_hidden_size * wide_projector
    window = f.optional_integer("window_size")
    full = f.value("fullatt_block_indexes")
    return VisionEncoder(
        n_params=n * layer + patches + _positions(f, d) + projector,
        n_layers=n,
        tokens_per_image=_tokens(config, f),
        family=family,
        hidden_size=d,
        attention_width=wide,
        mlp_width=mlp,
        patch_params=patches,
        layer_params=layer,
        projector_params=projector,
        patch_pixels=patch,
        merged_side=side,
        image_pixels=_side(f, "image_size") or 0,
        window_patches=(window // patch) ** 2 if window and isinstance(full, list) else 0,
        n_full_layers=len(full) if window and isinstance(full, list) else 0,
    )


def _family(config: Mapping[str, Any]) -> str:
    stated, vision = str(config.get("model_type")), config.get("vision_config")
    if stated == "llava" and isinstance(vision, Mapping) and vision.get("model_type") == "pixtral":
        return "pixtral"
    return _OF_TEXT.get(stated, stated)


def _side(f: Fields, name: str) -> int | None:
    """One side of a square, which some families write twice."""
    value = f.value(name)
    if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
        return int(value[0])
    return f.optional_integer(name)


def _positions(f: Fields, hidden: int) -> int:
    height = f.integer("init_pos_emb_height", default=0, minimum=0)
    two_sided = 2 * f.integer("position_embedding_size", default=0, minimum=0)
    learned = f.integer("num_position_embeddings", default=two_sided, minimum=0)
    return hidden * (learned or height * f.integer("init_pos_emb_width", default=height, minimum=0))


def _merged(config: Mapping[str, Any], f: Fields) -> int:
    """Patches along a side that become one token."""
    outer = Fields(config)
    compression = outer.value("img_token_compression_config")
    side = f.optional_integer("spatial_merge_size") or outer.optional_integer("spatial_merge_size")
    if side is None and isinstance(compression, Mapping):
        side = Fields(compression).optional_integer("spatial_merge_size")
    kernel = f.value("merge_kernel_size")
    if side is None and isinstance(kernel, list) and len(kernel) == 2:
        side = int(kernel[0])
    shuffled = f.value("pixel_shuffle_ratio") or outer.value("downsample_ratio")
    if side is None and shuffled:
        side = round(1 / shuffled)
    return side or f.optional_integer("pooling_kernel_size") or 1


def _projector(config: Mapping[str, Any], f: Fields, hidden: int, text_hidden_size: int) -> int:
    """Neighbouring patches are merged, mixed once at that width and projected; some layers feed one each."""
    family = _family(config)
    side = _merged(config, f)
    if family == "llama4":
        inner, out = f.integer("projector_input_dim"), f.integer("projector_output_dim")
        return hidden * side * side * inner + inner * out + out * text_hidden_size
    if family in ("llava", "pixtral"):
        return text_hidden_size * (hidden + text_hidden_size)
    if side == 1 or f.has("pooling_kernel_size"):
        return hidden * text_hidden_size
    width = hidden * side * side
    if family == "mistral3":  # merged to the encoder's own width, then two matrices
        return width * hidden + hidden * text_hidden_size + text_hidden_size * text_hidden_size
    if family == "internvl":
        return width * text_hidden_size + text_hidden_size * text_hidden_size
    deep = f.value("deepstack_visual_indexes")
    return (1 + (len(deep) if isinstance(deep, list) else 0)) * width * (width + text_hidden_size)


def _tokens(config: Mapping[str, Any], f: Fields) -> int | None:
    stated = config.get("vision_soft_tokens_per_image") or f.value("default_output_length")
    stated = stated or config.get("mm_tokens_per_image") or config.get("image_seq_length")
    return stated if isinstance(stated, int) else None
