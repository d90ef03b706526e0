"""What RL buys, and beta of published runs, as terminal tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from computeledger.interfaces.tables import console, new_table, note
from computeledger.questions.wording import show
from computeledger.units import format_percent, format_si


def print_returns(document: Mapping[str, Any]) -> None:
    """Print what ``rl`` was asked without a model."""
    if "published" in document:
        _print_published(console(), document)
    else:
        _print_returns(console(), document)


def _print_published(out: Console, document: Mapping[str, Any]) -> None:
    columns = (">tokens", ">step", ">beta FLOP", ">beta GPU-time", ">modelled", "parts of the modelled beta")
    table = new_table("Beta of published runs", "model", "hardware", "mode", *columns)
    for one in document["published"]:
        parts = sorted(one["by_phase"].items(), key=lambda pair: -pair[1])[:3]
        words = ", ".join(f"{name} {format_si(value)}" for name, value in parts)
        where = f"{one['hardware']} x {one['n_gpus']:.0f}"
        table.add_row(
            one["model"], where, f"{one['mode']}, {one['precision']}", f"{one['mean_tokens']:.0f}",
            show(one["step_s"], "s"),
            f"{one['beta_flop']:.1f}", f"{one['beta_gpu_time']:.0f}", f"{one['modelled_beta_gpu_time']:.0f}",
            words + ("" if one["split_stated"] else " (split assumed)"),
        )  # fmt: skip
    out.print(table)
    note(out, document["convention"])


def _print_returns(out: Console, document: Mapping[str, Any]) -> None:
    if "reward" in document:
        table = new_table("What RL buys", "law", "parameter", ">value", ">90 % interval")
        for law, one in document["reward"].items():
            for name, value in one["values"].items():
                ends = one["intervals"][name]
                table.add_row(law, name, format_si(value), f"{format_si(ends['p05'])} to {format_si(ends['p95'])}")
        out.print(table)
        for law, one in document.get("forecast", {}).items():
            if law != "compute":
                at = format_si(document["forecast"]["compute"])
                note(out, f"{law} at {at}: {one['p50']:.3f} ({one['p05']:.3f} to {one['p95']:.3f})")
        return
    fit = document["coverage"]
    table = new_table(f"coverage = exp({fit['a']:.3g} k^{fit['b']:.3g})", ">k", ">coverage")
    for one in document["pass_at_k"]:
        table.add_row(f"{one['k']:g}", format_percent(one["coverage"]))
    out.print(table)
    if "forecast" in document:
        note(out, f"at {document['forecast']['k']:g} samples: {format_percent(document['forecast']['coverage'])}")
