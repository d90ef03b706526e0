"""The table of a run ledger."""

from __future__ import annotations

from typing import Any

from rich import box

from computeledger.interfaces.fitting import FittingTable, Page
from computeledger.units import HOUR_S, format_percent, format_si

MISSING = "–"


def _amount(value: float | None, unit: str) -> str:
    return MISSING if value is None else format_si(value, unit)


def print_ledger(document: dict[str, Any]) -> None:
    """Print the phases of a ledger, beta, and what was damaged."""
    console = Page()
    title = f"{', '.join(document['runs'])}: {document['workload']}, {document['steps']} steps"
    table = FittingTable(title=title, box=box.SIMPLE_HEAD)
    metered = document["energy_j"] is not None
    for name in ("phase", "time", "share", "tokens", "FLOP", "of peak", *(("energy",) if metered else ())):
        table.add_column(name, justify="left" if name == "phase" else "right", no_wrap=True)
    for name, part in sorted(document["phases"].items(), key=lambda pair: -pair[1]["gpu_hours"]):
        tokens = ", ".join(f"{format_si(count)} {kind}" for kind, count in part["tokens_by_kind"].items()) or MISSING
        busy = part["utilization_fraction"]
        table.add_row(
            name, _time(part["gpu_hours"]), format_percent(part["fraction"]), tokens.replace(", ", "\n"),
            _amount(part["flop"], "FLOP"), MISSING if busy is None else format_percent(busy),
            *((_amount(part["energy_j"], "J"),) if metered else ()),
        )  # fmt: skip
    console.print(table)
    console.print(f"in all {_time(document['gpu_hours'])}: wall time of each phase times its devices")
    if document["repeated_gpu_hours"]:
        console.print(f"{_time(document['repeated_gpu_hours'])} of it was done again after a restart")
    if document["workload"] == "rl":
        _print_beta(console, document)
    if not metered:
        console.print("energy: not measured")
    for name, hours in document["other_workloads_gpu_hours"].items():
        console.print(f"also in the ledger: {name}, {_time(hours)} (--workload {name})")
    for one in document["damaged_lines"]:
        console.print(f"line {one['line']} is damaged: {one['reason']}")


def _time(gpu_hours: float) -> str:
    seconds = gpu_hours * HOUR_S
    return format_si(seconds, "s") if gpu_hours < 1 else format_si(gpu_hours, "GPU-hours")


def _print_beta(console: Page, document: dict[str, Any]) -> None:
    def number(value: float | None) -> str:
        """A coefficient, or that it is not known."""
        return "not measured" if value is None else f"{value:.3g}"

    sampled = format_si(document["tokens_sampled"])
    console.print(f"beta in FLOP {number(document['beta_flop'])} per parameter and sampled token ({sampled} tokens)")
    busy = number(document["beta_gpu_time_busy"])
    console.print(f"beta in GPU-time {number(document['beta_gpu_time'])}, {busy} without idle; next-token training: 6")
    for line in filter(None, document["beta_gpu_time_note"].replace(": ", ":\n").replace("; ", ";\n").splitlines()):
        console.print(line)
    reference = document["reference"]
    if reference is None:
        console.print("no next-token reference in this ledger: GPU-time has nothing to be compared with")
    else:
        per_token = format_si(reference["device_s_per_token"], "s")
        error, count = reference["standard_error_fraction"], reference["measurements"]
        console.print(f"reference: {per_token} per token of next-token training, from {reference['measured_in']}")
        if error is not None:
            console.print(f"{count} steps of it were measured; standard error {format_percent(error)}")
