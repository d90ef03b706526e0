"""The rows a run trains on: places of text and verifiable problems, mixed by weight in a seeded order."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datasets import Dataset, Features, List, Value

from computeledger.errors import InputError, nearest, shown
from rntp.positions import Place
from rntp.verify.task import Task

#: Under which places of text are counted beside the environments.
TEXT = "text"


@dataclass(frozen=True, slots=True)
class Problem:
    """A verifiable task with its question as tokens.

    Attributes
    ----------
    task : Task
        What the answer is checked against; its environment is the source that it is counted under.
    prompt_ids : tuple of int
        What stands before the thought.
    """

    task: Task
    prompt_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """What a trainer goes over, in its order.

    Attributes
    ----------
    dataset : Dataset
        A row per prompt: ``context_ids``, ``gold_ids``, ``document``, ``position``, ``kind``, ``source``, and
        ``problem``, its place in ``tasks`` or -1.
    tasks : tuple of Task
        Of the rows that are verified.
    """

    dataset: Dataset
    tasks: tuple[Task, ...]

    @property
    def sources(self) -> list[str]:
        """Names that rows are counted under, sorted."""
        return sorted(set(self.dataset["source"]))


def mixed_rows(
    places: Iterable[Place],
    problems: Mapping[str, Iterable[Problem]],
    weights: Mapping[str, float],
    count: int,
    seed: int = 0,
) -> Rows:
    """Draw rows: each time a source by its weight, then its next place or problem; what runs out begins again.

    Parameters
    ----------
    places : iterable of Place
        Of text, in their order.
    problems : mapping of str to iterable of Problem
        Of each environment, in their order.
    weights : mapping of str to float
        Of ``text`` and of each environment that is wanted; they need not add up to 1.
    count : int
        Rows to draw [-].
    seed : int
        The same seed draws the same rows [-].

    Returns
    -------
    Rows
        Ready for the trainer.

    Examples
    --------
    >>> rows = mixed_rows([Place((1, 2), (3,), "a", 2)], {}, {"text": 1.0}, count=2)
    >>> rows.dataset["context_ids"][1], rows.sources
    ([1, 2], ['text'])
    """
    for name, weight in weights.items():
        if not 0 <= weight < float("inf"):
            raise InputError(f"weight of {shown(name)} {shown(weight)}: a number from 0 is needed")
        if name not in {TEXT, *problems}:
            raise InputError(f"weight of {shown(name)}: {nearest(name, [TEXT, *problems])}")
    wanted = {name: weight for name, weight in weights.items() if weight > 0}
    if not wanted:
        raise InputError("rows: text or an environment with a weight above 0 is needed")
    sources = {name: _again(places if name == TEXT else problems[name]) for name in wanted}
    chance = random.Random(seed)  # noqa: S311 - a seeded order, no secret
    names = chance.choices(list(wanted), list(wanted.values()), k=count)
    return _rows([(name, _next(name, sources[name])) for name in names])


def _next(name: str, source: Iterator[Place | Problem]) -> Place | Problem:
    found = next(source, None)
    if found is None:
        what = "the corpus has no place to think at" if name == TEXT else f"environment {shown(name)} has no problem"
        raise InputError(f"{what}: check what is read, and how short a context may be")
    return found


def _again(given: Iterable[Place | Problem]) -> Iterator[Place | Problem]:
    """What is given, from the first again when it runs out."""
    seen = []
    for one in given:
        seen.append(one)
        yield one
    if seen:
        yield from itertools.cycle(seen)


def _rows(drawn: Sequence[tuple[str, Place | Problem]]) -> Rows:
    tasks: list[Task] = []
    columns: dict[str, list[object]] = {
        name: [] for name in ("context_ids", "gold_ids", "document", "position", "kind", "source", "problem")
    }
    for name, one in drawn:
        row: tuple[Any, ...]
        if isinstance(one, Problem):
            row = (list(one.prompt_ids), [], one.task.id, 0, one.task.domain, name, len(tasks))
            tasks.append(one.task)
        else:
            row = (list(one.context_ids), list(one.gold_ids), one.document, one.position, one.kind, name, -1)
        if not row[0]:
            raise InputError(f"{shown(row[2])}: a context of at least one token is needed to think after")
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    return Rows(Dataset.from_dict(columns, features=_features()), tuple(tasks))


def _features() -> object:
    ids = List(Value("int64"))
    text = {name: Value("string") for name in ("document", "kind", "source")}
    return Features(
        {"context_ids": ids, "gold_ids": ids, **text, "position": Value("int64"), "problem": Value("int64")}
    )
