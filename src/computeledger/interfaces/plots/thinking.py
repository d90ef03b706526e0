"""Plot of thinking against size as a plotly specification: success against the cost of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots import parts
from computeledger.interfaces.plots.parts import NEUTRAL, SERIES, Spec, plain, rounded
from computeledger.units import format_usd


def ways_figure(
    front: Sequence[tuple[str, Mapping[str, Any]]], beaten: Sequence[tuple[float, float]], asked: float
) -> Spec:
    """Share of tasks solved over the cost of a task: ways that none beats by model, the others, and what is asked.

    Examples
    --------
    >>> way = {"model": "m", "usd_per_task": 0.1, "success": {"p05": 0.4, "p50": 0.5, "p95": 0.6}}
    >>> [one["name"] for one in ways_figure([("m, thinking", way)], [(0.2, 0.3)], 0.8)["data"]]
    ['others', 'asked for', 'm']
    """
    every = [row["usd_per_task"] for _, row in front] + [usd for usd, _ in beaten]
    data: list[Spec] = [
        {"type": "scatter", "mode": "markers", "name": "others", "hoverinfo": "skip",
         "x": rounded(usd for usd, _ in beaten), "y": rounded(success for _, success in beaten),
         "marker": {"color": parts.faint(NEUTRAL, 0.7), "size": 4}},
        {"type": "scatter", "mode": "lines", "name": "asked for", "hoverinfo": "skip", "y": [asked, asked],
         "x": rounded([min(every), max(every)]), "line": {"color": NEUTRAL, "width": 1, "dash": "dot"}},
    ]  # fmt: skip
    for place, model in enumerate(dict.fromkeys(row["model"] for _, row in front)):
        own = [(name, row) for name, row in front if row["model"] == model]
        shares = [row["success"] for _, row in own]
        color = SERIES[place % len(SERIES)]
        data.append({
            "type": "scatter", "mode": "markers", "name": plain(model.rpartition("/")[2]),
            "x": rounded(row["usd_per_task"] for _, row in own), "y": rounded(one["p50"] for one in shares),
            "marker": {"color": color, "size": 9, "symbol": parts.MARKS[place % len(parts.MARKS)]},
            "error_y": {"type": "data", "symmetric": False, "thickness": 1.5, "width": 4, "color": color,
                        "array": rounded(one["p95"] - one["p50"] for one in shares),
                        "arrayminus": rounded(one["p50"] - one["p05"] for one in shares)},
            "text": [plain(name) for name, _ in own],
            "hovertemplate": "%{text}<br>%{y:.0%} for $%{x:.3~g} a task<extra></extra>",
        })  # fmt: skip
    layout = parts.layout(
        420, [parts.corner("share solved ↑")], showlegend=True, legend={**parts.LEGEND, "traceorder": "normal"},
        xaxis=parts.log_axis(every, format_usd) | {"title": {"text": "USD a task →"}},
        yaxis={"tickformat": ".0%", "range": [0, 1.12], "tickvals": [0, 0.2, 0.4, 0.6, 0.8, 1], "fixedrange": True},
        margin={"l": 4, "r": 12, "t": 60, "b": 48},
    )  # fmt: skip
    return {"data": data, "layout": layout}
