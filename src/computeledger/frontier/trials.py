"""Open models treated as closed: is the truth in the interval, and how far off is the median."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.economics.prices.points import PricePoints, open_models, shipped_points
from computeledger.economics.quality.evaluations import evaluated_models, evaluated_prices
from computeledger.frontier.capability import INDEX, rated_index
from computeledger.frontier.closed_models import (
    Scraps,
    Trained,
    clues_of,
    figures,
    fitted_laws,
    prior_of,
    served_speed,
    trained_models,
)
from computeledger.frontier.clues import learn
from computeledger.frontier.trends import date_of, year_of

Floats = NDArray[np.float64]


#: Clues that open models can be told by as if they were closed.
TRIED = ("price", "output speed", "release date", "benchmark scores", "GPU-hours")


@dataclass(frozen=True, slots=True)
class Tried:
    """How well open models were told by some clues, of each those that are known: ``n`` models, ``held`` of them.

    The last two are of total parameters, the others of active ones.
    """

    clues: tuple[str, ...]
    n: int
    median_error_ratio: float
    held: int
    median_error_ratio_total: float
    held_total: int


@dataclass(frozen=True, slots=True)
class Trial:
    """An open model treated as closed: what is true of it, and what its scraps say."""

    name: str
    n_params_active: float
    n_params_total: float
    found: dict[str, Floats]
    n_clues: int

    @property
    def error_ratio(self) -> float:
        """Factor between the median of active parameters and the truth, at least 1 [-]."""
        return _ratio(self.found["n_params_active"], self.n_params_active)

    @property
    def held(self) -> bool:
        """Whether the 90 % interval of active parameters holds the truth."""
        return _holds(self.found["n_params_active"], self.n_params_active)

    @property
    def error_ratio_total(self) -> float:
        """Factor between the median of total parameters and the truth, at least 1 [-]."""
        return _ratio(self.found["n_params_total"], self.n_params_total)

    @property
    def held_total(self) -> bool:
        """Whether the 90 % interval of total parameters holds the truth."""
        return _holds(self.found["n_params_total"], self.n_params_total)


def _ratio(quantiles: Floats, truth: float) -> float:
    return math.exp(abs(math.log(quantiles[2] / truth)))


def _holds(quantiles: Floats, truth: float) -> bool:
    return bool(quantiles[0] <= truth <= quantiles[4])


def median_sheet(points: PricePoints, name: str) -> tuple[float, float] | None:
    """Prices of the median seller of a model; None where nobody sells it.

    Examples
    --------
    >>> median_sheet(shipped_points(), "Phi-4")
    (0.07, 0.14)
    """
    own = points.where(points.model == name)
    if not len(own.model):
        return None
    order = np.argsort(own.log_input + own.log_output, kind="stable")
    place = order[(len(order) - 1) // 2]
    return float(np.exp(own.log_input[place]).round(6)), float(np.exp(own.log_output[place]).round(6))


def scraps_of(one: Trained) -> Scraps:
    """What would be known of an open model if it were closed: a price sheet, speed, date, capability index, GPU-hours.

    Examples
    --------
    >>> scraps_of(trained_models()[0]).gpu_hours
    2664000.0
    """
    index = rated_index(one.name)
    return Scraps(
        usd_per_mtok=median_sheet(shipped_points(), one.name),
        tokens_per_s=served_speed(one.name),
        release_date=date_of(one.year),
        scores=None if index is None else {INDEX: index},
        gpu_hours=one.gpu_hours,
        accelerator_id=one.accelerator_id,
    )


def itself(one: Trained) -> frozenset[str]:
    """The model alone: what a trial leaves out of every law.

    Examples
    --------
    >>> sorted(itself(trained_models()[0]))
    ['DeepSeek-V3']
    """
    return frozenset({one.name})


def family(one: Trained) -> frozenset[str]:
    """A model and all that share its first name: a harder trial.

    Examples
    --------
    >>> "Phi-4" in family(next(one for one in trained_models() if one.name == "Phi-3-mini"))
    True
    """
    first = one.name.split("-")[0]
    names = {*shipped_points().model.tolist(), *(other.name for other in trained_models())}
    return frozenset(name for name in names if name.split("-")[0] == first)


def trials(left_out: Callable[[Trained], frozenset[str]] = itself, keep: tuple[str, ...] = ()) -> list[Trial]:
    """Every open model with a price sheet and published GPU-hours, treated as closed.

    Parameters
    ----------
    left_out : callable
        Models that no law sees: :func:`itself` or :func:`family`.
    keep : tuple of str
        Names of the clues that are used; all where none is given.

    Returns
    -------
    list of Trial
        In the order of the table.

    Examples
    --------
    >>> len(trials(keep=("release date",)))
    18
    """
    known = [one for one in trained_models() if one.gpu_hours and median_sheet(shipped_points(), one.name)]
    out = []
    for one in known:
        scraps, laws = scraps_of(one), fitted_laws(left_out(one))
        clues = [clue for clue in clues_of(scraps, laws) if not keep or clue.name in keep]
        found = figures(learn(prior_of(scraps, laws), clues), one.accelerator_id)
        out.append(Trial(one.name, one.n_params_active, one.n_params_total, found, len(clues)))
    return out


def price_trials() -> list[Trial]:
    """Every open model of known size with a price sheet, told by that price alone, no law having seen it.

    Examples
    --------
    >>> found = price_trials()
    >>> sum(one.held_total for one in found) / len(found) > 0.85
    True
    """
    out = []
    for name, one in open_models().items():
        price = median_sheet(shipped_points(), name)
        if price is not None:
            laws, scraps = fitted_laws(frozenset({name})), Scraps(usd_per_mtok=price)
            found = figures(learn(prior_of(scraps, laws), clues_of(scraps, laws)), scraps.accelerator_id)
            out.append(Trial(name, one.n_params_active, one.n_params_total, found, 1))
    return out


#: Logarithm of the factor within which a price, of any seller and any time, counts as that of an open model (a choice).
_LN_SAME = math.log(3.0)
#: Years within which two days are the same.
_SAME_DAY = 1.0 / 400.0


def open_model_of(scraps: Scraps) -> Trained | None:
    """The open model that scraps are of: its day of release, its chip, and about its price.

    Examples
    --------
    >>> found = open_model_of(Scraps((0.27, 1.1), release_date="2024-12-26", accelerator_id="h800-sxm5-80gb"))
    >>> found.name
    'DeepSeek-V3'
    >>> open_model_of(Scraps((0.27, 1.1), release_date="2024-12-26")) is None
    True
    """
    for one in trained_models():
        own, given = median_sheet(shipped_points(), one.name), scraps.usd_per_mtok
        is_dated = scraps.release_date is not None and abs(year_of(scraps.release_date) - one.year) < _SAME_DAY
        if not (is_dated and scraps.accelerator_id == one.accelerator_id and own and given):
            continue
        if max(abs(math.log(theirs / ours)) for theirs, ours in zip(given, own, strict=True)) <= _LN_SAME:
            return one
    return None


@functools.cache
def tried_by(clues: tuple[str, ...]) -> Tried | None:
    """How far off open models are told by such of the clues as can be tried, no law having seen the model.

    Examples
    --------
    >>> found = tried_by(("price", "training cost"))
    >>> found.clues, found.n, found.median_error_ratio < 2
    (('price',), 18, True)
    >>> tried_by(("training cost",)) is None
    True
    """
    known = tuple(name for name in TRIED if name in clues)
    if not known:
        return None
    found = [one for one in trials(keep=known) if one.n_clues]
    ratio = float(np.median([one.error_ratio for one in found]))
    of_total = float(np.median([one.error_ratio_total for one in found]))
    held, held_total = (sum(getattr(one, name) for one in found) for name in ("held", "held_total"))
    return Tried(known, len(found), ratio, held, of_total, held_total)


def launch_trials(dated: bool) -> list[Trial]:
    """Open models whose market prices at their launch are known, treated as closed: those prices alone.

    Parameters
    ----------
    dated : bool
        Whether the sheet is told that they are of the launch.

    Returns
    -------
    list of Trial
        No law of sizes or prices has seen the model.

    Examples
    --------
    >>> dated, undated = (launch_trials(one) for one in (True, False))
    >>> bool(dated[0].found["n_params_active"][2] < undated[0].found["n_params_active"][2])
    True
    """
    prices, models = evaluated_prices("launch"), evaluated_models()
    launch = {models[one.version].open_model: one for one in prices.values() if one.basis == "market"}
    out = []
    for one in trained_models():
        if one.gpu_hours and one.name in launch:
            price, laws = launch[one.name], fitted_laws(itself(one))
            day = models[price.version].released if dated else None
            scraps = Scraps((price.usd_per_mtok_input, price.usd_per_mtok_output), price_date=day)
            found = figures(learn(prior_of(scraps, laws), clues_of(scraps, laws)), one.accelerator_id)
            out.append(Trial(one.name, one.n_params_active, one.n_params_total, found, 1))
    return out
