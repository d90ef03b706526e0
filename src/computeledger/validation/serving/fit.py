"""The fit of serving: which constants, on which measurements, how well they predict what was left out."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95, Range
from computeledger.facts.load import load_system
from computeledger.physics.calibration.efficiency import IDEAL, Efficiency, efficiency, load_factors, median_of
from computeledger.physics.calibration.serving import GENERIC, calibrated_engines, load_calibration
from computeledger.physics.calibration.training import chip_family
from computeledger.physics.serving.limit import ratio_above_limit
from computeledger.units import KILO
from computeledger.validation.conformal import capped_ratios, conformal_ratios, variance_parts
from computeledger.validation.fit import (
    LEFT_OUT_GROUPS,
    Array,
    Fit,
    Fitted,
    cross_validate_near,
    fit_constants,
    linear_at,
)
from computeledger.validation.serving.elsewhere import EFFECT_SD, MAKER_SD, Elsewhere, read_elsewhere
from computeledger.validation.serving.points import Point, read_points, sort_points
from computeledger.validation.serving.predictions import Block, blocks_of, constants_along_an_axis, predict_blocks
from computeledger.workloads.serving import intervals
from computeledger.workloads.sweep import sweep
from computeledger.writing import toml_row, toml_text

#: Constants of an engine's own software; all others are shared by the engines.
OF_AN_ENGINE = (
    "floor_ratio",
    "floor_gain_per_year",
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
#: What a few deployments cannot show to be smaller: spread between and within them.
SMALLEST_SPREAD = 0.1
#: Groups of whole sources that are left out together.
SOURCE_FOLDS = 10
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


def log_ratios_of(points: Sequence[Point]) -> Callable[[Mapping[str, Efficiency], int], Array]:
    """Say how to predict points: logarithms of predicted over measured time, along the axis of the constants.

    Examples
    --------
    >>> log_ratios_of([])({}, 3).shape
    (2, 0, 3)
    """
    blocks: list[Block] = blocks_of(points)
    measured = [[one.number(f"silicon_{name}_ms") / KILO for one in points] for name in ("tpot", "ttft")]
    truth = np.log(measured).reshape(2, -1, 1)
    return partial(_log_ratios, blocks, truth)


def _log_ratios(blocks: Sequence[Block], truth: Array, engines: Mapping[str, Efficiency], n: int) -> Array:
    return np.asarray(np.log(predict_blocks(blocks, engines, n)) - truth)


def serving_fit(points: Sequence[Point], names: Sequence[Name], others: Elsewhere) -> Fit:
    """State the fit: residuals of both times of every point, then of other people's measurements.

    What is fitted are the constants and one effect on the times of steps of each other maker and of each other source.

    Examples
    --------
    >>> serving_fit([], [Name("host_step_s", "vllm")], Elsewhere([], [])).scales.shape
    (0,)
    """
    kinds = np.concatenate([np.repeat([0, 1], len(points)), np.where(others.first_tokens, 1, 0)])
    n_effects = len(others.makers) + len(others.sources)
    return Fit(
        residuals=partial(_residuals, log_ratios_of(points), names, others),
        scales=np.array([SCALES["tpot"], SCALES["ttft"]])[kinds],
        weights=np.array([1.0, TTFT_WEIGHT])[kinds] * np.concatenate([np.ones(2 * len(points)), others.weights]),
        prior_sd=np.array(
            [prior_sd(one.constant) for one in names]
            + [MAKER_SD] * len(others.makers)
            + [EFFECT_SD] * len(others.sources)
        ),
        highest=np.array([_highest(one.constant) for one in names] + [np.inf] * n_effects),
    )


def _residuals(
    log_ratios: Callable[[Mapping[str, Efficiency], int], Array],
    names: Sequence[Name],
    others: Elsewhere,
    changes: Array,
) -> Array:
    first = others.first_tokens
    constants, makers, effects = np.split(changes, [len(names), len(names) + len(others.makers)], axis=1)
    engines = engines_of(names, constants)
    own = log_ratios(engines, len(changes))
    beside = others.residuals(engines, len(changes))
    beside[~first] += effects.T[others.places[~first]]
    theirs = ~first & (others.made_by >= 0)
    beside[theirs] += makers.T[others.made_by[theirs]]
    return np.asarray(np.concatenate([*own, beside]))


def _highest(name: str) -> float:
    """Logarithm of a share's cap of 1 over its prior; other constants have none."""
    return -float(np.log(median_of(load_factors("assumed")[name].value))) if "fraction" in name else np.inf


@dataclass(frozen=True)
class ServingFit:
    """A finished fit, and what it predicts of points, and of other people's sources, that it did not see."""

    points: Sequence[Point]
    incomplete: Sequence[Point]
    names: Sequence[Name]
    fitted: Fitted
    residuals: Mapping[str, Array]
    others: Elsewhere
    elsewhere: Array

    @functools.cached_property
    def limits(self) -> Array:
        """Logarithms of the physical limits of both times of every point over the measured ones."""
        return log_ratios_of(self.points)(dict.fromkeys(calibrated_engines(), IDEAL), 1)[..., 0]

    def scores(self, left_out: str, chosen: NDArray[np.bool_]) -> Array:
        """Residuals of points that a fold left out, as the ratio about a prediction moves it above its limit."""
        return above_limits(self.residuals[left_out][:, chosen], self.limits[:, chosen])


def above_limits(residuals: Array, limits: Array) -> Array:
    """Logarithms of predicted over measured time as ratios that stay above the limit see them.

    Examples
    --------
    >>> above_limits(np.log([2.0, 1.5, 0.5]), np.log([0.01, 0.9, 0.2])).round(2).tolist()
    [0.69, 0.72, -0.69]
    """
    return np.asarray(-np.log(ratio_above_limit(1.0, np.exp(residuals), np.exp(limits))))


def fold_of(labels: Sequence[str]) -> NDArray[np.int64]:
    """Number labels in their order.

    Examples
    --------
    >>> fold_of(["b", "a", "b"]).tolist()
    [1, 0, 1]
    """
    order = {label: place for place, label in enumerate(sorted(set(labels)))}
    return np.array([order[label] for label in labels], dtype=np.int64)


#: What is left out in turn.
LEFT_OUT = ("fifth", "pair", "model", "chip", "source")


def fit_serving(table: str | Path, leave: Sequence[str] = LEFT_OUT, executor: Executor | None = None) -> ServingFit:
    """Fit the serving constants and cross-validate them, what is left out several at a time by an executor.

    Examples
    --------
    >>> fit_serving("nowhere.csv")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file
    """
    every, _ = sort_points(read_points(table))
    points = [one for one in every if one.kind != "incomplete"]
    incomplete = [one for one in every if one.kind == "incomplete"]
    others = read_elsewhere(Path(table).parent)
    names = names_to_fit()
    fit = serving_fit(points, names, others)
    fitted = fit_constants(fit, shipped_change(names, others))
    linear = linear_at(fit, fitted.change)
    n = len(points)
    shuffled = np.random.default_rng(0).permutation(n) % RANDOM_FOLDS
    folds = {
        "fifth": shuffled.astype(np.int64),
        "pair": fold_of([one.pair for one in points]),
        "model": fold_of([one.family for one in points]),
        "chip": fold_of([chip_family(load_system(one.system).accelerator) for one in points]),
    }
    none = np.full(len(others.rows), -1)
    groups = {name: np.concatenate([one, one, none]) for name, one in folds.items() if name in leave}
    if "source" in leave:
        groups["source"] = np.concatenate([np.full(2 * n, -1), others.places % SOURCE_FOLDS])
    nothing, everything = fit.residuals(np.vstack([fitted.change, np.zeros(len(fit.prior_sd))])).T
    residuals = {"nothing": nothing[: 2 * n].reshape(2, n), "everything": everything[: 2 * n].reshape(2, n)}
    validate = partial(cross_validate_near, fit, linear, start=fitted.change)
    found = dict(zip(groups, sweep(validate, list(groups.values()), executor, what=LEFT_OUT_GROUPS), strict=True))
    elsewhere = found.pop("source", nothing)
    residuals |= {name: one[: 2 * n].reshape(2, n) for name, one in found.items()}
    beside = serving_fit(incomplete, names, Elsewhere([], [])).residuals(fitted.change[None, : len(names)])
    residuals["incomplete"] = beside.reshape(2, len(incomplete))
    return ServingFit(points, incomplete, names, fitted, residuals, others, elsewhere[2 * n :])


def shipped_change(names: Sequence[Name], others: Elsewhere) -> Array:
    """Where the fit starts: logarithms of the shipped constants over their priors, and of the effects.

    Examples
    --------
    >>> shipped_change([Name("host_step_s", "nobody")], Elsewhere([], []))
    array([0.])
    """
    found = {(one.name, one.engine): np.log(one.value / one.prior) for one in load_calibration().constants}
    effects = load_calibration().sources
    start = [found.get((one.constant, one.engine), 0.0) for one in names]
    known = {**load_calibration().makers, **effects}
    beside = [*others.makers, *others.sources]
    return np.array(start + [np.log(known[one]["effect"]) if one in known else 0.0 for one in beside])


def chips_of(points: Sequence[Point]) -> frozenset[str]:
    """List the accelerators that points were measured on.

    Examples
    --------
    >>> chips_of([])
    frozenset()
    """
    return frozenset(load_system(one.system).accelerator.id for one in points)


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
    others = f"and {len(found.others.rows)} figures of {len(found.others.sources)} other sources"
    lines = [
        "# Constants of serving, fitted: written by `computeledger fit serving`; edits are lost.",
        "",
        "[about]",
        f'data = "{len(found.points):,} InferenceX points with a complete record, {others}"',
        f'residual = "{residual}, left out a fifth at a time"',
        f'date = "{date.today().isoformat()}"',
        f'source = "{source}"',
        f'reference_month = "{load_calibration().reference_month}"',
        f'newest_month = "{load_calibration().newest_month}"',
    ]
    for engine in ("shared", *calibrated_engines()):
        lines += ["", f"[{engine}]"]
        for place, one in enumerate(found.names):
            if one.engine == engine:
                lines.append(_constant_line(one, found.fitted, place))
    lines += _effect_lines(found)
    runs = fold_of([one.run for one in found.points])
    for name, (kind, left_out) in _INTERVALS.items():
        chosen = kinds == kind
        lines += _interval_lines(
            name, found.residuals[left_out][:, chosen], runs[chosen], found.scores(left_out, chosen)
        )
    lines += _elsewhere_lines(found, kinds == "aggregated")
    lines += _interval_lines(
        intervals.INCOMPLETE, found.residuals["incomplete"], fold_of([one.run for one in found.incomplete])
    )
    aggregated = [one for one in found.points if one.kind == "aggregated"]
    count = Counter(intervals.deployment(one.model, one.precision.name, one.system, one.backend) for one in aggregated)
    known = sorted(name for name, number in count.items() if number >= FEWEST_OF_A_DEPLOYMENT)
    chips = sorted(chips_of(found.points))
    usual = sorted(found.others.usual_chips - chips_of(found.points))
    lines += ["", "[deployments]", f"chips = [{', '.join(toml_text(one) for one in chips)}]"]
    lines += [f"usual_chips = [{', '.join(toml_text(one) for one in usual)}]"]
    lines += ["fitted = [", *(f"  {toml_text(one)}," for one in known), "]", ""]
    return "\n".join(lines)


def _interval_lines(name: str, residuals: Array, runs: NDArray[np.int64], scores: Array | None = None) -> list[str]:
    lines = ["", f'[intervals."{name}"]', f"n = {residuals.shape[1]}"]
    moved = residuals if scores is None else scores
    for quantity, one, score in zip(("tpot", "ttft"), residuals, moved, strict=True):
        between, within = variance_parts(one, runs)
        lines.append(f"{quantity} = [{', '.join(f'{ratio:.4g}' for ratio in conformal_ratios(score))}]")
        lines.append(f"{quantity}_between_runs = {between:.3f}")
        lines.append(f"{quantity}_within_run = {within:.3f}")
    return lines


def _elsewhere_lines(found: ServingFit, chosen: NDArray[np.bool_]) -> list[str]:
    """The intervals of other people's deployments: from sources left out, each of which counts alike.

    On a chip never measured, at least as wide as that of a generation of chips left out.
    """
    lines: list[str] = []
    others = found.others
    classes = np.array(others.classes(chips_of(found.points)))
    sources, first, alone = others.places, others.first_tokens, others.alone
    scores = above_limits(found.elsewhere, others.limits)
    deployments = fold_of([_deployment(row) for row in others.rows])
    for name in (intervals.USUAL, intervals.BURST, intervals.CHIP, intervals.ENGINE):
        mine = classes == name
        lines += ["", f'[intervals."{name}"]', f"n = {int(np.sum(mine))}", f"sources = {len(set(sources[mine]))}"]
        for place, quantity in enumerate(("tpot", "ttft")):
            here = mine & (first == bool(place))
            if quantity == "ttft" and name != intervals.BURST:  # queues are as uncertain on any chip
                here = (classes != intervals.BURST) & first & ~alone
            is_chip = name == intervals.CHIP
            least = conformal_ratios(found.scores("chip", chosen)[place]) if is_chip else ()
            lines += _spread_lines(
                quantity, (found.elsewhere[here], scores[here]), sources[here], deployments[here], least
            )
    usual = classes == intervals.USUAL
    for name, mine in ((intervals.USUAL_ALONE, usual), (intervals.CHIP_ALONE, classes != intervals.BURST)):
        here = mine & first & alone
        lines += ["", f'[intervals."{name}"]', f"n = {int(np.sum(here))}", f"sources = {len(set(sources[here]))}"]
        lines += _spread_lines("ttft", (found.elsewhere[here], scores[here]), sources[here], deployments[here])
    return lines


def _spread_lines(
    quantity: str,
    residuals: tuple[Array, Array],
    sources: NDArray[np.int64],
    deployments: NDArray[np.int64],
    least: Sequence[float] = (),
) -> list[str]:
    """Quantiles by the residuals above their limits, at least as far out as others; spreads by the plain ones."""
    plain, scores = residuals
    ratios = np.array(capped_ratios(scores, sources))
    if least:  # the median stays
        low, high = np.minimum(ratios, least), np.maximum(ratios, least)
        ratios = np.array([*low[:2], ratios[2], *high[3:]])
    between, within = (max(part, SMALLEST_SPREAD) for part in variance_parts(plain, deployments))
    lines = [f"{quantity} = [{', '.join(f'{ratio:.4g}' for ratio in ratios)}]"]
    return [*lines, f"{quantity}_between_runs = {between:.3f}", f"{quantity}_within_run = {within:.3f}"]


def _effect_lines(found: ServingFit) -> list[str]:
    """Effects of other makers and of other sources: measured over predicted time of a step."""
    others, lines, place = found.others, [], len(found.names)
    for title, names, member in (
        ("makers", others.makers, others.made_by),
        ("sources", others.sources, others.places),
    ):
        lines += ["", f"[{title}]"]
        for number, name in enumerate(names):
            effect, sd = np.exp(found.fitted.change[place]), found.fitted.sd[place]
            entry = {"n": str(int(np.sum(member == number))), "effect": f"{effect:.4g}", "sd": f"{sd:.3f}"}
            lines.append(toml_row(toml_text(name), entry))
            place += 1
    return lines


#: What rows of one deployment share.
_OF_A_DEPLOYMENT = ("source", "model", "accelerator", "n_accelerators", "engine", "engine_version", "layout", "weights")


def _deployment(row: Mapping[str, str]) -> str:
    return " ".join(row.get(name, "") for name in _OF_A_DEPLOYMENT)


def _constant_line(name: Name, fitted: Fitted, place: int) -> str:
    prior = median_of(load_factors("assumed")[name.constant].value)
    value = prior * np.exp(fitted.change[place])
    if "fraction" in name.constant:
        value = min(value, 1.0)
    known = {"sd": f"{fitted.sd[place]:.3f}", "prior_sd": f"{prior_sd(name.constant):.3f}"}
    return toml_row(name.constant, {"value": f"{value:.4g}", "prior": f"{prior:.4g}", **known})
