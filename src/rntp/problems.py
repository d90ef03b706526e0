"""Verifiable tasks as prompts: puzzles made anew at every draw, or a file of tasks that bring their own question."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from computeledger.errors import InputError, nearest, shown
from computeledger.files import read_json_lines
from rntp.mixture import Problem
from rntp.recipe import EnvironmentSpec
from rntp.verify.engine import has_sandbox
from rntp.verify.environments import Environment, mixture
from rntp.verify.puzzles import generate, names
from rntp.verify.task import Task, load_tasks

#: Names under which a task may bring its question.
_QUESTIONS = ("prompt", "question")


def problems(
    spec: EnvironmentSpec, tokenizer: Any, longest: int, folder: Path = Path(), seed: int = 0
) -> Iterator[Problem]:
    """Draw the problems of an environment without end.

    Parameters
    ----------
    spec : EnvironmentSpec
        Which.
    tokenizer : PreTrainedTokenizerFast
        Of the model that is to answer.
    longest : int
        Tokens that a question may have [-].
    folder : Path
        What the file of tasks is relative to.
    seed : int
        The same seed draws the same problems [-].

    Yields
    ------
    Problem
        With its question as tokens.

    Examples
    --------
    >>> class Letters:
    ...     bos_token_id = None
    ...     def __call__(self, text, **options):
    ...         return {"input_ids": [ord(one) for one in text]}
    >>> spec = EnvironmentSpec("sums", puzzle="chain_sum")
    >>> one = next(problems(spec, Letters(), 500))
    >>> one.task.environment, bytes(one.prompt_ids[:5]).decode()
    ('sums', 'State')
    """
    if spec.puzzle:
        if spec.puzzle not in names():
            raise InputError(f"environment {shown(spec.name)}: unknown puzzle: {nearest(spec.puzzle, names())}")
        environment = Environment(spec.name, 1.0, puzzle={"task": spec.puzzle, "config": dict(spec.config)})
        question: Callable[[Task], str] = _made_question
    else:
        path = folder / spec.tasks
        environment = Environment(spec.name, 1.0, tuple(load_tasks(path).values()))
        question = _Written(spec.name, path)
    domains = {task.domain for task in environment.tasks} or {"puzzle"}
    if domains & {"code", "puzzle"} and not has_sandbox():
        raise InputError(
            f"environment {shown(spec.name)}: needs bubblewrap, and nothing is run without it "
            "(Debian: apt-get install bubblewrap)"
        )
    for task in mixture([environment], seed):
        text = question(task)
        made = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids = made if tokenizer.bos_token_id is None else [tokenizer.bos_token_id, *made]
        if len(ids) > longest:
            raise InputError(
                f"environment {shown(spec.name)}: the question of task {shown(task.id)} has {len(ids)} tokens, and the "
                f"model's context leaves room for {longest} beside thought and answer"
            )
        yield Problem(task, tuple(ids))


def _made_question(task: Task) -> str:
    """Question of a puzzle."""
    config = json.dumps(task.spec.get("config", {}), sort_keys=True)
    return str(generate(task.spec["task"], task.spec["seed"], task.spec.get("index", 0), config)["question"])


class _Written:
    """Questions of a file of tasks."""

    def __init__(self, environment: str, path: Path) -> None:
        self._environment, self._path = environment, path
        rows = (row for _, row in read_json_lines(path))  # every row was read as a task before
        self._texts = {str(row["id"]): next((row[key] for key in _QUESTIONS if row.get(key)), None) for row in rows}

    def __call__(self, task: Task) -> str:
        name = re.sub(r"#\d+$", "", task.id.removeprefix(f"{self._environment}/"))
        text = self._texts.get(name)
        if not isinstance(text, str):
            raise InputError(f"{self._path}: task {shown(name)} has no prompt: what the model is asked is needed")
        return text
