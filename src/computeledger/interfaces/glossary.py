"""Words of the field with what they mean, for those who read an answer for the first time."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import TypedDict


class Glossary(TypedDict):
    """Meanings by word, and by part of a layout such as ``tp4-dp2``, whose number stands for ``{n}``."""

    words: dict[str, str]
    layout: dict[str, str]


@functools.cache
def glossary() -> Glossary:
    """Read the words that are shipped.

    Examples
    --------
    >>> glossary()["words"]["Mtok"]
    'One million tokens: what API prices are quoted for.'
    >>> list(glossary()["layout"])
    ['tp', 'pp', 'dp', 'cp', 'ep']
    """
    read = tomllib.loads(resources.files("computeledger.interfaces").joinpath("glossary.toml").read_text("utf-8"))
    return {"words": {word: one["means"] for one in read["terms"] for word in one["words"]}, "layout": read["layout"]}
