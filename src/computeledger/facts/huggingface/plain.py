"""Families whose fields or parts differ a little from the standard ones: older names, MLPs of two matrices, biases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from computeledger.facts.architecture import Attention, FeedForward
from computeledger.facts.huggingface.experts import experts_after_dense, pick, routed_experts, with_shared
from computeledger.facts.huggingface.fields import Fields
from computeledger.facts.huggingface.parts import Shape, dense_mlp, grouped_heads, layer_count, projection_biases

_GPT = {"n_embd": "hidden_size", "n_embed": "hidden_size", "n_layer": "num_hidden_layers",
        "n_head": "num_attention_heads", "n_inner": "intermediate_size"}  # fmt: skip

#: Names of a family for the fields that others have, by family; a dot leads into a nested object.
RENAMED: dict[str, dict[str, str]] = {
    "bloom": {**_GPT, "seq_length": "max_position_embeddings"},
    "dbrx": {
        "d_model": "hidden_size", "n_heads": "num_attention_heads", "n_layers": "num_hidden_layers",
        "max_seq_len": "max_position_embeddings", "attn_config.kv_n_heads": "num_key_value_heads",
        "ffn_config.ffn_hidden_size": "intermediate_size", "ffn_config.moe_num_experts": "num_local_experts",
        "ffn_config.moe_top_k": "num_experts_per_tok",
    },
    "ernie4_5_moe": {"moe_k": "num_experts_per_tok", "moe_num_shared_experts": "num_shared_experts"},
    "hunyuan": {"moe_topk": "num_experts_per_tok", "num_shared_expert": "num_shared_experts"},
    "opt": {"ffn_dim": "intermediate_size"},
}  # fmt: skip


def renamed(family: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A configuration in the field names that others have."""
    names = RENAMED.get(family)
    if names is None:
        return fields
    nested = {name.partition(".")[0] for name in names if "." in name}
    out: dict[str, Any] = {names.get(name, name): one for name, one in fields.items() if name not in nested}
    for outer in nested:
        inner = fields.get(outer)
        for name, value in (inner if isinstance(inner, Mapping) else {}).items():
            out.setdefault(names.get(f"{outer}.{name}", str(name)), value)
    return out


def _all_biases(mixer: Attention, mlp: FeedForward, hidden: int) -> int:
    """Two norms with biases, and biases of every projection."""
    return 4 * hidden + projection_biases(mixer, hidden, output=True) + mlp.width + hidden


def _bloom(f: Fields) -> Shape:
    """BLOOM: ALiBi, an MLP of two matrices, biases everywhere."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = grouped_heads(f, kv_defaults_to_all=True)
    mlp = FeedForward(width=f.integer("intermediate_size", default=4 * d), n_matrices=2)
    f.ignore(
        "apply_residual_connection_post_layernorm", "attention_softmax_in_fp32", "masked_softmax_fusion",
        "offset_alibi", "bias_dropout_fusion", "skip_bias_add", "skip_bias_add_qkv", "slow_but_exact",
    )  # fmt: skip
    return Shape([mixer] * n, [mlp] * n, _all_biases(mixer, mlp, d), tied_embeddings=True)


def _opt(f: Fields) -> Shape:
    """OPT: learned positions, an MLP of two matrices, biases everywhere."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer, mlp = grouped_heads(f, kv_defaults_to_all=True), dense_mlp(f, n_matrices=2)
    if f.integer("word_embed_proj_dim", default=d) != d:
        raise f.error("word_embed_proj_dim", f"an embedding of another width than hidden_size {d} is not understood")
    for name in ("do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"):
        if not f.flag(name, default=True):
            raise f.error(name, "false is not understood")
    f.ignore("activation_dropout", "_remove_final_layer_norm")
    positions = (f.integer("max_position_embeddings") + 2) * d // n  # two beside those of the context
    return Shape([mixer] * n, [mlp] * n, _all_biases(mixer, mlp, d) + positions, tied_embeddings=True)


def _gpt_neox(f: Fields) -> Shape:
    """GPT-NeoX and Pythia: an MLP of two matrices beside the attention, biases everywhere."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer, mlp = grouped_heads(f, kv_defaults_to_all=True), dense_mlp(f, n_matrices=2)
    f.ignore("use_parallel_residual", "attention_bias")
    return Shape([mixer] * n, [mlp] * n, _all_biases(mixer, mlp, d))


def _nemotron(f: Fields) -> Shape:
    """Nemotron 3 and 4: squared ReLU, an MLP of two matrices, norms with biases."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer, mlp = grouped_heads(f, kv_defaults_to_all=True), dense_mlp(f, n_matrices=2)
    biases = projection_biases(mixer, d, output=True) if f.flag("attention_bias") else 0
    return Shape([mixer] * n, [mlp] * n, 4 * d + biases + (mlp.width + d if f.flag("mlp_bias") else 0))


def _gemma1(f: Fields) -> Shape:
    """Gemma: heads wider than their share, tied embeddings."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = grouped_heads(f)
    return Shape([mixer] * n, [dense_mlp(f)] * n, 2 * d, tied_embeddings=True)


def _cohere(f: Fields) -> Shape:
    """Command R: one norm before attention and MLP side by side, tied embeddings."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = grouped_heads(f, kv_defaults_to_all=True)
    heads = (mixer.n_query_heads + mixer.n_kv_heads) * mixer.qk_head_dim if f.flag("use_qk_norm") else 0
    biases = projection_biases(mixer, d, output=True) if f.flag("attention_bias") else 0
    return Shape([mixer] * n, [dense_mlp(f)] * n, d + heads + biases, tied_embeddings=True)


def _internlm(f: Fields) -> Shape:
    """InternLM 1 to 3, and Seed-OSS: biases of attention where they are switched on."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = grouped_heads(f, kv_defaults_to_all=True)
    f.ignore("rotary")
    output = f.flag("bias") or (f.flag("attention_bias") and f.flag("attention_out_bias", default=True))
    has_biases = output or f.flag("attention_bias") or f.flag("qkv_bias")
    biases = projection_biases(mixer, d, output=output) if has_biases else 0
    return Shape([mixer] * n, [dense_mlp(f)] * n, 2 * d + biases)


def _glm4(f: Fields) -> Shape:
    """GLM-4, dense: norms before and after each part, biases on queries, keys and values."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = grouped_heads(f)
    biases = projection_biases(mixer, d, output=False) if f.flag("attention_bias") else 0
    return Shape([mixer] * n, [dense_mlp(f)] * n, 4 * d + biases)


def _experts_in_every_layer(f: Fields) -> Shape:
    """DBRX, Granite 3 MoE, Phi-3.5 MoE and OLMoE: experts as wide as the MLP they replace."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = grouped_heads(f)
    family = f.text("model_type")
    norms = {"phimoe": 4 * d, "olmoe": 2 * d + (mixer.n_query_heads + mixer.n_kv_heads) * mixer.qk_head_dim}
    biases = projection_biases(mixer, d, output=True) if f.flag("attention_bias") else 0
    f.ignore(
        "clip_qkv", "ffn_act_fn", "lm_head_bias", "moe_jitter_eps", "moe_loss_weight", "moe_normalize_expert_weights",
        "sliding_window", "uniform_expert_assignment", "input_jitter_noise",
    )  # fmt: skip
    moe = routed_experts(f, f.integer("intermediate_size"))
    return Shape([mixer] * n, [moe] * n, norms.get(family, 2 * d) + biases)


def _ernie_moe(f: Fields) -> Shape:
    """ERNIE 4.5: experts from one layer on, shared ones of the same width."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = grouped_heads(f)
    width = f.integer("moe_intermediate_size")
    moe = with_shared(f, routed_experts(f, width), ("num_shared_experts",), width)
    moe = replace(moe, extra_params=moe.n_experts)
    first, last = (
        f.integer("moe_layer_start_index", minimum=0),
        f.integer("moe_layer_end_index", default=n - 1, minimum=0),
    )
    every = f.integer("moe_layer_interval", default=1)
    routed = [first <= i <= last and (i + 1) % every == 0 for i in range(n)]
    f.ignore("moe_capacity", "moe_gate", "moe_use_aux_free", "use_bias")
    return Shape([mixer] * n, pick(routed, moe, dense_mlp(f)), 2 * d)


def _hunyuan(f: Fields) -> Shape:
    """Hunyuan-Large: each second layer reads the cache of the one before, one shared expert."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = grouped_heads(f)
    share = f.integer("cla_share_factor", default=1) if f.flag("use_cla") else 1
    mixers = [replace(mixer, shares_kv=i % share != 0) for i in range(n)]
    width = f.integer("intermediate_size")
    shared = ("num_shared_experts",) if f.flag("use_mixed_mlp_moe") else ()
    moe = with_shared(f, routed_experts(f, width), shared, width)
    f.ignore("capacity_factor", "moe_drop_tokens", "moe_random_routing_dropped_token")
    norms = 2 * d + (2 * mixer.qk_head_dim if f.flag("use_qk_norm") else 0)
    return Shape(mixers, [moe] * n, norms, tied_embeddings=True)


def _bailing(f: Fields) -> Shape:
    """Ling and Ring up to 2.0: first layers dense, then routed and shared experts."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = grouped_heads(f)
    for name in ("use_bias", "use_qkv_bias"):
        if f.flag(name):
            raise f.error(name, "true is not understood")
    width = f.integer("moe_intermediate_size")
    if f.integer("moe_shared_expert_intermediate_size", default=width) != width:
        raise f.error(
            "moe_shared_expert_intermediate_size", f"another width than moe_intermediate_size {width} is not understood"
        )
    f.ignore(
        "norm_head",
        "norm_softmax",
        "moe_router_enable_expert_bias",
        "score_function",
        "router_dtype",
        "use_rmsnorm",
        "max_window_layers",
    )
    norms = 2 * d + (2 * mixer.qk_head_dim if f.flag("use_qk_norm") else 0)
    return Shape([mixer] * n, experts_after_dense(f, n), norms)


#: Model type -> reader.
READERS: dict[str, Callable[[Fields], Shape]] = {
    "bailing_moe": _bailing,
    "bailing_moe_v2": _bailing,
    "bloom": _bloom,
    "cohere": _cohere,
    "dbrx": _experts_in_every_layer,
    "ernie4_5_moe": _ernie_moe,
    "gemma": _gemma1,
    "glm4": _glm4,
    "gpt_neox": _gpt_neox,
    "granitemoe": _experts_in_every_layer,
    "hunyuan": _hunyuan,
    "internlm": _internlm,
    "internlm2": _internlm,
    "internlm3": _internlm,
    "nemotron": _nemotron,
    "olmoe": _experts_in_every_layer,
    "opt": _opt,
    "phimoe": _experts_in_every_layer,
    "seed_oss": _internlm,
}
