"""Figures in a sentence against those that stand in the tables of the same answer, to the digits that are printed."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PREFIXES = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "B": 1e9, "bn": 1e9, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
             "m": 1e-3, "µ": 1e-6}  # fmt: skip
#: Units that are no SI unit times a prefix; documents hold seconds, joules, bytes and fractions, some days and hours.
_UNITS = {"%": 0.01, "seconds": 1.0, "min": 60.0, "minutes": 60.0, "h": 3600.0, "hours": 3600.0, "day": 86400.0,
          "days": 86400.0, "month": 2629800.0, "months": 2629800.0, "year": 31557600.0, "years": 31557600.0,
          "Wh": 3600.0, "bit": 0.125}  # fmt: skip
_BASES = ("W", "B", "FLOP", "bit", "s", "H")
_NUMBER = re.compile(
    r"(?<![\w.\-/])(?P<digits>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)(?:e(?P<power>[+-]?\d+))?"
    r"(?P<prefix>bn|[KMBGTPE])?(?![\w.]*-?[A-Za-z_]*\d)(?:\s?(?P<unit>[%µA-Za-z]+))?"
)
#: Numbers that are names: of an interval, of a tolerance, of a format, of what a fit rests on; and dates.
_NAMES = re.compile(
    r"\b(90 %|within 10 %|16K GPUs|8 bit|8-bit|p\d\d|\d{4}-\d{2}(-\d{2})?|AIME \d{4}|released [A-Z]\w+ \d{4})"
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A number as it is printed.

    Attributes
    ----------
    text, digits : str
        With its unit, and its digits alone.
    values : tuple of float
        What it may mean: in SI units, and without the unit.
    half_step : float
        Half of one in the last digit, over the value.
    """

    text: str
    digits: str
    values: tuple[float, ...]
    half_step: float

    def is_stated_by(self, number: float) -> bool:
        """Whether a number prints as this one."""
        return any(abs(number - one) <= self.half_step * abs(one) for one in self.values)


def figures(text: str) -> list[Figure]:
    """Every number of a text that is no part of a name; the low end of a range may take the unit of the high one."""
    matches = list(_NUMBER.finditer(_NAMES.sub(" ", text.replace("\u00a0", " "))))
    found = []
    for place, match in enumerate(matches):
        scales = [_scale(match)]
        behind = match.end("prefix") if match["prefix"] else match.end("digits")
        if place + 1 < len(matches) and match.string[behind : matches[place + 1].start()].strip() in ("–", "to", ".."):
            prefix, unit = _scale(matches[place + 1])
            scales.append((scales[0][0] if match["prefix"] else prefix, unit))
        digits = match["digits"].replace(",", "")
        power = 10.0 ** int(match["power"] or 0)
        number = float(digits) * power
        half = 0.5 * _last_place(digits) * power / number * (1 + 1e-6) if number else 0.0
        values = {number * part for prefix, unit in scales for part in (prefix * unit, prefix)}
        values |= {
            number * prefix * _UNITS["year"] / _UNITS["day"] for prefix, unit in scales if unit == _UNITS["year"]
        }
        found.append(Figure(match[0].strip(), digits, tuple(values), half))
    return found


def _last_place(digits: str) -> float:
    """What one in the last digit is worth; of 220, and of the cents of $3.10, the zero may be none."""
    whole, _, behind = digits.partition(".")
    if len(behind) == 2 and behind[0] != "0" and behind[1] == "0":
        return 0.1
    return 10.0 if len(whole) == 3 and whole.endswith("0") and not behind else 10.0 ** -len(behind)


def _scale(match: re.Match[str]) -> tuple[float, float]:
    """What the prefix and the unit of a printed number are worth."""
    prefix, unit = match["prefix"] or "", match["unit"] or ""
    if unit in _UNITS:
        return _PREFIXES[prefix], _UNITS[unit]
    if not prefix and unit and unit[0] in _PREFIXES and unit[1:].startswith(_BASES):
        return _PREFIXES[unit[0]], _UNITS.get(unit[1:], 1.0)
    return _PREFIXES[prefix], 1.0


def numbers(document: Any) -> Iterator[float]:
    """Every number of a document and what it counts: entries of a list, how many say the same, how many differ."""
    if isinstance(document, bool) or document is None:
        return
    if isinstance(document, int | float):
        yield float(document)
        return
    if isinstance(document, str):
        yield from (value for one in figures(document) for value in one.values)
        return
    held: Sequence[Any] = list(document.values()) if isinstance(document, Mapping) else document
    yield float(len(held))
    said: Counter[bool | str] = Counter(one for one in held if isinstance(one, bool | str))
    by_key: Counter[tuple[str, bool | str]] = Counter(
        (key, value) for one in held if isinstance(one, Mapping)
        for key, value in one.items() if isinstance(value, bool | str)
    )  # fmt: skip
    yield from map(float, (*said.values(), *by_key.values(), *Counter(key for key, _ in by_key).values()))
    for one in held:
        yield from numbers(one)


def unsupported(sentence: str, tables: Iterable[str], asked: Iterable[str], document: Any) -> list[str]:
    """Figures of a sentence that stand in no table, were not asked, and are no number of the document either."""
    shown = [one for text in (*tables, *asked) for one in figures(text)]
    digits = {one.digits for one in shown if len(one.digits.replace(".", "").strip("0")) > 1}
    known = {value for value in numbers(document) if math.isfinite(value)}
    known |= {abs(value) for value in known}  # "too low by 3 %"
    known |= {value for one in shown for value in one.values}
    return [
        one.text
        for one in figures(sentence)
        if one.digits not in digits and not any(one.is_stated_by(value) for value in known)
    ]
