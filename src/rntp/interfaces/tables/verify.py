"""Tables and the progress bar of ``rntp verify``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from computeledger.interfaces.fitting import FittingTable, Page
from computeledger.units import format_percent, format_si


@contextmanager
def bar(total: int, *, shown: bool) -> Iterator[Callable[[], None]]:
    """A progress bar on stderr; the function given advances it by one."""
    if not shown:
        yield lambda: None
        return
    columns = (
        TextColumn("checked"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        TextColumn("{task.speed} /s"),
    )  # fmt: skip
    with Progress(*columns[:-1], console=Page(stderr=True)) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def print_summary(summary: dict[str, Any]) -> None:
    """Print the summary of a run."""
    console = Page()
    table = FittingTable(box=box.SIMPLE_HEAD, title=f"{summary['n']} verdicts in {summary['wall_s']:.2f} s")
    for name in ("environment", "share", "n", "score", "CPU per rollout", "p50", "p95"):
        table.add_column(name, justify="left" if name == "environment" else "right")
    for name, part in summary["environments"].items():
        share = format_percent(part["share_fraction"])
        times = (part["cpu_s_per_rollout"], part["p50_s"], part["p95_s"])
        table.add_row(name, share, str(part["n"]), _score(part["mean_score"]), *(_time(one) for one in times))
    console.print(table)
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in summary["status"].items())
    console.print(f"status: {counts or 'none'}")
    rate = f"{summary['verifications_per_s']:.1f} verifications/s"
    console.print(f"{rate}; {_time(summary['cpu_s_per_rollout'])} of processor time per rollout")
    wanted = f"{summary['rollouts_per_s']:.4g} rollouts/s"
    console.print(
        f"{summary['cores_for_rate']:.1f} cores keep up with {wanted} (busy {format_percent(0.8)} of the time)"
    )
    console.print(f"{summary['retried']} retried, {summary['resumed']} from an earlier run; {summary['sandbox']}")


def _time(value: float) -> str:
    return format_si(value, "s")


def print_machine(document: dict[str, Any]) -> None:
    """Print what the machine offers."""
    table = FittingTable(box=None, show_header=False)
    for name, value in document.items():
        table.add_row(name.replace("_", " "), "missing" if value is None else str(value))
    Page().print(table)
