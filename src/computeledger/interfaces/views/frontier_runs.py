"""The views of single runs: over several sites, a published model's FLOP, and the calendar of a release."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from computeledger.facts.load import load_model
from computeledger.frontier.releases import foretold_releases
from computeledger.frontier.spread import SpreadResult, fibre
from computeledger.interfaces.plots.bars import bars_figure
from computeledger.interfaces.plots.compare import intervals_figure
from computeledger.interfaces.plots.palette import PLAIN
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, quantity_cell
from computeledger.questions.answer import Answer
from computeledger.questions.answers.frontier.labs import LabsAnswer, RunsAnswer
from computeledger.questions.answers.frontier.runs import FlopSheetAnswer, ScheduleAnswer, SpreadAnswer
from computeledger.questions.wording import figure_words, headline_words, percent, short_model, span, words
from computeledger.units import BITS_PER_BYTE, format_si

_LEVERS = ("change", "sent #", "in #", "rate #", "fibre pairs #", "mean step #", "slower #")
_LABS = ("lab", "largest site", "power #", "H100e there #", "at all named sites #")
_FLEETS = ("lab", "whole fleet #", "IT power #", "trains #")
_SITES_SAY = (
    "largest: of those that the lab is confidently or likely to use, its power with the 90 % interval of revisions; "
    "all: the likely ones, from the confident ones alone to the speculative ones"
)
_FLEETS_SAY = (
    "all that a lab uses, rented or owned, in 8-bit H100-equivalents; a run takes the whole of it, each as an H100 in "
    "bf16"
)
_RUNS = ("date", "run", "lab", "compute #", "record", "days since #", "known")
_DROPS = ("known", "days since", "record")
_DOMAINS = ("GPUs #", "step #", "MFU #", "rate #", "fibre pairs #", "layout")


def view(answer: Answer, working: bool) -> View:  # noqa: ARG001 (these answers have no working)
    """Of a run over several sites, a model's FLOP, or a calendar."""
    name, make = _VIEWS[type(answer).__name__]
    return replace(make(answer), overline=f"frontier {name}")


def _rate(bytes_per_s: Any) -> str:
    """A rate of a link, in bits."""
    return words(float(bytes_per_s) * BITS_PER_BYTE, "bit/s")


def _spread(answer: SpreadAnswer) -> View:
    run, links = answer.run, answer.links
    pair = fibre()
    tables = [Table("Links, each way; exchanges take the same share of the time", _LEVERS,
                    [_link_row(name, one) for name, one in answer.changed.items()], "levers")]  # fmt: skip
    facts = [
        ("Gradients exchanged", f"of {words(float(run.n_params), 'params')} parameters between {run.n_sites} sites"),
        ("Sent by a site per exchange, and received", words(float(links.exchange_bytes), "B")),
        ("Step within a site", words(float(run.step_s), "s")),
    ]
    if answer.domains:
        facts.append(("Batch of a step, over all sites", words(answer.batch_tokens, "tokens")))
        tables.append(_domains(answer))
    tables.append(_prices(answer))
    least = _rate(links.least_bytes_per_s)
    rates = {name: float(one.bytes_per_s) * BITS_PER_BYTE for name, one in answer.changed.items()}
    low, high = (_rate(end) for end in (pair.low, pair.high))
    return View(
        title="Training over several sites",
        headline=headline_words(
            f"{words(float(run.n_params), 'params')} parameters over {run.n_sites} sites",
            f"{_rate(links.bytes_per_s)} each way for an exchange in {words(float(links.exchange_s), 's')}",
        ),
        context=f"It makes the mean step {percent(float(links.slowdown_ratio) - 1.0)} slower; hidden behind the steps, "
        f"it needs {least}.",
        tiles=(
            Tile("Rate each way", _rate(links.bytes_per_s), key="bytes_per_s"),
            Tile("Least rate each way, hidden behind the steps", least, key="least_bytes_per_s"),
            Tile("Fibre pairs", format_si(float(links.fibres)), key="fibres"),
            Tile("Mean step", words(float(links.step_s), "s"), key="step_s"),
        ),
        plots=(Plot("links", "Links, each way", "Rate of the links between the sites, with one thing changed.",
                    bars_figure(rates, "bit/s", PLAIN), "levers"),),
        tables=tuple(tables),
        facts=tuple(facts),
        grounds=(f"a pair of fibres carries {_rate(pair.value)} ({low} to {high} in field trials)",),
        tile_heading="as asked",
    )  # fmt: skip


def _link_row(change: str, one: SpreadResult) -> list[str]:
    return [
        change,
        words(float(one.exchange_bytes), "B"),
        words(float(one.exchange_s), "s"),
        _rate(one.bytes_per_s),
        format_si(float(one.fibres)),
        words(float(one.step_s), "s"),
        percent(float(one.slowdown_ratio) - 1.0),
    ]


def _domains(answer: SpreadAnswer) -> Table:
    """Step and links by size of the scale-up domain."""
    rows = []
    for one in answer.domains:
        cells = ["", "", "", "", one.problem]
        if one.result is not None and not one.problem:
            links = _rate(one.result.bytes_per_s), format_si(float(one.result.fibres))
            cells = [words(float(one.step_s), "s"), percent(one.mfu_fraction), *links, one.layout]
        rows.append([str(one.n_scale_up), *cells])
    title = "By size of the scale-up domain, from the operation model; an exchange takes a sixth of the step"
    return Table(title, _DOMAINS, rows, "domains")


def _prices(answer: SpreadAnswer) -> Table:
    """What joining the sites costs in loss and stops."""
    rows = [
        ["in every step" if one.local_steps == 1 else f"every {one.local_steps:g} steps",
         percent(one.tokens_worth_fraction), "" if one.goodput_fraction is None else percent(one.goodput_fraction),
         percent(one.worth_fraction), one.why]
        for one in answer.prices
    ]  # fmt: skip
    note = "tokens for the same loss, of the compute-optimal run; time that failures leave, at rates of up to 16K GPUs"
    said = note if answer.question.gpus is not None else f"{note}: give --system and --gpus"
    columns = ("exchange", "tokens worth #", "time left #", "GPU-hour worth #", "why")
    return Table("What several sites cost in loss and stops", columns, rows, "prices", said)


def _flop_sheet(answer: FlopSheetAnswer) -> View:
    found = answer.to_dict()["lines"]
    rows: list[list[str | Cell]] = [
        [line["side"], quantity_cell(line["flop"], "FLOP"),
         "" if line["utilization_fraction"] is None else percent(line["utilization_fraction"]),
         "yes" if line["agrees"] else "NO", line["formula"]]
        for line in found
    ]  # fmt: skip
    first = f"{figure_words(found[0]['flop'], 'FLOP')} by 6 N D"
    against = [line["side"] for line in found if not line["agrees"]]
    name = short_model(load_model(answer.model).id)
    conflict = f"the {' and '.join(against)} figure{'s disagree' if len(against) > 1 else ' disagrees'}"
    said = "every other side agrees" if answer.reconciled else conflict
    figure = bars_figure({line["side"]: line["flop"] for line in found}, "FLOP", PLAIN)
    return View(
        title=f"Training FLOP of {answer.model}",
        headline=headline_words(f"Training of {name}", f"{first}, {said}", found[0]["flop"], "FLOP"),
        plots=(Plot("sides", "Training FLOP", "What each side gives, with its 90 % interval.", figure, "lines"),),
        tables=(Table("Sides", ("side", "FLOP #", "agrees at #", "agrees", "how"), rows, "lines"),),
        grounds=(f"hours are those of {answer.accelerator} ({answer.accelerator_ground})",),
    )


def _schedule(answer: ScheduleAnswer) -> View:
    out = answer.release
    ends = f"{out.p05} to {out.p95}" if out.p05 != out.p95 else ""
    rows = [[name, day.p05, day.p50, day.p95] for name, day in answer.ends.items()]
    return View(
        title=f"A release, from {answer.start}",
        headline=headline_words(
            f"A model whose chips were ordered on {answer.start}",
            f"out on {out.p50} (90\u00a0%: {ends})" if ends else f"out on {out.p50}, if each step takes the time given",
        ),
        main="ends",
        tiles=(Tile("Release", out.p50, ends, key="ends"),),
        tables=(
            Table(f"From {answer.start}, one step after the other", ("ends", "5 %", "50 %", "95 %"), rows, "ends"),
        ),
    )


def _labs(answer: LabsAnswer) -> View:
    found = answer.to_dict()
    first = found["labs"][0] if found["labs"] else None
    headline = headline_words(f"Labs on {answer.date}", "the data name no lab's chips for that day")
    if first is not None and first["fleet_h100e_8bit"] is not None:
        size = figure_words(first["fleet_h100e_8bit"], "")
        headline = headline_words(
            f"{first['lab']} on {answer.date}", f"uses {size} H100-equivalents", first["fleet_h100e_8bit"], ""
        )
    elif first is not None and found["date"] > found["fleets_until"]:
        headline = headline_words(
            f"Labs on {answer.date}", f"fleets are given until {found['fleets_until']}, later only what the data name"
        )
    elif first is not None:
        headline = headline_words(f"{first['lab']} on {answer.date}", "the data name its sites only")
    off = [abs(one) for one in found["growth_left_out_log"].values()]
    basis = dict.fromkeys(one["basis"] for one in found["labs"])
    fleets = {one["lab"]: one["fleet_h100e_8bit"] for one in found["labs"] if one["fleet_h100e_8bit"] is not None}
    caption = "All that a lab uses, rented or owned, in 8-bit H100-equivalents; 90 % intervals, on a scale of ratios."
    return View(
        title=f"Labs on {answer.date}",
        headline=headline,
        context="Sites and fleets of that day are projected." if found["projected"] else "",
        plots=(Plot("fleets", "Fleets", caption, intervals_figure(fleets, ""), "fleet_h100e_8bit"),) if fleets else (),
        tables=(*_lab_tables(found["labs"]), *(_due(found) if found["releases"] else ())),
        notes=(f"a lab's growth in the last year estimated lay within {math.exp(max(off)):.1f}x of the others' mean",),
        grounds=(*basis, found["credit"]),
    )  # fmt: skip


def _due(found: Mapping[str, Any]) -> tuple[Table]:
    """Next frontier releases."""
    rows: list[list[str | Cell]] = [
        [one["lab"], Cell(one["last_model"], below=one["last_date"]), f"{one['days_between']:.0f} days",
         Cell(one["next_date"]["p50"],
              below=one["next_model"] or f"{one['next_date']['p05']} – {one['next_date']['p95']}"),
         *("" if one[key] is None else quantity_cell(one[key], "FLOP") for key in ("site_flop", "fleet_flop"))]
        for one in found["releases"]
    ]  # fmt: skip
    came = foretold_releases()
    note = (
        f"the first release after the day that scores above all of the lab's own (releases are known until "
        f"{found['releases_known_until']}); the 90 % interval held {sum(one.held for one in came)} of {len(came)} "
        f"releases since 2024, each predicted when the one before it came out; last columns: what the largest site and "
        f"the whole fleet train by a month before it, compute growing as in {found['scenario']}"
    )
    columns = ("lab", "last known", "between two #", "next #", "largest site trains #", "fleet trains #")
    return (
        Table(
            f"Next frontier releases after {found['date']}",
            columns,
            rows,
            "releases",
            note,
            drops=("fleet trains", "largest site trains"),
        ),
    )


def _lab_tables(labs: Sequence[Mapping[str, Any]]) -> tuple[Table, ...]:
    """What the data name, and the fleets that are estimated."""
    sites = Table("Sites that the data name, 8-bit H100-equivalents", _LABS, [_site_row(one) for one in labs],
                  "largest_site", _SITES_SAY)  # fmt: skip
    shown = (("fleet_h100e_8bit", ""), ("fleet_it_w", "W"), ("fleet_flop", "FLOP"))
    fleets: list[list[str | Cell]] = [
        [one["lab"], *(quantity_cell(one[name], unit) for name, unit in shown)]
        for one in labs
        if one["fleet_h100e_8bit"] is not None
    ]
    if not fleets:
        return (sites,)
    return (Table("Fleets, and what they train", _FLEETS, fleets, "fleet_h100e_8bit", _FLEETS_SAY), sites)


def _site_row(one: Mapping[str, Any]) -> list[str | Cell]:
    site, named = one["largest_site"], one["named_h100e_8bit"]
    cells: list[str | Cell] = ["", "", ""]
    if site is not None:
        ends = site["facility_w_interval"]
        power = "" if site["facility_w"] is None else words(site["facility_w"], "W")
        cells = [
            site["name"] + ("" if site["user_is"] == "likely" else " (speculative)"),
            Cell(power, below=span(ends[0], ends[1], "W") if ends else ""),
            format_si(site["h100e_8bit"]),
        ]
    counted = Cell(format_si(named["mid"]), below=span(named["low"], named["high"], "")) if named["high"] else ""
    return [one["lab"], *cells, counted]


def _runs(answer: RunsAnswer) -> View:
    found = answer.to_dict()
    rows: list[list[str | Cell]] = [
        [one["date"], one["name"], ", ".join(one["labs"]), words(one["training_flop"], "FLOP"),
         "yes" if one["is_record"] else "",
         "" if one["days_since_previous"] is None else str(one["days_since_previous"]), one["confidence"]]
        for one in found["runs"]
    ]  # fmt: skip
    largest = max(found["runs"], key=lambda one: one["training_flop"], default=None)
    headline = headline_words("Training runs", f"none known until {found['known_until']} meets these conditions")
    if largest is not None:
        headline = headline_words(
            "Training runs",
            f"{len(rows)}, the largest {largest['name']} with {words(largest['training_flop'], 'FLOP')}, known until "
            f"{found['known_until']}",
        )
    return View(
        title="Training runs",
        headline=headline,
        tables=(Table("By date of release", _RUNS, rows, "training_flop", drops=_DROPS),) if rows else (),
        grounds=(found["credit"],),
    )


_VIEWS: dict[str, tuple[str, Callable[[Any], View]]] = {
    "SpreadAnswer": ("spread", _spread),
    "FlopSheetAnswer": ("sheet", _flop_sheet),
    "ScheduleAnswer": ("schedule", _schedule),
    "LabsAnswer": ("labs", _labs),
    "RunsAnswer": ("runs", _runs),
}
