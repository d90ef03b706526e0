"""The page *Route*: which model, or which order of models, finishes a task most cheaply."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from computeledger.economics.routing.measured import (
    MEASURED_AGENT,
    MEASURED_MODEL_CORRELATION,
    MEASURED_TASKS,
    TOLD_CASCADES,
    TOLD_COST_ERROR,
    TOLD_MODELS,
    TOLD_SUCCESS_ERROR,
    MeasuredModel,
    measured_models,
)
from computeledger.economics.routing.task import route_of
from computeledger.errors import InputError
from computeledger.facts.reading import Document
from computeledger.interfaces.view import Cell, Evidence, Table, cited
from computeledger.interfaces.views import view_of
from computeledger.interfaces.web.spec import JUDGE, Answer, Control, ControlError, Page, Values, View
from computeledger.questions.answers.route import answer_case
from computeledger.questions.policies import order_words
from computeledger.questions.wording import listed, percent, words
from computeledger.sources import load_sources

#: The two models by the first part of the names of their boxes, and who they are at first.
_MODELS = {"small": "DeepSeek V4 Pro", "large": "Claude Opus 4.8"}
#: The choice of a model that nobody measured; it goes by the first part of the names of its boxes.
OWN = "my own numbers"
#: What a person and a failure cost until a reader says so: an example.
_EXAMPLE_USD = "60"
_PER_MODEL = (
    ("success", "Completes", "fraction", 0.01, 0.99),
    ("usd_per_attempt", "One try", "USD", 0.001, 50.0),
    ("seconds", "Takes", "s", 1.0, 7200.0),
)
#: What stands for a model of one's own until its boxes say more.
_OWN = {
    "small": {"success": "0.35..0.5", "usd_per_attempt": "0.02..0.04", "seconds": "25"},
    "large": {"success": "0.7..0.78", "usd_per_attempt": "0.3..0.4", "seconds": "90"},
}


def _of_a_model(model: str, group: str) -> tuple[Control, ...]:
    """The boxes of a model: who it is, then what was measured of it unless something else is typed."""
    return (
        Control(f"{model}.model", "Model", "choice", default=_MODELS[model], choices=(*measured_models(), OWN),
                group=group),
        *(Control(f"{model}.{key}", label, unit=unit, low=low, high=high, log=key != "success", group=group,
                  follows=f"{model}.model", blank="as measured") for key, label, unit, low, high in _PER_MODEL),
        Control(f"{model}.retry_correlation", "Its tries fail alike", unit="correlation", default="0.5..0.85", low=0.05,
                high=0.99, group=group, log=False, help="Two tries at one task; 0 is independent."),
    )  # fmt: skip


_CONTROLS = (
    Control("fallback.usd", "A person", unit="USD", default=_EXAMPLE_USD, low=0.1, high=500, group="What failing costs",
            help="Takes over what no model finishes."),
    Control("fallback.seconds", "Takes", unit="s", default="3600", low=10, high=100000, group="What failing costs"),
    Control("task.failure_usd", "A task not completed", unit="USD", default=_EXAMPLE_USD, low=0.01, high=500,
            group="What failing costs", blank="nothing",
            help="What it costs besides that one is delivered wrong, or given up."),
    *_of_a_model("small", "A model"),
    *_of_a_model("large", "Another model"),
    Control("verifier.usd", "One check", unit="USD", default="0.01", low=0.0001, high=10, group="The check"),
    Control("verifier.seconds", "Takes", unit="s", default="60", low=0.1, high=7200, group="The check"),
    Control("verifier.false_accept", "Lets wrong ones pass", unit="fraction", default="0.1", low=0, high=0.5, log=False,
            group="The check"),
    Control("verifier.false_reject", "Refuses right ones", unit="fraction", default="0.05", low=0, high=0.5, log=False,
            group="The check"),
    Control("task.latency_usd_per_hour", "An hour of waiting", unit="USD", default="2", low=0.1, high=500,
            group="Otherwise"),
    Control("task.min_success", "Must complete", unit="fraction", low=0.05, high=0.99, log=False, group="Otherwise",
            blank="as the best model", help="Share of the tasks; empty: as many as the best single model."),
    Control("task.max_tries", "Tries of a model", default="2", low=1, high=8, whole=True, log=False, group="Otherwise",
            help="At most."),
    Control("task.model_correlation", "Models fail alike", unit="correlation", default=MEASURED_MODEL_CORRELATION,
            low=0.05, high=0.99, log=False, group="Otherwise", help="0: what one cannot do says nothing of the other."),
)  # fmt: skip


def _filled(values: Values) -> Values:
    """The boxes with what was measured of a model, or stands for one's own, where they are empty."""
    known: Values = {}
    for model, first in _MODELS.items():
        one = measured_models().get(values.get(f"{model}.model", first))
        figures = _OWN[model] if one is None else _measured(one)
        known |= {f"{model}.{key}": text for key, text in figures.items()}
        given = [key for key, *_ in _PER_MODEL if f"{model}.{key}" in values]
        known = {name: text for name, text in known.items() if name != f"{model}.source" or not given}
    return known | values


def _measured(one: MeasuredModel) -> Values:
    return {
        "success": f"{one.solved} of {one.tasks}", "usd_per_attempt": f"{one.attempt_usd:g}",
        "seconds": f"{one.attempt_s:g}", "failed_cost_ratio": f"{one.failed_cost_ratio:g}",
        "source": f"{one.source}, {one.submitted}, {one.locator}",
    }  # fmt: skip


def task_text(values: Values) -> str:
    """The TASK.toml that the controls describe.

    Examples
    --------
    >>> print(task_text({"small.model": OWN, "small.success": "37 of 90", "task.failure_usd": "10"}), end="")
    [task]
    failure_usd = 10.0
    <BLANKLINE>
    [[model]]
    name = "small"
    success = [37, 90]
    <BLANKLINE>
    [[model]]
    name = "Claude Opus 4.8"
    """
    sections: dict[str, list[str]] = {"task": [], "verifier": [], "fallback": [], **{name: [] for name in _MODELS}}
    for name, text in values.items():
        section, _, key = name.partition(".")
        if key != "model":
            sections[section].append(f"{key} = {_number(text)}")
    parts = [
        "\n".join([f'[[model]]\nname = "{_called(name, values)}"' if name in _MODELS else f"[{name}]", *lines])
        for name, lines in sections.items()
        if lines or name in _MODELS
    ]
    return "\n\n".join(parts) + "\n"


def _called(model: str, values: Values) -> str:
    """The name of a model; of one's own the first part of the names of its boxes."""
    said = values.get(f"{model}.model", _MODELS[model])
    return model if said == OWN else said


def _number(text: str) -> str:
    """A number as TOML writes one, counts as a list, and anything else as a text for the engine to judge."""
    if counts := re.fullmatch(r"(\d+) of (\d+)", text):
        return f"[{counts[1]}, {counts[2]}]"
    try:
        return repr(float(text)) if float(text) < float("inf") else f"'{text}'"
    except ValueError:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _answer(values: Values, working: bool) -> Answer:
    names = [_called(model, values) for model in _MODELS]
    if names[0] == names[1]:
        raise ControlError("large.model", f"Another model {names[1]!r}: the same twice; choose two models")
    text = task_text(_filled(values))
    try:
        case = route_of(Document("TASK.toml", text, tomllib.loads(text), shipped=False), Path())
    except InputError as error:
        raise _blamed(str(error), values) from None
    found = answer_case(case)
    return Answer(found.to_dict(working=working), "computeledger route TASK.toml", found, text)


def _blamed(said: str, values: Values) -> ControlError:
    """What is wrong with a task, said of the box that a reader sees.

    Examples
    --------
    >>> (error := _blamed("TASK.toml:3: task.failure_usd: -3.0: expected a number that is not negative", {})).control
    'task.failure_usd'
    >>> str(error)
    'A task not completed -3.0: expected a number that is not negative'
    >>> str(_blamed("TASK.toml:19: Claude Opus 4.8.success: 2: a probability must lie in 0..1", {}))
    'Claude Opus 4.8 completes 2: a probability must lie in 0..1'
    """
    said = re.sub(r"^TASK\.toml(:\d+)?: ", "", said)
    boxes = {one.name: one.label for one in _CONTROLS}
    for section in dict.fromkeys(name.partition(".")[0] for name in boxes):
        called = _called(section, values) if section in _MODELS else section
        for name, label in boxes.items():
            key = f"{called}.{name.partition('.')[2]}: "
            if name.startswith(f"{section}.") and said.startswith(key):
                shown = f"{called} {label[:1].lower()}{label[1:]}" if section in _MODELS else label
                return ControlError(name, f"{shown} {said.removeprefix(key)}")
    return ControlError("", said)


_SUPPORT = {
    "small.model": OWN, "large.model": OWN, "verifier.usd": "0.002", "verifier.seconds": "20", "fallback.usd": "6",
    "fallback.seconds": "1800", "task.failure_usd": "10", "task.max_tries": "4", "task.model_correlation": "0.4..0.85",
}  # fmt: skip
_EXAMPLES: dict[str, Values] = {
    "Claude, DeepSeek": {},
    "GPT-5.4, GPT-5.5": {"small.model": "GPT-5.4", "large.model": "GPT-5.5"},
    "No person": {"fallback.usd": "", "fallback.seconds": ""},
    "A poor check": {"verifier.false_accept": "0.3", "verifier.false_reject": "0.2"},
    "Free failures": {"task.failure_usd": ""},
    "Invented models": _SUPPORT,
}


@functools.cache
def _example_texts() -> frozenset[str]:
    """The tasks that the examples describe."""
    default = {one.name: one.default for one in _CONTROLS}
    return frozenset(
        task_text(_filled({name: text for name, text in (default | values).items() if text}))
        for values in _EXAMPLES.values()
    )


def _view(answer: Answer) -> View:
    """The answer, with what was measured of its models, and told to be an example as long as the numbers are one's."""
    view = view_of(answer.source)
    models = answer.source.case.models
    chosen = {
        f"{slot}.{key}": text
        for slot, one in zip(_MODELS, models, strict=True)
        for key, text in _placeholders(one.name, slot).items()
    }
    shown = [measured_models()[one.name] for one in models if one.source]
    is_example = answer.plan in _example_texts()
    if not shown:
        context = f"{view.context[:1].lower()}{view.context[1:]}"
        context = f"Invented numbers, until you put in yours: {context}" if is_example else view.context
        return replace(view, context=context, chosen=chosen)
    order = order_words(answer.document)
    context = f"{order} {_with_examples(view.context.removeprefix(order).strip(), answer)}".strip()
    facts = tuple((one.model, _measured_words(one)) for one in shown)
    whose = "Measured" if len(shown) == len(models) else f"{shown[0].model}: measured"
    evidence = _evidence(whose, shown, _check_words(answer))
    return replace(view, context=context, facts=(*facts, *view.facts), chosen=chosen, evidence=evidence,
                   grounds=(*_read(shown), *view.grounds))  # fmt: skip


def _with_examples(context: str, answer: Answer) -> str:
    """The context after which of its costs are examples, as long as nobody gave others."""
    task = tomllib.loads(answer.plan or "")
    costs = {"a person": task.get("fallback", {}).get("usd"), "a failure": task.get("task", {}).get("failure_usd")}
    cost = words(float(_EXAMPLE_USD), "USD")
    said = [f"{cost} for {name}" for name, usd in costs.items() if usd == float(_EXAMPLE_USD)]
    if not said:
        return context
    first, _, near = context.partition(". ")
    rest = near if "a failure" in said[-1] and " costs " in first else context
    counted = ", both counted in," if said[1:] else ", counted in," if "a failure" in said[0] else ""
    are = f"{listed(said)}{counted} {'are examples' if said[1:] else 'is an example'}"
    return f"{are}. {rest}".rstrip()


def _read(shown: Sequence[MeasuredModel]) -> tuple[str, ...]:
    """Where what was measured of models was read."""
    return tuple(
        f"success, cost and time of a try of {one.model}: {load_sources()[one.source].title}, {one.submitted}, "
        f"{one.locator}"
        for one in shown
    )


def _check_words(answer: Answer) -> str:
    """How often the check errs, as a guess as long as nobody gave other numbers."""
    given = tomllib.loads(answer.plan or "").get("verifier", {})
    usual = {one.name.rpartition(".")[2]: one.default for one in _CONTROLS if one.name.startswith("verifier.")}
    shares = [given.get(name, 0.0) for name in ("false_accept", "false_reject")]
    if not any(isinstance(one, str) or one for one in shares):
        return "your check never errs"
    passed, refused = (percent(one) if isinstance(one, float) else str(one) for one in shares)
    is_guess = all(str(given.get(name)) == usual[name] for name in ("false_accept", "false_reject"))
    return f"{'a guess' if is_guess else 'yours'}: the check passes {passed} of wrong work, refuses {refused} of right"


def _evidence(whose: str, shown: Sequence[MeasuredModel], check: str) -> Evidence:
    """On which tasks models were measured, how well cascades of such models were told, and what is a guess."""
    success, cost = percent(TOLD_SUCCESS_ERROR), percent(TOLD_COST_ERROR)
    return Evidence(
        f"{whose} on {shown[0].tasks} tasks of {MEASURED_TASKS}; cost of such cascades told to within {cost}; {check}.",
        f"Measured with {MEASURED_AGENT}. Half of {TOLD_CASCADES:,} cascades of two of {TOLD_MODELS} models were "
        f"predicted to within {cost} in cost and {success} in the share completed, from the other half of the tasks, "
        "with a check that never errs. Check, person and what a failure "
        "costs are as right as you give them: see whether the advice stays at the worst you believe.",
        tables=(Table("What was measured", _MEASURED_COLUMNS, [_measured_row(one) for one in shown]),),
    )


_MEASURED_COLUMNS = ("model", "completed #", "a try #", "takes #", "source")


def _measured_row(one: MeasuredModel) -> list[str | Cell]:
    """What was measured of a model, with its source."""
    return [
        one.model,
        Cell(f"{one.solved} of {one.tasks}", below="each tried once"),
        Cell(words(one.attempt_usd, "USD", 2), below=f"a failed one {one.failed_cost_ratio:.2g} times a solved one"),
        words(one.attempt_s, "s", 2),
        cited(one.source, f"{one.submitted}, {one.locator}"),
    ]


def _placeholders(name: str, slot: str) -> Values:
    """What stands for the empty boxes of a model."""
    one = measured_models().get(name)
    if one is None:
        return _OWN[slot]
    return {
        "success": f"{one.solved / one.tasks:.3g}", "usd_per_attempt": f"{one.attempt_usd:g}",
        "seconds": f"{one.attempt_s:g}",
    }  # fmt: skip


def _measured_words(one: MeasuredModel) -> str:
    """What was measured of a model, and where."""
    cost, takes = words(one.attempt_usd, "USD", 2), words(one.attempt_s, "s", 2)
    tried = f"completed {one.solved} of {one.tasks} tasks, each tried once, for {cost} and in {takes} a try"
    return f"{tried}; {load_sources()[one.source].publisher}, {one.submitted}"


PAGE = Page(
    "route", "Route", "Which models finish a task most cheaply?", _CONTROLS,
    _answer, _view,
    short="Which model is the cheapest?", section=JUDGE, presets=_EXAMPLES,
    invites="Say what a person and a failure cost you, then pick two models.", opener="Put in your numbers",
)  # fmt: skip
