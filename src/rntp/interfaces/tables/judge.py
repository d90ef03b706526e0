"""What ``rntp judge`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box

from computeledger.interfaces.fitting import FittingTable, Page
from computeledger.units import format_percent, format_si

#: What each measure is called, and whether it is a fraction of answers.
_NAMES = {
    "accuracy": ("accuracy", True), "kappa": ("Cohen's kappa", False), "auc": ("AUC, right against wrong", False),
    "same_task": ("better of two answers to a task scores higher", True),
    "false_positive_fraction": ("wrong answers accepted (FPR)", True),
    "false_negative_fraction": ("right answers not accepted (FNR)", True),
    "signal_fraction": ("signal left, 1 - FPR - FNR", False), "score_gap": ("score of right above wrong", False),
}  # fmt: skip


def print_judge(document: Mapping[str, Any]) -> None:
    """Print agreement, scores by quality and variant, and cost."""
    console = Page()
    console.print(
        f"{document['judge']}, judge of {document['environment']}: {document['answers']} answers to "
        f"{document['tasks']} tasks, {document['no_verdicts']} without a verdict, {document['failures']} failed"
    )
    for reason in document["reasons"]:
        console.print(f"  no score: {reason}")
    table = FittingTable(box=box.SIMPLE_HEAD, title=f"agreement with the truth, on {_count(document)} plain answers")
    for name in ("", "measured", "95 % interval"):
        table.add_column(name, justify="right" if name else "left")
    for name, (label, is_fraction) in _NAMES.items():
        found = document["agreement"][name]
        low, high = (_said(found[end], is_fraction=is_fraction) for end in ("low", "high"))
        interval = "–" if found["low"] is None else f"{low} – {high}"
        table.add_row(label, _said(found["mean"], is_fraction=is_fraction), interval)
    console.print(table)
    console.print(
        f"right: a quality of {document['quality_from']:g} or more; accepted: a score of {document['score_from']:g} or "
        "more"
    )
    _print_scores(console, document)
    _print_cost(console, document["cost"])


def _print_scores(console: Page, document: Mapping[str, Any]) -> None:
    table = FittingTable(box=box.SIMPLE_HEAD, title="scores by quality, and of answers that differ otherwise")
    for name in ("answers that are", "answers", "quality", "mean score", "accepted", "score changes by"):
        table.add_column(name, justify="left" if name == "answers that are" else "right")
    for row in document["by_quality"]:
        table.add_row("plain", *_cells(row, row["quality"]), "")
    for row in document["by_variant"]:
        if row["variant"] != "plain":
            change = "–" if row["score_change"] is None else f"{row['score_change']:+.3f}"
            table.add_row(row["variant"], *_cells(row, row["mean_quality"]), change)
    console.print(table)


def _cells(row: Mapping[str, Any], quality: float) -> tuple[str, ...]:
    return str(row["answers"]), f"{quality:.2f}", f"{row['mean_score']:.3f}", format_percent(row["accepted_fraction"])


def _print_cost(console: Page, cost: Mapping[str, float | None]) -> None:
    times = {"by the clock": "wall_s", "of this machine's processors": "cpu_s", "of its GPU": "gpu_s"}
    said = [f"{format_si(value, 's')} {name}" for name, key in times.items() if (value := cost[f"{key}_per_verdict"])]
    tokens = {"read": "read_tokens", "written": "written_tokens"}
    said += [f"{value:.0f} tokens {name}" for name, key in tokens.items() if (value := cost[f"{key}_per_verdict"])]
    console.print(f"a verdict takes {', '.join(said)}")


def _count(document: Mapping[str, Any]) -> int:
    return int(document["agreement"]["accuracy"]["n"])


def _said(value: float | None, *, is_fraction: bool) -> str:
    if value is None:
        return "–"
    return format_percent(value) if is_fraction else f"{value:.2f}"
