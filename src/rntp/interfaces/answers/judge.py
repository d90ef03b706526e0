"""What ``rntp judge`` asks of a recipe's judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging as quiet

from computeledger.errors import InputError, nearest, shown
from rntp.judges.agreement import Bar, agreement, ask
from rntp.judges.answers import judge_of
from rntp.judges.graded import graded_answers
from rntp.recipe import EnvironmentSpec, JudgeSpec, Recipe
from rntp.recipe_file import read_recipe


@dataclass(frozen=True)
class Question:
    """What is asked."""

    recipe: Path
    settings: Sequence[str]
    environment: str | None
    items: int
    seed: int
    quality: float
    threshold: float


def judge_answer(question: Question) -> dict[str, Any]:
    """Ask the judge of an environment about answers of known quality, and hold it against them."""
    quiet.disable_progress_bar()
    recipe = read_recipe(question.recipe, question.settings)
    name, spec = _judge(recipe, question.environment)
    answers = graded_answers(spec, recipe.folder, question.seed, question.items)
    device = torch.device("cuda" if torch.cuda.is_available() and recipe.rl.device != "cpu" else "cpu")
    found, cost = ask(judge_of(spec, recipe, device), answers, device)
    bar = Bar(question.quality, question.threshold)
    told = {"environment": name, "judge": spec.model, "is_served": spec.is_served, "scale": list(spec.scale)}
    return {**told, "read": "probability" if spec.by_probability else "reply", **agreement(answers, found, cost, bar)}


def _judge(recipe: Recipe, name: str | None) -> tuple[str, JudgeSpec]:
    """The judge of an environment, or of the first that has one."""
    known: dict[str, EnvironmentSpec] = {one.name: one for one in recipe.environments}
    if name is not None and name not in known:
        raise InputError(f"--environment {shown(name)}: {nearest(name, known)}")
    for one in known.values() if name is None else (known[name],):
        if isinstance(one.judge, JudgeSpec):
            return one.name, one.judge
    where = "no environment of the recipe" if name is None else f"environment {shown(name)} is not one that"
    raise InputError(f"{where} has a judge that is a language model: judge = {{ model = ... }} is needed")
