"""What one layer's token mixer sees, keeps and computes: visible tokens, cache bytes, FLOP per query.

Pure functions over :class:`~computeledger.facts.architecture.Attention`; token counts may be arrays. Positions are
counted from 1: the query at position ``S`` sees itself and the ``S - 1`` tokens before it. Entries of a compressed
cache are counted without rounding, so a curve over contexts has no steps.
"""

from __future__ import annotations

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Attention

#: Mixers whose memory is a state of fixed size instead of a cache that grows.
LINEAR_KINDS = frozenset({"gated_delta", "kda", "mamba2", "lightning"})
#: Bytes of one value in the window of a short convolution; it is kept in the activations' precision.
CONVOLUTION_VALUE_BYTES = 2.0
#: FLOP of a linear mixer per value of its state and token: an outer product and a read-out; delta rules read twice.
_STATE_FLOP = {"gated_delta": 6.0, "kda": 6.0, "mamba2": 4.0, "lightning": 4.0}


def convolution_channels(attention: Attention) -> int:
    """Channels of a linear mixer's queries, keys and values together.

    Parameters
    ----------
    attention : Attention
        A mixer of a linear kind.

    Returns
    -------
    int
        ``2 K qk + N v`` [-].

    Examples
    --------
    >>> convolution_channels(Attention("gated_delta", 32, 16, 128, 128))
    8192
    """
    return 2 * attention.n_kv_heads * attention.qk_head_dim + attention.n_query_heads * attention.v_head_dim


def visible_tokens(attention: Attention, context_tokens: Num) -> Num:
    """Cache entries that the newest query attends to.

    Full attention: ``S``. Sliding window: ``min(S, w)``. Chunk: ``(S - 1) mod w + 1``. After an indexer:
    ``min(S, k)``. Compressed by ``c``: ``min(S, w) + min(S / c, k)``. Linear kinds attend to none.

    Parameters
    ----------
    attention : Attention
        The mixer.
    context_tokens : float or ndarray
        ``S``, the query's own token included [token].

    Returns
    -------
    float or ndarray
        Entries that are scored, of the compressed cache too [token].

    Examples
    --------
    >>> float(visible_tokens(Attention("gqa", 64, 8, 64, 64, window=128), 4096.0))
    128.0
    """
    context = np.asarray(context_tokens, float)
    if attention.kind == "none" or attention.kind in LINEAR_KINDS:
        return 0.0 * context
    if attention.compression != 1:
        far = _clipped(_compressed(attention, context), attention.sparse_tokens or np.inf)
        return _clipped(context, attention.window or 0) + far
    if attention.chunked and attention.window:
        return np.where(context > 0, np.mod(context - 1, attention.window) + 1, 0.0)
    return _clipped(context, min(attention.window or np.inf, attention.sparse_tokens or np.inf))


def _clipped(amount: Num, limit: float) -> Num:
    return np.asarray(amount if limit == np.inf else np.minimum(amount, limit))


def _compressed(attention: Attention, amount: Num) -> Num:
    """Per compressed entry instead of per token; 0 where nothing is kept beyond the window."""
    return amount / attention.compression if attention.compression else 0.0 * amount


def mean_visible_tokens(attention: Attention, sequence_tokens: Num, context_tokens: Num = 0.0) -> Num:
    """Entries that a query attends to, averaged over the new tokens of a causal sequence.

    Full attention from scratch: ``(S + 1) / 2``. Window ``w`` with ``S > w``: ``w - w (w - 1) / (2 S)``.

    Parameters
    ----------
    attention : Attention
        The mixer.
    sequence_tokens : float or ndarray
        New tokens, above 0 [token].
    context_tokens : float or ndarray
        Tokens before them, such as a cached prefix [token].

    Returns
    -------
    float or ndarray
        Mean of :func:`visible_tokens` over positions ``context + 1 .. context + sequence`` [token].

    Examples
    --------
    >>> float(mean_visible_tokens(Attention("gqa", 32, 8, 128, 128), 8191.0))
    4096.0
    """
    start = np.asarray(context_tokens, float)
    end = start + sequence_tokens
    return (_summed_visible(attention, end) - _summed_visible(attention, start)) / sequence_tokens


def _summed_visible(attention: Attention, n: Num) -> Num:
    """Sum of visible entries over positions 1..n."""
    if attention.kind == "none" or attention.kind in LINEAR_KINDS:
        return 0.0 * n
    if attention.compression != 1:
        local = _summed_clipped(n, attention.window or 0)
        if not attention.compression:
            return local
        ratio = attention.compression
        return local + _summed_clipped(n, (attention.sparse_tokens or np.inf) * ratio) / ratio
    if attention.chunked and attention.window:
        chunk = attention.window
        chunks: Num = np.floor_divide(n, chunk)
        rest = n - chunks * chunk
        return chunks * chunk * (chunk + 1) / 2 + rest * (rest + 1) / 2
    return _summed_clipped(n, min(attention.window or np.inf, attention.sparse_tokens or np.inf))


def _summed_clipped(n: Num, limit: float) -> Num:
    """Sum of min(p, limit) over p = 1..n."""
    inside = _clipped(n, limit)
    beyond = n - inside
    return inside * (inside + 1) / 2 + (beyond * limit if np.isfinite(limit) else 0.0)


def attention_flop_per_query(attention: Attention, visible_tokens: Num, absorbed: bool) -> Num:
    """Scores and weighted values of one query token in one layer; a linear mixer's state update and read-out.

    ``gqa``: ``2 N (qk + v) visible``. ``mla`` absorbed, as decode runs it: ``2 N ((r + rope) + r) visible``; not
    absorbed, as prefill and training run it: ``2 N (qk + v) visible``. Linear kinds, whatever the context:
    ``6 N qk v`` for delta rules, ``4 N qk v`` otherwise. Projections and the indexer are not in.

    Parameters
    ----------
    attention : Attention
        The mixer.
    visible_tokens : float or ndarray
        Entries attended to, from the function of that name [token].
    absorbed : bool
        Whether a latent mixer attends in its latent space.

    Returns
    -------
    float or ndarray
        FLOP of one query token [FLOP].

    Examples
    --------
    >>> float(attention_flop_per_query(Attention("gqa", 64, 8, 128, 128), 1000.0, absorbed=False))
    32768000.0
    >>> latent = Attention("mla", 128, 128, 192, 128, kv_lora_rank=512, rope_head_dim=64)
    >>> float(attention_flop_per_query(latent, 1000.0, absorbed=True))
    278528000.0
    """
    n = attention.n_query_heads
    if attention.kind in LINEAR_KINDS:
        per_state_value = _STATE_FLOP[attention.kind]
        return per_state_value * n * attention.qk_head_dim * attention.v_head_dim + 0.0 * np.asarray(
            visible_tokens, float
        )
    width = attention.qk_head_dim + attention.v_head_dim
    if attention.kind == "mla" and absorbed:
        width = 2 * attention.kv_lora_rank + attention.rope_head_dim
    return 2.0 * n * width * np.asarray(visible_tokens, float)


def indexer_flop_per_query(attention: Attention, context_tokens: Num) -> Num:
    """Scores of a sparse layer's indexer for one query token.

    ``2 H_i d_i S / c``: the indexer looks at every entry, which is why its keys are small.

    Parameters
    ----------
    attention : Attention
        The mixer; without an indexer the answer is 0.
    context_tokens : float or ndarray
        ``S``, or its mean over queries [token].

    Returns
    -------
    float or ndarray
        FLOP of one query token [FLOP].

    Examples
    --------
    >>> sparse = Attention("mla", 128, 128, 192, 128, sparse_tokens=2048, index_heads=64, index_head_dim=128)
    >>> float(indexer_flop_per_query(sparse, 1000.0))
    16384000.0
    """
    scored = _compressed(attention, np.asarray(context_tokens, float))
    return 2.0 * attention.index_heads * attention.index_head_dim * scored


def cached_values_per_entry(attention: Attention) -> int:
    """Values of one cache entry of one layer.

    ``gqa``: ``K (qk + v)``, or ``K qk`` where one vector serves as both. ``mla``: ``r + rope``.

    Parameters
    ----------
    attention : Attention
        The mixer; linear kinds and layers that share another's cache keep no entries.

    Returns
    -------
    int
        Values, indexer keys not among them [-].

    Examples
    --------
    >>> cached_values_per_entry(Attention("gqa", 64, 8, 128, 128))
    2048
    >>> cached_values_per_entry(Attention("mla", 128, 128, 192, 128, kv_lora_rank=512, rope_head_dim=64))
    576
    """
    if attention.shares_kv or attention.kind == "none" or attention.kind in LINEAR_KINDS:
        return 0
    return _entry_values(attention)


def _entry_values(attention: Attention) -> int:
    if attention.kind == "mla":
        return attention.kv_lora_rank + attention.rope_head_dim
    return attention.n_kv_heads * (attention.qk_head_dim + (0 if attention.one_kv_entry else attention.v_head_dim))


def kv_bytes_per_token_layer(attention: Attention, kv_bytes_per_value: Num) -> Num:
    """Cache bytes that one more token adds in one layer, while it lies inside the layer's window.

    Compressed layers add an entry to their window and ``1 / c`` of a compressed one. Indexer keys are in.

    Parameters
    ----------
    attention : Attention
        The mixer.
    kv_bytes_per_value : float or ndarray
        Bytes of one cached value [byte].

    Returns
    -------
    float or ndarray
        Bytes per token [byte].

    Examples
    --------
    >>> float(kv_bytes_per_token_layer(Attention("gqa", 64, 8, 128, 128), 2.0))
    4096.0
    """
    entry = cached_values_per_entry(attention) * np.asarray(kv_bytes_per_value, float)
    if attention.compression == 1:
        return entry + attention.index_key_bytes
    return (entry if attention.window else 0.0 * entry) + _compressed(attention, entry + attention.index_key_bytes)


def state_bytes(attention: Attention) -> float:
    """Bytes that a linear mixer keeps of one sequence, whatever its length.

    ``N qk v`` state values and ``width - 1`` positions of the short convolution's channels.

    Parameters
    ----------
    attention : Attention
        The mixer; other kinds keep no state.

    Returns
    -------
    float
        Bytes of one layer [byte].

    Examples
    --------
    >>> state_bytes(Attention("gated_delta", 32, 16, 128, 128, conv_width=4))
    2146304.0
    """
    if attention.kind not in LINEAR_KINDS:
        return 0.0
    state = attention.n_query_heads * attention.qk_head_dim * attention.v_head_dim * attention.state_value_bytes
    window = max(attention.conv_width - 1, 0) * convolution_channels(attention)
    return state + window * CONVOLUTION_VALUE_BYTES


def kv_cache_bytes(attention: Attention, context_tokens: Num, kv_bytes_per_value: Num) -> Num:
    """Bytes that one layer keeps of one sequence: cache, indexer keys, or state.

    Windows and chunks keep ``min(S, w)`` entries; compressed layers ``min(S, w) + S / c``; an indexer chooses what is
    read, not what is kept.

    Parameters
    ----------
    attention : Attention
        The mixer.
    context_tokens : float or ndarray
        ``S`` [token].
    kv_bytes_per_value : float or ndarray
        Bytes of one cached value [byte].

    Returns
    -------
    float or ndarray
        Bytes of one layer [byte].

    Examples
    --------
    >>> float(kv_cache_bytes(Attention("gqa", 64, 8, 64, 64, window=128), 4096.0, 2.0))
    262144.0
    """
    context = np.asarray(context_tokens, float)
    entry = cached_values_per_entry(attention) * np.asarray(kv_bytes_per_value, float)
    if attention.compression == 1:
        kept = _clipped(context, attention.window or np.inf)
        return kept * entry + kept * attention.index_key_bytes + state_bytes(attention)
    compressed = _compressed(attention, context)
    return _clipped(context, attention.window or 0) * entry + compressed * (entry + attention.index_key_bytes)


def kv_read_bytes(attention: Attention, context_tokens: Num, kv_bytes_per_value: Num) -> Num:
    """Bytes that one decoding step of one sequence reads (and, for a state, writes back) in one layer.

    The visible entries, every indexer key, or the state once in and once out. A layer that shares another's cache
    keeps none but reads it.

    Parameters
    ----------
    attention : Attention
        The mixer.
    context_tokens : float or ndarray
        ``S`` [token].
    kv_bytes_per_value : float or ndarray
        Bytes of one cached value [byte].

    Returns
    -------
    float or ndarray
        HBM traffic of one layer [byte].

    Examples
    --------
    >>> sparse = Attention("mla", 128, 128, 192, 128, kv_lora_rank=512, rope_head_dim=64, sparse_tokens=2048)
    >>> float(kv_read_bytes(sparse, 65536.0, 2.0))
    2359296.0
    """
    context = np.asarray(context_tokens, float)
    if attention.kind == "none" or attention.kind in LINEAR_KINDS:
        return 2 * state_bytes(attention) + 0.0 * context * kv_bytes_per_value
    entry = _entry_values(attention) * np.asarray(kv_bytes_per_value, float)
    read = visible_tokens(attention, context) * entry
    if attention.index_key_bytes:
        read = read + _compressed(attention, context) * attention.index_key_bytes
    return read
