"""A table of measurements as rows, with the columns that its reader needs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from computeledger.errors import InputError
from computeledger.files import read_table

#: Longest cell of a measured row; notes are searched for numbers.
MOST_CELL_CHARACTERS = 4000
_SHIPPED = resources.files("computeledger.validation").joinpath("data")


def shipped_names() -> list[str]:
    """Name the shipped tables.

    Examples
    --------
    >>> "serving_elsewhere.csv" in shipped_names()
    True
    """
    return sorted(file.name for file in _SHIPPED.iterdir() if file.name.endswith(".csv"))


def shipped_text(name: str) -> str:
    """The text of one of the shipped tables."""
    return _SHIPPED.joinpath(name).read_text("utf-8")


def curated_rows(name: str) -> list[dict[str, str]]:
    """Read one of the shipped tables.

    Examples
    --------
    >>> {row["licence"] for row in curated_rows("serving_curated.csv")}
    {'Apache-2.0'}
    """
    table = csv.DictReader(io.StringIO(shipped_text(name), newline=""), strict=True)
    return [{name: cell.strip() for name, cell in row.items()} for row in table]


def curated_columns(name: str) -> list[str]:
    """Columns of one of the shipped tables.

    Examples
    --------
    >>> curated_columns("serving_elsewhere.csv")[:3]
    ['id', 'source', 'url']
    """
    return next(csv.reader(io.StringIO(shipped_text(name))))


def read_rows(path: str | Path, needed: Sequence[str] = ()) -> list[dict[str, str]]:
    """Read a table of measurements that has certain columns.

    Examples
    --------
    >>> read_rows("nowhere.csv")
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file
    """
    rows = []
    for line, row in read_table(Path(path), needed):
        if any(len(cell) > MOST_CELL_CHARACTERS for cell in row.values()):
            raise InputError(f"{path}:{line}: a cell of more than {MOST_CELL_CHARACTERS:,} characters")
        rows.append({name: cell.strip() for name, cell in row.items()})
    if not rows:
        raise InputError(f"{path}: no rows below a header")
    return rows
