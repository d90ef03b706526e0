"""Documents as terminal tables: two or three digits, intervals beside medians, what binds in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from computeledger.units import DAY_S, WH_J, format_percent, format_si, format_usd

PHASE_NAMES = {"pretraining": "Pretraining", "rl": "RL", "inference": "Inference", "experiments": "Experiments"}
DIM = "bright_black"
ACCENT = "cyan"


def console() -> Console:
    """A console as wide as the terminal, and at least 100 columns when output goes to a file."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=max(found.width, 110))


def point(value: Any, key: str = "p50") -> float:
    """Median (or another quantile) of a document's quantity."""
    return float(value[key]) if isinstance(value, Mapping) else float(value)


def show(value: float, unit: str) -> str:
    """One number with a unit people read."""
    if unit == "USD":
        return format_usd(value)
    if unit == "USD/Mtok":
        return f"{format_usd(value)}/Mtok"
    if unit == "fraction":
        return format_percent(value)
    if unit == "J":
        return format_si(value / WH_J, "Wh")
    if unit == "GPU-hours":
        return format_si(value)
    if unit == "days":
        return f"{format_si(value)} days"
    if unit == "s" and value >= DAY_S:
        return f"{format_si(value / DAY_S)} days"
    if unit == "x":
        return f"{format_si(value)} x"
    if unit == "USD/h":
        return f"{format_usd(value)}/h"
    return format_si(value, unit)


def span(low: float, high: float, unit: str) -> str:
    """Two numbers of one unit, the unit written once where both carry the same."""
    ends = [show(low, unit), show(high, unit)]
    first, _, last = ends[0].rpartition(" ")
    if first and ends[1].endswith(f" {last}"):
        ends[0] = first
    return " .. ".join(ends)


def interval(value: Any, unit: str) -> Text:
    """Median, and the 90 % interval beside it in a quieter colour."""
    text = Text(show(point(value), unit))
    if isinstance(value, Mapping):
        text.append(f"  {span(point(value, 'p05'), point(value, 'p95'), unit)}", style=DIM)
    return text


def _table(title: str, columns: Sequence[tuple[str, JustifyMethod]]) -> Table:
    named = any(name for name, _ in columns)
    table = Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD if named else None,
                  pad_edge=False, header_style=DIM, show_header=named, padding=(0, 2, 0, 0))  # fmt: skip
    for name, justify in columns:
        table.add_column(name, justify=justify)
    return table


def _bar(fraction: float, width: int = 20) -> Text:
    filled = round(max(0.0, min(fraction, 1.0)) * width)
    return Text("█" * filled, style=ACCENT).append("·" * (width - filled), style=DIM).append(" ", style="")


def print_plan(document: Mapping[str, Any], working: bool = False) -> None:
    """Print a plan's ledger."""
    out = console()
    phases = dict(document["phases"])
    if document["experiments"]:
        phases["experiments"] = document["experiments"]
    out.print(Text(document["title"], style="bold"))
    out.print(Text("median, and the 90 % interval beside it", style=DIM))
    table = _table("", [("", "left"), *((PHASE_NAMES[name], "left") for name in phases), ("Total", "left")])
    rows = [("tokens", "tokens", ""), ("FLOP", "flop", "FLOP"), ("GPU-hours", "gpu_hours", "GPU-hours"),
            ("utilisation", "utilization_fraction", "fraction"), ("cost", "usd", "USD"), ("energy", "energy_j", "J")]  # fmt: skip
    for label, key, unit in rows:
        cells = []
        for name, phase in phases.items():
            empty = name == "experiments" and key in ("tokens", "flop", "utilization_fraction")
            cells.append(_stacked("–" if empty else phase[key], unit))
        cells.append(_stacked(document["total"].get(key, "–"), unit))
        table.add_row(label, *cells)
    table.add_row("accelerator", *(phase["accelerator"] for phase in phases.values()), "")
    out.print(table)
    _print_shares(out, document)
    _print_balance(out, document)
    _print_drivers(out, document)
    for name, reason in document["skipped"].items():
        out.print(Text(f"{PHASE_NAMES[name]} is left out: {reason}", style=DIM))
    choices = [f"{name} {label}: {text}" for name, phase in phases.items() for label, text in phase["choices"].items()]
    if choices:
        out.print(Text("runs on   " + "\n          ".join(choices), style=DIM))
    if document["assumptions"]:
        silent = "; ".join(f"{one['name']} = {show(point(one['value']), one['unit'])}" for one in document["assumptions"])
        out.print(Text(f"assumed because the plan is silent: {silent}", style=DIM))
    editions = ", ".join(f"{name} {edition}" for name, edition in document["editions"].items())
    out.print(Text(f"editions: {editions}; utilisation is against the dense bf16 peak; efficiency factors are assumptions "
                   "with ranges; --working shows every formula, input and source", style=DIM))  # fmt: skip
    if working:
        print_working(out, document)


def _stacked(value: Any, unit: str) -> Text:
    if isinstance(value, str):
        return Text(value, style=DIM)
    text = Text(show(point(value), unit))
    if isinstance(value, Mapping):
        text.append(f"\n{span(point(value, 'p05'), point(value, 'p95'), unit)}", style=DIM)
    return text


def _print_shares(out: Console, document: Mapping[str, Any]) -> None:
    table = _table("Shares of the three ledgers", [("", "left"), ("in FLOP", "left"), ("in GPU-time", "left")])
    for name, flop in document["shares"]["flop"].items():
        time = document["shares"]["gpu_time"][name]
        cells = [_bar(point(share), 16).append(interval(share, "fraction")) for share in (flop, time)]
        table.add_row(PHASE_NAMES[name], *cells)
    out.print(table)


_BALANCE = [
    ("overtraining_ratio", "x", "pretraining tokens over Chinchilla's 20 per active parameter"),
    ("inference_efficiency", "", "e: FLOP per GPU-hour of inference over that of pretraining"),
    ("tokens_inference_balanced", "", "inference tokens that equal pretraining in GPU-time, D_inf = 3 e D_pre"),
    ("inference_over_balanced", "x", "inference GPU-time over pretraining GPU-time"),
    ("beta_flop", "", "RL's coefficient in FLOP per sampled token and parameter"),
    ("beta_gpu_time", "", "RL's coefficient in GPU-time, pretraining token = 6"),
    ("tokens_rl_balanced", "", "RL tokens that equal pretraining in GPU-time, D_RL = (6 / beta) D_pre"),
    ("rl_over_balanced", "x", "RL GPU-time over pretraining GPU-time"),
]


def _print_balance(out: Console, document: Mapping[str, Any]) -> None:
    if not document["balance"]:
        return
    table = _table("Balance", [("", "left"), ("", "left")])
    for key, unit, words in _BALANCE:
        if key in document["balance"]:
            table.add_row(words, interval(document["balance"][key], unit))
    out.print(table)


def _print_drivers(out: Console, document: Mapping[str, Any]) -> None:
    drivers = document["drivers"][:8]
    if not drivers:
        return
    table = _table("What drives the spread (rank correlation)", [("input", "left"), ("90 % interval", "left"), ("of GPU-hours", "left"), ("of cost", "left")])  # fmt: skip
    for one in drivers:
        rho = one["rank_correlation"]
        ends = span(one["low"], one["high"], one["unit"])
        table.add_row(one["name"], ends, *(_bar(abs(rho[key]), 10).append(f"{rho[key]:+.2f}") for key in ("gpu_hours", "usd")))
    out.print(table)


def print_working(out: Console, document: Mapping[str, Any]) -> None:
    """Print every figure's formula, inputs and sources."""
    out.print(Text("Working", style="bold"))
    for figure in document["working"]:
        out.print(Text(figure["name"], style="bold").append(f" = {figure['formula']}", style="not bold"))
        out.print(Text("    = ").append(interval(figure["value"], _unit(figure["unit"]))))
        for term in figure["terms"]:
            line = Text(f"    {term['name']} = ").append(interval(term["value"], _unit(term["unit"])))
            out.print(line.append(f"   [{term['origin']}] {term['ground']}", style=DIM))
    print_efficiency(out, document)


def print_efficiency(out: Console, document: Mapping[str, Any]) -> None:
    """Print the efficiency factors with their grounds."""
    table = _table("Efficiency factors", [("factor", "left"), ("90 % interval", "left"), ("ground", "left")])
    for name, one in document.get("efficiency", {}).items():
        unit = "s" if name.endswith("_s") else ""
        ends = span(one["low"], one["high"], unit)
        source = "" if one["source"] == "assumption" else f" ({one['source']})"
        table.add_row(name, ends, Text(f"{one['kind']}: {one['why']}{source}", style=DIM))
    out.print(table)


_UNITS = {"GPU-hours": "GPU-hours", "usd_per_hour": "USD/h", "flop_per_s": "FLOP/s", "w": "W", "tokens": "", "params": "",
          "GPUs": ""}  # fmt: skip


def _unit(unit: str) -> str:
    return _UNITS.get(unit, unit)


def print_serve(document: Mapping[str, Any], working: bool = False) -> None:
    """Print a serving answer."""
    out = console()
    precision = document["precision"]
    widths = "/".join(dict.fromkeys((precision["attention"], precision["experts"])))
    title = f"{document['model']} on {document['system']}, {document['layout']}, {widths}, batch {document['batch']:.0f}"
    out.print(Text(title, style="bold"))
    out.print(Text(f"{document['n_replicas']} x {document['n_gpus_per_replica']} GPUs; per request "
                   f"{format_si(document['input_tokens'])} input, {format_si(document['cached_tokens'])} cached, "
                   f"{format_si(document['output_tokens'])} output tokens", style=DIM))  # fmt: skip
    table = _table("", [("", "left"), ("median and 90 % interval", "left"), ("physical limit", "left")])
    rows = [("time to first token", "ttft_s", "s"), ("time per output token", "tpot_s", "s"),
            ("output tokens/s per user", "output_tokens_per_s_per_user", ""),
            ("output tokens/s per GPU", "output_tokens_per_s_per_gpu", ""), ("input", "usd_per_mtok_input", "USD/Mtok"),
            ("cached read", "usd_per_mtok_cached_read", "USD/Mtok"), ("output", "usd_per_mtok_output", "USD/Mtok")]  # fmt: skip
    for label, key, unit in rows:
        limit = Text(show(point(document["physical_limit"][key]), unit), style=DIM)
        table.add_row(label, interval(document[key], unit), limit)
    out.print(table)
    for phase in ("decode", "prefill"):
        _print_operations(out, phase, document)
    _print_memory(out, document["memory_bytes"], f"largest batch that fits: {document['largest_batch']:.0f}")
    _print_speed(out, document)
    if "pareto" in document:
        _print_front(out, document)
    if "fleet" in document:
        fleet = document["fleet"]
        out.print(Text(f"that load needs {fleet['n_gpus']} GPUs: {fleet['n_replicas']} x {fleet['replica']['layout']} at batch "
                       f"{fleet['replica']['batch']}, {format_percent(fleet['load_fraction'])} loaded; arrivals taken as even, "
                       "bursts need headroom", style="bold"))  # fmt: skip
    out.print(Text(f"GPU-hour: {_price_words(document['price'])}; efficiency factors are assumptions with ranges (--working)", style=DIM))  # fmt: skip
    if working:
        print_efficiency(out, document)


def _price_words(price: Mapping[str, Any]) -> str:
    if price["origin"] == "given":
        return "as given"
    return f"{price['given']} ({price['kind']}, edition {price['edition']}, {price['source']})"


def _print_operations(out: Console, phase: str, document: Mapping[str, Any]) -> None:
    bound = document["bound"] if phase == "decode" else document["prefill_bound"]
    title = f"{phase.capitalize()}, one step: bound by {bound}"
    table = _table(title, [("operation", "left"), ("FLOP", "right"), ("HBM", "right"), ("network", "right"), ("time", "left"), ("share", "left"), ("bound", "left")])  # fmt: skip
    for one in document["components"][phase]:
        work = [format_si(one[key], unit) if one[key] else "" for key, unit in (("flop", "FLOP"), ("bytes", "B"), ("network_bytes", "B"))]  # fmt: skip
        share = _bar(one["share_fraction"], 10).append(format_percent(one["share_fraction"]))
        table.add_row(one["name"], *work, interval(one["time_s"], "s"), share, one["bound"])
    out.print(table)


def _print_memory(out: Console, memory: Mapping[str, float], note: str) -> None:
    parts = [name for name in memory if name not in ("total", "usable")]
    text = Text("Memory of one GPU  ", style="bold")
    text.append("  ".join(f"{name.replace('_', ' ')} {format_si(memory[name], 'B')}" for name in parts), style="not bold")
    text.append(f"  = {format_si(memory['total'], 'B')} of {format_si(memory['usable'], 'B')} usable; {note}", style="not bold")
    out.print(text)


def _print_speed(out: Console, document: Mapping[str, Any]) -> None:
    speed = document["price_of_speed"]
    out.print(Text("Price of speed  ", style="bold").append(
        f"floor {show(speed['latency_floor_s'], 's')} per token at batch 1, {speed['fast_mode_costs_ratio']:.1f}x the cost; the cost "
        f"plateau at the largest batch is {show(speed['usd_per_mtok_output_plateau'], 'USD/Mtok')}: going slower saves at most "
        f"{format_percent(speed['slow_mode_saves_fraction'])}", style="not bold"))  # fmt: skip


def _print_front(out: Console, document: Mapping[str, Any]) -> None:
    table = _table(f"Pareto front of {document['n_options']} options (medians)", [("layout", "left"), ("GPUs", "right"), ("batch", "right"), ("TPOT", "right"), ("tok/s/user", "right"), ("tok/s/GPU", "right"), ("TTFT", "right"), ("output", "right"), ("input", "right")])  # fmt: skip
    front = document["pareto"]
    step = max(1, len(front) // 16)
    for one in [*front[::step], *([front[-1]] if (len(front) - 1) % step else [])]:
        table.add_row(one["layout"], str(one["n_gpus"]), str(one["batch"]), show(one["tpot_s"], "s"),
                      format_si(one["output_tokens_per_s_per_user"]), format_si(one["output_tokens_per_s_per_gpu"]),
                      show(one["ttft_s"], "s"), format_usd(one["usd_per_mtok_output"]), format_usd(one["usd_per_mtok_input"]))  # fmt: skip
    out.print(table)


def print_pretrain(document: Mapping[str, Any], working: bool = False) -> None:
    """Print a pretraining answer."""
    out = console()
    out.print(Text(f"{document['model']} on {document['n_gpus']} GPUs of {document['system']}, {document['layout']}, microbatch "
                   f"{document['microbatch_sequences']:.0f}, recompute {document['recompute']}", style="bold"))  # fmt: skip
    out.print(Text(f"sequence {format_si(document['sequence_tokens'])}, global batch {format_si(document['global_batch_tokens'])} tokens", style=DIM))  # fmt: skip
    table = _table("", [("", "left"), ("median and 90 % interval", "left")])
    for label, key, unit in [("step time", "step_s", "s"), ("tokens/s per GPU", "tokens_per_s_per_gpu", ""), ("MFU (dense bf16 peak)", "mfu_fraction", "fraction"),
                             ("HFU", "hfu_fraction", "fraction"), ("GPU-hours", "gpu_hours", "GPU-hours"), ("days", "days", "days"), ("cost", "usd", "USD")]:  # fmt: skip
        table.add_row(label, interval(document[key], unit))
    out.print(table)
    parts = document["components"]
    whole = sum(point(part) for part in parts.values())
    table = _table("One step", [("part", "left"), ("time", "left"), ("share", "left")])
    for name, part in parts.items():
        share = point(part) / whole
        table.add_row(name, interval(part, "s"), _bar(share, 16).append(format_percent(share)))
    out.print(table)
    _print_memory(out, document["memory_bytes"], "fits" if document["fits"] else "DOES NOT FIT")
    if document["best_layouts"]:
        table = _table("Best legal layouts (medians)", [("layout", "left"), ("microbatch", "right"), ("recompute", "left"), ("step", "right"), ("MFU", "right"), ("memory", "right")])  # fmt: skip
        for one in document["best_layouts"]:
            table.add_row(one["layout"], str(one["microbatch_sequences"]), one["recompute"], show(one["step_s"], "s"),
                          format_percent(one["mfu_fraction"]), format_si(one["memory_bytes"], "B"))  # fmt: skip
        out.print(table)
    out.print(Text(f"GPU-hour: {_price_words(document['price'])}; efficiency factors are assumptions with ranges (--working); failures are not counted", style=DIM))  # fmt: skip
    if working:
        print_efficiency(out, document)


def print_model(document: Mapping[str, Any]) -> None:
    """Print a model's counts and shape."""
    out = console()
    out.print(Text(document["id"], style="bold"))
    table = _table("", [("", "left"), ("", "left")])
    table.add_row("parameters, total", format_si(document["n_params_total"], digits=4))
    table.add_row("active per token (head in, embedding out)", format_si(document["n_params_active"], digits=4))
    table.add_row("active with embeddings", format_si(document["n_params_active_with_embeddings"], digits=4))
    table.add_row(f"KV cache per token ({document['kv_precision']})", format_si(document["kv_bytes_per_token"], "B", digits=4))
    if document["state_bytes_per_sequence"]:
        table.add_row("state per sequence", format_si(document["state_bytes_per_sequence"], "B"))
    table.add_row("layers, width, vocabulary", f"{document['n_layers']}, {document['hidden_size']}, {document['vocab_size']}")
    table.add_row("weights (experts)", f"{document['weight_precision']} ({document['expert_precision']})")
    for one in document["attention"]:
        extra = f", window {one['window']}" if one["window"] else ""
        extra += f", latent {one['kv_lora_rank']}" if one["kv_lora_rank"] else ""
        table.add_row(f"{one['layers']} layers of {one['kind']}", f"{one['query_heads']} query heads, {one['kv_heads']} KV heads of {one['qk_head_dim']}{extra}")  # fmt: skip
    if experts := document["experts"]:
        table.add_row(f"{experts['layers']} expert layers", f"{experts['n_experts_active']} of {experts['n_experts']} routed, {experts['n_shared_experts']} shared, width {experts['expert_width']}")  # fmt: skip
    out.print(table)
    _print_fact_table(out, "Published", document["published"])
    for note in document["notes"]:
        out.print(Text(note, style=DIM))


def _print_fact_table(out: Console, title: str, facts: Mapping[str, Any]) -> None:
    if not facts:
        return
    table = _table(title, [("fact", "left"), ("value", "left"), ("source", "left"), ("date", "left"), ("where, and why", "left")])
    for name, fact in facts.items():
        where = f"{fact['locator']}. {fact.get('note', '')}".strip()
        table.add_row(name, fact["given"], fact["source"], fact["date"], Text(where, style=DIM))
    out.print(table)


def print_facts(document: Mapping[str, Any]) -> None:
    """Print a record with its facts."""
    out = console()
    if document["kind"] == "source":
        unread = "" if document["verified"] else " (not read at the source: unverified)"
        out.print(Text(f"{document['id']}: {document['title']}, {document['publisher']}, {document['date']}{unread}"))
        out.print(Text(document["url"], style=DIM))
        return
    out.print(Text(f"{document['id']}: {document['name']} ({document['kind']})", style="bold"))
    _print_fact_table(out, "", document["facts"])


def print_search(document: Mapping[str, Any]) -> None:
    """Print facts that a search found."""
    out = console()
    table = _table(f"{len(document['results'])} facts mention {document['query']!r}", [("id", "left"), ("fact", "left"), ("value", "left"), ("source", "left"), ("date", "left")])  # fmt: skip
    for one in document["results"][:60]:
        table.add_row(one["id"], one["name"], one["given"], one["source"], one["date"])
    out.print(table)
