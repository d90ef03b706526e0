"""How far a measurement of a deployment holds for its other points, fitted on other people's deployments."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np

from computeledger.errors import InputError
from computeledger.facts.load import load_model
from computeledger.physics.calibration.anchors import AnchorSpread, of_pools
from computeledger.physics.calibration.efficiency import median_of
from computeledger.validation.compare import merged
from computeledger.validation.conformal import weighted_quantile
from computeledger.validation.fit import LEFT_OUT_GROUPS
from computeledger.validation.measured_table import curated_rows, read_rows
from computeledger.validation.serving.anchor_gain import (
    AnchorGain,
    Pair,
    RunPoint,
    pairs_of,
    run_points,
    summarized,
)
from computeledger.validation.serving.open_points import compare_open
from computeledger.validation.serving.predictions import compare_serving
from computeledger.validation.training.anchor_spread import StepFit, fit_steps, step_text
from computeledger.workloads.serving.anchor_fit import score
from computeledger.workloads.serving.intervals import interval_of, model_family
from computeledger.workloads.sweep import sweep

#: Where the rows lie: in the folder of measured tables, and with the package.
OPEN_TABLE, SHIPPED_TABLE = Path("measured") / "serving_open.csv", "serving_elsewhere.csv"
QUANTITIES = ("tpot", "ttft")
#: The same of two pools: their table, what is before the names of their spreads, and what makes a deployment one.
POOLS_TABLE = Path("measured") / "serving_points.csv"
_DEPLOYED = ("backend", "backend_version", "model_path", "system", "gemm_quant_mode", *(
    f"{pool}_{name}" for pool in ("prefill", "decode")
    for name in ("tp_size", "pp_size", "attention_dp_size", "moe_ep_size")
))  # fmt: skip
#: Freedom of Student's t, whose long tails keep a few strange runs from deciding (assumption).
_FREEDOM = 2.5
#: Slopes per doubling, and scatters, that are tried [-].
_SLOPES, _SCATTERS = np.geomspace(0.005, 0.4, 20), np.geomspace(0.02, 0.5, 20)
_TAILS = (0.05, 0.1, 0.9, 0.95)
_SAMPLES = 32

Runs = Mapping[str, Sequence[RunPoint]]


@dataclass(frozen=True, slots=True)
class AnchorFit:
    """Spreads by time, what one anchor does on sources left out, how much data stands behind them; and of training."""

    spreads: Mapping[str, AnchorSpread]
    left_out: Mapping[str, AnchorGain]
    n: int
    n_runs: int
    n_sources: int
    training: StepFit | None = None


def fit_anchors(folder: str | Path, quick: bool = False, executor: Executor | None = None) -> AnchorFit:
    """Fit the spreads on both tables; whole sources are left out in turn unless it must be quick.

    An executor leaves several out at once.

    Examples
    --------
    >>> fit_anchors("nowhere")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere/measured/serving_open.csv: no such file
    """
    parts = [
        compare_open(rows, _SAMPLES) for rows in (read_rows(Path(folder) / OPEN_TABLE), curated_rows(SHIPPED_TABLE))
    ]
    comparison = merged(parts)
    runs = {name: run_points(comparison, name) for name in QUANTITIES}
    spreads = {name: spread_of(runs[name], name) for name in QUANTITIES}
    left_out = {} if quick else {name: left_out_gain(runs[name], name, executor) for name in QUANTITIES}
    points = [point for one in runs.values() for run in one.values() for point in run]
    apart = pool_runs(folder)
    spreads |= {of_pools(name): spread_of(apart[name], name) for name in QUANTITIES}
    left_out |= {} if quick else {of_pools(name): left_out_gain(apart[name], name, executor) for name in QUANTITIES}
    counts = len(points), sum(map(len, runs.values())), len({one.source for one in points})
    return AnchorFit(spreads, left_out, *counts, fit_steps(folder, quick, executor))


def pool_runs(folder: str | Path) -> dict[str, dict[str, list[RunPoint]]]:
    """Measured points of two pools, by quantity and deployment: the same layouts at other loads, lengths and counts.

    All are one project's, so families of models stand for sources.
    """
    found = compare_serving([row for row in read_rows(Path(folder) / POOLS_TABLE) if row["mode"] != "agg"], _SAMPLES)
    rows = [
        {**row, "run": " ".join(row.get(name, "") for name in _DEPLOYED), "batch_size": row["decode_batch_size"],
         "source": model_family(load_model(row["model_path"]))}
        for row in found.rows
    ]  # fmt: skip
    return {name: run_points(replace(found, rows=rows), name) for name in QUANTITIES}


def spread_of(runs: Runs, quantity: str) -> AnchorSpread:
    """Fit one time: the deployments' spread by their means, slopes and scatter by pairs of points, tails by the rest.

    Examples
    --------
    >>> from computeledger.workloads.serving.anchor_fit import MeasuredRatio
    >>> steep = {level: [RunPoint("s", "engine never fitted", MeasuredRatio(level * b**0.3, b, 64.0))
    ...                  for b in (1, 4, 64)] for level in (1.0, 1.5)}
    >>> spread_of(steep, "tpot").per_batch_doubling_sd > 0.05
    True
    """
    levels = [np.mean([_log(point, quantity) for point in run]) for run in runs.values()]
    pairs = [
        (
            _log(one, quantity) - _log(two, quantity),
            np.log2(one.place.batch / two.place.batch),
            np.log2(one.place.input_tokens / two.place.input_tokens),
            1 / (len(run) - 1),
        )
        for run in runs.values()
        for one, two in itertools.combinations(run, 2)
    ]
    apart, batch, given, weight = np.array(pairs).T
    tried = np.array(list(itertools.product(_SCATTERS, _SLOPES, _SLOPES)))
    variance = tried**2 @ np.array([2 * np.ones_like(batch), batch**2, given**2])
    likely = -0.5 * np.log(variance) - (_FREEDOM + 1) / 2 * np.log1p(apart**2 / variance / _FREEDOM)
    scatter, by_batch, by_input = map(float, tried[np.argmax(likely @ weight)])
    bare = AnchorSpread(float(np.std(levels)), scatter, by_batch, by_input, (-1.0, -1.0, 1.0, 1.0))
    scores, weights = [], []
    for run in runs.values():
        for known, target in itertools.permutations(run, 2):
            scores.append(score(interval_of(target.interval), quantity, known.place, target.place, bare))
            weights.append(1 / (len(run) - 1))
    low, inner_low, inner_high, high = (
        weighted_quantile(np.array(scores), np.array(weights), share) for share in _TAILS
    )
    tails = min(low, -_LEAST), min(inner_low, -_LEAST), max(inner_high, _LEAST), max(high, _LEAST)
    return AnchorSpread(bare.between_sd, scatter, bare.per_batch_doubling_sd, bare.per_input_doubling_sd, tails)


#: An interval has two sides.
_LEAST = 0.1


def _log(point: RunPoint, quantity: str) -> float:
    """Logarithm of measured over predicted, about the median of the point's class."""
    return float(np.log(point.place.ratio / median_of(getattr(interval_of(point.interval), quantity))))


def left_out_gain(runs: Runs, quantity: str, executor: Executor | None = None) -> AnchorGain:
    """What one anchor does on each source by the spreads of all others."""
    sources = sorted({run[0].source for run in runs.values()})
    found = sweep(partial(_pairs_without, runs, quantity), sources, executor, what=LEFT_OUT_GROUPS)
    return summarized(list(itertools.chain.from_iterable(found)), len(runs))


def _pairs_without(runs: Runs, quantity: str, source: str) -> list[Pair]:
    others = {name: run for name, run in runs.items() if run[0].source != source}
    own = {name: list(run) for name, run in runs.items() if run[0].source == source}
    return pairs_of(own, quantity, {quantity: spread_of(others, quantity)})


def calibration_text(found: AnchorFit) -> str:
    """Write a fit as the file that the package ships.

    Examples
    --------
    >>> calibration_text(AnchorFit({}, {}, 0, 0, 0))
    Traceback (most recent call last):
    computeledger.errors.InputError: no residuals: sources were not left out
    """
    if not found.left_out:
        raise InputError("no residuals: sources were not left out")
    words = {"tpot": "times per output token", "ttft": "times to first token"}
    words |= {of_pools(name): f"{said} of two pools (models left out)" for name, said in words.items()}
    residual = ", ".join(
        f"median {one.after:.1%} of {words[name]} and {one.coverage_90:.0%} inside"
        for name, one in found.left_out.items()
    )
    lines = [
        "# What a measurement of a deployment or a training run says of others: `computeledger fit anchors` writes it;",
        "# edits are lost.",
        "",
        "[about]",
        f'data = "{found.n} times of {found.n_runs} deployments of {found.n_sources} public sources"',
        f'residual = "{residual}, sources left out in turn"',
        f'date = "{date.today().isoformat()}"',
        'source = "serving-elsewhere"',
    ]
    for name, one in found.spreads.items():
        tails = ", ".join(f"{tail:.3f}" for tail in one.tails)
        lines += [
            "",
            f"[{name}]",
            f"between_sd = {one.between_sd:.3f}",
            f"scatter_sd = {one.scatter_sd:.3f}",
            f"per_batch_doubling_sd = {one.per_batch_doubling_sd:.4f}",
            f"per_input_doubling_sd = {one.per_input_doubling_sd:.4f}",
            f"tails = [{tails}]",
        ]
    text = "\n".join([*lines, ""])
    return text if found.training is None else f"{text}\n{step_text(found.training)}"
