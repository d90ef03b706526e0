"""The view of a plan's ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.economics.ledger import Ledger
from computeledger.interfaces import plots
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, quantity_cell, share_cell
from computeledger.interfaces.working import working_view
from computeledger.questions.wording import (
    PHASE_NAMES,
    UTILIZATION_WORDS,
    choice_words,
    input_phrase,
    interval_words,
    percent,
    point,
    span,
    words,
)

#: Rows of the ledger: what, where it stands in a phase, its unit; experiments are GPU-time and money alone.
PHASE_ROWS = (
    ("tokens, not cached", "tokens", ""), ("FLOP", "flop", ""), ("GPU-hours", "gpu_hours", ""),
    ("utilisation", "utilization_fraction", "fraction"), ("cost", "usd", "USD"), ("energy", "energy_j", "J"),
)  # fmt: skip
_NOT_OF_EXPERIMENTS = ("tokens", "flop", "utilization_fraction")
_TILES = (("gpu_hours", "GPU-time", "GPU-hours"), ("usd", "Cost", "USD"), ("energy_j", "Energy", "J"),
          ("flop", "Compute", "FLOP"))  # fmt: skip
#: Inputs that drive the spread: how many are shown, and named in the first sentence.
_DRIVERS, _NAMED = 8, 2


def view(answer: Any, working: bool) -> View:
    """Of a plan's answer."""
    return ledger_view(answer.to_dict(working=working), answer.ledger)


def ledger_view(document: Mapping[str, Any], ledger: Ledger) -> View:
    """Of a ledger and its document."""
    return View(
        title=document["title"],
        asked=_asked(document),
        headline=_headline(document),
        notes=tuple(_notes(document)),
        tiles=tuple(
            Tile(label, words(point(document["total"][key]), unit), interval_words(document["total"][key], unit),
                 point(document["total"][key]), key)
            for key, label, unit in _TILES
        ),
        plots=_plots(document, ledger),
        tables=(_ledger(document), *_shares(document), *_balance(document), *_drivers(document)),
        grounds=tuple(_grounds(document)),
        working=tuple(working_view(document)),
        overline="plan",
    )  # fmt: skip


def _asked(document: Mapping[str, Any]) -> tuple[str, ...]:
    models = {f"{one['model']} on {one['accelerator']}" for one in document["phases"].values()}
    return (*sorted(models), f"medians of {document['n_samples']:,} samples, seed {document['seed']}")


def _headline(document: Mapping[str, Any]) -> str:
    shares, total = document["shares"]["gpu_time"], document["total"]
    hours, usd = words(point(total["gpu_hours"]), "GPU-hours"), words(point(total["usd"]), "USD")
    said = f"{hours} and {usd} over the model's life{', experiments included' if document['experiments'] else ''}"
    if shares:
        largest = max(shares, key=lambda name: point(shares[name]))
        said += f"; {PHASE_NAMES[largest]} takes {percent(point(shares[largest]))} of the GPU-time"
    said += "."
    drivers = " and ".join(input_phrase(one["name"]) for one in document["drivers"][:_NAMED])
    return f"{said} The spread comes mostly from {drivers}." if drivers else said


def _notes(document: Mapping[str, Any]) -> list[str]:
    out = [f"{PHASE_NAMES[name]} is left out: {reason}" for name, reason in document["skipped"].items()]
    out += choice_words(document["phases"])
    for name, phase in document["phases"].items():
        details = phase["details"]
        modelled = details.get("modelled_gpu_hours")
        if modelled is not None and point(modelled) != point(phase["gpu_hours"]):
            out.append(f"{PHASE_NAMES[name]}: the model gives {_in_band(modelled, 'GPU-hours')}")
        if "unpaid_gpu_time_fraction" in details:
            share = _in_band(details["unpaid_gpu_time_fraction"], "fraction")
            out.append(f"{PHASE_NAMES[name]}: of its GPU-time nobody pays for {share}")
    return out


def _in_band(value: Any, unit: str) -> str:
    band = interval_words(value, unit)
    return f"{words(point(value), unit)} ({band})" if band else words(point(value), unit)


def _every_phase(document: Mapping[str, Any]) -> dict[str, Any]:
    extra = {"experiments": document["experiments"]} if document["experiments"] else {}
    return {**document["phases"], **extra}


def _ledger(document: Mapping[str, Any]) -> Table:
    phases = _every_phase(document)
    rows: list[list[str | Cell]] = []
    for label, key, unit in PHASE_ROWS:
        cells: list[str | Cell] = [
            "–" if name == "experiments" and key in _NOT_OF_EXPERIMENTS else quantity_cell(phase[key], unit)
            for name, phase in phases.items()
        ]
        total = document["total"].get(key)
        rows.append([label, *cells, "–" if total is None else quantity_cell(total, unit)])
    rows.append(["accelerator", *(phase["accelerator"] for phase in phases.values()), ""])
    columns = ("", *(f"{PHASE_NAMES[name]} #" for name in phases), "Total #")
    return Table("The ledger", columns, rows, "gpu_hours", UTILIZATION_WORDS, is_stacked=True)


def _shares(document: Mapping[str, Any]) -> tuple[Table, ...]:
    flop, time = document["shares"]["flop"], document["shares"]["gpu_time"]
    if not flop:
        return ()
    rows: list[tuple[str | Cell, ...]] = [
        (PHASE_NAMES[name], *(share_cell(point(one[name]), _in_band(one[name], "fraction")) for one in (flop, time)))
        for name in flop
    ]
    return (Table("Shares of the three phases", ("", "in FLOP", "in GPU-time"), rows, "gpu_hours"),)


_BALANCE = (
    ("overtraining_ratio", "x", "pretraining tokens over Chinchilla's 20 per active parameter"),
    ("inference_efficiency", "", "e: FLOP per GPU-hour of inference over that of pretraining"),
    ("tokens_inference_balanced", "", "inference tokens that equal pretraining in GPU-time, D_inf = 3 e D_pre"),
    ("inference_over_balanced", "x", "inference GPU-time over pretraining GPU-time"),
    ("beta_flop", "", "RL's coefficient in FLOP per sampled token and active parameter; pretraining has 6"),
    ("beta_gpu_time", "", "RL's coefficient in GPU-time, pretraining token = 6"),
    ("tokens_rl_balanced", "", "RL tokens that equal pretraining in GPU-time, D_RL = (6 / beta) D_pre"),
    ("rl_over_balanced", "x", "RL GPU-time over pretraining GPU-time"),
)


def _balance(document: Mapping[str, Any]) -> tuple[Table, ...]:
    rows: list[tuple[str | Cell, ...]] = []
    for key, unit, said in _BALANCE:
        if key in document["balance"]:
            is_own = key == "beta_gpu_time" and "pretraining" in document["skipped"]
            label = "RL's coefficient in GPU-time, a token in its own trainer = 6" if is_own else said
            rows.append((label, quantity_cell(document["balance"][key], unit)))
    note = "Balanced means equal GPU-time: a point of comparison, not a goal."
    return (Table("Balance", ("", "median and 90 % interval"), rows, "gpu_hours", note),) if rows else ()


def _drivers(document: Mapping[str, Any]) -> tuple[Table, ...]:
    rows = []
    for one in document["drivers"][:_DRIVERS]:
        rho = one["rank_correlation"]
        bars = (share_cell(abs(rho[key]), f"{rho[key]:+.2f}") for key in ("gpu_hours", "usd"))
        rows.append((one["name"], span(one["low"], one["high"], one["unit"]), *bars))
    columns = ("input", "90 % interval", "of GPU-hours", "of cost")
    return (Table("What drives the spread (rank correlation)", columns, rows, "gpu_hours"),) if rows else ()


def _grounds(document: Mapping[str, Any]) -> list[str]:
    silent = [f"{one['name']} = {words(point(one['value']), one['unit'])}" for one in document["assumptions"]]
    out = [f"assumed because the plan is silent: {'; '.join(silent)}"] if silent else []
    editions = ", ".join(f"{name} {edition}" for name, edition in document["editions"].items())
    return [
        *out,
        f"editions: {editions}; efficiency factors are fitted or assumed, each with its source under --working",
    ]


def _plots(document: Mapping[str, Any], ledger: Ledger) -> tuple[Plot, ...]:
    found = []
    if len(document["shares"]["flop"]) > 1:
        found.append(
            Plot("shares", "Three phases, two currencies", "The same life counted in FLOP and in GPU-time: what is "
                 "cheap in one is dear in the other.", plots.shares_figure(document), "gpu_hours")
        )  # fmt: skip
    found += [
        Plot("phases", "GPU-hours of each phase", "Median and 90 % interval; the hill is the distribution.",
             plots.phases_figure(ledger), "gpu_hours"),
    ]  # fmt: skip
    if any(phase.operations for phase in ledger.phases.values()):
        found.append(Plot("bounds", "What binds each step", "Compute, memory, network, or overhead.",
                          plots.bounds_figure(ledger), "utilization_fraction"))  # fmt: skip
    if document["drivers"]:
        found.append(Plot("drivers", "What drives the spread", "Rank correlation of each uncertain input with the "
                          "totals: narrow the upper ones first.", plots.drivers_figure(document, 6),
                          "gpu_hours"))  # fmt: skip
    if "inference" in ledger.phases and ledger.phases["inference"].curves:
        found.append(Plot("speed", "What speed costs", "Each engine over its batches; the ring is the batch in use.",
                          plots.speed_figure(ledger), "busy_gpu_hours"))  # fmt: skip
    return tuple(found)
