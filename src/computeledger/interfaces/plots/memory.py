"""Plot of one GPU's memory as a plotly specification: what is in it against what it has, alike on every page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.bars import strip_figure
from computeledger.interfaces.plots.parts import Spec, plain, rounded
from computeledger.questions.wording import words

#: Names of what fills a memory, where they are not the document's.
_NAMES = {"kv_cache": "KV cache"}
_TOP_PX = 24
#: Share of the plot from which on a label stands left of its line.
_LEFT_FROM = 0.5


def memory_figure(held: Mapping[str, float]) -> Spec:
    """The memory of the busiest GPU by what fills it, what is free, and the line beyond which there is none.

    Where a job should not fill all of it, a dotted line says how much it should.

    Examples
    --------
    >>> held = {"weights": 2e10, "kv_cache": 1e10, "activations": 0.0, "total": 3e10, "capacity": 8e10}
    >>> figure = memory_figure(held)
    >>> [(trace["name"], trace["x"]) for trace in figure["data"]]
    [('weights', [20000000000.0]), ('KV cache', [10000000000.0]), ('free', [50000000000.0])]
    >>> figure["layout"]["shapes"][0]["x0"]
    80000000000.0
    """
    named = {_NAMES.get(name, name): size for name, size in held.items()}
    sizes = {name: size for name, size in named.items() if name in palette.MEMORY and size > 0}
    capacity, total = held["capacity"], sum(sizes.values())
    colors = [palette.MEMORY[name] for name in (*sizes, "free")]
    figure = strip_figure({**sizes, "free": max(0.0, capacity - total)}, colors, "B")
    layout = figure["layout"]
    bottom, top = layout["yaxis"]["range"]
    layout["yaxis"]["range"] = [bottom, top + _TOP_PX * (top - bottom) / layout["height"]]
    layout["height"] += _TOP_PX
    lines = [(capacity, palette.BAD, "solid")]
    if total < held.get("usable", 0.0) < capacity:  # the line stands where the share of what is free would
        figure["data"][-1]["text"] = [""]
    if "usable" in held:
        lines.append((held["usable"], palette.CONDITIONAL, "dot"))
    layout["shapes"] = [
        {"type": "line", "x0": at, "x1": at, "y0": -0.35, "y1": top, "line": {"color": color, "width": 3, "dash": dash}}
        for at, color, dash in lines
    ]  # fmt: skip
    filled = f", {words(held['usable'], 'B')} for a job" if "usable" in held else ""
    is_left = capacity > _LEFT_FROM * max(total, capacity)
    layout["annotations"].append({
        "text": f"{words(capacity, 'B')}{filled}", "x": capacity, "xanchor": "right" if is_left else "left",
        "xshift": 0 if is_left else 4, "y": top, "yanchor": "bottom", "showarrow": False, "font": {"size": 12},
    })  # fmt: skip
    layout["margin"] = {"l": 4, "r": 6, "t": 4, "b": 4}
    return figure


_ROW_PX = 42
#: Shares of a GPU's memory that the axis ends at, at most, and its ticks.
_WIDEST, _TICKS = 1.5, (0.0, 0.25, 0.5, 0.75, 1.0)


def memory_rows_figure(rows: Sequence[tuple[str, Mapping[str, float]]]) -> Spec:
    """The busiest GPU's memory of several ways to hold a model, a bar each, as shares of what there is.

    What is far too much goes beyond the edge.

    Examples
    --------
    >>> held = {"weights": 2e10, "kv_cache": 1e10, "activations": 0.0, "total": 3e10, "capacity": 8e10}
    >>> figure = memory_rows_figure([("fp8 on 1 H100", held), ("bf16 on 1 H100", held | {"weights": 9e10})])
    >>> [(trace["name"], trace["x"]) for trace in figure["data"]][:2]
    [('weights', [0.25, 1.125]), ('KV cache', [0.125, 0.125])]
    """
    at = [float(len(rows) - 1 - place) for place in range(len(rows))]
    data: list[Spec] = []
    for name, color in palette.MEMORY.items():
        key = next((one for one, said in _NAMES.items() if said == name), name)
        sizes = [held.get(key, 0.0) for _, held in rows]
        if any(sizes) and name != "free":
            shares = [size / held["capacity"] for size, (_, held) in zip(sizes, rows, strict=True)]
            data.append({
                "type": "bar", "orientation": "h", "name": name, "x": rounded(shares), "y": at,
                "width": [0.4] * len(rows), "marker": {"color": color},
                "hovertext": [f"{name}: {words(size, 'B')}" for size in sizes],
                "hovertemplate": "%{hovertext}<extra></extra>",
            })  # fmt: skip
    most = max(max(sum(held.get(one, 0.0) for one in _parts(held)) / held["capacity"], 1.0) for _, held in rows)
    said = [f"{plain(label)} <b>{_of(held)}</b>" for label, held in rows]
    notes = [parts.note(text, place + 0.4) for place, text in zip(at, said, strict=True)]
    line: Spec = {
        "type": "scatter", "mode": "lines", "name": "GPU memory", "hoverinfo": "skip",
        "x": [1.0, 1.0, None] * len(rows), "y": [end for place in at for end in (place - 0.26, place + 0.24, None)],
        "line": {"color": palette.BAD, "width": 3},
    }  # fmt: skip
    layout = parts.layout(
        _ROW_PX * len(rows) + 92, notes,
        barmode="stack", showlegend=True, legend=parts.LEGEND | {"traceorder": "normal"},
        xaxis={"range": [0, 1.03 * min(most, _WIDEST)], "fixedrange": True, "zeroline": False, "showgrid": False,
               "tickvals": list(_TICKS), "ticktext": [f"{100 * one:.0f}\u00a0%" for one in _TICKS],
               "title": {"text": "share of each GPU's memory"}},
        yaxis={"range": [-0.5, len(rows) - 0.3], **parts.ROWS},
        margin={"l": 4, "r": 6, "t": 44, "b": 44},
    )  # fmt: skip
    return {"data": [*data, line], "layout": layout}


def _parts(held: Mapping[str, float]) -> list[str]:
    return [one for one in held if _NAMES.get(one, one) in palette.MEMORY]


#: Bytes from which on whole gigabytes have three digits.
_HUNDRED_GB = 1e11


def _of(held: Mapping[str, float]) -> str:
    """How much of how much, and whether that is too much."""
    total, capacity = (words(held[name], "B", 3 if held[name] >= _HUNDRED_GB else 2) for name in ("total", "capacity"))
    more = ", too much" if held["total"] > held["capacity"] else ""
    number, _, unit = total.partition("\u00a0")
    return f"{number if capacity.endswith(unit) else total} of {capacity}{more}"
