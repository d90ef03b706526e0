"""Waterfalls from budget to actual as plotly specifications."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from computeledger.interfaces.plots import parts
from computeledger.interfaces.plots.parts import BOUND_COLORS, PHASE_COLORS, Spec
from computeledger.interfaces.tables_reconcile import PARTS, signed
from computeledger.questions.wording import PHASE_NAMES, words
from computeledger.units import format_si

#: Colours of what costs more and what costs less than planned, and of whole bars; the signs say it too.
MORE, LESS, WHOLE = "#D55E00", "#009E73", "#46688A"


def waterfall_figure(phase: Mapping[str, Any], unit: str) -> Spec:
    """Bars from the budget over each part of the variance to the actual; ``unit`` is USD or GPU-hours."""
    key, split = ("usd", "variance") if unit == "USD" else ("gpu_hours", "variance_gpu_hours")
    shown = [(part, label) for part, label in PARTS if part != "price" or unit == "USD"]
    changes = [phase[split][part] for part, _ in shown]
    levels = [phase["budget"][key]]
    for change in changes:
        levels.append(levels[-1] + change)
    ends = levels[0], phase["actual"][key]
    bases = [0.0, *(min(pair) for pair in pairwise(levels)), 0.0]
    heights = [ends[0], *(abs(change) for change in changes), ends[1]]
    colors = [WHOLE, *(MORE if change > 0 else LESS for change in changes), WHOLE]
    whole = [format_si(end) if unit == "GPU-hours" else words(end, unit) for end in ends]
    data: list[Spec] = [
        {"type": "bar", "x": ["budget", *(label.removesuffix(" phases") for _, label in shown), "actual"], "y": heights,
         "base": bases, "marker": {"color": colors}, "width": 0.6, "textfont": {"size": 12}, "constraintext": "none",
         "text": [whole[0], *(signed(one, unit) for one in changes), whole[1]],
         "textposition": "outside", "cliponaxis": False,
         "hovertemplate": "%{x}: %{text}<extra></extra>"},
    ]  # fmt: skip
    top, low = max(base + height for base, height in zip(bases, heights, strict=True)), min(0.0, *bases)
    carried: list[Spec] = [
        {"type": "line", "x0": index + 0.3, "x1": index + 0.7, "y0": level, "y1": level, "xref": "x", "yref": "y",
         "line": {"color": parts.NEUTRAL, "width": 1, "dash": "dot"}}
        for index, level in enumerate(levels)
    ]  # fmt: skip
    layout = parts.layout(
        300, [], shapes=carried,
        xaxis={"fixedrange": True, "type": "category", "tickangle": 0, "tickfont": {"size": 11}},
        yaxis={"fixedrange": True, "range": [low * 1.15, top * 1.15 or 1.0], "showticklabels": False, "zeroline": True},
    )  # fmt: skip
    layout["margin"] = {"l": 4, "r": 8, "t": 14, "b": 40}
    return {"data": data, "layout": layout}


def parts_figure(document: Mapping[str, Any]) -> Spec:
    """Where the GPU-time of each phase went, one bar each."""
    phases = document["phases"]
    names = list(dict.fromkeys(part for phase in phases.values() for part in phase["parts"]))
    palette = [*PHASE_COLORS.values(), *BOUND_COLORS.values(), "#56B4E9", "#7A838D", "#E3B505", "#9A5B3F"]
    labels = [PHASE_NAMES[name] for name in phases]
    data: list[Spec] = [
        {"type": "bar", "orientation": "h", "name": part, "y": labels,
         "x": [phase["parts"].get(part, {"fraction": 0.0})["fraction"] for phase in phases.values()],
         "marker": {"color": palette[index % len(palette)]},
         "hovertemplate": f"{parts.plain(part)}: %{{x:.1%}}<extra></extra>"}
        for index, part in enumerate(names)
    ]  # fmt: skip
    layout = parts.layout(
        130 + 46 * len(labels), [], barmode="stack", showlegend=True, legend={**parts.LEGEND, "traceorder": "normal"},
        xaxis={"fixedrange": True, "tickformat": ".0%", "range": [0, 1]},
        yaxis={"fixedrange": True, "automargin": True, "autorange": "reversed"},
    )  # fmt: skip
    layout["margin"] = {"l": 4, "r": 12, "t": 60, "b": 40}
    return {"data": data, "layout": layout}
