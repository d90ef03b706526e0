"""Peak memory of scoring and of the loss beside a plain forward pass of the same rows, at a vocabulary of 151,936.

    python benchmarks/rl_memory.py [--json] [--hidden 128]

Bytes of tensors that live at a time (``rntp.live_bytes``: the same on every machine), and the allocator's own count by
torch's profiler beside it; weights are not counted. The model is a Qwen3 of 4 layers; a batch is 2 contexts of 256
tokens with 4 thoughts of 64 each and 32 tokens behind. Scoring is held against the model's own forward pass over the
whole rows with ``logits_to_keep=1``: of the batch, and of one row where rows are scored one by one. The loss (policy,
continuation and next-token terms) is held against forward and backward pass of the layers alone.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from transformers import Qwen3Config, Qwen3ForCausalLM

from rntp.live_bytes import LiveBytes
from rntp.mixture import mixed_rows
from rntp.models import make_tokenizer
from rntp.positions import Place
from rntp.recipe import ModelSpec, Recipe, RewardSpec, RlSpec, ThoughtSpec
from rntp.scoring import Rollouts, ScoreOptions, score_shared
from rntp.trainer import Extras, RntpTrainer

VOCABULARY, LAYERS = 151_936, 4
PROMPTS, GROUP, CONTEXT, THOUGHT, GOLD = 2, 4, 256, 64, 32
FIRST = 6  # the special tokens stand before it
MB = 1e6


def made(hidden: int) -> Any:
    """A model with random weights."""
    torch.manual_seed(0)
    shape = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=LAYERS,
        num_attention_heads=4, num_key_value_heads=2, head_dim=hidden // 4, max_position_embeddings=1024,
    )  # fmt: skip
    return Qwen3ForCausalLM(shape).eval()


def places(count: int) -> list[Place]:
    """Random text."""
    chance = np.random.default_rng(0)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(chance.integers(FIRST, 1000, length).tolist())

    return [Place(ids(CONTEXT), ids(GOLD), "", CONTEXT) for _ in range(count)]


def allocated_bytes(call: Callable[[], object]) -> int:
    """Peak of what torch's allocator hands out while something runs, above what it held."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    events = [one for one in seen.profiler.kineto_results.events() if one.name() == "[memory]"]
    sizes = [one.nbytes() for one in sorted(events, key=lambda one: one.start_ns())]
    return int(np.cumsum(sizes).max(initial=0))


@torch.no_grad()
def scoring(model: Any) -> dict[str, dict[str, float]]:
    """Peaks of scoring and of the forward pass, for the batch and row by row."""
    chance, found = np.random.default_rng(1), places(PROMPTS)
    rows = [place for place in found for _ in range(GROUP)]
    thoughts = [chance.integers(FIRST, 1000, THOUGHT).tolist() for _ in rows]
    rollouts = Rollouts([row.context_ids for row in rows], thoughts, [row.gold_ids for row in rows])
    whole = torch.tensor([[*row.context_ids, *ids, *row.gold_ids] for row, ids in zip(rows, thoughts, strict=True)])
    out = {}
    for name, count in (("batch", 0), ("row by row", 1)):
        read, options = whole[: count or None], ScoreOptions(rows_per_pass=count)
        calls: dict[str, Callable[[], object]] = {
            "forward": lambda read=read: model(input_ids=read, logits_to_keep=1),  # type: ignore[misc]
            "hidden": lambda read=read: model.model(input_ids=read, use_cache=False),  # type: ignore[misc]
            "scoring": lambda options=options: score_shared(model, rollouts, options),  # type: ignore[misc]
        }
        peaks: dict[str, float] = {}
        for kind, call in calls.items():
            with LiveBytes() as live:
                call()
            peaks |= {f"{kind}_bytes": live.peak_bytes, f"{kind}_allocated_bytes": allocated_bytes(call)}
        peaks["ratio"] = peaks["scoring_bytes"] / peaks["forward_bytes"]
        peaks["allocated_ratio"] = peaks["scoring_allocated_bytes"] / peaks["forward_allocated_bytes"]
        peaks["full_logits_bytes"] = 4.0 * len(rows) * (THOUGHT + GOLD) * VOCABULARY
        out[name] = peaks
    return out


class Measured(RntpTrainer):
    """Counts what lives from the loss up to the gradient."""

    live: LiveBytes
    width: int

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        self.width = sum(inputs[part].shape[1] for part in ("prompt_ids", "completion_ids", "gold_ids"))
        self.live = LiveBytes()
        self.live.__enter__()
        return super()._compute_loss(model, inputs)

    def _get_grad_norm(self, *arguments: Any, **options: Any) -> Any:
        self.live.__exit__(None, None, None)
        return super()._get_grad_norm(*arguments, **options)


def loss(hidden: int, folder: str) -> dict[str, float]:
    """Peaks of the loss and its gradient, and of those of the layers alone."""
    words = " ".join(f"w{n}" for n in range(1000))
    tokenizer = make_tokenizer(ModelSpec(tokenizer="word", vocabulary=1024), ThoughtSpec(), [words])
    recipe = Recipe(
        output=folder, reward=RewardSpec(nll_weight=0.5, scorer="frozen"), thought=ThoughtSpec(budget=THOUGHT),
        rl=RlSpec(
            steps=1, prompts_per_step=PROMPTS, group_size=GROUP, device="cpu", save_steps=0, ntp_weight=1.0,
            ntp_sequences=PROMPTS * GROUP, ntp_tokens=128,
        ),
    )  # fmt: skip
    found = places(PROMPTS)
    trainer = Measured(
        made(hidden), tokenizer, mixed_rows(found, {}, {"text": 1.0}, PROMPTS), recipe, None,
        Extras(documents=[place.context_ids for place in found]),
    )  # fmt: skip
    trainer.args.save_strategy = "no"
    trainer.train()
    model, ids = made(hidden).train(), torch.ones(PROMPTS * GROUP, trainer.width, dtype=torch.long)
    with LiveBytes() as alone:
        model.model(input_ids=ids, use_cache=False).last_hidden_state.square().mean().backward()
    positions = PROMPTS * GROUP * trainer.width
    return {
        "loss_bytes": trainer.live.peak_bytes, "layers_bytes": alone.peak_bytes,
        "largest_tensor_bytes": trainer.live.largest_bytes, "full_logits_bytes": 4.0 * positions * VOCABULARY,
        "head_gradient_bytes": 4.0 * VOCABULARY * hidden,
    }  # fmt: skip


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--hidden", type=int, default=128)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        scored, trained = scoring(made(options.hidden)), loss(options.hidden, str(Path(folder) / "run"))
    if options.json:
        print(json.dumps({"scoring": scored, "loss": trained}))
        return
    for name, peaks in scored.items():
        print(
            f"scoring, {name}: {peaks['scoring_bytes'] / MB:.1f} MB, {peaks['ratio']:.2f} times the forward pass "
            f"({peaks['forward_bytes'] / MB:.1f} MB; hidden states alone {peaks['hidden_bytes'] / MB:.1f} MB); by the "
            f"allocator {peaks['allocated_ratio']:.2f} times; all logits {peaks['full_logits_bytes'] / MB:,.0f} MB"
        )
    print(
        f"loss: {trained['loss_bytes'] / MB:,.0f} MB, layers alone {trained['layers_bytes'] / MB:,.0f} MB; largest "
        f"tensor {trained['largest_tensor_bytes'] / MB:,.0f} MB, all logits {trained['full_logits_bytes'] / MB:,.0f} "
        f"MB, gradient of the head {trained['head_gradient_bytes'] / MB:,.0f} MB"
    )


if __name__ == "__main__":
    main()
