"""Layouts that are simulated for a promise in percentiles: the fewest replicas of each that keep it, and how surely."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from computeledger.arrays import Z_95
from computeledger.distributions import Spread
from computeledger.errors import DoesNotFitError
from computeledger.fields import MOST_COUNT, WITHIN_ALL, Promise, fields_of
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.parallelism import Layout
from computeledger.questions.answers.serving.fleet import DEFAULT_REQUESTS, fleet_of, slower_at, within_context
from computeledger.questions.answers.serving.setting import Setting
from computeledger.questions.simulate import SimulateServeQuestion
from computeledger.simulation.serving.arrivals import spread_of
from computeledger.simulation.serving.conversations import conversations_of
from computeledger.simulation.serving.promise import (
    CONFIRMING_REQUESTS,
    Attained,
    PromisedLoad,
    Unit,
    alone,
    attained,
    fewest_replicas,
    fewest_workers,
)
from computeledger.simulation.serving.steady import capacities
from computeledger.simulation.serving.traces import Trace
from computeledger.simulation.serving.workload import Workload
from computeledger.units import format_si
from computeledger.workloads.questions.serve import ONE_POOL, TWO_POOLS, ServeQuestion
from computeledger.workloads.serving.images import image_tokens
from computeledger.workloads.serving.pool_search import PoolOption
from computeledger.workloads.serving.search import SLOWEST_TPOT_S, ServingOption
from computeledger.workloads.serving.tails import tail_ratios

#: Layouts that are simulated, those first that carry the load on the fewest GPUs in closed form.
MOST_FINALISTS = 8
#: Layouts that are simulated for a fleet that keeps its promise more surely, beside those of the fewest GPUs.
MOST_SURER = 4
#: Pairs of layouts of two pools that are simulated (a pair takes twice as long).
MOST_PAIRS = 4
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
    """A layout that was simulated, with or without a limit on its batch; or one of each of two pools.

    Attributes
    ----------
    setting : Setting
        Of the way to serve: one pool and two have intervals of their own.
    option : ServingOption or PoolOption
        What stands for it in closed form.
    max_batch : int or None
        Limit on the sequences of a replica; None for what memory holds [-].
    unit : Unit
        One replica of each pool, and what it carries.
    best : Attained
        The fewest of them that keep the promise.
    by_score : mapping of float to Attained
        The same fleet where real times are at a standard normal score of their interval.
    breaking_score : float
        Score from which on a promise breaks; infinite where times have no interval [-].
    """

    setting: Setting
    option: ServingOption | PoolOption
    max_batch: int | None
    unit: Unit
    best: Attained
    by_score: Mapping[float, Attained]
    breaking_score: float

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """Of a replica of each pool, that which reads prompts first."""
        return layouts_of(self.option)

    @property
    def mode(self) -> str:
        """One pool or two."""
        return TWO_POOLS if len(self.layouts) > 1 else ONE_POOL

    @property
    def most_sequences(self) -> int:
        """Sequences that a decoding replica takes at once: its limit, or what memory holds [-]."""
        return int(self.unit.clock.pools[-1].limits.live)

    @property
    def n_gpus(self) -> int:
        """GPUs of all its replicas [-]."""
        return self.gpus_of(self.best.counts)

    def gpus_of(self, counts: tuple[int, ...]) -> int:
        """GPUs of so many replicas of each pool [-]."""
        return _gpus_of(self.layouts, counts)

    @property
    def price(self) -> float:
        """What fleets are compared by: GPUs, or where the pools' chips differ what an hour of them costs."""
        return price_of_counts(prices_of(self.setting, self.layouts), self.best.counts)

    @property
    def kept_probability(self) -> float | None:
        """Chance that every promise holds: that real times lie below the score at which the first one breaks [-].

        None where times have no interval: at the physical limit, and with a machine's own profile.
        """
        return None if math.isinf(self.breaking_score) else float(_CDF(self.breaking_score))


def prices_of(setting: Setting, layouts: tuple[Layout, ...]) -> tuple[float, ...]:
    """What a replica of each pool counts: its GPUs, or where the pools' chips differ what an hour of them costs."""
    gpus = tuple(float(one.n_gpus) for one in layouts)
    if setting.reading is None or len(layouts) < 2:
        return gpus
    prices = [float(np.asarray(one.at_median.usd_per_gpu_hour)) for one in (setting.reading, setting)]
    return tuple(n * price for n, price in zip(gpus, prices, strict=True)) if min(prices) > 0 else gpus


def layouts_of(option: ServingOption | PoolOption) -> tuple[Layout, ...]:
    """Layouts of a replica of each pool, that which reads prompts first."""
    return (option.layout,) if isinstance(option, ServingOption) else (option.prefill_layout, option.decode_layout)


def promised_load(setting: Setting, least_tpot_s: float) -> PromisedLoad:
    """Arrivals at the rate asked about, of requests of the lengths asked about."""
    question = setting.question
    rate, spread = median_of(question.requests_per_s or 0.0), question.arrival_spread
    simulated, workload = _simulated(setting, (), None), setting.workload
    if workload is None:
        workload = Workload("", spread_of(simulated.input_tokens), spread_of(simulated.output_tokens))
    model, talk = setting.at_median.model, question.conversation()
    # its runs are shorter than a round of lengths that change, so they have the lengths of the whole
    drawn = replace(workload.load(rate, spread, question.seed), by_stretch=(), added_tokens=_image_tokens(setting))
    load = (
        within_context(model, drawn, DEFAULT_REQUESTS)
        if talk is None
        else conversations_of(drawn, talk, model.max_context_tokens)
    )
    # a plain limit holds at the median; a search that was told no speed keeps to the one of every search
    has_further = median_of(question.output_tokens) > 1
    default = {"tpot": SLOWEST_TPOT_S} if least_tpot_s < SLOWEST_TPOT_S and has_further else {}
    share = 0.5 if question.goodput is None else question.goodput
    plain = {f"{name}_s": Promise(share, limit) for name, limit in {**default, **question.limits}.items()}
    both = plain | question.promises
    return PromisedLoad(load, {name: both[name] for name in (*KEYS, WITHIN_ALL) if name in both}, question.seed)


def _image_tokens(setting: Setting) -> int:
    """Tokens of a prompt's images that are read anew."""
    question, model = setting.question, setting.at_median.model
    return image_tokens(model, question.cached_images, not question.no_prefix_cache).new


def _simulated(setting: Setting, layouts: tuple[Layout, ...], max_batch: int | None) -> SimulateServeQuestion:
    """The same deployment as a question of simulation; without a prefix cache its prompts hold the prefix."""
    question, scenario = setting.question, setting.at_median
    taken = (
        "ttft",
        "tpot",
        "e2e",
        "goodput",
        "workload",
        "input_tokens",
        "output_tokens",
        "layout",
        "prefill_layout",
        "prefill_system",
        "prefill_price",
        "max_batch",
    )
    both = fields_of(ServeQuestion).keys() & fields_of(SimulateServeQuestion).keys() - set(taken)
    given: dict[str, Any] = {name: getattr(question, name) for name in both}
    for name in ("input_tokens", "output_tokens"):
        stated = getattr(question, name)
        of_case = stated if question.turns is not None else getattr(scenario, name)
        given[name] = stated if isinstance(stated, Spread) else median_of(of_case)
    if not isinstance(question.input_tokens, Spread):
        given["input_tokens"] -= _image_tokens(setting)
    given |= {"layout": str(layouts[-1])} if layouts else {}
    two = {"prefill_layout": str(layouts[0]), "prefill_replicas": 1} if len(layouts) > 1 else {}
    given |= two or {"transfer_bytes_per_s": None}  # of one pool nothing moves
    rate = f"poisson:{median_of(question.requests_per_s or 1.0):.17g}"
    return SimulateServeQuestion(**given, arrivals=rate, max_batch=max_batch)


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
            one = _finalist(setting, option, cap, asked, most * each)
            if one is not None:
                out.append(one)
                most = min(most, one.best.n_replicas - 1)
    return out


def pool_finalists_of(setting: Setting, found: Sequence[PoolOption], asked: PromisedLoad) -> list[Finalist]:
    """Pairs of pools as :func:`finalists_of`: of each pair of layouts the workers that the closed form needs first."""
    out: list[Finalist] = []
    seen: set[tuple[str, ...]] = set()
    for option in found:
        name = tuple(map(str, layouts_of(option)))
        fewest = min((one.price for one in out), default=float(MOST_COUNT))
        counted = price_of_counts(prices_of(setting, layouts_of(option)), (option.n_prefill, option.n_decode))
        if name in seen or len(seen) >= MOST_PAIRS or counted > HOPELESS * fewest:
            continue
        seen.add(name)
        one = _finalist(setting, option, setting.question.max_batch, asked, fewest)
        out += [] if one is None else [one]
    return out


def surer_layouts(
    setting: Setting, found: Sequence[ServingOption], asked: PromisedLoad, score: float
) -> Iterator[tuple[ServingOption, int | None, float]]:
    """Layouts of one pool whose tokens are fast enough where real times lie at a score, each with the limits on its
    batch that are tried, and the GPUs that it takes then in closed form.
    """
    slower = slower_at(setting, score)
    for option in _candidates(setting, found, asked, slower)[:MOST_SURER]:
        gpus = asked.load.requests_per_s * slower["tpot_s"] / option.requests_per_s * int(option.layout.n_gpus)
        yield option, setting.question.max_batch, gpus
        if "tpot_s" in asked.promises and setting.question.max_batch is None:
            yield option, option.batch, gpus


def _candidates(
    setting: Setting, found: Sequence[ServingOption], asked: PromisedLoad, slower: Mapping[str, float] | None = None
) -> list[ServingOption]:
    """The largest batch of each layout whose tokens are fast enough on average, fewest GPUs first.

    Left out are layouts whose first tokens, or requests, take too long even in the smallest batch; ``slower`` is by how
    much times are longer than at the medians.
    """
    longer = {"end_to_end_s": max(slower.values()), **slower} if slower else {}
    limits = {name: one.limit / longer.get(name, 1.0) for name, one in asked.promises.items()}
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
    setting: Setting, option: ServingOption | PoolOption, max_batch: int | None, asked: PromisedLoad, most: float
) -> Finalist | None:
    """One layout with a limit on its batch: its fewest replicas, none where those of so many GPUs are too few."""
    layouts = layouts_of(option)
    try:
        unit = one_unit(setting, option, max_batch, asked)
    except DoesNotFitError:
        return None
    prices = prices_of(setting, layouts)
    best = fitting_fleet(unit, option, asked, (prices, most))
    final = None if best is None else _confirmed(unit, best.counts, asked)
    while final is not None and not final.keeps(asked.promises):  # a longer run shows what a short one missed
        more = _one_more(unit, final, asked)
        final = more if price_of_counts(prices, more.counts) <= most else None
    return None if final is None else Finalist(setting, option, max_batch, unit, final, {0.0: final}, math.inf)


def _confirmed(unit: Unit, counts: tuple[int, ...], asked: PromisedLoad) -> Attained:
    """A fleet in a longer run."""
    return attained(unit, (counts, asked.load.requests_per_s), asked, CONFIRMING_REQUESTS)


def larger(one: Finalist, asked: PromisedLoad) -> Finalist:
    """The same layout with a replica more."""
    best = _one_more(one.unit, one.best, asked)
    return replace(one, best=best, by_score={0.0: best}, breaking_score=math.inf)


def fitting_fleet(
    unit: Unit, option: ServingOption | PoolOption, asked: PromisedLoad, priced: tuple[tuple[float, ...], float],
    start: tuple[int, ...] | None = None,
) -> Attained | None:  # fmt: skip
    """The fewest replicas of each pool, beginning with those of the closed form.

    ``priced`` is what a replica of each counts, and what all may count at most; none where that is not enough.
    """
    rate, (prices, most) = asked.load.requests_per_s, priced
    if price_of_counts(prices, unit.fewest(rate)) > most or not alone(unit, asked).keeps(asked.promises):
        return None
    if isinstance(option, PoolOption):
        return fewest_workers(unit, asked, start or (option.n_prefill, option.n_decode), prices, most)
    begin = start[0] if start else max(math.ceil(rate / option.requests_per_s), 1)
    return fewest_replicas(unit, asked, begin, int(most // prices[0]))


def price_of_counts(prices: tuple[float, ...], counts: tuple[int, ...]) -> float:
    """GPUs, or cost, of so many replicas of each pool."""
    return sum(n * each for n, each in zip(counts, prices, strict=True))


def _gpus_of(layouts: tuple[Layout, ...], counts: tuple[int, ...]) -> int:
    return sum(n * int(one.n_gpus) for n, one in zip(counts, layouts, strict=True))


def _one_more(unit: Unit, best: Attained, asked: PromisedLoad) -> Attained:
    """A fleet with one replica more; of two pools in that which leaves least of its limits used, in a longer run."""
    places = range(len(best.counts))
    found = [_confirmed(unit, tuple(n + (at == place) for at, n in enumerate(best.counts)), asked) for place in places]
    return min(found, key=lambda one: one.used_fraction(asked.promises))


def with_chance(one: Finalist, asked: PromisedLoad) -> Finalist:
    """Where in the interval of times a fleet that keeps its promise at the medians breaks it, by bisection."""
    if not one.setting.ranges or math.isfinite(one.breaking_score):
        return one
    by_score, low, high = {0.0: one.best}, 0.0, LAST_SCORE
    score = Z_95
    while high - low > SCORE_STEP:
        by_score[score] = attained_at(one, asked, score)
        low, high = (score, high) if by_score[score].keeps(asked.promises) else (low, score)
        score = (low + high) / 2
    return replace(one, by_score=by_score, breaking_score=score)


def one_unit(
    setting: Setting, option: ServingOption | PoolOption, max_batch: int | None, asked: PromisedLoad, score: float = 0.0
) -> Unit:
    """A replica of each pool, and the rate at which the queue before it stops being stable."""
    question = _simulated(setting, layouts_of(option), max_batch)
    if setting.at_median.speculation.is_open:
        setting = replace(setting, at_median=setting.at_median.drafting(float(option.draft_tokens)))
    sample: Trace = asked.load(_SAMPLE_REQUESTS, asked.load.requests_per_s)
    fleet = fleet_of(setting, sample, question, score).clock
    return Unit(fleet, capacities(fleet, asked.load, asked.seed), tail_ratios(score))


def attained_at(one: Finalist, asked: PromisedLoad, score: float) -> Attained:
    """A fleet where real times lie at a score of their interval."""
    unit = one_unit(one.setting, one.option, one.max_batch, asked, score)
    return attained(unit, (one.best.counts, asked.load.requests_per_s), asked)


def out_of_reach(setting: Setting, found: Sequence[ServingOption], asked: PromisedLoad) -> str:
    """Which limit no layout keeps, and the one that would be kept: what a request gets that waits for nobody."""
    further = max(median_of(setting.question.output_tokens) - 1, 0.0)
    means: tuple[Callable[[ServingOption], float], ...] = (
        lambda option: option.ttft_s,
        lambda option: option.tpot_s,
        lambda option: option.ttft_s + further * option.tpot_s,
    )
    tried = {str(one.layout): one for one in (min(found, key=mean) for mean in means)}
    limits = {name: one for name, one in asked.promises.items() if name in KEYS}
    reached = dict[str, dict[str, float]]()
    for name, option in tried.items():
        try:
            one = alone(one_unit(setting, option, setting.question.max_batch, asked), asked)
        except DoesNotFitError:
            continue
        reached[name] = {key: one.quantile_s(key, limit.share_fraction) for key, limit in limits.items()}

    def broken(name: str) -> dict[str, float]:
        used = {key: value / limits[key].limit for key, value in reached[name].items()}
        return {key: ratio for key, ratio in used.items() if ratio > 1}

    best = min(reached, key=lambda name: max(broken(name).values(), default=0.0), default=None)
    if best is None or not broken(best):  # each limit could be kept alone: the load, or all at once, is too much
        said = ", ".join(f"{_OPTIONS[key]} {_written(one)}" for key, one in limits.items())
        return f"{said}: no layout keeps it at any number of replicas, though one request alone is within each limit"
    given, kept, gets = list[str](), list[str](), list[str]()
    for key in sorted(broken(best), key=lambda key: -broken(best)[key]):
        share, shortest = limits[key].share_fraction, reached[best][key]
        given.append(f"{_OPTIONS[key]} {_written(limits[key])}")
        gets.append(f"p{100 * share:g} gets {format_si(shortest, 's')}")
        kept.append(f"{_OPTIONS[key]} {_written(Promise(share, _rounded_up(shortest)))}")
    return (
        f"{', '.join(given)}: no layout keeps it at any number of replicas; with each request alone on {best} "
        f"{', '.join(gets)}; {' '.join(kept)} would be kept"
    )


def _written(one: Promise) -> str:
    """A promise as it is given, its limit with a unit."""
    return f"p{100 * one.share_fraction:g}:{format_si(one.limit, 's').replace(' ', '')}"


def _rounded_up(value: float) -> float:
    """The next number of two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit) * unit
