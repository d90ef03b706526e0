"""Tiers of memory for a cached prefix, and memory as a design variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.view import Cell, Table, quantity_cell
from computeledger.questions.wording import figure_words, percent, point, words
from computeledger.units import DAY_S, HOUR_S, KILO, MINUTE_S, format_si

_DESIGN = ("stages", "GPUs #", "HBM needed #", "saved per GPU #", "per GPU-hour #", "TPOT #", "TTFT #", "tok/s/GPU #",
           "output #")  # fmt: skip


def tier_tables(found: Mapping[str, Any]) -> list[Table]:
    """A prefix in every tier, what holding it pays, and the same stage of GPUs with less HBM each."""
    return [_hits(found), _holding(found), _design(found)]


def _hits(found: Mapping[str, Any]) -> Table:
    reuse = [float(key) for key in found["tiers"][0]["hit_usd"]]
    columns = [f"every {span_words(reuse_s).removeprefix('1 ')} #" for reuse_s in reuse]
    rows = []
    for one in found["tiers"]:
        costs = [words(KILO * point(cost), "USD") for cost in one["hit_usd"].values()]
        drain = span_words(point(one["drain_s"])) if point(one["drain_s"]) else "–"
        time = figure_words(one["hit_s"], "s") if point(one["hit_s"]) else "at once"
        rows.append([one["id"], time, *costs, drain, format_si(point(one["n_prefixes"]))])
    size = f"{figure_words(found['prefix_bytes'], 'B')} for {format_si(point(found['prefix_tokens']))} tokens"
    again = f"{figure_words(found['recompute_s'], 's')} and {figure_words(found['recompute_usd'], 'USD')}"
    names = "; ".join(f"{one['id']}: {one['name']}" for one in found["tiers"])
    note = f"A cached prefix is {size}; computing it again takes {again}. {names} (edition {found['edition']})."
    title = "Price of a thousand hits, by how often the prefix is used"
    return Table(title, ("tier", "hit time #", *columns, "drain time #", "room for #"), rows, note=note)


def _holding(found: Mapping[str, Any]) -> Table:
    assumed = found["assumptions"]
    share = percent(assumed["cache_read_fraction"])
    rows = [
        [one["id"], *(_span(one[key]) for key in ("hold_or_recompute_s", "discount_pays_s"))] for one in found["tiers"]
    ]
    links = [f"{one['tier']} {_until(one)}" for one in found["cheapest"]]
    note = f"Cheapest: {', then '.join(links)}. At cost, no margin; {assumed['hbm']}; left out: {assumed['left_out']}."
    columns = ("tier", "holding pays up to", f"a read at {share} of the input price pays for")
    return Table("Hold or compute again", columns, rows, note=note)


def _design(found: Mapping[str, Any]) -> Table:
    figures = (
        ("tpot_s", "s"),
        ("ttft_s", "s"),
        ("output_tokens_per_s_per_gpu", ""),
        ("usd_per_mtok_output", "USD/Mtok"),
    )
    rows: list[list[str | Cell]] = [
        [
            str(one["stages"]),
            str(one["n_gpus"]),
            figure_words(one["hbm_bytes"], "B"),
            quantity_cell(one["saved_usd_per_gpu"], "USD"),
            figure_words(one["saved_usd_per_gpu_hour"], "USD/h"),
            *(figure_words(one[name], unit) for name, unit in figures),
        ]
        for one in found["memory_design"]
    ]
    title = "Memory as a design variable: the same stage of GPUs, more pipeline stages, less HBM each"
    return Table(title, _DESIGN, rows)


def _until(link: Mapping[str, Any]) -> str:
    return f"up to {span_words(link['to_s'])}" if link["to_s"] is not None else "beyond"


def span_words(value_s: float) -> str:
    """A duration in the unit people would say."""
    if value_s < MINUTE_S:
        return words(value_s, "s")
    for unit, name in ((DAY_S, "days"), (HOUR_S, "h"), (MINUTE_S, "min")):
        if value_s >= unit:
            number = format_si(value_s / unit, digits=2)
            return f"{number} {name.removesuffix('s') if number == '1' else name}"
    return words(value_s, "s")


def _span(value: Any) -> Cell:
    """A duration, and its interval where that is wider."""
    if not point(value, "p95"):
        return Cell("never: reading alone costs more")
    low, high = span_words(point(value, "p05")), span_words(point(value, "p95"))
    return Cell(span_words(point(value)), below=f"{low} – {high}" if low != high else "")
