"""From the fields of a question to a command's options, and from its answer to what the command prints."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from computeledger.errors import InputError
from computeledger.fields import SWITCH, TEXTS, Field, Record, fields_of, question_from, said_default
from computeledger.interfaces.options import NEEDED, SectionedOption, online_option, print_json
from computeledger.writing import check_unread

if TYPE_CHECKING:
    from computeledger.questions.answer import Answer

_Q = TypeVar("_Q", bound=Record)
#: Fields that stand last in a command's help.
_LAST = ("samples", "seed", "workers", "cluster")
#: What stands for a value in the help, where its field does not say.
_METAVARS = {"whole": "N", "count": "N", "fraction": "F", "s": "T"}

#: Options that print more than one line, as they are spelt.
_NOT_BRIEF = {"as_json": "--json", "working": "--working", "emit": "--emit", "is_whole": "--all"}

#: Fields that name a model, or a file that does.
_NAMES_MODELS = {"model", "plan"}

report_option = click.option("--html", metavar="FILE", help="Write the report as one self-contained HTML file.")


def question_options(question: type[Record], leave_out: tuple[str, ...] = ()) -> Callable[[Any], Any]:
    """Give a command an option for each field of a question; those left out are its arguments."""

    def decorate(command: Any) -> Any:
        """Add them in the order of their declaration."""
        known = [one for name, one in fields_of(question).items() if name not in leave_out]
        for one in [
            *(one for one in reversed(known) if one.name in _LAST),
            *(one for one in reversed(known) if one.name not in _LAST),
        ]:
            for alias in one.aliases:
                command = _option(one, f"--{alias.replace('_', '-')}", hidden=True)(command)
            command = _option(one, one.option)(command)
        return online_option(command) if _NAMES_MODELS & set(fields_of(question)) else command

    return decorate


def _option(one: Field, spelt: str, hidden: bool = False) -> Callable[[Any], Any]:
    name = spelt.removeprefix("--").replace("-", "_")
    given: dict[str, Any] = {"is_flag": True, "default": None}
    if one.dimension != SWITCH:
        metavar = one.metavar or "|".join(one.choices) or _METAVARS.get(one.dimension)
        given = {"multiple": one.dimension == TEXTS, "metavar": metavar}
    section = NEEDED if one.is_required else one.group
    return click.option(spelt, name, cls=SectionedOption, section=section, help=_help(one), hidden=hidden, **given)


def _help(one: Field) -> str:
    if one.is_required:
        return f"{one.help}  [required]"
    default = said_default(one)
    return f"{one.help}  [default: {default}]" if default else one.help


def asked_by(question: type[_Q], options: Mapping[str, Any]) -> _Q:
    """The question that a command's options ask; errors spell fields as options.

    A report that would replace a file that the question names is refused before anything is worked out.
    """
    _check_output(options)
    known = fields_of(question)
    names = {*known, *(alias for one in known.values() for alias in one.aliases)}
    given = {name: value for name, value in options.items() if name in names and value is not None and value != ()}
    return question_from(question, given, lambda one: one.option)


def show_launched(answer: Answer, options: Mapping[str, Any], text: str, *, beside: bool) -> None:
    """Print a launch alone, and tables that were asked for ``beside`` it to standard error.

    A whole answer that was asked for (``--json``, ``--html``, ``--working``) holds the launch.
    """
    if not text or options["working"] or options["html"] or options["as_json"] or options.get("brief"):
        show_answer(answer, options)
        return
    click.echo(text)
    if beside:
        with contextlib.redirect_stdout(sys.stderr):
            show_answer(answer, options)


def show_answer(answer: Answer, options: Mapping[str, Any]) -> None:
    """Print an answer, and write its report where it is wanted."""
    working = bool(options.get("working"))
    report = options.get("html")
    _check_output(options)
    if report is not None:
        answer.to_html(report)
    if options["as_json"]:
        print_json(answer.to_dict(working=working or (report is not None and answer.has_working)))
        return
    if options.get("brief"):
        from computeledger.interfaces.view import brief

        view = answer.view()
        for warning in view.warnings:
            click.echo(warning, err=True)
        click.echo(brief(view))
        return
    from computeledger.interfaces.render.terminal import print_view

    print_view(answer.view(working=working), is_whole=bool(options.get("is_whole")))
    if report is not None:
        click.echo(f"report: {report}")


def _check_output(options: Mapping[str, Any]) -> None:
    """Refuse a report in place of a file that another option names, and two ways to print one answer."""
    for name, spelt in _NOT_BRIEF.items():
        if options.get("brief") and options.get(name):
            raise InputError(f"--brief prints one line: give it without {spelt}")
    report = options.get("html")
    if report is None:
        return
    given = [one for name, one in options.items() if name != "html"]
    parts = [part for one in given for part in (one if isinstance(one, tuple) else (one,))]
    check_unread(report, [part for part in parts if isinstance(part, str)])
