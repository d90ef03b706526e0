"""Trends of records by quarter: two models, chosen by their own past errors, with prediction intervals.

``trend`` is a straight line of the logarithm through the quarters; ``walk`` starts at the last quarter and drifts by
the mean of the past steps, its spread growing with the root of the time.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95
from computeledger.errors import InputError
from computeledger.units import DAY_S, YEAR_S

Floats = NDArray[np.float64]

MODELS = ("trend", "walk")
#: Quarters that a model has seen before it is judged, quarters ahead it is judged on, fewest quarters of a series.
_FIRST, _AHEAD, MIN_QUARTERS = 8, 6, 10
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
    """

    name: str
    unit: str
    dates: tuple[str, ...]
    values: Floats

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
        return Series(self.name, self.unit, self.dates[:n], self.values[:n])


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
    >>> date_of(2025.5)
    '2025-07-02'
    """
    if not math.isfinite(years) or years > 9000:
        return "never"
    whole = math.floor(years)
    return (datetime.date(whole, 1, 1) + datetime.timedelta(seconds=(years - whole) * YEAR_S)).isoformat()


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


def t_95(n_free: int) -> float:
    """Student's 0.95 quantile by the expansion of Cornish and Fisher.

    Parameters
    ----------
    n_free : int
        Degrees of freedom, 3 or more (error below 1 % from 4 on) [-].

    Returns
    -------
    float
        Quantile [-].

    Examples
    --------
    >>> round(t_95(10), 2), round(t_95(17), 2)
    (1.81, 1.74)
    """
    z, v = Z_95, float(n_free)
    one, two = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    three = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + one / v + two / v**2 + three / v**3


def predict(model: str, years: Floats, logs: Floats, ahead: Floats) -> Predicted:
    """Fit a model and predict.

    Parameters
    ----------
    model : str
        Of :data:`MODELS`.
    years : ndarray
        Dates of the data [year].
    logs : ndarray
        Logarithms [-].
    ahead : ndarray
        Dates to predict [year].

    Returns
    -------
    Predicted
        With uncertain coefficients and scatter in the spread.

    Examples
    --------
    >>> years = np.arange(10.0)
    >>> found = predict("trend", years, 2.0 * years, np.array([12.0]))
    >>> bool(abs(found.middle[0] - 24.0) < 1e-9 and found.spread[0] < 1e-6)
    True
    """
    n = len(years)
    if model == "trend":
        slope, _ = np.polyfit(years, logs, 1)
        middle = logs.mean() + slope * (ahead - years.mean())
        rest = logs - logs.mean() - slope * (years - years.mean())
        variance = np.sum(rest**2) / (n - 2)
        far = 1.0 + 1.0 / n + (ahead - years.mean()) ** 2 / np.sum((years - years.mean()) ** 2)
        return Predicted(middle, t_95(n - 2) * np.sqrt(variance * far))
    steps = np.diff(logs)
    quarters = (ahead - years[-1]) * QUARTERS_PER_YEAR
    spread = steps.std(ddof=1) * np.sqrt(quarters + quarters**2 / len(steps))
    return Predicted(logs[-1] + steps.mean() * quarters, t_95(len(steps) - 1) * spread)


def past_error(model: str, series: Series) -> float:
    """Mean error of a model on the past, each time fitted on what was known then.

    Parameters
    ----------
    model : str
        Of :data:`MODELS`.
    series : Series
        With at least :data:`MIN_QUARTERS` quarters.

    Returns
    -------
    float
        Mean absolute error of the logarithm, one to six quarters ahead [-].

    Examples
    --------
    >>> dates = tuple(quarter_ends("2020-01-01", "2023-12-31"))
    >>> past_error("trend", Series("x", "", dates, 10.0 ** np.arange(16.0))) < 0.02
    True
    """
    years, logs = series.years, series.log10
    errors = []
    for n in range(_FIRST, len(years) - 1):
        ahead = slice(n, n + _AHEAD)
        found = predict(model, years[:n], logs[:n], years[ahead])
        errors.append(float(np.mean(np.abs(logs[ahead] - found.middle))))
    return float(np.mean(errors))


def choose_model(series: Series) -> tuple[str, Mapping[str, float]]:
    """The model with the smaller past error: nothing after the series' own end is looked at.

    Parameters
    ----------
    series : Series
        What is known.

    Returns
    -------
    tuple of str and mapping
        Name, and past error by model [-].

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
    errors = {model: past_error(model, series) for model in MODELS}
    return min(errors, key=lambda one: round(errors[one], 9)), errors


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
