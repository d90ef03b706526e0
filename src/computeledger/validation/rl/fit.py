"""The fit of RL's few constants: on which runs, how well they predict what was left out, and the file it writes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95, Range
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.calibration.rl import FITTED, RLFactors, load_rl_factors, load_rl_text
from computeledger.validation.conformal import FEWEST_ERRORS, conformal_ratios
from computeledger.validation.fit import Array, Fit, Fitted, cross_validate, fit_constants
from computeledger.validation.measured_table import read_rows
from computeledger.validation.rl.points import predict_figures, predict_runs
from computeledger.validation.rl.rows import RLRun, rl_runs
from computeledger.workloads.rl.confidence import deployment_of
from computeledger.writing import toml_row, toml_text

#: Table of measured RL runs in a data folder.
TABLE = Path("measured") / "rl.csv"
#: A residual beyond which a run counts less and less [-].
SCALE = 0.12
#: Table of runs by phase, of many frameworks.
PHASES_TABLE = Path("measured") / "rl_open.csv"
#: Frameworks whose steps and phases the constants are fitted to; others get an effect.
FITTED_FRAMEWORKS = ("nemo-rl",)
#: Phases that are fitted, and what each of their figures weighs: all of one publication count as one step.
FITTED_PHASES, PHASE_WEIGHT = ("generation_time", "logprob_time"), 0.05
#: Runs of a framework that pull its effect half-way to what they say.
EFFECT_PRIOR = 2.0
_SOURCE = "rl-measurements"
_WIDTHS = {
    "rl_known_ratio": ("run", "runs left out one at a time"),
    "rl_new_ratio": ("model", "models left out"),
    "rl_framework_ratio": ("framework", "steps of publications and frameworks left out"),
    "rl_phase_ratio": ("phase", "phases of publications left out"),
}


@dataclass(frozen=True, slots=True)
class RLFit:
    """Constants of RL and the residuals with and without them."""

    runs: Sequence[RLRun]
    fitted: Fitted
    residuals: Mapping[str, Array]
    effects: Mapping[str, tuple[float, int]] = field(default_factory=dict)


def prior_of(name: str) -> tuple[float, float]:
    """Median and width of a constant before the fit: its assumed range is a 90 % interval.

    Examples
    --------
    >>> round(prior_of("rl_training_ratio")[0], 2)
    1.41
    """
    value = load_rl_factors("assumed")[name].value
    width = float(np.log(value.high / value.low) / (2 * Z_95)) if isinstance(value, Range) else 0.0
    return median_of(value), width


def factors_at(changes: Array) -> RLFactors:
    """Constants along an axis of vectors.

    Examples
    --------
    >>> factors_at(np.zeros((2, len(FITTED)))).rl_fixed_s.shape
    (2,)
    """
    columns = {name: prior_of(name)[0] * np.exp(changes[:, place]) for place, name in enumerate(FITTED)}
    columns["rl_hidden_sync_fraction"] = np.minimum(columns["rl_hidden_sync_fraction"], 1.0)
    return RLFactors(rl_sync_ratio=1.0, **columns)


def rl_fit(runs: Sequence[RLRun], logged: Sequence[RLRun] = ()) -> Fit:
    """State the fit: the residual of every step time, and behind them of every figure of runs with logged phases.

    Examples
    --------
    >>> rl_fit([]).prior_sd.shape
    (6,)
    """
    measured = np.log([run.step_s for run in runs] + [value for run in logged for _, _, value in run.figures])
    weights = np.where(np.arange(len(measured)) < len(runs), 1.0, PHASE_WEIGHT)
    residuals, prior_sd = partial(_residuals, runs, logged, measured), np.array([prior_of(name)[1] for name in FITTED])
    return Fit(residuals, np.full(len(measured), SCALE), weights, prior_sd)


def _residuals(runs: Sequence[RLRun], logged: Sequence[RLRun], measured: Array, changes: Array) -> Array:
    factors, width = factors_at(changes), len(changes)
    parts = [predict_runs(runs, factors, width), *(predict_figures(run, factors, width) for run in logged)]
    return np.asarray(np.log(np.concatenate(parts)) - measured[:, None])


def _folds(labels: Sequence[str]) -> NDArray[np.int64]:
    order = {label: place for place, label in enumerate(sorted(set(labels)))}
    return np.array([order[label] for label in labels], dtype=np.int64)


def read_runs(data_folder: str | Path) -> list[RLRun]:
    """Runs of a folder that state their inputs, or whose recipe does."""
    return rl_runs(read_rows(Path(data_folder) / TABLE))[0]


def fit_rl(data_folder: str | Path, executor: Executor | None = None) -> RLFit:
    """Fit RL's constants to a folder of measurements and cross-validate them, several fits at once by an executor.

    Runs of one configuration in two releases of a framework are left out together.

    Examples
    --------
    >>> fit_rl("nowhere")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere/measured/rl.csv: no such file
    """
    runs = read_runs(data_folder)
    every = read_logged(data_folder)
    logged = fitted_phases(every)
    fit = rl_fit(runs, logged)
    fitted = fit_constants(fit)
    ideal = np.log(predict_runs(runs, RLFactors(), 1))[:, 0] - np.log([run.step_s for run in runs])
    residuals = {
        "nothing": fit.residuals(fitted.change[None, :])[:, 0],
        "priors": fit.residuals(np.zeros((1, len(FITTED))))[:, 0],
        "no constants": ideal,
    }
    labels = {
        "run": [configuration(run) for run in runs],
        "model": [run.scenario.engine.model.id for run in runs],
        "chip": [run.system.id for run in runs],
    }
    for name, groups in labels.items():
        folds = np.full(len(fit.scales), -1)
        folds[: len(runs)] = _folds(groups)
        residuals[name] = cross_validate(fit, folds, fitted.change, executor)[: len(runs)]
    residuals |= {name: part[: len(runs)] for name, part in residuals.items()}
    without = fit_constants(rl_fit(runs), fitted.change)
    effects = _effects(every, factors_at(fitted.change[None, :]))
    residuals |= _of_others(every, factors_at(without.change[None, :]))
    return RLFit(runs, fitted, residuals, effects)


def read_logged(data_folder: str | Path) -> list[RLRun]:
    """Runs with steps or phases of publications beside the table of steps, where the folder has them."""
    path = Path(data_folder) / PHASES_TABLE
    if not path.exists():
        return []
    return rl_runs([row for row in read_rows(path) if row["metric"] != "weight_sync_time"])[0]


def fitted_phases(runs: Sequence[RLRun]) -> list[RLRun]:
    """Of runs with logged phases, those of the fitted frameworks, with the figures that are fitted."""
    own = [run for run in runs if run.row["framework"] in FITTED_FRAMEWORKS]
    return [replace(run, figures=tuple(one for one in run.figures if one[1] in FITTED_PHASES)) for run in own]


def _log_ratios(run: RLRun, factors: RLFactors) -> list[tuple[str, float]]:
    """Predicted over measured in log, by quantity."""
    times = predict_figures(run, factors, 1)[:, 0]
    return [(name, float(np.log(time_s / value)))
            for (_, name, value), time_s in zip(run.figures, times, strict=True)]  # fmt: skip


def _of_others(runs: Sequence[RLRun], factors: RLFactors) -> dict[str, Array]:
    """Residuals of publications that the constants have not seen: of steps, and of phases but weight sync."""
    found = [one for run in runs for one in _log_ratios(run, factors)]
    return {
        "framework": np.array([error for name, error in found if name == "step_time"]),
        "phase": np.array([error for name, error in found if name not in ("step_time", "weight_sync_time")]),
    }


def _effects(runs: Sequence[RLRun], factors: RLFactors) -> dict[str, tuple[float, int]]:
    """Measured over predicted steps of other frameworks, in the median and pulled towards 1, and how many there are."""
    found: dict[str, list[float]] = {}
    for run in runs:
        if run.row["framework"] not in FITTED_FRAMEWORKS:
            steps = [error for name, error in _log_ratios(run, factors) if name == "step_time"]
            found.setdefault(run.row["framework"], []).extend(steps)
    return {
        name: (float(np.exp(-np.median(errors) * len(errors) / (len(errors) + EFFECT_PRIOR))), len(errors))
        for name, errors in sorted(found.items())
        if errors
    }


def configuration(run: RLRun) -> str:
    """What is left out together: two releases of a framework are of one configuration."""
    one = run.scenario
    lag, gpus = one.split.max_lag, one.split.n_gpus
    return f"{one.engine.model.id} {run.system.id} {gpus} {lag} {one.engine.precision.name}"


def calibration_text(found: RLFit) -> str:
    """Write a fit as the file that the package ships."""
    errors = np.abs(np.expm1(found.residuals["run"]))
    residual = f"median {np.median(errors):.1%}, 90th percentile {np.quantile(errors, 0.9):.0%}, runs left out in turn"
    data = f"{len(found.runs)} published steps"
    about = {"data": data, "residual": residual, "date": date.today().isoformat(), "source": _SOURCE}
    lines = ["# Constants of RL, written by the fit of RL (`fit_rl`); edits are lost.", "", "[constants]"]
    shipped, stated = load_rl_factors("assumed"), tomllib.loads(load_rl_text())["constants"]
    for place, name in enumerate(FITTED):
        prior, width = prior_of(name)
        value = getattr(factors_at(found.fitted.change[None, :]), name)[0]
        known = max(0.0, 1 - (found.fitted.sd[place] / width) ** 2)
        grounds = {"why": stated[name]["why"], **about}
        grounds["identifiability"] = f"{known:.0%} of the prior's variance removed, +-{found.fitted.sd[place]:.0%}"
        ends = shipped[name].value
        text = f"{ends.low:.4g}..{ends.high:.4g}" if isinstance(ends, Range) else f"{prior:.4g}"
        lines.append(_entry(name, f"{value:.4g}", {"prior": text, **grounds}))
    widest = 1.0
    for name, (left, why) in _WIDTHS.items():
        if len(found.residuals[left]) < FEWEST_ERRORS:
            kept = {key: text for key, text in stated[name].items() if key != "value"}
            lines.append(_entry(name, toml_text(str(stated[name]["value"])), kept))
            continue
        low, _, _, _, high = conformal_ratios(found.residuals[left])
        # what was never fitted is not surer than what was
        widest = half = max(high, 1 / low, widest if name == "rl_new_ratio" else 1.0)
        grounds = {"why": stated[name]["why"], **about, "residual": f"split conformal, {why}"}
        grounds["identifiability"] = "a width, not a value"
        lines.append(_entry(name, toml_text(f"{1 / half:.4g}..{half:.4g}"), grounds))
    known_deployments = sorted({deployment_of(run.scenario.engine.model, run.system.accelerator) for run in found.runs})
    means = [float(run.scenario.taken_tokens) for run in found.runs]
    reach = f"mean_tokens = [{min(means):.0f}, {max(means):.0f}]"
    lines += [
        "",
        "[deployments]",
        f"frameworks = [{', '.join(map(toml_text, FITTED_FRAMEWORKS))}]",
        reach,
        f"steps = {len(found.runs)}",
        "fitted = [",
        *(f"  {toml_text(one)}," for one in known_deployments),
        "]",
        "",
        "# Measured over predicted step of other frameworks, pulled towards 1, and how many steps say so.",
        *(f"[frameworks.{name}]\neffect = {effect:.3g}\nsteps = {n}\n" for name, (effect, n) in found.effects.items()),
    ]
    return "\n".join(lines)


def _entry(name: str, value: str, grounds: Mapping[str, str]) -> str:
    return toml_row(name, {"value": value, **{key: toml_text(text) for key, text in grounds.items()}})
