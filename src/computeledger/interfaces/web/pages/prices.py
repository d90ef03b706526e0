"""The page *Prices*: what a price sheet reveals of the model behind it, and what quality costs."""

from __future__ import annotations

from computeledger.interfaces.web.ask import Kind, ask_kind, of_kinds
from computeledger.interfaces.web.controls import controls_of
from computeledger.interfaces.web.spec import JUDGE, Answer, Control, Page, Values
from computeledger.questions.answers.prices.invert import answer_invert
from computeledger.questions.answers.prices.quality import answer_quality
from computeledger.questions.invert import InvertQuestion
from computeledger.questions.prices import QualityQuestion

_SHEET = (
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
_QUALITY = controls_of(QualityQuestion, {
    "at": {"log": False, "help": "What it costs over time; empty: all models.", "blank": "all models"},
    "benchmark": {"help": "Of that score."},
    "size_of": {"help": "A version, such as gpt-oss-120b: by its price and by its ability."},
    "inputs_per_output": {"unit": "tokens", "help": "In a blended price."},
    "no_reasoning": {"help": ""},
})  # fmt: skip
#: By what is asked about.
KINDS = {
    "a price sheet": Kind("invert", InvertQuestion, answer_invert, tuple(one.name for one in _SHEET)),
    "quality": Kind("prices quality", QualityQuestion, answer_quality, tuple(one.name for one in _QUALITY)),
}
_CONTROLS = of_kinds(KINDS, (*_SHEET, *_QUALITY))


def _answer(values: Values, working: bool) -> Answer:
    return ask_kind(KINDS, values, working)


PAGE = Page(
    "prices", "Prices", "What do prices reveal about the model behind them, and what does quality cost?", _CONTROLS,
    _answer,
    short="What do prices tell?", section=JUDGE,
    is_ahead=True,
    presets={
        "$3 in, $15 out": {},
        "A small model": {"input": "0.1", "output": "0.4"},
        "Sold at 1.5 to 6 × the market": {"premium": "1.5..6"},
        "Dearer beyond 200K tokens": {"threshold": "200K"},
        "A fast mode at 6 × the price": {"fast-price": "6", "fast-speed": "2.5"},
        "Who is strong for the price": {"about": "quality"},
        "60 % of GPQA diamond, over time": {"about": "quality", "at": "0.6"},
        "Sizes by price and ability": {"about": "quality", "size-of": "gpt-oss-120b"},
    },
)  # fmt: skip
