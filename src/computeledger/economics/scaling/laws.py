"""Loss laws of pretraining and what they say about the size of a model: coefficients are facts, the rest follows."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from computeledger.arrays import Num
from computeledger.errors import InputError, unknown_id
from computeledger.facts.catalog import shipped_file
from computeledger.facts.reading import Document, read_file, read_provenance
from computeledger.physics.blackboard.ledgers import FORWARD_FLOP_PER_PARAM, TRAINING_FLOP_PER_PARAM

_COEFFICIENTS = ("E", "A", "B", "alpha", "beta")
_OVER_TRAINING = ("E", "a", "b", "eta")
#: Quantities whose range of fit a law may state.
FITTED = ("n_params", "tokens", "flop", "tokens_per_param")


@dataclass(frozen=True, slots=True)
class LossLaw:
    """A law ``L = E + A / N^alpha + B / D^beta``.

    Attributes
    ----------
    name : str
        Authors and year.
    E, A, B : float or ndarray
        Loss that nothing removes, and the weights of size and of data [-].
    alpha, beta : float or ndarray
        Exponents of parameters and of tokens [-].
    source, date, locator : str
        Where the coefficients were published.
    read : str
        How they are known: ``paper``, ``authors``, ``reproduced`` or ``notes``.
    fit : str
        What the law was fitted on.
    unique_tokens : float or ndarray
        Fresh tokens there are; beyond them data repeat and are worth less [token].
    changes : tuple of str
        What was laid over the published law.
    fitted : mapping of str to tuple of float
        Least and most of ``n_params`` [-], ``tokens`` [token], ``flop`` [FLOP] and ``tokens_per_param`` [token] that
        its authors fitted or tested it on, as far as they are known.
    covariance : tuple of tuple of float
        Of ``ln A``, ``ln B``, ``ln E``, ``alpha`` and ``beta``; empty where none was published [-].
    """

    name: str
    E: Num
    A: Num
    B: Num
    alpha: Num
    beta: Num
    source: str
    date: str
    locator: str
    read: str = "paper"
    fit: str = ""
    unique_tokens: Num = math.inf
    changes: tuple[str, ...] = ()
    fitted: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    covariance: tuple[tuple[float, ...], ...] = ()


def load_loss_law(name: str, unverified: bool = False) -> LossLaw:
    """Load a law by name.

    Parameters
    ----------
    name : str
        One of :func:`loss_law_names`; a hyphen does for the underscore.
    unverified : bool
        Whether a law is wanted whose coefficients were read in notes only.

    Returns
    -------
    LossLaw
        Its coefficients with their source.

    Raises
    ------
    InputError
        The law was read in notes only, and nobody asked for such.

    Examples
    --------
    >>> load_loss_law("besiroglu_2024").alpha
    0.3478
    >>> law = load_loss_law("gadre-2024-c4")  # 141 and 190 over C^0.121, written in N and D
    >>> round(law.A, 1), law.alpha
    (113.5, 0.242)
    """
    document, name = _laws(), name.replace("-", "_")
    if name not in loss_law_names():
        raise unknown_id("loss law", name, loss_law_names())
    table, origin = read_law(name, unverified)
    kind, needed = ("over_training", _OVER_TRAINING) if "over_training" in table else ("coefficients", _COEFFICIENTS)
    coefficients: dict[str, float] = table[kind]
    if sorted(coefficients) != sorted(needed):
        raise document.error(f"{name}.{kind}", f"must be {', '.join(needed)}")
    if kind == "over_training":
        coefficients = _from_over_training(coefficients)
    size, data = (coefficients["A"], coefficients["alpha"]), (coefficients["B"], coefficients["beta"])
    return LossLaw(
        name, coefficients["E"], size[0], data[0], size[1], data[1], origin["source"], origin["date"],
        origin["locator"], read=table["read"], fit=table["fit"], fitted=_fitted(document, name, table),
        covariance=_covariance(document, name, table),
    )  # fmt: skip


def _part(document: Document, path: str, part: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Keys of a table, whose others say where they are from."""
    read_provenance(document, path, {key: value for key, value in part.items() if key not in keys})
    return {key: part[key] for key in keys if key in part}


def _fitted(document: Document, name: str, table: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """What a law was fitted or tested on, by quantity."""
    found: dict[str, tuple[float, float]] = {}
    if "range" not in table:
        return found
    for key, ends in _part(document, f"{name}.range", table["range"], FITTED).items():
        if len(ends) != 2 or not ends[0] < ends[1]:
            raise document.error(f"{name}.range.{key}", "must be the least and the most")
        found[key] = (float(ends[0]), float(ends[1]))
    return found


def _covariance(document: Document, name: str, table: Mapping[str, Any]) -> tuple[tuple[float, ...], ...]:
    """How sure the coefficients are, together."""
    if "uncertainty" not in table:
        return ()
    path = f"{name}.uncertainty"
    rows = _part(document, path, table["uncertainty"], ("covariance", "interval_95"))["covariance"]
    if [len(row) for row in rows] != [len(_COEFFICIENTS)] * len(_COEFFICIENTS):
        raise document.error(f"{path}.covariance", "must be of ln A, ln B, ln E, alpha and beta")
    return tuple(tuple(float(value) for value in row) for row in rows)


def _from_over_training(given: dict[str, float]) -> dict[str, float]:
    """``E + (a M^eta + b M^-eta) C^-eta`` in ``N`` and ``D``: ``A = a 6^-eta``, ``alpha = 2 eta``."""
    scale = TRAINING_FLOP_PER_PARAM ** -given["eta"]
    exponent = 2.0 * given["eta"]
    return {"E": given["E"], "A": given["a"] * scale, "B": given["b"] * scale, "alpha": exponent, "beta": exponent}


@functools.cache
def read_law(name: str, unverified: bool = False) -> tuple[dict[str, Any], dict[str, str]]:
    """The shipped table of a law of any form.

    Parameters
    ----------
    name : str
        Author and year.
    unverified : bool
        Whether one that was read in notes only is wanted.

    Returns
    -------
    tuple of dict
        The table, and source, date and locator.

    Raises
    ------
    InputError
        It was read in notes only, and nobody asked for such.

    Examples
    --------
    >>> read_law("abnar_2025")
    Traceback (most recent call last):
    computeledger.errors.InputError: abnar_2025 was read in notes only, not at abnar-2025: --unverified asks for it
    """
    document = _laws()
    table = dict(document.table[name])
    if table["read"] not in ("paper", "authors", "reproduced", "notes"):
        raise document.error(f"{name}.read", "must be paper, authors, reproduced or notes")
    kept = ("coefficients", "constants", "over_training", "recipes", "read", "fit", "range", "uncertainty",
            "local_steps", "n_params", "loss_percent")  # fmt: skip
    origin = read_provenance(document, name, {key: value for key, value in table.items() if key not in kept})
    if table["read"] == "notes" and not unverified:
        raise InputError(f"{name} was read in notes only, not at {origin['source']}: --unverified asks for it")
    return table, origin


def loss_law_names() -> tuple[str, ...]:
    """Laws of the form ``L = E + A / N^alpha + B / D^beta`` that ship.

    Returns
    -------
    tuple of str
        Names for :func:`load_loss_law`.

    Examples
    --------
    >>> loss_law_names()[:3]
    ('hoffmann_2022', 'besiroglu_2024', 'sardana_2024')
    """
    laws = _laws().table.items()
    return tuple(name for name, table in laws if "coefficients" in table or "over_training" in table)


def law_names() -> tuple[str, ...]:
    """Laws and constants of every form that ship.

    Returns
    -------
    tuple of str
        Names for :func:`read_law`.

    Examples
    --------
    >>> {"clark_2022", "scalerl_2025"} <= set(law_names())
    True
    """
    return tuple(name for name, table in _laws().table.items() if "read" in table)


@functools.cache
def _laws() -> Document:
    return read_file(shipped_file("laws.toml"), shipped=True)


def pretraining_loss(n_params: Num, tokens: Num, law: LossLaw) -> Num:
    """Loss by a law, ``E + A / N^alpha + B / D^beta``.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters, ``N`` [-].
    tokens : float or ndarray
        Tokens trained on, ``D``; beyond the law's unique tokens worth less [token].
    law : LossLaw
        Which one.

    Returns
    -------
    float or ndarray
        Loss in nats per token [-].

    Examples
    --------
    >>> round(float(pretraining_loss(70e9, 1.4e12, load_loss_law("besiroglu_2024"))), 3)
    1.974
    """
    worth, _ = worth_of_tokens(tokens, law.unique_tokens)
    return law.E + law.A / n_params**law.alpha + law.B / worth**law.beta


def worth_of_tokens(tokens: Num, unique_tokens: Num) -> tuple[Num, Num]:
    """What tokens are worth in fresh ones once they repeat, and by how many per cent one per cent more adds to that.

    ``D' = U + U R* (1 - exp(-(D / U - 1) / R*))`` beyond ``U`` unique tokens.

    Parameters
    ----------
    tokens : float or ndarray
        Trained on, ``D`` [token].
    unique_tokens : float or ndarray
        Fresh ones, ``U``; infinite where data never repeat [token].

    Returns
    -------
    tuple of float or ndarray
        ``D'``, and ``d ln D' / d ln D`` [token], [-].

    References
    ----------
    muennighoff-2023.

    Examples
    --------
    >>> worth, slope = worth_of_tokens(4e12, 1e12)
    >>> round(float(worth) / 4e12, 3), round(float(slope), 2)
    (0.931, 0.88)
    """
    if not np.any(np.isfinite(unique_tokens)):
        return tokens, 1.0
    half = read_law("muennighoff_2023")[0]["constants"]["R_D"]
    drawn, fresh = np.asarray(tokens, float), np.asarray(unique_tokens, float)
    again = np.maximum(drawn / fresh - 1.0, 0.0)
    decay = np.exp(-again / half)
    worth = np.where(again > 0, np.where(np.isfinite(fresh), fresh, 0.0) * (1 + half * (1 - decay)), drawn)
    return worth, np.where(again > 0, decay * drawn / worth, 1.0)


def loss_hoffmann_2022(n_params: Num, tokens: Num) -> Num:
    """Pretraining loss by the third approach of Hoffmann et al., with the coefficients before rounding.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters of a dense model, fitted on 7e7..1.6e10 [-].
    tokens : float or ndarray
        Tokens trained on, each once, fitted on 5e9..5e11 [token].

    Returns
    -------
    float or ndarray
        Loss on MassiveText, in nats per token [-].

    References
    ----------
    epoch-chinchilla-repo.

    Examples
    --------
    >>> round(float(loss_hoffmann_2022(70e9, 1.4e12)), 3)
    1.921
    """
    return pretraining_loss(n_params, tokens, load_loss_law("hoffmann_2022"))


def loss_besiroglu_2024(n_params: Num, tokens: Num) -> Num:
    """Pretraining loss by the refit of Besiroglu et al. to the points of Hoffmann et al.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters of a dense model, fitted on 5.7e7..1.62e10 [-].
    tokens : float or ndarray
        Tokens trained on, each once; the runs took 1.4e18..1.3e22 FLOP [token].

    Returns
    -------
    float or ndarray
        Loss on MassiveText, in nats per token [-].

    References
    ----------
    besiroglu-2024.

    Examples
    --------
    >>> round(float(loss_besiroglu_2024(70e9, 1.4e12)), 3)
    1.974
    """
    return pretraining_loss(n_params, tokens, load_loss_law("besiroglu_2024"))


def loss_exponent_ratio(n_params: Num, tokens: Num, law: str | LossLaw = "besiroglu_2024") -> Num:
    """What one per cent more parameters removes from the loss over what one per cent more tokens does.

    ``(alpha A / N^alpha) / (beta B / D^beta)``: 1 at the compute-optimal point of training.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters, ``N`` [-].
    tokens : float or ndarray
        Tokens trained on, ``D`` [token].
    law : str or LossLaw
        The law, or its name; data that repeat do not count.

    Returns
    -------
    float or ndarray
        Above 1 the model is smaller than compute-optimal for its tokens [-].

    Examples
    --------
    >>> round(float(loss_exponent_ratio(1e11, 150e12)), 2)
    5.03
    """
    one = load_loss_law(law) if isinstance(law, str) else law
    return one.alpha * one.A / n_params**one.alpha / (one.beta * one.B / tokens**one.beta)


def inference_tokens_at_optimum(
    n_params: Num, tokens: Num, law: str | LossLaw = "besiroglu_2024", cost_ratio: Num = 1.0
) -> Num:
    """Lifetime tokens for which a size is the cheapest way to its loss, ``D_inf = 3 D (eN / eD - 1) / c``.

    Minimises ``6 N D + 2 c N D_inf`` at fixed loss; the first-order condition is ``eN / eD = 1 + c D_inf / (3 D)``.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters, ``N`` [-].
    tokens : float or ndarray
        Tokens trained on, ``D`` [token].
    law : str or LossLaw
        The law, or its name; data that repeat do not count.
    cost_ratio : float or ndarray
        Price of a FLOP of inference over one of training, ``c``: utilisation of training over that of inference [-].

    Returns
    -------
    float or ndarray
        Tokens served; negative where the model is larger than compute-optimal [token].

    References
    ----------
    roofline-lecture C169 (12.1 times D with Besiroglu's law, 4.2 with Hoffmann's).

    Examples
    --------
    >>> round(float(inference_tokens_at_optimum(1e11, 150e12, "besiroglu_2024")) / 150e12, 1)
    12.1
    >>> round(float(inference_tokens_at_optimum(1e11, 150e12, "hoffmann_2022")) / 150e12, 2)
    4.18
    """
    per_token = TRAINING_FLOP_PER_PARAM / (FORWARD_FLOP_PER_PARAM * cost_ratio)
    return per_token * tokens * (loss_exponent_ratio(n_params, tokens, law) - 1.0)


def tokens_per_param_at_optimum(flop: Num, law: str | LossLaw = "besiroglu_2024") -> Num:
    """Tokens per parameter of the lowest loss that a training budget reaches.

    ``N = G (C / 6)^(beta / (alpha + beta))`` with ``G = (alpha A / (beta B))^(1 / (alpha + beta))``.

    Parameters
    ----------
    flop : float or ndarray
        Pretraining budget, ``C`` [FLOP].
    law : str or LossLaw
        The law, or its name; data that repeat do not count.

    Returns
    -------
    float or ndarray
        ``D / N`` [token/parameter].

    References
    ----------
    compute-ledger C018.

    Examples
    --------
    >>> round(float(tokens_per_param_at_optimum(5.76e23)), 1)
    18.4
    """
    one = load_loss_law(law) if isinstance(law, str) else law
    both = one.alpha + one.beta
    work = flop / TRAINING_FLOP_PER_PARAM
    n_params: Num = (one.alpha * one.A / (one.beta * one.B)) ** (1.0 / both) * work ** (one.beta / both)
    return work / n_params**2
