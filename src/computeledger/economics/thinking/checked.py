"""Every law of thinking beside figures it has not seen: median error, and how many its 90 % intervals hold."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from computeledger.economics.thinking.budget import BITES, budgets_left_out, closed_left_out
from computeledger.economics.thinking.interval import held_fraction
from computeledger.economics.thinking.level import (
    BY_FAMILY,
    BY_MODEL,
    ONE_FIGURE,
    OTHER_BENCHMARKS,
    levels_left_out,
)
from computeledger.economics.thinking.measured import UNKNOWN
from computeledger.economics.thinking.samples import tries_left_out
from computeledger.economics.thinking.votes import ELSEWHERE, OWN, votes_left_out


@dataclass(frozen=True, slots=True)
class Checked:
    """A kind of figure predicted without what it belongs to.

    Attributes
    ----------
    figures, left_out, known : str
        What was predicted; what was left out of the fit; what was known of the case.
    n, groups : int
        Figures, and left-out groups.
    median_error, mean_error : float
        Of success, absolute [-].
    held : float
        Share inside the 90 % interval that the other groups alone set [-].
    """

    figures: str
    left_out: str
    known: str
    n: int
    groups: int
    median_error: float
    mean_error: float
    held: float


def _checked(
    labels: tuple[str, str, str], errors: Sequence[tuple[str, float]], widths: Sequence[tuple[str, float]] | None = None
) -> Checked:
    sizes = [abs(error) for _, error in errors]
    return Checked(*labels, len(errors), len({group for group, _ in errors}), float(np.median(sizes)),
                   float(np.mean(sizes)), held_fraction(widths or errors))  # fmt: skip


@functools.cache
def checked() -> tuple[Checked, ...]:
    """All kinds of figures of ``think``, each predicted without its model, family or source.

    Examples
    --------
    >>> all(one.median_error < 0.05 for one in checked())
    True
    """
    closed = [(model, error) for model, _, error in closed_left_out()]
    limits, curve = budgets_left_out(), "its success without a limit"
    bite = [*((row[0], row[1]) for row in limits if row[3] < BITES), *closed]
    found = [
        _checked(("thinking under a limit", "way of training", curve), [(row[0], row[1]) for row in limits]),
        _checked(("budgets of closed models", "model", "none and the largest"), closed),
        _checked(("limits that lower success by 5 % or more", "way or model", curve), bite),
    ]
    for by in (BY_MODEL, BY_FAMILY):
        for known in (UNKNOWN, ONE_FIGURE, OTHER_BENCHMARKS):
            rows = levels_left_out(known, by)
            errors = [(one.group, one.error) for one in rows]
            logits = [(one.group, one.logit_error) for one in rows]
            found.append(_checked(("success of one answer", by, known), errors, logits))
    found.append(_checked(("tries until one is right", "all (none fitted)", "four answers at once"),
                          list(tries_left_out())))  # fmt: skip
    for known in (UNKNOWN, ELSEWHERE, OWN):
        votes = [(vote.row.model, error) for vote, error in votes_left_out(known)]
        found.append(_checked(("votes", "source", known), votes))
    return tuple(found)
