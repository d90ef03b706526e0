"""Epoch AI's data-centre files as downloaded: timelines of sites and the chips that stand in them. CC BY 4.0."""

from __future__ import annotations

import calendar
import csv
import datetime
import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from computeledger.errors import FactError, InputError, shown
from computeledger.facts.catalog import shipped_file
from computeledger.files import check_user_file, read_table
from computeledger.units import GIGA, HOUR_S, MEGA

#: Shown wherever these data are.
CREDIT = "Data: Epoch AI, Frontier Data Centers, CC BY 4.0 (https://epoch.ai/data/ai-data-centers)"
#: Day of the copy that ships: later rows are projections.
COPY_DATE = "2026-08-22"

TIMELINES, CHIPS = "data_center_timelines.csv", "data_center_chip_quantities.csv"
#: Other names under which copies of the two files lie.
_ALSO = {TIMELINES: ("epoch_dc_timelines.csv",), CHIPS: ("data_centers_chip_quantities.csv", "epoch_dc_chips.csv")}
_TIMELINE_COLUMNS = ("Data center", "Date", "IT power (MW)", "Power (MW)", "H100 equivalents")
_CAPEX_COLUMN = "Total capital cost (2025 USD billions)"
_CHIP_COLUMNS = ("Data center", "Date", "Chip type", "Number of Units", "User")


@dataclass(frozen=True, slots=True)
class SiteDate:
    """A site at a date, as published."""

    name: str
    date: str
    it_w: float | None
    facility_w: float | None
    h100e_8bit: float | None
    capex_usd: float | None


@dataclass(frozen=True, slots=True)
class ChipCount:
    """Chips of one kind at a site from a date on."""

    name: str
    date: str
    chip: str
    count: float
    user: str


def checked_day(text: str, where: str) -> str:
    """Refuse a day that is none.

    Examples
    --------
    >>> checked_day("2025-12-31", "--date")
    '2025-12-31'
    """
    try:
        return datetime.date.fromisoformat(text[:10]).isoformat()
    except ValueError:
        raise InputError(f"{where}: {shown(text)} is no date; write YYYY-MM-DD") from None


def checked_month(text: str, where: str) -> str:
    """A day, or the last day of a month.

    Examples
    --------
    >>> checked_month("2026-11", "--date"), checked_month("2026-02-03", "--date")
    ('2026-11-30', '2026-02-03')
    """
    if not re.fullmatch(r"\d{4}-\d{2}", text):
        return checked_day(text, where)
    first = datetime.date.fromisoformat(checked_day(f"{text}-01", where))
    return first.replace(day=calendar.monthrange(first.year, first.month)[1]).isoformat()


def read_rows(path: Path, needed: Iterable[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Rows of a CSV file with the columns that are needed.

    Examples
    --------
    >>> list(read_rows(Path("nowhere.csv"), ["Date"]))
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file; ...
    """
    if not path.exists():
        raise InputError(f"{path}: no such file; --data names the folder with {TIMELINES} and {CHIPS}")
    for line, row in read_table(path, list(needed)):
        yield f"{path}:{line}", row


def _number(text: str, where: str) -> float | None:
    if not text.strip():
        return None
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        raise InputError(f"{where}: {shown(text)} is no number") from None
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{where}: {shown(text)} must be a number of 0 or more")
    return value


def _scaled(text: str, where: str, factor: float) -> float | None:
    value = _number(text, where)
    return None if value is None else value * factor


def _file(folder: Path, name: str) -> Path:
    """The file of a folder, under the name that Epoch gives it or under another that is in use."""
    check_user_file(folder, "leave data out")
    return next((folder / one for one in (name, *_ALSO[name]) if (folder / one).is_file()), folder / name)


def read_timelines(folder: Path) -> list[SiteDate]:
    """Read the timelines of the sites.

    Examples
    --------
    >>> read_timelines(Path("nowhere"))
    Traceback (most recent call last):
    computeledger.errors.InputError: ...data_center_timelines.csv: no such file; ...
    """
    found = [
        SiteDate(
            row["Data center"],
            checked_day(row["Date"], where),
            _scaled(row["IT power (MW)"], where, MEGA),
            _scaled(row["Power (MW)"], where, MEGA),
            _number(row["H100 equivalents"], where),
            _scaled(row.get(_CAPEX_COLUMN, ""), where, GIGA),
        )
        for where, row in read_rows(_file(folder, TIMELINES), _TIMELINE_COLUMNS)
    ]
    return sorted(found, key=lambda one: (one.name, one.date))


def read_chips(folder: Path) -> list[ChipCount]:
    """Read the chips of the sites.

    Examples
    --------
    >>> read_chips(Path("nowhere"))
    Traceback (most recent call last):
    computeledger.errors.InputError: ...data_center_chip_quantities.csv: no such file; ...
    """
    rows = [
        (row, checked_day(row["Date"], where), _number(row["Number of Units"], where))
        for where, row in read_rows(_file(folder, CHIPS), _CHIP_COLUMNS)
    ]
    found = [
        ChipCount(row["Data center"], day, row["Chip type"], count, row["User"])
        for row, day, count in rows
        if count is not None and row["Data center"]
    ]
    return sorted(found, key=lambda one: (one.name, one.date, one.chip))


@functools.cache
def shipped_sites() -> tuple[SiteDate, ...]:
    """Timelines of the copy that ships, without their notes.

    Examples
    --------
    >>> next(one.facility_w for one in shipped_sites() if one.name == "Colossus 1" and one.date == "2024-09-02")
    181000000.0
    """
    text = shipped_file("frontier", "sites.csv").read_text("utf-8").splitlines()
    return tuple(
        SiteDate(
            row["name"], row["date"], _scaled(row["it_mw"], "sites.csv", MEGA),
            _scaled(row["facility_mw"], "sites.csv", MEGA), _number(row["h100e_8bit"], "sites.csv"),
            _scaled(row["capex_bn_usd"], "sites.csv", GIGA),
        )
        for row in csv.DictReader(text)
    )  # fmt: skip


@functools.cache
def shipped_chips() -> tuple[ChipCount, ...]:
    """Chips of the copy that ships, without their notes.

    Examples
    --------
    >>> next(one.count for one in shipped_chips() if one.name == "Colossus 2" and one.date == "2025-10-19")
    110000.0
    """
    text = shipped_file("frontier", "chips.csv").read_text("utf-8").splitlines()
    return tuple(
        ChipCount(row["name"], row["date"], row["chip"], float(row["count"]), row["user"])
        for row in csv.DictReader(text)
    )


#: What Epoch calls an estimate that rests on little.
SPECULATIVE = "Speculative"
#: Share of a run's FLOP that 6 N D of its tokens gives at least, where they are those of the whole pretraining.
_WHOLE = 0.1


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A model's training run as Epoch estimates it."""

    name: str
    date: str
    organization: str
    training_flop: float
    accelerator: str
    n_chips: float | None
    n_params: float | None
    tokens: float | None
    duration_s: float | None
    mfu_fraction: float | None
    confidence: str
    source: str

    @property
    def has_own_tokens(self) -> bool:
        """Whether its tokens are those of all its FLOP: a model tuned further has few, and the FLOP of its base.

        Examples
        --------
        >>> [one.has_own_tokens for one in shipped_runs() if one.name in ("Gopher (280B)", "Flan-PaLM 540B")]
        [True, False]
        """
        return 6.0 * (self.n_params or 0.0) * (self.tokens or 0.0) > _WHOLE * self.training_flop


_RUN_NUMBERS = ("n_chips", "n_params", "tokens", "mfu_fraction")


@functools.cache
def shipped_runs() -> tuple[TrainingRun, ...]:
    """Training runs that ship; where both copies hold a model, the later one.

    Examples
    --------
    >>> next(one.training_flop for one in shipped_runs() if one.name == "Grok 3")
    3.5e+26
    """
    text = shipped_file("frontier", "runs.csv").read_text("utf-8").splitlines()
    kept: dict[str, TrainingRun] = {}
    for row in csv.DictReader(text):
        flop = _number(row["training_flop"], "runs.csv")
        if flop is None:
            raise FactError(f"runs.csv: {row['name']} has no training_flop")
        chips, params, tokens, mfu = (_number(row[key], "runs.csv") for key in _RUN_NUMBERS)
        duration_s = _scaled(row["hours"], "runs.csv", HOUR_S)
        run = TrainingRun(
            row["name"], row["date"], row["organization"], flop, row["accelerator"], chips, params, tokens,
            duration_s, mfu, row["confidence"], row["source"],
        )  # fmt: skip
        key = run.name.replace("-", " ").lower()
        if key not in kept or run.source == "epoch-frontier-models":
            kept[key] = run
    return tuple(sorted(kept.values(), key=lambda one: (one.date, one.name)))


def records(runs: Iterable[TrainingRun]) -> tuple[TrainingRun, ...]:
    """Runs that were larger than every one before them, the earliest first.

    Examples
    --------
    >>> [one.name for one in records(shipped_runs())][-1]
    'Grok 4'
    """
    found: list[TrainingRun] = []
    for one in sorted(runs, key=lambda one: (one.date, one.name)):
        if not found or one.training_flop > found[-1].training_flop:
            found.append(one)
    return tuple(found)


def record_below(flop: float) -> TrainingRun | None:
    """The largest record that takes at most so much compute; none where every one takes more.

    Examples
    --------
    >>> record_below(1.5e27).name, record_below(1.0)
    ('Grok 4', None)
    """
    return next((one for one in reversed(records(shipped_runs())) if one.training_flop <= flop), None)
