"""Predictions beside measurements as one HTML page that needs nothing from the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.page import assets, page_template, plotly_script, script_json, version
from computeledger.interfaces.plots import parts as plot_parts
from computeledger.interfaces.plots.validation import columns_to_color, scatter_figure, slices_figure
from computeledger.questions.documents.validation import (
    quantity_words,
    validation_document,
    worst_document,
)
from computeledger.questions.wording import percent, span, words
from computeledger.validation.compare import Comparison

Context = dict[str, Any]
#: A quantity with fewer measurements gets no plot of its own, only its line in the table.
FEWEST_PLOTTED = 3
#: Rows of a table by column; the rest is in the JSON document.
MOST_SLICES = 40


def validation_report(comparison: Comparison, by: Sequence[str], worst: int, data_file: str | None) -> str:
    """Render predictions beside measurements.

    Examples
    --------
    >>> "<title>" in validation_report(Comparison([], {}, {}, {}), [], 1, None)
    True
    """
    columns = columns_to_color(comparison, by)
    sliced = [*columns, *(name for name in by if name not in columns)]
    document = validation_document(comparison, sliced if comparison.rows else [])
    quantities = [name for name in comparison.measured if document[name]["n"]]
    plotted = [name for name in quantities if document[name]["n"] >= FEWEST_PLOTTED]
    figures: dict[str, plot_parts.Spec] = {}
    for name in plotted:
        for column in columns:
            figures[f"{name}-{column}"] = scatter_figure(comparison, name, column)
            figures[f"{name}-{column}-slices"] = slices_figure(comparison, name, column)
    context: Context = {
        "title": data_file or "the shipped measurements",
        "lead": _lead(document, quantities, comparison),
        "tiles": [_tile(name, document[name]) for name in plotted or quantities],
        "plotted": [(name, quantity_words(name), document[name]["n"]) for name in plotted],
        "columns": [(name, name.replace("_", " ")) for name in columns],
        "tables": [_table(column, document["by"].get(column, {})) for column in sliced],
        "suspects": _suspects(document) if "rows" in document else None,
        "worst": [
            (quantity_words(name), [_worst(one) for one in worst_document(comparison, name, worst)])
            for name in quantities
        ],
        "skipped": sorted(document["skipped"].items(), key=lambda pair: -pair[1]),
        "sources": _sources(comparison),
        "n_rows": len(comparison.rows),
        "version": version(),
        "data": script_json({"figures": figures, "config": plot_parts.CONFIG,
                             "templates": {"light": plot_parts.template(), "dark": plot_parts.template(dark=True)}}),
        "plotly": plotly_script() if figures else "",
        "style": assets("report.css", "validation.css"),
        "script": assets("validation.js", "draw.js"),
    }  # fmt: skip
    return page_template("validation.html").render(context)


def _lead(document: Mapping[str, Any], quantities: Sequence[str], comparison: Comparison) -> Context:
    first = quantities[0] if quantities else ""
    return {
        "n": len(comparison.rows), "skipped": sum(document["skipped"].values()),
        "quantity": quantity_words(first), "summary": _shown(document[first]) if first else None,
    }  # fmt: skip


def _shown(one: Mapping[str, Any]) -> Context:
    """A summary as people read it."""
    return {
        "n": one["n"], "median": percent(one["median_abs_error"]), "mean": percent(one["mean_abs_error"]),
        "p90": percent(one["p90_abs_error"]), "bias": f"{one['bias']:.2f}",
        "in_80": percent(one["coverage_80"]), "in_90": percent(one["coverage_90"]),
        "width": round(100 * min(one["median_abs_error"], 1.0), 1),
    }  # fmt: skip


def _tile(name: str, one: Mapping[str, Any]) -> Context:
    return {"label": quantity_words(name), **_shown(one)}


def _table(column: str, values: Mapping[str, Any]) -> Context:
    ordered = sorted(values.items(), key=lambda pair: -max(one["n"] for one in pair[1].values()))
    rows = [
        (value, [(quantity_words(name), _shown(one)) for name, one in found.items()])
        for value, found in ordered[:MOST_SLICES]
    ]
    return {"column": column.replace("_", " "), "rows": rows, "more": max(len(ordered) - MOST_SLICES, 0)}


def _suspects(document: Mapping[str, Any]) -> Context:
    suspects = document["rows"]["suspects"]
    first = next(iter(suspects["without"]))
    return {
        "quantity": quantity_words(first), "n": suspects["n"],
        "groups": [{**group, "summary": _shown(group["summaries"][first]) if group["summaries"][first]["n"] else None}
                   for group in suspects["groups"]],
        "with": _shown(document[first]),
        "without": _shown(suspects["without"][first]) if suspects["without"][first]["n"] else None,
    }  # fmt: skip


def _worst(one: Mapping[str, Any]) -> Context:
    """A row with its breakdown as bars."""
    unit, ends = one["unit"], one["predicted"]
    breakdown = one.get("breakdown")
    return {
        **one, "ratio_text": f"{one['ratio']:.2f}×", "measured_text": words(one["measured"], unit),
        "predicted_text": words(ends["p50"], unit), "band": span(ends["p05"], ends["p95"], unit),
        "breakdown": None if breakdown is None else {
            **breakdown,
            "parts": [{**part, "width": round(100 * part["share_fraction"], 2),
                       "share": percent(part["share_fraction"]),
                       "time": words(part["time_s"], "s")} for part in breakdown["parts"]],
        },
    }  # fmt: skip


def _sources(comparison: Comparison) -> list[Context]:
    """Who measured, under which licence; only tables that say so."""
    found: dict[tuple[str, str, str], int] = {}
    for row in comparison.rows:
        key = (row.get("source", ""), row.get("licence", ""), row.get("url") or row.get("url_or_repo_path", ""))
        if key[0]:
            found[key] = found.get(key, 0) + 1
    groups: dict[str, Context] = {}
    for (source, licence, url), n in found.items():
        one = groups.setdefault(source, {"source": source, "licence": licence, "urls": [], "n": 0})
        one["n"] += n
        one["urls"].append(url)
    return sorted(groups.values(), key=lambda one: -int(one["n"]))
