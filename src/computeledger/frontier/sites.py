"""Sites over time: H100-equivalents from chip counts, beside the published ones, and a user's claim beside both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from computeledger.errors import InputError, nearest, shown
from computeledger.facts.load import load_accelerator
from computeledger.facts.reading import read_facts
from computeledger.facts.schema import Accelerator, Fact
from computeledger.frontier.epoch_files import COPY_DATE, ChipCount, SiteDate
from computeledger.frontier.revisions import site_interval
from computeledger.frontier.systems import REFERENCE, system_of_accelerator
from computeledger.frontier.text import frontier_document
from computeledger.physics.blackboard.training import h100e

#: Two figures agree within this share.
AGREES_FRACTION = 0.10
#: Beyond this share, chips and power are of two stages: the IT power of a chip itself is known to -12..+18 %.
POWER_FRACTION = 0.20
#: A published figure that moved by less has not changed.
_SAME_FRACTION = 0.005
_IMPLIED = {"TPU v5e": "tpu_v5e_flop_per_s", "Ascend 910C": "ascend_910c_flop_per_s"}


@dataclass(frozen=True, slots=True)
class SiteRow:
    """A site at a date."""

    published: SiteDate
    chips: tuple[ChipCount, ...]
    h100e_counted: float | None
    h100e_8bit: float | None
    reason: str
    projected: bool

    @property
    def error_fraction(self) -> float | None:
        """Recomputed over published less one; None where there is nothing to compare [-]."""
        return self._error(self.h100e_8bit)

    @property
    def counted_error_fraction(self) -> float | None:
        """The same of the chips as counted [-]."""
        return self._error(self.h100e_counted)

    def _error(self, found: float | None) -> float | None:
        published = self.published.h100e_8bit
        return None if found is None or not published else found / published - 1.0

    def interval_w(self) -> tuple[float, float] | None:
        """90 % interval of the facility power where something runs, from revisions of the data."""
        if self.published.facility_w is None:
            return None
        fitted = site_interval(self.projected)
        return self.published.facility_w * fitted.low_ratio, self.published.facility_w * fitted.high_ratio


def flop_per_s_8bit(chip: str) -> float | None:
    """Rate at which Epoch's H100-equivalents count a chip: 8-bit floating point, else bf16.

    For two chips that is the rate that the timelines imply, a fit with its own source.

    Examples
    --------
    >>> flop_per_s_8bit("B200") / 1979e12
    2.526528549772612
    """
    document = frontier_document()
    if chip in _IMPLIED:
        return read_facts(document, "implied", document.table["implied"])[_IMPLIED[chip]].value
    accelerator = _accelerator(chip)
    return None if accelerator is None else accelerator.peak("fp8")


def _accelerator(chip: str) -> Accelerator | None:
    names = frontier_document().table["chips"]
    return load_accelerator(names[chip]) if chip in names else None


def _it_w(chip: str) -> Fact | None:
    accelerator = _accelerator(chip)
    system = None if accelerator is None else system_of_accelerator(accelerator.id)
    return None if system is None else system.it_w_per_chip


def h100e_8bit(chips: Iterable[ChipCount]) -> float | None:
    """H100-equivalents of counted chips.

    Examples
    --------
    >>> round(h100e_8bit([ChipCount("Colossus 2", "2025-10-19", "B200", 110_000.0, "")]))
    277918
    """
    reference, total = load_accelerator(REFERENCE).peak("fp8"), 0.0
    for one in chips:
        rate = flop_per_s_8bit(one.chip)
        if rate is None:
            return None
        total += float(h100e(one.count, rate, reference))
    return total


def _counted(chips: Sequence[ChipCount], date: str, it_w: float | None) -> tuple[ChipCount, ...]:
    """Chips at a date: a later count of a kind replaces the earlier one, unless the power says that it adds to it."""
    known = [one for one in chips if one.date <= date]
    replaced = {one.chip: one for one in known}
    by_user: dict[tuple[str, str], ChipCount] = {(one.chip, one.date): one for one in known}
    added = {
        kind: ChipCount(last.name, last.date, kind, sum(n.count for n in by_user.values() if n.chip == kind), last.user)
        for kind, last in replaced.items()
    }
    if not it_w:
        return tuple(replaced.values())
    powers = [_power(one.values()) for one in (replaced, added)]
    if None in powers:
        return tuple(replaced.values())
    nearer_added = abs((powers[1] or 0.0) - it_w) < abs((powers[0] or 0.0) - it_w)
    return tuple((added if nearer_added else replaced).values())


def _power(chips: Iterable[ChipCount]) -> float | None:
    parts = [(one.count, _it_w(one.chip)) for one in chips]
    return None if any(fact is None for _, fact in parts) else sum(n * fact.value for n, fact in parts if fact)


def site_rows(timelines: Sequence[SiteDate], chips: Sequence[ChipCount]) -> list[SiteRow]:
    """Recompute every site-date from the chips that the files count at that stage of the site.

    A stage is what stands between two changes of the published capacity: where capacity changed after the last count,
    the files hold no count of that stage, and nothing is recomputed.

    Examples
    --------
    >>> one = SiteDate("A", "2025-10-19", 239e6, 323e6, 277_918.0, 9e9)
    >>> site_rows([one], [ChipCount("A", "2025-10-19", "B200", 110_000.0, "")])[0].reason
    ''
    """
    rows = []
    for name in dict.fromkeys(one.name for one in timelines):
        dates = [one for one in timelines if one.name == name and one.h100e_8bit is not None]
        own = [one for one in chips if one.name == name]
        rows += [_row(one, dates, own) for one in dates]
    return rows


def _row(one: SiteDate, dates: Sequence[SiteDate], chips: Sequence[ChipCount]) -> SiteRow:
    projected = one.date > COPY_DATE
    published = one.h100e_8bit or 0.0
    if published == 0:
        found = 0.0 if not one.it_w else None
        return SiteRow(one, (), found, found, "" if found is not None else "capacity is not counted yet", projected)
    counts = [count for count in chips if count.date <= one.date]
    if not counts:
        return SiteRow(one, (), None, None, "no chips are counted up to this date", projected)
    last = max(count.date for count in counts)
    before = [row for row in dates if row.date <= last]
    then = (before[-1].h100e_8bit or 0.0) if before else 0.0
    if abs(published - then) > _SAME_FRACTION * max(published, then):
        return SiteRow(one, (), None, None, f"capacity changed after the last count of chips ({last})", projected)
    counted = _counted(chips, one.date, one.it_w)
    found = h100e_8bit(counted)
    if found is None:
        unknown = [count.chip for count in counted if flop_per_s_8bit(count.chip) is None]
        return SiteRow(one, counted, None, None, f"no peak is known of {', '.join(unknown)}", projected)
    share = _power_share(counted, one)
    reason = _why((found / share / published - 1.0, found / published - 1.0), share, counted)
    return SiteRow(one, counted, found, found / share, reason, projected)


def _power_share(counted: Sequence[ChipCount], one: SiteDate) -> float:
    """IT power that the chips counted would take over the published one; 1 where they agree or it is not known."""
    power = _power(counted)
    if not power or not one.it_w or abs(power / one.it_w - 1.0) <= POWER_FRACTION:
        return 1.0
    return power / one.it_w


def _why(errors: tuple[float, float], share: float, counted: Sequence[ChipCount]) -> str:
    """What can be read off the files where the count alone does not agree."""
    scaled, alone = errors
    if share != 1.0:
        told = f"as counted {alone:+.0%}: those chips would take {share:.2f} of the IT power published for this date"
        return f"{told}; scaled to that power" + ("" if abs(scaled) <= AGREES_FRACTION else f", {scaled:+.0%}")
    if abs(alone) <= AGREES_FRACTION:
        return ""
    kinds = ", ".join(count.chip for count in counted)
    return f"{alone:+.0%}: the timeline rates {kinds} otherwise than their peaks do, or counts other chips"


@dataclass(frozen=True, slots=True)
class ClaimedPower:
    """A user's claim beside the data."""

    name: str
    date: str
    claimed_w: float
    facility_w: float
    interval_w: tuple[float, float]
    reached: str
    verdict: str


def check_claimed_power(name: str, claimed_w: float, date: str, timelines: Sequence[SiteDate]) -> ClaimedPower:
    """Compare a claim about a site's facility power with the data at that date.

    Examples
    --------
    >>> from computeledger.frontier.epoch_files import shipped_sites
    >>> found = check_claimed_power("Stargate Abilene", 400e6, "2025-12-31", shipped_sites())
    >>> found.verdict, found.facility_w, found.reached
    ('too high', 295000000.0, '2026-05-23')
    """
    names = sorted({one.name for one in timelines if one.facility_w is not None})
    matches = [one for one in names if name.lower() in one.lower()]
    exact = [one for one in matches if one.lower() == name.lower()] or matches
    if len(exact) != 1:
        said = f"could be {', '.join(exact)}" if exact else nearest(name, names)
        raise InputError(f"site {shown(name)}: {said}")
    dated = [one for one in timelines if one.name == exact[0] and one.facility_w is not None]
    known = [one for one in dated if one.date <= date]
    if not known:
        raise InputError(f"site {exact[0]}: the data begin at {dated[0].date}, the claim is about {date}")
    row = SiteRow(known[-1], (), None, None, "", known[-1].date > COPY_DATE)
    low, high = row.interval_w() or (0.0, 0.0)
    verdict = "too high" if claimed_w > high else "too low" if claimed_w < low else "holds"
    reached = next((one.date for one in dated if (one.facility_w or 0.0) >= claimed_w), "")
    return ClaimedPower(exact[0], date, claimed_w, known[-1].facility_w or 0.0, (low, high), reached, verdict)


def share_within(rows: Iterable[SiteRow], projected: bool = True, counted: bool = False) -> tuple[int, int]:
    """Count site-dates whose recomputed H100-equivalents agree.

    Examples
    --------
    >>> share_within([])
    (0, 0)
    """
    kept = [row for row in rows if projected or not row.projected]
    found = [row.counted_error_fraction if counted else row.error_fraction for row in kept]
    errors = [error for error in found if error is not None]
    return sum(abs(error) <= AGREES_FRACTION for error in errors), len(errors)
