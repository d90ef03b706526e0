"""When a lab's next frontier release is due: its own last intervals, drawn to those of all labs.

A frontier release is a day on which a lab shows a model that scores higher on Epoch's Capabilities Index than all it
showed before. Logarithms of the days between two are normal; what passed without a release since the last is counted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from computeledger.arrays import Z_95, Num
from computeledger.frontier.capability import rated_models
from computeledger.frontier.fleets import LabAt
from computeledger.frontier.growth import Scenario, fitted_growth, project
from computeledger.frontier.labs import lab_called
from computeledger.frontier.sheets import Schedule
from computeledger.frontier.trends import year_of
from computeledger.units import DAY_S, YEAR_S

Floats = NDArray[np.float64]

#: Last day that the calendar knows.
CALENDAR_DATE = "2026-07-01"
#: A lab counts with so many releases; so many of its last intervals do, and all labs' mean as so many more of them.
LEAST_RELEASES, _LAST, _OTHERS = 4, 4, 2.0
#: Labs without a release since then are left out.
_ALIVE = "2025-01-01"
_DAYS_PER_YEAR = YEAR_S / DAY_S
#: Releases that may have come between the calendar's end and the day asked for, at most.
_MOST_BETWEEN = 400
#: Years over which a scenario's compute is followed.
_FOLLOWED_YEARS = 20
_normal = NormalDist()
_quantile = np.vectorize(_normal.inv_cdf, otypes=[float])
_TOP = 1.0 - 1e-12


@dataclass(frozen=True, slots=True)
class Release:
    """A frontier release of a lab."""

    lab: str
    date: str
    model: str
    index: float


@functools.cache
def frontier_releases() -> Mapping[str, tuple[Release, ...]]:
    """Frontier releases by lab, the earliest first; labs with :data:`LEAST_RELEASES` and one since 2025.

    References
    ----------
    epoch-capabilities-index.

    Examples
    --------
    >>> [(one.date, one.model) for one in frontier_releases()["Google DeepMind"]][-2:]
    [('2025-11-18', 'Gemini 3 Pro'), ('2026-02-19', 'Gemini 3.1 Pro')]
    """
    found: dict[str, list[Release]] = {}
    for one in sorted(rated_models(), key=lambda one: (one.released, -one.index)):
        own = found.setdefault(lab_called(one.organization), [])
        if not own or (one.index > own[-1].index and one.released > own[-1].date):
            own.append(Release(lab_called(one.organization), one.released, one.name, one.index))
    kept = {lab: own for lab, own in found.items() if len(own) >= LEAST_RELEASES and own[-1].date >= _ALIVE}
    return {lab: tuple(own) for lab, own in sorted(kept.items(), key=lambda item: item[1][-1].date, reverse=True)}


@dataclass(frozen=True, slots=True)
class ReleasePace:
    """Days between a lab's releases: mean of the logarithm, its standard error, and the scatter of one [-]."""

    mean: float
    error: float
    scatter: float

    @property
    def spread(self) -> float:
        """Standard deviation of the next logarithm [-]."""
        return math.hypot(self.error, self.scatter)


def pace_of_lab(lab: str, known: Mapping[str, tuple[Release, ...]]) -> ReleasePace:
    """A lab's last intervals, drawn to the mean of all labs' as if that were two more of them.

    Parameters
    ----------
    lab : str
        With one interval or more.
    known : mapping of str to tuple of Release
        All labs.

    Returns
    -------
    ReleasePace
        In logarithms of days.

    Examples
    --------
    >>> fast, slow = (pace_of_lab(one, frontier_releases()).mean for one in ("Anthropic", "Meta"))
    >>> fast < slow
    True
    """
    logs = {name: _log_days(own)[-_LAST:] for name, own in known.items() if len(own) > 1}
    everyone = float(np.concatenate(list(logs.values())).mean())
    means = {name: (_OTHERS * everyone + float(own.sum())) / (_OTHERS + len(own)) for name, own in logs.items()}
    left = np.concatenate([own - means[name] for name, own in logs.items()])
    scatter = float(left.std(ddof=1))
    return ReleasePace(means[lab], scatter / math.sqrt(_OTHERS + len(logs[lab])), scatter)


def _log_days(own: tuple[Release, ...]) -> Floats:
    return np.log(np.diff([year_of(one.date) for one in own]) * _DAYS_PER_YEAR)


def next_release(lab: str, after: str, n_samples: int = 4096, seed: int = 0) -> Floats:
    """Day of a lab's first frontier release after a day: the known one, or sampled.

    Releases go on from the last known one; none came between it and the calendar's end.

    Parameters
    ----------
    lab : str
        Of :func:`frontier_releases`.
    after : str
        ISO.
    n_samples, seed : int
        Of the sampling [-].

    Returns
    -------
    ndarray
        As years [year].

    Examples
    --------
    >>> soon, late = (np.median(next_release("OpenAI", day)) for day in ("2026-07-01", "2027-07-01"))
    >>> bool(2026.5 < soon < 2026.8 < 2027.5 < late < 2027.9)
    True
    """
    known = frontier_releases()
    came = next((one for one in known[lab] if one.date > after), None)
    if came is not None:
        return np.full(n_samples, year_of(came.date))
    pace, last = pace_of_lab(lab, known), year_of(known[lab][-1].date)
    rng = np.random.default_rng(seed)
    silent = math.log(max((year_of(CALENDAR_DATE) - last) * _DAYS_PER_YEAR, 1.0))
    passed = _normal.cdf((silent - pace.mean) / pace.spread)
    off = pace.spread * _quantile(np.minimum(passed + (1.0 - passed) * rng.uniform(size=n_samples), _TOP))
    learnt = (pace.error / pace.spread) ** 2  # the first interval tells of the lab's own mean
    mean = pace.mean + learnt * off + pace.error * math.sqrt(1.0 - learnt) * rng.standard_normal(n_samples)
    days = np.exp(pace.mean + off)
    wanted = (year_of(after) - last) * _DAYS_PER_YEAR
    for _ in range(_MOST_BETWEEN):
        early = days <= wanted
        if not early.any():
            break
        days[early] += np.exp(mean[early] + pace.scatter * rng.standard_normal(int(early.sum())))
    return np.asarray(last + days / _DAYS_PER_YEAR, float)


@dataclass(frozen=True, slots=True)
class ForetoldRelease:
    """A release that came, and the days that the releases before it foretold: 90 % interval."""

    release: Release
    days_between: float
    days_low: float
    days_median: float
    days_high: float

    @property
    def held(self) -> bool:
        """Whether the interval holds what came."""
        return self.days_low <= self.days_between <= self.days_high


def foretold_releases(first: str = "2024-01-01") -> list[ForetoldRelease]:
    """Every release from a day on as foretold on the day of the one before it, from what all labs had shown by then.

    Parameters
    ----------
    first : str
        ISO.

    Returns
    -------
    list of ForetoldRelease
        Of labs with two intervals before it.

    Examples
    --------
    >>> found = foretold_releases()
    >>> len(found) > 40 and sum(one.held for one in found) >= 0.8 * len(found)
    True
    """
    out = []
    for lab, own in frontier_releases().items():
        for place in range(3, len(own)):
            if own[place].date >= first:
                then = own[place - 1].date
                seen = {name: tuple(one for one in all_ if one.date <= then)
                        for name, all_ in frontier_releases().items()}  # fmt: skip
                pace = pace_of_lab(lab, seen)
                days = (year_of(own[place].date) - year_of(then)) * _DAYS_PER_YEAR
                ends = (math.exp(pace.mean + side * Z_95 * pace.spread) for side in (-1.0, 0.0, 1.0))
                out.append(ForetoldRelease(own[place], days, *ends))
    return out


@dataclass(frozen=True, slots=True)
class DueRelease:
    """A lab's next frontier release, and what its run could take.

    Attributes
    ----------
    last : Release
        The last known one by the day.
    came : Release or None
        The next one, where it is known.
    days_between : float
        Median days between two [day].
    years : ndarray
        When the next one comes [year].
    site_flop, fleet_flop : float or ndarray, or None
        What the lab's largest site and its whole fleet train by the end of that release's pretraining [FLOP].
    """

    last: Release
    came: Release | None
    days_between: float
    years: Floats
    site_flop: Num | None
    fleet_flop: Num | None


def due_releases(
    date: str, labs: Mapping[str, LabAt], scenario: Scenario, n_samples: int, seed: int
) -> list[DueRelease]:
    """Each lab's next frontier release after a day, the soonest first; compute grows from that day as a scenario says.

    Pretraining ends as long before the release as :class:`~computeledger.frontier.sheets.Schedule` says.

    Parameters
    ----------
    date : str
        ISO.
    labs : mapping of str to LabAt
        What they have on that day; labs that are not among them get a day alone.
    scenario : Scenario
        Growth.
    n_samples, seed : int
        Of the sampling; as for the labs [-].

    Returns
    -------
    list of DueRelease
        Labs of the calendar.

    Examples
    --------
    >>> from computeledger.frontier.growth import shipped_scenarios
    >>> found = due_releases("2026-08-22", {}, shipped_scenarios()["trend"], 256, 0)
    >>> len(found) >= 8 and all(one.years.min() > 2026.6 for one in found)
    True
    """
    grid = np.linspace(0.0, _FOLLOWED_YEARS, 20 * _FOLLOWED_YEARS + 1)
    ratio = project(scenario, fitted_growth(), grid).compute_ratio
    after_training = float(np.median(np.asarray(Schedule().post_training_s))) / YEAR_S
    out = []
    for lab, own in frontier_releases().items():
        before = [one for one in own if one.date <= date]
        if not before:
            continue
        years = next_release(lab, date, n_samples, seed)
        grown = np.interp(years - after_training - year_of(date), grid, ratio)
        at = labs.get(lab)
        site, fleet = (None, None) if at is None else (at.site_flop, at.fleet_flop)
        flop = [None if one is None else np.asarray(one) * grown for one in (site, fleet)]
        came = None if before[-1] is own[-1] else own[len(before)]
        out.append(DueRelease(before[-1], came, math.exp(pace_of_lab(lab, frontier_releases()).mean), years, *flop))
    return sorted(out, key=lambda one: float(np.median(one.years)))
