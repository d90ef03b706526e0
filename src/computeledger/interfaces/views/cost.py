"""The view of what a GPU-hour costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.plots.bars import strip_figure
from computeledger.interfaces.view import Plot, Table, Tile, View, quantity_cell, tile
from computeledger.interfaces.working import working_view
from computeledger.questions.answer import Answer
from computeledger.questions.wording import figure_words, headline_words

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
        headline=headline_words(f"A used GPU-hour of {document['accelerator']}", *_first(kinds)),
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


def _first(kinds: Mapping[str, Any]) -> tuple[str, Any, str]:
    """What it costs in each way, the first last, with its interval."""
    said = [f"{figure_words(one['usd_per_gpu_hour'], 'USD')} {_KINDS[kind]}" for kind, one in kinds.items()]
    first = next((one["usd_per_gpu_hour"] for one in kinds.values()), None)
    return ", ".join([*said[1:], *said[:1]]) or "no price is known", first, "USD"


def _tile(kind: str, one: Mapping[str, Any]) -> Tile:
    return tile(one, "usd_per_gpu_hour", _KINDS[kind].capitalize(), "USD/h", one["working"]["name"])


def _parts(kinds: Mapping[str, Any]) -> Table:
    """Components of each kind, and their sum."""
    seen = [part for part in _PARTS if any(part in one["components"] for one in kinds.values())]
    rows = [
        [_PARTS[part], *(quantity_cell(one["components"][part], "USD/h") if part in one["components"] else "–"
                         for one in kinds.values())]
        for part in seen
    ]  # fmt: skip
    rows.append(["used GPU-hour", *(quantity_cell(one["usd_per_gpu_hour"], "USD/h") for one in kinds.values())])
    columns = ("", *(f"{kind} #" for kind in kinds))
    return Table("What it is made of", columns, rows, strong=(len(rows) - 1,))


def _plots(kinds: Mapping[str, Any]) -> tuple[Plot, ...]:
    if "own" not in kinds:
        return ()
    named = {_PARTS[part]: value for part, value in kinds["own"]["components"].items()}
    figure = strip_figure(named, unit="USD/h")
    return (Plot("own", "An owned GPU-hour", "Medians of what a used hour of an owned GPU costs, by part.", figure),)
