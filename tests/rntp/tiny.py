"""A model of a few thousand parameters, its words, and places to think at: what the trainer's tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rntp.models import make_model, make_tokenizer
from rntp.positions import Place
from rntp.recipe import ModelSpec, Recipe, RlSpec, ThoughtSpec

SHAPE = ModelSpec(
    tokenizer="word", vocabulary=64, hidden_size=32, heads=4, kv_heads=2, intermediate_size=64, context_tokens=128
)
TOKENIZER = make_tokenizer(
    SHAPE, ThoughtSpec(), ["yes no did the thought help " + " ".join(f"w{n}" for n in range(40))]
)
FIRST = 6  # the special tokens stand before it


def model(seed: int = 1, architecture: str = "qwen3") -> Any:
    """Random weights."""
    shape = {name: getattr(SHAPE, name) for name in SHAPE.__slots__} | {"architecture": architecture}
    return make_model(ModelSpec(**shape), TOKENIZER, seed=seed)


def places(count: int, context: int = 12, gold: int = 4) -> list[Place]:
    """Random text, of lengths that differ."""
    chance = np.random.default_rng(0)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(chance.integers(FIRST, len(TOKENIZER), length).tolist())

    return [Place(ids(context - n % 3), ids(gold - n % 2), f"document {n}", context) for n in range(count)]


def recipe(output: Path, **given: Any) -> Recipe:
    """Three updates of four prompts with four thoughts each, as far as nothing else is said."""
    tables = {name: given.pop(name) for name in ("thought", "reward", "environments", "positions") if name in given}
    rl: dict[str, Any] = {
        "steps": 3,
        "prompts_per_step": 4,
        "group_size": 4,
        "learning_rate": 1e-2,
        "device": "cpu",
        "save_steps": 0,
    }
    tables.setdefault("thought", ThoughtSpec(budget=12))
    return Recipe(name="tiny", seed=3, output=str(output), model=SHAPE, rl=RlSpec(**(rl | given)), **tables)
