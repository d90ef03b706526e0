"""The questions of ``computeledger books``: what is written down, listed, shown and exported."""

from __future__ import annotations

from dataclasses import dataclass

from computeledger.fields import Asked, asked


@dataclass(frozen=True, kw_only=True)
class BookQuestion(Asked):
    """Any question about books."""

    book: str = asked("text", "The books.", "books.duckdb", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class AddQuestion(BookQuestion):
    """Write files down; all or none."""

    files: tuple[str, ...] = asked("texts", "Plans, runs' ledgers and reconciliations.", ..., metavar="FILE...")
    name: str | None = asked("text", "In place of the plan's title or the run's name.", metavar="NAME", blank="its own")
    note: str = asked("text", "What to remember about it.", "", metavar="TEXT")
    price: float | None = asked(
        "usd_per_hour", "A GPU-hour of a run; left out, its cost is unknown.", unit="$/h", is_single=True,
        metavar="$/h", blank="unknown",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BooksQuestion(BookQuestion):
    """Entries, and what they cost and reached by month."""

    kind: str | None = asked("text", "Only these.", choices=("plan", "run", "reconciliation"), blank="all")
    name: str | None = asked("text", "Only entries of this name.", metavar="NAME", blank="all")


@dataclass(frozen=True, kw_only=True)
class EntryQuestion(BookQuestion):
    """One entry with its phases."""

    number: int = asked("whole", "Number of the entry.", ..., metavar="NUMBER")


@dataclass(frozen=True, kw_only=True)
class ExportQuestion(BookQuestion):
    """Entries or their phases as a file."""

    target: str = asked("text", "Where to; the name's ending says the format.", ..., metavar="FILE.csv|FILE.parquet")
    table: str = asked("text", "Table to export.", "entries", choices=("entries", "phases"))
