"""Plots of a system's run beside published training runs as plotly specifications: its FLOP, parameters and tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.frontier.epoch_files import SPECULATIVE, TrainingRun, record_below, records
from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.names import Labels
from computeledger.interfaces.plots.parts import Spec, plain, rounded
from computeledger.questions.wording import figure_words, interval_words, point, show, words
from computeledger.units import TERA

#: A line of text above the line of this system reaches to so many times its FLOP.
_TEXT_HIGH = 4.0
#: Decades between two labels.
_APART = 0.3
#: Marks of the two runs, and their size [px].
_MARKS, _OWN_PX = {"dense": "circle", "moe": "diamond"}, 13
_HEIGHT_PX, _MARGIN_PX = 380, 82
#: Published runs that are named beside their size and tokens, at most: those of the most compute that have room.
_NAMED = 4
#: Axes without lines over the drawing, which would run through names.
_LINE = {"showgrid": False, "showline": True, "ticks": "outside"}


def runs_figure(flop: Any, runs: Sequence[TrainingRun]) -> Spec:
    """FLOP of published runs by date of release, and of the system's run as a line with its 90 % interval.

    Examples
    --------
    >>> from computeledger.frontier.epoch_files import shipped_runs
    >>> figure = runs_figure(1e27, shipped_runs())
    >>> [one["name"] for one in figure["data"]]
    ['published runs', 'speculative', 'this system']
    """
    dates = sorted(one.date for one in runs)
    first, last = dates[0], f"{int(dates[-1][:4]) + 1}{dates[-1][4:]}"
    labels = _labelled(runs)
    speculative = [one.confidence == SPECULATIVE for one in runs]
    data = [
        _published([one for one, is_so in zip(runs, speculative, strict=True) if is_so is kept], labels, kept)
        for kept in (False, True)
    ]
    low, high = (point(flop, end) for end in ("p05", "p95"))
    said = f"{figure_words(flop, 'FLOP')}<br>{interval_words(flop, 'FLOP')}"
    if low < high:
        data.append({
            "type": "scatter", "mode": "lines", "x": [first, last, last, first], "y": rounded([low, low, high, high]),
            **parts.interval_band(palette.CHOSEN), "hoverinfo": "skip", "showlegend": False,
        })  # fmt: skip
    data.append({
        "type": "scatter", "mode": "lines", "x": [first, last], "y": rounded([point(flop)] * 2), "name": "this system",
        "showlegend": False,
        "line": {"color": palette.CHOSEN, "width": 2.5}, "hovertemplate": f"{said}<extra></extra>",
    })  # fmt: skip
    text = f"this run: <b>{figure_words(flop, 'FLOP')}</b>{_beside_record(point(flop))}"
    is_left = _crowd(runs, high, True) < _crowd(runs, high, False)
    place = {"x": 0.01, "xanchor": "left"} if is_left else {"x": 0.99, "xanchor": "right"}
    label = {**parts.note(text, math.log10(high)), "yanchor": "bottom", **place}
    every = [one.training_flop for one in runs]
    axis = parts.log_axis([0.4 * min(every, default=low), 2 * max(every, default=low), low, 8 * high], _flop)
    return _framed(data, [label], {"type": "date", "dtick": "M24"}, axis)


def _crowd(runs: Sequence[TrainingRun], flop: float, is_early: bool) -> int:
    """Runs of the earlier or the later half that lie where text on a line would stand."""
    middle = sorted(one.date for one in runs)[len(runs) // 2]
    return sum(1 <= one.training_flop / flop < _TEXT_HIGH and (one.date < middle) is is_early for one in runs)


def _beside_record(flop: float) -> str:
    """How many times the largest record it is that it reaches."""
    record = record_below(flop)
    if record is None:
        return ""
    return f", {words(flop / record.training_flop, '', 2)} times {plain(record.name.partition(' (')[0])}"


def data_figure(trains: Mapping[str, Any], stock: Mapping[str, float], runs: Sequence[TrainingRun]) -> Spec:
    """Parameters and tokens of both runs and of published ones, and the stock of text.

    Examples
    --------
    >>> run = {"n_params_total": 4e12, "tokens": 6e13}
    >>> stock = {"stock_tokens": 3e14, "low": 1e14, "high": 1e15}
    >>> [one["name"] for one in data_figure({"dense": run, "moe": run}, stock, [])["data"]][-2:]
    ['dense model', 'mixture of experts']
    """
    known = [one for one in runs if one.has_own_tokens]
    own = {"dense": "dense model", "moe": "mixture of experts"}
    across = [one.n_params or 1.0 for one in known]
    across += [point(trains[name]["n_params_total"], end) for name in own for end in ("p05", "p95")]
    ends = [0.6 * min(across), 1.7 * max(across)]
    low, high = stock["low"], stock["high"]
    data: list[Spec] = [
        {"type": "scatter", "mode": "lines", "x": rounded([*ends, *ends[::-1]]), "y": rounded([low, low, high, high]),
         **parts.interval_band(palette.OTHER), "hoverinfo": "skip", "showlegend": False, "name": "stock"},
        {"type": "scatter", "mode": "markers", "name": "published runs",
         "x": rounded(one.n_params or 1.0 for one in known),
         "y": rounded(one.tokens or 1.0 for one in known), "marker": {"color": palette.OTHER, "size": 7},
         "text": [f"{plain(one.name)}, {one.date}<br>{show(one.n_params or 0.0, '')} parameters, "
                  f"{show(one.tokens or 0.0, 'tokens')}" for one in known], "hovertemplate": "%{text}<extra></extra>"},
    ]  # fmt: skip
    data += [_own(trains[name], said, _MARKS[name]) for name, said in own.items()]
    stated, least, most = (f"{value / TERA:,.0f}T" for value in (stock["stock_tokens"], low, high))
    text = f"stock of text: {stated} ({least} to {most})"
    label = {**parts.note(text, math.log10(high)), "yanchor": "bottom", "x": 0.012, "font": {"size": 12}}
    tokens = [one.tokens or 1.0 for one in known]
    every = [low, 6 * high, *tokens, 0.3 * min(tokens, default=low)]
    up = parts.log_axis([*every, *(point(trains[name]["tokens"]) for name in own)], lambda value: show(value, ""))
    axis = {**parts.log_axis(ends, lambda value: show(value, ""), 0.0), "title": {"text": "parameters, total →"}}
    labels = Labels(axis["range"], up["range"], _HEIGHT_PX - _MARGIN_PX)
    for end in (low, high):
        labels.edge(math.log10(end))
    labels.keep(text, axis["range"][0], math.log10(high))
    notes = _names(labels, known, {said: trains[name] for name, said in own.items()})
    figure = _framed(data, [label, *notes], axis, up)
    figure["layout"] |= {"margin": {**figure["layout"]["margin"], "t": 34}}
    return figure


def _names(labels: Labels, known: Sequence[TrainingRun], own: Mapping[str, Any]) -> list[Spec]:
    """Names of both runs, and of the largest published ones that have room."""
    at = {one: (math.log10(one.n_params or 1.0), math.log10(one.tokens or 1.0)) for one in known}
    ours = {
        said: tuple(math.log10(point(run[key])) for key in ("n_params_total", "tokens")) for said, run in own.items()
    }
    for x, y in at.values():
        labels.mark(x, y)
    for said, (x, y) in ours.items():
        labels.mark(x, y, _OWN_PX)
        labels.bar(x, *(math.log10(point(own[said]["tokens"], end)) for end in ("p05", "p95")))
    for said, (x, y) in ours.items():
        labels.name(said, x, y, size_px=_OWN_PX, is_answer=True, is_needed=True)
    named: set[str] = set()
    for one in sorted(known, key=lambda run: -run.training_flop):
        name = one.name.partition(" (")[0]
        if len(named) < _NAMED and name not in named and labels.name(name, *at[one]):
            named.add(name)
    return labels.notes


def _own(run: Mapping[str, Any], said: str, mark: str) -> Spec:
    """One run that fills the system's time, with its intervals."""
    size, tokens = run["n_params_total"], run["tokens"]
    text = f"{said}: {figure_words(size, '')} parameters, {figure_words(tokens, 'tokens')}"
    return {
        "type": "scatter", "mode": "markers", "x": rounded([point(size)]), "y": rounded([point(tokens)]),
        "name": said, "showlegend": False,
        "marker": {"color": palette.CHOSEN, "size": _OWN_PX, "symbol": mark}, "hovertemplate": f"{text}<extra></extra>",
        "error_x": _error(size), "error_y": _error(tokens),
    }  # fmt: skip


def _error(value: Any) -> Spec:
    middle, low, high = (point(value, end) for end in ("p50", "p05", "p95"))
    return {"type": "data", "symmetric": False, "array": rounded([high - middle]), "color": palette.CHOSEN,
            "arrayminus": rounded([middle - low]), "thickness": 1.5, "width": 4}  # fmt: skip


def _labelled(runs: Sequence[TrainingRun]) -> set[str]:
    """Records that have room for their names, the latest first."""
    kept: list[TrainingRun] = []
    for one in reversed(records(runs)):
        if all(abs(math.log10(one.training_flop / other.training_flop)) >= _APART for other in kept):
            kept.append(one)
    return {one.name for one in kept}


def _published(some: Sequence[TrainingRun], labels: set[str], is_speculative: bool) -> Spec:
    early = f"{int(min(one.date for one in some)[:4]) + 2}" if some else ""
    return {
        "type": "scatter", "mode": "markers+text", "x": [one.date for one in some],
        "y": rounded(one.training_flop for one in some), "name": "speculative" if is_speculative else "published runs",
        "text": [plain(one.name.partition(" (")[0]) if one.name in labels else "" for one in some],
        "textposition": ["bottom right" if one.date < early else "top left" for one in some],
        "textfont": {"size": 12}, "cliponaxis": False,
        "marker": {"color": palette.OTHER, "size": 8, "symbol": "circle-open" if is_speculative else "circle"},
        "hovertext": [f"{plain(one.name)}, {one.date}: {show(one.training_flop, 'FLOP')} ({one.confidence.lower()})"
                      for one in some],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }  # fmt: skip


def _flop(value: float) -> str:
    return f"{value:.0e}".replace("e+", "e")


def _framed(data: list[Spec], notes: list[Spec], across: Spec, up: Spec) -> Spec:
    layout = parts.layout(
        _HEIGHT_PX, notes, showlegend=True, legend={**parts.LEGEND, "traceorder": "normal"},
        xaxis={"fixedrange": True, **_LINE, **across}, yaxis={"fixedrange": True, **_LINE, **up},
        margin={"l": 4, "r": 8, "t": 48, "b": 48},
    )  # fmt: skip
    return {"data": data, "layout": layout}
