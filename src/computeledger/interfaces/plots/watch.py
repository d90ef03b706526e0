"""Plots of a running server over time, as plotly specifications: what it did, and what was predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import Spec, rounded

#: When (UTC, as ISO 8601), what was measured, and the predicted 5th, 50th and 95th percentile; None where unknown.
Moment: TypeAlias = tuple[str, float | None, tuple[float, float, float] | None]


def history_figure(moments: Sequence[Moment], unit: str) -> Spec:
    """Measured and predicted over time, the prediction with its 90 % interval.

    Examples
    --------
    >>> figure = history_figure([("2026-11-28T12:00:00", 21.0, (18.0, 20.0, 30.0))], "ms")
    >>> [trace["name"] for trace in figure["data"] if trace.get("name")]
    ['predicted, 90 %', 'predicted', 'measured']
    """
    known = [(when, ends) for when, _, ends in moments if ends is not None]
    data: list[Spec] = []
    if known:
        times = [when for when, _ in known]
        low, median, high = (rounded([ends[place] for _, ends in known]) for place in range(3))
        line: dict[str, Any] = {"type": "scatter", "mode": "lines", "hoverinfo": "skip", "showlegend": False}
        data += [
            {**line, "x": times, "y": low, "line": {"width": 0}},
            {**line, "x": times, "y": high, "line": {"width": 0}, "fill": "tonexty", "name": "predicted, 90 %",
             "fillcolor": parts.faint(palette.OTHER, palette.BAND), "showlegend": True},
            {**line, "x": times, "y": median, "name": "predicted", "showlegend": True,
             "line": {"color": palette.OTHER, "width": 1.5, "dash": "dash"}},
        ]  # fmt: skip
    data.append({
        "type": "scatter", "mode": "lines+markers", "name": "measured", "x": [when for when, *_ in moments],
        "y": [None if seen is None else parts.rounded([seen])[0] for _, seen, _ in moments],
        "line": {"color": palette.PLAIN, "width": 2.2}, "marker": {"size": 5, "color": palette.PLAIN},
        "hovertemplate": f"%{{y:.3~g}} {unit}<extra></extra>", "cliponaxis": False,
    })  # fmt: skip
    axes = {
        "xaxis": {"type": "date", "fixedrange": True, "title": {"text": "time [UTC]"}, "nticks": 5},
        "yaxis": {"rangemode": "tozero", "fixedrange": True, "title": {"text": unit}},
    }
    made = parts.layout(280, [], legend=parts.LEGEND, **axes)
    return {"data": data, "layout": made | {"showlegend": True, "margin": made["margin"] | {"t": 36}}}
