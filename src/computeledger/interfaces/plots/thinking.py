"""Plot of thinking against size as a plotly specification: success against the cost of a task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.names import Labels
from computeledger.interfaces.plots.parts import NEUTRAL, Spec, plain, rounded
from computeledger.questions.wording import interval_words, percent
from computeledger.units import format_usd

#: Models that get a colour and a mark of their own; the others share a neutral one.
_MOST_MODELS = 6
#: How much of its colour a way keeps that another one beats.
_PALE = 0.4
#: Ends of the axis, and height of the drawing between its margins, of what is below it, and of a row of the legend and
#: the gap around it [px]; on a phone a row holds two models.
_TOP, _BELOW, _PLOT_PX, _AXIS_PX, _ROW_PX, _GAP_PX, _IN_A_ROW = 1.18, 0.12, 340, 44, 19, 16, 2
#: How far names stay off the axis below [px], and letters of a line that a phone has room for.
_CLEAR_PX, _MOST_LETTERS = 8, 32
#: A legend that leaves a phone room for the drawing.
_SMALL = {"itemwidth": 30, "font": {"size": 11}}
#: Marks of ways that none beats, of those that another one beats, and of the answer [px].
_LARGE_PX, _PALE_PX, _RING_PX = 10, 6, 17
#: Steps of the axis that it may begin at, in a whole; how far apart intervals stand, as a share of the axis across.
_STEPS, _APART = 20, 0.07
#: Room above the intervals for a name, as a share of the tasks.
_ABOVE = 0.2

Way = tuple[str, Mapping[str, Any]]
#: A way that another one beats: its model, its name, what a task costs [USD], and the share solved with its interval.
Beaten = tuple[str, str, float, Mapping[str, float]]


def ways_figure(
    front: Sequence[Way],
    beaten: Sequence[Beaten],
    asked: float,
    answer: Mapping[str, Any] | None = None,
    named: tuple[Sequence[Way], Sequence[Way]] = ((), ()),
    models: Sequence[str] = (),
) -> Spec:
    """Share of tasks solved over the cost of a task by model: pale what another way beats, on a line what none does.

    ``named`` are ways on the line that have a name, and the cheapest ways of other models, the first with a name: of
    the next model, and of those that are not on the line. ``models`` are all, in the order of their colours.

    Examples
    --------
    >>> way = {"model": "m", "usd_per_task": 0.1, "success": {"p05": 0.4, "p50": 0.5, "p95": 0.6}}
    >>> beaten = [(model, model, 0.2, way["success"]) for model in ("m", "n")]
    >>> figure = ways_figure([("m, thinking", way)], beaten, 0.8, way)
    >>> [one["name"] for one in figure["data"] if one["showlegend"]]
    ['m', 'n']
    """
    others = named[1]
    every = [row["usd_per_task"] for _, row in front] + [usd for _, _, usd, _ in beaten]
    seen = {*(row["model"] for _, row in (*front, *others)), *(model for model, *_ in beaten)}
    marks = _marks([*(one for one in models if one in seen), *sorted(seen.difference(models))])
    ranged = _ranged([*([answer] if answer is not None else []), *(row for _, row in (*others, *named[0], *front))],
                     (min(every), max(every)))  # fmt: skip
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
        data.append(_large(large, plain(name), {"color": mark[0], "symbol": mark[1]}, ranged))
    data.insert(1, _joined([row for _, row in front]))
    if answer is not None:
        data.append({
            "type": "scatter", "mode": "markers", "name": "the answer", "hoverinfo": "skip", "showlegend": False,
            "cliponaxis": False, "x": rounded([answer["usd_per_task"]]), "y": rounded([answer["success"]["p50"]]),
            "marker": {"size": _RING_PX, "symbol": "circle-open", "line": {"width": 3}, "color": palette.CHOSEN},
        })  # fmt: skip
    axis = parts.log_axis(every, format_usd)
    up = (_bottom([*front, *others], asked), _top([*front, *others], asked))
    above_px = _GAP_PX + _ROW_PX * math.ceil(min(len(marks), _MOST_MODELS + 1) / _IN_A_ROW)
    layout = parts.layout(
        _PLOT_PX + _AXIS_PX + above_px, _labels(front, beaten, (asked, answer), named, (axis["range"], up), ranged),
        showlegend=True,
        legend={**parts.LEGEND, "traceorder": "normal", "itemsizing": "constant", **_SMALL},
        xaxis=axis | {"title": {"text": "USD a task →"}, "showgrid": False, "showline": True, "ticks": "outside"},
        yaxis={"range": up, "fixedrange": True, "showgrid": False, "zeroline": False,
               "tickvals": [share / 100 for share in range(0, 101, 20)],
               "ticktext": [f"{share}" for share in range(0, 101, 20)]},
        margin={"l": 4, "r": 12, "t": above_px, "b": _AXIS_PX},
    )  # fmt: skip
    return {"data": data, "layout": layout}


def _labels(
    front: Sequence[Way], beaten: Sequence[Beaten], answered: tuple[float, Mapping[str, Any] | None],
    named: tuple[Sequence[Way], Sequence[Way]], axes: tuple[Sequence[float], Sequence[float]],
    ranged: set[tuple[float, float]],
) -> list[Spec]:  # fmt: skip
    """The answer in words, then the next model and other ways on the line where there is room."""
    across, (low, high) = axes
    above = low + (high - low) * _CLEAR_PX / _PLOT_PX  # names stay off the axis
    labels = Labels(across, (above, high), _PLOT_PX - _CLEAR_PX)
    (asked, answer), (marked, others) = answered, named
    places = [(math.log10(row["usd_per_task"]), row["success"]) for _, row in (*front, *others)]
    for _, row in (*front, *others):
        x, success = math.log10(row["usd_per_task"]), row["success"]
        labels.mark(x, success["p50"], _LARGE_PX)
        if _place(row) in ranged:
            labels.bar(x, success["p05"], success["p95"])
    for _, _, usd, success in beaten:
        labels.mark(math.log10(usd), success["p50"], _PALE_PX)
    labels.line([(axes[0][0], asked), (axes[0][1], asked)])
    labels.line(sorted((x, success["p50"]) for x, success in places[: len(front)]))
    answers = [one for one in front if one[1] == answer]
    for place, (name, row) in enumerate([*answers, *others[:1], *marked]):
        x, success, is_answer = math.log10(row["usd_per_task"]), row["success"], place < len(answers)
        end = ("p95" if is_answer else "p05") if _place(row) in ranged else "p50"
        labels.name(_lines(name), x, success[end], is_answer=is_answer,
                    is_needed=is_answer)  # fmt: skip
    return labels.notes


def _lines(name: str) -> str:
    """The model, then how it answers, in lines that a phone has room for.

    Examples
    --------
    >>> _lines("M, thinking up to 6K tokens"), _lines("M, thinking up to 24K tokens, 16 tries side by side")
    ('M,<br>thinking up to 6K tokens', 'M,<br>thinking up to 24K tokens,<br>16 tries side by side')
    """
    model, mark, rest = name.partition(", ")
    return f"{model},<br>{rest.replace(', ', ',<br>') if len(rest) > _MOST_LETTERS else rest}" if mark else name


def _marks(models: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and symbol of each model; those beyond the first few share both."""
    found = {}
    for place, model in enumerate(dict.fromkeys(models)):
        color = palette.GROUPS[place] if place < _MOST_MODELS else palette.OTHER
        found[model] = (color, parts.MARKS[min(place, _MOST_MODELS)])
    return found


def _bottom(ways: Sequence[Way], asked: float) -> float:
    """Where the axis begins: below the intervals of all large marks, with room for a name; what is worse is cut off.

    Examples
    --------
    >>> _bottom([("m", {"success": {"p05": 0.34}})], 0.8), _bottom([("m", {"success": {"p05": 0.02}})], 0.8)
    (0.2, -0.1)
    """
    least = min([asked, *(float(row["success"]["p05"]) for _, row in ways)])
    return math.floor(_STEPS * (least - _BELOW)) / _STEPS


def _top(ways: Sequence[Way], asked: float) -> float:
    """Where the axis ends: above the intervals of all large marks, with room for the name of the answer."""
    most = max([asked, *(float(row["success"]["p95"]) for _, row in ways)])
    return min(_TOP, most + _ABOVE)


def _beaten(ways: Sequence[Beaten], marks: Mapping[str, tuple[str, str]]) -> Spec:
    """Ways that another one beats, each in its model's colour."""
    return {
        "type": "scatter", "mode": "markers", "name": "cheaper and better exists", "showlegend": False,
        "x": rounded(usd for _, _, usd, _ in ways), "y": rounded(success["p50"] for *_, success in ways),
        "marker": {"color": [parts.faint(marks[model][0], _PALE) for model, *_ in ways],
                   "symbol": [marks[model][1] for model, *_ in ways], "size": _PALE_PX},
        "hovertext": [_hover(name, success) for _, name, _, success in ways], "hovertemplate": _HOVER,
    }  # fmt: skip


def _joined(rows: Sequence[Mapping[str, Any]]) -> Spec:
    """The front as a line."""
    ordered = sorted(rows, key=lambda row: float(row["usd_per_task"]))
    return {
        "type": "scatter", "mode": "lines", "name": "best at its price", "hoverinfo": "skip", "showlegend": False,
        "x": rounded(row["usd_per_task"] for row in ordered), "y": rounded(row["success"]["p50"] for row in ordered),
        "line": {"color": NEUTRAL, "width": 1.5},
    }  # fmt: skip


def _ranged(rows: Sequence[Mapping[str, Any]], reach: tuple[float, float]) -> set[tuple[float, float]]:
    """Ways whose intervals are drawn, by cost and success: those that come first, of the others such as stand apart."""
    across = math.log(max(reach[1] / reach[0], 1.0 + 1e-9))
    kept: set[tuple[float, float]] = set()
    for row in rows:
        if all(abs(math.log(row["usd_per_task"] / usd)) >= _APART * across for usd, _ in kept):
            kept.add(_place(row))
    return kept


def _place(row: Mapping[str, Any]) -> tuple[float, float]:
    return float(row["usd_per_task"]), float(row["success"]["p50"])


def _large(ways: Sequence[Way], name: str, mark: Mapping[str, Any], ranged: set[tuple[float, float]]) -> Spec:
    """Ways that none beats, or the cheapest of a model, some with intervals; of a model with neither its name."""
    if not ways:  # a legend has no mark without a point
        return {"type": "scatter", "mode": "markers", "name": name, "showlegend": True, "x": [None], "y": [None],
                "marker": {**mark, "size": _LARGE_PX}}  # fmt: skip
    shares = [row["success"] for _, row in ways]
    ends = [row["success"] if _place(row) in ranged else dict.fromkeys(("p05", "p50", "p95"), 0.0) for _, row in ways]
    return {
        "type": "scatter", "mode": "markers", "name": name, "showlegend": True, "cliponaxis": False,
        "x": rounded(row["usd_per_task"] for _, row in ways), "y": rounded(one["p50"] for one in shares),
        "marker": {**mark, "size": _LARGE_PX},
        "error_y": {"type": "data", "symmetric": False, "thickness": 1.5, "width": 0, "color": mark["color"],
                    "array": rounded(one["p95"] - one["p50"] for one in ends),
                    "arrayminus": rounded(one["p50"] - one["p05"] for one in ends)},
        "hovertext": [_hover(name, row["success"]) for name, row in ways], "hovertemplate": _HOVER,
    }  # fmt: skip


#: What a task costs, below what :func:`_hover` says.
_HOVER = "%{hovertext}<br>$%{x:.3~g} a task<extra></extra>"


def _hover(name: str, success: Mapping[str, Any]) -> str:
    """A way by its model, its limit of thinking and its answers, then the share of tasks that it solves.

    Examples
    --------
    >>> _hover("M, thinking", {"p05": 0.4, "p50": 0.5, "p95": 0.6}).replace(chr(160), " ")
    '<b>M, thinking</b><br>solves 50 % (40 to 60 %)'
    """
    ends = interval_words(success, "fraction").replace(" \u2013 ", " to ")
    return f"<b>{plain(name)}</b><br>solves {percent(success, 2)}{f' ({ends})' if ends else ''}"
