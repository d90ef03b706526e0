"""A load with a promise in percentiles: layouts are searched in closed form, and the best of them simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from computeledger.arrays import Z_90, Z_95
from computeledger.errors import InputError
from computeledger.fields import MOST_COUNT
from computeledger.questions.answers.serving.finalists import (
    Finalist,
    attained_at,
    finalists_of,
    one_replica,
    out_of_reach,
    promised_load,
)
from computeledger.questions.answers.serving.setting import Setting
from computeledger.simulation.serving.promise import (
    CONFIRMING_REQUESTS,
    Attained,
    PromisedLoad,
    alone,
    attained,
    fewest_replicas,
    most_kept,
)
from computeledger.units import format_count
from computeledger.workloads.serving.search import Fleet, ServingOption

#: Loads of the curve over the one asked about, and scores at which the interval of times is simulated.
LOAD_CURVE, INTERVAL_SCORES = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0), (-Z_95, 0.0, Z_95)
#: How closely the load at which a promise breaks is found, over the load asked about.
HEADROOM_STEP = 0.03


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
        Of the layout that needs the fewest GPUs, and among equals the one that most likely keeps its promise.

    Raises
    ------
    InputError
        Where no layout keeps a promise even for a lone request, or the GPUs at hand do not.
    """
    question = setting.question
    asked = promised_load(setting, min(one.tpot_s for one in found))
    finalists = finalists_of(setting, found, asked)
    if not finalists:
        raise InputError(out_of_reach(setting, found, asked))
    ranked = sorted(finalists, key=lambda one: _preference(one, asked))
    chosen = ranked[0]
    if question.gpus is not None and chosen.n_gpus > question.gpus:
        raise InputError(
            f"--gpus {question.gpus}: that promise needs {format_count(chosen.n_gpus, 'GPU')}; leave --gpus out to "
            "size the fleet"
        )
    scores = INTERVAL_SCORES if setting.ranges else (0.0,)
    known = chosen.by_score
    by_score = [(one, known[one] if one in known else attained_at(setting, chosen, asked, one)) for one in scores]
    return KeptPromise(
        chosen=chosen,
        option=_loaded_option(chosen, found, asked),
        finalists=tuple(ranked),
        by_score=tuple(by_score),
        curve=tuple(_curve(chosen, asked, chosen.best)),
        sure_replicas=_sure_replicas(setting, chosen, asked) if setting.ranges else None,
        asked=asked,
    )


def _preference(one: Finalist, asked: PromisedLoad) -> tuple[float, ...]:
    """Fewest GPUs first; among equals the greatest chance, then what is furthest from its limits at the medians."""
    return one.n_gpus, -one.breaking_score, one.best.used_fraction(asked.promises)


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


def _sure_replicas(setting: Setting, chosen: Finalist, asked: PromisedLoad) -> int | None:
    """Replicas that keep the promise where real times are slower than in nine of ten cases; None where none do."""
    fleet, carried = one_replica(setting, chosen.option, chosen.max_batch, asked, Z_90)
    if not alone(fleet, asked, carried).keeps(asked.promises):
        return None
    found = fewest_replicas(fleet, asked, carried, chosen.best.n_replicas, MOST_COUNT)
    return None if found is None else found.n_replicas
