"""Tables of ``rntp mixture``: candidates by rung, and what was found beside other ways of the same device-time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from computeledger.interfaces.fitting import Page
from computeledger.units import format_percent, format_si
from rntp.interfaces.tables.grid import Grid
from rntp.interfaces.tables.study import print_grids

Results = Mapping[str, Any]
#: What is measured, in words.
_SAID = {
    "right": "right answers after a thought", "thought_right": "thoughts without a slip",
    "gain_nats": "gain of a thought [nats]",
}  # fmt: skip
MIXTURE_TABLES = ("rungs", "judged")


def _show(results: Results) -> Callable[[float], str]:
    return (lambda value: f"{value:.3f}") if results["measure"] == "gain_nats" else format_percent


def grid(results: Results, name: str) -> Grid:
    """One of :data:`MIXTURE_TABLES`."""
    return _rungs(results) if name == "rungs" else _judged(results)


def _rungs(results: Results) -> Grid:
    """Score of every candidate at each rung that it reached, on the half that is chosen by."""
    show, rungs = _show(results), results["rungs"]
    scores: dict[str, list[tuple[str, str]]] = {}
    for place, rung in enumerate(rungs):
        for one in rung["candidates"]:
            cells = scores.setdefault(one["name"], [("", "")] * len(rungs))
            cells[place] = (show(one["score"]), "")
    heads = [f"after {format_si(rung['device_s'], 's')}" for rung in rungs]
    return Grid("candidates, on the documents that they are chosen by", heads, list(scores.items()))


def _judged(results: Results) -> Grid:
    """Every way on the other half, and how much better what was found is."""
    show, targets = _show(results), list(results["targets"])
    effects = {one["against"]: one for one in results["effects"]}
    rows = []
    for row in results["judged"]:
        of = f": {row['of']}" if row["of"] and not row["way"].startswith(row["of"]) else ""
        cells = [
            (format_si(row["device_s"], "s"), ""), (show(row["chosen_on"]), ""),
            (show(row["mean"]), f"{show(row['low']).partition(' ')[0]} to {show(row['high']).partition(' ')[0]}"),
            *((show(row["by_target"][name]), "") for name in targets), _difference(effects.get(row["way"]), show),
        ]  # fmt: skip
        rows.append((f"{row['way']}{of}", cells))
    heads = ["device-time", "where chosen", "judged", *targets, "found is better by"]
    return Grid("judged on the other half", heads, rows)


def _difference(effect: Mapping[str, Any] | None, show: Callable[[float], str]) -> tuple[str, str]:
    if effect is None:
        return "", ""
    low, high = (show(effect[end]).partition(" ")[0] for end in ("low", "high"))
    return show(effect["mean"]), f"{low} to {high}; {effect['verdict']}"


def grids(results: Results) -> Iterator[Grid]:
    """Both tables."""
    for name in MIXTURE_TABLES:
        yield grid(results, name)


def print_mixture(results: Results) -> None:
    """Print what was tried, what was found, and how it is judged."""
    console = Page()
    weights = ", ".join(f"{name} {format_percent(weight)}" for name, weight in results["targets"].items())
    console.print(
        f"{results['name']}: {_SAID[results['measure']]}, of {weights}; {results['places']} held-out documents of "
        f"each, half to choose by and half to judge; {len(results['seeds'])} seeds; the search took "
        f"{format_si(results['searched_device_s'], 's')} of device-time"
    )
    print_grids(console, grids(results))
    console.print(f"found: {results['found']['name']}")
