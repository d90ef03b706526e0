"""Plot of a closed model's clues as a plotly specification: what each says alone, and what all say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import NEUTRAL, Spec, plain
from computeledger.questions.wording import figure_words, point

_ROW_PX, _AXIS_PX, _LEGEND_PX = 52, 48, 40
_ALONE, _ALL = palette.PLAIN, palette.CHOSEN
#: Where a row's intervals and its words stand, around its place.
_MARK, _WORDS = -0.16, 0.2


def clues_figure(clues: Sequence[Mapping[str, Any]], before: Any, after: Any, unit: str) -> Spec:
    """Sizes from each clue alone, below the size before any clue and above that from all.

    Examples
    --------
    >>> size = {"p05": 1e9, "p25": 2e9, "p50": 4e9, "p75": 8e9, "p95": 9e9}
    >>> price, speed = ({"clue": name, "n_params_active_alone": size} for name in ("price", "speed"))
    >>> figure = clues_figure([price, speed], size, size, "params")
    >>> [one["text"] for one in figure["layout"]["annotations"]][1:3]
    ['price  <b>4B</b>', 'speed  <b>4B</b>']
    """
    names = ["before any clue", *(one["clue"] for one in clues), "all clues"]
    values = [before, *(one["n_params_active_alone"] for one in clues), after]
    places = list(range(len(names)))[::-1]
    colors = [NEUTRAL, *[_ALONE] * len(clues), _ALL]
    marks = parts.interval_marks(
        [(value, place + _MARK, color, "circle") for value, place, color in zip(values, places, colors, strict=True)],
        unit, _ROW_PX, ("p25", "p75"),
    )  # fmt: skip
    notes = [_said(*one) for one in zip(names, values, [unit] * len(names), places, strict=True)]
    ends = [point(value, key) for value in values for key in ("p05", "p95")]
    layout = parts.layout(
        _ROW_PX * len(names) + _AXIS_PX + _LEGEND_PX, notes, showlegend=True,
        legend=parts.LEGEND | {"traceorder": "normal", "itemsizing": "constant"},
        xaxis=parts.unit_axis(ends, unit), yaxis={"range": [-0.6, len(names) - 0.4], **parts.ROWS},
        margin={"l": 4, "r": 12, "t": _LEGEND_PX, "b": 36},
    )  # fmt: skip
    shown = [one | {"showlegend": False} for one in marks]
    return {"data": [*shown, *parts.interval_legend("half (25 to 75 %)")], "layout": layout}


def _said(name: str, value: Any, unit: str, place: int) -> Spec:
    """A size in words above its range."""
    return parts.note(f"{plain(name)}  <b>{figure_words(value, unit)}</b>", place + _WORDS)
