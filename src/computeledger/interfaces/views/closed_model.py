"""The view of a closed model's sheet."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from computeledger.economics.quality.drift import MARKET_DATE
from computeledger.frontier.closed_models import CONFLICT
from computeledger.interfaces.plots.clues import clues_figure
from computeledger.interfaces.view import (
    Card,
    Cell,
    Plot,
    Table,
    Tile,
    View,
    cited,
    quantity_cell,
    quantity_table,
    source_links,
)
from computeledger.interfaces.views.evidence import sheet_evidence
from computeledger.interfaces.working import working_view
from computeledger.questions.answer import Quantity
from computeledger.questions.answers.frontier.closed import ClosedModelAnswer
from computeledger.questions.wording import (
    figure_words,
    headline_words,
    interval_words,
    joined,
    listed,
    percent,
    point,
    words,
)

_NAMES = {
    "n_params_active": ("Active parameters", "params"),
    "n_params_total": ("Total parameters", "params"),
    "tokens": ("Pretraining tokens", ""),
    "training_usd": ("Cost of the run", "USD"),
    "training_flop": ("Pretraining", "FLOP"),
    "gpu_hours": ("GPU-hours", ""),
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
#: From so many times its low end on, the high end of a 90 % range says that a figure is hardly known.
_HARDLY = 100.0
#: Said first, however wide.
_SIZES = ("n_params_active", "n_params_total")
#: How many times larger one size is than another where it clearly is.
_CLEARLY = 1.1
#: Below it clues disagree.
_SURE = 0.1
_COLUMNS = ("clue", "as given", "says alone #", "all others say #", "chance of such a gap #")
_CAPTION = (
    "Each bar starts from the sizes that open models have (before any clue) and from the release date, where it is "
    "given, and adds one clue; the last adds all of them."
)
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
#: The two ways of telling a size by its price alone, and why they differ.
BY_PRICES, BY_SHEET = "Prices (invert)", "Sheet, the price alone"
_WHY_TWO = (
    "Prices reads the size off a line through open models' prices; Sheet starts from the sizes that open models have "
    f"and asks how likely each is sold at this price, so that other clues can be joined. Here both take the price as "
    f"listed on {MARKET_DATE}; where a release or a day of listing is given, Sheet takes it as listed on that day, and "
    "takes the market's fall since off"
)
#: An added clue narrows the size much where it makes the range at least so many times narrower either way.
_MUCH = 1.5
#: Clues in the order in which a sentence names them: the others stand between.
_FIRST, _LAST = "price", "release date"


def view(answer: ClosedModelAnswer, working: bool) -> View:
    """Figures, pulls and conflicts."""
    found = answer.to_dict(working=working)
    active = found["n_params_active"]
    size = f"about {figure_words(active, 'params')} active parameters"
    figure = clues_figure(found["clues"], found["n_params_active_before"], active, "params")
    return View(
        title="A closed model's sheet",
        overline="sheet",
        working=tuple(working_view(found)) if working else (),
        main="n_params_active",
        evidence=sheet_evidence(found),
        headline=headline_words(f"A closed model{_told_by(found['clues'])}", size, active, "params"),
        context=_told(answer, found),
        tiles=_tiles(found),
        plots=(Plot("active", "Active parameters by clue", _CAPTION, figure, "clues"),),
        tables=(
            *_published(found), _clues(found), *_by_price(answer),
            *([_narrowing(found)] if found["would_narrow"] else []),
        ),
        facts=(("Chip of the run", found["accelerator"]),),
        grounds=tuple(f"assumed: {one}" for one in found["assumptions"]),
        card=Card.of(
            figure_words(active, "params"),
            f"active parameters, from its {listed([one['clue'] for one in found['clues']])} alone",
            (active, "params"),
        ),
        links=source_links(_sources(found)),
        sources=_sources(found),
    )  # fmt: skip


def _sources(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Of the laws of its clues."""
    return tuple(dict.fromkeys(key for one in found["clues"] for key in _SOURCES.get(one["clue"], ())))


def _told(answer: ClosedModelAnswer, found: Mapping[str, Any]) -> str:
    """The truth where it is known, and whether the clues agree, or what *Prices* says of a price alone."""
    agree = _context(found) if len(found["clues"]) > 1 else _beside(answer)
    return " ".join(part for part in (_truth(found), agree) if part)


def _beside(answer: ClosedModelAnswer) -> str:
    """What the page for a price alone says of it."""
    if answer.by_price is None:
        return ""
    said = figure_words(asdict(answer.by_price[0]), "params")
    return f"Prices, made for a price alone, says {said}: it reads it off a line through open models."


def _by_price(answer: ClosedModelAnswer) -> tuple[Table, ...]:
    """Both sizes by the price alone, where a price is one of the clues."""
    return () if answer.by_price is None else (by_price_table(*answer.by_price),)


def by_price_table(by_prices: Quantity, by_sheet: Quantity) -> Table:
    """Active parameters by the price alone, as the pages *Prices* and *Sheet* say them, and why they differ."""
    rows = [
        (BY_PRICES, asdict(by_prices), "params"),
        (BY_SHEET, asdict(by_sheet), "params"),
    ]
    made = quantity_table("Why Prices and Sheet tell this price another size", rows, "n_params_active")
    return replace(made, is_detail=True, note=_WHY_TWO)


def _told_by(clues: Sequence[Mapping[str, Any]]) -> str:
    """The clues, as they were given: the price first, the date last."""
    ordered = sorted(clues, key=lambda one: (one["clue"] != _FIRST, one["clue"] == _LAST))
    day = f" on {ordered[-1]['said']}"
    said = ", ".join(_clue_words(one["clue"], one["said"].removesuffix(day)) for one in ordered)
    return f" {said}" if ordered[0]["clue"] in (_FIRST, _LAST) else f", {said}"


def _clue_words(clue: str, said: str) -> str:
    """A clue inside a sentence.

    Examples
    --------
    >>> _clue_words("price", "$3 and $15 per Mtok"), _clue_words("release date", "2025-02-24")
    ('at $3/$15 per Mtok', 'released February 2025')
    >>> _clue_words("training FLOP", "1.00e28 FLOP"), _clue_words("training cost", "$100M")
    ('training 1e28 FLOP', 'training cost $100M')
    """
    said = re.sub(r"\.0+(?=e\d)", "", said)
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
    against, names = found["conflicts"], [one["clue"] for one in found["clues"]]
    blamed = [one for one in found["clues"] if one["conflicts"]] or found["clues"]
    worst = min(blamed, key=lambda one: float(one["agreement_probability"]))
    alone, others, size = (
        figure_words(one, "params")
        for one in (worst["n_params_active_alone"], worst["n_params_active_without"], found["n_params_active"])
    )
    if against:
        named, verb = listed(against), "contradicts" if len(against) == 1 else "contradict"
        one = "it" if len(against) == 1 else f"the {worst['clue']}"
        said = f"{named[:1].upper()}{named[1:]} {verb} the others"
        return f"{said}; check before use: without {one} {others}, not {size}."
    if worst["agreement_probability"] >= _SURE and len(found["clues"]) == 2 and _LAST in names:
        dated, other = sorted(found["clues"], key=lambda one: one["clue"] != _LAST)
        by_date = figure_words(dated["n_params_active_alone"], "params")
        return f"The {other['clue']} says {size}, the release date counted in; the date alone says {by_date}."
    if worst["agreement_probability"] >= _SURE:
        return f"The clues agree: the {worst['clue']} alone says {alone}, the others {others}{_drawn(found, worst)}."
    return f"The clues disagree: {_sides(found['clues'], worst)}."


def _drawn(found: Mapping[str, Any], worst: Mapping[str, Any]) -> str:
    """Why the answer is no mean of two sides that both lie to the same side of the usual; empty where it is one."""
    sides = sorted(point(worst[f"n_params_active_{one}"]) for one in ("alone", "without"))
    usual, size = point(found["n_params_active_before"]), point(found["n_params_active"])
    if sides[0] * _CLEARLY < size < sides[1] / _CLEARLY or sides[0] < usual < sides[1]:
        return ""
    return f", each drawn towards the usual {words(usual, 'params', 2)}; together they outweigh it"


def _truth(found: Mapping[str, Any]) -> str:
    """Where the clues are those of an open model: its published sizes, and what of it the ranges miss."""
    known = found.get("published")
    if known is None:
        return ""
    active, total = (words(known[key], "params") for key in ("n_params_active", "n_params_total"))
    missed = [_NAMES[key][0].lower() for key in known["outside"]]
    said = f"outside the range: {listed(missed)}" if missed else "all within the ranges"
    return f"{known['model']} in truth: {active} active, {total} in all; {said}."


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


def _chance(probability: float) -> str:
    """A probability in percent, two digits of a small one.

    Examples
    --------
    >>> [_chance(one).replace(chr(160), " ") for one in (0.0414, 0.483, 1e-6)]
    ['4.1 %', '48 %', 'under 0.1 %']
    """
    if probability < _LEAST:
        return f"under {percent(_LEAST)}"
    return percent(probability, 2)


def _tiles(found: Mapping[str, Any]) -> tuple[Tile, ...]:
    """Sizes and what else is known first, then what is said of the size; what is hardly known last."""
    figures = [(key, _tile(found, key)) for key in _NAMES]
    first = [one for key, one in figures if key in _SIZES or _width(found[key]) < _HARDLY]
    active, dense = found["n_params_active"], found["dense_probability"]
    said = [Tile("Dense", percent(dense, 2), "likely, else mixture of experts", dense, "n_params_total")]
    if "p25" in active:
        half = joined(*(words(active[one], "params", 2) for one in ("p25", "p75")))
        said.insert(0, Tile("As likely as not", half, "active parameters", None, "n_params_active"))
    if found.get("at_premium"):
        twice, more = (one["n_params_active"] for one in found["at_premium"])
        said.insert(1, Tile("At a premium of 2 \u00d7", words(twice, "params", 2),
                            f"active; at 4 \u00d7: {words(more, 'params', 2)}", twice,
                            "active_parameters_at_twice_the_price", unit="params"))  # fmt: skip
    return (*first, *said, *(one for _, one in figures if one not in first))


def _tile(found: Mapping[str, Any], key: str) -> Tile:
    """A figure with its range, or the range with what little is known inside it."""
    label, unit = _NAMES[key]
    shown, ends = figure_words(found[key], unit), interval_words(found[key], unit)
    if _width(found[key]) < _HARDLY:
        return Tile(label, shown, ends, point(found[key]), key)
    return Tile(label, ends, f"hardly known; median {shown}", point(found[key]), key)


def _clues(found: Mapping[str, Any]) -> Table:
    note = (
        "active parameters; the chance is how often a clue lies at least so far from what all others say, where all "
        "are right"
    )
    if len(found["clues"]) > 1 and any(one["clue"] == "price" for one in found["clues"]):
        note += "; that of a price counts its ratio of output to input too"
    if "price_date" in found:
        note += f"; the price counts as of {found['price_date']}"
    if found["conflicts"]:
        note += (
            f"; a clue is in conflict where a gap so wide is rarer than {percent(CONFLICT)} and where all clues "
            "together make it likelier to be wrong than before (or it cannot be)"
        )
    rows = [_row(one) for one in found["clues"]]
    return Table("What each clue does", _COLUMNS, rows, "clues", note)


def _narrowing(found: Mapping[str, Any]) -> Table:
    active, flop = (_width(found[key]) for key in ("n_params_active", "training_flop"))
    least = min(math.sqrt(one["n_params_active_width_ratio"]) for one in found["would_narrow"])
    told = "" if math.sqrt(active) / least >= _MUCH else "No clue would narrow the size much. "
    note = (
        f"{told}How many times too large or too small the figure may be (90 %), if the clue came as the others expect "
        "it; the best first"
    )
    now = [["the clues at hand", _factor(active), _factor(flop)]]
    keys = ("n_params_active_width_ratio", "training_flop_width_ratio")
    rows = [[one["clue"], *(_factor(one[key]) for key in keys)] for one in found["would_narrow"]]
    columns = ("with", "active parameters, off by up to #", "pretraining FLOP, off by up to #")
    return Table("What another clue would narrow", columns, now + rows, "narrowing", note, is_detail=True)


def _factor(width: float) -> str:
    """How far a range reaches either way, by how many times its high end is the low one."""
    return f"{math.sqrt(width):.2g} times"


def _width(interval: Mapping[str, float]) -> float:
    return interval["p95"] / interval["p05"]


def _row(one: Mapping[str, Any]) -> list[str | Cell]:
    return [
        Cell(one["clue"], below="CONFLICT" if one["conflicts"] else ""),
        one["said"].partition(" on ")[0],
        quantity_cell(one["n_params_active_alone"], "params"),
        quantity_cell(one["n_params_active_without"], "params"),
        _chance(one["agreement_probability"]),
    ]
