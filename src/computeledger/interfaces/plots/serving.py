"""Plots of a serving answer as plotly specifications, from its document alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.facts.schema import Accelerator
from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import NEUTRAL, PHASE_COLORS, Spec, plain, rounded
from computeledger.interfaces.plots.plan import roofline_of
from computeledger.physics.roofline import OperationKind
from computeledger.questions.wording import percent, point, words
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
        front = _not_dearer(document["pareto"], speed, cost)
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


def _not_dearer(front: Sequence[Mapping[str, Any]], speed: str, cost: str) -> list[Mapping[str, Any]]:
    """Points of a front, fastest first, none dearer than a faster one: the front is of speed and throughput."""
    out: list[Mapping[str, Any]] = []
    for one in sorted(front, key=lambda each: -float(each[speed])):
        if not out or one[cost] < out[-1][cost]:
            out.append(one)
    return out


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


#: Operations of a step that are named: at most so many, each of at least this share.
_MOST_NAMED, _LEAST_NAMED = 4, 0.04
#: Height of an operation's row [px]; where its words and its bar stand in it.
_ROW_PX, _WORDS_AT, _BAR_AT = 34, 0.2, -0.22
_REST, _LEAST_REST = "all else", 0.005
#: What the steps are.
_STEPS = {"decode": "Decode: one token for each sequence", "prefill": "Prefill: prompts are read"}


def step_bounds(document: Mapping[str, Any]) -> Spec:
    """What the time of a step of decoding and of prefill goes to, by operation, coloured by what binds it.

    Examples
    --------
    >>> one = {"name": "mlp", "share_fraction": 1.0, "bound": "memory", "time_s": 0.01}
    >>> figure = step_bounds({"components": {"decode": [one], "prefill": [one]}})
    >>> [trace["name"] for trace in figure["data"]], figure["data"][0]["x"]
    (['memory'], [1.0, 1.0])
    """
    rows: list[Mapping[str, Any] | str] = []
    for step in STEP_COLORS:
        rows += [step, *_largest(document["components"][step])]
    places = range(len(rows))[::-1]
    drawn = [(place, one) for place, one in zip(places, rows, strict=True) if not isinstance(one, str)]
    data: list[Spec] = []
    for bound, color in (*parts.BOUND_COLORS.items(), (_REST, NEUTRAL)):
        mine = [(place, one) for place, one in drawn if one["bound"] == bound]
        if mine:
            data.append({
                "type": "bar", "orientation": "h", "name": bound, "y": [place + _BAR_AT for place, _ in mine],
                "x": rounded(one["share_fraction"] for _, one in mine), "width": [10 / _ROW_PX] * len(mine),
                "marker": {"color": color, "line": {"width": 0}}, "showlegend": bound != _REST,
                "hovertext": [f"{plain(operation_words(one['name']))}: {percent(one['share_fraction'])} of the step"
                              for _, one in mine],
                "hovertemplate": "%{hovertext}<extra></extra>",
            })  # fmt: skip
    notes = [
        parts.note(f"<b>{_STEPS[one]}</b>", place + _BAR_AT)
        if isinstance(one, str)
        else parts.note(f"{plain(operation_words(one['name']))}  <b>{_share(one)}</b>", place + _WORDS_AT)
        for place, one in zip(places, rows, strict=True)
    ]
    layout = parts.layout(
        _ROW_PX * len(rows) + 44,
        notes,
        showlegend=True,
        legend=parts.LEGEND | {"traceorder": "normal"},
        xaxis={"range": [0, 1.02 * max(one["share_fraction"] for _, one in drawn)], "visible": False,
               "fixedrange": True},
        yaxis={"range": [-0.6, len(rows) - 0.4], **parts.ROWS},
        margin={"l": 4, "r": 8, "t": 36, "b": 4},
    )  # fmt: skip
    return {"data": data, "layout": layout}


#: Operations by the field's words, where a document has others.
_OPERATIONS = {OperationKind.LAUNCH_FLOORS.value: "kernel launches"}


def operation_words(name: str) -> str:
    """An operation of a step as readers call it.

    Examples
    --------
    >>> operation_words("launch floors"), operation_words("all-reduce")
    ('kernel launches', 'all-reduce')
    """
    return _OPERATIONS.get(name, name)


def _share(one: Mapping[str, Any]) -> str:
    return words(one["share_fraction"], "fraction", 2)


def _largest(operations: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The operations that take the most of a step, and all others as one."""
    ordered = sorted(operations, key=lambda one: -float(one["share_fraction"]))
    named = [one for one in ordered[:_MOST_NAMED] if one["share_fraction"] >= _LEAST_NAMED] or ordered[:1]
    rest = sum(one["share_fraction"] for one in ordered[len(named) :])
    return [*named, *([{"name": _REST, "share_fraction": rest, "bound": _REST}] if rest > _LEAST_REST else [])]
