"""Chips of a lab over time at the sites that the data name: a lower bound of its fleet, with the data's own doubts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from computeledger.errors import InputError, shown
from computeledger.frontier.epoch_files import COPY_DATE, ChipCount
from computeledger.frontier.sites import flop_per_s_8bit, h100e_8bit

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


def user_of(text: str) -> tuple[str, str]:
    """Split a user into name and confidence.

    Examples
    --------
    >>> user_of("OpenAI #confident"), user_of("")
    (('OpenAI', 'confident'), ('', ''))
    """
    name, _, confidence = text.partition("#")
    return name.strip(), confidence.strip()


def lab_names(chips: Sequence[ChipCount]) -> list[str]:
    """Users that the file names; its remarks in their place are left out.

    Examples
    --------
    >>> lab_names([ChipCount("A", "2025-01-01", "H100", 1.0, "xAI #likely")])
    ['xAI']
    """
    found = {user_of(one.user) for one in chips}
    return sorted({name for name, sure in found if name and sure in CONFIDENCE and not name.startswith("Assumed")})


def lab_timeline(lab: str, chips: Sequence[ChipCount]) -> list[LabDate]:
    """Chips of a lab at every date at which one of its sites changes.

    A site's last count of a kind stands until the next one; the user of the last count has the site.

    Examples
    --------
    >>> counts = [ChipCount("A", "2025-01-01", "H100", 1e5, "xAI #confident"),
    ...           ChipCount("B", "2025-06-01", "H100", 5e4, "xAI #speculative")]
    >>> [(one.date, one.low, one.high) for one in lab_timeline("xai", counts)]
    [('2025-01-01', 100000.0, 100000.0), ('2025-06-01', 100000.0, 150000.0)]
    """
    name = _named(lab, lab_names(chips))
    own = {one.name for one in chips if user_of(one.user)[0] == name}
    dates = sorted({one.date for one in chips if one.name in own})
    return [found for date in dates if (found := _lab_date(name, date, chips)).high > 0]


def _named(lab: str, names: Sequence[str]) -> str:
    """The name that is meant: as it stands, or the only one that it is a part of."""
    same = [name for name in names if name.lower() == lab.lower()]
    part = [name for name in names if lab.strip() and lab.strip().lower() in name.lower()]
    if same or len(part) == 1:
        return (same or part)[0]
    if part:
        raise InputError(f"lab {shown(lab)}: that is a part of {', '.join(part)}: name one of them")
    raise InputError(f"lab {shown(lab)}: allowed: {', '.join(names)}")


def _lab_date(lab: str, date: str, chips: Sequence[ChipCount]) -> LabDate:
    last: dict[tuple[str, str], ChipCount] = {}
    for one in chips:
        if one.date <= date and flop_per_s_8bit(one.chip) is not None:
            last[one.name, one.chip] = one
    mine = [one for one in last.values() if user_of(one.user)[0] == lab]
    low, mid, high = (
        h100e_8bit(one for one in mine if CONFIDENCE.get(user_of(one.user)[1], 2) <= level) or 0.0 for level in range(3)
    )
    return LabDate(lab, date, low, mid, high, tuple(sorted({one.name for one in mine})), date > COPY_DATE)
