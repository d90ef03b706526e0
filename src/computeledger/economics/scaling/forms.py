"""Loss laws of other forms: repeated data, routed and fine-grained experts, sparsity, precision, RL; called by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from computeledger.arrays import Num
from computeledger.economics.scaling.laws import (
    LossLaw,
    law_names,
    read_law,
)
from computeledger.errors import InputError, unknown_id


def load_constants(name: str, unverified: bool = False) -> dict[str, float]:
    """Constants of a law of another form.

    Parameters
    ----------
    name : str
        Author and year.
    unverified : bool
        Whether one that was read in notes only is wanted.

    Returns
    -------
    dict of str to float
        As published [-].

    Examples
    --------
    >>> load_constants("clark_2022")["E_max"]
    314.478
    """
    names = tuple(one for one in law_names() if "constants" in read_law(one, unverified=True)[0])
    if name not in names:
        raise unknown_id("loss law", name, names)
    constants: dict[str, float] = read_law(name, unverified)[0]["constants"]
    return constants


def kept_params_kumar_2024(bits_weights: Num, bits_activations: Num = 16.0, bits_kv: Num = 16.0) -> Num:
    """Share of the parameters that training in few bits leaves, ``prod (1 - exp(n_x - P_x / gamma_x))``.

    Parameters
    ----------
    bits_weights, bits_activations, bits_kv : float or ndarray
        Precision in training, integers; fitted on 3..16 for weights and above 3 for the others [bit].

    Returns
    -------
    float or ndarray
        Effective over real parameters [-].

    Raises
    ------
    InputError
        So few bits that none are left: the paper's runs diverged there.

    References
    ----------
    kumar-2024.

    Examples
    --------
    >>> [round(float(kept_params_kumar_2024(bits)), 2) for bits in (4, 8)]
    [0.69, 0.93]
    """
    k = load_constants("kumar_2024")
    share = np.ones(())
    for part, bits in (("weights", bits_weights), ("activations", bits_activations), ("kv", bits_kv)):
        share = share * np.maximum(1 - np.exp(k[f"n_{part}"] - np.asarray(bits, float) / k[f"gamma_{part}"]), 0.0)
        if np.any(share <= 0):
            raise InputError(f"{np.min(bits):g} bits for {part}: Kumar et al.'s law leaves no parameters, give more")
    return share


def with_precision(law: LossLaw, bits_weights: Num, bits_activations: Num = 16.0, bits_kv: Num = 16.0) -> LossLaw:
    """A law for training in few bits: ``N`` counts as Kumar et al.'s effective parameters.

    Parameters
    ----------
    law : LossLaw
        Fitted in full precision.
    bits_weights, bits_activations, bits_kv : float or ndarray
        Precision in training [bit].

    Returns
    -------
    LossLaw
        With a heavier term of size; that the share carries over to other laws and sizes is assumed.

    Examples
    --------
    >>> from computeledger.economics.scaling.laws import load_loss_law
    >>> full = load_loss_law("kumar_2024")
    >>> bool(with_precision(full, 4.0).A > full.A)
    True
    """
    share = kept_params_kumar_2024(bits_weights, bits_activations, bits_kv)
    words = f"trained in {bits_weights:g}/{bits_activations:g}/{bits_kv:g} bits (weights/activations/cache)"
    return replace(law, A=law.A * share**-law.alpha, changes=(*law.changes, words))


def loss_of_quantising_kumar_2024(n_params: Num, tokens: Num, bits_weights: Num) -> Num:
    """Loss that rounding trained weights adds, ``C_T D^gamma_D / N^gamma_N exp(n - P / gamma)``: more with more data.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters, fitted on 3e7..2.2e8 [-].
    tokens : float or ndarray
        Tokens, fitted up to 2.6e10 [token].
    bits_weights : float or ndarray
        Of the weights after training (GPTQ) [bit].

    Returns
    -------
    float or ndarray
        Added loss [-].

    References
    ----------
    kumar-2024.

    Examples
    --------
    >>> bool(loss_of_quantising_kumar_2024(1e8, 2e10, 4.0) > loss_of_quantising_kumar_2024(1e8, 1e10, 4.0))
    True
    """
    k = load_constants("kumar_2024")
    spread = tokens ** k["gamma_D"] / n_params ** k["gamma_N"]
    added: Num = k["C_T"] * spread * np.exp(k["n_post"] - bits_weights / k["gamma_post"])
    return added


def pass_rate_khatri_2025(gpu_hours: Num, start_fraction: Num, recipe: str = "scalerl") -> Num:
    """Pass rate that RL reaches, ``R0 + (A - R0) / (1 + (C_mid / C)^B)``.

    Parameters
    ----------
    gpu_hours : float or ndarray
        Of RL on GB200, fitted on 1.5e3..1e5 [h].
    start_fraction : float or ndarray
        Pass rate before it, ``R0`` [-].
    recipe : str
        Run of the paper's table.

    Returns
    -------
    float or ndarray
        Pass rate on held-out problems [-].

    References
    ----------
    khatri-2025.

    Examples
    --------
    >>> round(float(pass_rate_khatri_2025(2542.0, 0.4)), 3)  # half of the gain, by definition
    0.505
    """
    k = rl_recipe(recipe)
    rate: Num = start_fraction + (k["A"] - start_fraction) / (1 + (k["C_mid"] / gpu_hours) ** k["B"])
    return rate


def rl_recipe(name: str) -> dict[str, float]:
    """Sigmoid of one run of ScaleRL.

    Parameters
    ----------
    name : str
        ``scalerl``, ``32k``, ``scout``, ...: a row of the paper's table.

    Returns
    -------
    dict of str to float
        ``A`` [-], ``B`` [-] and ``C_mid``, in GPU-hours of GB200 [h].

    Examples
    --------
    >>> rl_recipe("scalerl")["B"]
    1.92
    """
    recipes: dict[str, dict[str, float]] = read_law("scalerl_2025")[0]["recipes"]
    if name not in recipes:
        raise unknown_id("recipe of ScaleRL", name, recipes)
    return recipes[name]


def loss_clark_2022(n_params: Num, n_experts: Num, router: str = "clark_2022") -> Num:
    """Loss of a model routed over experts, ``log10 L = a log10 N + b log10 E' + c log10 N log10 E' + d``.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters of the dense base, fitted on 1.5e7..1.3e9 [-].
    n_experts : float or ndarray
        Experts, up to 512; ``E'`` saturates [-].
    router : str
        ``clark_2022`` (S-BASE), ``clark_2022_rl_r`` or ``clark_2022_hash``.

    Returns
    -------
    float or ndarray
        Validation loss [-].

    References
    ----------
    clark-2022.

    Examples
    --------
    >>> bool(loss_clark_2022(1e9, 64) < loss_clark_2022(1e9, 1))
    True
    """
    k = load_constants(router)
    size, experts = np.log10(n_params), _log_experts(n_experts, k)
    loss: Num = 10.0 ** (k["a"] * size + k["b"] * experts + k["c"] * size * experts + k["d"])
    return loss


def _log_experts(n_experts: Num, k: dict[str, float]) -> Num:
    """``log10 E'``, the saturated number of experts."""
    inner = 1 / (n_experts - 1 + 1 / (1 / k["E_start"] - 1 / k["E_max"])) + 1 / k["E_max"]
    return -np.log10(inner)


def dense_params_clark_2022(n_params: Num, n_experts: Num, router: str = "clark_2022") -> Num:
    """Parameters of the dense model with the loss of a routed one.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters of the dense base, fitted on 1.5e7..1.3e9 [-].
    n_experts : float or ndarray
        Experts, up to 512 [-].
    router : str
        As for :func:`loss_clark_2022`.

    Returns
    -------
    float or ndarray
        Dense parameters [-].

    References
    ----------
    clark-2022.

    Examples
    --------
    >>> round(float(dense_params_clark_2022(1e9, 64) / 1e9), 1)
    3.1
    """
    k = load_constants(router)
    size, one, many = np.log10(n_params), _log_experts(1.0, k), _log_experts(n_experts, k)
    reached = k["a"] * size + k["b"] * many + k["c"] * size * many
    found: Num = 10.0 ** ((reached - k["b"] * one) / (k["a"] + k["c"] * one))
    return found


def loss_abnar_2025(n_params_total: Num, tokens: Num, sparsity_fraction: Num, unverified: bool = False) -> Num:
    """Loss of a sparse model, ``a/N^alpha + b/D^beta + c/(1-S)^lambda + d/((1-S)^delta N^gamma) + e``.

    Parameters
    ----------
    n_params_total : float or ndarray
        All parameters, ``N`` [-].
    tokens : float or ndarray
        Tokens, ``D`` [token].
    sparsity_fraction : float or ndarray
        Parameters that a token leaves unused, ``S``, fitted on 0..0.95 [-].
    unverified : bool
        Must be set: the coefficients were read in notes only.

    Returns
    -------
    float or ndarray
        Loss [-].

    References
    ----------
    abnar-2025.

    Examples
    --------
    >>> bool(loss_abnar_2025(1e10, 1e11, 0.9, True) > loss_abnar_2025(1e10, 1e11, 0.0, True))
    True
    """
    k = load_constants("abnar_2025", unverified)
    used = 1 - np.asarray(sparsity_fraction, float)
    first = k["a"] / n_params_total ** k["alpha"] + k["b"] / tokens ** k["beta"] + k["c"] / used ** k["lambda"]
    loss: Num = first + k["d"] / (used ** k["delta"] * n_params_total ** k["gamma"]) + k["e"]
    return loss
