"""Plots of a simulation as plotly specifications: timeline, distributions, goodput against load, Gantt of RL steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import NEUTRAL, SERIES, Spec, rounded
from computeledger.units import format_si

#: States of requests and rollouts as readers know them.
STATES = {"waiting": "queued", "reading": "prefilling", "writing": "decoding", "generating": "generating",
          "unverified": "waiting for a verdict", "verified": "waiting for training"}  # fmt: skip
PHASE_TINTS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#CC79A7", "#7A838D", "#C9CED3")


def timeline_figure(document: Mapping[str, Any]) -> Spec:
    """How many requests or rollouts are in which state, over time."""
    series = document["timeline"]
    names = [name for name in series if name not in ("time_s", "replicas") and any(series[name])]
    data = [
        {"type": "scatter", "mode": "lines", "x": series["time_s"], "y": series[name], "name": STATES[name],
         "stackgroup": "one",
         "line": {"width": 0.6, "color": color, "shape": "hv"}, "fillcolor": parts.faint(color, 0.55),
         "hovertemplate": f"%{{y:.4~g}} {STATES[name]}<extra></extra>"}
        for name, color in zip(names, (palette.OTHER, *palette.SERIES), strict=False)
    ]  # fmt: skip
    scales = len(set(series.get("replicas", ()))) > 1
    if scales:
        data.append({
            "type": "scatter", "mode": "lines", "x": series["time_s"], "y": series["replicas"], "name": "replicas",
            "yaxis": "y2", "line": {"color": NEUTRAL, "width": 2, "shape": "hv"},
            "hovertemplate": "%{y} replicas<extra></extra>",
        })  # fmt: skip
    what = "requests" if document["kind"] == "serve" else "rollouts"
    more = {"yaxis2": {"title": {"text": "replicas"}, "overlaying": "y", "side": "right", "rangemode": "tozero",
                       "showgrid": False, "fixedrange": True}} if scales else {}  # fmt: skip
    return {"data": data, "layout": _plain_layout(320, "time [s]", what, **more)}


def latency_figure(document: Mapping[str, Any]) -> Spec:
    """Share of requests that take at most a time."""
    data = []
    names = {"ttft_s": "TTFT", "tpot_s": "TPOT", "end_to_end_s": "end to end"}
    every: list[float] = []
    for (name, words), color in zip(names.items(), SERIES, strict=False):
        values = document["distribution"].get(name, [])
        if not values:
            continue
        every += [value for value in values if value > 0]
        share = [100 * place / (len(values) - 1) for place in range(len(values))]
        data.append({
            "type": "scatter", "mode": "lines", "x": rounded(values), "y": share, "name": words,
            "line": {"color": color, "width": 2.2},
            "hovertemplate": f"%{{y:.0f}} % within %{{x:.3~g}} s<extra>{words}</extra>",
        })  # fmt: skip
    layout = _plain_layout(300, "time, logarithmic", "% of requests")
    layout["xaxis"] |= parts.log_axis(every, lambda value: format_si(value, "s"))
    return {"data": data, "layout": layout}


def load_figure(document: Mapping[str, Any]) -> Spec:
    """Goodput against offered load; where it leaves the diagonal, service is no longer good."""
    points = document["sweep"]
    x = [one["requests_per_s"] for one in points]
    good = [one["goodput_requests_per_s"] for one in points]
    top = max(x) * 1.04
    data: list[Spec] = [
        {"type": "scatter", "mode": "lines", "x": [0, top], "y": [0, top], "name": "all good", "hoverinfo": "skip",
         "line": {"color": NEUTRAL, "width": 1, "dash": "dot"}},
        {"type": "scatter", "mode": "lines+markers", "x": rounded(x), "y": rounded(good), "name": "goodput",
         "line": {"color": palette.PLAIN, "width": 2},
         "hovertemplate": "%{y:.3~g} of %{x:.3~g} requests/s<extra></extra>",
         "marker": {"size": 9, "color": [palette.BAD if one["saturated"] else palette.PLAIN for one in points],
                    "symbol": ["x" if one["saturated"] else "circle" for one in points]}},
    ]  # fmt: skip
    layout = _plain_layout(320, "requests/s offered", "good requests/s")
    layout["xaxis"]["range"] = [0, top]
    return {"data": data, "layout": layout}


def phases_figure(document: Mapping[str, Any]) -> Spec:
    """GPU-time by phase as one bar."""
    data = []
    for (name, part), color in zip(document["phases"].items(), PHASE_TINTS, strict=False):
        if part["fraction"] <= 0:
            continue
        share = f"{100 * part['fraction']:.0f}\u00a0%"
        label = f"{name} {share}" if part["fraction"] > 0.25 else share if part["fraction"] > 0.06 else ""
        data.append({
            "type": "bar", "orientation": "h", "x": [100 * part["fraction"]], "y": [0], "name": name, "text": [label],
            **parts.bar_text(color), "marker": {"color": color},
            "hovertemplate": f"{name}: %{{x:.3~g}} %<extra></extra>",
        })  # fmt: skip
    layout = _plain_layout(150, "% of GPU-time", "", barmode="stack")
    layout["yaxis"] = {**parts.ROWS, "range": [-0.6, 0.6]}
    layout["xaxis"]["range"] = [0, 100]
    return {"data": data, "layout": layout}


def gantt_figure(document: Mapping[str, Any]) -> Spec:
    """Each RL step as a row: generation, verdicts, waiting for the trainer, training."""
    steps = document["steps"]
    parts_of = (("generation", "released_s", "generated_s", palette.SERIES[0]),
                ("verdicts", "generated_s", "verified_s", palette.SERIES[1]),
                ("waits for the trainer", "verified_s", "training_s", palette.OTHER),
                ("training", "training_s", "trained_s", palette.SERIES[3]))  # fmt: skip
    n = min(len(steps["trained_s"]), 40)
    data = []
    for name, begin, end, color in parts_of:
        starts = steps[begin][:n]
        lengths = [max(stop - start, 0.0) for start, stop in zip(starts, steps[end][:n], strict=True)]
        data.append({
            "type": "bar", "orientation": "h", "base": rounded(starts), "x": rounded(lengths),
            "y": list(range(1, n + 1)), "name": name, "marker": {"color": color, "line": {"width": 0}},
            "hovertemplate": f"step %{{y}}: {name} %{{x:.3~g}} s<extra></extra>",
        })  # fmt: skip
    layout = _plain_layout(120 + 14 * n, "time [s]", "step", barmode="overlay", bargap=0.25)
    layout["yaxis"] |= {"autorange": "reversed", "dtick": max(1, n // 10), "rangemode": "normal"}
    return {"data": data, "layout": layout}


def staleness_figure(document: Mapping[str, Any]) -> Spec:
    """Share of trained rollouts by versions between sampling and training."""
    shares = [100 * share for share in document["staleness_steps"]["histogram"]]
    data = [{
        "type": "bar", "x": list(range(len(shares))), "y": rounded(shares), "marker": {"color": palette.PLAIN},
        "hovertemplate": "%{y:.3~g} % are %{x} steps old<extra></extra>",
    }]  # fmt: skip
    layout = _plain_layout(240, "steps between sampling and training", "% of rollouts")
    layout["xaxis"] |= {"dtick": max(1, len(shares) // 12)}
    layout["showlegend"] = False
    return {"data": data, "layout": layout}


def _plain_layout(height: float, x: str, y: str, **more: Any) -> Spec:
    """Two plain axes and a legend above."""
    layout = parts.layout(
        height, [], showlegend=True, legend={**parts.LEGEND, "traceorder": "normal"}, hovermode="closest",
        xaxis={"title": {"text": x}, "fixedrange": True, "zeroline": False, "rangemode": "tozero"},
        yaxis={"title": {"text": y}, "fixedrange": True, "rangemode": "tozero"}, **more,
    )  # fmt: skip
    layout["margin"] = {"l": 4, "r": 8, "t": 34, "b": 44}
    return layout
