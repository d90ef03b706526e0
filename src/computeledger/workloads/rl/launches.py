"""A run written as RL frameworks take it: placement, engines, trainer, batch, lengths, lag, weight sync, turns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from computeledger.arrays import Num, median
from computeledger.errors import InputError, nearest
from computeledger.physics.serving.offload import ON_CHIP
from computeledger.units import format_count
from computeledger.workloads.launches import Launch, fill, load_templates
from computeledger.workloads.questions.rl import EMITTED
from computeledger.workloads.rl.scenario import RLScenario
from computeledger.workloads.rl.weight_sync import sync_mechanism

#: Where the templates of RL frameworks lie.
PACKAGE = "computeledger.workloads.rl"
#: GPUs of a host where the scale-up domain is larger than one, and where it is a single GPU (assumptions).
WIDE_HOST_GPUS, USUAL_HOST_GPUS = 4, 8


#: Turns that are no more than rounding beyond a whole number.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Emitted:
    """A run as it is written: single numbers, and what the scenario does not hold."""

    scenario: RLScenario
    engine: str
    n_scale_up: int
    steps: float

    @property
    def has_turns(self) -> bool:
        """Whether any episode calls a tool."""
        return median(self.scenario.sampling.turns.calls_per_token) > 0

    @property
    def most_turns(self) -> int:
        """Turns of the longest episode, which has as many more as it writes more."""
        sampling = self.scenario.sampling
        return math.ceil(1 + median(sampling.turns.calls_per_token * sampling.lengths.longest_tokens) - _ROUNDING)


def rl_launch(framework: str, run: Emitted) -> Launch:
    """Write a run as a framework takes it.

    Examples
    --------
    >>> from computeledger.questions.answers.rl.answer import rl
    >>> answer = rl(model="llama-3.1-8b", system="h100-nvl8", gpus=16, rollout_tokens="4K", emit="verl", samples=16)
    >>> dict(answer.launch.arguments)["actor_rollout_ref.rollout.n"]
    '16'
    """
    if framework not in EMITTED:
        raise InputError(f"emit {framework!r}: {nearest(framework, EMITTED)}")
    if run.scenario.text is not None:
        raise InputError(f"--emit {framework}: it has no RL on text: leave --continuation-tokens out")
    beside = [f"cannot be expressed here: {one}" for one in (*_beyond(run.scenario), *_of_trainer(run, framework))]
    notes = list(_notes(run))
    return fill(framework, load_templates(PACKAGE)[framework], values(run), (*notes, *beside))


def values(run: Emitted) -> dict[str, str]:
    """What templates may name, as text; empty where it does not apply."""
    said = {**_placement(run), **_engines(run), **_trainer(run), **_batch(run), **_lengths(run), **_lag(run)}
    return {name: _text(value) for name, value in said.items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else ""
    return f"{value:g}" if isinstance(value, float) and not value.is_integer() else _whole(value)


def _whole(value: object) -> str:
    return str(int(value)) if isinstance(value, float) else str(value)


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
    """Hosts, and GPUs on each: as many as divide evenly."""
    each = max(n for n in range(1, min(host, n_gpus) + 1) if n_gpus % n == 0)
    return n_gpus // each, each


def _mode(run: Emitted) -> str:
    split = run.scenario.split
    return "colocated" if split.is_colocated else "async" if split.max_lag else "separate"


def _placement(run: Emitted) -> dict[str, object]:
    """Who has which GPUs, in hosts."""
    split, host = run.scenario.split, host_gpus(run.n_scale_up)
    gpus, training, generating = (_int(one) for one in (split.n_gpus, split.n_training, split.n_generation))
    shares_host = not split.is_colocated and gpus <= host
    everything, trains, generates = _hosts(gpus, host), _hosts(training, host), _hosts(generating, host)
    apart = not split.is_colocated
    rest = f"{training} GPUs that train beside {generating} on hosts of {host}"
    uneven = apart and not shares_host and (training % host or generating % host)
    return {
        "mode": _mode(run), "node_gpus": host, "train_gpus": training,
        "all_nodes": everything[0], "all_per_node": everything[1],
        "train_nodes": trains[0], "train_per_node": trains[1], "own_generation_gpus": generating if apart else "",
        "own_generation_nodes": generates[0] if apart else "", "own_generation_per_node": generates[1] if apart else "",
        "own_rest": rest if uneven else "", "colocated": split.is_colocated,
        "weight_sync": sync_mechanism(run.scenario.weight_sync, split.is_colocated).id,
    }  # fmt: skip


def _engines(run: Emitted) -> dict[str, object]:
    """Engines and their parallelism."""
    one, layout = run.scenario, run.scenario.engine.layout
    tp, pp, dp, ep = (_int(degree) for degree in (layout.tp, layout.pp, layout.dp, layout.ep))
    shared, n = one.split.is_colocated, _int(layout.n_gpus)
    engines, spread = _int(one.n_replicas), ep > 1 and ep == tp * dp
    served = {
        "colocated": "",
        "separate": f"generation is a server on {engines * n} GPUs: trl vllm-serve --model {one.engine.model.id} "
        f"--tensor_parallel_size {tp} --data_parallel_size {engines * dp}",
        "async": f"generation is a server on {engines * n} GPUs: vllm serve {one.engine.model.id} "
        f"--tensor-parallel-size {tp} --data-parallel-size {engines * dp}, with weight transfer over NCCL",
    }[_mode(run)]
    return {
        "model": one.engine.model.id, "engine": run.engine, "engines": engines, "engine_gpus": n,
        "engine_tp": tp, "engine_pp": pp, "engine_dp": dp, "engine_stages": pp if pp > 1 else "",
        "engine_experts": ep if ep > 1 else "", "engine_spread": dp if dp > 1 else "", "engine_spread_on": dp > 1,
        "colocated_tp": tp if shared else "", "colocated_stages": layout if shared and n > tp else "",
        "precision": one.engine.precision.name, "kv_precision": one.engine.precision.kv, "served": served,
        "part_of_experts": f"{ep} of {n}" if ep > 1 and not spread else "",
        "bare_spread": dp if dp > 1 and not spread else "", "served_stages": pp if pp > 1 and not shared else "",
        "async_engine": pp > 1 or one.split.max_lag > 0, "async_spread": ep if dp > 1 and one.split.max_lag else "",
        "memory_share": one.engine.host.buffers.whole_fraction or "" if one.engine.host != ON_CHIP else "",
        "live_limit": _int(one.engine.batch), "turns_taken": _mode(run) != "async",
    }  # fmt: skip


def _trainer(run: Emitted) -> dict[str, object]:
    """The trainer's parallelism, and tokens of a microbatch."""
    trainer, is_moe = run.scenario.trainer, run.scenario.engine.model.is_moe
    layout = trainer.layout
    tp, pp, cp, ep = (_int(degree) for degree in (layout.tp, layout.pp, layout.cp, layout.ep))
    pieces, pack = _int(trainer.virtual_stages), median(trainer.pack_tokens)
    longest = median(run.scenario.longest_sequence_tokens)
    rank = math.ceil(max(pack, longest))
    kept = "keeps whole weights on every GPU and shards the optimizer"
    kept = "shares weights and optimizer among all GPUs" if trainer.is_sharded else kept
    return {
        "tp": tp, "pp": pp, "cp": cp, "pieces": pieces if pieces > 1 else "", "sequence_parallel": tp > 1,
        "experts_over": ep if is_moe else "", "experts_cut": max(tp // ep, 1) if is_moe else "",
        "recompute": trainer.recompute, "training_precision": trainer.precision.name, "rank_tokens": rank,
        "gpu_tokens": math.ceil(rank / cp), "dynamic": True, "length_divisor": tp * (2 * cp if cp > 1 else 1),
        "zero": 3 if trainer.is_sharded else 1, "weights_kept": kept,
    }  # fmt: skip


def _batch(run: Emitted) -> dict[str, object]:
    """What a step samples, keeps and trains on."""
    one = run.scenario.algorithm
    prompts, group, updates = (_int(part) for part in (one.prompts_per_step, one.group_size, one.optimizer_steps))
    epochs, passes = _int(one.updates_per_batch), median(one.logprob_passes)
    resampled = median(one.sampling_rounds) > 1
    started = math.ceil(median(one.prompts_per_step * one.started_ratio))
    return {
        "prompts": prompts, "group": group, "mini_prompts": prompts // updates, "optimizer_steps": updates,
        "update_rollouts": prompts * group // updates, "epochs": epochs, "logprob_passes": passes,
        "own_reference": "" if _mode(run) == "async" else max(passes - 1, 0), "with_reference": passes > 1,
        "without_logprobs": passes == 0,
        "steps": _int(run.steps), "all_optimizer_steps": _int(run.steps) * updates * epochs,
        "resampled": resampled, "resampled_ratio": median(one.sampling_rounds) if resampled else "",
        "oversampled": started if started > prompts else "", "partial": one.keeps_partial,
        **_accumulation(run, prompts * group, updates),
    }  # fmt: skip


def _accumulation(run: Emitted, rollouts: int, updates: int) -> dict[str, object]:
    """Sequences of a GPU's microbatch where a framework counts them, and how many make an optimizer step."""
    one, training = run.scenario, _int(run.scenario.split.n_training)
    each = rollouts / (updates * training)
    fits = max(int(median(one.trainer.pack_tokens / one.longest_sequence_tokens)), 1)
    uneven = f"{rollouts // updates} rollouts of an optimizer step on {format_count(training, 'GPU')}"
    if not each.is_integer():
        return {"device_batch": "", "accumulated": "", "steps_per_generation": "", "uneven_batch": uneven}
    device = max(n for n in range(1, int(each) + 1) if each % n == 0 and (n <= fits or n == 1))
    rounds, apart = int(each) // device, _mode(run) == "async"
    return {
        "device_batch": device, "accumulated": rounds, "steps_per_generation": "" if apart else rounds * updates,
        "uneven_batch": "",
    }  # fmt: skip


def _lengths(run: Emitted) -> dict[str, object]:
    """Lengths of prompts and rollouts, and turns."""
    sampling, turns = run.scenario.sampling, run.scenario.sampling.turns
    prompt, longest = median(sampling.prompt_tokens), median(run.scenario.longest_sequence_tokens)
    written, environments = median(sampling.lengths.longest_tokens), median(turns.environments)
    limit = run.most_turns if run.has_turns else ""
    most = int(environments) if math.isfinite(environments) else ""
    lagged = _mode(run) == "async"
    return {
        "prompt": math.ceil(prompt), "sequence_limit": math.ceil(longest), "written_limit": math.ceil(written),
        "response_limit": math.ceil(longest - prompt), "context_limit": math.ceil(longest) if run.has_turns else "",
        "colocated_limit": math.ceil(longest) if run.scenario.split.is_colocated else "",
        "multi_turn": run.has_turns, "turn_limit": limit, "call_limit": limit - 1 if isinstance(limit, int) else "",
        "observed": math.ceil(median(turns.observed_tokens)) or "" if run.has_turns else "", "environments": most,
        "async_environments": most if lagged else "", "waiting_environments": "" if lagged else most,
    }  # fmt: skip


def _lag(run: Emitted) -> dict[str, object]:
    """Versions that rollouts may be behind, and what happens at new weights."""
    split, one = run.scenario.split, run.scenario.algorithm
    lag, updates = split.max_lag, _int(one.optimizer_steps)
    mini = _int(one.prompts_per_step) // updates
    return {
        "async": lag > 0, "lag": lag or "", "lag_span": lag + 1 if lag else "", "in_flight": split.is_in_flight,
        "drained": lag > 0 and not split.is_in_flight, "rereads": run.scenario.sampling.turns.rereads,
        "lag_unbounded": lag if lag > 1 or split.is_in_flight else "", "async_updates": updates if lag else "",
        "async_staleness": lag or "", "async_prompts": mini * (lag + 1) if lag else "",
        "async_tokens": _trainer(run)["rank_tokens"] if lag else "",
        "async_epochs": _int(one.updates_per_batch) if lag else "",
        "async_reference": max(median(one.logprob_passes) - 1, 0) if lag else "",
        "repeated": "" if lag else _int(one.updates_per_batch),
    }  # fmt: skip


def _notes(run: Emitted) -> Iterator[str]:
    """What a reader has to know before he starts it."""
    if run.n_scale_up > USUAL_HOST_GPUS or run.n_scale_up == 1:
        yield f"hosts of {host_gpus(run.n_scale_up)} GPUs are assumed"
    one = run.scenario
    used = (_int(one.n_replicas) * _int(one.engine.layout.n_gpus), _int(one.trainer.layout.n_gpus))
    held = (_int(one.split.n_generation), _int(one.split.n_training))
    for side, n_used, n_held in zip(("generate", "train"), used, held, strict=True):
        if n_used != n_held:
            yield f"of {format_count(n_held, 'GPU')} that {side}, the plan uses {n_used}"


def _of_trainer(run: Emitted, framework: str) -> Iterator[str]:
    """What the launch, which is of Megatron's trainer everywhere but in TRL, does not say of the planned one."""
    trainer = run.scenario.trainer
    if framework == "trl":
        return
    if trainer.is_sharded:
        yield "weights shared by the data-parallel ranks (zero-3): state --training-layout, or start its FSDP trainer"
    if trainer.is_padded:
        yield "rollouts padded to the longest of a microbatch"
    if trainer.microbatch_sequences is not None:
        count = format_count(_int(trainer.microbatch_sequences), "rollout")
        yield f"microbatches of {count}: the file bounds their tokens"


def _beyond(one: RLScenario) -> Iterator[str]:
    """What no framework's keys express here."""
    algorithm = one.algorithm
    prompts, updates = median(algorithm.prompts_per_step), median(algorithm.optimizer_steps)
    if prompts % updates:
        yield f"{prompts:g} prompts in {updates:g} optimizer steps: they do not divide"
    named = (
        (algorithm.critic_ratio, "a critic"),
        (algorithm.reward_ratio, "a reward model on the trainer"),
        (one.engine.draft_tokens, "speculative decoding: its draft model is yours to name"),
    )
    yield from (words for value, words in named if median(value))
    if one.lora is not None:
        yield f"adapters (LoRA) of rank {one.lora.rank} on {one.lora.targets} layers"


def _int(value: Num) -> int:
    return int(median(value))
