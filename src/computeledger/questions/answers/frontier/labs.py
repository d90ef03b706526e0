"""Answer what labs have at a date, and what was trained when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.errors import InputError
from computeledger.fields import Given
from computeledger.frontier.epoch_files import (
    COPY_DATE,
    CREDIT,
    checked_day,
    checked_month,
    read_chips,
    read_timelines,
    shipped_chips,
    shipped_runs,
    shipped_sites,
)
from computeledger.frontier.fleets import (
    LabAt,
    ListedRun,
    Training,
    fleets_until,
    growth_left_out,
    labs_at,
    listed_runs,
)
from computeledger.frontier.forecast import RUNS_DATE
from computeledger.frontier.growth import Scenario, load_scenarios
from computeledger.frontier.labs import named_lab
from computeledger.frontier.releases import CALENDAR_DATE, DueRelease, due_releases
from computeledger.frontier.trends import date_of
from computeledger.physics.calibration.efficiency import median_of
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.document import document
from computeledger.questions.frontier import LabsQuestion, RunsQuestion
from computeledger.workloads.result import quantity

RUNS_CREDIT = "Data: Epoch AI, AI Models, CC BY 4.0 (https://epoch.ai/data/ai-models)"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class LabsAnswer(Answer):
    """Labs side by side at a date."""

    has_working = False

    question: LabsQuestion
    date: str
    labs: Sequence[LabAt]
    releases: Sequence[DueRelease]

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger frontier labs --json`` prints it."""
        return {
            "date": self.date,
            "projected": self.date > COPY_DATE,
            "fleets_until": fleets_until(),
            "labs": [_lab_document(one) for one in self.labs],
            "growth_left_out_log": growth_left_out(),
            "scenario": self.question.scenario,
            "releases": [_release_document(one) for one in self.releases],
            "releases_known_until": CALENDAR_DATE,
            "credit": CREDIT,
        }


def _lab_document(one: LabAt) -> dict[str, Any]:
    sampled = {
        name: None if value is None else quantity(value, unit)
        for name, value, unit in (
            ("fleet_h100e_8bit", one.fleet_h100e_8bit, "H100e"),
            ("fleet_it_w", one.fleet_it_w, "W"),
            ("fleet_flop", one.fleet_flop, "FLOP"),
            ("site_flop", one.site_flop, "FLOP"),
        )
    }
    named = {"low": one.named.low, "mid": one.named.mid, "high": one.named.high, "n_sites": len(one.named.sites)}
    return {
        "lab": one.lab,
        "aliases": list(one.aliases),
        "largest_site": None if one.largest_site is None else document(one.largest_site),
        "named_h100e_8bit": named,
        **sampled,
        "basis": one.basis,
    }


def _release_document(one: DueRelease) -> dict[str, Any]:
    p05, p50, p95 = (date_of(float(year)) for year in np.quantile(one.years, (0.05, 0.5, 0.95)))
    flop = {"site_flop": one.site_flop, "fleet_flop": one.fleet_flop}
    return {
        "lab": one.last.lab,
        "last_model": one.last.model,
        "last_date": one.last.date,
        "days_between": one.days_between,
        "next_model": None if one.came is None else one.came.model,
        "next_date": {"p05": p05, "p50": p50, "p95": p95},
        **{name: None if value is None else quantity(value, "FLOP") for name, value in flop.items()},
    }


def labs(question: LabsQuestion | None = None, /, **given: Given) -> LabsAnswer:
    """Labs side by side at a date: largest site, whole fleet, its power, and what it trains.

    Parameters
    ----------
    question : LabsQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float, int or Range
        Fields of :class:`~computeledger.questions.frontier.LabsQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    LabsAnswer
        A lab a row, the largest fleet first.

    Raises
    ------
    InputError
        For a day before the first estimate or after the last plan, and for a lab that the data do not name.

    Examples
    --------
    >>> labs(date="2025-12", lab="xAI").labs[0].lab
    'SpaceXAI'
    """
    return from_python(LabsQuestion, answer_labs, question, given)


def answer_labs(question: LabsQuestion) -> LabsAnswer:
    """Answer ``computeledger frontier labs``."""
    date = checked_month(question.date, "--date")
    folder = None if question.data is None else Path(question.data)
    chips = list(shipped_chips()) if folder is None else read_chips(folder)
    sites = list(shipped_sites()) if folder is None else read_timelines(folder)
    training = Training(question.duration, question.utilization, question.samples, question.seed)
    found = labs_at(date, training, chips, sites)
    if question.lab is not None:
        name = named_lab(question.lab, sorted(one.lab for one in found))
        found = [one for one in found if one.lab == name]
    by_name = {one.lab: one for one in found}
    (scenario,) = _one_scenario(question.scenario).values()
    due = due_releases(date, by_name, scenario, question.samples, question.seed)
    return LabsAnswer(question, date, found, [one for one in due if question.lab is None or one.last.lab in by_name])


def _one_scenario(given: str) -> Mapping[str, Scenario]:
    found = load_scenarios(given)
    if len(found) != 1:
        raise InputError(f"--scenario {given}: it has {len(found)} scenarios: {', '.join(found)}; give a file of one")
    return found


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class RunsAnswer(Answer):
    """Training runs by date of release."""

    has_working = False

    question: RunsQuestion
    runs: Sequence[ListedRun]

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (it has none)
        """As ``computeledger frontier runs --json`` prints it."""
        rows = [document(one.run) | {"labs": list(one.labs), "is_record": one.is_record,
                                     "days_since_previous": one.days_since_previous} for one in self.runs]  # fmt: skip
        return {"known_until": RUNS_DATE, "runs": rows, "credit": RUNS_CREDIT}


def training_runs(question: RunsQuestion | None = None, /, **given: Given) -> RunsAnswer:
    """Training runs whose compute is estimated, by date of release.

    Parameters
    ----------
    question : RunsQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or bool
        Fields of :class:`~computeledger.questions.frontier.RunsQuestion`: texts with units, or numbers in SI units.

    Returns
    -------
    RunsAnswer
        A run a row, the earliest first.

    Raises
    ------
    InputError
        For a day that is none, and for a lab without a run.

    Examples
    --------
    >>> [one.run.name for one in training_runs(lab="SpaceXAI", first="2025-01-01").runs]
    ['Grok 3', 'Grok 4']
    """
    return from_python(RunsQuestion, answer_runs, question, given)


def answer_runs(question: RunsQuestion) -> RunsAnswer:
    """Answer ``computeledger frontier runs``."""
    found = listed_runs(shipped_runs())
    if question.lab is not None:
        name = named_lab(question.lab, sorted({lab for one in found for lab in one.labs}))
        found = [one for one in found if name in one.labs]
    first = "" if question.first is None else checked_day(question.first, "--first")
    last = "9999" if question.last is None else checked_day(question.last, "--last")
    least = 0.0 if question.least is None else median_of(question.least)
    kept = [one for one in found if first <= one.run.date <= last and one.run.training_flop >= least]
    return RunsAnswer(question, [one for one in kept if one.is_record or not question.records])
