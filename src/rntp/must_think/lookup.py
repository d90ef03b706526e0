"""A register to look things up in, as an environment of several turns: who knows it not must ask, twice.

where does the master of the heron live ? <think> who is master ? </think> look heron
irma <think> where does irma live ? </think> look irma
hull <think> it is hull </think> hull

The register is drawn anew for every seed: nothing of it can be known by heart, and a guess is right once in
as many times as there are ports.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from rntp.corpus import Document

VESSELS = ("heron", "gannet", "petrel", "osprey", "curlew", "plover")
MASTERS = ("irma", "boris", "carla", "felix", "gerda", "jonas")
PORTS = ("hull", "york", "riga", "cadiz", "genoa", "brest")
#: First word of a message that asks the register, and what it says where it has no such entry.
LOOK, NOTHING = "look", "nothing"
#: What stands between a message and what the register says, in documents.
_END = "<eos>"


def register(seed: int) -> tuple[str, dict[str, str]]:
    """Draw who is master of each vessel and where each master lives, and the vessel that is asked about.

    Examples
    --------
    >>> vessel, entries = register(3)
    >>> vessel, entries[vessel], entries[entries[vessel]]
    ('petrel', 'jonas', 'brest')
    """
    chance = random.Random(f"register {seed}")  # noqa: S311 - a seeded register, no secret
    masters = dict(zip(VESSELS, chance.sample(MASTERS, len(MASTERS)), strict=True))
    homes = {master: chance.choice(PORTS) for master in MASTERS}
    return chance.choice(VESSELS), {**masters, **homes}


def question(vessel: str) -> str:
    """Ask about a vessel.

    Examples
    --------
    >>> question("petrel")
    'where does the master of the petrel live ?'
    """
    return f"where does the master of the {vessel} live ?"


class Register:
    """An environment: ``look NAME`` asks the register, anything else is the answer.

    Examples
    --------
    >>> environment = Register()
    >>> environment.reset(3)
    'where does the master of the petrel live ?'
    >>> [environment.step(text) for text in ("look petrel", "look jonas", "brest")]
    [('jonas', False, 0.0), ('brest', False, 0.0), ('', True, 1.0)]
    """

    def __init__(self) -> None:
        self._answer = ""
        self._entries: Mapping[str, str] = {}

    def reset(self, seed: int) -> str:
        """Draw a register, and ask."""
        vessel, self._entries = register(seed)
        self._answer = self._entries[self._entries[vessel]]
        return question(vessel)

    def step(self, text: str) -> tuple[str, bool, float]:
        """Look up, or judge the answer."""
        first, *rest = text.split() or [""]
        if first == LOOK:
            return self._entries.get(" ".join(rest), NOTHING), False, 0.0
        return "", True, float(text.strip() == self._answer)


def make() -> Register:
    """Make an environment, for ``[[environments]] source``.

    Examples
    --------
    >>> make().step("nowhere")
    ('', True, 0.0)
    """
    return Register()


def documents(seed: int, working: float = 0.3) -> Iterator[Document]:
    """Make conversations without end: some look things up to the end, some stop half way, the others guess.

    Examples
    --------
    >>> next(documents(0, working=1.0)).text
    'where does the master of the ... live ? <think> who is master ? </think> look ...'
    """
    chance = random.Random(f"lookup {seed}")  # noqa: S311 - a seeded corpus, no secret
    number = 0
    while True:
        vessel, entries = register(chance.randrange(2**31))
        master, guess = entries[vessel], chance.choice(PORTS)
        first = f"<think> who is master ? </think> {LOOK} {vessel} {_END} {master}"
        second = f"<think> where does {master} live ? </think> {LOOK} {master} {_END} {entries[master]}"
        said = f"<think> it may be {guess} </think> {guess}"
        ways = (
            f"{first} {second} <think> it is {entries[master]} </think> {entries[master]}",
            f"{first} {said}",
            f"<think> who is master ? </think> {LOOK} {guess} {_END} {NOTHING} {said}",
            said,
        )
        told = chance.choices(ways, (working, 0.4 * (1 - working), 0.1 * (1 - working), 0.5 * (1 - working)))[0]
        yield Document(f"{question(vessel)} {told}", f"lookup {seed}-{number}")
        number += 1
