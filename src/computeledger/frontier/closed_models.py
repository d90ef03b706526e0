"""What scraps say of a closed model: laws of each clue, fitted on open models, and the prior that they begin from.

The state is the year and five logarithms: active parameters, total over active, pretraining tokens, utilisation of the
run, and price of a GPU-hour. Mixtures of experts and dense models are a class each. Every law is fitted on open models
and can be fitted without some of them, which is how the intervals are tested.
"""

from __future__ import annotations

import csv
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95, Range, Uncertain
from computeledger.economics.prices.points import (
    PricePoints,
    open_models,
    release_dates,
    shipped_points,
    without_models,
)
from computeledger.economics.quality.drift import MARKET_DATE, market_drift
from computeledger.economics.quality.value import years_between
from computeledger.facts.catalog import shipped_file
from computeledger.facts.load import load_accelerator
from computeledger.frontier.capability import FLOP_0, INDEX, YEAR_0, CapabilityLaw, fitted_capability, index_of
from computeledger.frontier.clues import WRONG, Clue, Mixture, learn, surprise
from computeledger.frontier.epoch_files import shipped_runs
from computeledger.frontier.trends import year_of
from computeledger.units import DAY_S, HOUR_S, format_si, format_usd

Floats = NDArray[np.float64]

#: Places in the state.
ACTIVE, SPARSITY, TOKENS, YEAR, USED, RENT = range(6)
_N = 6
#: A mixture of experts stores at least so many times its active parameters; those that store less count as dense.
_LEAST_SPARSITY = 1.2
#: First year of the runs that the prior is fitted on (before it, tokens followed another rule).
_FIRST_YEAR = 2022.0
#: What a figure without a range is good for: 90 % within a factor of so much (assumption).
FIGURE_RATIO = 1.2
#: Price of a rented GPU-hour where nothing is said [USD/h] (assumption).
RENT_USD_PER_HOUR = Range(1.5, 4.0)
#: Ends of nine tenths and of four fifths around the median, and then of half.
QUANTILE_SHARES = (0.05, 0.1, 0.5, 0.9, 0.95, 0.25, 0.75)
#: Scatter of a stated day about when the model was done [year] (assumption).
_DAYS = 0.01
#: A clue that is less likely than this, given the others, is a conflict.
CONFLICT = 0.05


@dataclass(frozen=True, slots=True)
class Trained:
    """An open model whose training was published."""

    name: str
    run: str
    year: float
    n_params_active: float
    n_params_total: float
    tokens: float | None
    accelerator_id: str
    gpu_hours: float | None
    source: str
    locator: str


@functools.cache
def trained_models() -> tuple[Trained, ...]:
    """Open models with published tokens or GPU-hours.

    Examples
    --------
    >>> sum(one.gpu_hours is not None for one in trained_models())
    18
    """
    rows = csv.DictReader(shipped_file("frontier", "trained.csv").read_text("utf-8").splitlines())
    return tuple(
        Trained(
            row["name"], row["run"], year_of(row["date"]), float(row["n_params_active"]), float(row["n_params_total"]),
            float(row["tokens"]) if row["tokens"] else None, row["accelerator"],
            float(row["gpu_hours"]) if row["gpu_hours"] else None, row["source"], row["locator"],
        )
        for row in rows
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Laws:
    """Laws of prior and clues: coefficients, and the covariance of what they leave.

    Attributes
    ----------
    prior : Mixture
        Of the state, before any clue.
    price, speed : tuple of ndarray
        Constants, coefficients on active parameters and sparsity, covariance of the rest [-].
    capability : CapabilityLaw
        Index of benchmarks by FLOP and date.
    """

    prior: Mixture
    price: tuple[Floats, Floats, Floats]
    speed: tuple[Floats, Floats, Floats]
    capability: CapabilityLaw


@functools.cache
def fitted_laws(without: frozenset[str] = frozenset()) -> Laws:
    """Fit every law on open models.

    Parameters
    ----------
    without : frozenset of str
        Models that are left out of all of them.

    Returns
    -------
    Laws
        Prior, price, speed and capability.

    Examples
    --------
    >>> laws = fitted_laws()
    >>> laws.price[1][:, 0].round(2).tolist()
    [0.74, 0.65]
    """
    price = _price_law(without_models(shipped_points(), sorted(without)))
    return Laws(_prior(without), price, _speed_law(without), fitted_capability(without))


def _sizes(without: frozenset[str]) -> Floats:
    """Log active, log sparsity and year of open models and of runs whose size follows from FLOP over tokens."""
    dates = release_dates()
    rows = [
        (math.log(one.n_params_active), math.log(one.n_params_total / one.n_params_active), year_of(dates[name]))
        for name, one in open_models().items() if name not in without
    ]  # fmt: skip
    named = {one.run: one.name for one in trained_models()}
    for run in shipped_runs():
        if run.tokens and run.n_params and run.name not in named and year_of(run.date) >= _FIRST_YEAR:
            active = min(run.training_flop / (6.0 * run.tokens), run.n_params)
            rows.append((math.log(active), math.log(run.n_params / active), year_of(run.date)))
    return np.asarray(np.array(rows) - np.array([0.0, 0.0, YEAR_0]), float)


def _tokens(without: frozenset[str]) -> Floats:
    """Log tokens, log active parameters and year of models that state their tokens."""
    known = [one for one in trained_models() if one.tokens and one.name not in without]
    rows = [(math.log(one.tokens or 1.0), math.log(one.n_params_active), one.year) for one in known]
    named = {one.run for one in trained_models()}
    for run in shipped_runs():
        if run.tokens and run.n_params and run.name not in named and year_of(run.date) >= _FIRST_YEAR:
            active = min(run.training_flop / (6.0 * run.tokens), run.n_params)
            rows.append((math.log(run.tokens), math.log(active), year_of(run.date)))
    return np.asarray(np.array(rows) - np.array([0.0, 0.0, YEAR_0]), float)


def _utilizations(without: frozenset[str]) -> Floats:
    """Log of 6 N D over what the hours could do at bf16's peak."""
    known = [one for one in trained_models() if one.tokens and one.gpu_hours and one.name not in without]
    could = [(one.gpu_hours or 0.0) * _peak_per_hour(one.accelerator_id) for one in known]
    did = [6.0 * one.n_params_active * (one.tokens or 0.0) for one in known]
    return np.asarray(np.log(np.array(did) / np.array(could)), float)


def _peak_per_hour(accelerator_id: str) -> float:
    return load_accelerator(accelerator_id).peak("bf16") * HOUR_S


def _prior(without: frozenset[str]) -> Mixture:
    sizes, tokens, used = _sizes(without), _tokens(without), _utilizations(without)
    design = np.column_stack([np.ones(len(tokens)), tokens[:, 1:]])
    law, rest, _ = _regressed(design, tokens[:, :1])
    sparse = sizes[:, 1] > math.log(_LEAST_SPARSITY)
    weight, means, spreads = [], [], []
    for mask in (sparse, ~sparse):
        of = sizes[mask]
        dense = not np.any(of[:, 1] > math.log(_LEAST_SPARSITY))
        mean, spread = np.zeros(_N), np.zeros((_N, _N))
        places = [ACTIVE, YEAR] if dense else [ACTIVE, SPARSITY, YEAR]
        columns = of[:, [0, 2]] if dense else of
        mean[places] = columns.mean(axis=0)
        spread[np.ix_(places, places)] = np.cov(columns.T) * (1.0 + 1.0 / len(of))
        # sizes of models that are sold have no trend (t = 0.5); with runs beside them, of which only large ones are
        # listed and most are older, they would seem to shrink
        spread[ACTIVE, YEAR] = spread[YEAR, ACTIVE] = 0.0
        row = np.zeros(_N)
        row[ACTIVE], row[YEAR] = law[1, 0], law[2, 0]
        crossed = spread @ row
        mean[TOKENS] = law[0, 0] + row @ mean
        spread[TOKENS], spread[:, TOKENS] = crossed, crossed
        spread[TOKENS, TOKENS] = row @ crossed + rest[0, 0]
        mean[USED], spread[USED, USED] = used.mean(), used.var(ddof=1) * (1.0 + 1.0 / len(used))
        mean[RENT], spread[RENT, RENT] = _log_normal(RENT_USD_PER_HOUR)
        weight.append(float(mask.mean()))
        means.append(mean)
        spreads.append(spread)
    return Mixture(np.array(weight), np.array(means), np.array(spreads), np.zeros((2, 0)))


def _regressed(design: Floats, target: Floats, weight: Floats | None = None) -> tuple[Floats, Floats, Floats]:
    """Coefficients, covariance of what is left (for a new row), and the rest."""
    root = np.ones(len(design)) if weight is None else np.sqrt(weight)
    found = np.asarray(np.linalg.lstsq(design * root[:, None], target * root[:, None], rcond=None)[0], float)
    rest = (target - design @ found) * root[:, None]
    count = float((root**2).sum())
    free = count - design.shape[1]
    return found, rest.T @ rest / free * (1.0 + design.shape[1] / count), rest


def _price_law(points: PricePoints) -> tuple[Floats, Floats, Floats]:
    """Log price of input and of output from log active parameters and sparsity; every model counts once."""
    _, rows, counts = np.unique(points.model, return_inverse=True, return_counts=True)
    design = np.column_stack([np.ones(len(rows)), points.log_active, points.log_total - points.log_active])
    target = np.column_stack([points.log_input, points.log_output])
    law, rest, _ = _regressed(design, target, 1.0 / counts[rows])
    return law[0], law[1:].T, rest


@functools.cache
def _speeds() -> tuple[tuple[str, float, float, float], ...]:
    rows = csv.DictReader(shipped_file("frontier", "speeds.csv").read_text("utf-8").splitlines())
    keys = ("n_params_active", "n_params_total", "tokens_per_s")
    return tuple((row["name"], *(float(row[key]) for key in keys)) for row in rows)  # type: ignore[misc]


#: Standard deviation of the logarithm of one model's speed over systems, formats and 8 to 128 requests in flight: the
#: median over the nine models of speeds.csv (1,845 rows of aiconfigurator's InferenceX table; 0.43 to 0.75; 2026-11).
_SPEED_SPREAD = 0.49


def served_speed(name: str) -> float | None:
    """Median measured tokens/s per user of an open model; None where none was measured.

    Examples
    --------
    >>> served_speed("Llama-3.1-70B"), served_speed("Phi-4")
    (73.0, None)
    """
    return next((speed for one, _, _, speed in _speeds() if one == name), None)


def _speed_law(without: frozenset[str]) -> tuple[Floats, Floats, Floats]:
    """Log tokens/s per user from log active parameters and sparsity: benchmarks of nine models, not of providers."""
    table = np.log(np.array([row[1:] for row in _speeds() if row[0] not in without]))
    design = np.column_stack([np.ones(len(table)), table[:, 0], table[:, 1] - table[:, 0]])
    law, rest, _ = _regressed(design, table[:, 2:])
    return law[0], law[1:].T, rest + _SPEED_SPREAD**2


def _log_normal(value: Uncertain, ratio: float = FIGURE_RATIO) -> tuple[float, float]:
    """Mean and variance of the logarithm; a figure without a range is good for a factor."""
    if isinstance(value, Range):
        return math.log(value.low * value.high) / 2.0, (math.log(value.high / value.low) / (2 * Z_95)) ** 2
    return math.log(float(np.median(value))), (math.log(ratio) / Z_95) ** 2


@dataclass(frozen=True, slots=True)
class Scraps:
    """What is known of a closed model; None where nothing is.

    Attributes
    ----------
    usd_per_mtok : tuple of float or None
        List prices of input and output [USD/Mtok].
    price_date : str or None
        Day on which they were listed, ISO; None for that of the shipped prices.
    premium_ratio : float or Range
        What its seller charges over the open market [-].
    tokens_per_s : float, Range or None
        Output speed that one user sees [token/s].
    release_date : str or None
        ISO.
    scores : mapping of str to float, or None
        Shares of right answers by benchmark, or Epoch's index as ``eci`` [-].
    training_usd, gpu_hours, flop, tokens, n_params_total : float, Range or None
        Cost [USD], hours [GPU-hour], FLOP, pretraining tokens [token] and stored parameters as leaked or claimed.
    chips, duration_s : float, Range or None
        Processors of the run and how long it took [s].
    power_w, w_per_chip : float, Range or None
        Power of the site during the run, and of one processor with all that belongs to it [W].
    accelerator_id : str
        Processor of the run.
    utilization_fraction, usd_per_gpu_hour : float, Range or None
        Of the run [-], [USD/h]; None takes those of open models and :data:`RENT_USD_PER_HOUR`.
    """

    usd_per_mtok: tuple[float, float] | None = None
    price_date: str | None = None
    premium_ratio: Uncertain = 1.0
    tokens_per_s: Uncertain | None = None
    release_date: str | None = None
    scores: Mapping[str, float] | None = None
    training_usd: Uncertain | None = None
    gpu_hours: Uncertain | None = None
    chips: Uncertain | None = None
    duration_s: Uncertain | None = None
    power_w: Uncertain | None = None
    w_per_chip: Uncertain = 1400.0
    flop: Uncertain | None = None
    tokens: Uncertain | None = None
    n_params_total: Uncertain | None = None
    accelerator_id: str = "h100-sxm5-80gb"
    utilization_fraction: Uncertain | None = None
    usd_per_gpu_hour: Uncertain | None = None


def _row(**places: float) -> Floats:
    row = np.zeros(_N)
    for name, factor in places.items():
        row[_PLACES[name]] = factor
    return row


_PLACES = {"active": ACTIVE, "sparsity": SPARSITY, "tokens": TOKENS, "year": YEAR, "used": USED, "rent": RENT}
_LOG_6 = math.log(6.0)
_HOURS = {"active": 1.0, "tokens": 1.0, "used": -1.0}


def clues_of(scraps: Scraps, laws: Laws) -> list[Clue]:
    """Every scrap as a linear clue.

    Parameters
    ----------
    scraps : Scraps
        What is known.
    laws : Laws
        Laws of open models.

    Returns
    -------
    list of Clue
        Date and run's terms first.

    Examples
    --------
    >>> found = clues_of(Scraps(usd_per_mtok=(2.0, 12.0), release_date="2025-06-01"), fitted_laws())
    >>> [one.name for one in found]
    ['release date', 'price']
    """
    out = []
    if scraps.release_date is not None:
        year = year_of(scraps.release_date) - YEAR_0
        exact = np.full((1, 1), _DAYS**2)
        out.append(Clue("release date", scraps.release_date, _row(year=1.0)[None], np.array([year]), exact, False))
    out += _market_clues(scraps, laws)
    peak = math.log(_peak_per_hour(scraps.accelerator_id)) - _LOG_6
    hours, variance = scraps.duration_s, 0.0
    log_hours = 0.0
    if hours is not None:
        log_hours, variance = _log_normal(hours)
        log_hours -= math.log(HOUR_S)
    watts = _log_normal(scraps.w_per_chip)
    stated = (
        ("training cost", "USD", scraps.training_usd, {**_HOURS, "rent": 1.0}, peak, 0.0),
        ("GPU-hours", "GPU-hours", scraps.gpu_hours, _HOURS, peak, 0.0),
        ("chips x time", "chips", scraps.chips, _HOURS, peak + log_hours, variance),
        ("power x time", "W", scraps.power_w, _HOURS, peak + log_hours - watts[0], variance + watts[1]),
        ("training FLOP", "FLOP", scraps.flop, {"active": 1.0, "tokens": 1.0}, -_LOG_6, 0.0),
        ("pretraining tokens", "tokens", scraps.tokens, {"tokens": 1.0}, 0.0, 0.0),
        ("total parameters", "params", scraps.n_params_total, {"active": 1.0, "sparsity": 1.0}, 0.0, 0.0),
    )
    for name, unit, value, places, shift, more in stated:
        if value is not None:
            mean, spread = _log_normal(value)
            said = _figure(value, unit) + (_for_days(hours) if "x time" in name else "")
            out.append(Clue(name, said, _row(**places)[None], np.array([mean + shift]), np.full((1, 1), spread + more)))
    return out


def _figure(value: Uncertain, unit: str) -> str:
    """A stated figure in a few characters."""
    ends = (value.low, value.high) if isinstance(value, Range) else (float(np.median(value)),)
    if unit == "USD":
        return " to ".join(map(format_usd, ends))
    if unit in ("W", "FLOP"):
        return " to ".join(format_si(one, unit) for one in ends)
    return f"{' to '.join(map(format_si, ends))} {unit}"


def _for_days(duration_s: Uncertain | None) -> str:
    ends = (
        (duration_s.low, duration_s.high) if isinstance(duration_s, Range) else (float(np.median(duration_s or 0.0)),)
    )
    return f" for {' to '.join(f'{one / DAY_S:.3g}' for one in ends)} days"


def _market_clues(scraps: Scraps, laws: Laws) -> list[Clue]:
    """Prices, speed and scores, by their laws."""
    out = []
    if scraps.usd_per_mtok is not None:
        constant, slopes, noise = laws.price
        mean, spread = _log_normal(scraps.premium_ratio, 1.0)
        matrix = np.zeros((2, _N))
        matrix[:, [ACTIVE, SPARSITY]] = slopes
        drift, years = market_drift(), years_between(scraps.price_date or MARKET_DATE, MARKET_DATE)
        value = np.log(scraps.usd_per_mtok) + drift.per_year * years - mean - constant
        spread += (drift.error * years) ** 2
        said = " and ".join(format_usd(one) for one in scraps.usd_per_mtok) + " per Mtok"
        said += f" on {scraps.price_date}" if scraps.price_date else ""
        out.append(Clue("price", said, matrix, value, noise + spread))
    if scraps.tokens_per_s is not None:
        constant, slopes, noise = laws.speed
        mean, spread = _log_normal(scraps.tokens_per_s)
        matrix = np.zeros((1, _N))
        matrix[:, [ACTIVE, SPARSITY]] = slopes
        said = _figure(scraps.tokens_per_s, "tokens/s")
        out.append(Clue("output speed", said, matrix, mean - constant, noise + spread))
    if scraps.scores:
        out.append(_score_clue(scraps.scores, laws.capability))
    return out


def _score_clue(scores: Mapping[str, float], law: CapabilityLaw) -> Clue:
    """Benchmarks: an index that follows FLOP, which is active parameters times tokens, and the date."""
    index, error = index_of(scores)
    row = _row(active=law.per_log_flop, tokens=law.per_log_flop, year=law.per_year)
    value = index - law.constant - law.per_log_flop * (_LOG_6 - math.log(FLOP_0))
    said = ", ".join(f"{name} {one:g}" if name == INDEX else f"{name} {one:.0%}" for name, one in scores.items())
    return Clue("benchmark scores", said, row[None], np.array([value]), np.full((1, 1), law.spread**2 + error**2))


def prior_of(scraps: Scraps, laws: Laws) -> Mixture:
    """The prior, with the utilisation and the price of a GPU-hour that were given.

    Parameters
    ----------
    scraps : Scraps
        What is known.
    laws : Laws
        Laws of open models.

    Returns
    -------
    Mixture
        Of the state.

    Examples
    --------
    >>> given = prior_of(Scraps(utilization_fraction=Range(0.3, 0.5)), fitted_laws())
    >>> round(math.exp(given.mean[0, USED]), 3)
    0.387
    """
    mean, covariance = laws.prior.mean.copy(), laws.prior.covariance.copy()
    for place, given in ((USED, scraps.utilization_fraction), (RENT, scraps.usd_per_gpu_hour)):
        if given is not None:
            mean[:, place], covariance[:, place, place] = _log_normal(given, 1.001)
    return Mixture(laws.prior.weight, mean, covariance, laws.prior.wrong)


@dataclass(frozen=True, slots=True)
class Pull:
    """What one clue does.

    Attributes
    ----------
    clue : Clue
        Itself.
    alone, without : ndarray
        Quantiles of active parameters from this clue alone (and the date), and from all others [-].
    surprise : float
        Probability of a clue that is at least as far off, given the others [-].
    wrong_probability : float
        That it is wrong, given all clues [-].
    """

    clue: Clue
    alone: Floats
    without: Floats
    surprise: float
    wrong_probability: float

    @property
    def conflicts(self) -> bool:
        """Whether it contradicts the others, and is no less likely to be the wrong one than before."""
        doubted = not self.clue.may_be_wrong or self.wrong_probability > WRONG
        return self.surprise < CONFLICT and doubted


@dataclass(frozen=True, slots=True)
class ClosedModel:
    """The posterior of a closed model: quantiles of :data:`QUANTILE_SHARES` by quantity, and each clue's pull."""

    quantiles: dict[str, Floats]
    before: Floats
    pulls: tuple[Pull, ...]
    dense_probability: float


def quantities(accelerator_id: str) -> dict[str, tuple[Floats, float]]:
    """Linear functions of the state whose exponentials are the figures of a sheet.

    Examples
    --------
    >>> list(quantities("h100-sxm5-80gb"))[:3]
    ['n_params_active', 'n_params_total', 'tokens']
    """
    peak = _LOG_6 - math.log(_peak_per_hour(accelerator_id))
    return {
        "n_params_active": (_row(active=1.0), 0.0),
        "n_params_total": (_row(active=1.0, sparsity=1.0), 0.0),
        "tokens": (_row(tokens=1.0), 0.0),
        "training_flop": (_row(active=1.0, tokens=1.0), _LOG_6),
        "gpu_hours": (_row(**_HOURS), peak),
        "training_usd": (_row(**_HOURS, rent=1.0), peak),
        "stored_per_active_ratio": (_row(sparsity=1.0), 0.0),
        "utilization_fraction": (_row(used=1.0), 0.0),
        "usd_per_gpu_hour": (_row(rent=1.0), 0.0),
    }


def figures(after: Mixture, accelerator_id: str) -> dict[str, Floats]:
    """Quantiles of every quantity of a sheet; no model stores less than it multiplies.

    Examples
    --------
    >>> found = figures(fitted_laws().prior, "h100-sxm5-80gb")
    >>> bool(np.all(found["n_params_total"] >= found["n_params_active"]))
    True
    """
    rows = quantities(accelerator_id).items()
    found = {name: np.exp(after.quantiles(row, shift, QUANTILE_SHARES)) for name, (row, shift) in rows}
    found["n_params_total"] = np.maximum(found["n_params_total"], found["n_params_active"])
    return found


def infer(scraps: Scraps, laws: Laws | None = None) -> ClosedModel:
    """Join all scraps to one posterior, and say what each of them does.

    Parameters
    ----------
    scraps : Scraps
        What is known of the model.
    laws : Laws, optional
        Those of all open models when left out.

    Returns
    -------
    ClosedModel
        Quantiles and pulls.

    Examples
    --------
    >>> found = infer(Scraps(usd_per_mtok=(0.27, 1.1), release_date="2024-12-26", gpu_hours=2.8e6))
    >>> low, _, median, _, high, *_ = found.quantiles["n_params_active"]
    >>> bool(low < 37e9 < high)
    True
    """
    known = laws or fitted_laws()
    prior, clues = prior_of(scraps, known), clues_of(scraps, known)
    active = _row(active=1.0)
    after = learn(prior, clues)
    found = figures(after, scraps.accelerator_id)
    dated = [one for one in clues if not one.may_be_wrong]
    pulls = tuple(_pull(prior, clues, place, dated, after) for place in range(len(clues)))
    dense = float(after.weight[after.covariance[:, SPARSITY, SPARSITY] == 0.0].sum())
    return ClosedModel(found, np.exp(prior.quantiles(active, 0.0, QUANTILE_SHARES)), pulls, dense)


def _pull(prior: Mixture, clues: Sequence[Clue], place: int, dated: Sequence[Clue], after: Mixture) -> Pull:
    clue, active = clues[place], _row(active=1.0)
    rest = learn(prior, [one for one in clues if one is not clue])
    alone = learn(prior, [*(one for one in dated if one is not clue), clue])
    wrong = float(after.weight @ after.wrong[:, place]) if clue.may_be_wrong else 0.0
    without, own = (np.exp(one.quantiles(active, 0.0, QUANTILE_SHARES)) for one in (rest, alone))
    return Pull(clue, own, without, surprise(rest, clue), wrong)
