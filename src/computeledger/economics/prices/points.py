"""List prices of open models of known size, and size regressed on price with intervals that left-out models set."""

from __future__ import annotations

import csv
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Num
from computeledger.errors import InputError, shown
from computeledger.files import read_table
from computeledger.progress import counted
from computeledger.units import GIGA

Floats = NDArray[np.float64]

COLUMNS = ("prov", "model", "usd_in", "usd_out", "gateway", "bucket", "total", "active")
#: Prior weight of a provider whose prices are few, in prices; degrees of freedom of the robust fit.
PROVIDER_WEIGHT, TAIL_DEGREES = 3.0, 4.0
#: A robust fit is done once no coefficient moves further.
_STILL = 1e-6
REVEALED_LEVELS = (0.5, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class PricePoints:
    """Prices of models at providers, one row each."""

    provider: NDArray[np.str_]
    model: NDArray[np.str_]
    log_input: Floats
    log_output: Floats
    log_active: Floats
    log_total: Floats

    def where(self, mask: NDArray[np.bool_]) -> PricePoints:
        """Rows that a mask keeps."""
        return PricePoints(*(getattr(self, name)[mask] for name in self.__slots__))

    def joined(self, other: PricePoints) -> PricePoints:
        """These rows and then others."""
        return PricePoints(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in self.__slots__))


def read_points(path: str | Path) -> PricePoints:
    """Read a table of prices. Gateways and prices by size bucket are left out: those tell the size by construction.

    Examples
    --------
    >>> read_points("missing.csv")
    Traceback (most recent call last):
    computeledger.errors.InputError: missing.csv: no such file
    """
    return _points(str(path), list(read_table(Path(path), COLUMNS)))


def _points(name: str, rows: list[tuple[int, dict[str, str]]]) -> PricePoints:
    kept = [(line, row) for line, row in rows if "True" not in (row["gateway"], row["bucket"])]
    numbers = [
        [_positive(name, line, row, key) for key in ("usd_in", "usd_out", "active", "total")] for line, row in kept
    ]
    if not numbers:
        raise InputError(f"{name}: no price is left once gateways and size buckets are dropped")
    table = np.log(np.array(numbers))
    names = [np.array([row[key] for _, row in kept]) for key in ("prov", "model")]
    return PricePoints(
        names[0], names[1], table[:, 0], table[:, 1], table[:, 2] + math.log(GIGA), table[:, 3] + math.log(GIGA)
    )


def _positive(name: str, line: int, row: dict[str, str], key: str) -> float:
    try:
        value = float(row[key] or "nan")
    except ValueError:
        value = math.nan
    if not value > 0 or math.isinf(value):
        raise InputError(f"{name}:{line}: {key} {shown(row[key])}: expected a number above 0")
    return value


@dataclass(frozen=True, slots=True)
class OpenModel:
    """An open model that is sold, with what was read of it at a source."""

    name: str
    n_params_total: float
    n_params_active: float
    kv_bytes_per_token: float
    shape: str
    source: str
    locator: str


def _shipped_rows(file: str) -> list[dict[str, str]]:
    text = resources.files("computeledger.economics.prices").joinpath(file).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


@functools.cache
def open_models() -> dict[str, OpenModel]:
    """Open models that are sold by the token, by name: 75, each size with the source it was read at.

    Examples
    --------
    >>> model = open_models()["GLM-4.5"]
    >>> model.n_params_active, model.source
    (32000000000.0, 'glm-4.5-readme')
    """
    return {
        row["model"]: OpenModel(
            row["model"], float(row["total"]) * GIGA, float(row["active"]) * GIGA, float(row["kv"] or "nan"),
            row["shape"], row["source"], row["locator"],
        )
        for row in _shipped_rows("open_model_sizes.csv")
    }  # fmt: skip


@functools.cache
def release_dates() -> dict[str, str]:
    """First day of the month in which each open model that is sold came out.

    Examples
    --------
    >>> release_dates()["GLM-4.5"]
    '2025-07-01'
    """
    return {row["model"]: f"{row['release']}-01" for row in _shipped_rows("open_model_sizes.csv")}


@functools.cache
def shipped_points() -> PricePoints:
    """Prices that ship: 434 of 75 open models whose sizes were read at a source, 2026-11-21.

    References
    ----------
    genai-prices; litellm-prices.

    Examples
    --------
    >>> points = shipped_points()
    >>> len(points.model), len(set(points.model.tolist()))
    (434, 75)
    """
    sizes = {row["model"]: row for row in _shipped_rows("open_model_sizes.csv")}
    rows = [
        {**row, "gateway": "False", "bucket": "False", **{key: sizes[row["model"]][key] for key in ("total", "active")}}
        for row in _shipped_rows("open_model_prices.csv")
    ]
    return _points("open_model_prices.csv", list(enumerate(rows, 2)))


@dataclass(frozen=True, slots=True)
class SizeFit:
    """Regression of log size on the log prices of a model, once what its providers charge more or less is taken off."""

    active: Floats
    total: Floats
    provider_effects: dict[str, tuple[float, float]]

    def predict(self, points: PricePoints) -> tuple[Floats, Floats]:
        """Log active and log total parameters of the model that the rows price."""
        row = _design(points, self.provider_effects)
        return row @ self.active, row @ self.total


def _design(points: PricePoints, effects: dict[str, tuple[float, float]]) -> Floats:
    shift = np.array([effects.get(name, (0.0, 0.0)) for name in points.provider.tolist()])
    prices = np.column_stack([points.log_input, points.log_output]) - shift
    return np.concatenate([[1.0], prices.mean(axis=0)])


def fit_sizes(points: PricePoints) -> SizeFit:
    """Fit log active and log total parameters to provider-adjusted prices, robustly (Student-t weights).

    ``ln N = a + b ln p_in + c ln p_out``; a price is the model's own plus what its provider adds.

    Examples
    --------
    >>> fit = fit_sizes(shipped_points())
    >>> [round(float(value), 2) for value in fit.active[1:]]
    [1.34, -0.58]
    """
    models, rows = np.unique(points.model, return_inverse=True)
    providers, sellers = np.unique(points.provider, return_inverse=True)
    own, added = zip(*(_two_way(y, rows, sellers) for y in (points.log_input, points.log_output)), strict=True)
    design = np.column_stack([np.ones(len(models)), *own])
    first = np.array([np.flatnonzero(rows == place)[0] for place in range(len(models))])
    effects = {str(name): (float(a), float(b)) for name, a, b in zip(providers, *added, strict=True)}
    return SizeFit(_robust(design, points.log_active[first]), _robust(design, points.log_total[first]), effects)


def _two_way(prices: Floats, rows: NDArray[np.intp], sellers: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """What is the model's and what the provider's: means of each, the provider's drawn towards nothing."""
    added = np.zeros(int(sellers.max()) + 1)
    own = np.zeros(int(rows.max()) + 1)
    counts, sold = np.bincount(rows), np.bincount(sellers) + PROVIDER_WEIGHT
    for _ in range(40):
        own = np.bincount(rows, prices - added[sellers]) / counts
        added = np.bincount(sellers, prices - own[rows]) / sold
    return own, added


def _robust(design: Floats, target: Floats) -> Floats:
    weights = np.ones(len(target))
    found: Floats = np.zeros(design.shape[1])
    for _ in range(25):
        root = np.sqrt(weights)[:, None]
        before = found
        found = np.asarray(np.linalg.lstsq(design * root, target * root[:, 0], rcond=None)[0], float)
        if np.max(np.abs(found - before)) < _STILL:
            break
        left = target - design @ found
        scale = max(1.4826 * float(np.median(np.abs(left))), 1e-9)
        weights = (TAIL_DEGREES + 1) / (TAIL_DEGREES + (left / scale) ** 2)
    return found


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What the regression says of models that it has not seen."""

    model: NDArray[np.str_]
    n_sheets: NDArray[np.float64]
    log_active: Floats
    log_total: Floats
    error_active: Floats
    error_total: Floats
    error_size: Floats


def leave_models_out(points: PricePoints, wanted: Sequence[str] | None = None, single: bool = False) -> LeftOut:
    """Predict every model from the prices of the others.

    Examples
    --------
    >>> out = leave_models_out(shipped_points(), ["DeepSeek-V3", "Llama-3.1-8B"])
    >>> [len(out.model), bool(np.all(np.abs(out.error_active) < np.log(4)))]
    [2, True]
    """
    rows: list[tuple[str, int, float, float, float, float]] = []
    for name in counted(sorted(set(points.model.tolist()) if wanted is None else wanted), "models left out"):
        mask = points.model == name
        fit, own = fit_sizes(points.where(~mask)), points.where(mask)
        pieces = [own.where(np.arange(len(own.model)) == i) for i in range(len(own.model))] if single else [own]
        for piece in pieces:
            active, total = (float(value) for value in fit.predict(piece))
            rows.append((name, len(piece.model), active, total, own.log_active[0] - active, own.log_total[0] - total))
    names = np.array([row[0] for row in rows])
    table = np.array([row[1:] for row in rows])
    sheets, active, total, missed_active, missed_total = table.T
    return LeftOut(names, sheets, active, total, missed_active, missed_total, 0.5 * (missed_active + missed_total))


def single_price_errors(points: PricePoints, price: int) -> tuple[Floats, Floats]:
    """What a regression on one price alone leaves, sheet by sheet; the models are not left out.

    Examples
    --------
    >>> first, second = (np.quantile(abs(single_price_errors(shipped_points(), price)[0]), 0.9) for price in (0, 1))
    >>> bool(first < second)
    True
    """
    order = np.argsort(points.model, kind="stable")
    points = points.where(order)  # type: ignore[arg-type]
    models, rows = np.unique(points.model, return_inverse=True)
    sellers = np.unique(points.provider, return_inverse=True)[1]
    logs = (points.log_input, points.log_output)[price]
    own, added = _two_way(logs, rows, sellers)
    first = np.array([np.flatnonzero(rows == place)[0] for place in range(len(models))])
    design = np.column_stack([np.ones(len(models)), own])
    seen = np.column_stack([np.ones(len(logs)), logs - added[sellers]])
    left = [target - seen @ _robust(design, target[first]) for target in (points.log_active, points.log_total)]
    return left[0], left[1]


def conformal_half_width(errors: Floats, level: float, weights: Floats | None = None) -> Num:
    """Half width of an interval that holds a share of errors like these: their quantile, one step to the safe side.

    Examples
    --------
    >>> conformal_half_width(np.arange(1.0, 10.0), 0.5)
    5.0
    """
    order = np.argsort(np.abs(errors))
    size = np.abs(errors)[order]
    weight = np.ones(len(size)) if weights is None else weights[order]
    reached = np.cumsum(weight) / (weight.sum() + weight.mean())
    return float(size[min(int(np.searchsorted(reached, level - 1e-12)), len(size) - 1)])


def without_models(points: PricePoints, names: Sequence[str]) -> PricePoints:
    """Rows of other models.

    Examples
    --------
    >>> len(without_models(shipped_points(), ["DeepSeek-V3"]).model) < 434
    True
    """
    return points.where(~np.isin(points.model, list(names)))


def one_sheet(provider: str, usd_per_mtok_input: float, usd_per_mtok_output: float) -> PricePoints:
    """A price sheet of a model of unknown size.

    Examples
    --------
    >>> len(one_sheet("x", 2.0, 12.0).model)
    1
    """
    empty = np.array([np.nan])
    prices = np.log([usd_per_mtok_input]), np.log([usd_per_mtok_output])
    return replace(PricePoints(np.array([provider]), np.array(["?"]), *prices, empty, empty))
