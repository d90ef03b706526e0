"""Plots of offers: what a request costs, and at which price of a GPU-hour the order turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import Spec, plain, rounded
from computeledger.questions.wording import figure_words, point, words

_ROW_PX, _AXIS_PX = 46, 52
_COLOR = palette.PLAIN
#: Where a row's mark and its words stand, below and above its place.
_MARK, _WORDS = -0.14, 0.24
#: Up to so many times the least a scale from zero shows all; beyond, ratios are distances.
_MOST_LINEAR = 25.0
_TITLE_PX = 24


@dataclass(frozen=True, slots=True)
class Row:
    """An offer with its cost, what is said behind it, and whether it is the one to take."""

    name: str
    cost: Mapping[str, Any]
    text: str = ""
    said: str = ""
    is_chosen: bool = False


def intervals_figure(offers: Mapping[str, Any], unit: str) -> Spec:
    """Quantities with their 90 % intervals, in the order given, the first on top; ratios are distances.

    Examples
    --------
    >>> one, two = ({"p05": x / 2, "p10": x / 2, "p50": x, "p90": 2 * x, "p95": 2 * x} for x in (1.0, 30.0))
    >>> intervals_figure({"a": one, "b": two}, "USD")["data"][1]["y"]
    [0.86, -0.14]
    """
    places = range(len(offers))[::-1]
    rows = [(value, place + _MARK, _COLOR, "circle") for place, value in zip(places, offers.values(), strict=True)]
    ends = [point(value, key) for value in offers.values() for key in ("p05", "p50", "p95")]
    notes = [f"{plain(name)}  <b>{figure_words(value, unit)}</b>" for name, value in offers.items()]
    return _figure(parts.interval_marks(rows, unit, _ROW_PX), notes, ends, unit)


def costs_figure(offers: Sequence[Row], title: str) -> Spec:
    """Costs with their 90 % intervals, in the order given, the first on top; a ring marks the offer to take.

    Examples
    --------
    >>> cost = {"p05": 0.5, "p10": 0.5, "p50": 1.0, "p90": 2.0, "p95": 2.0}
    >>> figure = costs_figure([Row("2 B200", cost, is_chosen=True)], "USD per thousand requests")
    >>> figure["data"][-1]["x"], figure["layout"]["xaxis"]["range"][0]
    ([1.0], 0)
    """
    figure = intervals_figure({one.name: one.cost for one in offers}, "USD")
    places = {one.name: place + _MARK for place, one in zip(range(len(offers))[::-1], offers, strict=True)}
    for line, one in zip(figure["layout"]["annotations"], offers, strict=True):
        line["text"] = f"{plain(one.name)}  <b>{one.text or figure_words(one.cost, 'USD')}</b>{plain(one.said)}"
    chosen = [one for one in offers if one.is_chosen]
    if chosen:
        figure["data"].append({
            "type": "scatter", "mode": "markers", "hoverinfo": "skip", "cliponaxis": False,
            "x": rounded([point(one.cost) for one in chosen]), "y": [places[one.name] for one in chosen],
            "marker": {"symbol": "circle-open", "size": 20, "color": palette.CHOSEN, "line": {"width": 3}},
        })  # fmt: skip
    ends = [point(one.cost, key) for one in offers for key in ("p05", "p50", "p95")]
    return _titled(figure, ends, title)


def _titled(figure: Spec, values: Sequence[float], title: str) -> Spec:
    """A figure whose axis has its name, and begins at zero where all of it can be told apart from there."""
    layout = figure["layout"]
    if min(values) > 0 and max(values) / min(values) <= _MOST_LINEAR:
        layout["xaxis"] = parts.zero_axis(max(values), "USD")
    else:
        title = f"{title}, ratios as distances"
    layout["xaxis"] |= {"title": {"text": title}, "showgrid": False, "ticks": "outside"}  # no line runs through words
    layout["height"] += _TITLE_PX
    layout["margin"] = {**layout["margin"], "l": 12, "b": layout["margin"]["b"] + _TITLE_PX}
    return figure


def even_figure(offers: Sequence[tuple[str, float, float]]) -> Spec:
    """Prices of a GPU-hour as they are and at which an offer is as cheap as the cheapest, or as the next.

    Examples
    --------
    >>> even_figure([("a", 3.0, 4.0), ("b", 5.0, 2.0)])["data"][0]["x"]
    [3.0, 4.0, None, 5.0, 2.0, None]
    """
    places = [place + _MARK for place in range(len(offers))[::-1]]
    lines: Spec = {
        "type": "scatter", "mode": "lines", "hoverinfo": "skip", "line": {"color": parts.NEUTRAL, "width": 1.5},
        "x": [part for _, now, even in offers for part in (*rounded([now, even]), None)],
        "y": [part for place in places for part in (place, place, None)],
    }  # fmt: skip
    _, now, even = zip(*offers, strict=True)
    marks: list[Spec] = [
        {"type": "scatter", "mode": "markers", "name": name, "x": rounded(prices), "y": places, "cliponaxis": False,
         "marker": {"symbol": symbol, "size": 12, "color": _COLOR, "line": {"color": _COLOR, "width": 2.5}},
         "hovertemplate": f"%{{x:$.3g}} {name}<extra></extra>"}
        for name, prices, symbol in (("now", now, "circle"), ("cheapest below this", even, "diamond-open"))
    ]  # fmt: skip
    notes = [
        f"{plain(name)}  <b>{words(price, 'USD', 2)}</b> now, cheapest {'up to' if equal > price else 'below'} "
        f"<b>{words(equal, 'USD', 2)}</b>"
        for name, price, equal in offers
    ]
    every = [part for _, *prices in offers for part in prices]
    return _titled(_figure([lines, *marks], notes, every), every, "USD per GPU-hour")


def _figure(data: list[Spec], notes: Sequence[str], values: Iterable[float], unit: str = "USD") -> Spec:
    n = len(notes)
    lines = [parts.note(text, place + _WORDS) for place, text in zip(range(n)[::-1], notes, strict=True)]
    return {
        "data": data,
        "layout": parts.layout(
            _ROW_PX * n + _AXIS_PX,
            lines,
            xaxis=parts.unit_axis(values, unit),
            yaxis={"range": [-0.6, n - 0.4], **parts.ROWS},
            margin={"l": 4, "r": 12, "t": 4, "b": 36},
        ),
    }
