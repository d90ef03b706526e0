"""The working of a training step in the terminal: operations against the limit, phases, a timeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from computeledger.interfaces.tables import DIM, bar, new_table, note
from computeledger.questions.wording import point, show
from computeledger.units import format_percent, format_si

#: Rows of a timeline that are drawn; of a longer pipeline the middle stages are left out.
MOST_STAGE_ROWS = 16
_STYLES = {"forward": "cyan", "backward": "blue", "weights": "green"}
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def print_step(out: Console, document: Mapping[str, Any]) -> None:
    """Print a step's working."""
    step = document["step"]
    limit = format_percent(step["limit_s"] / step["step_s"])
    table = new_table(
        f"One step on the busiest GPU: {show(step['step_s'], 's')}, {limit} of the physical limit's speed",
        "operation", ">FLOP", ">HBM", ">time", "share", ">of limit", ">exposed", ">hidden", "bound",
    )  # fmt: skip
    for one in step["operations"]:
        work = [format_si(one[key], unit) if one[key] else "" for key, unit in (("flop", "FLOP"), ("bytes", "B"))]
        reached = format_percent(one["limit_fraction"]) if one["limit_fraction"] is not None else ""
        wire = [show(one[key], "s") if one[key] > 0 else "" for key in ("exposed_s", "hidden_s")]
        share = bar(one["share_fraction"], 8).append(format_percent(one["share_fraction"]))
        table.add_row(one["name"], *work, show(point(one["time_s"]), "s"), share, reached, *wire, one["bound"])
    out.print(table)
    _print_phases(out, step)
    print_timeline(out, step["timeline"])


def _print_phases(out: Console, step: Mapping[str, Any]) -> None:
    whole = sum(step["phases_s"].values())
    line = Text("By phase  ", style="bold")
    for name, seconds in step["phases_s"].items():
        if seconds > 0:
            line.append(f"{name} {show(seconds, 's')} ({format_percent(seconds / whole)})   ", style="not bold")
    out.print(line)


def print_timeline(out: Console, drawn: Mapping[str, Any]) -> None:
    """Print who does what when: a row per stage, a digit per microbatch."""
    if "problem" in drawn:
        note(out, drawn["problem"])
        return
    out.print(Text("Timeline of one pipeline  ", style="bold").append(_legend(drawn), style=DIM))
    width = max(min(out.width, 160) - 10, 40)
    for stage, cells in timeline_rows(drawn, width):
        line = Text(f"{stage:>7} ", style=DIM)
        for sign, kind in cells:
            line.append(sign, style=_STYLES.get(kind, DIM))
        out.print(line, soft_wrap=True)
    tail = ", ".join(f"{name} {show(value, 's')}" for name, value in drawn["tail_s"].items() if value > 0)
    note(out, f"then {tail}; a cell is {show(drawn['pipeline_end_s'] / width, 's')}")


def _legend(drawn: Mapping[str, Any]) -> str:
    kinds = {bar[1] for bar in drawn["bars"]}
    words = "digits are microbatches: cyan forward, blue backward" + (", green weights" if "weights" in kinds else "")
    left = f"; {drawn['left_out']} microbatches of the steady middle are left out" if drawn["left_out"] else ""
    return f"{words}; · idle{left}"


def timeline_rows(drawn: Mapping[str, Any], width: int) -> list[tuple[str, list[tuple[str, str]]]]:
    """Cells of a timeline: stage, then a sign and its kind for each slice of time."""
    stages, scale = drawn["n_stages"], width / drawn["pipeline_end_s"]
    kept = list(range(stages))
    if stages > MOST_STAGE_ROWS:
        half = MOST_STAGE_ROWS // 2
        kept = [*range(half), *range(stages - half, stages)]
    rows: dict[int, list[tuple[str, str]]] = {stage: [("·", "")] * width for stage in kept}
    for stage, kind, microbatch, _, start, end in drawn["bars"]:
        if stage not in rows:
            continue
        first, last = round(start * scale), max(round(end * scale), round(start * scale) + 1)
        for cell in range(first, min(last, width)):
            rows[stage][cell] = (_DIGITS[microbatch % len(_DIGITS)], kind)
    out = []
    for place, stage in enumerate(kept):
        if place and stage - kept[place - 1] > 1:
            out.append(("...", [("", "")]))
        out.append((f"stage {stage}" if stages < 11 else f"st {stage}", rows[stage]))
    return out
