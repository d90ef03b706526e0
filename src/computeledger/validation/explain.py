"""What an aggregated serving row's prediction is made of, at the middle of the factors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from computeledger.facts.load import load_model, load_system
from computeledger.physics.efficiency import efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Operation
from computeledger.units import format_si
from computeledger.validation.compare import Explanation, explained
from computeledger.validation.serving_points import DRAWN_LENGTH_RATIO, _group, _number
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
    _, key = _group(row)
    if key is None:
        return None
    model_id, system_id, precision = key
    names = ("tp_size", "pp_size", "attention_dp_size", "moe_ep_size", "isl", "osl", "batch_size")
    tp, pp, dp, ep, isl, osl, batch = (_number(row, name) or 1.0 for name in names)
    layout, given, written = Layout(tp=tp, pp=pp, dp=dp, ep=ep), DRAWN_LENGTH_RATIO * isl, DRAWN_LENGTH_RATIO * osl
    scenario = ServingScenario(load_model(model_id), layout, precision, given, written, batch)
    result = estimate_serving(scenario, Machine(load_system(system_id), efficiency()))
    if quantity == "ttft":
        return explained(f"one prefill of {format_si(given)} tokens", result.prefill)
    waits = Operation("prefills of other requests", overhead_s=result.prefill_wait_s)
    return explained(f"one decode step at batch {format_si(batch)}", [*result.decode, waits])
