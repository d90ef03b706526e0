"""Words of who calls tools: arguments in place of options, tools in place of commands, objects in place of TOML."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

from computeledger.fields import fields_of, python_spelling, without_brackets
from computeledger.interfaces.mcp.named import LEFT_OUT, QUESTIONS, question_of, tool_of

#: What an engine calls its own options, as a description repeats them.
_OF_ENGINES = re.compile(r"(\([^()]*vLLM[^()]*\))")


def tool_words(message: str) -> str:
    """An error in the words of who calls tools; a command that no tool stands for keeps its own.

    Examples
    --------
    >>> tool_words("--by 'chp': no such column; `computeledger facts search WORD` finds chips")
    "by 'chp': no such column; the tool search_facts finds chips"
    >>> tool_words("--profile 'x': `computeledger calibrate --write FOLDER` makes one")
    "profile 'x': `computeledger calibrate --write FOLDER` makes one"
    """
    return without_brackets(python_spelling(re.sub(r"`([^`]*)`", lambda found: _tool_or_command(found[1]), message)))


def _tool_or_command(command: str) -> str:
    tool = tool_of(command if command.startswith("computeledger ") else f"computeledger {command}")
    options = {one.replace("-", "_") for one in re.findall(r"--([a-z0-9-]+)", command)}
    return f"the tool {tool}" if tool and not options & LEFT_OUT else f"`{command}`"


def described_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema whose descriptions spell options as arguments; options of engines and of the server stay.

    Examples
    --------
    >>> described_arguments({"description": "Time in service; with --rate (vLLM: --rate, --eager)."})
    {'description': 'Time in service; with rate (vLLM: --rate, --eager).'}
    """
    return {key: _described(key, value) for key, value in schema.items()}


def _described(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return described_arguments(value)
    if isinstance(value, list):
        return [_described(key, one) if isinstance(one, Mapping) else one for one in value]
    if key != "description" or not isinstance(value, str):
        return value
    return "".join(part if _OF_ENGINES.fullmatch(part) else _arguments(part) for part in _OF_ENGINES.split(value))


def _arguments(said: str) -> str:
    def spelt(found: re.Match[str]) -> str:
        name = found[1].replace("-", "_")
        return name if name in _names() else found[0]

    return re.sub(r"--([a-z][a-z0-9-]*)", spelt, said)


@functools.cache
def _names() -> frozenset[str]:
    """Every argument of every tool."""
    return frozenset(name for one in QUESTIONS for name in fields_of(question_of(one)))
