"""Price sheets of tokens and their exact arithmetic: tiers that move the whole request, cache writes, modes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from computeledger.errors import FactError, InputError, nearest, shown
from computeledger.facts.reading import Document, read_file
from computeledger.sources import check_date
from computeledger.units import TOKENS_PER_MTOK

#: Prices that a sheet may hold. A cache write is held 5 minutes unless it says an hour.
KINDS = ("input", "output", "cached_read", "cache_write", "cache_write_1h")
_PER = Decimal(int(TOKENS_PER_MTOK))


@dataclass(frozen=True, slots=True)
class PriceTier:
    """A price of long requests: it holds for the whole request."""

    threshold_tokens: int
    price: Decimal
    is_inclusive: bool = False

    def holds(self, prompt_tokens: int) -> bool:
        """Whether a prompt is that long."""
        return prompt_tokens > self.threshold_tokens or (self.is_inclusive and prompt_tokens == self.threshold_tokens)


@dataclass(frozen=True, slots=True)
class Rate:
    """One price of a sheet."""

    base: Decimal
    tiers: tuple[PriceTier, ...] = ()

    def price(self, prompt_tokens: int) -> Decimal:
        """Price of the request's tokens of this kind."""
        return next((tier.price for tier in reversed(self.tiers) if tier.holds(prompt_tokens)), self.base)


@dataclass(frozen=True, slots=True)
class PriceSheet:
    """Prices of one model at one provider."""

    name: str
    rates: Mapping[str, Rate]
    request_price: Decimal = Decimal(0)
    modes: Mapping[str, Mapping[str, Rate]] = field(default_factory=dict)
    origin: str = "given"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request."""

    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0


def bill(sheet: PriceSheet, usage: Usage, mode: str = "standard") -> dict[str, Decimal]:
    """What a request costs, exactly.

    A part of the prompt that has no price of its own costs what the rest of the prompt does; an hour's cache write
    without a price costs what a write does.

    Parameters
    ----------
    sheet : PriceSheet
        Its prices.
    usage : Usage
        Its tokens.
    mode : str
        ``standard``, or one of the sheet's modes.

    Returns
    -------
    dict of str to Decimal
        By kind, ``request``, and ``total``, in USD.

    Raises
    ------
    InputError
        The parts of the prompt exceed it, or the sheet has no such mode.

    Examples
    --------
    >>> tier = (PriceTier(200_000, Decimal(4)),)
    >>> sheet = PriceSheet("x", {"input": Rate(Decimal(2), tier), "output": Rate(Decimal(12))})
    >>> [str(bill(sheet, Usage(n, 1000))["input"]) for n in (200_000, 200_001)]
    ['0.4', '0.800004']
    """
    if mode != "standard" and mode not in sheet.modes:
        raise InputError(f"{sheet.name} has no mode {shown(mode)}: {nearest(mode, ['standard', *sheet.modes])}")
    rates = {**sheet.rates, **sheet.modes.get(mode, {})}
    left = _leaves(usage, rates)
    prompt = usage.prompt_tokens
    parts = {kind: rates[kind].price(prompt) * count / _PER for kind, count in left.items() if kind in rates}
    parts["request"] = sheet.request_price
    return {**parts, "total": sum(parts.values(), start=Decimal(0))}


def _leaves(usage: Usage, rates: Mapping[str, Rate]) -> dict[str, int]:
    """Tokens by the price they pay."""
    counts = {"input": usage.prompt_tokens, **{kind: getattr(usage, f"{kind}_tokens") for kind in KINDS[1:]}}
    for kind, count in counts.items():
        if count < 0 or count != int(count):
            raise InputError(f"{kind} tokens {count}: expected a whole number that is not negative")
    parts = sum(counts[kind] for kind in KINDS[2:])
    if parts > counts["input"]:
        raise InputError(
            f"{parts:,} tokens read from and written to the cache exceed the prompt of {counts['input']:,}"
        )
    for kind, instead in (("cache_write_1h", "cache_write"), ("cache_write", "input"), ("cached_read", "input")):
        if kind not in rates and instead != "input":
            counts[instead] += counts[kind]
            counts[kind] = 0
    own = {kind: counts[kind] for kind in KINDS[2:] if kind in rates}
    return {"input": counts["input"] - sum(own.values()), "output": counts["output"], **own}


def read_sheet(path: str | Path) -> PriceSheet:
    """Read a price sheet from TOML.

    ``[price]`` holds a number per million tokens for each kind; ``[[tier]]`` a threshold and the prices beyond it;
    ``[mode.batch]`` a ``ratio`` or prices. ``currency`` other than USD needs ``usd_per_unit`` and ``rate_date``.

    Examples
    --------
    >>> read_sheet("missing.toml")
    Traceback (most recent call last):
    computeledger.errors.InputError: missing.toml: no such file
    """
    return sheet_of(read_file(Path(path)))


def sheet_of(document: Document) -> PriceSheet:
    r"""Check a parsed price sheet.

    Examples
    --------
    >>> from computeledger.facts.reading import parse_document
    >>> text = "[price]\ninput = 2\noutput = 8\n[mode.batch]\nratio = 0.5"
    >>> float(bill(sheet_of(parse_document("x.toml", text, False)), Usage(1000, 0), "batch")["total"])
    0.001
    """
    table = document.table
    allowed = ("name", "currency", "usd_per_unit", "rate_date", "price", "tier", "mode", "usd_per_request")
    for key in table:
        if key not in allowed:
            raise document.error(key, f"is unknown: {nearest(key, allowed)}")
    factor, note = _currency(document)
    if not isinstance(table.get("price"), Mapping):
        raise document.error("price", "a table [price] with input and output is missing")
    base = _prices(document, "price", table["price"], factor)
    for kind in ("input", "output"):
        if kind not in base:
            raise document.error("price", f"{kind} is missing")
    rates = _with_tiers(document, base, factor)
    if not isinstance(table.get("mode", {}), Mapping):
        raise document.error("mode", "write [mode.batch] and the like, with a ratio or prices")
    modes = {name: _mode(document, name, one, rates, factor) for name, one in table.get("mode", {}).items()}
    request = _number(document, "usd_per_request", table.get("usd_per_request", 0)) * factor
    return PriceSheet(str(table.get("name", document.name)), rates, request, modes, document.name, note)


def _currency(document: Document) -> tuple[Decimal, tuple[str, ...]]:
    table = document.table
    currency = str(table.get("currency", "USD"))
    if not re.fullmatch(r"[A-Z]{3}", currency):
        raise document.error("currency", f"{shown(currency)}: expected three letters, as EUR")
    if currency == "USD":
        if "usd_per_unit" in table:
            raise document.error("usd_per_unit", "currencies are mixed: the sheet is in USD and gives a rate to USD")
        return Decimal(1), ()
    if "usd_per_unit" not in table or "rate_date" not in table:
        raise document.error("currency", f"{currency} needs usd_per_unit and rate_date, the day of that rate")
    rate = _number(document, "usd_per_unit", table["usd_per_unit"])
    if rate <= 0:
        raise document.error("usd_per_unit", "must be greater than 0")
    try:
        day = check_date(str(table["rate_date"]), "rate_date")
    except FactError as error:
        raise document.error("rate_date", str(error).removeprefix("rate_date: ")) from None
    return rate, (f"1 {currency} = {rate} USD on {day}",)


def _number(document: Document, path: str, value: Any) -> Decimal:
    if isinstance(value, str) and re.search(r"[$€£¥]|[A-Z]{3}", value):
        message = f"{shown(value)}: currencies are mixed or repeated; write the number, and the sheet's currency once"
        raise document.error(path, message)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise document.error(path, f"{shown(value)}: expected a number")
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise document.error(path, f"{shown(value)}: expected a number") from None
    if not number.is_finite() or number < 0:
        raise document.error(path, f"{shown(value)}: a price must not be negative, and finite")
    return number


def _prices(document: Document, path: str, table: Mapping[str, Any], factor: Decimal) -> dict[str, Decimal]:
    for key in table:
        if key not in KINDS and not (path == "tier" and key in ("above_tokens", "from_tokens")):
            raise document.error(f"{path}.{key}", f"is no price: {nearest(key, KINDS)}")
    return {kind: _number(document, f"{path}.{kind}", table[kind]) * factor for kind in KINDS if kind in table}


def _with_tiers(document: Document, base: Mapping[str, Decimal], factor: Decimal) -> dict[str, Rate]:
    tiers: dict[str, list[PriceTier]] = {kind: [] for kind in base}
    last = -1
    given_tiers = document.table.get("tier", [])
    if not isinstance(given_tiers, list):
        raise document.error("tier", "write each tier as [[tier]], with two brackets")
    for table in given_tiers:
        given = [key for key in ("above_tokens", "from_tokens") if key in table]
        if len(given) != 1 or not isinstance(table[given[0]], int) or table[given[0]] < 0:
            raise document.error("tier", "needs above_tokens (>) or from_tokens (>=), a whole number of tokens")
        threshold = table[given[0]]
        if threshold <= last:
            raise document.error("tier", f"{threshold} tokens after {last}: tiers stand by rising threshold")
        last = threshold
        for kind, price in _prices(document, "tier", table, factor).items():
            if kind not in base:
                raise document.error("tier", f"{kind} has no price below the threshold")
            below = tiers[kind][-1].price if tiers[kind] else base[kind]
            if price < below:
                message = f"order reversed: {kind} costs {price} beyond {threshold} tokens, less than {below} before"
                raise document.error("tier", message)
            tiers[kind].append(PriceTier(threshold, price, given[0] == "from_tokens"))
    return {kind: Rate(price, tuple(tiers[kind])) for kind, price in base.items()}


def _mode(document: Document, name: str, table: Any, rates: Mapping[str, Rate], factor: Decimal) -> dict[str, Rate]:
    """Prices of a mode: a ratio of all prices, tiers included, or its own."""
    if not isinstance(table, Mapping) or not table:
        raise document.error(f"mode.{name}", "needs a ratio or prices")
    if "ratio" in table and len(table) > 1:
        raise document.error(f"mode.{name}", "a ratio holds for all prices: give it or prices, not both")
    if "ratio" in table:
        ratio = _number(document, f"mode.{name}.ratio", table["ratio"])
        return {
            kind: Rate(rate.base * ratio, tuple(PriceTier(t.threshold_tokens, t.price * ratio, t.is_inclusive)
                                                for t in rate.tiers))
            for kind, rate in rates.items()
        }  # fmt: skip
    return {kind: Rate(price) for kind, price in _prices(document, f"mode.{name}", table, factor).items()}
