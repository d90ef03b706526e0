"""What libraries of structured output take on the host: published times of masks and of compiling a schema."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from computeledger.facts.catalog import shipped_file
from computeledger.facts.reading import read_facts, read_file
from computeledger.facts.schema import Fact


@dataclass(frozen=True, slots=True)
class MaskLibrary:
    """What was published of a library that turns a grammar into masks of tokens."""

    id: str
    name: str
    facts: Mapping[str, Fact]


@functools.cache
def mask_libraries() -> Mapping[str, MaskLibrary]:
    """Every library by id.

    Examples
    --------
    >>> {name: round(1e6 * one.facts["mask_p75_s"].value) for name, one in mask_libraries().items()}
    {'llguidance': 55, 'xgrammar': 39}
    """
    document = read_file(shipped_file("structured.toml"), shipped=True)
    out = {}
    for key, table in document.table.items():
        facts = {name: value for name, value in table.items() if name != "name"}
        out[key] = MaskLibrary(key, str(table["name"]), read_facts(document, key, facts))
    return out
