"""Words of the field with what they mean, for those who read an answer for the first time."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import TypedDict, cast


class Glossary(TypedDict):
    """Meanings by word, and by part of a layout such as ``tp4-dp2``, whose number stands for ``{n}``."""

    words: dict[str, str]
    layout: dict[str, str]


class _Term(TypedDict):
    words: list[str]
    means: str


class _File(TypedDict):
    terms: list[_Term]
    layout: dict[str, str]
    layout_in_short: dict[str, str]


def layout_said(layout: str) -> str:
    """A layout as a sentence says it; nothing for one GPU.

    Examples
    --------
    >>> layout_said("tp4-dp2-ep8"), layout_said("tp1")
    ('matrices split over 4, 2 data-parallel groups, experts spread over 8', '')
    """
    short = _read()["layout_in_short"]
    sizes = [(part[:2], part[2:]) for part in layout.split("-")]
    return ", ".join(short[kind].replace("{n}", n) for kind, n in sizes if kind in short and n.isdigit() and n != "1")


@functools.cache
def _read() -> _File:
    text = resources.files("computeledger.interfaces").joinpath("glossary.toml").read_text("utf-8")
    return cast(_File, tomllib.loads(text))


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
    read = _read()
    return {"words": {word: one["means"] for one in read["terms"] for word in one["words"]}, "layout": read["layout"]}
