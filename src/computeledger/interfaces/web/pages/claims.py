"""The page *Claims*: statements of the source documents, held against the formulas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from computeledger.interfaces.view import Cell, View
from computeledger.interfaces.views import view_of
from computeledger.interfaces.views.claims import VERDICT_WORDS
from computeledger.interfaces.web.ask import ask_question
from computeledger.interfaces.web.controls import controls_of
from computeledger.interfaces.web.spec import EVIDENCE, Answer, Page, Values
from computeledger.questions.answers.claims import answer_claims
from computeledger.questions.claims import ClaimsQuestion

#: Verdicts on a number and on a conclusion, as the boxes and the address say them.
_VERDICTS = {kind: words for kind, (words, *_) in VERDICT_WORDS.items()}
#: Words that addresses said before.
_BEFORE = {"derived by us": "derived", "taken as given": "input", "too little stated": "not_checkable"}
_CONCLUSIONS = {
    "stands": "stands", "falls": "falls", "does_not_follow": "does not follow", "not_judged": "not judged",
}  # fmt: skip


def _in_words(names: Mapping[str, str], said: str, before: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The look of a box whose choices are words; those of the command, and those of before, are read too."""
    renamed = {key: name for key, name in names.items() if key != name}
    renamed |= {old: names[key] for old, key in (before or {}).items()}
    return {"choices": ("", *names.values()), "renamed": renamed, "help": said}


_CONTROLS = controls_of(
    ClaimsQuestion,
    {
        "words": {
            "kind": "text",
            "is_wide": True,
            "help": "",
            "blank": "words of a claim or its reason, such as B200",
        },
        "verdict": _in_words(_VERDICTS, "Whether the number holds.", _BEFORE),
        "conclusion": _in_words(_CONCLUSIONS, "Whether what the text concludes from it stands."),
        "ids": {"name": "id", "kind": "text", "help": "Its id, such as C030."},
    },
)


def _answer(values: Values, working: bool) -> Answer:
    coded = {
        name: next((code for code, said in names.items() if said == values[name]), values[name])
        for name, names in (("verdict", _VERDICTS), ("conclusion", _CONCLUSIONS))
        if name in values
    }
    return ask_question("claims", ClaimsQuestion, answer_claims, values | coded, working, argument="id")


def _view(answer: Answer) -> View:
    """Each claim of a list leads to a page of its own, with what it was recomputed from."""
    view = view_of(answer.source)
    tables = (replace(one, rows=[[_leading(cell) for cell in row] for row in one.rows]) for one in view.tables)
    return replace(view, tables=tuple(tables)) if view.plots else view


def _leading(cell: str | Cell) -> str | Cell:
    return replace(cell, href=f"/claims?id={cell.id}") if isinstance(cell, Cell) and cell.id else cell


PAGE = Page(
    "claims", "Claims", "Can you trust the round numbers on AI compute?", _CONTROLS, _answer, _view,
    short="Can you trust round numbers?", section=EVIDENCE, opener="More filters",
    search="words", is_list=True,
    presets={"All": {}, "Do not hold": {"verdict": "does not hold"},
             "On a condition": {"verdict": "holds on a condition"}},
)  # fmt: skip
