"""The view of a contribution: its rows, how far predictions lie from them, and what is still open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.facts.load import load_system
from computeledger.interfaces.view import Table, View
from computeledger.questions.answers.contribute import ContributeAnswer
from computeledger.questions.wording import chips_words, headline_words, percent, short_model, span, words
from computeledger.units import format_count

_NAMES = {"tpot": "time per output token", "ttft": "time to first token"}


def view(answer: ContributeAnswer, _working: bool) -> View:
    """Residuals of the rows, and what remains to do."""
    document = answer.to_dict()
    asked = answer.question
    residuals = document["residuals"]
    inside = sum(one["inside_interval"] for one in residuals)
    said = f"{format_count(len(document['rows']), 'row')}, {inside} of {len(residuals)} inside the 90 % interval"
    rows = [_row(one, answer.comparison.rows[one["row"]]) for one in residuals]
    columns = ("quantity", "load", "measured #", "predicted #", "90 % interval #", "off by #")
    return View(
        title=f"{asked.source}: measurement to contribute",
        headline=headline_words(f"{short_model(asked.model)} on {_measured_on(answer)}", said),
        tables=(Table("Predicted beside measured", columns, rows, drops=("load",)),) if rows else (),
        notes=(
            *answer.open_points,
            *(f"{format_count(count, 'row')} cannot be predicted: {why}" for why, count in document["skipped"].items()),
            _next(document),
        ),
        overline="contribute",
    )


def _next(document: Mapping[str, Any]) -> str:
    return f"{document['file']} holds the rows for {document['table']}; docs/contribute.md says how they get in"


def _measured_on(answer: ContributeAnswer) -> str:
    """The chips of the rows, which may be a part of a system or several."""
    row, chip = answer.rows[0], load_system(answer.question.system).accelerator
    return chips_words(float(row.get("n_accelerators") or row["n_gpus"]), chip.short_name or chip.name)


def _row(one: Mapping[str, Any], row: Mapping[str, str]) -> list[str]:
    predicted, unit = one["predicted"], one["unit"]
    side = "high" if one["ratio"] > 1 else "low"
    quantity = _NAMES.get(one["quantity"], one["quantity"].replace("_", " "))
    ends = span(predicted["p05"], predicted["p95"], unit)
    off = f"{percent(abs(one['ratio'] - 1))} {side}"
    return [quantity, _load(row), words(one["measured"], unit), words(predicted["p50"], unit), ends, off]


def _load(row: Mapping[str, str]) -> str:
    if "concurrency" in row:
        return f"{row['concurrency']} at once, {row['input_tokens']} in, {row['output_tokens']} out"
    return f"{row['n_gpus']} GPUs, {row['seq_len']} tokens a sequence"
