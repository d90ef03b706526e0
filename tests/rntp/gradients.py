"""The gradients of one update whose thoughts are given by their place, for one process or several."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from rntp.mixture import Problem, mixed_rows
from rntp.recipe import EnvironmentSpec, RewardSpec
from rntp.trainer import Extras, RntpTrainer
from rntp.verify.task import Task
from tests.rntp import tiny


class Fixed(RntpTrainer):
    """Thinks what its place among all thoughts says, and keeps the gradients."""

    gradients: np.ndarray

    def _sample(self, prompts: list[list[int]], each: int) -> tuple[list[list[int]], None]:
        made = []
        for place, prompt in enumerate(prompts):
            row = place + self.accelerator.process_index * len(prompts) if each > 1 else sum(prompt)
            chance = np.random.default_rng([row, each])
            ids = chance.integers(tiny.FIRST, len(tiny.TOKENIZER), 3 + row % 5).tolist()
            made.append(ids if row % 3 else [*ids, self._end])
        return made, None

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        self.gradients = np.concatenate([one.grad.numpy().ravel().copy() for one in self.model.parameters()])
        return super()._get_grad_norm(model, grad_norm=grad_norm)


def one_update(folder: Path, micro_batch: int) -> Fixed:
    """Three prompts of text and of problems, with every term of the loss."""
    task = Task("t", "text", {"answer": "x"}, environment="words")
    problems = [Problem(task, (7, 8, 9 + n)) for n in range(3)]
    rows = mixed_rows(tiny.places(12), {"words": problems}, {"text": 2.0, "words": 1.0}, 3, seed=1)
    recipe = tiny.recipe(
        folder, steps=1, prompts_per_step=3, micro_batch=micro_batch, ntp_weight=0.7, ntp_sequences=5,
        max_grad_norm=0.0,
        reward=RewardSpec("tests.rntp.own:token_gain", nll_weight=0.3, credit="token", baseline="frozen"),
        environments=(EnvironmentSpec(name="words", puzzle="x", answer_tokens=4),),
    )  # fmt: skip

    def verdicts(pairs: list[tuple[Task, str]]) -> list[float | None]:
        return [len(answer) / 50 for _, answer in pairs]

    documents = [place.context_ids for place in tiny.places(7)]
    trainer = Fixed(tiny.model(), tiny.TOKENIZER, rows, recipe, None, Extras(documents, verdicts))
    trainer.train()
    return trainer


def main(folder: str, kept: str, micro_batch: str) -> None:
    """Save the gradients; the trainer ends with this function, and the process group with it."""
    done = one_update(Path(folder), int(micro_batch))
    sys.stdout.write(f"{done.accelerator.process_index} of {done.accelerator.num_processes}\n")
    if done.accelerator.is_main_process:
        np.save(kept, done.gradients)


def say_threads() -> None:
    """Print how many threads of the process group are left; one that outlives Python's may abort the process."""
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    sys.stdout.write(f"threads of the group left: {sum('gloo' in name for name in names)}\n")
    sys.stdout.flush()
