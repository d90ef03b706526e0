"""Which configuration the metadata of a GGUF file amounts to, by llama.cpp's name of the architecture.

The keys are those that llama.cpp's converters write (``llama-cpp-gguf`` in the sources: ``conversion/*.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from computeledger.errors import ModelConfigError, nearest
from computeledger.facts.checkpoints.gguf import Tensor, Value
from computeledger.facts.checkpoints.gguf_layers import BY_LAYER, READERS, Layers

_Keys = dict[str, tuple[str, ...]]
#: Fields of a configuration by the metadata that says them, the first that stands in the file.
_FIELDS: _Keys = {
    "num_hidden_layers": ("block_count",),
    "hidden_size": ("embedding_length",),
    "intermediate_size": ("feed_forward_length", "expert_feed_forward_length"),
    "num_attention_heads": ("attention.head_count",),
    "num_key_value_heads": ("attention.head_count_kv", "attention.head_count"),
    "head_dim": ("attention.key_length",),
    "max_position_embeddings": ("context_length",),
}
_WINDOW: _Keys = {"sliding_window": ("attention.sliding_window",)}
_ROUTED: _Keys = {"num_experts_per_tok": ("expert_used_count",), "num_experts": ("expert_count",)}
_WIDTH: _Keys = {"moe_intermediate_size": ("expert_feed_forward_length",)}
_AFTER_DENSE: _Keys = _ROUTED | _WIDTH | {
    "n_shared_experts": ("expert_shared_count",),
    "first_k_dense_replace": ("leading_dense_block_count",),
    "n_group": ("expert_group_count",),
    "topk_group": ("expert_group_used_count",),
}  # fmt: skip
_LATENT: _Keys = _AFTER_DENSE | {
    "q_lora_rank": ("attention.q_lora_rank",),
    "kv_lora_rank": ("attention.kv_lora_rank",),
    "qk_rope_head_dim": ("rope.dimension_count",),
    "v_head_dim": ("attention.value_length_mla", "attention.value_length"),
    "qk_nope_head_dim": ("attention.key_length_mla", "attention.key_length"),
}  # fmt: skip
_INDEXED: _Keys = _LATENT | {
    "index_n_heads": ("attention.indexer.head_count",),
    "index_head_dim": ("attention.indexer.key_length",),
    "index_topk": ("attention.indexer.top_k",),
}  # fmt: skip
_DELTA: _Keys = {
    "linear_num_value_heads": ("ssm.time_step_rank",),
    "linear_num_key_heads": ("ssm.group_count",),
    "linear_key_head_dim": ("ssm.state_size",),
    "linear_value_head_dim": ("ssm.inner_size",),
    "linear_conv_kernel_dim": ("ssm.conv_kernel",),
    "full_attention_interval": ("full_attention_interval",),
}  # fmt: skip
_DELTA_EXPERTS: _Keys = _DELTA | _ROUTED | _WIDTH | {
    "shared_expert_intermediate_size": ("expert_shared_feed_forward_length",),
}  # fmt: skip
_LLAMA_4: _Keys = _ROUTED | {
    "intermediate_size": ("expert_feed_forward_length",),
    "intermediate_size_mlp": ("feed_forward_length",),
    "interleave_moe_layer_step": ("interleave_moe_layer_step",),
}  # fmt: skip
_ERNIE: _Keys = _ROUTED | _WIDTH | {
    "num_shared_experts": ("expert_shared_count",),
    "moe_layer_start_index": ("leading_dense_block_count",),
    "moe_layer_interval": ("interleave_moe_layer_step",),
}  # fmt: skip
_GEMMA_4: _Keys = _WINDOW | _ROUTED | _WIDTH | {
    "global_head_dim": ("attention.key_length",),
    "head_dim": ("attention.key_length_swa",),
    "num_kv_shared_layers": ("attention.shared_kv_layers",),
    "hidden_size_per_layer_input": ("embedding_length_per_layer_input",),
}  # fmt: skip
_DEEPSEEK_4: _Keys = _WINDOW | _AFTER_DENSE | {
    "q_lora_rank": ("attention.q_lora_rank",),
    "o_lora_rank": ("attention.output_lora_rank",),
    "o_groups": ("attention.output_group_count",),
    "qk_rope_head_dim": ("rope.dimension_count",),
    "index_n_heads": ("attention.indexer.head_count",),
    "index_head_dim": ("attention.indexer.key_length",),
    "index_topk": ("attention.indexer.top_k",),
    "hc_mult": ("hyper_connection.count",),
}  # fmt: skip
_MIMO: _Keys = _WINDOW | _AFTER_DENSE | {"v_head_dim": ("attention.value_length",)}
_NEMOTRON: _Keys = _AFTER_DENSE | {
    "moe_shared_expert_intermediate_size": ("expert_shared_feed_forward_length",),
    "moe_latent_size": ("moe_latent_size",),
    "mamba_num_heads": ("ssm.time_step_rank",),
    "mamba_head_dim": ("ssm.inner_size",),
    "ssm_state_size": ("ssm.state_size",),
    "n_groups": ("ssm.group_count",),
    "conv_kernel": ("ssm.conv_kernel",),
}  # fmt: skip
#: Architectures: the model type whose reader knows the shape, and the fields that it needs beside the common ones.
_FAMILIES: Mapping[str, tuple[str, _Keys]] = {
    "bailingmoe": ("bailing_moe", _AFTER_DENSE),
    "bailingmoe2": ("bailing_moe_v2", _AFTER_DENSE),
    "bloom": ("bloom", {}),
    "command-r": ("cohere", {}),
    "dbrx": ("dbrx", _ROUTED),
    "deepseek2": ("deepseek_v3", _LATENT),
    "deepseek4": ("deepseek_v4", _DEEPSEEK_4),
    "ernie4_5-moe": ("ernie4_5_moe", _ERNIE),
    "falcon": ("falcon", {}),
    "gemma": ("gemma", {}),
    "gemma2": ("gemma2", _WINDOW),
    "gemma3": ("gemma3_text", _WINDOW),
    "gemma4": ("gemma4_text", _GEMMA_4),
    "glm-dsa": ("glm_moe_dsa", _INDEXED),
    "glm4": ("glm4", {}),
    "glm4moe": ("glm4_moe", _AFTER_DENSE),
    "gpt-oss": ("gpt_oss", _ROUTED | _WINDOW),
    "gptneox": ("gpt_neox", {}),
    "granite": ("granite", {}),
    "granitemoe": ("granitemoe", _ROUTED),
    "internlm2": ("internlm2", {}),
    "llama": ("llama", {}),
    "llama4": ("llama4_text", _LLAMA_4),
    "mimo2": ("mimo_v2_flash", _MIMO),
    "minimax-m2": ("minimax_m2", _ROUTED),
    "mistral3": ("mistral", {}),
    "nemotron": ("nemotron", {}),
    "nemotron_h": ("nemotron_h", _NEMOTRON),
    "nemotron_h_moe": ("nemotron_h", _NEMOTRON),
    "olmo2": ("olmo2", _WINDOW),
    "olmoe": ("olmoe", _ROUTED),
    "phi3": ("phi3", _WINDOW),
    "phimoe": ("phimoe", _ROUTED),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {}),
    "qwen35": ("qwen3_5_text", _DELTA),
    "qwen35moe": ("qwen3_5_moe_text", _DELTA_EXPERTS),
    "qwen3moe": ("qwen3_moe", _ROUTED | _WIDTH),
    "qwen3next": ("qwen3_next", _DELTA_EXPERTS),
    "qwen3vl": ("qwen3_vl_text", {}),
    "qwen3vlmoe": ("qwen3_vl_moe_text", _ROUTED | _WIDTH),
    "seed_oss": ("seed_oss", {}),
    "smollm3": ("smollm3", {}),
}
_LISTS = "its heads or widths differ by layer, in lists that are not read"
#: Why the files of families whose configurations are read are not.
_UNREAD = {
    "deci": _LISTS, "step35": _LISTS, "kimi-linear": _LISTS,
    "hunyuan-moe": "it does not say which layers share a cache",
    "minimax-m3": "its sparse layers differ from the first ones, in lists that are not read",
    "mpt": "MPT is bundled in Falcon's fields, which its file does not have",
    "grok": "Grok's norms beside the experts are not counted from a file",
}  # fmt: skip
#: Fields that say something when they are 0.
_COUNTED_FROM_0 = ("first_k_dense_replace", "moe_layer_start_index")
#: Families whose reader takes a switch that tensors tell.
_BIASED = (
    "cohere", "gemma", "glm4", "glm4_moe", "gpt_oss", "granite", "granitemoe", "internlm2", "llama", "nemotron",
    "olmoe", "phimoe", "qwen3", "qwen3_moe", "qwen3_vl_moe_text", "qwen3_vl_text", "seed_oss",
)  # fmt: skip
_NORMED = ("bailing_moe_v2", "cohere", "glm4_moe", "minimax_m2")


def config_of(metadata: Mapping[str, Value], tensors: list[Tensor], name: str) -> dict[str, object]:
    """The configuration that a file's metadata amounts to, in Hugging Face's fields."""
    family = metadata.get("general.architecture")
    if not isinstance(family, str):
        raise ModelConfigError(f"{name}: general.architecture: missing; it says how to read every other key")
    if family not in _FAMILIES:
        raise _unread(name, family)
    kind, more = _FAMILIES[family]
    if family == "llama" and metadata.get("llama.expert_count"):
        kind, more = "mixtral", _ROUTED
    config: dict[str, object] = {"model_type": kind}
    for field, keys in (_FIELDS | more).items():
        if kind in READERS and field in BY_LAYER:
            continue
        value = next(_values(metadata, family, keys, name), None)
        if value or (value == 0 and field in _COUNTED_FROM_0):
            config[field] = value
    config |= _from_tensors(kind, config, metadata, tensors)
    return config | (READERS[kind](Layers(tensors, config, name)) if kind in READERS else {})


def _unread(name: str, family: str) -> ModelConfigError:
    """Say why an architecture is not read, and which are."""
    hint = nearest(family, _FAMILIES)
    near = f"{hint} " if hint.startswith("did you mean") and family not in _UNREAD else ""
    why = f"is not read: {_UNREAD[family]}; " if family in _UNREAD else f"is not known; {near}"
    return ModelConfigError(
        f"{name}: general.architecture: {family[:80]!r} {why}read are: {', '.join(sorted(_FAMILIES))}"
    )


def _values(metadata: Mapping[str, Value], family: str, keys: tuple[str, ...], name: str) -> Iterator[int]:
    for key in (f"{family}.{one}" for one in keys):
        if key not in metadata:
            continue
        value = metadata[key]
        if not isinstance(value, int) or value < 0:
            raise ModelConfigError(f"{name}: {key}: one whole number is needed; lists by layer are not read")
        yield value


def _from_tensors(
    kind: str, config: Mapping[str, object], metadata: Mapping[str, Value], tensors: list[Tensor]
) -> dict[str, object]:
    """What the names and shapes of tensors tell, and differences of meaning between the two sets of fields."""
    names = {one.name: one for one in tensors}
    embedding = names.get("token_embd.weight")
    numbers = {field: value for field, value in config.items() if isinstance(value, int)}
    layers = numbers.get("num_hidden_layers", 0)
    out: dict[str, object] = {"tie_word_embeddings": "output.weight" not in names}
    if embedding is not None:
        out["vocab_size"] = embedding.columns
    later = metadata.get(f"{metadata['general.architecture']}.nextn_predict_layers")
    if kind == "deepseek_v4" and not any(".nextn." in one for one in names):
        later = 0
    if isinstance(later, int) and later:
        layers -= later
        out |= {"num_hidden_layers": layers, "num_nextn_predict_layers": later}
    if kind in _BIASED:
        out["attention_bias"] = "blk.0.attn_q.bias" in names or "blk.0.attn_qkv.bias" in names
    if kind == "seed_oss":
        out["attention_out_bias"] = "blk.0.attn_output.bias" in names
    if kind in _NORMED:
        out["use_qk_norm"] = "blk.0.attn_q_norm.weight" in names
    if kind == "deepseek_v4":
        out["compress_ratios"] = _by_layer(metadata, "deepseek4.attention.compress_ratios", layers)
    if kind == "glm_moe_dsa":
        chooses = [any(one.startswith(f"blk.{i}.indexer.") for one in names) for i in range(layers)]
        out["indexer_types"] = ["full" if one else "shared" for one in chooses]
    if kind == "falcon":
        shared = numbers.get("num_key_value_heads", 0)
        out |= {
            "new_decoder_architecture": 1 < shared < numbers.get("num_attention_heads", 0),
            "multi_query": shared == 1,
        }
    return out | _meant(numbers)


def _by_layer(metadata: Mapping[str, Value], key: str, n_layers: int) -> list[int]:
    """A number per layer: a list that may go on behind the last layer, or one number where all are alike."""
    value = metadata.get(key)
    if isinstance(value, int):
        return [value] * n_layers
    if not isinstance(value, tuple) or len(value) < n_layers:
        raise ModelConfigError(f"{key}: {n_layers} whole numbers are needed, one per layer")
    return list(value[:n_layers])


def _meant(numbers: Mapping[str, int]) -> dict[str, object]:
    """Widths that the two sets of fields count in another way."""
    out: dict[str, object] = {}
    if {"qk_nope_head_dim", "qk_rope_head_dim"} <= numbers.keys():
        out["qk_nope_head_dim"] = numbers["qk_nope_head_dim"] - numbers["qk_rope_head_dim"]
    if {"linear_value_head_dim", "linear_num_value_heads"} <= numbers.keys():
        out["linear_value_head_dim"] = numbers["linear_value_head_dim"] // numbers["linear_num_value_heads"]
    if "head_dim" not in numbers and {"hidden_size", "num_attention_heads"} <= numbers.keys():
        out["head_dim"] = numbers["hidden_size"] // numbers["num_attention_heads"]
    return out
