"""Chips of a lab over time at the sites that the data name: a lower bound of its fleet, with the data's own doubts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from computeledger.errors import InputError, shown
from computeledger.frontier.epoch_files import COPY_DATE, ChipCount, SiteDate
from computeledger.frontier.sites import flop_per_s_8bit, h100e_8bit
from computeledger.frontier.text import frontier_document

#: How sure the file is of a user, and from which end of the interval on its chips count.
CONFIDENCE = {"confident": 0, "likely": 1, "speculative": 2, "estimate": 2, "": 1}


@dataclass(frozen=True, slots=True)
class LabDate:
    """A lab at a date."""

    lab: str
    date: str
    low: float
    mid: float
    high: float
    sites: tuple[str, ...]
    projected: bool


def lab_called(name: str) -> str:
    """The one name of a lab that has several; any other name as it stands.

    Examples
    --------
    >>> lab_called("xAI"), lab_called("google"), lab_called("Mistral AI")
    ('SpaceXAI', 'Google DeepMind', 'Mistral AI')
    """
    asked = name.strip().lower()
    for lab, table in frontier_document().table["labs"].items():
        if asked in (one.lower() for one in (lab, *table["aliases"])):
            return str(lab)
    return name.strip()


def user_of(text: str) -> tuple[str, str]:
    """Split a user into the lab's name and the file's confidence.

    Examples
    --------
    >>> user_of("xAI #confident"), user_of("")
    (('SpaceXAI', 'confident'), ('', ''))
    """
    name, _, confidence = text.partition("#")
    return lab_called(name), confidence.strip()


def lab_names(chips: Sequence[ChipCount]) -> list[str]:
    """Users that the file names; its remarks in their place are left out.

    Examples
    --------
    >>> lab_names([ChipCount("A", "2025-01-01", "H100", 1.0, "xAI #likely")])
    ['SpaceXAI']
    """
    found = {user_of(one.user) for one in chips}
    return sorted({name for name, sure in found if name and sure in CONFIDENCE and not name.startswith("Assumed")})


def lab_timeline(lab: str, chips: Sequence[ChipCount], sites: Sequence[SiteDate] = ()) -> list[LabDate]:
    """Chips of a lab at every date at which one of its sites changes.

    A site's last count of a kind stands until the next one; the user of the last count has the site. With ``sites`` the
    counts are shares of what is published for the site.

    Examples
    --------
    >>> counts = [ChipCount("A", "2025-01-01", "H100", 1e5, "xAI #confident"),
    ...           ChipCount("B", "2025-06-01", "H100", 5e4, "xAI #speculative")]
    >>> [(one.date, one.low, one.high) for one in lab_timeline("xai", counts)]
    [('2025-01-01', 100000.0, 100000.0), ('2025-06-01', 100000.0, 150000.0)]
    """
    name = named_lab(lab, lab_names(chips))
    own = {one.name for one in chips if user_of(one.user)[0] == name}
    dates = sorted({one.date for one in chips if one.name in own})
    return [found for date in dates if (found := lab_date(name, date, chips, sites)).high > 0]


def named_lab(lab: str, names: Sequence[str]) -> str:
    """The name that is meant: as it stands, another of its names, or the only one that it is a part of.

    Examples
    --------
    >>> named_lab("deepmind", ["Google DeepMind", "OpenAI"]), named_lab("open", ["Google DeepMind", "OpenAI"])
    ('Google DeepMind', 'OpenAI')
    """
    called = lab_called(lab)
    same = [name for name in names if name.lower() == called.lower()]
    part = [name for name in names if lab.strip() and lab.strip().lower() in name.lower()]
    if same or len(part) == 1:
        return (same or part)[0]
    if part:
        raise InputError(f"lab {shown(lab)}: that is a part of {', '.join(part)}: name one of them")
    raise InputError(f"lab {shown(lab)}: allowed: {', '.join(names)}")


def standing(date: str, chips: Sequence[ChipCount]) -> list[ChipCount]:
    """The last count of every kind of chip at every site, by a date.

    Examples
    --------
    >>> one = [ChipCount("A", day, "H100", n, "") for day, n in (("2025-01-01", 1.0), ("2026-01-01", 2.0))]
    >>> standing("2025-06-01", one)[0].count
    1.0
    """
    last: dict[tuple[str, str], ChipCount] = {}
    for one in chips:
        if one.date <= date and flop_per_s_8bit(one.chip) is not None:
            last[one.name, one.chip] = one
    return list(last.values())


def at_date(date: str, sites: Sequence[SiteDate]) -> dict[str, SiteDate]:
    """The last published state of every site by a date.

    Examples
    --------
    >>> at_date("2025-01-01", [SiteDate("A", "2026-01-01", None, None, 1e5, None)])
    {}
    """
    return {one.name: one for one in sites if one.date <= date and one.h100e_8bit is not None}


def lab_sites(
    lab: str, date: str, chips: Sequence[ChipCount], sites: Sequence[SiteDate]
) -> dict[str, tuple[float, float, float]]:
    """H100-equivalents of a lab at each site: what is confident, what is likely besides, and all.

    The lab has its share of the counted chips of what is published for the site: a later count may add to an earlier
    one, which the published capacity knows and the counts do not say. Without a published capacity the counts stand.

    Examples
    --------
    >>> counts = [ChipCount("A", "2025-01-01", "H100", 1e5, "xAI #likely")]
    >>> lab_sites("SpaceXAI", "2025-01-01", counts, [SiteDate("A", "2025-01-01", None, None, 3e5, None)])
    {'A': (0.0, 300000.0, 300000.0)}
    """
    counts: dict[str, list[ChipCount]] = {}
    for one in standing(date, chips):
        counts.setdefault(one.name, []).append(one)
    published, found = at_date(date, sites), {}
    for name, all_ in counts.items():
        own = [one for one in all_ if user_of(one.user)[0] == lab]
        if not own:
            continue
        row, counted = published.get(name), h100e_8bit(all_) or 0.0
        ratio = 1.0 if row is None or not counted else (row.h100e_8bit or 0.0) / counted
        low, mid, high = (
            ratio * (h100e_8bit(one for one in own if CONFIDENCE.get(user_of(one.user)[1], 2) <= level) or 0.0)
            for level in range(3)
        )
        found[name] = (low, mid, high)
    return found


def lab_date(lab: str, date: str, chips: Sequence[ChipCount], sites: Sequence[SiteDate] = ()) -> LabDate:
    """A lab's chips at a date.

    Examples
    --------
    >>> lab_date("OpenAI", "2025-01-01", [ChipCount("A", "2025-01-01", "H100", 10.0, "OpenAI #likely")]).mid
    10.0
    """
    found = lab_sites(lab, date, chips, sites)
    low, mid, high = (sum(one[level] for one in found.values()) for level in range(3))
    return LabDate(lab, date, low, mid, high, tuple(sorted(found)), date > COPY_DATE)
