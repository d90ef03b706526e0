"""Waterfalls from budget to actual as plotly specifications."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from computeledger.actuals.reconcile import Settled
from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.bars import SHADES
from computeledger.interfaces.plots.parts import Spec
from computeledger.questions.wording import PHASE_NAMES, words
from computeledger.units import format_si

#: Colours of what costs more and what costs less than planned, and of whole bars; the signs say it too.
MORE, LESS, WHOLE = palette.BAD, palette.GOOD, palette.PLAIN

#: Part of the variance and its words, in the order of the waterfall.
CHANGES = {"volume": "volume", "utilization": "utilisation", "unplanned": "unplanned phases", "price": "price"}


def signed(value: float, unit: str) -> str:
    """A difference with its sign; GPU-hours without their unit, which stands in the heading."""
    text = format_si(abs(value)) if unit == "GPU-hours" else words(abs(value), unit)
    return f"{'−' if value < 0 else '+'}{text}" if value else text


def waterfall_figure(phase: Settled, unit: str) -> Spec:
    """Bars from the budget over each part of the variance to the actual; ``unit`` is USD or GPU-hours."""
    key = "usd" if unit == "USD" else "gpu_hours"
    shown = [part for part in CHANGES if part != "price" or unit == "USD"]
    changes = [getattr(getattr(phase, key), part) for part in shown]
    levels = [getattr(phase.budget, key)]
    for change in changes:
        levels.append(levels[-1] + change)
    ends = levels[0], getattr(phase.actual, key)
    bases = [0.0, *(min(pair) for pair in pairwise(levels)), 0.0]
    heights = [ends[0], *(abs(change) for change in changes), ends[1]]
    colors = [WHOLE, *(MORE if change > 0 else LESS for change in changes), WHOLE]
    names = ["budget", *(CHANGES[part].removesuffix(" phases") for part in shown), "actual"]
    whole = [format_si(end) if unit == "GPU-hours" else words(end, unit) for end in ends]
    data: list[Spec] = [
        {"type": "bar", "x": names, "y": heights,
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
        xaxis={"fixedrange": True, "type": "category", "tickangle": 0, "tickfont": {"size": 12}},
        yaxis={"fixedrange": True, "range": [low * 1.15, top * 1.15 or 1.0], "showticklabels": False, "zeroline": True},
    )  # fmt: skip
    layout["margin"] = {"l": 4, "r": 8, "t": 14, "b": 40}
    return {"data": data, "layout": layout}


def parts_figure(phases: Mapping[str, Settled]) -> Spec:
    """Where the GPU-time of each phase went, one bar each."""
    spent = [phase.took.gpu_s_by_phase for phase in phases.values()]
    names = list(dict.fromkeys(part for one in spent for part in sorted(one, key=lambda part: -one[part])))
    labels = [PHASE_NAMES[name] for name in phases]
    data: list[Spec] = [
        {"type": "bar", "orientation": "h", "name": part, "y": labels,
         "x": [one.get(part, 0.0) / (sum(one.values()) or 1.0) for one in spent],
         "marker": {"color": SHADES[index % len(SHADES)]},
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
