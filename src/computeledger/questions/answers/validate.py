"""Answer how far predictions lie from measurements: summaries, groups in doubt, the farthest rows and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from computeledger.fields import Given
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.row_words import row_words
from computeledger.questions.validate import ValidateQuestion
from computeledger.validation.accuracy.table import comparison_of, published
from computeledger.validation.compare import (
    SHARES,
    Comparison,
    Deviation,
    check_columns,
    comparison_document,
    deviations,
    summaries,
)
from computeledger.validation.prices import PriceCheck, check_prices
from computeledger.validation.serving.anchor_gain import anchor_gain
from computeledger.validation.suspects import COLUMN, load_suspects, suspect_mask
from computeledger.validation.tables import compare_curated, compare_table
from computeledger.workloads.rl.confidence import fitted_frameworks


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ValidateAnswer(Answer):
    """Predictions beside measurements."""

    question: ValidateQuestion
    comparison: Comparison

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger validate --json`` prints it; the farthest rows come along where they are asked for."""
        del working
        return self.summarized(self.question.by, self.question.worst or 0)

    def summarized(self, by: Sequence[str], worst: int) -> dict[str, Any]:
        """Errors over all rows and by columns, groups in doubt, what an anchor is worth, the farthest rows."""
        comparison = self.comparison
        document = comparison_document(comparison, by)
        suspects, anchors = _suspects(comparison), _anchors(comparison)
        document["rows"] = {
            "n": len(comparison.rows), "skipped": sum(comparison.skipped.values()),
            "out_of_sample": _out_of_sample(comparison), "suspects": suspects, "anchors": anchors,
        }  # fmt: skip
        if worst:
            document["worst"] = {
                name: [_deviation(comparison, one) for one in deviations(comparison, name)[:worst]]
                for name in comparison.measured
            }
        return document


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class PriceCheckAnswer(Answer):
    """How well prices tell the size of a model."""

    question: ValidateQuestion
    check: PriceCheck

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger validate --prices --json`` prints it."""
        del working
        return asdict(self.check)


def validate(question: ValidateQuestion | None = None, /, **given: Given) -> ValidateAnswer | PriceCheckAnswer:
    """Predictions beside published measurements: errors, bias and how often an interval holds the measurement.

    Parameters
    ----------
    question : ValidateQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, int or sequence of str
        Fields of :class:`~computeledger.questions.validate.ValidateQuestion`.

    Returns
    -------
    ValidateAnswer or PriceCheckAnswer
        Errors over all rows, by slice and by row; the second where ``prices`` is set.

    Raises
    ------
    InputError
        For a table that cannot be read, or columns that it lacks.

    Examples
    --------
    >>> answer = validate(samples=64, by="mode")
    >>> by_mode = answer.to_dict()["by"]["mode"]
    >>> by_mode["agg"]["tpot"]["median_abs_error"] < by_mode["disagg"]["tpot"]["median_abs_error"]
    True
    """
    return from_python(ValidateQuestion, answer_validate, question, given)


def answer_validate(question: ValidateQuestion) -> ValidateAnswer | PriceCheckAnswer:
    """Answer ``computeledger validate``: a table of the user's, told by its columns, or the shipped measurements."""
    if question.prices:
        return PriceCheckAnswer(question, check_prices(question.data))
    drawn = (question.samples, question.seed)
    found = compare_curated(*drawn) if question.data is None else compare_table(question.data, *drawn)
    check_columns(found, question.by)
    return ValidateAnswer(question, found)


def _out_of_sample(comparison: Comparison) -> dict[str, Any]:
    """Errors on what no fit has seen, by quantity: rows of other sources, and the published folds of the rest.

    A row was fitted where its source is one of the published table of accuracy, or its RL framework one of the fit.
    """
    table, fitted = published(), fitted_frameworks()
    known, sources = {row["source"] for row in table.rows}, [_source_of(row) for row in comparison.rows]
    unseen = np.array(
        [bool(source) and source not in known and row.get("framework") not in fitted
         for row, source in zip(comparison.rows, sources, strict=True)], bool,
    )  # fmt: skip
    folds: dict[str, Any] = {}
    for name in comparison.measured:
        rows = [row for row in table.promised(None).rows if row["quantity"] == name and row["source"] in sources]
        if rows:
            left = sorted({row["left_out"] for row in rows})
            folds[name] = {"left_out": left, **comparison_document(comparison_of(rows))[name]}
    return {"unseen": {name: one for name, one in summaries(comparison, unseen).items() if one["n"]}, "folds": folds}


def _source_of(row: Mapping[str, str]) -> str:
    """Who measured a row, as the table of accuracy names it; points of the public recipes name their run."""
    return "InferenceX" if "silicon_data_source" in row and row.get("silicon_tpot_ms") else row.get("source", "")


def _deviation(comparison: Comparison, one: Deviation) -> dict[str, Any]:
    row = comparison.rows[one.index]
    explanation = comparison.explain(one.index, one.quantity) if comparison.explain is not None else None
    document: dict[str, Any] = {
        "row": row_words(row),
        "id": row.get("id", ""),
        "source": row.get("source") or row.get("silicon_data_source", ""),
        "suspect": row.get(COLUMN, "no"),
        "measured": one.measured,
        "predicted": {f"p{round(100 * level):02d}": value for level, value in zip(SHARES, one.predicted, strict=True)},
        "ratio": one.ratio,
        "unit": comparison.units.get(one.quantity, ""),
    }
    if explanation is not None:
        whole = sum(explanation.times_s.values())
        document["breakdown"] = {
            "of": explanation.what,
            "bound": explanation.bound,
            "assumed": list(explanation.assumed),
            "parts": [
                {"name": name, "time_s": time_s, "share_fraction": time_s / whole, "bound": explanation.bounds[name]}
                for name, time_s in sorted(explanation.times_s.items(), key=lambda pair: -pair[1])
            ],
        }
    return document


def _anchors(comparison: Comparison) -> dict[str, Any]:
    """What one measurement of a run does to the errors on the rest of it, by quantity."""
    gains = {name: anchor_gain(comparison, name) for name in comparison.measured}
    return {name: asdict(gain) for name, gain in gains.items() if gain is not None}


def _suspects(comparison: Comparison) -> dict[str, Any]:
    """Groups in doubt that the data hold, and the summaries without them."""
    doubtful = suspect_mask(comparison.rows)
    names = np.array([row.get(COLUMN, "no") for row in comparison.rows])
    groups = [
        {
            "name": one.name,
            "why": one.why,
            "n": int(np.sum(names == one.name)),
            "summaries": summaries(comparison, names == one.name),
        }
        for one in load_suspects()
        if np.any(names == one.name)
    ]
    return {
        "groups": groups,
        "n": int(np.sum(doubtful)),
        "without": summaries(comparison, ~doubtful) if len(names) else {},
    }
