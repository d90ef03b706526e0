"""Loss laws of pretraining and what they say about the size of a model: coefficients are facts, the rest follows."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from computeledger.arrays import Num
from computeledger.errors import unknown_id
from computeledger.facts.catalog import shipped_file
from computeledger.facts.reading import Document, read_file, read_provenance
from computeledger.physics.blackboard import FORWARD_FLOP_PER_PARAM, TRAINING_FLOP_PER_PARAM

_COEFFICIENTS = ("E", "A", "B", "alpha", "beta")


@dataclass(frozen=True, slots=True)
class LossLaw:
    """A law ``L = E + A / N^alpha + B / D^beta``.

    Attributes
    ----------
    name : str
        Authors and year.
    E, A, B : float
        Loss that nothing removes, and the weights of size and of data [-].
    alpha, beta : float
        Exponents of parameters and of tokens [-].
    source, date, locator : str
        Where the coefficients were published.
    """

    name: str
    E: float
    A: float
    B: float
    alpha: float
    beta: float
    source: str
    date: str
    locator: str


def load_loss_law(name: str) -> LossLaw:
    """Load a law by name.

    Parameters
    ----------
    name : str
        ``hoffmann_2022``, ``besiroglu_2024`` or ``sardana_2024``; a hyphen does for the underscore.

    Returns
    -------
    LossLaw
        Its coefficients with their source.

    Examples
    --------
    >>> load_loss_law("besiroglu_2024").alpha
    0.3478
    """
    document, name = _laws(), name.replace("-", "_")
    if name not in document.table or "coefficients" not in document.table[name]:
        raise unknown_id("loss law", name, loss_law_names())
    table = dict(document.table[name])
    coefficients: dict[str, float] = table.pop("coefficients")
    if sorted(coefficients) != sorted(_COEFFICIENTS):
        raise document.error(f"{name}.coefficients", f"must be {', '.join(_COEFFICIENTS)}")
    origin = read_provenance(document, name, table)
    return LossLaw(name, **coefficients, source=origin["source"], date=origin["date"], locator=origin["locator"])


def loss_law_names() -> tuple[str, ...]:
    """Laws of the form ``L = E + A / N^alpha + B / D^beta`` that ship.

    Returns
    -------
    tuple of str
        Names for :func:`load_loss_law`.

    Examples
    --------
    >>> loss_law_names()
    ('hoffmann_2022', 'besiroglu_2024', 'sardana_2024')
    """
    return tuple(name for name, table in _laws().table.items() if "coefficients" in table)


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
        Tokens trained on, ``D`` [token].
    law : LossLaw
        Which one.

    Returns
    -------
    float or ndarray
        Loss in nats per token [-].

    Examples
    --------
    >>> round(float(pretraining_loss(70e9, 1.4e12, load_loss_law("sardana_2024"))), 3)
    1.995
    """
    return law.E + law.A / n_params**law.alpha + law.B / tokens**law.beta


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


def loss_exponent_ratio(n_params: Num, tokens: Num, law: str = "besiroglu_2024") -> Num:
    """What one per cent more parameters removes from the loss over what one per cent more tokens does.

    ``(alpha A / N^alpha) / (beta B / D^beta)``: 1 at the compute-optimal point of training.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters, ``N`` [-].
    tokens : float or ndarray
        Tokens trained on, ``D`` [token].
    law : str
        Name of the law.

    Returns
    -------
    float or ndarray
        Above 1 the model is smaller than compute-optimal for its tokens [-].

    Examples
    --------
    >>> round(float(loss_exponent_ratio(1e11, 150e12)), 2)
    5.03
    """
    one = load_loss_law(law)
    return one.alpha * one.A / n_params**one.alpha / (one.beta * one.B / tokens**one.beta)


def inference_tokens_at_optimum(n_params: Num, tokens: Num, law: str = "besiroglu_2024", cost_ratio: Num = 1.0) -> Num:
    """Lifetime tokens for which a size is the cheapest way to its loss, ``D_inf = 3 D (eN / eD - 1) / c``.

    Minimises ``6 N D + 2 c N D_inf`` at fixed loss; the first-order condition is ``eN / eD = 1 + c D_inf / (3 D)``.

    Parameters
    ----------
    n_params : float or ndarray
        Parameters, ``N`` [-].
    tokens : float or ndarray
        Tokens trained on, ``D`` [token].
    law : str
        Name of the law.
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


def tokens_per_param_at_optimum(flop: Num, law: str = "besiroglu_2024") -> Num:
    """Tokens per parameter of the lowest loss that a training budget reaches.

    ``N = G (C / 6)^(beta / (alpha + beta))`` with ``G = (alpha A / (beta B))^(1 / (alpha + beta))``.

    Parameters
    ----------
    flop : float or ndarray
        Pretraining budget, ``C`` [FLOP].
    law : str
        Name of the law.

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
    one = load_loss_law(law)
    both = one.alpha + one.beta
    work = flop / TRAINING_FLOP_PER_PARAM
    n_params: Num = (one.alpha * one.A / (one.beta * one.B)) ** (1.0 / both) * work ** (one.beta / both)
    return work / n_params**2
