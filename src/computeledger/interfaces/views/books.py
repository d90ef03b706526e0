"""Views of the books: all entries and what they come to by month, and one entry by phase."""

from __future__ import annotations

from computeledger.interfaces.view import Table, View
from computeledger.questions.wording import headline_words, words
from computeledger.stores.books.store import BooksAnswer, EntryAnswer, Row
from computeledger.units import format_count, format_percent, format_si, format_usd

_AMOUNTS = ("GPU-hours #", "USD #", "energy #", "utilisation #")


def view(answer: BooksAnswer | EntryAnswer, _working: bool) -> View:
    """Of the books, or of one entry."""
    return _entry(answer) if isinstance(answer, EntryAnswer) else _books(answer)


def _books(answer: BooksAnswer) -> View:
    entries = [
        [str(one["id"]), one["happened"][:10], one["kind"], one["name"], *_amounts(one),
         " ".join(filter(None, (one["note"], one["copy_of"] and f"(copy of {one['copy_of']})")))]
        for one in answer.entries
    ]  # fmt: skip
    months = [
        [one["month"], one["kind"], str(one["entries"]), *_amounts(one),
         "" if one["usd_per_gpu_hour"] is None else format_usd(one["usd_per_gpu_hour"])]
        for one in answer.trends
    ]  # fmt: skip
    note = "Utilisation is weighted by GPU-time; copies of a file count once; empty: nobody measured or priced it."
    return View(
        title=answer.book,
        headline=headline_words("Books", "1 entry" if len(entries) == 1 else f"{len(entries):,} entries"),
        tables=(
            Table("Entries", ("entry #", "when", "kind", "name", *_AMOUNTS, "note"), entries, drops=("note", "energy")),
            Table(
                "By month",
                ("month", "kind", "entries #", *_AMOUNTS, "USD per GPU-hour #"),
                months,
                note=note,
                drops=("energy",),
            ),
        ),
        overline="books list",
    )


def _entry(answer: EntryAnswer) -> View:
    rows = [
        [phase, *("" if one[name] is None else format_si(one[name]) for name in ("tokens", "flop")), *_amounts(one)]
        for phase, one in answer.phases.items()
    ]
    return View(
        title=f"{answer.id}: {answer.kind} {answer.name}",
        headline=_entry_headline(answer),
        tables=(Table("By phase", ("phase", "tokens #", "FLOP #", *_AMOUNTS), rows),),
        grounds=("--json has the whole document that was written down",),
        overline="books show",
    )


def _entry_headline(answer: EntryAnswer) -> str:
    """What the phases of an entry come to; a figure that one of them lacks is left out."""
    sums = {name: [one[name] for one in answer.phases.values()] for name in ("gpu_hours", "usd")}
    known = {name: sum(values) for name, values in sums.items() if None not in values}
    said = [f"{format_si(known['gpu_hours'])} GPU-hours"] if "gpu_hours" in known else []
    said += [format_usd(known["usd"])] if "usd" in known else []
    phases = format_count(len(answer.phases), "phase")
    return headline_words(answer.name, f"{' and '.join(said)} in {phases}" if said else phases)


def _amounts(one: Row) -> list[str]:
    hours, usd, energy, share = (one[name] for name in ("gpu_hours", "usd", "energy_j", "utilization_fraction"))
    return [
        "" if hours is None else format_si(hours),
        "" if usd is None else format_usd(usd),
        "" if energy is None else words(energy, "J"),
        "" if share is None else format_percent(share),
    ]
