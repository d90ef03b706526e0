"""How far to trust a site's power: what earlier copies of the data said of a day, beside what the latest says of it."""

from __future__ import annotations

import csv
import datetime
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from computeledger.errors import FactError
from computeledger.facts.catalog import shipped_file
from computeledger.frontier.epoch_files import SiteDate, shipped_sites
from computeledger.units import MEGA

#: An earlier copy's figures count as far back as this before its own date: older ones had been settled.
_RECENT_DAYS = 365
_SIDES = (0.05, 0.5, 0.95)


@dataclass(frozen=True, slots=True)
class Revision:
    """A figure of an earlier copy, beside the latest for the same site and day."""

    copy_date: str
    name: str
    date: str
    earlier_w: float
    later_w: float

    @property
    def projected(self) -> bool:
        """Whether the day lay after the earlier copy."""
        return self.date > self.copy_date


@dataclass(frozen=True, slots=True)
class SiteInterval:
    """90 % interval of a site's power, from revisions."""

    projected: bool
    not_running_fraction: float
    low_ratio: float
    middle_ratio: float
    high_ratio: float
    n: int
    n_sites: int


@functools.cache
def shipped_revisions() -> tuple[Revision, ...]:
    """Three earlier copies beside the one that ships.

    Examples
    --------
    >>> len({one.copy_date for one in shipped_revisions()})
    3
    """
    text = shipped_file("frontier", "site_copies.csv").read_text("utf-8").splitlines()
    known: dict[str, list[SiteDate]] = {}
    for one in shipped_sites():
        known.setdefault(one.name, []).append(one)
    out = []
    for row in csv.DictReader(text):
        if row["name"] not in known:
            raise FactError(f"site_copies.csv: no site {row['name']!r} in sites.csv")
        then = [one for one in known[row["name"]] if one.date <= row["date"] and one.facility_w is not None]
        later = (then[-1].facility_w or 0.0) if then else 0.0
        out.append(Revision(row["copy_date"], row["name"], row["date"], float(row["facility_mw"]) * MEGA, later))
    return tuple(out)


def fit_interval(revisions: Sequence[Revision], projected: bool) -> SiteInterval:
    """Quantiles of later over earlier figures; each site of a copy weighs the same.

    Examples
    --------
    >>> fit_interval([Revision("2026-01-01", "A", "2025-12-01", 2e8, 1e8)], projected=False).middle_ratio
    0.5
    """
    kept = [one for one in revisions if one.projected == projected and (projected or _age_days(one) <= _RECENT_DAYS)]
    if not any(one.later_w for one in kept):
        raise FactError("no revisions to fit a site's interval on")
    pairs = [(one.copy_date, one.name) for one in kept]
    weights = np.array([1.0 / pairs.count(pair) for pair in pairs])
    ratios = np.array([one.later_w / one.earlier_w for one in kept])
    runs = ratios > 0
    order = np.argsort(ratios[runs], kind="stable")
    share = np.cumsum(weights[runs][order]) / weights[runs].sum()
    places = np.minimum(np.searchsorted(share, _SIDES), len(order) - 1)
    low, median, high = (float(one) for one in ratios[runs][order][places])
    idle = float(weights[~runs].sum() / weights.sum())
    return SiteInterval(projected, idle, low, median, high, len(kept), len(set(pairs)))


def _age_days(one: Revision) -> int:
    return (datetime.date.fromisoformat(one.copy_date) - datetime.date.fromisoformat(one.date)).days


@functools.cache
def site_interval(projected: bool) -> SiteInterval:
    """The interval that the shipped copies give.

    Examples
    --------
    >>> seen, planned = site_interval(False), site_interval(True)
    >>> [round(one.low_ratio, 2) for one in (seen, planned)], round(seen.high_ratio, 2)
    ([0.5, 0.23], 1.04)
    """
    return fit_interval(shipped_revisions(), projected)
