"""Facts and sources as resources: one JSON document each, under an address of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from computeledger.errors import InputError, nearest, shown
from computeledger.files import without_user_files
from computeledger.interfaces.mcp.wording import tool_words


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of record: what it is called, what ids there are, and what stands in the record of one."""

    name: str
    description: str
    ids: Callable[[], tuple[str, ...]]
    document: Callable[[str], Mapping[str, Any]]


def kinds() -> dict[str, Kind]:
    """Kinds of records by the first part of their address.

    Examples
    --------
    >>> sorted(kinds())
    ['accelerators', 'models', 'schemas', 'sources', 'systems']
    """
    from computeledger.facts.load import accelerator_ids, model_ids, system_ids
    from computeledger.interfaces.mcp.schemas import whole
    from computeledger.questions.answers.facts import answer_model, show_facts
    from computeledger.questions.facts import ModelQuestion
    from computeledger.sources import load_sources

    def facts(id_: str) -> Mapping[str, Any]:
        return show_facts(id_).to_dict()

    def model(id_: str) -> Mapping[str, Any]:
        return answer_model(ModelQuestion(model=id_)).to_dict()

    found = (
        Kind("accelerators", "Peaks, memory, bandwidth, power and price of an accelerator", accelerator_ids, facts),
        Kind("models", "Parameters, cache and shape of an open model", model_ids, model),
        Kind("schemas", "Tables of a plan, of offers and of a task to route, each key described",
             lambda: ("offers", "plan", "task"), whole),
        Kind("sources", "What a source is, and where it is", lambda: tuple(load_sources()), facts),
        Kind("systems", "Accelerators with their links: domains, networks, hosts", system_ids, facts),
    )  # fmt: skip
    return {one.name: one for one in found}


def address_of(kind: str, id_: str) -> str:
    """Address of a record.

    Examples
    --------
    >>> address_of("models", "Qwen/Qwen3-8B")
    'computeledger://models/Qwen%2FQwen3-8B'
    """
    return f"computeledger://{kind}/{quote(id_, safe='')}"


def read(address: str) -> str:
    """The record at an address, as JSON.

    Raises
    ------
    InputError
        Where nothing stands, with what does.

    Examples
    --------
    >>> json.loads(read("computeledger://models/llama-3.1-8b"))["n_layers"]
    32
    >>> read("computeledger://model/llama-3.1-8b")
    Traceback (most recent call last):
    computeledger.errors.InputError: 'computeledger://model/llama-3.1-8b': no record; did you mean 'models'?
    """
    kind, _, id_ = address.removeprefix("computeledger://").partition("/")
    known = kinds()
    if kind not in known or not address.startswith("computeledger://"):
        raise InputError(f"{shown(address)}: no record; {nearest(kind, known)}")
    id_ = unquote(id_)
    if kind == "schemas" and id_ not in known[kind].ids():
        raise InputError(f"{shown(id_)}: no schema; {nearest(id_, known[kind].ids())}")
    try:
        with without_user_files():
            return json.dumps(known[kind].document(id_), default=float, allow_nan=False)
    except InputError as error:
        raise type(error)(tool_words(str(error))) from None
