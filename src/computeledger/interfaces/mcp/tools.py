"""Questions as tools: schemas out of the fields that the questions declare, answers as documents and as text."""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import computeledger
from computeledger.errors import InputError, nearest, shown
from computeledger.fields import Field, described, fields_of, json_schema
from computeledger.files import check_user_file, without_user_files
from computeledger.interfaces.mcp.named import QUESTIONS, asked_fields, question_of, tool_of
from computeledger.interfaces.mcp.schemas import SCHEMAS
from computeledger.interfaces.mcp.wording import described_arguments, tool_words

if TYPE_CHECKING:
    from computeledger.questions.answer import Answer

#: Tool -> the tool that describes the fields that both have: a list of tools says them once.
_SAID_BY = {"simulate_serve": "serve"}
#: Asks for formula, inputs and source of every figure.
WORKING = "working"
_WORDS = {
    "type": "string",
    "description": "Words, or their beginnings; several narrow the list. Without: all there is.",
}


@dataclass(frozen=True, slots=True)
class Tool:
    """What an assistant may call.

    Attributes
    ----------
    name : str
        Of the function of ``computeledger`` that answers.
    schema : Mapping
        JSON Schema of its arguments.
    answer : Callable
        Takes the arguments, and gives the answer.
    said : str
        What it answers, where that is not what its function says.
    """

    name: str
    schema: Mapping[str, Any]
    answer: Callable[[dict[str, Any]], Answer]
    said: str = ""

    @property
    def description(self) -> str:
        """What it answers, as the documentation of its function begins; a call does not load all functions for it."""
        told = self.said or (getattr(computeledger, self.name).__doc__ or "").partition("\n\n")[0]
        return " ".join(told.split()).replace("``", "`")


@functools.cache
def tools() -> dict[str, Tool]:
    """Every tool by its name.

    Examples
    --------
    >>> found = tools()["serve"]
    >>> found.description, found.schema["required"]
    ('How fast and how cheap a model is served, and what binds.', ['model', 'system'])
    """
    asked = {name: _question_tool(name) for name in QUESTIONS}
    looked_up = {
        "guide": "What can be asked, and the command or page that answers it: ask it first where no tool seems to fit.",
        "search_facts": "Facts about accelerators, systems, models and prices by words, with their sources.",
    }
    found = {name: _lookup_tool(name, said) for name, said in looked_up.items()}
    return dict(sorted({**asked, **found}.items()))


def _question_tool(name: str) -> Tool:
    question, fields = question_of(name), asked_fields(name)
    schema = json_schema(question)
    said = fields_of(question_of(_SAID_BY[name])) if name in _SAID_BY else {}
    properties = {
        key: _or_tables(name, one, described({key: replace(one, help=f"As in {_SAID_BY[name]}.")})[key])
        if one == said.get(key) and not one.is_required
        else _or_tables(name, one, schema["properties"][key])
        for key, one in fields.items()
    }
    properties[WORKING] = {"type": "boolean", "description": "Give formula, inputs and source of each figure."}
    schema = described_arguments({**schema, "properties": properties})
    return Tool(name, schema, _caller(name))


def _or_tables(name: str, one: Field, schema: dict[str, Any]) -> dict[str, Any]:
    """A file whose tables may stand in the arguments themselves: their keys here, each described in a resource."""
    if not math.isfinite(one.most):  # the largest of its dimension, which few meet; who does is told
        schema = {key: part for key, part in schema.items() if key != "maximum"}
    schema = {key: part for key, part in schema.items() if key not in ("minimum", "exclusiveMinimum") or part}
    if not one.takes_record:
        return schema
    from computeledger.interfaces.mcp.schemas import short

    tables = short(one.name)
    if one.name == "plan" and name != "plan":  # said once
        tables = {"type": "object", "description": "Tables of a plan, as the tool plan takes them."}
    of_tables = "Its tables as an object; a path of a file only where the server was started with --files."
    return {"description": f"{schema.pop('description')} {of_tables}", "anyOf": [schema, tables]}


def _caller(name: str) -> Callable[[dict[str, Any]], Answer]:
    """Call the function that answers; tables of a plan or of offers may stand in the arguments themselves."""
    fields = asked_fields(name)
    whole = next((key for key, one in fields.items() if one.takes_record), None)

    def answer(given: dict[str, Any]) -> Answer:
        unknown = next((key for key in given if key not in fields), None)
        if unknown is not None:
            raise InputError(f"{shown(unknown)}: no argument of {name}; {nearest(unknown, (*fields, WORKING))}")
        if whole and fields[whole].is_required and whole not in given:
            raise InputError(f"{whole}: needed, its tables as an object; {SCHEMAS}{whole} describes each key")
        rest = {key: value for key, value in given.items() if key != whole}
        first = given.get(whole) if whole else None
        if isinstance(first, str):
            check_user_file(first, "pass its tables as an object, or start the server as `computeledger mcp --files`")
        if isinstance(first, Mapping) and whole == "plan":
            first = computeledger.read_plan(first)
        function = getattr(computeledger, name)
        found: Answer = function(**rest) if first is None else function(first, **rest)
        return found

    return answer


def _lookup_tool(name: str, description: str) -> Tool:
    def answer(given: dict[str, Any]) -> Answer:
        words: Any = given.get("words", "")
        unknown = next((key for key in given if key != "words"), None)
        if unknown is not None:
            raise InputError(f"{shown(unknown)}: no argument of {name}; allowed: words")
        if not isinstance(words, str):
            raise InputError(f"words {shown(words)}: expected a text")
        if name == "search_facts" and not words.strip():
            from computeledger.questions.answers.facts import searched_facts

            return searched_facts()
        found: Answer = getattr(computeledger, name)(words)
        return found

    schema = {
        "type": "object", "properties": {"words": _WORDS}, "required": [], "additionalProperties": False,
    }  # fmt: skip
    return Tool(name, schema, answer, description)


def _with_tools(found: Answer) -> Answer:
    """The guide with tools in place of commands, the command behind each."""
    from computeledger.questions.answers.guide import GuideAnswer

    if not isinstance(found, GuideAnswer):
        return found
    told = (
        (one, f"tool {tool}, as `{one.command}`" if (tool := tool_of(one.command)) else one.command)
        for one in found.found
    )
    return replace(found, found=tuple(replace(one, command=said) for one, said in told))


def call(name: str, given: Mapping[str, Any], *, has_files: bool = False) -> tuple[dict[str, Any], str]:
    """Answer a call: the document that ``--json`` prints, and the text that a terminal shows.

    Parameters
    ----------
    name : str
        Of the tool.
    given : Mapping
        Its arguments.
    has_files : bool
        Whether texts may name files of the user.

    Returns
    -------
    tuple of dict and str
        The document and the text.

    Raises
    ------
    InputError
        One line: what was given, what is allowed, the nearest valid choice.

    Examples
    --------
    >>> document, text = call("cost", {"accelerator": "h100-sxm5-80gb"})
    >>> document["accelerator"] in text or "h100" in text
    True
    >>> call("serv", {})
    Traceback (most recent call last):
    computeledger.errors.InputError: 'serv': no tool; did you mean 'serve'?
    """
    known = tools()
    if name not in known:
        raise InputError(f"{shown(name)}: no tool; {nearest(name, known)}")
    rest = {key: value for key, value in given.items() if value is not None}
    working = rest.pop(WORKING, False) if name in QUESTIONS else False
    if not isinstance(working, bool):
        raise InputError(f"{WORKING} {shown(working)}: expected true or false")
    try:
        with nullcontext() if has_files else without_user_files():
            answer = known[name].answer(rest)
            document = answer.to_dict(working=working)
            if name == "guide":
                for one in document["questions"]:
                    one["tool"] = tool_of(one["command"])
            return document, _read_as(name, rest) + view_text(_with_tools(answer), working=working)
    except InputError as error:
        raise type(error)(tool_words(str(error))) from None


def _read_as(name: str, given: Mapping[str, Any]) -> str:
    """In which unit times without one were read, a line each: the command line asks for a unit, and 30 may be ms."""
    fields = asked_fields(name) if name in QUESTIONS else {}
    bare = [one for key, one in fields.items() if one.dimension == "s" and type(given.get(key)) in (int, float)]
    return "".join(
        f"{one.name} {given[one.name]:g}: a unit is missing, read as {given[one.name]:g}s; "
        f"give a unit: {given[one.name]:g}ms or {given[one.name]:g}s\n"
        for one in bare
    )


def view_text(answer: Answer, *, working: bool = False) -> str:
    """An answer as a terminal shows it, without colours.

    Examples
    --------
    >>> view_text(computeledger.guide("cached prefix")).count("computeledger") > 0
    True
    """
    from computeledger.interfaces.fitting import Page
    from computeledger.interfaces.render.terminal import print_view

    out = io.StringIO()
    print_view(answer.view(working=working), Page(file=out, color_system=None, force_terminal=False))
    return out.getvalue().rstrip() + "\n"
