"""What sparsity is worth: dense-equivalent compute by several laws, and what a limit on fresh tokens leaves of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from computeledger.arrays import Num, Range, Uncertain
from computeledger.economics.scaling.forms import dense_params_clark_2022, load_constants, loss_abnar_2025
from computeledger.economics.scaling.laws import (
    LossLaw,
    load_loss_law,
    pretraining_loss,
    read_law,
    tokens_per_param_at_optimum,
)
from computeledger.errors import InputError
from computeledger.physics.blackboard.ledgers import TRAINING_FLOP_PER_PARAM
from computeledger.units import format_times

_ROUTERS = ("clark_2022", "clark_2022_rl_r", "clark_2022_hash")
#: Ends of Clark et al.'s runs, base parameters and experts; and of Krajewski et al.'s, all parameters.
_CLARK_FIT, _KRAJEWSKI_FIT = (1.5e7, 1.3e9, 512.0), (1.29e8, 3.7e9)


def sparsity_multiplier(total_over_active: float, unverified: bool = False) -> Uncertain:
    """Compute that a dense model would need for the loss of a sparse one, read off Abnar et al.'s figure.

    Straight in logarithms between 1, 8 (3 times) and 32 (6 to 7 times), and on beyond.

    Parameters
    ----------
    total_over_active : float
        Parameters over those that multiply a token [-].
    unverified : bool
        Must be set: the figure was read in notes only.

    Returns
    -------
    float or Range
        Multiplier [-].

    Raises
    ------
    InputError
        A ratio below 1, or nobody asked for the unverified.

    Examples
    --------
    >>> sparsity_multiplier(8.0, unverified=True)
    3.0
    >>> sparsity_multiplier(32.0, unverified=True)
    Range(low=6.0, high=7.0, bounded=False)
    """
    if total_over_active < 1:
        raise InputError(f"total over active parameters {total_over_active:g}: at least 1")
    k = load_constants("sparsity_multiplier", unverified)
    at = np.log([1.0, k["total_over_active_1"], k["total_over_active_2"]])
    x = np.log(total_over_active)
    low, high = (float(np.exp(_line(x, at, np.log([1.0, k[f"{end}_1"], k[f"{end}_2"]])))) for end in ("low", "high"))
    return round(low, 9) if np.isclose(low, high) else Range(low=round(low, 9), high=round(high, 9))


def _line(x: float, at: np.ndarray, values: np.ndarray) -> float:
    """Linear interpolation that goes on beyond the last point."""
    if x <= at[-1]:
        return float(np.interp(x, at, values))
    slope = (values[-1] - values[-2]) / (at[-1] - at[-2])
    return float(values[-1] + slope * (x - at[-1]))


def with_sparsity(law: LossLaw, multiplier: Num, words: str = "") -> LossLaw:
    """A law for sparse models: ``N`` active parameters count as ``m N``.

    The same factor follows for the compute of equal loss and, where both exponents are alike, for the tokens per active
    parameter at the optimum, as the figures read off Abnar et al. say (3 and 3 times at 1:8, 6 to 7 and 6 at 1:32).

    Parameters
    ----------
    law : LossLaw
        Of dense models.
    multiplier : float or ndarray
        Dense-equivalent compute, ``m`` [-].
    words : str
        How to name it.

    Returns
    -------
    LossLaw
        With a lighter term of size.

    Examples
    --------
    >>> dense = load_loss_law("besiroglu_2024")
    >>> sparse = with_sparsity(dense, 3.0)
    >>> round(float(tokens_per_param_at_optimum(1e25, sparse) / tokens_per_param_at_optimum(1e25, dense)), 1)
    2.9
    """
    if np.any(np.asarray(multiplier) <= 0):
        raise InputError("the multiplier of sparsity must be greater than 0")
    name = words or f"sparse: worth {format_times(float(np.median(multiplier)))} the compute of a dense model"
    return replace(law, A=law.A * multiplier**-law.alpha, changes=(*law.changes, name))


def moe_multipliers(flop: float, n_experts: int = 64) -> list[dict[str, str | float | bool]]:
    """What routing is worth by the laws that could be read: dense parameters or compute of equal loss, over its own.

    Parameters
    ----------
    flop : float
        Training compute; sets the size by Besiroglu et al.'s optimum [FLOP].
    n_experts : int
        Of Clark et al.'s layers; Krajewski et al. have 64 [-].

    Returns
    -------
    list of dict of str to str, float or bool
        Law, what is multiplied, multiplier [-], whether this is inside its fit, and the fit.

    Examples
    --------
    >>> rows = moe_multipliers(1e20)
    >>> [(row["law"], round(row["multiplier"], 1), row["in_fit"]) for row in rows][:2]
    [('clark_2022', 3.2, True), ('clark_2022_rl_r', 2.2, True)]
    """
    n = float(np.sqrt(flop / TRAINING_FLOP_PER_PARAM / tokens_per_param_at_optimum(flop)))
    rows: list[dict[str, str | float | bool]] = []
    for router in _ROUTERS:
        low, high, most = _CLARK_FIT
        rows.append({
            "law": router, "multiplies": "parameters", "n_experts": float(n_experts),
            "multiplier": float(dense_params_clark_2022(n, n_experts, router) / n),
            "in_fit": bool(low <= n <= high and n_experts <= most), "fit": read_law(router)[0]["fit"],
        })  # fmt: skip
    for granularity in (1.0, 16.0):
        sparse = _krajewski_by_active(granularity)
        size = float(np.sqrt(flop / TRAINING_FLOP_PER_PARAM / tokens_per_param_at_optimum(flop, sparse)))
        low, high = _KRAJEWSKI_FIT
        rows.append({
            "law": "krajewski_2024", "multiplies": f"compute, granularity {granularity:g}", "n_experts": 64.0,
            "multiplier": _compute_of_equal_loss(flop, sparse, load_loss_law("krajewski_2024_dense")) / flop,
            "in_fit": bool(low <= size * _total_over_active() <= high), "fit": read_law("krajewski_2024")[0]["fit"],
        })  # fmt: skip
    return rows


def _total_over_active() -> float:
    return (8.0 * load_constants("krajewski_2024")["n_experts"] + 4.0) / 12.0


def _krajewski_by_active(granularity: float) -> LossLaw:
    """Krajewski et al.'s law in active parameters; the cost of routing is left out."""
    k = load_constants("krajewski_2024")
    size = (k["g"] / granularity ** k["gamma"] + k["a"]) * _total_over_active() ** -k["alpha"]
    dense = load_loss_law("krajewski_2024_dense")
    return replace(dense, name="krajewski_2024", E=k["c"], A=size, B=k["b"], alpha=k["alpha"], beta=k["beta"])


def _lowest_loss(flop: Num, law: LossLaw) -> Num:
    """Loss at the law's own optimum."""
    n = np.sqrt(flop / TRAINING_FLOP_PER_PARAM / tokens_per_param_at_optimum(flop, law))
    return pretraining_loss(n, flop / TRAINING_FLOP_PER_PARAM / n, law)


def _compute_of_equal_loss(flop: float, law: LossLaw, other: LossLaw) -> float:
    """Compute at which another law's optimum has the loss of this one's."""
    wanted, low, high = float(_lowest_loss(flop, law)), np.log(flop) - 12.0, np.log(flop) + 24.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _lowest_loss(np.exp(middle), other) > wanted else (low, middle)
    return float(np.exp(0.5 * (low + high)))


def sparsity_table(
    flop: float, unique_tokens: float, law: LossLaw, sparsities: tuple[float, ...] = (0.0, 0.75, 0.9, 0.95, 0.98)
) -> list[dict[str, float]]:
    """Loss of each sparsity at a budget, with all the fresh tokens it wants and with so many; from unverified laws.

    With a limit, tokens beyond it repeat and are worth less (Muennighoff et al.), so that a sparse model, which wants
    more tokens per active parameter, loses part of its lead. Abnar et al.'s equation stands beside it, at the limit's
    own size where it binds.

    Parameters
    ----------
    flop : float
        Training compute [FLOP].
    unique_tokens : float
        Fresh tokens there are [token].
    law : LossLaw
        Of dense models.
    sparsities : tuple of float
        Parameters that a token leaves unused [-].

    Returns
    -------
    list of dict of str to float
        Per sparsity: multiplier, active parameters, tokens, epochs, loss without and with the limit, and Abnar et al.'s
        with it [-].

    Examples
    --------
    >>> rows = sparsity_table(1e26, 20e12, load_loss_law("besiroglu_2024"))
    >>> lead = [rows[2][key] - rows[4][key] for key in ("loss_unlimited", "loss_limited")]  # of 98 % over 90 %
    >>> bool(0 < lead[1] < lead[0])
    True
    """
    if not (flop > 0 and unique_tokens > 0):
        raise InputError("a budget and a number of fresh tokens greater than 0 are needed")
    rows = []
    for sparsity in sparsities:
        given = sparsity_multiplier(1.0 / (1.0 - sparsity), unverified=True)
        multiplier = float(given.quantile(0.0)) if isinstance(given, Range) else float(given)
        free = with_sparsity(law, multiplier)
        limited = replace(free, unique_tokens=unique_tokens)
        best = float(np.sqrt(flop / TRAINING_FLOP_PER_PARAM / tokens_per_param_at_optimum(flop, free)))
        sizes = best * np.geomspace(0.2, 50.0, 2001)
        losses = pretraining_loss(sizes, flop / TRAINING_FLOP_PER_PARAM / sizes, limited)
        n = float(sizes[int(np.argmin(losses))])
        tokens = flop / TRAINING_FLOP_PER_PARAM / n
        most = min(tokens, unique_tokens)
        active = flop / TRAINING_FLOP_PER_PARAM / most
        rows.append({
            "sparsity_fraction": sparsity, "multiplier": multiplier, "n_params_active": n, "tokens": tokens,
            "epochs": max(tokens / unique_tokens, 1.0), "loss_unlimited": float(_lowest_loss(flop, free)),
            "loss_limited": float(np.min(losses)),
            "loss_abnar_2025": float(loss_abnar_2025(active / (1.0 - sparsity), most, sparsity, unverified=True)),
        })  # fmt: skip
    return rows
