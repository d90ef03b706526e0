"""The manual page of a command line, out of the options that its commands declare."""

from __future__ import annotations

from collections.abc import Iterator

import click

from computeledger.interfaces.options import CONTEXT


def manual(group: click.Group, name: str, version: str) -> str:
    r"""A page of section 1 in the language of man, every command below the group's own options.

    Examples
    --------
    >>> @click.group()
    ... def tool() -> None:
    ...     '''Count things.'''
    >>> @tool.command()
    ... @click.option("--all-of", metavar="N", help="How many.")
    ... def count(all_of: str) -> None:
    ...     '''Count them.'''
    >>> page = manual(tool, "tool", "1.0")
    >>> page.splitlines()[0]
    '.TH "TOOL" "1" "" "tool 1.0" ""'
    >>> ".SS tool count [OPTIONS]" in page and r"\-\-all\-of N" in page
    True
    """
    top = click.Context(group, info_name=name, **CONTEXT)
    lines = [f'.TH "{name.upper()}" "1" "" "{name} {version}" ""', ".SH NAME", _text(f"{name} - {_summary(group)}")]
    lines += [".SH SYNOPSIS", f".B {name}", _text(" ".join(group.collect_usage_pieces(top)))]
    lines += [".SH DESCRIPTION", *_paragraphs(group.help or ""), ".SH OPTIONS", *_options(group, top), ".SH COMMANDS"]
    lines += [line for below in _commands(group, top) for line in _section(below)]
    lines += [".SH EXIT STATUS", "0 done, 2 bad input, 1 any other error, 130 interrupted.", ""]
    return "\n".join(lines)


def _commands(group: click.Group, context: click.Context) -> Iterator[click.Context]:
    """Contexts of all commands, those of groups in place of the groups."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            continue
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, below)
        else:
            yield below


def _section(context: click.Context) -> list[str]:
    command = context.command
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    return [f".SS {_text(usage)}", *_paragraphs(command.help or ""), *_options(command, context)]


def _options(command: click.Command, context: click.Context) -> list[str]:
    records = [found for one in command.get_params(context) if (found := one.get_help_record(context)) is not None]
    return [line for spelt, said in records for line in (".TP", f".B {_text(spelt)}", _text(said) or " ")]


def _summary(group: click.Group) -> str:
    """The first paragraph in one line, without its full stop."""
    return " ".join((group.help or "").partition("\n\n")[0].split()).removesuffix(".")


def _paragraphs(text: str) -> list[str]:
    return [line for part in text.split("\n\n") if part.strip() for line in (".PP", _text(" ".join(part.split())))]


def _text(text: str) -> str:
    """Text in which no letter is an instruction."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe
