"""What the published table of accuracy is made of: every measured figure, predicted with what it promises left out.

Other people's deployments leave their whole source out, in the groups of the fit of serving, and take the interval of
all other sources; points of the public recipes leave out a fifth, or their architecture on their system; local engines
and training leave out the source, RL the configuration, memory the model. Constants are the shipped ones, or those that
their fit finds again: the folds are found around them, so that nothing is fitted anew but what a fold moves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import QuantityError
from computeledger.facts.load import load_system
from computeledger.files import read_user_text
from computeledger.physics.calibration.efficiency import IDEAL
from computeledger.physics.calibration.rl import FITTED, rl_factors
from computeledger.physics.calibration.serving import calibrated_engines
from computeledger.physics.calibration.training import chip_family, training_efficiency
from computeledger.physics.serving.limit import above_limit_s
from computeledger.units import KILO
from computeledger.validation.accuracy.table import LABELS, NEW_PAIR, QUANTILE_COLUMNS, constants_key, part_text
from computeledger.validation.compare import SHARES, Array, Comparison
from computeledger.validation.conformal import capped_ratios, conformal_ratios
from computeledger.validation.fit import cross_validate_near, linear_at
from computeledger.validation.measured_table import curated_rows, shipped_text
from computeledger.validation.rl import fit as rl
from computeledger.validation.serving import fit as serving
from computeledger.validation.serving.elsewhere import Elsewhere, read_elsewhere
from computeledger.validation.serving.local_fit import LocalFit, fit_local
from computeledger.validation.serving.memory_runs import compare_memory, left_out, memory_runs
from computeledger.validation.serving.open_points import OpenCase
from computeledger.validation.serving.points import Point, read_points, sort_points
from computeledger.validation.training.constants import framework_of_run, left_out_errors, plain, source_family
from computeledger.validation.training.fit import CLASSES, class_factors, classes_of, left_out_families, read_every_run
from computeledger.validation.training.points import compare_training
from computeledger.workloads.engines.vllm import VLLM_BUFFERS
from computeledger.workloads.serving import intervals
from computeledger.writing import write_file

Line = Mapping[str, str]


def write_parts(folder: Path, home: Path) -> list[str]:
    """Predict the parts of the table that a folder does not hold yet for these constants and tables, and write them.

    Examples
    --------
    >>> write_parts(Path("nowhere"), Path("."))
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere/measured/serving_points.csv: no such file
    """
    written = []
    for names, make in _MADE.items():
        about = {name: {"constants": constants_key(name), "data": _data_key(folder, names)} for name in names}
        if all(_is_written(home / f"{name}.csv", about[name]) for name in names):
            continue
        for name, lines in zip(names, make(folder), strict=True):
            said = {"date": date.today().isoformat(), **about[name]}
            write_file(str(home / f"{name}.csv"), part_text(lines, said))
            written.append(name)
    return written


_TABLES = {
    "serving": ("serving_points.csv", "serving_open.csv"),
    "training": ("training.csv", "training_open.csv"),
    "rl": ("rl.csv", "rl_open.csv"),
}
_CURATED = {
    "serving": ("serving_elsewhere.csv",),
    "local": ("local_curated.csv",),
    "training": ("training_elsewhere.csv",),
    "memory": ("memory_curated.csv", "training_memory_curated.csv"),
}


def _data_key(folder: Path, names: Sequence[str]) -> str:
    """Fingerprint of the measured tables that a part is made of."""
    digest = hashlib.sha256()
    for name in names:
        for table in _TABLES.get(name, ()):
            digest.update(read_user_text(folder / "measured" / table).encode())
        for table in _CURATED.get(name, ()):
            digest.update(shipped_text(table).encode())
    return digest.hexdigest()[:16]


def _is_written(path: Path, about: Line) -> bool:
    if not path.is_file():
        return False
    said = read_user_text(path).partition("\n")[0].removeprefix("# ")
    return bool(about.items() <= json.loads(said).items())


def _line(labels: Line, measured: float, levels: Sequence[float]) -> Line:
    figures = {"measured": measured, **dict(zip(QUANTILE_COLUMNS, levels, strict=True))}
    return {**dict.fromkeys(LABELS, ""), **labels, **{name: f"{value:.4g}" for name, value in figures.items()}}


def serving_lines(folder: Path) -> list[list[Line]]:
    """Serving with the fitted engines: other people's figures, and the public recipes' points."""
    table = folder / "measured" / "serving_points.csv"
    points = [one for one in sort_points(read_points(table))[0] if one.kind != "incomplete"]
    others, names = read_elsewhere(table.parent), serving.names_to_fit()
    fit = serving.serving_fit(points, names, others)
    change = serving.shipped_change(names, others)
    linear, n = linear_at(fit, change), len(points)
    none, kept = np.full(len(others.rows), -1), np.full(2 * n, -1)
    folds = {
        "a fifth": np.random.default_rng(0).permutation(n) % serving.RANDOM_FOLDS,
        NEW_PAIR: serving.fold_of([one.pair for one in points]),
        "chip": serving.fold_of([chip_family(load_system(one.system).accelerator) for one in points]),
    }

    def left_out(held: NDArray[np.int64]) -> Array:
        return cross_validate_near(fit, linear, held, change)

    found = {name: left_out(np.concatenate([one, one, none]))[: 2 * n].reshape(2, n) for name, one in folds.items()}
    by_source = left_out(np.concatenate([kept, others.places % serving.SOURCE_FOLDS]))[2 * n :]
    limits = serving.log_ratios_of(points)(dict.fromkeys(calibrated_engines(), IDEAL), 1)[..., 0]
    pools = np.array([one.kind != "aggregated" for one in points])
    recipes = [
        line
        for name, of_it, chosen in (
            (intervals.KNOWN, "a fifth", ~pools),
            (intervals.NEW, NEW_PAIR, ~pools),
            (intervals.POOLS, "a fifth", pools),
        )
        for line in _recipe_lines(points, (found[of_it], limits, folds[of_it]), (name, of_it), chosen)
    ]
    of_chips = serving.above_limits(found["chip"][:, ~pools], limits[:, ~pools])
    least = [conformal_ratios(one) for one in of_chips]
    return [list(_other_lines(others, by_source, serving.chips_of(points), least)), recipes]


def _recipe_lines(
    points: Sequence[Point],
    found: tuple[Array, Array, NDArray[np.int64]],
    named: tuple[str, str],
    chosen: NDArray[np.bool_],
) -> Iterable[Line]:
    """Points of the public recipes; the interval of a fold is that of the others."""
    residuals, limits, folds = found
    scores = serving.above_limits(residuals, limits)
    for place, quantity in enumerate(("tpot", "ttft")):
        ratios = {fold: conformal_ratios(scores[place, chosen & (folds != fold)]) for fold in set(folds[chosen])}
        for at in np.flatnonzero(chosen).tolist():
            one, measured = points[at], points[at].number(f"silicon_{quantity}_ms") / KILO
            labels = {
                "workload": "serving", "tuning": "recipe", "class": named[0], "left_out": named[1],
                "source": "InferenceX", "id": one.row.get("id", ""), "engine": one.backend, "model": one.model.id,
                "accelerator": load_system(one.system).accelerator.id, "load": "clients", "statistic": "not stated",
                "quantity": quantity, "unit": "s",
            }  # fmt: skip
            place_of = (residuals[place, at], limits[place, at])
            yield _line(labels, measured, _levels(measured, place_of, ratios[folds[at]]))


def _levels(measured: float, place: tuple[float, float], ratios: Sequence[float]) -> list[float]:
    """Quantiles of a time whose logarithms over the measured one are given, and its physical limit's."""
    central, limit = (measured * float(np.exp(one)) for one in place)
    return [float(above_limit_s(central, min(limit, central), ratio)) for ratio in ratios]


def _other_lines(
    others: Elsewhere, residuals: Array, known: frozenset[str], least: Sequence[Sequence[float]]
) -> Iterable[Line]:
    """Other people's figures; the interval of a source is that of all others of the class."""
    classes, sources, limits = np.array(others.classes(known)), others.places, others.limits
    scores = serving.above_limits(residuals, limits)
    for at, (row, case) in enumerate(zip(others.rows, others.cases, strict=True)):
        alike, name = _alike(others, classes, at)
        ratios = np.array(_ratios_without(scores[alike], sources[alike], int(sources[at])))
        if name == intervals.CHIP:
            own = np.array(least[int(others.first_tokens[at])])
            ratios = np.array([*np.minimum(ratios, own)[:2], ratios[2], *np.maximum(ratios, own)[3:]])
        yield _case_line(row, case, name, (float(residuals[at]), float(limits[at]), ratios.tolist()))


def _alike(others: Elsewhere, classes: NDArray[np.str_], at: int) -> tuple[NDArray[np.bool_], str]:
    """Figures whose residuals give a figure its interval, and the name of its class; as the fit of serving has them."""
    first, alone, name = others.first_tokens, others.alone, str(classes[at])
    if name == intervals.BURST or not first[at]:
        return (classes == name) & (first == first[at]), name
    steady = (classes != intervals.BURST) & first
    if not alone[at]:  # queues are as uncertain on any chip
        return steady & ~alone, name
    return steady & alone & ((classes == name) | (name != intervals.USUAL)), f"{name}, {intervals.ALONE}"


def _ratios_without(residuals: Array, sources: NDArray[np.int64], left: int) -> tuple[float, ...]:
    """Quantiles of measured over predicted of all other sources; of all, where the others are too few."""
    kept = sources != left
    try:
        return capped_ratios(residuals[kept], sources[kept])
    except QuantityError:
        return capped_ratios(residuals, sources)


def _case_line(row: Line, case: OpenCase, name: str, found: tuple[float, float, Sequence[float]]) -> Line:
    """A figure whose residual, limit and ratios are of times; a rate's go the other way."""
    residual, limit, ratios = found
    load = "static" if case.is_static else "burst" if case.interval == intervals.BURST else "clients"
    labels = {
        **{label: row[label] for label in ("source", "url", "id", "accelerator", "engine", "model")},
        "workload": "serving", "tuning": "usual", "class": name, "left_out": "source", "load": load,
        "statistic": case.statistic, "quantity": case.quantity, "unit": "s" if case.is_time else "tokens/s",
    }  # fmt: skip
    if case.is_time:
        return _line(labels, case.measured, _levels(case.measured, (residual, limit), ratios))
    times = _levels(1 / case.measured, (residual, limit), ratios)
    return _line(labels, case.measured, [1 / time for time in reversed(times)])


def local_lines(folder: Path) -> list[list[Line]]:
    """Figures of local engines, their source left out."""
    found: LocalFit = fit_local(folder, ("source",))
    residuals, rows = found.residuals["source"], {row["id"]: row for row in curated_rows("local_curated.csv")}
    sources = serving.fold_of([one.source for one in found.figures])
    kinds = np.array([one.time for one in found.figures])
    lines: list[Line] = []
    for at, one in enumerate(found.figures):
        alike = kinds == kinds[at]
        ratios = list(_ratios_without(residuals[alike], sources[alike], int(sources[at])))
        ratios[2] = 1.0  # a few sources give a width, but no shift of the median
        made = _case_line(rows[one.id], one.case, intervals.LOCAL, (float(residuals[at]), -np.inf, ratios))
        lines.append({**made, "workload": "local", "load": "clients"})
    return [lines]


def training_lines(folder: Path) -> list[list[Line]]:
    """Step times of training, their publisher left out, with the class's interval as all other publishers give it."""
    runs = [run for run in read_every_run(folder) if np.isfinite(run.step_s)]
    errors, classes = left_out_errors(runs), classes_of(runs)
    away = left_out_families(runs, plain(training_efficiency()))
    sources = serving.fold_of([source_family(run.row["source"]) for run in runs])
    widths = {}
    for left in set(sources.tolist()):
        kept = np.flatnonzero(sources != left)
        others = [runs[at] for at in kept]
        far, near = (class_factors(others, errors[kept], away[kept], share) for share in (0.9, 0.8))
        widths[left] = {one: (1 / far[one], 1 / near[one], 1.0, near[one], far[one]) for one in CLASSES}
    lines: list[Line] = []
    for at, (run, error) in enumerate(zip(runs, errors.tolist(), strict=True)):
        ratios = widths[int(sources[at])][classes[at]]
        labels = {
            **{name: run.row[name] for name in ("source", "url")},
            "workload": "training", "class": run.row.get("model_kind", ""), "left_out": "source",
            "accelerator": run.system.accelerator.id, "engine": framework_of_run(run), "model": run.model.id,
            "statistic": "mean", "quantity": "step_time", "unit": "s",
        }  # fmt: skip
        lines.append(_line(labels, run.step_s, [run.step_s * float(np.exp(error)) * ratio for ratio in ratios]))
    return [lines]


def rl_lines(folder: Path) -> list[list[Line]]:
    """Step times of RL, their configuration left out."""
    runs = rl.read_runs(folder)
    shipped = rl_factors()
    change = np.array([np.log(float(np.ravel(getattr(shipped, name))[0]) / rl.prior_of(name)[0]) for name in FITTED])
    fit = rl.rl_fit(runs, rl.fitted_phases(rl.read_logged(folder)))
    folds = np.full(len(fit.scales), -1)
    folds[: len(runs)] = serving.fold_of([rl.configuration(run) for run in runs])
    residuals = cross_validate_near(fit, linear_at(fit, change), folds, change)[: len(runs)]
    lines: list[Line] = []
    for at, run in enumerate(runs):
        ratios = conformal_ratios(np.delete(residuals, at))
        labels = {
            **{name: run.row[name] for name in ("source", "url")},
            "workload": "rl", "class": run.row["mode"],
            "left_out": "configuration", "accelerator": run.system.accelerator.id, "engine": run.row["system"],
            "model": run.scenario.engine.model.id, "statistic": "mean", "quantity": "step_time", "unit": "s",
        }  # fmt: skip
        predicted = run.step_s * float(np.exp(residuals[at]))
        lines.append(_line(labels, run.step_s, [predicted * ratio for ratio in ratios]))
    return [lines]


def memory_lines(_folder: Path) -> list[list[Line]]:
    """Memory as engines log it, the model left out, and published peaks of training, to which nothing is fitted."""
    rows = curated_rows("memory_curated.csv")
    logged = compare_memory(rows, runs=left_out(memory_runs(rows)[0], VLLM_BUFFERS))
    peaks = compare_training(curated_rows("training_memory_curated.csv"))
    started = _compared_lines(logged, {"left_out": "model", "statistic": "at start"})
    return [[*started, *_compared_lines(peaks, {"left_out": "nothing", "statistic": "peak"}, ("memory",))]]


def _compared_lines(comparison: Comparison, shared: Line, quantities: Sequence[str] = ()) -> Iterable[Line]:
    for name in quantities or comparison.measured:
        measured = comparison.measured[name]
        for at in np.flatnonzero(np.isfinite(measured)).tolist():
            row = comparison.rows[at]
            labels = {
                **{label: row.get(label, "") for label in ("source", "url", "id", "engine", "model")}, **shared,
                "workload": "memory", "accelerator": row.get("accelerator") or row.get("hardware", ""),
                "quantity": name, "unit": comparison.units[name],
            }  # fmt: skip
            yield _line(labels, float(measured[at]), np.quantile(comparison.predicted[name][at], SHARES).tolist())


#: Parts by what makes them, from a folder of measured tables.
_MADE: Mapping[tuple[str, ...], Callable[[Path], Sequence[Sequence[Line]]]] = {
    ("serving", "recipes"): serving_lines,
    ("local",): local_lines,
    ("training",): training_lines,
    ("rl",): rl_lines,
    ("memory",): memory_lines,
}
