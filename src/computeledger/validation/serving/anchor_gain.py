"""What one measurement of a deployment is worth: errors and intervals on its other points, before and after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Range
from computeledger.physics.calibration.anchors import AnchorSpread, load_anchor_calibration
from computeledger.physics.calibration.efficiency import median_of
from computeledger.validation.compare import Array, Comparison
from computeledger.validation.conformal import weighted_quantile
from computeledger.workloads.serving.anchor_fit import MeasuredRatio, learn
from computeledger.workloads.serving.intervals import ALONE, interval_of

#: Points that a run needs, the anchor included.
FEWEST_SETTINGS = 2
_QUANTITIES = ("tpot", "ttft")
#: Columns that hold a row's load and its lengths, in the tables that have runs.
_LOAD = ("batch_size", "concurrency", "static_batch")
_INPUT, _OUTPUT = ("isl", "input_tokens"), ("osl", "output_tokens")


@dataclass(frozen=True, slots=True)
class AnchorGain:
    """Errors on the points of runs, with one of them as the anchor.

    Attributes
    ----------
    n, n_runs : int
        Points that are predicted, and runs [-].
    before, after : float
        Median error as a fraction; after, with the point of the middle load as the anchor [-].
    after_any : float
        The same with every point as the anchor in turn, each run's points counted once [-].
    coverage_90 : float
        Share of points inside the 90 % interval after the anchor of the middle load [-].
    width_ratio : float
        High over low end of that interval, in the median [-].
    """

    n: int
    n_runs: int
    before: float
    after: float
    after_any: float
    coverage_90: float
    width_ratio: float


@dataclass(frozen=True, slots=True)
class Pair:
    """A point of a run and another that is its anchor: the target's real ratio, and what the anchor says of it."""

    source: str
    run: str
    real: float
    before: Range
    after: Range
    weight: float
    is_middle: bool


@dataclass(frozen=True, slots=True)
class RunPoint:
    """A measured point of a run, its ratio to the prediction without any class's median."""

    source: str
    interval: str
    place: MeasuredRatio


def anchor_gain(comparison: Comparison, quantity: str = "tpot") -> AnchorGain | None:
    """Anchor every run on one of its points and predict the others.

    Examples
    --------
    >>> row = {"run": "one", "class": "known deployment", "batch_size": "8", "isl": "1024"}
    >>> rows = [{**row, "batch_size": f"{batch}"} for batch in (1, 8, 16, 32)]
    >>> measured = np.array([2.0, 2.1, 1.9, 2.0])
    >>> found = anchor_gain(Comparison(rows, {"tpot": measured}, {"tpot": np.ones((4, 3))}, {}))
    >>> bool(found.after < 0.2 * found.before)
    True
    """
    if quantity not in comparison.measured or quantity not in _QUANTITIES:
        return None
    runs = run_points(comparison, quantity)
    return summarized(pairs_of(runs, quantity), len(runs)) if runs else None


def run_points(comparison: Comparison, quantity: str) -> dict[str, list[RunPoint]]:
    """Points of runs that have several, one for each load and length."""
    middle = np.median(comparison.predicted[quantity], axis=1)
    runs: dict[str, dict[tuple[float, float, float], RunPoint]] = {}
    for place, row in enumerate(comparison.rows):
        measured = comparison.measured[quantity][place]
        if not ("run" in row and "class" in row and np.isfinite(measured)):
            continue
        name = row["class"].partition(", acceptance")[0]
        of_class = median_of(getattr(interval_of(name), quantity))
        batch, given = _first(row, _LOAD), _first(row, _INPUT)
        point = MeasuredRatio(float(measured / middle[place]) * of_class, batch, given)
        setting = batch, given, _first(row, _OUTPUT)
        run = f"{row['run']} {name.partition(f', {ALONE}')[0]}"
        runs.setdefault(run, {}).setdefault(setting, RunPoint(row.get("source", ""), name, point))
    return {run: list(points.values()) for run, points in runs.items() if len(points) >= FEWEST_SETTINGS}


def _first(row: Mapping[str, str], names: Sequence[str]) -> float:
    return next((float(row[name]) for name in names if row.get(name)), 1.0)


Spreads = Mapping[str, AnchorSpread]


def pairs_of(runs: Mapping[str, list[RunPoint]], quantity: str, spreads: Spreads | None = None) -> list[Pair]:
    """Every point of every run, said by every other."""
    spread = (load_anchor_calibration().spreads if spreads is None else spreads)[quantity]
    out = []
    for run, points in runs.items():
        by_load = sorted(range(len(points)), key=lambda one: points[one].place.batch)
        middle = by_load[(len(points) - 1) // 2]
        for anchor, known in enumerate(points):
            for other, target in enumerate(points):
                if other == anchor:
                    continue
                at = target.place.batch, target.place.input_tokens
                lesson = learn(interval_of(target.interval), quantity, [known.place], at, spread)
                out.append(
                    Pair(target.source, run, target.place.ratio, lesson.before, lesson.after, 1 / (len(points) - 1),
                         anchor == middle)
                )  # fmt: skip
    return out


def summarized(pairs: Sequence[Pair], n_runs: int) -> AnchorGain:
    """Errors and intervals of pairs."""
    middle = [one for one in pairs if one.is_middle]
    inside = [one.after.low <= one.real <= one.after.high for one in middle]
    return AnchorGain(
        n=len(middle),
        n_runs=n_runs,
        before=float(np.median(_errors(middle, lambda one: one.before))),
        after=float(np.median(_errors(middle, lambda one: one.after))),
        after_any=weighted_quantile(
            _errors(pairs, lambda one: one.after), np.array([one.weight for one in pairs]), 0.5
        ),
        coverage_90=float(np.mean(inside)),
        width_ratio=float(np.median([one.after.high / one.after.low for one in middle])),
    )


def _errors(pairs: Sequence[Pair], of: Callable[[Pair], Range]) -> Array:
    return np.array([abs(median_of(of(one)) / one.real - 1) for one in pairs])
