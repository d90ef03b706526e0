"""What another tool predicts of the same rows: its figures are data, written by ``benchmarks/peers_gathered.py``."""

from __future__ import annotations

import csv
import functools
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from computeledger.validation.accuracy.table import published
from computeledger.validation.compare import Array

_HOME = "computeledger.validation.accuracy"
#: Which of a peer's columns answers a quantity.
_ANSWERS = {"tpot": "tpot_s", "ttft": "ttft_s", "output_tokens_per_s_per_gpu": "output_tokens_per_s_per_gpu"}
Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Peer:
    """Another tool's predictions by row and quantity, and why it has none for the others.

    Attributes
    ----------
    version, date : str
        Of the tool, and when it was asked.
    settings : mapping of str to str
        For each quantity which of the settings it was asked with comes nearest to what was measured: its best.
    predicted : mapping of (str, str) to float
        By id and quantity, in the row's unit.
    refused : mapping of str to str
        Why, by id.
    """

    version: str
    date: str
    settings: Mapping[str, str]
    predicted: Mapping[tuple[str, str], float]
    refused: Mapping[str, str]

    def document(self, rows: Sequence[Row], by: Sequence[str]) -> dict[str, Any]:
        """Errors of both on the rows that both predict, over all and by slice."""
        answered = [row for row in rows if (row["id"], row["quantity"]) in self.predicted]
        asked = {row["id"] for row in rows if row["quantity"] in _ANSWERS}
        why = Counter(_reason(self.refused[one]) for one in asked if one in self.refused)
        slices = {
            column: {
                value: self._errors([row for row in answered if row[column] == value])
                for value in sorted({row[column] for row in answered})
            }
            for column in by
        }
        said = {"version": self.version, "date": self.date, "settings": dict(self.settings)}
        return {**self._errors(answered), "by": slices, "skipped": dict(why), **said}

    def _errors(self, rows: Sequence[Row]) -> dict[str, Any]:
        out = {}
        for name in dict.fromkeys(row["quantity"] for row in rows):
            own = [row for row in rows if row["quantity"] == name]
            measured = np.array([float(row["measured"]) for row in own])
            ours = np.array([float(row["p50"]) for row in own]) / measured
            theirs = np.array([self.predicted[row["id"], name] for row in own]) / measured
            out[name] = {"n": len(own), "theirs": _summary(theirs), "ours": _summary(ours)}
        return out


#: A peer's own errors in words.
_REFUSALS = {
    "RuntimeError": "too large for memory, by its account",
    "PerfDataNotAvailableError": "no measured kernels",
    "HuggingFaceDownloadError": "no configuration",
}


def _reason(text: str) -> str:
    """The kind of a refusal: its first words."""
    kind = text.partition(":")[0]
    return _REFUSALS.get(kind, kind)


def _summary(ratio: Array) -> dict[str, float]:
    error = np.abs(ratio - 1)
    return {
        "median_abs_error": float(np.median(error)),
        "p90_abs_error": float(np.quantile(error, 0.9)),
        "bias": float(np.median(ratio)),
    }


@functools.cache
def _answers() -> list[dict[str, str]]:
    text = resources.files(_HOME).joinpath("aiconfigurator.csv").read_text("utf-8")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def beside(rows: Sequence[Row]) -> dict[str, Peer]:
    """Other tools that answered some of these rows, each at its best setting."""
    measured = {(row["id"], row["quantity"]): float(row["measured"]) for row in rows if row["id"]}
    asked = {one for one, _ in measured}
    found = [one for one in _answers() if one["id"] in asked]
    if not any((one["id"], name) in measured for one in found for name, column in _ANSWERS.items() if one[column]):
        return {}
    settings = {name: _best(name) for name in _ANSWERS}
    predicted = {
        (one["id"], name): float(one[column])
        for one in found
        for name, column in _ANSWERS.items()
        if one[column] and (one["id"], name) in measured and one["budget"] in (settings[name], "static")
    }
    refused = {one["id"]: one["reason"] for one in found if one["reason"] and one["budget"] != "8192"}
    return {found[0]["tool"]: Peer(found[0]["version"], found[0]["date"], settings, predicted, refused)}


@functools.cache
def _best(quantity: str) -> str:
    """The setting with the smaller median error over every published row, so that the tool is at its best."""
    measured = {
        row["id"]: float(row["measured"]) for row in published("serving", "usual").rows if row["quantity"] == quantity
    }
    column, errors = _ANSWERS[quantity], dict[str, list[float]]()
    for one in _answers():
        if one[column] and one["id"] in measured and one["budget"] != "static":
            errors.setdefault(one["budget"], []).append(abs(float(one[column]) / measured[one["id"]] - 1))
    return min(errors, key=lambda name: float(np.median(errors[name])), default="default")
