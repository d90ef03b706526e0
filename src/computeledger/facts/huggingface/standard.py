"""Families of plain attention: dense, or experts of one kind in every layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from computeledger.facts.architecture import Attention, FeedForward
from computeledger.facts.huggingface.experts import (
    expert_layers,
    experts_after_dense,
    experts_in_steps,
    pick,
    routed_experts,
    with_shared,
)
from computeledger.facts.huggingface.fields import Fields
from computeledger.facts.huggingface.parts import (
    Shape,
    dense_mlp,
    grouped_heads,
    layer_count,
    projection_biases,
    windowed,
    within,
)


def _every_layer(_layer: int) -> bool:
    return True


def _llama(f: Fields) -> Shape:
    """Llama 2 and 3, and what keeps to their shape."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer, mlp = grouped_heads(f, kv_defaults_to_all=True), dense_mlp(f)
    biases = projection_biases(mixer, d, output=True) if f.flag("attention_bias") else 0
    biases += 2 * mlp.width + d if f.flag("mlp_bias") else 0
    return Shape([mixer] * n, [mlp] * n, 2 * d + biases)


def _mistral(f: Fields) -> Shape:
    """Mistral: every layer slides where a window is set."""
    n, d = layer_count(f), f.integer("hidden_size")
    return Shape(windowed(f, grouped_heads(f), n, _every_layer), [dense_mlp(f)] * n, 2 * d)


def _mixtral(f: Fields) -> Shape:
    """Mixtral: experts as wide as the dense MLP they replace."""
    n, d = layer_count(f), f.integer("hidden_size")
    moe = routed_experts(f, f.integer("intermediate_size"))
    return Shape(windowed(f, grouped_heads(f), n, _every_layer), [moe] * n, 2 * d)


def _phi3(f: Fields) -> Shape:
    """Phi-3 and Phi-4."""
    n, d = layer_count(f), f.integer("hidden_size")
    f.ignore("lm_head_bias")
    mixers = windowed(f, grouped_heads(f, kv_defaults_to_all=True), n, _every_layer)
    return Shape(mixers, [dense_mlp(f)] * n, 2 * d)


def _olmo2(f: Fields) -> Shape:
    """OLMo 2 and 3: norms over all queries and all keys."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = grouped_heads(f, kv_defaults_to_all=True)
    norms = 2 * d + (mixer.n_query_heads + mixer.n_kv_heads) * mixer.qk_head_dim
    return Shape(windowed(f, mixer, n, lambda i: (i + 1) % 4 != 0), [dense_mlp(f)] * n, norms)


def _qwen_mixers(f: Fields, mixer: Attention, n_layers: int) -> list[Attention]:
    """The upper layers slide, where sliding is switched on at all."""
    first = f.integer("max_window_layers", default=0, minimum=0)
    if f.flag("use_sliding_window") or f.has("layer_types"):
        return windowed(f, mixer, n_layers, lambda i: i >= first)
    f.ignore("sliding_window")
    return [mixer] * n_layers


def _qwen2(f: Fields) -> Shape:
    """Qwen 2 and 2.5, and MiMo-7B: biases on queries, keys and values."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = grouped_heads(f)
    f.ignore("attention_bias")
    return Shape(_qwen_mixers(f, mixer, n), [dense_mlp(f)] * n, 2 * d + projection_biases(mixer, d, output=False))


def _qwen3(f: Fields) -> Shape:
    """Qwen 3, dense or experts, and the language part of Qwen3-VL: a norm per head on queries and keys."""
    n, d = layer_count(f), f.integer("hidden_size")
    f.integer("head_dim")
    mixer = grouped_heads(f)
    biases = projection_biases(mixer, d, output=True) if f.flag("attention_bias") else 0
    f.ignore("use_qk_norm")
    parts = experts_in_steps(f, n) if f.has("num_experts") else [dense_mlp(f)] * n
    return Shape(_qwen_mixers(f, mixer, n), parts, 2 * d + 2 * mixer.qk_head_dim + biases)


def _falcon(f: Fields) -> Shape:
    """Falcon: a plain MLP of two matrices beside the attention."""
    n, d = layer_count(f), f.integer("hidden_size")
    heads = f.integer("num_attention_heads")
    grouped = f.flag("new_decoder_architecture")
    f.ignore("parallel_attn", "num_ln_in_parallel_attn", "apply_residual_connection_post_layernorm")
    one = f.flag("multi_query", default=True) and not grouped
    k = f.integer("num_kv_heads", "num_key_value_heads", default=1 if one else heads)
    k = k if grouped else (1 if one else heads)
    if heads % k:
        raise f.error("num_kv_heads", f"{k} does not divide num_attention_heads {heads}")
    size = f.integer("head_dim", default=d // heads if d % heads == 0 else None)
    mlp = FeedForward(width=f.integer("ffn_hidden_size", "intermediate_size", default=4 * d), n_matrices=2)
    mixer = Attention("gqa", heads, k, size, size)
    biases = projection_biases(mixer, d, output=True) + mlp.width + d if f.flag("bias") else 0
    return Shape([mixer] * n, [mlp] * n, (4 if grouped else 2) * d + biases, tied_embeddings=True)


def _gemma(f: Fields) -> Shape:
    """Gemma 2 and 3: norms before and after each part; sliding layers between full ones.

    Gemma 3's checkpoints leave out what the defaults of its configuration class in transformers say.
    """
    n, d = layer_count(f), f.integer("hidden_size")
    third = f.text("model_type", "gemma3_text") != "gemma2"
    every = f.integer("sliding_window_pattern", "_sliding_window_pattern", default=6 if third else 2)
    heads = f.integer("num_attention_heads", default=8 if third else None)
    k = f.integer("num_key_value_heads", default=4 if third else None)
    size = f.integer("head_dim", default=256 if third else None)
    if heads % k:
        raise f.error("num_key_value_heads", f"{k} does not divide num_attention_heads {heads}")
    mixer = Attention("gqa", heads, k, size, size)
    biases = projection_biases(mixer, d, output=True) if f.flag("attention_bias") else 0
    norms = 4 * d + (2 * size if third else 0)
    mixers = windowed(f, mixer, n, lambda i: (i + 1) % every != 0)
    return Shape(mixers, [dense_mlp(f)] * n, norms + biases, True, default_vocab_size=262_208 if third else None)


def _gpt_oss(f: Fields) -> Shape:
    """gpt-oss: sliding and full layers in turn, sinks, biases on everything, the experts too."""
    n, d = layer_count(f), f.integer("hidden_size")
    f.integer("head_dim")
    mixer = grouped_heads(f)
    moe = routed_experts(f, f.integer("intermediate_size"))
    biases = projection_biases(mixer, d, output=True) if f.flag("attention_bias", default=True) else 0
    biases += mixer.n_query_heads + moe.n_experts * (1 + 2 * moe.expert_width + d)
    return Shape(windowed(f, mixer, n, lambda i: i % 2 == 0), [moe] * n, 2 * d + biases)


def _glm4_moe(f: Fields) -> Shape:
    """GLM-4.5 to 4.7: first layers dense, then routed and shared experts."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = grouped_heads(f)
    norms = 2 * d + (2 * mixer.qk_head_dim if f.flag("use_qk_norm") else 0)
    biases = projection_biases(mixer, d, output=False) if f.flag("attention_bias") else 0
    return Shape([mixer] * n, experts_after_dense(f, n), norms + biases)


def _minimax_m2(f: Fields) -> Shape:
    """MiniMax-M2: experts in every layer, norms over all queries and all keys."""
    n, d = layer_count(f), f.integer("hidden_size")
    f.integer("head_dim")
    mixer = grouped_heads(f)
    if f.has("attn_type_list") and 0 in f.integers("attn_type_list", n):
        raise f.error("attn_type_list", "0 (lightning) is not understood in a minimax_m2 configuration")
    moe = routed_experts(f, f.integer("intermediate_size"))
    moe = replace(moe, extra_params=moe.n_experts)
    shared = f.integer("shared_intermediate_size", default=0, minimum=0)
    if shared:
        moe = replace(moe, n_shared_experts=1, shared_width=shared)
    norms = (mixer.n_query_heads + mixer.n_kv_heads) * mixer.qk_head_dim if f.flag("use_qk_norm") else 0
    f.ignore("qk_norm_type")
    return Shape([mixer] * n, [moe] * n, 2 * d + norms)


def _minimax_m3(f: Fields) -> Shape:
    """MiniMax-M3: an indexer chooses blocks of keys in all but the first layers."""
    n, d = layer_count(f), f.integer("hidden_size")
    f.integer("head_dim")
    mixer = replace(grouped_heads(f), gated=f.flag("attention_output_gate"))
    width = f.integer("moe_intermediate_size", default=f.integer("intermediate_size"))
    shared = f.integer("shared_intermediate_size", default=width)
    moe = with_shared(f, routed_experts(f, width), ("n_shared_experts",), shared)
    moe = replace(moe, extra_params=moe.n_experts)
    routed = expert_layers(f, n)
    parts = [moe] * n if all(routed) else pick(routed, moe, dense_mlp(f, "dense_intermediate_size"))
    norms = 2 * d + (2 * mixer.qk_head_dim if f.flag("use_qk_norm") else 0)
    f.ignore("qk_norm_type")
    return Shape(_block_sparse(f, mixer, n), parts, norms)


def _block_sparse(f: Fields, mixer: Attention, n_layers: int) -> list[Attention]:
    sparse = f.table("sparse_attention_config")
    if sparse is None or not sparse.flag("use_sparse_attention", default=True):
        return [mixer] * n_layers
    block = sparse.integer("sparse_block_size")
    dim = sparse.integer("sparse_index_dim")
    chosen = replace(
        mixer,
        sparse_tokens=sparse.integer("sparse_topk_blocks") * block,
        index_heads=sparse.integer("sparse_num_index_heads"),
        index_head_dim=dim,
        index_key_bytes=2.0 * dim,
    )
    sparse.ignore("sparse_disable_index_value", "sparse_init_block", "sparse_local_block", "sparse_score_type")
    where = sparse.integers("sparse_attention_freq", n_layers)
    return [chosen if is_sparse else mixer for is_sparse in where]


def _mimo_v2(f: Fields) -> Shape:
    """MiMo-V2: sliding layers with more key heads than the full ones, values narrower than keys."""
    n, d = layer_count(f), f.integer("hidden_size")
    full = replace(grouped_heads(f), v_head_dim=f.integer("v_head_dim"))
    window = f.integer("sliding_window", "sliding_window_size", "attention_chunk_size")
    near = Attention(
        "gqa",
        f.integer("swa_num_attention_heads", default=full.n_query_heads),
        f.integer("swa_num_key_value_heads", default=full.n_kv_heads),
        f.integer("swa_head_dim", default=full.qk_head_dim),
        f.integer("swa_v_head_dim", default=full.v_head_dim),
        window=within(f, window),
    )
    if near.n_query_heads % near.n_kv_heads:
        raise f.error("swa_num_key_value_heads", f"{near.n_kv_heads} does not divide {near.n_query_heads} query heads")
    sinks = [f.flag("add_swa_attention_sink_bias"), f.flag("add_full_attention_sink_bias")]
    biases = projection_biases(full, d, output=False) if f.flag("attention_bias") else 0
    mixers = [near if slide else full for slide in f.integers("hybrid_layer_pattern", n)]
    return Shape(mixers, experts_after_dense(f, n), 2 * d + biases + (full.n_query_heads if any(sinks) else 0))


def _step(f: Fields) -> Shape:
    """Step-3.7: sliding and full layers, first layers dense, one shared expert."""
    n, d = layer_count(f), f.integer("hidden_size")
    f.integer("head_dim")
    mixers = windowed(f, grouped_heads(f), n, lambda i: i % 4 != 0)
    width = f.integer("moe_intermediate_size")
    moe = with_shared(f, routed_experts(f, width), ("n_shared_experts",), f.integer("share_expert_dim", default=width))
    moe = replace(moe, extra_params=moe.n_experts)
    return Shape(mixers, pick(expert_layers(f, n), moe, dense_mlp(f)), 2 * d)


def _llama4(f: Fields) -> Shape:
    """Llama 4: three chunked layers to a full one; experts in every or every other layer, one shared."""
    n, d = layer_count(f), f.integer("hidden_size")
    mixer = grouped_heads(f)
    chunk = within(f, f.integer("attention_chunk_size", default=8192))
    near = replace(mixer, window=chunk, chunked=True)
    if f.has("layer_types"):
        kinds = f.choices("layer_types", {"chunked_attention": 1, "full_attention": 0}, n)
        chunked = [kind == "chunked_attention" for kind in kinds]
    elif f.has("no_rope_layers"):
        chunked = [bool(rotary) for rotary in f.integers("no_rope_layers", n)]
    else:
        every = f.integer("no_rope_layer_interval", default=4)
        chunked = [(i + 1) % every != 0 for i in range(n)]
    f.ignore("use_qk_norm", "for_llm_compressor", "moe_layers")
    width = f.integer("intermediate_size")
    moe = replace(routed_experts(f, width), n_shared_experts=1, shared_width=width)
    step = f.integer("interleave_moe_layer_step", default=1)
    routed = [(i + 1) % step == 0 for i in range(n)]
    parts = pick(routed, moe, dense_mlp(f, "intermediate_size_mlp"))
    biases = projection_biases(mixer, d, output=True) if f.flag("attention_bias") else 0
    return Shape([near if is_chunked else mixer for is_chunked in chunked], parts, 2 * d + biases)


#: Model type -> reader.
READERS: dict[str, Callable[[Fields], Shape]] = {
    "falcon": _falcon,
    "gemma2": _gemma,
    "gemma3_text": _gemma,
    "glm4_moe": _glm4_moe,
    "gpt_oss": _gpt_oss,
    "granite": _llama,
    "llama": _llama,
    "ministral3": _mistral,
    "smollm3": _llama,
    "solar_open": _glm4_moe,
    "llama4_text": _llama4,
    "mimo": _qwen2,
    "mimo_v2_flash": _mimo_v2,
    "minimax_m2": _minimax_m2,
    "minimax_m3": _minimax_m3,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "olmo2": _olmo2,
    "olmo3": _olmo2,
    "phi3": _phi3,
    "qwen2": _qwen2,
    "qwen2_5_vl_text": _qwen2,
    "qwen2_vl_text": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3,
    "qwen3_vl_moe_text": _qwen3,
    "qwen3_vl_text": _qwen3,
    "step3p7": _step,
}
