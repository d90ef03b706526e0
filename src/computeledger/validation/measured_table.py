"""A table of measurements as rows, with the columns that its reader needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from computeledger.files import read_table


def read_measured(path: str | Path, needed: Sequence[str]) -> list[dict[str, str]]:
    """Read a CSV whose rows all state certain columns.

    Examples
    --------
    >>> read_measured("nowhere.csv", ["model"])
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: no such file
    """
    return [row for _, row in read_table(Path(path), needed)]
