"""How far predictions lie from measurements: one summary shape for every ``validate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import InputError, nearest

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Summary:
    """Errors over a set of measurements, as fractions.

    Attributes
    ----------
    n : int
        Measurements [-].
    median_abs_error, mean_abs_error, p90_abs_error : float
        Of ``|predicted / measured - 1|`` [-].
    bias : float
        Median of predicted over measured [-].
    coverage_80, coverage_90 : float
        Share of measurements inside the predicted interval of that probability [-].
    """

    n: int
    median_abs_error: float
    mean_abs_error: float
    p90_abs_error: float
    bias: float
    coverage_80: float
    coverage_90: float


def summarize(predicted: Array, measured: Array) -> Summary:
    """Summarise predictions that are clouds of samples.

    Parameters
    ----------
    predicted : ndarray
        One row of samples per measurement, in the measured unit [-].
    measured : ndarray
        One value per measurement [-].

    Returns
    -------
    Summary
        The median of a row's samples is its prediction.

    Examples
    --------
    >>> one = summarize(np.array([[0.9, 1.0, 1.1], [1.8, 2.0, 2.2]]), np.array([1.0, 4.0]))
    >>> one.n, one.median_abs_error, one.coverage_90
    (2, 0.25, 0.5)
    """
    low_90, low_80, middle, high_80, high_90 = np.quantile(predicted, [0.05, 0.1, 0.5, 0.9, 0.95], axis=1)
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
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Predictions beside measurements.

    Attributes
    ----------
    rows : sequence of mapping
        The measurements' columns, as read.
    measured, predicted : mapping of str to ndarray
        By quantity: values (n,), not a number where a row does not state it, and samples (n, n_samples).
    skipped : mapping of str to int
        Rows left out, by reason.
    """

    rows: Sequence[Mapping[str, str]]
    measured: Mapping[str, Array]
    predicted: Mapping[str, Array]
    skipped: Mapping[str, int]


def comparison_document(comparison: Comparison, by: Sequence[str] = ()) -> dict[str, Any]:
    """Summarise a comparison over all rows and by columns.

    Parameters
    ----------
    comparison : Comparison
        Predictions beside measurements.
    by : sequence of str
        Columns to slice by.

    Returns
    -------
    dict
        ``{QUANTITY: S, "by": {COLUMN: {VALUE: {QUANTITY: S}}}, "skipped": {REASON: n}}``.

    Raises
    ------
    InputError
        A column that the data do not have.

    Examples
    --------
    >>> ones = np.ones(2)
    >>> rows = [{"chip": "a"}, {"chip": "b"}]
    >>> comparison = Comparison(rows, {"tpot": ones}, {"tpot": np.ones((2, 3))}, {})
    >>> comparison_document(comparison, ["chip"])["by"]["chip"]["b"]["tpot"]["n"]
    1
    """
    document: dict[str, Any] = dict(_summaries(comparison, np.ones(len(comparison.rows), bool)))
    document["by"] = {}
    for column in by:
        known = set().union(*(row.keys() for row in comparison.rows)) if comparison.rows else set()
        if column not in known:
            raise InputError(f"--by {column!r}: the data have no such column; {nearest(column, known)}")
        values = np.array([row.get(column) or "not stated" for row in comparison.rows])
        document["by"][column] = {
            str(value): _summaries(comparison, values == value) for value in sorted(set(values.tolist()))
        }
    document["skipped"] = dict(comparison.skipped)
    return document


def _summaries(comparison: Comparison, chosen: NDArray[np.bool_]) -> dict[str, Any]:
    """Summary per quantity of the chosen rows that state it."""
    stated = {name: chosen & np.isfinite(values) for name, values in comparison.measured.items()}
    return {
        name: asdict(summarize(comparison.predicted[name][kept], comparison.measured[name][kept]))
        for name, kept in stated.items()
        if np.any(kept)
    }
