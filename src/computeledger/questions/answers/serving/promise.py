"""A load with a promise in percentiles: one pool and two are searched in closed form, the best of them simulated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from computeledger.arrays import Z_90, Z_95
from computeledger.errors import DoesNotFitError, InputError, QuantityError
from computeledger.fields import MOST_COUNT
from computeledger.physics.calibration.efficiency import median_of
from computeledger.physics.parallelism import Layout
from computeledger.questions.answers.serving.finalists import (
    MOST_PAIRS,
    Finalist,
    attained_at,
    finalists_of,
    fitting_fleet,
    larger,
    layouts_of,
    one_unit,
    out_of_reach,
    pool_finalists_of,
    price_of_counts,
    prices_of,
    promised_load,
    surer_layouts,
    with_chance,
)
from computeledger.questions.answers.serving.setting import Setting
from computeledger.simulation.serving.promise import (
    CONFIRMING_REQUESTS,
    Attained,
    PromisedLoad,
    Unit,
    attained,
    most_kept,
)
from computeledger.units import format_count
from computeledger.workloads.questions.serve import ONE_POOL, TWO_POOLS
from computeledger.workloads.serving.pool_search import PoolOption
from computeledger.workloads.serving.search import Fleet, ServingOption, Slo

#: Loads of the curve over the one asked about, and scores at which the interval of times is simulated.
LOAD_CURVE, INTERVAL_SCORES = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0), (-Z_95, 0.0, Z_95)
#: Finalists on as few GPUs whose chances are compared.
MOST_COMPARED = 4
#: Replicas that are added at most to a fleet which less load breaks.
MOST_MORE = 3
#: Share of the load that a replica carries at most below which more of them are no plan (assumption): they stand idle,
#: and what a request takes beside any other stays.
LEAST_LOADED = 0.1
#: How closely the load at which a promise breaks is found, over the load asked about.
HEADROOM_STEP = 0.03


@dataclass(frozen=True, slots=True)
class OnePool:
    """One pool, searched in closed form: every layout and batch."""

    setting: Setting
    layouts: Sequence[Layout]
    found: Sequence[ServingOption]


@dataclass(frozen=True, slots=True)
class TwoPools:
    """Two pools, and how they are sized in closed form for a load and its limits."""

    setting: Setting
    sized: Callable[[Slo], list[PoolOption]]


@dataclass(frozen=True, slots=True)
class KeptPromise:
    """The fewest GPUs that keep a promise, and how surely.

    Attributes
    ----------
    chosen : Finalist
        At the median of the interval of times.
    option : ServingOption or PoolOption
        The batch that a replica may take: the limit on it, or the smallest that carries its share of the load.
    finalists : tuple of Finalist
        Every layout that keeps it, the chosen one first; of one pool and of two.
    by_score : tuple of (float, Attained)
        The chosen fleet where real times are at a standard normal score of their interval.
    curve : tuple of Attained
        The chosen fleet under less and more load.
    sure : tuple of (Finalist, Attained)
        Fleets that keep it with a chance of 90 %, the one of fewest GPUs last; of finalists, and of other layouts.
    surest_median : Attained or None
        The last of them at the medians; None where there is none.
    idle : Attained or None
        The chosen layout there, on the most replicas that are looked at; None where such a fleet keeps it.
    asked : PromisedLoad
        What was promised.
    refused : mapping of str to str
        Why a way to serve was not searched, or keeps nothing.
    """

    chosen: Finalist
    option: ServingOption | PoolOption
    finalists: tuple[Finalist, ...]
    by_score: tuple[tuple[float, Attained], ...]
    curve: tuple[Attained, ...]
    sure: tuple[tuple[Finalist, Attained], ...]
    surest_median: Attained | None
    idle: Attained | None
    asked: PromisedLoad
    refused: Mapping[str, str]

    @property
    def fleet(self) -> Fleet | None:
        """Replicas of one pool as the closed form counts them."""
        one, rate, option = self.chosen, self.asked.load.requests_per_s, self.option
        if isinstance(option, PoolOption):
            return None
        n = one.best.n_replicas
        return Fleet(option, n, one.n_gpus, rate / (n * option.requests_per_s))

    @property
    def median(self) -> Attained:
        """The chosen fleet at the medians."""
        return self.chosen.best

    @property
    def kept_probability(self) -> float | None:
        """Chance that every promise holds; None where times have no interval [-]."""
        return self.chosen.kept_probability

    @property
    def headroom_fraction(self) -> float | None:
        """Load beyond the one asked about up to which every simulated load keeps the promises; None beyond them [-]."""
        most = most_kept(self.curve, self.asked.promises)
        if most == self.curve[-1].requests_per_s:
            return None
        return most / self.asked.load.requests_per_s - 1.0

    def best_of(self, mode: str) -> Finalist | None:
        """The best of one way to serve."""
        return next((one for one in self.finalists if one.mode == mode), None)


def keep_promise(one: OnePool | None, two: TwoPools | None, refused: Mapping[str, str]) -> KeptPromise:
    """Find the fleet that keeps the promises of a question on the fewest GPUs.

    Parameters
    ----------
    one : OnePool or None
        Every layout and batch of one pool; None where only two are asked about.
    two : TwoPools or None
        Two pools; None where only one is asked about.
    refused : mapping of str to str
        Why one of them is left out.

    Returns
    -------
    KeptPromise
        Of what needs the fewest GPUs, and among equals of what most likely keeps its promise.

    Raises
    ------
    InputError
        Where nothing keeps a promise even for a lone request, or the GPUs at hand do not.
    """
    either = one or two
    if either is None:
        raise InputError("neither one pool nor two can be searched: " + "; ".join(refused.values()))
    question, why = either.setting.question, dict(refused)
    asked = promised_load(either.setting, min(option.tpot_s for option in one.found) if one else 0.0)
    finalists = finalists_of(one.setting, one.found, asked) if one else []
    if one and not finalists:
        why[ONE_POOL] = out_of_reach(one.setting, one.found, asked)
    if two:
        apart, problem = _apart(two, asked)
        finalists += apart
        why |= {TWO_POOLS: problem} if problem else {}
    if not finalists:
        raise InputError(why[ONE_POOL] if one else why[TWO_POOLS])
    ranked, curve = _steadily_kept(_ranked(finalists, asked), asked)
    chosen = ranked[0]
    if question.gpus is not None and chosen.n_gpus > question.gpus:
        raise InputError(
            f"--gpus {question.gpus}: that promise needs {format_count(chosen.n_gpus, 'GPU')}; leave --gpus out to "
            "size the fleet"
        )
    scores = INTERVAL_SCORES if chosen.setting.ranges else (0.0,)
    known = chosen.by_score
    sure, idle = _sure(ranked, asked)
    if one and one.setting.ranges:
        sure += _surer(one, asked, sure)
    by_score = [(score, known[score] if score in known else attained_at(chosen, asked, score)) for score in scores]
    return KeptPromise(
        chosen=chosen,
        option=loaded_option(chosen, one.found if one else (), asked),
        finalists=tuple(ranked),
        by_score=tuple(by_score),
        curve=tuple(curve),
        sure=tuple(sure),
        surest_median=attained_at(replace(sure[-1][0], best=sure[-1][1]), asked, 0.0) if sure else None,
        idle=None if sure else idle,
        asked=asked,
        refused=why,
    )


def _apart(two: TwoPools, asked: PromisedLoad) -> tuple[list[Finalist], str | None]:
    """Finalists of two pools, or why there is none."""
    limits = {name: one.limit for name, one in asked.promises.items()}
    further = max(median_of(two.setting.question.output_tokens) - 1, 1.0)
    whole_s = limits.get("end_to_end_s", math.inf)
    tpot_s = min(limits.get("tpot_s", math.inf), whole_s / further)
    first_s = min(limits.get("ttft_s", math.inf), whole_s)
    rate = asked.load.requests_per_s
    try:
        try:
            found = two.sized(Slo(rate, first_s, tpot_s, _first_share(asked)))
        except QuantityError:
            found = two.sized(Slo(rate, first_s, tpot_s))
    except InputError as error:
        return [], str(error)
    finalists = pool_finalists_of(two.setting, found, asked)
    if finalists:
        return finalists, None
    return [], _none_found(found)


def _none_found(found: Sequence[PoolOption]) -> str:
    """What was tried in vain."""
    pairs = list(dict.fromkeys(" > ".join(map(str, layouts_of(one))) for one in found))[:MOST_PAIRS]
    return (
        "not found: two pools that keep the promise, among the layouts and numbers of workers tried (prefill > decode: "
        f"{', '.join(pairs)}); --prefill-layout and --layout state others"
    )


def _first_share(asked: PromisedLoad) -> float:
    """Share of requests whose first token has to come in time."""
    shares = [one.share_fraction for name, one in asked.promises.items() if name in ("ttft_s", "end_to_end_s")]
    return max(shares, default=0.5)


def _preference(one: Finalist, asked: PromisedLoad) -> tuple[float, ...]:
    """Fewest GPUs first; among equals the greatest chance, then what is furthest from its limits at the medians."""
    chance = -math.inf if one.kept_probability is None and one.setting.ranges else one.breaking_score
    return one.price, -chance, one.best.used_fraction(asked.promises)


def _ranked(finalists: Sequence[Finalist], asked: PromisedLoad) -> list[Finalist]:
    """In the order of preference; chances are found of those that may be the answer, and of the best of each mode."""
    in_order = sorted(finalists, key=lambda one: _preference(one, asked))
    first = {one.mode: one for one in reversed(in_order)}
    fewest = [one for one in in_order if one.price == in_order[0].price][:MOST_COMPARED]
    near = [*fewest, *first.values()]
    known = [with_chance(one, asked) if any(one is other for other in near) else one for one in in_order]
    return sorted(known, key=lambda one: _preference(one, asked))


def _steadily_kept(ranked: list[Finalist], asked: PromisedLoad) -> tuple[list[Finalist], list[Attained]]:
    """Finalists whose first keeps the promise under every smaller load too, and its curve; as they were where few
    replicas more are not enough for that.
    """
    first = now, curve = ranked, _curve(ranked[0], asked)
    for _ in range(MOST_MORE):
        if most_kept(curve, asked.promises) >= asked.load.requests_per_s:
            return now, curve
        now = _ranked([larger(now[0], asked), *now[1:]], asked)  # less load breaks it: it was kept by chance
        curve = _curve(now[0], asked)
    return (now, curve) if most_kept(curve, asked.promises) >= asked.load.requests_per_s else first


def loaded_option(chosen: Finalist, found: Sequence[ServingOption], asked: PromisedLoad) -> ServingOption | PoolOption:
    """The closed form's option for a replica of the chosen fleet."""
    option = chosen.option
    if chosen.max_batch is not None or isinstance(option, PoolOption):
        return option
    share = asked.load.requests_per_s / chosen.best.n_replicas
    of_layout = [one for one in found if str(one.layout) == str(option.layout)]
    enough = [one for one in of_layout if one.requests_per_s >= share and one.batch >= option.batch]
    return min(enough, key=lambda one: one.batch) if enough else max(of_layout, key=lambda one: one.requests_per_s)


def _curve(chosen: Finalist, asked: PromisedLoad) -> list[Attained]:
    """The fleet under less and more load, up to where its queue stops being stable."""
    rate, counts = asked.load.requests_per_s, chosen.best.counts
    most = chosen.unit.carried_by(counts).value
    points = {1.0: chosen.best}

    def add(ratio: float) -> bool:
        points[ratio] = attained(chosen.unit, (counts, ratio * rate), asked, CONFIRMING_REQUESTS)
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


def _sure(
    finalists: Sequence[Finalist], asked: PromisedLoad
) -> tuple[list[tuple[Finalist, Attained]], Attained | None]:
    """Fleets that keep the promise where real times are slower than in nine of ten cases, of the chosen layout first;
    and the chosen layout there on the most replicas that are looked at.

    Of the other layouts only one that takes fewer GPUs than those before it.
    """
    out: list[tuple[Finalist, Attained]] = []
    most, first = float(MOST_COUNT), None
    for one in finalists:
        if not one.setting.ranges or one.price > most:
            continue
        unit = one_unit(one.setting, one.option, one.max_batch, asked, Z_90)
        counts, prices = _idle_counts(unit, one, asked), prices_of(one.setting, one.layouts)
        idle = attained(unit, (counts, asked.load.requests_per_s), asked)
        first = first or idle
        if not idle.keeps(asked.promises):
            continue
        enough = min(most, price_of_counts(prices, counts))
        found = fitting_fleet(unit, one.option, asked, (prices, enough), one.best.counts)
        if found is not None:
            out.append((one, found))
            most = (1 - 1e-9) * price_of_counts(prices, found.counts)
    return out, first


def _surer(
    one: OnePool, asked: PromisedLoad, sure: Sequence[tuple[Finalist, Attained]]
) -> list[tuple[Finalist, Attained]]:
    """Fleets of other layouts that keep the promise there on fewer GPUs than those before: what is the cheapest at the
    medians may be slow in too many cases at any number of replicas.
    """
    out: list[tuple[Finalist, Attained]] = []
    most = min((each.gpus_of(found.counts) - 1 for each, found in sure), default=MOST_COUNT)
    for option, max_batch, gpus in surer_layouts(one.setting, one.found, asked, Z_90):
        if gpus > most:
            continue
        try:
            unit = one_unit(one.setting, option, max_batch, asked, Z_90)
        except DoesNotFitError:
            continue
        each = int(option.layout.n_gpus)
        enough = min(most, math.ceil(unit.fewest(asked.load.requests_per_s)[0] / LEAST_LOADED) * each)
        found = fitting_fleet(unit, option, asked, ((float(each),), enough))
        if found is not None:
            fleet = Finalist(one.setting, option, max_batch, unit, found, {}, math.inf)
            out.append((fleet, found))
            most = fleet.n_gpus - 1
    return out


def _idle_counts(unit: Unit, one: Finalist, asked: PromisedLoad) -> tuple[int, ...]:
    """Replicas of each pool beyond which more are no plan."""
    fewest = unit.fewest(asked.load.requests_per_s)
    return tuple(max(math.ceil(n / LEAST_LOADED), known) for n, known in zip(fewest, one.best.counts, strict=True))
