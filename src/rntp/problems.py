"""Verifiable tasks as prompts: puzzles made anew at every draw, or a file of tasks that bring their own question."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from computeledger.errors import InputError, nearest, shown
from rntp.lazy import Renewed
from rntp.mixture import EpisodeSeed, Problem
from rntp.recipe import DOMAIN, EnvironmentSpec, JudgeSpec
from rntp.verify.engine import has_sandbox
from rntp.verify.environments import Environment, mixture
from rntp.verify.puzzles import generate, names
from rntp.verify.task import Judge, Task, load_tasks
from rntp.verify.text import scorer_of

#: What a model has seen of the problems that it is evaluated on.
SEEN = ("made anew", "held out", "trained on")
#: Tokens of a question where no context bounds it.
_ANY = 2**31
#: Puzzles in a row whose question is too long after which the puzzle is refused.
_PATIENCE = 64


def problems(
    spec: EnvironmentSpec, tokenizer: Any, longest: int, folder: Path = Path(), seed: int = 0, *, held_out: bool = False
) -> Iterable[Problem]:
    """Draw the problems of an environment without end.

    Examples
    --------
    >>> class Letters:
    ...     bos_token_id = None
    ...     def __call__(self, text, **options):
    ...         return {"input_ids": [ord(one) for one in text]}
    >>> spec = EnvironmentSpec("sums", puzzle="chain_sum")
    >>> one = next(iter(problems(spec, Letters(), 500)))
    >>> one.task.environment, bytes(one.prompt_ids[:5]).decode()
    ('sums', 'State')
    """
    environment, question = _environment(spec, folder, held_out=held_out)
    domains = {task.domain for task in environment.tasks} or {"puzzle"}
    if domains & {"code", "puzzle"} and (not spec.judge or spec.audit == DOMAIN) and not has_sandbox():
        raise InputError(
            f"environment {shown(spec.name)}: needs bubblewrap, and nothing is run without it "
            "(Debian: apt-get install bubblewrap)"
        )

    def problem(task: Task) -> Problem:
        made = tokenizer(question(task), add_special_tokens=False)["input_ids"]
        return Problem(task, tuple(made if tokenizer.bos_token_id is None else [tokenizer.bos_token_id, *made]))

    def too_long(one: Problem) -> InputError:
        return InputError(
            f"environment {shown(spec.name)}: the question of task {shown(one.task.id)} has {len(one.prompt_ids)} "
            f"tokens, and the model's context leaves room for {longest} beside thought and answer"
        )

    for task in environment.tasks:  # all of a file now: none is to fail in the middle of a run
        if len((one := problem(task)).prompt_ids) > longest:
            raise too_long(one)

    def drawn() -> Iterator[Problem]:
        passed = 0
        for task in mixture([environment], seed):
            one = problem(task)
            passed = passed + 1 if len(one.prompt_ids) > longest else 0
            if passed >= _PATIENCE:
                raise too_long(one)
            if not passed:
                yield one

    return Renewed(drawn)


def episode_seeds(spec: EnvironmentSpec, seed: int = 0, *, held_out: bool = False) -> Iterable[EpisodeSeed]:
    """Draw the seeds of episodes without end: even ones to train on, odd ones that training never takes.

    Examples
    --------
    >>> spec = EnvironmentSpec("ports", source="rntp.must_think.lookup:make")
    >>> [one.seed % 2 for one in itertools.islice(episode_seeds(spec, held_out=True), 3)]
    [1, 1, 1]
    """

    def drawn() -> Iterator[EpisodeSeed]:
        chance = random.Random(f"{seed}/{spec.name}")  # noqa: S311 - a seeded order, no secret
        while True:
            yield EpisodeSeed(spec.name, chance.randrange(0, 2**31, 2) + held_out)

    return Renewed(drawn)


def _environment(spec: EnvironmentSpec, folder: Path, *, held_out: bool) -> tuple[Environment, Callable[[Task], str]]:
    """Tasks or puzzle, and what gives their questions."""
    if spec.puzzle:
        if spec.puzzle not in names():
            raise InputError(f"environment {shown(spec.name)}: unknown puzzle: {nearest(spec.puzzle, names())}")
        made = Environment(spec.name, 1.0, puzzle={"task": spec.puzzle, "config": dict(spec.config)})
        return made, _made_question
    path = folder / spec.tasks
    judge = _judge(spec.judge, folder)
    every = tuple(replace(task, judge=judge) for task in load_tasks(path).values())
    if not every:
        raise InputError(f"environment {shown(spec.name)}: {path} has no task")
    trained, never = parted(every, spec.held_out_fraction)

    def question(task: Task) -> str:
        if not task.question:
            name = re.sub(r"#\d+$", "", task.id.removeprefix(f"{spec.name}/"))
            raise InputError(f"{path}: task {shown(name)} has no prompt: what the model is asked is needed")
        return task.question

    return Environment(spec.name, 1.0, never if held_out else trained), question


def _judge(given: str | JudgeSpec, folder: Path) -> Judge | None:
    """The function that scores the answers of a file; of a language model the name, by which no worker can judge."""
    if isinstance(given, JudgeSpec):
        return Judge(given.model, folder.resolve())
    judge = Judge(given, folder.resolve()) if given else None
    if judge is not None:
        scorer_of(judge)
    return judge


def parted(tasks: Sequence[Task], held_out_fraction: float) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Part tasks into those that are trained on and those that never are.

    Examples
    --------
    >>> tasks = [Task(str(number), "math") for number in range(30)]
    >>> trained, never = parted(tasks, 0.1)
    >>> len(trained), len(never), parted(tasks[:1], 0.1)[1]
    (27, 3, ())
    """
    count = min(math.ceil(held_out_fraction * len(tasks)), len(tasks) - 1)
    ranked = sorted(tasks, key=lambda task: hashlib.sha256(task.id.encode()).digest())
    never = {task.id for task in ranked[:count]}
    return tuple(task for task in tasks if task.id not in never), tuple(task for task in tasks if task.id in never)


def asked_problems(
    spec: EnvironmentSpec, tokenizer: Any, count: int, folder: Path = Path(), seed: int = 0
) -> tuple[list[Problem], str]:
    """Draw the problems that models are evaluated on: of a file, those that were never trained on where there are any.

    Examples
    --------
    >>> class Letters:
    ...     bos_token_id = None
    ...     def __call__(self, text, **options):
    ...         return {"input_ids": [ord(one) for one in text]}
    >>> some, seen = asked_problems(EnvironmentSpec("sums", puzzle="chain_sum"), Letters(), 2)
    >>> len(some), seen
    (2, 'made anew')
    """
    if spec.puzzle:
        return list(itertools.islice(problems(spec, tokenizer, _ANY, folder, seed), count)), SEEN[0]
    trained, never = (_environment(spec, folder, held_out=side)[0].tasks for side in (False, True))
    some = problems(spec, tokenizer, _ANY, folder, seed, held_out=bool(never))
    return list(itertools.islice(some, min(count, len(never or trained)))), SEEN[1] if never else SEEN[2]


def _made_question(task: Task) -> str:
    """Question of a puzzle."""
    config = json.dumps(task.spec.get("config", {}), sort_keys=True)
    return str(generate(task.spec["task"], task.spec["seed"], task.spec.get("index", 0), config)["question"])
