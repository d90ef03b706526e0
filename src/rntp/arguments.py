"""A recipe in TRL's terms: the arguments of its GRPO trainer."""

from __future__ import annotations

import atexit
import gc
from typing import Any

import torch
from accelerate import PartialState
from trl import GRPOConfig

from computeledger.errors import InputError
from rntp.recipe import TRACKERS, Recipe, RlSpec, decay_steps

#: TRL's names for what the policy's loss is averaged over.
_LOSSES = {"tokens": "dapo", "thoughts": "grpo"}
_ENGINES = {"vllm-colocate": "colocate", "vllm-server": "server"}


def _on_cpu(recipe: Recipe) -> bool:
    return recipe.rl.device == "cpu" or not torch.cuda.is_available()


def process_state(recipe: Recipe) -> PartialState:
    """Join the processes of a run; without a GPU they find one another only if they are told to do without.

    Examples
    --------
    >>> process_state(Recipe()).num_processes
    1
    """
    atexit.unregister(_leave_group)
    atexit.register(_leave_group)
    return PartialState(cpu=_on_cpu(recipe))


def _leave_group() -> None:
    """Join the group's threads while Python still runs: one that needs the interpreter afterwards aborts the process.

    A model that is still alive holds the group, and its threads with it.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        gc.collect()
        torch.distributed.destroy_process_group()


def _schedule(rl: RlSpec) -> tuple[str, dict[str, Any]]:
    """The learning rate's schedule in transformers' terms: its name, and what else it takes."""
    if rl.schedule == "constant" and rl.warmup_steps:
        return "constant_with_warmup", {}
    if rl.schedule == "warmup_stable_decay":
        decay = {"num_decay_steps": decay_steps(rl), "decay_type": "linear"}
        return rl.schedule, {**decay, "min_lr_ratio": rl.final_fraction}
    if rl.schedule == "linear" and rl.final_fraction:
        return "polynomial", {"power": 1.0, "lr_end": rl.learning_rate * rl.final_fraction}
    if rl.schedule == "cosine" and rl.final_fraction:
        return "cosine_with_min_lr", {"min_lr_rate": rl.final_fraction}
    return rl.schedule, {}


def grpo_config(recipe: Recipe, processes: int = 1) -> GRPOConfig:
    """Say a recipe in TRL's terms.

    Examples
    --------
    >>> from rntp.recipe import RlSpec
    >>> made = grpo_config(Recipe(output="out", rl=RlSpec(device="cpu", prompts_per_step=4, group_size=8)), processes=2)
    >>> made.per_device_train_batch_size, made.gradient_accumulation_steps
    (16, 1)
    """
    rl, thought = recipe.rl, recipe.thought
    share, rest = divmod(rl.prompts_per_step * rl.group_size, processes)
    micro = rl.micro_batch or share
    if rest or share % micro:
        raise InputError(
            f"{rl.prompts_per_step} x {rl.group_size} thoughts a step cannot be shared by {processes} processes in "
            f"passes of {micro}: choose prompts_per_step, group_size and micro_batch that divide"
        )
    if rl.save_steps % rl.updates_per_batch:
        raise InputError(
            f"save_steps {rl.save_steps}: a multiple of updates_per_batch ({rl.updates_per_batch}) is needed, to resume"
        )
    if rl.ahead and processes > 1:
        raise InputError(f"[rl] ahead {rl.ahead}: one process is needed, not {processes}; 0 goes with any number")
    vllm = recipe.vllm
    if rl.engine == "vllm-colocate" and processes % vllm.tensor_parallel:
        raise InputError(
            f"[vllm] tensor_parallel {vllm.tensor_parallel}: a divisor of the {processes} processes is needed"
        )
    kind, options = _schedule(rl)
    return GRPOConfig(
        output_dir=recipe.output, seed=recipe.seed, data_seed=recipe.seed, max_steps=rl.steps,
        per_device_train_batch_size=micro, gradient_accumulation_steps=share // micro, num_generations=rl.group_size,
        num_iterations=rl.updates_per_batch, epsilon=rl.clip, epsilon_high=rl.clip_high or None,
        loss_type=_LOSSES[rl.average], temperature=rl.temperature, beta=0.0, max_completion_length=thought.budget,
        shuffle_dataset=False, disable_dropout=True,
        learning_rate=rl.learning_rate, lr_scheduler_type=kind, lr_scheduler_kwargs=options,
        warmup_steps=rl.warmup_steps,
        weight_decay=rl.weight_decay, max_grad_norm=rl.max_grad_norm,
        gradient_checkpointing=rl.gradient_checkpointing, bf16=rl.precision == "bfloat16", fp16=False,
        use_cpu=_on_cpu(recipe), dataloader_pin_memory=not _on_cpu(recipe),
        use_vllm=rl.engine in _ENGINES, vllm_mode=_ENGINES.get(rl.engine, "colocate"),
        vllm_server_base_url=vllm.address or None, vllm_gpu_memory_utilization=vllm.memory_fraction,
        vllm_tensor_parallel_size=vllm.tensor_parallel, vllm_max_model_length=vllm.context_tokens or None,
        vllm_importance_sampling_mode="token_truncate",
        save_strategy="steps", save_steps=rl.save_steps or rl.steps, eval_strategy="no", logging_steps=1,
        report_to=[name for name in recipe.report.trackers if name not in TRACKERS] or "none", disable_tqdm=True,
    )  # fmt: skip
