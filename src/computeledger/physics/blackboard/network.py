"""Links in closed form: scale-up against scale-out, pipelines, gradients across sites.

Closed forms of the source documents ``roofline-lecture`` and ``training-systems``; ``C...`` ids name rows of the claims
table.
"""

from __future__ import annotations

from computeledger.arrays import Num
from computeledger.physics.training.batch import GRADIENT_BYTES


def scale_up_ratio(scale_up_bytes_per_s: Num, scale_out_bytes_per_s: Num) -> Num:
    """How much faster the scale-up domain is than the fabric beyond it.

    Parameters
    ----------
    scale_up_bytes_per_s, scale_out_bytes_per_s : float or ndarray
        Both per GPU and per direction [byte/s].

    Returns
    -------
    float or ndarray
        Ratio [-].

    References
    ----------
    roofline-lecture C126 (about 8; H100 has 450 and 50 GB/s).

    Examples
    --------
    >>> scale_up_ratio(450.0, 50.0)
    9.0
    """
    return scale_up_bytes_per_s / scale_out_bytes_per_s


def scale_up_time_ratio(n_experts_active: Num, n_layers_per_stage: Num, scale_up_ratio: Num) -> Num:
    """Expert traffic's time on scale-up over a pipeline hop's time on scale-out, ``2 k l / R``.

    A token goes to ``k`` experts and back in each of a stage's ``l`` layers, and leaves the stage once.

    Parameters
    ----------
    n_experts_active : float or ndarray
        Routed experts per token, ``k``, none on the token's own GPU [-].
    n_layers_per_stage : float or ndarray
        MoE layers of a pipeline stage, ``l`` [-].
    scale_up_ratio : float or ndarray
        From :func:`scale_up_ratio`, ``R`` [-].

    Returns
    -------
    float or ndarray
        Above 1 the hop hides behind the expert traffic: pipelines suit scale-out, experts need scale-up [-].

    Examples
    --------
    >>> scale_up_time_ratio(8, 1, 8.0)
    2.0
    """
    return 2.0 * n_experts_active * n_layers_per_stage / scale_up_ratio


def pipeline_stage_bytes(weights_bytes: Num, kv_bytes: Num, n_stages: Num) -> Num:
    """Memory of one pipeline stage that decodes without a bubble, ``weights / p + kv``.

    A stage holds ``1 / p`` of the layers, but ``p`` microbatches are in flight: pipelining divides the weights and
    not the KV cache.

    Parameters
    ----------
    weights_bytes : float or ndarray
        All weights [byte].
    kv_bytes : float or ndarray
        KV cache of one microbatch, all layers [byte].
    n_stages : float or ndarray
        Stages, ``p`` [-].

    Returns
    -------
    float or ndarray
        Per stage [byte].

    Examples
    --------
    >>> pipeline_stage_bytes(8e11, 1e11, 4)
    300000000000.0
    """
    return weights_bytes / n_stages + kv_bytes


def bubble_fraction(n_stages: Num, n_microbatches: Num, n_virtual_stages: Num = 1.0) -> Num:
    """Idle share of a training pipeline, ``(p - 1) / (v m + p - 1)``.

    Parameters
    ----------
    n_stages : float or ndarray
        Stages, ``p`` [-].
    n_microbatches : float or ndarray
        Microbatches of a step, ``m`` [-].
    n_virtual_stages : float or ndarray
        Pieces of the model per stage, ``v``; 1 for 1F1B [-].

    Returns
    -------
    float or ndarray
        Share of the step [-].

    Examples
    --------
    >>> bubble_fraction(8, 56)
    0.1111111111111111
    """
    return (n_stages - 1.0) / (n_virtual_stages * n_microbatches + n_stages - 1.0)


def gradient_exchange_bytes(n_params_total: Num, n_sites: Num = 2.0, bytes_per_gradient: Num = GRADIENT_BYTES) -> Num:
    """Bytes that each site sends, and receives, to average gradients once, ``2 (s - 1) / s  N bytes``.

    Parameters
    ----------
    n_params_total : float or ndarray
        Parameters with a gradient [-].
    n_sites : float or ndarray
        Sites that reduce-scatter and all-gather, ``s``; two sites send the gradients once each way [-].
    bytes_per_gradient : float or ndarray
        Of one exchanged gradient [byte].

    Returns
    -------
    float or ndarray
        Per site and direction [byte].

    References
    ----------
    training-systems C095.

    Examples
    --------
    >>> gradient_exchange_bytes(405e9)
    1620000000000.0
    """
    return 2.0 * (n_sites - 1.0) / n_sites * n_params_total * bytes_per_gradient


def gradient_exchange_bytes_per_s(exchange_bytes: Num, exchange_s: Num) -> Num:
    """Bandwidth of each site, per direction, that an exchange needs.

    Parameters
    ----------
    exchange_bytes : float or ndarray
        From :func:`gradient_exchange_bytes` [byte].
    exchange_s : float or ndarray
        Time it may take: a step's time where the exchange is hidden behind the next step [s].

    Returns
    -------
    float or ndarray
        Bandwidth [byte/s].

    References
    ----------
    training-systems C096 (12.96 Tbit/s for one second), C161 (2.16 Tbit/s for the whole step).

    Examples
    --------
    >>> from computeledger.units import BITS_PER_BYTE
    >>> gradient_exchange_bytes_per_s(1.62e12, 1.0) * BITS_PER_BYTE
    12960000000000.0
    """
    return exchange_bytes / exchange_s
