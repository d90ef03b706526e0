"""The KV cache against compute: the context from which reading it takes longer than a token's products."""

from __future__ import annotations

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.architecture import Model
from computeledger.facts.schema import PRECISION_BYTES, Accelerator
from computeledger.physics.attention import mixer_of
from computeledger.physics.blackboard.ledgers import FORWARD_FLOP_PER_PARAM
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.transformer import n_params_active

#: Contexts that a crossover is looked for in [token].
LONGEST_CONTEXT_TOKENS = 1e10
_STEPS = 4096


def kv_read_bytes_per_gpu(model: Model, context_tokens: Num, layout: Layout, kv_bytes_per_value: float) -> Num:
    """Cache that one decoded token reads on each GPU of its rank, on average over stages.

    Parameters
    ----------
    model : Model
        What is served.
    context_tokens : float or ndarray
        Context of the token [token].
    layout : Layout
        Tensor parallelism beyond the KV heads reads copies; pipeline and context parallelism share the cache.
    kv_bytes_per_value : float
        Bytes of one cached value [byte].

    Returns
    -------
    float or ndarray
        Bytes read, with what windows and sparse attention leave out [byte].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> float(kv_read_bytes_per_gpu(load_model("deepseek-v3"), 1.0, Layout(tp=8), 2.0))
    70272.0
    """
    total: Num = 0.0
    for group in model.layers:
        mixer = mixer_of(group.attention)
        read = mixer.kv_read_bytes(context_tokens, kv_bytes_per_value)
        total = total + group.count * read / mixer.kv_shards(layout.tp)
    return total / (layout.cp * layout.pp)


def attention_flop(model: Model, context_tokens: Num) -> Num:
    """Work of attention of one decoded token, latent attention absorbed and indexers included.

    Parameters
    ----------
    model : Model
        What is served.
    context_tokens : float or ndarray
        Context of the token [token].

    Returns
    -------
    float or ndarray
        Scores and values of all layers [FLOP].

    Examples
    --------
    >>> from computeledger.facts.load import load_model
    >>> float(attention_flop(load_model("deepseek-v3"), 1.0)) / 1e6
    16.990208
    """
    total: Num = 0.0
    for group in model.layers:
        mixer = mixer_of(group.attention)
        work = mixer.flop_per_query(mixer.visible_tokens(context_tokens), absorbed=True)
        if group.attention.index_heads:
            work = work + mixer.indexer_flop_per_query(context_tokens)
        total = total + group.count * work
    return total


def crossover_context_tokens(model: Model, chip: Accelerator, layout: Layout, precision: Precision) -> float:
    """Context from which a decoded token's cache is read for longer than the token is computed; infinite without one.

    ``2 N / F + A(L) / F_a = K(L) / W`` at the data sheet's rates, weights read for so many sequences that they cost
    nothing, attention's own products ``A`` included. Where a cached value is multiplied more often than the ridge point
    asks, computing stays ahead at any length: latent attention, absorbed, whose one entry serves every head.

    Parameters
    ----------
    model : Model
        What is served.
    chip : Accelerator
        Peaks and memory bandwidth.
    layout : Layout
        Says how many copies of the cache are read.
    precision : Precision
        Of weights, scores and cache.

    Returns
    -------
    float
        The shortest such context [token].

    References
    ----------
    roofline-lecture C136, which leaves attention's products out.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> h100 = load_system("h100-nvl8").accelerator
    >>> [round(crossover_context_tokens(load_model(one), h100, Layout(tp=8), Precision()))
    ...  for one in ("llama-3.1-8b", "llama-3.1-405b")]
    [393, 5601]
    >>> h200, latent = load_system("h200-nvl8").accelerator, load_model("deepseek-v3")
    >>> [f"{crossover_context_tokens(latent, h200, Layout(tp=tp), Precision()):.0f}" for tp in (1, 8)]
    ['inf', '741']
    """
    contexts = np.geomspace(1.0, LONGEST_CONTEXT_TOKENS, _STEPS)
    kind = "experts" if model.n_experts else "dense"
    weights_s = FORWARD_FLOP_PER_PARAM * n_params_active(model) / chip.peak(getattr(precision, kind))
    share = layout.tp * layout.cp * layout.pp
    computed_s = (weights_s + attention_flop(model, contexts) / chip.peak(precision.scores)) / share
    read = kv_read_bytes_per_gpu(model, contexts, layout, PRECISION_BYTES[precision.kv])
    behind = np.asarray(read / chip.hbm_bytes_per_s.value - computed_s)
    at = int(np.argmax(behind >= 0))
    if behind[at] < 0:
        return float("inf")
    if at == 0:
        return 1.0
    return float(np.interp(0.0, behind[at - 1 : at + 1], contexts[at - 1 : at + 1]))


def layers_with_cache(bytes_per_token: Num, values_per_entry: Num, bytes_per_value: Num, shares: Num) -> Num:
    """Layers that may keep a cache within a budget on each GPU, ``b s / (v w)``.

    Parameters
    ----------
    bytes_per_token : float or ndarray
        Budget of one GPU for a token of the context, ``b`` [byte/token].
    values_per_entry : float or ndarray
        Values that a layer keeps for a token, ``v`` [-].
    bytes_per_value : float or ndarray
        Of the cache's precision, ``w`` [byte].
    shares : float or ndarray
        Parts that tensor parallelism makes of an entry, ``s``: no more than KV heads, 1 for a latent vector [-].

    Returns
    -------
    float or ndarray
        Layers, a fraction included [-].

    Examples
    --------
    >>> layers_with_cache(16384.0, 2048, 2.0, 1), layers_with_cache(16384.0, 2048, 0.5, 8)
    (4.0, 128.0)
    """
    return bytes_per_token * shares / (values_per_entry * bytes_per_value)
