"""Plots as plotly specifications: plain dictionaries that the report and the web app draw alike.

Nothing here imports plotly. A specification carries no theme: whoever draws it adds :func:`template`, so that one
specification follows light and dark. Every text that a plan may contain is escaped, because plotly reads it as markup.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from computeledger.arrays import Num, median
from computeledger.economics.ledger import Ledger
from computeledger.facts.load import load_accelerator
from computeledger.interfaces.documents import bound_fractions, operations_document, option_document
from computeledger.interfaces.tables import point
from computeledger.interfaces.wording import PHASE_SHORT, input_unit, input_words, span, words
from computeledger.physics.blackboard import ridge_flop_per_byte
from computeledger.physics.roofline import BOUNDS, total_s
from computeledger.units import format_percent, format_si, format_usd
from computeledger.workloads.result import quantity

Spec = dict[str, Any]

#: Colours of Okabe and Ito that stand out from white and from near-black (3:1); the purple is a shade darker.
PHASE_COLORS = {"pretraining": "#0072B2", "rl": "#D55E00", "inference": "#009E73", "experiments": "#B5648F"}
#: Text on a bar of that colour (4.5:1).
ON_COLOR = {"#0072B2": "#FFFFFF", "#D55E00": "#000000", "#009E73": "#000000", "#B5648F": "#000000"}
BOUND_COLORS = {"compute": "#46688A", "memory": "#8FA9C2", "network": "#A87B2D", "overhead": "#D8BC86"}
ON_BOUND = {"compute": "#FFFFFF", "memory": "#000000", "network": "#000000", "overhead": "#000000"}
SERIES = ("#009E73", "#0072B2", "#D55E00", "#B5648F")
NEUTRAL = "#7A838D"
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
_MARKS = ("circle", "diamond", "square", "triangle-up", "cross", "star", "hexagon", "triangle-down")

#: What a plot must not do: take the finger's scroll, phone home, or show a tool bar.
CONFIG = {"responsive": True, "displayModeBar": False, "scrollZoom": False, "doubleClick": False, "showTips": False,
          "typesetMath": False}


def template(dark: bool = False) -> Spec:
    """Colours of text, grid and hover boxes, for the ``template`` of a layout.

    Parameters
    ----------
    dark : bool
        Whether the page is dark.

    Returns
    -------
    dict
        A plotly template.

    Examples
    --------
    >>> template(dark=True)["layout"]["font"]["color"]
    '#E6E9EC'
    """
    ink, grid, card = ("#E6E9EC", "#31383F", "#1D2227") if dark else ("#1B2026", "#E4E7EA", "#FFFFFF")
    axis = {"gridcolor": grid, "linecolor": grid, "zerolinecolor": grid, "tickcolor": grid, "automargin": True}
    return {
        "layout": {
            "font": {"family": FONT, "size": 13, "color": ink},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {"bgcolor": card, "bordercolor": grid, "font": {"color": ink, "family": FONT}},
        }
    }


def shares_figure(document: Mapping[str, Any]) -> Spec:
    """Shares of the ledgers in FLOP beside their shares in GPU-time.

    Two stacked bars joined by ribbons show how the life-cycle shears between the currencies; below, each ledger's
    two shares with their 90 % intervals.

    Parameters
    ----------
    document : mapping
        Of :func:`computeledger.interfaces.documents.plan_document`.

    Returns
    -------
    dict
        A plotly figure.

    Examples
    --------
    >>> half = {"pretraining": 0.5, "inference": 0.5}
    >>> len(shares_figure({"shares": {"flop": half, "gpu_time": half}})["data"])
    12
    """
    flop, time = document["shares"]["flop"], document["shares"]["gpu_time"]
    names = list(flop)
    bars_px, row_px, gap_px = 190, 62, 20
    height = bars_px + gap_px + row_px * len(names)
    data: list[Spec] = []
    notes: list[Spec] = []
    starts = [0.0, 0.0]
    for name in names:
        ends = [start + point(share) for start, share in zip(starts, (flop[name], time[name]), strict=True)]
        data += [_ribbon(name, starts, ends), *_segments(name, starts, ends)]
        starts = ends
    for row, name in enumerate(reversed(names)):
        color, shares = PHASE_COLORS[name], (flop[name], time[name])
        for level, share, mark in ((row + 0.02, shares[0], "circle-open"), (row - 0.22, shares[1], "circle")):
            data += _interval_marks(share, level, color, mark, "fraction")
        text = f"<b>{PHASE_SHORT[name]}</b>  ○ FLOP {_percent(shares[0])}   ● GPU-time {_percent(shares[1])}"
        notes.append(_note(text, row + 0.4))
    for text, y in (("share of FLOP", 1.38), ("share of GPU-time", -0.4)):
        notes.append({**_note(text, y), "yref": "y2"})
    ticks = [0, 0.25, 0.5, 0.75, 1]
    layout = _layout(height + 50, notes) | {
        "barmode": "overlay",
        "xaxis": {"range": [-0.005, 1.02], "tickvals": ticks, "ticktext": [_percent(x) for x in ticks], "zeroline": False},
        "yaxis": {"range": [-0.5, len(names) - 0.4], "domain": [0, row_px * len(names) / height], **_BARE},
        "yaxis2": {"range": [-0.7, 1.7], "domain": [(row_px * len(names) + gap_px) / height, 1], "anchor": "x", **_BARE},
    }  # fmt: skip
    return {"data": data, "layout": layout}


_BARE = {"showgrid": False, "zeroline": False, "showticklabels": False, "fixedrange": True}


def _percent(share: Any) -> str:
    return format_percent(point(share)).replace(" ", "\u00a0")


def _ribbon(name: str, starts: Sequence[float], ends: Sequence[float]) -> Spec:
    """A curved band from a ledger's segment of the upper bar to that of the lower one."""
    t = np.linspace(0, 1, 17)
    ease = t * t * (3 - 2 * t)
    left, right = (one[0] + (one[1] - one[0]) * ease for one in (starts, ends))
    return {
        "type": "scatter", "mode": "lines", "x": _list([*left, *right[::-1]]), "y": _list(0.76 - 0.52 * np.r_[t, t[::-1]]),
        "yaxis": "y2", "fill": "toself", "fillcolor": _faint(PHASE_COLORS[name], 0.25), "line": {"width": 0},
        "hoverinfo": "skip",
    }  # fmt: skip


def _segments(name: str, starts: Sequence[float], ends: Sequence[float]) -> list[Spec]:
    color = PHASE_COLORS[name]
    out = []
    for y, currency, start, end in zip((1, 0), ("FLOP", "GPU-time"), starts, ends, strict=True):
        size = end - start
        text = f"{PHASE_SHORT[name]} {size:.0%}" if size > 0.3 else f"{size:.0%}" if size > 0.09 else ""
        out.append({
            "type": "bar", "orientation": "h", "x": [size], "base": [start], "y": [y], "width": [0.48], "yaxis": "y2",
            "marker": {"color": color, "line": {"width": 0}}, "text": [text], "textposition": "inside", "textangle": 0,
            "insidetextanchor": "middle", "constraintext": "both", "insidetextfont": {"color": ON_COLOR[color]},
            "hovertemplate": f"{PHASE_SHORT[name]}: {_percent(size)} of {currency}<extra></extra>",
        })  # fmt: skip
    return out


def phases_figure(ledger: Ledger, measure: str = "gpu_hours") -> Spec:
    """GPU-hours or cost of each ledger as a distribution with its 90 % interval and median.

    Parameters
    ----------
    ledger : Ledger
        With its samples.
    measure : str
        ``gpu_hours`` or ``usd``.

    Returns
    -------
    dict
        A plotly figure.

    Examples
    --------
    >>> phases_figure.__name__
    'phases_figure'
    """
    unit = {"gpu_hours": "GPU-hours", "usd": "USD"}[measure]
    data: list[Spec] = []
    notes: list[Spec] = []
    ends: list[float] = []
    for row, (name, phase) in enumerate(reversed(ledger.phases.items())):
        value = getattr(phase, measure)
        summary, color = quantity(value, unit), PHASE_COLORS[name]
        data += [*_density(value, row, color), *_interval_marks(summary, row - 0.08, color, "circle", unit)]
        band = span(summary, unit).replace("\u00a0GPU-hours", "")
        middle = words(point(summary), unit).replace("\u00a0GPU-hours", "")
        notes.append(_note(f"<b>{PHASE_SHORT[name]}  {middle}</b>" + (f"   {band}" if band else ""), row - 0.34))
        ends += [float(x) for x in np.quantile(np.asarray(value, float), [0.001, 0.999]) if x > 0]
    title = {"gpu_hours": "GPU-hours", "usd": "cost"}[measure]
    layout = _layout(86 * len(ledger.phases) + 60, notes) | {
        "xaxis": _log_axis(ends, lambda x: format_si(x) if measure == "gpu_hours" else format_usd(x)) | {"title": {"text": title}},
        "yaxis": {"range": [-0.55, len(ledger.phases) - 0.35], **_BARE},
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _density(value: Num, row: float, color: str) -> list[Spec]:
    """The samples' distribution over the logarithm, as a low hill."""
    array = np.asarray(value, float)
    if array.ndim == 0 or np.ptp(array) == 0 or array.min() <= 0:
        return []
    logs = np.log10(array)
    low, high = np.quantile(logs, [0.002, 0.998])
    if high - low < 1e-6:
        return []
    counts, edges = np.histogram(logs, bins=40, range=(low, high))
    kernel = np.array([1.0, 4, 10, 16, 19, 16, 10, 4, 1])
    smooth = np.convolve(np.pad(counts, 5), kernel / kernel.sum(), mode="same")
    width = edges[1] - edges[0]
    centres = np.arange(-5, len(counts) + 5) * width + edges[0] + width / 2
    hill = row + 0.03 + 0.5 * smooth / smooth.max()
    return [{
        "type": "scatter", "mode": "lines", "x": _list(10**centres), "y": _list(hill), "line": {"color": color, "width": 1.5},
        "fill": "toself", "fillcolor": _faint(color, 0.22), "hoverinfo": "skip",
    }]  # fmt: skip


def roofline_figure(ledger: Ledger) -> Spec:
    """Operations of every phase under the roof of its accelerator, log-log.

    Parameters
    ----------
    ledger : Ledger
        With the operations of its phases.

    Returns
    -------
    dict
        A plotly figure; points grow with their share of the step's time.

    Examples
    --------
    >>> roofline_figure.__name__
    'roofline_figure'
    """
    data: list[Spec] = []
    xs: list[float] = []
    ys: list[float] = []
    for name, phase in ledger.phases.items():
        for index, (step, operations) in enumerate(phase.operations.items()):
            placed = [one for one in operations_document(operations) if one["flop"] > 0 and one["bytes"] > 0]
            if not placed:
                continue
            x = [one["flop"] / one["bytes"] for one in placed]
            y = [one["flop"] / point(one["time_s"]) for one in placed]
            mark = {"training": "square", "rollout decode": "diamond"}.get(step, _MARKS[index * 3 % len(_MARKS)])
            data.append(_operation_trace(_plain(step), PHASE_COLORS[name], mark, placed, x, y))
            xs, ys = [*xs, *x], [*ys, *y]
    accelerators = list(dict.fromkeys(one.accelerator for one in ledger.phases.values() if one.operations))
    roofs: list[Spec] = []
    notes: list[Spec] = []
    for place, accelerator in enumerate(accelerators):
        lines, labels, top = _roofs(accelerator, place, xs)
        roofs, notes, ys = [*roofs, *lines], [*notes, *labels], [*ys, *top]
    x_axis = _log_axis(xs, lambda x: format_si(x), 0.35) | {"title": {"text": "intensity, FLOP per byte of HBM"}}
    y_axis = _log_axis(ys, lambda y: format_si(y, "FLOP/s"), 0.3)
    layout = _layout(480, notes) | {"xaxis": x_axis, "yaxis": y_axis, "showlegend": True, "legend": _LEGEND}
    layout["margin"] = {"l": 8, "r": 12, "t": 56, "b": 48}
    return {"data": [*roofs, *data], "layout": layout}


_LEGEND = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom", "itemclick": False, "itemdoubleclick": False}  # fmt: skip


def _operation_trace(step: str, color: str, mark: str, placed: list[Spec], x: list[float], y: list[float]) -> Spec:
    biggest = max(range(len(placed)), key=lambda index: placed[index]["share_fraction"])
    hover = [
        f"<b>{step}: {_plain(one['name'])}</b><br>{_percent(one['share_fraction'])} of the step, bound by {one['bound']}"
        f"<br>{words(one['flop'], 'FLOP')}, {words(one['bytes'], 'B')}, {words(point(one['time_s']), 's')}"
        for one in placed
    ]
    return {
        "type": "scatter", "mode": "markers+text", "name": step, "x": _list(x), "y": _list(y), "hovertext": hover,
        "hovertemplate": "%{hovertext}<extra></extra>",
        "text": [_plain(one["name"]) if index == biggest else "" for index, one in enumerate(placed)],
        "textposition": "bottom center", "textfont": {"size": 11}, "cliponaxis": False,
        "marker": {
            "color": _faint(color, 0.75), "symbol": mark, "line": {"color": color, "width": 1.5},
            "size": [round(8 + 20 * math.sqrt(one["share_fraction"]), 1) for one in placed],
        },
    }  # fmt: skip


def _roofs(accelerator: str, place: int, xs: list[float]) -> tuple[list[Spec], list[Spec], list[float]]:
    """Roof lines of a chip by precision, their labels, and the heights they reach."""
    chip = load_accelerator(accelerator)
    bandwidth = chip.hbm_bytes_per_s.value
    lines, notes, heights = [], [], []
    low = min([*xs, 10.0]) / 2
    for precision, fact in chip.peak_flop_per_s.items():
        ridge = float(ridge_flop_per_byte(fact.value, bandwidth))
        high = max([*xs, ridge]) * 4
        first = precision == "bf16"
        label = f"{chip.id} {precision}: {words(fact.value, 'FLOP/s')}, {words(bandwidth, 'B/s')}, ridge {ridge:.0f} FLOP/byte"
        lines.append({
            "type": "scatter", "mode": "lines", "x": [low if first else _ridge(chip), ridge, high],
            "y": [fact.value * (low if first else _ridge(chip)) / ridge, fact.value, fact.value], "showlegend": False,
            "line": {"color": NEUTRAL, "width": 2 if first else 1.2, "dash": ("solid", "dash", "dot")[place % 3] if first else "dot"},
            "hovertemplate": f"{label}<extra></extra>",
        })  # fmt: skip
        name = f"{chip.name} {precision}" if first else precision
        notes.append({
            "x": math.log10(ridge) if first else math.log10(high), "y": math.log10(fact.value), "showarrow": False,
            "text": f"{_plain(name)}, ridge {ridge:.0f}" if first else _plain(name), "xanchor": "left" if first else "right",
            "yanchor": "bottom", "font": {"size": 11},
        })  # fmt: skip
        heights.append(fact.value * 1.4)
    return lines, notes, heights


def _ridge(chip: Any) -> float:
    return float(ridge_flop_per_byte(chip.peak_flop_per_s["bf16"].value, chip.hbm_bytes_per_s.value))


def bounds_figure(ledger: Ledger) -> Spec:
    """What binds each step: its time split into compute, memory, network and overhead.

    Parameters
    ----------
    ledger : Ledger
        With the operations of its phases.

    Returns
    -------
    dict
        A plotly figure.

    Examples
    --------
    >>> bounds_figure.__name__
    'bounds_figure'
    """
    steps = [(name, step, one) for name, phase in ledger.phases.items() for step, one in phase.operations.items()]
    data: list[Spec] = []
    notes: list[Spec] = []
    parts = [bound_fractions(operations) for _, _, operations in steps]
    rows = list(range(len(steps)))[::-1]
    for bound in BOUNDS:
        shares = [one[bound] for one in parts]
        color = BOUND_COLORS[bound]
        data.append({
            "type": "bar", "orientation": "h", "name": bound, "x": shares, "y": rows, "width": [0.42] * len(rows),
            "marker": {"color": color}, "text": [f"{share:.0%}" if share > 0.1 else "" for share in shares], "textangle": 0,
            "textposition": "inside", "insidetextanchor": "middle", "insidetextfont": {"color": ON_BOUND[bound]},
            "hovertext": [_percent(share) for share in shares], "hovertemplate": f"{bound}: %{{hovertext}}<extra></extra>",
        })  # fmt: skip
    for row, (name, step, operations) in zip(rows, steps, strict=True):
        label = _plain(step) if step.lower().startswith(name) else f"{PHASE_SHORT[name]}, {_plain(step)}"
        notes.append(_note(f"<b>{label}</b>   {words(median(total_s(operations)), 's')}", row + 0.36))
    layout = _layout(60 * len(steps) + 70, notes) | {
        "barmode": "stack",
        "showlegend": True,
        "legend": _LEGEND | {"traceorder": "normal"},
        "xaxis": {"range": [0, 1.0], "visible": False, "fixedrange": True},
        "yaxis": {"range": [-0.3, len(steps) - 0.4], **_BARE},
    }
    layout["margin"] = {"l": 4, "r": 4, "t": 40, "b": 4}
    return {"data": data, "layout": layout}


def speed_figure(ledger: Ledger) -> Spec:
    """Cost of a million output tokens against the speed one user sees, over batches of each inference engine.

    Parameters
    ----------
    ledger : Ledger
        With the curves of its inference phase.

    Returns
    -------
    dict
        A plotly figure; the ring is the batch in use, its whiskers the 90 % intervals.

    Examples
    --------
    >>> speed_figure.__name__
    'speed_figure'
    """
    phase = ledger.phases["inference"]
    data: list[Spec] = []
    notes: list[Spec] = []
    xs: list[float] = []
    ys: list[float] = []
    for index, (label, curve) in enumerate(phase.curves.items()):
        color = SERIES[index % len(SERIES)]
        options = [option_document(one) for one in curve.options]
        x, y = ([one[key] for one in options] for key in ("output_tokens_per_s_per_user", "usd_per_mtok_output"))
        speed = quantity(1 / np.asarray(phase.details[f"{label}: tpot_s"][0]), "tokens/s")
        cost = quantity(phase.details[f"{label}: usd_per_mtok_output"][0], "USD/Mtok")
        hover = [f"batch {one['batch']}<br>{words(one['output_tokens_per_s_per_user'], 'tokens/s')} per user<br>"
                 f"{words(one['usd_per_mtok_output'], 'USD/Mtok')} output" for one in options]  # fmt: skip
        data.append({
            "type": "scatter", "mode": "lines+markers", "name": _plain(label), "x": _list(x), "y": _list(y), "hovertext": hover,
            "line": {"color": color, "width": 2}, "marker": {"size": 5, "color": color, "symbol": _MARKS[index % len(_MARKS)]},
            "hovertemplate": "%{hovertext}<extra></extra>",
        })  # fmt: skip
        data.append(_chosen(speed, cost, color, f"{_plain(label)}: batch {format_si(curve.batch)} in use"))
        ends = [(options[0], "right", "bottom"), (options[-1], "left", "top")]
        notes += [
            {"x": math.log10(one["output_tokens_per_s_per_user"]), "y": math.log10(one["usd_per_mtok_output"]), "xanchor": anchor,
             "text": f"batch {format_si(one['batch'])}", "showarrow": False, "yanchor": side, "font": {"size": 11}}
            for one, anchor, side in ends
        ]  # fmt: skip
        xs += [*x, point(speed, "p05"), point(speed, "p95")]
        ys += [*y, point(cost, "p05"), point(cost, "p95")]
    layout = _layout(420, notes) | {
        "xaxis": _log_axis(xs, lambda value: format_si(value), 0.12)
        | {"title": {"text": "output tokens/s per user (faster →)"}},
        "yaxis": _log_axis(ys, format_usd, 0.12),
        "showlegend": True,
        "legend": _LEGEND,
        "margin": {"l": 8, "r": 12, "t": 56, "b": 48},
    }
    return {"data": data, "layout": layout}


def _chosen(speed: Any, cost: Any, color: str, name: str) -> Spec:
    """The engine in use, ringed, with whiskers."""
    bars = {"type": "data", "symmetric": False, "color": color, "thickness": 1.5, "width": 4}
    x, y = point(speed), point(cost)
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": [x], "y": [y],
        "marker": {"size": 17, "symbol": "circle-open", "line": {"width": 3}, "color": color},
        "error_x": {**bars, "array": [point(speed, "p95") - x], "arrayminus": [x - point(speed, "p05")]},
        "error_y": {**bars, "array": [point(cost, "p95") - y], "arrayminus": [y - point(cost, "p05")]},
        "hovertemplate": f"{name}<br>{words(x, 'tokens/s')} per user, {words(y, 'USD/Mtok')}<extra></extra>",
    }  # fmt: skip


def drivers_figure(document: Mapping[str, Any], most: int = 8) -> Spec:
    """What drives the spread: rank correlation of each uncertain input with GPU-hours and with cost.

    Parameters
    ----------
    document : mapping
        Of :func:`computeledger.interfaces.documents.plan_document`.
    most : int
        How many inputs to show [-].

    Returns
    -------
    dict
        A plotly figure.

    Examples
    --------
    >>> one = {"name": "plan.price", "low": 2.0, "high": 4.0, "rank_correlation": {"gpu_hours": 0.0, "usd": 0.9}}
    >>> [trace["x"] for trace in drivers_figure({"drivers": [one]})["data"]]
    [[0.0], [0.9]]
    """
    drivers = document["drivers"][:most]
    rows = list(range(len(drivers)))[::-1]
    data: list[Spec] = []
    for key, name, shift, color in (
        ("gpu_hours", "GPU-hours", 0.02, PHASE_COLORS["pretraining"]),
        ("usd", "cost", -0.2, NEUTRAL),
    ):
        x = [round(one["rank_correlation"][key], 4) for one in drivers]
        data.append({
            "type": "bar", "orientation": "h", "name": name, "x": x, "y": [row + shift for row in rows],
            "width": [0.2] * len(rows), "marker": {"color": color},
            "hovertemplate": f"%{{x:+.2f}} with {name}<extra></extra>",
        })  # fmt: skip
    notes = [
        _note(
            f"<b>{_plain(input_words(one['name']))}</b>   {words(one['low'], unit)} – {words(one['high'], unit)}",
            row + 0.34,
        )
        for row, one in zip(rows, drivers, strict=True)
        for unit in [input_unit(one["name"])]
    ]
    reach = max([0.5, *(abs(x) for trace in data for x in trace["x"])]) * 1.05
    layout = _layout(56 * len(drivers) + 100, notes) | {
        "barmode": "overlay",
        "showlegend": True,
        "legend": _LEGEND,
        "xaxis": {"range": [-reach, reach], "zeroline": True, "zerolinewidth": 2, "tickformat": "+.1f", "fixedrange": True,
                  "title": {"text": "lowers ←  rank correlation  → raises"}},
        "yaxis": {"range": [-0.5, len(drivers) - 0.4], **_BARE},
        "margin": {"l": 4, "r": 4, "t": 40, "b": 48},
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _layout(height: float, notes: list[Spec]) -> Spec:
    return {
        "height": round(height), "autosize": True, "showlegend": False, "dragmode": False, "hovermode": "closest",
        "margin": {"l": 4, "r": 4, "t": 4, "b": 44}, "annotations": notes,
    }  # fmt: skip


def _note(text: str, y: float) -> Spec:
    """A line of text at the left edge, which stays readable at any width."""
    return {"text": text, "x": 0, "xref": "paper", "xanchor": "left", "y": y, "yref": "y", "yanchor": "middle",
            "showarrow": False, "align": "left"}  # fmt: skip


def _interval_marks(value: Any, y: float, color: str, mark: str, unit: str) -> list[Spec]:
    """The 90 % interval as a band, the 80 % interval as a darker one, the median as a mark."""
    hover = f"{words(point(value), unit)}<br>{span(value, unit)}<extra></extra>"
    bands = [
        {"type": "scatter", "mode": "lines", "x": [point(value, low), point(value, high)], "y": [y, y], "hoverinfo": "skip",
         "line": {"color": _faint(color, shade), "width": 9}}
        for low, high, shade in (("p05", "p95", 0.3), ("p10", "p90", 0.35))
        if point(value, low) < point(value, high)
    ]  # fmt: skip
    middle = {
        "type": "scatter", "mode": "markers", "x": [point(value)], "y": [y], "hovertemplate": hover,
        "marker": {"symbol": mark, "size": 12, "color": color, "line": {"color": color, "width": 2.5}},
    }  # fmt: skip
    return [*bands, middle]


def _log_axis(values: list[float], label: Callable[[float], str], pad: float = 0.06) -> Spec:
    """A logarithmic axis over values, with ticks that read as people write numbers."""
    low, high = math.log10(min(values)) - pad, math.log10(max(values)) + pad
    steps = (1, 2, 5) if high - low < 1.6 else (1, 3) if high - low < 2.6 else (1,)
    every = max(1, math.ceil((high - low) / 6))
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks = [step * 10.0**decade for decade in decades if decade % every == 0 for step in steps]
    ticks = [tick for tick in ticks if low <= math.log10(tick) <= high]
    return {"type": "log", "range": [round(low, 4), round(high, 4)], "tickvals": ticks, "ticktext": [label(tick) for tick in ticks],
            "fixedrange": True, "zeroline": False}  # fmt: skip


def _faint(color: str, alpha: float) -> str:
    red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def _plain(text: str) -> str:
    """Text that plotly must not read as markup."""
    return html.escape(text, quote=False)


def _list(values: Any) -> list[float]:
    """Numbers with four digits, which a plot cannot show more of."""
    return [float(f"{float(value):.4g}") for value in values]
