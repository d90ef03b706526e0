"""Allocations, inversions, price sheets and routes as terminal tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from computeledger.interfaces.tables import bar, console, interval, new_table, note
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
            f"{point(document['marginal_return'][phase]):.3g}",
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
