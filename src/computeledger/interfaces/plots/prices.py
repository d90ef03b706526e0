"""Plots of what prices reveal as plotly specifications: every quantity before any price was seen, and after."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import Spec, faint, plain, rounded
from computeledger.questions.wording import interval_words, point, words

_ROW_PX, _TITLE_PX, _TICKS_PX, _LEGEND_PX = 92, 24, 26, 44
_COLORS = {"before": palette.OTHER, "after": palette.PLAIN}
_PLACES = {"before": 0.9, "after": 0.0}
#: Share of an axis at each end where a tick's label would not stay on the plot.
_EDGE = 0.04


@dataclass(frozen=True, slots=True)
class Told:
    """A quantity before and after the prices."""

    label: str
    unit: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]


def before_after_figure(rows: list[Told]) -> Spec:
    """A row for each quantity with an axis of its own: 90 % and half of all, before any price and after the prices.

    Examples
    --------
    >>> ends = {"p05": 1e9, "p25": 2e9, "p50": 5e9, "p75": 8e9, "p95": 9e9}
    >>> figure = before_after_figure([Told("Parameters", "params", ends, ends)])
    >>> [trace["name"] for trace in figure["data"]], figure["data"][1]["base"]
    (['before any price', 'after the prices'], [1000000000.0, 2000000000.0])
    """
    data: list[Spec] = []
    notes: list[Spec] = []
    axes: Spec = {}
    height = _ROW_PX * len(rows)
    for row, told in enumerate(rows):
        number = "" if row == 0 else str(row + 1)
        top = 1 - (row * _ROW_PX + _TITLE_PX) / height
        bottom = 1 - ((row + 1) * _ROW_PX - _TICKS_PX) / height
        axes[f"xaxis{number}"] = _axis(told) | {"anchor": f"y{number}", "automargin": False}
        axes[f"yaxis{number}"] = {"domain": [bottom, top], "range": [-0.5, 1.4], "anchor": f"x{number}", **parts.ROWS}
        for when, place in _PLACES.items():
            data.append(_spans(told, when, place) | {"xaxis": f"x{number}", "yaxis": f"y{number}",
                                                     "showlegend": row == 0})  # fmt: skip
        said = f"<b>{plain(told.label)}</b>  {interval_words(told.after, told.unit)}"
        notes.append(parts.note(said, 1.0, f"y{number} domain") | {"yanchor": "bottom"})
    layout = parts.layout(height + _LEGEND_PX, notes, barmode="overlay", showlegend=True,
                          legend=parts.LEGEND | {"traceorder": "normal", "y": 1}, **axes)  # fmt: skip
    return {"data": data, "layout": layout | {"margin": {"l": 8, "r": 8, "t": _LEGEND_PX, "b": 0}}}


def _spans(told: Told, when: str, place: float) -> Spec:
    """Nine tenths thin and pale, half of all thick."""
    held: Mapping[str, Any] = getattr(told, when)
    color = _COLORS[when]
    ends = [rounded(point(held, end) for end in pair) for pair in (("p05", "p95"), ("p25", "p75"))]
    half = " – ".join(words(point(held, end), told.unit) for end in ("p25", "p75"))
    text = f"{plain(told.label)}, {when} the prices<br>median {words(point(held), told.unit)}<br>"
    text += f"90 %: {interval_words(held, told.unit)}<br>half: {half}"
    return {
        "type": "bar", "orientation": "h", "name": "before any price" if when == "before" else "after the prices",
        "base": [low for low, _ in ends], "x": [high - low for low, high in ends],
        "y": [place, place], "width": [0.3, 0.62],
        "marker": {"color": [faint(color, palette.BAND), faint(color, palette.HALF)],
                   "line": {"color": color, "width": 1}},
        "hovertemplate": f"{text}<extra></extra>",
    }  # fmt: skip


def _axis(told: Told) -> Spec:
    ends = [point(held, end) for held in (told.before, told.after) for end in ("p05", "p95")]
    axis = parts.log_axis(ends, lambda value: words(value, told.unit), 0.1)
    low, high = axis["range"]
    ticks = zip(axis["tickvals"], axis["ticktext"], strict=True)
    shown = [one for one in ticks if abs((math.log10(one[0]) - low) / (high - low) - 0.5) < 0.5 - _EDGE]
    return axis | {"tickvals": [value for value, _ in shown], "ticktext": [text for _, text in shown]}
