"""Families of latent attention: DeepSeek from V2 to V4, Kimi, GLM-5."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from computeledger.facts.architecture import Attention, FeedForward
from computeledger.facts.huggingface.experts import experts_after_dense, routed_experts, with_shared
from computeledger.facts.huggingface.fields import Fields
from computeledger.facts.huggingface.parts import Shape, layer_count

#: Bytes of the scale that stands beside the 128 values of an indexer key in 8 bits.
INDEX_SCALE_BYTES = 4.0


def _latent_heads(f: Fields) -> Attention:
    """Multi-head latent attention."""
    n = f.integer("num_attention_heads")
    rope = f.integer("qk_rope_head_dim", minimum=0)
    nope = f.integer("qk_nope_head_dim")
    stated = f.optional_integer("qk_head_dim")
    if stated is not None and stated != nope + rope:
        raise f.error("qk_head_dim", f"{stated} is not qk_nope_head_dim + qk_rope_head_dim = {nope + rope}")
    f.ignore("num_key_value_heads", "head_dim")
    return Attention(
        "mla",
        n,
        n,
        nope + rope,
        f.integer("v_head_dim"),
        q_lora_rank=f.integer("q_lora_rank", default=0, minimum=0),
        kv_lora_rank=f.integer("kv_lora_rank"),
        rope_head_dim=rope,
    )


def _latent_norms(mixer: Attention, hidden: int) -> int:
    return 2 * hidden + mixer.q_lora_rank + mixer.kv_lora_rank


def _deepseek(f: Fields) -> Shape:
    """DeepSeek V2 and V3, Kimi K2."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = _latent_heads(f)
    if f.flag("attention_bias"):
        raise f.error("attention_bias", "true is not understood with latent attention")
    return Shape([mixer] * n, experts_after_dense(f, n), _latent_norms(mixer, d))


def _deepseek_sparse(f: Fields) -> Shape:
    """DeepSeek V3.2 and GLM-5: an indexer chooses what a query attends to; some layers reuse another's choice."""
    dense = _deepseek(f)
    n, d = len(dense.mixers), f.integer("hidden_size")
    heads, dim = f.integer("index_n_heads"), f.integer("index_head_dim")
    chooser = replace(
        dense.mixers[0],
        sparse_tokens=f.integer("index_topk"),
        index_heads=heads,
        index_head_dim=dim,
        index_key_bytes=dim + INDEX_SCALE_BYTES,
        extra_params=d * heads + 2 * dim,
    )
    reuser = replace(dense.mixers[0], sparse_tokens=chooser.sparse_tokens)
    if f.has("layer_types"):
        f.choices("layer_types", {"deepseek_sparse_attention": 1}, n)
    if not f.has("indexer_types"):
        every = f.integer("index_topk_freq", default=1)
        if every > 1:
            raise f.error("index_topk_freq", f"{every} needs indexer_types to say which layers choose")
        return replace(dense, mixers=[chooser] * n)
    f.ignore("index_topk_freq", "index_topk_pattern", "index_skip_topk_offset")
    kinds = f.choices("indexer_types", {"full": 1, "shared": 0}, n)
    return replace(dense, mixers=[chooser if kind == "full" else reuser for kind in kinds])


def _deepseek_v4(f: Fields) -> Shape:
    """DeepSeek V4: one key-value vector, a window beside a compressed cache, grouped output, hyper-connections."""
    n, d = layer_count(f), f.integer("hidden_size")
    if f.integer("num_key_value_heads") != 1:
        raise f.error("num_key_value_heads", "must be 1: keys and values are one vector")
    width = f.integer("moe_intermediate_size")
    moe = with_shared(f, routed_experts(f, width), ("n_shared_experts",), width)
    streams = f.integer("hc_mult", default=1)
    mix = (2 + streams) * streams * streams * d if streams > 1 else 0
    moe = replace(moe, extra_params=moe.n_experts + mix)
    f.ignore("num_hash_layers", "expert_dtype", "intermediate_size")
    by_ratio = {ratio: _compressed_mixer(f, ratio, mix) for ratio in sorted(set(f.integers("compress_ratios", n)))}
    mixers = [by_ratio[ratio] for ratio in f.integers("compress_ratios", n)]
    norms = 2 * d + f.integer("q_lora_rank") + f.integer("head_dim") + f.integer("num_attention_heads")
    return Shape(mixers, [moe] * n, norms, residual_streams=streams)


def _compressed_mixer(f: Fields, ratio: int, mix: int) -> Attention:
    """A layer that keeps a window (ratio 0), all compressed entries, or chooses among overlapping ones (ratio 4)."""
    d, n, size = f.integer("hidden_size"), f.integer("num_attention_heads"), f.integer("head_dim")
    rank, groups = f.integer("o_lora_rank"), f.integer("o_groups")
    rope = f.integer("qk_rope_head_dim", minimum=0)
    mixer = Attention(
        "compressed",
        n,
        1,
        size,
        size,
        q_lora_rank=f.integer("q_lora_rank"),
        rope_head_dim=rope,
        window=f.integer("sliding_window"),
        compression=ratio,
        one_kv_projection=True,
        one_kv_entry=True,
        output_params=rank * (n * size + groups * d),
        extra_params=mix,
    )
    if ratio == 0:
        return mixer
    if ratio > 4:
        return replace(mixer, extra_params=mix + (2 * d + ratio) * size)
    heads, dim = f.integer("index_n_heads"), f.integer("index_head_dim")
    # entries overlap, so values and gates are projected twice; the indexer compresses its own keys the same way
    compressors = (4 * d + 2 * ratio) * (size + dim) - d * dim
    return replace(
        mixer,
        sparse_tokens=f.integer("index_topk"),
        index_heads=heads,
        index_head_dim=dim,
        index_key_bytes=dim + INDEX_SCALE_BYTES,
        extra_params=mix + compressors + d * heads,
    )


def _kimi_linear(f: Fields) -> Shape:
    """Kimi Linear and K3: delta attention with latent attention in every fourth layer, experts in a latent width."""
    n, d = layer_count(f), f.integer("hidden_size")
    linear = f.table("linear_attn_config")
    if linear is None:
        raise f.missing("linear_attn_config")
    full = replace(_latent_heads(f), gated=f.flag("mla_use_output_gate"))
    delta = _delta_mixer(linear, d)
    latent = set(linear.integers("full_attn_layers"))
    if sorted([*latent, *linear.integers("kda_layers")]) != list(range(1, n + 1)):
        raise linear.error("kda_layers", f"with full_attn_layers must name each of the {n} layers once, from 1")
    parts = experts_after_dense(f, n)
    width = f.optional_integer("routed_expert_hidden_size")
    if width:
        parts = [_in_latent(part, width) for part in parts]
    residuals = 4 * d if f.optional_integer("attn_res_block_size") else 0
    mixers = [full if i + 1 in latent else delta for i in range(n)]
    return Shape(mixers, parts, _latent_norms(full, d) + residuals)


def _in_latent(part: FeedForward, width: int) -> FeedForward:
    return replace(part, latent_width=width, extra_params=part.extra_params + width) if part.n_experts else part


def _delta_mixer(linear: Fields, hidden: int) -> Attention:
    n, size = linear.integer("num_heads"), linear.integer("head_dim")
    full_rank = linear.flag("use_full_rank_gate")
    linear.ignore("gate_lower_bound")
    return Attention(
        "kda",
        n,
        n,
        size,
        size,
        conv_width=linear.integer("short_conv_kernel_size"),
        gated=full_rank,
        extra_params=n * size + 2 * size + (0 if full_rank else size * (hidden + n * size)),
    )


#: Model type -> reader.
READERS: dict[str, Callable[[Fields], Shape]] = {
    "deepseek_ref": _deepseek_v4,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "deepseek_v32": _deepseek_sparse,
    "deepseek_v4": _deepseek_v4,
    "glm4_moe_lite": _deepseek,
    "glm_moe_dsa": _deepseek_sparse,
    "kimi_k2": _deepseek,
    "kimi_linear": _kimi_linear,
}
