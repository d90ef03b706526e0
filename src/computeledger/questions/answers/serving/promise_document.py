"""A kept promise as a document: what is attained, how surely, and how it breaks as the load grows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from computeledger.questions.answers.serving.finalists import KEYS, Finalist
from computeledger.questions.answers.serving.promise import KeptPromise
from computeledger.simulation.serving.promise import MOST_SIMULATED, Attained, Promises


def promise_document(
    kept: KeptPromise, usd_per_request: float, facility_w: float, output_tokens: float
) -> dict[str, Any]:
    """What a kept promise adds to an answer; ``facility_w`` is the power per GPU [W]."""
    median, promises = kept.median, kept.asked.promises
    n_gpus, rate = kept.chosen.n_gpus, kept.asked.load.requests_per_s
    good = median.good_fraction(kept.asked.slo, promises)
    return {
        "replicas": median.n_replicas,
        "gpus": n_gpus,
        "attained": _percentiles(median),
        "goodput_requests_per_s": good * rate,
        "usd_per_request": usd_per_request,
        "joules_per_token": facility_w * n_gpus / rate / output_tokens,
        "facility_w": facility_w * n_gpus,
        "promise": {
            "limits": [_limit_document(kept, name) for name in promises],
            "kept_probability": kept.kept_probability,
            "headroom_fraction": kept.headroom_fraction,
            "replicas_with_spare": median.n_replicas + 1,
            "replicas_at_90_percent": kept.sure_replicas,
            "max_batch": kept.chosen.max_batch,
            "arrival_spread": kept.asked.load.arrivals.spread_ratio,
            "simulated_replicas": min(median.n_replicas, MOST_SIMULATED),
            "simulated_requests": len(median.steady.times_s["ttft_s"]),
            "curve": [_point_document(one, kept) for one in kept.curve],
            "finalists": [_finalist_document(one, promises) for one in kept.finalists],
        },
    }


def _percentiles(one: Attained) -> dict[str, dict[str, float]]:
    found = one.steady.percentiles
    return {KEYS[name]: found[name] for name in KEYS}


def _limit_document(kept: KeptPromise, name: str) -> dict[str, Any]:
    """One promise: its limit, what is attained, and the 90 % interval of that."""
    one = kept.asked.promises[name]
    by_score = {score: point.quantile_s(name, one.share_fraction) for score, point in kept.by_score}
    low, high = by_score[min(by_score)], by_score[max(by_score)]
    return {
        "quantity": KEYS[name],
        "share_fraction": one.share_fraction,
        "limit_s": one.limit,
        "attained_s": by_score[0.0],
        "attained_p05_s": low,
        "attained_p95_s": high if math.isfinite(high) else None,
    }


def _point_document(one: Attained, kept: KeptPromise) -> dict[str, Any]:
    """One load of the curve; times that a growing queue makes are null."""
    promises = kept.asked.promises
    times = {f"{KEYS[name]}": one.quantile_s(name, promise.share_fraction) for name, promise in promises.items()}
    return {
        "requests_per_s": one.requests_per_s,
        "load_ratio": one.requests_per_s / kept.asked.load.requests_per_s,
        **{name: value if np.isfinite(value) else None for name, value in times.items()},
        "keeps": one.keeps(promises),
        "is_saturated": one.steady.is_saturated,
    }


def _finalist_document(one: Finalist, promises: Promises) -> dict[str, Any]:
    return {
        "layout": str(one.option.layout),
        "max_batch": one.max_batch,
        "replicas": one.best.n_replicas,
        "gpus": one.n_gpus,
        "used_fraction": one.best.used_fraction(promises),
        "kept_probability": one.kept_probability,
    }
