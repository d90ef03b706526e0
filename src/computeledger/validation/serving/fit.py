"""The fit of serving: which constants, on which measurements, how well they predict what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95, Range
from computeledger.facts.load import load_system
from computeledger.physics.calibration.efficiency import Efficiency, efficiency, load_factors, median_of
from computeledger.physics.calibration.serving import GENERIC, calibrated_engines
from computeledger.physics.calibration.training import chip_family
from computeledger.units import KILO
from computeledger.validation.conformal import conformal_ratios, variance_parts
from computeledger.validation.fit import Array, Fit, Fitted, cross_validate, fit_constants
from computeledger.validation.measured_table import read_rows
from computeledger.validation.serving import open_points
from computeledger.validation.serving.points import Point, read_points, sort_points
from computeledger.validation.serving.predictions import Block, blocks_of, constants_along_an_axis, predict_blocks
from computeledger.workloads.serving import intervals
from computeledger.writing import toml_row, toml_text

#: Constants of an engine's own software; all others are shared by the engines.
OF_AN_ENGINE = (
    "floor_ratio",
    "host_step_s",
    "prefill_interference",
    "prefill_ratio",
    "launch_ratio",
    "admission_steps",
)
#: Assumed with a range and still not fitted: a training step's, and the ratios that the intervals replace.
NOT_FITTED = ("training", "exposed", "microbatch", "serving_ratio", "first_token_ratio")
#: Residuals beyond which a measurement counts less: of the time per output token, and to the first token.
SCALES = {"tpot": 0.12, "ttft": 0.35}
#: A time to first token says less about the constants than a time per token.
TTFT_WEIGHT = 0.2
RANDOM_FOLDS = 5
#: Points of a deployment that make it a known one.
FEWEST_OF_A_DEPLOYMENT = 8


@dataclass(frozen=True, slots=True)
class Name:
    """A constant to fit."""

    constant: str
    engine: str


def names_to_fit() -> list[Name]:
    """List the constants: every assumption of serving that is a range.

    Examples
    --------
    >>> len(names_to_fit()) <= 70
    True
    """
    assumed = load_factors("assumed")
    free = [name for name, one in assumed.items() if isinstance(one.value, Range) and not name.startswith(NOT_FITTED)]
    shared = [Name(name, "shared") for name in free if name not in OF_AN_ENGINE]
    return shared + [Name(name, engine) for name in OF_AN_ENGINE for engine in calibrated_engines()]


def prior_sd(name: str) -> float:
    """Width of a constant's prior: its assumed range is a 90 % interval.

    Examples
    --------
    >>> round(prior_sd("mixer_floor_s"), 2)
    0.24
    """
    value = load_factors("assumed")[name].value
    return float(np.log(value.high / value.low) / (2 * Z_95)) if isinstance(value, Range) else 0.0


def engines_of(names: Sequence[Name], changes: Array) -> dict[str, Efficiency]:
    """Constants of every engine along an axis of vectors.

    Examples
    --------
    >>> found = engines_of([Name("host_step_s", "vllm")], np.log([[2.0]]))
    >>> bool(found["vllm"].host_step_s > found["sglang"].host_step_s)
    True
    """
    base = efficiency("assumed", {"efficiency.serving_ratio": 1.0, "efficiency.first_token_ratio": 1.0})
    columns = {(one.constant, one.engine): changes[:, place] for place, one in enumerate(names)}
    known = [field.name for field in fields(Efficiency)]
    out = {}
    for engine in calibrated_engines():
        own = {name: columns[key] for name in known for key in ((name, "shared"), (name, engine)) if key in columns}
        out[engine] = constants_along_an_axis(base, own)
    of_all = [[columns[name, engine] for engine in out if (name, engine) in columns] for name in known]
    means = {name: np.mean(ones, axis=0) for name, ones in zip(known, of_all, strict=True) if ones}
    shared = {name: columns[name, "shared"] for name in known if (name, "shared") in columns}
    out[GENERIC] = constants_along_an_axis(base, shared | means)
    return out


def serving_fit(points: Sequence[Point], names: Sequence[Name]) -> Fit:
    """State the fit: residuals of both times of every point.

    Examples
    --------
    >>> serving_fit([], [Name("host_step_s", "vllm")]).scales.shape
    (0,)
    """
    blocks: list[Block] = blocks_of(points)
    measured = np.log(
        [[one.number(f"silicon_{name}_ms") / KILO for one in points] for name in ("tpot", "ttft")]
    ).reshape(2, -1, 1)

    def residuals(changes: Array) -> Array:
        predicted = predict_blocks(blocks, engines_of(names, changes), len(changes))
        return np.asarray(np.concatenate([np.log(one) - truth for one, truth in zip(predicted, measured, strict=True)]))

    return Fit(
        residuals=residuals,
        scales=np.repeat([SCALES["tpot"], SCALES["ttft"]], len(points)),
        weights=np.repeat([1.0, TTFT_WEIGHT], len(points)),
        prior_sd=np.array([prior_sd(one.constant) for one in names]),
    )


@dataclass(frozen=True, slots=True)
class ServingFit:
    """A finished fit, and what it predicts of points that it did not see."""

    points: Sequence[Point]
    incomplete: Sequence[Point]
    names: Sequence[Name]
    fitted: Fitted
    residuals: Mapping[str, Array]
    elsewhere: Mapping[str, tuple[Array, list[str]]]


def _fold_of(labels: Sequence[str]) -> NDArray[np.int64]:
    order = {label: place for place, label in enumerate(sorted(set(labels)))}
    return np.array([order[label] for label in labels], dtype=np.int64)


def fit_serving(table: str | Path, leave: Sequence[str] = ("fifth", "pair", "model", "chip")) -> ServingFit:
    """Fit the serving constants and cross-validate them.

    Examples
    --------
    >>> fit_serving("nowhere.csv")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file
    """
    every, _ = sort_points(read_points(table))
    points = [one for one in every if one.kind != "incomplete"]
    incomplete = [one for one in every if one.kind == "incomplete"]
    names = names_to_fit()
    fit = serving_fit(points, names)
    fitted = fit_constants(fit)
    n = len(points)
    two = (2, n)
    nothing, everything = fit.residuals(np.vstack([fitted.change, np.zeros(len(names))])).T
    residuals = {"nothing": nothing.reshape(two), "everything": everything.reshape(two)}
    shuffled = np.random.default_rng(0).permutation(n) % RANDOM_FOLDS
    folds = {
        "fifth": shuffled.astype(np.int64),
        "pair": _fold_of([one.pair for one in points]),
        "model": _fold_of([one.family for one in points]),
        "chip": _fold_of([chip_family(load_system(one.system).accelerator) for one in points]),
    }
    for name in leave:
        found = cross_validate(fit, np.concatenate([folds[name]] * 2), fitted.change)
        residuals[name] = found.reshape(two)
    beside = serving_fit(incomplete, names).residuals(fitted.change[None, :])
    residuals["incomplete"] = beside.reshape(2, len(incomplete))
    return ServingFit(points, incomplete, names, fitted, residuals, _elsewhere(table, points, names, fitted))


def chips_of(points: Sequence[Point]) -> frozenset[str]:
    """List the accelerators that points were measured on.

    Examples
    --------
    >>> chips_of([])
    frozenset()
    """
    return frozenset(load_system(one.system).accelerator.id for one in points)


def _elsewhere(
    table: str | Path, points: Sequence[Point], names: Sequence[Name], fitted: Fitted
) -> dict[str, tuple[Array, list[str]]]:
    """Residuals on chips that were not fitted, where the folder has such figures."""
    path = Path(table).parent / "serving_open.csv"
    rows = read_rows(path, open_points.NEEDED) if path.is_file() else []
    return open_points.open_residuals(rows, engines_of(names, fitted.change[None, :]), chips_of(points))


#: Which residuals give a class its interval.
_INTERVALS = {
    intervals.KNOWN: ("aggregated", "fifth"),
    intervals.NEW: ("aggregated", "pair"),
    intervals.POOLS: ("disaggregated", "fifth"),
}


def calibration_text(found: ServingFit, source: str = "aiconfigurator") -> str:
    """Write a fit as the file that the package ships."""
    kinds = np.array([one.kind for one in found.points])
    errors = np.abs(np.expm1(found.residuals["fifth"][0][kinds == "aggregated"]))
    residual = (
        f"median {np.median(errors):.1%}, 90th percentile {np.quantile(errors, 0.9):.0%} of times per output token"
    )
    lines = [
        "# Constants of serving, fitted: written by `computeledger fit serving`; edits are lost.",
        "",
        "[about]",
        f'data = "{len(found.points):,} InferenceX points with a complete record"',
        f'residual = "{residual}, left out a fifth at a time"',
        f'date = "{date.today().isoformat()}"',
        f'source = "{source}"',
    ]
    for engine in ("shared", *calibrated_engines()):
        lines += ["", f"[{engine}]"]
        for place, one in enumerate(found.names):
            if one.engine == engine:
                lines.append(_constant_line(one, found.fitted, place))
    runs = _fold_of([one.run for one in found.points])
    for name, (kind, left_out) in _INTERVALS.items():
        chosen = kinds == kind
        lines += _interval_lines(name, found.residuals[left_out][:, chosen], runs[chosen])
    lines += _chip_lines(found, runs, kinds == "aggregated")
    lines += _interval_lines(
        intervals.INCOMPLETE, found.residuals["incomplete"], _fold_of([one.run for one in found.incomplete])
    )
    aggregated = [one for one in found.points if one.kind == "aggregated"]
    count = Counter(intervals.deployment(one.model, one.precision.name, one.system, one.backend) for one in aggregated)
    known = sorted(name for name, number in count.items() if number >= FEWEST_OF_A_DEPLOYMENT)
    chips = sorted(chips_of(found.points))
    lines += ["", "[deployments]", f"chips = [{', '.join(toml_text(one) for one in chips)}]"]
    lines += ["fitted = [", *(f"  {toml_text(one)}," for one in known), "]", ""]
    return "\n".join(lines)


def _interval_lines(name: str, residuals: Array, runs: NDArray[np.int64]) -> list[str]:
    lines = ["", f'[intervals."{name}"]', f"n = {residuals.shape[1]}"]
    for quantity, one in zip(("tpot", "ttft"), residuals, strict=True):
        between, within = variance_parts(one, runs)
        lines.append(f"{quantity} = [{', '.join(f'{ratio:.4g}' for ratio in conformal_ratios(one))}]")
        lines.append(f"{quantity}_between_runs = {between:.3f}")
        lines.append(f"{quantity}_within_run = {within:.3f}")
    return lines


def _chip_lines(found: ServingFit, runs: NDArray[np.int64], chosen: NDArray[np.bool_]) -> list[str]:
    """The interval on a chip never measured: that of other chips, and at least that of a generation left out."""
    left_out = found.residuals["chip"][:, chosen]
    n = len(found.elsewhere["tpot"][0])
    lines = ["", f'[intervals."{intervals.CHIP}"]', f"n = {n}"]
    for quantity, own in zip(("tpot", "ttft"), left_out, strict=True):
        residuals, sources = found.elsewhere[quantity]
        wide, least = conformal_ratios(residuals), conformal_ratios(own)
        # a few sources give a width; a shift of the median they do not
        ratios = [*map(min, wide[:2], least[:2]), 1.0, *map(max, wide[3:], least[3:])]
        parts = zip(variance_parts(residuals, _fold_of(sources)), variance_parts(own, runs[chosen]), strict=True)
        between, within = (max(pair) for pair in parts)
        lines.append(f"{quantity} = [{', '.join(f'{ratio:.4g}' for ratio in ratios)}]")
        lines.append(f"{quantity}_between_runs = {between:.3f}")
        lines.append(f"{quantity}_within_run = {within:.3f}")
    return lines


def _constant_line(name: Name, fitted: Fitted, place: int) -> str:
    prior = median_of(load_factors("assumed")[name.constant].value)
    value = prior * np.exp(fitted.change[place])
    if "fraction" in name.constant:
        value = min(value, 1.0)
    known = {"sd": f"{fitted.sd[place]:.3f}", "prior_sd": f"{prior_sd(name.constant):.3f}"}
    return toml_row(name.constant, {"value": f"{value:.4g}", "prior": f"{prior:.4g}", **known})
