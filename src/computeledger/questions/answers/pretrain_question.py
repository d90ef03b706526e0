"""A pretraining question: options checked and read into a scenario, machines and what a search may choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from computeledger.arrays import Num, Range, Uncertain
from computeledger.errors import InputError, nearest
from computeledger.facts.load import load_model, load_system
from computeledger.facts.reliability import published_interruptions_per_gpu_s
from computeledger.physics.efficiency import DEFAULT_ENGINE, middle
from computeledger.physics.goodput import ASSUMED_STOPS, Reliability
from computeledger.physics.parallelism import Layout, check_layout, filled, parse_layout
from computeledger.physics.roofline import Machine, parse_training_precision
from computeledger.physics.training import RECOMPUTE, Batch, Stack
from computeledger.physics.training_batch import ACTIVATIONS, MOMENTS, RECIPES, SHARDING, parse_recompute
from computeledger.questions.answers.setup import check_positive, draw_machine, price_of, whole_number
from computeledger.questions.setup import Sampled
from computeledger.units import YEAR_S
from computeledger.workloads.lora import TARGETS, Lora
from computeledger.workloads.megatron import FRAMEWORKS
from computeledger.workloads.pipeline import SCHEDULES
from computeledger.workloads.pretraining import PretrainingScenario, batch_sequences
from computeledger.workloads.pretraining_candidates import Limits

OBJECTIVES = ("time", "gpu-hours")
#: Options that override what a stop costs, and the fields they stand for.
_STOPS = {"checkpoint_pause": "pause_s", "restart": "restart_s", "stragglers": "straggler_fraction"}
_POSITIVE = (
    "tokens", "sequence_tokens", "global_batch_tokens", "microbatch_sequences", "virtual_stages", "lora_rank",
    "mtp_layers",
    "checkpoint_interval", "restart", "checkpoint_pause",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked.

    Attributes
    ----------
    scenario : PretrainingScenario
        Its layout still open unless ``layout`` holds one.
    machine, typical : Machine
        With samples of the efficiency factors, and with their medians.
    reliability, typical_reliability : Reliability
        The same for stops.
    limits : Limits
        What a search may choose from.
    n_gpus : int
        GPUs of the job [-].
    layout : Layout or None
        That was given.
    price : mapping
        Where the price comes from.
    stops : mapping of str to (float or Range, str)
        Rates and times of stops with their grounds.
    facility_w_per_gpu : float or ndarray
        Power, cooling and losses included [W].
    wanted_tokens : float
        Global batch that was asked for [token].
    """

    scenario: PretrainingScenario
    machine: Machine
    typical: Machine
    reliability: Reliability
    typical_reliability: Reliability
    limits: Limits
    n_gpus: int
    layout: Layout | None
    price: Mapping[str, Any]
    stops: Mapping[str, tuple[Uncertain, str]]
    facility_w_per_gpu: Num
    wanted_tokens: float


def read_question(options: Mapping[str, Any]) -> Question:
    """Check options and read them."""
    _check(options)
    model, system = load_model(options["model"]), load_system(options["system"])
    price, price_ground = price_of(system, options["price"])
    stops = _stops(options)
    uncertain = {name: value for name, (value, _) in stops.items()}
    power = system.facility_w_per_chip.uncertain
    quantities: dict[str, Uncertain] = {"tokens": options["tokens"], "price": price, f"power.{system.id}": power}
    sampling = Sampled(samples=options["samples"], seed=options["seed"])
    inputs = quantities | {f"stops.{key}": one for key, one in uncertain.items()}
    drawn, machine, typical = draw_machine(system, inputs, DEFAULT_ENGINE, sampling)
    batch = _batch(options)
    scenario = PretrainingScenario(
        model, Layout(), parse_training_precision(options["precision"] or "bf16", model.is_moe), batch,
        drawn["tokens"], drawn["price"], lora=_lora(options),
    )  # fmt: skip
    n_gpus, layout = _layout(options, scenario, int(system.n_gpus_scale_up.value))
    return Question(
        scenario=scenario if layout is None else replace(scenario, layout=layout),
        machine=machine,
        typical=typical,
        reliability=_reliability({name: drawn[f"stops.{name}"] for name in stops}, options),
        typical_reliability=_reliability({name: middle(value) for name, value in uncertain.items()}, options),
        limits=_limits(options, int(system.n_gpus_scale_up.value)),
        n_gpus=n_gpus,
        layout=layout,
        price=price_ground,
        stops=stops,
        facility_w_per_gpu=drawn[f"power.{system.id}"],
        wanted_tokens=middle(options["global_batch_tokens"]),
    )


def _check(options: Mapping[str, Any]) -> None:
    choices = {
        "schedule": (*SCHEDULES, "any"), "objective": OBJECTIVES, "emit": FRAMEWORKS, "lora_targets": TARGETS,
        "sharding": SHARDING, "activation_precision": ACTIVATIONS, "moment_precision": MOMENTS,
        "recipe": RECIPES,
    }  # fmt: skip
    for name, allowed in choices.items():
        given = options.get(name)
        if given is not None and given not in allowed:
            raise InputError(f"--{name.replace('_', '-')} {given!r}: {nearest(given, allowed)}")
    for name in _POSITIVE:
        value = options.get(name)
        given = value if isinstance(value, Range) or value is None else float(value)
        check_positive(f"--{name.replace('_', '-')}", given)
    if options.get("layout") is not None and options.get("objective") == "gpu-hours":
        raise InputError("--objective gpu-hours searches the number of GPUs: it does not go with --layout")
    if options.get("schedule") not in (None, "1f1b", "any") and (options.get("virtual_stages") or 1) > 1:
        raise InputError(f"--virtual-stages: a {options['schedule']} schedule has no virtual stages")
    if options.get("lora_targets") is not None and options.get("lora_rank") is None:
        raise InputError("--lora-targets needs --lora-rank")


def _batch(options: Mapping[str, Any]) -> Batch:
    sequence, wanted = middle(options["sequence_tokens"]), middle(options["global_batch_tokens"])
    return Batch(
        sequence_tokens=sequence,
        global_sequences=float(batch_sequences(wanted, sequence)),
        microbatch_sequences=float(options["microbatch_sequences"] or 1),
        recompute=_recompute(options) or "selective",
        virtual_stages=float(options.get("virtual_stages") or 1),
        sharded_weights=options.get("sharding") == "zero-3",
        stack=Stack(
            recipe=options.get("recipe") or "tensor",
            mtp_layers=int(options.get("mtp_layers") or 0),
            activation_precision=options.get("activation_precision") or "bf16",
            moment_precision=options.get("moment_precision") or "fp32",
            sharded_gradients=options.get("sharding") == "zero-2",
        ),
    )


def _recompute(options: Mapping[str, Any]) -> str | None:
    given = options["recompute"]
    try:
        return None if given is None else parse_recompute(given)
    except InputError as error:
        raise InputError(f"--{error}") from None


def _lora(options: Mapping[str, Any]) -> Lora | None:
    rank = options.get("lora_rank")
    return None if rank is None else Lora(int(rank), options.get("lora_targets") or "all")


def _layout(options: Mapping[str, Any], scenario: PretrainingScenario, domain: int) -> tuple[int, Layout | None]:
    gpus = whole_number("--gpus", options["gpus"])
    if options["layout"] is None:
        return gpus or domain, None
    layout = filled(parse_layout(options["layout"]), gpus)
    check_layout(layout, scenario.model, gpus)
    return int(layout.n_gpus), layout


def _limits(options: Mapping[str, Any], domain: int) -> Limits:
    schedule, recompute = options.get("schedule") or "1f1b", _recompute(options)
    schedules: tuple[str, ...] = SCHEDULES if schedule == "any" else (schedule,)
    if options.get("emit") is not None:
        schedules = tuple(one for one in schedules if one == "1f1b") or schedules
    return Limits(
        n_scale_up=domain,
        microbatch_sequences=options["microbatch_sequences"],
        virtual_stages=options.get("virtual_stages"),
        recompute=RECOMPUTE if recompute is None else (recompute,),
        sharded=(False, True) if options.get("sharding") is None else (options["sharding"] == "zero-3",),
        schedules=schedules,
    )


def _stops(options: Mapping[str, Any]) -> dict[str, tuple[Uncertain, str]]:
    """Rates and times of stops with their grounds: what was given, else published or assumed."""
    out = dict(ASSUMED_STOPS)
    out["interruptions_per_gpu_s"] = published_interruptions_per_gpu_s(), "published runs: facts search interruptions"
    given = options.get("interruptions_per_gpu_year")
    if given is not None:
        by_s = Range(given.low / YEAR_S, given.high / YEAR_S) if isinstance(given, Range) else given / YEAR_S
        out["interruptions_per_gpu_s"] = by_s, "given"
    for option, field in _STOPS.items():
        if options.get(option) is not None:
            out[field] = options[option], "given"
    return out


def _reliability(numbers: Mapping[str, Num], options: Mapping[str, Any]) -> Reliability:
    interval = options.get("checkpoint_interval")
    return Reliability(**numbers, interval_s=None if interval is None else middle(interval))
