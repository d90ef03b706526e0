"""How far a loss law can be trusted: its coefficients as samples, and how far an answer lies beyond its fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from computeledger.arrays import Num, median
from computeledger.economics.scaling.laws import LossLaw
from computeledger.physics.blackboard.ledgers import TRAINING_FLOP_PER_PARAM


def sampled_law(law: LossLaw, n_samples: int = 4096, seed: int = 0) -> LossLaw:
    """A law with samples of its coefficients, as far as how sure they are was published.

    ``(ln A, ln B, ln E, alpha, beta)`` are normal about the published values, drawn in pairs of opposite sign, so that
    every coefficient's median stays where it was published. They are drawn together: ``A`` and ``alpha`` hardly vary
    but along the line that the data leave open.

    Parameters
    ----------
    law : LossLaw
        As published.
    n_samples : int
        Length of the sample axis [-].
    seed : int
        Of the draws [-].

    Returns
    -------
    LossLaw
        The same where no covariance of its coefficients is known.

    References
    ----------
    epoch-chinchilla-repo.

    Examples
    --------
    >>> from computeledger.economics.scaling.laws import load_loss_law, tokens_per_param_at_optimum
    >>> law = sampled_law(load_loss_law("besiroglu_2024"))
    >>> np.quantile(tokens_per_param_at_optimum(5.76e23, law), [0.05, 0.5, 0.95]).round(1).tolist()
    [9.2, 18.4, 37.1]
    """
    if not law.covariance:
        return law
    half = np.random.default_rng([seed, *law.name.encode()]).standard_normal((n_samples // 2, len(law.covariance)))
    scores = np.concatenate([half, -half, np.zeros((n_samples % 2, len(law.covariance)))])
    moved = scores @ np.linalg.cholesky(np.array(law.covariance)).T
    A, B, E = (getattr(law, name) * np.exp(moved[:, place]) for place, name in enumerate(("A", "B", "E")))
    return replace(law, A=A, B=B, E=E, alpha=law.alpha + moved[:, 3], beta=law.beta + moved[:, 4])


def beyond_fit(law: LossLaw, n_params: Num, tokens: Num) -> dict[str, float]:
    """How far a model lies outside what a law was fitted or tested on, at the medians.

    Parameters
    ----------
    law : LossLaw
        With the range of its fit.
    n_params : float or ndarray
        Parameters [-].
    tokens : float or ndarray
        Tokens trained on [token].

    Returns
    -------
    dict of str to float
        Of each quantity outside: over the most of the fit, above 1, or over the least, below 1 [-].

    Examples
    --------
    >>> from computeledger.economics.scaling.laws import load_loss_law
    >>> law = load_loss_law("besiroglu_2024")
    >>> {name: round(ratio, 1) for name, ratio in beyond_fit(law, 70e9, 1.4e12).items()}
    {'n_params': 4.3, 'tokens': 4.4, 'flop': 45.4}
    >>> beyond_fit(law, 1e9, 2e10)
    {}
    """
    at = {
        "n_params": median(n_params), "tokens": median(tokens),
        "flop": median(TRAINING_FLOP_PER_PARAM * n_params * tokens), "tokens_per_param": median(tokens / n_params),
    }  # fmt: skip
    out = {}
    for name, (least, most) in law.fitted.items():
        if at[name] > most:
            out[name] = at[name] / most
        elif at[name] < least:
            out[name] = at[name] / least
    return out
