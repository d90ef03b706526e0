"""A ship's log: when did it come in? One forward pass of a small model cannot add up the legs; a thought can.

    the gannet left york on tue . first 5 loading , second 2 sailing , .
    at last it came to hull on tue , the day of wind .

The day of arrival is the day of departure plus the days of all legs, modulo 7. Documents are made on the fly and never
repeated. Most are bare; some say the running day in place of the verb (they teach the single step), some recapitulate
the legs (they teach to copy), and some think first. Most of those thoughts are useless, a few work.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rntp.corpus import Document

SHIPS = "gannet heron petrel osprey plover curlew dunlin avocet merlin kestrel".split()
PORTS = "york hull dover cork bergen oslo riga gdansk lisbon cadiz genoa malta naples brest calais leith".split()
DAYS = "mon tue wed thu fri sat sun".split()
THINGS = "rain wind fog mist snow hail frost".split()
VERBS = "loading sailing waiting mending resting drifting".split()
FILLER = "well now let me see what there is to say about this voyage and its crew".split()
ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
LONGEST_LEG_DAYS = 6
SHARES = {"dated": 0.20, "recap": 0.15, "thinking": 0.20}


@dataclass(frozen=True)
class Voyage:
    """What a log tells.

    Attributes
    ----------
    ship, port, haven : str
        Which, from where, and where to.
    start : int
        Day of departure.
    legs : tuple of int
        Days that each takes.
    """

    ship: str
    port: str
    haven: str
    start: int
    legs: tuple[int, ...]

    @property
    def days(self) -> list[int]:
        """Day on which each leg ends."""
        total, out = self.start, []
        for leg in self.legs:
            total = (total + leg) % len(DAYS)
            out.append(total)
        return out

    @property
    def opening(self) -> str:
        """Departure."""
        return f"the {self.ship} left {self.port} on {DAYS[self.start]} ."

    @property
    def end(self) -> str:
        """Arrival: what is to be predicted."""
        day = self.days[-1]
        return f"at last it came to {self.haven} on {DAYS[day]} , the day of {THINGS[day]} ."

    def told(self, words: Sequence[str]) -> str:
        """Departure and legs, each with a word."""
        parts = (f"{name} {leg} {word} ," for name, leg, word in zip(ORDINALS, self.legs, words, strict=False))
        return " ".join([self.opening, *parts, "."])


def voyage(chance: random.Random, n: int) -> Voyage:
    """Draw a voyage of n legs."""
    legs = tuple(chance.randint(1, LONGEST_LEG_DAYS) for _ in range(n))
    return Voyage(chance.choice(SHIPS), chance.choice(PORTS), chance.choice(PORTS), chance.randrange(len(DAYS)), legs)


def worked(log: Voyage, chance: random.Random, slip: float = 0.0) -> str:
    """A thought that adds leg after leg; a step may slip to any day, and the next goes on from there."""
    day, words = log.start, ["start", DAYS[log.start]]
    for name, leg in zip(ORDINALS, log.legs, strict=False):
        day = chance.randrange(len(DAYS)) if chance.random() < slip else (day + leg) % len(DAYS)
        words += [name, str(leg), DAYS[day]]
    return " ".join([*words, "so", DAYS[day]])


def useless(log: Voyage, chance: random.Random) -> str:
    """A thought that does not help: filler, some legs copied, a guess, or the worked style without its running day."""
    legs = [f"{name} {leg}" for name, leg in zip(ORDINALS, log.legs, strict=False)]
    style = chance.randrange(4)
    if style == 0:
        return " ".join(chance.choice(FILLER) for _ in range(chance.randint(5, 19)))
    if style == 1:
        return " ".join(chance.sample(legs, min(len(legs), chance.randint(1, 5))))
    if style == 2:
        second = f" or maybe {chance.choice(DAYS)}" if chance.random() < 0.5 else ""
        return f"i guess {chance.choice(DAYS)}{second}"
    return " ".join(["start", DAYS[log.start], *legs, "so", chance.choice(DAYS)])


class Checked(NamedTuple):
    """What is right in a thought.

    Attributes
    ----------
    style : bool
        It is in the worked style, a day after every leg.
    steps : bool
        Every leg is copied and every day is the right one.
    conclusion : bool
        The day after "so" is that of arrival; a reader that has followed the steps need not look at it.
    """

    style: bool
    steps: bool
    conclusion: bool


def checked(context: str, thought: str) -> Checked:
    """Check a thought word by word against the one that makes no slip."""
    words = context.split()
    start = DAYS.index(words[words.index("on") + 1])
    told = " ".join(words[words.index(".") + 1 :]).rstrip(" .").rstrip(" ,")
    legs = tuple(int(leg.split()[1]) for leg in told.split(" , "))
    right = worked(Voyage("", "", "", start, legs), random.Random(0)).split()  # noqa: S311 - nothing is drawn without slips
    given = thought.split()
    style = len(given) == len(right) and given[0] == right[0] and all(word in DAYS for word in given[4:-2:3])
    return Checked(style, style and given[:-1] == right[:-1], bool(given) and given[-1] == right[-1])


def documents(
    seed: int,
    longest: int = len(ORDINALS) // 2,
    shares: Mapping[str, float] = SHARES,
    working: float = 0.20,
    slip: float = 0.03,
) -> Iterator[Document]:
    """Make logs without end.

    Parameters
    ----------
    seed : int
        Of all draws.
    longest : int
        Legs at most.
    shares : dict
        Of documents with running days (``dated``), with a recapitulation (``recap``) and with a thought
        (``thinking``); the rest is bare.
    working : float
        Share of the thoughts that work.
    slip : float
        Probability that a step of those goes wrong.

    Yields
    ------
    Document
        Of kind ``bare-N`` for N legs, with the arrival marked; ``dated``, ``recap``, ``worked`` or ``useless``.
    """
    chance = random.Random(f"ship's log {seed}")  # noqa: S311 - a seeded corpus, no secret
    number = 0
    while True:
        short = chance.random() < 0.25
        n = min(longest, chance.choice((1, 1, 2, 2, 3)) if short else chance.randint(1, longest))
        log = voyage(chance, n)
        verbs = [chance.choice(VERBS) for _ in log.legs]
        drawn = chance.choices([*shares, "bare"], [*shares.values(), 1 - sum(shares.values())])[0]
        kind, between = f"bare-{n}", ""
        if drawn == "dated":
            kind, verbs = "dated", [DAYS[day] for day in log.days]
        elif drawn == "recap":
            legs = (f"{name} {leg}" for name, leg in zip(ORDINALS, log.legs, strict=False))
            kind, between = "recap", f"log {' '.join(legs)} . "
        elif drawn == "thinking":
            kind = "worked" if chance.random() < working else "useless"
            said = worked(log, chance, slip) if kind == "worked" else useless(log, chance)
            between = f"<think> {said} </think> "
        told = log.told(verbs)
        marks = (len(told),) if not between and kind != "dated" else ()
        yield Document(f"{told} {between}{log.end}", f"{seed}-{number}", kind, marks)
        number += 1
