"""A model of numbers: every interval is wider than that of the same shape read from a configuration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import computeledger as cl
from computeledger.facts.load import load_model
from computeledger.questions.answer import Quantity

RL = {
    "rollout_tokens": "4K tokens", "prompt_tokens": "200 tokens", "prompts_per_step": 128, "group_size": 16, "gpus": 64,
    "steps": 100,
}  # fmt: skip


def planned(name: str) -> Callable[[str], Quantity]:
    """GPU-hours of a plan that has one phase."""
    phases: dict[str, Any] = {
        "pretraining": {"tokens": "15T tokens", "gpus": 2048},
        "rl": RL,
        "inference": {"rate": "1G tokens/day", "life": "100 days", "input_tokens": "4K tokens",
                      "output_tokens": "1K tokens", "layout": "tp4", "batch": 64},
    }  # fmt: skip

    def answer(model: str) -> Quantity:
        one = {phase: keys if phase == name else {"skip": "-"} for phase, keys in phases.items()}
        return cl.plan({"model": model, "system": "h100-nvl8", "price": "$2/h", **one}, samples=512).gpu_hours

    return answer


ANSWERS: dict[str, Callable[[str], Quantity]] = {
    "serve": lambda model: cl.serve(model=model, system="h100-nvl8", layout="tp4", batch=64, samples=512).tpot_s,
    "pretrain": lambda model: cl.pretrain(model=model, system="h100-nvl8", gpus=512, samples=512).days,
    "rl": lambda model: cl.rl(model=model, system="h100-nvl8", gpus=64, rollout_tokens=4000, samples=512).step_s,
    **{f"plan: {name}": planned(name) for name in ("pretraining", "rl", "inference")},
}


def written_out(text: str, folder: Path) -> str:
    """The path of a configuration of the shape that a rule gives."""
    model = load_model(text)
    (group,) = model.layers
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": model.hidden_size, "num_hidden_layers": model.n_layers, "vocab_size": model.vocab_size,
        "num_attention_heads": group.attention.n_query_heads, "num_key_value_heads": group.attention.n_kv_heads,
        "head_dim": group.attention.qk_head_dim, "intermediate_size": group.feed_forward.width,
        "tie_word_embeddings": model.tied_embeddings, "max_position_embeddings": 131072,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return str(folder / "config.json")


@pytest.mark.parametrize("name", ANSWERS)
def test_an_interval_holds_the_spread_of_a_guessed_shape(name: str, tmp_path: Path) -> None:
    guessed, read = (ANSWERS[name](model) for model in ("70B", written_out("70B", tmp_path)))
    assert guessed.p50 == pytest.approx(read.p50, rel=0.1)
    assert guessed.p95 / guessed.p05 > 1.15 * read.p95 / read.p05
