"""Keys of a plan: what each may hold. They check a file, word its errors, and become the JSON Schema for editors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from computeledger.facts.schema import PRECISION_BYTES
from computeledger.fields import MOST_COUNT
from computeledger.physics.calibration.efficiency import IDEAL, factor_dimension
from computeledger.physics.calibration.training import IDEAL_TRAINING, load_all_factors
from computeledger.physics.training.batch import (
    ACTIVATIONS,
    MOMENTS,
    RECIPES,
    RECOMPUTED,
    SHARDING,
    parse_recompute,
)
from computeledger.units import DIMENSIONLESS
from computeledger.workloads.pretraining.pipeline import SCHEDULES


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a plan.

    Attributes
    ----------
    kind : str
        A dimension of :data:`computeledger.units.DIMENSIONS`, ``text``, or choices joined by ``|``.
    help : str
        What it means.
    example : str
        A value.
    words : tuple of str
        Words that may stand instead of a quantity.
    zero : bool
        Whether the quantity may be zero; where it may not, something is divided by it.
    read : callable or None
        What checks a text.
    whole : bool
        Whether one number must be a whole one.
    most : float
        Largest value, in the SI unit of its kind [-].
    """

    kind: str
    help: str
    example: str
    words: tuple[str, ...] = ()
    zero: bool = False
    read: Callable[[str], str] | None = None
    whole: bool = False
    most: float = math.inf


_MADE_OF = {
    "model": Key("text", "bundled model id, or path to a config.json", "deepseek-v3"),
    "system": Key("text", "bundled system id, or path to a system TOML", "h800-nvl8"),
    "price": Key(
        "usd_per_hour",
        "price of a GPU-hour, or rent / reserve of the price edition, or own: what owning it costs",
        "$2/h",
        words=("rent", "reserve", "own"),
        zero=True,
    ),
    "precision": Key("bf16|fp8|fp4", "precision of the weights and matrix products", "fp8"),
}
_TIMED = {
    "gpus": Key("count", "GPUs of the phase", "2048", whole=True, most=MOST_COUNT),
    "gpu_hours": Key("gpu_hours", "GPU-time of the phase, where it is known", "2.664M GPU-hours"),
    "utilization": Key("fraction", "FLOP over dense bf16 peak x GPU-time, where it is known", "30%..40%"),
}
_OTHER = {"skip": Key("text", "why this plan has no such phase", "open weights, trained by others")}

TOP = {"title": Key("text", "what the plan is about", "DeepSeek-V3 as published"), **_MADE_OF}
SECTIONS: dict[str, dict[str, Key]] = {
    "pretraining": {
        **_MADE_OF,
        **_TIMED,
        **_OTHER,
        "tokens": Key(
            "tokens",
            "tokens of the run, or balanced: what equals the inference ledger",
            "14.8T tokens",
            words=("balanced",),
        ),
        "layout": Key("text", "of the whole job; searched where it is left out", "tp1-pp16-dp128-ep64"),
        "sequence": Key("tokens", "length of a sequence", "4096 tokens"),
        "global_batch": Key("tokens", "tokens per optimiser step", "60M tokens"),
        "microbatch": Key("count", "sequences that pass a stage at once", "1 sequences", most=MOST_COUNT),
        "recompute": Key(
            "text",
            f"activations computed again in backward: none, selective, full, or of {', '.join(RECOMPUTED)}",
            "layernorm, moe_act",
            read=parse_recompute,
        ),
        "virtual_stages": Key("count", "interleaved chunks per pipeline stage", "2", most=MOST_COUNT),
        "schedule": Key("|".join(SCHEDULES), "pipeline schedule", "dualpipe"),
        "sharding": Key("|".join(SHARDING), "ranks share the optimiser, gradients too, or weights too", "zero-1"),
        "recipe": Key("|".join(RECIPES), "scales of 8- and 4-bit products: of a tensor, a row or a block", "block"),
        "activation_precision": Key("|".join(ACTIVATIONS), "of what products keep, and dispatch to experts", "fp8"),
        "moment_precision": Key("|".join(MOMENTS), "of the optimiser's two moments", "bf16"),
        "mtp_layers": Key("count", "multi-token-prediction modules trained beside the model", "1", most=MOST_COUNT),
        "goodput": Key("fraction", "share of the time in steps that count, failures and stops taken off", "85%..95%"),
    },
    "rl": {
        **_MADE_OF,
        **_TIMED,
        **_OTHER,
        "tokens": Key(
            "tokens",
            "sampled tokens of the run, or balanced: GPU-time equal to pretraining",
            "1T tokens",
            words=("balanced",),
        ),
        "steps": Key("count", "optimiser steps, instead of tokens", "2000 steps"),
        "prompts_per_step": Key("count", "prompts of a step", "512", most=MOST_COUNT),
        "group_size": Key("count", "rollouts per prompt", "16", most=MOST_COUNT),
        "rollout": Key("tokens", "mean length of a rollout", "10K..20K tokens"),
        "prompt": Key("tokens", "mean length of a prompt", "500 tokens", zero=True),
        "longest_over_mean": Key("count", "longest rollout of a step over the mean", "2..4"),
        "layout": Key("text", "of one generation replica; searched where it is left out", "tp8-ep8"),
        "batch": Key("count", "rollouts decoding per replica", "256", most=MOST_COUNT),
        "training_layout": Key("text", "of the trainer; searched where it is left out", "tp1-pp16-dp128-ep64"),
        "sequence": Key("tokens", "packed length of a training sequence", "16K tokens"),
        "global_batch": Key("tokens", "tokens the trainer sees per optimiser step", "8M tokens"),
        "kept": Key("fraction", "share of rollouts that the update trains on", "0.5..1"),
        "logprob_passes": Key("count", "forward passes beside the update (old policy, reference)", "1", zero=True),
        "updates_per_batch": Key("count", "passes of the optimiser over the kept rollouts", "1"),
        "gold": Key(
            "tokens", "RL on text: what goes on behind a place, and is scored behind every thought", "32 tokens"
        ),
        "train_on_gold": Key("yes|no", "whether the update goes over the gold as well", "no"),
        "next_token": Key("tokens", "next-token training beside the update, of a step", "1M tokens", zero=True),
        "verifier_time": Key("s", "CPU time to verify a rollout", "0.5..2 s", zero=True),
        "verifier_cores": Key("count", "CPU cores that verify", "4096 cores", most=MOST_COUNT),
        "mode": Key("synchronous|asynchronous", "whether phases wait for one another", "asynchronous"),
        "max_lag": Key("count", "largest policy lag in steps, 0 when synchronous", "4", zero=True, most=MOST_COUNT),
        "generation_gpus": Key(
            "count",
            "GPUs that only generate; where it is left out, what is fastest",
            "384",
            whole=True,
            most=MOST_COUNT,
        ),
        "training_gpus": Key("count", "GPUs that only train", "128", whole=True, most=MOST_COUNT),
        "rollout_p95": Key(
            "tokens", "95th percentile of a rollout's length, instead of longest_over_mean", "40K tokens"
        ),
        "rollout_limit": Key(
            "tokens", "where a rollout is cut; the model's context where it is left out", "64K tokens"
        ),
        "oversampling": Key("ratio", "rollouts started over rollouts that a synchronous step trains on", "1.25"),
        "partial_rollouts": Key("yes|no", "whether unfinished rollouts go on in the next step", "yes"),
        "in_flight_updates": Key("yes|no", "whether live rollouts go on with new weights; yes when left out", "yes"),
        "reread_cache": Key("yes|no", "whether their caches are computed anew with new weights", "no"),
        "weight_sync": Key("s", "time in which a replica loads new weights", "4 s", zero=True),
        "step_overhead": Key("s", "time of a training step beside its tokens", "20 s", zero=True),
        "verifier_spread": Key("ratio", "standard deviation of the verifier's time over its mean", "1", zero=True),
        "verifier_failures": Key("fraction", "share of verifications that are repeated", "2%", zero=True),
        "replica_failures": Key("s", "mean time between failures of a generation replica", "2 days"),
        "replica_repair": Key("s", "time until a failed replica is back", "15 min", zero=True),
        "remote_gpus": Key(
            "count", "GPUs of generation_gpus that stand at another site", "128", zero=True, most=MOST_COUNT
        ),
        "remote_bandwidth": Key("bytes_per_s", "rate at which weights reach that site", "100 Gbit/s"),
        "remote_latency": Key("s", "delay of the line to it", "60 ms", zero=True),
        "steps_in_flight": Key(
            "count", "steps' worth of rollouts that decode at once when asynchronous", "4", most=MOST_COUNT
        ),
        "beta_gpu_time": Key("count", "RL's coefficient in GPU-time, where it was measured", "20..45"),
    },
    "inference": {
        **_MADE_OF,
        "precision": Key("|".join(PRECISION_BYTES), "format of the weights", "int4"),
        **{name: key for name, key in _TIMED.items() if name != "gpus"},
        **_OTHER,
        "tokens": Key("tokens", "tokens over the model's life, all kinds", "100T..600T tokens"),
        "rate": Key("tokens_per_s", "mean traffic, all kinds, instead of tokens", "10M..100M tokens/s"),
        "life": Key("s", "how long the traffic lasts", "1..3 months"),
        "input": Key("tokens", "new input tokens of a request", "2000 tokens"),
        "cached": Key("tokens", "cached prefix of a request", "2000 tokens", zero=True),
        "output": Key("tokens", "output tokens of a request", "1000 tokens"),
        "layout": Key("text", "of one replica; searched where it is left out", "tp8-ep8"),
        "batch": Key(
            "count", "sequences decoding per replica, all attention-DP ranks together", "256", most=MOST_COUNT
        ),
        "tpot": Key("s", "slowest acceptable time per output token, where the batch is searched", "50 ms"),
        "occupancy": Key("fraction", "busy GPU-hours over GPU-hours paid", "40%..80%"),
    },
    "experiments": {
        "system": _MADE_OF["system"],
        "price": _MADE_OF["price"],
        "gpu_hours": Key("gpu_hours", "GPU-time of research runs", "3M GPU-hours", zero=True),
        "gpu_time_of_pretraining": Key("count", "the same as a multiple of the pretraining run", "0.5..2", zero=True),
        "clusters": Key("count", "clusters it runs on", "40"),
    },
}
KINDS = {
    name: Key("tokens", f"{text} over the model's life, or all kinds as shares", "10T tokens", zero=True)
    for name, text in {
        "system_prompt": "system prompts, not cached",
        "user_input": "what users write",
        "tool_results": "what tools return",
        "cached": "prefix tokens found in the cache",
        "output": "generated tokens",
    }.items()
}
TRAFFIC = {
    "name": Key("text", "what the traffic is", "free chat"),
    "paid": Key("yes|no", "whether it is paid for; the result tells the unpaid share", "yes"),
    **{
        name: SECTIONS["inference"][name]
        for name in ("model", "tokens", "rate", "life", "input", "cached", "output", "layout", "batch", "tpot")
    },
}
#: Factors that may be zero though the physical limit has them at one: a prompt that is read elsewhere slows nothing.
_MAY_VANISH = ("prefill_interference",)
REQUIRED_SECTIONS = ("pretraining", "rl", "inference")


def efficiency_keys() -> dict[str, Key]:
    """Efficiency factors that a plan may override.

    Returns
    -------
    dict of str to Key
        By field name of :class:`~computeledger.physics.calibration.efficiency.Efficiency`.

    Examples
    --------
    >>> efficiency_keys()["host_step_s"].kind, efficiency_keys()["expert_imbalance"].kind
    ('s', 'count')
    """
    return {
        name: Key(factor_dimension(name), factor.why, "", zero=name in _MAY_VANISH or not _ideal(name))
        for name, factor in load_all_factors().items()
    }


def _ideal(name: str) -> object:
    """A factor at the physical limit."""
    return getattr(IDEAL if hasattr(IDEAL, name) else IDEAL_TRAINING, name)


def json_schema() -> dict[str, Any]:
    """Describe plans for editors.

    Returns
    -------
    dict
        A JSON Schema (draft 2020-12) made from the same tables that check a plan.

    Examples
    --------
    >>> json_schema()["required"]
    ['pretraining', 'rl', 'inference']
    >>> json_schema()["properties"]["rl"]["properties"]["mode"]["enum"]
    ['synchronous', 'asynchronous']
    """
    sections: dict[str, Any] = {name: _object(keys) for name, keys in SECTIONS.items()}
    kinds = _object({name: Key("count", key.help, key.example) for name, key in KINDS.items()})
    sections["inference"]["properties"] |= {
        "kinds": kinds,
        "traffic": {
            "type": "array",
            "items": {**_object(TRAFFIC), "properties": {**_properties(TRAFFIC), "kinds": kinds}},
        },
    }
    sections["efficiency"] = _object(efficiency_keys())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Compute Ledger plan",
        "type": "object",
        "additionalProperties": False,
        "required": list(REQUIRED_SECTIONS),
        "properties": {**_properties(TOP), **sections},
    }


def _object(keys: Mapping[str, Key]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": _properties(keys)}


def _properties(keys: Mapping[str, Key]) -> dict[str, Any]:
    out = {}
    for name, key in keys.items():
        if "|" in key.kind:
            out[name] = {"enum": key.kind.split("|"), "description": key.help}
        else:
            kind: Any = ["string", "number"] if key.kind in DIMENSIONLESS else "string"
            out[name] = {"type": kind, "description": key.help, **({"examples": [key.example]} if key.example else {})}
    return out
