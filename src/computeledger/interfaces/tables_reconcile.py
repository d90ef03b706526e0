"""A reconciliation as terminal tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from computeledger.interfaces.tables import console, new_table, note
from computeledger.questions.wording import PHASE_NAMES, percent, show, words
from computeledger.units import format_si

#: Quantity, its words and unit.
QUANTITIES = (
    ("tokens", "tokens", "tokens"), ("gpu_hours", "GPU-hours", ""), ("utilization_fraction", "utilisation", "fraction"),
    ("mfu_fraction", "MFU", "fraction"),
    ("usd", "cost", "USD"), ("usd_per_gpu_hour", "GPU-hour", "USD/h"), ("energy_j", "energy, at the facility", "J"),
    ("beta_flop", "beta, FLOP", ""), ("beta_gpu_time", "beta, GPU-time", ""),
)  # fmt: skip
#: Part of the variance and its words, in the order of the waterfall.
PARTS = (("volume", "volume"), ("utilization", "utilisation"), ("unplanned", "unplanned phases"), ("price", "price"))


def rows_of(phase: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Words, budget, actual and their ratio, of each quantity that one side has."""
    for key, label, unit in QUANTITIES:
        budget, actual = phase["budget"][key], phase["actual"][key]
        if not budget and not actual:
            continue
        ratio = f"× {actual / budget:.3g}" if budget and actual is not None else ""
        yield label, _shown(budget, unit), _shown(actual, unit), ratio


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    return format_si(value) if unit == "" else show(value, unit)


def signed(value: float, unit: str) -> str:
    """A difference with its sign; GPU-hours without their unit, which stands in the heading."""
    text = format_si(abs(value)) if unit == "GPU-hours" else words(abs(value), unit)
    return f"{'−' if value < 0 else '+'}{text}" if value else text


def damage_words(one: Mapping[str, Any]) -> list[str]:
    """What was damaged and what was odd in a file, in words."""
    return [
        f"{count['count']} {'lines' if count['count'] > 1 else 'line'} (first: {count['first_line']}): {reason}"
        for kind in ("damaged", "remarks")
        for reason, count in one[kind].items()
    ]


def entries_words(count: int) -> str:
    """How many entries were read."""
    return "1 entry" if count == 1 else f"{count:,} entries"


def contradiction_words(one: Mapping[str, Any]) -> str:
    """A contradiction in one sentence."""
    found, limit = (f"{one[key]:.3g}" if not one["unit"] else show(one[key], one["unit"]) for key in ("found", "limit"))
    return f"{PHASE_NAMES[one['phase']]}: {one['what']}: {found} against {limit} ({one['why']})"


def print_reconciliation(document: Mapping[str, Any]) -> None:
    """Print a reconciliation."""
    out = console()
    out.print(Text(f"{document['title']}: budget against actuals", style="bold"))
    for name, phase in document["phases"].items():
        table = new_table(PHASE_NAMES[name], "", ">budget", ">actual", ">actual / budget")
        for row in rows_of(phase):
            table.add_row(*row)
        out.print(table)
        table = new_table("", "variance", ">USD", ">GPU-hours", "what it is")
        for key, label in PARTS:
            hours = phase["variance_gpu_hours"][key]
            table.add_row(
                label, signed(phase["variance"][key], "USD"), "" if key == "price" else signed(hours, "GPU-hours"),
                Text(document["definitions"][key], style="bright_black"),
            )  # fmt: skip
        whole = sum(phase["variance"].values())
        table.add_row(
            "actual − budget", signed(whole, "USD"), signed(sum(phase["variance_gpu_hours"].values()), "GPU-hours"), ""
        )
        out.print(table)
        parts = ", ".join(f"{part} {percent(one['fraction'])}" for part, one in phase["parts"].items())
        note(out, f"GPU-time: {parts}")
    note(out, f"{document['definitions']['utilization_fraction']}; {document['definitions']['mfu_fraction']}")
    for one in document["contradictions"]:
        out.print(Text(f"contradicts physics: {contradiction_words(one)}", style="red"))
    _print_files(out, document)


def _print_files(out: Any, document: Mapping[str, Any]) -> None:
    for one in document["files"]:
        note(out, f"{one['file']}: {one['tool']}, {entries_words(one['entries'])}")
        for line in damage_words(one):
            out.print(Text(f"  {line}", style="yellow"))
    for remark in document["remarks"]:
        note(out, remark)
    calibration = document["calibration"]
    if calibration is None:
        note(out, "no calibration was written")
        return
    for name, one in calibration["phases"].items():
        span = one["utilization"]
        note(
            out,
            f"{calibration['file']}: {PHASE_NAMES[name]} reached a utilisation of {percent(span['p50'])} "
            f"({percent(span['p05'])} to {percent(span['p95'])}); computeledger plan {document['plan']} --calibration "
            f"{calibration['file']} uses it",
        )
