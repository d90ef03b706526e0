"""The bars of ``rntp train`` while it runs, and the tables at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from computeledger.interfaces.fitting import FittingTable, Page
from computeledger.units import HOUR_S, format_percent, format_si

#: Figures that a bar shows, as long as the step has them.
_SHOWN = {"loss": "loss", "gain": "gain", "reward": "reward", "thought/tokens": "tokens a thought"}
#: What the figures of the end are called.
_NAMES = {
    "gain": "gain of a thought over none, by the scorer [nat]", "thought/tokens": "tokens of a thought",
    "answer/tokens": "tokens of an answer",
    "thought/truncated_fraction": "thoughts cut off", "loss": "loss",
}  # fmt: skip
#: What the figures of each environment are called.
_BY_SOURCE = {
    "reward": "reward", "audit": "audit, not rewarded", "no_verdict_fraction": "answers without a verdict",
}  # fmt: skip


@contextmanager
def bars(*, shown: bool) -> Iterator[Callable[[str, int, int, Mapping[str, float]], None]]:
    """A bar per stage on stderr; the function given moves it."""
    if not shown:
        yield lambda _stage, _step, _steps, _figures: None
        return
    columns = (
        TextColumn("{task.description:<11}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), TextColumn("{task.fields[said]}"),
    )  # fmt: skip
    tasks: dict[str, Any] = {}
    progress = Progress(*columns, console=Page(stderr=True))

    def report(stage: str, step: int, steps: int, figures: Mapping[str, float]) -> None:
        if not tasks:
            progress.start()  # not before: without a bar it ends with an empty line, above whatever was refused
        if stage not in tasks:
            tasks[stage] = progress.add_task(stage, total=steps, said="")
        said = "  ".join(f"{name} {figures[key]:.3f}" for key, name in _SHOWN.items() if key in figures)
        progress.update(tasks[stage], completed=step, said=said)

    try:
        yield report
    finally:
        if tasks:
            progress.stop()


def print_run(summary: Mapping[str, Any]) -> None:
    """Print what was learnt and what it took."""
    console = Page()
    learnt = FittingTable(
        box=box.SIMPLE_HEAD,
        title=f"{summary['name']}: {summary['steps']} steps of RL in {format_si(summary['wall_s'], 's')}",
    )
    learnt.add_column("")
    for name in ("first tenth", "last tenth"):
        learnt.add_column(name, justify="right")
    for name, parts in summary["learnt"].items():
        learnt.add_row(_name(name), *(_number(parts[part]) for part in ("first", "last")))
    console.print(learnt)
    _print_held_out(console, summary.get("held_out"))
    took = FittingTable(box=box.SIMPLE_HEAD, title="where the time went")
    for name in ("phase", "device-time", "share", "utilization"):
        took.add_column(name, justify="left" if name == "phase" else "right")
    for name, phase in summary["phases"].items():
        used = "–" if phase["utilization_fraction"] is None else format_percent(phase["utilization_fraction"])
        took.add_row(name, format_si(phase["gpu_hours"] * HOUR_S, "s"), format_percent(phase["fraction"]), used)
    console.print(took)
    console.print(
        f"beta: {_number(summary['beta_flop'])} in FLOP, {_number(summary['beta_gpu_time'])} in device-time, per "
        "sampled token (next-token training: 6)"
    )
    for note in ("beta_gpu_time_note", "flop_note"):
        if summary.get(note):
            console.print(f"{'beta in device-time is ' if note.startswith('beta') else ''}{summary[note]}")
    console.print(f"model: {summary['checkpoint']}")


def _print_held_out(console: Page, held_out: Mapping[str, Any] | None) -> None:
    """What thinking gains on text that was never trained on, and whether it counts."""
    if held_out is None:
        return
    table = FittingTable(box=box.SIMPLE_HEAD, title=f"held-out loss at {held_out['places']} places [nat/token]")
    for name in ("", "without thought", "with its thought"):
        table.add_column(name, justify="right" if name else "left")
    for role, name in (("base", "before RL"), ("policy", "after RL")):
        losses = held_out["loss"][role]
        table.add_row(name, _number(losses["without"]), _number(losses["with_thought"]))
    settled, base = held_out["settled"], held_out["loss"]["base"]["without"]
    lent = settled["controls"]["frozen-scorer"]["gain_under_scorer"]["mean"]
    lent_loss = base - lent * held_out["places"] / held_out["loss"]["tokens"]
    table.add_row("before RL, given the thoughts of after", _number(base), _number(lent_loss))
    console.print(table)
    console.print(f"gain of a thought, scored by the model before RL: {_number(lent)} nat per continuation")
    gain, why = settled["gain"]["mean"], settled["why"]
    console.print(
        f"scored by the trained model itself: {_number(gain)} nat over {settled['baseline']}; reported as "
        f"{_number(settled['reported_gain'])}: {why}"
    )


def _name(key: str) -> str:
    kind, _, source = key.partition("/")
    if source and kind in _BY_SOURCE:
        return f"{_BY_SOURCE[kind]}, {source}"
    return _NAMES.get(key, key)


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4g}"
