"""What a serving row's prediction is made of, at the median of the factors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from computeledger.arrays import Num
from computeledger.facts.load import load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.roofline import Machine, Operation, OperationKind
from computeledger.units import format_si
from computeledger.validation.compare import Explanation, explained
from computeledger.validation.serving.points import sort_points
from computeledger.validation.serving.predictions import blocks_of
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving
from computeledger.workloads.serving.pools import DisaggregatedScenario, estimate_disaggregated


def serving_explainer(rows: Sequence[Mapping[str, str]]) -> Callable[[int, str], Explanation | None]:
    """Explain rows of measured serving points one by one.

    Examples
    --------
    >>> serving_explainer([{"model_path": "nobody/none"}])(0, "tpot") is None
    True
    """

    def explain(index: int, quantity: str) -> Explanation | None:
        points, _ = sort_points([rows[index]])
        if not points:
            return None
        block = blocks_of(points)[0]
        machine = Machine(load_system(block.system), efficiency(block.backend, years=block.years, tuning="recipe"))
        if isinstance(block.scenario, ServingScenario):
            return _aggregated(block.scenario, machine, quantity)
        return _pools(block.scenario, machine, quantity)

    return explain


def _aggregated(scenario: ServingScenario, machine: Machine, quantity: str) -> Explanation:
    result = estimate_serving(scenario, machine)
    if quantity == "ttft":
        return explained(f"one prefill of {_one(scenario.input_tokens)} tokens", result.prefill)
    waits = Operation(OperationKind.OTHER_PREFILLS, overhead_s=result.prefill_wait_s)
    return explained(f"one decode step at batch {_one(scenario.batch)}", [*result.decode, waits])


def _pools(scenario: DisaggregatedScenario, machine: Machine, quantity: str) -> Explanation:
    result = estimate_disaggregated(scenario, machine)
    if quantity == "ttft":
        queue = Operation(OperationKind.PREFILL_QUEUE, overhead_s=result.queue_s)
        what = f"one prefill of {_one(scenario.decode.input_tokens)} tokens on a worker of the prefill pool"
        return explained(what, [*result.prefill.prefill, queue])
    return explained(f"one decode step of a worker at batch {_one(result.decode_batch)}", result.decode.decode)


def _one(value: Num) -> str:
    return format_si(float(np.ravel(value)[0]))
