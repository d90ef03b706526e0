"""Loss laws of other forms: repeated data, routed and fine-grained experts, sparsity, precision; each called by name.

None of them enters an allocation by itself; most were read in notes that copy the papers' tables and are marked so.
"""

from __future__ import annotations

import numpy as np

from computeledger.arrays import Num
from computeledger.errors import unknown_id
from computeledger.facts.catalog import shipped_file
from computeledger.facts.reading import read_file, read_provenance

_NAMES = ("muennighoff_2023", "clark_2022", "krajewski_2024", "abnar_2025", "kumar_2024")


def load_constants(name: str) -> dict[str, float]:
    """Constants of a law of another form.

    Parameters
    ----------
    name : str
        Author and year.

    Returns
    -------
    dict of str to float
        As published [-].

    Examples
    --------
    >>> load_constants("clark_2022")["E_max"]
    314.478
    """
    if name not in _NAMES:
        raise unknown_id("loss law", name, _NAMES)
    document = read_file(shipped_file("laws.toml"), shipped=True)
    table = dict(document.table[name])
    constants: dict[str, float] = table.pop("constants")
    read_provenance(document, name, table)
    return constants


def repeated_tokens_muennighoff_2023(unique_tokens: Num, epochs: Num) -> Num:
    """What repeated data are worth in fresh tokens, ``U + U R* (1 - exp(-(epochs - 1) / R*))``.

    Parameters
    ----------
    unique_tokens : float or ndarray
        Tokens seen for the first time, ``U`` [token].
    epochs : float or ndarray
        Passes over them, fitted on 1..500 [-].

    Returns
    -------
    float or ndarray
        Fresh tokens of the same worth [token].

    References
    ----------
    muennighoff-2023.

    Examples
    --------
    >>> [round(float(repeated_tokens_muennighoff_2023(1.0, n)) / n, 3) for n in (4, 16)]
    [0.931, 0.661]
    """
    half = load_constants("muennighoff_2023")["R_D"]
    return unique_tokens * (1 + half * (1 - np.exp(-(epochs - 1) / half)))


def effective_params_kumar_2024(
    n_params: Num, bits_weights: Num, bits_activations: Num = 16.0, bits_kv: Num = 16.0
) -> Num:
    """Parameters of full precision that do as well, ``N (1 - e^(-P_w/g_w)) (1 - e^(-P_a/g_a)) (1 - e^(-P_kv/g_kv))``.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters, fitted on 3e7..2.2e8 [-].
    bits_weights, bits_activations, bits_kv : float or ndarray
        Precision in training [bit].

    Returns
    -------
    float or ndarray
        Effective parameters [-].

    References
    ----------
    kumar-2024.

    Examples
    --------
    >>> [round(float(effective_params_kumar_2024(1.0, bits)), 2) for bits in (4, 8)]
    [0.78, 0.95]
    """
    k = load_constants("kumar_2024")
    share = (1 - np.exp(-bits_weights / k["gamma_weights"])) * (1 - np.exp(-bits_activations / k["gamma_activations"]))
    kept: Num = n_params * share * (1 - np.exp(-bits_kv / k["gamma_kv"]))
    return kept


def loss_clark_2022(n_params: Num, n_experts: Num) -> Num:
    """Loss of a model routed over experts, ``log10 L = a log10 N + b log10 E' + c log10 N log10 E' + d``.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters of the dense base, fitted on 1.5e7..1.3e9 [-].
    n_experts : float or ndarray
        Experts, up to 512; ``E'`` saturates [-].

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
    k = load_constants("clark_2022")
    inner = 1 / (n_experts - 1 + 1 / (1 / k["E_start"] - 1 / k["E_max"])) + 1 / k["E_max"]
    size, experts = np.log10(n_params), -np.log10(inner)
    loss: Num = 10.0 ** (k["a"] * size + k["b"] * experts + k["c"] * size * experts + k["d"])
    return loss


def loss_krajewski_2024(n_params: Num, tokens: Num, granularity: Num = 1.0) -> Num:
    """Loss of a mixture of 64 experts, ``c + (g / G^gamma + a) / N^alpha + b / D^beta``.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters without embeddings, fitted on 1.3e8..3.7e9 [-].
    tokens : float or ndarray
        Tokens, fitted on 1.6e10..1.3e11 [token].
    granularity : float or ndarray
        How finely experts are cut, ``G``, 1..16 [-].

    Returns
    -------
    float or ndarray
        Loss on C4 [-].

    References
    ----------
    krajewski-2024.

    Examples
    --------
    >>> bool(loss_krajewski_2024(1e9, 5e10, 8.0) < loss_krajewski_2024(1e9, 5e10, 1.0))
    True
    """
    k = load_constants("krajewski_2024")
    size = (k["g"] / granularity ** k["gamma"] + k["a"]) / n_params ** k["alpha"]
    loss: Num = k["c"] + size + k["b"] / tokens ** k["beta"]
    return loss


def loss_abnar_2025(n_params_total: Num, tokens: Num, sparsity_fraction: Num) -> Num:
    """Loss of a sparse model, ``a/N^alpha + b/D^beta + c/(1-S)^lambda + d/((1-S)^delta N^gamma) + e``.

    Parameters
    ----------
    n_params_total : float or ndarray
        All parameters, ``N`` [-].
    tokens : float or ndarray
        Tokens, ``D`` [token].
    sparsity_fraction : float or ndarray
        Parameters that a token leaves unused, ``S``, fitted on 0..0.95 [-].

    Returns
    -------
    float or ndarray
        Loss [-].

    References
    ----------
    abnar-2025.

    Examples
    --------
    >>> bool(loss_abnar_2025(1e10, 1e11, 0.9) > loss_abnar_2025(1e10, 1e11, 0.0))
    True
    """
    k = load_constants("abnar_2025")
    used = 1 - np.asarray(sparsity_fraction, float)
    first = k["a"] / n_params_total ** k["alpha"] + k["b"] / tokens ** k["beta"] + k["c"] / used ** k["lambda"]
    loss: Num = first + k["d"] / (used ** k["delta"] * n_params_total ** k["gamma"]) + k["e"]
    return loss
