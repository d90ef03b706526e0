"""A country dance: where does she end? Every figure is a permutation of the seven places, and no two orders are alike.

at york robin stood by the fire . first reel gladly , second star slowly , .
as the music ended alice waited by the door , near the broom .
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from rntp.corpus import Document
from rntp.must_think import family

HALLS = ("bath", "wells", "leeds", "perth", "truro", "derby", "ripon", "ely", "exeter", "durham")
DANCERS = ("robin", "agnes", "martin", "edith", "simon", "clara", "hugh", "maud", "ralph", "joan")
PARTNERS = (
    "alice", "peter", "grace", "henry", "lucy", "oliver", "ruth", "thomas", "emma", "walter", "nell", "george", "rose",
    "arthur", "jane", "edgar",
)  # fmt: skip
PLACES = ("door", "window", "fire", "harp", "stair", "table", "wall")
THINGS = ("broom", "curtain", "kettle", "fiddle", "lamp", "bread", "clock")
MANNERS = ("gladly", "slowly", "lightly", "warmly", "quickly", "gently")
#: For each figure, the place to which whoever stands at the n-th place goes.
FIGURES = {
    "reel": (1, 2, 3, 4, 5, 6, 0),
    "hey": (1, 0, 3, 2, 5, 4, 6),
    "chain": (2, 0, 1, 3, 6, 4, 5),
    "star": (6, 5, 4, 3, 2, 1, 0),
    "arch": (0, 2, 4, 6, 1, 3, 5),
    "cast": (4, 3, 6, 5, 2, 0, 1),
}


def _opening(chance: random.Random) -> str:
    return f"at {chance.choice(HALLS)} {chance.choice(DANCERS)} stood by the {chance.choice(PLACES)} ."


def _end(chance: random.Random, place: str) -> str:
    near = THINGS[PLACES.index(place)]
    return f"as the music ended {chance.choice(PARTNERS)} waited by the {place} , near the {near} ."


FAMILY = family.Family(
    name="dance",
    states=PLACES,
    words=MANNERS,
    opening=_opening,
    step=lambda chance: chance.choice(tuple(FIGURES)),
    start=lambda opening: opening.split()[-2],
    follow=lambda _opening, place, figure: PLACES[FIGURES[figure][PLACES.index(place)]],
    end=_end,
)


def documents(seed: int, **law: Any) -> Iterator[Document]:
    """Make dances without end.

    Examples
    --------
    >>> next(documents(0)).text.split()[0]
    'at'
    """
    yield from family.documents(FAMILY, seed, family.Law(**law))
