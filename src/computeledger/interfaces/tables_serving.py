"""Serving answers as terminal tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from computeledger.interfaces.tables import (
    DIM,
    bar,
    console,
    interval,
    new_table,
    note,
    print_figure,
    print_grounds,
    print_memory,
)
from computeledger.interfaces.tables_breakdown import print_breakdown
from computeledger.interfaces.tables_tiers import print_kv_tiers
from computeledger.interfaces.wording import (
    anchor_words,
    burst_words,
    engine_words,
    margins_words,
    meets_words,
    place_words,
    point,
    pools_words,
    show,
    sureness_words,
    width_words,
)
from computeledger.units import format_count, format_percent, format_si, format_usd

#: Rivals of a winner that are printed.
_RIVALS = 6

SERVE_ROWS = [
    ("time to first token", "ttft_s", "s"),
    ("time per output token", "tpot_s", "s"),
    ("output tokens/s per user", "output_tokens_per_s_per_user", ""),
    ("output tokens/s per GPU", "output_tokens_per_s_per_gpu", ""),
    ("input", "usd_per_mtok_input", "USD/Mtok"),
    ("cached read", "usd_per_mtok_cached_read", "USD/Mtok"),
    ("output", "usd_per_mtok_output", "USD/Mtok"),
]


def print_serve(document: Mapping[str, Any], working: bool = False) -> None:
    """Print a serving answer."""
    out = console()
    _print_headline(out, document)
    if "breakdown" in document:
        print_breakdown(document)
    else:
        for phase in ("decode", "prefill"):
            _print_operations(out, phase, document)
    largest = f"largest batch that fits: {document['largest_batch']:.0f}"
    print_memory(out, document["memory_bytes"], largest, document.get("memory_of", ""))
    if "price_of_speed" in document:
        _print_speed(out, document)
    _print_search(out, document)
    if "kv_tiers" in document:
        print_kv_tiers(document["kv_tiers"])
    if "fleet" in document:
        _print_fleet(out, document["fleet"])
    print_grounds(out, document, "")
    if working:
        out.print(Text("Formulas", style="bold"))
        for figure in document["working"]:
            listed = figure["name"] in ("decode_s", "prefill_s")  # their terms are the operations above
            print_figure(out, {**figure, "terms": ()} if listed else figure)
    if "launch" in document:
        out.print(Text(f"Launch with {document['launch']['engine']}", style="bold"))
        out.print(Text(document["launch"]["text"]), soft_wrap=True)


def _print_headline(out: Console, document: Mapping[str, Any]) -> None:
    asked = (document["precision"]["attention"], document["precision"]["experts"])
    widths = width_words(asked, document.get("multiplied_in", {}))
    batch = f"batch {document['batch']:.0f}"
    what = f"{document['model']} on {document['system']}, {document['layout']}, {widths}, {batch}"
    out.print(Text(what, style="bold"))
    lengths = [f"{format_si(document[f'{name}_tokens'])} {name}" for name in ("input", "cached", "output")]
    replicas = f"{document['n_replicas']} x {format_count(document['n_gpus_per_replica'], 'GPU')}"
    idle = f", {document['n_idle_gpus']} idle" if document.get("n_idle_gpus") else ""
    note(out, f"{replicas}{idle}; per request {', '.join(lengths)} tokens; {engine_words(document)}")
    note(out, sureness_words(document["interval"]))
    if "anchor" in document:
        note(out, anchor_words(document["anchor"]))
    for remark in document.get("remarks", ()):
        note(out, remark)
    if "pools" in document:
        _print_pools(out, document)
    table = new_table("", "", "median and 90 % interval", "physical limit")
    for label, key, unit in SERVE_ROWS:
        if key in document:
            limit = Text(show(point(document["physical_limit"][key]), unit), style=DIM)
            table.add_row(label, interval(document[key], unit), limit)
    out.print(table)
    if "ttft_statistics_s" in document:
        note(out, burst_words(document))
    for name, one in document.get("meets", {}).items():
        note(out, meets_words(name, one))


def _print_search(out: Console, document: Mapping[str, Any]) -> None:
    if "pareto" in document:
        _print_front(out, document)
    if document.get("aggregated"):
        one = document["aggregated"]
        words = f"{one['layout']} at batch {one['batch']}: {format_si(one['output_tokens_per_s_per_gpu'])} tokens/s/GPU"
        out.print(Text("One pool as fast per token  ", style="bold").append(words, style="not bold"))
    if "two_pools" in document:
        out.print(Text("Two pools would give more  ", style="bold").append(pools_words(document), style="not bold"))
    if "margins" in document:
        _print_margins(out, document["margins"])


def _print_fleet(out: Console, fleet: Mapping[str, Any]) -> None:
    replica = fleet["replica"]
    replicas = f"{fleet['n_replicas']} x {replica['layout']} at batch {replica['batch']}"
    words = f"{format_count(fleet['n_gpus'], 'GPU')} for that load: {replicas}"
    loaded = f", {format_percent(fleet['load_fraction'])} loaded; arrivals taken as even, bursts need headroom"
    out.print(Text(words + loaded, style="bold"))


def _print_operations(out: Console, phase: str, document: Mapping[str, Any]) -> None:
    bound = document["bound"] if phase == "decode" else document["prefill_bound"]
    title = f"{phase.capitalize()}, one step {place_words(document, phase)}: bound by {bound}"
    table = new_table(title, "operation", ">FLOP", ">HBM", ">network", "time", "share", "bound")
    for one in document["components"][phase]:
        kinds = (("flop", "FLOP"), ("bytes", "B"), ("network_bytes", "B"))
        work = [format_si(one[key], unit) if one[key] else "" for key, unit in kinds]
        share = bar(one["share_fraction"], 10).append(format_percent(one["share_fraction"]))
        table.add_row(one["name"], *work, interval(one["time_s"], "s"), share, one["bound"])
    out.print(table)


def _print_speed(out: Console, document: Mapping[str, Any]) -> None:
    speed = document["price_of_speed"]
    floor, plateau = show(speed["latency_floor_s"], "s"), show(speed["usd_per_mtok_output_plateau"], "USD/Mtok")
    words = f"floor {floor} per token at batch 1, {speed['fast_mode_costs_ratio']:.3g} times the cost; "
    share = format_percent(speed["slow_mode_saves_fraction"])
    saves = f"plateau {plateau} at the largest batch: going slower saves at most {share}"
    out.print(Text("Price of speed  ", style="bold").append(words + saves, style="not bold"))


def _print_front(out: Console, document: Mapping[str, Any]) -> None:
    table = new_table(
        f"Pareto front of {document['n_options']} options (every input at its middle; USD per Mtok; \u2192 the answer)",
        "layout",
        ">GPUs",
        ">batch",
        ">TPOT",
        ">tok/s/user",
        ">tok/s/GPU",
        ">TTFT",
        ">output",
        ">input",
    )
    winner = document["winner"]
    for one in _some_of_the_front(document["pareto"], winner):
        rates = [format_si(one[f"output_tokens_per_s_per_{whom}"]) for whom in ("user", "gpu")]
        costs = [format_usd(one[f"usd_per_mtok_{kind}"]) for kind in ("output", "input")]
        times = [show(one[name], "s") for name in ("tpot_s", "ttft_s")]
        here = one == winner
        name = f"\u2192 {one['layout']}" if here else one["layout"]
        table.add_row(
            name, str(one["n_gpus"]), str(one["batch"]), times[0], *rates, times[1], *costs,
            style="bold" if here else "",
        )  # fmt: skip
    out.print(table)


def _some_of_the_front(front: Sequence[Mapping[str, Any]], winner: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """About sixteen points of a front, its ends and the answer among them, in the front's order."""
    step = max(1, len(front) // 16)
    kept = [one for place, one in enumerate(front) if place % step == 0 or place == len(front) - 1 or one == winner]
    return kept if winner in kept else sorted([*kept, winner], key=lambda one: float(one["tpot_s"]))


def _print_margins(out: Console, margins: Mapping[str, Any]) -> None:
    out.print(Text("Is the winner ahead?  ", style="bold").append(margins_words(margins), style="not bold"))
    table = new_table("", "rival", ">batch", ">TPOT", ">TTFT", ">tok/s/GPU", ">against the winner", "better in truth")
    for one in margins["rivals"][:_RIVALS]:
        times = [show(one[name], "s") for name in ("tpot_s", "ttft_s")]
        rate = format_si(one["output_tokens_per_s_per_gpu"])
        behind = f"{one['throughput_ratio'] - 1:+.1%}".replace("-", "\u2212")
        chance = bar(one["better_probability"], 10).append(format_percent(one["better_probability"]))
        table.add_row(one["layout"], str(one["batch"]), *times, rate, behind, chance)
    if margins["rivals"]:
        out.print(table)


def _print_pools(out: Console, document: Mapping[str, Any]) -> None:
    pools = document["pools"]
    parts = [
        f"{name}: {one['n_workers']} x {one['layout']} ({format_count(one['n_gpus_per_worker'], 'GPU')} each)"
        for name, one in pools.items()
    ]
    busy = format_percent(point(document["prefill_busy_fraction"]))
    note(out, f"{'; '.join(parts)}; {document['concurrency']:.0f} requests in flight, prefill {busy} busy")


def print_sweep(document: Mapping[str, Any]) -> None:
    """Print the best option of each question of a sweep."""
    out = console()
    limit = show(document["slowest_tpot_s"], "s")
    title = f"Most tokens/s/GPU at {limit} per output token or faster (every input at its middle)"
    lengths = (">input", ">output")
    figures = (">TPOT", ">TTFT", ">tok/s/GPU", ">USD/Mtok")
    table = new_table(title, "model", "system", "weights", *lengths, "layout", ">batch", *figures)
    for one in document["best"]:
        asked = [format_si(one[f"{name}_tokens"]) for name in ("input", "output")]
        times = [show(one[name], "s") for name in ("tpot_s", "ttft_s")]
        rate, cost = format_si(one["output_tokens_per_s_per_gpu"]), format_usd(one["usd_per_mtok_output"])
        name = one["model"].rpartition("/")[2]
        table.add_row(
            name, one["system"], one["precision"], *asked, one["layout"], str(one["batch"]), *times, rate, cost
        )
    out.print(table)
    for one in document["without_answer"]:
        lengths_words = f"{format_si(one['input_tokens'])} in, {format_si(one['output_tokens'])} out"
        note(out, f"no layout fits or is fast enough: {one['model']} on {one['system']}, {lengths_words}")
    speed = f"{format_si(document['n_options'])} options in {show(document['wall_s'], 's')}, {document['executor']}"
    kept = f"; all in {document['parquet']}" if document["parquet"] else ""
    note(out, f"{speed}{kept}")
