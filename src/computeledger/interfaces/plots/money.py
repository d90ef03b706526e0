"""Plots about money as specifications: shares and returns of a budget, contours of the loss, cost and success."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from computeledger.economics.scaling.allocation import PHASES
from computeledger.economics.scaling.laws import LossLaw, pretraining_loss
from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.parts import SERIES, Spec, rounded
from computeledger.questions.policies import PERSON, has_person, policy_in_short
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
#: Width of a plot's axis, as a share, from which on a label stands left of its point.
_LEFT_FROM = 0.5
#: How near two labels may stand, as shares of the two axes.
_NEAR = (0.3, 0.08)


def front_figure(document: Mapping[str, Any]) -> Spec:
    """Policies by cost of a completed task and success: those that matter named with their cost, the answer ringed."""
    is_person, best, least, options = (
        has_person(document),
        document["best"],
        document["least_success_fraction"],
        document["options"],
    )
    front = sorted((row for row in options if row["on_front"]), key=lambda row: float(row[_COST]))
    spec = _axes(400, "cost of a completed task", "% of tasks completed")
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
    spec["annotations"] = _labels(named, spec["xaxis"]["range"], is_person)
    spec["showlegend"], spec["margin"] = False, {"l": 4, "r": 8, "t": 24, "b": 44}
    _floor(spec, least, f"at least {words(least, 'fraction', 2)}")
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


def _floor(spec: Spec, least: float, text: str) -> None:
    """A line at the success that is asked for, with its label at the left, where no policy is that cheap."""
    at = round(100 * least, 2)
    spec["shapes"] = [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at, "layer": "below",
                       "line": {"color": palette.CHOSEN, "width": 1.5, "dash": "dot"}}]  # fmt: skip
    spec["annotations"] = [*spec["annotations"], {
        "text": text, "xref": "paper", "x": 0.01, "xanchor": "left", "y": at, "yanchor": "bottom", "showarrow": False,
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


def _labels(rows: Sequence[Mapping[str, Any]], reach: Sequence[float], is_person: bool) -> list[Spec]:
    """Names and costs beside points of a rising line: below at the left, above at the right."""
    notes: list[Spec] = []
    for row in rows:
        is_left = _across(row, reach) > _LEFT_FROM
        notes.append({
            "text": f"{_short(row['policy'], is_person)}<br><b>{words(row[_COST], 'USD', 2)}</b>",
            "showarrow": False, "font": {"size": 12}, "align": "right" if is_left else "left",
            "x": math.log10(row[_COST]), "y": round(100 * row["success_fraction"], 2),
            "yanchor": "bottom" if is_left else "top",
            "xanchor": "right" if is_left else "left", "xshift": -10 if is_left else 10, "yshift": 0 if is_left else -2,
        })  # fmt: skip
    return notes


def _short(policy: str, is_person: bool) -> str:
    """A policy as a chart has room for it."""
    return parts.plain(policy_in_short(policy, is_person))


#: Height of a policy's row and of the axis below [px]; where its words and its bar stand in the row.
_ROW_PX, _BELOW_PX, _WORDS_AT, _BAR_AT = 44, 76, 0.22, -0.16
#: Rows of policies that a chart shows at most.
_MOST_RANGES = 7


def failure_figure(document: Mapping[str, Any]) -> Spec:
    """From which to which cost of a failed task each policy is the cheapest, with the share that it completes.

    Examples
    --------
    >>> rows = [{"failure_usd": usd, "policy": "a", "success_fraction": share} for usd, share in ((0, 0.4), (2.0, 0.8))]
    >>> document = {"by_failure_usd": rows, "failure_usd": 0.0, "best": {"policy": "a"}, "options": []}
    >>> [note["text"] for note in failure_figure(document)["layout"]["annotations"]][1].replace(chr(160), " ")
    'a alone  <b>from $2</b>: 80 %'
    """
    rows, given = document["by_failure_usd"], document["failure_usd"]
    costs = [row["failure_usd"] for row in rows if row["failure_usd"] > 0] or [1.0]
    start, end = (bound([*costs, *([given] if given else [])]) * by for bound, by in ((min, 0.2), (max, 5.0)))
    starts = [max(row["failure_usd"], start) for row in rows]
    wide = _widest(list(zip(rows, starts, [*starts[1:], end], strict=True)))
    is_person = has_person(document)
    places = list(range(len(wide)))[::-1]
    colors = [palette.OTHER if "n_between" in row else palette.CHOSEN if row["policy"] == document["best"]["policy"]
              else palette.PLAIN for row, *_ in wide]  # fmt: skip
    data: list[Spec] = [{
        "type": "bar", "orientation": "h", "base": rounded(low for _, low, _ in wide),
        "x": rounded(high - low for _, low, high in wide), "y": [place + _BAR_AT for place in places],
        "width": [(4 if "n_between" in row else 10) / _ROW_PX for row, *_ in wide],
        "marker": {"color": colors, "line": {"width": 0}}, "hoverinfo": "skip",
    }]  # fmt: skip
    notes = [
        parts.note(f"{_called(row, is_person)}  <b>{_range(row, low, high, (start, end))}</b>: {_completes(row)}",
                   place + _WORDS_AT)
        for place, (row, low, high) in zip(places, wide, strict=True)
    ]  # fmt: skip
    spec = parts.layout(
        _ROW_PX * len(wide) + _BELOW_PX, notes, yaxis={"range": [-0.6, len(wide) - 0.4], **parts.ROWS},
        xaxis=parts.log_axis([start, end], format_usd, 0.0) | {"title": {"text": "what a failed task costs you"}},
        margin={"l": 4, "r": 12, "t": 4, "b": 44},
    )  # fmt: skip
    if given:
        spec["shapes"] = [{"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": given, "x1": given,
                           "line": {"color": palette.CHOSEN, "width": 1.5, "dash": "dot"}}]  # fmt: skip
    return {"data": data, "layout": spec}


Ranged = tuple[Mapping[str, Any], float, float]


def charted_policies(document: Mapping[str, Any]) -> set[str]:
    """The policies that the chart of what a failed task costs names."""
    rows = document["by_failure_usd"]
    starts = [max(row["failure_usd"], 1e-9) for row in rows]
    wide = _widest(list(zip(rows, starts, [*starts[1:], math.inf], strict=True)))
    return {row["policy"] for row, *_ in wide if "n_between" not in row}


def _called(row: Mapping[str, Any], is_person: bool) -> str:
    return f"{row['n_between']} others" if "n_between" in row else _short(row["policy"], is_person)


def _completes(row: Mapping[str, Any]) -> str:
    """The share of the tasks that a policy completes; of several the ends."""
    if "n_between" not in row:
        return words(row["success_fraction"], "fraction", 2)
    least, most = (words(one, "fraction", 2) for one in row["success_fraction"])
    return f"{least.rstrip(' %' + chr(160))} to {most}"


def _widest(rows: list[Ranged]) -> list[Ranged]:
    """The first, the last, and the policies that lead over the widest ranges of what a failure costs, in order.

    Several that lead between two of them stand as one.

    Examples
    --------
    >>> rows = [({"policy": name, "failure_usd": usd, "success_fraction": usd / 1e3}, usd, high)
    ...         for name, usd, high in [("a", 1, 2), ("b", 2, 2.1), ("c", 2.1, 2.2), ("d", 2.2, 4), ("e", 4, 8),
    ...                                 ("f", 8, 16), ("g", 16, 32), ("h", 32, 64), ("i", 64, 128)]]
    >>> [(row["policy"], low, high) for row, low, high in _widest(rows)][:3]
    [('a', 1, 2), ('2 others', 2, 2.2), ('d', 2.2, 4)]
    """
    inner = sorted(range(1, len(rows) - 1), key=lambda place: rows[place][2] / rows[place][1])
    kept = {0, len(rows) - 1, *inner[::-1][: _MOST_RANGES - 2]}
    found: list[Ranged] = []
    for is_kept, group in itertools.groupby(range(len(rows)), kept.__contains__):
        some = [rows[place] for place in group]
        found += some if is_kept or len(some) == 1 else [_between(some)]
    return found


def _between(some: list[Ranged]) -> Ranged:
    """Several policies that lead one after the other, as one."""
    shares = [row["success_fraction"] for row, *_ in some]
    row = {"policy": f"{len(some)} others", "failure_usd": some[0][0]["failure_usd"], "n_between": len(some),
           "success_fraction": (min(shares), max(shares))}  # fmt: skip
    return row, some[0][1], some[-1][2]


def _range(row: Mapping[str, Any], low: float, high: float, ends: tuple[float, float]) -> str:
    """A range of what a failure costs, open where it is."""
    least, most = (words(one, "USD", 2) for one in (low, high))
    if high == ends[1]:
        return f"from {least}"
    return f"up to {most}" if row["failure_usd"] <= ends[0] else f"{least} to {most}"


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
