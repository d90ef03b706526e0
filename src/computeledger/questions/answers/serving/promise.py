"""A load with a promise in percentiles: layouts are searched in closed form, and the best of them simulated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from computeledger.arrays import Z_90, Z_95
from computeledger.errors import DoesNotFitError, InputError
from computeledger.fields import MOST_COUNT, Promise, fields_of
from computeledger.physics.calibration.efficiency import median_of
from computeledger.questions.answers.serving.fleet import drawn_load, fleet_of
from computeledger.questions.answers.serving.setting import Setting
from computeledger.questions.simulate import SimulateServeQuestion
from computeledger.simulation.serving.arrivals import Arrivals
from computeledger.simulation.serving.clock import ServingClock
from computeledger.simulation.serving.promise import (
    CONFIRMING_REQUESTS,
    MOST_SIMULATED,
    Attained,
    PromisedLoad,
    alone,
    attained,
    fewest_replicas,
    most_kept,
)
from computeledger.simulation.serving.search import most_carried
from computeledger.simulation.serving.steady import Estimate
from computeledger.simulation.serving.traces import Trace
from computeledger.units import format_count, format_si
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.serving.search import SLOWEST_TPOT_S, Fleet, ServingOption

#: Layouts that are simulated, those first that carry the load on the fewest GPUs in closed form.
MOST_FINALISTS = 8
#: GPUs that a layout takes in closed form, over the fewest found, beyond which it is not simulated (assumption).
HOPELESS = 1.1
#: Loads of the curve over the one asked about, and scores at which the interval of times is simulated.
LOAD_CURVE, INTERVAL_SCORES = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0), (-Z_95, 0.0, Z_95)
#: Scores beyond which a chance is nought or one, and how closely the breaking one is found.
LAST_SCORE, SCORE_STEP = 3.0, 0.15
#: How closely the load at which a promise breaks is found, over the load asked about.
HEADROOM_STEP = 0.03
#: Requests that tell the lengths of a load.
_SAMPLE_REQUESTS = 2_000
_CDF = NormalDist().cdf
_OPTIONS = {"ttft_s": "--ttft", "tpot_s": "--tpot", "end_to_end_s": "--e2e"}
_KEYS = {"ttft_s": "ttft_s", "tpot_s": "tpot_s", "end_to_end_s": "e2e_s"}


@dataclass(frozen=True, slots=True)
class Finalist:
    """A layout that was simulated, with or without a limit on its batch."""

    option: ServingOption
    max_batch: int | None
    fleet: ServingClock
    carried: Estimate
    best: Attained

    @property
    def most_sequences(self) -> int:
        """Sequences that a replica takes at once: its limit, or what memory holds [-]."""
        return int(self.fleet.pools[0].limits.live)

    @property
    def n_gpus(self) -> int:
        """GPUs of all its replicas [-]."""
        return self.best.n_replicas * int(self.option.layout.n_gpus)


@dataclass(frozen=True, slots=True)
class KeptPromise:
    """The fewest GPUs that keep a promise, and how surely.

    Attributes
    ----------
    chosen : Finalist
        At the median of the interval of times.
    option : ServingOption
        The batch that a replica may take: the limit on it, or the smallest that carries its share of the load.
    finalists : tuple of Finalist
        Every layout that keeps it, the chosen one first.
    by_score : tuple of (float, Attained)
        The chosen fleet where real times are at a standard normal score of their interval.
    curve : tuple of Attained
        The chosen fleet under less and more load.
    breaking_score : float
        Standard normal score of the interval of times from which on a promise breaks [-].
    sure_replicas : int or None
        Replicas that keep it with a chance of 90 %; None where no number of them does [-].
    asked : PromisedLoad
        What was promised.
    """

    chosen: Finalist
    option: ServingOption
    finalists: tuple[Finalist, ...]
    by_score: tuple[tuple[float, Attained], ...]
    curve: tuple[Attained, ...]
    breaking_score: float
    sure_replicas: int | None
    asked: PromisedLoad

    @property
    def fleet(self) -> Fleet:
        """Replicas as the closed form counts them."""
        one, rate = self.chosen, self.asked.load.requests_per_s
        n = one.best.n_replicas
        return Fleet(self.option, n, one.n_gpus, rate / (n * self.option.requests_per_s))

    @property
    def median(self) -> Attained:
        """The chosen fleet at the medians."""
        return next(one for score, one in self.by_score if score == 0.0)

    @property
    def kept_probability(self) -> float | None:
        """Chance that every promise holds: that real times lie below the score at which the first one breaks [-].

        None where times have no interval: at the physical limit, and with a machine's own profile.
        """
        return float(_CDF(self.breaking_score)) if len(self.by_score) > 1 else None

    @property
    def headroom_fraction(self) -> float | None:
        """Load beyond the one asked about up to which every simulated load keeps the promises; None beyond them [-]."""
        most = most_kept(self.curve, self.asked.promises)
        if most == self.curve[-1].requests_per_s:
            return None
        return most / self.asked.load.requests_per_s - 1.0


def keep_promise(setting: Setting, found: Sequence[ServingOption]) -> KeptPromise:
    """Find the fleet that keeps the promises of a question on the fewest GPUs.

    Parameters
    ----------
    setting : Setting
        Of a question with promises.
    found : sequence of ServingOption
        Every layout and batch, in closed form.

    Returns
    -------
    KeptPromise
        Of the layout that needs the fewest GPUs, and among equals the one furthest from breaking its promise.

    Raises
    ------
    InputError
        Where no layout keeps a promise even for a lone request, or the GPUs at hand do not.
    """
    question = setting.question
    asked = _promised_load(setting, min(one.tpot_s for one in found))
    finalists = _finalists(setting, found, asked)
    if not finalists:
        raise InputError(_out_of_reach(setting, found, asked))
    ranked = sorted(finalists, key=lambda one: (one.n_gpus, one.best.used_fraction(asked.promises)))
    chosen = ranked[0]
    if question.gpus is not None and chosen.n_gpus > question.gpus:
        raise InputError(
            f"--gpus {question.gpus}: that promise needs {format_count(chosen.n_gpus, 'GPU')}; leave --gpus out to "
            "size the fleet"
        )
    scores = INTERVAL_SCORES if setting.ranges else (0.0,)
    by_score = {score: _attained_at(setting, chosen, asked, score) for score in scores}
    return KeptPromise(
        chosen=chosen,
        option=_loaded_option(chosen, found, asked),
        finalists=tuple(ranked),
        by_score=tuple(by_score.items()),
        curve=tuple(_curve(chosen, asked, by_score[0.0])),
        breaking_score=_breaking_score(setting, chosen, asked, by_score),
        sure_replicas=_sure_replicas(setting, chosen, asked) if setting.ranges else None,
        asked=asked,
    )


def _loaded_option(chosen: Finalist, found: Sequence[ServingOption], asked: PromisedLoad) -> ServingOption:
    """The closed form's option for a replica of the chosen fleet."""
    if chosen.max_batch is not None:
        return chosen.option
    share = asked.load.requests_per_s / chosen.best.n_replicas
    of_layout = [one for one in found if str(one.layout) == str(chosen.option.layout)]
    enough = [one for one in of_layout if one.requests_per_s >= share and one.batch >= chosen.option.batch]
    return min(enough, key=lambda one: one.batch) if enough else max(of_layout, key=lambda one: one.requests_per_s)


def _curve(chosen: Finalist, asked: PromisedLoad, here: Attained) -> list[Attained]:
    """The fleet under less and more load, up to where its queue stops being stable."""
    rate, n = asked.load.requests_per_s, chosen.best.n_replicas
    most = n * chosen.carried.value
    points = {1.0: here}

    def add(ratio: float) -> bool:
        points[ratio] = attained(chosen.fleet, (n, ratio * rate), asked, chosen.carried, CONFIRMING_REQUESTS)
        return points[ratio].keeps(asked.promises)

    for ratio in LOAD_CURVE:
        if ratio != 1.0 and ratio * rate < most:
            add(ratio)
    if most < LOAD_CURVE[-1] * rate:
        add(most / rate)
    kept, broken = (
        [ratio for ratio, one in points.items() if one.keeps(asked.promises) is keeps] for keeps in (True, False)
    )
    if broken and kept:
        low, high = max(one for one in kept if one < min(broken)) if min(kept) < min(broken) else 0.0, min(broken)
        while low and high - low > HEADROOM_STEP:
            half = (low + high) / 2
            low, high = (half, high) if add(half) else (low, half)
    return [points[ratio] for ratio in sorted(points)]


def _breaking_score(
    setting: Setting, chosen: Finalist, asked: PromisedLoad, by_score: Mapping[float, Attained]
) -> float:
    """Where in the interval of times the chosen fleet breaks its promise, to a tenth of a score."""
    if len(by_score) == 1:
        return math.inf  # no interval: a machine's own profile, or the physical limit
    kept = [score for score, one in by_score.items() if one.keeps(asked.promises)]
    low = max(kept, default=-LAST_SCORE)
    high = min((score for score in by_score if score > low), default=LAST_SCORE)
    while high - low > SCORE_STEP:
        score = (low + high) / 2
        is_kept = _attained_at(setting, chosen, asked, score).keeps(asked.promises)
        low, high = (score, high) if is_kept else (low, score)
    return (low + high) / 2


def _sure_replicas(setting: Setting, chosen: Finalist, asked: PromisedLoad) -> int | None:
    """Replicas that keep the promise where real times are slower than in nine of ten cases; None where none do."""
    fleet, carried = _one_replica(setting, chosen.option, chosen.max_batch, asked, Z_90)
    if not alone(fleet, asked, carried).keeps(asked.promises):
        return None
    found = fewest_replicas(fleet, asked, carried, chosen.best.n_replicas, MOST_COUNT)
    return None if found is None else found.n_replicas


def _promised_load(setting: Setting, least_tpot_s: float) -> PromisedLoad:
    """Arrivals at the rate asked about, of requests of the lengths asked about."""
    question = setting.question
    rate, spread = median_of(question.requests_per_s or 0.0), question.arrival_spread
    process = "poisson" if spread == 1.0 else "gamma" if spread else "even"
    simulated = _simulated(setting, None, None)
    load = drawn_load(setting.at_median.model, Arrivals(process, rate, spread), simulated)
    # a plain limit holds at the median; a search that was told no speed keeps to the one of every search
    default = {"tpot": SLOWEST_TPOT_S} if least_tpot_s < SLOWEST_TPOT_S else {}
    plain = {f"{name}_s": Promise(0.5, limit) for name, limit in {**default, **question.limits}.items()}
    both = plain | question.promises
    return PromisedLoad(load, {name: both[name] for name in _KEYS if name in both}, question.seed)


def _simulated(setting: Setting, layout: str | None, max_batch: int | None) -> SimulateServeQuestion:
    """The same deployment as a question of simulation; without a prefix cache its prompts hold the prefix."""
    question, scenario = setting.question, setting.at_median
    taken = ("ttft", "tpot", "input_tokens", "output_tokens", "layout", "max_batch")
    both = fields_of(ServeQuestion).keys() & fields_of(SimulateServeQuestion).keys() - set(taken)
    given: dict[str, Any] = {name: getattr(question, name) for name in both}
    given |= {name: float(np.asarray(getattr(scenario, name))) for name in ("input_tokens", "output_tokens")}
    rate = f"poisson:{median_of(question.requests_per_s or 1.0):.17g}"
    return SimulateServeQuestion(**given, arrivals=rate, layout=layout, max_batch=max_batch)


def _finalists(setting: Setting, found: Sequence[ServingOption], asked: PromisedLoad) -> list[Finalist]:
    """The layouts that need the fewest GPUs in closed form, simulated; those that cannot need fewer are left out."""
    out: list[Finalist] = []
    for option in _candidates(setting, found, asked)[:MOST_FINALISTS]:
        each = int(option.layout.n_gpus)
        fewest = min((one.n_gpus for one in out), default=MOST_COUNT)
        if asked.load.requests_per_s / option.requests_per_s * each > HOPELESS * fewest:
            continue
        most = fewest // each
        caps = [setting.question.max_batch]
        if "tpot_s" in asked.promises and setting.question.max_batch is None:
            caps.append(option.batch)  # what waits outside slows no token of those inside
        for cap in caps:
            one = _finalist(setting, option, cap, asked, most)
            if one is not None:
                out.append(one)
                most = min(most, one.best.n_replicas - 1)
    return out


def _candidates(setting: Setting, found: Sequence[ServingOption], asked: PromisedLoad) -> list[ServingOption]:
    """The largest batch of each layout whose tokens are fast enough on average, fewest GPUs first.

    Left out are layouts whose first tokens, or requests, take too long even in the smallest batch.
    """
    limits = {name: one.limit for name, one in asked.promises.items()}
    rate, further = asked.load.requests_per_s, max(median_of(setting.question.output_tokens) - 1, 0.0)
    first_s, best = dict[str, float](), dict[str, ServingOption]()
    for one in found:
        name = str(one.layout)
        first_s[name] = min(one.ttft_s, first_s.get(name, math.inf))
    for one in found:
        name = str(one.layout)
        if one.tpot_s > limits.get("tpot_s", math.inf):
            continue
        if first_s[name] + further * one.tpot_s > limits.get("end_to_end_s", math.inf):
            continue
        if name not in best or one.requests_per_s > best[name].requests_per_s:
            best[name] = one
    fit = [one for name, one in best.items() if first_s[name] <= limits.get("ttft_s", math.inf)]

    def gpus(one: ServingOption) -> tuple[float, float, float]:
        share = rate / one.requests_per_s
        return math.ceil(share) * int(one.layout.n_gpus), share * int(one.layout.n_gpus), one.tpot_s

    return sorted(fit, key=gpus)


def _finalist(
    setting: Setting, option: ServingOption, max_batch: int | None, asked: PromisedLoad, most: int
) -> Finalist | None:
    """One layout with a limit on its batch: its fewest replicas, none where ``most`` are too few."""
    try:
        fleet, carried = _one_replica(setting, option, max_batch, asked)
    except DoesNotFitError:
        return None
    rate = asked.load.requests_per_s
    if rate / carried.value >= most or not alone(fleet, asked, carried).keeps(asked.promises):
        return None
    start = max(math.ceil(rate / option.requests_per_s), 1)
    best = fewest_replicas(fleet, asked, carried, start, most)
    while best is not None and not (
        final := attained(fleet, (best.n_replicas, rate), asked, carried, CONFIRMING_REQUESTS)
    ).keeps(asked.promises):
        more = best.n_replicas + 1  # a longer run shows what a short one missed
        best = attained(fleet, (more, rate), asked, carried) if more <= most else None
    return None if best is None else Finalist(option, max_batch, fleet, carried, final)


def _one_replica(
    setting: Setting, option: ServingOption, max_batch: int | None, asked: PromisedLoad, score: float = 0.0
) -> tuple[ServingClock, Estimate]:
    """A replica of a layout, and the rate at which its queue stops being stable."""
    question = _simulated(setting, str(option.layout), max_batch)
    sample: Trace = asked.load(_SAMPLE_REQUESTS, asked.load.requests_per_s)
    fleet = fleet_of(setting, sample, question, score).clock
    return fleet, most_carried(fleet, asked.load, asked.seed)


def _attained_at(setting: Setting, chosen: Finalist, asked: PromisedLoad, score: float) -> Attained:
    """The chosen fleet where real times lie at a score of their interval."""
    fleet, carried = chosen.fleet, chosen.carried
    if score:
        fleet, carried = _one_replica(setting, chosen.option, chosen.max_batch, asked, score)
    size = (chosen.best.n_replicas, asked.load.requests_per_s)
    return attained(fleet, size, asked, carried, CONFIRMING_REQUESTS)


def _out_of_reach(setting: Setting, found: Sequence[ServingOption], asked: PromisedLoad) -> str:
    """Which promise no layout keeps, and the best that one does for a request that waits for nobody."""
    name, one = next(iter(asked.promises.items()))
    further = max(median_of(setting.question.output_tokens) - 1, 0.0)
    reached = {
        "ttft_s": min(option.ttft_s for option in found),
        "tpot_s": min(option.tpot_s for option in found),
        "end_to_end_s": min(option.ttft_s + further * option.tpot_s for option in found),
    }
    broken = [key for key, promise in asked.promises.items() if reached[key] > promise.limit]
    name = broken[0] if broken else name
    one = asked.promises[name]
    said = f"{_OPTIONS[name]} p{100 * one.share_fraction:g}:{format_si(one.limit, 's')}"
    best = f"the shortest mean of any layout is {format_si(reached[name], 's')}"
    return f"{said}: no layout keeps it at any number of replicas; {best}"


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
    return {_KEYS[name]: found[name] for name in _KEYS}


def _limit_document(kept: KeptPromise, name: str) -> dict[str, Any]:
    """One promise: its limit, what is attained, and the 90 % interval of that."""
    one = kept.asked.promises[name]
    by_score = {score: point.quantile_s(name, one.share_fraction) for score, point in kept.by_score}
    low, high = by_score[min(by_score)], by_score[max(by_score)]
    return {
        "quantity": _KEYS[name],
        "share_fraction": one.share_fraction,
        "limit_s": one.limit,
        "attained_s": by_score[0.0],
        "attained_p05_s": low,
        "attained_p95_s": high if math.isfinite(high) else None,
    }


def _point_document(one: Attained, kept: KeptPromise) -> dict[str, Any]:
    """One load of the curve; times that a growing queue makes are null."""
    promises = kept.asked.promises
    times = {f"{_KEYS[name]}": one.quantile_s(name, promise.share_fraction) for name, promise in promises.items()}
    return {
        "requests_per_s": one.requests_per_s,
        "load_ratio": one.requests_per_s / kept.asked.load.requests_per_s,
        **{name: value if np.isfinite(value) else None for name, value in times.items()},
        "keeps": one.keeps(promises),
        "is_saturated": one.steady.is_saturated,
    }


def _finalist_document(one: Finalist, promises: Any) -> dict[str, Any]:
    return {
        "layout": str(one.option.layout),
        "max_batch": one.max_batch,
        "replicas": one.best.n_replicas,
        "gpus": one.n_gpus,
        "used_fraction": one.best.used_fraction(promises),
    }
