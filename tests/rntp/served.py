"""Thoughts and answers from a server that processes share: a double of the client of TRL's vLLM server mode.

The double says back the first token of each prompt; every process prints how many answers it
asked for and how many of them are its own rows'.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from trl.generation.vllm_generation import VLLMGeneration

from rntp.mixture import Problem, mixed_rows
from rntp.recipe import EnvironmentSpec, RewardSpec
from rntp.trainer import Extras, RntpTrainer
from rntp.verify.task import Task
from tests.rntp import tiny


class Echo:
    """Answers with the first token of the prompt, so that an answer tells whose it is."""

    def generate(self, prompts: list[list[int]], n: int, max_tokens: int, **_options: Any) -> dict[str, Any]:
        """What TRL's client returns: completions of prompt after prompt."""
        said = [[prompt[0]] * min(2, max_tokens) for prompt in prompts for _ in range(n)]
        return {"prompt_ids": prompts, "completion_ids": said, "logprobs": [[[-1.0] for _ in row] for row in said]}


class Served(RntpTrainer):
    """Samples as TRL does in its server mode, from the double."""

    def serve(self) -> None:
        """Put TRL's own code in front of the double; nothing connects."""
        engine = VLLMGeneration.__new__(VLLMGeneration)
        engine.accelerator, engine.mode, engine.vllm_client = self.accelerator, "server", Echo()
        engine.temperature, engine.top_p, engine.top_k, engine.min_p = 1.0, 1.0, 0, None
        engine.repetition_penalty, engine.max_completion_length, engine.logprobs = 1.0, 4, 0
        engine.structured_outputs_regex, engine.generation_kwargs = None, {}
        self.vllm_generation, self.use_vllm, self._last_loaded_step = engine, True, 0

    def _think(self, inputs: list[dict[str, Any]]) -> Any:
        made = super()._think(inputs)
        asked = [place for place, row in enumerate(inputs) if row["task"] is not None]
        right = [made.completions[place][-1] == int(inputs[place]["context_ids"][0]) for place in asked]
        sys.stdout.write(f"asked {len(asked)} right {sum(right)}\n")
        return made


def main(folder: Path) -> None:
    """One update on six prompts, of which problems fall unevenly on the two processes."""
    task = Task("t", "text", {"answer": "x"}, environment="words")
    problems = [Problem(task, (20 + n, 8, 9)) for n in range(6)]
    rows = mixed_rows(tiny.places(6), {"words": problems}, {"text": 1.0, "words": 1.0}, 6, seed=0)
    recipe = tiny.recipe(
        folder, steps=1, prompts_per_step=6, group_size=2, reward=RewardSpec(),
        environments=(EnvironmentSpec(name="words", puzzle="x", answer_tokens=2),),
    )  # fmt: skip
    extras = Extras(verify=lambda pairs: [float(len(text) % 2) for _, text in pairs])
    trainer = Served(tiny.model(), tiny.TOKENIZER, rows, recipe, None, extras)
    trainer.serve()
    trainer.vllm_importance_sampling_clip_max = 3.0
    trainer.train()
