"""Plots of a serving answer as plotly specifications, from its document alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.facts.schema import Accelerator
from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import NEUTRAL, PHASE_COLORS, Spec, plain, rounded
from computeledger.interfaces.plots.plan import roofline_of
from computeledger.questions.wording import figure_words, percent, point, words
from computeledger.units import format_si, format_usd

#: Decode and prefill apart, in every plot of serving.
STEP_COLORS = {"decode": PHASE_COLORS["inference"], "prefill": palette.PLAIN}


def serving_roofline(document: Mapping[str, Any], chip: Accelerator) -> Spec:
    """Operations of prefill and decode under the roof of their accelerator."""
    marks = {"decode": "circle", "prefill": "square"}
    groups = [(step, STEP_COLORS[step], marks[step], document["components"][step]) for step in STEP_COLORS]
    return roofline_of(groups, [chip])


def pareto_figure(document: Mapping[str, Any]) -> Spec:
    """Cost of a million output tokens against the speed one user sees: layouts nobody beats, and the one in use."""
    speed, cost = "output_tokens_per_s_per_user", "usd_per_mtok_output"
    curve = document["price_of_speed"]["curve"]
    data = [_line([1 / one["tpot_s"] for one in curve], [one[cost] for one in curve],
                  [f"batch {one['batch']:,}" for one in curve], "this layout, every batch",
                  PHASE_COLORS["inference"])]  # fmt: skip
    if document.get("pareto"):
        front = document["pareto"]
        texts = [f"{plain(one['layout'])}<br>batch {one['batch']:,}" for one in front]
        data.insert(0, _line([one[speed] for one in front], [one[cost] for one in front], texts,
                             "best layout at each speed", NEUTRAL, "dot"))  # fmt: skip
    data.append(_answer(document[speed], document[cost]))
    xs, ys = ([value for trace in data for value in trace[axis]] for axis in ("x", "y"))
    layout = parts.layout(
        400,
        [parts.corner("USD per Mtok of output ↑")],
        xaxis=parts.log_axis(xs, format_si, 0.12) | {"title": {"text": "output tokens/s for one user →"}},
        yaxis=parts.log_axis(ys, format_usd, 0.25),
        showlegend=True,
        legend=parts.LEGEND,
        margin={"l": 8, "r": 12, "t": 56, "b": 48},
    )
    return {"data": data, "layout": layout}


def _line(x: list[float], y: list[float], texts: list[str], name: str, color: str, dash: str = "solid") -> Spec:
    hover = [
        f"{text}<br>{words(one, 'tokens/s')} per user<br>{words(other, 'USD/Mtok')} of output"
        for text, one, other in zip(texts, x, y, strict=True)
    ]
    return {"type": "scatter", "mode": "lines+markers", "name": name, "x": rounded(x), "y": rounded(y),
            "hovertext": hover, "hovertemplate": "%{hovertext}<extra></extra>",
            "line": {"color": color, "width": 2, "dash": dash}, "marker": {"size": 5, "color": color}}  # fmt: skip


def _answer(speed: Any, cost: Any) -> Spec:
    bars = {"type": "data", "symmetric": False, "thickness": 1.5, "width": 4, "color": palette.CHOSEN}
    x, y = point(speed), point(cost)
    return {
        "type": "scatter", "mode": "markers", "name": "the answer, 90 % intervals", "x": [x], "y": [y],
        "marker": {"size": 16, "symbol": "circle-open", "line": {"width": 3}, "color": palette.CHOSEN},
        "error_x": {**bars, "array": [point(speed, "p95") - x], "arrayminus": [x - point(speed, "p05")]},
        "error_y": {**bars, "array": [point(cost, "p95") - y], "arrayminus": [y - point(cost, "p05")]},
        "hovertemplate": f"{words(x, 'tokens/s')} per user, {words(y, 'USD/Mtok')}<extra></extra>",
    }  # fmt: skip


def step_bounds(document: Mapping[str, Any]) -> Spec:
    """A decode step's time by operation, coloured by what binds it.

    Examples
    --------
    >>> one = {"name": "mlp", "share_fraction": 1.0, "bound": "memory", "time_s": 0.01}
    >>> len(step_bounds({"components": {"decode": [one], "prefill": [one]}})["data"])
    4
    """
    rows = [
        (step, one)
        for step in ("decode", "prefill")
        for one in document["components"][step]
        if one["share_fraction"] > 0
    ]
    data: list[Spec] = []
    for bound, color in parts.BOUND_COLORS.items():
        mine = [(step, one) for step, one in rows if one["bound"] == bound]
        data.append({
            "type": "bar", "orientation": "h", "name": bound, "y": [step for step, _ in mine],
            "x": rounded(one["share_fraction"] for _, one in mine), **parts.bar_text(color),
            "marker": {"color": color, "line": {"width": 1, "color": "rgba(127,127,127,0.6)"}},
            "text": [plain(one["name"]) if one["share_fraction"] > 0.07 else "" for _, one in mine],
            "hovertext": [
                f"{plain(step)}: {plain(one['name'])}<br>{percent(one['share_fraction'])} of the step, "
                f"{figure_words(one['time_s'], 's')}" for step, one in mine
            ],
            "hovertemplate": f"%{{hovertext}}<br>bound by {bound}<extra></extra>",
        })  # fmt: skip
    layout = parts.layout(
        190,
        [],
        barmode="stack",
        uniformtext={"mode": "hide", "minsize": 12},
        showlegend=True,
        legend=parts.LEGEND | {"traceorder": "normal"},
        xaxis={"range": [0, 1], "visible": False, "fixedrange": True},
        yaxis={"fixedrange": True, "showgrid": False, "categoryorder": "array", "categoryarray": ["prefill", "decode"]},
        margin={"l": 8, "r": 8, "t": 36, "b": 8},
    )
    return {"data": data, "layout": layout}
