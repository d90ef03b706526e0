"""Trends of records by quarter: models chosen by the score of their own past intervals, with prediction intervals.

``trend`` is a straight line of the logarithm through the quarters; ``walk`` starts at the last quarter and drifts by
the mean of the past steps, its spread growing with the root of the time. ``driven`` is a walk whose drift is the mean
of its own and of what a cause implies: the power of the largest site has to follow the compute of the largest run,
less what chips gain per watt.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import t_95
from computeledger.errors import InputError
from computeledger.units import DAY_S, YEAR_S

Floats = NDArray[np.float64]

MODELS = ("trend", "walk", "driven")
#: Quarters that a model has seen before it is judged, quarters ahead it is judged on, fewest quarters of a series.
_FIRST, _AHEAD, MIN_QUARTERS = 8, 6, 10
#: Share of futures that an interval leaves out.
_OUTSIDE = 0.1
QUARTERS_PER_YEAR = 4.0


@dataclass(frozen=True, slots=True)
class Series:
    """The largest value so far at the end of each quarter.

    Attributes
    ----------
    name, unit : str
        What it is.
    dates : tuple of str
        Ends of quarters, ISO.
    values : ndarray
        In its own unit.
    cause : Series or None
        What pulls it along.
    cause_excess : float
        By which the cause grows faster, as powers of ten a year [-].
    """

    name: str
    unit: str
    dates: tuple[str, ...]
    values: Floats
    cause: Series | None = None
    cause_excess: float = 0.0

    @property
    def log10(self) -> Floats:
        """Logarithms [-]."""
        return np.asarray(np.log10(self.values))

    @property
    def years(self) -> Floats:
        """Ends of quarters as years."""
        return np.array([year_of(one) for one in self.dates])

    def before(self, date: str) -> Series:
        """The part that was known at a date.

        Parameters
        ----------
        date : str
            ISO; included.

        Returns
        -------
        Series
            Possibly shorter.
        """
        n = sum(one <= date for one in self.dates)
        cause = None if self.cause is None else self.cause.before(date)
        return replace(self, dates=self.dates[:n], values=self.values[:n], cause=cause)

    @property
    def models(self) -> tuple[str, ...]:
        """Models that can be judged on it: ``driven`` needs a cause that was known as early."""
        known = self.cause is not None and len(self.cause.before(self.dates[_FIRST - 1]).dates) >= _FIRST
        return MODELS if known else MODELS[:2]


def year_of(date: str) -> float:
    """A day as a number of years.

    Parameters
    ----------
    date : str
        ISO.

    Returns
    -------
    float
        Such as 2025.5 [year].

    Examples
    --------
    >>> round(year_of("2025-07-02"), 2)
    2025.5
    """
    day = datetime.date.fromisoformat(date)
    return day.year + (day - datetime.date(day.year, 1, 1)).days * DAY_S / YEAR_S


def date_of(years: float) -> str:
    """The day that a number of years names.

    Parameters
    ----------
    years : float
        Such as 2025.5 [year].

    Returns
    -------
    str
        ISO; after the year 9000 it says ``never``.

    Examples
    --------
    >>> date_of(2025.5), date_of(year_of("2026-12-01"))
    ('2025-07-02', '2026-12-01')
    """
    if not math.isfinite(years) or years > 9000:
        return "never"
    whole = math.floor(years)
    # a day is not lost to the last digit of the number of years
    days = math.floor(round((years - whole) * YEAR_S / DAY_S, 3))
    return (datetime.date(whole, 1, 1) + datetime.timedelta(days=days)).isoformat()


def quarter_ends(first: str, last: str) -> list[str]:
    """Ends of quarters between two days.

    Parameters
    ----------
    first, last : str
        ISO, both included.

    Returns
    -------
    list of str
        ISO.

    Examples
    --------
    >>> quarter_ends("2024-11-01", "2025-04-01")
    ['2024-12-31', '2025-03-31']
    """
    ends = ("03-31", "06-30", "09-30", "12-31")
    every = [f"{year}-{end}" for year in range(int(first[:4]), int(last[:4]) + 1) for end in ends]
    return [one for one in every if first <= one <= last]


@dataclass(frozen=True, slots=True)
class Predicted:
    """A prediction of logarithms.

    Attributes
    ----------
    middle, spread : ndarray
        Median, and half the width of the 90 % interval, by date, as powers of ten [-].
    """

    middle: Floats
    spread: Floats


@dataclass(frozen=True, slots=True)
class Drift:
    """Steps of a walk.

    Attributes
    ----------
    mean, scatter, error : float
        Of a quarter's step, of the steps around it, and the standard error of the mean, as powers of ten [-].
    n_free : int
        Degrees of freedom [-].
    """

    mean: float
    scatter: float
    error: float
    n_free: int


def line(series: Series) -> tuple[float, float, float]:
    """Straight line through the logarithms.

    Parameters
    ----------
    series : Series
        With three quarters or more.

    Returns
    -------
    tuple of float
        Slope, scatter around the line, and the slope's standard error, as powers of ten a year [-].

    Examples
    --------
    >>> dates = tuple(quarter_ends("2020-01-01", "2023-12-31"))
    >>> round(line(Series("x", "", dates, 10.0 ** (np.arange(16.0) / 4)))[0], 2)
    1.0
    """
    years, logs = series.years, series.log10
    slope, _ = np.polyfit(years, logs, 1)
    rest = logs - logs.mean() - slope * (years - years.mean())
    scatter = math.sqrt(float(np.sum(rest**2)) / (len(years) - 2))
    return float(slope), scatter, scatter / math.sqrt(float(np.sum((years - years.mean()) ** 2)))


def drift_of(model: str, series: Series) -> Drift:
    """Drift of a walk: the mean of its own steps, for ``driven`` averaged with what the cause implies.

    Two estimates with equal weights: their standard errors add as squares, halved.

    Parameters
    ----------
    model : str
        ``walk`` or ``driven``.
    series : Series
        Known quarters.

    Returns
    -------
    Drift
        Per quarter.

    Examples
    --------
    >>> dates = tuple(quarter_ends("2020-01-01", "2023-12-31"))
    >>> fast = Series("fast", "", dates, 10.0 ** np.arange(16.0))
    >>> slow = Series("slow", "", dates, 10.0 ** (np.arange(16.0) / 2), cause=fast, cause_excess=1.0)
    >>> round(drift_of("walk", slow).mean, 3), round(drift_of("driven", slow).mean, 1)
    (0.5, 0.6)
    """
    steps = np.diff(series.log10)
    scatter = float(steps.std(ddof=1))
    own, error = float(steps.mean()), scatter / math.sqrt(len(steps))
    if model == "driven" and series.cause is not None:
        slope, _, slope_error = line(series.cause)
        implied, implied_error = (slope - series.cause_excess) / QUARTERS_PER_YEAR, slope_error / QUARTERS_PER_YEAR
        own, error = (own + implied) / 2, math.hypot(error, implied_error) / 2
    return Drift(own, scatter, error, len(steps) - 1)


def predict(model: str, series: Series, ahead: Floats) -> Predicted:
    """Fit a model and predict.

    Parameters
    ----------
    model : str
        Of :data:`MODELS`.
    series : Series
        Known quarters.
    ahead : ndarray
        Dates to predict [year].

    Returns
    -------
    Predicted
        With uncertain coefficients and scatter in the spread.

    Examples
    --------
    >>> dates = tuple(quarter_ends("2020-01-01", "2023-12-31"))
    >>> found = predict("trend", Series("x", "", dates, 10.0 ** np.arange(16.0)), np.array([2025.0]))
    >>> bool(abs(found.middle[0] - 19.0) < 0.05 and found.spread[0] < 0.05)
    True
    """
    years, logs = series.years, series.log10
    if model == "trend":
        slope, scatter, error = line(series)
        far = ahead - years.mean()
        spread = np.sqrt(scatter**2 * (1.0 + 1.0 / len(years)) + (error * far) ** 2)
        return Predicted(logs.mean() + slope * far, t_95(len(years) - 2) * spread)
    drift = drift_of(model, series)
    quarters = (ahead - years[-1]) * QUARTERS_PER_YEAR
    spread = np.sqrt(drift.scatter**2 * quarters + (drift.error * quarters) ** 2)
    return Predicted(logs[-1] + drift.mean * quarters, t_95(drift.n_free) * spread)


def interval_score(found: Predicted, came: Floats) -> Floats:
    """Score of an interval: its width, and twenty times what lies beyond it (smaller is better).

    Gneiting and Raftery's score of a 90 % interval: it is least for the true quantiles.

    Parameters
    ----------
    found : Predicted
        Intervals.
    came : ndarray
        Logarithms of what came [-].

    Returns
    -------
    ndarray
        As powers of ten [-].

    Examples
    --------
    >>> interval_score(Predicted(np.zeros(2), np.ones(2)), np.array([0.5, 1.1])).round(2).tolist()
    [2.0, 4.0]
    """
    beyond = np.maximum(np.abs(came - found.middle) - found.spread, 0.0)
    return 2.0 * found.spread + 2.0 / _OUTSIDE * beyond


def past_score(model: str, series: Series) -> float:
    """Mean score of a model's intervals on the past, each time fitted on what was known then.

    Parameters
    ----------
    model : str
        Of :data:`MODELS`.
    series : Series
        With at least :data:`MIN_QUARTERS` quarters.

    Returns
    -------
    float
        One to six quarters ahead, as powers of ten [-].

    Examples
    --------
    >>> dates = tuple(quarter_ends("2020-01-01", "2023-12-31"))
    >>> past_score("trend", Series("x", "", dates, 10.0 ** np.arange(16.0))) < 0.5
    True
    """
    scores = []
    for n in range(_FIRST, len(series.dates) - 1):
        ahead = slice(n, n + _AHEAD)
        found = predict(model, series.before(series.dates[n - 1]), series.years[ahead])
        scores.append(float(np.mean(interval_score(found, series.log10[ahead]))))
    return float(np.mean(scores))


def choose_model(series: Series) -> tuple[str, Mapping[str, float]]:
    """The model whose past intervals score best: nothing after the series' own end is looked at.

    Parameters
    ----------
    series : Series
        What is known.

    Returns
    -------
    tuple of str and mapping
        Name, and past score by model [-].

    Raises
    ------
    InputError
        Too few quarters.

    Examples
    --------
    >>> dates = tuple(quarter_ends("2020-01-01", "2023-12-31"))
    >>> choose_model(Series("x", "", dates, 10.0 ** np.arange(16.0)))[0]
    'trend'
    """
    if len(series.dates) < MIN_QUARTERS:
        raise InputError(
            f"{series.name}: {len(series.dates)} quarters are known by {series.dates[-1] if series.dates else 'then'}; "
            f"at least {MIN_QUARTERS} are needed to fit"
        )
    scores = {model: past_score(model, series) for model in series.models}
    return min(scores, key=lambda one: round(scores[one], 9)), scores


def record_series(name: str, unit: str, dated: Sequence[tuple[str, float]], last: str) -> Series:
    """The largest value so far, at the end of each quarter.

    Parameters
    ----------
    name, unit : str
        What it is.
    dated : sequence of tuple of str and float
        Values by ISO date, in their own unit.
    last : str
        Last day that the data cover.

    Returns
    -------
    Series
        From the quarter of the first value above 0 on.

    Examples
    --------
    >>> record_series("x", "", [("2024-02-01", 5.0), ("2024-08-01", 4.0)], "2024-12-31").values
    array([5., 5., 5., 5.])
    """
    known = sorted((date, value) for date, value in dated if value > 0)
    ends = quarter_ends(known[0][0], last)
    best = [max(value for date, value in known if date <= end) for end in ends]
    return Series(name, unit, tuple(ends), np.array(best))
