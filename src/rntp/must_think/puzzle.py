"""A shell game: which of seven vessels in a ring hides the coin? A turn about one swaps the others in pairs.

rosa hid the coin in the jar . first urn slyly , second mug openly , .
when all was still piet lifted the bowl , where the string lay .

The swap of two vessels alone would leave the coin where it is in five of seven steps, and no movement is a good guess
then. About an axis, vessel ``s`` changes sides to ``2 a - s`` modulo 7: whatever is read of the steps, one step that is
not leaves all seven equally likely.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from rntp.corpus import Document
from rntp.must_think import family

DEALERS = ("odette", "pascal", "quentin", "rosa", "silvio", "tilda", "ugo", "valeria", "willem", "yara")
GUESSERS = (
    "piet", "anouk", "bastian", "celia", "dario", "esther", "floris", "gitta", "hektor", "ines", "jasper", "katja",
    "leon", "mirjam", "noor", "pepijn",
)  # fmt: skip
VESSELS = ("mug", "jar", "bowl", "urn", "vase", "flask", "tin")
THINGS = ("string", "ribbon", "thimble", "button", "feather", "marble", "needle")
MANNERS = ("slyly", "openly", "deftly", "twice-shown", "unseen", "smoothly")


def _opening(chance: random.Random) -> str:
    return f"{chance.choice(DEALERS)} hid the coin in the {chance.choice(VESSELS)} ."


def _follow(_opening: str, vessel: str, axis: str) -> str:
    return VESSELS[(2 * VESSELS.index(axis) - VESSELS.index(vessel)) % len(VESSELS)]


def _end(chance: random.Random, vessel: str) -> str:
    thing = THINGS[VESSELS.index(vessel)]
    return f"when all was still {chance.choice(GUESSERS)} lifted the {vessel} , where the {thing} lay ."


FAMILY = family.Family(
    name="puzzle",
    states=VESSELS,
    words=MANNERS,
    opening=_opening,
    step=lambda chance: chance.choice(VESSELS),
    start=lambda opening: opening.split()[-2],
    follow=_follow,
    end=_end,
)


def documents(seed: int, **law: Any) -> Iterator[Document]:
    """Make shell games without end.

    Examples
    --------
    >>> next(documents(0)).text.split()[1:4]
    ['hid', 'the', 'coin']
    """
    yield from family.documents(FAMILY, seed, family.Law(**law))
