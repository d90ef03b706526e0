"""A serving answer taken apart: what binds, how near the limit, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.view import Cell, Table, share_cell
from computeledger.questions.wording import joined, place_words, show, words
from computeledger.units import format_percent, format_si

#: A remainder below this share of a step is not worth a row.
NEGLIGIBLE = 0.001
#: Operations that a constant is said to move, at most.
_MOST_NAMED = 2
_OPERATION = ("operation", "FLOP #", "moves #", "reaches #", "time #", "of limit", "share", "bound")
_CONSTANT = ("constant", "value #", "range", "TPOT #", "TTFT #", "moves", "source")
_FACT_WORDS = {
    "hbm_bytes_per_s": "memory bandwidth",
    "scale_up_bytes_per_s_per_gpu": "scale-up bandwidth",
    "scale_out_bytes_per_s_per_gpu": "scale-out bandwidth",
    "scale_up_latency_s": "scale-up latency",
    "scale_out_latency_s": "scale-out latency",
    "oversubscription_ratio": "oversubscription",
}


def breakdown_tables(document: Mapping[str, Any]) -> list[Table]:
    """Both steps by operation, and the constants with how much each moves the answer."""
    found = document["breakdown"]
    steps = [_step(f"{phase.capitalize()} step {place_words(document, phase)}", phase, found[phase])
             for phase in ("decode", "prefill")]  # fmt: skip
    return [*steps, _constants(found["constants"])]


def _step(name: str, phase: str, step: Mapping[str, Any]) -> Table:
    reached = format_percent(step["limit_s"] / step["time_s"])
    title = f"{name}: {words(step['time_s'], 's')}"
    limit = f"physical limit {words(step['limit_s'], 's')}: {reached} of it is reached"
    rows: list[list[str | Cell]] = [
        [
            one["name"],
            words(one["flop"], "FLOP") if one["flop"] else "",
            _moves(one),
            _reaches(one),
            words(one["time_s"], "s"),
            share_cell(one["limit_fraction"], _whole(one["limit_fraction"])) if one["limit_s"] else "none",
            share_cell(one["share_fraction"], _whole(one["share_fraction"])),
            one["bound"],
        ]
        for one in step["operations"]
    ]
    for label, value in step["beside_s"].items():
        if abs(value) > NEGLIGIBLE * step["time_s"]:
            rows.append([label, "", "", "", words(value, "s"), "none", _whole(value / step["time_s"]), ""])
    return Table(f"{title}, {limit}", _OPERATION, rows, f"{phase}_s", drops=("FLOP", "moves"))


def _whole(fraction: float) -> str:
    """A share in whole percent."""
    return "< 1 %" if 0 < fraction < 0.005 else f"{100 * fraction:.0f} %"


def _moves(one: Mapping[str, Any]) -> str:
    """Traffic: to and from memory, or what is sent."""
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


def _constants(constants: list[Mapping[str, Any]]) -> Table:
    rows = []
    for one in constants:
        moved = {key: value for key, value in one["elasticity"].items() if ": " in key}
        strongest = sorted(moved, key=lambda key: -abs(moved[key]))
        names = list(dict.fromkeys(key.partition(": ")[2] for key in strongest))
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        effects = [_percent(one["elasticity"].get(key)) for key in ("tpot_s", "ttft_s")]
        source = one["kind"] if one["source"] == "assumption" else f"{one['kind']}, {one['source']}"
        moves = ", ".join(names[:_MOST_NAMED]) + more
        rows.append([constant_words(one["name"]), *_value(one), *effects, moves, source])
    note = (
        "Found by moving each fact and factor a little: what is not listed does not move this answer. Steps are at the "
        "median of every constant; the medians at the top are over all samples."
    )
    return Table(
        "Rests on: change of each time when the constant grows by 1 %", _CONSTANT, rows, note=note, drops=("moves",)
    )


def constant_words(name: str) -> str:
    """A constant's name as people read it."""
    if name.startswith("peak_flop_per_s_"):
        return f"{name.rpartition('_')[2]} peak"
    plain = name.removesuffix("_s").replace("_", " ").replace("scale up", "scale-up").replace("scale out", "scale-out")
    return _FACT_WORDS.get(name, plain.replace("kv ", "KV ").replace("gemm", "GEMM").replace("mlp", "MLP"))


def _value(one: Mapping[str, Any]) -> tuple[str, str]:
    """A constant with its unit, and its range where it has one."""
    unit = {"bytes_per_s": "B/s", "flop_per_s": "FLOP/s", "s": "s"}.get(one["unit"], "")
    return show(one["value"], unit), joined(show(one["low"], unit), show(one["high"], unit))


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f} %".replace("-", "−")
