"""Predictions beside measurements as documents: the contract's summaries, suspect groups, the worst rows and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from computeledger.units import format_percent
from computeledger.validation.compare import (
    SHARES,
    Comparison,
    Deviation,
    comparison_document,
    deviations,
    summaries,
)
from computeledger.validation.serving.anchor_gain import anchor_gain
from computeledger.validation.suspects import COLUMN, load_suspects, suspect_mask

#: Quantities in words, with the unit that people read; another one is shown by its own name and the table's unit.
QUANTITY_WORDS = {
    "tpot": "time per output token",
    "ttft": "time to first token",
    "output_tokens_per_s_per_gpu": "output tokens/s per GPU",
    "input_tokens_per_s_per_gpu": "input tokens/s per GPU",
    "memory_bytes": "memory",
    "n_nodes": "nodes",
}
_LABELS = (("model_path", "model"), ("system", "hardware"), ("backend",), ("mode",), ("parallelism",))
#: Columns of degrees that name a layout in one word.
_DEGREES = {"tp_size": "tp", "pp_size": "pp", "attention_dp_size": "dp", "moe_ep_size": "ep"}


def quantity_words(name: str) -> str:
    """Name of a measured quantity as people read it."""
    return QUANTITY_WORDS.get(name, name.replace("_", " "))


def row_words(row: Mapping[str, str]) -> str:
    """A row in one line: model, machine, engine, layout, load; the first cells of a table of another kind."""
    parts = [next((row[name] for name in names if row.get(name)), "") for names in _LABELS]
    if row.get("model_path"):
        parts[0] = parts[0].rpartition("/")[2]
    degrees = [
        f"{short}{float(row[name]):.0f}"
        for name, short in _DEGREES.items()
        if row.get(name) not in (None, "", "0.0", "1.0")
    ]
    parts.append("-".join(degrees))
    if row.get("isl") or row.get("osl"):
        parts.append(f"{row.get('isl') or '?'}/{row.get('osl') or '?'}")
    load = row.get("batch_size") or row.get("batch_or_concurrency") or ""
    parts.append(f"batch {load.removesuffix('.0')}" if load else "")
    known = [part for part in parts if part]
    return " · ".join(known if len(known) > 2 else [cell for cell in row.values() if cell][:5])


def validation_document(comparison: Comparison, by: Sequence[str] = (), worst: int = 0) -> dict[str, Any]:
    """The document that ``validate --json`` prints.

    The worst rows come along where asked for, groups in doubt and what an anchor is worth where the data hold any.
    """
    document = comparison_document(comparison, by)
    suspects, anchors = _suspects_document(comparison), _anchors_document(comparison)
    if suspects["groups"] or anchors:
        skipped = sum(comparison.skipped.values())
        document["rows"] = {"n": len(comparison.rows), "skipped": skipped, "suspects": suspects, "anchors": anchors}
    if worst:
        document["worst"] = {name: worst_document(comparison, name, worst) for name in comparison.measured}
    return document


def worst_document(comparison: Comparison, quantity: str, most: int) -> list[dict[str, Any]]:
    """The predictions farthest from their measurement, with what they are made of."""
    return [_deviation_document(comparison, one) for one in deviations(comparison, quantity)[:most]]


def _deviation_document(comparison: Comparison, one: Deviation) -> dict[str, Any]:
    row = comparison.rows[one.index]
    found = comparison.explain(one.index, one.quantity) if comparison.explain is not None else None
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
    if found is not None:
        whole = sum(found.times_s.values())
        document["breakdown"] = {
            "of": found.what,
            "bound": found.bound,
            "assumed": list(found.assumed),
            "parts": [
                {"name": name, "time_s": time_s, "share_fraction": time_s / whole, "bound": found.bounds[name]}
                for name, time_s in sorted(found.times_s.items(), key=lambda pair: -pair[1])
            ],
        }
    return document


def _anchors_document(comparison: Comparison) -> dict[str, Any]:
    """What one measurement of a run does to the errors on the rest of it, by quantity."""
    found = {name: anchor_gain(comparison, name) for name in comparison.measured}
    return {name: asdict(gain) for name, gain in found.items() if gain is not None}


def anchor_lines(document: Mapping[str, Any]) -> list[str]:
    """The same in words."""
    return [
        f"{quantity_words(name)}: median error {format_percent(one['before'])} -> {format_percent(one['after'])} "
        f"on {one['n']} points of {one['n_runs']} runs, one point of each as its anchor"
        for name, one in document.get("rows", {}).get("anchors", {}).items()
    ]


def _suspects_document(comparison: Comparison) -> dict[str, Any]:
    """Groups in doubt that the data hold, and the summaries without them."""
    doubtful = suspect_mask(comparison.rows)
    names = np.array([row.get(COLUMN, "no") for row in comparison.rows])
    groups = [
        {"name": one.name, "why": one.why, "n": int(np.sum(names == one.name)),
         "summaries": summaries(comparison, names == one.name)}
        for one in load_suspects() if np.any(names == one.name)
    ]  # fmt: skip
    return {
        "groups": groups,
        "n": int(np.sum(doubtful)),
        "without": summaries(comparison, ~doubtful) if len(names) else {},
    }
