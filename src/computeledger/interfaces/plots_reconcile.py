"""Waterfalls from budget to actual as plotly specifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces import plot_parts as parts
from computeledger.interfaces.plot_parts import BOUND_COLORS, PHASE_COLORS, Spec
from computeledger.interfaces.tables_reconcile import PARTS, signed
from computeledger.interfaces.wording import PHASE_NAMES, words

#: Colours of what costs more and of what costs less than planned: told apart by every eye, and by their signs.
MORE, LESS = "#D55E00", "#009E73"


def waterfall_figure(phase: Mapping[str, Any], unit: str) -> Spec:
    """Bars from the budget over each part of the variance to the actual; ``unit`` is USD or GPU-hours."""
    key, split = ("usd", "variance") if unit == "USD" else ("gpu_hours", "variance_gpu_hours")
    names, bases, heights, colors, texts = ["budget"], [0.0], [phase["budget"][key]], ["#46688A"], []
    texts.append(words(phase["budget"][key], unit))
    level = phase["budget"][key]
    for part, label in PARTS:
        if part == "price" and unit != "USD":
            continue
        step = phase[split][part]
        names.append(label)
        bases.append(min(level, level + step))
        heights.append(abs(step))
        colors.append(MORE if step > 0 else LESS)
        texts.append(signed(step, unit))
        level += step
    names.append("actual")
    bases.append(0.0)
    heights.append(phase["actual"][key])
    colors.append("#46688A")
    texts.append(words(phase["actual"][key], unit))
    data: list[Spec] = [
        {"type": "bar", "x": names, "y": heights, "base": bases, "marker": {"color": colors}, "text": texts,
         "textposition": "outside", "cliponaxis": False, "hovertemplate": "%{x}: %{text}<extra></extra>", "width": 0.6},
    ]  # fmt: skip
    top = max(base + height for base, height in zip(bases, heights, strict=True))
    low = min(0.0, *bases)
    layout = parts.layout(
        320, [], xaxis={"fixedrange": True, "type": "category"},
        yaxis={"fixedrange": True, "range": [low * 1.15, top * 1.15 or 1.0], "tickprefix": "$" if unit == "USD" else "",
               "tickformat": "~s", "zeroline": True},
        shapes=_steps(bases, heights, [phase[split][part] for part, _ in PARTS if unit == "USD" or part != "price"],
                      phase["budget"][key]),
    )  # fmt: skip
    layout["margin"] = {"l": 4, "r": 8, "t": 14, "b": 40}
    return {"data": data, "layout": layout}


def _steps(bases: list[float], heights: list[float], changes: list[float], start: float) -> list[Spec]:
    """Thin lines that carry a level from one bar to the next."""
    del bases, heights
    levels = [start]
    for change in changes:
        levels.append(levels[-1] + change)
    return [
        {"type": "line", "x0": index + 0.3, "x1": index + 0.7, "y0": level, "y1": level, "xref": "x", "yref": "y",
         "line": {"color": parts.NEUTRAL, "width": 1, "dash": "dot"}}
        for index, level in enumerate(levels)
    ]  # fmt: skip


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
