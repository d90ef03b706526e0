"""Plot of a closed model's clues as a plotly specification: what each says alone, and where it moves the size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import NEUTRAL, Spec, plain
from computeledger.questions.wording import figure_words, point, words
from computeledger.units import format_percent

_ROW_PX, _AXIS_PX = 58, 52
#: A rise is a multiple from here on; a change below the other is none.
_TIMES, _NOTHING = 2.0, 0.005
_ALONE, _ALL = palette.PLAIN, palette.CHOSEN
#: Where a row's intervals and its words stand, around its place.
_MARK, _ARROW, _WORDS = -0.08, -0.27, 0.24


def moved_words(ratio: float) -> str:
    """What a clue does to the estimate from all others.

    Examples
    --------
    >>> [moved_words(one).replace(chr(160), " ") for one in (4.28, 1.11, 0.66, 1.001)]
    ['raises the estimate 4.3 times', 'raises the estimate by 11 %', 'lowers the estimate by 34 %', 'changes nothing']
    """
    if ratio >= _TIMES:
        return f"raises the estimate {ratio:.2g} times"
    by = format_percent(abs(ratio - 1), 2)
    if abs(ratio - 1) < _NOTHING:
        return "changes nothing"
    return f"{'raises' if ratio > 1 else 'lowers'} the estimate by {by}"


def pulls_figure(clues: Sequence[Mapping[str, Any]], before: Any, after: Any, unit: str) -> Spec:
    """Sizes from each clue alone, and the median without it and with it, above the size from all clues.

    Examples
    --------
    >>> size = {"p05": 1e9, "p10": 2e9, "p50": 4e9, "p90": 8e9, "p95": 9e9}
    >>> clue = {"clue": "price", "pull_ratio": 2.0, "n_params_active_alone": size}
    >>> clue["n_params_active_without"] = size | {"p50": 2e9}
    >>> pulls_figure([clue], size, size, "params")["data"][-2]["x"]
    [2000000000.0, 4000000000.0, None]
    """
    names = ["before any clue", *(one["clue"] for one in clues), "all clues"]
    values = [before, *(one["n_params_active_alone"] for one in clues), after]
    places = list(range(len(names)))[::-1]
    colors = [NEUTRAL, *[_ALONE] * len(clues), _ALL]
    marks = parts.interval_marks(
        [(value, place + _MARK, color, "circle") for value, place, color in zip(values, places, colors, strict=True)],
        unit, _ROW_PX,
    )  # fmt: skip
    end = point(after)
    starts = [point(one["n_params_active_without"]) for one in clues]
    rows = [place + _ARROW for place in places[1:-1]]
    pulls: list[Spec] = [
        {"type": "scatter", "mode": "lines", "hoverinfo": "skip", "line": {"color": _ALL, "width": 2},
         "x": [part for start in starts for part in (start, end, None)],
         "y": [part for row in rows for part in (row, row, None)]},
        {"type": "scatter", "mode": "markers", "x": [end] * len(clues), "y": rows, "cliponaxis": False,
         "marker": {"symbol": ["triangle-right" if start < end else "triangle-left" for start in starts], "size": 10,
                    "color": _ALL},
         "hovertemplate": [f"{words(start, unit)} without it, {words(end, unit)} with it<extra></extra>"
                           for start in starts]},
    ]  # fmt: skip
    moved = ["", *(f", {moved_words(one['pull_ratio'])}" for one in clues), ""]
    notes = [
        parts.note(f"{plain(name)}  <b>{figure_words(value, unit)}</b>{plain(said)}", place + _WORDS)
        for name, value, said, place in zip(names, values, moved, places, strict=True)
    ]
    ends = [point(value, key) for value in values for key in ("p05", "p95")]
    layout = parts.layout(
        _ROW_PX * len(names) + _AXIS_PX, notes,
        xaxis=parts.unit_axis([*ends, *starts], unit),
        yaxis={"range": [-0.6, len(names) - 0.4], **parts.ROWS},
        margin={"l": 4, "r": 12, "t": 4, "b": 36},
    )  # fmt: skip
    return {"data": [*marks, *pulls], "layout": layout}
