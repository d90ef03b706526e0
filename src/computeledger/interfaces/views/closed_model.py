"""The view of a closed model's sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.frontier.closed_models import CONFLICT
from computeledger.interfaces.plots.clues import moved_words, pulls_figure
from computeledger.interfaces.view import Card, Cell, Plot, Table, Tile, View, quantity_cell
from computeledger.interfaces.views.evidence import price_evidence
from computeledger.questions.answer import Answer
from computeledger.questions.wording import figure_words, headline_words, interval_words, listed, percent, point

_NAMES = {
    "n_params_active": ("Active parameters", "params"),
    "n_params_total": ("Total parameters", "params"),
    "tokens": ("Pretraining tokens", "tokens"),
    "training_flop": ("Pretraining", "FLOP"),
    "gpu_hours": ("GPU-hours", "GPU-hours"),
    "training_usd": ("Cost of the run", "USD"),
}
#: What the law of a clue was fitted on.
_SOURCES = {
    "release date": ("epoch-models", "epoch-frontier-models"),
    "price": ("genai-prices", "litellm-prices"),
    "output speed": ("aiconfigurator",),
    "benchmark scores": ("epoch-capabilities-index", "epoch-benchmark-runs"),
}
#: A probability below this is printed as less than it.
_LEAST = 1e-3
_COLUMNS = ("clue", "says", "alone #", "all others #", "effect", "chance #")


def view(answer: Answer, working: bool) -> View:  # noqa: ARG001 (the laws stand in the docs)
    """Figures, pulls and conflicts."""
    found = answer.to_dict()
    active = found["n_params_active"]
    against = found["conflicts"]
    weakest = min(found["clues"], key=lambda one: float(one["agreement_probability"]))
    agree = f"The clues agree; the {weakest['clue']} fits least."
    said = f"In conflict with the others: {', '.join(against)}." if against else agree
    size = f"about {figure_words(active, 'params')} active parameters"
    caption = (
        "Active parameters from each clue alone (with the date, where it is known), with 90 % intervals; the arrow "
        "below it goes from the median of all other clues to that of all."
    )
    figure = pulls_figure(found["clues"], found["n_params_active_before"], active, "params")
    return View(
        title="A closed model's sheet",
        overline="sheet",
        main="n_params_active",
        evidence=price_evidence(found),
        headline=headline_words(f"A closed model, {_told_by(found['clues'])}", size, active, "params"),
        context=said if len(found["clues"]) > 1 else "",
        tiles=tuple(_tile(found, key) for key in _NAMES),
        plots=(Plot("active", "Active parameters, and what each clue does to them", caption, figure, "clues"),),
        tables=(_clues(found), _narrowing(found)) if found["would_narrow"] else (_clues(found),),
        facts=(("Dense, not a mixture of experts", f"with a probability of {percent(found['dense_probability'])}"),
               ("Chip of the run", found["accelerator"]), *_total_by_price(found["clues"])),
        grounds=tuple(f"assumed: {one}" for one in found["assumptions"]),
        card=Card.of(
            figure_words(active, "params"),
            f"active parameters, from its {listed([one['clue'] for one in found['clues']])} alone",
            (active, "params"),
        ),
        sources=tuple(key for one in found["clues"] for key in _SOURCES.get(one["clue"], ())),
    )  # fmt: skip


def _total_by_price(clues: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Why the price alone has another total, where it is one of the clues."""
    why = (
        "this one: it starts from the sizes that open models have, and takes every clue; Prices (invert) draws the "
        "line of open models on to the price alone, which makes a dear model's total larger"
    )
    return (("Which total to use", why),) if any(one["clue"] == "price" for one in clues) else ()


def _told_by(clues: Sequence[Mapping[str, Any]]) -> str:
    """The clues, as they were given."""
    return ", ".join(f"{one['clue']} {one['said']}" for one in clues)


def _tile(found: Mapping[str, Any], key: str) -> Tile:
    label, unit = _NAMES[key]
    return Tile(label, figure_words(found[key], unit), interval_words(found[key], unit), point(found[key]), key)


def _clues(found: Mapping[str, Any]) -> Table:
    note = (
        "active parameters from the clue alone and from all others; what it does to the estimate of all others; the "
        "chance that a clue lies so far from the others. A clue is in conflict where that is below "
        f"{percent(CONFLICT)} and where all clues together make it likelier to be wrong than before (or it cannot be)"
    )
    return Table("What each clue does", _COLUMNS, [_row(one) for one in found["clues"]], "clues", note)


def _narrowing(found: Mapping[str, Any]) -> Table:
    active, flop = (_width(found[key]) for key in ("n_params_active", "training_flop"))
    note = "the 90 % interval, end over end, if the clue came as the others expect it and were right; the best first"
    now = [["as it is", f"x{active:.3g}", f"x{flop:.3g}"]]
    keys = ("n_params_active_width_ratio", "training_flop_width_ratio")
    rows = [[one["clue"], *(f"x{one[key]:.3g}" for key in keys)] for one in found["would_narrow"]]
    columns = ("with", "active parameters #", "pretraining FLOP #")
    return Table("What another clue would narrow", columns, now + rows, "narrowing", note)


def _width(interval: Mapping[str, float]) -> float:
    return interval["p95"] / interval["p05"]


def _row(one: Mapping[str, Any]) -> list[str | Cell]:
    return [
        Cell(one["clue"], below="CONFLICT" if one["conflicts"] else ""),
        one["said"],
        quantity_cell(one["n_params_active_alone"], "params"),
        quantity_cell(one["n_params_active_without"], "params"),
        moved_words(one["pull_ratio"]),
        "< 0.1 %" if one["agreement_probability"] < _LEAST else percent(one["agreement_probability"]),
    ]
