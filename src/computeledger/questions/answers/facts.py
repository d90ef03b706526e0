"""From parsed options to a document, for questions about facts: show, search, compare, cite."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from computeledger.errors import InputError, UnknownIdError, nearest, shown, unknown_id
from computeledger.facts.architecture import Model
from computeledger.facts.catalog import normal_id, ownership_editions, price_editions, tier_editions, user_path
from computeledger.facts.editions import load_ownership, load_prices, load_tiers
from computeledger.facts.load import (
    accelerator_ids,
    load_accelerator,
    load_model,
    load_system,
    model_ids,
    system_ids,
)
from computeledger.facts.reading import read_file
from computeledger.facts.reliability import load_reliability
from computeledger.facts.schema import Fact
from computeledger.frontier.epoch_files import COPY_DATE, SiteDate, shipped_sites
from computeledger.physics.roofline import parse_precision
from computeledger.questions.documents import records as documents
from computeledger.questions.wording import show
from computeledger.sources import bibtex, load_sources

_EDITIONS: Mapping[str, tuple[Callable[[], tuple[str, ...]], Callable[[str], Any]]] = {
    "prices": (price_editions, load_prices),
    "ownership": (ownership_editions, load_ownership),
    "tiers": (tier_editions, load_tiers),
}


def answer_model(given: str, kv_precision: str = "bf16") -> dict[str, Any]:
    """Answer ``computeledger facts model``."""
    parse_precision("bf16", False, kv_precision)
    return documents.model_document(load_model(given), kv_precision)


def fact_rows(record: Any, prefix: str = "") -> dict[str, Fact]:
    """Every fact of a record, by dotted name; a system's own, without those of its accelerator.

    Examples
    --------
    >>> [name for name in fact_rows(load_tiers()) if name.startswith("tiers.hdd")][0]
    'tiers.hdd-24tb.capacity_bytes'
    """
    rows: dict[str, Fact] = {}
    names = record if isinstance(record, Mapping) else [item.name for item in dataclasses.fields(record)]
    for name in names:
        value = record[name] if isinstance(record, Mapping) else getattr(record, name)
        if isinstance(value, Fact):
            rows[f"{prefix}{name}"] = value
        elif isinstance(value, Mapping) or (dataclasses.is_dataclass(value) and name != "accelerator"):
            rows |= fact_rows(value, f"{prefix}{name}.")
    return rows


def _edition_rows(edition: str) -> dict[str, Fact]:
    """Facts of every kind of edition that has this date."""
    rows: dict[str, Fact] = {}
    for kind, (editions, load) in _EDITIONS.items():
        if edition in editions():
            rows |= fact_rows(load(edition), "" if kind == "tiers" else f"{kind}.")
    return rows


def _edition_ids() -> list[str]:
    return sorted({edition for editions, _ in _EDITIONS.values() for edition in editions()})


def answer_fact(given: str) -> dict[str, Any]:
    """Answer ``computeledger facts show``."""
    if given in load_sources():
        source = load_sources()[given]
        fields = ("title", "publisher", "url", "date", "license", "verified")
        return {"id": given, "kind": "source", **{name: getattr(source, name) for name in fields}, "facts": {}}
    if given in _edition_ids():
        return _document(given, "edition", f"prices, ownership and storage as of {given}", _edition_rows(given))
    if normal_id(given) in accelerator_ids():
        chip = load_accelerator(given)
        prices = load_prices().usd_per_gpu_hour.get(chip.id, {})
        rows = fact_rows(chip) | {f"usd_per_gpu_hour.{kind}": fact for kind, fact in prices.items()}
        return _document(chip.id, "accelerator", chip.name, rows)
    if normal_id(given) in system_ids():
        system = load_system(given)
        document = _document(system.id, "system", system.name, fact_rows(system))
        return document | {"accelerator": system.accelerator.id}
    if given in _site_rows():
        return _document(given, "site", given, _site_rows()[given])
    if given in load_reliability():
        stops = load_reliability()[given]
        return _document(stops.id, "reliability", f"interruptions: {stops.name}", stops.facts)
    model = _model(given)
    return _document(model.id, "model", model.id, model.published) | {"notes": list(model.notes)}


@functools.cache
def _site_rows() -> Mapping[str, Mapping[str, Fact]]:
    """Sites of data centres, each as it stands at its last date of the copy that is no projection."""
    units = {"facility_w": ("w", "W"), "it_w": ("w", "W"), "h100e_8bit": ("count", ""), "capex_usd": ("usd", "USD")}
    last: dict[str, SiteDate] = {}
    for one in shipped_sites():
        if one.name not in last or last[one.name].date < one.date <= COPY_DATE:
            last[one.name] = one
    return {
        name: {
            field: Fact(value, unit, show(value, said), "epoch-data-centers", site.date, f"{name}, {site.date}")
            for field, (unit, said) in units.items() if (value := getattr(site, field)) is not None
        }
        for name, site in last.items()
    }  # fmt: skip


def _model(given: str) -> Model:
    """A model; where the text names nothing at all, the error offers ids of every kind."""
    try:
        return load_model(given)
    except UnknownIdError:
        try:
            load_accelerator(given)
        except UnknownIdError as error:
            if " could mean " in str(error):
                raise
        every = [*accelerator_ids(), *system_ids(), *model_ids(), *_edition_ids(), *load_reliability(), *load_sources()]
        raise unknown_id("id", given, every) from None


def _document(record_id: str, kind: str, name: str, rows: Mapping[str, Fact]) -> dict[str, Any]:
    facts = {key: documents.fact_document(fact) for key, fact in rows.items()}
    return {"id": record_id, "kind": kind, "name": name, "facts": facts}


#: Words people search with, by a part of the fact's name.
_WORDS = {
    "bytes_per_s": "bandwidth speed",
    "hbm_bytes": "memory capacity",
    "capacity_bytes": "memory storage capacity",
    "peak_flop_per_s": "compute peak throughput",
    "_w": "power watt",
    "usd": "price cost dollar",
    "capex": "purchase capital",
    "carbon": "emissions co2 grid",
    "latency": "delay",
    "tokens": "training data",
    "n_params": "parameters size",
}


def answer_search(query: str) -> dict[str, Any]:
    """Answer ``computeledger facts search``: what the words begin a name of comes before what only mentions them."""
    words = query.lower().split()
    if not words:
        raise InputError("the query is empty: give a word such as bandwidth")
    found = []
    for given, document in _searched():
        for name, fact in document["facts"].items():
            source = load_sources().get(fact["source"])
            meant = " ".join(more for part, more in _WORDS.items() if part in name)
            title = source.title if source else ""
            parts = (given, document["name"], name, meant, fact["given"], fact.get("note", ""), fact["source"], title)
            text = " ".join(parts).lower()
            if all(word in text for word in words):
                found.append({"id": given, "kind": document["kind"], "name": name, **fact})
    return {"query": query, "results": sorted(found, key=lambda one: _rank(words, one))}


def _rank(words: Sequence[str], found: Mapping[str, Any]) -> int:
    """0 where the id is of what was asked, 1 where id and fact hold every word, 2 where a note or source does."""
    own = re.split(r"[/_ ]", found["id"].lower())
    if any(part.startswith(word) for part in own for word in words):
        return 0
    return 1 if all(word in f"{found['id']} {found['name']}".lower() for word in words) else 2


def _searched() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every record that a search looks through."""
    for given in [*accelerator_ids(), *system_ids(), *_edition_ids(), *model_ids(), *load_reliability(), *_site_rows()]:
        yield given, answer_fact(given)


def fact_counts() -> dict[str, int]:
    """How many facts a search looks through, by the kind of record that they belong to."""
    counts: Counter[str] = Counter()
    for _, document in _searched():
        counts[document["kind"]] += len(document["facts"])
    return dict(counts)


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # longer than a file name can be
        return False


def answer_cite(targets: Sequence[str]) -> dict[str, Any]:
    """Answer ``computeledger cite``."""
    keys: set[str] = set()
    for target in targets:
        if target.endswith(".toml") or _exists(target):
            from computeledger.economics.plan.ledger import estimate_ledger
            from computeledger.economics.plan.read import load_plan

            keys |= set(estimate_ledger(load_plan(target), n_samples=16).sources)
        elif target in load_sources():
            keys.add(target)
        else:
            raise unknown_id("source", target, load_sources())
    return {"keys": sorted(keys), "bibtex": bibtex(keys)}


#: Where a user's file says what it is: a field that only this kind of record has.
_MARKS = {
    "peak_flop_per_s": "accelerator", "hbm_bytes": "accelerator", "hbm_bytes_per_s": "accelerator",
    "chip_tdp_w": "accelerator", "accelerator": "system", "n_gpus_scale_up": "system",
    "scale_up_bytes_per_s_per_gpu": "system", "scale_out_bytes_per_s_per_gpu": "system",
    "facility_w_per_chip": "system", "it_w_per_chip": "system", "usd_per_gpu_hour": "prices",
    "electricity_usd_per_kwh": "prices", "capex_usd_per_gpu": "ownership", "life_years": "ownership",
    "cost_of_capital_fraction": "ownership", "occupancy_fraction": "ownership", "tiers": "tiers",
    "config_json": "model", "model_type": "model",
}  # fmt: skip


def _side(given: str) -> tuple[str, dict[str, dict[str, Any]]]:
    """Kind and rows of one side of a comparison: an id, an edition, or a user's file."""
    path = user_path(given)
    if path is None:
        document = answer_fact(given)
        if document["kind"] == "source":
            raise InputError(f"{shown(given)} is a source: compare two editions, accelerators, systems or models")
        rows = {name: fact for name, fact in document["facts"].items() if not name.startswith("usd_per_gpu_hour.")}
        return document["kind"], rows | (_counts(load_model(given)) if document["kind"] == "model" else {})
    table = {} if path.is_dir() else read_file(path).table
    kind = next((what for name, what in _MARKS.items() if name in table), "model" if path.is_dir() else None)
    if kind is None:
        raise InputError(f"{given}: no field tells what it describes; {nearest('', _MARKS)}")
    if kind == "model":
        model = load_model(given)
        return kind, _document(model.id, kind, model.id, model.published)["facts"] | _counts(model)
    loaders: dict[str, Callable[[str], Any]] = {"accelerator": load_accelerator, "system": load_system}
    loaders |= {name: load for name, (_, load) in _EDITIONS.items()}
    prefix = f"{kind}." if kind in ("prices", "ownership") else ""
    facts = {name: documents.fact_document(fact) for name, fact in fact_rows(loaders[kind](given), prefix).items()}
    return "edition" if kind in _EDITIONS else kind, facts


def _counts(model: Model) -> dict[str, dict[str, Any]]:
    """What a model's configuration says, in the shape of facts."""
    document = documents.model_document(model)
    names = ("n_params_total", "n_params_active", "kv_bytes_per_token", "n_layers", "hidden_size", "vocab_size")
    precisions = ("weight_precision", "expert_precision")
    where = {"unit": "", "source": "configuration", "date": "", "locator": "counted from the configuration"}
    return {
        f"counted.{name}": {"value": document[name], "given": f"{document[name]}", **where}
        for name in (*names, *precisions)
    }


def answer_diff(first: str, second: str) -> dict[str, Any]:
    """Answer ``computeledger facts diff``: facts that differ, with both values, their ratio and their sources."""
    (kind, rows), (other_kind, others) = _side(first), _side(second)
    if kind != other_kind:
        raise InputError(f"{shown(first)} is of another kind than {shown(second)}: {kind} against {other_kind}")
    if kind == "edition":  # an edition of one kind alone is compared with its own kind
        kinds = {name.partition(".")[0] for name in rows} & {name.partition(".")[0] for name in others}
        rows, others = (
            {key: fact for key, fact in side.items() if key.partition(".")[0] in kinds} for side in (rows, others)
        )
    names = [*rows, *(name for name in others if name not in rows)]
    differing = [_difference(name, rows.get(name), others.get(name)) for name in names]
    found = [one for one in differing if one is not None]
    return {"a": first, "b": second, "kind": kind, "n_equal": len(names) - len(found), "differences": found}


def _difference(name: str, a: dict[str, Any] | None, b: dict[str, Any] | None) -> dict[str, Any] | None:
    """Two values of one fact with their ratio; None where they are equal."""
    if a is not None and b is not None and a["value"] == b["value"]:
        return None
    numbers = [one["value"] for one in (a, b) if one is not None and isinstance(one["value"], (int, float))]
    ratio = numbers[1] / numbers[0] if len(numbers) == 2 and numbers[0] else None
    return {"name": name, "a": a, "b": b, "ratio": ratio}
