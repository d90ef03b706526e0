"""Answer which data-centre sites are known, a lab's chips, and a claim about a site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from computeledger.errors import InputError, nearest
from computeledger.fields import Given
from computeledger.frontier.epoch_files import (
    CREDIT,
    checked_day,
    read_chips,
    read_timelines,
    shipped_chips,
    shipped_sites,
)
from computeledger.frontier.labs import LabDate, lab_timeline
from computeledger.frontier.sites import ClaimedPower, SiteRow, check_claimed_power, share_within, site_rows
from computeledger.frontier.working import (
    site_figures,
)
from computeledger.physics.calibration.efficiency import median_of
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.answers.frontier import document as documents
from computeledger.questions.document import document
from computeledger.questions.frontier import (
    SitesQuestion,
)
from computeledger.questions.grounds import figure_document


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class SitesAnswer(Answer):
    """Sites over time, with how many of them agree with what was published."""

    question: SitesQuestion
    rows: Sequence[SiteRow]
    shares: Mapping[str, tuple[int, int]]

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger frontier sites --json`` prints it."""
        found = documents.sites_document(self.rows, self.shares)
        if working:
            figures = site_figures(list(self.rows), self.shares["power_checked"])
            found["working"] = [figure_document(one) for one in figures]
        return found


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class LabAnswer(Answer):
    """Chips of a lab over time, at the sites that the data name."""

    lab: Sequence[LabDate]
    credit: str = CREDIT


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ClaimAnswer(Answer):
    """A claim about a site beside the data."""

    found: ClaimedPower

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger frontier sites --claim --json`` prints it."""
        return {
            "claim": document(self.found) | {"interval_from": documents.interval_document()},
            "credit": CREDIT,
        }


AnySites = SitesAnswer | LabAnswer | ClaimAnswer


def sites(question: SitesQuestion | None = None, /, **given: Given) -> AnySites:
    """Data-centre sites over time, a lab's chips, or a claim about a site.

    Parameters
    ----------
    question : SitesQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or Range
        Fields of :class:`~computeledger.questions.frontier.SitesQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    SitesAnswer, LabAnswer or ClaimAnswer
        Sites with H100-equivalents recomputed from chip counts beside the published ones; a lab's chips with ``lab``; a
        verdict with ``claim``.

    Raises
    ------
    InputError
        For bad input, and for a site or lab that the data do not name.

    Examples
    --------
    >>> one = sites(site="Stargate Abilene", claim="400 MW", date="2025-12-31").found
    >>> one.interval_w[0] < one.facility_w < one.interval_w[1]
    True
    """
    return from_python(SitesQuestion, answer_sites, question, given)


def answer_sites(question: SitesQuestion) -> AnySites:
    """Answer ``computeledger frontier sites``."""
    date = None if question.date is None else checked_day(question.date, "--date")
    folder = None if question.data is None else Path(question.data)
    timelines = list(shipped_sites()) if folder is None else read_timelines(folder)
    if question.claim is not None:
        return ClaimAnswer(check_claimed_power(question.site or "", median_of(question.claim), date or "", timelines))
    chips = list(shipped_chips()) if folder is None else read_chips(folder)
    if question.lab is not None:
        dated = lab_timeline(question.lab, chips, timelines)
        return LabAnswer([one for one in dated if date is None or one.date <= date])
    rows = site_rows(timelines, chips)
    shares = {
        "power_checked": share_within(rows),
        "power_checked_observed": share_within(rows, projected=False),
        "counted": share_within(rows, counted=True),
        "counted_observed": share_within(rows, projected=False, counted=True),
    }
    asked = question.site
    kept = [row for row in rows if asked is None or asked.lower() in row.published.name.lower()]
    if not kept:
        raise InputError(f"--site {asked!r}: {nearest(asked or '', {r.published.name for r in rows})}")
    rows = [row for row in kept if date is None or row.published.date <= date]
    return SitesAnswer(question, rows, shares)
