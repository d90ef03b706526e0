"""Price sheets from the genai-prices package, where it is installed: loaded by name, offline, its version named."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import metadata
from itertools import pairwise
from typing import Any

from computeledger.economics.prices.sheets import KINDS, PriceSheet, PriceTier, Rate
from computeledger.errors import InputError, UnknownIdError, close_choices, shown, unknown_id

_KEYS = {"input": "input_mtok", "output": "output_mtok", "cached_read": "cache_read_mtok",
         "cache_write": "cache_write_mtok", "cache_write_1h": "cache_write_1h_mtok"}  # fmt: skip


#: Sellers of a model that a message names.
MOST_SELLERS = 5


def _snapshot() -> Any:
    try:
        return importlib.import_module("genai_prices.data_snapshot").get_snapshot()
    except ModuleNotFoundError:
        raise InputError(
            "provider/name needs the package genai-prices (the extra 'prices'); or give a price sheet in TOML"
        ) from None


def edition() -> str:
    """The package and its version: the dated snapshot that the prices are from."""
    return f"genai-prices {metadata.version('genai-prices')}"


def model_names(provider: str | None = None) -> list[str]:
    """Every ``provider/model`` of the snapshot."""
    return [f"{one.id}/{model.id}" for one in _snapshot().providers for model in one.models
            if provider is None or one.id == provider]  # fmt: skip


def find_model(name: str) -> tuple[str, Any]:
    """A model of the snapshot by ``provider/model``."""
    provider_id, _, model_id = name.partition("/")
    providers = {provider.id: provider for provider in _snapshot().providers}
    if provider_id not in providers:
        raise _no_provider(name, provider_id, providers)
    models = {model.id: model for model in providers[provider_id].models}
    if not model_id:
        raise UnknownIdError(f"{shown(name)}: write provider/model, such as {provider_id}/{min(models)}")
    if model_id in models:
        return name, models[model_id]
    found = providers[provider_id].find_model(model_id) if model_id else None
    if found is None:
        raise unknown_id(f"model of {provider_id}", model_id, models)
    return f"{provider_id}/{found.id}", found


def _no_provider(name: str, provider_id: str, providers: Iterable[str]) -> UnknownIdError:
    """Say who sells a model that was named alone, else which providers there are."""
    sold: dict[str, list[str]] = {}
    for full in model_names():
        sold.setdefault(full.partition("/")[2].lower(), []).append(full)
    wanted = name.rpartition("/")[2].lower()
    holding = [full for model, fulls in sold.items() if wanted and wanted in model for full in fulls]
    if wanted not in sold and len(holding) > MOST_SELLERS:
        told = f"{len(holding)} price sheets hold it: `prices list {wanted}` names them"
        return UnknownIdError(f"{shown(name)} names no provider; {told}")
    close = [full for model in ([wanted] if wanted in sold else close_choices(wanted, sold)) for full in sold[model]]
    if not close:
        return unknown_id("provider", provider_id, providers)
    more = f" and {len(close) - MOST_SELLERS} more" if len(close) > MOST_SELLERS else ""
    meant = " or ".join(map(repr, close[:MOST_SELLERS]))
    return UnknownIdError(f"{shown(name)} names no provider: write provider/model; did you mean {meant}{more}?")


@dataclass(frozen=True, slots=True)
class HoursOfDay:
    """Hours of the day, in UTC, at which one set of prices holds."""

    spans: list[tuple[datetime, datetime]]
    prices: Any

    @property
    def length(self) -> timedelta:
        """How long the prices hold each day."""
        return sum((end - start for start, end in self.spans), start=timedelta(0))

    def __str__(self) -> str:
        return ", ".join(f"{start:%H:%M} to {end:%H:%M}" for start, end in self.spans)


def hours_of_day(model: Any, day: datetime) -> list[HoursOfDay]:
    """Every set of prices of a day with its hours; the one that holds for most of the day first."""
    dated = model.prices if isinstance(model.prices, list) else []
    timed = [one.constraint for one in dated if hasattr(one.constraint, "start_time")]
    midnight = day.replace(hour=0, minute=0, second=0, microsecond=0)
    end_of_day = midnight + timedelta(days=1)
    edges = {midnight.replace(hour=one.hour, minute=one.minute) for c in timed for one in (c.start_time, c.end_time)}
    found: list[HoursOfDay] = []
    for start, end in pairwise((*sorted({midnight, *edges}), end_of_day)):
        prices = model.get_prices(start)
        same = next((one for one in found if one.prices == prices), None)
        if same is None:
            found.append(HoursOfDay([(start, end)], prices))
        elif same.spans[-1][1] == start:
            same.spans[-1] = (same.spans[-1][0], end)
        else:
            same.spans.append((start, end))
    for one in found:
        if len(one.spans) > 1 and one.spans[0][0] == midnight and one.spans[-1][1] == end_of_day:
            one.spans[-1] = (one.spans[-1][0], one.spans.pop(0)[1] + timedelta(days=1))
    return sorted(found, key=lambda one: one.length, reverse=True)


def load_sheet(name: str, at: datetime | None = None) -> PriceSheet:
    """The price sheet of ``provider/model`` at a time; left out, today's prices, those that hold most of the day."""
    full, model = find_model(name)
    when = at or datetime.now(tz=UTC)
    standard, *others = hours_of_day(model, when)
    prices = model.get_prices(when) if at else standard.prices
    taken = next(one for one in (standard, *others) if one.prices == prices)
    rates, request, left_out = _rates(prices)
    if "input" not in rates and "output" not in rates:
        raise InputError(f"{full} is not sold by the token: {', '.join(left_out) or 'no price'}")
    modes: dict[str, dict[str, Rate]] = {}
    for variant in model.price_variants or ():
        if variant.constraint is None or variant.constraint.active(when):
            modes.setdefault(",".join(variant.when.values()), _rates(variant.prices)[0])
    notes = [f"not billed here: {', '.join(left_out)}"] if left_out else []
    if others:
        why = "" if at else ", which hold for most of the day"
        rest = [_beside(one, rates) for one in (standard, *others) if one is not taken]
        notes.append(f"prices of {taken} UTC{why}; {'; '.join(rest)}")
    return PriceSheet(full, rates, request, modes, edition(), tuple(notes))


def _beside(hours: HoursOfDay, rates: dict[str, Rate]) -> str:
    """What prices are at other hours, beside those taken."""
    other, _, _ = _rates(hours.prices)
    ratios = {
        f"{float(other[kind].base / rate.base):.3g}" for kind, rate in rates.items() if kind in other and rate.base
    }
    low, *more = sorted(ratios, key=float)
    return f"x{low}{f' to x{more[-1]}' if more else ''} from {hours}"


def history(name: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Every set of prices that the source has for a model, each with the day or hour from which it holds."""
    _, model = find_model(name)
    dated = model.prices if isinstance(model.prices, list) else [model]
    is_dated = any(hasattr(getattr(one, "constraint", None), "start_date") for one in dated)
    for one in dated:
        since = _since(getattr(one, "constraint", None))
        if len(dated) > 1 and since == "always":
            since = "at first" if is_dated else "at other hours"
        rates, _, _ = _rates(one.prices)
        yield since, {kind: float(rate.base) for kind, rate in rates.items()}


def _since(constraint: Any) -> str:
    """From which day, or at which hours, prices hold."""
    if constraint is None:
        return "always"
    if hasattr(constraint, "start_date"):
        return f"since {constraint.start_date.isoformat()}"
    return f"from {constraint.start_time:%H:%M} to {constraint.end_time:%H:%M} UTC"


def _rates(prices: Any) -> tuple[dict[str, Rate], Any, list[str]]:
    from decimal import Decimal

    values = {key: value for key, value in vars(prices).items() if value is not None and not key.startswith("_")}
    known = {_KEYS[kind]: kind for kind in KINDS}
    rates = {known[key]: _rate(value) for key, value in values.items() if key in known}
    request = values.get("requests_kcount", Decimal(0)) / Decimal(1000)
    return rates, request, sorted(key for key in values if key not in known and key != "requests_kcount")


def _rate(value: Any) -> Rate:
    if not hasattr(value, "tiers"):
        return Rate(value)
    return Rate(value.base, tuple(PriceTier(tier.start, tier.price) for tier in value.tiers))
