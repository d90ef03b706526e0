"""How likely is one offer in truth cheaper than another? Errors that both share do not change their order.

The error of a prediction is the sum of a part that all offers of one buyer share (how the load is run, what the model
is like) and a part of its own that two offers share only as far as their chip, engine and format are the same. The
logarithm of a predicted ratio is then off by a scale ``s`` with
``s^2 = c [chips differ] + e [engines differ] + f [formats differ]``, fitted to pairs of measured deployments; its tails
are those of Student's t with two degrees of freedom. Of one deployment, layouts and batches differ as in
:mod:`~computeledger.workloads.serving.margins`.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib import resources
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_90, Z_95, Num
from computeledger.errors import FactError
from computeledger.physics.parallelism import Layout
from computeledger.workloads.serving.margins import layout_doublings, load_neighbour_errors

#: Quantiles of the shared part, of the own part and of prices over which two offers are compared.
_SHARED, _OWN, _PRICES = 25, 201, 15
#: Costs that differ by less than this share are equal.
_EQUAL = 1e-9


@dataclass(frozen=True, slots=True)
class OfferErrors:
    """Squares of the scale of the error of a ratio, in the logarithm, by what two offers do not share.

    Attributes
    ----------
    chip_square, engine_square, format_square : float
        Where chips, engines or formats of the weights differ [-].
    """

    chip_square: float
    engine_square: float
    format_square: float

    def square(self, differs: Num) -> Num:
        """Square of the scale of a ratio's error.

        Parameters
        ----------
        differs : ndarray
            1 or 0 for chip, engine and format, on the last axis [-].

        Returns
        -------
        float or ndarray
            0 where nothing differs [-].
        """
        parts = np.array([self.chip_square, self.engine_square, self.format_square])
        found: Num = np.asarray(differs, float) @ parts
        return found


@functools.cache
def load_offer_errors(tuning: str) -> OfferErrors:
    """Load the calibration for one's hands.

    Parameters
    ----------
    tuning : str
        ``recipe`` for deployments tuned like the public recipes; any other has that of other people's deployments.

    Returns
    -------
    OfferErrors
        From ``serving/offers.toml``.

    Raises
    ------
    FactError
        An entry without its data, residual or date.

    Examples
    --------
    >>> usual, recipe = load_offer_errors("usual"), load_offer_errors("recipe")
    >>> usual.chip_square > recipe.chip_square > 0
    True
    """
    text = resources.files("computeledger.workloads.serving").joinpath("offers.toml").read_text("utf-8")
    table: dict[str, Any] = tomllib.loads(text)["recipe" if tuning == "recipe" else "usual"]
    names = [field.name for field in fields(OfferErrors)]
    missing = [name for name in (*names, "data", "residual", "date") if not table.get(name)]
    if missing:
        raise FactError(f"serving/offers.toml: {', '.join(missing)} missing")
    return OfferErrors(*(float(table[name]) for name in names))


@dataclass(frozen=True, slots=True)
class Deployed:
    """What decides which errors two offers share; none of it is known of an API.

    Attributes
    ----------
    model, chip, engine, weights, tuning : str
        What is served, on what, by what, in which format and whose hands.
    layout : Layout
        Of a replica.
    batch : float
        Sequences of a replica [-].
    spread : float
        Standard deviation of the logarithm of real over predicted times, all parts together [-].
    """

    model: str
    chip: str
    engine: str
    weights: str
    tuning: str
    layout: Layout
    batch: float
    spread: float

    def apart(self, other: Deployed) -> float:
        """Scale of the error of a ratio of the two; never beyond that of two deployments that share nothing.

        Parameters
        ----------
        other : Deployed
            Of another offer.

        Returns
        -------
        float
            In the logarithm [-].
        """
        pairs = ((self.chip, other.chip), (self.engine, other.engine), (self.weights, other.weights))
        most = float(np.hypot(self.spread, other.spread))
        if self.model != other.model or self.tuning != other.tuning:
            return most
        square = float(load_offer_errors(self.tuning).square(np.array([one != two for one, two in pairs])))
        if not square:
            doublings = layout_doublings(self.layout, other.layout), abs(float(np.log2(self.batch / other.batch)))
            square = float(load_neighbour_errors().scale(*doublings)) ** 2
        return min(float(np.sqrt(square)), most)


def _replicas(load: Num) -> NDArray[np.float64]:
    """Whole replicas for a load in replicas: at least one [-]."""
    return np.asarray(np.maximum(np.ceil(load - _EQUAL), 1.0))


@dataclass(frozen=True, slots=True)
class Priced:
    """What an offer costs, and how that moves with real times and prices.

    Attributes
    ----------
    usd : float
        Per request, at the medians; of a fleet that of its replicas together [USD].
    load : float or None
        Load over what one replica carries, where replicas are counted; None where any part of one can be had [-].
    steepness : float
        How many times more replicas slower times ask for than they are slower, in the logarithm; faster times spare
        them in proportion (assumption: a promise that gets loose spares no more) [-].
    last_score : float
        Standard normal score of the times from which on no number of replicas keeps the promise [-].
    deployed : Deployed or None
        What it runs on; None of an API.
    price_spread : float
        Standard deviation of the logarithm of its price [-].
    price_of : str
        What its price is the price of: offers with the same have the same in truth.
    """

    usd: float
    load: float | None = None
    steepness: float = 1.0
    last_score: float = float("inf")
    deployed: Deployed | None = None
    price_spread: float = 0.0
    price_of: str = ""

    def costs(self, log_time: Num) -> NDArray[np.float64]:
        """Cost where real times differ from the predicted ones; infinite where no fleet keeps the promise.

        Parameters
        ----------
        log_time : float or ndarray
            Logarithm of real over predicted times [-].

        Returns
        -------
        ndarray
            Per request [USD].

        Examples
        --------
        >>> one = Priced(2.0, 1.5, deployed=Deployed("m", "c", "e", "w", "usual", Layout(), 8.0, 0.3))
        >>> one.costs(np.log([0.6, 1.0, 1.4])).tolist()
        [1.0, 2.0, 3.0]
        """
        moved = np.asarray(log_time, float)
        slower = np.exp(np.where(moved > 0, self.steepness, 1.0) * moved)
        if self.deployed is None:
            return np.full(np.shape(slower), self.usd)
        ratio = slower if self.load is None else _replicas(self.load * slower) / _replicas(self.load)
        return np.where(log_time > self.last_score * self.deployed.spread, np.inf, self.usd * ratio)

    @property
    def interval_usd(self) -> tuple[float, float]:
        """5 and 95 % quantiles of the cost; infinite where the promise is not kept with that chance [USD]."""
        spread = self.deployed.spread if self.deployed else 0.0
        scores = _normal(_OWN)
        costs = np.sort((self.costs(spread * scores)[:, None] * np.exp(self.price_spread * scores)).ravel())
        low, high = (costs[round(share * (costs.size - 1))] for share in (0.05, 0.95))
        return float(low), float(high)

    @property
    def rent_interval_usd(self) -> tuple[float, float]:
        """5 and 95 % quantiles of the cost of a fleet as large as it is, which moves with its price alone [USD]."""
        low, high = (self.usd * math.exp(score * self.price_spread) for score in (-Z_95, Z_95))
        return low, high


def cheaper_probability(one: Priced, other: Priced) -> float:
    """Probability that one offer is in truth the cheaper one; what cannot be told apart counts half.

    Parameters
    ----------
    one, other : Priced
        Two offers for the same workload.

    Returns
    -------
    float
        Together with the same of the two swapped it is 1 [-].

    Examples
    --------
    >>> h100 = Deployed("llama", "h100", "vllm", "fp8", "usual", Layout(tp=8), 64.0, 0.4)
    >>> b200 = Deployed("llama", "b200", "vllm", "fp8", "usual", Layout(tp=8), 64.0, 0.4)
    >>> cheap, dear, other = Priced(1.0, deployed=h100), Priced(1.05, deployed=h100), Priced(1.05, deployed=b200)
    >>> cheaper_probability(cheap, dear), cheaper_probability(cheap, cheap)
    (1.0, 0.5)
    >>> 0.55 < cheaper_probability(cheap, other) < 0.65
    True
    """
    first, second = _log_times(one.deployed, other.deployed)
    mine, theirs = one.costs(first)[:, None], other.costs(second)[:, None]
    apart = 0.0 if one.price_of == other.price_of else float(np.hypot(one.price_spread, other.price_spread))
    prices = np.exp(apart * _normal(_PRICES)) if apart else np.ones(1)
    mine, theirs = mine * np.sqrt(prices), theirs / np.sqrt(prices)
    is_less, is_more = mine < theirs * (1 - _EQUAL), mine * (1 - _EQUAL) > theirs
    return float(np.mean(0.5 + 0.5 * is_less - 0.5 * is_more))


def _log_times(one: Deployed | None, other: Deployed | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logarithms of real over predicted times of two offers: a part that they share, and half of what they do not."""
    if one is None or other is None:
        lone = _normal(_OWN)
        return tuple(lone * (each.spread if each else 0.0) for each in (one, other))  # type: ignore[return-value]
    apart = one.apart(other)
    own = _student_2(_OWN)[:, None] * apart / 2
    squares = [np.sqrt(max(each.spread**2 - (apart / 2) ** 2, 0.0)) for each in (one, other)]
    shared = _normal(_SHARED)[None, :]
    return (shared * squares[0] + own).ravel(), (shared * squares[1] - own).ravel()


@functools.cache
def _normal(n: int) -> NDArray[np.float64]:
    """Quantiles of the standard normal distribution at the middles of so many equal shares."""
    inverse = NormalDist().inv_cdf
    return np.array([inverse((place + 0.5) / n) for place in range(n)])


@functools.cache
def _student_2(n: int) -> NDArray[np.float64]:
    """Quantiles of Student's t with two degrees of freedom at the middles of so many equal shares."""
    share = (np.arange(n) + 0.5) / n
    return np.asarray((2 * share - 1) * np.sqrt(2 / (4 * share * (1 - share))), float)


@dataclass(frozen=True, slots=True)
class PromisedFleet:
    """How the size of a fleet that keeps a promise moves.

    Attributes
    ----------
    n_replicas : int or None
        At the medians; None where it is not made of equal replicas, as two pools are not [-].
    headroom_fraction : float or None
        Load beyond the one asked about under which it keeps the promise; None beyond twice as much [-].
    sure_ratio : float or None
        GPUs that keep it with a chance of 90 % over its own; None where no number does [-].
    """

    n_replicas: int | None
    headroom_fraction: float | None
    sure_ratio: float | None


def fleet_priced(usd: float, fleet: PromisedFleet, deployed: Deployed) -> Priced:
    """Price a fleet that keeps a promise: its cost moves in whole replicas.

    Parameters
    ----------
    usd : float
        Per request [USD].
    fleet : PromisedFleet
        How its size moves.
    deployed : Deployed
        What it runs on.

    Returns
    -------
    Priced
        Whose steepness is that from the median to the times of the slowest tenth.

    Examples
    --------
    >>> on = Deployed("m", "c", "e", "w", "usual", Layout(), 8.0, 0.3)
    >>> fleet = fleet_priced(1.0, PromisedFleet(5, 0.05, 8 / 5), on)
    >>> round(float(fleet.costs(0.3 * Z_90)), 2), round(float(fleet.costs(-0.3 * Z_90)), 2)
    (1.6, 0.8)
    """
    n, load, slow = fleet.n_replicas, None, fleet.sure_ratio
    if n is not None:
        room = 1.0 if fleet.headroom_fraction is None else max(fleet.headroom_fraction, 0.0)
        load = max(n / (1 + room), n - 1 + _EQUAL * 10)
        slow = None if slow is None else max(n * slow - 0.5, load) / load
    if slow is None:
        return Priced(usd, load, 1.0, Z_90, deployed)
    grows = float(np.log(slow)) / (Z_90 * deployed.spread) if slow > 1 and deployed.spread else 1.0
    return Priced(usd, load, max(grows, 1.0), float("inf"), deployed)


def spread_of(low: float, high: float) -> float:
    """Standard deviation of the logarithm of a quantity with these 5 and 95 % quantiles.

    Parameters
    ----------
    low, high : float
        In one unit.

    Returns
    -------
    float
        [-]

    Examples
    --------
    >>> round(spread_of(0.5, 2.0), 3)
    0.421
    """
    return float(np.log(high / low)) / (2 * Z_95)


def chances(offers: Sequence[Priced]) -> NDArray[np.float64]:
    """Probability of each offer to be cheaper than each other one; 1/2 on the diagonal.

    Parameters
    ----------
    offers : sequence of Priced
        For one workload.

    Returns
    -------
    ndarray
        By row the one that is cheaper, by column the other [-].

    Examples
    --------
    >>> chances([Priced(1.0), Priced(2.0)]).tolist()
    [[0.5, 1.0], [0.0, 0.5]]
    """
    found = np.full((len(offers), len(offers)), 0.5)
    for place, one in enumerate(offers):
        for other in range(place):
            found[place, other] = cheaper_probability(one, offers[other])
            found[other, place] = 1 - found[place, other]
    return found


def cheapest_probabilities(fleets: Sequence[Priced]) -> NDArray[np.float64]:
    """Probability of each fleet, as large as it is, to be the cheapest of all as rents differ.

    Fleets whose price is of the same thing move together; the rents of others are independent.

    Parameters
    ----------
    fleets : sequence of Priced
        For one workload; their cost moves with its price alone.

    Returns
    -------
    ndarray
        Of each; together 1 [-].

    Examples
    --------
    >>> h100, b200 = (Priced(usd, price_spread=0.2, price_of=chip) for usd, chip in ((1.0, "h100"), (1.05, "b200")))
    >>> cheapest_probabilities([h100, b200]).round(2).tolist()
    [0.57, 0.43]
    """
    scores, share_below = _normal(_OWN), np.vectorize(NormalDist().cdf, otypes=[float])
    logs = [math.log(max(one.usd, _EQUAL)) for one in fleets]
    names = [one.price_of or str(place) for place, one in enumerate(fleets)]
    found = []
    for place, one in enumerate(fleets):
        mine = logs[place] + one.price_spread * scores
        least = np.ones_like(mine)
        for name in dict.fromkeys(names):
            others = [each for each, of in enumerate(names) if of == name and each != place]
            if name == names[place]:
                for each in others:
                    least *= np.heaviside(logs[each] + fleets[each].price_spread * scores - mine, 0.5)
            elif others:
                needed = [(mine - logs[each]) / max(fleets[each].price_spread, _EQUAL) for each in others]
                least *= 1 - share_below(np.max(needed, axis=0))
        found.append(float(np.mean(least)))
    return np.array(found)
