"""Serving in closed form: batch, trains and queues, cost, fast mode.

Closed forms of the source document ``roofline-lecture``; ``C...`` ids name rows of the claims table. They hold for the
two-equation roofline of :mod:`computeledger.physics.blackboard.ledgers`: no loss, no launch time, perfect overlap.
"""

from __future__ import annotations

from computeledger.arrays import Num
from computeledger.physics.blackboard.ledgers import FORWARD_FLOP_PER_PARAM
from computeledger.units import HOUR_S, TOKENS_PER_MTOK


def optimal_batch(
    peak_flop_per_s: Num, hbm_bytes_per_s: Num, bytes_per_param: Num = 2.0, sparsity_ratio: Num = 1.0
) -> Num:
    """Batch at which computing takes as long as reading the weights, ``F / W  bytes / 2  N_total / N_active``.

    Parameters
    ----------
    peak_flop_per_s : float or ndarray
        Dense peak at the precision of the products, ``F`` [FLOP/s].
    hbm_bytes_per_s : float or ndarray
        Memory bandwidth, ``W`` [byte/s].
    bytes_per_param : float or ndarray
        Of the stored weights [byte].
    sparsity_ratio : float or ndarray
        Total over active parameters; by experts it differs [-].

    Returns
    -------
    float or ndarray
        Tokens in a step: about 300 times the sparsity ratio, the KV cache left out [token].

    References
    ----------
    roofline-lecture C115..C117, C119. The document's 2400 takes a ratio of 8; 37B of 671B parameters give 18.

    Examples
    --------
    >>> round(optimal_batch(989.5e12, 3.35e12)), round(optimal_batch(300.0, 1.0, sparsity_ratio=8))
    (295, 2400)
    """
    return peak_flop_per_s / hbm_bytes_per_s * bytes_per_param / FORWARD_FLOP_PER_PARAM * sparsity_ratio


def rate_per_s(amount: Num, duration_s: Num) -> Num:
    """Rate of what happens in a time: trains, a batch's tokens per step, a lifetime's tokens.

    Parameters
    ----------
    amount : float or ndarray
        What is counted [-].
    duration_s : float or ndarray
        Time it takes [s].

    Returns
    -------
    float or ndarray
        Rate [1/s].

    References
    ----------
    roofline-lecture C122 (a 20 ms train leaves 50 times a second; 64 need 15.6 ms), C123, C134, C164, C165.

    Examples
    --------
    >>> rate_per_s(1, 0.02), rate_per_s(2000, 0.02), rate_per_s(2000, 1 / 64)
    (50.0, 100000.0, 128000.0)
    """
    return amount / duration_s


def usd_per_mtok(usd_per_gpu_hour: Num, n_gpus: Num, tokens_per_s: Num) -> Num:
    """Cost of a million tokens on GPUs that do nothing else.

    Parameters
    ----------
    usd_per_gpu_hour : float or ndarray
        Price of a GPU [USD/h].
    n_gpus : float or ndarray
        GPUs of the replica [-].
    tokens_per_s : float or ndarray
        Throughput of the replica [token/s].

    Returns
    -------
    float or ndarray
        Cost per million tokens, without idle time or margin [USD/Mtok].

    Examples
    --------
    >>> round(usd_per_mtok(2.0, 72, 128e3), 4)
    0.3125
    """
    return usd_per_gpu_hour * n_gpus / HOUR_S / tokens_per_s * TOKENS_PER_MTOK


def drain_s(capacity_bytes: Num, bytes_per_s: Num) -> Num:
    """Time to read a memory once: the train of an HBM, the natural lifetime of a cache tier.

    Parameters
    ----------
    capacity_bytes : float or ndarray
        Capacity of HBM, DRAM, flash or disk [byte].
    bytes_per_s : float or ndarray
        Its read bandwidth [byte/s].

    Returns
    -------
    float or ndarray
        Drain time: the most that a step bound by memory takes, reached where the memory is full and all of it is read.
        A step bound by compute may take longer [s].

    References
    ----------
    roofline-lecture C120 (H100 24 ms; 20 to 40 ms over generations), C140 (NVMe minutes, a modern disk a day), C145.

    Examples
    --------
    >>> round(drain_s(80e6, 3.35e9) * 1e3, 1), round(drain_s(4e12, 14e12 / 1e3)), round(drain_s(24e12, 0.28e12 / 1e3))
    (23.9, 286, 85714)
    """
    return capacity_bytes / bytes_per_s


def queue_bound_s(train_s: Num) -> Num:
    """Longest time to a token when trains leave on schedule: miss one, then ride one, ``2 t``.

    Parameters
    ----------
    train_s : float or ndarray
        Time of one train, from departure to departure [s].

    Returns
    -------
    float or ndarray
        Wait and ride [s].

    References
    ----------
    roofline-lecture C121.

    Examples
    --------
    >>> queue_bound_s(0.02)
    0.04
    """
    return 2.0 * train_s


def fast_mode_batch_ratio(price_ratio: Num, speed_ratio: Num) -> Num:
    """How much smaller a fast mode's batch is, ``B0 / B = price x speed``, at equal margin.

    A token costs ``t / B``: at ``speed`` times the rate a step takes ``1 / speed``, so that ``price`` times the cost
    leaves a batch of ``1 / (price x speed)``.

    Parameters
    ----------
    price_ratio : float or ndarray
        Price of the fast over the slow mode [-].
    speed_ratio : float or ndarray
        Tokens per second and user of the fast over the slow mode [-].

    Returns
    -------
    float or ndarray
        Slow batch over fast batch [-].

    References
    ----------
    roofline-lecture C125, C166.

    Examples
    --------
    >>> fast_mode_batch_ratio(6.0, 2.5)
    15.0
    """
    return price_ratio * speed_ratio


def fast_mode_price_ratio(batch_ratio: Num, speed_ratio: Num) -> Num:
    """Price of a fast mode at equal margin, ``(B0 / B) / speed``.

    Parameters
    ----------
    batch_ratio : float or ndarray
        Slow batch over fast batch, ``B0 / B`` [-].
    speed_ratio : float or ndarray
        Tokens per second and user of the fast over the slow mode [-].

    Returns
    -------
    float or ndarray
        Price of the fast over the slow mode [-].

    References
    ----------
    roofline-lecture C166.

    Examples
    --------
    >>> fast_mode_price_ratio(15.0, 2.5)
    6.0
    """
    return batch_ratio / speed_ratio


def fast_mode_speed_ratio(batch_ratio: Num, weight_fraction: Num) -> Num:
    """Speed that a smaller batch buys when a step takes ``t = w + c B``, ``1 / (s + (1 - s) / r)``.

    Parameters
    ----------
    batch_ratio : float or ndarray
        Slow batch over fast batch, ``r`` [-].
    weight_fraction : float or ndarray
        Share of the slow step that does not shrink with the batch (reading the weights), ``s``, in 0..1 [-].

    Returns
    -------
    float or ndarray
        Fast over slow; at most ``1 / s`` [-].

    References
    ----------
    roofline-lecture C125.

    Examples
    --------
    >>> round(fast_mode_speed_ratio(15.0, 5 / 14), 3)
    2.5
    """
    return 1.0 / (weight_fraction + (1.0 - weight_fraction) / batch_ratio)


def fast_mode_weight_fraction(batch_ratio: Num, speed_ratio: Num) -> Num:
    """Share of the slow step spent on reading weights, from a fast mode's batch and speed.

    Inverts :func:`fast_mode_speed_ratio`: ``s = (1 / speed - 1 / r) / (1 - 1 / r)``.

    Parameters
    ----------
    batch_ratio : float or ndarray
        Slow batch over fast batch, ``r``, above 1 [-].
    speed_ratio : float or ndarray
        Fast over slow, in 1..r [-].

    Returns
    -------
    float or ndarray
        Share of the slow step, in 0..1 [-].

    References
    ----------
    roofline-lecture C125 (36 %).

    Examples
    --------
    >>> round(fast_mode_weight_fraction(15.0, 2.5), 2)
    0.36
    """
    return (1.0 / speed_ratio - 1.0 / batch_ratio) / (1.0 - 1.0 / batch_ratio)


def price_ratio(usd_per_mtok: Num, base_usd_per_mtok: Num) -> Num:
    """One price over another: output over input, cached over fresh, above over below a context threshold.

    Parameters
    ----------
    usd_per_mtok, base_usd_per_mtok : float or ndarray
        The price, and the one it is measured against [USD/Mtok].

    Returns
    -------
    float or ndarray
        Ratio [-].

    References
    ----------
    rlvr-gpu-time C001; roofline-lecture C135, C138, C139, C141.

    Examples
    --------
    >>> price_ratio(18.0, 12.0), price_ratio(4.0, 2.0)
    (1.5, 2.0)
    """
    return usd_per_mtok / base_usd_per_mtok
