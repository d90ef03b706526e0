"""Reads the shape of a model from its Hugging Face ``config.json``.

One small reader per family turns fields into one mixer and one feed-forward part per layer. A field that no reader
knows and that could change parameters, work or cache is an error that names it: a wrong count is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from computeledger.errors import ModelConfigError, nearest
from computeledger.facts.architecture import Model
from computeledger.facts.huggingface import hybrid, latent, plain, standard
from computeledger.facts.huggingface.fields import Fields
from computeledger.facts.huggingface.parts import Shape
from computeledger.facts.huggingface.precision import read_precision
from computeledger.facts.huggingface.vision import read_vision

__all__ = ["KNOWN_MODEL_TYPES", "parse_config"]

_READERS: dict[str, Callable[[Fields], Shape]] = {
    **standard.READERS, **plain.READERS, **latent.READERS, **hybrid.READERS,
}  # fmt: skip

#: Multimodal types, and the type of the text model where ``text_config`` does not name it.
_WRAPPERS = {
    "gemma3": "gemma3_text",
    "gemma4": "gemma4_text",
    "kimi_k25": "kimi_k2",
    "kimi_k3": "kimi_linear",
    "llama4": "llama4_text",
    "llava": "llama",
    "mistral3": "mistral",
    "internvl": "qwen2",
    "minimax_m3_vl": "minimax_m3",
    "qwen2_5_vl": "qwen2",
    "qwen2_vl": "qwen2",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
}

#: Every ``model_type`` that can be read.
KNOWN_MODEL_TYPES = tuple(sorted({*_READERS, *_WRAPPERS}))

_MTP_DEPTHS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
_OUTER_ONLY = (
    "text_config",
    "vision_config",
    "quantization_config",
    "quantization",
    "tie_word_embeddings",
    "dtype",
    "torch_dtype",
)


def parse_config(config: Mapping[str, Any], model_id: str) -> Model:
    """Read a Hugging Face ``config.json``."""
    if not isinstance(config, Mapping):
        raise ModelConfigError(f"a configuration is an object of fields, not {type(config).__name__}")
    family, text = _language_part(config)
    text, outer_text = plain.renamed(family, text), text
    f = Fields(text, "" if outer_text is config else "text_config.", family)
    shape = _READERS[family](f)
    hidden, vocabulary = f.integer("hidden_size"), f.integer("vocab_size", default=shape.default_vocab_size)
    n_mtp = next((f.integer(name, minimum=0) for name in _MTP_DEPTHS if f.has(name)), 0)
    tied = _tied(config, f, shape)
    f.ignore(*_MTP_DEPTHS, *_OUTER_ONLY)
    f.refuse_unread()
    if outer_text is not config:
        outer = Fields(config, "", str(config.get("model_type")))
        outer.ignore(*_OUTER_ONLY)
        outer.refuse_unread()
    groups = shape.groups()
    precision = read_precision(config, text, sum(g.count for g in groups if g.attention.is_present))
    model = Model(
        id=model_id,
        hidden_size=hidden,
        vocab_size=vocabulary,
        layers=groups,
        tied_embeddings=tied,
        max_context_tokens=f.integer("max_position_embeddings", "model_max_length", default=0),
        weight_precision=precision.attention,
        dense_precision=precision.dense,
        expert_precision=precision.experts,
        head_precision=precision.head,
        embedding_precision=precision.head,
        n_mtp_layers=n_mtp,
        residual_streams=shape.residual_streams,
        norm_params_per_layer=shape.norm_params_per_layer,
        vision=read_vision(config, hidden),
        notes=(*precision.notes, *_id_notes(config, text, model_id)),
    )
    return model if model.is_moe else replace(model, expert_precision=precision.dense)


def _language_part(config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The family of the language model and its fields, inside a multimodal configuration or not."""
    stated = config.get("model_type")
    if stated is None:
        raise ModelConfigError("model_type: missing; it says how to read every other field")
    if not isinstance(stated, str) or (stated not in _READERS and stated not in _WRAPPERS):
        raise _unknown_type("model_type", stated)
    text = config.get("text_config")
    if text is None:
        return _WRAPPERS.get(stated, stated), config
    if not isinstance(text, Mapping):
        raise ModelConfigError(f"text_config: {text!r} is not an object")
    inner = text.get("model_type") or _WRAPPERS.get(stated, stated)
    if not isinstance(inner, str) or inner not in _READERS:
        raise _unknown_type("text_config.model_type", inner)
    return inner, text


def _unknown_type(name: str, given: object) -> ModelConfigError:
    known = ", ".join(KNOWN_MODEL_TYPES)
    hint = nearest(str(given), KNOWN_MODEL_TYPES)
    near = f"{hint} " if hint.startswith("did you mean") else ""
    return ModelConfigError(f"{name}: {given!r} is not a known model type; {near}known: {known}")


def _tied(config: Mapping[str, Any], f: Fields, shape: Shape) -> bool:
    outer = Fields(config)
    return f.flag("tie_word_embeddings", default=outer.flag("tie_word_embeddings", default=shape.tied_embeddings))


def _id_notes(config: Mapping[str, Any], text: Mapping[str, Any], model_id: str) -> tuple[str, ...]:
    """A quantised checkpoint may keep its precision in another file."""
    named = re.search(r"(?i)(nvfp4|mxfp4|fp8|int4|awq|gptq)", model_id.rsplit("/", 1)[-1])
    if named is None or config.get("quantization_config") or text.get("quantization_config"):
        return ()
    return (f"the id says {named[0]}, but the configuration has no quantization_config: read as it stands",)
