"""The view of what a GPU-hour costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from computeledger.interfaces.plots.bars import strip_figure
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View, quantity_cell, tile
from computeledger.interfaces.working import working_view
from computeledger.questions.answer import Answer
from computeledger.questions.wording import headline_words, point, span, words

_KINDS = {"rent": "rented by the hour", "reserve": "reserved by contract", "own": "owned"}
_PARTS = {"price": "price", "capital": "capital (annuity)", "electricity": "electricity", "operation": "operation",
          "idle": "idle hours"}  # fmt: skip


def view(answer: Answer, working: bool) -> View:
    """Rented, reserved and owned beside one another, and what each is made of."""
    document = answer.to_dict(working=working)
    kinds = document["kinds"]
    where = f" in {document['system']}" if document["system"] else ""
    editions = ", ".join(f"{name} {edition}" for name, edition in document["editions"].items())
    return View(
        title=f"One used GPU-hour of {document['accelerator']}{where}",
        headline=headline_words(f"A used GPU-hour of {document['accelerator']}", _first(kinds)),
        tiles=(
            *(_tile(kind, one) for kind, one in kinds.items()),
            tile(document, "energy_j_per_gpu_hour", "Energy at the meter", "J"),
            tile(document, "carbon_kg_per_gpu_hour", "Carbon dioxide", "kg"),
        ),
        plots=_plots(kinds),
        tables=(_parts(kinds),) if kinds else (),
        notes=tuple(f"{kind}: {why}" for kind, why in document["missing"].items()),
        grounds=(f"editions: {editions}; a reserved or owned GPU is paid for while it stands idle",),
        working=tuple(working_view({"working": [one["working"] for one in kinds.values()]})) if working else (),
        overline="cost",
    )


def _first(kinds: Mapping[str, Any]) -> str:
    """What it costs in each way; the first with its interval behind it, whose the others are not."""
    said = [f"{_cost(one).text.removesuffix('/h')} {_KINDS[kind]}" for kind, one in kinds.items()]
    first = next(iter(kinds.values()), None)
    if first is None or not _cost(first).below:
        return ", ".join(said) or "no price is known"
    ends = f"(90\u00a0%: {_cost(first).below.removesuffix('/h').replace(' – ', ' to ')})"
    return ", ".join([f"{said[0]} {ends}", *said[1:]])


def _is_price(one: Mapping[str, Any]) -> bool:
    """Whether a kind is nothing but a price that somebody states."""
    return set(one["components"]) == {"price"}


def _stated(value: Any) -> Cell:
    """A price with the digits that it is stated with, whatever its range."""
    return Cell(words(point(value), "USD/h"), below=span(point(value, "p05"), point(value, "p95"), "USD/h"))


def _cost(one: Mapping[str, Any]) -> Cell:
    """The sum of a kind: as stated where it is a price alone."""
    value = one["usd_per_gpu_hour"]
    return _stated(value) if _is_price(one) else quantity_cell(value, "USD/h")


def _tile(kind: str, one: Mapping[str, Any]) -> Tile:
    found = tile(one, "usd_per_gpu_hour", _KINDS[kind].capitalize(), "USD/h", one["working"]["name"])
    return replace(found, text=_cost(one).text, band=_cost(one).below)


def _parts(kinds: Mapping[str, Any]) -> Table:
    """Components of each kind, and their sum."""
    seen = [part for part in _PARTS if any(part in one["components"] for one in kinds.values())]
    rows = [[_PARTS[part], *(_component(part, one["components"]) for one in kinds.values())] for part in seen]
    rows.append(["used GPU-hour", *map(_cost, kinds.values())])
    columns = ("", *(f"{kind} #" for kind in kinds))
    return Table("What it is made of", columns, rows, strong=(len(rows) - 1,))


def _component(part: str, components: Mapping[str, Any]) -> str | Cell:
    """One component of a kind, a dash where it has none."""
    if part not in components:
        return "–"
    return _stated(components[part]) if part == "price" else quantity_cell(components[part], "USD/h")


def _plots(kinds: Mapping[str, Any]) -> tuple[Plot, ...]:
    if "own" not in kinds:
        return ()
    named = {_PARTS[part]: value for part, value in kinds["own"]["components"].items()}
    figure = strip_figure(named, unit="USD/h")
    return (Plot("own", "An owned GPU-hour", "Medians of what a used hour of an owned GPU costs, by part.", figure),)
