"""User's files, opened here and nowhere else: regular files of bounded size, and none for a stranger's question.

Whatever bytes a file holds, its reader ends soon: with what was read, or with one :class:`InputError` that names the
file and the line. Size, length of a line, depth of brackets, number of values and digits of a number are all bounded
before anything is built of them; a table or a log is read line by line.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import json
import math
import os
import re
import stat
import tomllib
from collections.abc import Generator, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from computeledger.errors import InputError, shown
from computeledger.units import GIB, KIB, LARGEST, MIB

#: Most bytes of a file that is read whole (a configuration, a benchmark's result), and of a line of a document.
MOST_BYTES = int(32 * MIB)

#: Most bytes of TOML, whose reader is written in Python: a hundred times the largest plan, read within seconds.
MOST_TOML_BYTES = int(512 * KIB)

#: Most bytes of a line of a log or of a table.
MOST_LINE_BYTES = 4_000_000

#: Most bytes of a file of which every line is kept: tasks, results, a run's ledger.
MOST_KEPT_BYTES = int(GIB)

#: Deepest brackets, or parts of a dotted key.
MOST_DEPTH = 64

#: Longest key of a TOML file; errors repeat it.
MOST_KEY_CHARACTERS = 200

#: Most values of a document, counted by commas and brackets.
MOST_VALUES = 2_000_000

#: Most digits of a whole number: a floating-point number holds none that is longer.
MOST_DIGITS = 300

#: Most columns of a table, and most rows where its reader keeps them; the cells of as many rows of eight columns.
MOST_COLUMNS, MOST_ROWS, _MEAN_COLUMNS = 1000, 500_000, 8

# texts and comments are skipped; what is left decides how deep a document is
_JSON_PARTS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_TOML_PARTS = re.compile(
    r'"""(?:[^\\]|\\.)*?(?:"""|\Z)|\'\'\'.*?(?:\'\'\'|\Z)|"(?:[^"\\\n]|\\.)*+"?|\'[^\'\n]*+\'?|#[^\n]*+|[\[\]{}.,=\n]',
    re.DOTALL,
)

_allowed: ContextVar[bool] = ContextVar("user_files_allowed", default=True)


@contextlib.contextmanager
def without_user_files() -> Iterator[None]:
    """Open no user's file inside a ``with`` block: for questions whose words come from a stranger.

    Under it :func:`user_files_allowed` is false, so that a text is never taken for a path, and :func:`open_user_file`
    refuses whatever reaches it all the same.

    Examples
    --------
    >>> with without_user_files(), open_user_file(Path("pyproject.toml")) as stream:
    ...     stream.read()
    Traceback (most recent call last):
    computeledger.errors.InputError: pyproject.toml: files cannot be named here; give an id or a number
    """
    token = _allowed.set(False)
    try:
        yield
    finally:
        _allowed.reset(token)


def user_files_allowed() -> bool:
    """Whether a text may be taken for the path of a file."""
    return _allowed.get()


def check_user_file(path: str | Path, instead: str = "give an id or a number") -> None:
    """Refuse the name of a file where none may be named, before anybody looks whether there is one.

    Examples
    --------
    >>> check_user_file("plan.toml")
    >>> with without_user_files():
    ...     check_user_file("plan.toml", "pass its tables as an object")
    Traceback (most recent call last):
    computeledger.errors.InputError: plan.toml: files cannot be named here; pass its tables as an object
    """
    if not _allowed.get():
        raise InputError(f"{path}: files cannot be named here; {instead}")


def of_files(said: str, without: str = "") -> str:
    """Words that offer a file, where one may be named; else others.

    Examples
    --------
    >>> of_files(", a SHEET.toml", "")
    ', a SHEET.toml'
    >>> with without_user_files():
    ...     of_files(", a SHEET.toml", " here")
    ' here'
    """
    return said if _allowed.get() else without


@contextlib.contextmanager
def open_user_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that a user named, if it is a regular file.

    A device, a pipe or a socket never ends or never begins, so it is refused before anything is read.
    """
    name = str(path)
    check_user_file(name)
    try:
        # without O_NONBLOCK the opening of a pipe waits for whoever writes to it
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except OSError as error:
        raise InputError(f"{name}: {(error.strerror or 'cannot be read').lower()}") from None
    except ValueError:
        raise InputError(f"{shown(name)}: not a file name") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise InputError(f"{name}: {'is a folder, a file is needed' if stat.S_ISDIR(mode) else 'not a regular file'}")
    with os.fdopen(descriptor, "rb") as stream:
        yield stream


def read_user_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Read a user's file whole."""
    with open_user_file(path) as stream:
        data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise InputError(f"{path}: larger than {_size(most_bytes)}, the most that is read of such a file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8 text (byte {error.start})") from None


def _size(n_bytes: int) -> str:
    size, unit = next((one for one in ((GIB, "GiB"), (MIB, "MiB")) if n_bytes >= one[0]), (KIB, "KiB"))
    return f"{n_bytes / size:.0f} {unit}"


def check_kept(path: Path) -> None:
    """Refuse a user's file that is too large to keep every line of it."""
    with open_user_file(path) as stream:
        if os.fstat(stream.fileno()).st_size > MOST_KEPT_BYTES:
            raise InputError(f"{path}: larger than {_size(MOST_KEPT_BYTES)}, the most that is kept; split it")


def bounded_lines(stream: BinaryIO, most_bytes: int = MOST_LINE_BYTES) -> Iterator[tuple[int, bytes | None]]:
    """Read lines of which none can fill the memory."""
    number = 0
    while raw := stream.readline(most_bytes + 1):
        number += 1
        if len(raw) <= most_bytes:
            yield number, raw
            continue
        while raw and not raw.endswith(b"\n"):
            raw = stream.readline(most_bytes)
        yield number, None


def read_user_lines(path: Path, most_bytes: int = MOST_LINE_BYTES) -> Generator[tuple[int, str], None, None]:
    """Read a user's text file line by line."""
    with open_user_file(path) as stream:
        for number, raw in bounded_lines(stream, most_bytes):
            if raw is None:
                raise InputError(f"{path}:{number}: a line of more than {_size(most_bytes)}")
            try:
                yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise InputError(f"{path}:{number}: not UTF-8 text (byte {error.start} of the line)") from None


def read_lengths(path: str) -> list[float]:
    """Read observed lengths, one number per line.

    Examples
    --------
    >>> read_lengths("nowhere.txt")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.txt: no such file
    """
    found: list[float] = []
    for number, line in read_user_lines(Path(path)):
        for word in line.split():
            try:
                found.append(float(word))
            except ValueError:
                raise InputError(f"{path}:{number}: {shown(word)} is no number of tokens") from None
        if len(found) > MOST_VALUES:
            raise InputError(f"{path}:{number}: more than {MOST_VALUES:,} lengths")
    if not found:
        raise InputError(f"{path}: no lengths")
    return found


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Parse TOML of a user."""
    if len(text) > MOST_TOML_BYTES:
        raise InputError(f"{name}: larger than {_size(MOST_TOML_BYTES)}, the most that is read of such a file")
    if (deep := _deep_line(text, _TOML_PARTS)) is not None:
        raise InputError(f"{name}:{deep}: nested too deeply, more than {MOST_DEPTH} levels")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = int(found[1]) if found else max(1, len(text.splitlines()))
        raise InputError(f"{name}:{line}: not valid TOML: {re.sub(r' [(]at .*', '', str(error))}") from None
    except RecursionError:
        raise InputError(f"{name}: nested too deeply") from None
    except ValueError:  # Python's own limit, of a few thousand
        raise InputError(f"{name}:{_long_number_line(text)}: {_TOO_MANY_DIGITS}") from None
    if problem := _beyond_limits(table):
        raise InputError(f"{name}:{_long_number_line(text) if problem == _TOO_MANY_DIGITS else 1}: {problem}")
    return table


_TOO_MANY_DIGITS = f"a whole number has too many digits, more than {MOST_DIGITS}"


def _beyond_limits(table: dict[str, Any]) -> str:
    """What a number or a key is too long for; empty where none is."""
    waiting: list[Any] = [table]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if any(len(key) > MOST_KEY_CHARACTERS for key in value):
                return f"a key of more than {MOST_KEY_CHARACTERS} characters"
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, int) and value.bit_length() > 1000 and abs(value) >= 10**MOST_DIGITS:
            return _TOO_MANY_DIGITS
        elif isinstance(value, float) and LARGEST < abs(value) < math.inf:
            return f"a number beyond {LARGEST:g}"
    return ""


def _long_number_line(text: str) -> int:
    found = re.search(r"\d{20}", text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _deep_line(text: str, parts: re.Pattern[str]) -> int | None:
    """Line on which brackets, or the parts of a dotted key, are nested too deeply; None where none are."""
    is_toml = parts is _TOML_PARTS
    if text.count("[") + text.count("{") <= MOST_DEPTH and not (is_toml and text.count(".") > MOST_DEPTH):
        return None
    depth = dots = 0
    for found in parts.finditer(text):
        mark = found[0]
        if mark in ("[", "{"):
            depth, dots = depth + 1, 0
        elif mark in ("]", "}"):
            depth, dots = max(depth - 1, 0), 0
        elif mark == ".":
            dots += 1
        elif mark in (",", "=", "\n"):
            dots = 0
        if max(depth, dots) > MOST_DEPTH:
            return text.count("\n", 0, found.start()) + 1
    return None


def parse_json(text: str, name: str, line: int | None = None, most_digits: int = MOST_DIGITS) -> Any:
    """Parse JSON of a user."""
    if text.count(",") + text.count("[") + text.count("{") > MOST_VALUES:
        raise InputError(f"{_place(name, line or 1)}more than {MOST_VALUES:,} values")
    if (deep := _deep_line(text, _JSON_PARTS)) is not None:
        raise InputError(f"{_place(name, line or deep)}nested too deeply, more than {MOST_DEPTH} levels")
    try:
        return _decoder(most_digits).decode(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{_place(name, line or error.lineno)}not valid JSON: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{_place(name, line or 1)}nested too deeply") from None
    except ValueError:
        line = line or _long_number_line(text)
        raise InputError(f"{_place(name, line)}a whole number has too many digits, more than {most_digits}") from None


def _place(name: str, line: int) -> str:
    return f"{name}:{line}: " if name else ""


@functools.cache
def _decoder(most_digits: int) -> json.JSONDecoder:
    def integer(digits: str) -> int:
        if len(digits.lstrip("-")) > most_digits:
            raise ValueError(digits)
        return int(digits)

    return json.JSONDecoder(parse_int=integer)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a user's TOML file."""
    return parse_toml(read_user_text(path, MOST_TOML_BYTES), str(path))


def read_json(path: Path) -> Any:
    """Read a user's JSON file."""
    return parse_json(read_user_text(path), str(path))


def read_json_lines(path: Path, most_lines: int | None = None) -> Iterator[tuple[int, Any]]:
    """Read a user's file of one JSON document per line, as it streams by; empty lines are passed over."""
    for number, line in read_user_lines(path, MOST_BYTES):
        if most_lines is not None and number > most_lines:
            raise InputError(f"{path}:{number}: more than {most_lines:,} lines")
        if line.strip():
            yield number, parse_json(line, str(path), number)


def read_table(
    path: Path, needed: Sequence[str] = (), comment: str = "", most_rows: int = MOST_ROWS
) -> Iterator[tuple[int, dict[str, str]]]:
    """Read a user's CSV file row by row."""
    at = 0

    def lines() -> Iterator[str]:
        nonlocal at
        is_above = bool(comment)
        for number, line in read_user_lines(path):
            at = number
            is_above = is_above and line.startswith(comment)
            if not is_above:
                yield line

    reader = csv.reader(lines(), strict=True)
    try:
        columns = [name.strip() for name in next(reader, [])]
        _check_columns(path, columns, needed)
        for n_rows, cells in enumerate((cells for cells in reader if cells), 1):
            if len(cells) > len(columns):
                raise InputError(f"{path}:{at}: more cells ({len(cells)}) than the header has columns ({len(columns)})")
            if n_rows > most_rows or n_rows * len(columns) > most_rows * _MEAN_COLUMNS:
                raise InputError(f"{path}:{at}: more than {most_rows:,} rows or {most_rows * _MEAN_COLUMNS:,} cells")
            yield at, dict(zip(columns, cells + [""] * (len(columns) - len(cells)), strict=True))
    except csv.Error as error:
        raise InputError(f"{path}:{at}: not a table ({str(error).split(' - ')[0]})") from None


def _check_columns(path: Path, columns: Sequence[str], needed: Sequence[str]) -> None:
    if len(columns) > MOST_COLUMNS:
        raise InputError(f"{path}: {len(columns):,} columns, more than {MOST_COLUMNS:,}")
    missing = [name for name in needed if name not in columns]
    if missing:
        words = f"the column {missing[0]!r} is" if len(missing) == 1 else f"the columns {', '.join(missing)} are"
        raise InputError(f"{path}: {words} missing; needed: {', '.join(needed)}")
