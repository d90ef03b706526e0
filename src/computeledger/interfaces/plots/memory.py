"""Plot of one GPU's memory as a plotly specification: what is in it against what it has, alike on every page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from computeledger.interfaces.plots import palette, parts
from computeledger.interfaces.plots.bars import strip_figure
from computeledger.interfaces.plots.parts import Spec, plain, rounded
from computeledger.questions.wording import words
from computeledger.units import gigabytes

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


_ROW_PX = 46
#: Largest memory of a GPU over which a bar that is far too long is cut, and half the height of a GPU's frame in rows.
_WIDEST, _FRAME = 1.6, 0.24


def memory_rows_figure(rows: Sequence[tuple[str, Mapping[str, float]]]) -> Spec:
    """The busiest GPU's memory of several ways to hold a model: a bar of gigabytes in the frame of what that GPU has.

    Of what does not fit a line marks where the GPU ends; what is far too much goes beyond the edge.

    Examples
    --------
    >>> held = {"weights": 2e10, "kv_cache": 1e10, "activations": 0.0, "total": 3e10, "capacity": 8e10}
    >>> figure = memory_rows_figure([("fp8 on 1 H100", held), ("bf16 on 1 H100", held | {"weights": 9e10})])
    >>> [(trace["name"], trace["x"]) for trace in figure["data"]][:2]
    [('weights', [20.0, 90.0]), ('KV cache', [10.0, 10.0])]
    """
    at = [float(len(rows) - 1 - place) for place in range(len(rows))]
    data: list[Spec] = []
    unit, giga = gigabytes()
    for name, color in palette.MEMORY.items():
        key = next((one for one, said in _NAMES.items() if said == name), name)
        sizes = [held.get(key, 0.0) for _, held in rows]
        if any(sizes) and name != "free":
            data.append({
                "type": "bar", "orientation": "h", "name": name, "x": rounded(size / giga for size in sizes),
                "y": [place - 0.16 for place in at], "width": [0.34] * len(rows), "marker": {"color": color},
                "hovertext": [f"{name}: {words(size, 'B')}" for size in sizes],
                "hovertemplate": "%{hovertext}<extra></extra>",
            })  # fmt: skip
    frames = [_frame(place - 0.16, held) for place, (_, held) in zip(at, rows, strict=True)]
    largest = max(held["capacity"] for _, held in rows)
    most = max(largest, *(sum(held[one] for one in _parts(held)) for _, held in rows))
    layout = parts.layout(
        _ROW_PX * len(rows) + 92,
        [parts.note(f"{_mark(held)} {plain(label)}  <b>{_of(held)}</b>", place + 0.26)
         for place, (label, held) in zip(at, rows, strict=True)],
        barmode="stack", showlegend=True, legend=parts.LEGEND | {"traceorder": "normal"},
        shapes=[shape for frame in frames for shape in frame],
        xaxis={"range": [0, round(1.02 * min(most, _WIDEST * largest) / giga, 4)], "fixedrange": True, "nticks": 10,
               "zeroline": False, "showgrid": False, "title": {"text": f"{unit} on each GPU"}},
        yaxis={"range": [-0.5, len(rows) - 0.4], **parts.ROWS},
        margin={"l": 4, "r": 6, "t": 44, "b": 44},
    )  # fmt: skip
    return {"data": data, "layout": layout}


#: Share of a memory below which what an engine keeps free is not seen.
_LEAST_KEPT = 0.005


def kept_free(held: Mapping[str, float]) -> float:
    """What an engine leaves free of a GPU, however large the cache: 0 where it fills all of it [byte].

    Examples
    --------
    >>> kept_free({"total": 4e10, "kv_cache": 1e10, "cache_capacity": 4.2e10, "capacity": 8e10})
    8000000000.0
    """
    if "cache_capacity" not in held or held["total"] > held["capacity"]:
        return 0.0
    kept = held["capacity"] - (held["total"] - held["kv_cache"] + held["cache_capacity"])
    return kept if kept > _LEAST_KEPT * held["capacity"] else 0.0


def _frame(y: float, held: Mapping[str, float]) -> list[Spec]:
    """What a GPU has around its bar, and a line where it ends if more is needed."""
    end = round(held["capacity"] / gigabytes()[1], 4)
    reserve = kept_free(held) / gigabytes()[1]
    kept: list[Spec] = [{
        "type": "rect", "x0": round(end - reserve, 4), "x1": end, "y0": y - _FRAME, "y1": y + _FRAME, "layer": "below",
        "fillcolor": parts.faint(palette.OTHER, 0.6), "line": {"width": 0},
    }] if reserve else []  # fmt: skip
    frame: Spec = {
        "type": "rect", "x0": 0, "x1": end, "y0": y - _FRAME, "y1": y + _FRAME, "layer": "below",
        "fillcolor": parts.faint(palette.OTHER, 0.15), "line": {"color": palette.OTHER, "width": 1},
    }  # fmt: skip
    if held["total"] <= held["capacity"]:
        return [frame, *kept]
    edge = {"type": "line", "x0": end, "x1": end, "y0": y - _FRAME, "y1": y + _FRAME,
            "line": {"color": palette.BAD, "width": 3}}  # fmt: skip
    return [frame, edge]


def _mark(held: Mapping[str, float]) -> str:
    """A tick before what fits, a cross before what does not."""
    sign, color = ("\u2713", palette.GOOD) if held["total"] <= held["capacity"] else ("\u2717", palette.BAD)
    return f'<span style="color:{color}"><b>{sign}</b></span>'


def _parts(held: Mapping[str, float]) -> list[str]:
    return [one for one in held if _NAMES.get(one, one) in palette.MEMORY]


def _of(held: Mapping[str, float]) -> str:
    """How much of how much, and whether that is too much."""
    total, capacity = (words(held[name], "B") for name in ("total", "capacity"))
    more = ", too much" if held["total"] > held["capacity"] else ""
    (number, _, unit), (most, _, unit_of_most) = (said.partition("\u00a0") for said in (total, capacity))
    return f"{number} of {most}{more}" if unit == unit_of_most else f"{total} of {capacity}{more}"
