"""What a picture of an answer says of its provenance: the sources and the edition of prices in the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from computeledger.facts.editions import load_prices
from computeledger.interfaces.view import View
from computeledger.physics.calibration.serving import load_calibration
from computeledger.sources import Source, load_sources
from computeledger.validation.accuracy.table import published

#: Sources that a picture names; the others are counted.
_MOST_NAMED = 4
#: Parts of a document that are about other runs than the one that is asked about, or about what its figures are worth.
_OF_OTHERS = ("measured_alike", "traffic", "worth")
#: Which measurements an answer rests on, by the question of its schema.
_WORKLOADS = {"pretrain": "training", "rl": "rl", "memory": "memory"}


def sourced_lines(document: Mapping[str, Any], view: View) -> list[str]:
    """Measurements behind the figures, sources by their titles, and the edition of prices, or of the facts.

    Examples
    --------
    >>> document = {"price": {"source": "mercatus-gpu-prices", "edition": "2026-11"}}
    >>> sourced_lines(document, View(""))
    ['Sources: Cloud GPU pricing 2026 (mercatus-ai.com)', 'Prices: edition 2026-11']
    """
    known = load_sources()
    stated = dict(_stated(document))
    keys = list(dict.fromkeys((*view.sources, *(text for text, key in stated.items() if key.startswith("source")))))
    titles = list(dict.fromkeys(_named(known[key]) for key in keys if key in known))
    more = len(titles) - _MOST_NAMED
    said = "; ".join(titles[:_MOST_NAMED]) + (f"; {more} more" if more > 0 else "")
    editions = ", ".join(text for text, key in stated.items() if key.startswith("edition"))
    return [
        *_measured(document),
        *([f"Sources: {said}"] if titles else []),
        f"Prices: edition {editions}" if editions else f"Facts and prices: edition {load_prices().id}",
    ]


def _measured(document: Mapping[str, Any]) -> list[str]:
    """What the speed of an answer was fitted on, and the measurements nearest to it."""
    alike = document.get("measured_alike")
    question = str(document.get("schema", "")).split("/")[1:2]
    if not alike or not question or not (question[0] in _WORKLOADS or "workload" in alike):
        return []
    workload = _WORKLOADS.get(question[0]) or alike["workload"]
    near = ", ".join(dict.fromkeys(one["source"] for one in alike["nearest"]))
    return [f"Measurements: {_fitted(workload)}{f'; nearest: {near}' if near else ''}"]


def _fitted(workload: str) -> str:
    """The measurements that constants of a workload were fitted on."""
    if workload == "serving":
        return load_calibration().data
    rows = published(workload, "").rows
    return f"{len(rows):,} figures of {len({row['source'] for row in rows})} sources"


def _named(source: Source) -> str:
    """A source's title, and whose pages it stands on."""
    host = urlsplit(source.url).netloc.removeprefix("www.")
    return f"{source.title} ({host})" if host else source.title


def _stated(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Texts that stand under ``source``, ``sources``, ``edition`` or ``editions``, with that key."""
    if isinstance(value, str) and key in ("source", "sources", "edition", "editions"):
        yield value, key
    elif isinstance(value, Mapping):
        for name, one in value.items():
            if name not in _OF_OTHERS:
                yield from _stated(one, "editions" if key == "editions" and name == "prices" else str(name))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _stated(one, key)
