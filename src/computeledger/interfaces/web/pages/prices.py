"""The page *Prices*: what a price sheet reveals of the model behind it, and what it does not."""

from __future__ import annotations

from computeledger.interfaces.web.ask import ask_question
from computeledger.interfaces.web.controls import controls_of
from computeledger.interfaces.web.spec import Answer, Control, Page, Values
from computeledger.questions.answers.prices.invert import answer_invert
from computeledger.questions.invert import InvertQuestion

_CONTROLS = (
    *controls_of(InvertQuestion, {
        "input": {"unit": "USD/Mtok", "default": "3"},
        "output": {"unit": "USD/Mtok", "default": "15"},
        "threshold": {},
        "premium": {"unit": "x"},
        "premium_spread": {"unit": "log sd", "log": False},
        "fast_price": {"unit": "x"},
        "fast_speed": {"unit": "x"},
    }),
    Control("samples", "Samples", "choice", default="20000", choices=("20000", "50000", "200000"), group="Sampling"),
)  # fmt: skip


def _answer(values: Values, working: bool) -> Answer:
    return ask_question("invert", InvertQuestion, answer_invert, values, working)


PAGE = Page(
    "prices", "Prices", "What does a price sheet reveal of the model behind it?", _CONTROLS, _answer,
    presets={
        "$3 in, $15 out": {},
        "A small model": {"input": "0.1", "output": "0.4"},
        "The same, sold at 1.5 to 6 times the market": {"premium": "1.5..6"},
        "Dearer beyond 200K tokens": {"threshold": "200K"},
        "A fast mode at six times the price": {"fast-price": "6", "fast-speed": "2.5"},
    },
)  # fmt: skip
