"""Environments mixed by share: which one the next rollout comes from, seeded, each counted under its name."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from computeledger.errors import InputError, nearest, shown
from computeledger.files import read_toml
from rntp.verify.task import Task, load_tasks, read_task


@dataclass(frozen=True, slots=True)
class Environment:
    """A source of tasks."""

    name: str
    share: float
    tasks: Sequence[Task] = ()
    puzzle: Mapping[str, Any] | None = None


def _tasks(environment: Environment, seed: int) -> Iterator[Task]:
    """Tasks of one environment, without end."""
    chance = random.Random(f"{seed}/{environment.name}")  # noqa: S311 - a seeded order, no secret
    for turn in itertools.count():
        if environment.puzzle is not None:
            name = f"{environment.name}-{turn}"
            document = {"id": name, "domain": "puzzle", **environment.puzzle, "seed": chance.randrange(2**31)}
            yield replace(read_task(document), environment=environment.name)
            continue
        for task in chance.sample(list(environment.tasks), len(environment.tasks)):
            again = f"{task.id}#{turn}" if turn else task.id
            yield replace(task, id=f"{environment.name}/{again}", environment=environment.name)


def mixture(environments: Sequence[Environment], seed: int = 0) -> Iterator[Task]:
    """Draw tasks without end: each time an environment by its share, then its next task.

    Examples
    --------
    >>> sums = Environment("sums", 2.0, puzzle={"task": "chain_sum"})
    >>> words = Environment("words", 1.0, (Task("w", "text", {"answer": " fox"}),))
    >>> drawn = [task.environment for task in itertools.islice(mixture([sums, words], seed=1), 300)]
    >>> 180 < drawn.count("sums") < 220
    True
    """
    if not environments or len({one.name for one in environments}) < len(environments):
        raise InputError("mixture: environments with names of their own are needed")
    for one in environments:
        if not 0 < one.share < float("inf"):
            raise InputError(f"environment {shown(one.name)}: share {shown(one.share)}: a number above 0 is needed")
        if not one.tasks and one.puzzle is None:
            raise InputError(f"environment {shown(one.name)}: has no tasks")
    chance = random.Random(seed)  # noqa: S311 - as above
    sources = [_tasks(one, seed) for one in environments]
    shares = [one.share for one in environments]
    while True:
        yield next(chance.choices(sources, shares)[0])


def load_environments(path: Path) -> list[Environment]:
    """Read a mixture from TOML: one ``[environments.NAME]`` each, with ``share`` and ``tasks`` or ``puzzle``.

    Examples
    --------
    >>> load_environments(Path("nowhere.toml"))
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.toml: no such file
    """
    given = read_toml(path)
    tables = given.get("environments")
    if not isinstance(tables, dict) or set(given) != {"environments"}:
        raise InputError(f"{path}: tables [environments.NAME] are needed, and nothing else")
    out = []
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise InputError(f"{path}: environment {shown(name)}: a table is needed")
        for key in set(table) - {"share", "tasks", "puzzle", "config"}:
            allowed = ["share", "tasks", "puzzle", "config"]
            raise InputError(f"{path}: environment {shown(name)}: unknown {shown(key)}: {nearest(key, allowed)}")
        if ("tasks" in table) == ("puzzle" in table):
            raise InputError(f"{path}: environment {shown(name)}: either tasks or puzzle is needed")
        share = table.get("share", 1.0)
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise InputError(f"{path}: environment {shown(name)}: share {shown(share)}: a number is needed")
        tasks = tuple(load_tasks(path.parent / str(table["tasks"])).values()) if "tasks" in table else ()
        try:
            json.dumps(table.get("config", {}))
        except TypeError:
            raise InputError(f"{path}: environment {shown(name)}: config takes texts, numbers and lists") from None
        if not isinstance(table.get("puzzle", ""), str):
            raise InputError(f"{path}: environment {shown(name)}: puzzle {shown(table['puzzle'])}: a name is needed")
        puzzle = {"task": table["puzzle"], "config": table.get("config", {})} if "puzzle" in table else None
        out.append(Environment(name, float(share), tasks, puzzle))
    return out
