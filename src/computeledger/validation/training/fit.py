"""Fit of every training calibration to published runs: one command from the data folder to the shipped file.

Intervals are split conformal: quantiles of errors on runs that a fit has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np

from computeledger.errors import InputError
from computeledger.physics.calibration.training import (
    TrainingEfficiency,
    chip_family,
    training_efficiency,
)
from computeledger.validation.compare import Array, Summary, summarize
from computeledger.validation.training.constants import (
    ATTENTION,
    CONSTANTS,
    GEMM,
    Problem,
    configuration,
    left_out_errors,
    log_errors,
    minimise,
    plain,
    run_weights,
)
from computeledger.validation.training.points import predict_runs
from computeledger.validation.training.rows import read_training_table, training_runs
from computeledger.validation.training.sources import TrainingRun

FOLDS = 5
CLASSES = ("known", "unseen", "expert", "chip")


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
class TrainingFit:
    """Result of a fit of the training calibration."""

    constants: tuple[FittedConstant, ...]
    ratios: dict[str, float]
    tables: dict[str, dict[str, Summary]]
    training: TrainingEfficiency


def source_family(source: str) -> str:
    """Name the publisher or paper series of a row, the unit that is left out as a source.

    Examples
    --------
    >>> source_family("MLPerf Training v5.0 (NVIDIA)")
    'MLPerf'
    """
    series = {"Narayanan": "Megatron papers", "Korthikanti": "Megatron papers"}
    named = next((name for word, name in series.items() if word in source), None)
    return named or next((word for word in ("MLPerf", "MegaScale", "MaxText", "nanochat") if word in source), source)


def _fold(run: TrainingRun) -> str:
    """Fold of a configuration, stable over runs of the fit; repeats of a configuration fall together."""
    return str(crc32(configuration(run).encode()) % FOLDS)


def _left_out_families(runs: Sequence[TrainingRun], training: TrainingEfficiency) -> Array:
    """Errors where a family of chips takes what the other families reach in the mean."""
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


def conformal_factor(errors: Array, probability: float = 0.9) -> float:
    """Half width of an interval that covers unseen errors with a probability.

    ``exp(the ceil((n + 1) p)-th smallest of |errors|)``

    Examples
    --------
    >>> round(conformal_factor(np.log([1.1, 1.2, 0.8, 1.05])), 2)
    1.25
    """
    sizes = np.sort(np.abs(errors))
    if not len(sizes):
        return 1.0
    rank = min(int(np.ceil((len(sizes) + 1) * probability)), len(sizes))
    return float(np.exp(sizes[rank - 1]))


def _table(runs: Sequence[TrainingRun], errors: Array, slices: Callable[[TrainingRun], str]) -> dict[str, Summary]:
    names = [slices(run) for run in runs]
    return {name: _summary(errors[[one == name for one in names]]) for name in sorted(set(names))}


def _summary(errors: Array) -> Summary:
    return summarize(np.exp(errors)[:, None], np.ones(len(errors)))


def _kind(run: TrainingRun) -> str:
    return run.row["model_kind"]


def fit_training(data_folder: str | Path) -> TrainingFit:
    """Fit every training calibration, with the errors on runs that the fits have not seen.

    Examples
    --------
    >>> fit_training("nowhere")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere/measured/training.csv: no such file
    """
    rows = read_training_table(Path(data_folder) / "measured" / "training.csv")
    everything = training_runs(rows)[0]
    runs = [run for run in everything if np.isfinite(run.step_s)]
    if len(runs) < 10 * len(CONSTANTS):
        raise InputError(f"{data_folder}: {len(runs)} training runs are too few to fit {len(CONSTANTS)} constants")
    problem = Problem(runs, run_weights(runs), plain(training_efficiency()))
    point, curvature = minimise(problem)
    values = dict(zip(CONSTANTS, np.exp(point).tolist(), strict=True))
    training = _with_means(replace(problem.base, **values))
    errors = {
        "fit": log_errors(runs, training)[:, 0],
        "cross_validation": left_out_errors(runs, _fold),
        "leave_one_source_out": left_out_errors(runs, lambda run: source_family(run.row["source"])),
    }
    tables = {name: _table(runs, one, _kind) for name, one in errors.items()}
    errors["models_left_out"] = left_out_errors(runs, lambda run: run.model.id if _kind(run) == "moe" else "")
    by_source = _table(runs, errors["leave_one_source_out"], lambda run: source_family(run.row["source"]))
    tables["by_source_left_out"] = by_source
    tables["by_source_fit"] = _table(runs, errors["fit"], lambda run: run.row["source"])
    ratios = _class_factors(runs, errors, _left_out_families(runs, training))
    ratios["memory"], tables["memory"] = _memory(everything, training)
    constants = _constants(problem, (point, curvature))
    return TrainingFit(constants, ratios, tables, training)


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


def _class_factors(runs: Sequence[TrainingRun], errors: dict[str, Array], new_chip: Array) -> dict[str, float]:
    """Half widths by class: dense runs of a known and of an unseen stack, new models with experts, new families."""
    moe = np.array([_kind(run) == "moe" for run in runs])
    classes = {
        "known": errors["cross_validation"][~moe],
        "unseen": errors["leave_one_source_out"][~moe],
        "expert": errors["models_left_out"][moe],
        "chip": new_chip[np.isfinite(new_chip)],
    }
    return {name: conformal_factor(classes[name]) for name in CLASSES}


def _memory(runs: Sequence[TrainingRun], training: TrainingEfficiency) -> tuple[float, dict[str, Summary]]:
    stated = [run for run in runs if np.isfinite(run.memory_bytes) and run.is_accounted]
    modelled = predict_runs(stated, training, 1)[1][:, 0]
    errors = np.log(modelled / np.array([run.memory_bytes for run in stated]))
    return conformal_factor(errors), _table(stated, errors, _kind)


def _constants(problem: Problem, solution: tuple[Array, Array]) -> tuple[FittedConstant, ...]:
    """Each constant with the runs it moves, its standard error and what it trades with."""
    point, curvature = solution
    table = problem.errors(point)
    errors, slopes = table[:, 0], table[:, 1:]
    covariance = np.linalg.inv(curvature) * float(np.average(errors**2, weights=problem.weights))
    spread = np.sqrt(np.diag(covariance))
    correlations = covariance / np.outer(spread, spread) - np.eye(len(point))
    names = list(CONSTANTS)
    out = []
    for place, name in enumerate(names):
        moved = np.abs(slopes[:, place]) > 0.1
        own = np.abs(np.expm1(errors[moved])) if np.any(moved) else np.zeros(1)
        partner = int(np.argmax(np.abs(correlations[place])))
        out.append(
            FittedConstant(
                name=name,
                value=float(np.exp(point[place])),
                n_runs=int(moved.sum()),
                median_abs_error=float(np.median(own)),
                p90_abs_error=float(np.quantile(own, 0.9)),
                relative_error=float(spread[place]),
                partner=names[partner],
                correlation=float(correlations[place, partner]),
            )
        )
    return tuple(out)
