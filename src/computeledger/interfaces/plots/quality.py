"""Plots of quality against price: models by ability and price, and the price of a quality over time."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.names import Labels
from computeledger.interfaces.plots.parts import Spec, rounded
from computeledger.units import format_usd

_PRICE = "USD per million tokens, blended"
#: Height of a drawing and of the margins in it [px].
_HEIGHT_PX, _MARGIN_PX = 420, 78
#: How far below the cheapest the axis of prices begins, for names.
_ROOM = 7.0
#: Models that are named, at most.
_NAMED = 12
#: What follows a model's name in that of a version: its date or number, what it was tuned for, and how it was run.
_DATED = re.compile(r"(-Instruct)?(-\d{4}-\d{2}-\d{2}|-\d{3,4})?( \(.*\))?$")


def model_of_version(name: str) -> str:
    """The model that a version is of.

    Examples
    --------
    >>> [model_of_version(one) for one in ("gpt-5-2025-08-07 (high)", "ministral-3b-2410", "Llama-3.1-8B-Instruct")]
    ['gpt-5', 'ministral-3b', 'Llama-3.1-8B']
    """
    return _DATED.sub("", name)


def _axes(x: str, y: str) -> Spec:
    spec = parts.layout(
        _HEIGHT_PX,
        [],
        showlegend=True,
        legend=dict(parts.LEGEND),
        xaxis={"title": {"text": x}},
        yaxis={"title": {"text": y}},
    )
    spec["margin"] = {"l": 4, "r": 8, "t": 34, "b": 44}
    return spec


def offers_figure(rows: Sequence[Mapping[str, Any]]) -> Spec:
    """Ability over blended price, those that nobody beats for less apart."""
    data: list[Spec] = []
    for name, best, color in (("nobody is as strong for less", True, palette.CHOSEN), ("others", False, palette.OTHER)):
        kept = sorted(
            (row for row in rows if row["on_frontier"] is best),
            key=lambda row: row["usd_per_mtok"],
        )
        data.append({
            "type": "scatter", "mode": "lines+markers" if best else "markers", "name": name,
            "marker": {"color": color, "size": 7}, "line": {"color": color, "width": 1.5, "shape": "hv"},
            "x": rounded(row["usd_per_mtok"] for row in kept), "y": rounded(row["ability"] for row in kept),
            "text": [parts.plain(row["name"]) for row in kept],
            "hovertemplate": "%{text}<br>$%{x:.3~g}, ability %{y:.2f}<extra></extra>",
        })  # fmt: skip
    spec = _axes(_PRICE, "ability")
    prices = [x for one in data for x in one["x"]]
    room = [min(prices) / _ROOM] if prices else []
    spec["xaxis"] |= {"type": "log"} | parts.log_axis([*prices, *room], format_usd)
    if rows:
        spec["yaxis"]["range"] = _heights([row["ability"] for row in rows])
        spec["annotations"] = _names(rows, spec["xaxis"]["range"], spec["yaxis"]["range"])
    return {"data": data, "layout": spec}


def _heights(values: Sequence[float]) -> list[float]:
    """Ends of the axis of abilities, with room for a name above the highest."""
    low, high = min(values), max(values)
    return [low - 0.06 * (high - low), high + 0.22 * (high - low)]


def _names(rows: Sequence[Mapping[str, Any]], across: Sequence[float], up: Sequence[float]) -> list[Spec]:
    """Names of those that nobody beats for less, the strongest first, where no mark lies on them."""
    labels = Labels(across, up, _HEIGHT_PX - _MARGIN_PX)
    best = sorted((row for row in rows if row["on_frontier"]), key=lambda row: -row["ability"])
    for row in rows:
        labels.mark(math.log10(row["usd_per_mtok"]), row["ability"])
    steps = [(math.log10(row["usd_per_mtok"]), row["ability"]) for row in best[::-1]]
    for (_, y), (right, top) in itertools.pairwise(steps):
        labels.bar(right, y, top)
    for row in best[:_NAMED]:
        at = math.log10(row["usd_per_mtok"]), row["ability"]
        labels.name(model_of_version(row["name"]), *at, is_needed=row is best[0])
    return labels.notes


def records_figure(rows: Sequence[Mapping[str, Any]]) -> Spec:
    """The cheapest price of a quality over time."""
    data: list[Spec] = [{
        "type": "scatter", "mode": "lines+markers", "name": "cheapest so far",
        "line": {"color": palette.PLAIN, "shape": "hv"},
        "x": [row["date"] for row in rows], "y": rounded(row["usd_per_mtok"] for row in rows),
        "text": [parts.plain(row["name"]) for row in rows],
        "hovertemplate": "%{text}<br>%{x}: $%{y:.3~g}<extra></extra>",
    }]  # fmt: skip
    spec = _axes("", _PRICE)
    spec["xaxis"]["type"] = "date"
    spec["yaxis"] |= {"type": "log"} | parts.log_axis(data[0]["y"], format_usd)
    return {"data": data, "layout": spec}
