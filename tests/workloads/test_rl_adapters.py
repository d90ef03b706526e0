"""LoRA in RL: published counts and memory, limits in the rank, and every way to ask alike."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from computeledger.arrays import median
from computeledger.economics.plan.ledger import estimate_ledger
from computeledger.economics.plan.read import read_plan
from computeledger.economics.plan.rl_clock import planned_run
from computeledger.errors import InputError
from computeledger.facts.architecture import Lora
from computeledger.facts.load import load_model, load_system
from computeledger.interfaces.cli import cli
from computeledger.physics.adapters import adapter_bytes, adapter_params, adapter_shape
from computeledger.physics.calibration.weight_sync import load_sync_mechanism, sync_constants
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.physics.training.batch import with_adapters
from computeledger.physics.training.memory import TrainingMemory, training_memory
from computeledger.physics.transformer import n_params_total
from computeledger.questions.answers.rl.answer import rl
from computeledger.simulation.rl.clock import simulate_rl
from computeledger.workloads.rl.training import Trainer
from computeledger.workloads.rl.weight_sync import SyncSides, sync_s

LLAMA = load_model("llama-3.1-8b")
ASKED: dict[str, Any] = {
    "model": "llama-3.1-8b", "system": "h100-nvl8", "gpus": 16, "rollout_tokens": "2K", "samples": 16,
    "layout": "tp2", "training_layout": "dp16", "recompute": "full",
}  # fmt: skip


def memory(model: str, layout: Layout, tokens: float, lora: Lora | None) -> TrainingMemory:
    trainer = Trainer(layout, pack_tokens=tokens, recompute="full", is_sharded=True, lora=lora)
    known = load_model(model)
    return training_memory(known, with_adapters(trainer.batch(tokens, 2.0 * layout.dp), known, lora), layout)


def test_parameters_and_flop_are_those_that_thinking_machines_publish() -> None:
    """LoRA Without Regret: table of layers at Llama 3.1 8B, which adapts the output head too; 2/3 of the FLOP."""
    head = LLAMA.vocab_size + LLAMA.hidden_size
    attention, every = (adapter_params(LLAMA, Lora(256, one)) for one in ("attention", "all"))
    assert round((attention + 256 * head) / 1e9, 2) == 0.25
    assert round((every + 256 * head) / 1e9, 2) == 0.70
    assert round((every - attention) / 2 / 1e9 + 128 * head / 1e9, 2) == 0.24, "MLPs alone at rank 128"
    full, adapted = (rl(**ASKED, **one).run.result.flop_by_phase["update"] for one in ({}, {"lora_rank": 16}))
    assert 2 / 3 < median(adapted) / median(full) < 0.68, "slightly more than 2/3"


@pytest.mark.parametrize(
    ("model", "gpus", "tokens", "full_gib", "adapted_gib"),
    [("qwen3-4b", 8, 16384, 17.1, 10.3), ("qwen3-4b", 8, 65536, 36.1, 28.8), ("qwen3-0.6b", 1, 16384, 12.5, 5.1),
     ("qwen3-0.6b", 1, 65536, 19.6, 11.5)],
)  # fmt: skip
def test_memory_saved_is_what_prime_rl_measures(
    model: str, gpus: int, tokens: int, full_gib: float, adapted_gib: float
) -> None:
    """Prime-rl, benchmarks/results/BENCHMARKS.md of 2026-02-01, rank 16, FSDP2; activations are its own."""
    full, adapted = (memory(model, Layout(dp=gpus), tokens, one).total_bytes for one in (None, Lora(16)))
    assert float(full - adapted) / 2**30 == pytest.approx(full_gib - adapted_gib, rel=0.16)


def test_memory_in_the_limits_of_the_rank() -> None:
    """Gradients and optimizer grow with the rank up to those of the whole model; frozen weights stand in 16 bits."""
    layout, total = Layout(dp=8), n_params_total(LLAMA)
    full, small, large = (memory("llama-3.1-8b", layout, 8192.0, one) for one in (None, Lora(8), Lora(64)))
    for part in ("gradients_bytes", "optimizer_bytes"):
        assert getattr(large, part) == pytest.approx(8 * getattr(small, part))
        share = adapter_params(LLAMA, Lora(64)) / total
        assert getattr(large, part) == pytest.approx(share * getattr(full, part))
    resident = small.weights_bytes - small.gathered_bytes
    assert float(resident) == pytest.approx(2 * total / 8, rel=0.01), "sharded, in 16 bits"
    assert float(small.gathered_bytes) == float(full.gathered_bytes), "gathered as without adapters"
    assert float(small.total_bytes) < float(large.total_bytes) < float(full.total_bytes)


def test_each_phase_does_what_adapters_leave_of_it() -> None:
    full = rl(**ASKED)
    alone, merged, wide = (
        rl(**ASKED, lora_rank=rank, lora_sync=sync)
        for rank, sync in ((8, "adapters"), (8, "merged"), (512, "adapters"))
    )
    one, two, three, four = (found.typical for found in (full, alone, merged, wide))
    assert two.training.logprob_s == pytest.approx(one.training.logprob_s), "a pass is a pass"
    assert 0.6 < two.training.update_s / one.training.update_s < 0.9, "4 of 6 N, attention as before, 3 of 4 passes"
    assert three.generation.wall_s == pytest.approx(one.generation.wall_s), "merged weights run as any"
    stays = 12 * (n_params_total(LLAMA) - adapter_params(LLAMA, Lora(8))) / 16
    assert one.sync_s - three.sync_s == pytest.approx(stays / sync_constants()["sync_state_bytes_per_s"]), (
        "the same weights; only the adapters' optimizer makes room"
    )
    assert one.generation.wall_s < two.generation.wall_s < four.generation.wall_s
    few = rl(**ASKED, lora_rank=8, lora_sync="adapters", lora_targets="attention").typical
    beside, of_few = (found.generation.wall_s - one.generation.wall_s for found in (two, few))
    matrices = [adapter_shape(LLAMA, Lora(8, targets)).n_matrices for targets in ("attention", "all")]
    assert of_few / beside == pytest.approx(matrices[0] / matrices[1], rel=0.1), "kernels, and few bytes beside weights"
    assert alone.setting.run.typical.engine.model.adapters == Lora(8)


@pytest.mark.parametrize("name", ["nccl-broadcast", "nccl-packed", "nccl-shard", "rdma", "disk", "checkpoint-engine"])
def test_what_is_sent_is_proportional_to_the_rank(name: str) -> None:
    """Beyond what a synchronisation takes at rank 0: its fixed time, and naming tensors, as many at every rank."""

    def took_s(rank: int) -> float:
        adapted = replace(LLAMA, adapters=Lora(rank))
        sides = SyncSides(
            adapted, Precision(), Layout(tp=2), 8.0, 8.0, load_system("h100-nvl8"), False, is_sharded=True
        )
        return float(sync_s(sides, load_sync_mechanism(name)))

    one, two, four = took_s(16), took_s(32), took_s(64)
    assert four - two == pytest.approx(2 * (two - one)) and two > one
    whole = SyncSides(LLAMA, Precision(), Layout(tp=2), 8.0, 8.0, load_system("h100-nvl8"), False, is_sharded=True)
    assert one < float(sync_s(whole, load_sync_mechanism(name)))


@pytest.mark.parametrize(
    ("given", "sent"),
    [({"framework": "verl"}, "adapters"), ({"framework": "verl", "backend": "sglang"}, "merged"),
     ({"framework": "verl", "training_gpus": 8, "training_layout": None}, "merged"),
     ({"framework": "nemo-rl"}, "merged"), ({"framework": "trl"}, "merged"), ({"framework": "skyrl"}, "adapters"),
     ({"framework": "areal", "layout": None, "training_layout": None}, "adapters"),
     ({"framework": "skyrl", "lora_sync": "merged"}, "merged")],
    ids=str,
)  # fmt: skip
def test_frameworks_send_what_their_code_sends(given: dict[str, Any], sent: str) -> None:
    said = rl(**{**ASKED, **given}, lora_rank=16).to_dict()
    assert said["lora"]["sync"] == sent
    weights, adapters = 2 * n_params_total(LLAMA), adapter_bytes(LLAMA, Lora(16))
    assert said["lora"]["sent_bytes"] == pytest.approx(adapters if sent == "adapters" else weights, rel=1e-3)
    plain = {name: value for name, value in given.items() if name != "lora_sync"}
    assert said["interval"]["class"] == rl(**{**ASKED, **plain}, turns=8).to_dict()["interval"]["class"], "never fitted"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lora_rank": 2048}, "at most 1024, the smallest side of an adapted matrix"),
        ({"model": "llama-2-7b", "lora_rank": 4096}, "above it adapters hold more than"),
        ({"lora_targets": "attention"}, "lora_targets needs lora_rank"),
        ({"lora_sync": "merged"}, "lora_sync needs lora_rank"),
        ({"lora_rank": 16, "lora_targets": "experts"}, "allowed: all, attention"),
        ({"lora_rank": 16, "framework": "slime"}, "slime trains no adapters; allowed: framework generic, areal"),
        ({"lora_rank": 16, "framework": "nemo-rl", "lora_sync": "adapters"}, "NeMo RL sends all weights, merged"),
        ({"lora_rank": 16, "framework": "verl", "backend": "sglang", "lora_sync": "adapters"}, "to sglang on these"),
        ({"lora_rank": 16, "framework": "prime-rl", "lora_sync": "merged"}, "sends the adapters alone; leave"),
        ({"lora_rank": 16, "weight_sync": "delta", "training_gpus": 8}, "all weights; state lora_sync merged"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(given: dict[str, Any], said: str) -> None:
    asked = {name: value for name, value in ASKED.items() if name not in ("layout", "training_layout")}
    with pytest.raises(InputError, match=said) as refused:
        rl(**{**asked, **given})
    assert "\n" not in str(refused.value)


PLAN: dict[str, Any] = {
    "model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h", "pretraining": {"skip": "open weights"},
    "inference": {"skip": "not served"},
}  # fmt: skip
SECTION: dict[str, Any] = {
    "steps": 10, "gpus": 16, "layout": "tp1", "prompts_per_step": 16, "group_size": 8, "rollout_tokens": "2K tokens",
    "prompt_tokens": "300 tokens", "lora_rank": 64,
}  # fmt: skip


@pytest.mark.parametrize("changes", [{}, {"lora_sync": "merged"}, {"max_lag": 1, "training_gpus": 8}], ids=str)
def test_closed_form_and_simulation_agree(changes: dict[str, Any]) -> None:
    plan = read_plan(PLAN | {"rl": SECTION | changes})
    closed = median(estimate_ledger(plan, 16).phases["rl"].details["step_s"][0])
    once = planned_run(plan, 40 if "max_lag" in changes else 6)
    assert closed == pytest.approx(simulate_rl(once.scenario, once.rollouts).steady_step_s, rel=0.1)
    sent = adapter_bytes(LLAMA, Lora(64)) if "lora_sync" not in changes else 2 * n_params_total(LLAMA)
    assert once.weights_bytes == pytest.approx(sent, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "adapted", "full"), [("qwen2.5-7b", 1, 2), ("qwen2.5-14b", 2, 4), ("qwen2.5-32b", 4, 8)]
)
def test_the_fewest_gpus_are_those_of_verl(model: str, adapted: int, full: int) -> None:
    """verl, docs/perf/device_tuning.rst: least 80 GB GPUs of GRPO with LoRA and without (32B without: H20)."""
    asked: dict[str, Any] = {
        "model": model, "system": "h100-nvl8", "gpus": adapted, "rollout_tokens": 512, "prompt_tokens": 300,
        "longest_over_mean": 2, "samples": 16, "framework": "verl", "prompts_per_step": 64, "group_size": 5,
    }  # fmt: skip
    found = rl(**asked, lora_rank=32).to_dict()
    assert found["fits"] and found["split"]["colocated"]
    with pytest.raises(InputError, match=rf"; it would fit on {full} GPUs \(in turns, .*\), or here with adapters"):
        rl(**asked)
    with pytest.raises(InputError, match="it would fit") as refused:
        rl(**{**asked, "framework": "slime", "gpus": 2})
    assert "adapters" not in str(refused.value), "slime trains none"


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_one_command_end_to_end(tmp_path: Path) -> None:
    given = ["rl", "--model=llama-3.1-8b", "--system=h100-nvl8", "--gpus=16", "--rollout-tokens=2K", "--lora-rank=16"]
    document = json.loads(printed(*given, "--framework=verl", "--samples=16", "--json"))
    asked = rl(model="llama-3.1-8b", system="h100-nvl8", gpus=16, rollout_tokens="2K", lora_rank=16, framework="verl",
               samples=16)  # fmt: skip
    assert document["lora"] == asked.to_dict()["lora"] and document["step_s"]["p50"] == asked.step_s.p50
    said = printed(*given, "--samples=16", "--working")
    assert "LoRA rank 16" in said and "0.52 % of parameters trained" in said.replace("\n", " ")
    file = tmp_path / "plan.toml"
    section = "\n".join(f"{name} = {json.dumps(value)}" for name, value in SECTION.items())
    skipped = '[pretraining]\nskip = "open"\n[inference]\nskip = "not served"\n'
    file.write_text(f'model = "llama-3.1-8b"\nsystem = "h100-nvl8"\nprice = "$2/h"\n{skipped}[rl]\n{section}\n')
    planned = json.loads(printed("plan", str(file), "--samples=16", "--json"))
    assert "LoRA rank 64 (all)" in json.dumps(planned)
    assert np.isfinite(json.loads(printed("simulate", "rl", str(file), "--steps=2", "--json"))["weights"]["load_s"])
