"""A pretraining question made ready: its scenario, machines and what a search may choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from computeledger.arrays import Num, Range, Uncertain
from computeledger.facts.load import load_model, load_system
from computeledger.facts.reliability import interruptions_per_gpu_s
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.calibration.serving import DEFAULT_ENGINE
from computeledger.physics.goodput import ASSUMED_STOPS, Reliability
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine
from computeledger.physics.training.documents import expected_largest
from computeledger.questions.answers.setup import draw_machine, price_of
from computeledger.workloads.pretraining.candidates import Limits
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.pretraining.reading import guessed_ratios, read_limits, read_training, stated_layout
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
    domain = int(system.n_gpus_scale_up.value)
    n_gpus, layout = stated_layout(question, model, system)
    stops = _stops(question)
    if (waited := _waited(question, n_gpus)) is not None:
        stops["straggler_fraction"] = waited
    uncertain = {name: value for name, (value, _) in stops.items()}
    power = system.facility_w_per_chip.uncertain
    quantities: dict[str, Uncertain] = {"tokens": question.tokens, "price": price, f"power.{system.id}": power}
    inputs = quantities | {f"stops.{key}": one for key, one in uncertain.items()} | guessed_ratios(model)
    drawn, machine, typical = draw_machine(system, inputs, DEFAULT_ENGINE, question)
    scenario = replace(read_training(question, model), tokens=drawn["tokens"], usd_per_gpu_hour=drawn["price"])
    return Setting(
        scenario=scenario if layout is None else replace(scenario, layout=layout),
        machine=machine,
        typical=typical,
        reliability=_reliability({name: drawn[f"stops.{name}"] for name in stops}, question),
        typical_reliability=_reliability({name: median_of(value) for name, value in uncertain.items()}, question),
        limits=read_limits(question, domain),
        n_gpus=n_gpus,
        layout=layout,
        price=price_ground,
        stops=stops,
        facility_w_per_gpu=drawn[f"power.{system.id}"],
        wanted_tokens=median_of(question.global_batch_tokens),
    )


def _stops(question: PretrainQuestion) -> dict[str, tuple[Uncertain, str]]:
    """Rates and times of stops with their provenance: what was given, else published or assumed."""
    out = dict(ASSUMED_STOPS)
    given = question.interruptions_per_gpu_year
    said = "published runs: facts search interruptions" if given is None else "given"
    out["interruptions_per_gpu_s"] = interruptions_per_gpu_s(given), said
    for name, stop in _STOPS.items():
        value = getattr(question, name)
        if value is not None:
            out[stop] = value, "given"
    return out


def _waited(question: PretrainQuestion, n_gpus: int) -> tuple[Uncertain, str] | None:
    """What the slowest of all GPUs adds to a step, where the jitter of one is stated."""
    jitter = question.step_jitter
    if jitter is None:
        return None
    slowest = float(expected_largest(n_gpus))
    why = f"the slowest of {n_gpus:,} GPUs is {slowest:.3g} standard deviations above the mean, if steps are normal"
    added = Range(jitter.low * slowest, jitter.high * slowest) if isinstance(jitter, Range) else jitter * slowest
    return added, why


def _reliability(numbers: Mapping[str, Num], question: PretrainQuestion) -> Reliability:
    interval = question.checkpoint_interval
    return Reliability(**numbers, interval_s=None if interval is None else median_of(interval))
