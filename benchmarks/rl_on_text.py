"""Cost of RL on text over plain GRPO, and of scoring with a shared context over separate passes; on one thread.

    python benchmarks/rl_on_text.py [--json] [--steps 12]

The step: a Qwen3 of two layers (hidden 128, 4 heads, vocabulary 1024), 4 prompts x 8 thoughts of 32 tokens behind 64,
gold of 16. Plain GRPO is TRL's trainer on the same prompts with a reward that costs nothing (the length). Both trainers
take a step in turn, each in a thread of its own (the main thread's memory is not like theirs), in the processor time of
the process; the ratio is the median of those of neighbours. Scoring: contexts of 512 tokens, groups of 8, both ways in
turn; the separate way reads every row twice, once for the thought and once for the gold.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import argparse
import contextlib
import json
import math
import statistics
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOTrainer

from rntp.arguments import grpo_config
from rntp.mixture import mixed_rows
from rntp.models import make_model, make_tokenizer
from rntp.positions import Place
from rntp.recipe import ModelSpec, Recipe, RlSpec, ThoughtSpec
from rntp.scoring import Rollouts, ScoreOptions, score_separate, score_shared
from rntp.trainer import Extras, RntpTrainer

SHAPE = ModelSpec(tokenizer="word", vocabulary=1024, kv_heads=2, tie_embeddings=True)
WORDS = " ".join(f"w{n}" for n in range(SHAPE.vocabulary))
PROMPTS, GROUP, CONTEXT, THOUGHT, GOLD = 4, 8, 64, 32, 16
LONG = 512
FIRST = 6  # the special tokens stand before it


class Turns(TrainerCallback):
    """Lets two trainers step in turn, and takes the time of each step."""

    def __init__(self, mine: threading.Semaphore, other: threading.Semaphore) -> None:
        self.mine, self.other, self.begun = mine, other, 0.0
        self.times: list[float] = []

    def on_step_begin(self, *_args: Any, **_kwargs: Any) -> None:
        """Wait for the turn."""
        self.mine.acquire()
        self.begun = time.process_time()

    def on_step_end(self, *_args: Any, **_kwargs: Any) -> None:
        """Give it up."""
        self.times.append(time.process_time() - self.begun)
        self.other.release()


def plain_length(completions: list[str], **_columns: Any) -> list[float]:
    """A reward that costs nothing."""
    return [float(len(text)) for text in completions]


def step_times(steps: int, folder: str) -> dict[str, list[float]]:
    """Processor time of every step of both trainers."""
    tokenizer = make_tokenizer(SHAPE, ThoughtSpec(), [WORDS])
    chance = np.random.default_rng(0)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(chance.integers(FIRST, len(tokenizer), length).tolist())

    rows = mixed_rows(
        [Place(ids(CONTEXT), ids(GOLD), "", CONTEXT) for _ in range(PROMPTS)], {}, {"text": 1.0}, steps * PROMPTS
    )
    rl = RlSpec(steps=steps, prompts_per_step=PROMPTS, group_size=GROUP, learning_rate=1e-6, device="cpu", save_steps=0)
    recipe = Recipe(output=folder, thought=ThoughtSpec(budget=THOUGHT, truncation="keep"), rl=rl)
    turns = {"rntp": threading.Semaphore(1), "plain": threading.Semaphore(0)}
    clocks = {"rntp": Turns(turns["rntp"], turns["plain"]), "plain": Turns(turns["plain"], turns["rntp"])}
    ours = RntpTrainer(make_model(SHAPE, tokenizer), tokenizer, rows, recipe, None, Extras(callbacks=[clocks["rntp"]]))
    texts = [tokenizer.decode([*row["context_ids"], tokenizer.encode("<think>")[0]]) for row in rows]
    plain = GRPOTrainer(
        make_model(SHAPE, tokenizer), plain_length, grpo_config(recipe), rows.dataset.add_column("prompt", texts),
        processing_class=tokenizer, callbacks=[clocks["plain"]],
    )  # fmt: skip
    plain.remove_callback(PrinterCallback)
    for one in (ours, plain):
        one.args.save_strategy = "no"
    threads = [threading.Thread(target=one.train) for one in (ours, plain)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {name: clock.times for name, clock in clocks.items()}


def rollouts(model: Any, *, uneven: bool) -> Rollouts:
    """Groups of random thoughts behind long random contexts, which may differ in length."""
    chance = np.random.default_rng(0)

    def ids(length: int) -> list[int]:
        return [int(one) for one in chance.integers(FIRST, model.config.vocab_size, length)]

    contexts = [ids(LONG - uneven * (11 + 7 * place)) for place in range(PROMPTS)]
    golds, thoughts = [ids(GOLD) for _ in contexts], [ids(THOUGHT) for _ in range(PROMPTS * GROUP)]
    groups = [place // GROUP for place in range(PROMPTS * GROUP)]
    return Rollouts([contexts[place] for place in groups], thoughts, [golds[place] for place in groups])


def difference(model: Any, rows: Rollouts) -> float:
    """Largest difference of what both ways give."""
    shared, separate = score_shared(model, rows), score_separate(model, rows)
    pairs: list[Any] = [(shared.thought_log_probs, separate.thought_log_probs)]
    tokens: list[Any] = [(shared.gold, separate.gold), (shared.baseline, separate.baseline)]
    for mine, other in tokens:
        pairs += [(mine.log_probs, other.log_probs), (mine.entropies, other.entropies)]
    apart = [float((mine - other).abs().max()) for mine, other in pairs]
    assert all(map(math.isfinite, apart))
    return max(apart)


def scoring() -> tuple[dict[str, list[float]], float]:
    """Processor times of both ways to score, and the largest difference of what they give."""
    tokenizer = make_tokenizer(SHAPE, ThoughtSpec(), [WORDS])
    model = make_model(SHAPE, tokenizer).eval()
    even, options = rollouts(model, uneven=False), ScoreOptions(with_baseline=False)
    ways: dict[str, Callable[..., Any]] = {"shared": score_shared, "separate": score_separate}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(7):
        for name, way in ways.items():
            begun = time.process_time()
            way(model, even, options)
            times[name].append(time.process_time() - begun)
    return times, max(difference(model, rows) for rows in (even, rollouts(model, uneven=True)))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=FutureWarning)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        steps = step_times(options.steps, str(Path(folder) / "run"))
        times, apart = scoring()
    warm = {name: taken[min(2, len(taken) - 1) :] for name, taken in (steps | times).items()}  # the first warm up
    middle = {name: statistics.median(taken) for name, taken in warm.items()}
    ratios = [ours / plain for ours, plain in zip(warm["rntp"], warm["plain"], strict=True)]
    result = {
        "step_overhead_ratio": statistics.median(ratios),
        "step_overhead_quartiles": np.percentile(ratios, (25, 75)).tolist(),
        "shared_scoring_speedup": middle["separate"] / middle["shared"],
        "max_scoring_difference": apart,
        "step_s": {name: middle[name] for name in ("rntp", "plain")},
        "scoring_s": {name: middle[name] for name in ("shared", "separate")},
        "load_1min": os.getloadavg()[0],
    }
    if options.json:
        print(json.dumps(result))
        return
    print(
        f"step: {middle['rntp']:.3f} s, plain GRPO {middle['plain']:.3f} s: {result['step_overhead_ratio']:.2f} times "
        "(quartiles {:.2f} and {:.2f})".format(*result["step_overhead_quartiles"])
    )
    print(
        f"scoring behind {LONG} tokens: {middle['shared']:.3f} s, separate passes {middle['separate']:.3f} s: "
        f"{result['shared_scoring_speedup']:.1f} times faster; largest difference {apart:.1e}"
    )
    print(f"load {result['load_1min']:.1f}")


if __name__ == "__main__":
    main()
