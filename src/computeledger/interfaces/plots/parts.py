"""What plots are made of: theme, axes, notes and intervals, as parts of plotly specifications."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from computeledger.interfaces.plots import palette
from computeledger.questions.wording import figure_words, interval_words, point, words
from computeledger.units import DAY_S, HOUR_S, MINUTE_S

Spec = dict[str, Any]

PHASE_COLORS, BOUND_COLORS, SERIES = palette.PHASES, palette.BOUNDS, palette.SERIES
MARKS = ("circle", "triangle-up", "square", "diamond", "cross", "star", "hexagon", "triangle-down")
NEUTRAL = palette.OTHER
#: Width of the bands that stand for intervals [-].
_BAND_PX = 9
FONT = 'Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'

#: What a plot must not do: take the finger's scroll, show a tool bar, read dollars as formulas.
CONFIG = {"responsive": True, "displayModeBar": False, "scrollZoom": False, "doubleClick": False, "showTips": False,
          "typesetMath": False}  # fmt: skip
#: An axis that only orders rows.
ROWS = {"showgrid": False, "zeroline": False, "showticklabels": False, "fixedrange": True}
LEGEND = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom", "itemclick": False,
          "itemdoubleclick": False, "maxheight": 400}  # fmt: skip


def template(dark: bool = False) -> Spec:
    """Colours of text, grid and hover boxes, for the ``template`` of a layout.

    Examples
    --------
    >>> template(dark=True)["layout"]["font"]["color"]
    '#E6E9EC'
    """
    ink, grid, card = ("#E6E9EC", "#31383F", "#1D2227") if dark else ("#1B2026", "#E1E4E7", "#FFFFFF")
    axis = {"gridcolor": grid, "linecolor": grid, "zerolinecolor": grid, "automargin": True,
            "exponentformat": "none", "separatethousands": True,  # its own "10k" is not how the texts write it
            "ticklabeloverflow": "allow",  # to look for what hangs over takes a sixth of a drawing
            "title": {"font": {"size": 13}, "standoff": 12}}  # fmt: skip
    return {
        "layout": {
            "font": {"family": FONT, "size": 13, "color": ink},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {
                "bgcolor": card,
                "bordercolor": grid,
                "align": "left",
                "font": {"color": ink, "family": FONT},
            },
        },
    }


def layout(height: float, notes: list[Spec], **parts: Any) -> Spec:
    """The layout that every plot shares: as wide as its place, no zoom, room for the axis below.

    Examples
    --------
    >>> layout(100.0, [], barmode="stack")["barmode"]
    'stack'
    """
    return {
        "height": round(height), "autosize": True, "showlegend": False, "dragmode": False, "hovermode": "closest",
        "margin": {"l": 4, "r": 8, "t": 4, "b": 44}, "annotations": notes, **parts,
    }  # fmt: skip


def note(text: str, y: float, axis: str = "y") -> Spec:
    """A line of text at the left edge, which stays readable at any width.

    Examples
    --------
    >>> note("a", 1.0)["x"]
    0
    """
    return {"text": text, "x": 0, "xref": "paper", "xanchor": "left", "y": y, "yref": axis, "yanchor": "middle",
            "showarrow": False, "align": "left"}  # fmt: skip


def corner(text: str) -> Spec:
    """A text in the upper left corner, where a roof or a price of speed leaves room.

    Examples
    --------
    >>> corner("a")["yanchor"]
    'top'
    """
    return {"text": text, "x": 0.012, "xref": "paper", "xanchor": "left", "y": 0.99, "yref": "paper", "yanchor": "top",
            "showarrow": False, "align": "left", "font": {"size": 12}}  # fmt: skip


def interval_marks(
    rows: Sequence[tuple[Any, float, str, str]], unit: str, row_px: float, inner: tuple[str, str] = ("p10", "p90")
) -> list[Spec]:
    """The 90 % interval as a band, the 80 % interval or another inner one as a darker one, the median as a mark.

    All rows share two traces: a browser's time to draw grows with traces, hardly with points.

    Examples
    --------
    >>> len(interval_marks([(1.0, 0.0, "#0072B2", "circle")], "", 64))
    1
    """
    bands = [
        (point(value, low), point(value, high), y, color, edge)
        for value, y, color, _ in rows
        for low, high, edge in (("p05", "p95", 1), (*inner, 0))
        if point(value, low) < point(value, high)
    ]
    colors = [color for _, _, color, _ in rows]
    marks: Spec = {
        "type": "scatter", "mode": "markers", "x": [point(value) for value, *_ in rows],
        "y": [y for _, y, _, _ in rows], "cliponaxis": False,
        "hovertemplate": [
            f"{figure_words(value, unit)}<br>{interval_words(value, unit)}<extra></extra>" for value, *_ in rows
        ],
        "marker": {"symbol": [mark for *_, mark in rows], "size": 12, "color": colors,
                   "line": {"color": colors, "width": 2.5}},
    }  # fmt: skip
    if not bands:
        return [marks]
    return [
        {"type": "bar", "orientation": "h", "base": [low for low, *_ in bands], "hoverinfo": "skip",
         "x": [high - low for low, high, *_ in bands], "y": [y for _, _, y, *_ in bands],
         "width": [_BAND_PX / row_px] * len(bands),
         "marker": {"color": [faint(color, palette.BAND) for *_, color, _ in bands],
                    "line": {"color": [color for *_, color, _ in bands], "width": [edge for *_, edge in bands]}}},
        marks,
    ]  # fmt: skip


def interval_legend(inner: str) -> list[Spec]:
    """What the parts of :func:`interval_marks` mean, in a neutral colour, for a legend.

    Examples
    --------
    >>> [one["name"] for one in interval_legend("80 % range")]
    ['median', '80 % range', '90 % range']
    """
    looks = (
        ("median", "circle", NEUTRAL), (inner, "square", faint(NEUTRAL, palette.HALF)),
        ("90 % range", "square", faint(NEUTRAL, palette.BAND)),
    )  # fmt: skip
    return [
        {"type": "scatter", "mode": "markers", "name": name, "showlegend": True, "hoverinfo": "skip", "x": [None],
         "y": [None], "marker": {"symbol": mark, "color": color, "size": 12, "line": {"color": NEUTRAL, "width": 1}}}
        for name, mark, color in looks
    ]  # fmt: skip


def hill(samples: np.ndarray[Any, np.dtype[np.float64]], row: float, color: str) -> list[Spec]:
    """The distribution of samples over their logarithm; nothing where the value is exact.

    Examples
    --------
    >>> hill(np.asarray(2.0), 0.0, "#0072B2"), len(hill(np.asarray([1.0, 2.0, 2.0, 4.0]), 0.0, "#0072B2"))
    ([], 1)
    """
    if samples.ndim == 0 or samples.min() <= 0 or np.isclose(samples.min(), samples.max()):
        return []
    low, high = np.quantile(np.log10(samples), [0.002, 0.998])
    counts, edges = np.histogram(np.log10(samples), bins=40, range=(low, high))
    kernel = np.array([1.0, 4, 10, 16, 19, 16, 10, 4, 1])
    smooth = np.convolve(np.pad(counts, 5), kernel / kernel.sum(), mode="same")
    centres = edges[0] + (edges[1] - edges[0]) * (np.arange(-5, len(counts) + 5) + 0.5)
    heights = row + 0.02 + 0.46 * smooth / smooth.max()
    return [{
        "type": "scatter", "mode": "lines", "x": rounded(10**centres), "y": rounded(heights), "fill": "toself",
        "line": {"color": color, "width": 1.5}, "fillcolor": faint(color, 0.22), "hoverinfo": "skip",
    }]  # fmt: skip


def bar_text(*colors: str) -> Spec:
    """Where and in what colour bars carry their labels.

    Examples
    --------
    >>> bar_text("#D55E00")["insidetextfont"]["color"]
    '#000000'
    """
    inks = [palette.ink(color) for color in colors]
    return {
        "textposition": "inside", "textangle": 0, "insidetextanchor": "middle", "constraintext": "both",
        "insidetextfont": {"color": inks if len(inks) > 1 else inks[0]},
    }  # fmt: skip


#: Fewer ticks than these say too little of an axis.
_FEWEST_TICKS = 3


def log_axis(
    values: Iterable[float], label: Callable[[float], str], pad: float = 0.06, *, is_fine: bool = False
) -> Spec:
    """A logarithmic axis over values, with ticks that read as people write numbers; fine has two in each decade.

    Examples
    --------
    >>> log_axis([1.0, 1000.0], "{:g}".format)["ticktext"]
    ['1', '10', '100', '1000']
    >>> log_axis([2.0, 900.0], "{:g}".format, 0.0)["ticktext"]
    ['3', '10', '30', '100', '300']
    """
    every = [value for value in values if value > 0] or [1.0]
    low, high = math.log10(min(every)) - pad, math.log10(max(every)) + pad
    steps = (1, 2, 5) if high - low < 1.6 else (1, 3) if is_fine or high - low < 2.6 else (1,)
    skip = max(1, math.ceil((high - low) / 6))
    decades = [decade for decade in range(math.floor(low), math.ceil(high) + 1) if decade % skip == 0]
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    ticks = [tick for tick in ticks if low <= math.log10(tick) <= high]
    for finer in ((1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        if len(ticks) < _FEWEST_TICKS:
            ticks = [step * 10.0**decade for decade in decades for step in finer]
            ticks = [tick for tick in ticks if low <= math.log10(tick) <= high]
    return {"type": "log", "range": [round(low, 4), round(high, 4)], "tickvals": ticks,
            "ticktext": [label(tick) for tick in ticks], "fixedrange": True, "zeroline": False}  # fmt: skip


#: Seconds that an axis names from ten on: what clocks and calendars have.
_TIMES = {
    ten * size: f"{ten} {name}{'s' if ten > 1 and name == 'day' else ''}"
    for size, name in ((MINUTE_S, "min"), (HOUR_S, "h"), (DAY_S, "day")) for ten in (1, 10)
}  # fmt: skip
#: Times that have room beside one another on a phone.
_MOST_TIMES = 4.5


def unit_axis(values: Iterable[float], unit: str, pad: float = 0.06) -> Spec:
    """A logarithmic axis over values of a unit; long times stand at whole minutes, hours and days.

    Examples
    --------
    >>> [text.replace(chr(160), " ") for text in unit_axis([1e-3, 2e3], "s")["ticktext"]]
    ['10 ms', '1 s', '1 min']
    """
    axis = log_axis(values, lambda value: words(value, unit), pad)
    if unit != "s":
        return axis
    low, high = (10.0**end for end in axis["range"])
    ticks = [one for one in axis["tickvals"] if one < min(_TIMES)] + [one for one in _TIMES if low <= one <= high]
    apart = (axis["range"][1] - axis["range"][0]) / _MOST_TIMES  # what a phone has room for
    minute = min(_TIMES)
    ticks = [one for one in ticks if not (one < minute <= high and math.log10(minute / one) < apart)]
    shown = ticks[:1]
    for one in ticks[1:]:
        if math.log10(one / shown[-1]) >= apart:
            shown.append(one)
    said = [_TIMES.get(one, words(one, unit)).replace(" ", "\u00a0") for one in shown]
    return axis | {"tickvals": shown, "ticktext": said}


def zero_axis(most: float, unit: str, n_ticks: int = 6) -> Spec:
    """A linear axis from zero on, with about so many ticks that read as the texts write numbers.

    Examples
    --------
    >>> zero_axis(48e3, "USD")["ticktext"]
    ['$0', '$10K', '$20K', '$30K', '$40K', '$50K']
    """
    end = 1.05 * most or 1.0
    least = end / n_ticks
    power = 10.0 ** math.floor(math.log10(least))
    step = next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= least * (1 - 1e-9))
    ticks = rounded(place * step for place in range(math.floor(end / step) + 1))
    return {"range": [0, end], "tickvals": ticks, "ticktext": [words(tick, unit) for tick in ticks],
            "fixedrange": True, "zeroline": True}  # fmt: skip


def interval_band(color: str) -> Spec:
    """Fill and outline of a polygon that stands for a 90 % interval.

    Examples
    --------
    >>> interval_band("#0072B2")
    {'fill': 'toself', 'fillcolor': 'rgba(0,114,178,0.3)', 'line': {'color': '#0072B2', 'width': 1}}
    """
    return {"fill": "toself", "fillcolor": faint(color, palette.BAND), "line": {"color": color, "width": 1}}


def faint(color: str, alpha: float) -> str:
    """A colour that lets the page through.

    Examples
    --------
    >>> faint("#0072B2", 0.5)
    'rgba(0,114,178,0.5)'
    """
    red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def plain(text: str) -> str:
    """Text that plotly must not read as markup.

    Examples
    --------
    >>> plain("<b>a</b>")
    '&lt;b&gt;a&lt;/b&gt;'
    """
    return html.escape(text, quote=False)


def rounded(values: Iterable[float]) -> list[float]:
    """Numbers with four digits: a plot cannot show more.

    Examples
    --------
    >>> rounded([1.23456])
    [1.235]
    """
    return [float(f"{float(value):.4g}") for value in values]
