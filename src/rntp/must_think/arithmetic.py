"""Sums on a dial of seven: what does the counter show? Small numbers are added and taken away, modulo 7.

the counter of vera shows three . first plus 4 gladly , second minus 2 slowly , .
by dusk lena read five off it , under the sign of the lion .
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from rntp.corpus import Document
from rntp.must_think import family
from rntp.must_think.program import VALUES

OWNERS = ("vera", "boris", "carla", "dmitri", "elena", "felix", "gerda", "hanno", "irma", "jonas")
READERS = (
    "lena", "marek", "nadia", "otto", "petra", "rufus", "sonja", "theo", "ulla", "viktor", "wanda", "xaver", "yvonne",
    "zeno", "astrid", "bruno",
)  # fmt: skip
SIGNS = ("lion", "eagle", "whale", "stag", "raven", "otter", "wolf")
MANNERS = ("softly", "firmly", "neatly", "idly", "boldly", "surely")
#: For each operation, what its number is multiplied by.
OPERATIONS = {"plus": 1, "minus": -1}
LARGEST = 6


def _opening(chance: random.Random) -> str:
    return f"the counter of {chance.choice(OWNERS)} shows {chance.choice(VALUES)} ."


def _step(chance: random.Random) -> str:
    return f"{chance.choice(tuple(OPERATIONS))} {chance.randint(1, LARGEST)}"


def _follow(_opening: str, value: str, step: str) -> str:
    operation, number = step.split()
    return VALUES[(VALUES.index(value) + OPERATIONS[operation] * int(number)) % len(VALUES)]


def _end(chance: random.Random, value: str) -> str:
    return (
        f"by dusk {chance.choice(READERS)} read {value} off it , under the sign of the {SIGNS[VALUES.index(value)]} ."
    )


FAMILY = family.Family(
    name="arithmetic",
    states=VALUES,
    words=MANNERS,
    opening=_opening,
    step=_step,
    start=lambda opening: opening.split()[-2],
    follow=_follow,
    end=_end,
)


def documents(seed: int, **law: Any) -> Iterator[Document]:
    """Make sums without end.

    Examples
    --------
    >>> next(documents(0)).text.split()[1]
    'counter'
    """
    yield from family.documents(FAMILY, seed, family.Law(**law))
