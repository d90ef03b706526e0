"""Plots of a training step as plotly specifications: the pipeline through time, operations, lost time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import BOUND_COLORS, Spec, faint, plain, rounded
from computeledger.questions.wording import percent, point, words

PASS_COLORS = {"forward": "#56B4E9", "backward": "#0072B2", "weights": palette.SERIES[3]}
TAIL_COLORS = {"gradient exchange": BOUND_COLORS["network"], "optimizer": BOUND_COLORS["memory"],
               "once per step": palette.OTHER,
               "exchange between sites": palette.SERIES[1]}  # fmt: skip
#: What a step waits for: what binds it, and the stages that wait for each other.
WAIT_COLORS = {
    "compute": BOUND_COLORS["compute"], "memory": BOUND_COLORS["memory"], "communication": BOUND_COLORS["network"],
    "host": BOUND_COLORS["overhead"], "bubble": palette.SERIES[2], "uneven stages": palette.SERIES[1],
    "optimizer": palette.SERIES[3],
}  # fmt: skip
#: Bars that still carry their microbatch's number, and that still answer the pointer.
MOST_LABELS, MOST_POINTS = 160, 4000
#: Boxes of one colour that still get an outline.
MOST_OUTLINED = 250
LOSS_NAMES = {
    "useful": "useful", "straggler": "slow hosts", "pause": "checkpoint pauses", "lost": "work done again",
    "restart": "restarts", "planned": "planned stops",
}  # fmt: skip


def timeline_figure(drawn: Mapping[str, Any]) -> Spec:
    """Every pass of every microbatch on every stage of a pipeline.

    Examples
    --------
    >>> bars = [[0, "forward", 0, 0, 0.0, 1.0], [0, "backward", 0, 0, 1.0, 3.0]]
    >>> drawn = {"bars": bars, "n_stages": 1, "n_pieces": 1, "pipeline_end_s": 3.0, "tail_s": {"optimizer": 0.1}}
    >>> [one["name"] for one in timeline_figure(drawn)["data"]][:3]
    ['forward', 'backward', 'optimizer']
    """
    stages, pieces = drawn["n_stages"], drawn["n_pieces"]
    data = []
    for kind, color in PASS_COLORS.items():
        for piece in range(pieces):
            bars = [bar for bar in drawn["bars"] if bar[1] == kind and bar[3] == piece]
            if bars:
                shade = color if pieces == 1 else faint(color, round(1 - 0.6 * piece / max(pieces - 1, 1), 2))
                data.append(_boxes(kind, shade, [(bar[0], bar[4], bar[5]) for bar in bars], piece == 0))
    start = drawn["pipeline_end_s"]
    for name, seconds in drawn["tail_s"].items():
        if seconds > 0:
            data.append(_boxes(name, TAIL_COLORS[name], [(stage, start, start + seconds) for stage in range(stages)]))
            start += seconds
    data += _labels(drawn["bars"])
    notes, lines = _stretches(drawn["bars"], drawn["pipeline_end_s"])
    paper = {"paper": min(28 * stages + 140, 460)}  # leaves room for the answer on the same sheet
    layout = parts.layout(
        28 * stages + 140,
        notes,
        shapes=lines,
        showlegend=True,
        legend=parts.LEGEND | {"traceorder": "normal"},
        xaxis={"range": [0, start], "fixedrange": True, "zeroline": False, "title": {"text": "seconds"}},
        yaxis={
            "range": [stages - 0.4, -1.4 if notes else -0.6], "fixedrange": True, "showgrid": False, "zeroline": False,
            "tickprefix": "stage ", "tickvals": list(range(0, stages, max(1, stages // 16))),
        },
        margin={"l": 64, "r": 8, "t": 36, "b": 48},
        meta=paper | _on_a_phone(drawn["bars"], stages, start),
    )  # fmt: skip
    return {"data": data, "layout": layout}


#: Boxes of a row that a phone can show apart.
_ROW_ON_A_PHONE = 36


def _on_a_phone(bars: Sequence[Sequence[Any]], stages: int, end_s: float) -> Spec:
    """The part of the axis that a narrow screen draws where boxes would be thinner than a finger can tell apart."""
    shown = _ROW_ON_A_PHONE * stages / max(len(bars), 1)
    if shown >= 1:
        return {}
    part_s = shown * end_s
    said = f"seconds: the first {words(part_s, 's', 2)} of {words(end_s, 's', 2)}"
    return {"narrow": {"xaxis": {"range": [0, part_s], "title": {"text": said}}}}


#: What the legend calls passes; others by their own names.
_PASSES = {"weights": "weight gradients"}
#: Share of the axis that a stretch's name needs.
_NAMED = 0.09


def _stretches(bars: Sequence[Sequence[Any]], end_s: float) -> tuple[list[Spec], list[Spec]]:
    """The pipeline fills until every stage goes backward and has no long wait, and drains once one goes forward last.

    Names above the stages, and the lines between them.
    """
    starts: dict[int, float] = {}
    ends: dict[int, float] = {}
    for stage, kind, *_, start, end in bars:
        if kind == "backward":
            starts[stage] = min(start, starts.get(stage, start))
        elif kind == "forward":
            ends[stage] = max(end, ends.get(stage, end))
    if len(starts) < 2:
        return [], []
    empty_s = min(ends.values())
    full_s = max(*starts.values(), _waited_s(bars, empty_s))
    if full_s >= empty_s:
        return [], []
    spans = {"fills": (0.0, full_s), "steady": (full_s, empty_s), "drains": (empty_s, end_s)}
    notes = [
        {"text": f"<b>{name}</b>", "x": (low + high) / 2, "y": -1.0, "showarrow": False, "font": {"size": 12}}
        for name, (low, high) in spans.items() if high - low > _NAMED * end_s
    ]  # fmt: skip
    lines = [
        {"type": "line", "x0": at, "x1": at, "y0": -1.4, "y1": max(starts) + 0.4,
         "line": {"color": palette.OTHER, "width": 1.5, "dash": "dot"}} for at in (full_s, empty_s)
    ]  # fmt: skip
    return notes, lines


def _waited_s(bars: Sequence[Sequence[Any]], until_s: float) -> float:
    """When the last of the long waits between two passes of a stage ends: those of half the longest one or more."""
    ends: dict[int, float] = {}
    waits: list[tuple[float, float]] = []
    for stage, *_, start, end in sorted(bars, key=lambda bar: bar[4]):
        if stage in ends and ends[stage] < until_s:
            waits.append((start - ends[stage], start))
        ends[stage] = max(end, ends.get(stage, end))
    longest = max((wait for wait, _ in waits), default=0.0)
    return max((end for wait, end in waits if wait >= longest / 2 > 0), default=0.0)


def _boxes(name: str, color: str, spans: Sequence[tuple[int, float, float]], legend: bool = True) -> Spec:
    """Rectangles as one path: many of them draw as fast as one."""
    x: list[float | None] = []
    y: list[float | None] = []
    for row, start, end in spans:
        x += [*rounded((start, end, end, start, start)), None]
        y += [row - 0.42, row - 0.42, row + 0.42, row + 0.42, row - 0.42, None]
    line = {"width": 0.6 if len(spans) <= MOST_OUTLINED else 0, "color": "rgba(255,255,255,0.75)"}
    return {
        "type": "scatter", "mode": "lines", "name": _PASSES.get(name, name), "x": x, "y": y, "fill": "toself",
        "fillcolor": color,
        "line": line, "hoverinfo": "skip", "showlegend": legend,
        "legendgroup": name,
    }  # fmt: skip


def _labels(bars: Sequence[Sequence[Any]]) -> list[Spec]:
    """Numbers of the microbatches where they have room, and what the pointer says."""
    if len(bars) > MOST_POINTS:
        return []
    inks = ["#00263f" if bar[1] == "forward" or bar[3] else "#ffffff" for bar in bars]
    middles = rounded((bar[4] + bar[5]) / 2 for bar in bars)
    return [
        {
            "type": "scatter", "mode": "text" if len(bars) <= MOST_LABELS else "markers", "x": middles,
            "y": [bar[0] for bar in bars], "text": [str(bar[2] + 1) for bar in bars], "showlegend": False,
            "textfont": {"size": 12, "color": inks},
            "marker": {"opacity": 0, "size": 8},
            "hovertext": [
                f"{bar[1]} of microbatch {bar[2] + 1}" + (f", piece {bar[3] + 1}" if bar[3] else "")
                + f"<br>{words(bar[5] - bar[4], 's')}" for bar in bars
            ],
            "hovertemplate": "%{hovertext}<extra></extra>", "name": "microbatches",
        }
    ]  # fmt: skip


def operations_figure(step: Mapping[str, Any]) -> Spec:
    """Time of each operation, the part that the datasheet's peaks would take, and communication that is hidden.

    Examples
    --------
    >>> one = {"name": "a", "bound": "compute", "time_s": 1.0, "share_fraction": 1.0, "limit_fraction": 0.5,
    ...        "hidden_s": 0.0, "exposed_s": 0.0}
    >>> len(operations_figure({"operations": [one]})["data"])
    2
    """
    rows = sorted(step["operations"], key=lambda one: -point(one["time_s"]))
    places = list(range(len(rows)))
    times = [point(one["time_s"]) for one in rows]
    bars: Spec = {
        "type": "bar", "orientation": "h", "x": rounded(times), "y": places, "width": [0.5] * len(rows), "name": "time",
        "marker": {"color": [BOUND_COLORS[one["bound"]] for one in rows], "line": {"width": 0}},
        "hovertext": [
            f"{plain(one['name'])}: {words(time, 's')}, {percent(one['share_fraction'])} of the step"
            for one, time in zip(rows, times, strict=True)
        ],
        "hovertemplate": "%{hovertext}<extra></extra>", "showlegend": False,
    }  # fmt: skip
    limits = [
        (place, one["limit_fraction"] * (time + one["hidden_s"]))
        for place, one, time in zip(places, rows, times, strict=True)
        if one["limit_fraction"] is not None
    ]
    marks: Spec = {
        "type": "scatter", "mode": "markers", "x": rounded(limit for _, limit in limits),
        "y": [place for place, _ in limits], "name": "physical limit", "hoverinfo": "skip",
        "marker": {"symbol": "line-ns-open", "size": 17, "line": {"width": 2.5}, "color": palette.BAD},
    }  # fmt: skip
    data = [bars, marks]
    hidden = [(place, time, one["hidden_s"]) for place, one, time in zip(places, rows, times, strict=True)]
    if any(seconds > 0 for _, _, seconds in hidden):
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": places,
                "x": rounded(seconds for _, _, seconds in hidden),
                "width": [0.5] * len(rows),
                "name": "hidden communication",
                "marker": {"color": faint(BOUND_COLORS["network"], 0.25), "line": {"width": 0}},
                "hoverinfo": "skip",
            }
        )
    notes = [
        parts.note(f"{plain(one['name'])}   <b>{words(time, 's')}</b>", place - 0.42)
        for place, one, time in zip(places, rows, times, strict=True)
    ]
    layout = parts.layout(
        46 * len(rows) + 70,
        notes,
        barmode="stack",
        showlegend=True,
        legend=parts.LEGEND,
        xaxis={
            "range": [0, 1.03 * max(time + one["hidden_s"] for one, time in zip(rows, times, strict=True))],
            "fixedrange": True,
            "zeroline": False,
            "title": {"text": "seconds of the step"},
        },
        yaxis={"range": [len(rows) - 0.5, -0.8], **parts.ROWS},
        margin={"l": 4, "r": 8, "t": 34, "b": 44},
    )
    return {"data": data, "layout": layout}
