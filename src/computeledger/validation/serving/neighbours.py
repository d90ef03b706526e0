"""Errors of predicted ratios: pairs of measured options of one deployment, and the law fitted to them."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from computeledger.errors import InputError
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.units import KILO
from computeledger.validation.fit import LEFT_OUT_GROUPS
from computeledger.validation.serving.points import Point, read_points, sort_points
from computeledger.validation.serving.predictions import blocks_of, predict_blocks
from computeledger.workloads.serving.margins import NeighbourErrors, student_2_cdf
from computeledger.workloads.sweep import sweep

Array = NDArray[np.float64]

#: What two rows of a table of serving points must share to be of one deployment, and the degrees they may differ in.
DEPLOYMENT = ("model_path", "system", "backend", "backend_version", "precision", "isl", "osl")
DEGREES = ("tp_size", "pp_size", "attention_dp_size", "moe_ep_size")
#: Fewest pairs that a fit makes sense of.
FEWEST_PAIRS = 50
_LEVELS = (0.8, 0.9)
#: Groups of architectures that are left out in turn.
_FOLDS = 4


@dataclass(frozen=True, slots=True)
class NeighbourPairs:
    """Pairs of options of one deployment."""

    layout_doublings: Array
    batch_doublings: Array
    log_error: Array


def read_neighbour_pairs(
    table: str | Path, but: Container[str] = (), only: Container[str] | None = None
) -> NeighbourPairs:
    """Pair the aggregated options of a table of serving points, predicted with each engine's constants.

    Examples
    --------
    >>> read_neighbour_pairs("nowhere.csv")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file
    """
    every = _aggregated(table)
    return _pairs_of([one for one in every if one.family not in but and (only is None or one.family in only)])


def _aggregated(table: str | Path) -> list[Point]:
    return [one for one in sort_points(read_points(table))[0] if one.kind == "aggregated"]


def _pairs_of(points: Sequence[Point]) -> NeighbourPairs:
    central = {"efficiency.serving_ratio": 1.0, "efficiency.first_token_ratio": 1.0}
    engines = {one.backend: efficiency(one.backend, central, 0.0, "recipe") for one in points}
    predicted_s = predict_blocks(blocks_of(points), engines, 1)[0][:, 0]
    measured_s = np.array([one.number("silicon_tpot_ms") for one in points]) / KILO
    rows = [{**one.row, "backend": f"{one.backend} {one.speculative}"} for one in points]
    return neighbour_pairs(rows, np.log(measured_s / predicted_s))


def neighbour_pairs(rows: Sequence[Mapping[str, str]], log_residual: Array) -> NeighbourPairs:
    """Pair the options of each deployment.

    Examples
    --------
    >>> row = dict.fromkeys((*DEPLOYMENT, *DEGREES), "1")
    >>> pairs = neighbour_pairs([row | {"batch_size": "4"}, row | {"batch_size": "16"}], np.array([0.1, 0.3]))
    >>> pairs.batch_doublings.tolist(), pairs.log_error.round(1).tolist()
    ([2.0], [0.2])
    """
    groups: dict[Hashable, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(tuple(row.get(name, "") for name in DEPLOYMENT), []).append(index)
    degrees = np.log2([[max(float(row.get(name) or 1), 1.0) for name in DEGREES] for row in rows])
    batch = np.log2([float(row["batch_size"]) for row in rows])
    first, second = np.array(
        [(i, j) for members in groups.values() for k, j in enumerate(members) for i in members[:k]], int
    ).reshape(-1, 2).T  # fmt: skip
    layouts, batches = np.abs(degrees[first] - degrees[second]).sum(axis=1), np.abs(batch[first] - batch[second])
    apart = layouts + batches > 0
    errors = log_residual[second] - log_residual[first]
    return NeighbourPairs(layouts[apart], batches[apart], errors[apart])


def fit_neighbour_errors(pairs: NeighbourPairs) -> NeighbourErrors:
    """Fit the law of the scale by maximum likelihood, errors taken as Student's t with two degrees of freedom.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> layouts, batches = rng.integers(0, 4, 4000).astype(float), rng.integers(1, 6, 4000).astype(float)
    >>> truth = NeighbourErrors(0.006, 0.003, 0.03)
    >>> errors = truth.scale(layouts, batches) * rng.standard_t(2, 4000)
    >>> abs(fit_neighbour_errors(NeighbourPairs(layouts, batches, errors)).layout_square / 0.006 - 1) < 0.2
    True
    """
    if pairs.log_error.size < FEWEST_PAIRS:
        raise InputError(f"{pairs.log_error.size} pairs of neighbours: at least {FEWEST_PAIRS} are needed for a fit")
    centre, width = np.log([0.005, 0.005, 0.05]), 3.0
    while width > 0.02:
        steps = [np.linspace(middle - width, middle + width, 7) for middle in centre]
        centre = np.array(min(product(*steps), key=lambda logs: _misfit(np.exp(logs), pairs)))
        width /= 2
    return NeighbourErrors(*np.exp(centre).tolist())


def _misfit(law: Array, pairs: NeighbourPairs) -> float:
    """Mean negative log-likelihood, constants left out."""
    scale = NeighbourErrors(*law.tolist()).scale(pairs.layout_doublings, pairs.batch_doublings)
    return float(np.mean(np.log(scale) + 1.5 * np.log1p(np.square(pairs.log_error / scale) / 2)))


def neighbour_coverage(pairs: NeighbourPairs, errors: NeighbourErrors, level: float) -> float:
    """Share of measured ratios inside the interval that the law gives them.

    Examples
    --------
    >>> pairs = NeighbourPairs(np.zeros(2), np.ones(2), np.array([0.0, 9.0]))
    >>> neighbour_coverage(pairs, NeighbourErrors(0.01, 0.01, 0.1), 0.9)
    0.5
    """
    scale = errors.scale(pairs.layout_doublings, pairs.batch_doublings)
    inside = 2 * student_2_cdf(np.abs(pairs.log_error) / scale) - 1 <= level
    return float(np.mean(inside))


@dataclass(frozen=True, slots=True)
class NeighbourLaw:
    """A fitted law, and the share of pairs inside its intervals by level: of those it was fitted to, or of others."""

    n: int
    errors: NeighbourErrors
    coverage: Mapping[float, float]
    architectures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NeighbourFit:
    """The law on all pairs, and the laws that left groups of architectures out."""

    law: NeighbourLaw
    left_out: tuple[NeighbourLaw, ...]


def fit_neighbours(table: str | Path, quick: bool, executor: Executor | None = None) -> NeighbourFit:
    """Fit the law of neighbours' errors; with architectures left out in turn unless it is to be quick.

    An executor leaves several groups out at once.

    Examples
    --------
    >>> fit_neighbours("nowhere.csv", quick=True)
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file
    """
    points = _aggregated(table)
    pairs = _pairs_of(points)
    law = _law(pairs, fit_neighbour_errors(pairs))
    if quick:
        return NeighbourFit(law, ())
    families = sorted({one.family for one in points})
    groups = [tuple(families[fold::_FOLDS]) for fold in range(_FOLDS)]
    return NeighbourFit(law, tuple(sweep(partial(_law_without, points), groups, executor, what=LEFT_OUT_GROUPS)))


def _law_without(points: Sequence[Point], out: tuple[str, ...]) -> NeighbourLaw:
    """The law of other architectures on those that it has not seen."""
    errors = fit_neighbour_errors(_pairs_of([one for one in points if one.family not in out]))
    return _law(_pairs_of([one for one in points if one.family in out]), errors, out)


def _law(pairs: NeighbourPairs, errors: NeighbourErrors, architectures: tuple[str, ...] = ()) -> NeighbourLaw:
    coverage = {level: neighbour_coverage(pairs, errors, level) for level in _LEVELS}
    return NeighbourLaw(int(pairs.log_error.size), errors, coverage, architectures)


def neighbours_text(fit: NeighbourFit) -> str:
    """Write a fit as the file that the package ships.

    Examples
    --------
    >>> law = NeighbourLaw(99, NeighbourErrors(0.006, 0.003, 0.03), {0.8: 0.81, 0.9: 0.92}, ("LLAMA",))
    >>> neighbours_text(NeighbourFit(law, (law,))).splitlines()[1]
    'layout_square = 0.006'
    """
    shares = [one.coverage[0.9] for one in fit.left_out]
    pooled = sum(one.coverage[0.9] * one.n for one in fit.left_out) / sum(one.n for one in fit.left_out)
    seen = fit.law.coverage
    inside = f"80 and 90 % intervals of a measured ratio cover {seen[0.8]:.0%} and {seen[0.9]:.0%}"
    outside = f"on architectures left out of this law's fit 90 % intervals cover {pooled:.0%} of all pairs"
    groups = f"{min(shares):.0%} to {max(shares):.0%} by group of architectures"
    pairs = f"{fit.law.n:,} pairs of aggregated InferenceX points of one model, GPU, engine version, precision and"
    lines = [
        "# Error of a predicted ratio of two options of one deployment: written by `computeledger fit neighbours`.",
        *(f"{name} = {value:.3g}" for name, value in asdict(fit.law.errors).items()),
        f'data = "{pairs} lengths, predicted with the fitted constants of each engine"',
        'source = "aiconfigurator"',
        f'residual = "{inside}; {outside}, {groups}"',
        f'date = "{date.today().isoformat()}"',
    ]
    return "\n".join(lines) + "\n"
