"""The configuration of a dense model from the names and shapes of its tensors, without a ``config.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from computeledger.errors import ModelConfigError
from computeledger.facts.checkpoints.gguf import Tensor

_LAYER = re.compile(r"^(?:model\.|language_model\.|transformer\.)*layers\.(\d+)\.(.+)$")
_EMBEDDING = re.compile(r"^(?:model\.|language_model\.)*embed_tokens\.weight$")
#: Tensors that say what kind of model it is not, and what that is.
_OTHER = (
    (re.compile(r"\.(qweight|qzeros|scales|weight_packed|absmax)$"), "its weights are packed"),
    (re.compile(r"\.experts\b|_exps\."), "experts per token stand in no tensor"),
    (re.compile(r"(kv_a_proj|kv_b_proj|linear_attn|mixer|conv1d|\bssm)"), "its attention is not plain"),
    (re.compile(r"(pre|post)_feedforward_layernorm"), "which layers slide stands in no tensor"),
)
_ROWS = ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "mlp.gate_proj.weight")
#: Widths of a head, the usual one first (assumption); cache, parameters and FLOP depend on heads x width alone.
_HEAD_SIZES = (128, 64)


def config_of_tensors(tensors: Sequence[Tensor], name: str) -> dict[str, object]:
    """The configuration of a checkpoint in the layout of Llama, Qwen 2 or Qwen 3; an error says what is missing."""
    shapes = {one.name: one.shape for one in tensors}
    layers = {int(found[1]): found[2] for one in shapes if (found := _LAYER.match(one))}
    for words, why in _OTHER:
        if any(words.search(one) for one in shapes):
            raise _missing(name, why)
    embedding = next((shape for one, shape in shapes.items() if _EMBEDDING.match(one)), None)
    first = {found[2]: shape for one, shape in shapes.items() if (found := _LAYER.match(one)) and found[1] == "0"}
    absent = [one for one in _ROWS if one not in first] + ([] if embedding else ["embed_tokens.weight"])
    if embedding is None or absent:
        raise _missing(name, f"of the first layer and the embedding it lacks {', '.join(absent)}")
    if sorted(layers) != list(range(len(layers))):
        raise _missing(name, f"of {max(layers) + 1} layers it holds {len(layers)}")
    queries, keys, width = (first[one][0] for one in _ROWS)
    kind, size = _kind_and_head(first, queries, keys)
    if not size:
        raise _missing(name, f"{queries} rows of queries and {keys} of keys are no heads of {_HEAD_SIZES[0]}")
    return {
        "model_type": kind, "hidden_size": embedding[1], "vocab_size": embedding[0], "num_hidden_layers": len(layers),
        "intermediate_size": width, "num_attention_heads": queries // size, "num_key_value_heads": keys // size,
        "head_dim": size, "attention_bias": kind != "qwen2" and "self_attn.q_proj.bias" in first,
        "tie_word_embeddings": not any(one.endswith("lm_head.weight") for one in shapes),
    }  # fmt: skip


def _kind_and_head(first: Mapping[str, Sequence[int]], queries: int, keys: int) -> tuple[str, int]:
    """The family of a layer, and the width of its heads: that of their norm, else the usual one that divides."""
    norm = first.get("self_attn.q_norm.weight")
    if norm is not None:
        return "qwen3", norm[0] if queries % norm[0] == keys % norm[0] == 0 else 0
    size = next((one for one in _HEAD_SIZES if queries % one == keys % one == 0 and queries % keys == 0), 0)
    return "qwen2" if "self_attn.q_proj.bias" in first and "self_attn.o_proj.bias" not in first else "llama", size


def _missing(name: str, why: str) -> ModelConfigError:
    return ModelConfigError(
        f"{name}: its shape is in config.json, which is not beside it, and not in the tensors: {why}"
    )
