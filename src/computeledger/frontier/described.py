"""Read a training system as people describe it: chips, power at a boundary, money, buildings, mixed generations."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from computeledger.errors import InputError, UnknownIdError, nearest, shown
from computeledger.facts.load import accelerator_ids, load_accelerator
from computeledger.facts.schema import Accelerator
from computeledger.units import format_si, parse_quantity

#: Accelerator of a description that names none (assumption, shown in the answer).
DEFAULT_ACCELERATOR = "gb200-gpu"
BOUNDARIES = ("chip", "it", "facility")

_BUILDINGS = re.compile(r"(?P<count>[\d.,]+)\s*buildings?\s*(?:x|×|of|at)\s*(?P<rest>.+)", re.IGNORECASE)
_PER_YEAR = re.compile(
    r"(?P<usd>\$?\s*[\d.,]+\s*\S*?)\s*(?:/|a |per )\s*(?:year|yr)\s+at\s+(?P<price>\$?\s*[\d.,]+)\s*"
    r"(?:USD)?\s*(?:/|per )\s*(?:GPU-?)?h(?:our)?",
    re.IGNORECASE,
)
_OF = re.compile(r"(?P<amount>.*?)\s*\bof\s+(?P<chip>\S+)\s*", re.IGNORECASE)
_A_YEAR = re.compile(r".*(?:/|\ba |\bper )\s*(?:year|yr)", re.IGNORECASE)
_POWER = re.compile(r"(?P<power>.+?[kMGT]?W)\b\s*(?P<boundary>.*)")
_COUNT = re.compile(r"(?P<count>[\d.,]+(?:e\d+)?\s*[kKMB]?)\s*(?P<word>[A-Za-z][\w.-]*)?")
_CHIP_FIRST = re.compile(r"(?P<count>[\d.,]+(?:e\d+)?\s*[kKMB]?)\s+(?P<chip>\S*\d\S*)\s+(?P<word>[a-zA-Z]+)")
_COUNTED = ("chip", "gpu", "package", "superchip")


@dataclass(frozen=True, slots=True)
class Part:
    """One generation of a described system."""

    kind: str
    amount: float
    accelerator_id: str
    assumed: bool = False


def parse_description(text: str) -> tuple[Part, ...]:
    """Read a description of a system.

    ``[NUMBER UNIT] [boundary] [of ACCELERATOR_ID]``, several of them joined by ``+``.

    Examples
    --------
    >>> parse_description("400 MW facility of gb200-gpu")
    (Part(kind='facility', amount=400000000.0, accelerator_id='gb200-gpu', assumed=False),)
    >>> parse_description("100K GB200 superchips")[0].amount
    200000.0
    >>> [part.amount for part in parse_description("150K chips of h100-sxm5-80gb + 30K chips of gb200-gpu")]
    [150000.0, 30000.0]
    """
    short = re.sub(r"\s*\bmillion\b", "M", re.sub(r"\s*\bbillion\b", "bn", text.strip()))
    pieces = [piece.strip() for piece in re.split(r"\s\+\s|\s+and\s+", short)]
    if not text.strip() or not all(pieces):
        raise InputError(f"{shown(text)}: describes nothing; write for example '400 MW facility of gb200-gpu'")
    return tuple(_part(piece) for piece in pieces)


def _part(text: str) -> Part:
    turned = _CHIP_FIRST.fullmatch(text)
    if turned is not None and turned["word"].lower().removesuffix("s") in (*_COUNTED, "die"):
        return _counted(f"{turned['count']} {turned['word']}", _accelerator(turned["chip"]), text)
    if re.search(r"\bof$", text, re.IGNORECASE):
        raise InputError(f"{shown(text)}: of which accelerator? Write for example '{text} {DEFAULT_ACCELERATOR}'")
    found = _OF.fullmatch(text)
    amount = text if found is None else found["amount"]
    accelerator = None if found is None else _accelerator(found["chip"])
    buildings = _BUILDINGS.fullmatch(amount)
    if buildings is not None:
        each = _amount(buildings["rest"], accelerator, text)
        if each.kind not in BOUNDARIES:
            raise InputError(f"{shown(text)}: a building is described by its power, such as '7 buildings x 65 MW IT'")
        count = _number(buildings["count"])
        return Part(each.kind, count * each.amount, each.accelerator_id, each.assumed)
    return _amount(amount, accelerator, text)


def _amount(amount: str, accelerator: str | None, text: str) -> Part:
    chosen = accelerator or DEFAULT_ACCELERATOR
    rent = _PER_YEAR.fullmatch(amount)
    if rent is not None:
        yearly = _single(rent["usd"], "usd")
        price = _single(rent["price"] + "/h" if "$" in rent["price"] else "$" + rent["price"] + "/h", "usd_per_hour")
        if price == 0:
            raise InputError(f"{shown(text)}: a price above 0 is needed")
        return _positive(Part("rent", yearly / price, chosen, accelerator is None), text)
    if _A_YEAR.fullmatch(amount):
        raise InputError(f"{shown(text)}: money a year needs a price; write '{amount} at $2.50 per GPU-hour'")
    if "$" in amount or "USD" in amount:
        return _positive(Part("capex", _single(amount, "usd"), chosen, accelerator is None), text)
    power = _POWER.fullmatch(amount)
    if power is not None:
        return _power(power["power"], power["boundary"], (chosen, accelerator is None), text)
    return _counted(amount, accelerator, text)


def _power(power: str, boundary: str, chosen: tuple[str, bool], text: str) -> Part:
    watts = _single(power, "w")
    named = boundary.lower().removesuffix("power").strip() if boundary else ""
    if named not in BOUNDARIES:
        examples = ", ".join(f"'{power.strip()} {one}'" for one in ("chip", "IT", "facility"))
        what = "does not say at which boundary" if not named else f"knows no boundary {shown(named)}"
        raise InputError(
            f"{shown(text)}: {what} the power is meant (they differ up to twofold); write one of {examples}"
        )
    return _positive(Part(named, watts, *chosen), text)


def _counted(amount: str, accelerator: str | None, text: str) -> Part:
    found = _COUNT.fullmatch(amount.strip())
    if found is None:
        raise InputError(
            f"{shown(text)}: not understood; write '[NUMBER UNIT] [boundary] [of ACCELERATOR_ID]', for example "
            "'400 MW facility of gb200-gpu', '100K chips of h100-sxm5-80gb' or '$10bn of gb200-gpu'"
        )
    count, word = _number(found["count"]), (found["word"] or "").lower()
    counted = word.removesuffix("s")
    if counted in _COUNTED or counted == "die":
        chosen = accelerator or DEFAULT_ACCELERATOR
        chip = load_accelerator(chosen)
        if counted == "superchip" and chip.packages_per_superchip == 1:
            raise InputError(f"{shown(text)}: {chosen} is on no superchip; write chips")
        per = {"die": 1 / chip.dies, "superchip": float(chip.packages_per_superchip)}.get(counted, 1.0)
        return _positive(Part("chips", count * per, chosen, accelerator is None), text)
    if word in _superchips() or (not word and accelerator is None):
        raise InputError(_both_readings(text, count, word))
    if accelerator is not None and word:
        raise InputError(f"{shown(text)}: unknown word {shown(word)}; {nearest(word, [*_COUNTED, 'die'])}")
    return _positive(Part("chips", count, accelerator or _accelerator(word)), text)


@functools.cache
def _superchips() -> Mapping[str, Accelerator]:
    """Chips of which one name means a package or a superchip of several."""
    chips = [load_accelerator(name) for name in accelerator_ids()]
    return {chip.short_name.lower(): chip for chip in chips if chip.packages_per_superchip > 1}


def meant_chip(word: str) -> str:
    """Id of the accelerator that a word of a description names, be it the name of a superchip.

    Examples
    --------
    >>> meant_chip("GB200"), meant_chip("h100-sxm5-80gb")
    ('gb200-gpu', 'h100-sxm5-80gb')
    """
    chip = _superchips().get(word.lower().removesuffix("s"))
    return _accelerator(word) if chip is None else chip.id


def _both_readings(text: str, count: float, word: str) -> str:
    if not word:
        return f"{shown(text)}: says of what nowhere; write for example '{text.strip()} chips of gb200-gpu'"
    chip, h100 = _superchips()[word], load_accelerator("h100-sxm5-80gb")
    ratio = count * chip.peak("bf16") / h100.peak("bf16")
    one, two = format_si(ratio), format_si(chip.packages_per_superchip * ratio)
    return (
        f"{shown(text)}: {chip.short_name} means a chip or a superchip of {chip.packages_per_superchip}. As chips: "
        f"{format_si(count)} chips, {one} "
        f"H100-equivalents (bf16); as superchips: {format_si(chip.packages_per_superchip * count)} chips, {two}. Write "
        f"'{format_si(count)} chips of {chip.id}' or '{format_si(count)} superchips of {chip.id}', or add the power"
    )


def _accelerator(given: str) -> str:
    try:
        return load_accelerator(given).id
    except UnknownIdError:
        families = [given.lower(), given.lower().removesuffix("s")]
        whole = [one for one in accelerator_ids() if one.startswith(tuple(f"{name}-" for name in families))]
        if len(whole) == 1:
            return whole[0]
        raise


def _single(text: str, dimension: str) -> float:
    value = parse_quantity(text.strip(), dimension)
    if not isinstance(value, float):
        raise InputError(f"{shown(text)}: a single number is needed here")
    return value


def _number(text: str) -> float:
    return _single(text, "count")


def _positive(part: Part, text: str) -> Part:
    if part.amount <= 0:
        raise InputError(f"{shown(text)}: more than 0 is needed")
    return part
