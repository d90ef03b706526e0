"""The folder of a run: whose it is, whether it may be gone on with, and what it has said so far.

It holds ``recipe.json``, ``base/`` (the model before RL), ``checkpoint-N/``, ``final/``, ``metrics.jsonl``,
``ledger.jsonl``, ``tracking/`` where trackers are asked for and, once the run has ended, ``summary.json``.
"""

from __future__ import annotations

import itertools
import json
import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from computeledger.errors import InputError, shown
from computeledger.files import read_json as read_json_file
from computeledger.files import read_json_lines
from rntp.recipe import Recipe
from rntp.recipe_file import document, fingerprint, own_code

RECIPE, METRICS, LEDGER, SUMMARY = "recipe.json", "metrics.jsonl", "ledger.jsonl", "summary.json"
POSITIONS = "positions.json"
BASE, FINAL, EMA, TRACKING = "base", "final", "ema", "tracking"


def check(folder: Path, recipe: Recipe, *, fresh: bool) -> None:
    """Refuse a folder that is no run's, or holds a run of another recipe.

    Examples
    --------
    >>> check(Path("nowhere"), Recipe(), fresh=False)
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"output {shown(str(folder))}: is no folder")
    before = read_json(folder / RECIPE)
    if before is None:
        if any(folder.iterdir()):
            raise InputError(f"output {shown(str(folder))}: holds other files and no run; choose another folder")
        return
    if fresh or before.get("fingerprint") == fingerprint(recipe) or not _has_work(folder):
        return
    old, new = before.get("code", {}), own_code(recipe)
    edited = (f"the code of {name} has changed" for name in new if old.get(name) != new[name])
    changes = itertools.chain(_changes(before.get("recipe", {}), document(recipe)), edited)
    changed = next(changes, "by another version")
    told = f"output {shown(str(folder))}: holds a run of another recipe ({changed});"
    budget = _shorter(before, recipe)
    if budget and not _why_not_longer(recipe, budget) and all(_grows(recipe, budget, name) for name in budget):
        raise InputError(f"{told} --longer goes on with it, --fresh begins anew, or give another output")
    raise InputError(f"{told} --fresh begins anew, or give another output")


def _shorter(before: Mapping[str, Any], recipe: Recipe) -> dict[str, float]:
    """Steps and device-time of a run that differs in them alone; nothing of any other."""
    there = before.get("recipe", {}).get("rl", {})
    budget = {name: there.get(name, getattr(recipe.rl, name)) for name in ("steps", "device_s")}
    is_same = fingerprint(replace(recipe, rl=replace(recipe.rl, **budget))) == before.get("fingerprint")
    return budget if is_same else {}


def _grows(recipe: Recipe, budget: Mapping[str, float], name: str) -> bool:
    """Whether a run may go on for no less than before; 0 is without end."""
    return bool((getattr(recipe.rl, name) or math.inf) >= (budget[name] or math.inf))


def _why_not_longer(recipe: Recipe, budget: Mapping[str, float]) -> str:
    """What keeps a run from being made longer: it knew its end from the first."""
    if recipe.rl.schedule != "constant":
        return f"[rl] schedule {shown(recipe.rl.schedule)} knew the last step; only 'constant' can go on"
    if recipe.positions.measured and budget["steps"] != recipe.rl.steps:
        return (
            f"[positions] rule {shown(recipe.positions.rule)} chose its positions for {budget['steps']} steps; rules "
            "that ask no model can go on"
        )
    return ""


def lengthen(folder: Path, recipe: Recipe) -> None:
    """Let a run of the same recipe with fewer steps or less device-time go on: it has then not ended.

    Nothing else may differ, and the rate must be constant: other schedules knew the end. Positions that a model chose
    were chosen for so many steps.

    Examples
    --------
    >>> import tempfile
    >>> from rntp.recipe import RlSpec
    >>> with tempfile.TemporaryDirectory() as name:
    ...     prepare(Path(name), Recipe(rl=RlSpec(steps=5)), fresh=False)
    ...     (Path(name) / FINAL).mkdir()
    ...     lengthen(Path(name), Recipe(rl=RlSpec(steps=4)))
    Traceback (most recent call last):
    computeledger.errors.InputError: output ...: holds a run of 5 steps; it cannot be made shorter, to 4
    """
    before = read_json(folder / RECIPE)
    if before is None or before.get("fingerprint") == fingerprint(recipe) or not _has_work(folder):
        return
    budget = _shorter(before, recipe)
    if not budget:
        return  # another recipe: check says in what
    if reason := _why_not_longer(recipe, budget):
        raise InputError(
            f"output {shown(str(folder))}: the run cannot be made longer: {reason}; --fresh begins anew, or give "
            "another output"
        )
    for name, unit in (("steps", "steps"), ("device_s", "s of device-time")):
        old, new = budget[name], getattr(recipe.rl, name)
        if not _grows(recipe, budget, name):
            raise InputError(
                f"output {shown(str(folder))}: holds a run of {old:g} {unit}; it cannot be made shorter, to {new:g}"
            )
    (folder / SUMMARY).unlink(missing_ok=True)
    for name in (FINAL, EMA):
        shutil.rmtree(folder / name, ignore_errors=True)
    _write_recipe(folder, recipe)


def _has_work(folder: Path) -> bool:
    """Whether anything was trained there: a run that failed before may be given another recipe."""
    whole = (folder / BASE, folder / f"{BASE}.part" / "state.pt", folder / FINAL, folder / SUMMARY)
    return any(path.exists() for path in whole) or any(folder.glob("checkpoint-*"))


def prepare(folder: Path, recipe: Recipe, *, fresh: bool) -> None:
    """Make the folder, empty it of an earlier run where asked or of one that came to nothing, and write the recipe.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     prepare(Path(name), Recipe(name="a"), fresh=False)
    ...     (Path(name) / BASE).mkdir()
    ...     check(Path(name), Recipe(name="a", seed=1), fresh=False)
    Traceback (most recent call last):
    computeledger.errors.InputError: output ...: holds a run of another recipe (seed 0 there, 1 here); ...
    """
    before = read_json(folder / RECIPE)
    if before is not None and (fresh or before.get("fingerprint") != fingerprint(recipe)):
        for name in (METRICS, LEDGER, SUMMARY, POSITIONS):
            (folder / name).unlink(missing_ok=True)
        for path in [
            folder / BASE,
            folder / f"{BASE}.part",
            folder / FINAL,
            folder / EMA,
            folder / TRACKING,
            *folder.glob("checkpoint-*"),
        ]:
            shutil.rmtree(path, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    _write_recipe(folder, recipe)


def _write_recipe(folder: Path, recipe: Recipe) -> None:
    where = str(recipe.folder.resolve())
    code = {"code": own} if (own := own_code(recipe)) else {}
    write_json(
        folder / RECIPE, {"fingerprint": fingerprint(recipe), **code, "recipe": document(recipe), "folder": where}
    )


def read_written_recipe(folder: Path) -> tuple[dict[str, Any], Path | None]:
    """Read the recipe that a run wrote beside its results.

    Examples
    --------
    >>> read_written_recipe(Path("nowhere"))
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere/recipe.json: no such file
    """
    written = read_json_file(folder / RECIPE)
    recipe, where = (written.get(key) for key in ("recipe", "folder")) if isinstance(written, dict) else (None, None)
    if not isinstance(recipe, dict) or not isinstance(where, str | None):
        raise InputError(f"{folder / RECIPE}: holds no recipe of a run")
    return recipe, None if where is None else Path(where)


def finished(folder: Path) -> dict[str, Any] | None:
    """Read the summary of a run that has ended.

    Examples
    --------
    >>> finished(Path("nowhere")) is None
    True
    """
    return read_json(folder / SUMMARY)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a document beside the one that is there, and put it in its place once it is whole.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     write_json(Path(name) / "a.json", {"b": 1})
    ...     (Path(name) / "a.json").read_text().split()
    ['{', '"b":', '1', '}']
    """
    beside = path.with_suffix(".part")
    beside.write_text(f"{json.dumps(content, indent=2)}\n", "utf-8")
    beside.replace(path)


def read_metrics(folder: Path, before: int | None = None) -> list[dict[str, Any]]:
    """Read the figures of a run's steps, a line that was cut short left out.

    Examples
    --------
    >>> read_metrics(Path("nowhere"))
    []
    """
    path = folder / METRICS
    if not path.exists():
        return []
    rows = []
    try:
        for _, row in read_json_lines(path):
            if not isinstance(row, dict) or not isinstance(row.get("step"), int):
                break
            if before is None or row["step"] <= before:
                rows.append(row)
    except InputError:
        return rows  # of a run that was killed while it wrote
    return rows


def trim_metrics(folder: Path, step: int) -> None:
    """Forget the figures of steps that will be made again.

    Examples
    --------
    >>> trim_metrics(Path("nowhere"), 3)
    """
    if (folder / METRICS).exists():
        kept = read_metrics(folder, step)
        (folder / METRICS).write_text("".join(f"{json.dumps(row)}\n" for row in kept), "utf-8")


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a document.

    Examples
    --------
    >>> read_json(Path("nowhere.json")) is None
    True
    """
    try:
        found = read_json_file(path)
    except InputError:
        return None
    return found if isinstance(found, dict) else None


def _changes(there: Mapping[str, Any], here: Mapping[str, Any], table: str = "") -> Iterator[str]:
    """Settings in which two recipes differ."""
    for key in [*there, *(key for key in here if key not in there)]:
        old, new = there.get(key), here.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _changes(old, new, f"{table}{key}.")
        elif old != new:
            yield f"{table}{key} {shown(old)} there, {shown(new)} here"
