"""The fit of local engines: what they reach on each kind of chip, one request at a time.

Constants are by kind of chip: bandwidth while weights and cache stream, floors per layer, and the rate of a prompt's
products. Beside it stands the interval of engines without constants: figures of such engines, none of which is fitted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.errors import InputError
from computeledger.facts.load import load_system
from computeledger.facts.schema import Accelerator
from computeledger.physics.calibration.efficiency import Efficiency, efficiency
from computeledger.physics.calibration.local import ANY, kind_of, load_local, local_engines
from computeledger.physics.calibration.serving import GENERIC, Constant, calibrated_engines, load_calibration
from computeledger.physics.roofline import Machine, total_s
from computeledger.physics.serving.operations import Step, forward, prefill
from computeledger.validation.conformal import conformal_ratios, variance_parts
from computeledger.validation.fit import LEFT_OUT_GROUPS, Array, Fit, Fitted, fit_constants
from computeledger.validation.measured_table import curated_rows, read_rows
from computeledger.validation.published.rows import Unpredictable
from computeledger.validation.serving.fit import fold_of
from computeledger.validation.serving.open_points import NEEDED, UNITS, OpenCase, open_case, predict_open
from computeledger.validation.serving.predictions import constants_along_an_axis
from computeledger.workloads.serving import intervals
from computeledger.workloads.sweep import sweep

#: Constants of an engine on a kind of chip, and the width of each one's prior: standard deviation of its logarithm.
OF_A_KIND = {
    "weight_bandwidth_fraction": 0.3,
    "expert_bandwidth_fraction": 0.3,
    "kv_bandwidth_fraction": 0.5,
    "floor_ratio": 0.7,
    "gemm_fraction_bf16": 0.7,
    "attention_fraction": 0.7,
    "gemm_fraction_fp8": 0.7,
    "activation_passes": 0.5,
}
#: What a benchmark of these engines leaves out or does not have: a server's work per request, and launches that the
#: fitted engines make from Python. The floors hold what is launched here.
ABSENT = ("host_step_s", "prefill_host_s", "prefill_layer_s", "prefill_experts_s", "prefill_mixer_s", "admission_steps")
#: Residuals beyond which a measurement counts less.
SCALES = {"tpot": 0.10, "ttft": 0.20}
_CENTRAL = {"efficiency.serving_ratio": 1.0, "efficiency.first_token_ratio": 1.0}
#: Factors that are set, not fitted.
SET = dict.fromkeys(ABSENT, 0.0) | {
    "expert_tile_tokens": 0.0,
    "expert_imbalance": 1.0,
    "single_experts_ratio": 1.0,
    "prefill_ratio": 1.0,
    "chip_correction": 0.0,
}
#: Where the fit starts for what the fitted engines do not have, or do otherwise.
START = {"gemm_fraction_fp8": 0.25}


@dataclass(frozen=True, slots=True)
class Figure:
    """A published figure of a local engine."""

    case: OpenCase
    source: str
    chip: Accelerator
    id: str = ""

    @property
    def time(self) -> str:
        """Which time it tells of: per output token, or to the first one."""
        return "tpot" if self.case.quantity == "tpot" else "ttft"

    @property
    def kind(self) -> str:
        """Kind of the chip."""
        return kind_of(self.chip)

    @property
    def measured_s(self) -> float:
        """Time of a decode step, or of a prompt [s]."""
        one = self.case
        return one.measured if self.time == "tpot" else float(one.scenario.input_tokens) / one.measured / _gpus(one)


def _gpus(case: OpenCase) -> float:
    return float(case.scenario.layout.n_gpus)


def read_figures(rows: Sequence[Mapping[str, str]]) -> list[Figure]:
    """Figures that can be asked, of one request at a time; the others' model or chip is not bundled.

    Examples
    --------
    >>> read_figures([dict.fromkeys(NEEDED, "") | {"metric": "watts"}])
    []
    """
    found = []
    for row in rows:
        try:
            case = open_case(row)
        except Unpredictable:
            continue
        found.append(Figure(case, row["source"], load_system(case.system).accelerator, row.get("id", "")))
    return found


def predict_figures(figures: Sequence[Figure], constants: Efficiency, n: int) -> Array:
    """Times of decode steps and prompts along the axis of the constants, figures of one deployment at once.

    Examples
    --------
    >>> predict_figures([], efficiency("vllm"), 3).shape
    (0, 3)
    """
    out = np.empty((len(figures), n))
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, one in enumerate(figures):
        asked = one.case.scenario
        groups.setdefault((asked.model.id, asked.precision, asked.layout, one.case.system, one.time), []).append(place)
    for places in groups.values():
        first = figures[places[0]]
        asked, is_decode = first.case.scenario, first.time == "tpot"
        inputs, outputs = (
            np.array([[float(getattr(figures[place].case.scenario, name))] for place in places])
            for name in ("input_tokens", "output_tokens")
        )
        held, new = (inputs + outputs / 2 - 1, 1.0) if is_decode else (0.0, inputs)
        step = Step(1.0, held, new, decode=is_decode)
        run = forward if is_decode else prefill
        machine = Machine(load_system(first.case.system), constants)
        out[places] = total_s(run(asked.model, step, asked.layout, asked.precision, machine))
    return out


def _base() -> Efficiency:
    return efficiency(GENERIC, _CENTRAL | {f"efficiency.{name}": value for name, value in (SET | START).items()})


def kind_fit(figures: Sequence[Figure], around: Array) -> Fit:
    """State the fit of some figures' constants, with a prior around given log changes.

    Examples
    --------
    >>> kind_fit([], np.zeros(len(OF_A_KIND))).scales.shape
    (0,)
    """
    base = _base()

    measured = np.log([[one.measured_s] for one in figures]).reshape(-1, 1)

    def residuals(changes: Array) -> Array:
        columns = dict(zip(OF_A_KIND, (around + changes).T, strict=True))
        predicted = predict_figures(figures, constants_along_an_axis(base, columns), len(changes))
        return np.asarray(np.log(predicted) - measured)

    counts = {one.source: sum(other.source == one.source for other in figures) for one in figures}
    return Fit(
        residuals=residuals,
        scales=np.array([SCALES[one.time] for one in figures]),
        # a long table tells less per row than a short one
        weights=np.array([counts[one.source] ** -0.5 for one in figures]),
        prior_sd=np.array(list(OF_A_KIND.values())),
    )


@dataclass(frozen=True, slots=True)
class LocalFit:
    """A finished fit, its errors by what was left out, and those of engines without constants."""

    figures: Sequence[Figure]
    profiles: Mapping[str, Fitted]
    residuals: Mapping[str, Array]
    generic: Mapping[str, tuple[Array, list[str]]]


def _profile(one: Figure, kind: str) -> str:
    return f"{one.case.engine} on {kind}"


def fitted_profiles(figures: Sequence[Figure], start: Mapping[str, Fitted] | None = None) -> dict[str, Fitted]:
    """Constants of every engine on any chip, and on each kind of chip around those; as log changes of the generic.

    Examples
    --------
    >>> fitted_profiles([])
    {}
    """
    found: dict[str, Fitted] = {}
    before = {} if start is None else {name: one.change for name, one in start.items()}
    for engine in sorted({one.case.engine for one in figures}):
        own = [one for one in figures if one.case.engine == engine]
        pooled = fit_constants(kind_fit(own, np.zeros(len(OF_A_KIND))), before.get(f"{engine} on {ANY}"))
        found[f"{engine} on {ANY}"] = pooled
        for kind in sorted({one.kind for one in own} - {ANY}):
            profile = f"{engine} on {kind}"
            close = before[profile] - pooled.change if profile in before else None
            fit = fit_constants(kind_fit([one for one in own if one.kind == kind], pooled.change), close)
            found[profile] = Fitted(pooled.change + fit.change, fit.sd, fit.loss)
    return found


def _residuals(figures: Sequence[Figure], profiles: Mapping[str, Fitted]) -> Array:
    base, out = _base(), np.empty(len(figures))
    for profile in {_profile(one, one.kind) for one in figures}:
        places = [place for place, one in enumerate(figures) if _profile(one, one.kind) == profile]
        own = [figures[place] for place in places]
        fitted = profiles.get(profile, profiles.get(_profile(own[0], ANY)))
        change = np.zeros((len(OF_A_KIND), 1)) if fitted is None else fitted.change[:, None]
        constants = constants_along_an_axis(base, dict(zip(OF_A_KIND, change, strict=True)))
        out[places] = np.log(predict_figures(own, constants, 1)[:, 0] / [one.measured_s for one in own])
    return out


def _left_out(
    figures: Sequence[Figure], labels: Sequence[str], start: Mapping[str, Fitted], executor: Executor | None
) -> Array:
    """Residuals of figures from constants that were fitted without any of their label."""
    out, names, places = np.empty(len(figures)), sorted(set(labels)), np.array(labels)
    found = sweep(partial(_without, figures, labels, start), names, executor, what=LEFT_OUT_GROUPS)
    for label, residuals in zip(names, found, strict=True):
        out[places == label] = residuals
    return out


def _without(figures: Sequence[Figure], labels: Sequence[str], start: Mapping[str, Fitted], label: str) -> Array:
    parts: tuple[list[Figure], list[Figure]] = [], []
    for one, other in zip(figures, labels, strict=True):
        parts[other == label].append(one)
    kept, left = parts
    return _residuals(left, fitted_profiles(kept, start))


#: What is left out in turn, and how a figure is labelled for it.
LEFT_OUT: Mapping[str, Callable[[Figure], str]] = {
    "source": lambda one: one.source,
    "chip": lambda one: one.chip.id,
    "kind": lambda one: one.kind,
}


def fit_local(folder: Path, leave: Sequence[str] = tuple(LEFT_OUT), executor: Executor | None = None) -> LocalFit:
    """Fit the constants of local engines on the shipped figures, and cross-validate them, several at once.

    Examples
    --------
    >>> fit_local(Path("nowhere"))
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere/measured/serving_open.csv: no such file
    """
    generic = generic_residuals(read_rows(folder / "measured" / "serving_open.csv", NEEDED))
    figures = read_figures(curated_rows("local_curated.csv"))
    profiles = fitted_profiles(figures)
    residuals = {
        "everything": _residuals(figures, {}),
        "nothing": _residuals(figures, profiles),
        **{name: _left_out(figures, [LEFT_OUT[name](one) for one in figures], profiles, executor) for name in leave},
    }
    return LocalFit(figures, profiles, residuals, generic)


def generic_residuals(rows: Sequence[Mapping[str, str]]) -> dict[str, tuple[Array, list[str]]]:
    """Log of predicted over measured times of engines without constants, and the source of each.

    Examples
    --------
    >>> generic_residuals([])["tpot"][1]
    []
    """
    found: dict[str, list[tuple[float, str]]] = {"tpot": [], "ttft": []}
    constants = efficiency(GENERIC, _CENTRAL)
    for row in rows:
        if row["engine"] in (*calibrated_engines(), *local_engines()):
            continue
        try:
            case = open_case(row)
        except Unpredictable:
            continue
        predicted = float(np.ravel(predict_open(case, Machine(load_system(case.system), constants)))[0])
        sign = 1.0 if UNITS[case.quantity] == "s" else -1.0
        time = "ttft" if case.quantity in ("ttft", "input_tokens_per_s_per_gpu") else "tpot"
        found[time].append((sign * float(np.log(predicted / case.measured)), row["source"]))
    return {
        name: (np.array([one for one, _ in pairs]), [source for _, source in pairs]) for name, pairs in found.items()
    }


def calibration_text(found: LocalFit) -> str:
    """Write a fit as the file that the package ships.

    Examples
    --------
    >>> calibration_text(LocalFit([], {}, {}, {}))
    Traceback (most recent call last):
    computeledger.errors.InputError: no residuals: sources, chips and kinds were not left out
    """
    if not set(LEFT_OUT) <= set(found.residuals):
        raise InputError("no residuals: sources, chips and kinds were not left out")
    times = np.array([one.time for one in found.figures])
    errors = {name: np.abs(np.expm1(found.residuals["source"][times == name])) for name in ("tpot", "ttft")}
    residual = ", ".join(f"median {np.median(errors[name]):.1%} of {words}" for name, words in _WORDS.items())
    lines = [
        "# Constants of local engines by kind of chip, and the interval of engines without constants: written by",
        "# `computeledger fit local`; edits are lost.",
        "",
        "[about]",
        f'data = "{len(found.figures)} published figures of llama.cpp and MLX, one request at a time"',
        f'residual = "{residual}, left out a source at a time"',
        f'date = "{date.today().isoformat()}"',
        'source = "local-benchmarks"',
        "",
        "[kinds]",
        *(f"{json.dumps(name)} = {json.dumps(kind)}" for name, kind in load_local().kinds.items()),
    ]
    for profile in found.profiles:
        lines += ["", f"[profiles.{json.dumps(profile)}]", *_constant_lines(found, profile)]
    labels = np.array([one.source for one in found.figures])

    def pairs(name: str) -> dict[str, tuple[Array, list[str]]]:
        return {time: (found.residuals[name][times == time], labels[times == time].tolist()) for time in _WORDS}

    known = load_calibration().intervals
    local = interval_table(pairs("source"))
    tables = {
        intervals.LOCAL: local,
        intervals.LOCAL_KIND: interval_table(pairs("kind"), local),
        intervals.ENGINE: interval_table(found.generic, known[intervals.NEW], known[intervals.CHIP]),
    }
    for name, table in tables.items():
        lines += ["", f"[intervals.{json.dumps(name)}]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    return "\n".join([*lines, ""])


_WORDS = {"tpot": "times per output token", "ttft": "times of a prompt"}


def constants_of_fit(found: LocalFit) -> list[Constant]:
    """List the fitted constants of every profile.

    Examples
    --------
    >>> constants_of_fit(LocalFit([], {}, {}, {}))
    []
    """
    base, out = _base(), []
    for profile, fitted in found.profiles.items():
        for place, (name, width) in enumerate(OF_A_KIND.items()):
            prior = float(getattr(base, name))
            value = prior * float(np.exp(fitted.change[place]))
            value = min(value, 1.0) if "fraction" in name else value
            out.append(Constant(name, profile, value, prior, float(fitted.sd[place]), width))
    return out


def _constant_lines(found: LocalFit, profile: str) -> list[str]:
    own = [one for one in constants_of_fit(found) if one.engine == profile]
    lines = [
        f"{one.name} = {{ value = {one.value:.4g}, prior = {one.prior:.4g}, "
        f"sd = {one.sd:.3f}, prior_sd = {one.prior_sd:.3f} }}"
        for one in own
    ]
    generic = efficiency(GENERIC, _CENTRAL)
    for name, fixed in SET.items():
        prior = float(getattr(generic, name))
        lines.append(f"{name} = {{ value = {fixed:g}, prior = {prior:.4g}, sd = 0.0, prior_sd = 1.0 }}")
    return lines


def interval_table(
    pairs: Mapping[str, tuple[Array, list[str]]], *least: Mapping[str, Any]
) -> dict[str, int | float | list[float]]:
    """An interval of residuals, at least as wide as others; a few sources give a width, but no shift of the median.

    Examples
    --------
    >>> table = interval_table({"tpot": (np.linspace(-0.5, 0.5, 21), ["one"] * 21)})
    >>> table["n"], table["tpot"][2]
    (21, 1.0)
    """
    table: dict[str, int | float | list[float]] = {"n": len(pairs["tpot"][0])}
    for quantity, (residuals, sources) in pairs.items():
        ratios = conformal_ratios(residuals)
        parts = variance_parts(residuals, fold_of(sources))
        rows = [ratios, *(one[quantity] for one in least)]
        names = (f"{quantity}_between_runs", f"{quantity}_within_run")
        low, inner_low = (min(1.0, *(row[place] for row in rows)) for place in (0, 1))
        inner_high, high = (max(1.0, *(row[place] for row in rows)) for place in (3, 4))
        table[quantity] = [float(f"{ratio:.4g}") for ratio in (low, inner_low, 1.0, inner_high, high)]
        for name, part in zip(names, parts, strict=True):
            table[name] = round(max(part, *(one[name] for one in least), 0.0), 3)
    return table
