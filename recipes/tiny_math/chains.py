"""Chains of sums and differences, in the words of reasoning-gym's ``chain_sum``: a few thoughts work, most guess."""

from __future__ import annotations

import random
from collections.abc import Iterator

from rntp.corpus import Document

QUESTION = "State the final answer to the following arithmetic problem:"
_TERMS = (2, 4)


def documents(seed: int, working: float = 0.35) -> Iterator[Document]:
    """Make chains without end; the answer is what the thought said last.

    Parameters
    ----------
    seed : int
        Of all draws.
    working : float
        Share of the thoughts that add term after term.

    Yields
    ------
    Document
        Question, thought and answer.
    """
    chance = random.Random(f"chains {seed}")  # noqa: S311 - a seeded corpus, no secret
    number = 0
    while True:
        terms = [chance.randint(1, 9) for _ in range(chance.randint(*_TERMS))]
        signs = [chance.choice("+-") for _ in terms[1:]]
        told = " ".join([str(terms[0]), *(f"{sign} {term}" for sign, term in zip(signs, terms[1:], strict=True))])
        so_far, steps = terms[0], []
        for sign, term in zip(signs, terms[1:], strict=True):
            after = so_far + term if sign == "+" else so_far - term
            steps.append(f"{so_far} {sign} {term} is {after}")
            so_far = after
        works = chance.random() < working
        said = so_far if works else chance.randint(-9, 18)
        thought = " , ".join(steps) if works else f"i say {said}"
        yield Document(f"{QUESTION} {told} = <think> {thought} </think> {said}", f"{seed}-{number}")
        number += 1
