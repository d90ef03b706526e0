"""What prices of open models say of quantities that they hardly reveal: the cache, and the ratio of output to input."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from computeledger.economics.prices.points import open_models, shipped_points


@dataclass(frozen=True, slots=True)
class PriceEvidence:
    """Regressions over models, each model's prices averaged over its sellers."""

    kv_elasticity: float
    kv_error: float
    ratio_r2: float
    n_models: int
    n_with_kv: int


@functools.cache
def price_evidence() -> PriceEvidence:
    """Regress the shipped prices on what is known of their models.

    Examples
    --------
    >>> found = price_evidence()
    >>> abs(found.kv_elasticity) < 2 * found.kv_error and found.ratio_r2 < 0.1
    True
    """
    points, known = shipped_points(), open_models()
    names = sorted(set(points.model.tolist()))
    rows = [points.model == name for name in names]
    price = np.array([points.log_input[row].mean() for row in rows])
    ratio = np.array([(points.log_output[row] - points.log_input[row]).mean() for row in rows])
    active, total = (np.array([column[row][0] for row in rows]) for column in (points.log_active, points.log_total))
    cache = np.array([known[name].kv_bytes_per_token or np.nan for name in names], float)
    has = np.isfinite(cache) & (cache > 0)
    design = np.column_stack([np.ones(has.sum()), active[has], total[has], np.log(cache[has])])
    found, *_ = np.linalg.lstsq(design, price[has], rcond=None)
    rest = price[has] - design @ found
    spread = rest @ rest / (has.sum() - design.shape[1])
    error = float(np.sqrt(spread * np.linalg.inv(design.T @ design)[-1, -1]))
    r = float(np.corrcoef(ratio, (active + total) / 2)[0, 1])
    return PriceEvidence(float(found[-1]), error, r**2, len(names), int(has.sum()))
