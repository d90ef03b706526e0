"""A serving answer as one HTML page that needs nothing from the network and runs no script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.page import assets, foot, page_template, version
from computeledger.interfaces.tables_breakdown import NEGLIGIBLE, constant_words
from computeledger.interfaces.tables_tiers import interval_span, span_words
from computeledger.interfaces.wording import (
    anchor_words,
    engine_words,
    interval_words,
    margins_words,
    meets_words,
    percent,
    place_words,
    point,
    span,
    sureness_words,
    words,
)
from computeledger.physics.roofline import BOUNDS
from computeledger.sources import load_sources
from computeledger.units import KILO, format_count, format_si

Context = dict[str, Any]

_TILES = (
    ("Per output token", "tpot_s", "s", True),
    ("To the first token", "ttft_s", "s", True),
    ("Tokens/s per user", "output_tokens_per_s_per_user", "", False),
    ("Tokens/s per GPU", "output_tokens_per_s_per_gpu", "", False),
    ("Million tokens out", "usd_per_mtok_output", "USD", True),
    ("Million tokens in", "usd_per_mtok_input", "USD", True),
)
_MEMORY = {"weights": "compute", "kv_cache": "memory", "activations": "network", "workspace": "overhead"}
#: A segment narrower than this share of a bar carries no label.
_LABELLED = 0.085
_EMPTY = "\u2013"


def serving_report(document: Mapping[str, Any]) -> str:
    """Render a serving document with its breakdown."""
    found = document["breakdown"]
    keys = {one["source"] for one in found["constants"]} | {document["price"].get("source", "")}
    title = f"{document['model']} on {document['system']}"
    return page_template("serving.html").render(
        title=title,
        foot=foot(f"{title} · Compute Ledger"),
        how=_how(document),
        remarks=_remarks(document),
        lead=_lead(document),
        tiles=[_tile(document, *tile) for tile in _TILES],
        steps=[_step(document, phase) for phase in ("decode", "prefill")],
        memory=_memory(document["memory_bytes"]),
        largest=format_si(document["largest_batch"]),
        constants=[_constant(one) for one in found["constants"]],
        figures=[_figure(one) for one in document.get("working", ())],
        front=_front(document),
        tiers=_tiers(document["kv_tiers"]) if "kv_tiers" in document else None,
        sources=[load_sources()[key] for key in sorted(keys & set(load_sources()))],
        price=_price(document),
        version=version(),
        style=assets("report.css", "serving.css"),
    )


def _price(document: Mapping[str, Any]) -> str:
    price = document["price"]
    if price["origin"] == "given":
        return "as given"
    return f"{price['given']} ({price['kind']}, edition {price['edition']}, {price['source']})"


def _how(document: Mapping[str, Any]) -> list[str]:
    widths = "/".join(dict.fromkeys((document["precision"]["attention"], document["precision"]["experts"])))
    lengths = [f"{words(document[f'{name}_tokens'], '')} {name}" for name in ("input", "cached", "output")]
    return [
        document["layout"],
        f"{document['n_replicas']} × {format_count(document['n_gpus_per_replica'], 'GPU')}",
        f"{widths} weights, {document['precision']['kv']} cache",
        f"batch {document['batch']:.0f}",
        f"{', '.join(lengths)} tokens per request",
        engine_words(document),
    ]


def _remarks(document: Mapping[str, Any]) -> list[str]:
    """How sure the answer is, and what a reader must know of it."""
    anchor = [anchor_words(document["anchor"])] if "anchor" in document else []
    meets = [meets_words(name, one) for name, one in document.get("meets", {}).items()]
    return [sureness_words(document["interval"]), *anchor, *document.get("remarks", ()), *meets]


def _lead(document: Mapping[str, Any]) -> Context:
    found = document["breakdown"]["decode"]
    longest = max(found["operations"], key=lambda one: one["time_s"])
    return {
        "bound": document["bound"],
        "share": percent(document["bound_fractions"][document["bound"]]),
        "longest": longest["name"],
        "longest_share": percent(longest["share_fraction"]),
        "reached": percent(found["limit_fraction"]),
        "limit": words(found["limit_s"], "s"),
    }


def _tile(document: Mapping[str, Any], label: str, key: str, unit: str, less: bool) -> Context:
    value, limit = document[key], point(document["physical_limit"][key])
    ratio = limit / point(value) if less else point(value) / limit if limit else 0.0
    return {
        "label": label,
        "text": words(point(value), unit),
        "band": interval_words(value, unit),
        "limit": words(limit, unit),
        "width": round(100 * min(max(ratio, 0.0), 1.0), 1),
    }


def _step(document: Mapping[str, Any], phase: str) -> Context:
    step = document["breakdown"][phase]
    known = {one["name"]: one["time_s"] for one in document["components"][phase]}
    scale = max(step["time_s"], step["limit_s"])
    totals = document["breakdown"]["tpot" if phase == "decode" else "ttft"]
    return {
        "key": phase,
        "name": phase.capitalize(),
        "time": words(step["time_s"], "s"),
        "place": place_words(document, phase),
        "limit": words(step["limit_s"], "s"),
        "reached": percent(step["limit_fraction"]),
        "bars": [
            {"label": label, "time": words(step[f"{kind}_s"], "s"),
             "segments": _segments(step["operations"], f"{kind}_s", scale)}
            for label, kind in (("modelled", "time"), ("limit", "limit"))
        ],
        "bounds": _bounds(step["operations"]),
        "rows": [_row(one, known, document["breakdown"]["constants"], phase) for one in step["operations"]],
        "beside": [
            (name, words(value, "s")) for name, value in step["beside_s"].items()
            if abs(value) > NEGLIGIBLE * step["time_s"]
        ],
        "whole": "TPOT" if phase == "decode" else "TTFT",
        "terms": [(name, words(value, "s")) for name, value in totals.items()],
        "total": words(sum(totals.values()), "s"),
    }  # fmt: skip


def _segments(operations: Sequence[Mapping[str, Any]], key: str, scale: float) -> list[Context]:
    return [
        {"name": one["name"], "bound": one["bound"], "width": round(100 * one[key] / scale, 3),
         "text": words(one[key], "s"), "labelled": one[key] / scale > _LABELLED}
        for one in operations if one[key] > 0
    ]  # fmt: skip


def _bounds(operations: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    whole = sum(one["time_s"] for one in operations)
    parts = {bound: sum(one["time_s"] for one in operations if one["bound"] == bound) / whole for bound in BOUNDS}
    return [(bound, percent(part)) for bound, part in parts.items() if part]


def _row(
    one: Mapping[str, Any], known: Mapping[str, Any], constants: Sequence[Mapping[str, Any]], phase: str
) -> Context:
    work = (("flop", "flop", "FLOP"), ("bytes", "bytes", "B"), ("network", "network_bytes", "B"))
    key = f"{phase}: {one['name']}"
    moved = [(constant_words(c["name"]), c["elasticity"][key]) for c in constants if key in c["elasticity"]]
    rate = {"compute": ("flop_per_s", "FLOP/s"), "memory": ("bytes_per_s", "B/s")}.get(one["bound"])
    rate = rate if rate and one[rate[0]] > 0 else None
    sent = words(one["network_bytes"] / one["time_s"], "B/s") if one["network_bytes"] else _EMPTY
    return {
        **{name: words(one[field], unit) if one[field] else _EMPTY for name, field, unit in work},
        "name": one["name"],
        "bound": one["bound"],
        "rate": words(one[rate[0]], rate[1]) if rate else sent,
        "of_peak": f"{percent(one[f'{rate[0]}_fraction'])} of peak" if rate else "",
        "time": words(one["time_s"], "s"),
        "band": interval_words(known.get(one["name"], one["time_s"]), "s"),
        "limit": words(one["limit_s"], "s") if one["limit_s"] else _EMPTY,
        "of_limit": percent(one["limit_fraction"]) if one["limit_s"] else "has none",
        "of_limit_width": round(100 * one["limit_fraction"], 1),
        "share": percent(one["share_fraction"]),
        "width": round(100 * one["share_fraction"], 1),
        "rests_on": [f"{name} {_signed(value)}" for name, value in sorted(moved, key=lambda pair: -abs(pair[1]))],
    }


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\u2212")


def _memory(memory: Mapping[str, float]) -> Context:
    capacity = memory["capacity"]
    parts = [
        {"name": name.replace("_", " ").replace("kv", "KV"), "bound": _MEMORY.get(name, "overhead"),
         "width": round(100 * value / max(capacity, memory["total"]), 2), "text": words(value, "B"),
         "labelled": value / capacity > _LABELLED}
        for name, value in memory.items() if name not in ("total", "capacity")
    ]  # fmt: skip
    return {"parts": parts, "total": words(memory["total"], "B"), "capacity": words(capacity, "B")}


def _constant(one: Mapping[str, Any]) -> Context:
    moved = sorted((pair for pair in one["elasticity"].items() if ": " in pair[0]), key=lambda pair: -abs(pair[1]))
    return {
        "name": constant_words(one["name"]),
        "kind": one["kind"],
        "value": words(one["value"], one["unit"]),
        "range": span(one["low"], one["high"], one["unit"]) if one["low"] < one["high"] else "",
        "tpot": _moves(one["elasticity"].get("tpot_s", 0.0)),
        "ttft": _moves(one["elasticity"].get("ttft_s", 0.0)),
        "moves": [f"{key} {_signed(value)}" for key, value in moved],
        "why": one["why"],
        "source": one["source"] if one["source"] in load_sources() else "",
    }


def _moves(value: float) -> Context:
    """A change in percent, and a bar from the middle: left is faster."""
    width = round(50 * min(abs(value), 1.0), 1)
    return {"text": f"{_signed(value)} %" if value else "", "width": width, "left": 50 - width if value < 0 else 50}


def _figure(one: Mapping[str, Any]) -> Context:
    return {
        "name": one["name"],
        "text": words(point(one["value"]), one["unit"]),
        "band": interval_words(one["value"], one["unit"]),
        "formula": one["formula"],
    }


def _tiers(found: Mapping[str, Any]) -> Context:
    """A prefix in every tier of memory, and stages with less HBM."""
    return {
        "size": words(point(found["prefix_bytes"]), "B"),
        "tokens": words(point(found["prefix_tokens"]), ""),
        "again": words(point(found["recompute_s"]), "s"),
        "again_usd": words(point(found["recompute_usd"]), "USD"),
        "reuse": [span_words(float(key)) for key in found["tiers"][0]["hit_usd"]],
        "rows": [
            {
                "id": one["id"],
                "name": one["name"],
                "hit": words(point(one["hit_s"]), "s") if point(one["hit_s"]) else "at once",
                "costs": [words(KILO * point(cost), "USD") for cost in one["hit_usd"].values()],
                "hold": interval_span(one["hold_or_recompute_s"]),
                "pays": interval_span(one["discount_pays_s"]),
            }
            for one in found["tiers"]
        ],
        "share": percent(found["assumptions"]["cache_read_fraction"]),
        "stages": [
            {
                "stages": one["stages"],
                "n_gpus": one["n_gpus"],
                "cells": [words(point(one[name]), unit) for name, unit in _STAGE_CELLS],
            }
            for one in found["memory_design"]
        ],
        "edition": found["edition"],
        "left_out": found["assumptions"]["left_out"],
    }


_STAGE_CELLS = (
    ("hbm_bytes", "B"),
    ("saved_usd_per_gpu", "USD"),
    ("tpot_s", "s"),
    ("ttft_s", "s"),
    ("output_tokens_per_s_per_gpu", ""),
    ("usd_per_mtok_output", "USD/Mtok"),
)

_WIDE, _HIGH, _EDGE = 720.0, 420.0, 46.0


def _front(document: Mapping[str, Any]) -> Context | None:
    """The Pareto front as points of a drawing, both axes logarithmic."""
    if "pareto" not in document:
        return None
    keys = ("output_tokens_per_s_per_user", "output_tokens_per_s_per_gpu")
    logs = [[math.log10(one[key]) for one in document["pareto"]] for key in keys]
    chosen = [math.log10(point(document[key])) for key in keys]
    lows, highs = ([pick(values) for values in logs] for pick in (min, max))

    def place(axis: int, value: float) -> float:
        share = (value - lows[axis]) / max(highs[axis] - lows[axis], 1e-9)
        return (
            round(_EDGE + share * (_WIDE - 2 * _EDGE), 1)
            if axis == 0
            else round(_HIGH - _EDGE - share * (_HIGH - 2 * _EDGE), 1)
        )

    points = [
        {"x": place(0, x), "y": place(1, y), "text": f"{one['layout']} batch {one['batch']}: "
         f"{words(one[keys[0]], '')} tokens/s per user, {words(one[keys[1]], '')} per GPU, "
         f"{words(one['usd_per_mtok_output'], 'USD/Mtok')}"}
        for one, x, y in zip(document["pareto"], *logs, strict=True)
    ]  # fmt: skip
    ticks = [
        [{"at": place(axis, value), "text": words(10**value, "")} for value in _ticks(lows[axis], highs[axis])]
        for axis in (0, 1)
    ]
    margins = document.get("margins")
    return {
        "points": points,
        "chosen": {"x": place(0, chosen[0]), "y": place(1, chosen[1])},
        "x_ticks": ticks[0],
        "y_ticks": ticks[1],
        "wide": _WIDE,
        "high": _HIGH,
        "edge": _EDGE,
        "n_options": document["n_options"],
        "rivals": [_rival(one) for one in margins["rivals"][:8]] if margins else [],
        "verdict": margins_words(margins) if margins else "",
    }


def _ticks(low: float, high: float) -> list[float]:
    steps = [math.log10(step) + decade for decade in range(math.floor(low), math.ceil(high) + 1) for step in (1, 2, 5)]
    return [value for value in steps if low <= value <= high]


def _rival(one: Mapping[str, Any]) -> Context:
    return {
        "layout": one["layout"],
        "batch": one["batch"],
        "tpot": words(one["tpot_s"], "s"),
        "rate": words(one["output_tokens_per_s_per_gpu"], ""),
        "behind": _signed(100 * (one["throughput_ratio"] - 1)).removesuffix(".00") + " %",
        "chance": percent(one["better_probability"]),
        "width": round(100 * one["better_probability"], 1),
    }
