"""How far predictions lie from measurements: one summary shape for every ``validate``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import QUANTILES
from computeledger.errors import InputError, nearest, shown
from computeledger.physics.roofline import Operation, bound

Array = NDArray[np.float64]
#: Quantiles that a prediction is drawn with: 90 % and 80 % interval and the median.
SHARES = tuple(QUANTILES.values())

#: Largest number of a measured row, in its own unit: beyond it no run was measured, and products overflow.
MOST_MEASURED = 1e30


@dataclass(frozen=True, slots=True)
class Summary:
    """Errors over a set of measurements, as fractions; all but the count are None where nothing was measured.

    ``width_90`` is the factor between the ends of the 90 % interval, in the median.
    """

    n: int
    median_abs_error: float | None = None
    mean_abs_error: float | None = None
    p90_abs_error: float | None = None
    bias: float | None = None
    coverage_80: float | None = None
    coverage_90: float | None = None
    width_90: float | None = None


def summarize(predicted: Array, measured: Array) -> Summary:
    """Summarise predictions that are clouds of samples.

    Examples
    --------
    >>> one = summarize(np.array([[0.9, 1.0, 1.1], [1.8, 2.0, 2.2]]), np.array([1.0, 4.0]))
    >>> one.n, one.median_abs_error, one.coverage_90
    (2, 0.25, 0.5)
    """
    known = np.isfinite(measured)
    if not np.any(known):
        return Summary(0)
    measured = measured[known]
    low_90, low_80, middle, high_80, high_90 = np.quantile(predicted[known], SHARES, axis=1)
    ratio = middle / measured
    error = np.abs(ratio - 1)
    return Summary(
        n=len(measured),
        median_abs_error=float(np.median(error)),
        mean_abs_error=float(np.mean(error)),
        p90_abs_error=float(np.quantile(error, 0.9)),
        bias=float(np.median(ratio)),
        coverage_80=float(np.mean((low_80 <= measured) & (measured <= high_80))),
        coverage_90=float(np.mean((low_90 <= measured) & (measured <= high_90))),
        width_90=float(np.median(high_90[low_90 > 0] / low_90[low_90 > 0])) if np.any(low_90 > 0) else None,
    )


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a prediction is made of."""

    what: str
    times_s: Mapping[str, float]
    bounds: Mapping[str, str]
    bound: str
    assumed: tuple[str, ...] = ()


def explained(what: str, operations: Sequence[Operation], assumed: tuple[str, ...] = ()) -> Explanation:
    """Explain a prediction by the operations of its step, at the middle of the factors.

    Examples
    --------
    >>> from computeledger.physics.roofline import OperationKind as Kind
    >>> explained("a step", [Operation(Kind.HOST, overhead_s=1.0), Operation(Kind.OUTPUT_HEAD)]).times_s
    {'host': 1.0}
    """
    real = [one for one in operations if float(np.mean(one.time_s)) > 0]
    return Explanation(
        what=what,
        times_s={one.name: float(np.mean(one.time_s)) for one in real},
        bounds={one.name: str(np.ravel(bound([one]))[0]) for one in real},
        bound=str(np.ravel(bound(real))[0]) if real else "",
        assumed=assumed,
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Predictions beside measurements."""

    rows: Sequence[Mapping[str, str]]
    measured: Mapping[str, Array]
    predicted: Mapping[str, Array]
    skipped: Mapping[str, int]
    units: Mapping[str, str] = field(default_factory=dict)
    explain: Callable[[int, str], Explanation | None] | None = None


@dataclass(frozen=True, slots=True)
class Deviation:
    """One prediction beside its measurement."""

    index: int
    quantity: str
    measured: float
    predicted: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Predicted over measured [-]."""
        return self.predicted[2] / self.measured


def deviations(comparison: Comparison, quantity: str) -> list[Deviation]:
    """Predictions of one quantity, the farthest from its measurement first: half counts as much as double.

    Examples
    --------
    >>> comparison = Comparison([{}, {}], {"tpot": np.array([1.0, 1.0])}, {"tpot": np.array([[1.5], [0.5]])}, {})
    >>> [(one.index, one.ratio) for one in deviations(comparison, "tpot")]
    [(1, 0.5), (0, 1.5)]
    """
    measured = comparison.measured[quantity]
    known = np.flatnonzero(np.isfinite(measured))
    if not len(known):
        return []
    levels = np.quantile(comparison.predicted[quantity][known], SHARES, axis=1).T
    found = [
        Deviation(int(index), quantity, float(measured[index]), tuple(row))
        for index, row in zip(known, levels.tolist(), strict=True)
    ]
    return sorted(found, key=lambda one: -abs(float(np.log(one.ratio))))


def merged(comparisons: Iterable[Comparison]) -> Comparison:
    """Put comparisons of several tables into one.

    Examples
    --------
    >>> one = Comparison([{}], {"tpot": np.ones(1)}, {"tpot": np.ones((1, 3))}, {"duplicate": 1})
    >>> other = Comparison([{}], {"step": np.ones(1)}, {"step": np.ones((1, 3))}, {"duplicate": 2})
    >>> both = merged([one, other])
    >>> both.measured["tpot"].tolist(), dict(both.skipped)
    ([1.0, nan], {'duplicate': 3})
    """
    parts = list(comparisons)
    names = list(dict.fromkeys(name for part in parts for name in part.measured))
    widths = [next((cloud.shape[1] for cloud in part.predicted.values()), 1) for part in parts]
    width = max(widths, default=1)
    measured: dict[str, Array] = {}
    predicted: dict[str, Array] = {}
    for name in names:
        blank = [np.full(len(part.rows), np.nan) for part in parts]
        measured[name] = np.concatenate([part.measured.get(name, one) for part, one in zip(parts, blank, strict=True)])
        predicted[name] = np.concatenate(
            [part.predicted.get(name, np.full((len(part.rows), width), np.nan)) for part in parts]
        )
    skipped: Counter[str] = Counter()
    for part in parts:
        skipped.update(part.skipped)
    rows = [row for part in parts for row in part.rows]
    units = {name: unit for part in parts for name, unit in part.units.items()}
    return Comparison(rows, measured, predicted, skipped, units, _explain_all(parts))


def _explain_all(parts: Sequence[Comparison]) -> Callable[[int, str], Explanation | None]:
    owners = [(part, index) for part in parts for index in range(len(part.rows))]

    def explain(index: int, quantity: str) -> Explanation | None:
        part, own = owners[index]
        return part.explain(own, quantity) if part.explain is not None else None

    return explain


def comparison_document(comparison: Comparison, by: Sequence[str] = ()) -> dict[str, Any]:
    """Summarise a comparison over all rows and by columns.

    Examples
    --------
    >>> ones = np.ones(2)
    >>> rows = [{"chip": "a"}, {"chip": "b"}]
    >>> comparison = Comparison(rows, {"tpot": ones}, {"tpot": np.ones((2, 3))}, {})
    >>> comparison_document(comparison, ["chip"])["by"]["chip"]["b"]["tpot"]["n"]
    1
    """
    document: dict[str, Any] = dict(summaries(comparison, np.ones(len(comparison.rows), bool)))
    document["by"] = {}
    check_columns(comparison, by)
    for column in by:
        values = np.array([row.get(column) or "not stated" for row in comparison.rows])
        slices = {str(value): summaries(comparison, values == value) for value in sorted(set(values.tolist()))}
        document["by"][column] = {
            value: {name: one for name, one in found.items() if one["n"]} for value, found in slices.items()
        }
    document["skipped"] = dict(comparison.skipped)
    return document


def check_columns(comparison: Comparison, by: Sequence[str]) -> None:
    """Refuse columns that no row has."""
    known = set().union(*(row.keys() for row in comparison.rows)) if comparison.rows else {*by}
    for column in by:
        if column not in known:
            raise InputError(f"--by {shown(column)}: the data have no such column; {nearest(column, known)}")


def summaries(comparison: Comparison, chosen: NDArray[np.bool_]) -> dict[str, Any]:
    """Summarise some of a comparison's rows.

    Examples
    --------
    >>> comparison = Comparison([{}], {"tpot": np.ones(1)}, {"tpot": np.ones((1, 3))}, {})
    >>> summaries(comparison, np.array([False]))["tpot"]["n"]
    0
    """
    return {
        name: asdict(summarize(comparison.predicted[name][chosen], values[chosen]))
        for name, values in comparison.measured.items()
    }
