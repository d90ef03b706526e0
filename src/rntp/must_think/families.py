"""The families by name, and texts of several of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from computeledger.errors import InputError, nearest, shown
from rntp.corpus import Document
from rntp.must_think import arithmetic, dance, family, program, puzzle, ships_log
from rntp.must_think.family import Family

FAMILIES = {
    one.name: one
    for one in (ships_log.FAMILY, dance.FAMILY, program.FAMILY, arithmetic.FAMILY, puzzle.FAMILY)
}  # fmt: skip


def family_of(document: str) -> Family:
    """Find the family of a document.

    Examples
    --------
    >>> family_of("ship's log 0-17").name
    "ship's log"
    """
    return named(document.rpartition(" ")[0], f"document {shown(document)}")


def named(name: str, where: str) -> Family:
    """Find a family by its name.

    Examples
    --------
    >>> named("dance", "families").states[0]
    'door'
    """
    if name not in FAMILIES:
        raise InputError(f"{where}: of no family that must be thought about: {nearest(name, FAMILIES)}")
    return FAMILIES[name]


def documents(
    seed: int, names: Sequence[str] = tuple(FAMILIES), weights: Sequence[float] = (), **law: Any
) -> Iterator[Document]:
    """Make documents of several families without end, in equal shares or by weights; their kinds begin with its name.

    Examples
    --------
    >>> some = documents(0)
    >>> {next(some).kind.partition("/")[0] for _ in range(40)} == set(FAMILIES)
    True
    >>> some = documents(0, ["dance", "program"], [3, 1])
    >>> 20 < sum(next(some).kind.startswith("dance") for _ in range(40)) < 40
    True
    """
    some = [named(name, f"names {shown(name)}") for name in names]
    if weights and (len(weights) != len(some) or min(weights) < 0 or not sum(weights)):
        raise InputError(f"weights {shown(list(weights))}: a number from 0 for each of {len(some)} names, not all 0")
    chance, told = random.Random(f"families {seed}"), family.Law(**law)  # noqa: S311 - a seeded corpus, no secret
    number = 0
    while True:
        one = chance.choices(some, weights)[0] if weights else chance.choice(some)
        story = family.document(one, chance, told, f"{one.name} {seed}-{number}")
        yield Document(story.text, story.id, f"{one.name}/{story.kind}", story.marks)
        number += 1
