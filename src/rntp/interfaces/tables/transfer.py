"""Tables of ``rntp transfer``, for terminal and page: a row per arm, a column per kind of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from computeledger.interfaces.fitting import Page
from computeledger.units import format_percent
from rntp.interfaces.tables.grid import Grid
from rntp.interfaces.tables.study import print_grids

Effect = Mapping[str, Any]

#: Tables by the name that a page asks for: title, measure, and whether it is the stage after what all have in common.
TABLES = {
    "thoughts": ("thoughts without a slip", "steps right", False),
    "begun": ("thoughts without a slip where the first step is given", "begun: steps right", False),
    "state": ("probability of the right state, the thought before it given", "next state", False),
    "answers": ("right answers after a thought", "right", False),
    "closed": ("gap closed by thoughts, read by the model before", "gap closed", False),
    "later": ("thoughts without a slip, after the common stage", "steps right", True),
    "later-begun": ("the same, the first step given", "begun: steps right", True),
    "later-answers": ("right answers after a thought, after the common stage", "right", True),
}
#: Columns of the differences.
_COMPARED = {
    "thoughts": "steps right", "first step given": "begun: steps right", "next state": "next state", "answers": "right",
}  # fmt: skip


def _mean(one: Effect) -> tuple[str, str]:
    low, high = (format_percent(one[end]).partition(" ")[0] for end in ("low", "high"))
    return format_percent(one["mean"]), f"{low} to {high}"


def _points(one: Effect) -> tuple[str, str]:
    """A difference in percentage points; a star where interval and seeds agree."""
    mean, low, high = (f"{100 * one[name]:+.1f}" for name in ("mean", "low", "high"))
    return f"{mean}{'' if one['verdict'] == 'cannot be told' else ' *'}", f"{low} to {high}"


def grid(results: Mapping[str, Any], name: str) -> Grid:
    """One of :data:`TABLES`, ``elsewhere`` or ``later-elsewhere``: differences on the texts that no arm reads."""
    stages = list(dict.fromkeys(row["stage"] for row in results["rows"]))
    wheres = list(dict.fromkeys(row["where"] for row in results["rows"]))
    found = {(row["arm"], row["stage"], row["where"]): row for row in results["rows"]}
    if name.endswith("elsewhere"):
        return _differences(results, found, stages[name.startswith("later")], wheres[-1])
    title, measure, later = TABLES[name]
    rows = [
        (arm, [_cell(found[(arm, stages[later], where)], measure, where in texts) for where in wheres[:-1]])
        for arm, texts in results["arms"].items()
    ]
    return Grid(title, wheres[:-1], rows)


def _cell(row: Mapping[str, Any], measure: str, is_read: bool) -> tuple[str, str]:
    """A mean with its interval, marked where the text was trained on."""
    text, ends = _mean(row["measures"][measure])
    return f"{text} ‡" if is_read else text, ends


def _differences(
    results: Mapping[str, Any], found: Mapping[tuple[str, str, str], Mapping[str, Any]], stage: str, where: str
) -> Grid:
    """Percentage points over what arms are held against."""
    rows = [
        (f"{arm}, over {other}", [_points(over[measure]) for measure in _COMPARED.values()])
        for arm in results["arms"]
        for other, over in found[(arm, stage, where)]["over"].items()
    ]
    return Grid(f"{where}: percentage points", list(_COMPARED), rows)


def grids(results: Mapping[str, Any]) -> Iterator[Grid]:
    """All tables."""
    for name in (*TABLES, "elsewhere", "later-elsewhere"):
        yield grid(results, name)


def print_transfer(results: Mapping[str, Any]) -> None:
    """Print what each arm makes of every kind of text."""
    console = Page()
    seeds, asked = results["seeds"], results["seeds_asked"]
    missing = "" if len(seeds) == len(asked) else f" of {len(asked)} asked for"
    console.print(
        f"{results['name']}: {results['places']} held-out documents of each kind, {results['device_s']:g} s of "
        f"device-time for each arm, {len(seeds)} seeds{missing}; means with 95 % intervals over seeds and documents. "
        "‡ trained on; * told apart from none by the interval and by every seed"
    )
    print_grids(console, grids(results))
