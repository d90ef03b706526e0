"""The page *Facts*: every figure with its source."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.cli.facts import facts_search
from computeledger.interfaces.web.ask import ask
from computeledger.interfaces.web.spec import Answer, Cell, Control, Page, Table, Values, View, cited
from computeledger.questions.answers.facts import answer_search, fact_counts
from computeledger.questions.wording import fact_words, words

_MOST = 200
_PRESETS = {"All of the H200": "h200", "Memory bandwidth": "hbm bytes_per_s", "Power of a chip": "tdp",
            "Rent of a GPU-hour": "rent", "Electricity": "electricity"}  # fmt: skip
_CONTROLS = (
    Control(
        "words",
        "Search",
        "text",
        default="h200",
        is_wide=True,
        help="Every word must be in the id, name, note or source.",
    ),
)


def _answer(values: Values, _working: bool) -> Answer:
    asked = {f"word{place}": word for place, word in enumerate(values.get("words", "").split())}
    if not asked:
        return Answer({"query": "", "results": [], "searched": _counts()}, "computeledger facts search h200")
    return ask(["facts", "search"], facts_search, _document, asked, working=False)


def _document(options: Mapping[str, Any]) -> dict[str, Any]:
    return _found(" ".join(options["query"]))


@functools.lru_cache(maxsize=64)
def _found(query: str) -> dict[str, Any]:
    return answer_search(query)


_counts = functools.cache(fact_counts)


def _nothing_asked(counts: Mapping[str, int]) -> View:
    """The page without a word to look for: what there is."""
    rows = [[f"{kind}s" if kind != "reliability" else "interruptions", f"{n:,}"] for kind, n in counts.items()]
    headline = f"{sum(counts.values()):,} facts, each with its source, date and locator. Type a word, or take a preset."
    return View(headline, tables=(Table("What can be searched", ["facts of", "number #"], rows),))


def _view(answer: Answer) -> View:
    if "searched" in answer.document:
        return _nothing_asked(answer.document["searched"])
    found = answer.document["results"]
    rows = []
    for one in found[:_MOST]:
        value = words(one["value"], one["unit"]) if isinstance(one["value"], int | float) else str(one["value"])
        name = Cell(fact_words(one["name"]), below=one.get("note", ""))
        rows.append([one["id"], name, value, cited(one["source"], one["locator"]), str(one["date"])])
    headline = f"{len(found)} facts mention '{answer.document['query']}'" if found else "No fact mentions all of that"
    notes = (f"the first {_MOST} are shown",) if len(found) > _MOST else ()
    columns = ["of", "figure", "value #", "source", "date #"]
    return View(f"{headline}.", tables=(Table("Facts", columns, rows),) if rows else (), notes=notes)


PAGE = Page(
    "facts", "Facts", "What is known, and who says so?", _CONTROLS, _answer, _view,
    presets={name: {"words": words_} for name, words_ in _PRESETS.items()},
)  # fmt: skip
