"""A ship's log: when did it come in? The days of all legs are added to the day of departure, modulo 7.

the gannet left york on tue . first 5 loading , second 2 sailing , .
at last it came to hull on tue , the day of wind .
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from rntp.corpus import Document
from rntp.must_think import family

SHIPS = ("gannet", "heron", "petrel", "osprey", "plover", "curlew", "dunlin", "avocet", "merlin", "kestrel")
PORTS = (
    "york", "hull", "dover", "cork", "bergen", "oslo", "riga", "gdansk", "lisbon", "cadiz", "genoa", "malta", "naples",
    "brest", "calais", "leith",
)  # fmt: skip
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
THINGS = ("rain", "wind", "fog", "mist", "snow", "hail", "frost")
VERBS = ("loading", "sailing", "waiting", "mending", "resting", "drifting")
LONGEST_LEG_DAYS = 6


def _opening(chance: random.Random) -> str:
    return f"the {chance.choice(SHIPS)} left {chance.choice(PORTS)} on {chance.choice(DAYS)} ."


def _end(chance: random.Random, day: str) -> str:
    return f"at last it came to {chance.choice(PORTS)} on {day} , the day of {THINGS[DAYS.index(day)]} ."


FAMILY = family.Family(
    name="ship's log",
    states=DAYS,
    words=VERBS,
    opening=_opening,
    step=lambda chance: str(chance.randint(1, LONGEST_LEG_DAYS)),
    start=lambda opening: opening.split()[-2],
    follow=lambda _opening, day, leg: DAYS[(DAYS.index(day) + int(leg)) % len(DAYS)],
    end=_end,
)


def documents(seed: int, **law: Any) -> Iterator[Document]:
    """Make logs without end.

    Examples
    --------
    >>> next(documents(0)).text.split()[0]
    'the'
    """
    yield from family.documents(FAMILY, seed, family.Law(**law))
