"""How far a small training run holds for a larger one, fitted on other people's runs with their sources left out."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from computeledger.arrays import Num, Range, sample
from computeledger.physics.calibration.anchors import StepSpread
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.calibration.training import load_training_factors, training_efficiency
from computeledger.validation.compare import Array
from computeledger.validation.conformal import weighted_quantile
from computeledger.validation.fit import LEFT_OUT_GROUPS
from computeledger.validation.training.constants import left_out_errors, log_errors, plain, source_family
from computeledger.validation.training.points import as_batch, predict_runs
from computeledger.validation.training.rows import read_training_table, training_runs
from computeledger.validation.training.sources import TrainingRun
from computeledger.workloads.anchor_fit import Lesson, posterior
from computeledger.workloads.pretraining.anchor import Place, interval_of_step, place_of, seen_steps, step_lesson
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.sweep import sweep

TABLES = (Path("measured") / "training.csv", Path("measured") / "training_open.csv")
AXES = ("gpus", "layout", "sequence", "model", "experts", "precision")
#: Standard deviations that are tried, of scatter and per doubling [-].
_TRIED = np.geomspace(0.003, 0.5, 30)
#: Freedom of Student's t, whose long tails keep a few strange runs from deciding (assumption).
_FREEDOM = 2.5
_BARE = (-1.0, -1.0, 1.0, 1.0)
_TAILS = (0.05, 0.1, 0.9, 0.95)
_SAMPLES = 64
#: An interval has two sides.
_LEAST = 0.1
#: Anchors of a group: the smallest run, and the two smallest.
_ANCHORS = (1, 2)


@dataclass(frozen=True, slots=True)
class Trained:
    """A measured configuration: source, chip, model, place, real over predicted step, interval."""

    source: str
    chip: str
    model: str
    place: Place
    log_ratio: float
    before: Range


@dataclass(frozen=True, slots=True)
class StepGain:
    """What the smallest runs of a source and chip say of its others, by the spreads of all other sources.

    Attributes
    ----------
    kind : str
        ``dense`` or ``experts``, and whether anchors and targets are of one model and precision.
    n_anchors : int
        Of the smallest runs, by GPUs, then by size [-].
    n, n_runs : int
        Configurations that are predicted, and sources with their chips [-].
    before, after, before_p90, after_p90 : float
        Error of the median as a fraction: its median and its 90th percentile, without and with the anchors [-].
    coverage_before, coverage_90 : float
        Share inside the 90 % interval [-].
    width_before, width_ratio : float
        High over low end of that interval, in the median [-].
    """

    kind: str
    n_anchors: int
    n: int
    n_runs: int
    before: float
    after: float
    before_p90: float
    after_p90: float
    coverage_before: float
    coverage_90: float
    width_before: float
    width_ratio: float


@dataclass(frozen=True, slots=True)
class StepFit:
    """Spreads, what they do on sources left out, and how much data stands behind them."""

    spread: StepSpread
    left_out: tuple[StepGain, ...]
    n: int
    n_runs: int
    n_sources: int


Groups = Mapping[tuple[str, str], Sequence[Trained]]
Told = tuple[Trained, Lesson]


def fit_steps(folder: str | Path, quick: bool = False, executor: Executor | None = None) -> StepFit:
    """Fit the spreads on both tables of training; whole sources are left out in turn unless it must be quick.

    An executor leaves several out at once.

    Examples
    --------
    >>> fit_steps("nowhere")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere/measured/training.csv: no such file
    """
    rows = [row for table in TABLES for row in read_training_table(Path(folder) / table)]
    runs = [run for run in training_runs(rows)[0] if np.isfinite(run.step_s)]
    errors = log_errors(runs, plain(training_efficiency()))[:, 0] if quick else left_out_errors(runs)
    groups = grouped(trained(runs, -errors))
    left_out = () if quick else left_out_gains(groups, executor)
    n_sources = len({source for source, _ in groups})
    return StepFit(step_spread(groups), left_out, sum(map(len, groups.values())), len(groups), n_sources)


def trained(runs: Sequence[TrainingRun], log_ratios: Array) -> list[Trained]:
    """Runs with their places and the intervals of their classes.

    Examples
    --------
    >>> trained([], np.zeros(0))
    []
    """
    factors = {f"efficiency.{name}": factor.value for name, factor in load_training_factors().items()}
    draws: dict[str, Num] = sample(factors, _SAMPLES)
    steps = predict_runs(runs, training_efficiency(draws=draws), _SAMPLES)[0]
    places = [place_of(PretrainingScenario(run.model, run.layout, run.precision, as_batch(run))) for run in runs]
    return [
        Trained(source_family(run.row["source"]), run.system.accelerator.id, f"{run.model.id} {run.precision.name}",
                place, float(log), interval_of_step(step))
        for run, place, log, step in zip(runs, places, log_ratios, steps, strict=True)
    ]  # fmt: skip


def grouped(runs: Sequence[Trained]) -> dict[tuple[str, str], list[Trained]]:
    """Runs of one source on one chip, from the smallest to the largest; those with no other are left out.

    Examples
    --------
    >>> grouped([])
    {}
    """
    out: dict[tuple[str, str], list[Trained]] = {}
    for one in runs:
        out.setdefault((one.source, one.chip), []).append(one)
    return {name: sorted(group, key=_scale) for name, group in out.items() if len(group) > 1}


def _scale(one: Trained) -> tuple[float, float, float]:
    gpus, size, sequence = (one.place.coordinates[name][1] for name in ("gpus", "size", "sequence"))
    return gpus, size, sequence


def step_spread(groups: Groups) -> StepSpread:
    """Fit the spreads: of the level by the groups' means, of scatter and slopes by pairs, of the tails by what is left.

    Examples
    --------
    >>> coordinates = [{name: (name, float(at) if name == "gpus" else 0.0) for name in AXES} for at in (3, 6, 9)]
    >>> steep = {(f"{level}", ""): [Trained("", "", "", Place(one, "", (at,), False), level + 0.1 * at, Range(0.7, 1.4))
    ...                             for at, one in enumerate(coordinates)] for level in (-0.1, 0.1)}
    >>> step_spread(steep).per_doubling_sd["gpus"] > 0.02
    True
    """
    apart, design, weight = _pairs(groups)
    sds = np.full(design.shape[1], 0.05)

    def likely(sds: Array) -> float:
        variance = design @ sds**2
        return float(weight @ (-0.5 * np.log(variance) - (_FREEDOM + 1) / 2 * np.log1p(apart**2 / variance / _FREEDOM)))

    for _ in range(10):
        last = sds.copy()
        for place in range(len(sds)):
            tried = [np.concatenate([sds[:place], [one], sds[place + 1 :]]) for one in _TRIED]
            sds = tried[int(np.argmax([likely(one) for one in tried]))]
        if np.array_equal(last, sds):
            break
    between = float(np.std([np.mean([one.log_ratio for one in group]) for group in groups.values()]))
    kinds, slopes = sds[:4].tolist(), dict(zip(AXES, sds[4:].tolist(), strict=True))
    bare = StepSpread(max(between, _LEAST / 2), kinds[0], kinds[1], kinds[2], kinds[3], slopes, _BARE)
    return replace(bare, tails=_tails(groups, bare))


def _pairs(groups: Groups) -> tuple[Array, Array, Array]:
    """Of pairs of a group: how far their logarithms lie apart, squared distances by spread, and weights."""
    apart, design, weight = [], [], []
    for group in groups.values():
        for one, two in itertools.combinations(group, 2):
            far = dict.fromkeys(AXES, 0.0)
            for name, (axis, at) in one.place.coordinates.items():
                far[axis] += (at - two.place.coordinates[name][1]) ** 2
            moe = one.place.is_moe or two.place.is_moe
            apart.append(one.log_ratio - two.log_ratio)
            other = one.place.model != two.place.model
            kinds = [not moe, moe, other and not moe, other and moe]
            design.append([*(2.0 * kind for kind in kinds), *far.values()])
            weight.append(1 / (len(group) - 1) / math.sqrt(len(group)))
    return np.array(apart), np.array(design), np.array(weight)


def _tails(groups: Groups, bare: StepSpread) -> tuple[float, float, float, float]:
    """Where real steps lie about what the smallest runs say of them, in predicted standard deviations."""
    scores, weights = [], []
    for group in _of_kinds(groups.values()):
        for n_anchors in _ANCHORS:
            for target in group[n_anchors:]:
                known = group[:n_anchors]
                at = [one.place for one in known], target.place
                seen, prior = seen_steps(target.before, [math.exp(one.log_ratio) for one in known], at, bare)
                mean, sd = posterior(seen, prior)
                scores.append((target.log_ratio - math.log(median_of(target.before)) - mean) / sd)
                weights.append(1 / math.sqrt(len(group)))
    low, inner_low, inner_high, high = (
        weighted_quantile(np.array(scores), np.array(weights), share) for share in _TAILS
    )
    return min(low, -_LEAST), min(inner_low, -_LEAST), max(inner_high, _LEAST), max(high, _LEAST)


def _of_kinds(groups: Iterable[Sequence[Trained]]) -> list[list[Trained]]:
    """Dense models and models with experts of each group apart."""
    parts = [[one for one in group if one.place.is_moe == is_moe] for group in groups for is_moe in (False, True)]
    return [part for part in parts if len(part) > 1]


def left_out_gains(groups: Groups, executor: Executor | None = None) -> tuple[StepGain, ...]:
    """What the smallest runs of each source say of its others of that kind, by the spreads of the other sources.

    Examples
    --------
    >>> left_out_gains({})
    ()
    """
    told: dict[tuple[str, int], list[Told]] = {}
    counts = Counter[tuple[str, int]]()
    sources = sorted({name for name, _ in groups})
    for key, lessons in itertools.chain.from_iterable(
        sweep(partial(_lessons_without, groups), sources, executor, what=LEFT_OUT_GROUPS)
    ):
        told.setdefault(key, []).extend(lessons)
        counts[key] += bool(lessons)
    return tuple(_gain(*key, counts[key], told[key]) for key in sorted(told))


def _lessons_without(groups: Groups, source: str) -> list[tuple[tuple[str, int], list[Told]]]:
    """By kind and number of anchors: what is said of each group of a source by the spreads of the others."""
    spread = step_spread({name: group for name, group in groups.items() if name[0] != source})
    own = _of_kinds(group for name, group in groups.items() if name[0] == source)
    found = []
    for (kind, group), n_anchors in itertools.product([one for part in own for one in _slices(part)], _ANCHORS):
        known, rest = group[:n_anchors], group[n_anchors:]
        ratios, there = [math.exp(one.log_ratio) for one in known], [one.place for one in known]
        lessons = [(one, step_lesson(one.before, ratios, there, one.place, spread)) for one in rest]
        found.append(((kind, n_anchors), lessons))
    return found


def _slices(part: Sequence[Trained]) -> list[tuple[str, list[Trained]]]:
    """A group as it is, and by the model and precision that a user's small run has in common with the large one."""
    kind = "experts" if part[0].place.is_moe else "dense"
    models = dict.fromkeys(one.model for one in part)
    alike = [[one for one in part if one.model == model] for model in models]
    return [(kind, list(part)), *((f"{kind}, same model and precision", one) for one in alike)]


def _gain(kind: str, n_anchors: int, n_runs: int, told: Sequence[tuple[Trained, Lesson]]) -> StepGain:
    real = np.array([math.exp(one.log_ratio) for one, _ in told])
    sides = "before", "after"
    ends = [
        np.array([(one.low, median_of(one), one.high) for one in (getattr(lesson, side) for _, lesson in told)])
        for side in sides
    ]
    errors = [np.abs(end[:, 1] / real - 1) for end in ends]
    return StepGain(
        kind, n_anchors, len(told), n_runs,
        *(float(np.median(one)) for one in errors), *(float(np.quantile(one, 0.9)) for one in errors),
        *(float(np.mean((end[:, 0] <= real) & (real <= end[:, 2]))) for end in ends),
        *(float(np.median(end[:, 2] / end[:, 0])) for end in ends),
    )  # fmt: skip


_SDS = ("between_sd", "scatter_sd", "scatter_moe_sd", "model_sd", "model_moe_sd")


def step_text(found: StepFit) -> str:
    """Write a fit as its part of the file that the package ships.

    Examples
    --------
    >>> spread = StepSpread(0.1, 0.05, 0.1, 0.1, 0.1, {}, (-2.0, -1.5, 1.5, 2.0))
    >>> step_text(StepFit(spread, (), 9, 3, 2)).splitlines()[1]
    'data = "9 configurations of 2 public sources, 3 sources and chips"'
    """
    residual = "; ".join(
        f"{one.kind}, {one.n_anchors} measured: median {one.after:.1%} ({one.before:.1%} before), "
        f"{one.coverage_90:.0%} inside"
        for one in found.left_out
    )
    spread, tails = found.spread, ", ".join(f"{tail:.3f}" for tail in found.spread.tails)
    lines = [
        "[step]",
        f'data = "{found.n} configurations of {found.n_sources} public sources, {found.n_runs} sources and chips"',
        f'residual = "{residual}; sources left out in turn"',
        'source = "training-measurements"',
        *(f"{name} = {getattr(spread, name):.3f}" for name in _SDS),
        f"tails = [{tails}]",
        "",
        "[step.per_doubling_sd]",
        *(f"{axis} = {sd:.4f}" for axis, sd in spread.per_doubling_sd.items()),
    ]
    return "\n".join([*lines, ""])
