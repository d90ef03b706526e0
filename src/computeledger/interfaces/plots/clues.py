"""Plot of a closed model's clues as a plotly specification: what each says alone, and where it moves the size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import NEUTRAL, Spec, plain
from computeledger.questions.wording import figure_words, point, words

_ROW_PX, _AXIS_PX = 58, 52
_ALONE, _ALL = palette.PLAIN, palette.CHOSEN
#: Where a row's intervals and its words stand, around its place.
_MARK, _ARROW, _WORDS = -0.08, -0.27, 0.24


def moved_words(clue: Mapping[str, Any], after: Any, unit: str) -> str:
    """Where a clue moves the estimate from all others.

    Examples
    --------
    >>> size = {"p05": 1e9, "p50": 2e9, "p95": 9e9}
    >>> moved_words({"n_params_active_without": size}, size | {"p50": 4e9}, "params")
    'moves 2B to 4B'
    >>> moved_words({"n_params_active_without": size}, size, "params")
    'leaves 2B'
    """
    start, end = (figure_words(one, unit) for one in (clue["n_params_active_without"], after))
    return f"leaves {end}" if start == end else f"moves {start} to {end}"


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
    moved = ["", *(f" alone, {moved_words(one, after, unit)}" if len(clues) > 1 else "" for one in clues), ""]
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
