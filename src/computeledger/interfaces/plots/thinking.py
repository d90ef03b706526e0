"""Plot of thinking against size as a plotly specification: success against the cost of a task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import NEUTRAL, Spec, plain, rounded
from computeledger.units import format_usd

#: Models that get a colour and a mark of their own; the others share a neutral one.
_MOST_MODELS = 6
#: How much of its colour a way keeps that another one beats.
_PALE = 0.35
#: End of the axis, above all intervals, and where the answer's words stand.
_TOP, _WORDS = 1.22, 1.03
#: Height of the drawing in pixels, and room for a name below an interval.
_HEIGHT_PX, _NAME = 330, 0.06


def ways_figure(
    front: Sequence[tuple[str, Mapping[str, Any]]],
    beaten: Sequence[tuple[str, float, float]],
    asked: float,
    answer: Mapping[str, Any] | None = None,
    named: Sequence[tuple[str, Mapping[str, Any]]] = (),
) -> Spec:
    """Share of tasks solved over the cost of a task by model: pale what another way beats, on a line what none does.

    Examples
    --------
    >>> way = {"model": "m", "usd_per_task": 0.1, "success": {"p05": 0.4, "p50": 0.5, "p95": 0.6}}
    >>> figure = ways_figure([("m, thinking", way)], [("m", 0.2, 0.3), ("n", 0.3, 0.3)], 0.8, way)
    >>> [one["name"] for one in figure["data"] if one["showlegend"]]
    ['cheaper and better exists', 'best at its price', 'm']
    """
    every = [row["usd_per_task"] for _, row in front] + [usd for _, usd, _ in beaten]
    models = list(dict.fromkeys(row["model"] for _, row in front))
    places = {model: min(place, _MOST_MODELS) for place, model in enumerate(models)}
    data: list[Spec] = [
        {"type": "scatter", "mode": "lines", "name": "asked for", "hoverinfo": "skip", "y": [asked, asked],
         "x": rounded([min(every), max(every)]), "line": {"color": NEUTRAL, "width": 1, "dash": "dot"},
         "showlegend": False},
        *([_beaten(beaten)] if beaten else []), _joined([row for _, row in front]),
    ]  # fmt: skip
    for place in sorted(set(places.values())):
        own = [model for model in models if places[model] == place]
        name = own[0].rpartition("/")[2] if place < _MOST_MODELS else f"{len(own)} others"
        best = [one for one in front if one[1]["model"] in own]
        color = palette.GROUPS[place] if place < _MOST_MODELS else palette.OTHER
        mark = {"color": color, "symbol": parts.MARKS[place]}
        data.append(_large(best, plain(name), mark))
    if answer is not None:
        data.append({
            "type": "scatter", "mode": "markers", "name": "the answer", "hoverinfo": "skip", "showlegend": False,
            "x": rounded([answer["usd_per_task"]]), "y": rounded([answer["success"]["p50"]]),
            "marker": {"size": 17, "symbol": "circle-open", "line": {"width": 3}, "color": palette.CHOSEN},
        })  # fmt: skip
    layout = parts.layout(
        _HEIGHT_PX, [_asked_label(asked), *_answer_label(front, answer, every), *map(_name_label, named)],
        showlegend=True,
        legend={**parts.LEGEND, "traceorder": "normal", "itemsizing": "constant"},
        xaxis=parts.log_axis(every, format_usd) | {"title": {"text": "USD a task →"}},
        yaxis={"tickformat": ".0%", "range": [_bottom(front, asked), _TOP], "fixedrange": True,
               "tickvals": [0, 0.2, 0.4, 0.6, 0.8, 1]},
        margin={"l": 4, "r": 12, "t": 36, "b": 44},
    )  # fmt: skip
    return {"data": data, "layout": layout}


def _bottom(front: Sequence[tuple[str, Mapping[str, Any]]], asked: float) -> float:
    """Where the axis begins: below the intervals of what none beats, with room for a name; what is worse is cut off.

    Examples
    --------
    >>> _bottom([("m", {"success": {"p05": 0.34}})], 0.8), _bottom([("m", {"success": {"p05": 0.02}})], 0.8)
    (0.2, 0.0)
    """
    least = min([asked, *(float(row["success"]["p05"]) for _, row in front)])
    return max(math.floor(10 * (least - _NAME)) / 10, 0.0)


def _name_label(one: tuple[str, Mapping[str, Any]]) -> Spec:
    """A way's name below its interval."""
    name, row = one
    return {
        "text": plain(name), "showarrow": False, "font": {"size": 12}, "x": math.log10(row["usd_per_task"]),
        "y": row["success"]["p05"], "yanchor": "top", "xanchor": "left", "xshift": 6, "yshift": 4,
    }  # fmt: skip


def _beaten(ways: Sequence[tuple[str, float, float]]) -> Spec:
    """Ways that another one beats, of all models alike."""
    return {
        "type": "scatter", "mode": "markers", "name": "cheaper and better exists", "showlegend": True,
        "x": rounded(usd for _, usd, _ in ways), "y": rounded(success for *_, success in ways),
        "marker": {"color": parts.faint(palette.OTHER, _PALE), "size": 5},
        "text": [plain(model.rpartition("/")[2]) for model, *_ in ways],
        "hovertemplate": "%{text}<br>%{y:.0%} for $%{x:.3~g} a task<extra></extra>",
    }  # fmt: skip


def _joined(rows: Sequence[Mapping[str, Any]]) -> Spec:
    """The front as a line."""
    ordered = sorted(rows, key=lambda row: float(row["usd_per_task"]))
    return {
        "type": "scatter", "mode": "lines", "name": "best at its price", "hoverinfo": "skip", "showlegend": True,
        "x": rounded(row["usd_per_task"] for row in ordered), "y": rounded(row["success"]["p50"] for row in ordered),
        "line": {"color": NEUTRAL, "width": 1.5},
    }  # fmt: skip


def _asked_label(asked: float) -> Spec:
    """The share asked for, on its line at the left, where ways cost and solve the least."""
    return {
        "text": "asked for", "showarrow": False, "font": {"size": 12}, "x": 0.008,
        "xref": "paper", "xanchor": "left", "y": asked, "yanchor": "bottom",
    }  # fmt: skip


def _answer_label(
    front: Sequence[tuple[str, Mapping[str, Any]]], answer: Mapping[str, Any] | None, costs: Sequence[float]
) -> list[Spec]:
    """The answer in words above all marks, and a line from there to the ring."""
    names = [name for name, row in front if row == answer]
    if answer is None or not names:
        return []
    place = math.log10(answer["usd_per_task"])
    is_left = 2 * place < math.log10(min(costs)) + math.log10(max(costs))
    text = {
        "text": f"<b>{plain(names[0]).replace(', ', ',<br>', 1)}</b>", "showarrow": False, "font": {"size": 12},
        "align": "left" if is_left else "right", "x": place, "y": _WORDS, "yanchor": "bottom",
        "xanchor": "left" if is_left else "right", "xshift": -2 if is_left else 2,
    }  # fmt: skip
    line = {
        "text": "", "showarrow": True, "arrowhead": 0, "arrowwidth": 1, "arrowcolor": palette.CHOSEN, "standoff": 9,
        "x": place, "y": answer["success"]["p50"], "ax": place, "ay": _WORDS, "axref": "x", "ayref": "y",
    }  # fmt: skip
    return [text, line]


def _large(ways: Sequence[tuple[str, Mapping[str, Any]]], name: str, mark: Mapping[str, Any]) -> Spec:
    """Ways that none beats, with their intervals."""
    shares = [row["success"] for _, row in ways]
    return {
        "type": "scatter", "mode": "markers", "name": name, "showlegend": True,
        "x": rounded(row["usd_per_task"] for _, row in ways), "y": rounded(one["p50"] for one in shares),
        "marker": {**mark, "size": 10},
        "error_y": {"type": "data", "symmetric": False, "thickness": 1.5, "width": 4, "color": mark["color"],
                    "array": rounded(one["p95"] - one["p50"] for one in shares),
                    "arrayminus": rounded(one["p50"] - one["p05"] for one in shares)},
        "text": [plain(name) for name, _ in ways],
        "hovertemplate": "%{text}<br>%{y:.0%} for $%{x:.3~g} a task<extra></extra>",
    }  # fmt: skip
