"""Plain bars as plotly specifications: named quantities with their intervals, and shares of a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import Spec, plain, rounded
from computeledger.questions.wording import DIGITS, figure_words, interval_words, listed, percent, point, words

_ROW_PX, _LINE_PX = 44, 22
#: Opacity of a bar, so that the half of an interval that lies on it is seen on light and dark pages.
_BEHIND_WHISKERS = 0.55
#: Characters of a legend's line that a phone shows; an interval that goes beyond stands below its value.
_LINE_CHARACTERS = 40
#: Medians of shares that add up to one so nearly need no remark.
_UNEVEN = 0.005
#: Parts smaller than this share of the whole are nothing to the eye.
_SEEN, _NEARLY_NOTHING = 1e-4, "under 0.01 %"
#: Paul Tol's muted scheme, told apart by readers who see few colours; for its indigo his blue, which dark pages show.
SHADES = ("#4477AA", "#88CCEE", "#44AA99", "#228B45", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499",
          palette.OTHER)  # fmt: skip


def bars_figure(
    rows: Mapping[str, Any],
    unit: str,
    color: str,
    most: int = 14,
    remarks: Mapping[str, str] | None = None,
    beside: Mapping[str, Any] | None = None,
) -> Spec:
    """Quantities as bars from zero with their 90 % intervals, the largest first; what is too small to see is left out.

    A remark on a row stands behind its value. What they are held beside stands among them in grey.

    Examples
    --------
    >>> bars_figure({"a": 1.0, "b": 2.0, "none": 0.0}, "s", "#0072B2")["data"][0]["x"]
    [2.0, 1.0]
    """
    every = {**rows, **(beside or {})}
    largest = max((point(value) for value in every.values()), default=0.0)
    seen = ((name, value) for name, value in every.items() if point(value) > _SEEN * largest)
    shown = sorted(seen, key=lambda row: (row[0].endswith(_OTHERS), -point(row[1])))[:most]
    places = list(range(len(shown)))[::-1]
    said = remarks or {}
    sizes = [point(value) for _, value in shown]
    ends = [(point(value, "p05"), point(value, "p95")) for _, value in shown]
    is_ranged = any(high > low for low, high in ends)
    data = [{
        "type": "bar", "orientation": "h", "x": rounded(sizes), "y": [place - 0.12 for place in places],
        "width": [0.34] * len(shown),
        "marker": {"color": color if not beside else [parts.NEUTRAL if name in beside else color for name, _ in shown],
                   "line": {"width": 0}, "opacity": _BEHIND_WHISKERS if is_ranged else 1.0},
        "error_x": {
            "type": "data", "symmetric": False, "color": parts.NEUTRAL, "thickness": 2, "width": 5,
            "visible": is_ranged,
            "array": rounded(high - size for size, (_, high) in zip(sizes, ends, strict=True)),
            "arrayminus": rounded(size - low for size, (low, _) in zip(sizes, ends, strict=True)),
        },
        "hovertext": [f"{plain(name)}: {figure_words(value, unit)}<br>{interval_words(value, unit)}"
                      for name, value in shown],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }]  # fmt: skip
    notes = [
        parts.note(f"{plain(name)}  <b>{figure_words(value, unit)}</b>  {said.get(name, '')}".rstrip(), place + 0.26)
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


def strip_figure(parts_of: Mapping[str, Any], colors: Sequence[str] = SHADES, unit: str = "fraction") -> Spec:
    """Parts of a whole as one bar, and below it a line for each, so that no part is too small to be read.

    Examples
    --------
    >>> [trace["name"] for trace in strip_figure({"a": 0.25, "b": 0.75})["data"]]
    ['a', 'b']
    """
    shown = [(name, value, colors[place % len(colors)]) for place, (name, value) in enumerate(parts_of.items())]
    shown = [one for one in shown if point(one[1]) > 0]
    whole = sum(point(value) for _, value, _ in shown) or 1.0
    data, notes, rows = [], [], 0
    for name, value, color in shown:
        size = point(value)
        digits = 2 if unit == "fraction" else DIGITS
        said, band = _NEARLY_NOTHING, ""
        if size > _SEEN * whole:
            said, band = words(size, unit, digits), interval_words(value, unit)
        notes += (lines := _lines(name, color, (said, band), -rows - 1.0))
        rows += len(lines)
        share = said if unit == "fraction" else percent(size / whole, 2)
        data.append({
            "type": "bar", "orientation": "h", "name": plain(name), "x": [size], "y": [0.4], "width": [1.3],
            "marker": {"color": color}, "textangle": 0, "textposition": "inside", "insidetextanchor": "middle",
            "text": [share if size > 0.12 * whole else ""], "insidetextfont": {"color": palette.ink(color)},
            "hovertemplate": f"{plain(name)}: {said}<extra></extra>",
        })  # fmt: skip
    if unit == "fraction" and abs(whole - 1) > _UNEVEN:
        rows += 1
        notes.append(parts.note(f"the medians add up to {percent(whole)}", -rows))
    layout = parts.layout(
        _LINE_PX * (rows + 2),
        notes,
        barmode="stack",
        xaxis={"range": [0, whole], "visible": False, "fixedrange": True},
        yaxis={"range": [-rows - 0.6, 1.2], **parts.ROWS},
        margin={"l": 4, "r": 4, "t": 4, "b": 4},
    )
    return {"data": data, "layout": layout}


#: What the parts that are shown as one are called, behind their number; they come last whatever their sum.
_OTHERS = " others"
#: Share of a whole from which on a part stands alone.
_ALONE = 0.02


def small_together(parts_of: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Parts of a whole, those too small to be seen as one; and a sentence that names them.

    Examples
    --------
    >>> found, said = small_together({"a": 0.97, "b": 0.018, "c": 0.012})
    >>> list(found), said.replace(chr(160), " ")
    (['a', '2 others'], ' Others, each under 2 %: b and c.')
    """
    whole = sum(map(point, parts_of.values()))
    small = [name for name, part in parts_of.items() if 0 < point(part) < _ALONE * whole]
    if not small[1:]:
        return dict(parts_of), ""
    kept = {name: part for name, part in parts_of.items() if name not in small}
    total = sum(point(parts_of[name]) for name in small)  # of medians: the ends of intervals do not add up
    return {**kept, f"{len(small)}{_OTHERS}": total}, f" Others, each under 2\u00a0%: {listed(small)}."


def _lines(name: str, color: str, figures: tuple[str, str], y: float) -> list[Spec]:
    """A part of a legend that says its value; the interval stands beside it, or below where both are too long."""
    said, band = figures
    value = f'<span style="color:{color}">\u25a0</span> {plain(name)}  <b>{said}</b>'
    if not band:
        return [parts.note(value, y)]
    if len(f"{plain(name)}  {said}  {band}") > _LINE_CHARACTERS:
        return [parts.note(value, y), parts.note(f"\u2003{band}", y - 1.0)]
    return [parts.note(f"{value}  {band}", y)]
