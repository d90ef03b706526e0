"""Training in closed form: token budgets, cluster time, chips and money, steps, activations.

Closed forms of the source documents ``training-systems``, ``compute-ledger`` and ``roofline-lecture``; ``C...`` ids
name rows of the claims table.
"""

from __future__ import annotations

from computeledger.arrays import Num
from computeledger.physics.blackboard.ledgers import FORWARD_FLOP_PER_PARAM, TRAINING_FLOP_PER_PARAM
from computeledger.units import HOUR_S

#: Chinchilla's rule of thumb (C018).
COMPUTE_OPTIMAL_TOKENS_PER_PARAM = 20.0


def tokens_from_flop(flop: Num, n_params_active: Num, flop_per_param: Num = TRAINING_FLOP_PER_PARAM) -> Num:
    """Tokens that a compute budget pays for, ``D = C / (beta N)``.

    Parameters
    ----------
    flop : float or ndarray
        Budget [FLOP].
    n_params_active : float or ndarray
        Parameters multiplied per token [-].
    flop_per_param : float or ndarray
        6 for pretraining, 2 for inference, ``beta`` for RL [FLOP/parameter].

    Returns
    -------
    float or ndarray
        Tokens [token].

    References
    ----------
    scaling-rl-web-text C034; training-systems C110.

    Examples
    --------
    >>> f"{tokens_from_flop(1e26, 1e11):.4g}"
    '1.667e+14'
    """
    return flop / (flop_per_param * n_params_active)


def compute_optimal_params(flop: Num, tokens_per_param: Num = COMPUTE_OPTIMAL_TOKENS_PER_PARAM) -> Num:
    """Parameters that reach the lowest loss for a budget, ``N = sqrt(C / (6 r))``.

    Parameters
    ----------
    flop : float or ndarray
        Pretraining budget [FLOP].
    tokens_per_param : float or ndarray
        Ratio of the rule, ``r``; a rule of thumb near 1e21..1e24 FLOP, dense models [token/parameter].

    Returns
    -------
    float or ndarray
        Parameters of a dense model [-].

    References
    ----------
    rlvr-gpu-time C007 (``N = sqrt(C / 120)``).

    Examples
    --------
    >>> f"{compute_optimal_params(5e26):.4g}"
    '2.041e+12'
    """
    return (flop / (TRAINING_FLOP_PER_PARAM * tokens_per_param)) ** 0.5


def compute_optimal_tokens(n_params_active: Num, tokens_per_param: Num = COMPUTE_OPTIMAL_TOKENS_PER_PARAM) -> Num:
    """Tokens of a compute-optimal run, ``D = 20 N``.

    Parameters
    ----------
    n_params_active : float or ndarray
        Parameters multiplied per token [-].
    tokens_per_param : float or ndarray
        Ratio of the rule [token/parameter].

    Returns
    -------
    float or ndarray
        Pretraining tokens [token].

    References
    ----------
    compute-ledger C018, C019.

    Examples
    --------
    >>> compute_optimal_tokens(1e11)
    2000000000000.0
    """
    return tokens_per_param * n_params_active


def overtraining_ratio(
    tokens: Num, n_params_active: Num, tokens_per_param: Num = COMPUTE_OPTIMAL_TOKENS_PER_PARAM
) -> Num:
    """How far beyond compute-optimal a run is, ``D / (20 N)``.

    Parameters
    ----------
    tokens : float or ndarray
        Pretraining tokens [token].
    n_params_active : float or ndarray
        Parameters multiplied per token [-].
    tokens_per_param : float or ndarray
        Ratio of the rule; 1 gives tokens per parameter [token/parameter].

    Returns
    -------
    float or ndarray
        1 is compute-optimal [-].

    References
    ----------
    compute-ledger C021; training-systems C087; roofline-lecture C129.

    Examples
    --------
    >>> overtraining_ratio(150e12, 1e11)
    75.0
    """
    return tokens / compute_optimal_tokens(n_params_active, tokens_per_param)


def cluster_flop(n_gpus: Num, duration_s: Num, peak_flop_per_s: Num, utilization_fraction: Num) -> Num:
    """Work of a cluster in a time, ``C = n t F u``.

    Parameters
    ----------
    n_gpus : float or ndarray
        GPUs [-].
    duration_s : float or ndarray
        Wall time [s].
    peak_flop_per_s : float or ndarray
        Dense peak of one GPU [FLOP/s].
    utilization_fraction : float or ndarray
        Share of the peak that is reached [-].

    Returns
    -------
    float or ndarray
        Work [FLOP].

    References
    ----------
    training-systems C036 (an H100-month at 40 % in bf16 is 1e21 FLOP), C037..C044, C068, C074, C075, C109.

    Examples
    --------
    >>> from computeledger.units import MONTH_S
    >>> f"{cluster_flop(1, MONTH_S, 989.5e12, 0.4):.4g}"
    '1.041e+21'
    """
    return n_gpus * duration_s * peak_flop_per_s * utilization_fraction


def cluster_time_s(flop: Num, n_gpus: Num, peak_flop_per_s: Num, utilization_fraction: Num) -> Num:
    """Wall time of a piece of work on a cluster, ``t = C / (n F u)``.

    Parameters
    ----------
    flop : float or ndarray
        Work: a run, or one optimizer step [FLOP].
    n_gpus : float or ndarray
        GPUs; 1 gives GPU-time [-].
    peak_flop_per_s : float or ndarray
        Dense peak of one GPU [FLOP/s].
    utilization_fraction : float or ndarray
        Share of the peak that is reached [-].

    Returns
    -------
    float or ndarray
        Wall time [s].

    References
    ----------
    training-systems C094 (one step of Llama 3 405B).

    Examples
    --------
    >>> round(cluster_time_s(6 * 405e9 * 16.8e6, 16384, 989.5e12, 0.4), 2)
    6.3
    """
    return flop / (n_gpus * peak_flop_per_s * utilization_fraction)


def mfu_fraction(flop: Num, n_gpus: Num, duration_s: Num, peak_flop_per_s: Num) -> Num:
    """Utilisation that a piece of work reached, ``C / (n t F)``.

    Parameters
    ----------
    flop : float or ndarray
        Model FLOP, recomputation not counted; hardware FLOP give HFU [FLOP].
    n_gpus : float or ndarray
        GPUs [-].
    duration_s : float or ndarray
        Wall time [s].
    peak_flop_per_s : float or ndarray
        Dense peak of one GPU [FLOP/s].

    Returns
    -------
    float or ndarray
        Share of the peak [-].

    References
    ----------
    training-systems C039 (3e26 FLOP in four months on 100K H100 is 29 %).

    Examples
    --------
    >>> from computeledger.units import MONTH_S
    >>> round(mfu_fraction(3e26, 1e5, 4 * MONTH_S, 989.5e12), 2)
    0.29
    """
    return flop / (n_gpus * duration_s * peak_flop_per_s)


def h100e(n_chips: Num, peak_flop_per_s: Num, h100_peak_flop_per_s: Num) -> Num:
    """H100-equivalents of a number of chips, by peak at one precision.

    Parameters
    ----------
    n_chips : float or ndarray
        Chips [-].
    peak_flop_per_s, h100_peak_flop_per_s : float or ndarray
        Dense peaks of one chip and of one H100 at the same precision; bf16 and 8-bit differ for most chips [FLOP/s].

    Returns
    -------
    float or ndarray
        ``h100e_bf16`` or ``h100e_8bit``, by the peaks given [-].

    References
    ----------
    training-systems C059..C063, C070, C114, C153.

    Examples
    --------
    >>> round(h100e(4e5, 0.65e15, 989.5e12)), round(h100e(2e5, 2.5e15, 989.5e12))
    (262759, 505306)
    """
    return n_chips * peak_flop_per_s / h100_peak_flop_per_s


def chips_in_budget(budget: Num, budget_per_chip: Num) -> Num:
    """Chips that a site's power or money allows.

    Parameters
    ----------
    budget : float or ndarray
        Power [W] or money [USD] of the system.
    budget_per_chip : float or ndarray
        The same of one chip, at the same boundary: chip, IT or facility; chip or all-in [W] or [USD].

    Returns
    -------
    float or ndarray
        Chips [-].

    References
    ----------
    training-systems C069, C072, C154, C155.

    Examples
    --------
    >>> chips_in_budget(400e6, 2000.0)
    200000.0
    """
    return budget / budget_per_chip


def budget_per_chip(budget: Num, n_chips: Num) -> Num:
    """Power or cost of a chip with its share of the system.

    Parameters
    ----------
    budget : float or ndarray
        Power [W] or cost [USD] of the system.
    n_chips : float or ndarray
        Chips [-].

    Returns
    -------
    float or ndarray
        Per chip, at the boundary that the budget was stated for [W] or [USD].

    References
    ----------
    scaling-rl-web-text C030; training-systems C042, C043, C058, C065, C066, C078, C079.

    Examples
    --------
    >>> budget_per_chip(500e3, 8), round(budget_per_chip(100e6, 42.5e3))
    (62500.0, 2353)
    """
    return budget / n_chips


def rented_gpus(usd: Num, duration_s: Num, usd_per_gpu_hour: Num) -> Num:
    """GPUs that money rents for a time.

    Parameters
    ----------
    usd : float or ndarray
        Money [USD].
    duration_s : float or ndarray
        Wall time [s].
    usd_per_gpu_hour : float or ndarray
        Price [USD/h].

    Returns
    -------
    float or ndarray
        GPUs [-].

    References
    ----------
    training-systems C077.

    Examples
    --------
    >>> from computeledger.units import YEAR_S
    >>> round(rented_gpus(6000e6, YEAR_S, 2.5))
    273785
    """
    return usd / (duration_s / HOUR_S * usd_per_gpu_hour)


def rental_usd(n_gpus: Num, duration_s: Num, usd_per_gpu_hour: Num) -> Num:
    """Money that GPUs cost for a time.

    Parameters
    ----------
    n_gpus : float or ndarray
        GPUs [-].
    duration_s : float or ndarray
        Wall time [s].
    usd_per_gpu_hour : float or ndarray
        Price [USD/h].

    Returns
    -------
    float or ndarray
        Cost [USD].

    References
    ----------
    training-systems C076.

    Examples
    --------
    >>> from computeledger.units import MONTH_S
    >>> f"{rental_usd(5e4, 4 * MONTH_S, 2.0):.4g}"
    '2.922e+08'
    """
    return n_gpus * (duration_s / HOUR_S) * usd_per_gpu_hour


def optimizer_steps(tokens: Num, global_batch_tokens: Num) -> Num:
    """Minibatches of a run.

    Parameters
    ----------
    tokens : float or ndarray
        Tokens of the run [token].
    global_batch_tokens : float or ndarray
        Tokens of one step [token].

    Returns
    -------
    float or ndarray
        Steps [-].

    References
    ----------
    training-systems C093; scaling-rl-web-text C031.

    Examples
    --------
    >>> optimizer_steps(15.6e12, 16e6)
    975000.0
    """
    return tokens / global_batch_tokens


def global_batch_tokens(n_gpus: Num, n_gpus_per_sequence: Num, sequence_tokens: Num) -> Num:
    """Smallest global batch that keeps every GPU busy: one sequence per model replica.

    Parameters
    ----------
    n_gpus : float or ndarray
        GPUs of the job [-].
    n_gpus_per_sequence : float or ndarray
        GPUs that work on one sequence at a time [-].
    sequence_tokens : float or ndarray
        Tokens of a sequence [token].

    Returns
    -------
    float or ndarray
        Tokens of one step [token].

    References
    ----------
    training-systems C097.

    Examples
    --------
    >>> global_batch_tokens(16384, 8, 8192)
    16777216.0
    """
    return n_gpus / n_gpus_per_sequence * sequence_tokens


def hardware_training_flop(n_params_active: Num, tokens: Num, recomputed_fraction: Num = 1.0) -> Num:
    """FLOP that are executed when activations are recomputed, ``(6 + 2 r) N D``.

    Parameters
    ----------
    n_params_active : float or ndarray
        Parameters multiplied per token [-].
    tokens : float or ndarray
        Tokens trained on [token].
    recomputed_fraction : float or ndarray
        Share of the layers whose forward pass runs again, ``r``, in 0..1 [-].

    Returns
    -------
    float or ndarray
        Between 6 N D and 8 N D; over the peak it gives HFU [FLOP].

    References
    ----------
    compute-ledger C011.

    Examples
    --------
    >>> hardware_training_flop(1.0, 1.0), hardware_training_flop(1.0, 1.0, 0.5)
    (8.0, 7.0)
    """
    return (TRAINING_FLOP_PER_PARAM + FORWARD_FLOP_PER_PARAM * recomputed_fraction) * n_params_active * tokens


def reversible_activation_bytes(layer_activation_bytes: Num, n_layers: Num, reversible_fraction: Num = 1.0) -> Num:
    """Activations held for backward when layers are reversible, ``a (L - r (L - 1))``.

    A reversible layer rebuilds its input from its output, so that one layer's activations are alive at a time. The
    price is a second forward pass: :func:`hardware_training_flop` at the same ``r``.

    Parameters
    ----------
    layer_activation_bytes : float or ndarray
        Activations of one layer for the microbatch, ``a`` [byte].
    n_layers : float or ndarray
        Layers, ``L`` [-].
    reversible_fraction : float or ndarray
        Share of the layers that are reversible, ``r``, in 0..1 [-].

    Returns
    -------
    float or ndarray
        Between one layer's and all layers' activations [byte].

    Examples
    --------
    >>> reversible_activation_bytes(1e8, 80, 0.0), reversible_activation_bytes(1e8, 80)
    (8000000000.0, 100000000.0)
    """
    return layer_activation_bytes * (n_layers - reversible_fraction * (n_layers - 1.0))
