"""Layouts that are simulated for a promise in percentiles: the fewest replicas of each that keep it, and how surely."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from computeledger.arrays import Z_95
from computeledger.errors import DoesNotFitError
from computeledger.fields import MOST_COUNT, Promise, fields_of
from computeledger.physics.calibration.efficiency import median_of
from computeledger.questions.answers.serving.fleet import DEFAULT_REQUESTS, fleet_of, within_context
from computeledger.questions.answers.serving.setting import Setting
from computeledger.questions.simulate import SimulateServeQuestion
from computeledger.simulation.serving.arrivals import spread_of
from computeledger.simulation.serving.clock import ServingClock
from computeledger.simulation.serving.promise import (
    CONFIRMING_REQUESTS,
    Attained,
    PromisedLoad,
    alone,
    attained,
    fewest_replicas,
)
from computeledger.simulation.serving.search import most_carried
from computeledger.simulation.serving.steady import Estimate
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.serving.workload import Workload
from computeledger.spread import Spread
from computeledger.units import format_si
from computeledger.workloads.questions.serve import ServeQuestion
from computeledger.workloads.serving.search import SLOWEST_TPOT_S, ServingOption

#: Layouts that are simulated, those first that carry the load on the fewest GPUs in closed form.
MOST_FINALISTS = 8
#: GPUs that a layout takes in closed form, over the fewest found, beyond which it is not simulated (assumption).
HOPELESS = 1.1
#: Scores beyond which a chance is nought or one, and how closely the breaking one is found.
LAST_SCORE, SCORE_STEP = 3.0, 0.15
#: Names of the quantities of a promise in documents.
KEYS = {"ttft_s": "ttft_s", "tpot_s": "tpot_s", "end_to_end_s": "e2e_s"}
#: Requests that tell the lengths of a load.
_SAMPLE_REQUESTS = 2_000
_CDF = NormalDist().cdf
_OPTIONS = {"ttft_s": "--ttft", "tpot_s": "--tpot", "end_to_end_s": "--e2e"}


@dataclass(frozen=True, slots=True)
class Finalist:
    """A layout that was simulated, with or without a limit on its batch.

    Attributes
    ----------
    option : ServingOption
        What stands for a replica in closed form.
    max_batch : int or None
        Limit on its sequences; None for what memory holds [-].
    fleet : ServingClock
        One replica.
    carried : Estimate
        Rate at which its queue stops being stable [1/s].
    best : Attained
        Its fewest replicas that keep the promise.
    by_score : mapping of float to Attained
        The same fleet where real times are at a standard normal score of their interval.
    breaking_score : float
        Score from which on a promise breaks; infinite where times have no interval [-].
    """

    option: ServingOption
    max_batch: int | None
    fleet: ServingClock
    carried: Estimate
    best: Attained
    by_score: Mapping[float, Attained]
    breaking_score: float

    @property
    def most_sequences(self) -> int:
        """Sequences that a replica takes at once: its limit, or what memory holds [-]."""
        return int(self.fleet.pools[0].limits.live)

    @property
    def n_gpus(self) -> int:
        """GPUs of all its replicas [-]."""
        return self.best.n_replicas * int(self.option.layout.n_gpus)

    @property
    def kept_probability(self) -> float | None:
        """Chance that every promise holds: that real times lie below the score at which the first one breaks [-].

        None where times have no interval: at the physical limit, and with a machine's own profile.
        """
        return None if math.isinf(self.breaking_score) else float(_CDF(self.breaking_score))


def promised_load(setting: Setting, least_tpot_s: float) -> PromisedLoad:
    """Arrivals at the rate asked about, of requests of the lengths asked about."""
    question = setting.question
    rate, spread = median_of(question.requests_per_s or 0.0), question.arrival_spread
    simulated, workload = _simulated(setting, None, None), setting.workload
    if workload is None:
        workload = Workload("", spread_of(simulated.input_tokens), spread_of(simulated.output_tokens))
    load = within_context(setting.at_median.model, workload.load(rate, spread, question.seed), DEFAULT_REQUESTS)
    # a plain limit holds at the median; a search that was told no speed keeps to the one of every search
    default = {"tpot": SLOWEST_TPOT_S} if least_tpot_s < SLOWEST_TPOT_S else {}
    plain = {f"{name}_s": Promise(0.5, limit) for name, limit in {**default, **question.limits}.items()}
    both = plain | question.promises
    return PromisedLoad(load, {name: both[name] for name in KEYS if name in both}, question.seed)


def _simulated(setting: Setting, layout: str | None, max_batch: int | None) -> SimulateServeQuestion:
    """The same deployment as a question of simulation; without a prefix cache its prompts hold the prefix."""
    question, scenario = setting.question, setting.at_median
    taken = ("ttft", "tpot", "workload", "input_tokens", "output_tokens", "layout", "max_batch")
    both = fields_of(ServeQuestion).keys() & fields_of(SimulateServeQuestion).keys() - set(taken)
    given: dict[str, Any] = {name: getattr(question, name) for name in both}
    for name in ("input_tokens", "output_tokens"):
        stated = getattr(question, name)
        given[name] = stated if isinstance(stated, Spread) else float(np.asarray(getattr(scenario, name)))
    rate = f"poisson:{median_of(question.requests_per_s or 1.0):.17g}"
    return SimulateServeQuestion(**given, arrivals=rate, layout=layout, max_batch=max_batch)


def finalists_of(setting: Setting, found: Sequence[ServingOption], asked: PromisedLoad) -> list[Finalist]:
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
        fleet, carried = one_replica(setting, option, max_batch, asked)
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
    if best is None:
        return None
    one = Finalist(option, max_batch, fleet, carried, final, {0.0: final}, math.inf)
    return _with_chance(setting, one, asked) if setting.ranges else one


def _with_chance(setting: Setting, one: Finalist, asked: PromisedLoad) -> Finalist:
    """Where in the interval of times a fleet that keeps its promise at the medians breaks it, by bisection."""
    by_score, low, high = {0.0: one.best}, 0.0, LAST_SCORE
    score = Z_95
    while high - low > SCORE_STEP:
        by_score[score] = attained_at(setting, one, asked, score)
        low, high = (score, high) if by_score[score].keeps(asked.promises) else (low, score)
        score = (low + high) / 2
    return replace(one, by_score=by_score, breaking_score=score)


def one_replica(
    setting: Setting, option: ServingOption, max_batch: int | None, asked: PromisedLoad, score: float = 0.0
) -> tuple[ServingClock, Estimate]:
    """A replica of a layout, and the rate at which its queue stops being stable."""
    question = _simulated(setting, str(option.layout), max_batch)
    sample: Trace = asked.load(_SAMPLE_REQUESTS, asked.load.requests_per_s)
    fleet = fleet_of(setting, sample, question, score).clock
    return fleet, most_carried(fleet, asked.load, asked.seed)


def attained_at(setting: Setting, one: Finalist, asked: PromisedLoad, score: float) -> Attained:
    """A fleet where real times lie at a score of their interval."""
    fleet, carried = one_replica(setting, one.option, one.max_batch, asked, score)
    size = (one.best.n_replicas, asked.load.requests_per_s)
    return attained(fleet, size, asked, carried, CONFIRMING_REQUESTS)


def out_of_reach(setting: Setting, found: Sequence[ServingOption], asked: PromisedLoad) -> str:
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
