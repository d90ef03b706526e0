"""Open models treated as closed: is the truth in the interval, and how far off is the median."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.economics.prices.points import PricePoints, shipped_points
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
from computeledger.frontier.trends import date_of

Floats = NDArray[np.float64]


#: Clues that open models can be told by as if they were closed.
TRIED = ("price", "output speed", "release date", "benchmark scores", "GPU-hours")


@dataclass(frozen=True, slots=True)
class Tried:
    """How well open models were told by some clues, of each those that are known: ``n`` models, ``held`` of them."""

    clues: tuple[str, ...]
    n: int
    median_error_ratio: float
    held: int


@dataclass(frozen=True, slots=True)
class Trial:
    """An open model treated as closed: what is true of it, and what its scraps say."""

    name: str
    n_params_active: float
    found: dict[str, Floats]
    n_clues: int

    @property
    def error_ratio(self) -> float:
        """Factor between the median and the truth, at least 1 [-]."""
        return math.exp(abs(math.log(self.found["n_params_active"][2] / self.n_params_active)))

    @property
    def held(self) -> bool:
        """Whether the 90 % interval holds the truth."""
        return bool(self.found["n_params_active"][0] <= self.n_params_active <= self.found["n_params_active"][4])


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
        out.append(Trial(one.name, one.n_params_active, found, len(clues)))
    return out


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
    return Tried(known, len(found), ratio, sum(one.held for one in found))


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
            out.append(Trial(one.name, one.n_params_active, found, 1))
    return out
