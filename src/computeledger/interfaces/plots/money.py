"""Plots about money as specifications: shares and returns of a budget, contours of the loss, cost and success."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from computeledger.economics.scaling.allocation import PHASES
from computeledger.economics.scaling.laws import LossLaw, pretraining_loss
from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.names import Labels
from computeledger.interfaces.plots.parts import SERIES, Spec, rounded
from computeledger.questions.policies import PERSON, chain, has_person, policies_in_short, policy_in_short
from computeledger.questions.wording import PHASE_NAMES, point, words
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
         "colorscale": [[0, palette.PLAIN], [1, palette.OTHER]],
         "hovertemplate": "%{x:.3~s} parameters, %{y:.3~s} tokens: %{z:.4f}<extra></extra>"},
        {"type": "scatter", "mode": "lines", "x": rounded(sizes), "y": rounded(d * n / sizes),
         "name": "same pretraining compute", "hoverinfo": "skip",
         "line": {"color": parts.NEUTRAL, "dash": "dot", "width": 1.5}},
        {"type": "scatter", "mode": "markers", "x": [n], "y": [d], "name": "here",
         "marker": {"size": 11, "color": palette.CHOSEN}},
    ]  # fmt: skip
    spec = _axes(360, "active parameters", "pretraining tokens")
    spec["xaxis"] |= parts.log_axis(sizes, format_si, 0.0)
    spec["yaxis"] |= parts.log_axis(tokens, format_si, 0.0)
    return {"data": data, "layout": spec}


#: What the chart of policies has across, as headline and table do.
_COST = "usd_per_completed_task"
#: Height of the drawing of cost and success and of the margins above and below it [px], and the end of its axis [%].
_FRONT_PX, _ABOVE_FRONT_PX, _BELOW_FRONT_PX, _MOST_DONE = 380, 24, 44, 108
#: What the label of the floor takes at an end of its line, as shares of the two axes.
_FLOOR_WORDS = (0.35, 0.06)
#: How near two labels may stand, as shares of the two axes.
_NEAR = (0.3, 0.08)


#: How far below its lowest tick the axis of success begins, so that no tick meets the other axis' words [%].
_CORNER = 3


def front_figure(document: Mapping[str, Any]) -> Spec:
    """Policies by cost of a completed task and success: those that matter named with their cost, the answer ringed."""
    is_person, best, least, options = (
        has_person(document),
        document["best"],
        document["least_success_fraction"],
        document["options"],
    )
    front = sorted((row for row in options if row["on_front"]), key=lambda row: float(row[_COST]))
    held = ", failures included" if document["failure_usd"] else ""
    spec = _axes(_FRONT_PX, f"cost of a completed task{held}", "% of tasks completed")
    spec["xaxis"] |= parts.log_axis((row[_COST] for row in options), format_usd)
    known = (row for row in options if row["single"] or row["policy"] == PERSON)
    named = _apart([best, *known, front[0], front[-1], *_turns(document)], spec["xaxis"]["range"])
    told = {row["policy"] for row in named}
    others = [row for row in options if row["policy"] not in told]
    data: list[Spec] = [
        {"type": "scatter", "mode": "lines", "name": "the front", "x": rounded(row[_COST] for row in front),
         "y": _done(front), "hoverinfo": "skip", "line": {"color": palette.PLAIN, "width": 1.5}},
        {**_policies(others, is_person), "name": "others", "marker": {"color": palette.OTHER, "size": 4}},
        {**_policies(named, is_person), "name": "named", "marker": {"color": palette.PLAIN, "size": 9},
         "error_y": _whiskers(named, palette.PLAIN)},
        {"type": "scatter", "mode": "markers", "name": "chosen", "x": rounded([best[_COST]]), "y": _done([best]),
         "hoverinfo": "skip",
         "marker": {"size": 18, "symbol": "circle-open", "line": {"width": 3}, "color": palette.CHOSEN}},
    ]  # fmt: skip
    low = 10 * math.floor(10 * min(point(row["interval"]["success_fraction"], "p05") for row in options) - 0.5)
    spec["yaxis"] |= {"range": [low - _CORNER, _MOST_DONE]}
    spec["annotations"] = _labels((named, front, options), (best, least), spec)
    spec["showlegend"], spec["margin"] = False, {"l": 4, "r": 8, "t": _ABOVE_FRONT_PX, "b": _BELOW_FRONT_PX}
    is_taken = any(_across(row, spec["xaxis"]["range"]) < _FLOOR_WORDS[0]
                   and abs(row["success_fraction"] - least) < _FLOOR_WORDS[1] for row in options)  # fmt: skip
    _floor(spec, least, f"at least {words(least, 'fraction', 2)}", is_right=is_taken)
    return {"data": data, "layout": spec}


def _done(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    return rounded(100 * row["success_fraction"] for row in rows)


def _policies(rows: Sequence[Mapping[str, Any]], is_person: bool) -> Spec:
    """Policies as points."""
    return {
        "type": "scatter", "mode": "markers", "x": rounded(row[_COST] for row in rows), "y": _done(rows),
        "text": [_short(row["policy"], is_person) for row in rows], "cliponaxis": False,
        "hovertemplate": "%{text}<br>$%{x:.3~g}, %{y:.3~g} %<extra></extra>",
    }  # fmt: skip


def _turns(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The cheapest policies as a failure costs more: where the front bends."""
    rows = {row["policy"]: row for row in document["options"] if row["on_front"]}
    return [rows[one["policy"]] for one in document["by_failure_usd"] if one["policy"] in rows]


def _floor(spec: Spec, least: float, text: str, *, is_right: bool) -> None:
    """A line at the success that is asked for, its label at the left, or at the right where a policy is that cheap."""
    at = round(100 * least, 2)
    spec["shapes"] = [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at, "layer": "below",
                       "line": {"color": palette.CHOSEN, "width": 1.5, "dash": "dot"}}]  # fmt: skip
    spec["annotations"] = [*spec["annotations"], {
        "text": text, "xref": "paper", "x": 0.99 if is_right else 0.01, "xanchor": "right" if is_right else "left",
        "y": at, "yanchor": "bottom", "showarrow": False,
        "font": {"size": 12, "color": palette.CHOSEN},
    }]  # fmt: skip


def _across(row: Mapping[str, Any], reach: Sequence[float]) -> float:
    """Where a policy's cost stands, as a share of the axis."""
    return float((math.log10(row[_COST]) - reach[0]) / (reach[1] - reach[0]))


def _apart(rows: Sequence[Mapping[str, Any]], reach: Sequence[float]) -> list[Mapping[str, Any]]:
    """Policies that have room for their names; those that come first have it."""
    kept: list[Mapping[str, Any]] = []
    for row in rows:
        at = _across(row, reach), row["success_fraction"]
        if all(abs(at[0] - _across(one, reach)) >= _NEAR[0] or abs(at[1] - one["success_fraction"]) >= _NEAR[1]
               for one in kept):  # fmt: skip
            kept.append(row)
    return kept


def _labels(
    rows: tuple[Sequence[Mapping[str, Any]], ...], answered: tuple[Mapping[str, Any], float], spec: Mapping[str, Any]
) -> list[Spec]:
    """Names and costs beside points, off all marks and lines: the answer, single models and the person at any rate."""
    (named, front, options), (best, least) = rows, answered
    reach, heights = spec["xaxis"]["range"], spec["yaxis"]["range"]
    labels = Labels(reach, heights, _FRONT_PX - _ABOVE_FRONT_PX - _BELOW_FRONT_PX)
    for row in options:
        size_px = 18 if row is best else 9 if row in named else 4
        labels.mark(math.log10(row[_COST]), 100 * row["success_fraction"], size_px)
    for row in named:
        low, high = (100 * point(row["interval"]["success_fraction"], end) for end in ("p05", "p95"))
        labels.bar(math.log10(row[_COST]), low, high)
    labels.line([(math.log10(row[_COST]), 100 * row["success_fraction"]) for row in front])
    labels.line([(reach[0], 100 * least), (reach[1], 100 * least)])
    is_person = any(row["policy"] == PERSON for row in options)
    for row in named:
        text = f"{_broken(policy_in_short(row['policy'], is_person), row is best)}<br>{words(row[_COST], 'USD', 2)}"
        low = 100 * point(row["interval"]["success_fraction"], "p05")  # a name stands at the end of its interval
        is_needed = row is best or row["single"] or row["policy"] == PERSON
        place = math.log10(row[_COST]), round(low, 2)
        if not labels.name(text, *place, size_px=9, is_needed=is_needed) and row is best:  # no room for all of it
            labels.name(f"the answer<br>{words(row[_COST], 'USD', 2)}", *place, size_px=9, is_needed=True)
    return [_with_bold_end(note) for note in labels.notes]


def _with_bold_end(note: Spec) -> Spec:
    """A name with its last line, the cost, in bold."""
    name, mark, cost = note["text"].rpartition("<br>")
    return {**note, "text": f"{name}<br><b>{cost}</b>"} if mark else note


def _short(policy: str, is_person: bool) -> str:
    """A policy as a chart has room for it."""
    return parts.plain(policy_in_short(policy, is_person))


#: Letters of a policy's name from which on it takes two lines beside its point.
_LONG = 24
#: Letters from which on its second line is parted again.
_LONGEST = 32


def _broken(name: str, is_answer: bool) -> str:
    """A name in two lines where it is long; that of the answer, which needs room, in three where the second is."""
    first, mark, rest = name.partition(", ")
    if len(name) <= _LONG or not mark:
        return name
    return f"{first},<br>{rest.replace(', ', ',<br>') if is_answer and len(rest) > _LONGEST else rest}"


#: Height of a policy's row and of the axis above [px]; where its words and its bar stand in the row.
_ROW_PX, _ABOVE_PX, _WORDS_AT, _BAR_AT = 48, 56, 0.22, -0.2
#: Rows of policies that a chart shows at most.
_MOST_RANGES = 6
#: Letters of a name that a phone has room for in one line, the end of a line and its height [px].
_MOST_LETTERS, _BREAK, _LINE_PX = 44, "<br>", 14
#: Width of a letter on a phone, as a share of the axis.
_LETTER = 0.0205


def failure_figure(document: Mapping[str, Any]) -> Spec:
    """From which to which cost of a failed task each policy is the cheapest, with the share that it completes.

    Policies in a row that differ in their tries alone are one bar. The axis is on top, where a reader begins.

    Examples
    --------
    >>> rows = [{"failure_usd": usd, "policy": "a", "success_fraction": share} for usd, share in ((0, 0.4), (2.0, 0.8))]
    >>> rows[1] |= {"policy": "a x2 checked"}
    >>> document = {"by_failure_usd": rows, "failure_usd": 0.0, "best": {"policy": "a"}, "options": []}
    >>> [note["text"].replace(chr(160), " ") for note in failure_figure(document)["layout"]["annotations"]]
    ['a alone', 'a up to 2 times', '<b>up to $2</b>: 40 %', '<b>from $2</b>: 80 %']
    """
    rows, given = document["by_failure_usd"], document["failure_usd"]
    costs = [row["failure_usd"] for row in rows if row["failure_usd"] > 0] or [1.0]
    start, end = (bound([*costs, *([given] if given else [])]) * by for bound, by in ((min, 0.2), (max, 5.0)))
    starts = [max(row["failure_usd"], start) for row in rows]
    led = _led(list(zip(rows, starts, [*starts[1:], end], strict=True)))
    is_person, best = has_person(document), document["best"]["policy"]
    places = list(range(len(led)))[::-1]
    names = [_lines(one.called(is_person)) for one in led]
    row_px = _ROW_PX + (_LINE_PX if any(_BREAK in name for name in names) else 0)
    data: list[Spec] = [{
        "type": "bar", "orientation": "h", "base": rounded(one.low for one in led),
        "x": rounded(one.high - one.low for one in led), "y": [place + _BAR_AT for place in places],
        "width": [10 / row_px] * len(led),
        "marker": {"color": [palette.CHOSEN if best in one.policies else palette.PLAIN for one in led],
                   "line": {"width": 0}}, "hoverinfo": "skip",
    }]  # fmt: skip
    axis = parts.log_axis([start, end], format_usd, 0.0)
    said = [parts.note(name, place + _WORDS_AT) for place, name in zip(places, names, strict=True)]
    for place, one in zip(places, led, strict=True):
        said += _beside(one, place + _BAR_AT, axis["range"])
    spec = parts.layout(
        row_px * len(led) + _ABOVE_PX, said, yaxis={"range": [-0.45, len(led) - 0.4], **parts.ROWS},
        xaxis=axis | {"side": "top", "title": {"text": "what a failed task costs you", "standoff": 6},
                      "showgrid": False, "showline": True, "ticks": "outside"},
        margin={"l": 4, "r": 12, "t": 52, "b": 4},
    )  # fmt: skip
    if given:
        data.append({"type": "scatter", "mode": "markers", "x": [given], "y": [len(led) - 0.48], "hoverinfo": "skip",
                     "marker": {"symbol": "triangle-up", "size": 11, "color": palette.CHOSEN}})  # fmt: skip
    return {"data": data, "layout": spec}


def _lines(name: str) -> str:
    """A name in two lines where a phone has no room for one.

    Examples
    --------
    >>> _lines("one model up to 2 times, another model up to 2, then a person")
    'one model up to 2 times,<br>another model up to 2, then a person'
    """
    said = parts.plain(name)
    return said.replace(", ", f",{_BREAK}", 1) if len(name) > _MOST_LETTERS else said


Ranged = tuple[Mapping[str, Any], float, float]


@dataclass(frozen=True, slots=True)
class _Led:
    """Policies that one after the other are the cheapest, and from which cost of a failed task to which."""

    rows: tuple[Mapping[str, Any], ...]
    low: float
    high: float
    is_first: bool
    is_last: bool

    @property
    def policies(self) -> tuple[str, ...]:
        """Their names in a document."""
        return tuple(row["policy"] for row in self.rows)

    @property
    def is_one_chain(self) -> bool:
        """Whether they differ in their tries alone."""
        return len({chain(one) for one in self.policies}) == 1

    def called(self, is_person: bool) -> str:
        """Their name: of one chain its models with the tries, else the first and the last."""
        if self.is_one_chain:
            return policies_in_short(self.policies, is_person)
        return f"{len(self.rows)} policies in between"

    @property
    def said(self) -> tuple[str, str]:
        """Range of costs, and share of the tasks completed."""
        least, most = (words(one, "USD", 2) for one in (self.low, self.high))
        costs = f"from {least}" if self.is_last else f"up to {most}" if self.is_first else f"{least} to {most}"
        shares = [row["success_fraction"] for row in self.rows]
        low, high = (words(bound(shares), "fraction", 2) for bound in (min, max))
        done = high if low == high else f"{low.rstrip(' %' + chr(160))} to {high}"
        return costs, done


def _beside(one: _Led, y: float, reach: Sequence[float]) -> list[Spec]:
    """The words of a bar on the side that has room for them, or on both; else its share stands above it."""
    low, high = ((math.log10(value) - reach[0]) / (reach[1] - reach[0]) for value in (one.low, one.high))
    costs, done = one.said
    whole = f"<b>{costs}</b>: {done}"
    if high + _width(f"{costs}: {done}") <= 1.0:
        return [_at_end(one.high, y, whole, is_right=True)]
    if low >= _width(f"{costs}: {done}"):
        return [_at_end(one.low, y, whole, is_right=False)]
    if low >= _width(costs) and high + _width(done) <= 1.0:
        return [_at_end(one.low, y, f"<b>{costs}</b>", is_right=False), _at_end(one.high, y, done, is_right=True)]
    is_right = high + _width(costs) <= 1.0
    share = {"text": done, "showarrow": False, "font": {"size": 12}, "yanchor": "middle", "y": y - _BAR_AT + _WORDS_AT,
             "x": 1, "xref": "paper", "xanchor": "right"}  # fmt: skip
    return [_at_end(one.high if is_right else one.low, y, f"<b>{costs}</b>", is_right=is_right), share]


def _width(text: str) -> float:
    """How much of a phone's axis a text takes, its distance to the bar included."""
    return _LETTER * len(text) + 0.01


def _at_end(value: float, y: float, text: str, *, is_right: bool) -> Spec:
    """Words right or left of a bar's end."""
    return {"text": text, "showarrow": False, "font": {"size": 12}, "yanchor": "middle", "y": y,
            "x": math.log10(value), "xanchor": "left" if is_right else "right",
            "xshift": 4 if is_right else -4}  # fmt: skip


def charted_policies(document: Mapping[str, Any]) -> set[str]:
    """The policies that the chart of failing costs names: of those that it draws as one the first and the last."""
    rows = document["by_failure_usd"]
    starts = [max(row["failure_usd"], 1e-9) for row in rows]
    led = _led(list(zip(rows, starts, [*starts[1:], math.inf], strict=True)))
    return {name for one in led if one.is_one_chain for name in (one.policies[0], one.policies[-1])}


def _led(rows: list[Ranged]) -> list[_Led]:
    """Bars of policies: those in a row that differ in tries alone, and the narrowest between others, are one.

    Examples
    --------
    >>> rows = [({"policy": name, "failure_usd": usd}, usd, high)
    ...         for name, usd, high in [("a", 1, 2), ("b x2 checked", 2, 3), ("b x1 checked", 3, 4), ("c", 4, 8)]]
    >>> [(one.policies, one.low, one.high) for one in _led(rows)]
    [(('a',), 1, 2), (('b x2 checked', 'b x1 checked'), 2, 4), (('c',), 4, 8)]
    """
    groups = [list(group) for _, group in itertools.groupby(rows, lambda one: chain(one[0]["policy"]))]
    inner = sorted(range(1, len(groups) - 1), key=lambda place: groups[place][-1][2] / groups[place][0][1])
    kept = {0, len(groups) - 1, *inner[::-1][: _MOST_RANGES - 2]}
    found: list[list[Ranged]] = []
    for is_kept, places in itertools.groupby(range(len(groups)), kept.__contains__):
        some = [groups[place] for place in places]
        found += some if is_kept else [list(itertools.chain(*some))]
    last = len(found) - 1
    return [_Led(tuple(row for row, *_ in own), own[0][1], own[-1][2], place == 0, place == last)
            for place, own in enumerate(found)]  # fmt: skip


def _whiskers(rows: Sequence[Mapping[str, Any]], color: str) -> Spec:
    """90 % intervals of success around the median."""
    ends = [[point(row["interval"]["success_fraction"], end) for row in rows] for end in ("p05", "p95")]
    median = [row["success_fraction"] for row in rows]
    up = [max(0.0, 100 * (high - at)) for high, at in zip(ends[1], median, strict=True)]
    down = [max(0.0, 100 * (at - low)) for low, at in zip(ends[0], median, strict=True)]
    return {"type": "data", "symmetric": False, "array": rounded(up), "arrayminus": rounded(down),
            "color": color, "thickness": 1, "width": 0}  # fmt: skip


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
