"""Tiers of memory as terminal tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from computeledger.interfaces.tables import DIM, console, interval, new_table, note
from computeledger.interfaces.wording import point, show, words
from computeledger.units import DAY_S, HOUR_S, KILO, MINUTE_S, format_percent, format_si


def print_kv_tiers(found: Mapping[str, Any]) -> None:
    """Print a prefix in every tier, and memory as a design variable."""
    out = console()
    size = f"{show(point(found['prefix_bytes']), 'B')} for {format_si(point(found['prefix_tokens']))} tokens"
    again = f"{show(point(found['recompute_s']), 's')} and {show(point(found['recompute_usd']), 'USD')}"
    out.print(Text("A cached prefix, ", style="bold").append(f"{size}; computing it again takes {again}"))
    reuse = [float(key) for key in found["tiers"][0]["hit_usd"]]
    columns = [f">every {span_words(reuse_s).removeprefix('1 ')}" for reuse_s in reuse]
    title = "Price of a thousand hits, by how often the prefix is used"
    table = new_table(title, "tier", ">hit time", *columns, ">drain time", ">room for")
    for one in found["tiers"]:
        costs = [show(KILO * point(cost), "USD") for cost in one["hit_usd"].values()]
        drain = span_words(point(one["drain_s"])) if point(one["drain_s"]) else Text("–", style=DIM)
        time = show(point(one["hit_s"]), "s") if point(one["hit_s"]) else "at once"
        table.add_row(one["id"], time, *costs, drain, format_si(point(one["n_prefixes"])))
    out.print(table)
    share = format_percent(point(found["assumptions"]["cache_read_fraction"]))
    table = new_table(
        "Hold or compute again", "tier", "holding pays up to", f"a read at {share} of the input price pays for"
    )
    for one in found["tiers"]:
        table.add_row(one["id"], *(_interval_s(one[key]) for key in ("hold_or_recompute_s", "discount_pays_s")))
    out.print(table)
    links = [f"{one['tier']} {_until(one)}" for one in found["cheapest"]]
    out.print(Text("Cheapest  ", style="bold").append(", then ".join(links), style="not bold"))
    _print_design(found)
    names = "; ".join(f"{one['id']}: {one['name']}" for one in found["tiers"])
    note(out, f"{names} (edition {found['edition']})")
    note(out, f"at cost, no margin; {found['assumptions']['hbm']}; left out: {found['assumptions']['left_out']}")


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


def interval_span(value: Any) -> tuple[str, str]:
    """A duration, and its interval where that is wider."""
    if not point(value, "p95"):
        return "never: reading alone costs more", ""
    low, high = span_words(point(value, "p05")), span_words(point(value, "p95"))
    return span_words(point(value)), f"{low} – {high}" if low != high else ""


def _interval_s(value: Any) -> Text:
    middle, band = interval_span(value)
    text = Text(middle, style="" if point(value, "p95") else DIM)
    return text.append(f"  {band}", style=DIM) if band else text


def _print_design(found: Mapping[str, Any]) -> None:
    out = console()
    title = "Memory as a design variable: the same stage of GPUs, more pipeline stages, less HBM each"
    columns = (
        ">stages",
        ">GPUs",
        ">HBM needed",
        "saved per GPU",
        ">per GPU-hour",
        ">TPOT",
        ">TTFT",
        ">tok/s/GPU",
        "output",
    )
    table = new_table(title, *columns)
    for one in found["memory_design"]:
        figures = (("tpot_s", "s"), ("ttft_s", "s"), ("output_tokens_per_s_per_gpu", ""))
        table.add_row(
            str(one["stages"]),
            str(one["n_gpus"]),
            show(point(one["hbm_bytes"]), "B"),
            interval(one["saved_usd_per_gpu"], "USD"),
            show(point(one["saved_usd_per_gpu_hour"]), "USD/h"),
            *(show(point(one[name]), unit) for name, unit in figures),
            show(point(one["usd_per_mtok_output"]), "USD/Mtok"),
        )
    out.print(table)
