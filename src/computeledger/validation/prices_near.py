"""Open models of known size that are sold at about a price, and what that price says of them when they are left out."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from computeledger.economics.prices.points import (
    LeftOut,
    conformal_half_width,
    leave_models_out,
    open_models,
    shipped_points,
)

#: Models that are named beside an answer.
_NEAREST = 3
#: Within how many times a price others are near it.
_NEAR = 2.0
_LEVEL = 0.9


@dataclass(frozen=True, slots=True)
class PricedModel:
    """An open model with its median list prices, its published size, and its size by the prices of all others."""

    model: str
    source: str
    usd_per_mtok_input: float
    usd_per_mtok_output: float
    measured: float
    p05: float
    p50: float
    p95: float
    error_fraction: float


@dataclass(frozen=True, slots=True)
class SizesByPrice:
    """How well prices tell active parameters of open models, each left out in turn, and those of the nearest price.

    ``n_near`` of the ``n`` models are sold within a factor of 2 of the input price.
    """

    n: int
    n_near: int
    median_error_ratio: float
    coverage_90: float
    nearest: tuple[PricedModel, ...]


def sizes_by_price(usd_per_mtok_input: float, usd_per_mtok_output: float) -> SizesByPrice:
    """Hold sizes by price against published ones.

    Examples
    --------
    >>> found = sizes_by_price(0.27, 1.1)
    >>> found.n, 1.4 < found.median_error_ratio < 2, len(found.nearest)
    (75, True, 3)
    >>> sizes_by_price(3.0, 15.0).n_near < found.n_near
    True
    """
    out, half, prices = _left_out()
    asked = np.log([usd_per_mtok_input, usd_per_mtok_output])
    order = np.argsort(np.abs(prices - asked).sum(axis=1), kind="stable")[:_NEAREST]
    missed = np.abs(out.error_active)
    return SizesByPrice(
        len(missed),
        int((np.abs(prices[:, 0] - asked[0]) <= math.log(_NEAR)).sum()),
        float(np.exp(np.median(missed))),
        float(np.mean([one <= conformal_half_width(np.delete(missed, i), _LEVEL) for i, one in enumerate(missed)])),
        tuple(_priced(out, half, prices, int(place)) for place in order),
    )


@functools.cache
def priced_models() -> tuple[PricedModel, ...]:
    """Open models of known size that are sold, each with its size by the prices of the others, the cheapest first.

    Examples
    --------
    >>> models = priced_models()
    >>> len(models), models[0].usd_per_mtok_input < models[-1].usd_per_mtok_input
    (75, True)
    """
    out, half, prices = _left_out()
    found = (_priced(out, half, prices, place) for place in range(len(out.model)))
    return tuple(sorted(found, key=lambda one: one.usd_per_mtok_input))


@functools.cache
def _left_out() -> tuple[LeftOut, float, np.ndarray]:
    """Each model by the prices of the others, the half width of its interval, and median prices by model."""
    points = shipped_points()
    out = leave_models_out(points)
    logs = np.stack([points.log_input, points.log_output], axis=1)
    prices = np.array([np.median(logs[points.model == name], axis=0) for name in out.model])
    return out, float(conformal_half_width(out.error_active, _LEVEL)), prices


def _priced(out: LeftOut, half: float, prices: np.ndarray, place: int) -> PricedModel:
    name = str(out.model[place])
    middle, error = float(out.log_active[place]), float(out.error_active[place])
    come, go = (float(one) for one in np.exp(prices[place]))
    low, told, high, published = (float(one) for one in np.exp([middle - half, middle, middle + half, middle + error]))
    source = open_models()[name].source
    return PricedModel(name, source, come, go, published, low, told, high, told / published - 1)
