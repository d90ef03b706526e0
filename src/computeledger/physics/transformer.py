"""What a transformer stores, multiplies and remembers: counts of parameters, cache bytes and FLOP.

Pure functions over :class:`~computeledger.facts.architecture.Model` and its parts. Token counts and bytes per value may
be arrays. A multiply-add is 2 FLOP; norms, activations and softmax are not counted, as is the field's custom.
"""

from __future__ import annotations

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import FeedForward, Model
from computeledger.physics.attention import mixer_of


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
    >>> from computeledger.facts.architecture import Attention, LayerGroup
    >>> layers = (LayerGroup(32, Attention("gqa", 32, 8, 128, 128), FeedForward(width=14336)),)
    >>> n_params_total(Model("llama-3.1-8b", 4096, 128256, layers, norm_params_per_layer=8192))
    8030261248
    """
    d = model.hidden_size
    tables = model.vocab_size * d * (1 if model.tied_embeddings else 2)
    layers = sum(
        group.count * (mixer_of(group.attention).params(d) + feed_forward_params(group.feed_forward, d))
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
    >>> from computeledger.facts.architecture import Attention, LayerGroup
    >>> layers = (LayerGroup(32, Attention("gqa", 32, 8, 128, 128), FeedForward(width=14336)),)
    >>> n_params_active(Model("llama-3.1-8b", 4096, 128256, layers))
    7504658432
    """
    d = model.hidden_size
    layers = sum(
        group.count * (mixer_of(group.attention).params(d) + feed_forward_active_params(group.feed_forward, d))
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
    >>> from computeledger.facts.architecture import Attention, LayerGroup
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
    >>> from computeledger.facts.architecture import Attention, LayerGroup
    >>> layers = (LayerGroup(126, Attention("gqa", 128, 8, 128, 128), FeedForward(width=53248)),)
    >>> float(kv_bytes_per_token(Model("llama-3.1-405b", 16384, 128256, layers), 2.0))
    516096.0
    """
    one: Num = 0.0
    for group in model.layers:
        one = one + group.count * mixer_of(group.attention).kv_bytes_per_token(kv_bytes_per_value)
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
    >>> from computeledger.facts.architecture import Attention, LayerGroup
    >>> layers = (LayerGroup(126, Attention("gqa", 128, 8, 128, 128), FeedForward(width=53248)),)
    >>> float(kv_bytes_per_sequence(Model("llama-3.1-405b", 16384, 128256, layers), 1000.0, 2.0))
    516096000.0
    """
    kept: Num = 0.0
    for group in model.layers:
        kept = kept + group.count * mixer_of(group.attention).kv_cache_bytes(context_tokens, kv_bytes_per_value)
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
    >>> from computeledger.facts.architecture import Attention, LayerGroup
    >>> layers = (LayerGroup(36, Attention("gated_delta", 32, 16, 128, 128, conv_width=4), FeedForward(width=512)),)
    >>> state_bytes_per_sequence(Model("qwen3-next", 2048, 151936, layers))
    77266944.0
    """
    return sum(group.count * mixer_of(group.attention).state_bytes for group in model.layers)


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
    >>> from computeledger.facts.architecture import Attention, LayerGroup
    >>> latent = Attention("mla", 128, 128, 192, 128, kv_lora_rank=512, rope_head_dim=64)
    >>> layers = (LayerGroup(61, latent, FeedForward(width=18432)),)
    >>> attention_flop_per_cached_token(Model("deepseek-v3", 7168, 129280, layers)) / 1e6
    16.990208
    """
    return float(
        sum(
            group.count * mixer.flop_per_query(1.0, absorbed=True)
            for group in model.layers
            if (mixer := mixer_of(group.attention)).kv_bytes_per_token(1.0)
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
    >>> from computeledger.facts.architecture import Attention, LayerGroup
    >>> layers = (LayerGroup(32, Attention("gqa", 32, 8, 128, 128), FeedForward(width=14336)),)
    >>> float(forward_flop_per_token(Model("llama-3.1-8b", 4096, 128256, layers), 0.0))
    15009316864.0
    """
    flop: Num = 2.0 * n_params_active(model)
    for group in model.layers:
        mixer = mixer_of(group.attention)
        one = mixer.flop_per_query(mixer.visible_tokens(context_tokens), absorbed=False)
        flop = flop + group.count * (one + mixer.indexer_flop_per_query(context_tokens))
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
    >>> from computeledger.facts.architecture import Attention, LayerGroup
    >>> layers = (LayerGroup(80, Attention("gqa", 64, 8, 128, 128), FeedForward(width=28672)),)
    >>> round(float(training_flop_per_token(Model("llama-3.1-70b", 8192, 128256, layers), 8192.0)) / 1e9, 1)
    449.2
    """
    flop: Num = 2.0 * n_params_active(model)
    for group in model.layers:
        mixer = mixer_of(group.attention)
        one = mixer.flop_per_query(mixer.mean_visible_tokens(sequence_tokens), absorbed=False)
        scored = (np.asarray(sequence_tokens, float) + 1) / 2
        flop = flop + group.count * (one + mixer.indexer_flop_per_query(scored))
    return 3.0 * flop
