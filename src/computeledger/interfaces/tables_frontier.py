"""Terminal tables of a run over several sites, of a published model's sheet and of a calendar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from computeledger.interfaces.tables import console, interval, new_table, note
from computeledger.questions.wording import show
from computeledger.units import BITS_PER_BYTE, format_percent, format_si

Document = Mapping[str, Any]


def print_frontier(command: str, document: Document) -> None:
    """Print the answer of a command under ``frontier``."""
    out = console()
    _PRINTERS[command](out, document)
    if "credit" in document:
        note(out, document["credit"])


def _pairs(out: Console, title: str, rows: list[tuple[str, Any, str]]) -> None:
    table = new_table(title, "", "")
    for name, value, unit in rows:
        table.add_row(name, interval(value, unit))
    out.print(table)


def _print_spread(out: Console, document: Document) -> None:
    asked = [
        ("parameters whose gradients are exchanged", document["n_params"], ""),
        ("sites", document["n_sites"], ""),
        ("step within a site", document["site_step_s"], "s"),
        ("sent by a site per exchange, and received", document["exchange_bytes"], "B"),
        (
            "least rate each way: exchange hidden behind the steps",
            document["least_bytes_per_s"] * BITS_PER_BYTE,
            "bit/s",
        ),
    ]
    if document["domains"]:
        asked.insert(3, ("batch of a step, over all sites", document["batch_tokens"], "tokens"))
    _pairs(out, "Training over several sites", asked)
    table = new_table(
        "Links, each way; exchanges take the same share of the time",
        "change",
        ">sent",
        ">in",
        ">rate",
        ">fibre pairs",
        ">mean step",
        ">slower",
    )
    for row in document["levers"]:
        slower = format_percent(row["slowdown_ratio"] - 1.0)
        sent, rate = show(row["exchange_bytes"], "B"), show(row["bytes_per_s"] * BITS_PER_BYTE, "bit/s")
        times = show(row["exchange_s"], "s"), show(row["step_s"], "s")
        table.add_row(row["change"], sent, times[0], rate, format_si(row["fibres"]), times[1], slower)
    out.print(table)
    if document["domains"]:
        _print_domains(out, document)
    pair = document["fibre_bytes_per_s"]
    ends = (show(pair[name] * BITS_PER_BYTE, "bit/s") for name in ("value", "low", "high"))
    note(out, "a pair of fibres carries {} ({} to {} in field trials)".format(*ends))


def _print_domains(out: Console, document: Document) -> None:
    """Step and links by size of the scale-up domain."""
    table = new_table(
        "By size of the scale-up domain, from the operation model; an exchange takes a sixth of the step",
        ">GPUs", ">step", ">MFU", ">rate", ">fibre pairs", "layout",
    )  # fmt: skip
    for row in document["domains"]:
        if row["problem"]:
            table.add_row(str(row["n_scale_up"]), "", "", "", "", row["problem"])
            continue
        rate = show(row["links"]["bytes_per_s"] * BITS_PER_BYTE, "bit/s")
        numbers = show(row["step_s"], "s"), format_percent(row["mfu_fraction"]), rate, format_si(row["links"]["fibres"])
        table.add_row(str(row["n_scale_up"]), *numbers, row["layout"])
    out.print(table)


def _print_sheet(out: Console, document: Document) -> None:
    chip = f"{document['accelerator']} ({document['accelerator_ground']})"
    table = new_table(
        f"{document['model']}: training FLOP; hours are those of {chip}", "side", "FLOP", ">agrees at", "agrees", "how"
    )
    for line in document["lines"]:
        used = "" if line["utilization_fraction"] is None else format_percent(line["utilization_fraction"])
        table.add_row(
            line["side"], interval(line["flop"], "FLOP"), used, "yes" if line["agrees"] else "NO", line["formula"]
        )
    out.print(table)
    out.print(Text("the sides are reconciled" if document["reconciled"] else "the sides are in conflict"))


def _print_schedule(out: Console, document: Document) -> None:
    table = new_table(f"From {document['start']}", "step", "5 %", "50 %", "95 %")
    for name, end in document["ends"].items():
        table.add_row(name, end["p05"], end["p50"], end["p95"])
    out.print(table)
    last = document["ends"]["post-training"]
    out.print(Text(f"the model is out on {last['p50']} ({last['p05']} to {last['p95']})"))


_PRINTERS: dict[str, Callable[[Console, Document], None]] = {
    "spread": _print_spread,
    "sheet": _print_sheet,
    "schedule": _print_schedule,
}
