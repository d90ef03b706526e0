"""From parsed options to a finished fit as a document, and the file it would write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.errors import InputError, nearest
from computeledger.physics.calibration.efficiency import load_factors, middle
from computeledger.questions.answers.fit_neighbours import fit_neighbours
from computeledger.questions.answers.fit_rl import fit_of_rl
from computeledger.questions.answers.fit_training import fit_of_training
from computeledger.questions.documents.fit import summary_of_errors
from computeledger.validation.serving.fit import ServingFit, calibration_text, fit_serving, prior_sd

_LEFT_OUT = {
    "everything": "nothing fitted: the assumed constants",
    "nothing": "fitted, on the same points",
    "fifth": "a fifth of the points left out",
    "pair": "one architecture on one system left out",
    "model": "one architecture left out",
    "chip": "one generation of chips left out",
}


def answer_fit(what: str, data_folder: str, quick: bool) -> tuple[dict[str, Any], str]:
    """Answer ``computeledger fit``: the document, and the calibration's text where everything was left out in turn."""
    fits: dict[str, Callable[[Path, bool], tuple[dict[str, Any], str]]] = {
        "serving": _serving,
        "training": fit_of_training,
        "rl": fit_of_rl,
        "neighbours": fit_neighbours,
    }
    if what not in fits:
        raise InputError(f"fit {what!r}: {nearest(what, fits)}")
    folder = Path(data_folder)
    if not folder.is_dir():
        raise InputError(f"--data {data_folder}: no such folder")
    return fits[what](folder, quick)


def _serving(folder: Path, quick: bool) -> tuple[dict[str, Any], str]:
    found = fit_serving(folder / "measured" / "serving_points.csv", () if quick else ("fifth", "pair", "model", "chip"))
    document = {
        "fit": "serving",
        "n": len(found.points),
        "n_constants": len(found.names),
        "constants": _constants(found),
        "errors": _errors(found),
    }
    return document, "" if quick else calibration_text(found)


def _constants(found: ServingFit) -> list[dict[str, Any]]:
    out = []
    for place, one in enumerate(found.names):
        prior = middle(load_factors("assumed")[one.constant].value)
        before, after = prior_sd(one.constant), float(found.fitted.sd[place])
        out.append(
            {
                "constant": one.constant,
                "engine": one.engine,
                "prior": prior,
                "value": prior * float(np.exp(found.fitted.change[place])),
                "prior_sd": before,
                "sd": after,
                "identified_fraction": max(0.0, 1 - (after / before) ** 2),
                "what": load_factors("assumed")[one.constant].why,
            }
        )
    return out


def _errors(found: ServingFit) -> list[dict[str, Any]]:
    kinds = np.array([one.kind for one in found.points])
    out = []
    for name, label in _LEFT_OUT.items():
        for kind in ("aggregated", "disaggregated"):
            if name in found.residuals and np.any(kinds == kind):
                rows = found.residuals[name][:, kinds == kind]
                out.append({"left_out": label, "kind": kind, "n": rows.shape[1], **_two(rows)})
    beside = found.residuals["incomplete"]
    if beside.size:
        record = {"left_out": _LEFT_OUT["nothing"], "kind": "incomplete record, not fitted", "n": beside.shape[1]}
        out.append({**record, **_two(beside)})
    return out


def _two(rows: Any) -> dict[str, Any]:
    return {name: summary_of_errors(np.expm1(row)) for name, row in zip(("tpot", "ttft"), rows, strict=True)}
