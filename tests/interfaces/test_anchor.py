"""An anchor that says more never teaches less: naming what the question has anyway changes nothing."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.parallelism import parse_layout
from computeledger.physics.roofline import parse_precision
from computeledger.physics.training.batch import Batch, Stack
from computeledger.questions.answers.pretraining.anchor import anchored_result
from computeledger.questions.answers.setup import draw_machine
from computeledger.workloads.anchor import Spread, anchor
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.questions.setup import Sampled
from computeledger.workloads.serving.anchor import read_anchor

SCENARIOS = {
    "interleaved": PretrainingScenario(
        load_model("qwen3-30b-a3b"), parse_layout("tp4-pp4-dp4-ep8"), parse_precision("bf16", moe=True),
        Batch(4096.0, 1024.0, 2.0, "full", 3.0),
    ),
    "sharded, fp8 activations": PretrainingScenario(
        load_model("llama-3.1-8b"), parse_layout("tp2-dp8"), parse_precision("fp8"),
        Batch(8192.0, 256.0, 1.0, "none", 1.0, True, Stack(recipe="block", activation_precision="fp8")),
    ),
    "DualPipe": PretrainingScenario(
        load_model("deepseek-v3"), parse_layout("pp16-dp128-ep64"), parse_precision("fp8", moe=True),
        Batch(4096.0, 15360.0, 1.0, "selective", 1.0, False, Stack(schedule="dualpipe", mtp_layers=1)),
    ),
}  # fmt: skip


def own_words(one: PretrainingScenario) -> dict[str, str]:
    """What an anchor may say of a scenario, with the scenario's own values."""
    batch = one.batch
    return {
        "layout": str(one.layout), "gpus": f"{one.layout.n_gpus}", "microbatch": f"{batch.microbatch_sequences:g}",
        "virtual_stages": f"{batch.virtual_stages:g}", "recompute": batch.recompute, "precision": one.precision.name,
        "model": one.model.id, "sequence": f"{batch.sequence_tokens:g}",
        "global_batch": f"{batch.sequence_tokens * batch.global_sequences:.0f}",
    }  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_the_question_has_anyway_may_be_named_or_left_out(name: str) -> None:
    scenario = SCENARIOS[name]
    _, machine, _ = draw_machine(load_system("h800-nvl8"), {}, "vllm", Sampled(samples=64))
    alone = anchored_result("mfu=12%", scenario, machine)[1:]
    words = own_words(scenario)
    said = [*combinations(words, 1), *combinations(words, 2), tuple(words)]
    for keys in said:
        text = ", ".join(["mfu=12%", *(f"{key}={words[key]}" for key in keys)])
        held, described = anchored_result(text, scenario, machine)[1:]
        assert described == alone[1] and described["same_configuration"], text
        assert held.shrinkage_fraction == alone[0].shrinkage_fraction, text


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("spread", [0.01, 0.1, 0.5])
def test_a_measurement_never_widens(spread: float, same: bool) -> None:
    draws = np.exp(np.random.default_rng(0).normal(0.0, spread, 4000))
    other = np.exp(np.random.default_rng(1).normal(0.0, spread, 4000))
    for measured in (draws, other):
        assert anchor(draws, measured, 1.3, Spread(0.22, 0.09), same).narrowed_fraction <= 1


def test_an_anchor_of_nothing_says_so(tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text("")
    with pytest.raises(InputError, match="the file is empty"):
        read_anchor(str(empty))
    other = tmp_path / "anchor.txt"
    other.write_text("batch=1")
    with pytest.raises(InputError, match="is a file"):
        read_anchor(str(other))
    with pytest.raises(InputError, match="nothing is given; write key=value"):
        read_anchor(" ")
    with pytest.raises(InputError, match="give a unit: 21ms or 21s"):
        read_anchor("batch=32, isl=1024, osl=512, tpot=21")
