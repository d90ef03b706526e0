"""What a transformer stores, multiplies and remembers: counts of parameters, cache bytes and FLOP.

Pure functions over :class:`~computeledger.facts.architecture.Model` and its parts. Token counts and bytes per value may
be arrays. A multiply-add is 2 FLOP; norms, activations and softmax are not counted, as is the field's custom.
"""

from __future__ import annotations

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Attention, FeedForward, Model
from computeledger.physics.attention import (
    LINEAR_KINDS,
    attention_flop_per_query,
    convolution_channels,
    indexer_flop_per_query,
    kv_bytes_per_token_layer,
    kv_cache_bytes,
    kv_read_bytes,
    mean_visible_tokens,
    state_bytes,
    visible_tokens,
)

__all__ = [
    "LINEAR_KINDS",
    "always_active_params",
    "attention_flop_per_query",
    "attention_params",
    "expert_params",
    "feed_forward_active_params",
    "feed_forward_params",
    "forward_flop_per_token",
    "indexer_flop_per_query",
    "kv_bytes_per_sequence",
    "kv_bytes_per_token",
    "kv_bytes_per_token_layer",
    "kv_cache_bytes",
    "kv_read_bytes",
    "mean_visible_tokens",
    "n_params_active",
    "n_params_active_with_embeddings",
    "n_params_total",
    "state_bytes_per_sequence",
    "training_flop_per_token",
    "visible_tokens",
]


def attention_params(attention: Attention, hidden_size: int) -> int:
    """Parameters of a mixer's projections, each multiplied once per token.

    ``gqa``: ``D N qk + D K (qk + v) + N v D``. ``mla``: the low-rank chains of queries and of keys and values, not
    absorbed. Linear kinds: every input projection, the short convolution, gates, and the output. The indexer and an
    output gate are in; norms and biases are out.

    Parameters
    ----------
    attention : Attention
        The mixer.
    hidden_size : int
        ``D`` [-].

    Returns
    -------
    int
        Parameters of one layer [-].

    Examples
    --------
    >>> attention_params(Attention("gqa", 64, 8, 128, 128), 8192)
    150994944
    """
    if attention.kind == "none":
        return attention.extra_params
    if attention.kind in LINEAR_KINDS:
        return _linear_params(attention, hidden_size) + attention.extra_params
    n, width = attention.n_query_heads, attention.v_head_dim
    gate = hidden_size * n * width if attention.gated else 0
    output = attention.output_params or n * width * hidden_size
    return (
        _query_params(attention, hidden_size)
        + _key_value_params(attention, hidden_size)
        + gate
        + output
        + _indexer_params(attention, hidden_size)
        + attention.extra_params
    )


def _query_params(attention: Attention, hidden_size: int) -> int:
    width = attention.n_query_heads * attention.qk_head_dim
    rank = attention.q_lora_rank
    return rank * (hidden_size + width) if rank else hidden_size * width


def _key_value_params(attention: Attention, hidden_size: int) -> int:
    if attention.shares_kv:
        return 0
    if attention.kind == "mla":
        rank, rope = attention.kv_lora_rank, attention.rope_head_dim
        heads = attention.n_query_heads * (attention.qk_head_dim - rope + attention.v_head_dim)
        return hidden_size * (rank + rope) + rank * heads
    width = attention.qk_head_dim + (0 if attention.one_kv_projection else attention.v_head_dim)
    return hidden_size * attention.n_kv_heads * width


def _indexer_params(attention: Attention, hidden_size: int) -> int:
    """Queries from the query latent where there is one, and keys shared by all heads."""
    heads, dim = attention.index_heads, attention.index_head_dim
    return (attention.q_lora_rank or hidden_size) * heads * dim + (hidden_size * dim if heads else 0)


def _linear_params(attention: Attention, hidden_size: int) -> int:
    n, size = attention.n_query_heads, attention.v_head_dim
    values = n * size
    gate = hidden_size * values if attention.gated else 0
    per_head = {"gated_delta": 2 * n, "kda": n, "mamba2": n, "lightning": 0}[attention.kind] * hidden_size
    decay = attention.qk_head_dim * (hidden_size + n * attention.qk_head_dim) if attention.kind == "kda" else 0
    channels = convolution_channels(attention)
    return channels * (hidden_size + attention.conv_width) + gate + per_head + decay + values * hidden_size


def expert_params(feed_forward: FeedForward, hidden_size: int) -> int:
    """Parameters of one routed expert.

    Parameters
    ----------
    feed_forward : FeedForward
        The feed-forward part.
    hidden_size : int
        ``D`` [-].

    Returns
    -------
    int
        ``n_matrices F D``, with the latent width in place of ``D`` where there is one [-].

    Examples
    --------
    >>> expert_params(FeedForward(n_experts=256, n_experts_active=8, expert_width=2048), 7168)
    44040192
    """
    return feed_forward.n_matrices * feed_forward.expert_width * (feed_forward.latent_width or hidden_size)


def always_active_params(feed_forward: FeedForward, hidden_size: int) -> int:
    """Parameters of a feed-forward part that every token meets.

    Parameters
    ----------
    feed_forward : FeedForward
        The feed-forward part.
    hidden_size : int
        ``D`` [-].

    Returns
    -------
    int
        Dense MLP, router, shared experts, projections to and from the experts' latent width [-].

    Examples
    --------
    >>> always_active_params(FeedForward(width=28672), 8192)
    704643072
    """
    part = feed_forward
    dense = part.n_matrices * hidden_size * (part.width + part.n_shared_experts * part.shared_width)
    return dense + hidden_size * (part.n_experts + 2 * part.latent_width) + part.extra_params


def feed_forward_params(feed_forward: FeedForward, hidden_size: int) -> int:
    """Parameters that a feed-forward part stores.

    Parameters
    ----------
    feed_forward : FeedForward
        The feed-forward part.
    hidden_size : int
        ``D`` [-].

    Returns
    -------
    int
        All experts, router and shared parts included [-].

    Examples
    --------
    >>> feed_forward_params(FeedForward(n_experts=8, n_experts_active=2, expert_width=14336), 4096)
    1409318912
    """
    one = expert_params(feed_forward, hidden_size)
    return always_active_params(feed_forward, hidden_size) + feed_forward.n_experts * one


def feed_forward_active_params(feed_forward: FeedForward, hidden_size: int) -> int:
    """Parameters of a feed-forward part that one token is multiplied with.

    Parameters
    ----------
    feed_forward : FeedForward
        The feed-forward part.
    hidden_size : int
        ``D`` [-].

    Returns
    -------
    int
        The experts a token visits, router and shared parts included [-].

    Examples
    --------
    >>> feed_forward_active_params(FeedForward(n_experts=8, n_experts_active=2, expert_width=14336), 4096)
    352354304
    """
    one = expert_params(feed_forward, hidden_size)
    return always_active_params(feed_forward, hidden_size) + feed_forward.n_experts_active * one


def n_params_total(model: Model) -> int:
    """Parameters that a language model stores.

    Embedding, output head unless tied, mixers, feed-forward parts, norms and biases. Multi-token-prediction modules and
    the vision encoder are out, as in the names that models go by.

    Parameters
    ----------
    model : Model
        The model.

    Returns
    -------
    int
        Stored parameters [-].

    Examples
    --------
    >>> from computeledger.facts.architecture import LayerGroup
    >>> layers = (LayerGroup(32, Attention("gqa", 32, 8, 128, 128), FeedForward(width=14336)),)
    >>> n_params_total(Model("llama-3.1-8b", 4096, 128256, layers, norm_params_per_layer=8192))
    8030261248
    """
    d = model.hidden_size
    tables = model.vocab_size * d * (1 if model.tied_embeddings else 2)
    layers = sum(
        group.count * (attention_params(group.attention, d) + feed_forward_params(group.feed_forward, d))
        for group in model.layers
    )
    return tables + layers + model.n_layers * model.norm_params_per_layer + d


def n_params_active(model: Model) -> int:
    """Parameters that one token is multiplied with.

    The output head is in, tied or not; the input embedding is a look-up and out; norms and biases are out.

    Parameters
    ----------
    model : Model
        The model.

    Returns
    -------
    int
        ``N`` of ``2 N`` FLOP per token [-].

    Examples
    --------
    >>> from computeledger.facts.architecture import LayerGroup
    >>> layers = (LayerGroup(32, Attention("gqa", 32, 8, 128, 128), FeedForward(width=14336)),)
    >>> n_params_active(Model("llama-3.1-8b", 4096, 128256, layers))
    7504658432
    """
    d = model.hidden_size
    layers = sum(
        group.count * (attention_params(group.attention, d) + feed_forward_active_params(group.feed_forward, d))
        for group in model.layers
    )
    return layers + model.vocab_size * d


def n_params_active_with_embeddings(model: Model) -> int:
    """Active parameters as some publishers count them: the input embedding as well.

    Parameters
    ----------
    model : Model
        The model.

    Returns
    -------
    int
        ``n_params_active`` and the input embedding; a tied one is counted once [-].

    Examples
    --------
    >>> from computeledger.facts.architecture import LayerGroup
    >>> layers = (LayerGroup(32, Attention("gqa", 32, 8, 128, 128), FeedForward(width=14336)),)
    >>> n_params_active_with_embeddings(Model("llama-3.1-8b", 4096, 128256, layers))
    8029995008
    """
    return n_params_active(model) + (0 if model.tied_embeddings else model.vocab_size * model.hidden_size)


def kv_bytes_per_token(model: Model, kv_bytes_per_value: Num) -> Num:
    """Cache bytes that one more token adds, over all layers.

    Sliding and chunked layers count, as they do while the context is inside their window; linear layers and layers
    that share another's cache add 0. Indexer keys are in. For a context beyond the window use
    :func:`kv_bytes_per_sequence`.

    Parameters
    ----------
    model : Model
        The model.
    kv_bytes_per_value : float or ndarray
        Bytes of one cached value [byte].

    Returns
    -------
    float or ndarray
        Cache that a token adds [byte/token].

    Examples
    --------
    >>> from computeledger.facts.architecture import LayerGroup
    >>> layers = (LayerGroup(126, Attention("gqa", 128, 8, 128, 128), FeedForward(width=53248)),)
    >>> float(kv_bytes_per_token(Model("llama-3.1-405b", 16384, 128256, layers), 2.0))
    516096.0
    """
    one: Num = 0.0
    for group in model.layers:
        one = one + group.count * kv_bytes_per_token_layer(group.attention, kv_bytes_per_value)
    return one


def kv_bytes_per_sequence(model: Model, context_tokens: Num, kv_bytes_per_value: Num) -> Num:
    """Bytes that all layers keep of one sequence.

    Windows are clipped, compressed caches counted compressed; indexer keys and the states of linear layers are in.

    Parameters
    ----------
    model : Model
        The model.
    context_tokens : float or ndarray
        Tokens of the sequence [token].
    kv_bytes_per_value : float or ndarray
        Bytes of one cached value [byte].

    Returns
    -------
    float or ndarray
        Bytes per sequence [byte].

    Examples
    --------
    >>> from computeledger.facts.architecture import LayerGroup
    >>> layers = (LayerGroup(126, Attention("gqa", 128, 8, 128, 128), FeedForward(width=53248)),)
    >>> float(kv_bytes_per_sequence(Model("llama-3.1-405b", 16384, 128256, layers), 1000.0, 2.0))
    516096000.0
    """
    kept: Num = 0.0
    for group in model.layers:
        kept = kept + group.count * kv_cache_bytes(group.attention, context_tokens, kv_bytes_per_value)
    return kept


def state_bytes_per_sequence(model: Model) -> float:
    """Bytes of the linear layers' states of one sequence, whatever its length.

    Parameters
    ----------
    model : Model
        The model.

    Returns
    -------
    float
        States and convolution windows of all layers [byte].

    Examples
    --------
    >>> from computeledger.facts.architecture import LayerGroup
    >>> layers = (LayerGroup(36, Attention("gated_delta", 32, 16, 128, 128, conv_width=4), FeedForward(width=512)),)
    >>> state_bytes_per_sequence(Model("qwen3-next", 2048, 151936, layers))
    77266944.0
    """
    return sum(group.count * state_bytes(group.attention) for group in model.layers)


def attention_flop_per_cached_token(model: Model) -> float:
    """Work of attention that each cached token adds to a decoded one, latent attention absorbed.

    Parameters
    ----------
    model : Model
        The model.

    Returns
    -------
    float
        Scores and values of all layers that keep a cache; an upper bound where a window or an indexer limits what is
        seen [FLOP/token].

    Examples
    --------
    >>> from computeledger.facts.architecture import LayerGroup
    >>> latent = Attention("mla", 128, 128, 192, 128, kv_lora_rank=512, rope_head_dim=64)
    >>> layers = (LayerGroup(61, latent, FeedForward(width=18432)),)
    >>> attention_flop_per_cached_token(Model("deepseek-v3", 7168, 129280, layers)) / 1e6
    16.990208
    """
    return float(
        sum(
            group.count * attention_flop_per_query(group.attention, 1.0, absorbed=True)
            for group in model.layers
            if kv_bytes_per_token_layer(group.attention, 1.0)
        )
    )


def forward_flop_per_token(model: Model, context_tokens: Num) -> Num:
    """FLOP of the forward pass for one token at the end of a context.

    ``2 N_active`` and each layer's scores and values over what it sees, latent attention not absorbed.

    Parameters
    ----------
    model : Model
        The model.
    context_tokens : float or ndarray
        Tokens that the query can look back on, its own included [token].

    Returns
    -------
    float or ndarray
        Work of one token [FLOP/token].

    Examples
    --------
    >>> from computeledger.facts.architecture import LayerGroup
    >>> layers = (LayerGroup(32, Attention("gqa", 32, 8, 128, 128), FeedForward(width=14336)),)
    >>> float(forward_flop_per_token(Model("llama-3.1-8b", 4096, 128256, layers), 0.0))
    15009316864.0
    """
    flop: Num = 2.0 * n_params_active(model)
    for group in model.layers:
        visible = visible_tokens(group.attention, context_tokens)
        one = attention_flop_per_query(group.attention, visible, absorbed=False)
        flop = flop + group.count * (one + indexer_flop_per_query(group.attention, context_tokens))
    return flop


def training_flop_per_token(model: Model, sequence_tokens: Num) -> Num:
    """FLOP of one training token, forward and backward, averaged over a causal sequence.

    ``3 (2 N_active + attention over the mean visible tokens)``; nothing is recomputed.

    Parameters
    ----------
    model : Model
        The model.
    sequence_tokens : float or ndarray
        Length of a training sequence [token].

    Returns
    -------
    float or ndarray
        Model work of one token [FLOP/token].

    Examples
    --------
    >>> from computeledger.facts.architecture import LayerGroup
    >>> layers = (LayerGroup(80, Attention("gqa", 64, 8, 128, 128), FeedForward(width=28672)),)
    >>> round(float(training_flop_per_token(Model("llama-3.1-70b", 8192, 128256, layers), 8192.0)) / 1e9, 1)
    449.2
    """
    flop: Num = 2.0 * n_params_active(model)
    for group in model.layers:
        visible = mean_visible_tokens(group.attention, sequence_tokens)
        one = attention_flop_per_query(group.attention, visible, absorbed=False)
        scored = (np.asarray(sequence_tokens, float) + 1) / 2
        flop = flop + group.count * (one + indexer_flop_per_query(group.attention, scored))
    return 3.0 * flop
