"""Families that mix kinds of layers: linear attention, state spaces, layers without a part, Gemma 4."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from computeledger.facts.architecture import Attention, FeedForward
from computeledger.facts.huggingface.experts import experts_in_steps, routed_experts, with_shared
from computeledger.facts.huggingface.fields import MAX_LAYERS, Fields
from computeledger.facts.huggingface.parts import (
    NO_FEED_FORWARD,
    NO_MIXER,
    Shape,
    dense_mlp,
    grouped_heads,
    head_size,
    layer_count,
    projection_biases,
    within,
)

_STATE_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}


def _state_value_bytes(f: Fields, name: str) -> float:
    stated = f.text(name, "float32")
    if stated not in _STATE_BYTES:
        raise f.error(name, f"{stated!r} is not understood; allowed: {', '.join(_STATE_BYTES)}")
    return _STATE_BYTES[stated]


def _qwen_next(f: Fields) -> Shape:
    """Qwen3-Next, Qwen 3.5 and 3.6: gated delta layers, a gated full one after every third."""
    n, d = layer_count(f), f.integer("hidden_size")
    f.integer("head_dim")
    full = replace(grouped_heads(f), gated=f.flag("attn_output_gate", default=True))
    full = replace(full, extra_params=2 * full.qk_head_dim)
    values, keys = f.integer("linear_num_value_heads"), f.integer("linear_num_key_heads")
    if values % keys:
        raise f.error("linear_num_key_heads", f"{keys} does not divide linear_num_value_heads {values}")
    size = f.integer("linear_value_head_dim")
    delta = Attention(
        "gated_delta",
        values,
        keys,
        f.integer("linear_key_head_dim"),
        size,
        conv_width=f.integer("linear_conv_kernel_dim"),
        gated=True,
        extra_params=2 * values + size,
        state_value_bytes=_state_value_bytes(f, "mamba_ssm_dtype"),
    )
    if f.has("layer_types"):
        kinds = f.choices("layer_types", {"linear_attention": 1, "full_attention": 0}, n)
        f.ignore("full_attention_interval")
    else:
        every = f.integer("full_attention_interval")
        kinds = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(n)]
    f.ignore("use_sliding_window")
    biases = projection_biases(full, d, output=True) if f.flag("attention_bias") else 0
    parts = experts_in_steps(f, n) if f.has("num_experts") else [dense_mlp(f)] * n
    return Shape([full if kind == "full_attention" else delta for kind in kinds], parts, 2 * d + biases)


def _minimax_m1(f: Fields) -> Shape:
    """MiniMax-01 and M1: lightning attention, a full layer after every seventh."""
    n, d = layer_count(f), f.integer("hidden_size")
    full = grouped_heads(f)
    heads, size = full.n_query_heads, full.qk_head_dim
    lightning = Attention("lightning", heads, heads, size, size, gated=True, extra_params=heads * size)
    if f.has("layer_types"):
        kinds = f.choices("layer_types", {"linear_attention": 0, "full_attention": 1}, n)
        is_full = [kind == "full_attention" for kind in kinds]
    else:
        is_full = [bool(kind) for kind in f.integers("attn_type_list", n)]
    f.ignore("shared_moe_mode")
    moe = routed_experts(f, f.integer("intermediate_size"))
    shared = f.integer("shared_intermediate_size", default=0, minimum=0)
    if shared:
        moe = replace(moe, n_shared_experts=1, shared_width=shared)
    return Shape([full if one else lightning for one in is_full], [moe] * n, 2 * d)


_BLOCK_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def _block_types(f: Fields) -> list[str]:
    """One kind per layer, from letters or from words."""
    if f.has("layers_block_type"):
        kinds = f.choices("layers_block_type", dict.fromkeys(_BLOCK_LETTERS.values()))
        f.ignore("hybrid_override_pattern")
    else:
        letters = f.text("hybrid_override_pattern")
        unknown = sorted(set(letters) - set(_BLOCK_LETTERS))
        if unknown:
            allowed = ", ".join(f"{letter} {word}" for letter, word in _BLOCK_LETTERS.items())
            raise f.error("hybrid_override_pattern", f"{unknown[0]!r} is not understood; allowed: {allowed}")
        kinds = [_BLOCK_LETTERS[letter] for letter in letters]
    stated = f.optional_integer("num_hidden_layers")
    if stated is not None and stated != len(kinds):
        raise f.error("num_hidden_layers", f"{stated} does not agree with a pattern of {len(kinds)} layers")
    if not 0 < len(kinds) <= MAX_LAYERS:
        raise f.error("hybrid_override_pattern", f"{len(kinds)} layers are not allowed; 1 to {MAX_LAYERS} are")
    return kinds


def _nemotron_h(f: Fields) -> Shape:
    """Nemotron-H and Nemotron 3: each layer is a state space, an attention, an MLP or experts, and nothing else."""
    d, kinds = f.integer("hidden_size"), _block_types(f)
    heads = f.integer("num_attention_heads")
    size = f.integer("attention_head_dim", "head_dim", default=head_size(f, heads))
    k = f.integer("num_key_value_heads")
    if heads % k:
        raise f.error("num_key_value_heads", f"{k} does not divide num_attention_heads {heads}")
    full = Attention("gqa", heads, k, size, size, window=within(f, f.optional_integer("sliding_window")))
    if any(f.flag(name) for name in ("attention_bias", "mlp_bias", "use_bias", "mamba_proj_bias")):
        raise f.error("use_bias", "biases are not understood in a nemotron_h configuration")
    mixers = {"attention": full, "mamba": _mamba(f)} if "mamba" in kinds else {"attention": full}
    parts = {}
    if "mlp" in kinds:
        parts["mlp"] = dense_mlp(f, n_matrices=2)
    if "moe" in kinds:
        parts["moe"] = _nemotron_experts(f)
    f.ignore("intermediate_size", "expand")
    return Shape(
        [mixers.get(kind, NO_MIXER) for kind in kinds], [parts.get(kind, NO_FEED_FORWARD) for kind in kinds], d
    )


def _mamba(f: Fields) -> Attention:
    n, size = f.integer("mamba_num_heads"), f.integer("mamba_head_dim")
    groups, state = f.integer("n_groups"), f.integer("ssm_state_size")
    if n % groups:
        raise f.error("n_groups", f"{groups} does not divide mamba_num_heads {n}")
    convolution_bias = n * size + 2 * groups * state if f.flag("use_conv_bias", default=True) else 0
    return Attention(
        "mamba2",
        n,
        groups,
        state,
        size,
        conv_width=f.integer("conv_kernel"),
        gated=True,
        extra_params=3 * n + n * size + convolution_bias,
        state_value_bytes=_state_value_bytes(f, "mamba_ssm_cache_dtype"),
    )


def _nemotron_experts(f: Fields) -> FeedForward:
    moe = routed_experts(f, f.integer("moe_intermediate_size"), n_matrices=2)
    shared = f.integer("moe_shared_expert_intermediate_size", default=moe.expert_width)
    moe = with_shared(f, moe, ("n_shared_experts",), shared)
    latent = f.integer("moe_latent_size", default=0, minimum=0)
    return replace(moe, latent_width=latent, extra_params=moe.n_experts)


def _nemotron_nas(f: Fields) -> Shape:
    """Nemotron Super and Ultra from architecture search: every block has its own attention and MLP, or none."""
    n, d = layer_count(f), f.integer("hidden_size")
    heads = f.integer("num_attention_heads")
    f.ignore("num_key_value_heads", "intermediate_size", "attention_bias", "mlp_bias")
    size = head_size(f, heads)
    blocks = f.sequence("block_configs", n)
    mixers, parts = [], []
    for i, raw in enumerate(blocks):
        block = f.nested(f"block_configs[{i}]", raw)
        attention, ffn = block.table("attention"), block.table("ffn")
        if attention is None or ffn is None:
            raise f.error(f"block_configs[{i}]", "needs attention and ffn")
        mixers.append(_searched_attention(attention, heads, size, d))
        parts.append(_searched_mlp(ffn, d))
    return Shape(mixers, parts, 2 * d)


def _searched_attention(f: Fields, heads: int, size: int, hidden: int) -> Attention:
    per_group = f.optional_integer("n_heads_in_group")
    f.ignore("use_prefill_window_in_sink_attention", "unshifted_sink")
    if f.flag("no_op"):
        return NO_MIXER
    if f.flag("replace_with_linear"):
        return replace(NO_MIXER, extra_params=hidden * hidden)
    if per_group is None:
        raise f.missing("n_heads_in_group")
    if heads % per_group:
        raise f.error("n_heads_in_group", f"{per_group} does not divide {heads} heads")
    window = f.optional_integer("window_length")
    sinks = f.optional_integer("num_sink_tokens", minimum=0) or 0
    return Attention("gqa", heads, heads // per_group, size, size, window=window + sinks if window else None)


def _searched_mlp(f: Fields, hidden: int) -> FeedForward:
    """Width ``2/3 x multiple x D``, rounded up to a multiple of 256."""
    multiple = f.value("ffn_mult")
    if f.flag("no_op"):
        return NO_FEED_FORWARD
    if f.flag("replace_with_linear"):
        return FeedForward(extra_params=hidden * hidden)
    if isinstance(multiple, bool) or not isinstance(multiple, int | float) or not 0 < multiple < 1000:
        raise f.error("ffn_mult", f"{multiple!r} is not a positive number")
    return FeedForward(width=256 * math.ceil(int(2 * multiple * hidden / 3) / 256))


def _gemma4(f: Fields) -> Shape:
    """Gemma 4: wide heads in full layers, keys that serve as values, shared caches, experts beside the MLP."""
    n, d = layer_count(f), f.integer("hidden_size")
    kinds = f.choices("layer_types", {"sliding_attention": 1, "full_attention": 0}, n)
    sharing = f.integer("num_kv_shared_layers", default=0, minimum=0)
    near, full = _gemma4_mixers(f)
    mixers = [near if kind == "sliding_attention" else full for kind in kinds]
    mixers = [replace(one, shares_kv=i >= n - sharing) for i, one in enumerate(mixers)]
    part, norms = dense_mlp(f), 4 * d
    if f.flag("enable_moe_block"):
        routed = routed_experts(f, f.integer("moe_intermediate_size", "expert_intermediate_size"))
        part = replace(routed, width=part.width, extra_params=routed.n_experts + d)
        norms += 3 * d
    else:
        f.ignore("num_experts", "top_k_experts", "moe_intermediate_size", "expert_intermediate_size")
    wide = f.flag("use_double_wide_mlp")
    each = f.integer("hidden_size_per_layer_input", default=0, minimum=0)
    if each:
        # a table looked up per layer, its projection from the embedding, and the way in and out of the layer
        part = replace(part, extra_params=part.extra_params + 3 * d * each)
        norms += f.integer("vocab_size_per_layer_input") * each + d
    f.ignore("vocab_size_per_layer_input")
    shared = replace(part, width=2 * part.width) if wide else part
    parts = [shared if one.shares_kv else part for one in mixers]
    return Shape(mixers, parts, norms, tied_embeddings=True)


def _gemma4_mixers(f: Fields) -> tuple[Attention, Attention]:
    n, k, size = f.integer("num_attention_heads"), f.integer("num_key_value_heads"), f.integer("head_dim")
    near = Attention("gqa", n, k, size, size, window=within(f, f.integer("sliding_window")), extra_params=2 * size)
    wide = f.integer("global_head_dim", default=size)
    one = f.flag("attention_k_eq_v")
    few = f.integer("num_global_key_value_heads", default=k)
    for name, heads in (("num_key_value_heads", k), ("num_global_key_value_heads", few)):
        if n % heads:
            raise f.error(name, f"{heads} does not divide num_attention_heads {n}")
    if f.flag("attention_bias"):
        raise f.error("attention_bias", "true is not understood in a gemma4 configuration")
    full = Attention("gqa", n, few if one else k, wide, wide, one_kv_projection=one, extra_params=2 * wide)
    return near, full


#: Model type -> reader.
READERS: dict[str, Callable[[Fields], Shape]] = {
    "gemma4_text": _gemma4,
    "minimax_m1": _minimax_m1,
    "nemotron-nas": _nemotron_nas,
    "nemotron_h": _nemotron_h,
    "qwen3_5_moe_text": _qwen_next,
    "qwen3_5_text": _qwen_next,
    "qwen3_next": _qwen_next,
}
