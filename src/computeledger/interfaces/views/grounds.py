"""What answers rest on, in words: price, memory, what was assumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from computeledger.questions.wording import words
from computeledger.sources import load_sources
from computeledger.units import format_usd

#: Assumptions whose name alone does not say what they are.
_ASSUMED = {"cache_share_of_free_hbm_fraction": "the cache's share of the memory that weights and workspace leave",
            "engine_share_of_hbm_fraction": "the engine's share of the memory that the driver reports",
            "host_s": "host time per request", "kv_tokens_per_replica": "KV tokens per replica"}  # fmt: skip


def price_ground(document: Mapping[str, Any]) -> str:
    """Price of a GPU-hour, and what the factors are."""
    fitted = "; efficiency factors are fitted or assumed, and the working names the source of each"
    return f"GPU-hour: {price_said(document['price'])}{'' if document.get('backend') == 'ideal' else fitted}"


def price_said(price: Mapping[str, Any]) -> str:
    """The price of a GPU-hour with its edition and source."""
    if price["origin"] == "given":
        return "as given"
    known = load_sources().get(price["source"])
    source = price["source"] if known is None else f"{known.publisher}, {known.title}"
    return f"{format_usd(price['value'])} ({price['kind']}, edition {price['edition']}, {source})"


def rent_taken(price: Mapping[str, Any]) -> dict[str, str]:
    """The price of a GPU-hour that was taken, where the reader gave none."""
    return {} if price["origin"] == "given" else {"price": f"{price['value']:g}"}


def assumed_words(document: Mapping[str, Any]) -> list[str]:
    """What an answer assumes, in one line; none where it assumes nothing."""
    parts = []
    for name, value in document.get("assumptions", {}).items():
        unit = (
            "B" if name.endswith("_bytes") else "s" if "_s_" in f"{name}_" else "fraction" if "fraction" in name else ""
        )
        plain = f"{name}_".replace("_bytes_", "_").replace("_s_", "_").strip("_").replace("_", " ")
        parts.append(f"{_ASSUMED.get(name, plain)} {value if isinstance(value, str) else words(value, unit)}")
    return [f"assumed: {', '.join(parts)}"] if parts else []


#: A part of memory that is named takes at least this share of what is held.
_LARGE = 0.05
#: What is left of a sum below this share of it is rounding.
_NOTHING = 0.0001


def memory_fact(memory: Mapping[str, float], remark: str, pool: str = "") -> tuple[str, str]:
    """Memory of one GPU by component, against all of it or the part that can be used."""
    parts = [name for name in memory if name not in ("total", "capacity", "usable")]
    key = "usable" if "usable" in memory else "capacity"
    whole = f"{words(memory['total'], 'B')} of {words(memory[key], 'B')}{'' if key == 'capacity' else ' usable'}"
    large = [name for name in parts if memory[name] >= _LARGE * memory["total"]]
    rest = memory["total"] - sum(memory[name] for name in large)
    held = ", ".join(f"{name.replace('_', ' ').replace('kv ', 'KV ')} {words(memory[name], 'B')}" for name in large)
    held += f", other {words(rest, 'B', 2)}" if rest > _NOTHING * memory["total"] else ""
    return f"Memory of one GPU{f' of the {pool}' if pool else ''}", f"{whole}: {held}; {remark}"
