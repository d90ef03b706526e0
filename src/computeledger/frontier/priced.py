"""What a run's system takes at the prices and the efficiency of the day on which the run is possible."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num, median
from computeledger.frontier.conditional import TREND
from computeledger.frontier.epoch_files import COPY_DATE
from computeledger.frontier.forecast import Reached
from computeledger.frontier.growth import Growth, Scenario, project, shipped_scenarios
from computeledger.frontier.supply import Largest
from computeledger.frontier.systems import TrainingSystem
from computeledger.frontier.trends import Floats, date_of, year_of

#: Half of a 90 % interval over the standard deviation of a normal distribution.
_NORMAL_90 = 1.645


@dataclass(frozen=True, slots=True)
class Then:
    """A system of the same compute on the day that a run is possible.

    Attributes
    ----------
    date : str
        Median day, ISO.
    capex_usd, facility_w, n_chips : float or ndarray
        Samples: capital [USD], power [W], and packages at today's price of one [-].
    largest_usd : float
        Capital of the scenario's largest system on the median day [USD].
    """

    date: str
    capex_usd: Num
    facility_w: Num
    n_chips: Num
    largest_usd: float

    @property
    def of_largest_fraction(self) -> float:
        """Its capital over that of the scenario's largest system on that day [-]."""
        return median(self.capex_usd) / self.largest_usd


def taken_then(
    system: TrainingSystem, reached: Reached, under: tuple[Scenario, Mapping[str, Growth]], today: Largest
) -> Then | None:
    """Carry a system's dollars, watts and packages to the day of its run, as the scenario's price-performance goes.

    ``USD(t) = USD(0) / dollar(t)``, ``W(t) = W(0) / (H100e per W)^t``, packages at a steady price likewise: what
    :func:`computeledger.frontier.growth.project` grows by, over the sampled days of the run and the intervals of the
    fits. Before the date of the data ``t`` is negative: a dollar bought less.

    Parameters
    ----------
    system : TrainingSystem
        In today's chips, at today's prices.
    reached : Reached
        Samples of the day, under the scenario.
    under : tuple of Scenario and mapping of str to Growth
        What grows, and the fits.
    today : Largest
        The largest system as the data stand.

    Returns
    -------
    Then or None
        None where the median path never reaches the run.

    Examples
    --------
    >>> from computeledger.frontier.conditional import pace_of, reached_under
    >>> from computeledger.frontier.forecast import run_series, when_reached
    >>> from computeledger.frontier.growth import fitted_growth, shipped_scenarios
    >>> from computeledger.frontier.supply import largest_today
    >>> from computeledger.frontier.systems import described_system
    >>> fits, flat = fitted_growth(), shipped_scenarios()["flat-funding"]
    >>> late = reached_under(when_reached(run_series(), 1e28), pace_of(flat, fits))
    >>> found = taken_then(described_system("951K chips of gb200-gpu"), late, (flat, fits), largest_today())
    >>> found.date[:4], 0.1 < found.of_largest_fraction < 1
    ('2032', True)
    """
    scenario, fits = under
    if reached.series.values[-1] >= reached.target:  # what is past grew as the fits say, whatever follows
        scenario = shipped_scenarios()[TREND]
    day = float(np.quantile(reached.years, 0.5, method="inverted_cdf"))
    if not math.isfinite(day):
        return None
    ahead: Floats = reached.years[np.isfinite(reached.years)] - year_of(COPY_DATE)
    grown = project(scenario, fits, ahead)
    largest = project(scenario, fits, np.array([day - year_of(COPY_DATE)]))
    draw = np.random.default_rng([0, *reached.series.name.encode()])

    def scattered(name: str) -> Floats:
        """A fit's own interval, as a ratio."""
        deviation = math.log(fits[name].high / fits[name].low) / (2 * _NORMAL_90)
        found: Floats = np.exp(deviation * ahead * draw.standard_normal(len(ahead)))
        return found

    def drawn(value: Num) -> Floats:
        """Samples of a quantity, as many as days."""
        return draw.choice(np.atleast_1d(np.asarray(value, float)), len(ahead))

    dollar, per_w, per_chip = (grown.compute_ratio / one for one in (grown.usd_ratio, grown.w_ratio, grown.chips_ratio))
    slope = scattered("h100e_per_usd")
    return Then(
        date=date_of(day),
        capex_usd=drawn(system.capex_usd) / dollar / slope,
        facility_w=drawn(system.power_w["facility"]) / per_w / scattered("h100e_per_w"),
        n_chips=median(system.chips) / per_chip / slope,
        largest_usd=today.usd * float(largest.usd_ratio[0]),
    )
