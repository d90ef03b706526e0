"""The page *Facts*: every figure with its source."""

from __future__ import annotations

import functools
import shlex

from computeledger.interfaces.web.spec import EVIDENCE, Answer, Control, Page, Values
from computeledger.questions.answers.facts import searched_facts
from computeledger.questions.answers.facts_search import search_facts

_PRESETS = {"What is known": "", "All of the H200": "h200", "Bandwidth of the H200": "h200 memory bandwidth",
            "Power of a chip": "tdp", "Rent of a GPU-hour": "rent", "Electricity": "electricity"}  # fmt: skip
_CONTROLS = (
    Control(
        "words",
        "Search the facts",
        "text",
        blank="h200 bandwidth",
        is_wide=True,
        help="Words of a record and of a fact, or their beginnings, such as h100 price.",
    ),
)


def _answer(values: Values, _working: bool) -> Answer:
    words = values.get("words", "").split()
    found = _found(" ".join(words)) if words else searched_facts()
    return Answer(found.to_dict(), shlex.join(["computeledger", "facts", "search", *words]), found)


_found = functools.lru_cache(maxsize=64)(search_facts)


PAGE = Page(
    "facts", "Facts", "What is known, and who says so?", _CONTROLS, _answer,
    short="What is known, and who says so?", section=EVIDENCE,
    search="words",
    presets={name: {"words": words_} for name, words_ in _PRESETS.items()},
)  # fmt: skip
