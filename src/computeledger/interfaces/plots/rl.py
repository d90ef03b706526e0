"""Plot of an RL step as a plotly specification: what each side does, one after the other, on one axis of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.bars import SHADES
from computeledger.interfaces.plots.parts import Spec, plain, rounded
from computeledger.questions.wording import figure_words, interval_words, percent, point

_TITLE_PX, _BAR_PX, _LINE_PX, _GAP_PX, _AXIS_PX = 26, 46, 21, 10, 44
#: Share of a step from which on a span has room for its label, on a phone too, and below which nothing of it is seen.
_LABELLED, SEEN = 0.25, 1e-3
#: Share of a phone's width that a letter takes.
_LETTER = 0.02
#: What a cut off label costs against one line through it, by its share of the width; room beside such a line.
_CUT, _BESIDE = 1e3, 0.01
#: What marks a span that is hatched because GPUs wait in it.
HATCHED = "\u25a8"


def step_figure(lanes: Mapping[str, Mapping[str, Any]], order: Iterable[str] = ()) -> Spec:
    r"""One step: a lane for each side, its spans in order with their lengths; what waits is hatched.

    A span too short for its label has it on a line below, at the end of a thin line from the span.

    Examples
    --------
    >>> figure = step_figure({"all GPUs": {"read": 2.0, "write": 1.0, "never": 0.0}})
    >>> [(trace["base"], trace["x"], trace["text"]) for trace in figure["data"]]
    [([0.0], [2.0], ['<b>read</b><br>2\xa0s']), ([2.0], [1.0], ['<b>write</b><br>1\xa0s'])]
    """
    names = dict.fromkeys([*order, *(name for spans in lanes.values() for name in spans)])
    shades = {name: SHADES[place % len(SHADES)] for place, name in enumerate(names)}
    end_s = max(sum(point(value) for value in spans.values()) for spans in lanes.values()) or 1.0
    data: list[Spec] = []
    notes: list[Spec] = []
    leaders: list[Spec] = []
    y = 0.0
    for lane, spans in lanes.items():
        notes.append(parts.note(f"<b>{plain(lane)}</b>", y - _TITLE_PX / 2))
        y -= _TITLE_PX
        begin_s = 0.0
        shown = {name: value for name, value in spans.items() if point(value) >= SEEN * end_s and point(value) > 0}
        short: list[tuple[float, str]] = []
        for name, value in shown.items():
            data.append(_span(name, value, (begin_s, end_s), y - _BAR_PX / 2, shades[name]))
            if point(value) < _LABELLED * end_s:
                mark = f"{HATCHED} " if "waiting" in name else ""
                short.append((begin_s + point(value) / 2, f"{mark}{plain(name)}  <b>{figure_words(value, 's')}</b>"))
            begin_s += point(value)
        y -= _BAR_PX
        bar = y
        for one in _hung([(at_s / end_s, text) for at_s, text in short]):
            at_s, is_middle = one.at * end_s, one.side == "center"
            up = 0 if is_middle else _LINE_PX / 2 + 2
            leaders.append({"type": "line", "x0": at_s, "x1": at_s, "y0": bar, "y1": y - up,
                            "line": {"color": parts.NEUTRAL, "width": 1}})  # fmt: skip
            tall = _LINE_PX * len(one.text.split("<br>"))
            notes.append({"text": one.text, "x": at_s, "y": y - 2, "showarrow": False, "yanchor": "top",
                          "xanchor": one.side, "align": one.side,
                          "xshift": {"left": 4, "right": -4, "center": 0}[one.side]})  # fmt: skip
            y -= tall
        y -= _GAP_PX
    layout = parts.layout(
        _AXIS_PX - y,
        notes,
        shapes=leaders,
        barmode="overlay",
        uniformtext={"mode": "hide", "minsize": 10},
        xaxis={
            "range": [0, end_s],
            "fixedrange": True,
            "zeroline": False,
            "showgrid": False,
            "ticks": "outside",
            "title": {"text": "seconds"},
            "nticks": 7,
        },
        yaxis={"range": [y, 0], **parts.ROWS},
        margin={"l": 8, "r": 8, "t": 0, "b": _AXIS_PX},
    )
    return {"data": data, "layout": layout}


@dataclass(frozen=True, slots=True)
class _Hung:
    """A label below a bar: where its line comes down, as a share of the width, and at which edge it hangs there."""

    at: float
    text: str
    side: str


def _hung(short: Sequence[tuple[float, str]]) -> list[_Hung]:
    """Labels below a bar from the top down, each where no line of a lower one crosses it and it is not cut off.

    What holds on a phone holds on a wider drawing, where lines part and text does not grow. A label that has no such
    place in one line has its figure on a second one.

    Examples
    --------
    >>> [(one.text, one.side) for one in _hung([(0.1, "a"), (0.2, "b"), (0.95, "long enough for a crossing")])]
    [('a', 'right'), ('b', 'right'), ('long enough for a crossing', 'right')]
    """
    left, found = list(short), []
    while left:
        ways = [(one, text, side) for text_of in (str, _in_two) for one in left for text in (text_of(one[1]),)
                for side in ("right", "left", "center")]  # fmt: skip
        best = min(ways, key=lambda way: _crossed(way[0][0], way[1], way[2], [one[0] for one in left if one != way[0]]))
        left.remove(best[0])
        found.append(_Hung(best[0][0], best[1], best[2]))
    return found


def _in_two(text: str) -> str:
    """A label with its figure on a line of its own."""
    return text.replace("  <b>", "<br><b>")


def _crossed(at: float, text: str, side: str, others: Sequence[float]) -> float:
    """How many lines cross a label, and how much of it is cut off, which is worse."""
    letters = max(len(one.replace("<b>", "").replace("</b>", "")) for one in text.split("<br>"))
    share = _LETTER * (letters + 1)
    begin = at - {"right": share, "left": 0.0, "center": share / 2}[side]
    cut = max(-begin, 0.0) + max(begin + share - 1, 0.0)
    return _CUT * cut + sum(begin - _BESIDE < one < begin + share + _BESIDE for one in others)


def _span(name: str, value: Any, span_s: tuple[float, float], y: float, color: str) -> Spec:
    """A span from its begin in a step of some length."""
    begin_s, step_s = span_s
    length_s = point(value)
    length, band = figure_words(value, "s"), interval_words(value, "s")
    said = f"{plain(name)}, {length} ({band})" if band else f"{plain(name)}, {length}"
    return {
        "type": "bar", "orientation": "h", "name": plain(name), "base": rounded([begin_s]), "x": rounded([length_s]),
        "y": [y], "width": [_BAR_PX], "textangle": 0, "textposition": "inside", "insidetextanchor": "middle",
        "text": [f"<b>{plain(name)}</b><br>{length}" if length_s >= _LABELLED * step_s else ""],
        "insidetextfont": {"color": palette.ink(color)},
        "marker": {"color": color, "line": {"width": 0},
                   "pattern": {"shape": "/" if "waiting" in name else "", "fillmode": "overlay", "fgopacity": 0.35}},
        "hovertemplate": f"{said}<br>{percent(length_s / step_s)} of the step<extra></extra>",
    }  # fmt: skip
