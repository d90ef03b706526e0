"""An answer as a table of numbers: one row per quantity, with its unit, median and interval."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: What each column holds; the unit of a row's three numbers stands in its third.
COLUMNS = ("quantity", "row", "unit", "median", "p05", "p95")
#: How the line begins that holds a command.
COMMAND = "Command: "
#: A comma after which a spreadsheet would read a formula, and one that parts thousands.
_FORMULA, _THOUSANDS = re.compile(r",(?=\s*[=+@-])"), re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
#: Words that a quantity's name ends in, by the nomenclature.
_UNITS = frozenset({"s", "seconds", "bytes", "flop", "usd", "tokens", "w", "j", "days", "months", "years", "fraction",
                    "ratio", "gpus", "chips", "requests", "params", "steps", "bits", "sequences", "h100e"})  # fmt: skip
Row = tuple[str, str, str, Any, Any, Any]


def csv_text(document: Mapping[str, Any], about: Sequence[str] = ()) -> str:
    """The numbers of a document as CSV, below lines that say what they are of: each begins with ``#`` and is one cell.

    Examples
    --------
    >>> hours = {"p05": 1.0, "p50": 2.0, "p95": 3.0, "unit": "GPU-hours"}
    >>> print(csv_text({"gpu_hours": hours, "options": [{"layout": "tp8", "tpot_s": 0.05}]}), end="")
    quantity,row,unit,median,p05,p95
    gpu_hours,,GPU-hours,2.0,1.0,3.0
    options.tpot_s,tp8,s,0.05,,
    >>> csv_text({"n": 1}, ["Scenario: 2,048 GPUs, fp8", "Command: computeledger serve"]).splitlines()[:2]
    ['# Scenario: 2048 GPUs; fp8', '# Command: computeledger serve']
    """
    out = io.StringIO()
    out.writelines(f"# {_one_cell(line)}\n" for line in about)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_rows(document, (), "", ""))
    return out.getvalue()


def _one_cell(line: str) -> str:
    """A line that a spreadsheet shows in one cell, except for a command, which has to be copied as it is."""
    line = " ".join(line.split())
    if line.startswith(COMMAND):
        return _FORMULA.sub(";", line)
    return _THOUSANDS.sub("", line).replace(",", ";").replace('"', "'")


def _rows(value: Any, path: tuple[str, ...], row: str, unit: str) -> Iterator[Row]:
    if isinstance(value, Mapping):
        if "p50" in value:
            ends = (value.get(key, "") for key in ("p50", "p05", "p95"))
            yield (".".join(path), row, value.get("unit") or unit or "1", *ends)
            return
        stated = value.get("unit")
        for key, one in value.items():
            inner = stated if isinstance(stated, str) else unit_of(key) or unit
            yield from _rows(one, (*path, key), row, inner)
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value, 1):
            name = _label(one) or str(place)
            yield from _rows(one, path, f"{row}: {name}" if row else name, unit)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield ".".join(path), row, unit or "1", value, "", ""


def _label(one: Any) -> str:
    """What names an entry of a list: its first text."""
    return next((text for text in one.values() if isinstance(text, str)), "") if isinstance(one, Mapping) else ""


def unit_of(name: str) -> str:
    """The unit that a quantity's name ends in.

    Examples
    --------
    >>> unit_of("output_tokens_per_s_per_gpu"), unit_of("gpu_hours"), unit_of("decode_batch")
    ('tokens/s/gpu', 'GPU-hours', '')
    """
    if name.endswith("gpu_hours"):
        return "GPU-hours"
    head, *under = name.split("_per_")
    last = head.rsplit("_", 1)[-1]
    return "/".join([last, *(one.replace("_", " ") for one in under)]) if last in _UNITS else ""
