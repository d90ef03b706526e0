"""Plots of the frontier as plotly specifications: training compute and site power over time, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces import plot_parts as parts
from computeledger.interfaces.plot_parts import SERIES, Spec, rounded
from computeledger.interfaces.wording import point, show
from computeledger.units import format_percent, format_si


def cost_figure(document: Mapping[str, Any]) -> Spec:
    """Capital of known systems against their compute, and the system that was asked about."""
    known = document["known_systems"]
    needs = document["needs"]
    asked = (point(needs["h100e_8bit"]), point(needs["capex_usd"]))
    data: list[Spec] = [
        {"type": "scatter", "mode": "markers", "x": rounded(one["h100e_8bit"] for one in known), "name": "sites",
         "y": rounded(one["capex_usd"] for one in known), "text": [f"{one['name']}, {one['date']}" for one in known],
         "marker": {"color": SERIES[1], "size": 8},
         "hovertemplate": "%{text}: %{x:.3~s} H100e, $%{y:.3~s}<extra></extra>"},
        {"type": "scatter", "mode": "markers", "x": [asked[0]], "y": [asked[1]], "name": "asked for",
         "marker": {"color": SERIES[2], "size": 12, "symbol": "diamond"},
         "hovertemplate": "%{x:.3~s} H100e, $%{y:.3~s}<extra></extra>"},
    ]  # fmt: skip
    across = parts.log_axis([*(one["h100e_8bit"] for one in known), asked[0]], format_si)
    up = parts.log_axis([*(one["capex_usd"] for one in known), asked[1]], lambda value: show(value, "USD"))
    layout = parts.layout(
        340, [], showlegend=True, legend={**parts.LEGEND, "traceorder": "normal"},
        xaxis={**across, "title": {"text": "H100-equivalents, 8 bit"}}, yaxis=up,
    )  # fmt: skip
    layout["margin"] = {"l": 4, "r": 8, "t": 34, "b": 44}
    return {"data": data, "layout": layout}


def fits_figure(document: Mapping[str, Any]) -> Spec:
    """Which models' 8-bit weights fit in which scale-up domain."""
    fits = document["fits"]
    models, systems = (list(dict.fromkeys(one[name] for one in fits)) for name in ("model", "system"))
    share = {(one["model"], one["system"]): one["weights_fraction"] for one in fits}
    cells = [[share[model, system] for system in systems] for model in models]
    data: list[Spec] = [
        {"type": "heatmap", "x": systems, "y": models, "z": [[min(one, 1.0) for one in row] for row in cells],
         "text": [[format_percent(one) for one in row] for row in cells], "texttemplate": "%{text}", "zmin": 0,
         "zmax": 1, "colorscale": [[0, "#E3EEF6"], [0.5, "#8FA9C2"], [0.999, "#46688A"], [1, "#D55E00"]],
         "showscale": False, "hovertemplate": "%{y} on %{x}: %{text} of its HBM<extra></extra>"},
    ]  # fmt: skip
    layout = parts.layout(60 + 34 * len(models), [], xaxis={"fixedrange": True, "automargin": True},
                          yaxis={"fixedrange": True, "autorange": "reversed", "automargin": True})  # fmt: skip
    layout["margin"] = {"l": 4, "r": 8, "t": 8, "b": 60}
    return {"data": data, "layout": layout}


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
