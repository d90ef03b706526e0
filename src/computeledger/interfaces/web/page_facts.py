"""The page *Facts*: every figure with its source."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.answers_facts import answer_search
from computeledger.interfaces.cli_facts import facts_search
from computeledger.interfaces.web.ask import ask
from computeledger.interfaces.web.spec import Answer, Control, Page, Table, Values, View
from computeledger.interfaces.wording import words
from computeledger.sources import load_sources

_MOST = 200
_PRESETS = {"Bandwidth": "bandwidth", "Power": "power w", "Rent of a GPU-hour": "rent"}
_CONTROLS = (
    Control("words", "Search", "text", default="h200", help="Every word must be in the id, name, note or source."),
)


def _answer(values: Values, _working: bool) -> Answer:
    asked = {f"word{place}": word for place, word in enumerate(values.get("words", "").split())}
    return ask(["facts", "search"], facts_search, _document, asked, working=False)


def _document(options: Mapping[str, Any]) -> dict[str, Any]:
    return _found(" ".join(options["query"]))


@functools.lru_cache(maxsize=64)
def _found(query: str) -> dict[str, Any]:
    return answer_search(query)


def _view(answer: Answer) -> View:
    found = answer.document["results"]
    sources = load_sources()
    rows = []
    for one in found[:_MOST]:
        source = sources.get(one["source"])
        where = ", ".join(part for part in (source.title if source else one["source"], one["locator"]) if part)
        value = words(one["value"], one["unit"]) if isinstance(one["value"], int | float) else str(one["value"])
        rows.append([one["id"], one["name"].replace("_", " "), value, where, str(one["date"])])
    headline = f"{len(found)} facts mention '{answer.document['query']}'" if found else "No fact mentions all of that"
    notes = (f"the first {_MOST} are shown",) if len(found) > _MOST else ()
    columns = ["of", "figure", "value #", "source", "date"]
    return View(f"{headline}.", tables=(Table("Facts", columns, rows),) if rows else (), notes=notes)


PAGE = Page(
    "facts", "Facts", "What is known, and who says so?", _CONTROLS, _answer, _view,
    presets={name: {"words": words_} for name, words_ in _PRESETS.items()},
)  # fmt: skip
