"""Samples of what tools write: the tools' own line forms around figures of real runs, each with where it was found.

Only figures were taken. A place is a repository, a path, a commit and a licence; "none stated": it has no licence file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

#: pytorch/torchtitan (BSD-3-Clause), commit 4b9f697e12a1081cd5db3070bcde0c6e8f035e24, run.log of
#: outputs/autoresearch/may19-qwen3-14b/run100-rerun-sdpa-prefetch-seq128-lbs160-compile-bf16-no-flight-recorder:
#: 8 B200, 1,280 sequences of 128 tokens; clock, step, loss, tokens/s/GPU, TFLOP/s/GPU, MFU in percent
TITAN = [("19:31:29,955", 1, 12.47929, "1,360", 114.62, 5.09), ("19:31:48,420", 10, 4.98934, "9,982", 841.08, 37.38)]

#: ZJUAntgroup/MoEGambit (Apache-2.0), megatron.log, commit b40c3ae1232f57db7f9cbf6a051a09a8ae683750: 64 GPUs (ranks 0
#: to 63), 64 sequences of 4,096 tokens; clock, iteration, ms
MEGATRON = [
    ("17:59:00", 82, 11481.4), ("17:59:11", 83, 11248.0), ("17:59:23", 84, 11426.4), ("17:59:34", 85, 11471.3),
    ("17:59:45", 86, 11430.7), ("17:59:57", 87, 11356.0), ("18:00:08", 88, 11519.8), ("18:00:20", 89, 11627.1),
    ("18:00:32", 90, 11506.1), ("18:00:43", 91, 11299.6), ("18:00:54", 92, 11307.0), ("18:01:06", 93, 11454.5),
]  # fmt: skip

#: NVIDIA/cloudai (Apache-2.0), a test of its Megatron report: iteration, ms, TFLOP/s/GPU at 2,048 sequences
CLOUDAI = [(5, 15800.0, 490.0), (6, 15639.0, 494.6), (7, 15448.5, 500.6)]

#: houkawa2/CodeGenerate_RL_Pipeline (none stated), verl_demo.log, commit f638591e7d61e8f1bee6104c3cd609faf1132e69: 1
#: GPU, Qwen2.5-1.5B, 32 rollouts a step; step, tokens, response mean and max, prompt mean, and timers in their order
VERL = [
    (620, 18230.0, 85.875, 152.0, 483.812, (10.517, 0.455, 0.912, 6.962, 3.352, 1.923, 24.123)),
    (621, 18553.0, 94.094, 205.0, 485.688, (11.381, 0.475, 0.912, 6.261, 3.355, 1.924, 24.310)),
    (622, 17355.0, 91.000, 190.0, 451.344, (11.243, 0.440, 0.908, 6.125, 3.716, 1.845, 24.278)),
    (623, 18156.0, 87.594, 249.0, 479.781, (12.163, 0.457, 0.912, 6.466, 3.369, 1.921, 25.290)),
    (624, 18180.0, 95.344, 362.0, 472.781, (13.953, 0.459, 0.908, 21.425, 3.365, 1.903, 42.014)),
    (625, 19087.0, 90.531, 255.0, 505.938, (12.152, 0.489, 0.914, 6.579, 3.359, 1.979, 25.473)),
]
#: Further metrics of such a line, figures of step 620, to give it its real length
VERL_OTHERS = (
    "global_seqlen/max:18230.000 - global_seqlen/minmax_diff:0.000 - global_seqlen/balanced_min:18230.000 - "
    "global_seqlen/balanced_max:18230.000 - critic/kl_coeff:0.001 - critic/vf_loss:0.011 - critic/vf_clipfrac:0.000 - "
    "critic/vpred_mean:0.222 - critic/grad_norm:0.327 - critic/lr:0.000 - actor/entropy_loss:0.253 - "
    "actor/pg_clipfrac:0.001 - actor/ppo_kl:-0.000 - actor/grad_norm:0.130 - actor/lr:0.000 - "
    "critic/score/mean:0.184 - "
    "critic/score/max:1.000 - critic/score/min:0.100 - critic/rewards/mean:0.168 - critic/rewards/max:0.988 - "
    "critic/rewards/min:0.077 - critic/advantages/mean:0.000 - critic/advantages/max:6.649 - "
    "critic/advantages/min:-1.712 - "
    "critic/returns/mean:0.160 - critic/returns/max:1.000 - "
    "critic/returns/min:0.077 - critic/values/mean:0.241 - "
    "critic/values/max:1.141 - critic/values/min:0.134"
)
VERL_TIMERS = ("gen", "ref", "values", "adv", "update_critic", "update_actor", "step")

#: A verl run on 8 accelerators of an Ascend node, in public notes on its tuning (repository and licence not known):
#: timers in s, tokens, tokens/s/GPU
VERL_FILE = {
    "timing_s/gen": 698.8797343205661, "timing_s/reward": 0.00015538185834884644, "timing_s/ref": 98.13646441046149,
    "timing_s/old_log_prob": 143.3216061014682, "timing_s/adv": 0.033962166868150234,
    "timing_s/update_actor": 327.778207520023, "timing_s/step": 1268.4882453735918,
    "timing_s/agent_loop/generate_sequences/max": 690.4329333119094, "perf/total_num_tokens": 5322462,
    "perf/time_per_step": 1268.4882453735918, "perf/throughput": 524.4886993840887, "prompt_length/mean": 154.83203125,
}  # fmt: skip

#: NVIDIA-NeMo/RL (Apache-2.0), pull request 1052: an asynchronous step, timers in s
NEMO_RL = {
    "exposed_generation": 32.52, "policy_training": 25.05, "policy_and_reference_logprobs": 4.78,
    "buffer_sampling": 1.38, "logprob_inference_prep": 1.34, "training_prep": 1.06, "data_processing": 0.23,
    "weight_sync": 0.13,
}  # fmt: skip
NEMO_RL_STEP_S = 66.55

#: A run of slime in public notes on its metrics (repository and licence not known): timers in s; its rollout's own
#: time was not among them and is made up
SLIME = {
    "perf/sleep_time": 5.323812961578369, "perf/update_weights_time": 2.5300958156585693,
    "perf/wake_up_time": 2.575822114944458, "perf/data_preprocess_time": 0.056499481201171875,
    "perf/train_wait_time": 347.60552525520325, "perf/log_probs_time": 17.18164873123169,
    "perf/actor_train_time": 46.9120090007782, "perf/train_time": 64.71815633773804,
    "perf/log_probs_tflops": 24.6083648658699, "perf/step_time": 412.3236815929413,
    "perf/wait_time_ratio": 0.8430404092054314,
}  # fmt: skip
SLIME_ROLLOUT = {"rollout/response_len/mean": 12245.5, "perf/rollout_time": 335.0, "perf/tokens_per_gpu_per_sec": 200.1}

#: A SkyRL run on 8 GPUs, 16 prompts of 8 rollouts, in a public test of a monitor (repository and licence not known);
#: its outer timer of training is taken to be the policy's, the mean length is made up
SKYRL = {
    "step": "286.05",
    "generate": "27.65",
    "fwd_logprobs_values_reward": "47.40",
    "train_critic_and_policy": "191.74",
}
SKYRL_LENGTH = "1013.5000"

#: OpenRLHF's smoke run on 4 MI355X in public notes (repository and licence not known): what its generation and step
#: took; how the rest is divided, and the mean length, are made up
OPENRLHF = {
    "reward": 0.4499, "policy_loss": -2.37e-07, "kl": 0.0, "rollout/num_samples": 16.0,
    "rollout/response_length_mean": 112.5, "timing/make_experience": 1.5, "timing/ppo_train": 6.2,
    "timing/broadcast": 1.52, "timing/generation": 2.97, "timing/step_total": 12.19,
}  # fmt: skip

#: Cells of AReaL's table in a public test of its weight updates (repository and licence not known); the time of the
#: rollout was not among them and is made up
AREAL = {"timeperf/rollout": 45.0, "timeperf/train_step": 31.464, "timeperf/update_weights": 103.29}

#: SemiAnalysisAI/InferenceX (Apache-2.0), commit 24b02df54323b15ee3b171e8ce3f345c81bdd078,
#: benchmarks/multi_node/results/gpt-oss-120b/concurrency_128_req_rate_inf_gpus_16_ctx_8_gen_8.json: 16 GPUs
VLLM = {
    "backend": "openai", "num_prompts": 1280, "request_rate": "inf", "max_concurrency": 128,
    "duration": 156.629553565057, "completed": 1280, "total_input_tokens": 1310720, "total_output_tokens": 1310720,
    "request_throughput": 8.17214868373065, "output_throughput": 8368.280252140186,
    "total_token_throughput": 16736.560504280373, "mean_ttft_ms": 322.05012791437184,
    "mean_tpot_ms": 14.871257350024614,
}  # fmt: skip

#: Rusheel86/Chaos-Economy (none stated), trainer_state.json, commit 7138430cb7f24c6013bb8f8b156bb104209b730f: step,
#: mean completion, tokens so far, reward; this run logged no times, so step_time is made up
TRL = [
    (5, 472.05, 29865.0, -0.0981), (10, 385.55, 42892.0, 0.7247), (15, 456.3, 57290.0, 0.6542),
    (20, 442.95, 72105.0, 0.3148), (25, 477.55, 92468.0, 0.3581), (30, 447.1, 111818.0, 0.6909),
]  # fmt: skip

#: PranavDani/Flame (none stated), nvidia-smi.csv, commit d517472bb6c99b9098c993bf230429e5224d5b39: s after 18:42, W
POWER = [(33.189, 22.89), (33.239, 22.73), (33.290, 22.73), (33.340, 23.00), (33.390, 23.00), (33.441, 23.00)]

#: A vLLM server's counters in a public test of a monitor (repository and licence not known)
SCRAPE_OUTPUT, SCRAPE_REQUESTS = "4.2421665e+07", "63184.0"


def torchtitan_log(steps: Sequence[tuple[str, int, float, str, float, float]] = TITAN, rank: str = "[rank0]:") -> str:
    """The console of torchtitan."""
    head = [
        "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1",
        "Peak FLOPS used for computing MFU: 2.250e+15",
        "Trainer is initialized with local batch size 160, global batch size 1280, sequence length 128",
    ]
    lines = [f"{rank}[titan] 2026-05-19 19:31:15,551 - root - INFO - {text}" for text in head]
    for clock, step, loss, rate, tflops, mfu in steps:
        lines.append(
            f"{rank}[titan] 2026-05-19 {clock} - root - INFO - step: {step:2d}  loss: {loss:8.5f}  grad_norm: 24.7500  "
            f"memory: 160.60GiB(90.05%)  tps: {rate}  tflops: {tflops}  mfu: {mfu:.2f}%"
        )
    return "\n".join(lines) + "\n"


def megatron_line(step: int, elapsed_ms: float, clock: str = "", batch: int = 64, tflops: float = 0.0) -> str:
    """A line of Megatron-LM."""
    rate = f" throughput per GPU (TFLOP/s/GPU): {tflops:.1f} |" if tflops else ""
    stamp = f"[2026-05-27 {clock}] " if clock else ""
    return (
        f" {stamp}iteration {step:8d}/   10000 | consumed samples: {step * batch:12d} | "
        f"elapsed time per iteration (ms): {elapsed_ms:.1f} |{rate} learning rate: 9.998682E-05 | "
        f"global batch size: {batch:5d} | lm loss: 7.263364E+00 | "
        "load_balancing_loss: 1.156112E+00 | loss scale: 1.0 | grad norm: 0.795 | number of skipped iterations:   0 | "
        "number of nan iterations:   0 |"
    )


def megatron_head(world: int = 64, sequence: int = 4096) -> str:
    """Arguments that Megatron-LM prints first."""
    return (
        f"using world size: {world}, data-parallel size: 8, tensor-model-parallel size: 1\n"
        "------------------------ arguments ------------------------\n"
        f"  seq_length ...................................... {sequence}\n"
        f"  world_size ...................................... {world}\n"
        "-------------------- end of arguments ---------------------\n"
    )


def megatron_log() -> str:
    """A console of Megatron-LM, a checkpoint line among its iterations."""
    lines = [megatron_line(step, ms, clock) for clock, step, ms in MEGATRON]
    lines.insert(6, "  successfully saved checkpoint from iteration      87 to /ckpt")
    return megatron_head() + "\n".join(lines) + "\n"


def verl_console(prefix: str = "(main_task pid=13624) ") -> str:
    """The console of verl, with the configuration that it prints first."""
    lines = ["{'trainer': {'n_gpus_per_node': 1,", "              'nnodes': 1,"]
    for step, total, response, longest, prompt, times in VERL:
        timers = zip(VERL_TIMERS, times, strict=True)
        parts = [
            f"step:{step}", f"global_seqlen/min:{total:.3f}", f"global_seqlen/mean:{total:.3f}", "critic/kl:0.215",
            VERL_OTHERS,
            "mfu/critic:0.194", "actor/pg_loss:0.006", "mfu/actor:0.344", "critic/vf_explained_var:0.704",
            f"response_length/mean:{response:.3f}", f"response_length/max:{longest:.3f}", "response_length/min:39.000",
            f"prompt_length/mean:{prompt:.3f}", *(f"timing_s/{name}:{value:.3f}" for name, value in timers),
            "timing_per_token_ms/values:0.050", "timing_per_token_ms/adv:0.382", "timing_per_token_ms/ref:0.025",
            "timing_per_token_ms/update_actor:0.105", "timing_per_token_ms/gen:3.827",
            "timing_per_token_ms/update_critic:0.184",
        ]  # fmt: skip
        lines += [f"epoch 8, step {step}", " - ".join(parts), "Passed 0/3 tests, reward=0.0"]
    return "".join(f"{prefix}{line}\n" for line in lines)


def nemo_rl_console(steps: int = 4) -> str:
    """The console of NeMo RL: a heading, results and the timing block of each step."""
    timing = [f"  \u2022 {name}: {value:.2f}s ({100 * value / NEMO_RL_STEP_S:.1f}%)" for name, value in NEMO_RL.items()]
    lines = []
    for step in range(1, steps + 1):
        lines += [f"{'=' * 25} Step {step}/1000 {'=' * 25}", "Training Results:"]
        lines += ["  \u2022 Mean Generation Length: 811.0", "Timing:"]
        lines += [f"  \u2022 Total step time: {NEMO_RL_STEP_S:.2f}s", *timing]
    return "".join(f"(pid=7) {line}\n" for line in lines)


def slime_console(steps: int = 4) -> str:
    """The console of slime: a line of each rollout, and one of each training step."""
    lines = []
    for step in range(steps):
        lines.append(
            f"(RolloutManager pid=2) [2026-08-21 10:00:00] rollout_metrics.py:268 - perf {step}: {SLIME_ROLLOUT}"
        )
        lines.append(f"(MegatronTrainRayActor pid=3) step {step}: {{'train/loss': 0.1}}")
        lines.append(f"(MegatronTrainRayActor pid=3) [2026-08-21 10:00:00] utils.py:401 - perf {step}: {SLIME}")
    return "".join(f"{line}\n" for line in lines)


def skyrl_console(steps: int = 3) -> str:
    """The console of SkyRL: the metrics of a step as a dictionary, a key a line."""
    lines = []
    for step in range(1, steps + 1):
        lines.append(f"(skyrl_entrypoint pid=8) 2026-06-15 13:24:42.955 | INFO     | tracking:log:189 - Step {step}: ")
        lines.append("{" + f"'generate/avg_num_tokens': '{SKYRL_LENGTH}',")
        lines += [f" 'timing/{name}': '{value}'," for name, value in SKYRL.items()]
        lines.append(" 'trainer/global_step': 1}")
    return "".join(f"{line}\n" for line in lines)


def openrlhf_console(steps: int = 3, changed: Mapping[str, float] | None = None) -> str:
    """The console of OpenRLHF: a line of each global step."""
    said = OPENRLHF | dict(changed or {})
    head = "INFO 08-13 19:25:45 ppo_trainer.py:548] \u2728 Global step"
    return "".join(f"{head} {step}: {said}\n" for step in range(1, steps + 1))


def areal_console(steps: int = 3) -> str:
    """The console of AReaL: a table below the line of each train step, two cells a row."""
    cells = [f"\u2502 {name} \u2502 {value:.4e} \u2502 ppo_actor/update/lr \u2502 1.0000e-06 \u2502\n"
             for name, value in AREAL.items()]  # fmt: skip
    return "".join(f"20260708-10:00:00 StatsLogger INFO: Epoch 1/1 Step {step}/9 Train step {step}/9 done.\n"
                   + "".join(cells) for step in range(1, steps + 1))  # fmt: skip


def verl_file() -> str:
    """The file that verl's logger writes; the mean response follows from the tokens of 3,840 rollouts."""
    response = VERL_FILE["perf/total_num_tokens"] / 3840 - VERL_FILE["prompt_length/mean"]
    data = VERL_FILE | {"response_length/mean": response, "response_length/max": 4096.0}
    return "".join(json.dumps({"step": step, "data": data}) + "\n" for step in (1, 2, 3, 4))


def trainer_state(step_s: float | None = 6.5, runtime_s: float | None = None) -> str:
    """A trainer's state after 30 steps."""
    history = [
        {"completions/mean_length": length, "loss": 0.01, "num_tokens": tokens, "reward": reward, "step": step}
        | ({} if step_s is None else {"step_time": step_s})
        for step, length, tokens, reward in TRL
    ]
    if runtime_s is not None:
        history.append({"step": 30, "train_runtime": runtime_s, "train_loss": 0.01})
    state = {"epoch": 1.0, "global_step": 30, "log_history": history, "logging_steps": 5, "max_steps": 200}
    return json.dumps(state, indent=2) + "\n"


def vllm_result(**changed: object) -> str:
    """What ``vllm bench serve --save-result`` writes."""
    return json.dumps(VLLM | changed)


def sglang_result() -> str:
    """What SGLang's ``bench_serving --output-file`` appends, twice; the same figures in its own names."""
    one = {
        name: value for name, value in VLLM.items() if name not in ("backend", "total_token_throughput", "num_prompts")
    }
    one |= {"backend": "sglang", "total_output_tokens_retokenized": 1310700, "total_throughput": 16736.56, "tp_size": 8}
    return "".join(json.dumps(one) + "\n" for _ in range(2))


def vllm_scrape(output: str = SCRAPE_OUTPUT, prompt: str = "1.2e+08", stamp: str = "") -> str:
    """A scrape of vLLM's counters."""
    labels = '{engine="0",model_name="Qwen/Qwen3-VL-30B-A3B-Instruct-FP8"}'
    end = f" {stamp}" if stamp else ""
    return (
        "# HELP vllm:num_requests_running Number of requests in model execution batches.\n"
        "# TYPE vllm:num_requests_running gauge\n"
        f"vllm:num_requests_running{labels} 30.0{end}\n"
        "# TYPE vllm:generation_tokens_total counter\n"
        f"vllm:prompt_tokens_total{labels} {prompt}{end}\n"
        f"vllm:generation_tokens_total{labels} {output}{end}\n"
        f"vllm:request_success_total{labels} {SCRAPE_REQUESTS}{end}\n"
    )


def power_csv() -> str:
    """What ``nvidia-smi --query-gpu=timestamp,power.draw --format=csv`` prints."""
    return "timestamp, power.draw [W]\n" + "".join(f"2024/10/30 18:42:{s:06.3f}, {w:.2f} W\n" for s, w in POWER)


def dcgm_text() -> str:
    """What ``dcgmi dmon -e 155,203`` prints: no times, its head again and again."""
    head = "#Entity   POWER     GPUTL\nID          W\n"
    return (
        head
        + "GPU 0     120.500   72\nGPU 1     130.500   80\n"
        + head
        + "GPU 0     121.500   74\nGPU 1     N/A   81\n"
    )
