"""A reconciliation as one HTML page that needs nothing from the network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from computeledger.interfaces.page import assets, page_template, plotly_script, script_json, version
from computeledger.interfaces.plots import parts as plot_parts
from computeledger.interfaces.plots.reconcile import parts_figure, waterfall_figure
from computeledger.interfaces.tables_reconcile import (
    PARTS,
    contradiction_words,
    damage_words,
    entries_words,
    rows_of,
    signed,
)
from computeledger.questions.wording import PHASE_NAMES, percent, words
from computeledger.units import format_si


def reconcile_report(document: Mapping[str, Any]) -> str:
    """Render a reconciliation as a whole page with its styles, scripts and data inside."""
    figures = {"parts": parts_figure(document)}
    for name, phase in document["phases"].items():
        figures[f"{name}-usd"] = waterfall_figure(phase, "USD")
        figures[f"{name}-gpu-hours"] = waterfall_figure(phase, "GPU-hours")
    data = {"figures": figures, "config": plot_parts.CONFIG,
            "templates": {"light": plot_parts.template(), "dark": plot_parts.template(dark=True)}}  # fmt: skip
    return page_template("reconcile.html").render(
        title=document["title"],
        lead=_lead(document),
        tiles=_tiles(document),
        phases=[_phase(document, name, phase) for name, phase in document["phases"].items()],
        contradictions=[contradiction_words(one) for one in document["contradictions"]],
        files=[
            ({**one, "file": PurePath(one["file"]).name}, entries_words(one["entries"]), damage_words(one))
            for one in document["files"]
        ],
        remarks=document["remarks"],
        calibration=_calibration(document),
        shares="; ".join(document["definitions"][key] for key in ("utilization_fraction", "mfu_fraction")),
        plan=PurePath(document["plan"]).name,
        version=version(),
        data=script_json(data),
        plotly=plotly_script(),
        style=assets("report.css"),
        script=assets("draw.js"),
    )


def _lead(document: Mapping[str, Any]) -> str:
    budget, actual = document["total"]["budget"]["usd"], document["total"]["actual"]["usd"]
    largest = max(document["total"]["variance"].items(), key=lambda pair: abs(pair[1]))
    label = dict(PARTS)[largest[0]]
    side = "over" if actual > budget else "under"
    return (
        f"{words(actual, 'USD')} were spent where {words(budget, 'USD')} were planned, "
        f"{words(abs(actual - budget), 'USD')} {side} budget. "
        f"The largest part of the difference is {label}, {signed(largest[1], 'USD')}"
    )


def _tiles(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    total = document["total"]
    hours, usd = (
        (format_si(total["actual"][key]) if key == "gpu_hours" else words(total["actual"][key], unit),
         f"planned: {words(total['budget'][key], unit)}")
        for key, unit in (("gpu_hours", "GPU-hours"), ("usd", "USD"))
    )  # fmt: skip
    held = sum(phase["actual"]["gpu_hours"] for phase in document["phases"].values())
    unplanned = sum(phase["unplanned_gpu_hours"] for phase in document["phases"].values())
    n_wrong = len(document["contradictions"])
    return [
        ("GPU-hours", *hours),
        ("Cost", *usd),
        ("In unplanned phases", percent(unplanned / held if held else 0.0), words(unplanned, "GPU-hours")),
        ("Contradictions with physics", str(n_wrong), "look at them first" if n_wrong else "none found"),
    ]


def _phase(document: Mapping[str, Any], name: str, phase: Mapping[str, Any]) -> dict[str, Any]:
    changes = [
        (label, signed(phase["variance"][key], "USD"),
         "" if key == "price" else signed(phase["variance_gpu_hours"][key], "GPU-hours"), document["definitions"][key])
        for key, label in PARTS
    ]  # fmt: skip
    inside = [
        f"{key.replace('_', ' ')}: {'inside' if value else 'outside'}"
        for key, value in phase["inside_interval"].items()
    ]
    return {
        "name": name, "heading": PHASE_NAMES[name], "rows": list(rows_of(phase)), "changes": changes,
        "inside": ", ".join(inside).replace("gpu hours", "GPU-hours").replace("usd", "cost"),
        "is_planned": phase["is_planned"],
        "runs": ", ".join(phase["runs"]), "steps": entries_words(phase["steps"]),
        "total": signed(sum(phase["variance"].values()), "USD"),
        "total_hours": signed(sum(phase["variance_gpu_hours"].values()), "GPU-hours"),
    }  # fmt: skip


def _calibration(document: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    if document["calibration"] is None:
        return []
    return [
        (PHASE_NAMES[name], percent(one["utilization"]["p50"]),
         f"{percent(one['utilization']['p05'])} to {percent(one['utilization']['p95'])}")
        for name, one in document["calibration"]["phases"].items()
    ]  # fmt: skip
