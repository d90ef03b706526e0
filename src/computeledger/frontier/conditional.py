"""Forecasts under a scenario: the paths of the trend, followed at the pace that the scenario's compute sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from computeledger.frontier.forecast import HORIZON_YEARS, Reached
from computeledger.frontier.growth import Growth, Scenario, project, shipped_scenarios
from computeledger.frontier.trends import Floats, Predicted, Series, predict, year_of

#: Years of a scenario that are followed, and steps of a year.
_FOLLOWED_YEARS, _STEPS_A_YEAR = 10 * HORIZON_YEARS, 100
#: The scenario in which a forecast is the unconditional one.
TREND = "trend"


@dataclass(frozen=True, slots=True)
class Pace:
    """Years of the trend that pass within years of a scenario.

    Attributes
    ----------
    years : ndarray
        Of the scenario, from 0 on [year].
    trend_years : ndarray
        In which the trend brings the same growth; never falls [year].
    """

    years: Floats
    trend_years: Floats

    def of_trend(self, years: Floats) -> Floats:
        """Years of the trend for years of the scenario.

        Parameters
        ----------
        years : ndarray
            Of the scenario [year].

        Returns
        -------
        ndarray
            Of the trend [year].
        """
        return np.interp(years, self.years, self.trend_years)

    def of_scenario(self, trend_years: Floats) -> Floats:
        """Years of the scenario for years of the trend.

        Parameters
        ----------
        trend_years : ndarray
            Of the trend [year].

        Returns
        -------
        ndarray
            Of the scenario; infinite where it never grows as much [year].
        """
        first = np.searchsorted(self.trend_years, trend_years, side="left")
        found = np.interp(trend_years, *self._rising())
        return np.where(first >= len(self.trend_years), np.inf, found)

    def _rising(self) -> tuple[Floats, Floats]:
        kept = np.concatenate([[True], np.diff(self.trend_years) > 0])
        return self.trend_years[kept], self.years[kept]


def pace_of(scenario: Scenario, fits: Mapping[str, Growth]) -> Pace:
    """Pace of a scenario: the logarithm of its compute over the trend's growth per year.

    ``tau(t) = ln C_scenario(t) / ln C_trend(1)`` of :func:`computeledger.frontier.growth.project`, never falling: flat
    funding grows ``ln 2.85 / ln 1.37`` times slower, and what the trend does in a year takes it as many.

    Parameters
    ----------
    scenario : Scenario
        Bounds.
    fits : mapping of str to Growth
        Of :func:`computeledger.frontier.growth.fitted_growth`.

    Returns
    -------
    Pace
        Years for years.

    References
    ----------
    training-systems C051: flat funding is 3.3 times slower.

    Examples
    --------
    >>> from computeledger.frontier.growth import fitted_growth
    >>> flat = pace_of(shipped_scenarios()["flat-funding"], fitted_growth())
    >>> round(float(flat.of_scenario(np.array([1.0]))[0]), 2)
    3.34
    """
    years = np.linspace(0.0, _FOLLOWED_YEARS, int(_FOLLOWED_YEARS * _STEPS_A_YEAR) + 1)
    yearly = math.log(float(project(shipped_scenarios()[TREND], fits, np.array([1.0])).compute_ratio[0]))
    grown = np.log(project(scenario, fits, years).compute_ratio) / yearly
    return Pace(years, np.maximum.accumulate(np.maximum(grown, 0.0)))


def reached_under(reached: Reached, pace: Pace) -> Reached:
    """When a value is reached in a scenario: each path of the trend, at the scenario's pace from the last data on.

    Parameters
    ----------
    reached : Reached
        Of the trend.
    pace : Pace
        Of the scenario.

    Returns
    -------
    Reached
        The same paths; what was reached before stays as it was.

    Examples
    --------
    >>> from computeledger.frontier.forecast import run_series, when_reached
    >>> from computeledger.frontier.growth import fitted_growth
    >>> trend = when_reached(run_series(), 1e28)
    >>> slow = reached_under(trend, pace_of(shipped_scenarios()["flat-funding"], fitted_growth()))
    >>> slow.probability_by("2028-12-31") < 0.05 < 0.9 < trend.probability_by("2028-12-31")
    True
    """
    last = float(reached.series.years[-1])
    ahead = np.where(np.isfinite(reached.years), np.maximum(reached.years - last, 0.0), np.inf)
    years = np.where(reached.years <= last, reached.years, last + pace.of_scenario(ahead))
    growth = reached.growth_ratio ** float(pace.of_trend(np.array([1.0]))[0])
    return replace(reached, years=years, growth_ratio=growth)


def predicted_under(model: str, series: Series, dates: list[str], pace: Pace) -> Predicted:
    """A series by quarter in a scenario.

    Parameters
    ----------
    model : str
        Of :data:`computeledger.frontier.trends.MODELS`.
    series : Series
        Known quarters.
    dates : list of str
        Ends of quarters ahead, ISO.
    pace : Pace
        Of the scenario.

    Returns
    -------
    Predicted
        Logarithms.

    Examples
    --------
    >>> from computeledger.frontier.forecast import run_series
    >>> from computeledger.frontier.growth import fitted_growth
    >>> flat = pace_of(shipped_scenarios()["flat-funding"], fitted_growth())
    >>> found = predicted_under("trend", run_series(), ["2028-12-31"], flat)
    >>> 26.7 < float(found.middle[0]) < 27.7
    True
    """
    last = float(series.years[-1])
    ahead = np.array([year_of(one) for one in dates]) - last
    return predict(model, series, last + pace.of_trend(ahead))
