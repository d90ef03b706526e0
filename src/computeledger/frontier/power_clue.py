"""Power as a clue: whether a count of chips that have one name with their superchip means chips or superchips."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from computeledger.arrays import Num
from computeledger.errors import InputError, shown
from computeledger.facts.load import load_accelerator
from computeledger.frontier.described import meant_chip
from computeledger.frontier.systems import described_system
from computeledger.units import format_si, parse_quantity

_CLUE = re.compile(
    r"(?P<count>[\d.,]+(?:e\d+)?\s*[kKMB]?)\s*(?P<chip>[A-Za-z]\S*)\s+at\s+(?P<power>[\d.,]+\s*[kMGT]?W)"
    r"(?:\s+(?P<boundary>IT|facility)(?:\s+power)?)?",
    re.IGNORECASE,
)
#: Power is known to this share beside the interval of a chip's own: what sites report is rounded (assumption).
_ROUNDED = 0.02


@dataclass(frozen=True, slots=True)
class Reading:
    """What a count would mean, and the power that it takes at a boundary."""

    unit: str
    n_chips: float
    boundary: str
    low_w: float
    high_w: float
    fits: bool


@dataclass(frozen=True, slots=True)
class PowerClue:
    """A count with the power that was given, and the one reading that fits it."""

    given_w: float
    spec: str
    taken: Reading
    readings: tuple[Reading, ...]


def read_clue(text: str) -> PowerClue | None:
    """Read ``COUNT CHIP at POWER [boundary]``: the readings that the power allows; None where no power is given.

    A named boundary is taken, else IT and facility are both tried. Power per chip is that of the project's facts, with
    its 90 % interval.

    Raises
    ------
    InputError
        No reading fits, or more than one.

    Examples
    --------
    >>> read_clue("16K GB200 at 32 MW").spec, read_clue("16K GB200 at 67 MW IT").spec
    ('16000 chips of gb200-gpu', '32000 chips of gb200-gpu')
    >>> read_clue("16K GB200")
    """
    found = _CLUE.fullmatch(text.strip())
    if found is None:
        return None
    count, given = parse_quantity(found["count"], "count"), parse_quantity(found["power"], "w")
    if not isinstance(count, float) or not isinstance(given, float) or min(count, given) <= 0:
        raise InputError(f"{shown(text)}: a count and a power above 0 are needed")
    chip = load_accelerator(meant_chip(found["chip"]))
    boundaries = (found["boundary"].lower(),) if found["boundary"] else ("it", "facility")
    units = {"chips": 1, "superchips": chip.packages_per_superchip}
    one = described_system(f"1 chips of {chip.id}").generations[0]
    per_chip = {"it": one.it_w_per_chip, "facility": one.facility_w_per_chip}
    readings = tuple(
        _reading((unit, count * packages), boundary, per_chip[boundary], given)
        for unit, packages in units.items()
        if unit == "chips" or packages > 1
        for boundary in boundaries
    )
    fitting = [reading for reading in readings if reading.fits]
    if len({reading.unit for reading in fitting}) != 1:
        said = "; ".join(f"{_name(one)} take {format_si(one.low_w, 'W')} to {format_si(one.high_w, 'W')}"
                         for one in readings)  # fmt: skip
        verdict = "no reading fits" if not fitting else "several readings fit"
        raise InputError(f"{shown(text)}: {verdict} {format_si(given, 'W')}: {said}")
    return PowerClue(given, f"{fitting[0].n_chips:.0f} chips of {chip.id}", fitting[0], readings)


def _reading(meant: tuple[str, float], boundary: str, per_chip: Num, given: float) -> Reading:
    unit, n_chips = meant
    low, high = (float(one) * n_chips for one in np.quantile(np.atleast_1d(np.asarray(per_chip, float)), [0.05, 0.95]))
    fits = low * (1 - _ROUNDED) <= given <= high * (1 + _ROUNDED)
    return Reading(unit, n_chips, boundary, low, high, fits)


def _name(one: Reading) -> str:
    return f"{one.unit} at {'IT' if one.boundary == 'it' else one.boundary}"
