"""Advice about parallelism: what binds a step, what to change and what it gains; what to change where nothing fits.

Every gain is a difference between two answers of the same model, not a rule of thumb.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from computeledger.arrays import median
from computeledger.errors import InputError
from computeledger.facts.architecture import Lora
from computeledger.physics.critical_batch import BatchPhase, worth_of_batches
from computeledger.physics.roofline import Machine, OperationKind, parse_precision
from computeledger.units import GIGA, format_count, format_percent, format_si
from computeledger.workloads.pretraining.candidates import Limits, candidates
from computeledger.workloads.pretraining.estimate import (
    BETWEEN_SITES,
    PretrainingResult,
    PretrainingScenario,
    estimate_pretraining,
)
from computeledger.workloads.pretraining.pipeline import with_schedule
from computeledger.workloads.pretraining.scaling import larger_domain
from computeledger.workloads.pretraining.search import PretrainingOption, evaluate

#: Gains below this are not worth a sentence.
WORTH_FRACTION = 0.01
#: How often a job that does not fit is doubled in search of one that does.
MOST_BATCH_DOUBLINGS = 10
#: Scale-up domain that advice holds beside a smaller one.
RACK_GPUS = 72


@dataclass(frozen=True, slots=True)
class Advice:
    """One change."""

    change: str
    gain_fraction: float
    remark: str = ""


def what_binds(result: PretrainingResult) -> dict[str, float]:
    """Share of a step by cause.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(8192, 128))
    >>> binds = what_binds(estimate_pretraining(scenario, Machine(load_system("h100-nvl8"))))
    >>> max(binds, key=binds.get)
    'compute'
    """
    step, whole = result.step, median(result.step_s)
    out = dict.fromkeys(("compute", "memory", "communication", "bubble", "uneven stages", "host", "optimizer"), 0.0)
    turns = median(step.microbatches) * median(step.ratio)
    for one in step.operations:
        compute, memory = median(one.compute_s), median(one.memory_s)
        out["compute" if compute >= memory else "memory"] += turns * max(compute, memory) / whole
        out["communication"] += turns * median(one.network_s) / whole
        kind = "uneven stages" if one.kind is OperationKind.UNEVEN_STAGES else "memory"
        out[kind] += turns * median(one.overhead_s) / whole
    parts = {name: median(value) / whole for name, value in result.components_s.items()}
    out["communication"] += parts["gradient exchange"] + parts[BETWEEN_SITES]
    out["bubble"] = parts["pipeline bubble"]
    out["host"] = parts["waiting for the host"] + parts["once per step"]
    out["optimizer"] = parts["optimizer"]
    total = sum(out.values())
    return {name: share / total for name, share in out.items()}


def advise(scenario: PretrainingScenario, machine: Machine, limits: Limits) -> list[Advice]:
    """Try changes to a configuration and keep what gains.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(pp=8), Precision(), Batch(8192, 8))
    >>> advise(scenario, Machine(load_system("h100-nvl8")), Limits(8))[0].gain_fraction > 0.2
    True
    """
    now = estimate_pretraining(scenario, machine)
    found = [*_schedule(scenario, now, machine), *_memory(scenario, now, machine), *_numbers(scenario, now, machine)]
    found += _machine(scenario, now, machine, limits)
    return sorted((one for one in found if one.gain_fraction >= WORTH_FRACTION), key=lambda one: -one.gain_fraction)


def _gain(then: PretrainingResult, now: PretrainingResult) -> float:
    return median(then.tokens_per_s_per_gpu) / median(now.tokens_per_s_per_gpu) - 1


def _schedule(scenario: PretrainingScenario, now: PretrainingResult, machine: Machine) -> Iterator[Advice]:
    doubled = replace(scenario.batch, global_sequences=2 * scenario.batch.global_sequences)
    then = estimate_pretraining(replace(scenario, batch=doubled), machine)
    yield Advice(
        f"a global batch of {format_si(median(2 * scenario.global_batch_tokens))} tokens",
        _gain(then, now),
        f"twice as many microbatches hide the pipeline and the gradients{_worth_words(scenario)}",
    )
    if median(scenario.layout.pp) > 1 and scenario.schedule == "1f1b":
        one = replace(scenario, batch=with_schedule(replace(scenario.batch, virtual_stages=1.0), "zero-bubble"))
        yield Advice(
            "a zero-bubble pipeline schedule",
            _gain(estimate_pretraining(one, machine), now),
            "splits the backward pass; few frameworks have it",
        )


def _worth_words(scenario: PretrainingScenario) -> str:
    """What tokens are worth in a batch twice as large, where the run states how many it has."""
    tokens, batch = median(scenario.tokens), median(scenario.global_batch_tokens)
    if not tokens:
        return "; only as far as the critical batch allows"
    once, twice = (float(worth_of_batches([BatchPhase(n * batch, 0.0, tokens)])) / tokens for n in (1, 2))
    return f"; the tokens are then worth {format_percent(twice / once)} of what they are now"


def _memory(scenario: PretrainingScenario, now: PretrainingResult, machine: Machine) -> Iterator[Advice]:
    if scenario.batch.recompute == "none":
        return
    less = "selective" if scenario.batch.forward_again else "none"
    then = estimate_pretraining(replace(scenario, batch=replace(scenario.batch, recompute=less)), machine)
    needed, usable = median(then.memory.total_bytes), now.capacity_bytes
    room = (
        "it fits" if needed <= usable else f"{(needed - usable) / GIGA:.0f} GB per GPU too much: offload or cut further"
    )
    yield Advice(f"recompute {less}", _gain(then, now), f"{needed / GIGA:.0f} GB per GPU; {room}")


def _numbers(scenario: PretrainingScenario, now: PretrainingResult, machine: Machine) -> Iterator[Advice]:
    chip = machine.system.accelerator
    moe = scenario.model.is_moe
    if scenario.precision.dense == "bf16" and chip.native_precision("fp8") == "fp8":
        then = estimate_pretraining(replace(scenario, precision=parse_precision("fp8", moe)), machine)
        yield Advice("fp8 matrix products", _gain(then, now), "--precision fp8; numerics need care")


def _machine(
    scenario: PretrainingScenario, now: PretrainingResult, machine: Machine, limits: Limits
) -> Iterator[Advice]:
    system = machine.system
    wire = system.scale_out_bytes_per_s_per_gpu
    faster = replace(system, scale_out_bytes_per_s_per_gpu=replace(wire, value=2 * wire.value))
    then = estimate_pretraining(scenario, replace(machine, system=faster))
    yield Advice("a scale-out network twice as fast", _gain(then, now), "same layout")
    n_gpus, step_s = int(median(scenario.layout.n_gpus)), median(now.step_s)
    here = evaluate(scenario, candidates(scenario, n_gpus, replace(limits, layouts=None)), machine).best(1)
    if here:
        yield Advice(
            f"{here[0].layout}, {option_words(here[0])}", step_s / here[0].step_s - 1, "the best layout that fits"
        )
    if int(system.n_gpus_scale_up.value) < RACK_GPUS and n_gpus > int(system.n_gpus_scale_up.value):
        free = replace(limits, n_scale_up=RACK_GPUS, layouts=None)
        there = evaluate(scenario, candidates(scenario, n_gpus, free), larger_domain(machine, RACK_GPUS)).best(1)
        if here and there:
            gain = min(here[0].step_s, step_s) / there[0].step_s - 1
            yield Advice(f"a scale-up domain of {RACK_GPUS} GPUs", gain, f"then {there[0].layout} is fastest")


@dataclass(frozen=True, slots=True)
class Remedy:
    """A configuration that fits where the given one does not."""

    change: str
    option: PretrainingOption
    slower_ratio: float


def fits(scenario: PretrainingScenario, machine: Machine) -> bool:
    """Whether the busiest GPU holds a configuration.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), Batch(8192, 8))
    >>> fits(scenario, Machine(load_system("h100-nvl8")))
    False
    """
    return bool(estimate_pretraining(scenario, machine).fits)


def remedies(scenario: PretrainingScenario, machine: Machine, limits: Limits) -> list[Remedy]:
    """List what would fit instead of a configuration that does not, the fastest first.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(8192, 64))
    >>> [one.change for one in remedies(scenario, Machine(load_system("h100-nvl8")), Limits(8))][0]
    'the same layout, ...'
    """
    n_gpus, wanted = int(median(scenario.layout.n_gpus)), median(estimate_pretraining(scenario, machine).step_s)
    out = []
    same = replace(limits, layouts=(scenario.layout,), microbatch_sequences=None, virtual_stages=None)
    for words, one in (("the same layout", same), ("another layout", replace(limits, layouts=None))):
        best = evaluate(scenario, candidates(scenario, n_gpus, one), machine).best(1)
        if best:
            out.append(Remedy(f"{words}, {option_words(best[0])}", best[0], best[0].step_s / wanted))
    return sorted(out, key=lambda one: one.option.step_s)


def option_words(option: PretrainingOption) -> str:
    """Say how an option runs, beside its layout.

    Examples
    --------
    >>> from computeledger.physics.parallelism import Layout
    >>> option_words(PretrainingOption(Layout(dp=8), 2, "full", 1.0, 0.4, 1e9, sharded_weights=True))
    'microbatch 2, recompute full, sharded weights'
    """
    parts = [f"microbatch {option.microbatch_sequences}", f"recompute {option.recompute}"]
    if option.virtual_stages > 1:
        parts.append(f"{option.virtual_stages} virtual stages")
    if option.schedule != "1f1b":
        parts.append(option.schedule)
    return ", ".join([*parts, *(["sharded weights"] if option.sharded_weights else [])])


def larger_job(scenario: PretrainingScenario, n_gpus: int, machine: Machine, limits: Limits) -> str:
    """Say what would make a model fit that no layout of a job holds.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> scenario = PretrainingScenario(load_model("llama-3.1-70b"), Layout(), Precision(), Batch(8192, 64))
    >>> larger_job(scenario, 8, Machine(load_system("h100-nvl8")), Limits(8)).split(" (")[0]
    'it fits on 16 GPUs'
    """
    words, count = [], n_gpus
    for _ in range(MOST_BATCH_DOUBLINGS):
        count *= 2
        best = _first(scenario, count, machine, limits)
        if best:
            words.append(f"it fits on {format_count(count, 'GPU')} ({best.layout}, {option_words(best)})")
            break
    if scenario.lora is None and _first(replace(scenario, lora=Lora(16)), n_gpus, machine, limits):
        words.append("adapters fit (--lora-rank 16)")
    return (
        "; ".join(words)
        or f"no job up to {format_count(count, 'GPU')} holds it: a shorter sequence or a smaller batch may"
    )


def _first(scenario: PretrainingScenario, n_gpus: int, machine: Machine, limits: Limits) -> PretrainingOption | None:
    try:
        every = candidates(scenario, n_gpus, replace(limits, layouts=None))
    except InputError:
        return None
    best = evaluate(scenario, every, machine).best(1) if every.size else []
    return best[0] if best else None


def step_share_words(binds: dict[str, float]) -> str:
    """Say what takes a step's time, the largest first.

    Examples
    --------
    >>> step_share_words({"compute": 0.7, "bubble": 0.29, "host": 0.01})
    'compute 70 %, bubble 29 %'
    """
    order = sorted(binds.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {format_percent(share)}" for name, share in order if share >= 0.02)
