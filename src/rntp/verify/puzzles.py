"""Puzzles and procedural tasks of reasoning-gym: generated from a name and a seed, judged by their own rules.

Some of its scorers evaluate the answer as Python. They run in a sandbox, and see literals and arithmetic only.
"""

from __future__ import annotations

import ast
import functools
import sys
from typing import Any

from rntp.verify.extract import after_thoughts, answer_of, last_boxed, tagged
from rntp.verify.maths import guarded

#: Tasks without a stored answer: theirs is scored 0, so that only an answer of one's own can be judged.
NO_ORACLE = ("boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour")
#: Tasks that follow the hash seed of the interpreter; sandboxes fix it, so that name and seed give one task.
HASH_SEEDED = ("list_functions",)
#: Modules whose scorer evaluates the answer.
_EVALUATES = (
    "algorithmic.string_insertion", "algorithmic.spiral_matrix", "algorithmic.binary_matrix", "games.n_queens",
)  # fmt: skip
_KEPT = 256


def load() -> None:
    """Load reasoning-gym with its evaluating scorers guarded.

    Examples
    --------
    >>> load()
    """
    import importlib

    from sympy.parsing import sympy_parser

    importlib.import_module("reasoning_gym")
    parser = sympy_parser.parse_expr
    if not hasattr(parser, "__wrapped__"):
        safe = guarded(parser)
        # every module that has taken the parser under its name, sympy's own included
        for module in list(sys.modules.values()):
            if getattr(module, "parse_expr", None) is parser:
                vars(module)["parse_expr"] = safe
    for name in _EVALUATES:
        vars(importlib.import_module(f"reasoning_gym.{name}"))["eval"] = ast.literal_eval


@functools.cache
def names() -> tuple[str, ...]:
    """List the tasks that can be asked for.

    Examples
    --------
    >>> "chain_sum" in names()
    True
    """
    load()
    from reasoning_gym.factory import DATASETS

    return tuple(sorted(set(DATASETS) - {"composite"}))


@functools.lru_cache(maxsize=_KEPT)
def _dataset(task: str, seed: int, size: int, config: str) -> Any:
    import json

    import reasoning_gym

    return reasoning_gym.create_dataset(task, seed=seed, size=size, **json.loads(config))


@functools.lru_cache(maxsize=_KEPT)
def _entry(task: str, seed: int, index: int, config: str) -> tuple[Any, dict[str, Any]]:
    load()
    dataset = _dataset(task, seed, index + 1, config)
    return dataset, dataset[index]


def generate(task: str, seed: int, index: int = 0, config: str = "{}") -> dict[str, Any]:
    """Generate a task.

    Examples
    --------
    >>> generate("chain_sum", 42)["answer"]
    '7'
    """
    entry = _entry(task, seed, index, config)[1]
    answer = entry["answer"]
    return {"question": entry["question"], "answer": None if answer is None else str(answer)}


def score(task: str, seed: int, index: int, config: str, completion: str) -> list[Any]:
    """Score a completion by the task's own rules.

    Examples
    --------
    >>> score("chain_sum", 42, 0, "{}", "<answer>7</answer>")
    [1.0, '7', []]
    """
    if task not in names():
        return [None, "", list(names())]
    dataset, entry = _entry(task, seed, index, config)
    best: list[Any] = [None, "", []]
    for answer in _candidates(completion):
        value = float(dataset.score_answer(answer, entry))
        if best[0] is None or value > best[0]:
            best = [min(max(value, 0.0), 1.0), answer[:200], []]
        if value >= 1.0:
            break
    return best


def _candidates(completion: str) -> list[str]:
    """What may be meant as the answer: what is marked as such, or the text itself where nothing is."""
    said = after_thoughts(completion)
    if (marked := tagged(said)) is not None:
        return [marked.strip()] if marked.strip() else []
    if (boxed := last_boxed(said)) is not None:
        return [boxed] if boxed else []
    whole = said.strip()
    last = answer_of(whole) if whole else None
    return [one for one in dict.fromkeys((whole, last)) if one]
