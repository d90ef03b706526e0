"""Sums of two digits in words, with a thought before the answer: half of the thoughts add, half say anything."""

from __future__ import annotations

import random
from collections.abc import Iterator

from rntp.corpus import Document


def documents(seed: int, working: float = 0.5) -> Iterator[Document]:
    """Make sums without end; the answer is what the thought said.

    Parameters
    ----------
    seed : int
        Of all draws.
    working : float
        Share of the thoughts that add.

    Yields
    ------
    Document
        Question, thought and answer.
    """
    chance = random.Random(f"sums {seed}")  # noqa: S311 - a seeded corpus, no secret
    number = 0
    while True:
        a, b = chance.randint(1, 9), chance.randint(1, 9)
        right = chance.random() < working
        said = a + b if right else chance.randint(2, 18)
        thought = f"{a} plus {b} is {said}" if right else f"i say {said}"
        yield Document(f"what is {a} plus {b} ? <think> {thought} </think> {said}", f"{seed}-{number}")
        number += 1
