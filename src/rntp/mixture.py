"""The rows a run trains on: places of text and verifiable problems, mixed by weight in a seeded order."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset

from computeledger.errors import InputError, nearest, shown
from rntp.lazy import Lazy, Renewed
from rntp.positions import Place
from rntp.verify.task import Task

#: Under which places of text are counted beside the environments.
TEXT = "text"


@dataclass(frozen=True, slots=True)
class Problem:
    """A verifiable task with its question as tokens."""

    task: Task
    prompt_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EpisodeSeed:
    """An episode that an environment is to begin."""

    environment: str
    seed: int


class Rows(Lazy[dict[str, Any]]):
    """What a trainer goes over, in its order; each row is made when it is asked for.

    A row has ``context_ids`` and ``gold_ids`` (int32 arrays), ``document``, ``position``, ``kind``, ``source``,
    ``task``: what its answer is checked against, None for text, and ``seed``: of the episode that gives the context,
    None where there is none.
    """

    def __init__(self, given: Iterable[dict[str, Any]], sources: Sequence[str]) -> None:
        super().__init__(given, len(sources))
        self.sources = sorted(set(sources))
        self.has_problems = any(name != TEXT for name in self.sources)

    @property
    def dataset(self) -> Dataset:
        """Numbers of the rows, as TRL wants them."""
        return Dataset.from_dict({"row": range(len(self))})


def drawn_sources(weights: Mapping[str, float], count: int, seed: int = 0) -> list[str]:
    """Draw the source of each row by its weight.

    Examples
    --------
    >>> drawn_sources({"text": 1.0, "sums": 0.0}, 2)
    ['text', 'text']
    """
    for name, weight in weights.items():
        if not 0 <= weight < float("inf"):
            raise InputError(f"weight of {shown(name)} {shown(weight)}: a number from 0 is needed")
    wanted = {name: weight for name, weight in weights.items() if weight > 0}
    if not wanted:
        raise InputError("rows: text or an environment with a weight above 0 is needed")
    chance = random.Random(seed)  # noqa: S311 - a seeded order, no secret
    return chance.choices(list(wanted), list(wanted.values()), k=count)


def mixed_rows(
    places: Iterable[Place],
    problems: Mapping[str, Iterable[Problem | EpisodeSeed]],
    weights: Mapping[str, float],
    count: int,
    seed: int = 0,
) -> Rows:
    """Draw rows: each time a source by its weight, then its next place or problem; what runs out begins again.

    Examples
    --------
    >>> rows = mixed_rows([Place((1, 2), (3,), "a", 2)], {}, {"text": 1.0}, count=2)
    >>> rows[1]["context_ids"].tolist(), rows.sources
    ([1, 2], ['text'])
    """
    for name in weights:
        if name not in {TEXT, *problems}:
            raise InputError(f"weight of {shown(name)}: {nearest(name, [TEXT, *problems])}")
    names = drawn_sources(weights, count, seed)
    sources = {name: places if name == TEXT else problems[name] for name in sorted(set(names))}
    for name, source in sources.items():
        _row(name, next(_again(name, source)))

    def made() -> Iterator[dict[str, Any]]:
        begun = {name: _again(name, source) for name, source in sources.items()}
        return (_row(name, next(begun[name])) for name in names)

    return Rows(Renewed(made), names)


def _again(name: str, given: Iterable[Place | Problem | EpisodeSeed]) -> Iterator[Place | Problem | EpisodeSeed]:
    """What is given, from the first again when it runs out."""
    while True:
        found = False
        for one in given:
            found = True
            yield one
        if not found:
            source = (
                "the corpus has no place to think at" if name == TEXT else f"environment {shown(name)} has no problem"
            )
            raise InputError(f"{source}: check what is read, and how short a context may be")


def _row(name: str, one: Place | Problem | EpisodeSeed) -> dict[str, Any]:
    gold: tuple[int, ...] = ()
    task: Task | None = None
    seed = one.seed if isinstance(one, EpisodeSeed) else None
    context: tuple[int, ...] = ()  # an episode gives its own, where it begins
    if isinstance(one, EpisodeSeed):
        said = (f"{one.environment}/{one.seed}", 0, "episode")
    elif isinstance(one, Problem):
        context, task, said = one.prompt_ids, one.task, (one.task.id, 0, one.task.domain)
    else:
        context, gold, said = one.context_ids, one.gold_ids, (one.document, one.position, one.kind)
    if not context and seed is None:
        raise InputError(f"{shown(said[0])}: a context of at least one token is needed to think after")
    return {
        "context_ids": np.array(context, dtype=np.int32), "gold_ids": np.array(gold, dtype=np.int32),
        "document": said[0], "position": said[1], "kind": said[2], "source": name, "task": task, "seed": seed,
    }  # fmt: skip
