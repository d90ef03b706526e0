"""Plots about money as specifications: shares and returns of a budget, contours of the loss, cost and success."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from computeledger.economics.scaling.allocation import PHASES
from computeledger.economics.scaling.laws import LossLaw, pretraining_loss
from computeledger.interfaces.plots import parts
from computeledger.interfaces.plots.parts import SERIES, Spec, rounded
from computeledger.questions.wording import PHASE_NAMES, point
from computeledger.units import MEGA, format_si, format_usd


def _axes(height: float, x: str, y: str, scale: str = "log") -> Spec:
    spec = parts.layout(
        height, [], showlegend=True, legend=dict(parts.LEGEND), xaxis={"title": {"text": x}, "type": scale},
        yaxis={"title": {"text": y}},
    )  # fmt: skip
    spec["margin"] = {"l": 4, "r": 8, "t": 34, "b": 44}
    return spec


def shares_figure(document: Mapping[str, Any]) -> Spec:
    """Shares of FLOP of the three ledgers as the demand grows."""
    rows = document["curve"]
    x = rounded(row["inference_over_pretraining_tokens_ratio"] for row in rows)
    data = [
        {"type": "scatter", "mode": "lines", "x": x, "y": rounded(100 * row[f"{phase}_flop_fraction"] for row in rows),
         "name": PHASE_NAMES[phase], "line": {"color": parts.PHASE_COLORS[phase], "width": 2.2}}
        for phase in PHASES
    ]  # fmt: skip
    spec = _axes(300, "tokens served over tokens trained on", "% of FLOP")
    spec["xaxis"] |= parts.log_axis(x, "{:g}".format, 0.0)
    return {"data": data, "layout": spec}


def returns_figure(document: Mapping[str, Any]) -> Spec:
    """What one more GPU-hour of each ledger takes off the loss, as the ledger shrinks and grows."""
    rows = document["return_curves"]
    data: list[Spec] = []
    for phase in PHASES:
        kept = [row for row in rows if row[phase] > 0 and row[phase] < math.inf]
        data.append({
            "type": "scatter", "mode": "lines", "x": rounded(row["factor"] for row in kept), "name": PHASE_NAMES[phase],
            "y": rounded(row[phase] for row in kept), "line": {"color": parts.PHASE_COLORS[phase], "width": 2.2},
            "hovertemplate": f"{PHASE_NAMES[phase]} x%{{x}}: %{{y}}<extra></extra>",
        })  # fmt: skip
    spec = _axes(300, "this ledger, times what the answer gives it", "loss per GPU-hour")
    spec["xaxis"] |= parts.log_axis([0.1, 10.0], "{:g}".format, 0.0)
    spec["yaxis"] |= parts.log_axis((y for one in data for y in one["y"]), "{:.0e}".format)
    return {"data": data, "layout": spec}


def _law_of(document: Mapping[str, Any]) -> LossLaw:
    """The law as it stands in a document, changes included."""
    of_answer = ("beyond_fit_ratio", "coefficients_are_sampled")
    kept = {name: value for name, value in document.items() if name not in of_answer}
    return LossLaw(**{**kept, "changes": tuple(kept["changes"])})


def contour_figure(document: Mapping[str, Any]) -> Spec:
    """Loss over size and tokens around the answer, and the sizes that the same pretraining compute pays for."""
    n, d = point(document["n_params_active"]), point(document["tokens_pretraining"])
    sizes, tokens = n * np.logspace(-1, 1, 61), d * np.logspace(-1, 1, 61)
    loss = np.asarray(pretraining_loss(sizes[None, :], tokens[:, None], _law_of(document["law"])))
    data: list[Spec] = [
        {"type": "contour", "x": rounded(sizes), "y": rounded(tokens), "z": np.round(loss, 6).tolist(),
         "contours": {"coloring": "lines", "showlabels": True}, "showscale": False, "name": "loss",
         "colorscale": [[0, SERIES[1]], [1, parts.NEUTRAL]],
         "hovertemplate": "%{x:.3~s} parameters, %{y:.3~s} tokens: %{z:.4f}<extra></extra>"},
        {"type": "scatter", "mode": "lines", "x": rounded(sizes), "y": rounded(d * n / sizes),
         "name": "same pretraining compute", "hoverinfo": "skip",
         "line": {"color": parts.NEUTRAL, "dash": "dot", "width": 1.5}},
        {"type": "scatter", "mode": "markers", "x": [n], "y": [d], "name": "here",
         "marker": {"size": 11, "color": SERIES[2]}},
    ]  # fmt: skip
    spec = _axes(360, "active parameters", "pretraining tokens")
    spec["xaxis"] |= parts.log_axis(sizes, format_si, 0.0)
    spec["yaxis"] |= parts.log_axis(tokens, format_si, 0.0)
    return {"data": data, "layout": spec}


def front_figure(document: Mapping[str, Any]) -> Spec:
    """Policies by cost and success, with their 90 % intervals."""
    data: list[Spec] = []
    for name, chosen, color in (("the front", True, SERIES[0]), ("others", False, SERIES[1])):
        rows = sorted((r for r in document["options"] if r["on_front"] is chosen), key=lambda r: r["usd_per_task"])
        data.append({
            "type": "scatter", "mode": "lines+markers" if chosen else "markers", "name": name,
            "marker": {"color": color}, "line": {"color": color, "width": 1.5},
            "x": rounded(r["usd_per_task"] for r in rows), "y": rounded(100 * r["success_fraction"] for r in rows),
            "error_y": _whiskers(rows, color), "text": [parts.plain(r["policy"]) for r in rows],
            "hovertemplate": "%{text}<br>$%{x:.3~g}, %{y:.3~g} %<extra></extra>",
        })  # fmt: skip
    spec = _axes(380, "cost of a task, completed or not", "% of tasks completed")
    spec["xaxis"] |= parts.log_axis((x for one in data for x in one["x"]), format_usd)
    return {"data": data, "layout": spec}


def _whiskers(rows: Sequence[Mapping[str, Any]], color: str) -> Spec:
    """90 % intervals of success around the median."""
    ends = [[point(row["interval"]["success_fraction"], end) for row in rows] for end in ("p05", "p95")]
    median = [row["success_fraction"] for row in rows]
    up = [max(0.0, 100 * (high - at)) for high, at in zip(ends[1], median, strict=True)]
    down = [max(0.0, 100 * (at - low)) for low, at in zip(ends[0], median, strict=True)]
    return {"type": "data", "symmetric": False, "array": rounded(up), "arrayminus": rounded(down),
            "color": parts.faint(color, 0.45), "thickness": 1.2, "width": 0}  # fmt: skip


def value_figure(curves: Mapping[str, Any], names: Mapping[str, str], is_rate: bool) -> Spec:
    """Net present value of an income as one driver moves; where a line crosses zero its driver breaks even."""
    data: list[Spec] = []
    scale = 100.0 if is_rate else 1.0
    for index, (name, points) in enumerate(curves.items()):
        color = SERIES[index % len(SERIES)]
        data.append({
            "type": "scatter", "mode": "lines+markers", "name": names[name],
            "x": rounded(scale * one["value"] for one in points),
            "y": rounded(point(one["npv_usd"]) / MEGA for one in points),
            "line": {"color": color, "width": 2.2},
            "marker": {"size": 6, "color": color, "symbol": parts.MARKS[index % len(parts.MARKS)]},
            "hovertemplate": f"{names[name]} %{{x}}{' %' if is_rate else ' x'}: $%{{y}}M<extra></extra>",
        })  # fmt: skip
    spec = _axes(320, "% by month" if is_rate else "times the plan's", "net present value, $M", "linear")
    if not is_rate:
        spec["xaxis"] |= parts.log_axis((x for one in data for x in one["x"]), "{:g}".format, 0.0)
    spec["yaxis"] |= {"zeroline": True, "zerolinewidth": 2, "zerolinecolor": parts.NEUTRAL}
    return {"data": data, "layout": spec}
