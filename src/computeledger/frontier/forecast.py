"""Forecasts of the largest training run and the largest site, when a run becomes possible, and their back-test."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from computeledger.arrays import MAX_SAMPLES, Num
from computeledger.errors import InputError
from computeledger.facts.load import load_system
from computeledger.facts.reading import read_facts
from computeledger.frontier.epoch_files import COPY_DATE, SiteDate, shipped_runs, shipped_sites
from computeledger.frontier.text import frontier_document
from computeledger.frontier.trends import (
    QUARTERS_PER_YEAR,
    Drift,
    Floats,
    Predicted,
    Series,
    choose_model,
    drift_of,
    line,
    predict,
    quarter_ends,
    record_series,
    year_of,
)
from computeledger.units import YEAR_S

#: Last day that the shipped copy of the training runs covers.
RUNS_DATE = "2026-04-27"
CUTOFF = "2024-12-31"
#: Furthest that a forecast looks [year].
HORIZON_YEARS = 30.0


def run_series(last: str = RUNS_DATE) -> Series:
    """The largest training run known, by quarter.

    Parameters
    ----------
    last : str
        Last day to look at, ISO.

    Returns
    -------
    Series
        In FLOP.

    Examples
    --------
    >>> found = run_series()
    >>> found.dates[-1], f"{found.values[-1]:.2g}"
    ('2026-03-31', '5e+26')
    """
    runs = [(one.date, one.training_flop) for one in shipped_runs()]
    return record_series("largest training run", "FLOP", runs, min(last, RUNS_DATE))


def site_series(sites: Sequence[SiteDate] | None = None, last: str = COPY_DATE) -> Series:
    """Facility power of the largest site, by quarter, without projections.

    Parameters
    ----------
    sites : sequence of SiteDate, optional
        Data; what ships when left out.
    last : str
        Last day to look at, ISO.

    Returns
    -------
    Series
        In W.

    Examples
    --------
    >>> found = site_series()
    >>> found.dates[-1], float(found.values[-1] / 1e6)
    ('2026-06-30', 1092.0)
    """
    data = shipped_sites() if sites is None else sites
    powers = [(one.date, one.facility_w) for one in data if one.facility_w is not None]
    found = record_series("largest site", "W", powers, min(last, COPY_DATE))
    return replace(found, cause=run_series(last), cause_excess=efficiency_growth_log10())


@functools.cache
def efficiency_growth_log10() -> float:
    """Growth of bf16 FLOP/s per watt of IT power, from the A100 to the H100.

    The last two generations that were on sale before the sites begin to grow: nothing later enters a back-test.

    Returns
    -------
    float
        As powers of ten a year [-].

    References
    ----------
    epoch-ml-hardware; epoch-it-power.

    Examples
    --------
    >>> round(10 ** efficiency_growth_log10(), 2)
    1.35
    """
    rates = []
    for name in ("a100-nvl8", "h100-nvl8"):
        system = load_system(name)
        rates.append(system.accelerator.peak("bf16") / system.it_w_per_chip.value)
    document = frontier_document()
    between_s = read_facts(document, "efficiency", document.table["efficiency"])["between_chips_s"].value
    return math.log10(rates[1] / rates[0]) / (between_s / YEAR_S)


@dataclass(frozen=True, slots=True)
class Tested:
    """A series forecast from a cut-off, beside what came.

    Attributes
    ----------
    series : Series
        Whole, with what came.
    model : str
        That the data up to the cut-off chose.
    past_scores : mapping of str to float
        Its ground: score of each model's intervals before the cut-off, as powers of ten [-].
    dates : tuple of str
        Quarters that were forecast.
    predicted : Predicted
        For them.
    observed : ndarray
        Logarithms of what came [-].
    """

    series: Series
    model: str
    past_scores: Mapping[str, float]
    dates: tuple[str, ...]
    predicted: Predicted
    observed: Floats

    @property
    def errors(self) -> Floats:
        """Observed less forecast, as powers of ten [-]."""
        return self.observed - self.predicted.middle

    @property
    def inside(self) -> Floats:
        """1 where the 90 % interval holds what came, else 0 [-]."""
        return (np.abs(self.errors) <= self.predicted.spread).astype(float)

    @property
    def widths(self) -> Floats:
        """Width of the 90 % interval, as powers of ten [-]."""
        return 2.0 * self.predicted.spread


def backtest_series(series: Series, cutoff: str = CUTOFF) -> Tested:
    """Forecast the quarters after a cut-off from those before it.

    Parameters
    ----------
    series : Series
        With quarters on both sides.
    cutoff : str
        ISO.

    Returns
    -------
    Tested
        Forecast and outcome.

    Raises
    ------
    InputError
        Nothing to fit on, or nothing after the cut-off.

    Examples
    --------
    >>> backtest_series(run_series()).model
    'trend'
    """
    known = series.before(cutoff)
    model, scores = choose_model(known)
    after = slice(len(known.dates), None)
    if not series.dates[after]:
        raise InputError(f"cut-off {cutoff}: no quarter of the {series.name} lies after it (last: {series.dates[-1]})")
    found = predict(model, known, series.years[after])
    return Tested(series, model, scores, series.dates[after], found, series.log10[after])


@dataclass(frozen=True, slots=True)
class Backtest:
    """Both series forecast from a cut-off.

    Attributes
    ----------
    cutoff : str
        ISO.
    parts : tuple of Tested
        Training runs, and sites.
    """

    cutoff: str
    parts: tuple[Tested, ...]

    def _all(self, name: str) -> Floats:
        return np.concatenate([getattr(one, name) for one in self.parts])

    @property
    def coverage_90(self) -> float:
        """Share of quarters inside their 90 % interval [-]."""
        return float(np.mean(self._all("inside")))

    @property
    def n(self) -> int:
        """Quarters forecast [-]."""
        return len(self._all("inside"))

    @property
    def median_abs_log10_error(self) -> float:
        """Of the quarters, as powers of ten [-]."""
        return float(np.median(np.abs(self._all("errors"))))

    @property
    def median_width_log10_90(self) -> float:
        """Of the 90 % intervals, as powers of ten [-]."""
        return float(np.median(self._all("widths")))

    @property
    def largest_width_log10_90(self) -> float:
        """Of the 90 % intervals, as powers of ten [-]."""
        return float(np.max(self._all("widths")))


def backtest(cutoff: str = CUTOFF, sites: Sequence[SiteDate] | None = None) -> Backtest:
    """Forecast from a cut-off what is known now.

    Parameters
    ----------
    cutoff : str
        ISO.
    sites : sequence of SiteDate, optional
        Data; what ships when left out.

    Returns
    -------
    Backtest
        Coverage, error and width.

    Examples
    --------
    >>> found = backtest()
    >>> found.n, 0.75 <= found.coverage_90 <= 0.98, found.median_width_log10_90 < 1.0
    (11, True, True)
    """
    return Backtest(cutoff, tuple(backtest_series(one, cutoff) for one in (run_series(), site_series(sites))))


@dataclass(frozen=True, slots=True)
class Reached:
    """When a series reaches a value.

    Attributes
    ----------
    series : Series
        What was fitted.
    model : str
        That fits it best.
    target : float
        In the series' own unit.
    years : ndarray
        Samples of the date; infinite where it is not reached within the horizon [year].
    growth_ratio : float or ndarray
        Growth per year, samples [-].
    """

    series: Series
    model: str
    target: float
    years: Floats
    growth_ratio: Num

    def probability_by(self, date: str) -> float:
        """Chance that the value is reached by a date.

        Parameters
        ----------
        date : str
            ISO.

        Returns
        -------
        float
            Share of the samples [-].
        """
        return float(np.mean(self.years <= year_of(date)))


def when_reached(series: Series, target: float, n_samples: int = 10_000, seed: int = 0) -> Reached:
    """Forecast when a record series reaches a value.

    Parameters
    ----------
    series : Series
        Known.
    target : float
        In the series' own unit.
    n_samples : int
        Paths [-].
    seed : int
        Of the sampling [-].

    Returns
    -------
    Reached
        With samples of the date.

    Raises
    ------
    InputError
        A target that is not positive, or too few or too many samples.

    Examples
    --------
    >>> found = when_reached(run_series(), 1e28)
    >>> 2027 < float(np.median(found.years)) < 2031
    True
    """
    if not target > 0:
        raise InputError(f"target {target:g}: more than 0 is needed")
    if not 2 <= n_samples <= MAX_SAMPLES:
        raise InputError(f"samples = {n_samples}: between 2 and {MAX_SAMPLES:,} are drawn")
    model, _ = choose_model(series)
    draw = np.random.default_rng([seed, *series.name.encode()])
    goal = float(np.log10(target))
    paths = (n_samples, draw)
    years, slope = (
        _trend(series, goal, paths) if model == "trend" else _walk(series, goal, drift_of(model, series), paths)
    )
    if series.values[-1] >= target:
        years = np.full(
            n_samples, year_of(next(d for d, v in zip(series.dates, series.values, strict=True) if v >= target))
        )
    return Reached(series, model, target, years, 10.0**slope)


def _trend(series: Series, goal: float, paths: tuple[int, np.random.Generator]) -> tuple[Floats, Floats]:
    """Straight lines with uncertain level and slope; each path keeps its distance from the line."""
    (n, draw), x, y = paths, series.years, series.log10
    slope, scatter, error = line(series)
    scale = np.sqrt((len(x) - 2) / draw.chisquare(len(x) - 2, n))
    slopes = slope + scale * error * draw.standard_normal(n)
    levels = y.mean() + scale * scatter * (draw.standard_normal(n) / np.sqrt(len(x)) + draw.standard_normal(n))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(slopes > 0, x.mean() + (goal - levels) / slopes, np.inf)
    return np.where(found > x[-1] + HORIZON_YEARS, np.inf, np.maximum(found, x[-1])), slopes


def _walk(series: Series, goal: float, drift: Drift, paths: tuple[int, np.random.Generator]) -> tuple[Floats, Floats]:
    """Paths that drift from the last quarter; the drift is uncertain, each quarter adds its own step."""
    n, draw = paths
    scale = np.sqrt(drift.n_free / draw.chisquare(drift.n_free, n))
    drifts = drift.mean + scale * drift.error * draw.standard_normal(n)
    first = np.full(n, np.inf)
    height, record = np.full(n, series.log10[-1]), np.full(n, series.log10[-1])
    for quarter in range(1, int(HORIZON_YEARS * QUARTERS_PER_YEAR) + 1):
        height = height + drifts + scale * drift.scatter * draw.standard_normal(n)
        record = np.maximum(record, height)
        reached = np.isinf(first) & (record >= goal)
        first[reached] = series.years[-1] + quarter / QUARTERS_PER_YEAR
    return first, drifts * QUARTERS_PER_YEAR


def forecast_series(series: Series, until: str) -> tuple[list[str], Predicted]:
    """Forecast a series by quarter.

    Parameters
    ----------
    series : Series
        Known.
    until : str
        ISO.

    Returns
    -------
    tuple of list of str and Predicted
        Ends of quarters, and logarithms.

    Raises
    ------
    InputError
        Nothing lies ahead.

    Examples
    --------
    >>> forecast_series(run_series(), "2026-12-31")[0]
    ['2026-06-30', '2026-09-30', '2026-12-31']
    """
    ends = [one for one in quarter_ends(series.dates[-1], until) if one > series.dates[-1]]
    if not ends:
        raise InputError(f"until {until}: the data of the {series.name} reach {series.dates[-1]} already")
    model, _ = choose_model(series)
    return ends, predict(model, series, np.array([year_of(one) for one in ends]))
