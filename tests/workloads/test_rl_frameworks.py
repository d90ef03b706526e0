"""Frameworks of RL as data, and weight sync by mechanism: defaults, refusals, and what the answer says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.weight_sync import load_sync_mechanism, sync_constants, sync_mechanisms
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Precision
from computeledger.workloads.rl.weight_sync import SyncSides, sync_s
from computeledger.workloads.rl_frameworks import load_rl_framework, named_rl_framework, rl_framework_ids

ASKED: dict[str, Any] = {
    "model": "llama-3.1-8b", "system": "h100-nvl8", "gpus": 16, "rollout_tokens": 1000, "samples": 16,
}  # fmt: skip


def test_every_framework_loads_and_is_found_by_its_own_name() -> None:
    assert {"verl", "nemo-rl", "slime", "areal", "skyrl", "prime-rl", "openrlhf", "trl", "deepspeed-chat",
            "generic"} <= set(rl_framework_ids())  # fmt: skip
    for name in rl_framework_ids():
        one = load_rl_framework(name)
        assert name == "generic" or named_rl_framework(f"a run of {one.name} 1.0").id == name


def test_what_nobody_names_is_the_frameworks() -> None:
    slime = cl.rl(**ASKED, framework="slime").to_dict()
    assert slime["backend"] == "sglang" and not slime["split"]["colocated"], "slime splits the GPUs without a lag"
    assert slime["framework"]["taken"] == {
        "backend": "sglang", "max_lag": 0, "logprob_passes": 2.0, "live_limit": 512.0,
    }  # fmt: skip
    areal = cl.rl(**ASKED, framework="areal", training_gpus=8).to_dict()
    assert areal["split"]["max_lag"] == 2
    named = cl.rl(**ASKED, framework="areal", backend="vllm", max_lag=0).to_dict()
    assert named["backend"] == "vllm" and named["split"]["colocated"]
    assert "max_lag" not in named["framework"]["taken"]


def test_phases_add_up_to_a_synchronous_step() -> None:
    answer = cl.rl(**ASKED, logprob_passes=2)
    parts, result = answer.run.result.phases_s, answer.run.result
    assert float(parts["old-policy log-probs"].mean()) == pytest.approx(float(parts["reference log-probs"].mean()))
    logged = sum(parts[name] for name in parts if name not in ("exposed generation", "reward", "idle"))
    assert ((result.step_s - logged) > 0).all(), "what is left is once per step"
    assert set(answer.phases_s) == set(answer.to_dict()["phases_s"])


def test_a_mechanism_of_another_placement_is_refused_with_the_remedy() -> None:
    with pytest.raises(InputError, match=r"weight_sync delta: needs GPUs of their own .* max_lag 1"):
        cl.rl(**ASKED, weight_sync="delta")
    with pytest.raises(InputError, match=r"weight_sync colocated: needs GPUs that take turns"):
        cl.rl(**ASKED, weight_sync="colocated", training_gpus=8)
    with pytest.raises(InputError, match="nccl"):
        cl.rl(**ASKED, weight_sync="nccl")


def test_mechanisms_differ_as_their_terms_say() -> None:
    def took_s(name: str, n: float = 64.0, model: str = "qwen3-235b-a22b") -> float:
        sides = SyncSides(load_model(model), Precision(), Layout(tp=8), n, n, load_system("h100-nvl8"), False)
        return float(sync_s(sides, load_sync_mechanism(name)))

    whole = took_s("nccl-broadcast")
    assert whole > took_s("checkpoint-engine") > took_s("nccl-shard")
    assert took_s("delta", 256.0) < took_s("delta", 16.0), "every trainer rank compares its own part"
    assert took_s("nccl-broadcast", model="qwen3-32b") < whole / 4
    assert took_s("rdma") < took_s("nccl-packed"), "a generator pulls its own part alone"
    assert all(one.name for one in sync_mechanisms().values())


def test_what_a_card_brings_follows_the_trainers_layout() -> None:
    def took_s(cut: Layout | None, name: str = "colocated", model: str = "llama-3.1-70b", n: float = 64.0) -> float:
        sides = SyncSides(load_model(model), Precision(), Layout(tp=4), n, n, load_system("h100-nvl8"), training=cut)
        return float(sync_s(sides, load_sync_mechanism(name)))

    cut = Layout(tp=4, pp=4, dp=4)
    assert took_s(cut, "colocated-tensors") > 1.5 * took_s(cut), "whole tensors cross, not a quarter of each"
    assert took_s(Layout(tp=8, dp=8)) < took_s(cut), "without stages nothing is lacking beyond a domain"
    one, many = (took_s(Layout(tp=8), n=n) for n in (8.0, 64.0))
    kept_s = 12 * 70.55e9 / sync_constants()["sync_state_bytes_per_s"]
    assert one - many == pytest.approx(kept_s * (1 / 8 - 1 / 64), 0.01), "optimizer state of fewer ranks"


@pytest.mark.parametrize(("model", "n", "measured_s"), [("deepseek-v3", 512.0, 14.0), ("qwen3-235b-a22b", 256.0, 5.5)])
def test_packed_broadcasts_are_those_of_pull_request_1379(model: str, n: float, measured_s: float) -> None:
    sides = SyncSides(load_model(model), Precision(), Layout(tp=8), n / 2, n / 2, load_system("h100-nvl8"), False)
    assert 1 / 1.6 < float(sync_s(sides, load_sync_mechanism("nccl-packed"))) / measured_s < 1.6


def test_slower_sync_makes_a_longer_step() -> None:
    apart = {**ASKED, "training_gpus": 8, "max_lag": 1}
    disk, shard = (cl.rl(**apart, weight_sync=name).step_s.p50 for name in ("disk", "nccl-shard"))
    assert disk > shard


def test_trainers_are_cut_as_their_frameworks_have_it() -> None:
    """Shared weights, small microbatches and padding each cost time; what a question states goes before a preset."""
    verl, generic = (cl.rl(**ASKED, framework=one).run.result for one in ("verl", "generic"))
    assert verl.scenario.trainer.is_sharded and verl.scenario.trainer.recompute == "full"
    assert not generic.scenario.trainer.is_sharded
    assert np.median(verl.training.update_s) > 1.2 * np.median(generic.training.update_s), "it computes forward again"
    stated = {"sharding": "zero-3", "recompute": "none"}
    whole, cut = (cl.rl(**ASKED, **stated, microbatch_sequences=n).run.result.training for n in (8, 1))
    assert np.median(cut.update_s) > 1.2 * np.median(whole.update_s), "weights are gathered for every microbatch"
    assert np.median(cut.logprob_s) > 1.2 * np.median(whole.logprob_s)
    packed, padded = (cl.rl(**ASKED, packing=one, microbatch_sequences=8).run.result for one in ("packed", "padded"))
    longest = padded.scenario.sampling.lengths.expected_longest_tokens(8.0) + 500.0
    assert np.median(padded.scenario.sequence_tokens + padded.scenario.padding_tokens) == pytest.approx(longest)
    ratio = np.median(padded.training.update_s) / np.median(packed.training.update_s)
    assert 1.3 < ratio < longest / np.median(packed.scenario.sequence_tokens) * 1.1
    taken = cl.rl(**ASKED, framework="trl").to_dict()["framework"]["taken"]
    assert (taken["packing"], taken["microbatch_sequences"]) == ("padded", 8)


def test_an_engine_with_less_memory_holds_fewer_rollouts() -> None:
    asked = ASKED | {"model": "qwen3-32b", "rollout_tokens": 3000, "prompts_per_step": 256}
    less, more = (cl.rl(**asked, memory_fraction=share, layout="tp1").run.result.generation for share in (0.85, 1.0))
    assert np.median(less.n_places) < np.median(more.n_places)
    assert np.median(less.wall_s) > np.median(more.wall_s)


def test_an_answer_says_what_its_interval_rests_on() -> None:
    said = {name: cl.rl(**ASKED, framework=name).to_dict()["interval"]["rests_on"]
            for name in ("generic", "nemo-rl", "verl", "skyrl")}  # fmt: skip
    assert said["verl"].startswith("no step of verl was measured")
    assert "measured steps of NeMo RL" in said["nemo-rl"] and "may be another" in said["generic"]
    assert "measured steps of SkyRL correct" in said["skyrl"]
