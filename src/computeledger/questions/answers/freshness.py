"""Answer how old the shipped facts are: which were stated before a day, and which editions are the newest."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from computeledger.errors import InputError
from computeledger.facts.reading import ASSUMPTION
from computeledger.facts.schema import Fact
from computeledger.frontier.epoch_files import checked_day, checked_month
from computeledger.questions.answer import Answer
from computeledger.questions.answers.facts import EDITIONS, FactsAnswer, searched_records
from computeledger.questions.facts import FreshnessQuestion
from computeledger.units import DAY_S, MONTH_S


@dataclass(frozen=True, slots=True)
class Dated:
    """Facts that belong together, by the last day that each date can mean; how many of them are older is counted.

    Attributes
    ----------
    id, kind : str
        Of the record; of a whole kind the id is empty.
    dates : tuple of str
        ISO days, oldest first.
    n_older : int
        Those before the day that is asked for.
    sources : tuple of str
        Keys of the sources of those, each once.
    """

    id: str
    kind: str
    dates: tuple[str, ...]
    n_older: int
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewestEdition:
    """The newest edition of a kind, and its age [s] at the day of the question."""

    kind: str
    edition: str
    age_s: float


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class FreshnessAnswer(Answer):
    """How many facts are older than what is asked for, by kind of record and by record."""

    question: FreshnessQuestion
    at: str
    since: str
    kinds: tuple[Dated, ...]
    records: tuple[Dated, ...]
    editions: tuple[NewestEdition, ...]
    n_assumptions: int

    @property
    def n_older(self) -> int:
        """Facts that were stated before."""
        return sum(one.n_older for one in self.kinds)

    @property
    def n(self) -> int:
        """Facts with a date."""
        return sum(len(one.dates) for one in self.kinds)

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (dates have none)
        """As ``computeledger facts freshness --json`` prints it, below the name of its schema."""
        editions = [
            {
                "kind": one.kind,
                "edition": one.edition,
                "age_s": one.age_s,
                "older": one.age_s > self.question.older_than,
            }
            for one in self.editions
        ]
        return {
            "at": self.at,
            "older_than_s": self.question.older_than,
            "since": self.since,
            "n": self.n,
            "n_older": self.n_older,
            "n_assumptions": self.n_assumptions,
            "kinds": [_document(one) for one in self.kinds],
            "records": [_document(one) for one in self.records],
            "editions": editions,
        }


def _document(one: Dated) -> dict[str, Any]:
    named = {"id": one.id, "kind": one.kind} if one.id else {"kind": one.kind}
    dates = {"oldest": one.dates[0], "newest": one.dates[-1]}
    return {**named, "n": len(one.dates), "n_older": one.n_older, **dates, "sources": list(one.sources)}


def freshness(question: FreshnessQuestion) -> FreshnessAnswer:
    """Answer ``computeledger facts freshness``.

    Examples
    --------
    >>> young, old = (freshness(FreshnessQuestion(older_than=age, at="2026-11-28")) for age in ("2 months", "3 years"))
    >>> young.n == old.n and young.n_older > old.n_older
    True
    """
    at = datetime.date.fromisoformat(checked_day(question.at or datetime.date.today().isoformat(), "--at"))
    try:
        since = (at - datetime.timedelta(seconds=question.older_than)).isoformat()
    except OverflowError:
        raise InputError("--older-than: longer than the calendar") from None
    found = [(record, list(_published(record))) for record in searched_records()]
    records = [_dated((record.id, record.kind), facts, since, at.isoformat()) for record, facts in found if facts]
    by_kind: dict[str, list[Fact]] = {}
    for record, facts in found:
        by_kind.setdefault(record.kind, []).extend(facts)
    kinds = [_dated(("", kind), facts, since, at.isoformat()) for kind, facts in by_kind.items() if facts]
    older = sorted((one for one in records if one.n_older), key=lambda one: (one.dates[0], one.id))
    assumed = sum(fact.source == ASSUMPTION for record, _ in found for fact in record.facts.values())
    return FreshnessAnswer(question, at.isoformat(), since, tuple(kinds), tuple(older), _editions(at), assumed)


def _published(record: FactsAnswer) -> Iterator[Fact]:
    """Facts of a record that somebody stated; prices of a chip belong to their edition."""
    for name, fact in record.facts.items():
        if fact.source != ASSUMPTION and not (record.kind == "accelerator" and name.startswith("usd_per_gpu_hour.")):
            yield fact


def _last_day(date: str, at: str) -> str:
    """The last day that a date of a year, a month or a day can mean, up to the day of the question."""
    return min(at, checked_month(f"{date}-12" if len(date) == 4 else date, "a fact's date"))


def _dated(record: tuple[str, str], facts: Sequence[Fact], since: str, at: str) -> Dated:
    dates = [_last_day(fact.date, at) for fact in facts]
    older = {fact.source for fact, day in zip(facts, dates, strict=True) if day < since}
    return Dated(*record, tuple(sorted(dates)), sum(day < since for day in dates), tuple(sorted(older)))


def _editions(at: datetime.date) -> tuple[NewestEdition, ...]:
    newest: Mapping[str, str] = {kind: editions()[-1] for kind, (editions, _) in EDITIONS.items()}
    return tuple(
        NewestEdition(
            kind, edition, (at - datetime.date.fromisoformat(_last_day(edition, at.isoformat()))).days * DAY_S
        )
        for kind, edition in newest.items()
    )


def months(age_s: float) -> str:
    """An age in words.

    Examples
    --------
    >>> months(366 * DAY_S), months(MONTH_S), months(0.0)
    ('12 months', '1 month', 'less than a month')
    """
    n = round(age_s / MONTH_S)
    return "less than a month" if n == 0 else f"{n} month{'s' if n > 1 else ''}"
