"""Tables of ``rntp experiment``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box

from computeledger.interfaces.fitting import FittingTable, Page
from computeledger.units import format_percent, format_si

#: What the fractions are called.
_NAMES = {
    "gap_closed_fraction": "of the gap between no thought and the right one closed",
    "swapped_thought_loss_fraction": "of the gain lost with another document's thought",
    "independent_scorer_fraction": "of the gain confirmed by the judge",
    "ntp_equal_time_gap_closed_fraction": "of the gap closed by plain training for as long",
    "empty_thought_gap_closed_fraction": "of the gap closed by an empty thought",
}
_SHARES = {
    "worked_style_fraction": "step by step", "steps_right_fraction": "every step right",
    "conclusion_right_fraction": "conclusion right", "truncated_fraction": "cut off",
}  # fmt: skip


def _print(console: Page, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = FittingTable(title=title, box=box.SIMPLE_HEAD)
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_experiment(summary: Mapping[str, Any]) -> None:
    """Print what was learnt of what thinking can gain, and what else could explain it."""
    console = Page()
    measured = summary["measured"]
    bars = [
        (_NAMES[name], format_percent(one["value"]), _bar(one["bar"]), "yes" if one["reached"] else "no")
        for name, one in summary["bars"].items()
    ]
    title = f"{summary['name']}, seed {summary['seed']}: {measured['places']} held-out places"
    _print(console, title, ("", "measured", "to reach", "reached"), bars)
    scored = measured["nats_per_continuation"]
    columns = list(scored["frozen scorer"])
    rows = [
        (name, *(f"{sums[one]:.3f}" if one in sums else "–" for one in [*columns, "its own thought"]))
        for name, sums in scored.items()
    ]
    _print(console, "log-likelihood of a continuation, nat", ("scored by", *columns, "its own thought"), rows)
    thoughts = [
        (name, *(format_percent(shares[one]) for one in _SHARES), f"{shares['mean_tokens']:.1f}")
        for name, shares in measured["thoughts"].items()
    ]
    _print(console, "thoughts, checked word by word", ("", *_SHARES.values(), "tokens"), thoughts)
    console.print(
        f"beta {summary['beta_flop']:.3g} in FLOP, {summary['beta_gpu_time']:.3g} in device-time (next-token "
        f"training: 6); {summary['steps']} steps; all of it took {format_si(summary['wall_s'], 's')}"
    )


def _bar(text: str) -> str:
    how, _, value = text.rpartition(" ")
    return f"{how} {format_percent(float(value))}"
