"""Dated editions: GPU-hour prices, what owning takes, memory and storage tiers.

An edition that was published is not edited: a new one is added. ``None`` loads the newest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from computeledger.errors import nearest, unknown_id
from computeledger.facts.catalog import (
    accelerator_ids,
    ownership_editions,
    price_editions,
    shipped_file,
    tier_editions,
    user_path,
)
from computeledger.facts.reading import Document, read_fact, read_facts, read_file
from computeledger.facts.records import base_record, built, record_values
from computeledger.facts.schema import Fact, OwnershipEdition, PriceEdition, Tier, TierEdition

_E = TypeVar("_E", PriceEdition, OwnershipEdition, TierEdition)
#: What a price may be for: by the hour on demand, by contract, and the full cost of an owner.
PRICE_KINDS = ("rent", "reserve", "own")

_TIER_FACTS = ("capacity_bytes", "read_bytes_per_s", "usd_per_byte")


def load_prices(edition: str | None = None) -> PriceEdition:
    """Load a dated edition of prices.

    Parameters
    ----------
    edition : str or None
        Id of :func:`price_editions` or the path of a file; None for the newest edition.

    Returns
    -------
    PriceEdition
        GPU-hour prices by accelerator and kind, and electricity.

    Examples
    --------
    >>> load_prices("2026-11").usd_per_gpu_hour["h100-sxm5-80gb"]["rent"].unit
    'usd_per_hour'
    """
    return _load("prices", edition, price_editions(), read_prices)


def load_ownership(edition: str | None = None) -> OwnershipEdition:
    """Load a dated edition of what owning a GPU takes.

    Parameters
    ----------
    edition : str or None
        Id of :func:`ownership_editions` or the path of a file; None for the newest edition.

    Returns
    -------
    OwnershipEdition
        Purchase by accelerator, life, cost of capital, occupancy, operation, power and carbon.

    Examples
    --------
    >>> load_ownership().life_years.given
    '5 years'
    """
    return _load("ownership", edition, ownership_editions(), read_ownership)


def load_tiers(edition: str | None = None) -> TierEdition:
    """Load a dated edition of memory and storage tiers.

    Parameters
    ----------
    edition : str or None
        Id of :func:`tier_editions` or the path of a file; None for the newest edition.

    Returns
    -------
    TierEdition
        Capacity, bandwidth and price of stacked memory, server memory, flash and disk.

    Examples
    --------
    >>> round(load_tiers().tiers["nvme-4tb"].drain_s)
    276
    """
    return _load("tiers", edition, tier_editions(), read_tiers)


def _load(kind: str, edition: str | None, editions: tuple[str, ...], read: Callable[[Document], _E]) -> _E:
    """A user's file, or the shipped edition that is meant: the newest where none is named."""
    path = user_path(edition) if edition is not None else None
    if path:
        return read(read_file(path))
    if edition is not None and edition not in editions:
        raise unknown_id(f"{kind.removesuffix('s')} edition", edition, editions)
    found: _E = _shipped(kind, edition or editions[-1], read)
    return found


@functools.cache
def _shipped(kind: str, stem: str, read: Callable[[Document], Any]) -> Any:
    return read(read_file(shipped_file(kind, f"{stem}.toml"), shipped=True))


def read_prices(document: Document) -> PriceEdition:
    """Build a price edition from a parsed file."""
    base = base_record(document, load_prices)
    values = record_values(document, PriceEdition, base, ("id",), {"usd_per_gpu_hour": _read_gpu_hours})
    if base is not None:
        own = values.get("usd_per_gpu_hour", {})
        merged = {key: {**base.usd_per_gpu_hour.get(key, {}), **kinds} for key, kinds in own.items()}
        values["usd_per_gpu_hour"] = {**base.usd_per_gpu_hour, **merged}
    return built(document, PriceEdition, base, values)


def _read_gpu_hours(document: Document, path: str, value: Any) -> dict[str, dict[str, Fact]]:
    def read(where: str, kinds: Any) -> dict[str, Fact]:
        out = read_facts(document, where, kinds)
        for kind in kinds:
            if kind not in PRICE_KINDS:
                raise document.error(f"{where}.{kind}", f"unknown kind of price; {nearest(kind, PRICE_KINDS)}")
        return out

    return _by_accelerator(document, path, value, read)


def _by_accelerator(document: Document, path: str, value: Any, read: Callable[[str, Any], Any]) -> dict[str, Any]:
    """A table with one entry per accelerator; a shipped one must name shipped accelerators."""
    if not isinstance(value, dict):
        raise document.error(path, f"expected a table of accelerators, not {value!r}")
    for key in value:
        if document.shipped and key not in accelerator_ids():
            raise document.error(f"{path}.{key}", f"unknown accelerator; {nearest(key, accelerator_ids())}")
    return {key: read(f"{path}.{key}", item) for key, item in value.items()}


def read_ownership(document: Document) -> OwnershipEdition:
    """Build an ownership edition from a parsed file."""
    base = base_record(document, load_ownership)
    values = record_values(document, OwnershipEdition, base, ("id",), {"capex_usd_per_gpu": _read_capex})
    if base is not None:
        values["capex_usd_per_gpu"] = {**base.capex_usd_per_gpu, **values.get("capex_usd_per_gpu", {})}
    return built(document, OwnershipEdition, base, values)


def _read_capex(document: Document, path: str, value: Any) -> dict[str, Fact]:
    return _by_accelerator(document, path, value, lambda where, item: read_fact(document, where, item))


def read_tiers(document: Document) -> TierEdition:
    """Build an edition of memory and storage tiers from a parsed file."""
    base = base_record(document, load_tiers)
    values = record_values(document, TierEdition, base, ("id",), {"tiers": _read_tiers})
    if base is not None:
        values["tiers"] = {**base.tiers, **values.get("tiers", {})}
    return built(document, TierEdition, base, values)


def _read_tiers(document: Document, path: str, value: Any) -> dict[str, Tier]:
    if not isinstance(value, dict):
        raise document.error(path, f"expected a table of tiers, not {value!r}")
    return {key: _read_tier(document, f"{path}.{key}", key, table) for key, table in value.items()}


def _read_tier(document: Document, path: str, key: str, table: Any) -> Tier:
    fields = ("name", *_TIER_FACTS)
    if not isinstance(table, dict):
        raise document.error(path, f"expected a table of {', '.join(fields)}, not {table!r}")
    missing = [name for name in fields if name not in table]
    if missing:
        raise document.error(path, f"{', '.join(missing)} missing")
    for name in table:
        if name not in fields:
            raise document.error(f"{path}.{name}", f"unknown field; {nearest(name, fields)}")
    if not isinstance(table["name"], str):
        raise document.error(f"{path}.name", f"{table['name']!r} is not a text")
    facts = {name: read_fact(document, f"{path}.{name}", table[name]) for name in _TIER_FACTS}
    return Tier(id=key, name=table["name"], **facts)
