"""The three ledgers and the two-equation roofline, as they are written on a blackboard.

Closed forms of the source documents ``compute-ledger`` and ``roofline-lecture``; ``C...`` ids name rows of the claims
table. The ``blackboard_*`` modules continue by subject: serving, context, network, training, estimates. The
operation-level model reduces to these in the limits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num, Range

#: Multiply and add once per active parameter and token; backward does it for inputs and for weights.
FORWARD_FLOP_PER_PARAM = 2.0
BACKWARD_FLOP_PER_PARAM = 4.0
TRAINING_FLOP_PER_PARAM = FORWARD_FLOP_PER_PARAM + BACKWARD_FLOP_PER_PARAM
#: Beta in FLOP where a question does not say (assumption): 6 to train, 2 to sample, 2 to score once more. 8 is the
#: least, 12 scores with a reference model too; published steps count 9.6 to 9.9.
MEDIAN_BETA_FLOP = 10.0
BETA_FLOP = Range(8.0, 12.0, mid=MEDIAN_BETA_FLOP)
#: Model FLOP over dense peak FLOP of a pretraining run where nothing is said (assumption: the documents'; Epoch's runs
#: lie in 19 to 46 %), and of decoding over that (assumption: memory binds decoding).
PRETRAINING_UTILIZATION_FRACTION = 0.4
DECODING_UTILIZATION_RATIO = 1 / 3


def pretraining_flop(n_params_active: Num, tokens: Num) -> Num:
    """Compute of pretraining, ``C = 6 N D``.

    Parameters
    ----------
    n_params_active : float or ndarray
        Parameters multiplied per token [-].
    tokens : float or ndarray
        Tokens trained on [token].

    Returns
    -------
    float or ndarray
        Model FLOP: attention, embeddings and recomputation are not counted [FLOP].

    References
    ----------
    compute-ledger C011; training-systems C088.

    Examples
    --------
    >>> f"{pretraining_flop(37e9, 14.8e12):.4g}"
    '3.286e+24'
    """
    return TRAINING_FLOP_PER_PARAM * n_params_active * tokens


def inference_flop(n_params_active: Num, tokens: Num) -> Num:
    """Compute of a forward pass over tokens, ``C = 2 N D``.

    Parameters
    ----------
    n_params_active : float or ndarray
        Parameters multiplied per token [-].
    tokens : float or ndarray
        Tokens read and written [token].

    Returns
    -------
    float or ndarray
        Model FLOP: attention and embeddings are not counted [FLOP].

    References
    ----------
    compute-ledger C009, C012, C028.

    Examples
    --------
    >>> inference_flop(1e11, 3e14)
    6e+25
    """
    return FORWARD_FLOP_PER_PARAM * n_params_active * tokens


def rl_flop(n_params_active: Num, tokens: Num, beta: Num) -> Num:
    """Compute of reinforcement learning, ``C = beta N D``.

    Parameters
    ----------
    n_params_active : float or ndarray
        Parameters multiplied per token [-].
    tokens : float or ndarray
        Tokens that ``beta`` is stated for: sampled, or kept and trained on [token].
    beta : float or ndarray
        ``beta_flop`` gives FLOP; ``beta_gpu_time`` gives what pretraining would have done in the same GPU-time
        [FLOP/parameter/token].

    Returns
    -------
    float or ndarray
        Compute in the currency of ``beta`` [FLOP].

    References
    ----------
    compute-ledger C013.

    Examples
    --------
    >>> rl_flop(1e11, 5e13, 12.0)
    6e+25
    """
    return beta * n_params_active * tokens


def rl_beta(n_samples_per_kept: Num, utilization_ratio: Num = 1.0) -> Num:
    """RL coefficient where every kept token costs training and the decoding of its group, ``6 + 2 k / e``.

    Parameters
    ----------
    n_samples_per_kept : float or ndarray
        Tokens sampled for each token trained on, ``k`` [-].
    utilization_ratio : float or ndarray
        Utilisation of sampling over that of training, ``e``; 1 gives ``beta_flop``, the measured ratio
        ``beta_gpu_time`` [-].

    Returns
    -------
    float or ndarray
        Coefficient per kept token; verification and waiting not counted [FLOP/parameter/token].

    References
    ----------
    compute-ledger C027.

    Examples
    --------
    >>> rl_beta(4), rl_beta(64)
    (14.0, 134.0)
    """
    return TRAINING_FLOP_PER_PARAM + FORWARD_FLOP_PER_PARAM * n_samples_per_kept / utilization_ratio


def equal_gpu_time_flop(flop: Num, utilization_ratio: Num) -> Num:
    """Work that another phase does in the same GPU-time, ``C e``.

    Parameters
    ----------
    flop : float or ndarray
        Work of the first phase; also a coefficient such as ``beta`` [FLOP].
    utilization_ratio : float or ndarray
        Utilisation of the other phase over that of the first, ``e`` [-].

    Returns
    -------
    float or ndarray
        Work of the other phase [FLOP].

    References
    ----------
    rlvr-gpu-time C002, C003; roofline-lecture C131.

    Examples
    --------
    >>> equal_gpu_time_flop(3e26, 1 / 5)
    6e+25
    """
    return flop * utilization_ratio


def tokens_inference_balanced(tokens_pretraining: Num, utilization_ratio: Num = 1.0) -> Num:
    """Lifetime tokens at which inference costs the GPU-time of pretraining, ``D_inf = 3 e D_pre``.

    Parameters
    ----------
    tokens_pretraining : float or ndarray
        Pretraining tokens [token].
    utilization_ratio : float or ndarray
        Utilisation of inference over that of pretraining, ``e``; 1 balances FLOP [-].

    Returns
    -------
    float or ndarray
        Inference tokens [token].

    References
    ----------
    compute-ledger C014, C015; roofline-lecture C132 (equal token counts need ``e = 1/3``).

    Examples
    --------
    >>> tokens_inference_balanced(1e14), round(tokens_inference_balanced(1e14, 1 / 3) / 1e14, 12)
    (300000000000000.0, 1.0)
    """
    return TRAINING_FLOP_PER_PARAM / FORWARD_FLOP_PER_PARAM * utilization_ratio * tokens_pretraining


def tokens_pretraining_balanced(tokens_inference: Num, utilization_ratio: Num = 1.0) -> Num:
    """Pretraining tokens that cost the GPU-time of a lifetime's inference, ``D_pre = D_inf / (3 e)``.

    Parameters
    ----------
    tokens_inference : float or ndarray
        Lifetime inference tokens [token].
    utilization_ratio : float or ndarray
        Utilisation of inference over that of pretraining, ``e``; 1 balances FLOP [-].

    Returns
    -------
    float or ndarray
        Pretraining tokens [token].

    References
    ----------
    compute-ledger C020, C025.

    Examples
    --------
    >>> tokens_pretraining_balanced(6e14)
    200000000000000.0
    """
    return tokens_inference / (TRAINING_FLOP_PER_PARAM / FORWARD_FLOP_PER_PARAM * utilization_ratio)


def tokens_rl_balanced(tokens_pretraining: Num, beta: Num) -> Num:
    """RL tokens that cost as much as pretraining, ``D_RL = 6 / beta D_pre``.

    Parameters
    ----------
    tokens_pretraining : float or ndarray
        Pretraining tokens [token].
    beta : float or ndarray
        ``beta_flop`` balances FLOP, ``beta_gpu_time`` GPU-time [FLOP/parameter/token].

    Returns
    -------
    float or ndarray
        RL tokens, sampled or kept as ``beta`` counts them [token].

    References
    ----------
    compute-ledger C016, C017, C168.

    Examples
    --------
    >>> tokens_rl_balanced(1.0, 8.0), tokens_rl_balanced(1.0, 12.0)
    (0.75, 0.5)
    """
    return TRAINING_FLOP_PER_PARAM / beta * tokens_pretraining


def sparsity_ratio(total: Num, active: Num) -> Num:
    """Total over active: of parameters, or of experts; the two differ.

    Parameters
    ----------
    total, active : float or ndarray
        Stored, and used per token: parameters or experts [-].

    Returns
    -------
    float or ndarray
        1 for a dense model [-].

    References
    ----------
    training-systems C091 (8 of 256 experts is 32, 37B of 671B parameters is 18).

    Examples
    --------
    >>> sparsity_ratio(256, 8), round(sparsity_ratio(671, 37), 1)
    (32.0, 18.1)
    """
    return total / active


def sparsity_fraction(total: Num, active: Num) -> Num:
    """Share that a token leaves unused, ``1 - active / total``.

    Parameters
    ----------
    total, active : float or ndarray
        Stored, and used per token: parameters or experts [-].

    Returns
    -------
    float or ndarray
        0 for a dense model [-].

    References
    ----------
    training-systems C083..C085, C147.

    Examples
    --------
    >>> sparsity_fraction(20, 1), sparsity_fraction(8000, 400)
    (0.95, 0.95)
    """
    return 1.0 - active / total


@dataclass(frozen=True, slots=True)
class BlackboardModel:
    """What the roofline needs to know about a model.

    Attributes
    ----------
    n_params_active, n_params_total : float or ndarray
        Multiplied per token; read in every step [-].
    bytes_per_param : float or ndarray
        Of the stored weights [byte].
    kv_bytes_per_token : float or ndarray
        All layers, one token [byte/token].
    """

    n_params_active: Num
    n_params_total: Num
    bytes_per_param: Num = 2.0
    kv_bytes_per_token: Num = 0.0


@dataclass(frozen=True, slots=True)
class BlackboardMachine:
    """One chip, or a replica's chips added up, without any loss.

    Attributes
    ----------
    peak_flop_per_s : float or ndarray
        Dense peak at the precision of the products [FLOP/s].
    hbm_bytes_per_s : float or ndarray
        Memory bandwidth [byte/s].
    """

    peak_flop_per_s: Num
    hbm_bytes_per_s: Num


@dataclass(frozen=True, slots=True)
class DecodeTimes:
    """One decode step by part; computing and moving overlap.

    Attributes
    ----------
    compute_s, weights_s, kv_s : float or ndarray
        Multiplying, reading the weights, reading the KV cache [s].
    """

    compute_s: Num
    weights_s: Num
    kv_s: Num

    @property
    def memory_s(self) -> Num:
        """Time of all memory traffic [s]."""
        return self.weights_s + self.kv_s

    @property
    def step_s(self) -> Num:
        """Time of the step, the greater of computing and moving [s]."""
        return np.maximum(self.compute_s, self.memory_s)

    @property
    def bound(self) -> NDArray[np.str_]:
        """``compute`` or ``memory``."""
        return np.where(np.asarray(self.compute_s) >= self.memory_s, "compute", "memory")


def decode_times(
    decode_batch: Num, context_tokens: Num, model: BlackboardModel, machine: BlackboardMachine
) -> DecodeTimes:
    """Two-equation roofline of a decode step.

    ``t_compute = 2 B N_active / F``, ``t_memory = (N_total bytes + B L k) / W``, ``t = max``. Assumes that a batch
    touches every expert, perfect overlap, and no network or launch time; attention's own FLOP are left out.

    Parameters
    ----------
    decode_batch : float or ndarray
        Sequences in the step, one token each, ``B`` [-].
    context_tokens : float or ndarray
        Mean tokens in a sequence's KV cache, ``L`` [token].
    model : BlackboardModel
        ``N_active``, ``N_total``, bytes, ``k``.
    machine : BlackboardMachine
        ``F``, ``W``.

    Returns
    -------
    DecodeTimes
        By part; all arguments broadcast.

    References
    ----------
    roofline-lecture C116, C136, C145.

    Examples
    --------
    >>> model = BlackboardModel(37e9, 6.71e11, bytes_per_param=1.0, kv_bytes_per_token=70272)
    >>> times = decode_times(256, 4096, model, BlackboardMachine(8 * 1.979e15, 8 * 3.35e12))
    >>> round(float(times.step_s) * 1e3, 1), str(times.bound)
    (27.8, 'memory')
    """
    return DecodeTimes(
        compute_s=inference_flop(model.n_params_active, decode_batch) / machine.peak_flop_per_s,
        weights_s=model.n_params_total * model.bytes_per_param / machine.hbm_bytes_per_s,
        kv_s=decode_batch * context_tokens * model.kv_bytes_per_token / machine.hbm_bytes_per_s,
    )


def decode_intensity_flop_per_byte(decode_batch: Num, context_tokens: Num, model: BlackboardModel) -> Num:
    """FLOP per byte of HBM traffic in a decode step, ``2 B N_active / (N_total bytes + B L k)``.

    Parameters
    ----------
    decode_batch : float or ndarray
        Sequences in the step [-].
    context_tokens : float or ndarray
        Mean tokens in a sequence's KV cache [token].
    model : BlackboardModel
        What is served.

    Returns
    -------
    float or ndarray
        Rises with the batch towards ``2 N_active / (L k)``; memory binds below the ridge [FLOP/byte].

    Examples
    --------
    >>> decode_intensity_flop_per_byte(1, 0, BlackboardModel(7e10, 7e10))
    1.0
    """
    unit = decode_times(decode_batch, context_tokens, model, BlackboardMachine(1.0, 1.0))
    return unit.compute_s / unit.memory_s


def ridge_flop_per_byte(peak_flop_per_s: Num, hbm_bytes_per_s: Num) -> Num:
    """Intensity at which computing and moving take equally long, ``F / W``.

    Parameters
    ----------
    peak_flop_per_s : float or ndarray
        Dense peak at one stated precision [FLOP/s].
    hbm_bytes_per_s : float or ndarray
        Memory bandwidth of the same package [byte/s].

    Returns
    -------
    float or ndarray
        Ridge point [FLOP/byte].

    References
    ----------
    roofline-lecture C115 (H100 SXM, bf16).

    Examples
    --------
    >>> round(ridge_flop_per_byte(989.5e12, 3.35e12))
    295
    """
    return peak_flop_per_s / hbm_bytes_per_s
