"""What RL buys: reward against compute, samples against coverage, and what a budget asks of data.

The sigmoid and the power law are fitted to a user's own points. A forecast beyond them says how far it reaches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.errors import QuantityError

Array = NDArray[np.float64]

#: Points that a fit of three or four parameters needs at least.
FEWEST_POINTS = 6
#: Powers of ten that the compute of a fit spans at most (assumption: no run does).
MOST_DECADES = 15
#: A forecast further than this many times the largest compute of the fit is refused (a choice: ScaleRL's fits were
#: tested at two to three times).
FARTHEST_FORECAST = 4.0
_RESAMPLES = 200
#: Widening that made nine of ten forecasts hold on simulated runs of 24 points.
_WIDENING = 1.1


def reward_sigmoid(compute: Num, start: Num, asymptote: Num, middle: Num, exponent: Num) -> Num:
    """Reward after some compute.

    ``R = R0 + (A - R0) / (1 + (C_mid / C)^B)``

    Parameters
    ----------
    compute : float or ndarray
        ``C``, in any unit [-].
    start, asymptote : float or ndarray
        ``R0`` before RL, ``A`` after endless RL [-].
    middle : float or ndarray
        ``C_mid`` at which half of the gain is there, in the unit of the compute [-].
    exponent : float or ndarray
        ``B`` [-].

    Returns
    -------
    float or ndarray
        Reward [-].

    Examples
    --------
    >>> reward_sigmoid(1000.0, 0.2, 0.6, 1000.0, 2.0)
    0.4
    """
    return start + (asymptote - start) / (1 + (middle / compute) ** exponent)


def reward_power_law(compute: Num, asymptote: Num, gap: Num, exponent: Num) -> Num:
    """Reward after some compute, if its gap to an asymptote fell as a power.

    ``R = A - g C^-b``

    Parameters
    ----------
    compute : float or ndarray
        ``C``, in any unit [-].
    asymptote, gap, exponent : float or ndarray
        ``A``, ``g`` and ``b`` [-].

    Returns
    -------
    float or ndarray
        Reward [-].

    Examples
    --------
    >>> float(reward_power_law(100.0, 1.0, 5.0, 0.5))
    0.5
    """
    return asymptote - gap * np.asarray(compute, float) ** -exponent


@dataclass(frozen=True, slots=True)
class RewardFit:
    """A law of reward fitted to points.

    Attributes
    ----------
    law : str
        ``sigmoid`` or ``power law``.
    values : dict of str to float
        Parameters [-].
    cloud : dict of str to ndarray
        The same from resampled residuals [-].
    residual : float
        Root of the mean squared residual [-].
    span : tuple of float
        Least and most compute of the points [-].
    widening : float
        Of an interval over that of the cloud: resampled residuals alone cover too little with few points [-].
    """

    law: str
    values: dict[str, float]
    cloud: dict[str, Array]
    residual: float
    span: tuple[float, float]
    widening: float

    def forecast(self, compute: float) -> tuple[float, float, float]:
        """Reward at some compute, with a 90 % interval of the fit.

        Parameters
        ----------
        compute : float
            In the unit of the points [-].

        Returns
        -------
        tuple of float
            5 %, 50 % and 95 % [-].

        Raises
        ------
        QuantityError
            Further than :data:`FARTHEST_FORECAST` times the points.
        """
        if compute > FARTHEST_FORECAST * self.span[1] or compute < self.span[0] / FARTHEST_FORECAST:
            raise QuantityError(
                f"forecast at {compute:g}: the points reach from {self.span[0]:g} to {self.span[1]:g}, and a forecast "
                f"at most {FARTHEST_FORECAST:g} times as far: give points nearer to it"
            )
        law = _LAWS[self.law]
        mid = np.asarray(law(compute, *self.values.values()))
        drawn = np.asarray(law(compute, *(self.cloud[name] for name in self.values)))
        low, high = np.quantile(mid + self.widening * (drawn - mid), [0.05, 0.95])
        return float(low), float(mid), float(high)


_LAWS: dict[str, Callable[..., Num]] = {"sigmoid": reward_sigmoid, "power law": reward_power_law}


def fit_reward(compute: Sequence[float] | Array, reward: Sequence[float] | Array, law: str = "sigmoid") -> RewardFit:
    """Fit a law of reward.

    The nonlinear parameters lie on a grid that is refined twice; the others follow by least squares. Intervals come
    from residuals that are resampled, so they hold the scatter of the points, not a change of regime.

    Parameters
    ----------
    compute : sequence of float
        Positive, such as GPU-hours, in any unit [-].
    reward : sequence of float
        At that compute [-].
    law : str
        ``sigmoid`` or ``power law``.

    Returns
    -------
    RewardFit
        With a cloud of resampled fits.

    Raises
    ------
    QuantityError
        Too few points, or compute that is not positive.

    Examples
    --------
    >>> c = np.geomspace(100, 10_000, 20)
    >>> found = fit_reward(c, reward_sigmoid(c, 0.2, 0.61, 1500.0, 1.97))
    >>> {name: round(value, 2) for name, value in found.values.items()}
    {'start': 0.2, 'asymptote': 0.61, 'middle': 1500.0, 'exponent': 1.97}
    """
    c, r = np.asarray(compute, float), np.asarray(reward, float)
    if len(c) < FEWEST_POINTS or len(c) != len(r):
        raise QuantityError(f"{len(c)} points: a fit of {law} needs at least {FEWEST_POINTS}, each with a reward")
    if not (np.all(np.isfinite(c)) and np.all(np.isfinite(r)) and np.all(c > 0)):
        raise QuantityError("points of compute and reward: compute must be greater than 0, both must be numbers")
    if np.ptp(np.log(c)) == 0:
        raise QuantityError("points of compute and reward: all at the same compute")
    if np.ptp(np.log10(c)) > MOST_DECADES:
        raise QuantityError(f"points of compute and reward: compute spans more than {MOST_DECADES} powers of ten")
    solve = _solve_sigmoid if law == "sigmoid" else _solve_power_law
    values = solve(c, r)
    fitted = _LAWS[law](c, **values)
    left = r - fitted
    scale = math.sqrt(len(c) / max(len(c) - len(values), 1))
    rng = np.random.default_rng(0)
    again = [solve(c, fitted + scale * rng.choice(left, len(c))) for _ in range(_RESAMPLES)]
    cloud = {name: np.array([one[name] for one in again]) for name in values}
    residual = float(np.sqrt(np.mean(left**2)))
    span = (float(np.min(c)), float(np.max(c)))
    return RewardFit(law, values, cloud, residual, span, _WIDENING * scale)


def _least(basis: Array, r: Array) -> tuple[Array, Array]:
    """Least squares of ``r`` on 1 and each basis, many bases at once: coefficients (m, 2) and squared errors (m)."""
    mean_b, mean_r = basis.mean(axis=-1), r.mean()
    spread = ((basis - mean_b[:, None]) ** 2).sum(axis=-1)
    slope = ((basis - mean_b[:, None]) * (r - mean_r)).sum(axis=-1) / np.maximum(spread, 1e-300)
    level = mean_r - slope * mean_b
    errors = ((level[:, None] + slope[:, None] * basis - r) ** 2).sum(axis=-1)
    return np.stack([level, slope], axis=-1), errors


def _solve_sigmoid(c: Array, r: Array) -> dict[str, float]:
    logs = np.log(c)
    middles, exponents = np.linspace(logs.min() - 3, logs.max() + 3, 25), np.geomspace(0.2, 8.0, 25)
    for _ in range(_REFINEMENTS):
        grid = np.stack([one.ravel() for one in np.meshgrid(middles, exponents, indexing="ij")])
        basis = 1 / (1 + np.exp(np.minimum(-grid[1][:, None] * (logs - grid[0][:, None]), 700.0)))
        found, errors = _least(basis, r)
        best = int(np.argmin(np.where(found[:, 1] > 0, errors, errors + np.ptp(r) ** 2)))
        middle, exponent = grid[0][best], grid[1][best]
        middles = _around(middles, middle)
        exponents = np.exp(_around(np.log(exponents), float(np.log(exponent))))
    level, gain = found[best]
    names = ("start", "asymptote", "middle", "exponent")
    return dict(zip(names, (float(level), float(level + gain), float(np.exp(middle)), float(exponent)), strict=True))


def _solve_power_law(c: Array, r: Array) -> dict[str, float]:
    exponents = np.geomspace(0.02, 4.0, 60)
    scale = np.exp(np.log(c).mean())
    for _ in range(_REFINEMENTS):
        found, errors = _least((c / scale) ** -exponents[:, None], r)
        best = int(np.argmin(errors))
        exponent = float(exponents[best])
        exponents = np.exp(_around(np.log(exponents), math.log(exponent)))
    level, slope = found[best]
    return {"asymptote": float(level), "gap": float(-slope * scale**exponent), "exponent": exponent}


#: How often a grid is refined around its best point.
_REFINEMENTS = 8


def _around(grid: Array, best: float) -> Array:
    step = grid[1] - grid[0]
    return np.linspace(best - 2 * step, best + 2 * step, len(grid))
