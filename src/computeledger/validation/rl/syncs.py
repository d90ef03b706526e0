"""Measured weight synchronisations, the fit of their mechanisms, and how well it predicts other publishers."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from computeledger.arrays import Z_95, Range
from computeledger.facts.architecture import Model
from computeledger.physics.calibration.weight_sync import (
    RATIO,
    SyncMechanism,
    load_sync_mechanism,
    load_sync_text,
)
from computeledger.physics.parallelism import Layout, parse_layout
from computeledger.physics.serving.memory import weights_bytes_per_gpu
from computeledger.units import parse_quantity
from computeledger.validation.fit import Array, Fit, Fitted, cross_validate, fit_constants
from computeledger.validation.measured_table import curated_rows, read_rows
from computeledger.validation.rl.cells import (
    SkippedRLRunError,
    read_degrees,
    read_mechanism,
    read_model,
    read_precision,
    read_sides,
    read_system,
    seconds_of,
    text_of,
    whole_of,
)
from computeledger.validation.rl.rows import recipe_of
from computeledger.workloads.rl.weight_sync import SyncSides, sync_s
from computeledger.workloads.rl_frameworks import named_rl_framework
from computeledger.writing import toml_row, toml_text

#: Synchronisations that the package ships.
CURATED_SYNC = "rl_weight_sync.csv"
#: Metrics that are the time of one synchronisation.
SYNC_METRICS = ("weight_sync_time", "refit_time")
#: Scale of the robust loss, in log: mechanisms of one name differ by that much between frameworks.
SYNC_SCALE = 0.3
#: Largest share of a GPU's memory that weights of one generation replica take (assumption).
_HELD_FRACTION = 0.6


@dataclass(frozen=True, slots=True)
class MeasuredSync:
    """One measured synchronisation."""

    row: Mapping[str, str]
    sides: SyncSides
    mechanism: SyncMechanism
    time_s: float


@dataclass(frozen=True, slots=True)
class SyncFit:
    """Constants of the mechanisms, and residuals: fitted, and with a publisher left out."""

    syncs: Sequence[MeasuredSync]
    names: tuple[str, ...]
    fitted: Fitted
    residuals: Mapping[str, Array]


def read_syncs(rows: Sequence[Mapping[str, str]]) -> tuple[list[MeasuredSync], Counter[str]]:
    """Turn rows that time one synchronisation into questions; the rest is counted by reason.

    Examples
    --------
    >>> found, skipped = read_syncs(curated_rows(CURATED_SYNC))
    >>> len(found), dict(skipped)
    (24, {})
    """
    found: list[MeasuredSync] = []
    skipped: Counter[str] = Counter()
    for row in rows:
        try:
            found.append(_sync(row))
        except SkippedRLRunError as reason:
            skipped[str(reason)] += 1
    return found, skipped


def _sync(row: Mapping[str, str]) -> MeasuredSync:
    model, system = read_model(row), read_system(row)
    said = f"{text_of(row, 'notes')} {text_of(row, 'gpu_split')}".lower()
    n_gpus = whole_of(text_of(row, "n_gpus"), "number of GPUs not stated")
    named = read_mechanism(f"{text_of(row, 'system')} {said}")
    if named is None:
        raise SkippedRLRunError("mechanism of weight sync not stated")
    mechanism = load_sync_mechanism(named)
    sides = read_sides(row, n_gpus)
    generation, training = sides if sides is not None else (float(n_gpus), float(n_gpus))
    precision = read_precision(row, model)
    weights = float(weights_bytes_per_gpu(model, Layout(), precision))
    stated = re.search(r"(?:gen|ep|expert parallelism of|-> )\s*(?:tp)?\s*(\d+)", said)
    held = _HELD_FRACTION * system.accelerator.hbm_bytes.value
    needed = 2 ** int(np.ceil(np.log2(max(weights / held, 1.0))))
    degree = int(stated[1]) if stated else needed
    experts = "expert parallelism" in said
    layout = Layout(dp=degree, ep=degree) if experts else Layout(tp=degree)
    return MeasuredSync(
        row,
        SyncSides(model, precision, layout, generation, training, system, "colocated" in said,
                  "host memory" not in said, _is_sharded(row), _trainer_layout(row, model, training)),
        mechanism,
        seconds_of(row),
    )  # fmt: skip


def _trainer_layout(row: Mapping[str, str], model: Model, n_training: float) -> Layout | None:
    """Layout of the trainer, as the row or its recipe states it."""
    recipe, stated = recipe_of(row, model), read_degrees(text_of(row, "gpu_split"), "train")
    if recipe.get("layout"):
        return parse_layout(recipe["layout"])
    if not stated or (stated[0] == stated[-2] == 1 and _is_sharded(row)):
        return None
    tp, ep, pp = int(stated[0]), int(stated[2]), int(stated[-2])
    return Layout(tp=tp, pp=pp, ep=ep, dp=max(int(n_training) // (tp * pp), 1))


def _is_sharded(row: Mapping[str, str]) -> bool:
    """Whether ranks of the trainer share its weights: as the row says, or as its framework has it."""
    said = f"{text_of(row, 'system')} {text_of(row, 'notes')}".lower()
    return "fsdp" in said or (bool(named_rl_framework(text_of(row, "system")).sharding) and "megatron" not in said)


def prior_of(name: str) -> tuple[float, float]:
    """Median and width, in log, of a constant before the fit: its assumed range is a 90 % interval.

    Examples
    --------
    >>> round(prior_of("sync_tensor_s")[0], 5)
    0.00032
    """
    value = parse_quantity(tomllib.loads(load_sync_text())["constants"][name]["prior"], "count")
    if not isinstance(value, Range):
        return float(value), 0.0
    return float(np.sqrt(value.low * value.high)), float(np.log(value.high / value.low) / (2 * Z_95))


def fit_syncs(data_folder: str | Path) -> SyncFit:
    """Fit the mechanisms to the shipped synchronisations and those of a folder; a publisher is left out at a time.

    Examples
    --------
    >>> fit_syncs("nowhere")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere/measured/rl_open.csv: no such file
    """
    table = read_rows(Path(data_folder) / "measured" / "rl_open.csv")
    rows = [row for row in (*table, *curated_rows(CURATED_SYNC)) if row["metric"] in SYNC_METRICS]
    syncs, _ = read_syncs(rows)
    names = tuple(name for name in tomllib.loads(load_sync_text())["constants"] if name != RATIO)
    priors = np.array([prior_of(name) for name in names])
    measured = np.log([one.time_s for one in syncs])

    def residuals(changes: Array) -> Array:
        constants = {name: priors[at, 0] * np.exp(changes[:, at]) for at, name in enumerate(names)}
        times = [np.broadcast_to(sync_s(one.sides, one.mechanism, constants), len(changes)) for one in syncs]
        return np.asarray(np.log(np.array(times)) - measured[:, None])

    fit = Fit(residuals, np.full(len(syncs), SYNC_SCALE), np.ones(len(syncs)), priors[:, 1])
    fitted = fit_constants(fit, iterations=60)
    sources = sorted({publisher_of(one.row) for one in syncs})
    folds = np.array([sources.index(publisher_of(one.row)) for one in syncs])
    found = {"fitted": residuals(fitted.change[None, :])[:, 0], "source": cross_validate(fit, folds, fitted.change)}
    return SyncFit(syncs, names, fitted, found)


def publisher_of(row: Mapping[str, str]) -> str:
    """Who measured: two pull requests of one framework are one publisher's.

    Examples
    --------
    >>> publisher_of({"source": "NeMo-RL pull request 2971"})
    'nemo-rl'
    """
    return text_of(row, "source").lower().partition(" ")[0] if "docs" not in row["source"] else row["source"]


def symmetric_ratio(left: Array) -> float:
    """Factor either way that holds nine in ten of what was left out, split conformal.

    Two synchronisations far from all others would pull the median of an interval with ends of its own.

    Examples
    --------
    >>> round(symmetric_ratio(np.log([1.1, 0.9, 1.2, 0.8, 1.3, 0.7, 1.4, 1.5, 0.5, 9.0])), 6)
    9.0
    """
    place = min(int(np.ceil(0.9 * (len(left) + 1))), len(left)) - 1
    return float(np.exp(np.sort(np.abs(left))[place]))


def sync_text(found: SyncFit) -> str:
    """Write a fit as the file that the package ships, its mechanisms untouched."""
    shipped = load_sync_text()
    stated = tomllib.loads(shipped)["constants"]
    left = found.residuals["source"]
    middle, within = np.exp(np.median(np.abs(left))), np.mean(np.abs(left) <= np.log(1.6))
    publishers = len({publisher_of(one.row) for one in found.syncs})
    about = {
        "data": f"{len(found.syncs)} published synchronisations of {publishers} publishers",
        "residual": f"median factor {middle:.2f}, {within:.0%} within a factor of 1.6, publishers left out in turn",
        "date": date.today().isoformat(),
        "source": "rl-measurements",
    }
    head = shipped.partition("[constants]")[0]
    lines = [head + "[constants]"]
    for at, name in enumerate(found.names):
        prior, width = prior_of(name)
        value = prior * float(np.exp(found.fitted.change[at]))
        known = max(0.0, 1 - float(found.fitted.sd[at] / width) ** 2)
        ground = f"{known:.0%} of the prior's variance removed, +-{found.fitted.sd[at]:.0%}"
        lines.append(_entry(name, f"{value:.4g}", stated[name], {**about, "identifiability": ground}))
    half = symmetric_ratio(left)
    grounds = {
        **about,
        "residual": "split conformal either way, publishers left out",
        "identifiability": "a width, not a value",
    }
    lines.append(_entry(RATIO, toml_text(f"{1 / half:.4g}..{half:.4g}"), stated[RATIO], grounds))
    return "\n".join(lines) + "\n\n[mechanisms" + shipped.partition("\n[mechanisms")[2]


def _entry(name: str, value: str, stated: Mapping[str, str], grounds: Mapping[str, str]) -> str:
    kept = {key: toml_text(stated[key]) for key in ("prior", "why") if key in stated}
    return toml_row(name, {"value": value, **kept, **{key: toml_text(text) for key, text in grounds.items()}})
