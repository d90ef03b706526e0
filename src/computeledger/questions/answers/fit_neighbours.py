"""The fit of neighbours' errors as a document, and the calibration it would write."""

from __future__ import annotations

import datetime
from dataclasses import asdict
from pathlib import Path
from typing import Any

from computeledger.validation.serving.neighbours import (
    NeighbourPairs,
    fit_neighbour_errors,
    neighbour_coverage,
    read_neighbour_pairs,
)
from computeledger.validation.serving.points import read_points, sort_points
from computeledger.workloads.serving.margins import NeighbourErrors

_LEVELS = (0.8, 0.9)
#: Groups of architectures that are left out in turn.
_FOLDS = 4


def fit_neighbours(folder: Path, quick: bool) -> tuple[dict[str, Any], str]:
    """Fit the law of neighbours' errors; with architectures left out in turn unless it is to be quick."""
    table = folder / "measured" / "serving_points.csv"
    pairs = read_neighbour_pairs(table)
    errors = fit_neighbour_errors(pairs)
    document: dict[str, Any] = {
        "fit": "neighbours",
        "n": int(pairs.log_error.size),
        "errors": asdict(errors),
        "coverage": _coverage(pairs, errors),
        "left_out": [],
    }
    if quick:
        return document, ""
    families = sorted({one.family for one in sort_points(read_points(table))[0] if one.kind == "aggregated"})
    for fold in range(_FOLDS):
        out = families[fold::_FOLDS]
        law = fit_neighbour_errors(read_neighbour_pairs(table, but=out))
        unseen = read_neighbour_pairs(table, only=out)
        document["left_out"].append(
            {"architectures": out, "n": int(unseen.log_error.size), "errors": asdict(law), **_coverage(unseen, law)}
        )
    return document, _text(document)


def _coverage(pairs: NeighbourPairs, errors: NeighbourErrors) -> dict[str, float]:
    return {f"coverage_{100 * level:.0f}": neighbour_coverage(pairs, errors, level) for level in _LEVELS}


def _text(document: dict[str, Any]) -> str:
    shares = [one["coverage_90"] for one in document["left_out"]]
    pooled = sum(one["coverage_90"] * one["n"] for one in document["left_out"])
    pooled /= sum(one["n"] for one in document["left_out"])
    seen = document["coverage"]
    inside = f"80 and 90 % intervals of a measured ratio cover {seen['coverage_80']:.0%} and {seen['coverage_90']:.0%}"
    outside = f"on architectures left out of this law's fit 90 % intervals cover {pooled:.0%} of all pairs"
    groups = f"{min(shares):.0%} to {max(shares):.0%} by group of architectures"
    pairs = f"{document['n']:,} pairs of aggregated InferenceX points of one model, GPU, engine version, precision and"
    lines = [
        "# Error of a predicted ratio of two options of one deployment: written by `computeledger fit neighbours`.",
        *(f"{name} = {value:.3g}" for name, value in document["errors"].items()),
        f'data = "{pairs} lengths, predicted with the fitted constants of each engine"',
        'source = "aiconfigurator"',
        f'residual = "{inside}; {outside}, {groups}"',
        f'date = "{datetime.date.today().isoformat()}"',
    ]
    return "\n".join(lines) + "\n"
