"""The page *Route*: which model, or which order of models, finishes a task most cheaply."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import replace
from pathlib import Path

from computeledger.economics.routing.task import route_of
from computeledger.facts.reading import Document
from computeledger.interfaces.views import view_of
from computeledger.interfaces.web.spec import JUDGE, Answer, Control, Page, Values, View
from computeledger.questions.answers.route import answer_case

_MODELS = ("small", "large")
_PER_MODEL = (
    ("success", "Succeeds", "fraction", ("0.35..0.5", "0.7..0.78"), 0.01, 0.99),
    ("usd_per_attempt", "One try", "USD", ("0.02..0.04", "0.3..0.4"), 0.001, 50.0),
    ("seconds", "Takes", "s", ("25", "90"), 1.0, 7200.0),
    ("retry_correlation", "Its tries fail alike", "correlation", ("0.5..0.85", "0.5..0.85"), 0.05, 0.99),
)
_CONTROLS = (
    *(Control(f"{model}.{key}", label, unit=unit, default=defaults[place], low=low, high=high,
              log=key in ("usd_per_attempt", "seconds"), group=f"The {model} model",
              help="Two tries at one task; 0 is independent." if key == "retry_correlation" else "")
      for place, model in enumerate(_MODELS) for key, label, unit, defaults, low, high in _PER_MODEL),
    Control("verifier.usd", "One check", unit="USD", default="0.002", low=0.0001, high=10, group="The check"),
    Control("verifier.seconds", "Takes", unit="s", default="20", low=0.1, high=7200, group="The check"),
    Control("verifier.false_accept", "Lets wrong ones pass", unit="fraction", default="0.1", low=0, high=0.5, log=False,
            group="The check"),
    Control("verifier.false_reject", "Refuses right ones", unit="fraction", default="0.05", low=0, high=0.5, log=False,
            group="The check"),
    Control("fallback.usd", "A person", unit="USD", default="6", low=0.1, high=500, group="Otherwise",
            help="Takes over what no model finishes."),
    Control("fallback.seconds", "Takes", unit="s", default="1800", low=10, high=100000, group="Otherwise"),
    Control("task.latency_usd_per_hour", "An hour of waiting", unit="USD", default="2", low=0.1, high=500,
            group="Otherwise"),
    Control("task.failure_usd", "A task not completed", unit="USD", default="10", low=0.01, high=500,
            group="Otherwise", blank="nothing", help="What it costs besides that one is delivered wrong, or given up."),
    Control("task.min_success", "Must complete", unit="fraction", low=0.05, high=0.99, log=False, group="Otherwise",
            blank="as the best model", help="Share of the tasks; empty: as many as the best single model."),
    Control("task.model_correlation", "Models fail alike", unit="correlation", default="0.4..0.85", low=0.05, high=0.99,
            log=False, group="Otherwise", help="0: what one cannot do says nothing of the other."),
)  # fmt: skip


def task_text(values: Values) -> str:
    """The TASK.toml that the controls describe.

    Examples
    --------
    >>> print(task_text({"small.success": "0.5", "task.model_correlation": "0.4..0.8"}), end="")
    [task]
    model_correlation = "0.4..0.8"
    <BLANKLINE>
    [[model]]
    name = "small"
    success = 0.5
    <BLANKLINE>
    [[model]]
    name = "large"
    """
    sections: dict[str, list[str]] = {"task": [], "verifier": [], "fallback": [], **{name: [] for name in _MODELS}}
    for name, text in values.items():
        section, _, key = name.partition(".")
        sections[section].append(f"{key} = {_number(text)}")
    parts = [
        "\n".join([f'[[model]]\nname = "{name}"' if name in _MODELS else f"[{name}]", *lines])
        for name, lines in sections.items()
        if lines or name in _MODELS
    ]
    return "\n\n".join(parts) + "\n"


def _number(text: str) -> str:
    """A number as TOML writes one, and anything else as a text for the engine to judge."""
    try:
        return repr(float(text)) if float(text) < float("inf") else f"'{text}'"
    except ValueError:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _answer(values: Values, working: bool) -> Answer:
    text = task_text(values)
    case = route_of(Document("TASK.toml", text, tomllib.loads(text), shipped=False), Path())
    found = answer_case(case)
    return Answer(found.to_dict(working=working), "computeledger route TASK.toml", found, text)


_EXAMPLES: dict[str, Values] = {
    "Small, large, then a person": {},
    "No person to fall back on": {"fallback.usd": "", "fallback.seconds": ""},
    "A check that is often wrong": {"verifier.false_accept": "0.3", "verifier.false_reject": "0.2"},
    "A wrong result costs nothing": {"task.failure_usd": ""},
    "A wrong result is very dear": {"task.failure_usd": "50"},
    "An hour of waiting is dear": {"task.latency_usd_per_hour": "150"},
}


@functools.cache
def _example_texts() -> frozenset[str]:
    """The tasks that the examples describe."""
    default = {one.name: one.default for one in _CONTROLS}
    return frozenset(
        task_text({name: text for name, text in (default | values).items() if text}) for values in _EXAMPLES.values()
    )


def _view(answer: Answer) -> View:
    """The answer, told to be an example as long as the numbers are one's."""
    view = view_of(answer.source)
    if answer.plan not in _example_texts():
        return view
    context = f"{view.context[:1].lower()}{view.context[1:]}"
    return replace(view, context=f"An example until the numbers are yours: {context}")


PAGE = Page(
    "route", "Route", "Which models finish a task most cheaply?", _CONTROLS,
    _answer, _view,
    short="Which model is the cheapest?", section=JUDGE, presets=_EXAMPLES,
    invites="An example: put in your own numbers.", opener="Put in your numbers",
)  # fmt: skip
