"""Plots of predictions beside measurements as plotly specifications."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import NEUTRAL, Spec, plain, rounded
from computeledger.questions.row_words import row_words, source_address
from computeledger.questions.wording import percent, with_interval_words, words
from computeledger.validation.compare import Comparison, Deviation, deviations
from computeledger.validation.suspects import COLUMN

#: Groups of a plot that get a colour and a mark of their own; the smaller ones share a neutral one.
MOST_GROUPS = 8
COLORS = palette.GROUPS
#: Height of a scatter plot in pixels.
PLOT_HEIGHT = 520
#: Letters of a name beside a row.
LONGEST_NAME = 31
#: Beyond this many points the interval whiskers turn fainter.
CROWD = 300
#: Quantities in words; another one is shown by its own name.
_QUANTITIES = {
    "step": "steps",
    "tpot": "time per output token",
    "ttft": "time to first token",
    "output_tokens_per_s_per_gpu": "output tokens/s per GPU",
    "input_tokens_per_s_per_gpu": "input tokens/s per GPU",
    "total_tokens_per_s_per_gpu": "all tokens/s per GPU",
    "decode_output_tokens_per_s_per_gpu": "decode tokens/s per GPU",
    "memory_bytes": "memory of serving",
    "memory": "peak memory of training",
    "n_nodes": "nodes",
}


def quantity_words(name: str) -> str:
    """Name of a measured quantity as people read it."""
    return _QUANTITIES.get(name, name.replace("_", " "))


def scatter_figure(
    comparison: Comparison, quantity: str, column: str, is_typical: bool = False, known: Sequence[str] = ()
) -> Spec:
    """Predicted over measured, log-log, a colour and a mark per value of a column, intervals as whiskers.

    A typical interval is one band around the diagonal instead: what lies in it, an interval of that width holds.
    The ``known`` values have the first colours, whichever of them are drawn.

    Examples
    --------
    >>> comparison = Comparison([{"chip": "a"}], {"tpot": np.ones(1)}, {"tpot": np.ones((1, 3))}, {})
    >>> len(scatter_figure(comparison, "tpot", "chip")["data"])
    3
    """
    found = deviations(comparison, quantity)
    unit = comparison.units.get(quantity, "")
    ends = [value for one in found for value in (one.measured, one.predicted[0], one.predicted[4])]
    axis = parts.unit_axis(ends, unit, 0.08)
    axis = _even_seconds(axis) if unit == "s" and np.diff(axis["range"])[0] > _WIDE_AXIS else _few(axis)
    groups = _groups(comparison, found, column, (known, _MOST_TYPICAL if is_typical else MOST_GROUPS))
    factors = _typical(found) if is_typical else (0.8, 1.2)
    low, high = axis["range"]
    band, line = _diagonal(low, high, factors)
    data = [band]
    leads = list(dict.fromkeys(_lead(comparison, one) for one in found))
    by_size = sorted(groups.items(), key=lambda one: (one[1][0] != MOST_GROUPS - 1, -len(one[1][1])))
    for name, (place, members) in by_size:  # the many and the rest behind the few
        points = _points(comparison, members, unit, (name, place, len(found)))
        if any(leads):
            points["customdata"] = [leads.index(_lead(comparison, one)) for one in members]
        if is_typical:
            points["legendrank"] = _LAST if place == MOST_GROUPS - 1 else _LAST - 1
            points["marker"] |= {"size": _TYPICAL_PX, "line": {"width": 0.5, "color": _RIM}}
        data.append({key: part for key, part in points.items() if key != "error_y" or not is_typical})
    data.append(line)
    layout = parts.layout(
        PLOT_HEIGHT,
        [parts.corner("predicted ↑"), _typical_note(found) if is_typical else _band_note(axis["range"][1], "± 20 %")],
        xaxis=axis | {"title": {"text": f"measured: {quantity_words(quantity)}"}, "constrain": "domain"},
        yaxis=dict(axis),
        showlegend=len(groups) > 1,
        legend=parts.LEGEND,
        margin={"l": 8, "r": 12, "t": 24, "b": 48},
    )
    if any(leads):
        layout["meta"] = {"leads": leads}
    return {"data": data, "layout": layout}


def _lead(comparison: Comparison, one: Deviation) -> str:
    """Where a figure was published, which its mark leads to."""
    return source_address(comparison.rows[one.index].get("url", ""))


#: Ticks of an axis, at most.
_MOST_TICKS = 4
#: Decades of an axis from which on not each has a tick.
_MOST_DECADES = 6
#: Decades from which on an axis of times has ticks that lie evenly, in seconds, instead of whole minutes.
_WIDE_AXIS = 4.0


def _even_seconds(axis: Spec) -> Spec:
    """The axis of a wide range of times with powers of ten of a second, equally far apart.

    Examples
    --------
    >>> [text.replace(chr(160), " ") for text in _even_seconds({"range": [-2.4, 3.5]})["ticktext"]]
    ['10 ms', '100 ms', '1 s', '10 s', '100 s', '1000 s']
    """
    low, high = axis["range"]
    step = math.ceil((high - low) / _MOST_DECADES)
    powers = range(step * math.ceil(low / step), math.floor(high) + 1, step)
    said = [f"{10.0**one:g}\u00a0s" if one >= 0 else f"{10.0 ** (one + 3):g}\u00a0ms" for one in powers]
    return axis | {"tickvals": [10.0**one for one in powers], "ticktext": said}


def _few(axis: Spec) -> Spec:
    """The axis with the roundest of its ticks: powers of ten, or else three times those too.

    Examples
    --------
    >>> _few({"tickvals": [30, 40, 50, 70, 100, 150], "ticktext": ["30", "40", "50", "70", "100", "150"]})["ticktext"]
    ['30', '100']
    """
    ticks = list(zip(axis["tickvals"], axis["ticktext"], strict=True))
    for leads in ("1", "13") if len(ticks) > _MOST_TICKS else ():
        kept = [one for one in ticks if f"{one[0]:e}"[0] in leads and f"{one[0]:.1e}"[2] == "0"]
        if len(kept) > 1:
            return axis | {"tickvals": [value for value, _ in kept], "ticktext": [text for _, text in kept]}
    return axis


#: Size of a mark on a chart that draws one band for all intervals.
_TYPICAL_PX = 7
#: Where a legend puts the rest: entries without a rank have 1000.
_LAST = 1001
#: What tells a mark from one below it.
_RIM = "rgba(255,255,255,0.45)"
#: Values of a crowded chart that have a colour of their own, and one for the rest: a phone has room for as many.
_MOST_TYPICAL = 4


def _groups(
    comparison: Comparison, found: Sequence[Deviation], column: str, drawn: tuple[Sequence[str], int]
) -> dict[str, tuple[int, list[Deviation]]]:
    """Points by value, each with its place among all of the comparison, so that no chart colours it otherwise.

    Known values have the first places, then the most frequent ones, in the order of their names; rare ones share the
    last. Not more values than ``drawn`` says have a place of their own.
    """
    known, most = drawn
    counts = Counter(row.get(column) or "not stated" for row in comparison.rows)
    ordered = sorted(counts, key=lambda value: (-counts[value], value))
    named = ordered if len(ordered) <= most else ordered[: most - 1]
    kept = [*known, *sorted(set(named) - set(known))]
    by_value: dict[str, list[Deviation]] = {}
    for one in found:
        by_value.setdefault(comparison.rows[one.index].get(column) or "not stated", []).append(one)
    out = {value: (place, by_value[value]) for place, value in enumerate(kept) if value in by_value and value in named}
    rare = sorted(by_value.keys() - out.keys())
    if rare:
        out[f"{len(rare)} others"] = MOST_GROUPS - 1, [one for value in rare for one in by_value[value]]
    return out


def _typical(found: Sequence[Deviation]) -> tuple[float, float]:
    """How far above and below what was measured the predicted median may lie for its interval to hold it."""
    middle = np.array([one.predicted[2] for one in found])
    low, high = (np.array([one.predicted[end] for one in found]) for end in (0, 4))
    return float(np.median(middle / high)), float(np.median(middle / low))


def _diagonal(low: float, high: float, factors: tuple[float, float]) -> list[Spec]:
    ends = [10**low, 10**high]
    band = [end * factor for factor, order in zip(factors[::-1], (1, -1), strict=True) for end in ends[::order]]
    return [
        {"type": "scatter", "mode": "lines", "x": rounded([*ends, *ends[::-1]]), "y": rounded(band), "fill": "toself",
         "fillcolor": parts.faint(NEUTRAL, 0.22), "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False},
        {"type": "scatter", "mode": "lines", "x": rounded(ends), "y": rounded(ends), "hoverinfo": "skip",
         "line": {"color": NEUTRAL, "width": 1.5}, "showlegend": False},
    ]  # fmt: skip


def _band_note(high: float, text: str) -> Spec:
    return {"text": text, "x": high, "y": high, "xanchor": "right", "yanchor": "top", "yshift": -18, "xshift": -6,
            "showarrow": False, "font": {"size": 12}}  # fmt: skip


def _typical_note(found: Sequence[Deviation]) -> Spec:
    """What the band means, in the corner that measured and predicted leave free."""
    width = float(np.median([one.predicted[4] / one.predicted[0] for one in found]))
    return {
        "text": f"grey: 90\u00a0% range,<br>a factor of {math.sqrt(width):.2g} either way", "x": 0.99,
        "xref": "paper", "xanchor": "right", "y": 0.012, "yref": "paper", "yanchor": "bottom", "showarrow": False,
        "align": "right", "font": {"size": 12},
    }  # fmt: skip


def _points(comparison: Comparison, members: list[Deviation], unit: str, drawn: tuple[str, int, int]) -> Spec:
    name, place, crowd = drawn
    color = COLORS[place] if place < MOST_GROUPS - 1 or not name.endswith("others") else NEUTRAL
    few = crowd <= CROWD
    marker, whisker = (parts.faint(color, alpha) for alpha in ((0.9, 0.55) if few else (0.8, 0.15)))
    return {
        "type": "scatter", "mode": "markers", "name": f"{plain(_elided(name))} ({len(members)})",
        "x": rounded(one.measured for one in members), "y": rounded(one.predicted[2] for one in members),
        "error_y": {
            "type": "data", "symmetric": False, "thickness": 1, "width": 0, "color": whisker,
            "array": rounded(one.predicted[4] - one.predicted[2] for one in members),
            "arrayminus": rounded(one.predicted[2] - one.predicted[0] for one in members),
        },
        "hovertext": [_hover(comparison, one, unit) for one in members],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "marker": {"color": marker, "symbol": parts.MARKS[place % len(parts.MARKS)],
                   "size": 8 if few else 6, "line": {"width": 0}},
    }  # fmt: skip


def _hover(comparison: Comparison, one: Deviation, unit: str) -> str:
    row = comparison.rows[one.index]
    doubt = f"<br>in doubt: {plain(row[COLUMN])}" if row.get(COLUMN, "no") != "no" else ""
    id_ = f"<br><i>{plain(row['id'])}</i>" if row.get("id") else ""
    ends = dict(zip(("p05", "p50", "p95"), one.predicted[::2], strict=True))
    return (
        f"<b>{plain(row_words(row))}</b><br>measured {words(one.measured, unit)}, predicted "
        f"{with_interval_words(ends, unit)}, {one.ratio:.2f} times{doubt}{id_}"
    )


def slices_figure(comparison: Comparison, quantity: str, column: str, called: str = "") -> Spec:
    """Ratio of predicted to measured by value of a column: the median, the middle half, and from p05 to p95.

    Examples
    --------
    >>> comparison = Comparison([{"chip": "a"}], {"tpot": np.ones(1)}, {"tpot": np.ones((1, 3))}, {})
    >>> len(slices_figure(comparison, "tpot", "chip")["data"])
    5
    """
    ratios: dict[str, list[float]] = {}
    for one in deviations(comparison, quantity):
        ratios.setdefault(comparison.rows[one.index].get(column) or "not stated", []).append(one.ratio)
    names = sorted(ratios, key=lambda name: len(ratios[name]))
    levels = {name: np.quantile(ratios[name], [0.05, 0.25, 0.5, 0.75, 0.95]).tolist() for name in names}
    low = min([0.5, *(max(one[0], 0.05) for one in levels.values())])
    high = max([2.0, *(min(one[4], 20.0) for one in levels.values())])
    data = _ratio_band(len(names))
    notes = []
    color = palette.PLAIN
    for row, name in enumerate(names):
        p05, p25, p50, p75, p95 = levels[name]
        for x, shade, width in (((p05, p95), 1, 2), ((p25, p75), palette.HALF, 9)):
            data.append({"type": "scatter", "mode": "lines", "x": rounded(x), "y": [row, row], "hoverinfo": "skip",
                         "line": {"color": parts.faint(color, shade), "width": width}})  # fmt: skip
        error = float(np.median(np.abs(np.array(ratios[name]) - 1)))
        data.append({
            "type": "scatter", "mode": "markers", "x": rounded([p50]), "y": [row],
            "marker": {"color": color, "size": 11, "line": {"width": 0}},
            "hovertemplate": f"{plain(name)}: median {p50:.2f}, half within {p25:.2f} – {p75:.2f}<extra></extra>",
        })  # fmt: skip
        said = f"{percent(error, 2)} off, {len(ratios[name])} figures"
        notes.append(parts.note(f"<b>{plain(_elided(name))}</b>   {said}", row + 0.3))
    notes.append({"text": "within ±20\u00a0%", "x": 0, "y": len(names) - 0.35, "yanchor": "bottom",
                  "showarrow": False, "font": {"size": 12}})  # fmt: skip
    axis = parts.log_axis([low, high], "{:g}×".format, 0.03)
    layout = parts.layout(
        max(min(96 * len(names), PLOT_HEIGHT - 56), 46 * len(names)) + 92,
        notes,
        xaxis=axis
        | {"title": {"text": f"{called or quantity_words(quantity)}:<br>predicted over measured, right at 1\u00d7"}},
        yaxis={"range": [-0.5, len(names) - 0.35], **parts.ROWS},
        margin={"l": 4, "r": 12, "t": 24, "b": 64},
    )
    return {"data": data, "layout": layout}


#: How far the mark of what was measured reaches to either side of a row, and the dotted marks above it.
_TICK = 0.17
#: How far dotted marks reach below it.
_NEAR = 0.4


def _elided(name: str) -> str:
    """A long name without its middle: what tells sources apart stands at both ends."""
    half = (LONGEST_NAME - 1) // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]}\u2026{name[-half:]}"


def _ratio_band(n_rows: int) -> list[Spec]:
    """On each row a mark of what was measured and dotted ones around it, none of which runs through words."""
    line = [end for row in range(n_rows) for end in (row - _TICK, row + _TICK, None)]
    around = [end for row in range(n_rows) for end in (row - _NEAR, row + _TICK, None)]
    return [
        {"type": "scatter", "mode": "lines", "x": [0.8, 0.8, None] * n_rows + [1.2, 1.2, None] * n_rows,
         "y": around * 2, "hoverinfo": "skip", "line": {"color": NEUTRAL, "width": 1.5, "dash": "dot"}},
        {"type": "scatter", "mode": "lines", "x": [1, 1, None] * n_rows, "y": line, "hoverinfo": "skip",
         "line": {"color": NEUTRAL, "width": 1.5}},
    ]  # fmt: skip


def columns_to_color(comparison: Comparison, asked: Sequence[str]) -> list[str]:
    """Columns that a plot can tell apart: those asked for, else the usual ones that have more than one value.

    Examples
    --------
    >>> rows = [{"mode": "agg", "backend": "a"}, {"mode": "agg", "backend": "b"}]
    >>> columns_to_color(Comparison(rows, {}, {}, {}), [])
    ['backend']
    """
    usual = ("mode", "backend", "system", "model_path", "source", "hardware", "model", "precision")
    several = [name for name in usual if len({row.get(name, "") for row in comparison.rows} - {""}) > 1][:5]
    if any(row.get(COLUMN, "no") != "no" for row in comparison.rows):
        several.append(COLUMN)
    first: Mapping[str, Any] = comparison.rows[0] if comparison.rows else {}
    telling = [name for name in asked if len({row.get(name, "") for row in comparison.rows}) > 1]
    return telling or list(asked) or several or list(first)[:1] or [COLUMN]
