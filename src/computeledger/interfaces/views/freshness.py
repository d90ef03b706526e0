"""View of how old facts are: how many by kind of record, the newest editions, the records with the oldest."""

from __future__ import annotations

from computeledger.interfaces.view import Cell, Table, View
from computeledger.questions.answers.freshness import Dated, FreshnessAnswer, months
from computeledger.questions.wording import headline_words
from computeledger.sources import load_sources
from computeledger.units import format_percent

#: Records that a terminal shows.
_SHOWN = 12
_COLUMNS = ("of", "kind", "older #", "facts #", "oldest #", "sources of the older ones")


def view(answer: FreshnessAnswer, _working: bool) -> View:
    """Of the answer to ``facts freshness``."""
    age, share = months(answer.question.older_than), format_percent(answer.n_older / answer.n)
    kinds = [
        [one.kind, f"{one.n_older:,}", f"{len(one.dates):,}", format_percent(one.n_older / len(one.dates)),
         one.dates[0], one.dates[-1]]
        for one in answer.kinds
    ]  # fmt: skip
    editions = [
        [one.kind, one.edition, months(one.age_s), "older" if one.age_s > answer.question.older_than else ""]
        for one in answer.editions
    ]
    rows = [_row(one) for one in answer.records]
    n_more = len(rows) - _SHOWN
    short = Table("Records with the oldest facts", _COLUMNS, rows[:_SHOWN], drops=("sources of the older ones", "kind"),
                  note=f"{n_more:,} more: --all prints every record")  # fmt: skip
    whole = Table("Records with older facts", _COLUMNS, rows, drops=("sources of the older ones", "kind"),
                  in_short=short if n_more > 0 else None)  # fmt: skip
    return View(
        headline_words(
            f"Facts stated more than {age} before {answer.at}", f"{answer.n_older:,} of {answer.n:,} ({share})"
        ),
        f"A year or a month counts as its last day; {answer.n_assumptions:,} assumptions are left out.",
        title="How old the facts are",
        tables=(
            Table("By kind of record", ("kind", "older #", "facts #", "share #", "oldest #", "newest #"), kinds),
            Table("Newest editions", ("kind", "edition #", "age #", ""), editions),
            *((whole,) if rows else ()),
        ),
        overline="facts freshness",
    )


def _row(one: Dated) -> list[str | Cell]:
    known = load_sources()
    first, *more = one.sources
    cell = Cell(f"{first} and {len(more)} more" if more else first, known[first].url if first in known else "")
    return [one.id, one.kind, f"{one.n_older:,}", f"{len(one.dates):,}", one.dates[0], cell]
