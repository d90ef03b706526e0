"""Plots of a plan as plotly specifications: plain dictionaries that the report and the web app draw alike.

Nothing here imports plotly. A specification carries no theme: whoever draws it adds
:func:`computeledger.interfaces.plots.parts.template`, so that one specification follows light and dark. Every text that
a plan may contain is escaped, because plotly reads it as markup.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from computeledger.arrays import median
from computeledger.facts.schema import Accelerator
from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import NEUTRAL, PHASE_COLORS, Spec, plain, rounded
from computeledger.physics.blackboard.ledgers import ridge_flop_per_byte
from computeledger.physics.roofline import BOUNDS, total_s
from computeledger.questions.answers.serving.document import bound_fractions, operations_document, option_document
from computeledger.questions.wording import (
    PHASE_NAMES,
    figure_words,
    input_phrase,
    interval_words,
    joined,
    percent,
    point,
    step_words,
    words,
)
from computeledger.units import MONTH_S, format_si, format_usd
from computeledger.workloads.result import quantity

if TYPE_CHECKING:
    from computeledger.economics.plan.ledger import Ledger
    from computeledger.workloads.serving.search import ServingOption


def shares_figure(document: Mapping[str, Any]) -> Spec:
    """Shares of the ledgers in FLOP above their shares in GPU-time.

    Two stacked bars joined by ribbons show how the life-cycle shears between the currencies: medians as shares of their
    sum, since medians of shares need not add up to one.

    Examples
    --------
    >>> half = {"pretraining": 0.5, "inference": 0.5}
    >>> len(shares_figure({"shares": {"flop": half, "gpu_time": half}})["data"])
    3
    """
    flop, time = document["shares"]["flop"], document["shares"]["gpu_time"]
    data: list[Spec] = []
    wholes = [sum(point(share) for share in shares.values()) or 1.0 for shares in (flop, time)]
    notes = [parts.note("<b>FLOP</b>", 1.42), parts.note("<b>GPU-time</b>", -0.42)]
    starts = [0.0, 0.0]
    segments: list[tuple[str, int, float, float]] = []
    for name in flop:
        sizes = (point(flop[name]) / wholes[0], point(time[name]) / wholes[1])
        ends = [start + size for start, size in zip(starts, sizes, strict=True)]
        data.append(_ribbon(name, starts, ends))
        segments += [(name, y, start, end) for y, start, end in zip((1, 0), starts, ends, strict=True)]
        starts = ends
    lines = _unnamed(segments)
    notes += [parts.note(line, -0.42 - _LINE_OF_BAR * (row + 1)) for row, line in enumerate(lines)]
    layout = parts.layout(
        190 + 20 * len(lines),
        notes,
        barmode="overlay",
        xaxis={"range": [0, 1], "visible": False, "fixedrange": True},
        yaxis={"range": [-0.62 - _LINE_OF_BAR * len(lines), 1.62], **parts.ROWS},
        margin={"l": 4, "r": 4, "t": 0, "b": 0},
    )
    return {"data": [*data, _segments(segments)], "layout": layout}


def _ribbon(name: str, starts: Sequence[float], ends: Sequence[float]) -> Spec:
    """A curved band from a ledger's segment of the upper bar to that of the lower one."""
    t = np.linspace(0, 1, 17)
    ease = t * t * (3 - 2 * t)
    left, right = (one[0] + (one[1] - one[0]) * ease for one in (starts, ends))
    return {
        "type": "scatter", "mode": "lines", "x": rounded([*left, *right[::-1]]),
        "y": rounded([*(0.76 - 0.52 * t), *(0.24 + 0.52 * t)]), "fill": "toself",
        "fillcolor": parts.faint(PHASE_COLORS[name], 0.3), "line": {"width": 0}, "hoverinfo": "skip",
    }  # fmt: skip


#: Height of a line of words (20 px) beside that of the two bars (2.24 units in 190 px).
_LINE_OF_BAR = 0.236


def _has_room(name: str, size: float) -> bool:
    """Whether a segment has room for its phase's name."""
    return size > 0.24 + 0.012 * len(PHASE_NAMES[name])


def _unnamed(segments: Sequence[tuple[str, int, float, float]]) -> list[str]:
    """A line for each phase whose name has room in neither bar: its colour, and its share in both."""
    sizes: dict[str, list[float]] = {}
    for name, _, start, end in segments:  # FLOP first
        sizes.setdefault(name, []).append(end - start)
    return [
        f'<span style="color:{PHASE_COLORS[name]}">\u25a0</span> {PHASE_NAMES[name]}: {percent(flop, 2)} of the FLOP, '
        f"{percent(time, 2)} of the GPU-time"
        for name, (flop, time) in sizes.items()
        if not any(_has_room(name, size) for size in (flop, time))
    ]


def _segments(parts_of: Sequence[tuple[str, int, float, float]]) -> Spec:
    """Every ledger's part of the two bars: its name, the bar, start and end."""
    colors = [PHASE_COLORS[name] for name, *_ in parts_of]
    sizes = [end - start for *_, start, end in parts_of]
    short = [f"{100 * size:.0f}\u00a0%" for size in sizes]
    names = [PHASE_NAMES[name] for name, *_ in parts_of]
    return {
        "type": "bar", "orientation": "h", "x": sizes, "base": [start for _, _, start, _ in parts_of],
        "y": [y for _, y, _, _ in parts_of], "width": [0.48] * len(sizes),
        "marker": {"color": colors, "line": {"width": 0}}, **parts.bar_text(*colors),
        "text": [f"{PHASE_NAMES[name]} {text}" if _has_room(name, size) else text if size > 0.1 else ""
                 for (name, *_), text, size in zip(parts_of, short, sizes, strict=True)],
        "hovertemplate": [f"{name}: {percent(size)} of {('GPU-time', 'FLOP')[y]}<extra></extra>"
                          for name, size, (_, y, _, _) in zip(names, sizes, parts_of, strict=True)],
    }  # fmt: skip


#: Height of a phase's row with its hill, and the share of it that a row without one takes.
_HILL_PX, _PLAIN_ROW = 92, 0.62
#: Height of a phase's row on paper, where the answer shares the sheet.
_PAPER_ROW_PX = 66


def phases_figure(ledger: Ledger) -> Spec:
    """GPU-hours of each ledger as a distribution with its 90 % interval and median."""
    unit = "GPU-hours"
    data: list[Spec] = []
    notes: list[Spec] = []
    ends: list[float] = []
    marks: list[tuple[Any, float, str, str]] = []
    rows = [(PHASE_NAMES[name], phase.gpu_hours, PHASE_COLORS[name]) for name, phase in ledger.phases.items()]
    rows += [("Total", ledger.total("gpu_hours"), NEUTRAL)] if len(rows) > 1 else []
    row = 0.0
    for name, value, color in rows[::-1]:
        summary = quantity(value, unit)
        data += (hill := parts.hill(np.asarray(value, float), row, color))
        marks.append((summary, row - 0.1, color, "circle"))
        said = interval_words(summary, unit) or without_spread(ledger, name)
        text = f"<b>{name}  {figure_words(summary, unit)}</b>   {said}"
        notes.append(parts.note(text.replace("\u00a0GPU-hours", ""), row + (0.58 if hill else 0.14)))
        ends += [float(end) for end in np.quantile(np.asarray(value, float), [0.001, 0.999])]
        row += 1.0 if hill else _PLAIN_ROW
    layout = parts.layout(
        _HILL_PX * row + 56,
        notes,
        barmode="overlay",
        xaxis=parts.log_axis(ends, format_si, 0.1) | {"title": {"text": unit}},
        yaxis={"range": [-0.35, row - 0.25], **parts.ROWS},
        meta={"paper": _PAPER_ROW_PX * len(rows) + 56},
    )
    data += parts.interval_marks(marks, unit, _HILL_PX)
    return {"data": data, "layout": layout}


def without_spread(ledger: Ledger, name: str) -> str:
    """Why a phase has one value: the plan states it, as its makers published or planned it."""
    phase = next((one for key, one in ledger.phases.items() if PHASE_NAMES[key] == name), None)
    stated = phase is not None and "modelled_gpu_hours" in phase.details
    return "stated in the plan" if stated else "no spread"


def roofline_figure(ledger: Ledger) -> Spec:
    """Operations of every phase under the roof of its accelerator, log-log."""
    groups: list[tuple[str, str, str, list[Spec]]] = []
    for name, phase in ledger.phases.items():
        for index, (step, operations) in enumerate(phase.operations.items()):
            mark = {"pretraining": "square", "rl": "diamond"}.get(name, parts.MARKS[index % len(parts.MARKS)])
            groups.append((step_words(name, step), PHASE_COLORS[name], mark, operations_document(operations)))
    chips = {one.accelerator: one.chip for one in ledger.phases.values() if one.operations}
    return roofline_of(groups, list(chips.values()))


#: Operations that take less of their step are not drawn: they would press all others together.
_LEAST_DRAWN = 0.005


def roofline_of(groups: Sequence[tuple[str, str, str, Sequence[Spec]]], chips: Sequence[Accelerator]) -> Spec:
    """Operations of named steps under the roofs of their accelerators, log-log.

    Examples
    --------
    >>> from computeledger.facts.load import load_system
    >>> one = {"name": "mlp", "flop": 2e12, "bytes": 1e9, "time_s": 0.01, "share_fraction": 1.0, "bound": "compute"}
    >>> one |= {"intensity_flop_per_byte": 2000.0, "reached_flop_per_s": 2e14}
    >>> len(roofline_of([("decode", "#009E73", "circle", [one])], [load_system("h100-nvl8").accelerator])["data"])
    4
    """
    points = []
    for step, color, mark, operations in groups:
        placed = [one for one in operations
                  if one["flop"] > 0 and one["bytes"] > 0 and one["share_fraction"] >= _LEAST_DRAWN]  # fmt: skip
        if placed:
            points.append(_operations(step, color, mark, placed))
    _tell_apart(points)
    xs, ys = ([value for trace in points for value in trace[axis]] for axis in ("x", "y"))
    ridges = [_ridge(chip, precision) for chip in chips for precision in chip.peak_flop_per_s]
    low, high = min([*xs, *ridges]) / 2, max([*xs, *ridges]) * 3
    roofs: list[Spec] = []
    notes: list[Spec] = []
    legend = ["FLOP/s reached ↑"]
    for chip, dash in zip(chips, ("solid", "dash", "dashdot", "longdash") * len(chips), strict=False):
        lines, labels = _roofs(chip, dash, (low, high))
        roofs = [*roofs, *lines]
        notes += [one for one in labels if all(abs(one["y"] - other["y"]) > 0.05 for other in notes)]
        said = f"{plain(chip.short_name or chip.id)}: bends at {_ridge(chip):.0f} FLOP/byte"
        legend.append(f"{'━ ' if dash == 'solid' else '╍ '}{said}")
    tops = [value for trace in roofs for value in trace["y"][1:]]
    least, most = (math.log10(end([*ys, *tops])) for end in (min, max))
    ends = least - 0.2, most + (most - least) * (0.06 + 0.07 * len(legend)) + 0.1
    _name_all(points, ((math.log10(low), math.log10(high)), ends), min(ridges), roofs)
    layout = parts.layout(
        420,
        [*notes, parts.corner("<br>".join(legend))],
        xaxis=parts.log_axis([low, high], format_si, 0)
        | {"title": {"text": "intensity, FLOP per byte of memory traffic"}},
        yaxis=parts.log_axis([*ys, *tops], lambda value: format_si(value, "FLOP/s").replace("FLOP/s", ""), 0.25)
        | {"range": list(ends)},
        showlegend=True,
        legend=parts.LEGEND,
        margin={"l": 8, "r": 12, "t": 56, "b": 48},
    )
    return {"data": [*roofs, *points], "layout": layout}


def _operations(step: str, color: str, mark: str, placed: list[Spec]) -> Spec:
    """Points of a step's operations, the longest first."""
    ordered = sorted(placed, key=lambda one: -one["share_fraction"])
    return {
        "type": "scatter", "mode": "markers+text", "name": plain(step),
        "x": rounded(one["intensity_flop_per_byte"] for one in ordered),
        "y": rounded(one["reached_flop_per_s"] for one in ordered),
        "hovertext": [
            f"<b>{plain(step)}: {plain(one['name'])}</b><br>{percent(one['share_fraction'])} of the step, "
            f"bound by {one['bound']}<br>{words(one['flop'], 'FLOP')}, {words(one['bytes'], 'B')}, "
            f"{figure_words(one['time_s'], 's')}"
            for one in ordered
        ],
        "hovertemplate": "%{hovertext}<extra></extra>", "textfont": {"size": 12}, "cliponaxis": False,
        "text": [plain(one["name"]) for one in ordered],
        "marker": {
            "color": parts.faint(color, 0.85), "symbol": mark, "line": {"color": color, "width": 1.5},
            "opacity": 1, "size": [round(8 + 20 * math.sqrt(one["share_fraction"]), 1) for one in ordered],
        },
    }  # fmt: skip


#: What a phone shows of a roofline, a letter's width and a line's height [px].
_FRAME_PX, _LETTER_PX, _LINE_PX = (290.0, 330.0), 6.4, 15.0
#: Places of a name beside its mark, by how far its middle is from it in halves of the name and of the mark.
_PLACES = {"middle right": (1, 0), "bottom center": (0, -1), "middle left": (-1, 0), "top center": (0, 1),
           "bottom right": (1, -1), "bottom left": (-1, -1), "top left": (-1, 1), "top right": (1, 1)}  # fmt: skip
Box = tuple[float, float, float, float]


def _tell_apart(points: list[Spec]) -> None:
    """Name the step behind the name of an operation that a step before it has too."""
    said: set[str] = set()
    for trace in points:
        own = set(trace["text"])
        trace["text"] = [f"{text}, {trace['name']}" if text in said else text for text in trace["text"]]
        said |= own


#: How near a name may come to the line of a roof, and how far apart that line is looked at [px].
_CLEAR_PX, _STEP_PX = 3.0, 6.0


def _under(roofs: Sequence[Spec], axes: tuple[tuple[float, float], tuple[float, float]]) -> list[Box]:
    """Where roofs run, as small boxes that no name may touch."""
    taken: list[Box] = []
    for roof in roofs:
        corners = [
            tuple((math.log10(value) - axis[0]) / (axis[1] - axis[0]) * side
                  for value, axis, side in zip(pair, axes, _FRAME_PX, strict=True))
            for pair in zip(roof["x"], roof["y"], strict=True)
        ]  # fmt: skip
        for (x, y), (right, top) in itertools.pairwise(corners):
            n = max(1, math.ceil(math.hypot(right - x, top - y) / _STEP_PX))
            at = ((x + (right - x) * k / n, y + (top - y) * k / n) for k in range(n + 1))
            taken += [(a - _CLEAR_PX, b - _CLEAR_PX, a + _CLEAR_PX, b + _CLEAR_PX) for a, b in at]
    return taken


def _name_all(
    points: list[Spec], axes: tuple[tuple[float, float], tuple[float, float]], ridge: float, roofs: Sequence[Spec]
) -> None:
    """Name every mark that has room for its name on a phone, those that take the most of a step first.

    Axes are given by their ends, as powers of ten; names stand left of a slope and below a flat roof where they can,
    and never on a line.
    """
    xs, ys = axes
    marks = [(trace, place) for trace in points for place in range(len(trace["x"]))]
    at: dict[int, list[tuple[float, float, float]]] = {id(trace): [] for trace in points}
    taken: list[Box] = _under(roofs, axes)
    for trace, place in marks:
        x = (math.log10(trace["x"][place]) - xs[0]) / (xs[1] - xs[0]) * _FRAME_PX[0]
        y = (math.log10(trace["y"][place]) - ys[0]) / (ys[1] - ys[0]) * _FRAME_PX[1]
        half = trace["marker"]["size"][place] / 2
        at[id(trace)].append((x, y, half))
        taken.append((x - half, y - half, x + half, y + half))
    for trace in points:
        trace["textposition"] = ["middle right"] * len(trace["x"])
    for trace, place in sorted(marks, key=lambda one: -float(one[0]["marker"]["size"][one[1]])):
        places = sorted(_PLACES, key=lambda one: ("left" if trace["x"][place] < ridge else "bottom") not in one)
        name = trace["text"][place]
        trace["text"][place] = ""
        for where, text in itertools.product(places, dict.fromkeys((name, _in_two(name)))):
            found = _room(at[id(trace)][place], text, [where], taken)
            if found is not None:
                trace["text"][place], (trace["textposition"][place], box) = text, found
                taken.append(box)
                break


def _in_two(name: str) -> str:
    """A name in two lines, parted near its middle."""
    spaces = [place for place, letter in enumerate(name) if letter == " "]
    if not spaces:
        return name
    at = min(spaces, key=lambda place: abs(place - len(name) / 2))
    return f"{name[:at]}<br>{name[at + 1 :]}"


def _room(
    mark: tuple[float, float, float], text: str, places: Sequence[str], taken: Sequence[Box]
) -> tuple[str, Box] | None:
    """Where a name has room beside a mark, and the box that it then takes."""
    x, y, size = mark
    lines = text.split("<br>")
    half, tall = max(map(len, lines)) * _LETTER_PX / 2, len(lines) * _LINE_PX / 2
    for name in places:
        right, up = _PLACES[name]
        middle = x + right * (half + (size if not up else 0.0)), y + up * (tall + size)
        box = (middle[0] - half, middle[1] - tall, middle[0] + half, middle[1] + tall)
        inside = box[0] >= 0 and box[2] <= _FRAME_PX[0] and box[1] >= 0 and box[3] <= _FRAME_PX[1]
        if inside and not any(
            box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in taken
        ):
            return name, box
    return None


def _ridge(chip: Any, precision: str = "bf16") -> float:
    return float(ridge_flop_per_byte(chip.peak_flop_per_s[precision].value, chip.hbm_bytes_per_s.value))


def _roofs(chip: Any, dash: str, reach: tuple[float, float]) -> tuple[list[Spec], list[Spec]]:
    """Roof lines of a chip by precision with their labels: bf16 from the left edge, narrower ones from its ridge."""
    lines: list[Spec] = []
    notes: list[Spec] = []
    bandwidth = words(chip.hbm_bytes_per_s.value, "B/s")
    for precision, fact in chip.peak_flop_per_s.items():
        ridge, peak = _ridge(chip, precision), fact.value
        start = reach[0] if precision == "bf16" else _ridge(chip)
        name = f"{plain(chip.name)}, {precision}"
        text = f"{name}: {words(peak, 'FLOP/s')} dense, memory {bandwidth}, ridge {ridge:.0f} FLOP/byte"
        lines.append({
            "type": "scatter", "mode": "lines", "x": rounded([start, ridge, reach[1]]), "showlegend": False,
            "y": rounded([peak * start / ridge, peak, peak]), "hovertemplate": f"{text}<extra></extra>",
            "line": {"color": NEUTRAL, "width": 2 if precision == "bf16" else 1.2,
                     "dash": dash if precision == "bf16" else "dot"},
        })  # fmt: skip
        same = next((one for one in notes if one["y"] == math.log10(peak)), None)
        if same is not None:
            same["text"] = f"{precision}, {same['text']}"
            continue
        notes.append({"x": math.log10(reach[1]), "y": math.log10(peak), "xanchor": "right", "yanchor": "bottom",
                      "text": precision, "showarrow": False, "font": {"size": 12}})  # fmt: skip
    return lines, notes


#: What the time of a phase's step is for, where it is not that of a token.
_PER = {"training": "a microbatch", "prefill": "a batch of prompts"}


def bounds_figure(ledger: Ledger) -> Spec:
    """What binds each step: its time split into compute, memory, network and overhead."""
    steps = [(name, step, one) for name, phase in ledger.phases.items() for step, one in phase.operations.items()]
    rows = list(range(len(steps)))[::-1]
    fractions = [bound_fractions(operations) for _, _, operations in steps]
    data: list[Spec] = []
    for bound in BOUNDS:
        shares, color = [one[bound] for one in fractions], parts.BOUND_COLORS[bound]
        data.append({
            "type": "bar", "orientation": "h", "name": bound, "x": rounded(shares), "y": rows,
            "width": [0.42] * len(rows), "marker": {"color": color, "line": {"width": 0}}, **parts.bar_text(color),
            "text": [f"{100 * share:.0f}\u00a0%" if share > 0.1 else "" for share in shares],
            "hovertext": [percent(share) for share in shares],
            "hovertemplate": f"{bound}: %{{hovertext}}<extra></extra>",
        })  # fmt: skip
    per = [_PER.get(step.split(": ")[-1], "a token") for _, step, _ in steps]
    notes = [
        parts.note(f"<b>{plain(step_words(name, step))}</b>   {words(median(total_s(one)), 's')} {of}", row + 0.37)
        for row, of, (name, step, one) in zip(rows, per, steps, strict=True)
    ]
    layout = parts.layout(
        62 * len(steps) + 40,
        notes,
        barmode="stack",
        showlegend=True,
        legend=parts.LEGEND | {"traceorder": "normal"},
        xaxis={"range": [0, 1.0], "visible": False, "fixedrange": True},
        yaxis={"range": [-0.25, len(steps) - 0.4], **parts.ROWS},
        margin={"l": 4, "r": 4, "t": 36, "b": 4},
    )
    return {"data": data, "layout": layout}


def speed_figure(ledger: Ledger) -> Spec:
    """Cost of a million output tokens against the speed one user sees, over batches of each inference engine."""
    phase = ledger.phases["inference"]
    data: list[Spec] = []
    ends: list[tuple[float, float, str, str, int]] = []
    for index, (label, curve) in enumerate(phase.curves.items()):
        color = parts.SERIES[index % len(parts.SERIES)]
        options = [option_document(one) for one in _gaining(curve.options)]
        x, y = ([one[key] for one in options] for key in ("output_tokens_per_s_per_user", "usd_per_mtok_output"))
        data.append({
            "type": "scatter", "mode": "lines+markers", "name": plain(label), "x": rounded(x), "y": rounded(y),
            "hovertext": [
                f"batch {one['batch']}<br>{words(one['output_tokens_per_s_per_user'], 'tokens/s')} per user<br>"
                f"{words(one['usd_per_mtok_output'], 'USD/Mtok')} of output"
                for one in options
            ],
            "line": {"color": color, "width": 2}, "hovertemplate": "%{hovertext}<extra></extra>",
            "marker": {"size": 6, "color": color, "symbol": parts.MARKS[index % len(parts.MARKS)]},
        })  # fmt: skip
        speed = quantity(1 / np.asarray(phase.details[f"{label}: tpot_s"][0]), "tokens/s")
        cost = quantity(phase.details[f"{label}: usd_per_mtok_output"][0], "USD/Mtok")
        data.append(_in_use(speed, cost, color, f"{plain(label)}, in use"))
        used = f"{words(point(cost), 'USD', 2)} at {words(point(speed), 'tokens/s', 2)}"
        ends.append((point(speed), point(cost), used, "center", 26))
        ends.append((x[0], y[0], f"batch {options[0]['batch']:,}", "right", 12))
        if abs(math.log10(x[-1] / point(speed))) > 0.1:
            ends.append((x[-1], y[-1], f"batch {options[-1]['batch']:,}", "left", -16))
    xs, ys = ([value for trace in data for value in trace[axis]] for axis in ("x", "y"))
    layout = parts.layout(
        430,
        [parts.corner("USD per Mtok of output ↑"), *_end_labels(ends)],
        xaxis=parts.log_axis(xs, format_si, 0.18) | {"title": {"text": "output tokens/s for one user →"}},
        yaxis=parts.log_axis(ys, format_usd, 0.3, is_fine=True),
        showlegend=True,
        legend=parts.LEGEND,
        margin={"l": 8, "r": 12, "t": 56, "b": 48},
    )
    return {"data": data, "layout": layout}


#: Share of a step's time from which on a smaller batch is faster.
_FASTER = 0.005


def _gaining(options: Sequence[ServingOption]) -> list[ServingOption]:
    """Batches without those that cost more than the next larger one and are no faster."""
    pairs = itertools.pairwise(options)
    return [*(one for one, larger in pairs if larger.tpot_s > (1 + _FASTER) * one.tpot_s), options[-1]]


def _end_labels(ends: list[tuple[float, float, str, str, int]]) -> list[Spec]:
    """Labels of the curves' ends, without those that would stand on another."""
    notes: list[Spec] = []
    for x, y, text, xanchor, shift in (one for one in ends if one[1] > 0):
        at = math.log10(x), math.log10(y)
        if all(
            abs(at[0] - one["x"]) > 0.1 or abs(at[1] - one["y"]) > 0.2 for one in notes if one["xanchor"] == xanchor
        ):
            notes.append({"x": at[0], "y": at[1], "xanchor": xanchor, "yshift": shift, "xshift": -5, "text": text,
                          "showarrow": False, "font": {"size": 12}})  # fmt: skip
    return notes


def _in_use(speed: Any, cost: Any, color: str, name: str) -> Spec:
    """The batch in use, ringed, with whiskers."""
    bars = {"type": "data", "symmetric": False, "color": color, "thickness": 1.5, "width": 4}
    x, y = point(speed), point(cost)
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": [x], "y": [y],
        "marker": {"size": 17, "symbol": "circle-open", "line": {"width": 3}, "color": color},
        "error_x": {**bars, "array": [point(speed, "p95") - x], "arrayminus": [x - point(speed, "p05")]},
        "error_y": {**bars, "array": [point(cost, "p95") - y], "arrayminus": [y - point(cost, "p05")]},
        "hovertemplate": f"%{{fullData.name}}<br>{words(x, 'tokens/s')} per user, "
        f"{words(y, 'USD/Mtok')}<extra></extra>",
    }  # fmt: skip


#: Share of the chart's width that a label at the end of a bar needs on a phone.
_END_LABEL = 0.3


def input_title(name: str) -> str:
    """Name of an uncertain input where it begins a line.

    Examples
    --------
    >>> input_title("inference.life"), input_title("plan.price")
    ('How long it is served', 'The price')
    """
    phrase = input_phrase(name)
    return phrase[0].upper() + phrase[1:]


def by_swing(drivers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Uncertain inputs, the one that moves the cost most first."""
    return sorted(drivers, key=lambda one: -abs(one["total_at_high"]["usd"] - one["total_at_low"]["usd"]))


def drivers_figure(document: Mapping[str, Any], most: int = 8) -> Spec:
    """What the total depends on: its cost with one input at either end of its 90 % interval, the others as they are.

    Examples
    --------
    >>> one = {"name": "plan.price", "low": 2.0, "high": 4.0, "unit": "USD/h"}
    >>> one |= {"total_at_low": {"usd": 2e6}, "total_at_high": {"usd": 5e6}}
    >>> figure = drivers_figure({"drivers": [one], "total": {"usd": 3e6}})
    >>> [(trace["base"], trace["x"]) for trace in figure["data"]]
    [([2000000.0], [3000000.0])]
    """
    drivers = by_swing(document["drivers"])[:most]
    rows = list(range(len(drivers)))[::-1]
    spans = [(one["total_at_low"]["usd"], one["total_at_high"]["usd"]) for one in drivers]
    cheap, dear = [min(pair) for pair in spans], [max(pair) for pair in spans]
    data: list[Spec] = [{
        "type": "bar", "orientation": "h", "base": rounded(cheap), "y": [row - 0.2 for row in rows],
        "x": rounded(high - low for low, high in zip(cheap, dear, strict=True)), "width": [0.36] * len(rows),
        "marker": {"color": palette.PLAIN, "line": {"width": 0}},
        "hovertext": [f"{plain(input_title(one['name']))}: {swing_words(one, 'usd')}"
                      for one in drivers],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }]  # fmt: skip
    notes = []
    for row, one, low, high in zip(rows, drivers, cheap, dear, strict=True):
        said = _rising(one)
        notes.append(parts.note(f"<b>{plain(input_title(one['name']))}</b>   {said}", row + 0.26))
        notes += [
            {"text": words(end, "USD", 2), "x": end, "y": row - 0.2, "showarrow": False, "xanchor": side,
             "xshift": shift, "font": {"size": 12}}
            for end, side, shift in ((low, "right", -4), (high, "left", 4))
        ]  # fmt: skip
    centre = point(document["total"]["usd"])
    notes.append({"text": f"median {figure_words(document['total']['usd'], 'USD')}", "x": centre, "y": 1, "yref":
                  "paper", "yanchor": "bottom", "showarrow": False, "font": {"size": 12}})  # fmt: skip
    wide = max(*dear, centre) - min(*cheap, centre) or 1.0
    pad = wide * _END_LABEL / (1 - 2 * _END_LABEL)
    layout = parts.layout(
        58 * len(drivers) + 36,
        notes,
        barmode="overlay",
        shapes=[{"type": "line", "x0": centre, "x1": centre, "y0": row - 0.42, "y1": row + 0.02,
                 "line": {"color": NEUTRAL, "width": 2}} for row in rows],
        xaxis={"range": [min(*cheap, centre) - pad, max(*dear, centre) + pad], "visible": False, "fixedrange": True},
        yaxis={"range": [-0.5, len(drivers) - 0.4], **parts.ROWS},
        margin={"l": 4, "r": 4, "t": 22, "b": 4},
    )  # fmt: skip
    return {"data": data, "layout": layout}


def _rising(one: Mapping[str, Any]) -> str:
    """The ends of an input's interval in the order of the bar's: the one that costs less first."""
    ends = tuple(_end_words(one[end], one["unit"]) for end in ("low", "high"))
    return _arrow(*(ends if one["total_at_low"]["usd"] <= one["total_at_high"]["usd"] else ends[::-1]))


def _end_words(value: float, unit: str) -> str:
    """An end of an input's interval; how long something lasts in months, from two on."""
    is_long = unit == "s" and value >= 2 * MONTH_S
    return f"{value / MONTH_S:.2g}\u00a0months" if is_long else words(value, unit, 2)


def _arrow(first: str, last: str) -> str:
    """From one end to the other, a unit that they share written once."""
    return joined(first, last).replace(" – ", " → ") or first


def swing_words(one: Mapping[str, Any], quantity: str) -> str:
    """A total at the low end and at the high end of an input, in this order."""
    unit = {"usd": "USD", "gpu_hours": ""}[quantity]
    return f"{words(one['total_at_low'][quantity], unit, 2)} → {words(one['total_at_high'][quantity], unit, 2)}"
