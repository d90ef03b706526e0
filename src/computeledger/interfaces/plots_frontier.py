"""Plots of the frontier as plotly specifications: training compute and site power over time, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces import plot_parts as parts
from computeledger.interfaces.plot_parts import SERIES, Spec, rounded
from computeledger.interfaces.wording import show


def ahead_figure(document: Mapping[str, Any], target: float | None = None) -> Spec:
    """A record by quarter, and its forecast with the 90 % interval."""
    known, unit, color = document["known"], document["unit"], SERIES[1]
    dates = document["dates"]
    data: list[Spec] = [
        {"type": "scatter", "mode": "lines", "x": [*dates, *reversed(dates)], "hoverinfo": "skip",
         "name": "90 % interval", "y": [*rounded(document["p95"]), *reversed(rounded(document["p05"]))],
         "fill": "toself", "line": {"width": 0}, "fillcolor": parts.faint(color, 0.2)},
        {"type": "scatter", "mode": "lines", "x": dates, "y": rounded(document["p50"]), "name": "forecast",
         "line": {"color": color, "width": 2, "dash": "dash"},
         "text": [show(value, unit) for value in document["p50"]], "hovertemplate": "%{x}: %{text}<extra></extra>"},
        {"type": "scatter", "mode": "lines", "x": known["dates"], "y": rounded(known["values"]),
         "name": "largest known", "line": {"color": SERIES[2], "width": 2.4, "shape": "hv"},
         "text": [show(value, unit) for value in known["values"]], "hovertemplate": "%{x}: %{text}<extra></extra>"},
    ]  # fmt: skip
    if target is not None:
        data.append({
            "type": "scatter", "mode": "lines", "x": [known["dates"][0], dates[-1]], "y": [target, target],
            "name": "asked for", "hoverinfo": "skip", "line": {"color": parts.NEUTRAL, "width": 1, "dash": "dot"},
        })  # fmt: skip
    every = [*known["values"], *document["p05"], *document["p95"], *([] if target is None else [target])]
    layout = parts.layout(
        340, [], showlegend=True, legend={**parts.LEGEND, "traceorder": "normal"},
        xaxis={"type": "date", "fixedrange": True}, yaxis=parts.log_axis(every, lambda value: show(value, unit)),
    )  # fmt: skip
    layout["margin"] = {"l": 4, "r": 8, "t": 34, "b": 44}
    return {"data": data, "layout": layout}
