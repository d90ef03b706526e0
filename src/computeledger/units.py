"""Units: SI base units inside, people's units where text is read or printed.

Every conversion constant of the project lives here. A dimension is named after the SI unit that ends a
quantity's name (``_s``, ``_bytes``, ``_flop_per_s``, ...); :data:`DIMENSIONS` lists the spellings it takes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from computeledger.arrays import Range, Uncertain
from computeledger.errors import QuantityError, nearest, shown

KILO, MEGA, GIGA, TERA, PETA, EXA, ZETTA = 1e3, 1e6, 1e9, 1e12, 1e15, 1e18, 1e21
#: Most characters of a quantity or a range.
MOST_CHARACTERS = 400

KIB, MIB, GIB, TIB = 2.0**10, 2.0**20, 2.0**30, 2.0**40
BITS_PER_BYTE = 8.0
MINUTE_S, HOUR_S, DAY_S, WEEK_S = 60.0, 3600.0, 86400.0, 604800.0
YEAR_S = 365.25 * DAY_S
MONTHS_PER_YEAR = 12
MONTH_S = YEAR_S / MONTHS_PER_YEAR
HOURS_PER_YEAR = YEAR_S / HOUR_S
HOURS_PER_MONTH = MONTH_S / HOUR_S
WH_J = 3600.0
TOKENS_PER_MTOK = 1e6
PERCENT = 100.0

#: Multipliers written straight after a number: ``15T``, ``671B``, ``4k``.
MULTIPLIERS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "bn": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}

_SI = {"": 1.0, "k": KILO, "M": MEGA, "G": GIGA, "T": TERA, "P": PETA, "E": EXA, "Z": ZETTA}


def _prefixed(unit: str, prefixes: str = "kMGTPEZ", factor: float = 1.0) -> dict[str, float]:
    return {prefix + unit: _SI[prefix] * factor for prefix in ["", *prefixes]}


_SECONDS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3,
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0,
    "min": MINUTE_S, "minute": MINUTE_S, "minutes": MINUTE_S,
    "h": HOUR_S, "hour": HOUR_S, "hours": HOUR_S,
    "d": DAY_S, "day": DAY_S, "days": DAY_S,
    "week": WEEK_S, "weeks": WEEK_S,
    "month": MONTH_S, "months": MONTH_S,
    "year": YEAR_S, "years": YEAR_S, "yr": YEAR_S,
}  # fmt: skip
_BYTES = {
    **_prefixed("B"), **_prefixed("byte", ""), **_prefixed("bytes", ""),
    "KB": KILO, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB,
}  # fmt: skip
_TOKENS = {"tokens": 1.0, "token": 1.0, "tok": 1.0, "Mtok": MEGA, "Gtok": GIGA, "Ttok": TERA}
_PER_H = {"$/h": 1.0, "USD/h": 1.0, "$/GPU-h": 1.0, "USD/GPU-h": 1.0, "USD/GPU-hour": 1.0, "$/hour": 1.0}
_USD = {"$": 1.0, "USD": 1.0, "k$": KILO, "M$": MEGA, "bn$": GIGA}

#: dimension -> {spelling: factor to the SI unit that the dimension is named after}
DIMENSIONS: dict[str, dict[str, float]] = {
    "s": _SECONDS,
    "tokens": _TOKENS,
    "tokens_per_s": {f"{token}/{time}": n / _SECONDS[time] for token, n in {**_TOKENS, "": 1.0}.items()
                     for time in ("s", "min", "h", "day", "month", "year")},
    "requests_per_s": {f"{name}/{time}": 1 / _SECONDS[time] for name in ("requests", "request", "req", "")
                       for time in ("s", "min", "h", "day")},
    "usd": _USD,
    "usd_per_hour": _PER_H,
    "usd_per_kwh": {"$/kWh": 1.0, "USD/kWh": 1.0, "$/MWh": 1e-3, "USD/MWh": 1e-3},
    "usd_per_mtok": {"$/Mtok": 1.0, "USD/Mtok": 1.0, "$/M tokens": 1.0, "USD/M tokens": 1.0},
    "usd_per_year": {"$/year": 1.0, "USD/year": 1.0},
    "usd_per_w": {"$/W": 1.0, "USD/W": 1.0, "bn$/GW": 1.0},
    "usd_per_byte": {f"{money}/{size}": n / _BYTES[size] for money, n in _USD.items() for size in ("GB", "TB")},
    "years": {"years": 1.0, "year": 1.0, "yr": 1.0},
    "w": _prefixed("W"),
    "j": {**_prefixed("J"), **_prefixed("Wh", factor=WH_J)},
    "bytes": _BYTES,
    "bytes_per_s": {**{f"{unit}/s": n for unit, n in _BYTES.items()},
                    **_prefixed("Bps"), **_prefixed("bit/s", factor=1 / BITS_PER_BYTE),
                    **_prefixed("b/s", factor=1 / BITS_PER_BYTE), **_prefixed("bps", factor=1 / BITS_PER_BYTE)},
    "flop": _prefixed("FLOP"),
    "flop_per_s": _prefixed("FLOP/s"),
    "gpu_hours": {"GPU-hours": 1.0, "GPU-hour": 1.0, "GPU-h": 1.0, "GPU-months": HOURS_PER_MONTH,
                  "GPU-days": 24.0, "GPU-years": HOURS_PER_YEAR},
    "kg_per_kwh": {"kg/kWh": 1.0, "g/kWh": 1e-3},
    "fraction": {"": 1.0, "%": 0.01},
    "growth": {"": 1.0, "%": 0.01},
    "ratio": {"": 1.0, "x": 1.0},
    "count": {"": 1.0, "x": 1.0, "GPUs": 1.0, "GPU": 1.0, "chips": 1.0, "params": 1.0, "parameters": 1.0,
              "steps": 1.0, "samples": 1.0, "prompts": 1.0, "sequences": 1.0, "cores": 1.0, "dies": 1.0},
}  # fmt: skip

#: dimensions whose bare number is complete: it has no unit to forget
DIMENSIONLESS = frozenset({"fraction", "growth", "ratio", "count"})

#: Magnitudes, in SI, beyond which no quantity of this world lies: what is written there is a slip.
SMALLEST, LARGEST = 1e-60, 1e60

_WHOLE = r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*)"
_NUMBER = rf"[-+]?(?:{_WHOLE}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_END = re.compile(rf"\s*(\$?)\s*({_NUMBER})(?![0-9_,.])\s*(.*?)\s*")
_MINUS_DOLLAR = re.compile(r"-\s*\$")
_WRITTEN = sorted((m for m in MULTIPLIERS if m), key=len, reverse=True)


def _split(rest: str, dollar: bool, dimension: str, text: str) -> tuple[float | None, str | None]:
    """Multiplier and unit written behind a number; None for what is not written."""
    spellings = DIMENSIONS[dimension]
    if rest in spellings:
        return None, rest or None
    for multiplier in ["", *_WRITTEN]:
        if not rest.startswith(multiplier):
            continue
        unit = rest[len(multiplier) :].strip()
        if dollar:
            unit = "$" + unit if "$" + unit in spellings else unit
        if unit == "" or unit in spellings:
            return MULTIPLIERS[multiplier] if multiplier else None, unit or None
    allowed = [spelling for spelling in spellings if spelling]
    raise QuantityError(f"{shown(text)}: unknown unit {shown(rest)}; {nearest(rest, allowed)}")


def parse_quantity(
    text: str | float, dimension: str, default_unit: str | None = None, signed: bool = False
) -> Uncertain:
    """Read a number or a range with people's units.

    Parameters
    ----------
    text : str or float
        ``"15T tokens"``, ``"1..3 months"``, ``"$2/h"``, ``"25%"``; a bare number only where the dimension
        has no unit or ``default_unit`` says which one is meant.
    dimension : str
        Key of :data:`DIMENSIONS`: the SI unit of the answer.
    default_unit : str or None
        Spelling that a number without a unit takes.
    signed : bool
        Whether negative values are allowed.

    Returns
    -------
    float or Range
        In the dimension's own SI unit.

    Raises
    ------
    QuantityError
        Not a number, unit missing or unknown, negative, of no possible magnitude, a comma that separates no
        thousands, or a range the wrong way round.

    Examples
    --------
    >>> parse_quantity("15T tokens", "tokens")
    15000000000000.0
    >>> parse_quantity("$2/h", "usd_per_hour")
    2.0
    >>> parse_quantity("10M..100M tokens/s", "tokens_per_s")
    Range(low=10000000.0, high=100000000.0, bounded=False)
    """
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise QuantityError(f"{shown(text)}: expected a number or a text such as '10M..100M'")
    if isinstance(text, str):
        value = _parse_text(text, dimension, default_unit)
    elif isinstance(text, int) and abs(text) > LARGEST:
        raise QuantityError(f"{shown(text)}: no quantity is that large")
    else:
        value = _parse_text(repr(float(text)) if math.isfinite(text) else str(text), dimension, default_unit)
    ends = (value.low, value.high) if isinstance(value, Range) else (value,)
    if not signed and min(ends) < 0:
        raise QuantityError(f"{shown(text)}: must not be negative")
    if not signed and isinstance(value, Range) and value.low == 0:
        raise QuantityError(f"{shown(text)}: a range is log-normal and must begin above 0")
    if dimension == "fraction" and max(ends) > 1:
        raise QuantityError(f"{shown(text)}: a fraction must lie in 0..1 (write 40% or 0.4)")
    return value


def _parse_text(text: str, dimension: str, default_unit: str | None) -> Uncertain:
    example = f"write for example {HINTS[dimension]}"
    if len(text) > MOST_CHARACTERS:
        raise QuantityError(f"{shown(text)}: {len(text)} characters are no quantity, {example}")
    written = re.split(r"\.\.|…", _MINUS_DOLLAR.sub("$-", text))
    ends = [_END.fullmatch(end) for end in written]
    if len(ends) > 2 or any(end is None for end in ends):
        comma = next(filter(None, (re.search(r"[0-9]+,[0-9]+(?![0-9,.])", end) for end in written)), None)
        example = f"a comma separates thousands (1,000,000); write {comma[0].replace(',', '.')}" if comma else example
        raise QuantityError(f"{shown(text)}: not a number or a range, {example}")
    parts = [end.groups() for end in ends if end is not None]
    dollar = any(sign for sign, _, _ in parts)
    if dollar and not dimension.startswith("usd"):
        raise QuantityError(f"{shown(text)}: dollars are given where none are meant, {example}")
    numbers = [float(re.sub("[,_]", "", number)) for _, number, _ in parts]
    split = [_split(rest, dollar, dimension, text) for _, _, rest in parts]
    units = [unit for _, unit in split if unit is not None]
    unit = default_unit if not units else None
    if unit is None and not units and dimension not in DIMENSIONLESS:
        example = f"write {text.strip()}ms or {text.strip()}s" if dimension == "s" else example
        raise QuantityError(f"{shown(text)}: a unit is missing, {example}")
    values = []
    for number, (multiplier, own) in zip(numbers, split, strict=True):
        factor = DIMENSIONS[dimension][own or unit or (units[-1] if units else "")]
        values.append(number * (multiplier or 1.0) * factor)
    for value, (_, digits, _) in zip(values, parts, strict=True):
        zero = re.search("[1-9]", digits.lower().partition("e")[0]) is None
        if not zero and not SMALLEST <= abs(value) <= LARGEST:
            raise QuantityError(f"{shown(text)}: no quantity is that {'large' if abs(value) > 1 else 'small'}")
    if len(values) == 1 or values[0] == values[1]:
        return values[0]
    if split[0] == (None, None) and split[1][0] is not None and values[0] * split[1][0] < values[1]:
        values[0] *= split[1][0]  # "2..4M tokens": a multiplier written once holds for both ends
    try:
        return Range(values[0], values[1], bounded=dimension == "fraction")
    except QuantityError as error:
        raise QuantityError(f"{shown(text)}: {error}") from None


#: How a quantity of each dimension is written, for messages.
HINTS = {
    "s": "'3 months' or '20 ms'",
    "tokens": "'15T tokens'",
    "tokens_per_s": "'10M..100M tokens/s'",
    "requests_per_s": "'100 requests/s'",
    "usd": "'$5M'",
    "usd_per_hour": "'$2/h'",
    "usd_per_kwh": "'$0.08/kWh'",
    "usd_per_mtok": "'$0.27/Mtok'",
    "usd_per_year": "'$6bn/year'",
    "usd_per_w": "'$38/W'",
    "usd_per_byte": "'$0.36/GB'",
    "years": "'5 years'",
    "w": "'400 MW'",
    "j": "'3 GWh'",
    "bytes": "'80 GB'",
    "bytes_per_s": "'3.35 TB/s'",
    "flop": "'5e26 FLOP'",
    "flop_per_s": "'989 TFLOP/s'",
    "gpu_hours": "'2.66M GPU-hours'",
    "kg_per_kwh": "'400 g/kWh'",
    "fraction": "'40%' or 0.4",
    "growth": "'5%' or 0.05",
    "ratio": "'1.2'",
    "count": "'2048' or '10K..50K'",
}


def si_spelling(dimension: str) -> str:
    """What a number of a dimension is in: the spelling of its SI unit.

    Parameters
    ----------
    dimension : str
        Key of :data:`DIMENSIONS`, none of those without a unit.

    Returns
    -------
    str
        Such as ``"s"`` or ``"$/h"``.

    Examples
    --------
    >>> [si_spelling(one) for one in ("s", "usd_per_hour", "usd_per_byte", "bytes")]
    ['s', '$/h', '$ per byte', 'bytes (B)']
    """
    named = {"bytes": "bytes (B)", "usd_per_byte": "$ per byte"}
    per_one = (spelling for spelling, factor in DIMENSIONS[dimension].items() if spelling and factor == 1.0)
    return named.get(dimension) or next(per_one)


_PREFIXES = {
    "Z": ZETTA,
    "E": EXA,
    "P": PETA,
    "T": TERA,
    "G": GIGA,
    "M": MEGA,
    "k": KILO,
    "": 1.0,
    "m": 1e-3,
    "µ": 1e-6,
    "n": 1e-9,
}
#: Units that take prefixes as people count: K, M, B, T.
_COUNTED = ("", "tokens", "GPU-hours", "USD", "tokens/s", "requests/s")


#: Bytes counted by powers of 1,024, and whether they are shown so.
_BINARY = (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
_IS_BINARY: ContextVar[bool] = ContextVar("bytes are shown by powers of 1,024", default=False)


@contextmanager
def bytes_shown(is_binary: bool) -> Iterator[None]:
    """Within it bytes are printed in GiB and the like, or in GB: numbers stay as they are.

    Parameters
    ----------
    is_binary : bool
        Whether by powers of 1,024.

    Yields
    ------
    None
        Nothing.

    Examples
    --------
    >>> with bytes_shown(is_binary=True):
    ...     format_si(80e9, "B"), gigabytes()
    ('74.5 GiB', ('GiB', 1073741824.0))
    """
    token = _IS_BINARY.set(is_binary)
    try:
        yield
    finally:
        _IS_BINARY.reset(token)


def gigabytes() -> tuple[str, float]:
    """Name and size of the unit that memory is drawn in [byte].

    Returns
    -------
    tuple of str and float
        GB, or GiB within :func:`bytes_shown`.

    Examples
    --------
    >>> gigabytes()
    ('GB', 1000000000.0)
    """
    return _BINARY[1] if _IS_BINARY.get() else ("GB", GIGA)


def format_si(value: float, unit: str = "", digits: int = 3) -> str:
    """Print a number with an SI prefix and a few digits.

    Parameters
    ----------
    value : float
        The quantity, in ``unit``.
    unit : str
        What stands behind the prefix. Without a unit, counts read K, M, B, T as people write them.
    digits : int
        Significant digits [-].

    Returns
    -------
    str
        Such as ``"2.66 MW"``, ``"14.8T"``, ``"20.1 ms"``; powers of ten beyond the prefixes.

    Examples
    --------
    >>> format_si(14.8e12), format_si(0.0201, "s"), format_si(3.29e24, "FLOP")
    ('14.8T', '20.1 ms', '3.29e24 FLOP')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}".rstrip()
    size = abs(value)
    if unit == "B" and _IS_BINARY.get():
        name, factor = next((one for one in _BINARY if size >= one[1]), ("B", 1.0))
        return f"{_significant(value / factor, digits)} {name}"
    if size >= (1e18 if unit == "FLOP" else 1e24) or size < 1e-12 or (unit == "" and size >= 1e17):
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)} {unit}".rstrip()
    prefix = next((name for name, factor in _PREFIXES.items() if _reaches(size, factor, digits)), "n")
    if size < 1 and (unit in _COUNTED or unit.startswith("FLOP/")):
        prefix = ""
    number = _significant(value / _PREFIXES[prefix], digits)
    if unit in _COUNTED:
        prefix = {"k": "K", "G": "B"}.get(prefix, prefix)
        return f"{number}{prefix} {unit}".rstrip()
    return f"{number} {prefix}{unit}"


def format_count(count: float, noun: str) -> str:
    """Print a count of things.

    Parameters
    ----------
    count : float
        How many [-].
    noun : str
        What one of them is called.

    Returns
    -------
    str
        In the plural unless it is one.

    Examples
    --------
    >>> format_count(1, "GPU"), format_count(2048, "GPU")
    ('1 GPU', '2,048 GPUs')
    """
    return f"{count:,.0f} {noun}{'' if count == 1 else 's'}"


def format_times(ratio: float) -> str:
    """Print a ratio with three digits, never as a power of ten.

    Parameters
    ----------
    ratio : float
        Of two quantities of one unit [-].

    Returns
    -------
    str
        With a comma before thousands.

    Examples
    --------
    >>> format_times(1.934), format_times(1523.4)
    ('1.93 times', '1,520 times')
    """
    size = abs(ratio)
    return f"{float(f'{ratio:.3g}'):,.0f} times" if size >= KILO else f"{_significant(ratio, 3)} times"


def _reaches(size: float, factor: float, digits: int) -> bool:
    """Whether a number that is printed with some digits rounds to the factor or more."""
    return size >= factor * (1 - 0.5 * 10.0**-digits)


def _significant(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)) + 1e-12)
    text = f"{round(value, decimals):.{max(0, decimals)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_usd(value: float, digits: int = 3) -> str:
    """Print an amount of money; one with tenths has its cents, as prices are written.

    Parameters
    ----------
    value : float
        Amount [USD].
    digits : int
        Significant digits, beside a zero for cents [-].

    Returns
    -------
    str
        Such as ``"$5.33M"`` or ``"$0.27"``.

    Examples
    --------
    >>> format_usd(5.328e6), format_usd(0.274), format_usd(3.6), format_usd(9e11)
    ('$5.33M', '$0.274', '$3.60', '$900bn')
    """
    sign, size = ("-", -value) if value < 0 else ("", value)
    for factor, name in ((TERA, "tn"), (GIGA, "bn"), (MEGA, "M"), (KILO, "K")):
        if _reaches(size, factor, digits):
            return f"{sign}${_significant(size / factor, digits)}{name}"
    text = _significant(size, digits)
    return f"{sign}${text}{'0' if text[-2:-1] == '.' else ''}"


def format_percent(value: float, digits: int = 3) -> str:
    """Print a fraction as people read it.

    Parameters
    ----------
    value : float
        Fraction [-].
    digits : int
        Significant digits, of which a fraction below 0.01 has two at most [-].

    Returns
    -------
    str
        Such as ``"34.6 %"``.

    Examples
    --------
    >>> format_percent(0.346), format_percent(0.0034), format_percent(0.346, digits=2)
    ('34.6 %', '0.34 %', '35 %')
    """
    if value == 0:
        return "0 %"
    return f"{_significant(100 * value, digits if abs(value) >= 0.01 else min(digits, 2))} %"
