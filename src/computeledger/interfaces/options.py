"""Options that commands share, and how a document or a file is written."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from computeledger.errors import ComputeLedgerError, InputError, UnknownIdError, close_choices, nearest, shown
from computeledger.progress import Progress, listening

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_brief_option = click.option(
    "--brief",
    is_flag=True,
    help="Print one line: the main figure with its 90 % interval, two spaces, and what it is; else the headline.",
)


def answer_options(command: Any) -> Any:
    """How a command that answers a question prints it: whole, as one JSON document, or in one line."""
    return json_option(_brief_option(command))


working_option = click.option("--working", is_flag=True, help="Show formula, inputs and sources of every figure.")

whole_option = click.option("--all", "is_whole", is_flag=True, help="Print every row, in place of the summary.")


def _allow_online(context: click.Context, _parameter: click.Parameter, is_allowed: bool) -> None:
    from computeledger.facts.hub import online_allowed

    if is_allowed:
        context.with_resource(online_allowed())


online_option = click.option(
    "--online",
    is_flag=True,
    expose_value=False,
    callback=_allow_online,
    help="Fetch the configuration of a model that is not bundled from huggingface.co.",
)
seed_option = click.option("--seed", default=0, show_default=True, help="Seed of the sampling.")


def run_group(group: click.Group, name: str, arguments: Sequence[str] | None) -> None:
    """Run a command line and end: one line and exit code 2 for bad input, no traceback."""
    given = None if arguments is None else list(arguments)
    try:
        with listening(Progress(_spoken(name) if sys.stderr.isatty() else None)):
            code = group.main(args=given, prog_name=name, standalone_mode=False)
    except click.NoSuchOption as error:
        _fail(name, _unknown_option(error, sys.argv[1:] if given is None else given), 2)
    except click.MissingParameter as error:
        _fail(name, _needed(error), 2)
    except click.UsageError as error:
        _fail(name, _used(error), 2)
    except click.ClickException as error:
        _fail(name, error.format_message().replace("\n", " "), 2)
    except click.exceptions.Abort:
        _fail(name, "interrupted", 130)
    except InputError as error:
        _fail(name, str(error).replace("\n", " "), 2)
    except ComputeLedgerError as error:
        _fail(name, str(error), 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(name, f"{shown(error.filename or 'a file')}: {(error.strerror or 'cannot be used').lower()}", 2)
    sys.exit(code if isinstance(code, int) else 0)


def _spoken(name: str) -> Callable[[str], None]:
    """What says how far work is; a file or a pipe wants errors alone."""
    return lambda what: click.echo(f"{name}: {what}", err=True)


def _needed(error: click.MissingParameter) -> str:
    """Name what is missing as the usage of its command does."""
    if error.ctx is None or error.param is None:
        return error.format_message()
    named = error.param.make_metavar(error.ctx) if isinstance(error.param, click.Argument) else error.param.opts[0]
    return f"{named}: needed; `{error.ctx.command_path} --help` says what it takes"


def _unknown_option(error: click.NoSuchOption, given: Sequence[str]) -> str:
    """Say what was meant, or where the options of the command are listed; a number below zero is taken for one."""
    if error.ctx is None:
        return error.format_message()
    arguments = [one for one in error.ctx.command.get_params(error.ctx) if isinstance(one, click.Argument)]
    if arguments and re.match(r"-[\d.$]", error.option_name):
        whole = next((one for one in given if one.startswith(error.option_name)), error.option_name)
        return f"{arguments[0].make_metavar(error.ctx)} {shown(whole)}: must be positive"
    options = (one for one in error.ctx.command.get_params(error.ctx) if isinstance(one, click.Option))
    known = [spelt for one in options if not one.hidden for spelt in one.opts if spelt.startswith("--")]
    is_close = close_choices(error.option_name, known)
    rest = nearest(error.option_name, known) if is_close else f"`{error.ctx.command_path} --help` lists those it takes"
    if arguments and not is_close:
        usage = " ".join([error.ctx.command_path, *(one.make_metavar(error.ctx) for one in arguments)])
        rest = f"write `{usage}`; {rest}"
    return f"unknown option {shown(error.option_name)}: {rest}"


def _used(error: click.UsageError) -> str:
    """What is wrong with a command line; a word that has no place may belong to an option that is missing."""
    said = error.format_message().replace("\n", " ")
    found = re.fullmatch(r"Got unexpected extra arguments? \((.*)\)", said)
    if error.ctx is None or found is None:
        return said
    given, options = error.ctx.params, error.ctx.command.get_params(error.ctx)
    needed = [one for one in options if isinstance(one, SectionedOption) and one.section == NEEDED]
    missing = [one.opts[0] for one in needed if not given.get(str(one.name))]
    help_of = f"`{error.ctx.command_path} --help` says what it takes"
    rest = f"did you mean {missing[0]} {found[1]}?" if len(missing) == 1 else help_of
    return f"unexpected {shown(found[1])}: {rest}"


def _fail(name: str, message: str, code: int) -> None:
    message = re.sub(r"(\S{80})\S{200,}", r"\1...", message)  # what was given may be a whole file
    click.echo(_in_lines(f"{name}: {message}") if sys.stderr.isatty() else f"{name}: {message}", err=True)
    sys.exit(code)


def _in_lines(message: str) -> str:
    """A message for a terminal, broken between words; a file or a pipe gets one line."""
    width = max(shutil.get_terminal_size().columns, _LEAST_COLUMNS)
    return textwrap.fill(message, width, break_long_words=False, break_on_hyphens=False)


#: Columns below which no message is broken further.
_LEAST_COLUMNS = 40


class SectionedOption(click.Option):
    """An option that stands under a heading of its command's help."""

    def __init__(self, *given: Any, section: str, **options: Any) -> None:
        super().__init__(*given, **options)
        self.section = section


#: The section of what must be given, that of options without one, and sections that stand first and last.
NEEDED, _REST = "Needed", "Options"
_ORDER = {name: place for place, name in enumerate((NEEDED, "What", "How", "Load", "Promise", "Engine", "", _REST))}


class SectionedCommand(click.Command):
    """A command whose help has what must be given first, and then its options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section."""
        found: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is not None and isinstance(one, click.Option):
                section = one.section if isinstance(one, SectionedOption) else ""
                found.setdefault(section or _REST, []).append(record)
        for title in sorted(found, key=lambda name: _ORDER.get(name, _ORDER[""])):
            with formatter.section(title):
                formatter.write_dl(found[title])


class OnceGroup(click.Group):
    """A group whose commands refuse an option with two values where one is read: click takes the last in silence."""

    command_class = SectionedCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and check what it is told."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, click.Group):
            _refuse_repeated(command, click.Context(command, ctx, name, resilient_parsing=True), rest)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with the first sentence of each, whole: click cuts it at the width."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, one.get_short_help_str(1000)) for name, one in found if one is not None and not one.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _refuse_repeated(command: click.Command, context: click.Context, arguments: Sequence[str]) -> None:
    given = list(command.make_parser(context).parse_args(list(arguments))[2])
    for one in dict.fromkeys(given):
        if isinstance(one, click.Option) and not (one.multiple or one.count or one.is_flag) and given.count(one) > 1:
            raise InputError(f"{one.opts[0]}: given {given.count(one)} times; it takes one value")


class Commands(OnceGroup):
    """A group whose commands are read when they are called: a table by section says where each is and what it does."""

    def __init__(self, *given: Any, sections: Mapping[str, Mapping[str, tuple[str, str]]], **options: Any) -> None:
        super().__init__(*given, **options)
        self.sections = sections
        self.homes = {name: home for homes in sections.values() for name, home in homes.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's)
        """Names in the order of the alphabet."""
        return sorted(self.homes)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        """Read the module of a command."""
        if cmd_name not in self.homes:
            is_close = close_choices(cmd_name, self.homes)
            rest = nearest(cmd_name, self.homes) if is_close else f"`{ctx.command_path} --help` lists all"
            raise UnknownIdError(f"unknown command {shown(cmd_name)}: {rest}")
        module, name = self.homes[cmd_name][0].split(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (click's)
        """List the commands without reading them."""
        width = max(map(len, self.homes))
        for title, homes in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), said) for name, (_, said) in homes.items()])


def help_alone(context: click.Context) -> None:
    """A group that is called without a command prints its help."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(document, indent=2, allow_nan=False, default=float))


def _name_of(parameter: click.Parameter | None) -> str:
    return parameter.opts[0] if parameter is not None else ""


if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:  # click 8.1 has it without a type of its own
    _ParamType = click.ParamType


class Count(_ParamType):
    """A whole number as people write it anywhere here: 6K, 1,000, 1e5; within its ends where it has them."""

    name = "N"

    def __init__(self, least: int | None = None, most: int | None = None) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002 (click's)
        """Read one option; a default is a number already.

        Examples
        --------
        >>> COUNT.convert("6K", None, None)
        6000
        """
        if not isinstance(value, str):
            return value
        from computeledger.units import parse_quantity

        try:
            number = parse_quantity(value, "count", "")
        except InputError as error:
            raise InputError(f"{_name_of(param)} {error}") from None
        if not isinstance(number, float) or number % 1:
            raise InputError(f"{_name_of(param)} {shown(value)}: one whole number is expected")
        self._check(int(number), f"{_name_of(param)} {shown(value)}")
        return int(number)

    def _check(self, number: int, given: str) -> None:
        if self.least is not None and number < self.least:
            raise InputError(f"{given}: at least {self.least}")
        if self.most is not None and number > self.most:
            raise InputError(f"{given}: at most {self.most:,}")


COUNT = Count()
