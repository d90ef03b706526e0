"""A kept promise as a document: what is attained, how surely, and how it breaks as the load grows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from computeledger.fields import WITHIN_ALL
from computeledger.physics.calibration.efficiency import median_of
from computeledger.questions.answers.serving.finalists import KEYS, Finalist
from computeledger.questions.answers.serving.promise import KeptPromise
from computeledger.simulation.serving.promise import Attained, Promises
from computeledger.workloads.questions.serve import ONE_POOL, TWO_POOLS


def promise_document(kept: KeptPromise, usd_per_request: float, facility_w: float) -> dict[str, Any]:
    """What a kept promise adds to an answer; ``facility_w`` is the power of the whole fleet [W]."""
    median, promises = kept.median, kept.asked.promises
    rate, output_tokens = kept.asked.load.requests_per_s, median_of(kept.chosen.setting.question.output_tokens)
    good = median.good_fraction(promises)
    return {
        **_counts(kept.chosen, median.counts),
        "attained": _percentiles(median),
        "goodput_requests_per_s": good * rate,
        "usd_per_request": usd_per_request,
        "joules_per_token": facility_w / rate / output_tokens,
        "facility_w": facility_w,
        "modes": modes_document(kept),
        "promise": {
            "limits": [_limit_document(kept, name) for name in promises if name in KEYS],
            "goodput": _goodput_document(kept),
            "kept_probability": kept.kept_probability,
            "headroom_fraction": kept.headroom_fraction,
            "replicas_with_spare": median.n_replicas + 1,
            "with_spare": {**_layouts(kept.chosen), **_counts(kept.chosen, tuple(n + 1 for n in median.counts))},
            **_sure_document(kept),
            "max_batch": kept.chosen.max_batch,
            "arrival_spread": kept.asked.load.arrivals.spread_ratio,
            "simulated_replicas": median.n_simulated,
            "simulated_requests": len(median.steady.times_s["ttft_s"]),
            "curve": [_point_document(one, kept) for one in kept.curve],
            "finalists": [_finalist_document(one, promises) for one in kept.finalists],
        },
    }


def _counts(one: Finalist, counts: tuple[int, ...]) -> dict[str, Any]:
    """Replicas and GPUs; of two pools the replicas are those that decode, and those that read prompts stand beside."""
    reading = {"prefill_replicas": counts[0]} if len(counts) > 1 else {}
    return {"replicas": counts[-1], **reading, "gpus": one.gpus_of(counts)}


def _layouts(one: Finalist) -> dict[str, Any]:
    reading = {"prefill_layout": str(one.layouts[0])} if len(one.layouts) > 1 else {}
    return {"mode": one.mode, "layout": str(one.layouts[-1]), **reading}


def _sure_document(kept: KeptPromise) -> dict[str, Any]:
    """Fleets that keep the promise with a chance of 90 %: of the chosen layout, and of that which takes fewest GPUs."""
    of_chosen = next((found for one, found in kept.sure if one is kept.chosen), None)
    counts = dict.fromkeys(("replicas",)) if of_chosen is None else _counts(kept.chosen, of_chosen.counts)
    out = {f"{name}_at_90_percent": n for name, n in counts.items() if name != "gpus"}
    median = kept.surest_median
    if median is None:
        return out | {"at_90_percent": None, "out_of_reach_at_90_percent": _out_of_reach(kept)}
    one, found = kept.sure[-1]
    fleet = {**_layouts(one), "max_batch": one.max_batch, **_counts(one, found.counts)}
    limits = [
        {
            "quantity": KEYS[name],
            "share_fraction": promise.share_fraction,
            "limit_s": promise.limit,
            "attained_s": median.quantile_s(name, promise.share_fraction),
            "attained_p90_s": found.quantile_s(name, promise.share_fraction),
        }
        for name, promise in kept.asked.promises.items()
        if name in KEYS
    ]
    sure = fleet | {"attained": _percentiles(median), "limits": limits}
    return out | {"out_of_reach_at_90_percent": None, "at_90_percent": sure}


def _out_of_reach(kept: KeptPromise) -> dict[str, Any] | None:
    """The limit that more replicas do not keep with that chance, and what is attained on many that mostly idle."""
    if kept.idle is None:
        return None
    promises = {name: one for name, one in kept.asked.promises.items() if name in KEYS}
    used = {name: kept.idle.quantile_s(name, one.share_fraction) / one.limit for name, one in promises.items()}
    name = max(used, key=lambda key: used[key])
    if used[name] <= 1:  # each alone is kept, all of them by too few
        return None
    promise = promises[name]
    attained_s = used[name] * promise.limit
    return {
        "quantity": KEYS[name],
        "share_fraction": promise.share_fraction,
        "limit_s": promise.limit,
        "attained_s": attained_s if math.isfinite(attained_s) else None,
        **_counts(kept.chosen, kept.idle.counts),
    }


def modes_document(kept: KeptPromise) -> dict[str, Any]:
    """The best of one pool and of two, or why there is none; and a sentence on when two pools pay."""
    promises = kept.asked.promises
    best = {mode: kept.best_of(mode) for mode in (ONE_POOL, TWO_POOLS)}
    out = {
        mode: {"refused": kept.refused.get(mode)}
        if one is None
        else {**_finalist_document(one, promises), "gpu_time_fractions": _gpu_time(one.best)}
        for mode, one in best.items()
    }
    return out | {"why": _why(best[ONE_POOL], best[TWO_POOLS], kept)}


def _gpu_time(one: Attained) -> dict[str, float]:
    """Shares of the paid GPU-time of the simulated fleet."""
    parts = one.steady.result.gpu_s()
    return {name: part / sum(parts.values()) for name, part in parts.items() if name != "lost"}


def _why(one: Finalist | None, two: Finalist | None, kept: KeptPromise) -> str:
    """Whether two pools pay, by how much, and where the GPU-time of both goes."""
    if one is None or two is None:
        missing, there = (ONE_POOL, "two pools") if one is None else (TWO_POOLS, "one pool")
        words = {ONE_POOL: "one pool", TWO_POOLS: "two pools"}[missing]
        return f"only {there} in the answer; {words}: {kept.refused.get(missing)}"
    fewer = two.n_gpus - one.n_gpus
    read, decode = (n * int(layout.n_gpus) for n, layout in zip(two.best.counts, two.layouts, strict=True))
    sizes = f"{two.n_gpus} GPUs in two pools ({read} read prompts, {decode} decode), {one.n_gpus} in one"
    share, apart = _gpu_time(one.best), _gpu_time(two.best)
    if fewer < 0:
        reason = (
            f"on one pool prompts take {share['prefill']:.0%} of the GPU-time and every token beside them waits; "
            "apart, decode workers hold more sequences at the same time per token"
        )
        return f"two pools pay: {sizes}, {-fewer / one.n_gpus:.0%} fewer; {reason}"
    if fewer == 0:
        surer = "two pools" if kept.chosen is two else "one pool"
        return f"as many GPUs either way: {sizes}; {surer} more likely keeps the promise, or is further from its limits"
    rate = kept.asked.load.requests_per_s
    bare = sum(
        rate / each.value * int(layout.n_gpus) for each, layout in zip(two.unit.carried, two.layouts, strict=True)
    )
    if bare < one.n_gpus and apart["idle"] > share["idle"]:
        reason = (
            f"whole workers of both pools stand idle {apart['idle']:.0%} of the time, those of one {share['idle']:.0%}"
        )
    else:
        reason = (
            f"prompts take only {share['prefill']:.0%} of one pool's GPU-time, and tokens beside them are fast enough"
        )
    return f"two pools do not pay: {sizes}, {fewer / one.n_gpus:.0%} more; {reason}"


def _percentiles(one: Attained) -> dict[str, dict[str, float | None]]:
    """By quantity; null where no request has one, as of the time per output token where each writes one."""
    found, times = one.steady.percentiles, one.steady.times_s
    none = [name for name in KEYS if np.all(np.isnan(times[name]))]
    return {key: dict.fromkeys(found[name]) if name in none else dict(found[name]) for name, key in KEYS.items()}


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


def _goodput_document(kept: KeptPromise) -> dict[str, Any] | None:
    """The share of requests that is to keep all limits at once, and the one that does; None where none is promised."""
    asked = kept.asked.promises
    if WITHIN_ALL not in asked:
        return None
    by_score = {score: point.good_fraction(asked) for score, point in kept.by_score}
    return {
        "share_fraction": asked[WITHIN_ALL].share_fraction,
        "attained_fraction": by_score[0.0],
        "attained_p05_fraction": by_score[max(by_score)],
        "attained_p95_fraction": by_score[min(by_score)],
    }


def _point_document(one: Attained, kept: KeptPromise) -> dict[str, Any]:
    """One load of the curve; times that a growing queue makes are null."""
    promises = kept.asked.promises
    shares = {name: promise.share_fraction for name, promise in promises.items() if name in KEYS}
    times = {KEYS[name]: one.quantile_s(name, share) for name, share in shares.items()}
    return {
        "requests_per_s": one.requests_per_s,
        "load_ratio": one.requests_per_s / kept.asked.load.requests_per_s,
        **{name: value if np.isfinite(value) else None for name, value in times.items()},
        "good_fraction": one.good_fraction(promises),
        "keeps": one.keeps(promises),
        "is_saturated": one.steady.is_saturated,
    }


def _finalist_document(one: Finalist, promises: Promises) -> dict[str, Any]:
    return {
        **_layouts(one),
        "max_batch": one.max_batch,
        **_counts(one, one.best.counts),
        "used_fraction": one.best.used_fraction(promises),
        "kept_probability": one.kept_probability,
    }
