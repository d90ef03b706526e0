"""What is emitted could start: the answer's own layout, degrees that make up the GPUs, words that the framework has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.facts.load import load_model
from computeledger.physics.parallelism import Layout, parse_layout
from computeledger.physics.roofline import Precision, parse_precision
from computeledger.physics.training.batch import Batch, Stack
from computeledger.physics.training.documents import Documents
from computeledger.workloads.pretraining.candidates import Limits, candidates
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.pretraining.launches import Job, launch
from computeledger.workloads.pretraining.search import Swept, chosen
from computeledger.workloads.questions.pretrain import EMITTED, PretrainQuestion

GIVEN: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100-nvl8", "samples": 16, "sequence_tokens": 8192}


def degrees(framework: str, scenario: PretrainingScenario, job: Job) -> dict[str, int]:
    """The degrees that a file says, by our names; what a framework derives is derived as it does."""
    said = {name.removeprefix("--"): value for name, value in launch(framework, scenario, job).arguments}
    gpus = int(scenario.layout.n_gpus)
    if framework in ("megatron", "megatron-bridge"):
        plain = {name.replace("-", "_").removeprefix("model."): value for name, value in said.items()}
        tp, pp, cp, ep = (
            int(plain.get(f"{name}_parallel_size", 1))
            for name in ("tensor_model", "pipeline_model", "context", "expert_model")
        )
        assert gpus % (tp * pp * cp) == 0
        assert gpus // pp % (int(plain.get("expert_tensor_parallel_size", 1)) * ep) == 0
        return {"tp": tp, "pp": pp, "cp": cp, "ep": ep, "dp": gpus // (tp * pp * cp)}
    if framework == "maxtext":
        axes = {
            name: [int(said.get(f"{kind}_{name}_parallelism", 1)) for kind in ("ici", "dcn")]
            for name in ("tensor", "pipeline", "context", "expert", "fsdp", "data")
        }
        inside, outside = (int(np.prod([one[at] for one in axes.values()])) for at in (0, 1))
        assert inside == min(job.n_scale_up, gpus) and inside * outside == gpus
        tp, pp, cp, ep, fsdp, data = (int(np.prod(one)) for one in axes.values())
        return {"tp": tp, "pp": pp, "cp": cp, "ep": ep, "dp": ep * fsdp * data}
    if framework == "torchtitan":
        own = {"tp": "tensor_parallel", "pp": "pipeline_parallel", "cp": "context_parallel", "ep": "expert_parallel",
               "dp": "data_parallel_shard"}  # fmt: skip
        return {name: int(said[f"parallelism.{key}_degree"]) for name, key in own.items()}
    if framework == "fsdp2":
        prefix = "parallelism_config.parallelism_config_"
        tp, cp, dp = (int(said[f"{prefix}{name}_size"]) for name in ("tp", "cp", "dp_shard"))
        assert int(said["num_processes"]) == dp * tp * cp
        return {"tp": tp, "cp": cp, "dp": dp, "pp": 1, "ep": 1}
    tp, cp = int(said.get("tensor_parallel.autotp_size", 1)), int(said.get("sequence_parallel_size", 1))
    per_rank = int(said["train_micro_batch_size_per_gpu"]) * int(said["gradient_accumulation_steps"])
    return {"tp": tp, "cp": cp, "dp": int(said["train_batch_size"]) // per_rank, "pp": 1, "ep": 1}


@pytest.mark.parametrize("framework", EMITTED)
@pytest.mark.parametrize(("model", "gpus"), [("llama-3.1-8b", 64), ("qwen3-30b-a3b", 48), ("deepseek-v3", 512)])
def test_whatever_a_search_proposes_could_start(framework: str, model: str, gpus: int) -> None:
    """Any of the candidates, not the best alone: each has legal degrees in the framework's own words."""
    batch = Batch(8192.0, 768.0, stack=Stack())
    asked = PretrainingScenario(load_model(model), Layout(), Precision(), batch, 1e12)
    selective = "selective-op" if framework == "torchtitan" else "selective"
    limits = Limits(8, recompute=("none", selective, "full"), launcher=framework)
    every = candidates(asked, gpus, limits)
    some = np.random.default_rng(1).choice(every.size, 40)
    nothing = np.zeros(every.size)
    swept = Swept(every, nothing, nothing, nothing, 1.0)
    for row in some:
        proposed = chosen(asked, swept.option(int(row)))
        written = launch(framework, proposed, Job(8))
        assert not [one for one in written.remarks if "cannot be expressed" in one], str(proposed.layout)
        layout = proposed.layout
        said = degrees(framework, proposed, Job(8))
        assert said == {name: int(getattr(layout, name)) for name in said}
        assert said["tp"] * said["pp"] * said["dp"] * said["cp"] == gpus
        assert said["cp"] == 1 or 8192 % (2 * said["cp"]) == 0
        assert said["ep"] == 1 or load_model(model).n_experts % said["ep"] == 0


@pytest.mark.parametrize("framework", ["megatron", "megatron-bridge", "torchtitan"])
def test_the_file_is_of_the_answer(framework: str) -> None:
    answer = cl.pretrain(**GIVEN | {"model": "qwen3-30b-a3b", "gpus": 64, "schedule": "any", "emit": framework})
    named = cl.pretrain(
        **GIVEN | {"model": "qwen3-30b-a3b", "gpus": 64, "schedule": "any", "framework": EMITTED[framework]}
    )
    said = degrees(framework, answer.result.scenario, Job(8))
    assert str(answer.layout) == str(Layout(**said)) and answer.launch is not None
    assert answer.to_dict()["framework"]["id"] == EMITTED[framework]
    if framework != "torchtitan":  # whose own sharding leaves out pipelines
        assert (answer.result.scenario.schedule, named.result.scenario.schedule) == ("1f1b", "1f1b")


def asked(**batch: Any) -> PretrainingScenario:
    precision = parse_precision(str(batch.pop("precision", "bf16")))
    stack = Stack(**{name: batch.pop(name) for name in ("recipe", "mtp_layers", "moment_precision") if name in batch})
    model = load_model(str(batch.pop("model", "llama-3.1-8b")))
    shape = Batch(8192.0, 128.0, recompute="none", sharded_weights=True, stack=stack, **batch)
    return PretrainingScenario(model, parse_layout("dp8"), precision, shape, 1e12)


@pytest.mark.parametrize(
    ("framework", "recipe", "has_mx", "written"),
    [
        ("megatron", "tensor", False, "--fp8-recipe tensorwise"),
        ("megatron", "block", False, "--fp8-recipe blockwise"),
        ("megatron", "block", True, "--fp8-recipe mxfp8"),
        ("megatron-bridge", "tensor", False, "mixed_precision=bf16_with_fp8_current_scaling_mixed"),
        ("megatron-bridge", "block", False, "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed"),
        ("megatron-bridge", "block", True, "mixed_precision=bf16_with_mxfp8_mixed"),
        ("maxtext", "tensor", False, "quantization=fp8"),
        ("maxtext", "block", True, "quantization=te_mxfp8"),
        ("fsdp2", "tensor", False, "mixed_precision: fp8"),
        ("megatron", "row", False, "cannot be expressed here: products fp8 per row"),
        ("megatron-bridge", "row", False, "cannot be expressed here: products fp8 per row"),
        ("maxtext", "block", False, "cannot be expressed here: products there fp8 per block"),
        ("torchtitan", "row", False, "Float8LinearConverter scales per row (recipe_name rowwise)"),
        ("deepspeed", "tensor", False, "cannot be expressed here: products fp8 per tensor"),
    ],
)
def test_scales_of_8_bit_products_are_those_that_were_asked(
    framework: str, recipe: str, has_mx: bool, written: str
) -> None:
    assert written in launch(framework, asked(precision="fp8", recipe=recipe), Job(8, has_mx=has_mx)).text


def test_modules_for_further_tokens_are_as_many_as_are_trained() -> None:
    without, one = asked(model="deepseek-v3"), asked(model="qwen3-30b-a3b", mtp_layers=1)
    assert "mtp" not in launch("megatron", without, Job(8)).command
    assert "--mtp-num-layers 1" in launch("megatron", one, Job(8)).command
    assert "model.mtp_num_layers=null" in launch("megatron-bridge", without, Job(8)).command
    assert "mtp_num_layers=0" in launch("maxtext", without, Job(8)).command
    assert "multi-token-prediction modules: 1" in launch("torchtitan", one, Job(8)).text


@pytest.mark.parametrize(
    ("framework", "says"),
    [
        ("megatron", "--moe-expert-capacity-factor 1.25"),
        ("megatron-bridge", "model.moe_expert_capacity_factor=1.25"),
        ("maxtext", "capacity_factor=1.25 \\\n    sparse_matmul=false"),
        ("torchtitan", "cannot be expressed here: a capacity factor of 1.25"),
    ],
)
def test_capacity_reaches_the_file(framework: str, says: str) -> None:
    assert says in launch(framework, asked(model="qwen3-30b-a3b"), Job(8, capacity_factor=1.25)).text


def test_moments_in_16_bits_reach_megatron_bridge() -> None:
    said = dict(launch("megatron-bridge", asked(moment_precision="bf16"), Job(8)).arguments)
    assert said["optimizer.exp_avg_dtype"] == said["optimizer.exp_avg_sq_dtype"] == "bf16"


def test_padding_is_read_but_not_trained_on() -> None:
    plain, padded = asked(), asked(documents=Documents(2000.0, useful_fraction=0.25))
    few, many = (int(dict(launch("megatron", one, Job(8)).arguments)["--train-samples"]) for one in (plain, padded))
    assert many == pytest.approx(4 * few, rel=1e-6)
    assert "packing=false" in launch("maxtext", padded, Job(8)).text
    assert "cannot be expressed here: documents padded" in launch("megatron", padded, Job(8)).text


def test_nothing_that_was_asked_is_dropped_without_a_word() -> None:
    whole = cl.pretrain(
        **GIVEN, layout="dp8", emit="megatron", stage="until=100B,global_batch=1M", growing_batch=True,
        activation_precision="fp8", lora_rank=16,
    )  # fmt: skip
    assert whole.launch is not None
    said = " ".join(one for one in whole.launch.remarks if one.startswith("cannot be expressed here"))
    for words in ("--stage until=100B,global_batch=1M", "--growing-batch", "kept activations in fp8", "rank 16"):
        assert words in said


def test_adapters_reach_megatron_bridge() -> None:
    text = cl.pretrain(**GIVEN, layout="dp8", emit="megatron-bridge", lora_rank=16, lora_targets="attention")
    assert text.launch is not None and "--mode lora" in text.launch.command
    assert (
        "peft.dim=16" in text.launch.command and "peft.target_modules=[linear_qkv,linear_proj]" in text.launch.command
    )


def test_megatron_s_own_dropout_is_switched_off() -> None:
    """Its defaults are 0.1 each (TransformerConfig): their masks are in no account of memory."""
    said = dict(launch("megatron", asked(), Job(8)).arguments)
    assert said["--attention-dropout"] == said["--hidden-dropout"] == "0.0"


def test_selective_of_torchtitan_is_by_operation() -> None:
    mine = asked()
    kept = replace(mine, batch=replace(mine.batch, recompute="selective"))
    assert "activation_checkpoint" not in launch("torchtitan", kept, Job(8)).command
    by_operation = cl.pretrain(**GIVEN, layout="dp8", emit="torchtitan", recompute="selective")
    assert by_operation.result.scenario.batch.recompute == "selective-op"
    assert by_operation.launch is not None and "activation_checkpoint:selective" in by_operation.launch.command


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"schedule": "dualpipe", "emit": "megatron"}, "has no dualpipe schedule; it runs 1f1b"),
        ({"schedule": "dualpipe", "emit": "megatron-bridge"}, "has no dualpipe schedule; it runs 1f1b"),
        ({"schedule": "zero-bubble", "framework": "megatron-lm"}, "has no zero-bubble schedule; it runs 1f1b"),
        ({"framework": "neuron"}, "does not run on h100-sxm5-80gb of NVIDIA; it runs on chips of Amazon"),
        ({"system": "16xtpu-v5p", "framework": "megatron-lm"}, "does not run on tpu-v5p of Google"),
        ({"system": "16xtpu-v5p", "framework": "primus"}, "it runs on chips of AMD"),
        ({"system": "16xtpu-v5p", "emit": "megatron-bridge"}, "it runs on chips of NVIDIA"),
        (
            {"model": "llama-3.1-405b", "system": "gb200-nvl72", "gpus": 576, "emit": "maxtext"},
            "maxtext can state no layout",
        ),
        ({"layout": "tp2-cp3"}, "8192 tokens does not divide into 6 chunks"),
        ({"layout": "tp2-cp8", "sequence_tokens": 8200, "emit": "megatron"}, "nearest: sequence_tokens 8192"),
        ({"layout": "dp24", "microbatch_sequences": 1, "emit": "megatron"}, "it takes multiples of 24"),
    ],
)
def test_what_could_not_start_is_refused_in_one_line(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        cl.pretrain(**{**GIVEN, **given})
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_a_short_sequence_may_be_padded_where_nothing_is_emitted() -> None:
    assert str(cl.pretrain(**{**GIVEN, "sequence_tokens": 8190, "layout": "tp2-cp4"}).layout) == "tp2-cp4"


def test_a_mesh_of_several_nodes_is_written_over_slices() -> None:
    answer = cl.pretrain(**GIVEN, layout="dp256", sharding="zero-3", emit="maxtext")
    assert answer.launch is not None
    said = dict(answer.launch.arguments)
    assert (said["ici_fsdp_parallelism"], said["dcn_fsdp_parallelism"], said["dcn_data_parallelism"]) == (
        "8",
        "32",
        "1",
    )
    assert answer.to_dict()["framework"]["layout"] == {"fsdp": 256}
    assert PretrainQuestion(model="m", system="s", emit="maxtext").stack == "maxtext"
