"""Training frameworks as data: what each changes, and how rows of measurements name them."""

from __future__ import annotations

import numpy as np
import pytest

import computeledger as cl
from computeledger.facts.load import load_model
from computeledger.physics.calibration.training import framework_ratio, training_efficiency
from computeledger.physics.parallelism import Layout
from computeledger.validation.compare import summaries
from computeledger.validation.measured_table import curated_rows
from computeledger.validation.training.points import compare_training, predict_runs
from computeledger.validation.training.rows import training_runs
from computeledger.validation.training.sources import describe_run, framework_of
from computeledger.workloads.frameworks import framework_ids, frameworks, load_framework, named_framework
from computeledger.workloads.pretraining.reading import read_limits, read_training
from computeledger.workloads.questions.pretrain import PretrainQuestion


def question(**given: object) -> PretrainQuestion:
    return PretrainQuestion(model="llama-3.1-8b", system="h100-nvl8", **given)  # type: ignore[arg-type]


def test_every_framework_has_its_own_words() -> None:
    words = [word for one in frameworks() for word in one.words]
    assert len(words) == len(set(words))
    assert {"megatron-lm", "megatron-bridge", "nemo", "maxtext", "torchtitan", "fsdp2", "deepspeed"} <= set(
        framework_ids()
    )
    assert {"internevo", "xtuner", "primus", "neuron", "fms-fsdp", "llm-foundry", "generic"} <= set(framework_ids())
    assert all(named_framework(word).id == one.id for one in frameworks() for word in one.words)


def test_a_framework_brings_its_sharding_and_kernels_and_yields_to_what_is_given() -> None:
    model = load_model("llama-3.1-8b")
    titan, given = question(framework="torchtitan"), question(framework="torchtitan", sharding="zero-1")
    assert read_training(titan, model).batch.sharded_weights
    assert read_training(titan, model).batch.stack.attention == "flash2"
    assert not read_training(given, model).batch.sharded_weights
    assert read_limits(titan, 8).sharded == (True,)
    assert read_limits(question(), 8).sharded == (False, True)
    assert read_training(question(), model).batch.stack == load_framework("generic").stack


def test_the_answer_writes_the_layout_in_the_framework_s_words() -> None:
    said = cl.pretrain(question(framework="megatron-lm", layout="tp2-dp4", samples=16)).to_dict()["framework"]
    assert said["layout"] == {"--tensor-model-parallel-size": 2}
    assert load_framework("maxtext").written(Layout(tp=4, dp=64)) == {
        "tensor": 4,
        "fsdp": 64,
    }


def test_unknown_sources_are_read_by_what_their_framework_does() -> None:
    """Rows of a source nobody has seen: only what its framework usually leaves unsaid is missing."""
    row = {
        "source": "somebody's blog", "framework": "fms-fsdp", "model": "Llama 2 7B", "hardware": "A100 80GB",
        "n_gpus": "128", "seq_len": "4096", "micro_batch": "2", "metric": "tokens_per_s_per_gpu", "value": "3000",
        "notes": "",
    }  # fmt: skip
    run = describe_run(row)
    assert run.sharded_weights
    assert (run.microbatch_sequences, run.global_sequences, int(run.layout.dp)) == (2.0, 256.0, 128)
    cores = {**row, "framework": "", "source": "NeuronX Distributed", "hardware": "trn1.32xlarge", "n_gpus": "64"}
    run = describe_run({**cores, "tp": "8", "pp": "1", "dp": "16", "global_batch_tokens": "1048576"})
    assert (run.system.accelerator.id, int(run.layout.tp), int(run.layout.dp)) == ("trainium1", 4, 16)
    assert (
        framework_of({"source": "x", "notes": "", "url": "https://github.com/pytorch/torchtitan/a.md"}).id
        == "torchtitan"
    )


def test_what_a_framework_takes_and_whose_job_it_is_are_in_the_answer() -> None:
    usual, bridge, recipe = (
        cl.pretrain(question(layout="dp8", samples=64, sharding="zero-3", recompute="full", **given)).to_dict()
        for given in ({}, {"framework": "megatron-bridge"}, {"tuning": "recipe"})
    )
    taken = framework_ratio("megatron-bridge")
    assert taken < 1.0
    assert bridge["step_s"]["p50"] / usual["step_s"]["p50"] == pytest.approx(taken, rel=1e-9)
    assert (usual["interval"]["class"], recipe["interval"]["class"]) == ("unseen", "known")
    assert recipe["step_s"]["p95"] < usual["step_s"]["p95"]
    assert bridge["measured_alike"]["what"] == "dense hopper megatron-bridge"
    assert cl.pretrain(question(layout="dp8", samples=64, framework="internevo")).to_dict()["measured_alike"]["n"] > 100


def test_gathered_runs_are_asked_and_lie_near() -> None:
    """69 runs on chips of two makers that ship with the package, one of whose sources is a third slower."""
    rows = curated_rows("training_elsewhere.csv")
    comparison = compare_training(rows, 64)
    assert not comparison.skipped
    assert len(comparison.rows) == len(rows)
    step = summaries(comparison, np.ones(len(rows), bool))["step_time"]
    assert step["median_abs_error"] < 0.10
    assert step["coverage_90"] >= 0.84


def test_capacity_factors_pad_the_experts() -> None:
    """Measured on 64 MI355X: twice the slots take longer, but not twice as long."""
    rows = [row for row in curated_rows("training_elsewhere.csv") if row["model"] == "DeepSeek-V3"]
    (one, two), _ = training_runs([row for row in rows if row["micro_batch"] == "16"])
    assert (one.stack.imbalance, two.stack.imbalance) == (1.25, 2.0)
    predicted = predict_runs([one, two], training_efficiency(), 1)[0][:, 0]
    assert predicted[1] / predicted[0] == pytest.approx(two.step_s / one.step_s, rel=0.1)


def test_what_a_row_says_of_its_network_is_its_network() -> None:
    row = {
        "source": "InternEvo", "model": "internlm 7b", "hardware": "A100 80GB SXM", "n_gpus": "8", "tp": "1", "pp": "1",
        "seq_len": "2048", "micro_batch": "2", "precision": "bf16", "notes": "micro_num 4; 4x100 Gb/s RoCE per node",
    }  # fmt: skip
    assert describe_run(row).system.cross_domain_bytes_per_s_per_gpu == 4 * 100e9 / 8 / 8
