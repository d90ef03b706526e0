"""Labs side by side at a date: their largest site, the whole fleet, its power, and what it trains."""

from __future__ import annotations

import datetime
import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num, Range, Uncertain, sample
from computeledger.errors import InputError
from computeledger.facts.load import load_accelerator
from computeledger.facts.reading import read_facts
from computeledger.facts.schema import Fact
from computeledger.frontier.epoch_files import COPY_DATE, ChipCount, SiteDate, TrainingRun
from computeledger.frontier.labs import LabDate, at_date, lab_called, lab_date, lab_names, lab_sites
from computeledger.frontier.revisions import site_interval
from computeledger.frontier.systems import REFERENCE
from computeledger.frontier.text import frontier_document
from computeledger.frontier.trends import date_of, year_of

#: Quantiles of the sites' IT power per H100-equivalent, weighted by size.
_SIDES = (0.05, 0.5, 0.95)
#: How far beyond the last year end a fleet is carried: the one lead on which the year ends can test it [year].
MOST_LEAD_YEARS = 1.0


@dataclass(frozen=True, slots=True)
class Since:
    """Growth of the labs' fleets since the last year end that is estimated.

    Attributes
    ----------
    ratio : float
        Geometric mean of the two [-].
    labs_ratio : float
        If the labs' growth over the last year that is estimated went on [-].
    sites_ratio : float
        Of all sites that the data name [-].
    spread : float
        Standard deviation of the logarithm [-].
    """

    ratio: float
    labs_ratio: float
    sites_ratio: float
    spread: float


@dataclass(frozen=True, slots=True)
class LargestSite:
    """A lab's largest site at a date: its own H100-equivalents there, and the power of the whole site.

    ``user_is``: ``likely`` where the data are confident or find it likely that the lab uses it, else ``speculative``.
    """

    name: str
    h100e_8bit: float
    user_is: str
    date: str
    facility_w: float | None
    facility_w_interval: tuple[float, float] | None
    it_w: float | None
    projected: bool


@dataclass(frozen=True, slots=True)
class LabAt:
    """A lab at a date."""

    lab: str
    aliases: tuple[str, ...]
    largest_site: LargestSite | None
    named: LabDate
    fleet_h100e_8bit: Num | None
    fleet_it_w: Num | None
    fleet_flop: Num | None
    site_flop: Num | None
    basis: str


@functools.cache
def estimated_fleets() -> Mapping[str, tuple[Fact, ...]]:
    """Whole fleets at year ends, by lab, the earliest first.

    Examples
    --------
    >>> [(one.date, one.value) for one in estimated_fleets()["OpenAI"]][-1]
    ('2025-12-31', 1743440.0)
    """
    document = frontier_document()
    found = {}
    for lab, table in document.table["labs"].items():
        facts = read_facts(document, f"labs.{lab}.fleet", table.get("fleet", {})).values()
        found[lab] = tuple(sorted(facts, key=lambda one: one.date))
    return {lab: facts for lab, facts in found.items() if facts}


def _last_year_growth() -> dict[str, float]:
    """Logarithm of each lab's growth over the last year that is estimated."""
    pairs = {lab: facts[-2:] for lab, facts in estimated_fleets().items() if len(facts) > 1}
    return {
        lab: math.log(new.value / old.value) / (year_of(new.date) - year_of(old.date))
        for lab, (old, new) in pairs.items()
    }


def growth_left_out() -> dict[str, float]:
    """Each lab's growth of the last year over the mean of the others': how far a lab strays, as logarithms [-].

    Examples
    --------
    >>> {lab: round(off, 2) for lab, off in growth_left_out().items()}["SpaceXAI"]
    -0.35
    """
    growth = _last_year_growth()
    return {
        lab: own - statistics.fmean(other for name, other in growth.items() if name != lab)
        for lab, own in growth.items()
    }


def growth_since(last: str, date: str, sites: Sequence[SiteDate]) -> Since:
    """How much a lab's fleet has grown since a year end: two estimates of equal weight.

    The labs' own mean growth of the last estimated year, carried on, and the growth of all named sites. The spread is
    what leaving one lab out missed by, times the years, and half of what separates the two.

    Examples
    --------
    >>> from computeledger.frontier.epoch_files import shipped_sites
    >>> found = growth_since("2025-12-31", "2026-08-22", shipped_sites())
    >>> found.sites_ratio < found.ratio < found.labs_ratio or found.labs_ratio < found.ratio < found.sites_ratio
    True
    """
    years = year_of(date) - year_of(last)
    labs = statistics.fmean(_last_year_growth().values()) * years
    named = math.log(_total(date, sites) / _total(last, sites))
    off = math.sqrt(statistics.fmean(one**2 for one in growth_left_out().values())) * years
    found = (labs + named) / 2
    return Since(math.exp(found), math.exp(labs), math.exp(named), math.hypot(off, (labs - named) / 2))


def _total(date: str, sites: Sequence[SiteDate]) -> float:
    return sum(one.h100e_8bit or 0.0 for one in at_date(date, sites).values())


def fleets_until() -> str:
    """Last day for which a fleet is given: a year beyond the last estimate.

    The estimates are of two or three year ends, so that growth over one year is all that they can be tested on. Carried
    on to 2030 it made 112M H100-equivalents and up to 1.75 TW of one lab.

    Examples
    --------
    >>> fleets_until()
    '2026-12-31'
    """
    last = max(facts[-1].date for facts in estimated_fleets().values())
    return date_of(year_of(last) + MOST_LEAD_YEARS)


def fleet(lab: str, date: str, sites: Sequence[SiteDate]) -> tuple[Range, str] | None:
    """H100-equivalents that a lab uses at a date, with what they rest on; None beyond what the estimates carry.

    Between two year ends each quantile grows evenly; after the last one the fleet grows as :func:`growth_since` says.

    Examples
    --------
    >>> from computeledger.frontier.epoch_files import shipped_sites
    >>> found, basis = fleet("OpenAI", "2025-12-31", shipped_sites())
    >>> found.mid, basis
    (1743440.0, 'estimated by Epoch for that day')
    """
    known = estimated_fleets().get(lab, ())
    before = [one for one in known if one.date <= date]
    after = [one for one in known if one.date > date]
    if not before or (not after and date > fleets_until()):
        return None
    last = before[-1]
    if last.date == date:
        return _range(last), "estimated by Epoch for that day"
    if not after:
        since = growth_since(last.date, date, sites)
        words = f"Epoch's estimate for {last.date}, grown {since.ratio:.2f}x: between the labs' last year carried on "
        words += f"({since.labs_ratio:.2f}x) and the named sites' growth ({since.sites_ratio:.2f}x)"
        return _range(last).times(since.ratio).widened(since.spread), words
    share = (year_of(date) - year_of(last.date)) / (year_of(after[0].date) - year_of(last.date))
    ends = zip(_quantiles(last), _quantiles(after[0]), strict=True)
    low, mid, high = (one ** (1 - share) * other**share for one, other in ends)
    return Range(low, high, mid=mid), f"between Epoch's estimates for {last.date} and {after[0].date}"


def _quantiles(fact: Fact) -> tuple[float, float, float]:
    return fact.low or fact.value, fact.value, fact.high or fact.value


def _range(fact: Fact) -> Range:
    low, mid, high = _quantiles(fact)
    return Range(low, high, mid=mid)


def it_w_per_h100e(date: str, sites: Sequence[SiteDate]) -> Range:
    """IT power per H100-equivalent over the sites that stand at a date, weighted by size.

    Examples
    --------
    >>> from computeledger.frontier.epoch_files import shipped_sites
    >>> early, late = (it_w_per_h100e(day, shipped_sites()) for day in ("2024-12-31", "2026-08-22"))
    >>> late.mid < early.mid
    True
    """
    rows = [(one.it_w / one.h100e_8bit, one.h100e_8bit) for one in at_date(date, sites).values()
            if one.it_w and one.h100e_8bit]  # fmt: skip
    rates, weights = (np.array(one) for one in zip(*sorted(rows), strict=True))
    share = np.cumsum(weights) / weights.sum()
    low, mid, high = (float(rates[min(int(np.searchsorted(share, side)), len(rates) - 1)]) for side in _SIDES)
    return Range(low, high, mid=mid)


def _largest(lab: str, date: str, chips: Sequence[ChipCount], sites: Sequence[SiteDate]) -> LargestSite | None:
    """The site with most published H100-equivalents that the lab is likely to use, else of the speculative ones."""
    rows, held = at_date(date, sites), lab_sites(lab, date, chips, sites)
    known = {name: one for name, one in held.items() if name in rows}
    is_likely = any(mid for _, mid, _ in known.values())
    sized = {name: one[1 if is_likely else 2] for name, one in known.items()}
    if not any(sized.values()):
        return None
    name = max(sized, key=lambda one: sized[one])
    row, power = rows[name], rows[name].facility_w
    projected = row.date > COPY_DATE
    fitted = site_interval(projected)
    ends = None if power is None else (power * fitted.low_ratio, power * fitted.high_ratio)
    user_is = "likely" if is_likely else "speculative"
    return LargestSite(name, sized[name], user_is, row.date, power, ends, row.it_w, projected)


@dataclass(frozen=True, slots=True)
class Training:
    """What a fleet trains: how long, at what utilisation, and the samples drawn."""

    duration_s: Uncertain
    utilization_fraction: Uncertain
    n_samples: int = 4096
    seed: int = 0


def labs_at(date: str, training: Training, chips: Sequence[ChipCount], sites: Sequence[SiteDate]) -> list[LabAt]:
    """Every lab that the data name or whose fleet is estimated, the largest fleet first.

    Examples
    --------
    >>> from computeledger.frontier.epoch_files import shipped_chips, shipped_sites
    >>> labs = labs_at("2025-12-31", Training(1e7, 0.4, 64), shipped_chips(), shipped_sites())
    >>> labs[0].lab, labs[0].largest_site.name
    ('OpenAI', 'OpenAI Stargate Abilene')
    """
    first = min(facts[0].date for facts in estimated_fleets().values())
    last = max(one.date for one in sites)
    if not first <= date <= last:
        raise InputError(f"date {date}: labs are known from {first} (first estimate) to {last} (last plan of a site)")
    names = sorted({*lab_names(chips), *estimated_fleets()})
    found = [_lab_at(lab, date, training, (chips, sites)) for lab in names]
    kept = [one for one in found if one.fleet_h100e_8bit is not None or one.named.high > 0]
    return sorted(kept, key=_size, reverse=True)


def _size(one: LabAt) -> tuple[bool, float]:
    fleet_size = 0.0 if one.fleet_h100e_8bit is None else float(np.median(one.fleet_h100e_8bit))
    return one.fleet_h100e_8bit is not None, fleet_size or one.named.mid


def _lab_at(lab: str, date: str, training: Training, data: tuple[Sequence[ChipCount], Sequence[SiteDate]]) -> LabAt:
    chips, sites = data
    aliases = tuple(frontier_document().table["labs"].get(lab, {}).get("aliases", ()))
    named, largest, estimate = (
        lab_date(lab, date, chips, sites),
        _largest(lab, date, chips, sites),
        fleet(lab, date, sites),
    )
    asked: dict[str, Uncertain] = {
        "duration": training.duration_s,
        "utilization": training.utilization_fraction,
        "it_w": it_w_per_h100e(date, sites),
    }
    if estimate is not None:
        asked["h100e"] = estimate[0]
    drawn = sample(asked, training.n_samples, training.seed)
    flop = load_accelerator(REFERENCE).peak("bf16") * drawn["duration"] * drawn["utilization"]
    site_flop = None if largest is None else largest.h100e_8bit * flop
    if estimate is None:
        words = "the data name its sites only; nobody estimated its fleet"
        if date > fleets_until() and lab in estimated_fleets():
            words = (
                f"no fleet after {fleets_until()}: a year beyond Epoch's last estimate is as far as it could be tested"
            )
        return LabAt(lab, aliases, largest, named, None, None, None, site_flop, words)
    known = 0.0 if named.projected else named.low
    size = np.maximum(drawn["h100e"], known)
    return LabAt(lab, aliases, largest, named, size, size * drawn["it_w"], size * flop, site_flop, estimate[1])


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A training run in the calendar of releases.

    Attributes
    ----------
    run : TrainingRun
        As published.
    labs : tuple of str
        Under their one name.
    is_record : bool
        Whether it was the largest when it came.
    days_since_previous : int or None
        Days since the lab's release before [day].
    """

    run: TrainingRun
    labs: tuple[str, ...]
    is_record: bool
    days_since_previous: int | None


def listed_runs(runs: Sequence[TrainingRun]) -> list[ListedRun]:
    """Every run by date, with the labs' names, records, and days since the lab's run before.

    Examples
    --------
    >>> from computeledger.frontier.epoch_files import shipped_runs
    >>> [one.run.name for one in listed_runs(shipped_runs()) if one.is_record][-1]
    'Grok 4'
    """
    out: list[ListedRun] = []
    largest, before = 0.0, dict[str, str]()
    for run in sorted(runs, key=lambda one: (one.date, one.name)):
        labs = tuple(lab_called(one) for one in run.organization.split(","))
        known = [before[lab] for lab in labs if lab in before]
        days = None if not known else _days(max(known), run.date)
        out.append(ListedRun(run, labs, run.training_flop > largest, days))
        largest = max(largest, run.training_flop)
        before |= dict.fromkeys(labs, run.date)
    return out


def _days(first: str, last: str) -> int:
    return (datetime.date.fromisoformat(last) - datetime.date.fromisoformat(first)).days
