"""Refit of a loss law to runs: the procedure of Hoffmann et al., a Huber loss on log loss, by damped Gauss-Newton."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Where the Huber loss turns linear, in log loss.
HUBER_DELTA = 1e-3


def fit_loss_law(n_params: Floats, tokens: Floats, loss: Floats, n_rounds: int = 400) -> dict[str, float]:
    """Fit ``E + A / N^alpha + B / D^beta`` to runs.

    Minimises the mean Huber loss of ``logsumexp(a - alpha ln N, b - beta ln D, e) - ln L``, reweighted least squares
    with a damped step.

    Parameters
    ----------
    n_params, tokens, loss : ndarray
        Of the runs [-], [token], [-].
    n_rounds : int
        Steps at most [-].

    Returns
    -------
    dict of str to float
        ``E``, ``A``, ``B``, ``alpha``, ``beta`` and ``huber``, the sum of losses reached [-].

    Examples
    --------
    >>> n, d = (grid.ravel() for grid in np.meshgrid(np.logspace(8, 10, 6), np.logspace(9, 11, 6)))
    >>> found = fit_loss_law(n, d, 1.8 + 480 / n**0.35 + 2100 / d**0.37)
    >>> round(found["alpha"], 4), round(found["E"], 4)
    (0.35, 1.8)
    """
    x, y, target = np.log(n_params), np.log(tokens), np.log(loss)
    theta = np.array([6.0, 7.0, 0.6, 0.34, 0.34])
    damping, best = 1e-3, _huber(_terms(theta, x, y)[0] - target)
    for _ in range(n_rounds):
        model, shares = _terms(theta, x, y)
        left = model - target
        weight = np.minimum(1.0, HUBER_DELTA / np.maximum(np.abs(left), 1e-300))
        slope = np.column_stack([shares[0], shares[1], shares[2], -shares[0] * x, -shares[1] * y])
        curve = slope.T @ (slope * weight[:, None])
        step = np.linalg.solve(curve + damping * np.diag(np.diag(curve)), slope.T @ (weight * left))
        tried = _huber(_terms(theta - step, x, y)[0] - target)
        if tried < best:
            done = best - tried < 1e-15 * best
            theta, best, damping = theta - step, tried, damping / 4
            if done:
                break
        else:
            damping = damping * 5
            if damping > 1e14:
                break
    names = dict(zip("ABE", np.exp(theta[:3]).tolist(), strict=True))
    return {**names, "alpha": float(theta[3]), "beta": float(theta[4]), "huber": best}


def _terms(theta: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Log loss, and the share of each term in the loss."""
    parts = np.stack([theta[0] - theta[3] * x, theta[1] - theta[4] * y, np.full_like(x, theta[2])])
    total = np.logaddexp.reduce(parts, axis=0)
    return total, np.exp(parts - total)


def _huber(left: Floats) -> float:
    size = np.abs(left)
    small = 0.5 * left**2
    return float(np.sum(np.where(size <= HUBER_DELTA, small, HUBER_DELTA * (size - 0.5 * HUBER_DELTA))))
