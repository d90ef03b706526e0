"""Plot of a price among open models of known size as a plotly specification."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.names import Labels
from computeledger.interfaces.plots.parts import NEUTRAL, Spec, plain, rounded
from computeledger.questions.wording import figure_words, interval_words, point, words
from computeledger.units import format_usd

#: Height, that of the margins in it, and the mark of the answer [px]; room above all for its words, in decades.
_HEIGHT_PX, _MARGIN_PX, _ASKED_PX, _LINE = 400, 76, 16, 0.17


@dataclass(frozen=True, slots=True)
class Sold:
    """An open model at its median list prices, and whether it is named on the plot."""

    name: str
    usd_per_mtok_input: float
    usd_per_mtok_output: float
    n_params_active: float
    is_named: bool = False


#: Share of the axis that is left free beyond the outermost marks.
_ROOM = 0.045
#: Within how many times the end of open models' prices a price is at it, and how many times further is drawn.
_NEAR, _FURTHER = 1.5, 1.6


def priced_sizes_figure(
    sold: Sequence[Sold], line: Sequence[tuple[float, Any]], asked: tuple[float, Any], at_premium: Sequence[float] = ()
) -> Spec:
    """Active parameters of open models over the input price, what such prices tell of size, and the price asked about.

    Where it lies at the edge of the open models' prices or beyond, what lies beyond is shaded.

    Examples
    --------
    >>> size = {"p05": 5e10, "p50": 1e11, "p95": 2e11}
    >>> figure = priced_sizes_figure([Sold("M", 2.0, 8.0, 9e10)], [(1.0, size), (4.0, size)], (3.0, size))
    >>> [one["name"] for one in figure["data"] if one["showlegend"]]
    ['size by price, 90 % range', 'this price: 100B, 90 % range', 'open model']
    """
    price, size = asked
    edges = _edges(sold, price)
    x_axis = parts.log_axis([*(one.usd_per_mtok_input for one in sold), price, *(end for _, end in edges)], format_usd)
    room = _ROOM * (x_axis["range"][1] - x_axis["range"][0])  # for half of the answer's mark
    x_axis["range"] = [x_axis["range"][0] - room, x_axis["range"][1] + room]
    values = [*(one.n_params_active for one in sold), *(point(size, end) for end in ("p05", "p95"))]
    y_axis = parts.unit_axis(values, "params", 0.12)
    y_axis["range"][1] += _LINE
    layout = parts.layout(
        _HEIGHT_PX, [*_labels(sold, line, asked, x_axis["range"], y_axis["range"]), *_beyond(edges)],
        showlegend=True, legend=parts.LEGEND,
        xaxis=x_axis | {"title": {"text": "USD per million input tokens →"}}, yaxis=y_axis,
        margin={"l": 8, "r": 12, "t": 28, "b": 48}, shapes=_shades(edges, x_axis["range"]),
    )  # fmt: skip
    inside = [one for one in line if sold[0].usd_per_mtok_input <= one[0] <= sold[-1].usd_per_mtok_input]
    lines = [_band(line), _median(line, "dot"), _median(inside, "solid")]
    return {"data": [*lines, *_premiums(price, at_premium), _asked(asked), _dots(sold)], "layout": layout}


def _edges(sold: Sequence[Sold], price: float) -> list[tuple[float, float]]:
    """Ends of open models' prices that a price is near or beyond, and as far as is drawn beyond each."""
    prices = [one.usd_per_mtok_input for one in sold]
    low, high = min(prices), max(prices)
    out = [(low, min(price, low) / _FURTHER)] if price < low * _NEAR else []
    return out + ([(high, max(price, high) * _FURTHER)] if price > high / _NEAR else [])


def _shades(edges: Sequence[tuple[float, float]], ends: Sequence[float]) -> list[Spec]:
    """Prices at which no open model is sold."""
    return [
        {"type": "rect", "xref": "x", "yref": "paper", "x0": edge, "x1": 10 ** ends[beyond > edge], "y0": 0, "y1": 1,
         "layer": "below", "line": {"width": 0}, "fillcolor": parts.faint(palette.CONDITIONAL, 0.16)}
        for edge, beyond in edges
    ]  # fmt: skip


def _beyond(edges: Sequence[tuple[float, float]]) -> list[Spec]:
    """What the shade means, upright beside the edge."""
    return [
        {"text": f"no open model is {'dearer' if beyond > edge else 'cheaper'}", "textangle": -90, "showarrow": False,
         "x": math.log10(edge), "xref": "x", "xanchor": "left" if beyond > edge else "right",
         "xshift": 4 if beyond > edge else -4, "y": 0.02, "yref": "paper", "yanchor": "bottom",
         "font": {"size": 12}}
        for edge, beyond in edges
    ]  # fmt: skip


def _premiums(price: float, sizes: Sequence[float]) -> list[Spec]:
    """The size if the price has a premium."""
    if not sizes:
        return []
    return [{
        "type": "scatter", "mode": "markers", "name": "this price at a premium of 2 \u00d7 and 4 \u00d7",
        "showlegend": True,
        "x": rounded([price] * len(sizes)), "y": rounded(sizes),
        "marker": {"color": palette.CHOSEN, "size": 9, "symbol": "diamond", "line": {"width": 0}},
        "hovertemplate": [f"{words(size, 'params', 2)} at a premium<extra></extra>" for size in sizes],
    }]  # fmt: skip


def _dots(sold: Sequence[Sold]) -> Spec:
    return {
        "type": "scatter", "mode": "markers", "name": "open model", "showlegend": True,
        "x": rounded(one.usd_per_mtok_input for one in sold), "y": rounded(one.n_params_active for one in sold),
        "marker": {"color": palette.PLAIN, "size": 7, "line": {"width": 0}},
        "hovertemplate": [f"{_hover(one)}<extra></extra>" for one in sold],
    }  # fmt: skip


def _hover(one: Sold) -> str:
    prices = f"{format_usd(one.usd_per_mtok_input)} in, {format_usd(one.usd_per_mtok_output)} out per Mtok"
    return f"<b>{plain(one.name)}</b><br>{words(one.n_params_active, 'params')} active<br>{prices}"


def _band(line: Sequence[tuple[float, Any]]) -> Spec:
    """The 90 % range of sizes along prices."""
    ends = [(price, point(size, "p05")) for price, size in line]
    ends += [(price, point(size, "p95")) for price, size in line[::-1]]
    return {
        "type": "scatter", "mode": "lines", "name": "size by price, 90 % range", "showlegend": True,
        "hoverinfo": "skip",
        "x": rounded(price for price, _ in ends), "y": rounded(size for _, size in ends), "fill": "toself",
        "fillcolor": parts.faint(NEUTRAL, 0.22), "line": {"width": 0},
    }  # fmt: skip


def _median(line: Sequence[tuple[float, Any]], dash: str) -> Spec:
    return {
        "type": "scatter", "mode": "lines", "showlegend": False, "hoverinfo": "skip", "name": "median",
        "x": rounded(price for price, _ in line), "y": rounded(point(size) for _, size in line),
        "line": {"color": NEUTRAL, "width": 1.5, "dash": dash},
    }  # fmt: skip


def _asked(asked: tuple[float, Any]) -> Spec:
    """The price asked about, with the 90 % range of its size."""
    price, size = asked
    said = f"{figure_words(size, 'params')} active parameters<br>90 % range {interval_words(size, 'params')}"
    return {
        "type": "scatter", "mode": "markers", "showlegend": True,
        "name": f"this price: {figure_words(size, 'params')}, 90 % range",
        "x": rounded([price]), "y": rounded([point(size)]),
        "marker": {"color": palette.CHOSEN, "size": _ASKED_PX, "symbol": "diamond-open", "line": {"width": 2.5}},
        "error_y": {"type": "data", "symmetric": False, "thickness": 2.5, "width": 7, "color": palette.CHOSEN,
                    "array": rounded([point(size, "p95") - point(size)]),
                    "arrayminus": rounded([point(size) - point(size, "p05")])},
        "hovertemplate": f"{said}<extra></extra>",
    }  # fmt: skip


def _labels(
    sold: Sequence[Sold], line: Sequence[tuple[float, Any]], asked: tuple[float, Any], xs: Sequence[float],
    ys: Sequence[float],
) -> list[Spec]:  # fmt: skip
    """Names of models where no other mark lies on them."""
    labels = Labels(xs, ys, _HEIGHT_PX - _MARGIN_PX)
    price, size = math.log10(asked[0]), asked[1]
    low, median, high = (math.log10(point(size, end)) for end in ("p05", "p50", "p95"))
    places = {one: (math.log10(one.usd_per_mtok_input), math.log10(one.n_params_active)) for one in sold}
    for place in places.values():
        labels.mark(*place)
    labels.mark(price, median, _ASKED_PX)
    labels.bar(price, low, high)
    labels.line([(math.log10(one), math.log10(point(value))) for one, value in line])
    for one, place in places.items():
        is_under = math.isclose(place[0], price) and low <= place[1] <= high
        if one.is_named and not is_under:
            labels.name(one.name, *place)
    return labels.notes
