"""The page *Sheet*: what scraps say of a closed model together, and which of them conflict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.facts.load import accelerator_ids, load_accelerator
from computeledger.fields import Field, fields_of
from computeledger.interfaces.web.ask import ask_question
from computeledger.interfaces.web.controls import choices, controls_of
from computeledger.interfaces.web.spec import JUDGE, Answer, Page, Values
from computeledger.questions.answers.frontier.closed import answer_sheet
from computeledger.questions.sheet import SheetQuestion


def _unknown(one: Field) -> dict[str, str]:
    """What stands in the empty box of a clue."""
    return {"blank": "not known"} if one.default is None and not one.blank else {}


_LOOKS: Mapping[str, Mapping[str, Any]] = {
    "price": {"default": "3/15", "help": "Input and output, USD per million tokens."},
    "price_date": {"help": "", "blank": "the release"},
    "premium": {"unit": "x", "help": "Over the open market's price, such as 1.5..6."},
    "speed": {"default": "80", "help": "Of one user."},
    "date": {"default": "2025-02-24", "help": ""},
    "score": {"help": "Such as gpqa-diamond=59%,otis-mock-aime=16% or eci=133.", "is_wide": True},
    "usd": {"help": "Of the final run."},
    "gpu_hours": {"help": "", "label": "Time", "unit": "GPU-hours"},
    "chips": {"help": "With the duration."},
    "power": {"help": "Of the facility, with the duration."},
    "duration": {"unit": "", "help": "Such as 95 days or 3..4 months."},
    "accelerator": {**choices(accelerator_ids, lambda given: load_accelerator(given).id, "h100-sxm5-80gb"), "help": ""},
    "utilization": {"help": "FLOP over dense bf16 peak."},
    "gpu_price": {"help": ""},
    "flop": {"help": "As claimed."}, "tokens": {"help": "As claimed."}, "total": {"help": "As claimed."},
}  # fmt: skip
_CONTROLS = controls_of(
    SheetQuestion, {name: {**_LOOKS.get(name, {}), **_unknown(one)} for name, one in fields_of(SheetQuestion).items()}
)


def _answer(values: Values, working: bool) -> Answer:
    return ask_question("sheet", SheetQuestion, answer_sheet, values, working)


PAGE = Page(
    "sheet", "Sheet", "How large is a closed model, by its prices, speed, leaks and release?", _CONTROLS, _answer,
    short="How large is a closed model?", section=JUDGE,
    presets={
        "Prices, speed and release": {},
        "A claim of 1e28 FLOP beside them": {"flop": "1e28"},
        "DeepSeek-V3 as if it were closed": {
            "price": "0.27/1.1", "speed": "", "date": "2024-12-26", "usd": "$5.6M", "accelerator": "h800-sxm5-80gb",
        },
        "Scores beside prices and release": {"speed": "", "date": "2024-10-22", "score": "gpqa-diamond=59%"},
        "A leaked cost alone": {"price": "", "speed": "", "date": "", "usd": "$100M"},
        "Chips and months": {"price": "", "speed": "", "date": "", "chips": "25K", "duration": "95 days",
                             "accelerator": "a100-sxm4-80gb"},
    },
)  # fmt: skip
