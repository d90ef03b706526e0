"""Growth fitted on data, with windows and intervals, and named scenarios of what bounds it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from computeledger.arrays import Num, t_95
from computeledger.errors import FactError, InputError, nearest, unknown_id
from computeledger.facts.catalog import shipped_file, user_path
from computeledger.facts.reading import Document, read_file
from computeledger.frontier.epoch_files import COPY_DATE, SiteDate, shipped_runs, shipped_sites
from computeledger.frontier.memory import hbm_share
from computeledger.frontier.trends import Floats, year_of
from computeledger.physics.blackboard.estimates import grown, growth_periods

#: What growth is fitted on: in words, and its unit.
GROWTH_WORDS = {
    "run_flop": ("largest training run", "FLOP"),
    "site_w": ("facility power of the largest site", "W"),
    "site_usd": ("capital of the largest site", "USD"),
    "site_h100e": ("H100-equivalents of the largest site", ""),
    "h100e_per_usd": ("H100-equivalents per dollar", ""),
    "h100e_per_w": ("H100-equivalents per watt", ""),
}
#: Fewest points of a fit.
MIN_POINTS = 4
#: Shortest window that a yearly growth is fitted on [year].
MIN_YEARS = 1.0


@dataclass(frozen=True, slots=True)
class Growth:
    """An exponential fitted to dated values.

    Attributes
    ----------
    name : str
        Of the quantity.
    ratio, low, high : float
        Growth per year with its 90 % interval [-].
    n : int
        Points.
    first, last : str
        Window, ISO.
    residual_log10 : float
        Scatter around the line, as powers of ten [-].
    """

    name: str
    ratio: float
    low: float
    high: float
    n: int
    first: str
    last: str
    residual_log10: float


def fit_growth(name: str, dated: Sequence[tuple[str, float]], first: str, last: str) -> Growth:
    """Fit an exponential by least squares on the logarithm.

    Parameters
    ----------
    name : str
        Of the quantity.
    dated : sequence of tuple of str and float
        Values above 0 by ISO date, in their own unit.
    first, last : str
        Window, ISO.

    Returns
    -------
    Growth
        Per year.

    Raises
    ------
    InputError
        A window that ends before it begins, of less than a year, or with too few points.

    Examples
    --------
    >>> points = [(f"{2018 + i}-01-01", 4.0**i) for i in range(6)]
    >>> round(fit_growth("x", points, "2018-01-01", "2024-01-01").ratio, 2)
    4.0
    """
    if first >= last:
        raise InputError(f"window {first}..{last}: must end after it begins")
    words = GROWTH_WORDS.get(name, (name, ""))[0]
    kept = [(year_of(date), np.log10(value)) for date, value in dated if first <= date <= last and value > 0]
    if len(kept) < MIN_POINTS:
        raise InputError(f"window {first}..{last}: {len(kept)} points of the {words}, at least {MIN_POINTS} are needed")
    if year_of(last) - year_of(first) < MIN_YEARS - 0.01:
        raise InputError(f"window {first}..{last}: shorter than a year: no growth per year is drawn from it")
    x, y = np.array(kept).T
    if np.ptp(x) == 0:
        raise InputError(f"window {first}..{last}: all points of the {words} have one date")
    slope, _ = np.polyfit(x, y, 1)
    rest = y - y.mean() - slope * (x - x.mean())
    scatter = float(np.sqrt(np.sum(rest**2) / (len(x) - 2)))
    half = t_95(len(x) - 2) * scatter / float(np.sqrt(np.sum((x - x.mean()) ** 2)))
    low, ratio, high = (float(10.0 ** (slope + side * half)) for side in (-1, 0, 1))
    return Growth(name, ratio, low, high, len(kept), first, last, scatter)


def _records(dated: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Values that were the largest when they came."""
    kept: list[tuple[str, float]] = []
    for date, value in sorted(dated):
        if not kept or value > kept[-1][1]:
            kept.append((date, value))
    return kept


def _steps(sites: Sequence[SiteDate]) -> list[SiteDate]:
    """Site-dates at which capacity changed, projections left out."""
    out: list[SiteDate] = []
    for one in sites:
        if not one.h100e_8bit or not one.capex_usd or one.date > COPY_DATE:
            continue
        if out and out[-1].name == one.name and out[-1].h100e_8bit == one.h100e_8bit:
            continue
        out.append(one)
    return out


def largest_systems(sites: Sequence[SiteDate] | None = None) -> list[SiteDate]:
    """Every site as it stands at the date of the copy.

    Parameters
    ----------
    sites : sequence of SiteDate, optional
        Data; what ships when left out.

    Returns
    -------
    list of SiteDate
        Those with chips and capital, by name.

    Examples
    --------
    >>> max(largest_systems(), key=lambda one: one.h100e_8bit or 0.0).name
    'Colossus 2'
    """
    return list({one.name: one for one in _steps(shipped_sites() if sites is None else sites)}.values())


def dated_quantities(sites: Sequence[SiteDate] | None = None) -> dict[str, list[tuple[str, float]]]:
    """What growth is fitted on.

    Parameters
    ----------
    sites : sequence of SiteDate, optional
        Data; what ships when left out.

    Returns
    -------
    dict of str to list of tuple of str and float
        ``run_flop``, ``site_w``, ``site_usd`` (the largest system's capital), ``site_h100e`` (records each), and
        ``h100e_per_usd`` of every new stage of a site: price-performance; by date, each in its own unit.

    Examples
    --------
    >>> sorted(dated_quantities())
    ['h100e_per_usd', 'h100e_per_w', 'run_flop', 'site_h100e', 'site_usd', 'site_w']
    """
    steps = _steps(shipped_sites() if sites is None else sites)
    known = [(one, one.h100e_8bit or 0.0, one.capex_usd or 1.0) for one in steps]
    return {
        "run_flop": _records([(one.date, one.training_flop) for one in shipped_runs()]),
        "site_w": _records([(one.date, one.facility_w or 0.0) for one in steps]),
        "site_usd": _records([(one.date, usd) for one, _, usd in known]),
        "site_h100e": _records([(one.date, h100e) for one, h100e, _ in known]),
        "h100e_per_usd": [(one.date, h100e / usd) for one, h100e, usd in known],
        "h100e_per_w": [(one.date, h100e / one.facility_w) for one, h100e, _ in known if one.facility_w],
    }


def fitted_growth(
    first: str = "2022-01-01", last: str = COPY_DATE, sites: Sequence[SiteDate] | None = None
) -> dict[str, Growth]:
    """Growth of every quantity in a window.

    Parameters
    ----------
    first, last : str
        Window, ISO.
    sites : sequence of SiteDate, optional
        Data; what ships when left out.

    Returns
    -------
    dict of str to Growth
        By quantity.

    Raises
    ------
    InputError
        A window with too few points of a quantity.

    Examples
    --------
    >>> 3.0 < fitted_growth("2020-01-01")["run_flop"].ratio < 7.0
    True
    """
    return {name: fit_growth(name, dated, first, last) for name, dated in dated_quantities(sites).items()}


def trend_growth(fits: Mapping[str, Growth]) -> float:
    """Compute of the largest system per year if capital and price-performance go on: the trend of the scenarios.

    Parameters
    ----------
    fits : mapping of str to Growth
        Of :func:`fitted_growth`: capital of the largest site, and what a dollar buys.

    Returns
    -------
    float
        Factor of a year [-].

    Examples
    --------
    >>> fits = fitted_growth()
    >>> trend_growth(fits) == fits["site_usd"].ratio * fits["h100e_per_usd"].ratio
    True
    """
    return fits["site_usd"].ratio * fits["h100e_per_usd"].ratio


def flat_funding_slowdown(fits: Mapping[str, Growth]) -> float:
    """How many times as long compute takes to grow as much once funding stays flat, ``ln (g_f g_d) / ln g_d``.

    Parameters
    ----------
    fits : mapping of str to Growth
        Of :func:`fitted_growth`: capital of the largest site, and what a dollar buys.

    Returns
    -------
    float
        Ratio of the two speeds, as the table of scenarios has them; infinite where a dollar buys no more each year [-].

    References
    ----------
    training-systems C051: 3.3 from 14x and 2.2x per two years.

    Examples
    --------
    >>> one, two = (Growth("x", ratio, ratio, ratio, 9, "", "", 0.0) for ratio in (7.0**0.5, 2.0**0.5))
    >>> round(flat_funding_slowdown({"site_usd": one, "h100e_per_usd": two}), 2)
    3.81
    """
    if fits["h100e_per_usd"].ratio <= 1:
        return float("inf")
    return float(growth_periods(trend_growth(fits), fits["h100e_per_usd"].ratio))


@dataclass(frozen=True, slots=True)
class Scenario:
    """What bounds growth; None takes the fitted value.

    Attributes
    ----------
    name, note : str
        Key, and what it assumes.
    funding, power, chips : float or None
        Growth per year [-].
    funding_cap : float or None
        Largest funding over today's [-].
    hbm_capex_fraction : float or None
        Of a system's cost; None takes :func:`computeledger.frontier.memory.hbm_share` [-].
    hbm_price : float or None
        Growth per year of a byte's price [-].
    """

    name: str
    note: str = ""
    funding: float | None = None
    power: float | None = None
    chips: float | None = None
    funding_cap: float | None = None
    hbm_capex_fraction: float | None = None
    hbm_price: float | None = None


#: Scenarios whose ids are no words.
_SCENARIOS = {"flat-funding": "flat funding", "one-more-doubling": "one more doubling"}


def scenario_words(name: str) -> str:
    """What people call a scenario of growth; the id of another one.

    Parameters
    ----------
    name : str
        Of a scenario that ships, or of one's own.

    Returns
    -------
    str
        Its name in words.

    Examples
    --------
    >>> scenario_words("one-more-doubling"), scenario_words("power-limited")
    ('one more doubling', 'power-limited')
    """
    return _SCENARIOS.get(name, name)


@functools.cache
def shipped_scenarios() -> Mapping[str, Scenario]:
    """The scenarios that ship.

    Returns
    -------
    mapping of str to Scenario
        By name.

    Examples
    --------
    >>> list(shipped_scenarios())
    ['trend', 'flat-funding', 'one-more-doubling', 'power-limited', 'chip-limited', 'memory-limited']
    """
    return _read(read_file(shipped_file("frontier", "scenarios.toml"), shipped=True))


def load_scenarios(given: str | None = None) -> Mapping[str, Scenario]:
    """Scenarios by name or from a TOML file.

    Parameters
    ----------
    given : str or None
        A name, a path, or nothing for all that ship.

    Returns
    -------
    mapping of str to Scenario
        By name.

    Raises
    ------
    UnknownIdError
        A name that does not exist.
    InputError
        A file that cannot be read.

    Examples
    --------
    >>> load_scenarios("flat-funding")["flat-funding"].funding
    1.0
    """
    if given is None:
        return shipped_scenarios()
    path = user_path(given)
    if path is not None:
        return _read(read_file(path))
    if given not in shipped_scenarios():
        raise unknown_id("scenario", given, shipped_scenarios())
    return {given: shipped_scenarios()[given]}


def _read(document: Document) -> dict[str, Scenario]:
    allowed = [one.name for one in fields(Scenario) if one.name != "name"]
    out = {}
    if not document.table:
        raise document.error("", "no scenario in it; a table such as [flat] with funding = 1.0 is one")
    for name, table in document.table.items():
        if not isinstance(table, dict):
            raise document.error(name, "expected a table of one scenario")
        for key, value in table.items():
            if key not in allowed:
                raise document.error(f"{name}.{key}", f"unknown key; {nearest(key, allowed)}")
            positive = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
            if key != "note" and not positive:
                raise document.error(f"{name}.{key}", f"{value!r}: a number above 0 is needed")
        if table.get("hbm_capex_fraction", 0.0) >= 1:
            raise document.error(f"{name}.hbm_capex_fraction", "must lie below 1")
        out[name] = Scenario(name, **table)
    return out


@dataclass(frozen=True, slots=True)
class Projection:
    """Compute of the largest system in a scenario.

    Attributes
    ----------
    scenario : Scenario
        Its assumptions.
    years : ndarray
        After today [year].
    compute_ratio : ndarray
        Over today's [-].
    bounds : tuple of str
        What binds in each year: ``funding``, ``power`` or ``chips``.
    usd_ratio, w_ratio, chips_ratio : ndarray
        Capital, power and chips (at a steady price of a chip) that this compute takes, over today's [-].
    """

    scenario: Scenario
    years: Floats
    compute_ratio: Floats
    bounds: tuple[str, ...]
    usd_ratio: Floats
    w_ratio: Floats
    chips_ratio: Floats


def project(scenario: Scenario, fits: Mapping[str, Growth], years: Floats) -> Projection:
    """Compute of the largest system: the least of what money, power and chips allow.

    ``money: min(g_f^t, cap) x dollar(t)``, ``power: g_w^t x (H100e per W)^t``, ``chips: g_c^t x dollar(t)`` at a
    steady price per chip, the last two only where the scenario bounds them. With HBM a share ``s`` of the cost and its
    price growing by ``p``, a dollar buys ``g_d^t / (1 - s + s (p g_d)^t)``: the rest follows the fitted
    price-performance. What this compute takes: capital ``C / dollar(t)``, power ``C / (H100e per W)^t``, chips
    ``C / g_d^t``.

    Parameters
    ----------
    scenario : Scenario
        Bounds.
    fits : mapping of str to Growth
        Of :func:`fitted_growth`.
    years : ndarray
        After today [year].

    Returns
    -------
    Projection
        With what binds.

    Raises
    ------
    FactError
        A fit that is missing.

    Examples
    --------
    >>> flat = project(load_scenarios("flat-funding")["flat-funding"], fitted_growth(), np.array([0.0, 2.0]))
    >>> bool(abs(flat.compute_ratio[1] - fitted_growth()["h100e_per_usd"].ratio ** 2) < 1e-9)
    True
    """
    for name in ("site_usd", "h100e_per_usd", "h100e_per_w"):
        if name not in fits:
            raise FactError(f"growth of {name} was not fitted")
    per_chip = dollar = grown(1.0, fits["h100e_per_usd"].ratio, years)
    price = scenario.hbm_price or 1 / fits["h100e_per_usd"].ratio
    share = scenario.hbm_capex_fraction or (hbm_share().with_margin_fraction if scenario.hbm_price else 0.0)
    dollar = dollar / (1 - share + share * grown(1.0, price * fits["h100e_per_usd"].ratio, years))
    funding = scenario.funding or fits["site_usd"].ratio
    money = np.minimum(grown(1.0, funding, years), scenario.funding_cap or np.inf)
    limits: dict[str, Num] = {"funding": money * dollar}
    if scenario.power is not None:
        limits["power"] = grown(1.0, scenario.power * fits["h100e_per_w"].ratio, years)
    if scenario.chips is not None:
        limits["chips"] = grown(1.0, scenario.chips * fits["h100e_per_usd"].ratio, years)
    stacked = np.array([np.asarray(one, float) for one in limits.values()])
    names = list(limits)
    compute, bounds = stacked.min(axis=0), tuple(names[row] for row in stacked.argmin(axis=0))
    w_ratio = compute / grown(1.0, fits["h100e_per_w"].ratio, years)
    return Projection(scenario, years, compute, bounds, compute / dollar, w_ratio, compute / per_chip)
