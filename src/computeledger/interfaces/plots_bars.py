"""Plain bars as plotly specifications: named quantities with their intervals, and shares of a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces import plot_parts as parts
from computeledger.interfaces.plot_parts import Spec, plain, rounded
from computeledger.interfaces.wording import interval_words, percent, point, words

_ROW_PX = 44
#: Colours of Paul Tol's muted scheme, told apart by readers who see few colours.
SHADES = ("#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499", "#7A838D")


def bars_figure(rows: Mapping[str, Any], unit: str, color: str, most: int = 14) -> Spec:
    """Quantities as bars from zero with their 90 % intervals, the largest first.

    Parameters
    ----------
    rows : mapping of str to float or dict
        Name and quantity, as documents carry it, in one unit.
    unit : str
        Of :func:`computeledger.interfaces.wording.words`.
    color : str
        ``#RRGGBB``.
    most : int
        How many to show [-].

    Returns
    -------
    dict
        A plotly figure.

    Examples
    --------
    >>> bars_figure({"a": 1.0, "b": 2.0, "none": 0.0}, "s", "#0072B2")["data"][0]["x"]
    [2.0, 1.0]
    """
    shown = sorted(((name, value) for name, value in rows.items() if point(value) > 0), key=lambda row: -point(row[1]))
    shown = shown[:most]
    places = list(range(len(shown)))[::-1]
    sizes = [point(value) for _, value in shown]
    ends = [(point(value, "p05"), point(value, "p95")) for _, value in shown]
    data = [{
        "type": "bar", "orientation": "h", "x": rounded(sizes), "y": [place - 0.12 for place in places],
        "width": [0.34] * len(shown), "marker": {"color": color, "line": {"width": 0}},
        "error_x": {
            "type": "data", "symmetric": False, "color": parts.NEUTRAL, "thickness": 1.5, "width": 4,
            "array": rounded(high - size for size, (_, high) in zip(sizes, ends, strict=True)),
            "arrayminus": rounded(size - low for size, (low, _) in zip(sizes, ends, strict=True)),
        },
        "hovertext": [f"{plain(name)}: {words(point(value), unit)}<br>{interval_words(value, unit)}"
                      for name, value in shown],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }]  # fmt: skip
    notes = [
        parts.note(f"{plain(name)}  <b>{words(point(value), unit)}</b>", place + 0.26)
        for place, (name, value) in zip(places, shown, strict=True)
    ]
    layout = parts.layout(
        _ROW_PX * max(len(shown), 1) + 16,
        notes,
        xaxis={"range": [0, max([high for _, high in ends] or [1.0]) * 1.03], "visible": False, "fixedrange": True},
        yaxis={"range": [-0.5, len(shown) - 0.4], **parts.ROWS},
        margin={"l": 4, "r": 4, "t": 4, "b": 4},
    )
    return {"data": data, "layout": layout}


def strip_figure(shares: Mapping[str, Any]) -> Spec:
    """Shares of a whole as one bar.

    Parameters
    ----------
    shares : mapping of str to float or dict
        Name and share [-].

    Returns
    -------
    dict
        A plotly figure.

    Examples
    --------
    >>> [trace["name"] for trace in strip_figure({"a": 0.25, "b": 0.75})["data"]]
    ['a', 'b']
    """
    shown = [(name, point(value)) for name, value in shares.items() if point(value) > 0]
    data = [
        {"type": "bar", "orientation": "h", "name": plain(name), "x": [share], "y": [0], "width": [0.6],
         "marker": {"color": SHADES[place % len(SHADES)]}, "textangle": 0, "textposition": "inside",
         "insidetextanchor": "middle", "text": [percent(share) if share > 0.08 else ""],
         "insidetextfont": {"color": _ink(SHADES[place % len(SHADES)])},
         "hovertemplate": f"{plain(name)}: {percent(share)}<extra></extra>"}
        for place, (name, share) in enumerate(shown)
    ]  # fmt: skip
    return {"data": data, "layout": _strip_layout(sum(share for _, share in shown), len(shown))}


def _strip_layout(whole: float, count: int) -> Spec:
    return parts.layout(
        110 + 20 * (count // 4),
        [],
        barmode="stack",
        showlegend=True,
        legend=parts.LEGEND | {"traceorder": "normal"},
        xaxis={"range": [0, whole or 1.0], "visible": False, "fixedrange": True},
        yaxis={"range": [-0.4, 0.4], **parts.ROWS},
        margin={"l": 4, "r": 4, "t": 36 + 20 * (count // 4), "b": 8},
    )


def _ink(color: str) -> str:
    """Black or white, whichever stands out from a colour."""
    red, green, blue = (int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (red, green, blue)]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if (light + 0.05) / 0.05 > 1.05 / (light + 0.05) else "#FFFFFF"


def lines_figure(
    lines: Sequence[tuple[str, Sequence[float], Sequence[float]]], labels: tuple[str, str], units: tuple[str, str]
) -> Spec:
    """Curves on logarithmic axes.

    Parameters
    ----------
    lines : sequence of (str, sequence of float, sequence of float)
        Name, and positive coordinates.
    labels : tuple of str
        Of the axes.
    units : tuple of str
        Of the axes, for :func:`computeledger.interfaces.wording.words`.

    Returns
    -------
    dict
        A plotly figure.

    Examples
    --------
    >>> len(lines_figure([("a", [1.0, 10.0], [2.0, 20.0])], ("x", "y"), ("", ""))["data"])
    1
    """
    data = [
        {"type": "scatter", "mode": "lines", "name": plain(name), "x": rounded(x), "y": rounded(y),
         "line": {"color": parts.SERIES[place % len(parts.SERIES)], "width": 2.5},
         "hovertext": [f"{plain(name)}<br>{words(a, units[0])}: {words(b, units[1])}"
                       for a, b in zip(x, y, strict=True)],
         "hovertemplate": "%{hovertext}<extra></extra>"}
        for place, (name, x, y) in enumerate(lines)
    ]  # fmt: skip
    xs, ys = [value for _, x, _ in lines for value in x], [value for _, _, y in lines for value in y]
    layout = parts.layout(
        340,
        [parts.corner(f"{labels[1]} ↑")],
        xaxis=parts.log_axis(xs, lambda value: words(value, units[0]), 0.02) | {"title": {"text": f"{labels[0]} →"}},
        yaxis=parts.log_axis(ys, lambda value: words(value, units[1]), 0.15),
        showlegend=len(lines) > 1,
        legend=parts.LEGEND,
        margin={"l": 8, "r": 12, "t": 44, "b": 48},
    )
    return {"data": data, "layout": layout}
