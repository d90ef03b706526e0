"""From the values of controls to the command's own options and its answer: the web and the command line ask alike."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from computeledger.arrays import Range
from computeledger.errors import InputError
from computeledger.fields import SWITCH, TEXTS, Field, Given, Record, fields_of, question_from, read_value
from computeledger.interfaces.options import CONTEXT
from computeledger.interfaces.web.spec import Answer, Control, Values
from computeledger.progress import commanded
from computeledger.questions.answer import Answer as CommandAnswer
from computeledger.units import KILO

_Q = TypeVar("_Q", bound=Record)


def arguments_of(command: click.Command, values: Mapping[str, str]) -> list[str]:
    """Arguments of a command from values of controls, which are named as its options.

    Examples
    --------
    >>> arguments_of(click.Command("c", params=[click.Option(["--batch"])]), {"batch": "32"})
    ['--batch=32']
    """
    switches = {
        option.removeprefix("--")
        for one in command.params
        if isinstance(one, click.Option) and one.is_flag
        for option in (*one.opts, *one.secondary_opts)
    }
    options = {
        option.removeprefix("--")
        for one in command.params
        if isinstance(one, click.Option)
        for option in (*one.opts, *one.secondary_opts)
    }
    given = [
        f"--{name}" if name in switches else f"--{name}={text}" for name, text in values.items() if name in options
    ]
    rest = [text for name, text in values.items() if name not in options]
    return [*given, *(["--", *rest] if any(text.startswith("-") for text in rest) else rest)]


def ask(
    name: Sequence[str],
    command: click.Command,
    answer: Callable[[Mapping[str, Any]], dict[str, Any]],
    values: Values,
    working: bool,
) -> Answer:
    """Ask a command's question.

    Examples
    --------
    >>> command = click.Command("search", params=[click.Option(["--kind"])])
    >>> ask(["facts", "search"], command, dict, {"kind": "chip"}, False).command
    'computeledger facts search --kind=chip'
    """
    arguments = arguments_of(command, values)
    line = shlex.join(["computeledger", *name, *arguments])
    if working:
        arguments.insert(0, "--working")
    try:
        options = command.make_context(name[-1], arguments, **CONTEXT).params
    except click.ClickException as error:
        raise InputError(error.format_message()) from None
    return Answer(answer(options), line)


@dataclass(frozen=True, slots=True)
class Kind:
    """One of several questions that a page asks: its command, record and answer, its boxes, and its argument."""

    command: str
    question: type[Record]
    answer: Callable[[Any], CommandAnswer]
    boxes: tuple[str, ...]
    argument: str = ""


def about(kinds: Mapping[str, Kind]) -> Control:
    """The box that says which of a page's questions is asked."""
    return Control("about", "Ask about", "choice", default=next(iter(kinds)), choices=tuple(kinds))


def of_kinds(kinds: Mapping[str, Kind], controls: Sequence[Control]) -> tuple[Control, ...]:
    """Controls of a page with several questions: each is shown where a question takes it."""
    said = {
        name: "|".join(kind for kind, one in kinds.items() if name in one.boxes) for name in (c.name for c in controls)
    }
    return (about(kinds), *(replace(one, only=f"about={said[one.name]}") for one in controls))


def ask_kind(kinds: Mapping[str, Kind], values: Values, working: bool) -> Answer:
    """Ask the question of a page that its first box names."""
    one = kinds[values["about"]]
    asked = {name: text for name, text in values.items() if name in one.boxes}
    return ask_question(one.command, one.question, one.answer, asked, working, one.argument)


def spelt_options(one: Field, text: str) -> list[str]:
    """An option as it is written on a command line, once for each of several texts."""
    if one.dimension == SWITCH:
        return [one.option]
    return [f"{one.option}={part}" for part in (_several(text) if one.dimension == TEXTS else (text,))]


def _several(text: str) -> tuple[str, ...]:
    """Texts of one box, with semicolons between them."""
    return tuple(part.strip() for part in text.split(";") if part.strip())


def ask_question(
    name: str,
    question: type[_Q],
    answer: Callable[[_Q], CommandAnswer],
    values: Values,
    working: bool,
    argument: str = "",
) -> Answer:
    """Ask a question by the values of controls, which are named as its fields.

    Examples
    --------
    >>> from computeledger.questions.answers.serving.answer import answer_serve
    >>> from computeledger.workloads.questions.serve import ServeQuestion
    >>> values = {"model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "batch": "8"}
    >>> ask_question("serve", ServeQuestion, answer_serve, values, False).command
    'computeledger serve --model=llama-3.1-8b --system=h100-nvl8 --layout=tp1 --batch=8'
    """
    known = fields_of(question)
    named = {key.replace("-", "_"): text for key, text in values.items()}
    spelt = known | {alias: one for one in known.values() for alias in one.aliases}
    given: dict[str, Given] = {
        key: _several(text) if key in spelt and spelt[key].dimension == TEXTS else text for key, text in named.items()
    }
    asked = question_from(question, given, lambda one: one.option)
    changed = {
        key: text
        for key, text in named.items()
        if spelt[key].is_required or read_value(spelt[key], given[key], key) != read_value(spelt[key], None, key)
    }
    options = [
        part
        for key, text in changed.items()
        for part in ([text] if key == argument else spelt_options(spelt[key], text))
    ]
    command = shlex.join(["computeledger", *name.split(), *options])
    commanded(command)
    found = answer(asked)
    return Answer(found.to_dict(working=working), command, found)


def boxes_of_question(question: Record) -> dict[str, str]:
    """What the boxes of a page say to ask a question: fields with a box that are not their defaults.

    Examples
    --------
    >>> from computeledger.workloads.questions.serve import ServeQuestion
    >>> boxes_of_question(ServeQuestion(model="qwen3-8b", system="h100-nvl8", tpot="50ms", eager=True))
    {'model': 'qwen3-8b', 'system': 'h100-nvl8', 'eager': 'on', 'tpot': '50ms'}
    """
    said = {}
    for one in fields_of(type(question)).values():
        value = getattr(question, one.name)
        if one.label and value != one.default:
            said[one.name.replace("_", "-")] = _boxed(value, "s" if one.dimension == "s" else "")
    return said


def _boxed(value: Any, unit: str) -> str:
    if isinstance(value, bool):
        return "on" if value else ""
    if isinstance(value, Range):
        return f"{value.low:.6g}..{value.high:.6g}{unit}"
    if isinstance(value, tuple):
        return ";".join(value)
    if unit == "s" and isinstance(value, int | float) and 0 < value < 1:
        return f"{KILO * value:.12g}ms"
    return (
        f"{value:.12g}{unit}"
        if isinstance(value, int | float)
        else f"{value}{unit if unit and ':' in str(value) else ''}"
    )
