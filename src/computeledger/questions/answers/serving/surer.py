"""A fleet that keeps its load and its plain limits more surely: more replicas, alike or of a faster layout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np

from computeledger.errors import InputError
from computeledger.physics.roofline import Machine
from computeledger.questions.answers.serving.answer import ServeAnswer
from computeledger.questions.answers.serving.document import meets_document
from computeledger.units import HOURS_PER_MONTH
from computeledger.workloads.result import quantities
from computeledger.workloads.serving.estimate import ServingResult, estimate_serving
from computeledger.workloads.serving.search import Fleet, ServingOption, Slo, at_load, size_fleet

#: The chance from which a fleet is called sure; how many sizes that carry the load so surely are tried for their times
#: too, each larger than the one before by this share, or by one replica (assumptions).
SURE, _TRIED, _STEP = 0.9, 5, 1 / 8


def sure_fleet(answer: ServeAnswer, usd_per_hour: float) -> dict[str, Any] | None:
    """The cheapest fleet that keeps load and limits with a chance of 90 %: more replicas alike, or of another layout.

    Parameters
    ----------
    answer : ServeAnswer
        Of a load within plain limits, or none.
    usd_per_hour : float
        What the fleet of the answer costs [USD/h].

    Returns
    -------
    dict or None
        ``gpus``, ``replicas``, ``layout``, ``usd_per_month``, ``kept_probability``, and the times ``ttft_s`` and
        ``tpot_s`` of replicas that share the load; None where more replicas do not make it.

    Examples
    --------
    >>> from computeledger.questions.answers.serving.answer import serve
    >>> asked = {"layout": "tp1", "requests_per_s": 40, "input_tokens": 2048, "output_tokens": 300, "samples": 64}
    >>> answer = serve(model="llama-3.1-8b", system="h100-nvl8", tpot="40ms", **asked)
    >>> found = sure_fleet(answer, 10.0)
    >>> found["replicas"] > answer.fleet.n_replicas, found["kept_probability"] >= 0.9
    (True, True)
    """
    if answer.fleet is None or answer.full_load is None:
        return None
    usd_per_gpu_month = usd_per_hour / answer.fleet.n_gpus * HOURS_PER_MONTH
    best = _more_alike(answer, answer.fleet, answer.full_load, math.inf)
    for fleet in _of_every_layout(answer, answer.fleet.requests_per_s):
        most = math.inf if best is None else best["gpus"] - 1
        if fleet.n_gpus > most:
            break
        full = estimate_serving(fleet.option.placed(answer.setting.scenario), answer.setting.machine)
        best = _more_alike(answer, fleet, full, most) or best
    return None if best is None else {**best, "usd_per_month": usd_per_gpu_month * best["gpus"]}


def _of_every_layout(answer: ServeAnswer, requests_per_s: float) -> list[Fleet]:
    """The fewest GPUs of every layout that keep the limits, and limits as much shorter as times are longer in one
    case of ten; the smallest fleet first.
    """
    question, full = answer.question, answer.full_load
    if question.layout is not None or full is None:
        return []
    times = {name: getattr(full, f"{name}_s") for name in question.limits}
    shorter = {
        name: limit * float(np.median(times[name]) / np.quantile(times[name], SURE))
        for name, limit in question.limits.items()
    }
    of_layout: dict[str, list[ServingOption]] = {}
    for one in answer.options:
        of_layout.setdefault(str(one.layout), []).append(one)
    found = {}
    for options, limits in product(of_layout.values(), (question.limits, shorter)):
        with suppress(InputError):  # a layout that is too slow
            slo = Slo(requests_per_s, **{f"{name}_s": limit_s for name, limit_s in limits.items()})
            fleet = size_fleet(options, slo)
            found[str(fleet.option.layout), fleet.option.batch] = fleet
    return sorted(found.values(), key=lambda fleet: fleet.n_gpus)


def _more_alike(answer: ServeAnswer, fleet: Fleet, full: ServingResult, most_gpus: float) -> dict[str, Any] | None:
    """The fewest replicas alike, of many about the fewest, that keep load and limits with a chance of 90 %."""
    least = float(np.quantile(full.requests_per_s, 1 - SURE, method="lower"))
    if least <= 0:
        return None
    n, gpus_each = max(fleet.n_replicas, math.ceil(fleet.requests_per_s / least)), fleet.n_gpus // fleet.n_replicas
    for _ in range(_TRIED):
        if n * gpus_each > most_gpus:
            return None
        found = _sharing(answer.setting.machine, full, fleet.requests_per_s / n)
        chance = _kept_probability(full, found, fleet.requests_per_s / n, answer.question.limits)
        if chance >= SURE:
            return {
                "gpus": gpus_each * n,
                "replicas": n,
                "layout": str(full.scenario.layout),
                "kept_probability": chance,
                **quantities({"ttft_s": (found.ttft_s, "s"), "tpot_s": (found.tpot_s, "s")}),
            }
        n += max(1, math.floor(_STEP * n))
    return None


def _sharing(machine: Machine, full: ServingResult, requests_per_s: float) -> ServingResult:
    """A replica that gets so much of the load."""
    return estimate_serving(at_load(full.scenario, machine, requests_per_s), machine)


def _kept_probability(
    full: ServingResult, found: ServingResult, requests_per_s: float, limits: Mapping[str, float]
) -> float:
    """The chance that replicas which get so much each carry the load, and keep each limit: the least of both."""
    carried = np.asarray(full.requests_per_s >= requests_per_s)
    kept = meets_document(found, dict(limits), carried)
    return min(float(np.mean(carried)), *(float(one["probability"]) for one in kept.values()), 1.0)
