"""The page *Serve*: speed, cost and memory of serving a model."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from computeledger.errors import InputError
from computeledger.facts.load import bundled_system_id, model_ids, model_name, offered_systems
from computeledger.fields import question_from
from computeledger.interfaces.deployment_files import PASTED, given_by_text
from computeledger.interfaces.view import View
from computeledger.interfaces.views import view_of
from computeledger.interfaces.views.commands import command_facts
from computeledger.interfaces.web.ask import ask_question, boxes_of_question
from computeledger.interfaces.web.controls import TIME_PER_TOKEN, choices, controls_of, real_presets
from computeledger.interfaces.web.listed import WEIGHT_FORMATS
from computeledger.interfaces.web.spec import PLAN, Answer, Page, Values, with_times
from computeledger.questions.answers.serving.answer import answer_serve
from computeledger.questions.answers.serving.commands import command_document, command_remarks
from computeledger.questions.wording import figure_words
from computeledger.workloads.commands.read import FIELD_OF
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.questions.setup import BACKENDS

_CONTROLS = controls_of(ServeQuestion, {
    "model": choices(model_ids, model_name, "deepseek-ai/DeepSeek-V3"),
    "system": choices(offered_systems, bundled_system_id, "h200-nvl8"),
    "gpus": {"is_power": True},
    "layout": {"help": "tp8: each matrix split over 8 GPUs; dp2: 2 groups of them; ep8: experts spread over 8. Empty: "
               "searched."},
    "batch": {"ends": ("fast mode, dear", "slow mode, cheap")},
    "tpot": {**TIME_PER_TOKEN, "blank": "none",
             "help": "Where the batch is searched; or a speed, in tokens/s for each user."},
    "ttft": {"help": "For a share of requests, state a load too."},
    "e2e": {"blank": "none", "help": ""},
    "input_tokens": {},
    "cached_tokens": {"has_zero": True},
    "output_tokens": {},
    "requests_per_s": {},
    "backend": {"kind": "choice", "choices": ("", *BACKENDS)},
    "precision": {"kind": "choice", "choices": ("", *WEIGHT_FORMATS), "blank": "as stored"},
    "kv_precision": {"kind": "choice", "choices": ("bf16", "fp8")},
    "price": {"follows": "system", "blank": "rent", "help": "Empty: rent of the price edition."},
    "mode": {},
    "anchor": {"help": "Such as batch=32,isl=1024,osl=1024,tpot=21ms,layout=tp8; several with ; between them."},
    "draft_tokens": {"log": False},
    "tokens_per_step": {"log": False},
})  # fmt: skip


def _answer(values: Values, working: bool) -> Answer:
    return ask_question("serve", ServeQuestion, answer_serve, with_times(_CONTROLS, values), working)


#: Boxes that a launch decides, beside those of its flags.
_OF_A_LAUNCH = (*FIELD_OF.values(), "backend", "backend_version", "gpus", "system", "prefill_layout")


def _alone(found: re.Match[str]) -> str:
    """What a page can do where a command would be told a name."""
    return "; paste one of them alone" if found[1].startswith("name") else "; models are those of the box"


def _read(text: str, system: str) -> dict[str, Any]:
    """Boxes that a pasted launch decides, and what became of every flag; its other boxes stand at their defaults."""
    try:
        question = question_from(ServeQuestion, given_by_text(text, system), lambda one: one.option)
    except InputError as error:
        said = re.sub(rf"^--from-(command|file)( {PASTED}(?=:))?:? ?", "", str(error))
        raise InputError(re.sub(r"; (name one, such as|or add --model beside it).*", _alone, said)) from None
    boxes = boxes_of_question(question)
    names = {name.replace("_", "-") for name in _OF_A_LAUNCH}
    remarks = [("Remark", one) for one in command_remarks(question)]
    return {
        "values": {one.name: boxes.get(one.name, one.default) for one in _CONTROLS if one.name in names},
        "said": [*remarks, *command_facts(command_document(question))],
    }


def _view(answer: Answer) -> View:
    """As the command's, with the tokens of a request before the rest: on the page their boxes may be out of sight."""
    view, document = view_of(answer.source), answer.document
    read, written = (figure_words(document[f"{name}_tokens"], "") for name in ("input", "output"))
    return dataclasses.replace(view, context=f"Requests of {read} tokens in, {written} out. {view.context}".strip())


PAGE = Page(
    "serve",
    "Serve",
    "How fast and how cheaply is a model served, and what is the bottleneck?",
    _CONTROLS,
    _answer,
    _view,
    read=_read,
    short="How fast and cheaply is it served?",
    section=PLAN,
    is_ahead=True,
    presets={
        **real_presets("serve"),
        "DeepSeek-V3 on a GB200 rack": {"model": "deepseek-ai/DeepSeek-V3", "system": "gb200-nvl72", "gpus": "72"},
        "Fast mode: one user": {"model": "deepseek-ai/DeepSeek-V3", "system": "gb200-nvl72", "gpus": "8", "batch": "1"},
        "Slow mode: as cheap as it gets": {"system": "gb200-nvl72", "gpus": "72", "tpot": "200"},
        "Llama 3.3 70B on eight H200": {
            "model": "meta-llama/Llama-3.3-70B-Instruct",
            "system": "h200-nvl8",
            "gpus": "8",
        },
        "Long context": {"input-tokens": "65536", "output-tokens": "2048"},
    },
)
