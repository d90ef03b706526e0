"""The page *Accuracy*: how far answers are off what they were not fitted on."""

from __future__ import annotations

from typing import Any

from computeledger.facts.load import accelerator_called
from computeledger.interfaces.views.display_names import chip_name
from computeledger.interfaces.web.ask import ask_question
from computeledger.interfaces.web.controls import controls_of
from computeledger.interfaces.web.spec import EVIDENCE, Answer, Page, Values
from computeledger.questions.accuracy import AccuracyQuestion
from computeledger.questions.answers.accuracy import answer_accuracy, values_of
from computeledger.validation.accuracy.table import NEW_PAIR, published


def _choice(name: str) -> dict[str, Any]:
    return {"kind": "choice", "choices": ("", *values_of(published(), name)), "help": ""}


def _chips() -> dict[str, Any]:
    """The box of accelerators, which takes what people call them too."""
    ids = _choice("accelerator")["choices"][1:]
    names = {said: one for one in ids for said in (chip_name(one), chip_name(one).lower())
             if (chip := accelerator_called(said)) is not None and chip.id == one}  # fmt: skip
    return {**_choice("accelerator"), "renamed": names}


_CONTROLS = controls_of(AccuracyQuestion, {
    "workload": {"help": ""}, "tuning": {"help": "Of serving: other people's, or the public recipes."},
    "left_out": {"help": "What the fit had not seen: usually whole sources.", "blank": "usual"},
    "engine": _choice("engine"), "accelerator": _chips(), "family": _choice("family"),
    "model": {"help": "Ids, with commas."},
    **{name: _choice(name) for name in ("source", "load", "statistic")},
    "quantity": {"help": "tpot is time per output token, ttft to the first; with commas."},
})  # fmt: skip


def _answer(values: Values, working: bool) -> Answer:
    return ask_question("accuracy", AccuracyQuestion, answer_accuracy, values, working)


PAGE = Page(
    "accuracy",
    "Accuracy",
    "How far off are these answers, and do their intervals hold?",
    _CONTROLS,
    _answer,
    short="How far off are these answers?",
    section=EVIDENCE,
    presets={
        "Serving, training and RL": {},
        "The public recipes": {"tuning": "recipe"},
        "Recipes, a new model and chip": {"tuning": "recipe", "left-out": NEW_PAIR},
        "vLLM on H100": {"engine": "vllm", "accelerator": "h100-sxm5-80gb"},
        "Chips of AMD: MI300X": {"accelerator": "mi300x"},
        "Local engines": {"workload": "local"},
        "Training": {"workload": "training"},
        "Reinforcement learning": {"workload": "rl"},
        "Memory": {"workload": "memory"},
    },
)
