"""A serving answer taken apart, as terminal tables: what binds, how near the limit, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from computeledger.interfaces.tables import DIM, console, new_table, note
from computeledger.interfaces.wording import joined, place_words, show
from computeledger.physics.roofline import BOUNDS
from computeledger.units import format_percent, format_si

#: Colour of each bound, on dark and on light terminals.
BOUND_STYLES = {"compute": "blue", "memory": "cyan", "network": "yellow", "overhead": "red"}
#: A remainder below this share of a step is not worth a row.
NEGLIGIBLE = 0.001
_BAR, _SMALL = 72, 5
#: Operations that a constant is said to move, at most.
_MOST_NAMED = 2


def print_breakdown(document: Mapping[str, Any]) -> None:
    """Print both steps and the constants."""
    out = console()
    found = document["breakdown"]
    for phase, quantity, whole in (("decode", "TPOT", "tpot"), ("prefill", "TTFT", "ttft")):
        _print_step(out, f"{phase.capitalize()} step {place_words(document, phase)}", found[phase])
        terms = " + ".join(f"{name} {show(value, 's')}" for name, value in found[whole].items())
        total = show(sum(found[whole].values()), "s")
        out.print(Text(f"{quantity} ", style="bold").append(f"= {terms} = {total}\n", style="not bold"))
    _print_constants(out, found["constants"])


def _print_step(out: Console, name: str, step: Mapping[str, Any]) -> None:
    reached = step["limit_s"] / step["time_s"]
    title = f"{name}: {show(step['time_s'], 's')}"
    limit = f", physical limit {show(step['limit_s'], 's')}: {format_percent(reached)} of it is reached"
    out.print(Text(title, style="bold").append(limit, style="not bold"))
    operations = step["operations"]
    scale = max(sum(one["time_s"] for one in operations), step["limit_s"])
    for label, key, total_s in (("modelled", "time_s", step["time_s"]), ("limit", "limit_s", step["limit_s"])):
        bar = _stacked([(one[key], one["bound"]) for one in operations], scale)
        out.print(Text(f"{label:<9}", style=DIM).append(bar).append(f" {show(total_s, 's')}"))
    out.print(_legend(operations))
    table = new_table("", "operation", ">FLOP", ">moves", ">reaches", ">time", "of limit", "share", "binds")
    for one in operations:
        close = _gauge(one["limit_fraction"], "green").append(_whole(one["limit_fraction"]))
        style = BOUND_STYLES[one["bound"]]
        table.add_row(
            one["name"],
            format_si(one["flop"], "FLOP") if one["flop"] else "",
            _moves(one),
            _reaches(one),
            show(one["time_s"], "s"),
            close if one["limit_s"] else Text("has none", style=DIM),
            _gauge(one["share_fraction"], style).append(_whole(one["share_fraction"])),
            Text(one["bound"], style=style),
        )
    for label, value in step["beside_s"].items():
        if abs(value) > NEGLIGIBLE * step["time_s"]:
            left = _whole(value / step["time_s"])
            table.add_row(label, "", "", "", show(value, "s"), Text("has none", style=DIM), left, "")
    out.print(table)


def _whole(fraction: float) -> str:
    """A share in whole percent."""
    return "< 1 %" if 0 < fraction < 0.005 else f"{100 * fraction:.0f} %"


def _moves(one: Mapping[str, Any]) -> str:
    """Traffic: to and from HBM, or what is sent."""
    if one["network_bytes"]:
        return f"{format_si(one['network_bytes'], 'B')} sent"
    return format_si(one["bytes"], "B") if one["bytes"] else ""


def _reaches(one: Mapping[str, Any]) -> str:
    """The rate that binds, and its share of the peak."""
    if one["bound"] == "compute" and one["flop"]:
        return f"{format_si(one['flop_per_s'], 'FLOP/s')} {_whole(one['flop_per_s_fraction'])}"
    if one["bound"] == "memory":
        return f"{format_si(one['bytes_per_s'], 'B/s')} {_whole(one['bytes_per_s_fraction'])}"
    if one["bound"] == "network" and one["network_bytes"]:
        return format_si(one["network_bytes"] / one["time_s"], "B/s")
    return ""


def _stacked(parts: list[tuple[float, str]], scale: float) -> Text:
    """Parts as one bar, a shade apart from each other; cell edges are rounded from running sums, so none is lost."""
    bar, start, before = Text(), 0.0, 0
    for place, (value, bound) in enumerate(parts):
        start += value
        edge = round(start / scale * _BAR)
        bar.append(("█", "▓")[place % 2] * (edge - before), style=BOUND_STYLES[bound])
        before = edge
    return bar.append("·" * (_BAR - before), style=DIM)


def _gauge(fraction: float, style: str) -> Text:
    filled = round(max(0.0, min(fraction, 1.0)) * _SMALL)
    return Text().append("█" * filled, style=style).append("·" * (_SMALL - filled) + " ", style=DIM)


def _legend(operations: list[Mapping[str, Any]]) -> Text:
    whole = sum(one["time_s"] for one in operations)
    text = Text(" " * 9)
    for bound in BOUNDS:
        share = sum(one["time_s"] for one in operations if one["bound"] == bound) / whole
        if share:
            text.append("█ ", style=BOUND_STYLES[bound]).append(f"{bound} {format_percent(share)}   ")
    return text


def _print_constants(out: Console, constants: list[Mapping[str, Any]]) -> None:
    title = "Rests on: change of each time when the constant grows by 1 %"
    table = new_table(title, "constant", ">value", "range", ">TPOT", ">TTFT", "moves", "ground")
    for one in constants:
        moved = {key: value for key, value in one["elasticity"].items() if ": " in key}
        strongest = sorted(moved, key=lambda key: -abs(moved[key]))
        names = list(dict.fromkeys(key.partition(": ")[2] for key in strongest))
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        ground = one["kind"] if one["source"] == "assumption" else f"{one['kind']}, {one['source']}"
        table.add_row(
            constant_words(one["name"]),
            *constant_value(one),
            *(_percent(one["elasticity"].get(key)) for key in ("tpot_s", "ttft_s")),
            Text(", ".join(names[:_MOST_NAMED]) + more),
            Text(ground, style=DIM),
        )
    out.print(table)
    note(
        out,
        "found by moving each fact and factor a little: what is not listed does not move this answer; steps are at the "
        "middle of every constant, the medians at the top are over all samples",
    )


_FACT_WORDS = {
    "hbm_bytes_per_s": "HBM bandwidth",
    "scale_up_bytes_per_s_per_gpu": "scale-up bandwidth",
    "scale_out_bytes_per_s_per_gpu": "scale-out bandwidth",
    "scale_up_latency_s": "scale-up latency",
    "scale_out_latency_s": "scale-out latency",
}


def constant_words(name: str) -> str:
    """A constant's name as people read it."""
    if name.startswith("peak_flop_per_s_"):
        return f"{name.rpartition('_')[2]} peak"
    plain = name.removesuffix("_s").replace("_", " ").replace("scale up", "scale-up").replace("scale out", "scale-out")
    return _FACT_WORDS.get(name, plain.replace("kv ", "KV ").replace("gemm", "GEMM").replace("mlp", "MLP"))


def constant_value(one: Mapping[str, Any]) -> tuple[str, str]:
    """A constant with its unit, and its range where it has one."""
    unit = {"bytes_per_s": "B/s", "flop_per_s": "FLOP/s", "s": "s"}.get(one["unit"], "")
    return show(one["value"], unit), joined(show(one["low"], unit), show(one["high"], unit))


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f} %".replace("-", "−")
