"""How old facts are: counted by their dates, at a day, with the newest editions."""

from __future__ import annotations

import datetime

import pytest

from computeledger.errors import InputError
from computeledger.facts.load import load_model
from computeledger.fields import question_from
from computeledger.questions.answers.facts import show_facts
from computeledger.questions.answers.freshness import FreshnessAnswer, freshness, months
from computeledger.questions.facts import FreshnessQuestion
from computeledger.units import DAY_S


def question(older_than: str, at: str = "2026-11-28") -> FreshnessQuestion:
    return question_from(FreshnessQuestion, {"older_than": older_than, "at": at})


def asked(older_than: str, at: str) -> FreshnessAnswer:
    return freshness(question(older_than, at))


def test_a_fact_is_old_the_day_after_its_age_is_reached() -> None:
    chip = show_facts("a18-pro")
    day = min(fact.date for fact in chip.facts.values() if len(fact.date) == 10 and fact.source != "assumption")
    stated = datetime.date.fromisoformat(day)

    def old(after_days: int) -> int:
        found = asked("100 days", (stated + datetime.timedelta(days=after_days)).isoformat())
        return next((one.n_older for one in found.records if one.id == chip.id), 0)

    assert old(100) == 0 < old(101)


def test_records_and_kinds_count_the_same_facts() -> None:
    found = asked("6 months", "2026-11-28")
    assert sum(one.n_older for one in found.records) == found.n_older > 0
    assert 0 < found.n_older < found.n and found.n_assumptions > 0
    assert list(found.records) == sorted(found.records, key=lambda one: (one.dates[0], one.id)), "oldest first"
    assert "assumption" not in {key for one in found.records for key in one.sources}
    llama = next(one for one in found.records if one.id == load_model("llama-2-7b").id)
    assert llama.n_older == len(load_model("llama-2-7b").published)


def test_an_age_of_nothing_takes_every_fact_of_another_day() -> None:
    found = asked("0 days", "2030-01-01")
    assert found.n_older == found.n
    assert [one.edition for one in found.editions] == ["2026-11"] * 3
    assert found.editions[0].age_s == (datetime.date(2030, 1, 1) - datetime.date(2026, 11, 30)).days * DAY_S
    assert found.to_dict()["editions"][0]["older"] is True
    assert asked("20 years", "2026-11-28").n_older == 0


def test_a_date_that_names_a_year_counts_as_young_as_it_may_be() -> None:
    found = asked("0 days", "2026-11-28")
    assert max(one.dates[-1] for one in found.kinds) == "2026-11-28", "2026 is no later than the day of the question"


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(InputError, match="no date"):
        asked("1 year", "2026-1")
    with pytest.raises(InputError, match="calendar"):
        asked("3000 years", "2026-11-28")
    with pytest.raises(InputError, match="older_than"):
        question("-3 months")
    assert question("3").older_than == question("3 months").older_than


def test_ages_in_words() -> None:
    assert [months(days * DAY_S) for days in (3, 31, 366)] == ["less than a month", "1 month", "12 months"]
