"""A program with two variables, of which one is watched: what does it hold at the end? Arithmetic is modulo 7.

watch y with x three and y four . first x double quietly , second y up aloud , .
then the run was stopped by ada with five , lamp green .
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from rntp.corpus import Document
from rntp.must_think import family

VARIABLES = ("x", "y")
VALUES = ("zero", "one", "two", "three", "four", "five", "six")
LAMPS = ("red", "orange", "yellow", "green", "blue", "violet", "white")
USERS = (
    "ada", "alan", "grace-h", "edsger", "barbara", "donald", "tony", "niklaus", "john", "frances", "ken", "dennis",
    "adele", "kurt", "emmy", "sofia",
)  # fmt: skip
TONES = ("quietly", "aloud", "promptly", "lazily", "calmly", "swiftly")
#: For each order, factor and summand.
ORDERS = {"up": (1, 1), "down": (1, -1), "skip": (1, 2), "double": (2, 0), "triple": (3, 0), "negate": (-1, 0)}


def _opening(chance: random.Random) -> str:
    x, y = chance.choice(VALUES), chance.choice(VALUES)
    return f"watch {chance.choice(VARIABLES)} with x {x} and y {y} ."


def _step(chance: random.Random) -> str:
    return f"{chance.choice(VARIABLES)} {chance.choice(tuple(ORDERS))}"


def _start(opening: str) -> str:
    words = opening.split()
    return words[words.index(words[1], 2) + 1]


def _follow(opening: str, value: str, step: str) -> str:
    variable, order = step.split()
    if variable != opening.split()[1]:
        return value
    factor, summand = ORDERS[order]
    return VALUES[(factor * VALUES.index(value) + summand) % len(VALUES)]


def _end(chance: random.Random, value: str) -> str:
    lamp = LAMPS[VALUES.index(value)]
    return f"then the run was stopped by {chance.choice(USERS)} with {value} , lamp {lamp} ."


FAMILY = family.Family("program", VALUES, TONES, _opening, _step, _start, _follow, _end)


def documents(seed: int, **law: Any) -> Iterator[Document]:
    """Make programs without end.

    Examples
    --------
    >>> next(documents(0)).text.split()[0]
    'watch'
    """
    yield from family.documents(FAMILY, seed, family.Law(**law))
