"""A training step taken apart: operations against the limit, phases, the pipeline through time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots import training as plots_training
from computeledger.interfaces.plots.bars import bars_figure
from computeledger.interfaces.plots.palette import GOOD
from computeledger.interfaces.view import Cell, Plot, Table, quantity_cell, share_cell
from computeledger.questions.wording import figure_words, percent, point, show, words
from computeledger.units import DAY_S, YEAR_S

#: Rows and characters of a timeline in characters; of a longer pipeline the middle stages are left out.
_STAGE_ROWS, _CHARACTERS = 16, 70
_FIRST_OF = {"forward": "0", "backward": "a", "weights": "A"}
#: What parts of a step do, where their name alone says too little; short enough for a line on a phone.
PLAINLY = {
    "activations and casts": "between products", "all-to-all": "tokens to experts and back",
    "pipeline bubble": "stages that wait", "output head": "scores the vocabulary", "pipeline hops": "stage to stage",
    "gradient exchange": "between replicas", "tensor-parallel": "GPUs share a layer",
    "context-parallel": "GPUs share a sequence", "uneven stages": "the slowest stage", "launch floors": "kernel starts",
}  # fmt: skip
_COLUMNS = ("operation", "FLOP #", "bytes #", "time #", "share", "of limit #", "exposed #", "hidden #", "bound")
#: Rates and times of stops: what they are, what multiplies them, and their unit then.
_STOPS = {
    "interruptions_per_gpu_s": ("unexpected stops per GPU and year", YEAR_S, ""),
    "planned_stops_per_s": ("planned stops a day", DAY_S, ""),
    "pause_s": ("pause of a checkpoint", 1.0, "s"),
    "write_s": ("until a checkpoint is usable", 1.0, "s"),
    "restart_s": ("restart", 1.0, "s"),
    "straggler_fraction": ("time added by slow hosts", 1.0, "fraction"),
}


def operations_table(step: Mapping[str, Any]) -> Table:
    """Each operation against the physical limit; communication that is waited for, and that is hidden."""
    rows: list[list[str | Cell]] = []
    for one in step["operations"]:
        work = [words(one[key], unit) if one[key] else "" for key, unit in (("flop", "FLOP"), ("bytes", "B"))]
        reached = percent(one["limit_fraction"]) if one["limit_fraction"] is not None else ""
        network = [words(one[key], "s") if one[key] > 0 else "" for key in ("exposed_s", "hidden_s")]
        time = figure_words(one["time_s"], "s")
        share = share_cell(one["share_fraction"], percent(one["share_fraction"]))
        rows.append([one["name"], *work, time, share, reached, *network, one["bound"]])
    reached = percent(step["limit_s"] / step["step_s"])
    title = f"One step on the busiest GPU: {words(step['step_s'], 's')}, {reached} of the physical limit's speed"
    note = "Exposed communication is waited for; hidden communication runs beside computation."
    return Table(title, _COLUMNS, rows, "step_s", note, drops=("hidden", "bytes", "FLOP"))


def parts_table(parts: Mapping[str, Any]) -> Table:
    """Each part of a step, its time and its share."""
    whole = sum(point(part) for part in parts.values())
    shares = {name: point(part) / whole for name, part in parts.items()}
    rows: list[list[str | Cell]] = [
        [
            Cell(name, below=PLAINLY.get(name, "")),
            quantity_cell(part, "s"),
            share_cell(shares[name], percent(shares[name])),
        ]
        for name, part in parts.items()
    ]
    return Table("One step", ("part", "time #", "share"), rows, "step_s", is_detail=True)


def phases_fact(step: Mapping[str, Any]) -> tuple[str, str]:
    """Forward, backward, and what comes once per step."""
    whole = sum(step["phases_s"].values())
    parts = [
        f"{name} {words(seconds, 's')} ({percent(seconds / whole)})"
        for name, seconds in step["phases_s"].items()
        if seconds > 0
    ]
    return "By phase", ", ".join(parts)


def stops_table(stops: Mapping[str, Any]) -> Table:
    """How often a run stops, what a stop costs, and where each number comes from."""
    rows = []
    for name, one in stops.items():
        label, factor, unit = _STOPS[name]
        low, high = words(one["low"] * factor, unit), words(one["high"] * factor, unit)
        rows.append([label, low if low == high else f"{low} – {high}", one["why"]])
    return Table("Stops: how often, and what each costs", ("", "range #", "provenance"), rows, "goodput_fraction")


def operations_plot(step: Mapping[str, Any]) -> Plot:
    """The operations of a step against the physical limit."""
    return Plot(
        "operations", "Operations against the physical limit",
        "Bars are the step's time on the busiest GPU, coloured by what binds; the mark is the time at the datasheet's "
        "peaks; pale ends are communication that runs beside computation.",
        plots_training.operations_figure(step), "step_s", is_wide=True,
    )  # fmt: skip


def pipeline_plots(drawn: Mapping[str, Any], schedule: str, step_s: Any, is_printed: bool) -> tuple[Plot, ...]:
    """The pipeline through time, where it can be drawn; a terminal has it where it is asked to show the working."""
    if "problem" in drawn:
        return ()
    shown_s = drawn["pipeline_end_s"] + sum(drawn["tail_s"].values())
    part = f": {words(shown_s, 's', 2)} of a step of {figure_words(step_s, 's')}" if drawn["left_out"] else ""
    timeline = Plot(
        "timeline",
        f"Timeline of one pipeline{part}",
        _timeline_words(drawn, schedule),
        plots_training.timeline_figure(drawn),
        "step_s",
        is_wide=True,
        is_detail=True,
        text=_timeline_text(drawn) if is_printed else "",
    )
    return (timeline,)


def _timeline_words(drawn: Mapping[str, Any], schedule: str) -> str:
    left, total = drawn["left_out"], drawn["n_microbatches"] + drawn["left_out"]
    cut = (
        f" Drawn are {drawn['n_microbatches']} of {total} microbatches; the others make the steady middle longer."
        if left
        else ""
    )
    idle = percent(drawn["bubble_fraction"], 2)
    if left:
        busy_s = sum(end - start for *_, start, end in drawn["bars"])
        empty = percent(1 - busy_s / (drawn["n_stages"] * drawn["pipeline_end_s"]), 2)
        waits = (
            f"Rows stay empty for {empty} of what is drawn, as filling and draining wait most; the bubble is {idle} of"
        )
        waits += " the whole step."
    else:
        waits = f"Stages wait {idle} of the step, where rows stay empty: the bubble."
    shades = f", lighter for later pieces of the {drawn['n_pieces']} on each stage" if drawn["n_pieces"] > 1 else ""
    if schedule == "dualpipe":
        shades = ", lighter for those that enter at the last stage"
    name = "interleaved 1f1b" if schedule == "1f1b" and drawn["n_pieces"] > 1 else schedule
    return (
        f"{waits} The {name} schedule: each row is a stage "
        f"(a group of layers), each box one microbatch going forward or backward through it{shades}. Medians of the "
        f"model, not a measured trace.{cut}"
    )


def _timeline_text(drawn: Mapping[str, Any]) -> str:
    """A row per stage; digits are forward passes, letters backward ones."""
    kinds = {bar[1] for bar in drawn["bars"]}
    weights = ", capitals weight gradients" if "weights" in kinds else ""
    legend = f"0-9 forward passes of the microbatches, a-j backward{weights}; · idle"
    left = f"{drawn['left_out']} microbatches of the steady middle are left out" if drawn["left_out"] else ""
    tail = ", ".join(f"{name} {show(value, 's')}" for name, value in drawn["tail_s"].items() if value > 0)
    cell = show(drawn["pipeline_end_s"] / _CHARACTERS, "s")
    rows = [f"{stage:>7} {cells}" for stage, cells in timeline_rows(drawn, _CHARACTERS)]
    after = [f"then {tail}"] if tail else []
    return "\n".join([legend, *([left] if left else []), *rows, f"a character is {cell}", *after])


def timeline_rows(drawn: Mapping[str, Any], width: int) -> list[tuple[str, str]]:
    """Stages of a timeline, with a character for each slice of time."""
    stages, scale = drawn["n_stages"], width / drawn["pipeline_end_s"]
    half = _STAGE_ROWS // 2
    kept = range(stages) if stages <= _STAGE_ROWS else [*range(half), *range(stages - half, stages)]
    rows: dict[int, list[str]] = {stage: ["·"] * width for stage in kept}
    for stage, kind, microbatch, _, start, end in drawn["bars"]:
        if stage not in rows:
            continue
        first, last = round(start * scale), max(round(end * scale), round(start * scale) + 1)
        for cell in range(first, min(last, width)):
            rows[stage][cell] = chr(ord(_FIRST_OF[kind]) + microbatch % 10)
    out = [(f"stage {stage}" if stages < 11 else f"st {stage}", "".join(cells)) for stage, cells in rows.items()]
    return out if stages <= _STAGE_ROWS else [*out[:half], ("...", ""), *out[half:]]


#: Changes that are listed.
_CHANGES = 5
#: How a change's remark says that it takes more memory than there is.
_TOO_MUCH = "too much"


def advice_plots(advice: Sequence[Mapping[str, Any]]) -> tuple[Plot, ...]:
    """What single changes gain, and what of each does not fit."""
    if not advice:
        return ()
    shown = advice[:_CHANGES]
    remarks = {one["change"]: "does not fit" for one in shown if _TOO_MUCH in one["remark"]}
    gains = {one["change"]: float(f"{one['gain_fraction']:.2g}") for one in shown}
    caption = "Tokens a second that one change alone gains, medians; the table below says what comes with it."
    return (Plot("advice", "What would change it", caption, bars_figure(gains, "fraction", GOOD, remarks=remarks),
                 "step_s"),)  # fmt: skip


def advice_table(advice: Sequence[Mapping[str, Any]]) -> Table:
    """Each change with its gain and what comes with it."""
    rows = [[one["change"], f"+{percent(one['gain_fraction'])}", one["remark"]] for one in advice[:_CHANGES]]
    title = "What would change it (medians, same model)"
    return Table(title, ("change", "tokens/s #", "remark"), rows, "step_s", is_detail=True)
