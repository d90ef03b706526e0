"""The page *Think*: size, thinking and samples that reach a success at least cost, or with the least wait."""

from __future__ import annotations

from computeledger.facts.load import bundled_system_id, model_ids, model_name, offered_systems
from computeledger.interfaces.web.ask import ask_question
from computeledger.interfaces.web.controls import choices, controls_of, several
from computeledger.interfaces.web.spec import JUDGE, Answer, Page, Values
from computeledger.questions.answers.think import answer_think
from computeledger.questions.think import ThinkQuestion

#: Open models of many sizes whose success was published, as many as a chart tells apart.
_MODELS = "qwen3-8b; qwen3-14b; qwen3-32b; qwen3-30b-a3b; qwen3-235b-a22b; deepseek-r1"
_CONTROLS = controls_of(ThinkQuestion, {
    "success": {"log": False, "help": ""},
    "benchmark": {"help": ""},
    "model": {**several(model_ids, model_name, ";"),
              "default": _MODELS, "help": "Ids or numbers such as 30B-A3B, with ; between "
              "them; empty: eight of Qwen3."},
    "kind": {"help": "Of a model of which no success was published."},
    "pretraining_tokens": {"default": "15T", "help": "Where it was not published."},
    "false_accept": {"kind": "number", "low": 0.0, "high": 0.5, "log": False, "unit": "fraction",
                     "help": "Wrong answers that a check lets pass: 0 for a proof or complete tests."},
    "max_samples": {"kind": "number", "low": 1, "high": 1024, "is_power": True, "help": "Most answers per task."},
    "natural_tokens": {"help": "Tokens of a thought without a limit."},
    "input_tokens": {"help": ""},
    "system": {**choices(offered_systems, bundled_system_id, "h100-nvl8"), "help": "An id, or a count such as 2xl40s."},
    "price": {"follows": "system", "blank": "rent", "help": ""},
})  # fmt: skip


def _answer(values: Values, working: bool) -> Answer:
    return ask_question("think", ThinkQuestion, answer_think, values, working)


PAGE = Page(
    "think", "Think", "A larger model, or a smaller one that thinks longer or tries more often?", _CONTROLS, _answer,
    short="A larger model, or longer thinking?", section=JUDGE,
    is_ahead=True,
    presets={
        "80 % of AIME 2024": {},
        "With a check that never errs": {"false-accept": "0"},
        "60 % of GPQA diamond": {"success": "0.6", "benchmark": "gpqa-diamond"},
        "Two models that nobody published": {"model": "8B; 100B-A10B", "success": "0.7"},
    },
)  # fmt: skip
