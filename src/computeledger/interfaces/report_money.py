"""An allocation or a route as one HTML page: marginal returns, the contour of the loss, cost against success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from computeledger.economics.scaling import LossLaw, pretraining_loss
from computeledger.interfaces import plot_parts as parts
from computeledger.interfaces.cli_options import write_file
from computeledger.interfaces.page import assets, page_template, plotly_script, script_json, version
from computeledger.interfaces.plot_parts import SERIES, Spec, rounded
from computeledger.interfaces.wording import point
from computeledger.units import format_percent, format_si, format_usd

_PHASES = ("pretraining", "rl", "inference")


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
         "name": phase, "line": {"color": color, "width": 2.2}}
        for phase, color in zip(_PHASES, SERIES, strict=False)
    ]  # fmt: skip
    return {"data": data, "layout": _axes(300, "tokens served over tokens trained on", "% of FLOP")}


def returns_figure(document: Mapping[str, Any]) -> Spec:
    """What one more GPU-hour of each ledger takes off the loss."""
    values = [point(document["marginal_return_per_gpu_hour"][phase]) for phase in _PHASES]
    data = [{"type": "bar", "x": list(_PHASES), "y": values, "marker": {"color": list(SERIES[:3])}, "name": "return"}]
    return {"data": data, "layout": _axes(240, "", "loss per GPU-hour", "category")}


def _law_of(document: Mapping[str, Any]) -> LossLaw:
    """The law as it stands in a document, changes included."""
    return LossLaw(**{**document, "changes": tuple(document["changes"])})


def contour_figure(document: Mapping[str, Any]) -> Spec:
    """Loss over size and tokens around the answer."""
    n, d = point(document["n_params_active"]), point(document["tokens_pretraining"])
    sizes, tokens = n * np.logspace(-1, 1, 41), d * np.logspace(-1, 1, 41)
    loss = pretraining_loss(sizes[None, :], tokens[:, None], _law_of(document["law"]))
    data: list[Spec] = [
        {"type": "contour", "x": rounded(sizes), "y": rounded(tokens), "z": [rounded(row) for row in np.asarray(loss)],
         "contours": {"coloring": "lines", "showlabels": True}, "showscale": False, "name": "loss"},
        {"type": "scatter", "mode": "markers", "x": [n], "y": [d], "name": "here",
         "marker": {"size": 11, "color": SERIES[1]}},
    ]  # fmt: skip
    spec = _axes(340, "active parameters", "pretraining tokens")
    spec["yaxis"]["type"] = "log"
    return {"data": data, "layout": spec}


def front_figure(document: Mapping[str, Any]) -> Spec:
    """Policies by cost and success."""
    data = []
    for name, chosen, color in (("the front", True, SERIES[0]), ("others", False, SERIES[1])):
        rows = sorted((r for r in document["options"] if r["on_front"] is chosen), key=lambda r: r["usd_per_task"])
        data.append({
            "type": "scatter", "mode": "lines+markers" if chosen else "markers", "name": name,
            "marker": {"color": color},
            "x": rounded(r["usd_per_task"] for r in rows), "y": rounded(100 * r["success_fraction"] for r in rows),
            "text": [parts.plain(r["policy"]) for r in rows], "hovertemplate": "%{text}<br>%{x:$.3~g}, %{y:.3~g} %",
        })  # fmt: skip
    return {"data": data, "layout": _axes(360, "cost of a task, completed or not", "% of tasks completed")}


def write_allocation(path: str, document: Mapping[str, Any]) -> None:
    """Write the page of an allocation."""
    figures = [
        ("shares", "As the demand grows", "The same total, at other demands.", shares_figure(document)),
        (
            "returns",
            "Marginal returns",
            "Equal at the optimum where a GPU-hour of every ledger costs the budget the same.",
            returns_figure(document),
        ),
        ("contour", "Loss by size and tokens", "Lines of equal loss.", contour_figure(document)),
    ]
    rows = [(phase, format_si(point(document[f"tokens_{phase}"]), "tokens"),
             format_si(point(document["flop"][phase]), "FLOP"),
             format_percent(point(document["shares"]["gpu_time"][phase]))) for phase in _PHASES]  # fmt: skip
    title = f"{format_si(point(document['n_params_active']))} parameters on {rows[0][1]}"
    _write(path, title, figures, (("ledger", "tokens", "FLOP", "share of GPU-time"), rows), document["assumptions"])


def write_route(path: str, document: Mapping[str, Any]) -> None:
    """Write the page of a route."""
    figures = [("front", "Cost against success", document["remark"], front_figure(document))]
    rows = [(row["policy"], format_usd(row["usd_per_completed_task"]), format_percent(row["success_fraction"]),
             f"{row['seconds']:.3g} s") for row in document["options"] if row["on_front"]]  # fmt: skip
    title = (
        f"{document['best']['policy']} for {format_usd(document['best']['usd_per_completed_task'])} a completed task"
    )
    head = ("policy", "cost per completed task", "success", "time")
    _write(path, title, figures, (head, rows), document["assumptions"])


def _write(
    path: str, title: str, figures: Sequence[tuple[str, str, str, Spec]],
    table: tuple[Sequence[str], Sequence[Sequence[str]]],
    assumptions: Sequence[str],
) -> None:  # fmt: skip
    data = {"figures": {name: spec for name, _, _, spec in figures}, "config": parts.CONFIG,
            "templates": {"light": parts.template(), "dark": parts.template(dark=True)}}  # fmt: skip
    page = page_template("money.html").render(
        title=title, figures=[one[:3] for one in figures], head=table[0], rows=table[1], assumptions=assumptions,
        version=version(), data=script_json(data), plotly=plotly_script(), style=assets("report.css"),
        script=assets("simulate.js"),
    )  # fmt: skip
    write_file(path, page)
