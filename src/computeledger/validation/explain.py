"""What an aggregated serving row's prediction is made of, at the middle of the factors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from computeledger.facts.load import load_system
from computeledger.physics.efficiency import efficiency
from computeledger.physics.roofline import Machine, Operation
from computeledger.units import format_si
from computeledger.validation.compare import Explanation, explained
from computeledger.validation.serving_points import sort_points
from computeledger.validation.serving_predictions import blocks_of
from computeledger.workloads.serving import ServingScenario, estimate_serving


def serving_explainer(rows: Sequence[Mapping[str, str]]) -> Callable[[int, str], Explanation | None]:
    """Explain rows of measured serving points one by one.

    Parameters
    ----------
    rows : sequence of mapping
        Rows that were predicted.

    Returns
    -------
    callable
        From a row's index and ``tpot`` or ``ttft`` to an :class:`~computeledger.validation.compare.Explanation`; None
        for rows that are not aggregated.

    Examples
    --------
    >>> serving_explainer([{"mode": "disagg"}])(0, "tpot") is None
    True
    """

    def explain(index: int, quantity: str) -> Explanation | None:
        row = rows[index]
        return _aggregated(row, quantity) if row["mode"] == "agg" else None

    return explain


def _aggregated(row: Mapping[str, str], quantity: str) -> Explanation | None:
    points, _ = sort_points([row])
    if not points:
        return None
    block = blocks_of(points)[0]
    scenario = block.scenario
    if not isinstance(scenario, ServingScenario):
        return None
    result = estimate_serving(scenario, Machine(load_system(block.system), efficiency(block.backend)))
    given, batch = float(np.ravel(scenario.input_tokens)[0]), float(np.ravel(scenario.batch)[0])
    if quantity == "ttft":
        return explained(f"one prefill of {format_si(given)} tokens", result.prefill)
    waits = Operation("prefills of other requests", overhead_s=result.prefill_wait_s)
    return explained(f"one decode step at batch {format_si(batch)}", [*result.decode, waits])
