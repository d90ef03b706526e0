"""Environments for the tests of several turns, and a trainer whose model says what its prompt asks for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from rntp.mixture import EpisodeSeed, mixed_rows
from rntp.recipe import EnvironmentSpec, Recipe
from rntp.trainer import RntpTrainer
from tests.rntp import tiny


class Counting:
    """Goes on for as many turns as the seed says, each worth a tenth; the last is worth their number and its words."""

    def __init__(self) -> None:
        self._left = self._turns = 0
        self.texts: list[str] = []

    def reset(self, seed: int) -> str:
        """The seed as a word."""
        self._left = self._turns = 1 + seed % 4
        self.texts = []
        return f"w{seed % 40} w2"

    def step(self, text: str) -> tuple[str, bool, float]:
        """One turn fewer is left."""
        self.texts.append(text)
        self._left -= 1
        said = sum(int(word[1:]) for word in text.split() if word[1:].isdigit()) / 1000
        return f"w{30 + self._left} w1", self._left == 0, 0.1 if self._left else self._turns + said


def counting() -> Counting:
    """For a recipe."""
    return Counting()


class Fixed(RntpTrainer):
    """Says what the prompt and its place among the rows make of it; keeps the gradients, and how often it was asked."""

    gradients: np.ndarray
    passes = 0

    def _sample(self, prompts: list[list[int]], each: int) -> tuple[list[list[int]], None]:
        self.passes += 1
        made = []
        for place, prompt in enumerate(prompts):
            row = place + self.accelerator.process_index * len(prompts) if each > 1 else 0
            chance = np.random.default_rng([sum(prompt), row])
            made.append([*chance.integers(tiny.FIRST, len(tiny.TOKENIZER), 2).tolist(), self.eos_token_ids[0]])
        return made, None

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        self.gradients = np.concatenate([one.grad.numpy().ravel().copy() for one in self.model.parameters()])
        return super()._get_grad_norm(model, grad_norm=grad_norm)


def recipe(folder: Path, name: str = "counting", **given: Any) -> Recipe:
    """An environment of this file."""
    source = given.pop("source", f"tests.rntp.talking:{name}")
    spec = {"turns": 8, "answer_tokens": 3} | {key: given.pop(key) for key in list(given) if key in SPEC}
    return tiny.recipe(folder, environments=(EnvironmentSpec(name, source=source, **spec),), **given)


SPEC = EnvironmentSpec.__slots__


def trained(made: Recipe, seeds: list[int], kind: type[RntpTrainer] = Fixed) -> Any:
    """Train on episodes of these seeds."""
    name = made.environments[0].name
    rows = mixed_rows((), {name: [EpisodeSeed(name, seed) for seed in seeds]}, {name: 1.0}, len(seeds))
    trainer = kind(tiny.model(), tiny.TOKENIZER, rows, made)
    trainer.train()
    return trainer


def main(folder: str, kept: str) -> None:
    """One update on episodes of one to four turns, of which the processes get different ones."""
    made = recipe(Path(folder), steps=1, prompts_per_step=4, group_size=2, max_grad_norm=0.0)
    done = trained(made, [3, 2, 0, 0])
    sys.stdout.write(f"passes {done.passes}\n")
    if done.accelerator.is_main_process:
        np.save(kept, done.gradients)
