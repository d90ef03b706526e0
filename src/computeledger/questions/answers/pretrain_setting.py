"""A pretraining question made ready: its scenario, machines and what a search may choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from computeledger.arrays import Num, Range, Uncertain
from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.facts.reliability import published_interruptions_per_gpu_s
from computeledger.physics.calibration.efficiency import middle
from computeledger.physics.calibration.serving import DEFAULT_ENGINE
from computeledger.physics.goodput import ASSUMED_STOPS, Reliability
from computeledger.physics.parallelism import Layout, check_layout, filled, parse_layout
from computeledger.physics.roofline import Machine, parse_training_precision
from computeledger.physics.training.batch import RECOMPUTE, Batch, Stack, parse_recompute
from computeledger.questions.answers.setup import draw_machine, price_of
from computeledger.units import YEAR_S
from computeledger.workloads.pretraining.candidates import Limits
from computeledger.workloads.pretraining.estimate import PretrainingScenario, batch_sequences
from computeledger.workloads.pretraining.lora import Lora
from computeledger.workloads.pretraining.pipeline import SCHEDULES
from computeledger.workloads.questions.pretrain import PretrainQuestion

#: Fields that override what a stop costs, and the rates and times they stand for.
_STOPS = {"checkpoint_pause": "pause_s", "restart": "restart_s", "stragglers": "straggler_fraction"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A pretraining question, ready to be searched."""

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


def read_setting(question: PretrainQuestion) -> Setting:
    """Make a question ready: facts loaded, inputs sampled."""
    model, system = load_model(question.model), load_system(question.system)
    price, price_ground = price_of(system, question.price)
    stops = _stops(question)
    uncertain = {name: value for name, (value, _) in stops.items()}
    power = system.facility_w_per_chip.uncertain
    quantities: dict[str, Uncertain] = {"tokens": question.tokens, "price": price, f"power.{system.id}": power}
    inputs = quantities | {f"stops.{key}": one for key, one in uncertain.items()}
    drawn, machine, typical = draw_machine(system, inputs, DEFAULT_ENGINE, question)
    scenario = PretrainingScenario(
        model, Layout(), parse_training_precision(question.precision, model.is_moe), _batch(question),
        drawn["tokens"], drawn["price"], lora=_lora(question),
    )  # fmt: skip
    n_gpus, layout = _layout(question, scenario, int(system.n_gpus_scale_up.value))
    return Setting(
        scenario=scenario if layout is None else replace(scenario, layout=layout),
        machine=machine,
        typical=typical,
        reliability=_reliability({name: drawn[f"stops.{name}"] for name in stops}, question),
        typical_reliability=_reliability({name: middle(value) for name, value in uncertain.items()}, question),
        limits=_limits(question, int(system.n_gpus_scale_up.value)),
        n_gpus=n_gpus,
        layout=layout,
        price=price_ground,
        stops=stops,
        facility_w_per_gpu=drawn[f"power.{system.id}"],
        wanted_tokens=middle(question.global_batch_tokens),
    )


def _batch(question: PretrainQuestion) -> Batch:
    sequence, wanted = middle(question.sequence_tokens), middle(question.global_batch_tokens)
    return Batch(
        sequence_tokens=sequence,
        global_sequences=float(batch_sequences(wanted, sequence)),
        microbatch_sequences=float(question.microbatch_sequences or 1),
        recompute=_recompute(question) or "selective",
        virtual_stages=float(question.virtual_stages or 1),
        sharded_weights=question.sharding == "zero-3",
        stack=Stack(
            recipe=question.recipe,
            mtp_layers=question.mtp_layers or 0,
            activation_precision=question.activation_precision,
            moment_precision=question.moment_precision,
            sharded_gradients=question.sharding == "zero-2",
        ),
    )


def _recompute(question: PretrainQuestion) -> str | None:
    try:
        return None if question.recompute is None else parse_recompute(question.recompute)
    except InputError as error:
        raise InputError(f"--{error}") from None


def _lora(question: PretrainQuestion) -> Lora | None:
    return None if question.lora_rank is None else Lora(question.lora_rank, question.lora_targets or "all")


def _layout(question: PretrainQuestion, scenario: PretrainingScenario, domain: int) -> tuple[int, Layout | None]:
    if question.layout is None:
        return question.gpus or domain, None
    layout = filled(parse_layout(question.layout), question.gpus)
    check_layout(layout, scenario.model, question.gpus)
    return int(layout.n_gpus), layout


def _limits(question: PretrainQuestion, domain: int) -> Limits:
    recompute = _recompute(question)
    schedules: tuple[str, ...] = SCHEDULES if question.schedule == "any" else (question.schedule,)
    if question.emit is not None:
        schedules = tuple(one for one in schedules if one == "1f1b") or schedules
    return Limits(
        n_scale_up=domain,
        microbatch_sequences=question.microbatch_sequences,
        virtual_stages=question.virtual_stages,
        recompute=RECOMPUTE if recompute is None else (recompute,),
        sharded=(False, True) if question.sharding is None else (question.sharding == "zero-3",),
        schedules=schedules,
    )


def _stops(question: PretrainQuestion) -> dict[str, tuple[Uncertain, str]]:
    """Rates and times of stops with their provenance: what was given, else published or assumed."""
    out = dict(ASSUMED_STOPS)
    out["interruptions_per_gpu_s"] = published_interruptions_per_gpu_s(), "published runs: facts search interruptions"
    given = question.interruptions_per_gpu_year
    if given is not None:
        by_s = Range(given.low / YEAR_S, given.high / YEAR_S) if isinstance(given, Range) else given / YEAR_S
        out["interruptions_per_gpu_s"] = by_s, "given"
    for name, stop in _STOPS.items():
        value = getattr(question, name)
        if value is not None:
            out[stop] = value, "given"
    return out


def _reliability(numbers: Mapping[str, Num], question: PretrainQuestion) -> Reliability:
    interval = question.checkpoint_interval
    return Reliability(**numbers, interval_s=None if interval is None else middle(interval))
