"""The working of a training step: operations by phase, against the limit, communication hidden and exposed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import Num, median
from computeledger.physics.calibration.training import IDEAL_TRAINING
from computeledger.physics.roofline import Machine, Operation
from computeledger.physics.roofline import OperationKind as Kind
from computeledger.physics.training.exchange import EXPERT_EXPOSED, exchange_s
from computeledger.physics.training.operations import CONTEXT_EXPOSED, HOP_EXPOSED
from computeledger.workloads.pretraining.estimate import BETWEEN_SITES, PretrainingResult, estimate_pretraining

#: Parts of a step below this share are not listed.
NEGLIGIBLE_FRACTION = 1e-6
STEP_PASSES = ("forward", "recomputation", "backward")
#: Work of an operation in the forward pass, in a recomputation of the layer, and in the backward pass.
_PASSES: dict[Kind, tuple[float, float, float]] = {
    Kind.MATRIX_PRODUCTS: (1.0, 1.0, 2.0),
    Kind.ROUTED_EXPERTS: (1.0, 1.0, 2.0),
    Kind.ADAPTERS: (1.0, 1.0, 2.0),
    Kind.OUTPUT_HEAD: (1.0, 0.0, 2.0),
    Kind.ATTENTION: (1.0, 1.0, 2.5),
    Kind.ACTIVATIONS_AND_CASTS: (1.0, 1.0, 1.5),
    Kind.TENSOR_PARALLEL: (1.0, 1.0, 1.0),
    Kind.CONTEXT_PARALLEL: (1.0, 0.0, 1.0),
    Kind.ALL_TO_ALL: (1.0, 1.0, 1.0),
    Kind.PIPELINE_HOPS: (1.0, 0.0, 1.0),
    Kind.STATE_SCANS: (1.0, 1.0, 2.5),
}
#: Time on the wire over the time that is waited for, where the training model has one share for both.
_HIDDEN = {
    Kind.CONTEXT_PARALLEL: 1 / CONTEXT_EXPOSED,
    Kind.PIPELINE_HOPS: 1 / HOP_EXPOSED,
    Kind.ALL_TO_ALL: 1 / EXPERT_EXPOSED,
}


@dataclass(frozen=True, slots=True)
class OperationWorking:
    """One operation of a step on one GPU, over all microbatches."""

    name: str
    bound: str
    flop: float
    bytes: float
    time_s: Num
    share_fraction: float
    limit_s: float
    exposed_s: float
    hidden_s: float
    phases: dict[str, float]

    @property
    def limit_fraction(self) -> float | None:
        """How much of the physical limit is reached; None where there is none [-]."""
        spent = median(self.time_s) + self.hidden_s
        return min(self.limit_s / spent, 1.0) if self.limit_s > 0 and spent > 0 else None


@dataclass(frozen=True, slots=True)
class StepWorking:
    """The working of a step."""

    operations: tuple[OperationWorking, ...]
    step_s: float
    limit_s: float

    @property
    def phase_s(self) -> dict[str, float]:
        """Time by phase; what happens once per step stands as ``once per step`` [s]."""
        out = dict.fromkeys((*STEP_PASSES, "once per step"), 0.0)
        for one in self.operations:
            for phase, share in one.phases.items():
                out[phase] += share * median(one.time_s)
            if not one.phases:
                out["once per step"] += median(one.time_s)
        return out


def step_working(result: PretrainingResult, machine: Machine) -> StepWorking:
    """Take a step apart.

    Examples
    --------
    >>> from computeledger.facts.load import load_model, load_system
    >>> from computeledger.physics.parallelism import Layout
    >>> from computeledger.physics.roofline import Precision
    >>> from computeledger.physics.training.batch import Batch
    >>> from computeledger.workloads.pretraining.estimate import PretrainingScenario
    >>> machine = Machine(load_system("h100-nvl8"))
    >>> scenario = PretrainingScenario(load_model("llama-3.1-8b"), Layout(dp=8), Precision(), Batch(8192, 128))
    >>> working = step_working(estimate_pretraining(scenario, machine), machine)
    >>> round(sum(one.share_fraction for one in working.operations), 6)
    1.0
    """
    scenario = result.scenario
    exposed = {"training_exposed_fraction": 1.0, "training_exposed_expert_fraction": 1.0}
    limit = estimate_pretraining(scenario, Machine(machine.system))
    bare = estimate_pretraining(scenario, Machine(machine.system, training=replace(IDEAL_TRAINING, **exposed)))
    spread = estimate_pretraining(scenario, replace(machine, training=replace(machine.training, **exposed)))
    typical = estimate_pretraining(scenario, machine)
    whole = median(result.step_s)
    rows = []
    for place, one in enumerate(result.step.operations):
        times = [run.step.operations[place] for run in (typical, spread, limit, bare)]
        rows.append(_operation(result, one, times, machine))
    rows += _around(result, spread, typical)
    kept = tuple(row for row in rows if median(row.time_s) > NEGLIGIBLE_FRACTION * whole)
    return StepWorking(kept, whole, median(limit.step_s))


def _operation(result: PretrainingResult, one: Operation, times: list[Operation], machine: Machine) -> OperationWorking:
    """An operation over all microbatches, beside itself with nothing hidden and at the limit."""
    count = result.step.microbatches
    typical, spread, limit, bare = times
    time = result.step.ratio * one.time_s * count
    turns = float(np.median(np.asarray(count)))
    beside = _HIDDEN.get(one.kind, 1.0) if _near(one, result, machine.system.n_gpus_scale_up.value) else 1.0
    on_wire, waited = median(spread.network_s) * beside, median(typical.network_s)
    least = median(bare.network_s) * beside
    if one.kind is Kind.ALL_TO_ALL and result.scenario.schedule == "dualpipe":
        on_wire, least = _wires(result, machine)
    hidden = max(on_wire - waited, 0.0) * turns * median(result.step.ratio)
    best = (least if waited > 0 else median(limit.time_s)) * turns
    exposed = median(result.step.ratio * one.network_s * count)
    work, batch = _PASSES.get(one.kind, (0.0, 0.0, 0.0)), result.scenario.batch
    attends = batch.recomputes("core_attn") and one.kind is Kind.ATTENTION
    again = work[1] * max(batch.forward_again, float(attends))
    total = max(work[0] + again + work[2], 1.0)
    shares = dict(zip(STEP_PASSES, (work[0] / total, again / total, work[2] / total), strict=True))
    kinds = {
        "network": one.network_s, "compute": one.compute_s, "memory": one.memory_s, "overhead": one.overhead_s,
    }  # fmt: skip
    sizes = {name: median(value) for name, value in kinds.items()}
    return OperationWorking(
        name=one.name,
        bound=max(sizes, key=sizes.__getitem__),
        flop=median(one.flop) * turns,
        bytes=median(one.bytes) * turns,
        time_s=time,
        share_fraction=float(np.mean(time / result.step_s)),
        limit_s=best,
        exposed_s=exposed,
        hidden_s=hidden,
        phases={name: share for name, share in shares.items() if share > 0},
    )


def _wires(result: PretrainingResult, machine: Machine) -> tuple[float, float]:
    """Exchange of a microbatch with nothing hidden, as modelled and at the datasheet's bandwidths."""
    asked = result.scenario
    bare = Machine(machine.system)
    wires = [median(exchange_s(asked.model, asked.batch, asked.layout, one)) for one in (machine, bare)]
    return wires[0], wires[1]


def _near(one: Operation, result: PretrainingResult, domain: float) -> bool:
    """Whether a share of the wire holds: experts beyond one scale-up domain have a share of their own."""
    return one.kind is not Kind.ALL_TO_ALL or median(result.scenario.layout.ep) <= domain


def _around(result: PretrainingResult, spread: PretrainingResult, typical: PretrainingResult) -> list[OperationWorking]:
    """What surrounds the microbatches: launches, the bubble, the exchange of gradients, the optimizer."""
    bounds = {
        "waiting for the host": "overhead", "pipeline bubble": "overhead", "gradient exchange": "network",
        "optimizer": "memory", "once per step": "overhead",
    }  # fmt: skip
    if result.scenario.sites is not None:
        bounds[BETWEEN_SITES] = "network"
    return [
        OperationWorking(
            name=name,
            bound=bound,
            flop=0.0,
            bytes=0.0,
            time_s=result.components_s[name],
            share_fraction=float(np.mean(result.components_s[name] / result.step_s)),
            limit_s=0.0,
            exposed_s=median(result.components_s[name]) if bound == "network" else 0.0,
            hidden_s=max(median(spread.step.gradients_s) - median(typical.step.gradients_s), 0.0)
            if name == "gradient exchange"
            else 0.0,
            phases={},
        )
        for name, bound in bounds.items()
    ]
