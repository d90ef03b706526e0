"""Stories of three families with ordinary prose between: most places are not worth a thought.

The prose is that of the language reference that ships with Python, sentences of plain words only.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator
from pydoc_data.topics import topics
from typing import Any

from rntp.corpus import Document
from rntp.must_think import family
from rntp.must_think.families import FAMILIES

#: The families told.
TOLD = ("ship's log", "dance", "program")
#: Kind of a place in prose.
PROSE = "prose"
_WORD = re.compile(r"[a-z]+(-[a-z]+)?")
_SHORTEST, _LONGEST = 6, 18
_MUSED = 12


@functools.cache
def sentences() -> tuple[str, ...]:
    """Read the prose.

    Examples
    --------
    >>> len(sentences()) > 500, sentences()[0].islower()
    (True, True)
    """
    found = []
    for paragraph in "\n\n".join(topics.values()).split("\n\n"):
        for sentence in re.split(r"(?<=\.)\s+", " ".join(paragraph.split())):
            words = [word.strip(",;:()\"'*`.") for word in sentence.lower().split()]
            plain = sentence.endswith(".") and all(map(_WORD.fullmatch, words))
            if plain and _SHORTEST <= len(words) <= _LONGEST:
                found.append(" ".join(words))
    return tuple(dict.fromkeys(found))


def documents(seed: int, prose: float = 0.25, **law: Any) -> Iterator[Document]:
    """Make documents without end.

    Examples
    --------
    >>> some = documents(0)
    >>> {next(some).kind.partition("/")[0] for _ in range(40)} == {*TOLD, "prose", "musing"}
    True
    """
    chance = random.Random(f"mixed {seed}")  # noqa: S311 - a seeded corpus, no secret
    told, every = family.Law(**law), sentences()
    number = 0
    while True:
        before, after, last = chance.sample(every, 3)
        if chance.random() < prose:
            yield _prose(chance, (before, after, last), told.shares["thinking"], f"{PROSE} {seed}-{number}")
        else:
            law_of = FAMILIES[chance.choice(TOLD)]
            story = family.document(law_of, chance, told, f"{law_of.name} {seed}-{number}")
            opened = f"{before} . "
            marks = tuple(len(opened) + mark for mark in story.marks)
            text = f"{opened}{story.text} {after} ."
            yield Document(text, story.id, f"{law_of.name}/{story.kind}", marks)
        number += 1


def _prose(chance: random.Random, parts: tuple[str, str, str], thinking: float, name: str) -> Document:
    """Three sentences, of which the second may have an idle thought before it."""
    opened = f"{parts[0]} ."
    if chance.random() < thinking:
        words = [chance.choice(family.FILLER) for _ in range(chance.randint(0, _MUSED))]
        thought = " ".join([family.BEGIN, *words, family.END])
        return Document(f"{opened} {thought} {parts[1]} . {parts[2]} .", name, "musing")
    return Document(f"{opened} {parts[1]} . {parts[2]} .", name, PROSE, (len(opened),))
