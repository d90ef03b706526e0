"""Summaries of Nsight Systems: ``nsys stats --report cuda_gpu_kern_sum --format csv``, also of memory operations.

A summary adds up kernels whatever runs beside them: what communication hides behind computing is not told.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from computeledger.actuals.profiles.profile import StepProfile, load_parts, part_of
from computeledger.actuals.readers.tally import amount
from computeledger.errors import InputError, shown
from computeledger.files import read_user_text
from computeledger.units import GIGA

TOOL = "Nsight Systems summary"
MARK = re.compile(rb'^"?Time \(%\)"?,"?Total Time \(ns\)"?,[^\n]*"?(Name|Operation)"?\s*$', re.MULTILINE)
_NAMES = ("Name", "Operation")
#: Kernels of each part that are named.
_NAMED = 3


def read_summary(path: str, n_steps: int | None) -> StepProfile:
    """Read a summary; the steps it covers stand nowhere in it.

    Examples
    --------
    >>> read_summary("nowhere.csv", None)
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.csv: a summary does not say how many steps it covers: give --profiled-steps
    """
    if n_steps is None:
        raise InputError(f"{path}: a summary does not say how many steps it covers: give --profiled-steps")
    kernels: dict[str, dict[str, float]] = {}
    columns: list[str] | None = None
    for number, row in _rows(path):
        if "Total Time (ns)" in row:
            columns = row
        elif columns is not None and len(row) == len(columns):
            found = dict(zip(columns, row, strict=True))
            name = next((found[key] for key in _NAMES if key in found), "")
            total = amount(found["Total Time (ns)"])
            if total is None or not name:
                raise InputError(f"{path}:{number}: damaged: no time or no name")
            own = kernels.setdefault(part_of(name), {})
            own[name] = own.get(name, 0.0) + total / GIGA / n_steps
        elif columns is not None and any(cell.strip() for cell in row):
            if len(row) > 1:
                raise InputError(f"{path}:{number}: damaged or cut off: {len(row)} of {len(columns)} columns")
            columns = None
    if not kernels:
        raise InputError(f"{shown(path)}: a summary without one kernel")
    busy = {one.name: sum(kernels[one.name].values()) for one in load_parts().kernels if one.name in kernels}
    exposed = {name: seconds for name, seconds in busy.items() if not load_parts().named(name).is_network}
    largest = {part: tuple(sorted(own.items(), key=lambda pair: -pair[1])[:_NAMED]) for part, own in kernels.items()}
    return StepProfile(path, TOOL, n_steps, None, busy, exposed, largest)


def _rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Rows of a summary with their lines."""
    rows = csv.reader(read_user_text(Path(path)).splitlines(), strict=True)
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise InputError(f"{path}:{rows.line_num}: damaged or cut off: {error}") from None
