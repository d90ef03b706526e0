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
_PALE = 0.4
#: End of the axis, above all intervals, and where the answer's words stand.
_TOP, _WORDS = 1.22, 1.03
#: Height of the drawing in pixels, room for a name below an interval, and for the words of another model below all.
_HEIGHT_PX, _NAME, _OTHER_WORDS = 380, 0.06, 0.22
#: A legend that leaves a phone room for the drawing.
_SMALL = {"itemwidth": 30, "font": {"size": 12}}
#: Shares of the axis before which words stand right of their line, and beyond which left of it.
_LEFT, _RIGHT = 0.35, 0.75
#: Width of a letter on a phone, as a share of the axis.
_LETTER = 0.024

Way = tuple[str, Mapping[str, Any]]


def ways_figure(
    front: Sequence[Way],
    beaten: Sequence[tuple[str, float, float]],
    asked: float,
    answer: Mapping[str, Any] | None = None,
    named: tuple[Sequence[Way], Sequence[Way]] = ((), ()),
) -> Spec:
    """Share of tasks solved over the cost of a task by model: pale what another way beats, on a line what none does.

    ``named`` are ways on the line that have a name, and the cheapest ways of other models, the first with a name: of
    the next model, and of those that are not on the line.

    Examples
    --------
    >>> way = {"model": "m", "usd_per_task": 0.1, "success": {"p05": 0.4, "p50": 0.5, "p95": 0.6}}
    >>> figure = ways_figure([("m, thinking", way)], [("m", 0.2, 0.3), ("n", 0.3, 0.3)], 0.8, way)
    >>> [one["name"] for one in figure["data"] if one["showlegend"]]
    ['m', 'n']
    """
    marked, others = named
    every = [row["usd_per_task"] for _, row in front] + [usd for _, usd, _ in beaten]
    marks = _marks([*(row["model"] for _, row in (*front, *others)), *(model for model, *_ in beaten)])
    data: list[Spec] = [
        {"type": "scatter", "mode": "lines", "name": "asked for", "hoverinfo": "skip", "y": [asked, asked],
         "x": rounded([min(every), max(every)]), "line": {"color": NEUTRAL, "width": 1.5, "dash": "dot"},
         "showlegend": False},
        *([_beaten(beaten, marks)] if beaten else []),
    ]  # fmt: skip
    for mark in dict.fromkeys(marks.values()):
        own = [model for model in marks if marks[model] == mark]
        name = f"{len(own)} others" if own[1:] else own[0].rpartition("/")[2]
        large = [one for one in (*front, *others) if one[1]["model"] in own]
        data.append(_large(large, plain(name), {"color": mark[0], "symbol": mark[1]}))
    data.insert(1, _joined([row for _, row in front]))
    if answer is not None:
        data.append({
            "type": "scatter", "mode": "markers", "name": "the answer", "hoverinfo": "skip", "showlegend": False,
            "x": rounded([answer["usd_per_task"]]), "y": rounded([answer["success"]["p50"]]),
            "marker": {"size": 17, "symbol": "circle-open", "line": {"width": 3}, "color": palette.CHOSEN},
        })  # fmt: skip
    axis = parts.log_axis(every, format_usd)
    below = _bottom([*front, *others], asked)
    bottom = below - (_OTHER_WORDS if others else 0.0)
    notes = [*_answer_label(front, answer, axis["range"])]
    notes += [_name_label(one, front, axis["range"]) for one in marked]
    notes += [note for one in others[:1] for note in _words(one, axis["range"], below, is_above=False)]
    layout = parts.layout(
        _HEIGHT_PX, notes, showlegend=True,
        legend={**parts.LEGEND, "traceorder": "normal", "itemsizing": "constant", **_SMALL},
        xaxis=axis | {"title": {"text": "USD a task →"}, "showgrid": False, "showline": True, "ticks": "outside"},
        yaxis={"range": [bottom, _TOP], "fixedrange": True, "showgrid": False, "zeroline": False,
               "tickvals": [share / 100 for share in range(0, 101, 20)],
               "ticktext": [f"{share}\u00a0%" for share in range(0, 101, 20)]},
        margin={"l": 4, "r": 12, "t": 36, "b": 44},
    )  # fmt: skip
    return {"data": data, "layout": layout}


def _marks(models: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and symbol of each model; those beyond the first few share both."""
    found = {}
    for place, model in enumerate(dict.fromkeys(models)):
        color = palette.GROUPS[place] if place < _MOST_MODELS else palette.OTHER
        found[model] = (color, parts.MARKS[min(place, _MOST_MODELS)])
    return found


def _bottom(front: Sequence[Way], asked: float) -> float:
    """Where the axis begins: below the intervals of what none beats, with room for a name; what is worse is cut off.

    Examples
    --------
    >>> _bottom([("m", {"success": {"p05": 0.34}})], 0.8), _bottom([("m", {"success": {"p05": 0.02}})], 0.8)
    (0.2, 0.0)
    """
    least = min([asked, *(float(row["success"]["p05"]) for _, row in front)])
    return max(math.floor(10 * (least - _NAME)) / 10, 0.0)


def _name_label(one: Way, front: Sequence[Way], ends: Sequence[float]) -> Spec:
    """A way's name below its interval, and below the others that it would cross."""
    name, row = one
    place, width = math.log10(row["usd_per_task"]), _LETTER * len(name) * (ends[1] - ends[0])
    beside = [other["success"]["p05"] for _, other in front
              if place <= math.log10(other["usd_per_task"]) <= place + width]  # fmt: skip
    return {
        "text": plain(name), "showarrow": False, "font": {"size": 12}, "x": place,
        "y": min(beside), "yanchor": "top", "xanchor": "left", "xshift": -4, "yshift": 2,
    }  # fmt: skip


def _beaten(ways: Sequence[tuple[str, float, float]], marks: Mapping[str, tuple[str, str]]) -> Spec:
    """Ways that another one beats, each in its model's colour."""
    return {
        "type": "scatter", "mode": "markers", "name": "cheaper and better exists", "showlegend": False,
        "x": rounded(usd for _, usd, _ in ways), "y": rounded(success for *_, success in ways),
        "marker": {"color": [parts.faint(marks[model][0], _PALE) for model, *_ in ways],
                   "symbol": [marks[model][1] for model, *_ in ways], "size": 6},
        "text": [plain(model.rpartition("/")[2]) for model, *_ in ways],
        "hovertemplate": "%{text}<br>%{y:.0%} for $%{x:.3~g} a task<extra></extra>",
    }  # fmt: skip


def _joined(rows: Sequence[Mapping[str, Any]]) -> Spec:
    """The front as a line."""
    ordered = sorted(rows, key=lambda row: float(row["usd_per_task"]))
    return {
        "type": "scatter", "mode": "lines", "name": "best at its price", "hoverinfo": "skip", "showlegend": False,
        "x": rounded(row["usd_per_task"] for row in ordered), "y": rounded(row["success"]["p50"] for row in ordered),
        "line": {"color": NEUTRAL, "width": 1.5},
    }  # fmt: skip


def _answer_label(front: Sequence[Way], answer: Mapping[str, Any] | None, ends: Sequence[float]) -> list[Spec]:
    """The answer in words above all marks, and a line from there to the ring."""
    found = [one for one in front if one[1] == answer]
    return _words(found[0], ends, _WORDS, is_above=True) if found else []


def _words(one: Way, ends: Sequence[float], height: float, *, is_above: bool) -> list[Spec]:
    """A way in words above or below all marks, and a line from there to its mark."""
    name, row = one
    place = math.log10(row["usd_per_task"])
    share = (place - ends[0]) / (ends[1] - ends[0])
    side = "left" if share < _LEFT else "right" if share > _RIGHT else "center"
    said = plain(name).replace(", ", ",<br>", 1)
    text = {
        "text": f"<b>{said}</b>" if is_above else said, "showarrow": False, "font": {"size": 12}, "align": side,
        "x": place, "y": height, "yanchor": "bottom" if is_above else "top", "xanchor": side,
        "xshift": {"left": -2, "right": 2, "center": 0}[side],
    }  # fmt: skip
    line = {
        "text": "", "showarrow": True, "arrowhead": 0, "arrowwidth": 1, "standoff": 9 if is_above else 6,
        "arrowcolor": palette.CHOSEN if is_above else NEUTRAL,
        "x": place, "y": row["success"]["p50" if is_above else "p05"], "ax": place, "ay": height, "axref": "x",
        "ayref": "y",
    }  # fmt: skip
    return [text, line]


def _large(ways: Sequence[Way], name: str, mark: Mapping[str, Any]) -> Spec:
    """Ways that none beats, or the cheapest of a model, with their intervals; of a model with neither its name."""
    if not ways:  # a legend has no mark without a point
        return {"type": "scatter", "mode": "markers", "name": name, "showlegend": True, "x": [None], "y": [None],
                "marker": {**mark, "size": 10}}  # fmt: skip
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
