"""Plots of the frontier as plotly specifications: compute, power and cost over time, steps, what fits where."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from computeledger.frontier.growth import scenario_words
from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import SERIES, Spec, rounded
from computeledger.questions.wording import point, show
from computeledger.units import format_si

#: A chance from which on a plot of years ends.
_SURE = 0.99


def _ticks(unit: str) -> Callable[[float], str]:
    """How the values of an axis are written: a power of ten without its empty digits."""
    return lambda value: re.sub(r"\.0+(?=e\d)", "", show(value, unit))


def cost_figure(document: Mapping[str, Any]) -> Spec:
    """Capital of known systems against their compute, and the system that was asked about."""
    known = document["known_systems"]
    needs = document["needs"]
    asked = (point(needs["h100e_8bit"]), point(needs["capex_usd"]))
    data: list[Spec] = [
        {"type": "scatter", "mode": "markers", "x": rounded(one["h100e_8bit"] for one in known), "name": "sites",
         "y": rounded(one["capex_usd"] for one in known), "text": [f"{one['name']}, {one['date']}" for one in known],
         "marker": {"color": palette.OTHER, "size": 8},
         "hovertemplate": "%{text}: %{x:.3~s} H100e, $%{y:.3~s}<extra></extra>"},
        {"type": "scatter", "mode": "markers", "x": [asked[0]], "y": [asked[1]], "name": "asked for",
         "marker": {"color": palette.CHOSEN, "size": 12, "symbol": "diamond"},
         "hovertemplate": "%{x:.3~s} H100e, $%{y:.3~s}<extra></extra>"},
    ]  # fmt: skip
    across = parts.log_axis([*(one["h100e_8bit"] for one in known), asked[0]], format_si)
    up = parts.log_axis([*(one["capex_usd"] for one in known), asked[1]], lambda value: show(value, "USD"))
    layout = parts.layout(
        340, [], showlegend=True, legend={**parts.LEGEND, "traceorder": "normal"},
        xaxis={**across, "title": {"text": "H100-equivalents, 8 bit"}}, yaxis=up,
    )  # fmt: skip
    layout["margin"] = {"l": 4, "r": 8, "t": 34, "b": 44}
    return {"data": data, "layout": layout}


def ahead_figure(document: Mapping[str, Any], target: float | None = None) -> Spec:
    """A record by quarter, and its forecast with the 90 % interval."""
    known, unit, color = document["known"], document["unit"], palette.PLAIN
    dates = document["dates"]
    data: list[Spec] = [
        {"type": "scatter", "mode": "lines", "x": [*dates, *reversed(dates)], "hoverinfo": "skip",
         "name": "90 % interval", "y": [*rounded(document["p95"]), *reversed(rounded(document["p05"]))],
         **parts.interval_band(color)},
        {"type": "scatter", "mode": "lines", "x": dates, "y": rounded(document["p50"]), "name": "forecast",
         "line": {"color": color, "width": 2, "dash": "dash"},
         "text": [show(value, unit) for value in document["p50"]], "hovertemplate": "%{x}: %{text}<extra></extra>"},
        {"type": "scatter", "mode": "lines", "x": known["dates"], "y": rounded(known["values"]),
         "name": "largest known", "line": {"color": palette.OTHER, "width": 2.8, "shape": "hv"},
         "text": [show(value, unit) for value in known["values"]], "hovertemplate": "%{x}: %{text}<extra></extra>"},
    ]  # fmt: skip
    if target is not None:
        data.append({
            "type": "scatter", "mode": "lines", "x": [known["dates"][0], dates[-1]], "y": [target, target],
            "name": "asked for", "hoverinfo": "skip", "line": {"color": palette.CHOSEN, "width": 1.5, "dash": "dot"},
        })  # fmt: skip
    every = [*known["values"], *document["p05"], *document["p95"], *([] if target is None else [target])]
    layout = parts.layout(
        340, [], showlegend=True, legend={**parts.LEGEND, "traceorder": "normal"},
        xaxis={"type": "date", "fixedrange": True}, yaxis=parts.log_axis(every, _ticks(unit)),
    )  # fmt: skip
    layout["margin"] = {"l": 4, "r": 8, "t": 34, "b": 44}
    return {"data": data, "layout": layout}


def chances_figure(rows: Sequence[Mapping[str, Any]], chosen: str) -> Spec:
    """The chance by the end of each year under each scenario, until the run is all but sure in all of them.

    Examples
    --------
    >>> rows = [{"scenario": "trend", "probability_by_year": [{"date": "2027-12-31", "probability": 0.5}]}]
    >>> chances_figure(rows, "trend")["data"][0]["y"]
    [0.5]
    """
    ends = [one["date"] for one in rows[0]["probability_by_year"]]
    least = [min(row["probability_by_year"][place]["probability"] for row in rows) for place in range(len(ends))]
    shown = next((place + 1 for place, chance in enumerate(least) if chance > _SURE), len(ends))
    data: list[Spec] = [
        {"type": "scatter", "mode": "lines+markers", "name": scenario_words(row["scenario"]), "x": ends[:shown],
         "y": rounded(one["probability"] for one in row["probability_by_year"][:shown]),
         "line": {"color": SERIES[place % len(SERIES)], "width": 3.5 if row["scenario"] == chosen else 1.5,
                  "dash": "solid" if place < len(SERIES) else "dot"},
         "marker": {"symbol": parts.MARKS[place % len(parts.MARKS)], "size": 7},
         "hovertemplate": f"{parts.plain(scenario_words(row['scenario']))}, by %{{x}}: %{{y:.0%}}<extra></extra>"}
        for place, row in enumerate(rows)
    ]  # fmt: skip
    figure = _framed(data, {"type": "date"}, {"tickformat": ".0%", "range": [-0.03, 1.03]})
    figure["layout"]["legend"] |= _NARROW
    return figure


#: A legend of short names with room for two side by side on a phone [px].
_NARROW = {"entrywidth": 93, "itemwidth": 30, "font": {"size": 11}}
#: Sites that a plot of power shows by name, the largest ones.
_MOST_SITES = 8


def _framed(data: list[Spec], across: Spec, up: Spec, height: float = 340) -> Spec:
    """Lines or marks between two axes, with a legend."""
    layout = parts.layout(height, [], showlegend=True, legend={**parts.LEGEND, "traceorder": "normal"},
                          xaxis={"fixedrange": True, **across}, yaxis={"fixedrange": True, **up})  # fmt: skip
    layout["margin"] = {"l": 4, "r": 8, "t": 60, "b": 44}
    return {"data": data, "layout": layout}


def power_figure(document: Mapping[str, Any]) -> Spec:
    """Facility power of the sites that are largest now; hollow marks are projections, bars one interval."""
    by_site: dict[str, list[Mapping[str, Any]]] = {}
    for row in document["sites"]:
        if row["facility_w"]:
            by_site.setdefault(row["name"], []).append(row)
    now = {name: max((row["facility_w"] for row in rows if not row["projected"]), default=0.0)
           for name, rows in by_site.items()}  # fmt: skip
    largest = sorted(now, key=lambda name: -now[name])[:_MOST_SITES]
    data: list[Spec] = []
    for place, name in enumerate(largest):
        rows, color = by_site[name], SERIES[place % len(SERIES)]
        values = [row["facility_w"] for row in rows]
        marks = [f"{parts.MARKS[place]}{'-open' if row['projected'] else ''}" for row in rows]
        data.append({
            "type": "scatter", "mode": "lines+markers", "x": [row["date"] for row in rows], "name": name,
            "y": rounded(values), "text": [f"{name}, {row['date']}: {show(row['facility_w'], 'W')}" for row in rows],
            "hovertemplate": "%{text}<extra></extra>", "marker": {"symbol": marks, "size": 8},
            "line": {"color": color, "width": 1.6, "shape": "hv", "dash": "solid" if place < len(SERIES) else "dot"},
        })  # fmt: skip
        if place == 0:
            low, high = ([row["facility_w_interval"][side] for row in rows] for side in (0, 1))
            data[0]["error_y"] = {
                "type": "data", "symmetric": False, "thickness": 1.5, "width": 4, "color": color,
                "array": [end - value for end, value in zip(high, values, strict=True)],
                "arrayminus": [value - end for end, value in zip(low, values, strict=True)],
            }  # fmt: skip
    every = [row["facility_w"] for name in largest for row in by_site[name]]
    axis = parts.log_axis(every or [1.0], lambda value: show(value, "W"), pad=0.3)
    return _framed(data, {"type": "date"}, axis, 420)


def recomputed_figure(document: Mapping[str, Any]) -> Spec:
    """H100-equivalents recomputed from chip counts against the published ones."""
    rows = [row for row in document["sites"] if row["h100e_8bit"] and row["published_h100e_8bit"]]
    data: list[Spec] = []
    for place, (title, kept) in enumerate((("within 10 %", True), ("the rest, with its reason", False))):
        some = [row for row in rows if (abs(row["h100e_8bit"] / row["published_h100e_8bit"] - 1) <= 0.1) == kept]
        data.append({
            "type": "scatter", "mode": "markers", "name": title, "x": rounded(r["published_h100e_8bit"] for r in some),
            "y": rounded(r["h100e_8bit"] for r in some),
            "text": [f"{r['name']}, {r['date']}. {r['reason']}" for r in some],
            "hovertemplate": "%{text}<extra></extra>",
            "marker": {"color": (palette.GOOD, palette.BAD)[place], "size": 8, "symbol": parts.MARKS[place]},
        })  # fmt: skip
    every = [value for row in rows for value in (row["h100e_8bit"], row["published_h100e_8bit"])] or [1.0]
    data.append({"type": "scatter", "mode": "lines", "x": [min(every), max(every)], "y": [min(every), max(every)],
                 "hoverinfo": "skip", "showlegend": False, "line": {"color": parts.NEUTRAL, "width": 1}})  # fmt: skip
    axis = parts.log_axis(every, format_si)
    across, up = ({**axis, "title": {"text": text}} for text in ("published H100-equivalents, 8 bit", "recomputed"))
    return _framed(data, across, up)


def scenarios_figure(document: Mapping[str, Any]) -> Spec:
    """Compute of the largest system over today's, by scenario."""
    rows = document["scenarios"]
    data: list[Spec] = [
        {"type": "scatter", "mode": "lines+markers", "x": list(range(len(row["compute_ratio_by_year"]))),
         "y": rounded(row["compute_ratio_by_year"]), "name": scenario_words(row["scenario"]),
         "line": {"color": SERIES[place % len(SERIES)], "dash": "solid" if place < len(SERIES) else "dot"},
         "marker": {"symbol": parts.MARKS[place % len(parts.MARKS)], "size": 8},
         "hovertemplate": f"{parts.plain(scenario_words(row['scenario']))}, +%{{x}} years: %{{y:.3~s}}x<extra></extra>"}
        for place, row in enumerate(rows)
    ]  # fmt: skip
    every = [value for row in rows for value in row["compute_ratio_by_year"]]
    years = {"title": {"text": "years from today"}, "dtick": 1}
    figure = _framed(data, years, parts.log_axis(every, lambda value: f"{value:g}x"))
    figure["layout"]["legend"] |= _NARROW
    return figure


def growth_figure(document: Mapping[str, Any], name: str, unit: str) -> Spec:
    """Dated values and the exponential that was fitted to them."""
    fit = next(one for one in document["growth"] if one["name"] == name)
    dates, values = ([point[place] for point in fit["points"]] for place in (0, 1))
    line = [fit["line"][place] for place in ("first", "last")]
    data: list[Spec] = [
        {"type": "scatter", "mode": "markers", "x": dates, "y": rounded(values), "name": "data",
         "marker": {"color": palette.OTHER, "size": 7}, "text": [show(value, unit) for value in values],
         "hovertemplate": "%{x}: %{text}<extra></extra>"},
        {"type": "scatter", "mode": "lines", "x": [dates[0], dates[-1]], "y": rounded(line), "hoverinfo": "skip",
         "name": f"{fit['ratio']:.2f}x a year", "line": {"color": palette.PLAIN, "width": 2}},
    ]  # fmt: skip
    axis = parts.log_axis([*values, *line], _ticks(unit))
    return _framed(data, {"type": "date"}, axis, 300)


def backtest_figure(document: Mapping[str, Any], place: int) -> Spec:
    """A series with what was known, the forecast from the cut-off, and what came."""
    one = document["series"][place]
    unit, known, rows = one["unit"], one["known"], one["quarters"]
    dates = [row["date"] for row in rows]
    before = [pair for pair in zip(known["dates"], known["values"], strict=True) if pair[0] <= document["cutoff"]]
    bars = {
        "type": "data", "symmetric": False, "color": palette.PLAIN, "thickness": 2, "width": 5,
        "array": [row["p95"] - row["p50"] for row in rows], "arrayminus": [row["p50"] - row["p05"] for row in rows],
    }  # fmt: skip
    data: list[Spec] = [
        {"type": "scatter", "mode": "lines", "x": [d for d, _ in before], "y": rounded(v for _, v in before),
         "name": "known at the cut-off", "line": {"color": parts.NEUTRAL, "width": 2, "shape": "hv"},
         "hoverinfo": "skip"},
        {"type": "scatter", "mode": "markers", "x": dates, "y": rounded(row["p50"] for row in rows), "error_y": bars,
         "name": "forecast, 90 % interval", "marker": {"color": palette.PLAIN, "size": 8},
         "text": [show(row["p50"], unit) for row in rows], "hovertemplate": "%{x}: %{text}<extra></extra>"},
        {"type": "scatter", "mode": "markers", "x": dates, "y": rounded(row["observed"] for row in rows),
         "name": "came", "marker": {"color": palette.CHOSEN, "size": 11, "symbol": "x"},
         "text": [show(row["observed"], unit) for row in rows], "hovertemplate": "%{x}: %{text}<extra></extra>"},
    ]  # fmt: skip
    every = [*known["values"], *(row[name] for row in rows for name in ("p05", "p95"))]
    return _framed(data, {"type": "date"}, parts.log_axis(every, _ticks(unit)))
