"""The page *Claims*: statements of the source documents, held against the formulas."""

from __future__ import annotations

from computeledger.interfaces.view import View
from computeledger.interfaces.views import view_of
from computeledger.interfaces.web.ask import ask_question
from computeledger.interfaces.web.controls import controls_of
from computeledger.interfaces.web.spec import EVIDENCE, Answer, Page, Values
from computeledger.questions.answers.claims import answer_claims
from computeledger.questions.claims import ClaimsQuestion

_CONTROLS = controls_of(
    ClaimsQuestion,
    {
        "words": {
            "kind": "text",
            "is_wide": True,
            "help": "",
            "blank": "words of a claim or its reason, such as B200",
        },
        "verdict": {},
        "conclusion": {},
        "ids": {"name": "id", "kind": "text", "help": "Its id, such as C030."},
    },
)


def _answer(values: Values, working: bool) -> Answer:
    return ask_question("claims", ClaimsQuestion, answer_claims, values, working, argument="id")


def _view(answer: Answer) -> View:
    return view_of(answer.source)


PAGE = Page(
    "claims", "Claims", "Do the numbers in five texts on compute hold?", _CONTROLS, _answer, _view,
    short="Do the numbers in five texts hold?", section=EVIDENCE,
    search="words",
    presets={"Every claim": {}, "What does not hold": {"verdict": "fails"},
             "What holds on a condition": {"verdict": "holds_if"},
             "Conclusions that fall": {"conclusion": "falls"},
             "Conclusions that do not follow": {"conclusion": "does_not_follow"}},
)  # fmt: skip
