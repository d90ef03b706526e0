"""The books: one DuckDB file of plans and runs, which many processes may add to and none can leave half-written.

Safety rests on three things. DuckDB lets one process write, so every use holds a lock of the operating system on a
file beside the books (writers alone, readers together); the system frees it when a process dies, however it dies. An
addition is one transaction: DuckDB writes it ahead, with checksums, and a reader after a kill sees all of it or none.
And new books are made whole under another name, then renamed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from computeledger.errors import InputError, nearest, shown
from computeledger.questions.answer import Answer

#: Amounts of an entry and of each of its phases.
AMOUNTS = ("tokens", "flop", "gpu_hours", "usd", "energy_j", "utilization_fraction")
#: A row of a table, by column.
Row: TypeAlias = Mapping[str, Any]
#: Time to wait for other writers; each takes well under a second [s].
PATIENCE_S = 120.0

_NUMBERS = ", ".join(f"{name} DOUBLE" for name in AMOUNTS)
_SCHEMA = (
    f"""CREATE TABLE entries (
        id BIGINT PRIMARY KEY, added TIMESTAMPTZ NOT NULL, happened TIMESTAMPTZ NOT NULL, kind VARCHAR NOT NULL,
        name VARCHAR NOT NULL, note VARCHAR NOT NULL, {_NUMBERS},
        file_sha256 VARCHAR NOT NULL, document_sha256 VARCHAR NOT NULL, document VARCHAR NOT NULL)""",
    f"CREATE TABLE phases (entry BIGINT NOT NULL, phase VARCHAR NOT NULL, {_NUMBERS})",
    "CREATE TABLE about (format VARCHAR NOT NULL)",
    "INSERT INTO about VALUES ('computeledger-books/1')",
)
_LISTED = ("id", "added", "happened", "kind", "name", "note", *AMOUNTS)
_AS_TEXT = {
    name: f"strftime({name} AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%SZ') AS {name}" for name in ("added", "happened")
}
_EXPORTED = {"entries": (*_LISTED, "file_sha256"), "phases": ("entry", "phase", *AMOUNTS)}


@dataclass(frozen=True, slots=True)
class Record:
    """What is written down."""

    kind: str
    name: str
    happened: str
    amounts: Mapping[str, float | None]
    phases: Mapping[str, Mapping[str, float | None]]
    document: Mapping[str, Any]
    file_sha256: str
    note: str = field(default="")


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class BooksAnswer(Answer):
    """What the books hold, and what it comes to by month."""

    book: str
    entries: tuple[Row, ...]
    trends: tuple[Row, ...]

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (books have none)
        """As ``computeledger books list --json`` prints it."""
        return {"book": self.book, "entries": list(self.entries), "trends": list(self.trends)}


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class EntryAnswer(Answer):
    """One entry, with the whole document that was written down."""

    id: int
    kind: str
    name: str
    phases: Mapping[str, Row]
    document: Mapping[str, Any]

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (books have none)
        """As ``computeledger books show --json`` prints it."""
        return {name: getattr(self, name) for name in ("id", "kind", "name", "phases", "document")}


def list_books(path: Path, kind: str | None, name: str | None) -> BooksAnswer:
    """Answer ``computeledger books list``."""
    return BooksAnswer(str(path), tuple(list_entries(path, kind, name)), tuple(trends(path)))


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise InputError("books need DuckDB: pip install 'computeledger[books]'") from None
    return duckdb


@contextlib.contextmanager
def _locked(path: Path, alone: bool) -> Iterator[None]:
    """Hold the lock beside the books."""
    if not path.parent.is_dir():
        raise InputError(f"{shown(str(path))}: the folder {path.parent} does not exist")
    handle = _lock_handle(path.with_name(path.name + ".lock"), alone)
    if handle is None:
        yield
        return
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                fcntl.flock(handle, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InputError(f"{path}: another process has held the books for {PATIENCE_S:g} s") from None
                time.sleep(random.uniform(0.002, 0.02))  # noqa: S311 (a pause, no secret)
        yield
    finally:
        os.close(handle)


def _lock_handle(path: Path, alone: bool) -> int | None:
    """The lock's file; None where it is not there and a reader may not make it: no writer has been at work then."""
    try:
        return os.open(path, (os.O_RDWR if alone else os.O_RDONLY) | os.O_CREAT, 0o644)
    except OSError as error:
        if alone:
            raise InputError(f"{shown(str(path))}: cannot be written ({(error.strerror or '').lower()})") from None
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _open(path: Path, write: bool) -> Iterator[Any]:
    """A connection to books that are there, with DuckDB's own words in one line where it refuses them."""
    duckdb = _duckdb()
    if path.exists() != path.is_file() or not (write or path.exists()):
        raise InputError(f"{shown(str(path))}: no books there; computeledger books add FILE begins them")
    with _locked(path, alone=write):
        try:
            if not path.exists():
                _create(path, duckdb)
            with duckdb.connect(str(path), read_only=not write, config={"threads": 1}) as connection:
                found = connection.execute("SELECT format FROM about").fetchall()
                if found != [("computeledger-books/1",)]:
                    raise InputError(f"{path}: books of another format: {found}")
                yield connection
        except (duckdb.Error, OSError) as error:
            usable = f"cannot be {'written' if write else 'used'}"
            words = usable if _is_whole(path, duckdb) else "no books of computeledger"
            raise InputError(f"{path}: {words}: {(str(error).splitlines() or [type(error).__name__])[0]}") from None


def _is_whole(path: Path, duckdb: Any) -> bool:
    """Whether books can be read, or are not there yet."""
    if not path.exists():
        return True
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            connection.execute("SELECT format FROM about").fetchall()
    except duckdb.Error:
        return False
    return True


def _create(path: Path, duckdb: Any) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".books-") as folder:
        made = Path(folder) / "new.duckdb"
        with duckdb.connect(str(made)) as connection:
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute("CHECKPOINT")  # raises where the disk is full; closing does not
        made.replace(path)


def add_records(path: Path, records: Sequence[Record]) -> list[int]:
    """Write records down, all or none; their numbers."""
    added = time.time()
    with _open(path, write=True) as connection:
        connection.execute("BEGIN")
        (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM entries").fetchone()
        for number, record in enumerate(records, last + 1):
            try:
                text = json.dumps(record.document, allow_nan=False, default=float)
            except ValueError:
                raise InputError(f"{shown(record.name)}: holds a number that is not finite") from None
            row = (number, record.happened, record.kind, record.name, record.note)
            amounts = [record.amounts.get(name) for name in AMOUNTS]
            rest = (record.file_sha256, hashlib.sha256(text.encode()).hexdigest(), text)
            marks = ", ".join("?" for _ in (*row[1:], *amounts, *rest))
            values = [row[0], added, *row[1:], *amounts, *rest]
            connection.execute(f"INSERT INTO entries VALUES (?, to_timestamp(?), {marks})", values)  # noqa: S608 (marks)
            for phase, one in record.phases.items():
                marks = ", ".join("?" for _ in AMOUNTS)
                numbers = [one.get(name) for name in AMOUNTS]
                connection.execute(f"INSERT INTO phases VALUES (?, ?, {marks})", [number, phase, *numbers])  # noqa: S608
        connection.execute("COMMIT")
    return list(range(last + 1, last + 1 + len(records)))


def _rows(connection: Any, query: str, values: Sequence[object] = ()) -> list[dict[str, Any]]:
    cursor = connection.execute(query, list(values))
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def list_entries(path: Path, kind: str | None = None, name: str | None = None) -> list[dict[str, Any]]:
    """All entries in the order of their numbers; a copy of an earlier file says of which entry."""
    columns = ", ".join(_AS_TEXT.get(name, name) for name in _LISTED)
    query = (
        f"SELECT {columns}, nullif(min(id) OVER (PARTITION BY file_sha256), id) AS copy_of "  # noqa: S608 (names)
        "FROM entries WHERE ($1 IS NULL OR kind = $1) AND ($2 IS NULL OR name = $2) ORDER BY id"
    )
    with _open(path, write=False) as connection:
        return _rows(connection, query, [kind, name])


def trends(path: Path) -> list[dict[str, Any]]:
    """By month and kind: GPU-time, cost, USD per GPU-hour and utilisation weighted by GPU-time; copies left out."""
    query = """
        WITH originals AS (SELECT * FROM entries QUALIFY row_number() OVER (PARTITION BY file_sha256 ORDER BY id) = 1)
        SELECT strftime(happened AT TIME ZONE 'UTC', '%Y-%m') AS month, kind, count(*) AS entries,
               sum(gpu_hours) AS gpu_hours, sum(usd) AS usd, sum(energy_j) AS energy_j,
               sum(usd) / nullif(sum(gpu_hours) FILTER (usd IS NOT NULL), 0) AS usd_per_gpu_hour,
               sum(utilization_fraction * gpu_hours)
                 / nullif(sum(gpu_hours) FILTER (utilization_fraction IS NOT NULL), 0) AS utilization_fraction
        FROM originals GROUP BY ALL ORDER BY month, kind
    """
    with _open(path, write=False) as connection:
        return _rows(connection, query)


def read_entry(path: Path, number: int) -> EntryAnswer:
    """One entry, whole and checked against its sum."""
    with _open(path, write=False) as connection:
        found = connection.execute(
            "SELECT kind, name, document, document_sha256 FROM entries WHERE id = ?", [number]
        ).fetchone()
        if found is None:
            there = [str(one) for (one,) in connection.execute("SELECT id FROM entries ORDER BY id").fetchall()]
            raise InputError(f"entry {number} is not in {path}: {nearest(str(number), there)}")
        phases = _rows(connection, "SELECT * EXCLUDE (entry) FROM phases WHERE entry = ?", [number])
    kind, name, text, digest = found
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        raise InputError(f"entry {number} of {path} is damaged: its document has another checksum")
    by_phase = {one.pop("phase"): one for one in phases}
    return EntryAnswer(number, kind, name, by_phase, json.loads(text))


def export_table(path: Path, target: Path, table: str) -> int:
    """Write a table as CSV or Parquet, whole or not at all; its number of rows."""
    formats = {".csv": "FORMAT csv, HEADER", ".parquet": "FORMAT parquet"}
    if target.suffix.lower() not in formats:
        raise InputError(f"{shown(str(target))}: {nearest(target.suffix, formats)}; the name's ending says the format")
    if not target.parent.is_dir():
        raise InputError(f"{shown(str(target))}: the folder {target.parent} does not exist")
    if target.exists() and (not target.is_file() or target.samefile(path)):
        raise InputError(f"{shown(str(target))}: is no file that may be replaced")
    with (
        tempfile.TemporaryDirectory(dir=target.parent, prefix=".books-") as folder,
        _open(path, write=False) as connection,
    ):
        made = Path(folder) / "table"
        query = f"SELECT {', '.join(_EXPORTED[table])} FROM {table} ORDER BY ALL"  # noqa: S608 (our own names)
        quoted = str(made).replace("'", "''")
        (rows,) = connection.execute(f"COPY ({query}) TO '{quoted}' ({formats[target.suffix.lower()]})").fetchone()
        made.replace(target)
    return int(rows)
