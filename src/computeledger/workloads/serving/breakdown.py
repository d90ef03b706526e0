"""A serving answer taken apart: each operation beside its physical limit, and the constants that it rests on.

Which constants an operation rests on is found by moving each by a little and looking at what moves with it, so that the
list can neither miss one nor name one that does not bind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from computeledger.arrays import Num, median
from computeledger.facts.schema import Fact
from computeledger.physics.calibration.efficiency import IDEAL
from computeledger.physics.roofline import Machine, Operation, OperationKind, total_s
from computeledger.workloads.serving.estimate import ServingResult, ServingScenario, estimate_serving
from computeledger.workloads.serving.pools import (
    Chips,
    DisaggregatedResult,
    DisaggregatedScenario,
    at_rate,
    estimate_disaggregated,
)

#: By how much a constant is moved, and the least effect that counts.
SENSITIVITY_STEP, LEAST = 1e-3, 5e-3
#: Halvings of a pool's batch that leave less of it than a constant's little more moves.
_CLOSELY = 40
_SYSTEM_FACTS = (
    "scale_up_bytes_per_s_per_gpu",
    "scale_out_bytes_per_s_per_gpu",
    "scale_up_latency_s",
    "scale_out_latency_s",
    "oversubscription_ratio",
)


@dataclass(frozen=True, slots=True)
class OperationBreakdown:
    """One operation of a step."""

    operation: Operation
    limit: Operation

    @property
    def limit_fraction(self) -> float:
        """Physical limit over time; 0 for what a limit does not have [-]."""
        time_s = float(np.asarray(self.operation.time_s))
        limit_s = max(0.0, float(np.asarray(self.limit.time_s)))  # what is left of a difference may round below 0
        return limit_s / time_s if time_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class StepBreakdown:
    """One step, taken apart."""

    operations: tuple[OperationBreakdown, ...]
    beside_s: Mapping[str, float]
    time_s: float
    limit_s: float


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that an answer rests on."""

    name: str
    value: float
    fact: Fact | None
    elasticity: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ServingBreakdown:
    """A serving answer, taken apart."""

    result: ServingResult
    limit: ServingResult
    decode: StepBreakdown
    prefill: StepBreakdown
    constants: tuple[Constant, ...]


def break_down_serving(scenario: ServingScenario, machine: Machine) -> ServingBreakdown:
    """Take an answer apart.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.calibration.efficiency import efficiency
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> scenario = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 64.0)
    >>> found = break_down_serving(scenario, Machine(load_system("h100-nvl8"), efficiency()))
    >>> bandwidth = next(one for one in found.constants if one.name == "hbm_bytes_per_s")
    >>> bandwidth.fact.source, bandwidth.elasticity["tpot_s"] < -0.5
    ('epoch-ml-hardware', True)
    """
    result = estimate_serving(scenario, machine)
    limit = estimate_serving(scenario, replace(machine, efficiency=IDEAL))
    return ServingBreakdown(
        result=result,
        limit=limit,
        decode=_step(result, limit, decode=True),
        prefill=_step(result, limit, decode=False),
        constants=_constants(lambda moved: _effects(estimate_serving(scenario, moved)), machine),
    )


@dataclass(frozen=True, slots=True)
class PoolsBreakdown:
    """An answer by two pools, taken apart: a step of a worker of each, and the parts of both times."""

    decode: StepBreakdown
    prefill: StepBreakdown
    tpot: Mapping[str, float]
    ttft: Mapping[str, float]
    constants: tuple[Constant, ...]


def break_down_pools(
    asked: DisaggregatedScenario, machine: Machine, requests_per_s: float | None = None
) -> PoolsBreakdown:
    """Take an answer by two pools apart; of a load, the batch of ``asked`` is the most that a decode worker takes.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.calibration.efficiency import efficiency
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> one = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 64.0)
    >>> machine = Machine(load_system("h100-nvl8"), efficiency())
    >>> found = break_down_pools(DisaggregatedScenario(one, Layout(), 1.0, 1.0, 64.0), machine)
    >>> list(found.ttft)
    ['host', 'queue', 'prefill', 'hand-over', 'decode step', 'real over modelled']
    """

    def at(moved: Machine, chips: Chips | None, ideal: bool = False) -> DisaggregatedResult:
        if ideal:
            moved = replace(moved, efficiency=IDEAL)
            chips = None if chips is None else replace(chips, machine=replace(chips.machine, efficiency=IDEAL))
        pools = replace(asked, prefill_on=chips)
        pools = pools if requests_per_s is None else at_rate(pools, moved, requests_per_s, _CLOSELY)
        return estimate_disaggregated(pools, moved, _CLOSELY)

    own = asked.prefill_on
    result, limit = at(machine, own), at(machine, own, ideal=True)
    constants = _constants(lambda moved: _effects_of_pools(at(moved, own)), machine)
    if own is not None:
        constants += _constants(lambda moved: _effects_of_pools(at(machine, replace(own, machine=moved))), own.machine)
    host_s = asked.prefill_machine(machine).efficiency.prefill_host_s
    parts = {
        "host": host_s, "queue": result.queue_s, "prefill": result.prefill.prefill_s, "hand-over": result.handed_s,
        "decode step": result.decode.step_s,
    }  # fmt: skip
    return PoolsBreakdown(
        decode=_step(result.decode, limit.decode, decode=True),
        prefill=_step(result.prefill, limit.prefill, decode=False),
        tpot=_with_rest({"decode step": result.decode.decode_s}, result.tpot_s),
        ttft=_with_rest(parts, result.ttft_s),
        constants=constants,
    )


def _with_rest(parts: Mapping[str, Num], whole_s: Num) -> dict[str, float]:
    """Parts of a time as modelled, and what real times are beyond."""
    found = {name: median(part) for name, part in parts.items()}
    return found | {"real over modelled": median(whole_s) - sum(found.values())}


def _effects_of_pools(result: DisaggregatedResult) -> dict[str, float]:
    """Times of both pools, and of each operation in the pool that carries it out."""
    times = {"tpot_s": result.tpot_s, "ttft_s": result.ttft_s}
    return {name: float(np.asarray(value)) for name, value in times.items()} | _operations_s(
        {"decode": result.decode.decode, "prefill": result.prefill.prefill}
    )


def beside_operations(result: ServingResult, *, decode: bool) -> tuple[Operation, ...]:
    """What a step takes beside its operations, so that both add up to it: signed, and each under its name.

    With ``decode`` the last is what the prefills of other requests add to a step; all together are the time per output
    token times the tokens that a step yields.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.calibration.efficiency import efficiency
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision, total_s
    >>> scenario = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 1024.0, 256.0, 64.0)
    >>> result = estimate_serving(scenario, Machine(load_system("h100-nvl8"), efficiency()))
    >>> every = (*result.decode, *beside_operations(result, decode=True))
    >>> bool(abs(total_s(every) / result.tpot_s - 1) < 1e-9)
    True
    """
    scenario, eff = result.scenario, result.machine.efficiency
    operations, time_s = (result.decode, result.step_s) if decode else (result.prefill, result.prefill_s)
    drafted = scenario.step_ratio_of_drafts if decode else 1.0
    modelled_s, once_s = total_s(operations), time_s / drafted
    usual_s = eff.step_ratio * modelled_s
    parts = {
        OperationKind.USUAL_TUNING: usual_s - modelled_s,
        OperationKind.CORRECTION: once_s - usual_s,
        OperationKind.DRAFTING: time_s - once_s,
    }
    if decode:
        parts[OperationKind.OTHER_PREFILLS] = result.prefill_wait_s * scenario.tokens_per_step
    least = _ROUNDING * np.max(time_s)
    return tuple(Operation(kind, overhead_s=part) for kind, part in parts.items() if np.any(np.abs(part) > least))


#: Parts of a step that are smaller are rounding.
_ROUNDING = 1e-9


def _step(result: ServingResult, limit: ServingResult, *, decode: bool) -> StepBreakdown:
    """A step and its limit."""
    own, ideal = (one.decode if decode else one.prefill for one in (result, limit))
    known = {one.kind: one for one in ideal}
    rows = tuple(OperationBreakdown(one, known.get(one.kind, Operation(one.kind))) for one in own if np.any(one.time_s))
    time_s, limit_s = (median(one.step_s if decode else one.prefill_s) for one in (result, limit))
    beside = beside_operations(result, decode=decode)
    parts = {one.name: median(one.overhead_s) for one in beside if one.kind != OperationKind.OTHER_PREFILLS}
    return StepBreakdown(rows, parts, time_s, limit_s)


def _moved(machine: Machine) -> Iterator[tuple[str, float, Fact | None, Machine]]:
    """Every constant of a machine with the machine that has a little more of it."""
    more = 1 + SENSITIVITY_STEP
    for field in fields(machine.efficiency):
        value = getattr(machine.efficiency, field.name)
        if isinstance(value, float | int) and value:
            raised = replace(machine.efficiency, **{field.name: value * more})
            yield field.name, float(value), None, replace(machine, efficiency=raised)
    system, chip = machine.system, machine.system.accelerator
    for name, fact in (("hbm_bytes_per_s", chip.hbm_bytes_per_s), *_peaks(machine)):
        raised_fact = replace(fact, value=fact.value * more)
        if name == "hbm_bytes_per_s":
            faster = replace(chip, hbm_bytes_per_s=raised_fact)
        else:
            faster = replace(chip, peak_flop_per_s={**chip.peak_flop_per_s, name.rpartition("_")[2]: raised_fact})
        yield name, fact.value, fact, replace(machine, system=replace(system, accelerator=faster))
    for name in _SYSTEM_FACTS:
        fact = getattr(system, name)
        if fact is None:
            continue
        raised_system = replace(system, **{name: replace(fact, value=fact.value * more)})
        yield name, fact.value, fact, replace(machine, system=raised_system)


def _peaks(machine: Machine) -> list[tuple[str, Fact]]:
    return [(f"peak_flop_per_s_{name}", fact) for name, fact in machine.system.accelerator.peak_flop_per_s.items()]


def _effects(result: ServingResult) -> dict[str, float]:
    times = {"tpot_s": result.tpot_s, "ttft_s": result.ttft_s}
    return {name: float(np.asarray(value)) for name, value in times.items()} | _operations_s(
        {"decode": result.decode, "prefill": result.prefill}
    )


def _operations_s(steps: Mapping[str, tuple[Operation, ...]]) -> dict[str, float]:
    return {f"{step}: {one.name}": float(np.asarray(one.time_s)) for step, every in steps.items() for one in every}


def _constants(effects_at: Callable[[Machine], dict[str, float]], machine: Machine) -> tuple[Constant, ...]:
    """What moves an answer, by how much; ``effects_at`` gives its times on a machine."""
    base, found = effects_at(machine), []
    for name, value, fact, moved in _moved(machine):
        effects = effects_at(moved)
        ratios = {key: (effects[key] / time_s - 1) / SENSITIVITY_STEP for key, time_s in base.items() if time_s > 0}
        elasticity = {key: ratio for key, ratio in ratios.items() if abs(ratio) >= LEAST}
        if elasticity:
            found.append(Constant(name, value, fact, elasticity))
    return tuple(sorted(found, key=lambda one: -abs(one.elasticity.get("tpot_s", 0.0))))
