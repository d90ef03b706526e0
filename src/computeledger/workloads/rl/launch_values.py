"""What a run says to an RL framework, as text: placement, engines, trainer, batch, lengths, turns, lag."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from computeledger.arrays import Num, median
from computeledger.fields import MOST_COUNT
from computeledger.physics.serving.offload import ON_CHIP
from computeledger.units import format_count
from computeledger.workloads.rl.scenario import RLScenario
from computeledger.workloads.rl.weight_sync import sync_mechanism

#: GPUs of a host where the scale-up domain is larger than one, and where it is a single GPU (assumptions).
WIDE_HOST_GPUS, USUAL_HOST_GPUS = 4, 8
#: Characters of a token where a framework counts characters: English text and code (assumption).
CHARACTERS_PER_TOKEN = 4.0
#: Turns that are no more than rounding beyond a whole number.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Emitted:
    """A run as it is written: single numbers, and what the scenario does not hold."""

    scenario: RLScenario
    engine: str
    n_scale_up: int
    steps: float
    turn_limit: float | None = None
    training_system: str = ""
    step_s: float = math.nan

    @property
    def has_turns(self) -> bool:
        """Whether any episode calls a tool."""
        return median(self.scenario.sampling.turns.calls_per_token) > 0

    @property
    def most_turns(self) -> int:
        """The stated limit of turns, or those of the longest episode, which has as many more as it writes more."""
        sampling = self.scenario.sampling
        longest = 1 + median(sampling.turns.calls_per_token * sampling.lengths.longest_tokens)
        return math.ceil((longest if self.turn_limit is None else self.turn_limit) - _ROUNDING)

    @property
    def mode(self) -> str:
        """Who waits for whom: colocated, separate or async."""
        split = self.scenario.split
        return "colocated" if split.is_colocated else "async" if split.max_lag else "separate"


def values(run: Emitted, is_fsdp: bool = False) -> dict[str, str]:
    """What templates may name, as text; empty where it does not apply.

    Parameters
    ----------
    run : Emitted
        With single numbers.
    is_fsdp : bool
        Whether the framework's FSDP trainer runs the update.

    Returns
    -------
    dict of str to str
        By name.

    Examples
    --------
    >>> from computeledger.questions.answers.rl.answer import rl
    >>> run = rl(model="llama-3.1-8b", system="h100-nvl8", gpus=16, rollout_tokens="4K", samples=16).setting.run
    >>> said = values(Emitted(run.typical, "vllm", 8, 100.0))
    >>> said["mode"], said["all_nodes"], said["all_per_node"], said["group"]
    ('colocated', '2', '8', '16')
    """
    said = {
        **_placement(run), **_engines(run), **_trainer(run, is_fsdp), **_microbatches(run, is_fsdp), **_batch(run),
        **_lengths(run), **_turns(run), **_lag(run), **_adapters(run, is_fsdp),
    }  # fmt: skip
    return {name: _text(value) for name, value in said.items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else ""
    return f"{value:g}" if isinstance(value, float) and not value.is_integer() else _whole(value)


def _whole(value: object) -> str:
    return str(int(value)) if isinstance(value, float) else str(value)


def whole(value: Num) -> int:
    """The nearest whole number of a count."""
    return round(float(median(value)))


def host_gpus(n_scale_up: int) -> int:
    """GPUs of a host, by the scale-up domain.

    Examples
    --------
    >>> host_gpus(8), host_gpus(72), host_gpus(1)
    (8, 4, 8)
    """
    if 1 < n_scale_up <= USUAL_HOST_GPUS:
        return n_scale_up
    return WIDE_HOST_GPUS if n_scale_up > USUAL_HOST_GPUS else USUAL_HOST_GPUS


def _hosts(n_gpus: int, host: int) -> tuple[int, int]:
    """Nodes, and GPUs on each: one node, or parts of hosts that fill them without a rest."""
    each = n_gpus if n_gpus <= host else math.gcd(n_gpus, host)
    return n_gpus // each, each


def _placement(run: Emitted) -> dict[str, object]:
    """Who has which GPUs, in hosts."""
    split, host = run.scenario.split, host_gpus(run.n_scale_up)
    gpus, training, generating = (whole(one) for one in (split.n_gpus, split.n_training, split.n_generation))
    apart, shares_host = not split.is_colocated, not split.is_colocated and gpus <= host
    everything, trains, generates = _hosts(gpus, host), _hosts(training, host), _hosts(generating, host)
    near = " or ".join(str(n) for n in (training // host * host, -(-training // host) * host) if 0 < n < gpus)
    rest = f"{training} GPUs that train beside {generating} on hosts of {host}, and sides apart take whole nodes or "
    rest += f"share one; nearest: --training-gpus {near}" if near and gpus % host == 0 else "share one"
    uneven = apart and not shares_host and (training % host or generating % host)
    each = whole(run.scenario.engine.layout.n_gpus)
    return {
        "mode": run.mode, "node_gpus": host, "train_gpus": training,
        "all_nodes": everything[0], "all_per_node": everything[1],
        "train_nodes": trains[0], "train_per_node": trains[1], "own_generation_gpus": generating if apart else "",
        "own_generation_nodes": generates[0] if apart else "", "own_generation_per_node": generates[1] if apart else "",
        "own_rest": rest if uneven else "", "colocated": split.is_colocated, "apart": apart,
        "hybrid_rest": f"engines of {each} GPUs on the {training} that train" if apart and training % each else "",
        "weight_sync": sync_mechanism(run.scenario.weight_sync, split.is_colocated).id,
    }  # fmt: skip


def _engines(run: Emitted) -> dict[str, object]:
    """Engines and their parallelism."""
    one, layout = run.scenario, run.scenario.engine.layout
    tp, pp, dp, ep = (whole(degree) for degree in (layout.tp, layout.pp, layout.dp, layout.ep))
    shared, n = one.split.is_colocated, whole(layout.n_gpus)
    engines, spread = whole(one.n_replicas), ep > 1 and ep == tp * dp
    return {
        "model": one.engine.model.id, "engine": run.engine, "engines": engines, "engine_gpus": n,
        "engine_tp": tp, "engine_pp": pp, "engine_dp": dp, "engine_stages": pp if pp > 1 else "",
        "engine_experts": ep if ep > 1 else "", "engine_spread": dp if dp > 1 else "", "engine_spread_on": dp > 1,
        "server_gpus": engines * n, "server_dp": engines * dp, "unshared": not one.sampling.is_prefix_shared,
        "colocated_tp": tp if shared else "", "colocated_stages": layout if shared and n > tp else "",
        "precision": one.engine.precision.name, "kv_precision": one.engine.precision.kv,
        "part_of_experts": f"{ep} of {n}" if ep > 1 and not spread else "",
        "bare_spread": dp if dp > 1 and not spread else "", "served_stages": pp if pp > 1 and not shared else "",
        "async_engine": pp > 1 or one.split.max_lag > 0, "async_spread": ep if dp > 1 and one.split.max_lag else "",
        "memory_share": one.engine.host.buffers.whole_fraction or "" if one.engine.host != ON_CHIP else "",
        "live_limit": whole(one.engine.batch) if median(one.engine.batch) < MOST_COUNT else "",
        "synchronous": not one.split.max_lag,
    }  # fmt: skip


def _trainer(run: Emitted, is_fsdp: bool) -> dict[str, object]:
    """The trainer's kind and parallelism."""
    trainer, is_moe = run.scenario.trainer, run.scenario.engine.model.is_moe
    layout, precision = trainer.layout, trainer.precision.name
    tp, pp, cp, ep = (whole(degree) for degree in (layout.tp, layout.pp, layout.cp, layout.ep))
    pieces = whole(trainer.virtual_stages)
    return {
        "kind": "fsdp" if is_fsdp else "megatron", "fsdp": is_fsdp, "megatron": not is_fsdp,
        "sharded_otherwise": layout if trainer.is_sharded and not is_fsdp else "",
        "tp": tp, "pp": pp, "cp": cp, "pieces": pieces if pieces > 1 else "", "sequence_parallel": tp > 1,
        "dtensor_sequence_parallel": "true" if tp > 1 and cp == 1 else "false",
        "experts_over": ep if is_moe else "", "experts_cut": max(tp // ep, 1) if is_moe else "",
        "recompute": trainer.recompute, "training_precision": precision,
        "fsdp_precision": precision if is_fsdp and precision != "bf16" else "",
        "length_divisor": tp * (2 * cp if cp > 1 else 1),
    }  # fmt: skip


def ranks(run: Emitted) -> int:
    """Data-parallel ranks of the trainer."""
    return whole(run.scenario.trainer.layout.dp)


def _rollouts_a_rank(run: Emitted, n: int) -> int:
    """Rollouts that one of ``n`` ranks takes to an optimizer step."""
    one = run.scenario.algorithm
    return max(whole(one.rollouts) // (whole(one.optimizer_steps) * n), 1)


def _at_most(number: int, most: int) -> int:
    """The largest divisor of a number that is no larger than a bound."""
    return max(n for n in range(1, number + 1) if number % n == 0 and (n <= most or n == 1))


def _microbatches(run: Emitted, is_fsdp: bool) -> dict[str, object]:
    """Tokens or rollouts of a microbatch, packed or padded."""
    trainer, rows = run.scenario.trainer, run.scenario.trainer.microbatch_sequences
    pack, longest = median(trainer.pack_tokens), median(run.scenario.longest_sequence_tokens)
    rank, cp, pp = math.ceil(max(pack, longest)), whole(trainer.layout.cp), whole(trainer.layout.pp)
    most = max(int(pack / longest), 1) if rows is None else whole(rows)
    counted = "" if rows is None else _at_most(_rollouts_a_rank(run, ranks(run)), most)
    # NeMo RL's DTensor policy does not pack where ranks share a sequence
    unpacked = trainer.is_padded or (is_fsdp and cp > 1)
    by_tokens = unpacked and rows is None and pp == 1
    by_row = unpacked and not by_tokens
    training = whole(run.scenario.split.n_training)
    each = _rollouts_a_rank(run, training)
    device, updates = _at_most(each, most), whole(run.scenario.algorithm.optimizer_steps)
    return {
        "rank_tokens": rank, "gpu_tokens": math.ceil(rank / cp), "micro": counted, "dynamic": rows is None,
        "bounded": "true" if rows is None else "false", "padded": trainer.is_padded, "packed": not trainer.is_padded,
        "packs": "false" if unpacked else "true", "packed_rows": not unpacked, "by_tokens": by_tokens,
        "rows": _at_most(_rollouts_a_rank(run, ranks(run)), most) if by_row else 1,
        "shared_sequence": cp if is_fsdp and cp > 1 and not trainer.is_padded else "",
        "packed_micro": counted if not unpacked else "", "device_batch": device, "accumulated": each // device,
        "steps_per_generation": each // device * updates,
    }  # fmt: skip


def _batch(run: Emitted) -> dict[str, object]:
    """What a step samples, keeps and trains on."""
    one, is_async = run.scenario.algorithm, run.mode == "async"
    prompts, group, updates = (whole(part) for part in (one.prompts_per_step, one.group_size, one.optimizer_steps))
    epochs, passes, rounds = whole(one.updates_per_batch), median(one.logprob_passes), median(one.sampling_rounds)
    started = math.ceil(median(one.prompts_per_step * one.started_ratio))
    return {
        "prompts": prompts, "group": group, "mini_prompts": prompts // updates, "optimizer_steps": updates,
        "update_rollouts": prompts * group // updates, "epochs": epochs, "logprob_passes": passes,
        "own_reference": "" if is_async else max(passes - 1, 0), "with_reference": passes > 1,
        "turned_packing": "" if is_async or run.scenario.trainer.is_padded else "packed",
        "without_logprobs": passes == 0, "turned_logprobs": "none" if passes == 0 and not is_async else "",
        "steps": whole(run.steps), "all_optimizer_steps": whole(run.steps) * updates * epochs,
        "resampled": rounds > 1, "resampled_ratio": rounds if rounds > 1 else "",
        "lagged_resampled": rounds if rounds > 1 and is_async else "",
        "live_resampled": rounds if rounds > 1 and is_async and run.scenario.split.is_in_flight else "",
        "oversampled": started if started > prompts else "", "partial": one.keeps_partial,
    }  # fmt: skip


def _lengths(run: Emitted) -> dict[str, object]:
    """Lengths of prompts and rollouts."""
    sampling = run.scenario.sampling
    prompt, longest = median(sampling.prompt_tokens), median(run.scenario.longest_sequence_tokens)
    return {
        "prompt": math.ceil(prompt), "sequence_limit": math.ceil(longest),
        "written_limit": math.ceil(median(sampling.lengths.longest_tokens)),
        "response_limit": math.ceil(longest - prompt), "context_limit": math.ceil(longest) if run.has_turns else "",
    }  # fmt: skip


def _turns(run: Emitted) -> dict[str, object]:
    """Turns, what tools answer, environments."""
    turns = run.scenario.sampling.turns
    observed, environments = math.ceil(median(turns.observed_tokens)), median(turns.environments)
    most, lagged = whole(environments) if math.isfinite(environments) else "", run.mode == "async"
    has = run.has_turns
    return {
        "multi_turn": has, "turn_limit": run.most_turns if has else "", "call_limit": run.most_turns - 1 if has else "",
        "observed": observed or "" if has else "",
        "observed_characters": math.ceil(observed * CHARACTERS_PER_TOKEN) or "" if has else "",
        "characters": CHARACTERS_PER_TOKEN, "environments": most, "waiting_environments": "" if lagged else most,
        "rereads": turns.rereads,
    }  # fmt: skip


def _lag(run: Emitted) -> dict[str, object]:
    """Versions that rollouts may be behind, and what happens at new weights."""
    split, one = run.scenario.split, run.scenario.algorithm
    lag, updates, passes = split.max_lag, whole(one.optimizer_steps), median(one.logprob_passes)
    mini = whole(one.prompts_per_step) // updates
    return {
        "async": lag > 0, "lag": lag or "", "lag_span": lag + 1 if lag else "", "in_flight": split.is_in_flight,
        "drained": lag > 0 and not split.is_in_flight,
        "kept_caches": split.is_in_flight and not run.scenario.sampling.turns.rereads,
        "lag_unbounded": format_count(lag, "version") if lag > 1 or split.is_in_flight else "",
        "async_updates": updates if lag else "",
        "async_prompts": mini * (lag + 1) if lag else "", "async_epochs": whole(one.updates_per_batch) if lag else "",
        "async_logprobs": f"{passes:g}" if lag and passes else "",
    }  # fmt: skip


def _adapters(run: Emitted, is_fsdp_trainer: bool) -> dict[str, object]:
    """Adapters beside the frozen weights, and how they reach the generators."""
    lora, model = run.scenario.lora, run.scenario.engine.model
    if lora is None:
        return dict.fromkeys(("lora_rank", "lora_targets", "lora_merged", "lora_beside", "lora_tp", "lora_experts",
                              "lora_latent", "lora_async", "fsdp_merged"), "")  # fmt: skip
    has_latents = any(group.attention.kv_lora_rank for group in model.layers)
    tp, is_beside = whole(run.scenario.trainer.layout.tp), model.adapters is not None
    return {
        "lora_rank": lora.rank, "lora_targets": lora.targets, "lora_merged": not is_beside, "lora_beside": is_beside,
        "fsdp_merged": is_fsdp_trainer and not is_beside, "lora_tp": tp if tp > 1 else "",
        "lora_experts": model.is_moe and lora.targets == "all",
        "lora_latent": has_latents and lora.targets == "attention",
        "lora_async": lora.rank if run.mode == "async" else "",
    }  # fmt: skip


def is_fsdp(run: Emitted, degrees: tuple[str, ...] | None) -> bool:
    """Whether a framework's FSDP trainer, with the degrees that it has, runs the planned update.

    Examples
    --------
    >>> from computeledger.questions.answers.rl.answer import rl
    >>> asked = dict(model="qwen3-8b", system="h100-nvl8", gpus=16, rollout_tokens="4K", samples=16, sharding="zero-3")
    >>> run = Emitted(rl(**asked, training_layout="tp2-dp8").setting.run.typical, "vllm", 8, 100.0)
    >>> is_fsdp(run, ("tp", "cp")), is_fsdp(run, ("cp",)), is_fsdp(run, None)
    (True, False, False)
    """
    layout = run.scenario.trainer.layout
    sizes: Mapping[str, Num] = {"tp": layout.tp, "pp": layout.pp, "cp": layout.cp, "ep": layout.ep}
    if degrees is None or not run.scenario.trainer.is_sharded:
        return False
    return all(whole(size) == 1 for name, size in sizes.items() if name not in degrees)
