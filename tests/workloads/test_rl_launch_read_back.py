"""Runs drawn at random, written for a framework, read back from the text: the planned run, or a line of refusal."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.arrays import median
from computeledger.errors import InputError
from computeledger.workloads.launches import Launch
from computeledger.workloads.questions.rl import EMITTED
from computeledger.workloads.rl.scenario import RLScenario

N_RUNS, SEED = 30, 20261123
#: How each framework says a quantity: its keys, whose product it is.
VERL, ACTOR, ROLLOUT = "actor_rollout_ref", "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
NEMO, SKY, ENGINE = "policy.megatron_cfg", "trainer.policy", "generator.inference_engine"
SAYS: dict[str, dict[str, tuple[str, ...]]] = {
    "verl": {
        "prompts": ("data.train_batch_size",), "group": (f"{ROLLOUT}.n",),
        "mini": (f"{ACTOR}.ppo_mini_batch_size",),
        "epochs": (f"{ACTOR}.ppo_epochs",), "training": ("trainer.nnodes", "trainer.n_gpus_per_node"),
        "generating": (f"{ROLLOUT}.nnodes", f"{ROLLOUT}.n_gpus_per_node"),
        "behind_prompt": ("data.max_response_length",),
        "engine_tp": (f"{ROLLOUT}.tensor_model_parallel_size",), "engine_dp": (f"{ROLLOUT}.data_parallel_size",),
        "tp": (f"{ACTOR}.megatron.tensor_model_parallel_size",),
        "pp": (f"{ACTOR}.megatron.pipeline_model_parallel_size",),
        "cp": (f"{ACTOR}.megatron.context_parallel_size", f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size"),
        "span": ("trainer.v1.sampler.max_off_policy_threshold",),
        "turns": (f"{ROLLOUT}.multi_turn.max_assistant_turns",),
        "live": (f"{ROLLOUT}.max_num_seqs",), "steps": ("trainer.total_training_steps",),
    },
    "nemo-rl": {
        "prompts": ("grpo.num_prompts_per_step",), "group": ("grpo.num_generations_per_prompt",),
        "update_rollouts": ("policy.train_global_batch_size",), "gpus": ("cluster.num_nodes", "cluster.gpus_per_node"),
        "generating": ("policy.generation.colocated.resources.num_nodes",
                       "policy.generation.colocated.resources.gpus_per_node"),
        "engine_tp": ("policy.generation.vllm_cfg.tensor_parallel_size",),
        "engine_pp": ("policy.generation.vllm_cfg.pipeline_parallel_size",),
        "tp": (f"{NEMO}.tensor_model_parallel_size", "policy.dtensor_cfg.tensor_parallel_size"),
        "pp": (f"{NEMO}.pipeline_model_parallel_size",),
        "cp": (f"{NEMO}.context_parallel_size", "policy.dtensor_cfg.context_parallel_size"),
        "sequence": ("policy.max_total_sequence_length",), "written": ("policy.generation.max_new_tokens",),
        "lag": ("grpo.async_grpo.max_trajectory_age_steps",), "turns": ("grpo.max_rollout_turns",),
        "steps": ("grpo.max_num_steps",), "live": ("++policy.generation.vllm_kwargs.max_num_seqs",),
    },
    "slime": {
        "prompts": ("--rollout-batch-size",), "group": ("--n-samples-per-prompt",),
        "updates": ("--num-steps-per-rollout",),
        "training": ("--actor-num-nodes", "--actor-num-gpus-per-node"), "generating": ("--rollout-num-gpus",),
        "engine_gpus": ("--rollout-num-gpus-per-engine",), "tp": ("--tensor-model-parallel-size",),
        "pp": ("--pipeline-model-parallel-size",), "cp": ("--context-parallel-size",),
        "written": ("--rollout-max-response-len",), "steps": ("--num-rollout",),
        "live": ("--sglang-max-running-requests",),
    },
    "trl": {
        "group": ("--num_generations",), "training": ("--num_processes",),
        "behind_prompt": ("--max_completion_length",),
        "colocated_tp": ("--vllm_tensor_parallel_size",), "lag": ("--max_staleness",),
        "calls": ("--max_tool_calling_iterations",), "epochs": ("--num_iterations",),
        "optimizer_steps": ("--max_steps",),
        "rank_rollouts": ("--per_device_train_batch_size", "--gradient_accumulation_steps"),
        "updates_a_batch": ("--weight_sync_steps",),
    },
    "skyrl": {
        "prompts": ("trainer.train_batch_size",), "group": ("generator.n_samples_per_prompt",),
        "mini": ("trainer.policy_mini_batch_size",), "epochs": ("trainer.update_epochs_per_batch",),
        "training": ("trainer.placement.policy_num_nodes", "trainer.placement.policy_num_gpus_per_node"),
        "engines": (f"{ENGINE}.num_engines",), "engine_tp": (f"{ENGINE}.tensor_parallel_size",),
        "engine_pp": (f"{ENGINE}.pipeline_parallel_size",), "engine_dp": (f"{ENGINE}.data_parallel_size",),
        "tp": (f"{SKY}.megatron_config.tensor_model_parallel_size",),
        "pp": (f"{SKY}.megatron_config.pipeline_model_parallel_size",),
        "cp": (f"{SKY}.megatron_config.context_parallel_size", f"{SKY}.sequence_parallel_size"),
        "written": ("generator.sampling_params.max_generate_length",), "turns": ("generator.max_turns",),
        "lag": ("trainer.fully_async.max_staleness_steps",), "steps": ("trainer.max_training_steps",),
        "live": (f"{ENGINE}.max_num_seqs",),
    },
}  # fmt: skip
#: Quantities of which a framework has one key or the other, not the product of both.
EITHER = ("tp", "cp")


def drawn() -> list[tuple[str, tuple[tuple[str, Any], ...]]]:
    """Questions over frameworks, models, placements, sharding, batches, turns; a third with stated layouts."""
    rng = np.random.default_rng(SEED)

    def one_of(*choices: Any) -> Any:
        return choices[int(rng.integers(len(choices)))]

    found = []
    for number in range(N_RUNS):
        gpus, apart = one_of(8, 16, 24, 32, 48), one_of(False, True)
        asked = {
            "model": one_of("llama-3.1-8b", "qwen3-8b", "qwen3-30b-a3b"), "gpus": gpus,
            "system": one_of("h100-nvl8", "h200-nvl8", "gb200-nvl72"), "rollout_tokens": one_of(800, 2000, 4000),
            "prompts_per_step": one_of(48, 64, 96, 128), "group_size": one_of(8, 16), "steps": one_of(200, 1000),
            "optimizer_steps": one_of(1, 1, 2, 4), "live_limit": one_of(256, 1024), "samples": 2,
        }  # fmt: skip
        if apart:
            asked |= {"max_lag": one_of(1, 2, 3), "training_gpus": gpus // 2}
        if rng.random() < 1 / 2:
            asked["sharding"] = one_of("zero-1", "zero-3")
        if rng.random() < 1 / 3:
            turns = one_of(3, 8)
            asked |= {"turns": turns, "turn_limit": turns + one_of(0, 5), "observation_tokens": 200}
        if rng.random() < 1 / 3:
            asked |= {"layout": one_of("tp1", "tp2", "tp4"), "training_layout": one_of("tp2", "tp4", "cp2", "tp2-pp2")}
        found.append((EMITTED[number % len(EMITTED)], tuple(asked.items())))
    return found


@functools.cache
def outcomes() -> list[tuple[str, RLScenario, Launch | str]]:
    """What each question got: the run and its launch, or the line that refused it."""
    found: list[tuple[str, RLScenario, Launch | str]] = []
    for framework, given in drawn():
        try:
            answer = cl.rl(**dict(given), emit=framework)
        except InputError as error:
            run = cl.rl(**dict(given), framework=framework).setting.run.typical
            found.append((framework, run, str(error)))
        else:
            assert answer.launch is not None
            found.append((framework, answer.setting.run.typical, answer.launch))
    return found


def parsed(text: str) -> dict[str, str]:
    """Options of a command as they stand in its text, comments apart."""
    command = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return dict(re.findall(r"(?:^|\s)((?:--|\+\+)?[A-Za-z_][\w.\-]*)(?:=| (?=[\d\w\"$/]))(\S+)", command))


def read(framework: str, text: str) -> dict[str, int]:
    """Quantities that a launch's text says."""
    said = parsed(text)
    found = {}
    for name, keys in SAYS[framework].items():
        held = [int(said[key]) for key in keys if key in said]
        if held and (name in EITHER or len(held) == len(keys)):
            found[name] = math.prod(held)
    return found


def planned(run: RLScenario, asked: dict[str, Any]) -> dict[str, int]:
    """The same quantities, from the plan."""
    split, one, trainer, engine = run.split, run.algorithm, run.trainer.layout, run.engine.layout
    longest = median(run.longest_sequence_tokens)
    prompts, group, updates = (int(median(n)) for n in (one.prompts_per_step, one.group_size, one.optimizer_steps))
    training, generating = int(median(split.n_training)), int(median(split.n_generation))
    rollouts, lag = prompts * group, split.max_lag
    limit = asked.get("turn_limit", 1)
    sizes = {name: int(median(getattr(trainer, name))) for name in ("tp", "pp", "cp")}
    return sizes | {
        "prompts": prompts, "group": group, "mini": prompts // updates, "updates": updates,
        "update_rollouts": rollouts // updates, "epochs": int(median(one.updates_per_batch)), "training": training,
        "generating": generating, "gpus": int(median(split.n_gpus)), "engine_tp": int(median(engine.tp)),
        "engine_pp": int(median(engine.pp)), "engine_dp": int(median(engine.dp)),
        "engine_gpus": int(median(engine.n_gpus)), "engines": generating // int(median(engine.n_gpus)),
        "colocated_tp": int(median(engine.tp)), "written": math.ceil(median(run.sampling.lengths.longest_tokens)),
        "sequence": math.ceil(longest), "behind_prompt": math.ceil(longest - median(run.sampling.prompt_tokens)),
        "lag": lag, "span": lag + 1, "turns": limit, "calls": limit - 1, "steps": asked["steps"],
        "optimizer_steps": asked["steps"] * updates, "updates_a_batch": updates, "live": int(median(run.engine.batch)),
        "rank_rollouts": rollouts // updates // training,
    }  # fmt: skip


@pytest.mark.parametrize("place", range(N_RUNS))
def test_what_is_written_is_the_planned_run_or_refused_in_a_line(place: int) -> None:
    framework, run, launch = outcomes()[place]
    asked = dict(drawn()[place][1])
    if isinstance(launch, str):
        assert launch.startswith(f"emit {framework}: ") and "\n" not in launch
        return
    said, plan = read(framework, launch.text), planned(run, asked)
    assert said == {name: plan[name] for name in said}
    # nothing is missing but what the run does not have, or what a comment says
    apart, limited = not run.split.is_colocated, "turn_limit" in asked
    left_out = set(SAYS[framework]) - said.keys()
    allowed = {"lag", "span", "updates_a_batch"} - ({"lag", "span"} if run.split.max_lag else set())
    allowed |= set() if apart else {"generating"}
    allowed |= set() if limited else {"turns", "calls"}
    allowed |= {"epochs", "colocated_tp"} if framework == "trl" and apart else set()
    allowed |= {"tp", "pp"} if run.trainer.is_sharded else set()
    assert left_out <= allowed
    # GPUs add up to those of the question, and layouts divide them
    total = plan["training"] + (plan["generating"] if apart else 0)
    assert total == asked["gpus"] and bool(run.is_even)


def test_few_draws_are_refused_and_each_for_what_the_frameworks_refuse() -> None:
    refused = [launch for _, _, launch in outcomes() if isinstance(launch, str)]
    assert len(refused) <= N_RUNS / 3
    for line in refused:
        assert re.search("do not divide|takes|whole nodes|optimizer steps a batch under a lag|pipeline stages", line)


def test_a_trainer_is_fsdp_where_weights_are_shared_and_megatron_elsewhere() -> None:
    kinds = {"verl": ("model_engine=dp", "model_engine=megatron"), "skyrl": ("strategy=fsdp", "strategy=megatron"),
             "nemo-rl": ("dtensor_cfg.enabled=true", "megatron_cfg.enabled=true"),
             "trl": ("--use_fsdp", "--use_deepspeed --zero_stage 1")}  # fmt: skip
    seen = set()
    for framework, run, launch in outcomes():
        if isinstance(launch, str) or framework == "slime":
            continue
        fsdp, other = kinds[framework]
        layout = dataclasses.replace(run.trainer.layout, dp=1.0)
        is_plain = layout.n_gpus == layout.cp
        if framework in ("nemo-rl", "trl") or is_plain:
            assert (fsdp in launch.text) == run.trainer.is_sharded != (other in launch.text)
            seen.add((framework, run.trainer.is_sharded))
    assert {(name, True) for name in kinds} <= seen and any(not shared for _, shared in seen)
