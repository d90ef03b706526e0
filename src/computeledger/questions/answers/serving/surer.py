"""A fleet that keeps its load and its plain limits more surely: the same replicas, more of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from computeledger.questions.answers.serving.answer import ServeAnswer
from computeledger.questions.answers.serving.document import meets_document
from computeledger.units import HOURS_PER_MONTH
from computeledger.workloads.serving.estimate import estimate_serving
from computeledger.workloads.serving.search import at_load

#: The chance from which a fleet is called sure; how many sizes that carry the load so surely are tried for their times
#: too, each larger than the one before by this share, or by one replica (assumptions).
SURE, _TRIED, _STEP = 0.9, 5, 1 / 8


def sure_fleet(answer: ServeAnswer, usd_per_hour: float) -> dict[str, Any] | None:
    """The fewest replicas alike, of many about the fewest, that keep load and limits with a chance of 90 %.

    Parameters
    ----------
    answer : ServeAnswer
        Of a load within plain limits, or none.
    usd_per_hour : float
        What the fleet of the answer costs [USD/h].

    Returns
    -------
    dict or None
        ``gpus``, ``replicas``, ``usd_per_month`` and ``kept_probability``; None where more replicas do not make it.

    Examples
    --------
    >>> from computeledger.questions.answers.serving.answer import serve
    >>> asked = {"layout": "tp1", "requests_per_s": 40, "input_tokens": 2048, "output_tokens": 300, "samples": 64}
    >>> answer = serve(model="llama-3.1-8b", system="h100-nvl8", tpot="40ms", **asked)
    >>> found = sure_fleet(answer, 10.0)
    >>> found["replicas"] > answer.fleet.n_replicas, found["kept_probability"] >= 0.9
    (True, True)
    """
    fleet, full = answer.fleet, answer.full_load
    if fleet is None or full is None:
        return None
    least = float(np.quantile(full.requests_per_s, 1 - SURE, method="lower"))
    if least <= 0:
        return None
    n = max(fleet.n_replicas, math.ceil(fleet.requests_per_s / least))
    for _ in range(_TRIED):
        chance = _kept_probability(answer, n)
        if chance >= SURE:
            return {
                "gpus": fleet.n_gpus // fleet.n_replicas * n,
                "replicas": n,
                "usd_per_month": usd_per_hour * HOURS_PER_MONTH * n / fleet.n_replicas,
                "kept_probability": chance,
            }
        n += max(1, math.floor(_STEP * n))
    return None


def _kept_probability(answer: ServeAnswer, n_replicas: int) -> float:
    """The chance that so many replicas carry the load, and keep each limit: the least of both."""
    fleet, full, limits = answer.fleet, answer.full_load, answer.question.limits
    if fleet is None or full is None:
        return 0.0
    share = fleet.requests_per_s / n_replicas
    carried = np.asarray(full.requests_per_s >= share)
    if not limits:
        return float(np.mean(carried))
    machine = answer.setting.machine
    found = estimate_serving(at_load(full.scenario, machine, share), machine)
    kept = meets_document(found, dict(limits), carried)
    return min(float(np.mean(carried)), *(float(one["probability"]) for one in kept.values()))
