"""The view of a closed model's sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from computeledger.frontier.closed_models import CONFLICT
from computeledger.interfaces.plots.clues import clues_figure
from computeledger.interfaces.view import Card, Cell, Plot, Table, Tile, View, cited, quantity_cell, quantity_table
from computeledger.interfaces.views.evidence import sheet_evidence
from computeledger.questions.answer import Quantity
from computeledger.questions.answers.frontier.closed import ClosedModelAnswer
from computeledger.questions.wording import figure_words, headline_words, interval_words, listed, percent, point, words

_NAMES = {
    "n_params_active": ("Active parameters", "params"),
    "n_params_total": ("Total parameters", "params"),
    "tokens": ("Pretraining tokens", "tokens"),
    "training_usd": ("Cost of the run", "USD"),
    "training_flop": ("Pretraining", "FLOP"),
    "gpu_hours": ("GPU-hours", "GPU-hours"),
}
#: What the law of a clue was fitted on.
_SOURCES = {
    "release date": ("epoch-models", "epoch-frontier-models"),
    "price": ("genai-prices", "litellm-prices"),
    "output speed": ("aiconfigurator",),
    "benchmark scores": ("epoch-capabilities-index", "epoch-benchmark-runs"),
}
#: A probability below it is printed as less than it.
_LEAST = 1e-3
#: Below it clues disagree, and one in so many times has two digits that count.
_SURE = 0.1
_COLUMNS = ("clue", "says", "alone #", "without it #", "chance of the gap #")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
#: Clues in the order in which a sentence names them: the others stand between.
_FIRST, _LAST = "price", "release date"


def view(answer: ClosedModelAnswer, working: bool) -> View:  # noqa: ARG001 (the laws stand in the docs)
    """Figures, pulls and conflicts."""
    found = answer.to_dict()
    active = found["n_params_active"]
    size = f"about {figure_words(active, 'params')} active parameters"
    caption = " ".join((*_caption(found), *_beside_prices(answer, found["clues"])))
    figure = clues_figure(found["clues"], found["n_params_active_before"], active, "params")
    return View(
        title="A closed model's sheet",
        overline="sheet",
        main="n_params_active",
        evidence=sheet_evidence(found),
        headline=headline_words(f"A closed model{_told_by(found['clues'])}", size, active, "params"),
        context=f"{_truth(found)}{_context(found) if len(found['clues']) > 1 else ''}".strip(),
        tiles=tuple(_tile(found, key) for key in _NAMES),
        plots=(Plot("active", "What each clue says of the active parameters", caption, figure, "clues"),),
        tables=(
            *_published(found), _clues(found), *_by_price(answer),
            *([_narrowing(found)] if found["would_narrow"] else []),
        ),
        facts=(("Dense, not a mixture of experts", f"with a probability of {percent(found['dense_probability'], 2)}"),
               ("Chip of the run", found["accelerator"])),
        grounds=tuple(f"assumed: {one}" for one in found["assumptions"]),
        card=Card.of(
            figure_words(active, "params"),
            f"active parameters, from its {listed([one['clue'] for one in found['clues']])} alone",
            (active, "params"),
        ),
        sources=tuple(key for one in found["clues"] for key in _SOURCES.get(one["clue"], ())),
    )  # fmt: skip


def _caption(found: Mapping[str, Any]) -> tuple[str, ...]:
    """What stands beside a range, where there is more than one clue."""
    if len(found["clues"]) == 1:
        return ()
    dated = any(one["clue"] == _LAST for one in found["clues"])
    return (f"Left: a clue{' with the release date' if dated else ' alone'}. Right: what all other clues say.",)


def _beside_prices(answer: ClosedModelAnswer, clues: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What the page of prices says, where a price is one of the clues."""
    if answer.by_price is None:
        return ()
    theirs, ours = (figure_words(asdict(one), "params") for one in answer.by_price)
    dated = next(figure_words(one["n_params_active_alone"], "params") for one in clues if one["clue"] == _FIRST)
    said = ours if dated == ours else f"{ours} ({dated} with the release date)"
    why = "read off the line of open models", "since it weighs how likely each size has this price"
    return (f"By the price alone Prices says {theirs}, {why[0]}; Sheet {said}, {why[1]}.",)


def _by_price(answer: ClosedModelAnswer) -> tuple[Table, ...]:
    """Both sizes by the price alone, where a price is one of the clues."""
    return () if answer.by_price is None else (by_price_table(*answer.by_price),)


def by_price_table(by_prices: Quantity, by_sheet: Quantity) -> Table:
    """Active parameters by the price alone, as the pages *Prices* and *Sheet* say them, and why they differ."""
    rows = [
        ("Prices (invert): read off the line of open models", asdict(by_prices), "params"),
        ("Sheet: how likely each size has the price", asdict(by_sheet), "params"),
    ]
    made = quantity_table("Active parameters by the price alone, in two ways", rows, "n_params_active")
    return replace(made, is_detail=True)


def _told_by(clues: Sequence[Mapping[str, Any]]) -> str:
    """The clues, as they were given: the price first, the date last."""
    ordered = sorted(clues, key=lambda one: (one["clue"] != _FIRST, one["clue"] == _LAST))
    said = ", ".join(_clue_words(one["clue"], one["said"]) for one in ordered)
    return f" {said}" if ordered[0]["clue"] in (_FIRST, _LAST) else f", {said}"


def _clue_words(clue: str, said: str) -> str:
    """A clue inside a sentence.

    Examples
    --------
    >>> _clue_words("price", "$3 and $15 per Mtok"), _clue_words("release date", "2025-02-24")
    ('at $3/$15 per Mtok', 'released February 2025')
    >>> _clue_words("training FLOP", "1.00e28 FLOP"), _clue_words("training cost", "$100M")
    ('training 1.00e28 FLOP', 'training cost $100M')
    """
    if clue == "price":
        return f"at {said.replace(' and ', '/', 1)}"
    if clue == "release date":
        year, month, _ = said.split("-")
        return f"released {_MONTHS[int(month) - 1]} {year}"
    *before, last = clue.split(" ")
    if clue == "output speed":
        return said
    return " ".join((*before, said)) if said.endswith(f" {last}") else f"{clue} {said}"


def _context(found: Mapping[str, Any]) -> str:
    """Whether the clues agree; if not, which lies furthest off, and what to make of the answer."""
    against = found["conflicts"]
    worst = min(found["clues"], key=lambda one: float(one["agreement_probability"]))
    alone, others, size = (
        figure_words(one, "params")
        for one in (worst["n_params_active_alone"], worst["n_params_active_without"], found["n_params_active"])
    )
    if against:
        one = "it" if len(against) == 1 else "them"
        return (
            f"In conflict with the others: {listed(against)}. Check {one} before you use {size}: without the "
            f"{worst['clue']} it would be {others}."
        )
    if worst["agreement_probability"] >= _SURE:
        return f"The clues agree: the {worst['clue']} alone says {alone}, the others {others}, within chance."
    return f"The clues disagree: {_sides(found['clues'], worst)}. Treat {size} as a compromise."


def _truth(found: Mapping[str, Any]) -> str:
    """Where the clues are those of an open model: its published sizes, and what of it the ranges miss."""
    known = found.get("published")
    if known is None:
        return ""
    active, total = (words(known[key], "params") for key in ("n_params_active", "n_params_total"))
    missed = [_NAMES[key][0].lower() for key in known["outside"]]
    said = f"outside the range: {listed(missed)}" if missed else "all within the ranges"
    return f"{known['model']} in truth: {active} active, {total} in all; {said}. "


def _published(found: Mapping[str, Any]) -> tuple[Table, ...]:
    """What was published of the open model that the clues are of, beside what they say."""
    known = found.get("published")
    if known is None:
        return ()
    rows: list[list[str | Cell]] = [
        [label, words(known[key], unit), quantity_cell(found[key], unit),
         "outside" if key in known["outside"] else "inside", cited(known["source"], "")]
        for key, (label, unit) in _NAMES.items() if key in known
    ]  # fmt: skip
    columns = (known["model"], "published #", "estimated #", "90 % range", "source")
    note = "ranges are made to hold nine in ten truths: one in ten lies outside"
    return (Table("Published beside estimated", columns, rows, "n_params_total", note, drops=("source",)),)


def _sides(clues: Sequence[Mapping[str, Any]], worst: Mapping[str, Any]) -> str:
    """What the clue that lies furthest off says, and the one that lies on the other side of it."""
    is_large = point(worst["n_params_active_alone"]) > point(worst["n_params_active_without"])
    rest = [one for one in clues if one is not worst]
    other = (min if is_large else max)(rest, key=lambda one: point(one["n_params_active_alone"]))
    sides = ((worst, "says large"), (other, "small")) if is_large else ((worst, "says small"), (other, "large"))
    said = [f"the {one['clue']} {side} ({figure_words(one['n_params_active_alone'], 'params')})" for one, side in sides]
    return ", ".join(said)


def _one_in(chance: float) -> str:
    """A probability as one of so many times.

    Examples
    --------
    >>> _one_in(0.0414), _one_in(0.48), _one_in(0.8), _one_in(1e-6)
    ('1 in 24', '1 in 2', 'over 1 in 2', 'under 1 in 1,000')
    """
    if chance < _LEAST:
        return f"under 1 in {1 / _LEAST:,.0f}"
    n = float(f"{1 / chance:.2g}") if chance < _SURE else round(1 / chance)
    return f"1 in {n:,.0f}" if n > 1 else "over 1 in 2"


def _tile(found: Mapping[str, Any], key: str) -> Tile:
    label, unit = _NAMES[key]
    return Tile(label, figure_words(found[key], unit), interval_words(found[key], unit), point(found[key]), key)


def _clues(found: Mapping[str, Any]) -> Table:
    note = "active parameters by the clue (and the date) alone, and by all others without it"
    if found["conflicts"]:
        note += (
            f"; a clue is in conflict where a gap so wide is rarer than {percent(CONFLICT)} and where all clues "
            "together make it likelier to be wrong than before (or it cannot be)"
        )
    rows = [_row(one) for one in found["clues"]]
    return Table("What each clue does", _COLUMNS, rows, "clues", note)


def _narrowing(found: Mapping[str, Any]) -> Table:
    active, flop = (_width(found[key]) for key in ("n_params_active", "training_flop"))
    note = (
        "how far the 90 % range reaches either way, if the clue came as the others expect it and were right; the best "
        "first"
    )
    now = [["the clues at hand", _factor(active), _factor(flop)]]
    keys = ("n_params_active_width_ratio", "training_flop_width_ratio")
    rows = [[one["clue"], *(_factor(one[key]) for key in keys)] for one in found["would_narrow"]]
    columns = ("with", "active parameters #", "pretraining FLOP #")
    return Table("What another clue would narrow", columns, now + rows, "narrowing", note, is_detail=True)


def _factor(width: float) -> str:
    """How far a range reaches either way, by how many times its high end is the low one."""
    return f"a factor of {math.sqrt(width):.2g}"


def _width(interval: Mapping[str, float]) -> float:
    return interval["p95"] / interval["p05"]


def _row(one: Mapping[str, Any]) -> list[str | Cell]:
    return [
        Cell(one["clue"], below="CONFLICT" if one["conflicts"] else ""),
        one["said"],
        quantity_cell(one["n_params_active_alone"], "params"),
        quantity_cell(one["n_params_active_without"], "params"),
        _one_in(one["agreement_probability"]),
    ]
