"""The KV cache against compute in closed form: the context at which reading it takes as long as computing.

Closed forms of the source document ``roofline-lecture``; ``C...`` ids name rows of the claims table. They hold for the
two-equation roofline of :mod:`computeledger.physics.blackboard.ledgers`.
"""

from __future__ import annotations

import numpy as np

from computeledger.arrays import Num
from computeledger.physics.blackboard.ledgers import FORWARD_FLOP_PER_PARAM


def kv_bytes_per_token(n_layers: Num, n_kv_heads: Num, head_size: Num, bytes_per_value: Num = 2.0) -> Num:
    """KV cache of one token with grouped-query attention in every layer, ``2 K H bytes L``.

    Parameters
    ----------
    n_layers : float or ndarray
        Layers that keep a cache [-].
    n_kv_heads : float or ndarray
        KV heads, ``K`` [-].
    head_size : float or ndarray
        Values of one head, ``H`` [-].
    bytes_per_value : float or ndarray
        Of the cache's precision [byte].

    Returns
    -------
    float or ndarray
        All layers, one token [byte/token].

    References
    ----------
    roofline-lecture C137: 2 KB at one byte per value is one layer, not a model.

    Examples
    --------
    >>> kv_bytes_per_token(1, 8, 128, 1.0), kv_bytes_per_token(126, 8, 128)
    (2048.0, 516096.0)
    """
    return 2.0 * n_kv_heads * head_size * bytes_per_value * n_layers


def kv_crossover_bytes_per_token(
    n_params_active: Num, peak_flop_per_s: Num, hbm_bytes_per_s: Num, context_tokens: Num
) -> Num:
    """KV bytes at which reading the cache takes as long as computing, ``k = 2 N W / (F L*)``; the batch cancels.

    Parameters
    ----------
    n_params_active : float or ndarray
        Parameters multiplied per token, ``N`` [-].
    peak_flop_per_s, hbm_bytes_per_s : float or ndarray
        Dense peak ``F`` [FLOP/s] and memory bandwidth ``W`` [byte/s] of one package.
    context_tokens : float or ndarray
        Context of the crossover, ``L*`` [token].

    Returns
    -------
    float or ndarray
        KV cache of one token [byte/token].

    References
    ----------
    roofline-lecture C136: 1.6 to 2 KB at 200K tokens needs 8-bit compute (H100: 1693 B; in bf16 3386 B).

    Examples
    --------
    >>> round(kv_crossover_bytes_per_token(1e11, 1.979e15, 3.35e12, 2e5))
    1693
    """
    with np.errstate(divide="ignore"):
        return np.divide(FORWARD_FLOP_PER_PARAM * n_params_active * hbm_bytes_per_s, peak_flop_per_s * context_tokens)


def kv_crossover_context_tokens(
    n_params_active: Num,
    peak_flop_per_s: Num,
    hbm_bytes_per_s: Num,
    kv_bytes_per_token: Num,
    attention_flop_per_token: Num = 0.0,
) -> Num:
    """Context at which reading the cache takes as long as computing, ``L* = 2 N / (F k / W - a)``.

    Both the cache that is read and attention's own products grow with the context. Where a cached token is multiplied
    more often than the ridge point asks, ``a / k >= F / W``, computing stays ahead and there is no crossover: absorbed
    latent attention, of which one copy is read.

    Parameters
    ----------
    n_params_active : float or ndarray
        Parameters multiplied per token, ``N`` [-].
    peak_flop_per_s, hbm_bytes_per_s : float or ndarray
        Dense peak ``F`` [FLOP/s] and memory bandwidth ``W`` [byte/s] of one package.
    kv_bytes_per_token : float or ndarray
        All layers, one token, ``k``; times the copies that tensor parallelism makes of it [byte/token].
    attention_flop_per_token : float or ndarray
        Work of attention per cached token, ``a``, from
        :func:`computeledger.physics.transformer.attention_flop_per_cached_token`; 0 leaves attention's products out,
        as the source document does [FLOP/token].

    Returns
    -------
    float or ndarray
        Crossover, beyond which a token costs more the longer its context; infinite without one [token].

    References
    ----------
    roofline-lecture C136.

    Examples
    --------
    >>> f"{kv_crossover_context_tokens(405e9, 989.5e12, 3.35e12, 516096):.0f}"
    '5314'

    DeepSeek-V3 on an H200 in 8 bits, its cache read once and in eight copies:

    >>> kv_crossover_context_tokens(36.6e9, 1.979e15, 4.8e12, np.array([1, 8]) * 35136, 16.99e6).round()
    array([ inf, 740.])
    """
    left = peak_flop_per_s * kv_bytes_per_token / np.asarray(hbm_bytes_per_s, float) - attention_flop_per_token
    with np.errstate(divide="ignore"):
        return np.divide(FORWARD_FLOP_PER_PARAM * n_params_active, np.maximum(left, 0.0))
