"""Models of architectures that the planner has no formulas for: scored, trained, and counted by their parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from computeledger.actuals.recording.run import RunLedger, RunMachine
from computeledger.actuals.recording.work import ParameterCount, forward_work
from rntp.mixture import mixed_rows
from rntp.models import counted_by
from rntp.recipe import ThoughtSpec
from rntp.scoring import ScoreOptions, score_separate, score_shared
from rntp.trainer import RntpTrainer
from tests.rntp import tiny
from tests.rntp.test_scoring import apart, rollouts

SHAPES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_positions": 128, "n_embd": 32, "n_layer": 2, "n_head": 4},
    "persimmon": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64},
    "smollm3": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                "intermediate_size": 64},
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_a_model_that_the_planner_does_not_know_is_trained_and_counted_by_its_parameters(
    name: str, tmp_path: Path
) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    special = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = AutoConfig.for_model(name, vocab_size=len(tiny.TOKENIZER), **special, **SHAPES[name])
    made: Any = AutoModelForCausalLM.from_config(config).eval()
    options = ScoreOptions(0.7, 5, question=(9, 10), yes_id=11, no_id=12)
    assert apart(score_shared(made, rollouts(), options), score_separate(made, rollouts(), options)) < 1e-5
    counted = counted_by(made)
    assert isinstance(counted, ParameterCount)
    tables = [one.weight for one in made.modules() if isinstance(one, torch.nn.Embedding)]
    head = made.get_output_embeddings().weight
    looked_up = sum(one.numel() for one in tables if one is not head)
    assert counted.n_params == sum(one.numel() for one in made.parameters()) - looked_up
    assert forward_work(counted, 10.0).flop == 2 * counted.n_params * 10
    books = RunLedger(None, counted, RunMachine())
    rows = mixed_rows(tiny.places(12), {}, {"text": 1.0}, 4)
    recipe = tiny.recipe(tmp_path, steps=1, thought=ThoughtSpec(budget=12, truncation="keep"))
    trainer = RntpTrainer(made, tiny.TOKENIZER, rows, recipe, books)
    before = [one.detach().clone() for one in made.parameters()]
    trainer.train()
    assert any(not torch.equal(a, b) for a, b in zip(before, made.parameters(), strict=True))
    summary = books.summary()
    assert summary["beta_flop"] > 6
    note = summary["flop_note"]
    assert note.startswith("FLOP: 2 per parameter and token, attention left out") and name in note
