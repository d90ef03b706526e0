"""A table of measurements as rows, with the columns that its reader needs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from computeledger.errors import InputError


def read_measured(path: str | Path, needed: Sequence[str]) -> list[dict[str, str]]:
    """Read a CSV whose rows all state certain columns.

    Parameters
    ----------
    path : str or Path
        CSV with a header; further columns are kept.
    needed : sequence of str
        Columns that must be there.

    Returns
    -------
    list of dict
        One per row.

    Raises
    ------
    InputError
        No such file, not a table, or a column missing.

    Examples
    --------
    >>> read_measured("nowhere.csv", ["model"])
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file
    """
    try:
        with Path(path).open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as a table ({error.__class__.__name__})") from None
    columns = set(rows[0]) if rows else set()
    missing = [name for name in needed if name not in columns]
    if missing:
        raise InputError(f"{path}: the columns {', '.join(missing)} are missing; needed: {', '.join(needed)}")
    return rows
