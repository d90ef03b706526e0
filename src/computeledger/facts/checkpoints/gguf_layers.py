"""What differs from layer to layer of a GGUF file, from the names and columns of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from computeledger.errors import ModelConfigError
from computeledger.facts.checkpoints.gguf import Tensor


class Layers:
    """Tensors of a file by layer: which one has what, and how wide it is; and the numbers of its configuration."""

    def __init__(self, tensors: Sequence[Tensor], config: Mapping[str, object], name: str) -> None:
        self._columns = {one.name: one.columns for one in tensors}
        self._config, self._name = config, name
        self._n = self.number("num_hidden_layers")

    def number(self, field: str) -> int:
        """A field of the configuration that must be there."""
        value = self._config.get(field)
        if not isinstance(value, int) or not value:
            raise self.missing(field)
        return value

    def has(self, tensor: str) -> list[bool]:
        """Per layer, whether it has a tensor."""
        return [f"blk.{i}.{tensor}" in self._columns for i in range(self._n)]

    def columns(self, tensor: str, where: Sequence[bool] = ()) -> int:
        """Columns of a tensor in the first layer of those allowed that has it."""
        allowed = where or [True] * self._n
        names = [f"blk.{i}.{tensor}" for i in range(self._n) if allowed[i]]
        found = next((self._columns[one] for one in names if one in self._columns), 0)
        if not found:
            raise self.missing(tensor)
        return found

    def each(self, tensor: str) -> list[int]:
        """Per layer, the columns of a tensor that every layer has."""
        return [self._columns.get(f"blk.{i}.{tensor}") or self.columns(f"{tensor} (layer {i})") for i in range(self._n)]

    def table(self, tensor: str) -> int:
        """Columns of a tensor that belongs to no layer; 0 where there is none."""
        return self._columns.get(tensor, 0)

    def missing(self, tensor: str) -> ModelConfigError:
        return ModelConfigError(f"{self._name}: {tensor}: missing; its layers differ, and this tensor says how")


#: Tensors that tell what a layer of Nemotron-H is, and the letter of its pattern.
_LETTERS = (("ssm_in.weight", "M"), ("attn_q.weight", "*"), ("ffn_up_exps.weight", "E"), ("ffn_up.weight", "-"))


def _nemotron_h(layers: Layers) -> dict[str, object]:
    kinds = [(letter, layers.has(tensor)) for tensor, letter in _LETTERS]
    letters = [next((letter for letter, has in kinds if has[i]), "") for i in range(layers.number("num_hidden_layers"))]
    if "" in letters:
        raise layers.missing(f"the mixer or feed-forward part of layer {letters.index('')}")
    out: dict[str, object] = {
        "hybrid_override_pattern": "".join(letters),
        "num_key_value_heads": layers.columns("attn_k.weight") // layers.number("head_dim"),
        "mamba_head_dim": layers.number("mamba_head_dim") // layers.number("mamba_num_heads"),
        "use_conv_bias": any(layers.has("ssm_conv1d.bias")),
    }
    return out | ({"intermediate_size": layers.columns("ffn_up.weight")} if "-" in letters else {})


def _gemma4(layers: Layers) -> dict[str, object]:
    heads, wide, near = (layers.number(one) for one in ("num_attention_heads", "global_head_dim", "head_dim"))
    if wide == near:
        raise layers.missing("attention.key_length_swa")
    full = [columns == heads * wide for columns in layers.each("attn_q.weight")]
    widths, keys, values = layers.each("ffn_up.weight"), layers.has("attn_k.weight"), layers.has("attn_v.weight")
    out: dict[str, object] = {
        "layer_types": ["full_attention" if one else "sliding_attention" for one in full],
        "num_key_value_heads": layers.columns("attn_k.weight", [not one for one in full]) // near,
        "num_global_key_value_heads": layers.columns("attn_k.weight", full) // wide,
        "attention_k_eq_v": any(one and key and not value for one, key, value in zip(full, keys, values, strict=True)),
        "intermediate_size": widths[0],
        "use_double_wide_mlp": widths[-1] > widths[0],
        "enable_moe_block": any(layers.has("ffn_gate_inp.weight")),
    }
    table = layers.table("per_layer_token_embd.weight")
    return out | ({"vocab_size_per_layer_input": table} if table else {})


def _mimo_v2(layers: Layers) -> dict[str, object]:
    near, routed = layers.has("attn_sinks.weight"), layers.has("ffn_gate_inp.weight")
    if not any(near):
        raise layers.missing("attn_sinks.weight")
    out: dict[str, object] = {
        "hybrid_layer_pattern": [int(one) for one in near],
        "num_key_value_heads": layers.columns("attn_k.weight", [not one for one in near]) // layers.number("head_dim"),
        "swa_num_key_value_heads": layers.columns("attn_k.weight", near) // layers.number("head_dim"),
        "add_swa_attention_sink_bias": True,
        "moe_layer_freq": [int(one) for one in routed],
    }
    return out if all(routed) else out | {"intermediate_size": layers.columns("ffn_up.weight")}


#: Model types whose layers differ in ways that metadata says in lists, or not at all.
READERS: Mapping[str, Callable[[Layers], dict[str, object]]] = {
    "gemma4_text": _gemma4,
    "mimo_v2_flash": _mimo_v2,
    "nemotron_h": _nemotron_h,
}
#: Fields that these read from the tensors instead.
BY_LAYER = ("intermediate_size", "num_key_value_heads")
