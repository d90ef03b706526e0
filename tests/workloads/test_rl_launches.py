"""What rl --emit writes for each framework: options that it has, the run read back, what cannot be expressed said."""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from pathlib import Path
from typing import Any

import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.workloads.launches import Launch, load_templates
from computeledger.workloads.questions.rl import EMITTED
from computeledger.workloads.rl.launch_values import host_gpus
from computeledger.workloads.rl.launches import PACKAGE
from computeledger.workloads.rl_frameworks import rl_framework_ids

#: Every option of the files and classes that hold them, with their commits.
OPTIONS = tomllib.loads(Path(__file__).with_name("rl_framework_options.toml").read_text("utf-8"))
TEMPLATES = load_templates(PACKAGE)
MODEL = "llama-3.1-8b"
COLOCATED = {"gpus": 16, "layout": "tp2", "training_layout": "tp2-dp8"}
LAGGED = {"gpus": 24, "training_gpus": 8, "max_lag": 2, "layout": "tp2", "training_layout": "tp2-dp4"}
TURNS = {
    **LAGGED, "turns": 4, "observation_tokens": 300, "tool_latency": "2s", "environments": 256,
    "rollout_limit_tokens": 4000,
}  # fmt: skip
#: Names by which each framework says GPUs, batch, lengths and parallelism.
SAID = {
    "verl": {
        "train_gpus": ("trainer.nnodes", "trainer.n_gpus_per_node"), "prompts": ("data.train_batch_size",),
        "group": ("actor_rollout_ref.rollout.n",), "mini": ("actor_rollout_ref.actor.ppo_mini_batch_size",),
        "tp": ("actor_rollout_ref.actor.megatron.tensor_model_parallel_size",),
        "engine_tp": ("actor_rollout_ref.rollout.tensor_model_parallel_size",),
        "generation_gpus": ("actor_rollout_ref.rollout.nnodes", "actor_rollout_ref.rollout.n_gpus_per_node"),
    },
    "slime": {
        "train_gpus": ("--actor-num-nodes", "--actor-num-gpus-per-node"), "prompts": ("--rollout-batch-size",),
        "group": ("--n-samples-per-prompt",), "tp": ("--tensor-model-parallel-size",),
        "engine_tp": ("--rollout-num-gpus-per-engine",), "generation_gpus": ("--rollout-num-gpus",),
    },
    "skyrl": {
        "train_gpus": ("trainer.placement.policy_num_nodes", "trainer.placement.policy_num_gpus_per_node"),
        "prompts": ("trainer.train_batch_size",), "group": ("generator.n_samples_per_prompt",),
        "mini": ("trainer.policy_mini_batch_size",),
        "tp": ("trainer.policy.megatron_config.tensor_model_parallel_size",),
        "engine_tp": ("generator.inference_engine.tensor_parallel_size",),
        "generation_gpus": ("generator.inference_engine.num_engines",
                            "generator.inference_engine.tensor_parallel_size"),
    },
}  # fmt: skip


@functools.cache
def _launch(framework: str, given: tuple[tuple[str, Any], ...]) -> Launch:
    found = cl.rl(emit=framework, **dict(given)).launch
    assert found is not None
    return found


def launch(framework: str, **given: Any) -> Launch:
    """Of a run that is stated but for what a test is about."""
    asked = {"model": MODEL, "system": "h100-nvl8", "rollout_tokens": 2000, "samples": 2, **COLOCATED, **given}
    return _launch(framework, tuple(asked.items()))


def product(said: dict[str, str], keys: tuple[str, ...]) -> int:
    out = 1
    for key in keys:
        out *= int(said[key])
    return out


def known(framework: str, is_async: bool = False) -> set[str]:
    entry = OPTIONS[framework]
    return set(entry.get("async_options" if is_async else "options", entry["options"]).split())


def test_every_option_of_a_template_is_one_that_its_framework_has() -> None:
    assert set(TEMPLATES) == set(OPTIONS) == set(EMITTED) <= set(rl_framework_ids())
    for name, template in TEMPLATES.items():
        keys = {option.key.removeprefix("++") for option in template.options}
        assert keys - known(name) - known(name, True) == set(), name
        repository, commit, _ = template.source.removeprefix("https://github.com/").split(", ")
        assert OPTIONS[name]["source"].startswith(f"{repository} at {commit.removeprefix('commit ')}"), name


@pytest.mark.parametrize("framework", EMITTED)
@pytest.mark.parametrize("mode", ["colocated", "lagged", "turns"])
def test_what_is_written_are_keys_of_the_run_s_own_kind(framework: str, mode: str) -> None:
    given = {"colocated": COLOCATED, "lagged": LAGGED, "turns": TURNS}[mode]
    keys = {key.removeprefix("++") for key, _ in launch(framework, **given).arguments}
    assert keys <= known(framework, is_async=mode != "colocated")


@pytest.mark.parametrize("framework", SAID)
def test_a_run_is_read_back_as_it_was(framework: str) -> None:
    names = SAID[framework]
    for given, train, generate in (({**COLOCATED, "weight_sync": "colocated"}, 16, None), (LAGGED, 8, 16)):
        batch = {"prompts_per_step": 64, "group_size": 8, "optimizer_steps": 1 if generate else 2}
        said = dict(launch(framework, **given, **batch).arguments)
        found = {name: product(said, keys) for name, keys in names.items() if keys[0] in said}
        assert (found["train_gpus"], found["tp"], found["engine_tp"]) == (train, 2, 2)
        assert (found["prompts"], found["group"]) == (64, 8)
        assert found.get("mini", 64 // batch["optimizer_steps"]) == 64 // batch["optimizer_steps"]
        assert ("--colocate" in said) == (framework == "slime" and not generate)
        if generate:
            assert found["generation_gpus"] == generate


def test_a_cluster_of_nemo_rl_holds_both_sides() -> None:
    said = dict(launch("nemo-rl", **LAGGED).arguments)
    keys = ("cluster.num_nodes", "policy.generation.colocated.resources.num_nodes")
    assert [int(said[key]) for key in keys] == [3, 2]
    shared = dict(launch("nemo-rl", **{**LAGGED, "gpus": 8, "training_gpus": 4, "training_layout": "tp2"}).arguments)
    assert shared["cluster.gpus_per_node"] == "8"
    assert shared["policy.generation.colocated.resources.gpus_per_node"] == "4"
    with pytest.raises(InputError, match="whole nodes"):
        launch("nemo-rl", **{**LAGGED, "training_gpus": 4, "training_layout": "tp2-dp2"})


def test_a_search_of_a_run_that_is_written_takes_what_fits() -> None:
    """On its own it shares 24 GPUs as it likes; NeMo RL gives sides apart whole nodes, ranks divide the batch."""
    for name in ("nemo-rl", "slime"):
        given = {"gpus": 24, "max_lag": 1, "training_layout": None, "layout": None}
        answer = cl.rl(model=MODEL, system="h100-nvl8", rollout_tokens=2000, samples=2, emit=name, **given)
        run = answer.setting.run.typical
        assert run.is_even and (name != "nemo-rl" or run.split.n_training % 8 == 0)
        assert answer.launch is not None
        assert any(one.startswith("planned: ") and str(run.trainer.layout) in one for one in answer.launch.remarks)


def test_stages_of_an_engine_ask_nemo_rl_for_its_asynchronous_engine() -> None:
    """Its vLLM refuses pipeline stages without it."""
    said = dict(launch("nemo-rl", layout="tp2-pp2").arguments)
    assert said["policy.generation.vllm_cfg.async_engine"] == "true"
    assert said["policy.generation.vllm_cfg.pipeline_parallel_size"] == "2"


def test_engines_are_searched_on_what_their_framework_runs() -> None:
    """On its own the search takes pipeline stages here, which verl and TRL have not."""
    asked: dict[str, Any] = {"model": "qwen3-8b", "system": "h100-nvl8", "gpus": 32, "rollout_tokens": 4000}
    asked |= {"prompts_per_step": 256, "samples": 16, "levers": True}
    free = cl.rl(**asked)
    assert free.setting.run.typical.engine.layout.pp > 1
    for name in ("verl", "trl"):
        held = cl.rl(**asked, framework=name)
        assert held.setting.run.typical.engine.layout.pp == 1
        assert not any("pp" in lever.why for lever in held.levers if lever.name == "another layout")
        assert not any("pipeline stages" in one for one in held.remarks)
    staged = cl.rl(**asked, framework="verl", layout="tp2-pp2")
    assert any("verl runs no pipeline stages in generation" in one for one in staged.remarks)


def test_a_lag_is_what_each_framework_means_by_it() -> None:
    lag = {name: dict(launch(name, **LAGGED).arguments) for name in EMITTED}
    # verl counts versions that a trajectory spans, its first one included
    assert lag["verl"]["trainer.v1.sampler.max_off_policy_threshold"] == "3"
    assert lag["nemo-rl"]["grpo.async_grpo.max_trajectory_age_steps"] == "2"
    assert lag["skyrl"]["trainer.fully_async.max_staleness_steps"] == lag["trl"]["--max_staleness"] == "2"
    assert any("2 versions behind" in one for one in launch("slime", **LAGGED).remarks)
    drained = {**LAGGED, "max_lag": 1, "drained": True}
    assert "--rollout-function-path" not in dict(launch("slime", **drained).arguments)
    for name in ("verl", "skyrl"):
        assert any("drains before" in one for one in launch(name, **drained).remarks)


@pytest.mark.parametrize(
    ("framework", "given", "says"),
    [
        ("slime", {"backend": "vllm"}, "it has SGLang"),
        ("trl", {}, "tensor parallelism of 2"),
        ("trl", {"weight_sync": "disk", **LAGGED}, "weight sync by disk"),
        ("verl", {"weight_sync": "nccl-shard", **LAGGED}, "weight sync nccl-shard"),
        ("skyrl", {"precision": "fp8"}, "rollouts in fp8"),
        ("nemo-rl", {"critic_ratio": 1}, "a critic"),
        ("nemo-rl", {"kept_fraction": 0.5}, "0.5 of the rollouts trained on"),
        ("skyrl", {"draft_tokens": 3, "tokens_per_step": 2}, "speculative decoding of 3 tokens"),
        ("nemo-rl", {"sampling_rounds": 2, **LAGGED}, "sampled anew under a lag"),
        ("slime", {"sampling_rounds": 2, **LAGGED}, "which filters nothing"),
        ("slime", {"sharding": "zero-3"}, "it trains with Megatron"),
        ("skyrl", {"sharding": "zero-3"}, "zero-3) in tp2-dp8"),
        ("trl", {"partial_rollouts": True, "oversampling": 1.5}, "go on in the next step"),
        ("verl", {"oversampling": 1.5}, "192 prompts started for 128"),
        ("trl", {"logprob_passes": 2, **LAGGED}, "takes those of generation"),
        ("trl", {"packing": "packed"}, "it pads them"),
        ("slime", {"packing": "padded"}, "it packs them"),
        ("verl", {**LAGGED, "max_lag": 1}, "caches that outlive new weights"),
        ("nemo-rl", {"no_shared_prefix": True}, "prefilled once for each"),
        ("slime", TURNS, "at most 7 turns"),
        ("skyrl", {**TURNS, "environments": 64}, "at most 64 environments"),
        ("nemo-rl", {"sharding": "zero-3", "training_layout": "cp2-dp8", "recompute": "selective"}, "selective"),
        ("verl", {"kv_precision": "fp8"}, "a cache in fp8"),
        ("slime", {"updates_per_batch": 2}, "2 passes of the update"),
    ],
)
def test_what_cannot_be_expressed_is_said(framework: str, given: dict[str, Any], says: str) -> None:
    found = launch(framework, **given)
    assert any(one.startswith("cannot be expressed here: ") and says in one for one in found.remarks)
    assert all(f"# {one}" in found.text for one in found.remarks)


@pytest.mark.parametrize(
    ("framework", "given", "says"),
    [
        ("skyrl", {"optimizer_steps": 2, **LAGGED}, "train_batch_size is policy_mini_batch_size"),
        ("verl", {"prompts_per_step": 65, "optimizer_steps": 2}, "65 prompts .* 2 optimizer steps; .* 64 or 66$"),
        ("verl", {"gpus": 8, "training_gpus": 4, "training_layout": "tp2"}, "no synchronous step on GPUs of their own"),
        ("verl", {"layout": "tp2-pp2"}, "no pipeline stages"),
        ("skyrl", {"model": "qwen3-30b-a3b", "layout": "tp4-ep2", "training_layout": "tp2-dp8-ep8"}, "2 of 4 GPUs"),
        ("verl", {"gpus": 24, "layout": "tp8-pp2"}, "24 GPUs that generate, .* takes 16; nearest: gpus 16 or 32"),
        ("slime", {"gpus": 24, "training_layout": "tp8-pp2", "weight_sync": "colocated"}, "that train, .* 16 or 32"),
        ("skyrl", {"gpus": 24}, "takes 16; nearest: training_layout tp2-dp12$"),
        ("nemo-rl", {**LAGGED, "layout": "tp8-pp4"}, "no replica|does not fit|takes"),
        ("trl", {"prompts_per_step": 3, "group_size": 5, "training_layout": "dp16"}, "15 rollouts .* over 16 .* 16$"),
        ("verl", {"group_size": 2.5}, "group_size 2.5: must be a whole number, such as 2 or 3"),
    ],
)
def test_what_would_not_start_is_refused_in_a_line(framework: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as refused:
        launch(framework, **given)
    assert "\n" not in str(refused.value)


def test_the_run_that_is_written_is_the_framework_s_own() -> None:
    answer = cl.rl(model=MODEL, system="h100-nvl8", gpus=16, rollout_tokens=2000, samples=16, emit="slime")
    assert answer.to_dict()["backend"] == "sglang" and answer.to_dict()["framework"]["id"] == "slime"
    assert [text for _, text in answer.view(working=False).blocks] == [answer.to_dict()["launch"]["text"]]
    with pytest.raises(InputError, match="those of framework verl: give framework slime"):
        cl.rl(model=MODEL, system="h100-nvl8", rollout_tokens=2000, emit="slime", framework="verl")
    with pytest.raises(InputError, match="no RL on text"):
        cl.rl(model=MODEL, system="h100-nvl8", rollout_tokens=2000, emit="verl", continuation_tokens=100)


def test_turns_and_tools_reach_the_frameworks() -> None:
    said = {name: dict(launch(name, **TURNS).arguments) for name in EMITTED}
    # episodes twice as long as the mean have twice the calls: 3 for 2,000 tokens, 6 for 4,000
    assert any("7 turns are those of the longest rollout" in one for one in launch("verl", **TURNS).remarks)
    assert said["verl"]["actor_rollout_ref.rollout.multi_turn.max_assistant_turns"] == "7"
    assert said["nemo-rl"]["grpo.max_rollout_turns"] == said["skyrl"]["generator.max_turns"] == "7"
    assert said["trl"]["--max_tool_calling_iterations"] == "6"
    assert said["verl"]["data.max_response_length"] == str(4000 + 6 * 300)
    assert said["trl"]["--max_inflight_tasks"] == said["skyrl"]["environment.skyrl_gym.max_env_workers"] == "256"
    assert said["slime"]["--custom-generate-function-path"] == "$GENERATE"


def test_hosts_are_those_of_the_scale_up_domain() -> None:
    assert [host_gpus(n) for n in (4, 8, 16, 72)] == [4, 8, 4, 4]
    assert any("hosts of 4 GPUs are assumed" in one for one in launch("verl", system="gb200-nvl72").remarks)


@pytest.mark.parametrize("is_async", [False, True])
def test_trl_takes_what_is_written_for_it(is_async: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trl = pytest.importorskip("trl")
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    given = {**LAGGED, "training_layout": "dp8"} if is_async else {"training_layout": "dp16"}
    said = {key.removeprefix("--"): value for key, value in launch("trl", **given).arguments}
    config = pytest.importorskip("trl.experimental.async_grpo").AsyncGRPOConfig if is_async else trl.GRPOConfig
    fields = {one.name for one in dataclasses.fields(config)}
    assert set(said) - fields == {"model_name_or_path"}, "the rest is the script's own"
    said |= {"bf16": "false", "output_dir": str(tmp_path)}  # this machine need not have it
    words = [word for key in said.keys() & fields for word in (f"--{key}", said[key])]
    parsed = pytest.importorskip("transformers").HfArgumentParser(config).parse_args_into_dataclasses(words)[0]
    assert parsed.num_generations == 16 and parsed.max_completion_length == 6000
    if is_async:
        assert parsed.max_staleness == 2 and parsed.weight_sync_steps == 1
    else:  # 2,048 rollouts of a step on 16 GPUs, in this one process a sixteenth of them
        assert (
            parsed.steps_per_generation
            == parsed.gradient_accumulation_steps
            == 128 // parsed.per_device_train_batch_size
        )
        assert parsed.generation_batch_size == 128


@pytest.mark.parametrize(
    ("framework", "keys"),
    [
        ("verl", ("actor_rollout_ref.rollout.gpu_memory_utilization=0.6", "actor_rollout_ref.actor.strategy=fsdp2",
                  "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4", "use_remove_padding=false")),
        ("nemo-rl", ("policy.generation.vllm_cfg.gpu_memory_utilization=0.6", "policy.dtensor_cfg.enabled=true",
                     "policy.train_micro_batch_size=4", "policy.sequence_packing.enabled=false")),
        ("slime", ("--sglang-mem-fraction-static 0.6", "weights shared by the data-parallel ranks (zero-3)",
                   "--micro-batch-size 4", "rollouts padded")),
        ("trl", ("--use_fsdp --fsdp_version 2", "--per_device_train_batch_size 4")),
        ("skyrl", ("generator.inference_engine.gpu_memory_utilization=0.6", "trainer.strategy=fsdp",
                   "trainer.micro_train_batch_size_per_gpu=4", "trainer.remove_microbatch_padding=false")),
    ],
)  # fmt: skip
def test_a_trainer_that_shares_its_weights_is_told(framework: str, keys: tuple[str, ...]) -> None:
    asked: dict[str, Any] = {"model": "qwen3-8b", "gpus": 32, "memory_fraction": 0.6, "sharding": "zero-3"}
    asked |= {"prompts_per_step": 64, "group_size": 8, "packing": "padded", "microbatch_sequences": 4, "layout": "tp1"}
    text = launch(framework, **asked, training_layout="dp16" if framework == "slime" else "dp32").text
    assert all(key in text for key in keys), text
    assert ("megatron" in text.lower()) == (framework in ("slime", "nemo-rl")), "NeMo RL's is switched off"


def test_ranks_that_share_a_sequence_are_those_of_fsdp() -> None:
    given = {"sharding": "zero-3", "training_layout": "cp2-dp8", "logprob_passes": 2}
    verl, skyrl, nemo = (dict(launch(name, **given).arguments) for name in ("verl", "skyrl", "nemo-rl"))
    for side in ("actor", "ref"):
        assert verl[f"actor_rollout_ref.{side}.fsdp_config.ulysses_sequence_parallel_size"] == "2"
    assert skyrl["trainer.policy.sequence_parallel_size"] == skyrl["trainer.ref.sequence_parallel_size"] == "2"
    assert nemo["policy.dtensor_cfg.context_parallel_size"] == "2"
    assert nemo["policy.sequence_packing.enabled"] == "false" and nemo["policy.dynamic_batching.enabled"] == "true"
    whole = dict(launch("skyrl", sharding="zero-1", logprob_passes=2).arguments)
    assert whole["trainer.ref.megatron_config.tensor_model_parallel_size"] == "2", "the reference lies as the policy"
    both = dict(launch("verl", sharding="zero-3").arguments)
    assert both["model_engine"] == "megatron" and both["actor_rollout_ref.actor.megatron.use_megatron_fsdp"] == "true"


@pytest.mark.parametrize("sharding", ["zero-1", "zero-3"])
def test_accelerate_takes_the_flags_of_its_launcher(sharding: str) -> None:
    head = launch("trl", sharding=sharding, training_layout="dp16").script
    known_flags = set(OPTIONS["trl"]["launch_options"].split())
    flags = {word for word in head.split() if word.startswith("--")}
    assert flags <= known_flags and ("--use_fsdp" in flags) == (sharding == "zero-3")
    accelerate = pytest.importorskip("accelerate.commands.launch")
    parser = accelerate.launch_command_parser()
    words = head.replace("$LAUNCH", "").replace("$SCRIPT", "script.py").split()[2:]
    parsed = parser.parse_args(words)
    assert (parsed.num_machines, parsed.num_processes, parsed.use_fsdp) == (2, 16, sharding == "zero-3")


@pytest.mark.parametrize(("mean", "limit"), [(10, 10), (10, 20), (4, 5), (1.5, 3)])
def test_a_stated_limit_of_turns_is_the_one_written(mean: float, limit: int) -> None:
    """verl, NeMo RL and SkyRL count what the model writes, TRL the calls between: the same episode."""
    given: dict[str, Any] = {"turns": mean, "turn_limit": limit, "observation_tokens": 200, "environments": 256}
    said = {name: dict(launch(name, **given).arguments) for name in EMITTED}
    keys = {"verl": "actor_rollout_ref.rollout.multi_turn.max_assistant_turns", "nemo-rl": "grpo.max_rollout_turns",
            "skyrl": "generator.max_turns"}  # fmt: skip
    assert {said[name][key] for name, key in keys.items()} == {str(limit)}
    assert said["trl"]["--max_tool_calling_iterations"] == str(limit - 1)
    assert said["verl"]["actor_rollout_ref.rollout.multi_turn.max_tool_response_length"] == "800"
    assert said["verl"]["actor_rollout_ref.rollout.agent.default_agent_loop"] == "tool_agent"
    assert any("800 characters: the 200 tokens of the plan at 4 characters" in one for one in
               launch("verl", **given).remarks)  # fmt: skip
    run = cl.rl(model=MODEL, system="h100-nvl8", rollout_tokens=2000, samples=2, **{**COLOCATED, **given}).setting.run
    sampling = run.typical.sampling
    most = 1 + float(sampling.turns.calls_per_token * sampling.lengths.longest_tokens)
    assert most <= limit + 0.1, "the plan cuts its longest episode where the limit does"


@pytest.mark.parametrize(
    ("framework", "given", "keys"),
    [
        ("verl", {"training_layout": "dp16"}, ("model.lora_rank=8", "rollout.load_format=safetensors")),
        ("verl", {"sharding": "zero-1", "lora_targets": "attention"},
         ("model.lora.rank=8", "model.lora.target_modules=[linear_qkv,linear_proj]")),
        ("verl", {**LAGGED, "training_layout": "dp8"}, ("model.lora_rank=8", "model.lora.merge=true")),
        ("nemo-rl", {}, ("megatron_cfg.peft.enabled=true", "megatron_cfg.peft.dim=8")),
        ("nemo-rl", {"sharding": "zero-3"}, ("dtensor_cfg.lora_cfg.dim=8", "dtensor_cfg.lora_cfg.use_triton=false")),
        ("trl", {"training_layout": "dp16"}, ("--use_peft true", "--lora_r 8", "--lora_target_modules all-linear")),
        ("trl", {**LAGGED, "training_layout": "dp8"}, ("adapters of rank 8 under a lag",)),
        ("skyrl", {"training_layout": "dp16"}, ("trainer.policy.model.lora.rank=8",)),
        ("skyrl", {"sharding": "zero-1"}, ("lora.rank=8", "megatron_config.lora_config.merge_lora=false")),
        ("skyrl", {"training_layout": "dp16", "lora_sync": "merged"}, ("its FSDP trainer sends the adapters",)),
    ],
)  # fmt: skip
def test_adapters_are_told_as_the_trainer_takes_them(
    framework: str, given: dict[str, Any], keys: tuple[str, ...]
) -> None:
    found = launch(framework, lora_rank=8, **given)
    assert all(key in found.text for key in keys), found.text
    assert {key.removeprefix("++") for key, _ in found.arguments} <= known(framework, "max_lag" in given)


def test_a_lag_on_skyrl_filters_as_its_asynchronous_trainer_does() -> None:
    """It refuses dynamic sampling; zero-variance groups are dropped there until a batch is full."""
    said = dict(launch("skyrl", **LAGGED, sampling_rounds=2).arguments)
    assert said["trainer.fully_async.sample_full_batch"] == said["trainer.algorithm.zero_variance_filter"] == "true"
    assert "trainer.algorithm.dynamic_sampling.type" not in said
    turns = dict(launch("skyrl", sampling_rounds=2).arguments)
    assert turns["trainer.algorithm.dynamic_sampling.type"] == "filter"


@pytest.mark.parametrize("framework", EMITTED)
def test_failures_are_said_and_a_limit_that_is_none_is_not(framework: str) -> None:
    asked: dict[str, Any] = {"rollout_tokens": 1000, "turns": 3, "samples": 16, **COLOCATED}
    launch = cl.rl(model=MODEL, system="h100-nvl8", emit=framework, failed_fraction=0.2, **asked).launch
    assert launch is not None and "0.2 of the attempts failing" in launch.text
    assert "10000000" not in launch.text
