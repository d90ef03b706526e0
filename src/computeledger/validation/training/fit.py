"""Fit of every training calibration to published runs: one command from the data folder to the shipped file.

Intervals are split conformal: quantiles of errors on whole sources that a fit has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from pathlib import Path
from zlib import crc32

import numpy as np

from computeledger.errors import InputError
from computeledger.physics.calibration.training import TrainingEfficiency, chip_family, training_efficiency
from computeledger.physics.training.step import step_class
from computeledger.validation import fit
from computeledger.validation.compare import Array, Summary, summarize
from computeledger.validation.measured_table import curated_rows
from computeledger.validation.training.constants import (
    ATTENTION,
    CONSTANTS,
    GEMM,
    Problem,
    configuration,
    effects_of,
    framework_of_run,
    log_errors,
    plain,
    source_family,
)
from computeledger.validation.training.points import as_batch, predict_runs
from computeledger.validation.training.rows import read_training_table, training_runs
from computeledger.validation.training.sources import TrainingRun
from computeledger.workloads.sweep import sweep

FOLDS = 5
#: Classes of questions, by :func:`~computeledger.physics.training.step.step_class`.
CLASSES = ("known", "unseen", "expert", "chip")
#: Tables of measured runs: of the folder, and shipped with the package.
IN_FOLDER, SHIPPED = ("training.csv", "training_open.csv"), "training_elsewhere.csv"
#: Measurements that make a slice.
FEWEST_OF_A_CELL = 5
#: Runs of a source that count for an interval at most: a vendor's table is many configurations.
MOST_OF_AN_INTERVAL = 20


@dataclass(frozen=True, slots=True)
class FittedConstant:
    """One constant of the calibration."""

    name: str
    value: float
    n_runs: int
    median_abs_error: float
    p90_abs_error: float
    relative_error: float
    partner: str
    correlation: float


@dataclass(frozen=True, slots=True)
class Slice:
    """How well measurements that share a framework, a chip and a kind of model are predicted, their source left out."""

    n: int
    sources: int
    median_abs_error: float


@dataclass(frozen=True, slots=True)
class TrainingFit:
    """Result of a fit of the training calibration."""

    constants: tuple[FittedConstant, ...]
    ratios: Mapping[str, float]
    tables: Mapping[str, Mapping[str, Summary]]
    training: TrainingEfficiency
    frameworks: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, float] = field(default_factory=dict)
    slices: Mapping[str, Slice] = field(default_factory=dict)


def _fold(run: TrainingRun) -> str:
    """Fold of a configuration, stable over runs of the fit; repeats of a configuration fall together."""
    return str(crc32(configuration(run).encode()) % FOLDS)


def left_out_families(runs: Sequence[TrainingRun], training: TrainingEfficiency) -> Array:
    """Errors where a family of chips takes what the other families reach in the mean.

    Examples
    --------
    >>> left_out_families([], training_efficiency()).shape
    (0,)
    """
    families = ("ampere", "hopper", "blackwell")
    errors = np.full(len(runs), np.nan)
    for left in families:
        others = [name for name in families if name != left]
        swapped = {}
        for kind in (GEMM, ATTENTION):
            swapped[kind + left] = float(np.exp(np.mean([np.log(getattr(training, kind + name)) for name in others])))
        if left != "ampere":
            other = "blackwell" if left == "hopper" else "hopper"
            swapped[f"{GEMM}{left}_fp8"] = getattr(training, f"{GEMM}{other}_fp8")
        chosen = [place for place, run in enumerate(runs) if chip_family(run.system.accelerator) == left]
        errors[chosen] = log_errors([runs[place] for place in chosen], replace(training, **swapped))[:, 0]
    return errors


def conformal_factor(errors: Array, probability: float = 0.9, groups: Sequence[str] | None = None) -> float:
    """Half width of an interval that covers unseen errors with a probability.

    ``exp(the ceil((n + 1) p)-th smallest of |errors|)``; where errors are of groups, none of which counts for more than
    a few members, the smallest that holds that share.

    Examples
    --------
    >>> round(conformal_factor(np.log([1.1, 1.2, 0.8, 1.05])), 2)
    1.25
    """
    sizes, n = np.sort(np.abs(errors)), len(errors)
    if not n:
        return 1.0
    if groups is None:
        return float(np.exp(sizes[min(int(np.ceil((n + 1) * probability)), n) - 1]))
    _, places, counts = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    shares = np.minimum(1.0, MOST_OF_AN_INTERVAL / counts[places])[np.argsort(np.abs(errors))]
    held = np.cumsum(shares) / np.sum(shares)
    return float(np.exp(sizes[min(int(np.searchsorted(held, probability)), n - 1)]))


#: A uniform spread of the logarithm whose 5th and 95th percentiles are its interval's ends.
_SPREAD = np.linspace(-1, 1, 181) / 0.9


def _table(
    runs: Sequence[TrainingRun], errors: Array, slices: Callable[[TrainingRun], str], widths: Array | None = None
) -> dict[str, Summary]:
    """Errors by slice, and how many lie inside intervals of certain widths."""
    names = np.array([slices(run) for run in runs])
    around = np.zeros(len(runs)) if widths is None else widths
    clouds = np.exp(errors[:, None] + np.log1p(around)[:, None] * _SPREAD)
    return {
        name: summarize(clouds[names == name], np.ones(int(np.sum(names == name))))
        for name in sorted(set(names.tolist()))
    }


def _kind(run: TrainingRun) -> str:
    return run.row["model_kind"]


def read_every_run(data_folder: str | Path) -> list[TrainingRun]:
    """Read the runs of the folder's tables and of the shipped one.

    Examples
    --------
    >>> read_every_run("nowhere")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere/measured/training.csv: no such file
    """
    folder = Path(data_folder) / "measured"
    paths = [folder / IN_FOLDER[0], *(folder / name for name in IN_FOLDER[1:] if (folder / name).is_file())]
    shipped = Path(str(resources.files("computeledger.validation").joinpath("data", SHIPPED)))
    rows = [row for path in (*paths, shipped) for row in read_training_table(path)]
    return training_runs(rows)[0]


def fit_training(data_folder: str | Path, executor: Executor | None = None) -> TrainingFit:
    """Fit every training calibration, with the errors on runs that the fits have not seen, worked out by an executor.

    Examples
    --------
    >>> fit_training("nowhere")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere/measured/training.csv: no such file
    """
    runs = [run for run in read_every_run(data_folder) if np.isfinite(run.step_s)]
    if len(runs) < 10 * len(CONSTANTS):
        raise InputError(f"{data_folder}: {len(runs)} training runs are too few to fit {len(CONSTANTS)} constants")
    problem, fitted = Problem(runs, plain(training_efficiency())).solved()
    stated = problem.fit()
    linear = fit.linear_at(stated, fitted.change)
    training = _with_means(problem.at(fitted.change))
    names, made_by = problem.sources
    _, folds = np.unique([_fold(run) for run in runs], return_inverse=True)
    unseen = np.where(np.arange(len(fitted.change)) < len(fitted.change) - len(names), fitted.change, 0.0)
    validate = partial(fit.cross_validate_near, stated, linear, start=fitted.change)
    left = [folds.astype(np.int64), made_by]
    cross, alone = sweep(validate, left, executor, what=fit.LEFT_OUT_GROUPS)
    errors = {
        "fit": stated.residuals(unseen[None, :])[:, 0],
        "cross_validation": cross,
        "leave_one_source_out": alone,
    }
    left_out, classes = errors["leave_one_source_out"], classes_of(runs)
    ratios = class_factors(runs, left_out, left_out_families(runs, training))
    widths = np.array([ratios[name] for name in classes]) - 1
    tables = {name: _table(runs, one, _kind, widths) for name, one in errors.items()}
    tables["by_class_left_out"] = _table(runs, left_out, lambda run: classes_of([run])[0], widths)
    tables["by_source_left_out"] = _table(runs, left_out, lambda run: source_family(run.row["source"]), widths)
    tables["by_chip_left_out"] = _table(runs, left_out, lambda run: chip_family(run.system.accelerator), widths)
    tables["by_source_fit"] = _table(runs, errors["fit"], lambda run: run.row["source"], widths)
    peaks = training_runs(curated_rows("training_memory_curated.csv"))[0]
    ratios["memory"], tables["memory"] = _memory([run for run in peaks if run.is_accounted], training)
    constants = _constants(problem, fitted.change, errors["fit"])
    return TrainingFit(constants, ratios, tables, training, *effects_of(problem, fitted), _slices(runs, left_out))


def _with_means(training: TrainingEfficiency) -> TrainingEfficiency:
    """Chips outside the calibration take the geometric mean of the families in it."""

    def mean(*names: str) -> float:
        return float(np.exp(np.mean([np.log(float(np.asarray(getattr(training, name)))) for name in names])))

    families = ("ampere", "hopper", "blackwell")
    return replace(
        training,
        training_gemm_fraction_other=mean(*(GEMM + name for name in families)),
        training_gemm_fraction_other_fp8=mean(f"{GEMM}hopper_fp8", f"{GEMM}blackwell_fp8"),
        training_attention_fraction_other=mean(*(ATTENTION + name for name in families)),
    )


def classes_of(runs: Sequence[TrainingRun]) -> list[str]:
    """Name the class of each run that gives it its interval, one of ``CLASSES``.

    Examples
    --------
    >>> classes_of([])
    []
    """
    return [step_class(run.model, as_batch(run), chip_family(run.system.accelerator)) for run in runs]


def class_factors(
    runs: Sequence[TrainingRun], errors: Array, new_chip: Array, probability: float = 0.9
) -> dict[str, float]:
    """Half widths by class, from sources left out; of a chip outside the calibration at least that of one left out.

    Examples
    --------
    >>> class_factors([], np.zeros(0), np.zeros(0))["expert"]
    1.0
    """
    classes = np.array(classes_of(runs))
    sources = np.array([source_family(run.row["source"]) for run in runs])
    found = {}
    for name in CLASSES:
        mine = classes == name
        found[name] = conformal_factor(errors[mine], probability, sources[mine].tolist())
    away = np.isfinite(new_chip)
    found["chip"] = max(found["chip"], conformal_factor(new_chip[away], probability, sources[away].tolist()))
    return found


def _slices(runs: Sequence[TrainingRun], errors: Array) -> dict[str, Slice]:
    """Errors of what was left out by framework, chip family and kind of model, and by fewer of them."""
    parts: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        labels = (_kind(run), chip_family(run.system.accelerator), framework_of_run(run) or "generic")
        for depth in range(1, len(labels) + 1):
            parts.setdefault(" ".join(labels[:depth]), []).append(place)
    found = {}
    for name, places in sorted(parts.items()):
        if len(places) >= FEWEST_OF_A_CELL:
            sources = {source_family(runs[place].row["source"]) for place in places}
            error = float(np.median(np.abs(np.expm1(errors[places]))))
            found[name] = Slice(len(places), len(sources), error)
    return found


def _memory(runs: Sequence[TrainingRun], training: TrainingEfficiency) -> tuple[float, dict[str, Summary]]:
    modelled = predict_runs(runs, training, 1)[1][:, 0]
    errors = np.log(modelled / np.array([run.memory_bytes for run in runs]))
    factor = conformal_factor(errors)
    return factor, _table(runs, errors, _kind, np.full(len(runs), factor - 1))


def _constants(problem: Problem, change: Array, errors: Array) -> tuple[FittedConstant, ...]:
    """Each constant with the runs it moves, its standard error and what it trades with."""
    names, values = list(CONSTANTS), problem.at(change)
    here = change.copy()
    here[: len(names)] = [np.log(getattr(values, name) / one.start) for name, one in CONSTANTS.items()]
    linear = fit.linear_at(replace(problem, held=frozenset()).fit(), here)
    around = linear.residuals(np.vstack([here, here + np.eye(len(here))]))
    slopes = around[:, 1:] - around[:, :1]
    pull = linear.weights / (linear.scales**2 + around[:, 0] ** 2)
    covariance = np.linalg.inv(slopes.T @ (pull[:, None] * slopes) + np.diag(linear.prior_sd**-2))
    spread = np.sqrt(np.diag(covariance))
    correlations = (covariance / np.outer(spread, spread))[: len(CONSTANTS), : len(CONSTANTS)] - np.eye(len(CONSTANTS))
    out = []
    for place, name in enumerate(names):
        moved = np.abs(slopes[:, place]) > 0.1
        own = np.abs(np.expm1(errors[moved])) if np.any(moved) else np.zeros(1)
        partner = int(np.argmax(np.abs(correlations[place])))
        out.append(
            FittedConstant(
                name=name,
                value=float(getattr(values, name)),
                n_runs=int(moved.sum()),
                median_abs_error=float(np.median(own)),
                p90_abs_error=float(np.quantile(own, 0.9)),
                relative_error=float(spread[place]),
                partner=names[partner],
                correlation=float(correlations[place, partner]),
            )
        )
    return tuple(out)
