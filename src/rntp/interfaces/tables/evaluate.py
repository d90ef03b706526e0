"""Tables and the progress bar of ``rntp evaluate``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from computeledger.interfaces.fitting import FittingTable, Page
from computeledger.units import format_percent
from rntp.interfaces.tables.ledger import MISSING


@contextmanager
def stages(*, shown: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on stderr; the function given says the stage, how far it is and how far it goes."""
    if not shown:
        yield lambda _stage, _done, _total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Page(stderr=True), transient=True) as progress:
        task = progress.add_task("loading", total=None)
        yield lambda stage, done, total: progress.update(task, description=stage, completed=done, total=total)


def interval(one: Mapping[str, Any] | None, signed: bool = True) -> str:
    """A mean with its interval."""
    if one is None:
        return MISSING
    mean = f"{one['mean']:+.3f}" if signed else f"{one['mean']:.3f}"
    return f"{mean} (no interval)" if one["low"] is None else f"{mean} ({one['low']:+.3f} to {one['high']:+.3f})"


def headline(settled: Mapping[str, Any]) -> str:
    """The result in one line, with what the gain is over."""
    measured = f"{interval(settled['gain'])} {settled['unit']} over {settled['baseline']}"
    if settled["reported_gain"]:
        return f"gain {measured}: no control explains it"
    return f"no gain ({settled['why']}); measured {measured}"


def loss_rows(loss: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Role, loss without a thought, loss with its own."""
    parts = {name: part for name, part in loss.items() if isinstance(part, dict)}
    return [(name, f"{part['without']:.4f}", f"{part['with_thought']:.4f}") for name, part in parts.items()]


def control_rows(settled: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Control, what it leaves of the gain, and whether it explains it."""
    rows = []
    for name, one in settled["controls"].items():
        left = next((part for part in one.values() if isinstance(part, dict)), None)
        words = interval(left) if name != "repeats" else f"where trained {interval(left)}"
        rows.append((name, words, "yes" if one["explains"] else "no"))
    return rows


#: Columns of the table by class.
CLASS_HEAD = ("class", "places", "before RL", "without", "with", "gain")


def class_rows(classes: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Class, places, loss of the model before RL, losses of the trained one without and with thought, gain."""
    rows = []
    for name, one in classes.items():
        losses = (one["loss_base"], one["loss_without"], one["loss_with_thought"])
        texts = (MISSING if loss is None else f"{loss:.3f}" for loss in losses)
        rows.append((name, str(one["places"]), *texts, interval(one["gain"])))
    return rows


def curve_rows(curve: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Samples, share solved by the policy, share solved by the base."""
    return [
        (str(row["k"]), format_percent(row["policy"]), MISSING if row["base"] is None else format_percent(row["base"]))
        for row in curve
    ]


def crossover_words(part: Mapping[str, Any]) -> str:
    """Where the base draws level."""
    if not part["curve"] or part["curve"][0]["base"] is None:
        return "no model before RL to compare with"
    if not any(row["policy"] or row["base"] for row in part["curve"]):
        return "neither model solves one"
    k, most = part["crossover_k"], part["curve"][-1]["k"]
    if k is None:
        return f"the trained model is ahead up to {most} samples"
    return f"the model before RL is level or ahead from {k} sample{'s' if k > 1 else ''} on"


def seen_words(part: Mapping[str, Any]) -> str:
    """What the models have seen of the tasks, for a title; nothing of the gold itself."""
    return f" of {part['problems']} tasks {part['tasks']}" if "tasks" in part else ""


def _print(console: Page, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = FittingTable(title=title, box=box.SIMPLE_HEAD)
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_evaluation(document: Mapping[str, Any]) -> None:
    """Print what was measured, and what explains it."""
    console = Page()
    console.print(document["checkpoint"], style="bold")
    if "settled" in document:
        _print_text(console, document)
    for name, part in document["environments"].items():
        if part["problems"]:
            _print(
                console,
                f"{name}: pass@k{seen_words(part)}",
                ("samples", "trained", "before RL"),
                curve_rows(part["curve"]),
            )
            console.print(crossover_words(part))
            console.print(f"mean score: {_scores(part['mean_score'])}")
        if part["left_out"]:
            console.print(f"{part['left_out']} problems left out: the machine failed on an answer")


def _scores(by_role: Mapping[str, float]) -> str:
    names = {"policy": "trained", "base": "before RL"}
    return ", ".join(f"{names[role]} {score:.3f}" for role, score in by_role.items())


def _print_text(console: Page, document: Mapping[str, Any]) -> None:
    settled, thoughts = document["settled"], document["thoughts"]
    console.print(headline(settled))
    console.print(
        f"{document['places']} places of {document['documents']} documents, "
        f"{document['thoughts_per_place']} thoughts each: "
        f"{thoughts['mean_tokens']:.1f} tokens, {format_percent(thoughts['truncated_fraction'])} cut by the budget"
    )
    unit = document["loss"]["unit"]
    _print(console, f"Held-out loss, {unit}", ("model", "no thought", "own thought"), loss_rows(document["loss"]))
    _print(
        console,
        f"Controls, {settled['unit']}",
        ("control", "what it leaves of the gain", "explains it"),
        control_rows(settled),
    )
    _print(console, f"By class; gain over {settled['baseline']}", CLASS_HEAD, class_rows(document["classes"]))
    _print(
        console, "pass@k of the gold", ("samples", "trained", "before RL"), curve_rows(document["pass_at_k"]["curve"])
    )
    console.print(crossover_words(document["pass_at_k"]))
    for name, why in document["controls_not_measured"].items():
        console.print(f"not measured: {name} ({why})")
