"""The view of a system: what its power and money train, and how long that takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from computeledger.facts.load import model_name
from computeledger.frontier.epoch_files import shipped_runs
from computeledger.interfaces.plots.known_runs import data_figure, runs_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, quantity_cell, quantity_table, with_interval
from computeledger.interfaces.views.display_names import in_names, system_words
from computeledger.interfaces.views.evidence import run_evidence
from computeledger.interfaces.views.frontier_words import (
    HARDLY,
    critical_row,
    elastic_ends,
    elastic_months,
    leans,
    lost_months,
    month_ends,
    months_made_of,
    months_span,
    more_months,
    over_record,
    span_ends,
    step_months,
    system_card,
    system_headline,
    system_sentence,
)
from computeledger.questions.wording import figure_words, interval_words, percent, point, short_model, show, span, words
from computeledger.units import MONTH_S, format_si

Document = Mapping[str, Any]
#: A share below this is printed as less than it.
_LEAST = 0.01
#: The two runs that a system's time is filled with.
RUN_NAMES = {"dense": "dense model", "moe": "mixture of experts"}

_STEPS = ("model", "batch #", "over critical #", "step #", "MFU #", "months, no stop #", "with stops #", "layout")


def _steps(trains: Document) -> Table:
    rows = [
        (said, words(row["batch_tokens"], "tokens"), f"{_over_critical(trains[name], row):.2g}x", *_step_cells(row))
        for name, said in RUN_NAMES.items()
        for row in trains[name]["batches"]
    ]
    title = "The step, by the size of its batch"
    note = (
        "from the operation model, at the critical batch and at both ends of its 90 % interval; batch: as many "
        "whole sequences for each rank of the layout as come near; over critical: that batch over the "
        "median critical batch of the run; with stops: every failure restarts the whole job; published rates were "
        "measured on up to 16K GPUs"
    )
    return Table(title, _STEPS, rows, "dense.step_s", note, drops=("layout",), is_detail=True)


def _over_critical(run: Document, row: Document) -> float:
    """A batch as the layout takes it, over the median of the run's critical batch."""
    return float(row["batch_tokens"] / point(run["critical_batch_tokens"]))


def _step_cells(row: Document) -> tuple[str, ...]:
    if row["problem"]:
        return "", "", "", "", row["problem"]
    cut = " + ".join(f"{part['layout']} on {part['n_gpus']:,} {in_names(part['accelerator'])}" for part in row["parts"])
    return words(row["step_s"], "s"), percent(row["mfu_fraction"]), *step_months(row), cut


def _run_tables(trains: Document) -> tuple[Table, Table]:
    """What both runs train: one column each, what decides first."""
    rows: list[list[str | Cell]] = [
        [label, *(quantity_cell(trains[name][key], unit) for name in RUN_NAMES)] for label, key, unit in _RUN_ROWS
    ]
    known = {name: over_record(trains[name]["flop"]) for name in RUN_NAMES}
    dense = known["dense"]
    if dense is not None:
        cells = [Cell(f"{one.times} times", below=one.band) if one else Cell("") for one in known.values()]
        known_as = f"{dense.name}, {dense.month}{', estimated' * dense.is_estimate}"
        rows.insert(1, [f"over the compute of {known_as}", *cells])
    n_main = _MAIN_ROWS + (dense is not None)
    lengths = _month_rows(trains)
    rows = [*rows[:n_main], *lengths[-2:], *rows[n_main:], *lengths[:-2]]
    n_main += len(lengths[-2:])
    columns = ("", *(f"{said} #" for said in RUN_NAMES.values()))
    first = Table("The run", columns, rows[:n_main], "dense.flop", is_stacked=True)
    return first, Table("The run in detail", columns, rows[n_main:], "dense.flop", is_stacked=True, is_detail=True)


def _month_rows(trains: Document) -> list[list[str | Cell]]:
    """How long each run takes and why it is longer than was asked, where a way to run its steps was found."""
    found = [critical_row(trains[name]) for name in RUN_NAMES]
    if "months" not in trains or any(row["problem"] for row in found):
        return []
    months, share = f"{trains['months']:.3g}", words(trains["utilization_fraction"], "fraction", 2)
    return [
        [f"months asked, at {share} of the peak", *(months for _ in found)],
        ["more months, as its steps are slower", *(more_months(trains["months"], row) for row in found)],
        ["share of the peak that its steps reach", *(percent(row["mfu_fraction"]) for row in found)],
        ["months lost to failures, ridden through", *(lost_months(row, "elastic_s") for row in found)],
        ["months lost to failures, each a restart", *(lost_months(row) for row in found)],
        [
            "months in all, failures ridden through",
            *(Cell(_elastic(row), below=elastic_ends(row).replace(" to ", " \u2013 ")) for row in found),
        ],
        [
            "months in all, each failure a restart",
            *(Cell(step_months(row)[1], below=month_ends(row).replace(" to ", " \u2013 ")) for row in found),
        ],
    ]


def _elastic(row: Document) -> str:
    """Months with elastic recovery, whether or not it is the better way."""
    return HARDLY if lost_months(row, "elastic_s") == HARDLY else words(row["elastic_s"] / MONTH_S, "", 2)


_FITS = "weights of 8 bit, in what an engine fills of one scale-up domain: GPUs that a fast link joins into one"


def fits_table(document: Document, key: str) -> Table:
    """The smallest system that holds each model's weights, or how many of the largest do."""
    by_model: dict[str, list[Document]] = {}
    for one in document["fits"]:
        by_model.setdefault(one["model"], []).append(one)
    rows = [[_model_words(model), *_holder(some)] for model, some in by_model.items()]
    columns = ("model", "smallest system that holds it", "of its memory #")
    return Table("Where a model fits", columns, rows, key, _FITS, is_detail=True)


def _holder(some: list[Document]) -> tuple[str, str]:
    """Of the systems that hold a model the one that it fills most; where none does, how many of the largest."""
    held = [one for one in some if one["weights_fraction"] <= 1]
    share = max((one["weights_fraction"] for one in held), default=min(one["weights_fraction"] for one in some))
    names = [system_words(one["system"]).partition(" (")[0] for one in some if one["weights_fraction"] == share]
    if not held:
        return f"none: it takes {share:.2g} {names[0]}", ""
    return " or ".join(names), "< 1 %" if share < _LEAST else words(share, "fraction", 2)


def _model_words(model: str) -> str:
    """A shipped model's name, or which of the two that fill the system's time."""
    own = {name: f"this run, {said}" for name, said in RUN_NAMES.items()}
    return own.get(model) or short_model(model if "/" in model or model[:1].isupper() else model_name(model))


_REACH = (
    "Compute of published training runs by date of release, as Epoch AI estimates it (hollow: speculative; named: the "
    "largest of its time; the data end in {last}), and of this system's run with its 90 % interval."
)
_TEXT = (
    "Size and training tokens of a dense model and of a mixture of experts that this compute trains, with 90 % "
    "intervals, beside published pretraining runs. Grey band: all text there is, 90 % interval."
)


def system_tables(system: Document, trains: Document) -> list[Table]:
    """What a system trains, a step of it, and what the system is."""
    months = [(f"{name} in a month", value, "FLOP") for name, value in system.get("flop_per_month", {}).items()]
    whole = quantity_table("The system", [*_system_rows(system), *months], "chips")
    return [*_run_tables(trains), _steps(trains), replace(whole, is_detail=True)]


def systems_view(document: Document) -> View:
    """What a system trains, beside known runs and the stock of text."""
    assumed = [one["accelerator"] for one in document["generations"] if one["assumed_accelerator"]]
    trains = document["trains"]
    run, *details = system_tables(document, trains)
    run = replace(run, note=_leaning_words(document))
    return View(
        title=document["spec"],
        headline=system_headline(document),
        card=system_card(document),
        context=f"{system_sentence(document)}.",
        evidence=run_evidence(document),
        main="dense.flop",
        tiles=_system_tiles(document),
        plots=(
            Plot("reach", "Compute beside known runs [FLOP]", _REACH.format(last=_last_month()),
                 runs_figure(trains["dense"]["flop"], shipped_runs()), "dense.flop"),
            Plot("text", "Is there enough text for it? [tokens]", _TEXT,
                 data_figure(trains, document["text"], shipped_runs()), "dense.flop", is_detail=True),
        ),
        tables=(run, fits_table(document, "weights_fraction"), _uses(document), *details),
        notes=_clue(document),
        grounds=(*((f"assumed: {assumed[0]}; name another with 'of ACCELERATOR_ID'",) if assumed else ()),
                 "published training runs: Epoch AI, CC BY 4.0 (https://epoch.ai/data)"),
        sources=tuple(sorted({one.source for one in shipped_runs()})),
    )  # fmt: skip


def _leaning_words(document: Document) -> str:
    """Why medians lie near the low ends of their ranges, where they do."""
    found = leans(document)
    if found is None:
        return ""
    usual, least = found
    return f"medians lie near the low ends: a chip usually takes {usual} with cooling, at the high ends {least}"


def _last_month() -> str:
    """The month of the latest run of the data, in words."""
    return f"{date.fromisoformat(shipped_runs()[-1].date):%B %Y}"


def _clue(document: Document) -> tuple[str, ...]:
    """Which reading of a count the power allows."""
    clue = document.get("power_clue")
    if clue is None:
        return ()
    said = [
        f"{one['unit']} {'fit' if one['fits'] else 'do not fit'} ({span(one['low_w'], one['high_w'], 'W')} "
        f"{'IT' if one['boundary'] == 'it' else one['boundary']})"
        for one in clue["readings"]
    ]
    return (f"{words(clue['given_w'], 'W')} tells {clue['taken']['unit']}: {', '.join(said)}",)


def _system_tiles(document: Document) -> tuple[Tile, ...]:
    """What is trained, how long it takes with failures, and what the system is."""
    trains = document["trains"]
    run, row = trains["dense"], critical_row(trains["dense"])
    named = " + ".join(f"{one['accelerator']}{_kind(one['accelerator'])}" for one in document["generations"])
    found, most = leans(document), words(point(document["chips"], "p95"), "", 2)
    power = f", {figure_words(document['power_w']['facility'], 'W')} with cooling"
    if found:
        power = f": {found[0]} each with cooling, {found[1]} at least"
    chips = f"{' '.join(part for part in (interval_words(document['chips'], ''), named) if part)}{power}"
    compute = with_interval(Tile("Compute", "", key="dense.flop"), run["flop"], "FLOP")
    tiles = [replace(compute, band=f"{compute.band}; the most with {most} chips") if found else compute]
    if not row["problem"]:
        told = _told(row)
        tiles.append(
            Tile(
                "Time, dense model",
                told,
                _time_band(row, months_made_of(trains)),
                *_worked(row, "dense"),
            )
        )
    capital = document["capex_usd"]
    return (
        *tiles,
        Tile("Chips", figure_words(document["chips"], ""), chips, key="chips"),
        with_interval(Tile("Capital to build it", "", key="capex_usd"), capital, "USD"),
        *_experts_tile(trains["moe"]),
    )  # fmt: skip


def _kind(accelerator: str) -> str:
    """That a chip is a GPU, where its superchip has the same name in people's mouths."""
    return " GPUs" if accelerator.endswith("-gpu") else ""


def _time_band(row: Document, said: str) -> str:
    """The interval of a run's months, and what else is said of them."""
    ends = elastic_ends(row) if step_months(row)[1] == HARDLY and elastic_months(row) else span_ends(row)
    return "; ".join(part for part in (ends.replace(" to ", " \u2013 "), said) if part)


def _told(row: Document) -> str:
    """The months of a run in a tile."""
    span = months_span(row).replace(" to ", " \u2013 ")
    return span if span == HARDLY else f"{span}\u00a0months"


def _experts_tile(run: Document) -> list[Tile]:
    """How long the mixture of experts takes that has the same compute."""
    row = critical_row(run)
    if row["problem"]:
        return []
    told = _told(row)
    size = figure_words(run["n_params_total"], "")
    return [Tile("Time, mixture of experts", told, _time_band(row, f"{size} parameters"), *_worked(row, "moe"))]


def _worked(row: Document, name: str) -> tuple[float, str]:
    """The months whose working a tile shows: with failures, or those beyond what was asked where they have no end."""
    kind = next((one for one in ("calendar", "elastic") if row[f"{one}_s"] is not None), "")
    return (row[f"{kind}_s"] / MONTH_S, f"{name}.{kind}_months") if kind else (math.inf, f"{name}.slower_months")


_USES = ("model", "chip", "served by all chips #", "a token in #", "RL in one scale-up domain", "rollouts there #",
         "efficient up to #", "sampled there #")  # fmt: skip


def _uses(document: Document) -> Table:
    """Serving and RL by model and chip."""
    given = document["assumptions"]
    sampling = {(row["model"], row["accelerator"]): row for row in document["rl"]["by"]}
    rows = [
        [_model_words(row["model"]), in_names(row["accelerator"]), *_served_cells(row), *_rl_cells(sampling[key])]
        for row in document["serves"]["by"]
        for key in [(row["model"], row["accelerator"])]
    ]
    note = (
        f"served: requests of {given['served_input_tokens']:,.0f} tokens in and {given['served_output_tokens']:,.0f} "
        f"out, a token in {words(given['served_tpot_s'], 's')} at most; RL: rollouts of "
        f"{words(given['mean_rollout_tokens'], 'tokens')} on average; layouts of both are in --json"
    )
    drops = ("sampled there", "efficient up to", "rollouts there")
    return Table("Serving and RL", _USES, rows, "sampled_tokens_per_s", note, drops=drops, is_detail=True)


def _served_cells(row: Document) -> list[str | Cell]:
    if row["problem"]:
        return [Cell("no", below=row["problem"]), ""]
    return [figure_words(row["output_tokens_per_s"], "tokens/s"), words(row["tpot_s"], "s")]


def _rl_cells(row: Document) -> list[str | Cell]:
    if row["problem"]:
        return [f"no: {row['problem']}", "", "", ""]
    fits = "fits" if row["is_efficient"] else "fits, inefficiently"
    longest, sampled = (
        words(row["longest_trace_tokens"], "tokens"),
        figure_words(row["sampled_tokens_per_s"], "tokens/s"),
    )
    return [fits, format_si(row["rollouts_per_world"]), longest, sampled]


def _system_rows(document: Document) -> list[tuple[str, Any, str]]:
    """What a system has and costs: label, quantity, unit."""
    power = document["power_w"]
    rows = [("chips", document["chips"], ""), ("compute dies", document["dies"], "")]
    rows += [
        ("H100-equivalents, bf16", document["h100e_bf16"], ""),
        ("H100-equivalents, 8 bit", document["h100e_8bit"], ""),
    ]
    rows += [(f"peak {name}", value, "FLOP/s") for name, value in document["peak_flop_per_s"].items()]
    rows += [(f"power, {'IT' if name == 'it' else name}", power[name], "W") for name in ("chip", "it", "facility")]
    rows += [("HBM", document["hbm_bytes"], "B")]
    for one in document["generations"]:
        if one["scale_up_worlds"] is not None:
            world = f"{one['scale_up_chips']:g} {one['accelerator']}, {show(one['scale_up_hbm_bytes'], 'B')} each"
            rows.append((f"scale-up domains of {world}", one["scale_up_worlds"], ""))
    rows += [("capital", document["capex_usd"], "USD")]
    rows += [(f"capital per {one['accelerator']}", one["capex_usd_per_chip"], "USD") for one in document["generations"]]
    return [*rows, ("cost of a year", document["yearly_usd"], "USD")]


#: What a run trains: label, key and unit; so many of them decide.
_MAIN_ROWS = 5
_RUN_ROWS = (
    ("compute", "flop", "FLOP"),
    ("active parameters", "n_params_active", ""),
    ("total parameters", "n_params_total", ""),
    ("tokens", "tokens", "tokens"),
    ("passes over the stock of text", "epochs", ""),
    ("could memorise of that stock", "absorbs_fraction", "fraction"),
    ("critical batch", "critical_batch_tokens", "tokens"),
    ("steps", "steps", ""),
    ("longest step, to end in time", "step_s_allowed", "s"),
    ("a dense model would take", "dense_equivalent_flop", "FLOP"),
)
