"""Where the dollars of a plan go, as a plotly specification: each phase's cost on one axis, and what it buys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from computeledger.economics.plan.ledger import Ledger
from computeledger.interfaces.plots import parts
from computeledger.interfaces.plots.parts import NEUTRAL, PHASE_COLORS, Spec, plain, rounded
from computeledger.interfaces.plots.plan import without_spread
from computeledger.questions.wording import (
    PHASE_NAMES,
    figure_words,
    interval_words,
    percent,
    point,
    with_interval_words,
)
from computeledger.units import format_usd

#: Height of a phase's row (three lines of words, a bar), also on paper, and of the axis; parts of RL that are named.
_MONEY_PX, _PAPER_PX, _AXIS_PX, _NAMED = 88, 72, 26, 2
#: Letters of a line that a phone has room for.
_LINE = 46


def money_figure(document: Mapping[str, Any], ledger: Ledger) -> Spec:
    """Where the dollars go: a bar for each phase with its 90 % interval, the dearest first.

    Its cost and its share stand above the bar, and below them the interval, the GPU-hours that the dollars buy, and
    what these do.
    """
    phases = {**document["phases"], **({"experiments": document["experiments"]} if document["experiments"] else {})}
    order = sorted(phases, key=lambda name: -point(phases[name]["usd"]))
    rows = list(range(len(order)))[::-1]
    costs = [phases[name]["usd"] for name in order]
    ends = [(point(cost), point(cost, "p05"), point(cost, "p95")) for cost in costs]
    data: list[Spec] = [{
        "type": "bar", "orientation": "h", "x": rounded(size for size, *_ in ends), "y": [row - 0.29 for row in rows],
        "width": [0.24] * len(rows), "marker": {"color": [PHASE_COLORS[name] for name in order], "line": {"width": 0}},
        "error_x": {
            "type": "data", "symmetric": False, "color": NEUTRAL, "thickness": 1.5, "width": 4,
            "array": [high - size if high > low else None for size, low, high in ends],
            "arrayminus": [size - low if high > low else None for size, low, high in ends],
        },
        "hovertext": [f"{PHASE_NAMES[name]}: {with_interval_words(cost, 'USD')}"
                      for name, cost in zip(order, costs, strict=True)],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }]  # fmt: skip
    notes = []
    for row, name, cost in zip(rows, order, costs, strict=True):
        share, hours = document["shares"]["usd"][name], figure_words(phases[name]["gpu_hours"], "GPU-hours")
        spread = interval_words(cost, "USD") or without_spread(ledger, PHASE_NAMES[name])
        part = f"   {percent(share, 2)}" if len(order) > 1 else ""
        head = f"<b>{PHASE_NAMES[name]}  {figure_words(cost, 'USD')}</b>{part}"
        work = _modelled_words(phases[name]) or _work_words(name, phases[name])
        done = f"<br>{plain(work)}" if work else ""
        notes.append(parts.note(f"{head}<br>{spread} · {hours}{done}", row + 0.2))
    layout = parts.layout(
        _MONEY_PX * len(rows) + 8 + _AXIS_PX,
        notes,
        xaxis=_usd_axis(1.05 * max(high for *_, high in ends)),
        yaxis={"range": [-0.5, len(rows) - 0.4], **parts.ROWS},
        margin={"l": 8, "r": 12, "t": 4, "b": _AXIS_PX + 4},
        meta={"paper": _PAPER_PX * len(rows) + 8 + _AXIS_PX},  # where the answer shares the sheet
    )
    return {"data": data, "layout": layout}


def _usd_axis(most: float) -> Spec:
    """An axis from nothing to some dollars, with three to five ticks and no lines through the words above it."""
    rough = most / 4 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough)
    ticks = [step * place for place in range(int(most / step) + 1)]
    return {
        "range": [0, most or 1.0], "fixedrange": True, "showgrid": False, "zeroline": False, "ticks": "outside",
        "tickvals": rounded(ticks), "ticktext": [format_usd(tick) if tick else "$0" for tick in ticks],
    }  # fmt: skip


def _modelled_words(phase: Mapping[str, Any]) -> str:
    """GPU-hours that the model gives, where what the plan states lies outside their interval."""
    details = phase.get("details", {})
    found = details.get("modelled_gpu_hours")
    if not isinstance(found, Mapping) or found["p05"] <= point(phase["gpu_hours"]) <= found["p95"]:
        return ""
    return f"modelled: {figure_words(found, 'GPU-hours')} ({interval_words(found, '')})"


def _work_words(name: str, phase: Mapping[str, Any]) -> str:
    """What a phase does with its GPU-hours: its tokens, and how they are spent or how busy chips are with them."""
    if "tokens" not in phase or not point(phase["tokens"]):  # experiments
        return ""
    tokens, details = figure_words(phase["tokens"], ""), phase["details"]
    shares = {key.removesuffix("_fraction"): one for key, one in details.items() if key.endswith("_fraction")}
    if name == "rl" and shares:
        largest = sorted(shares, key=lambda one: -point(shares[one]))[:_NAMED]
        found = [f"{percent(point(shares[one]), 2)} {one}" for one in largest]
        said = f"{tokens} tokens: {', '.join(found)}"
        return said if len(said) <= _LINE else f"{tokens} tokens: {found[0]}"
    if name == "inference" and {"prefilled_tokens", "output_tokens"} <= set(details):
        read, made = (figure_words(details[key], "") for key in ("prefilled_tokens", "output_tokens"))
        return f"{read} tokens of prompts, {made} generated"
    return f"{tokens} tokens at {percent(point(phase['utilization_fraction']), 2)} of the peak"
