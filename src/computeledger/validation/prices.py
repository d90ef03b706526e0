"""Size from price, checked on models of known size: each predicted from the prices of the others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from computeledger.economics.prices.points import (
    REVEALED_LEVELS,
    PricePoints,
    conformal_half_width,
    leave_models_out,
    read_points,
    shipped_points,
    without_models,
)


@dataclass(frozen=True, slots=True)
class PriceCheck:
    """How well prices tell sizes."""

    coverage: dict[str, float]
    median_abs_log10_error: float
    median_width_log10_90: float
    median_abs_log10_error_size: float
    median_abs_log10_error_regression: float
    n: int


def check_prices(path: str | Path | None = None) -> PriceCheck:
    """Leave one model out: its size from the prices of all others, its interval from the errors of all others.

    A table of one's own is joined by the prices that ship, without the models it holds.

    Examples
    --------
    >>> check = check_prices()
    >>> check.n, check.median_abs_log10_error < 0.2175
    (75, True)
    """
    own = shipped_points() if path is None else read_points(path)
    wanted = sorted(set(own.model.tolist()))
    known = own if path is None else own.joined(without_models(shipped_points(), wanted))
    out = leave_models_out(known)
    mask = np.isin(out.model, wanted)
    errors = out.error_active
    widths = {level: np.array([conformal_half_width(np.delete(errors, i), level) for i in np.flatnonzero(mask)])
              for level in REVEALED_LEVELS}  # fmt: skip
    missed = np.abs(errors[mask])
    return PriceCheck(
        {f"{100 * level:.0f}": float(np.mean(missed <= widths[level])) for level in REVEALED_LEVELS},
        _log10(missed), float(np.median(2 * widths[0.9]) / np.log(10)), _log10(np.abs(out.error_size[mask])),
        _log10(np.abs(_plain_errors(known, wanted))), len(wanted),
    )  # fmt: skip


def _log10(errors: np.ndarray) -> float:
    return float(np.median(errors) / np.log(10))


def _plain_errors(known: PricePoints, wanted: list[str]) -> np.ndarray:
    """Errors of ``ln N = a + b ln p_in`` on each model's median price, the model left out."""
    models, rows = np.unique(known.model, return_inverse=True)
    price = np.array([np.median(known.log_input[rows == i]) for i in range(len(models))])
    size = np.array([known.log_active[rows == i][0] for i in range(len(models))])
    out = []
    for name in wanted:
        rest = models != name
        slope, offset = np.polyfit(price[rest], size[rest], 1)
        out.append(float((size - offset - slope * price)[models == name][0]))
    return np.array(out)
