"""Allocations, inversions, price sheets and routes as terminal tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from computeledger.interfaces.tables import bar, console, interval, new_table, note
from computeledger.interfaces.tables_tiers import span_words
from computeledger.interfaces.wording import PHASE_NAMES, point
from computeledger.units import format_percent, format_si, format_usd


def print_allocation(document: Mapping[str, Any]) -> None:
    """Print how a budget is split, or how ledgers are judged."""
    out = console()
    size, tokens = document["n_params_active"], document["tokens_pretraining"]
    out.print(Text(f"{format_si(point(size))} active parameters, {format_si(point(tokens))} tokens", style="bold"))
    law = document["law"]
    note(out, f"loss law {law['name']} ({law['source']}); loss {point(document['loss']):.4f}")
    table = new_table("", "", ">tokens", ">FLOP", ">GPU-hours", "share of FLOP", "share of GPU-time", ">return")
    for phase in ("pretraining", "rl", "inference"):
        share = [point(document["shares"][kind][phase]) for kind in ("flop", "gpu_time")]
        table.add_row(
            PHASE_NAMES.get(phase, phase), interval(document[f"tokens_{phase}"], "tokens"),
            format_si(point(document["flop"][phase]), "FLOP"), format_si(point(document["gpu_hours"][phase])),
            *(bar(one, 10).append(format_percent(one)) for one in share),
            f"{point(document['marginal_return_per_gpu_hour'][phase]):.3g}",
        )  # fmt: skip
    out.print(table)
    note(out, "return: loss that one more GPU-hour of the ledger takes off")
    per, best = point(document["tokens_per_param"]), point(document["tokens_per_param_compute_optimal"])
    out.print(f"{per:.3g} tokens per parameter, {point(document['overtraining_ratio']):.3g} times the law's {best:.3g}")
    if "diagnosis" in document:
        out.print(Text(f"{document['diagnosis']['reading']}: {document['diagnosis']['better']}", style="bold"))
    for row in document.get("levers", ()):
        out.print(
            f"{row['lever']}: " + ", ".join(f"{p} x{row[p]:.2f}" for p in ("pretraining", "rl", "inference"))
            + f" ({row['how']})"
        )  # fmt: skip
    curve = new_table("The same budget at other demands", ">served / trained", ">size", ">tokens/param", "one order")
    for row in document["curve"]:
        curve.add_row(
            f"{row['inference_over_pretraining_tokens_ratio']:.2g}", format_si(row["n_params_active"]),
            f"{row['tokens_per_param']:.3g}", "yes" if row["one_order"] else "no",
        )  # fmt: skip
    out.print(curve)
    if document["assumptions"]:
        note(out, f"assumed: {'; '.join(document['assumptions'])}")


_INVERTED = {"n_params_active": "active parameters", "n_params_total": "total parameters",
             "kv_bytes_per_token": "KV bytes per token", "decode_batch": "decode batch",
             "utilization_fraction": "utilisation", "gross_margin_fraction": "gross margin"}  # fmt: skip


def print_inversion(document: Mapping[str, Any]) -> None:
    """Print what a sheet reveals."""
    out = console()
    sheet = document["sheet"]
    out.print(Text(f"{sheet['name']}: {format_si(document['n_params_active']['p50'])} active parameters", style="bold"))
    note(out, f"prices: {sheet['origin']}" + "".join(f"; {text}" for text in sheet["notes"]))
    table = new_table("", "", "median and 90 %", ">bits learnt", "")
    for key, name in _INVERTED.items():
        value = document[key]
        ends = " .. ".join(_number(point(value, end), key) for end in ("p05", "p95"))
        told = "" if document["identified"][key] else "not identified: prior and physics"
        table.add_row(name, f"{_number(point(value), key)}  {ends}", f"{document['bits'][key]:.2f}", told)
    out.print(table)
    clues = new_table("What each clue tells alone, in bits", "", *(f">{name}" for name in document["informed_by"]))
    for key, name in _INVERTED.items():
        alone = [bits.get(key) for bits in document["informed_by"].values()]
        clues.add_row(name, *("" if bits is None else f"{bits:.2f}" for bits in alone))
    out.print(clues)
    questions = new_table("Hypotheses", "", "", ">weight", "rejected because")
    for question, group in document["questions"].items():
        for place, one in enumerate(sorted(group, key=lambda row: -row["weight"])):
            weight = f"{one['weight']:.3f}" if one["weight"] or not one["rejected"] else ""
            questions.add_row(question if place == 0 else "", one["name"], weight, one["rejected"] or "")
    out.print(questions)
    refused: dict[str, list[str]] = {}
    steps = {one["name"] for one in document["questions"].get("price step", ())}
    for one in document["hypotheses"]:
        if one["rejected"] and one["name"] not in steps:
            refused.setdefault(one["rejected"], []).append(one["name"])
    for why, names in refused.items():
        out.print(f"rejected, {why}: {', '.join(names)}")
    readings = document["readings"]
    for kind in ("cache_write", "cache_write_1h"):
        if f"store_or_resend_s_{kind}" in readings:
            out.print(_break_even_words(kind, readings[f"reads_to_break_even_{kind}"],
                                        readings[f"store_or_resend_s_{kind}"]))  # fmt: skip
    if "fast_mode_batch_ratio" in readings:
        out.print(f"fast mode: batch / {readings['fast_mode_batch_ratio']:.3g} at equal margin")
    out.print(
        "size x margin: "
        + ", ".join(
            f"{format_si(row['n_params_active'])} at {row['extra_margin_ratio']:g}x"
            for row in document["size_times_margin"]
        )
    )
    for text in document["not_identified"]:
        note(out, text)
    note(out, f"assumed: {'; '.join(document['assumptions'])}")


def _break_even_words(kind: str, reads: float, span_s: float) -> str:
    return (
        f"{kind} pays from {reads:.2f} reads within its life: "
        f"for a prefix that comes back within {span_words(span_s)}, on average"
    )


def _number(value: float, key: str) -> str:
    return f"{value:.2f}" if key.endswith("fraction") else format_si(value)


def print_route(document: Mapping[str, Any]) -> None:
    """Print policies by cost and success."""
    out = console()
    best = document["best"]
    out.print(Text(f"{best['policy']}: {format_usd(best['usd_per_completed_task'])} per completed task, "
                   f"{format_percent(best['success_fraction'])} succeed", style="bold"))  # fmt: skip
    note(out, document["remark"])
    rows = [row for row in document["options"] if row["on_front"] or " " not in row["policy"]]
    table = new_table(f"The front of {document['policies_compared']:,} policies, and single models", "policy",
                      ">per completed", ">per task", ">success", ">if independent", ">wrong", ">time [s]")  # fmt: skip
    for row in sorted(rows, key=lambda one: one["usd_per_task"])[:40]:
        table.add_row(
            row["policy"], format_usd(row["usd_per_completed_task"]), format_usd(row["usd_per_task"]),
            format_percent(row["success_fraction"]), format_percent(row["independent_upper_bound_success_fraction"]),
            format_percent(row["wrong_fraction"]), f"{row['seconds']:.3g}",
        )  # fmt: skip
    out.print(table)
    for kind, row in document.get("by_difficulty", {}).get("policies", {}).items():
        out.print(f"{kind}: {row['policy']}, {format_usd(row['usd_per_completed_task'])}, "
                  f"{format_percent(row['success_fraction'])}")  # fmt: skip
    if document["assumptions"]:
        note(out, f"assumed: {'; '.join(document['assumptions'])}")


def print_price_check(document: Mapping[str, Any]) -> None:
    """Print how well prices tell sizes."""
    out = console()
    out.print(Text(f"Size from price on {document['n']} models, each left out in turn", style="bold"))
    table = new_table("", "", ">")
    for level, share in document["coverage"].items():
        table.add_row(f"inside the {level} % interval", format_percent(share))
    for key, name in (("median_abs_log10_error", "active parameters"),
                      ("median_abs_log10_error_size", "sqrt(active x total)"),
                      ("median_abs_log10_error_regression", "active, plain regression on input price")):  # fmt: skip
        table.add_row(f"median error, {name}", f"x{10 ** document[key]:.2f}")
    table.add_row("median width of the 90 % interval", f"x{10 ** document['median_width_log10_90']:.1f}")
    out.print(table)


def print_prices(document: Mapping[str, Any]) -> None:
    """Print a list, a sheet, bills, a history or a floor."""
    out = console()
    for name in document.get("models", ()):
        out.print(name)
    if "usd_per_mtok" in document:
        out.print(Text(f"{document['name']} ({document['origin']})", style="bold"))
        for mode, rates in {"standard": document["usd_per_mtok"], **document["modes"]}.items():
            for kind, rate in rates.items():
                tiers = "".join(f", {format_usd(t['price'])} {'from' if t['inclusive'] else 'above'} "
                                f"{t['above_tokens']:,} tokens" for t in rate["tiers"])  # fmt: skip
                out.print(f"{mode:10} {kind:16} {format_usd(rate['base'])}{tiers}")
        spans = document.get("store_or_resend_s", {})
        for kind, reads in document.get("reads_to_break_even", {}).items():
            out.print(_break_even_words(kind, reads, spans[kind]) if kind in spans else f"{kind} always pays")
    for row in document.get("bills", ()):
        parts = ", ".join(f"{kind} {format_usd(value)}" for kind, value in row["parts"].items() if value)
        out.print(f"{format_usd(row['usd'], 6):>12}  {row['name']}  ({parts})")
    for row in document.get("history", ()):
        moved = row.get("ratio_to_previous", {})
        out.print(f"{row['since']}: " + ", ".join(
            f"{kind} {format_usd(price)}" + (f" (x{moved[kind]:.3g})" if moved.get(kind, 1.0) != 1 else "")
            for kind, price in row["usd_per_mtok"].items()
        ))  # fmt: skip
    if "providers" in document:
        cost = document["usd_per_mtok_cost"]
        out.print(Text(f"{document['model']} on {document['system']}: {format_usd(cost['input'])} in, "
                       f"{format_usd(cost['output'])} out per million tokens, {document['layout']}, "
                       f"batch {document['batch']:,}", style="bold"))  # fmt: skip
        table = new_table(
            f"Market of {document['market_date']}", "provider", ">in", ">out", ">price / cost", "90 %", ""
        )
        for row in document["providers"]:
            ends = f"{row['price_over_cost_ratio_p05']:.2f} .. {row['price_over_cost_ratio_p95']:.2f}"
            told = "below cost" if row["below_cost"] else ""
            if row["below_cost"] and row["price_over_cost_ratio_p95"] >= 1:
                told = "below cost, perhaps"
            table.add_row(row["provider"], format_usd(row["input"]), format_usd(row["output"]),
                          f"{row['price_over_cost_ratio']:.2f}", ends, told)  # fmt: skip
        out.print(table)
        note(out, f"assumed: {'; '.join(document['assumptions'])}")
    for text in document.get("notes", ()):
        note(out, text)
