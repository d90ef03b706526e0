"""Questions with lists become questions, and a file of offers becomes offers: one for each combination."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from computeledger.arrays import Range, Uncertain
from computeledger.distributions import Spread
from computeledger.errors import InputError, nearest, shown
from computeledger.facts.reading import Document, read_file
from computeledger.fields import TEXTS, Field, fields_of, python_spelling, question_from, read_value
from computeledger.files import check_user_file, user_files_allowed
from computeledger.physics.calibration.efficiency import median_of
from computeledger.questions.answers.cost import answer_cost
from computeledger.questions.compare import OF_HOLDING, Offer, Offers, OfferTerms
from computeledger.questions.cost import CostQuestion
from computeledger.questions.wording import span, words
from computeledger.simulation.serving.workload import read_workload
from computeledger.workloads.questions.serve import ServeQuestion

#: Fields of a serving question that size no fleet.
_NOT_OF_AN_OFFER = (
    "emit",
    "kv_tiers",
    "cache_discount",
    "user_requests",
    "wanted_context",
    "corpus",
    "corpus_questions",
    "corpus_passes",
    "corpus_refresh",
)
#: Fields of a serving question that decide what an API bills.
LENGTHS = ("input_tokens", "cached_tokens", "output_tokens")
_SHARED, _OFFERS = ("workload", "promise"), "offer"
_HEADER = rf"\[\[\s*{_OFFERS}\s*\]\]"
#: Offers of one file at most.
MOST_OFFERS = 1_000


def combinations(lists: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of lists, the last one changing first.

    Examples
    --------
    >>> combinations({"model": ["a"], "system": ["x", "y"]})
    [{'model': 'a', 'system': 'x'}, {'model': 'a', 'system': 'y'}]
    """
    return [dict(zip(lists, one, strict=True)) for one in product(*lists.values())]


def read_offers(source: str | Mapping[str, Any]) -> Offers:
    """Read a file of offers, or its tables.

    Examples
    --------
    >>> both = read_offers(
    ...     {"workload": {"model": "llama-3.1-8b"}, "offer": [{"system": ["h100-nvl8", "b200-nvl8"], "gpus": 1}]}
    ... )
    >>> [one.name for one in both.each], both.each[0].question.gpus
    (['h100-nvl8', 'b200-nvl8'], 1)
    """
    file = (
        Document("offers", "", dict(source), shipped=False, is_object=True)
        if isinstance(source, Mapping)
        else _file(source)
    )
    known = [*_SHARED, _OFFERS]
    for key in file.table:
        if key not in known:
            raise file.error(key, f"no table of a file of offers; {nearest(key, known)}")
    tables = file.table.get(_OFFERS, [])
    if not isinstance(tables, list) or not tables or not all(isinstance(one, Mapping) for one in tables):
        raise file.error(_OFFERS, "at least one is needed: an [[offer]] with its system or its api")
    shared = {key: value for name in _SHARED for key, value in _shared(file, name).items()}
    found = [one for place, table in enumerate(tables) for one in _offers(file, place, table, shared)]
    if len(found) > MOST_OFFERS:
        raise file.error(_OFFERS, f"{len(found):,} offers: at most {MOST_OFFERS:,}")
    return Offers(tuple(_named_apart(found)))


def _file(path: str) -> Document:
    check_user_file(path, "pass the tables as an object")
    if not Path(path).is_file():
        raise InputError(f"{shown(path)}: no such file of offers (TOML)")
    return read_file(Path(path))


def _located(file: Document, value: Any) -> Any:
    """A value of a file of offers: the name of a file as seen from the folder of the offers, where it lies there."""
    folder = Path(file.name).parent
    if not isinstance(value, str) or not file.text or not user_files_allowed() or not Path(value).suffix:
        return value
    beside = folder / value
    return str(beside) if beside.is_file() else value


def offer_fields() -> dict[str, Field]:
    """Fields of a serving question that a file of offers may hold."""
    return {name: one for name, one in fields_of(ServeQuestion).items() if name not in _NOT_OF_AN_OFFER}


def _shared(file: Document, name: str) -> dict[str, Any]:
    """What all offers share: limits on times in ``promise``, any other field in ``workload``."""
    table = file.table.get(name, {})
    if not isinstance(table, Mapping):
        raise file.error(name, f"expected a table [{name}]")
    fields = {key: one for key, one in offer_fields().items() if one.takes_quantile == (name == "promise")}
    table = {key: _located(file, one) for key, one in table.items()}
    out = {_checked(file, name, key, fields): _single(file, f"{name}.{key}", one) for key, one in table.items()}
    for key, value in out.items():
        try:
            read_value(fields[key], value, key)
        except InputError as error:
            line = _line(file, rf"\[\s*{name}\s*\]", 0, key)
            raise file.error("", python_spelling(f"[{name}] {error}"), type(error), line) from None
    return out


def _line(file: Document, header: str, place: int, message: str) -> int | None:
    """Line of the field that a message is of, within the table of so many of one header; None where none is written."""
    lines = file.text.splitlines()
    starts = [at for at, line in enumerate(lines) if re.match(rf"\s*{header}", line)]
    if place >= len(starts):
        return None
    first = starts[place]
    later = (at for at, line in enumerate(lines) if at > first and re.match(r"\s*\[", line))
    key = re.split(r"[\s:]", message, maxsplit=1)[0]
    body = range(first, next(later, len(lines)))
    written = (at for at in body if re.match(rf"\s*{re.escape(key)}\s*=", lines[at]))
    return 1 + next(written, first)


def _checked(file: Document, path: str, key: str, fields: Mapping[str, Field]) -> str:
    """The name of a field as its question has it."""
    aliases = {alias: name for name, one in fields.items() for alias in one.aliases}
    name = aliases.get(key, key)
    if name not in fields:
        raise file.error(f"{path}.{key}", f"no field of [{path}]; {nearest(key, fields)}")
    return name


def _single(file: Document, path: str, value: Any) -> Any:
    if isinstance(value, list) and not path.endswith(".anchor"):
        raise file.error(path, "one workload is compared: a list stands in an [[offer]], which it multiplies")
    return value


def _offers(file: Document, place: int, table: Mapping[str, Any], shared: Mapping[str, Any]) -> list[Offer]:
    """Offers of one table: one for each combination of its lists."""
    terms, fields = fields_of(OfferTerms), offer_fields()
    known = terms | fields
    given = {_checked(file, _OFFERS, key, known): value for key, value in table.items()}
    lists = {
        key: value
        for key, value in given.items()
        if isinstance(value, list) and not (known[key].dimension == TEXTS or known[key].is_list)
    }
    empty = next((key for key, value in lists.items() if not value), None)
    if empty:
        raise file.error(f"{_OFFERS}.{empty}", "at least one is needed")
    out = []
    for chosen in combinations(lists):
        name = _said(given, lists, chosen)
        label = f"offer {place + 1}" + (f" ({name})" if lists and name else "")
        try:
            found = _offer({key: _located(file, one) for key, one in {**given, **chosen}.items()}, shared, name)
        except InputError as error:
            line = _line(file, _HEADER, place, str(error))
            raise file.error(
                "", python_spelling(f"{label}: {error}"), type(error), line or file.line_of(_OFFERS)
            ) from None
        key = "api" if found.question is None else "system"
        line = _line(file, _HEADER, place, key) or file.line_of(_OFFERS)
        out.append(replace(found, where=f"{file.place(line)}: {label}: "))
    return out


def _said(given: Mapping[str, Any], lists: Mapping[str, Any], chosen: Mapping[str, Any]) -> str:
    """What an offer is called: its name with what its lists chose, else what it runs on."""
    said = {key: f"${one:g}/h" if key == "price" and isinstance(one, int | float) else str(one)
            for key, one in chosen.items()}  # fmt: skip
    several = [said[key] for key, values in lists.items() if len(values) > 1 and key != "name"]
    if "name" in chosen or "name" in given:
        return ", ".join([str(chosen.get("name", given.get("name"))), *several])
    own = [str(given[key]) for key in ("api", "system") if key in given and key not in lists]
    singles = [str(values[0]) for key, values in lists.items() if len(values) == 1 and key == "system"]
    return ", ".join([*own, *singles, *several])


def _offer(given: Mapping[str, Any], shared: Mapping[str, Any], name: str) -> Offer:
    """One offer of one combination."""
    of_terms, of_serve = fields_of(OfferTerms), offer_fields()
    terms = question_from(OfferTerms, {key: value for key, value in given.items() if key in of_terms} | {"name": name})
    asked = {**shared, **{key: value for key, value in given.items() if key in of_serve}}
    if terms.api is not None:
        useless = [key for key in given if key not in (*LENGTHS, "workload", "name", "api", "api_mode", "region")]
        if useless:
            raise InputError(f"{useless[0]}: an API has name, region, api, api_mode and lengths: leave it out")
        if asked.get("images"):
            raise InputError("images: what an API bills of an image is not known here: leave out this offer, or images")
        rate = read_value(of_serve["requests_per_s"], asked.get("requests_per_s"), "requests_per_s")
        return Offer(name or terms.api, terms, None, _lengths(asked), None if rate is None else median_of(rate))
    question = question_from(ServeQuestion, asked)
    return Offer(name or question.system, terms, replace(question, price=_price(terms, question)))


def _lengths(asked: Mapping[str, Any]) -> dict[str, float]:
    """Mean lengths of the requests, which a price sheet bills."""
    known = offer_fields()
    out = {name: read_value(known[name], asked.get(name), name) for name in LENGTHS}
    named = read_value(known["workload"], asked.get("workload"), "workload")
    if named is not None:
        of_workload = read_workload(named)
        out |= {"input_tokens": of_workload.input_tokens, "output_tokens": of_workload.output_tokens}
    means = dict[str, float]()
    for name, value in out.items():
        mean = value.mean if isinstance(value, Spread) else value
        if isinstance(mean, Range):
            raise InputError(f"{name}: a price sheet bills one length: write its mean in this offer")
        means[name] = float(mean)
    return means


def _price(terms: OfferTerms, question: ServeQuestion) -> Uncertain | None:
    """Price of a GPU-hour: as stated, else that of the term; None where the answer takes the rent of the edition."""
    held = {name: value for name in OF_HOLDING if (value := getattr(terms, name)) is not None}
    if question.price is not None:
        if held:
            raise InputError(f"{next(iter(held))}: the price is stated: leave out one of the two")
        return question.price
    if terms.term == "rent":
        return None
    asked = {"occupancy": 1.0, **held}
    found = answer_cost(CostQuestion(system=question.system, kind=(terms.term,), **asked)).usd_per_gpu_hour
    one = found[terms.term]
    return one.p50 if one.p05 >= one.p95 else Range(one.p05, one.p95, mid=one.p50, inner=(one.p10, one.p90))


def _named_apart(offers: Sequence[Offer]) -> list[Offer]:
    """Offers of different names; those named alike are told apart by engine, format, term, region, model and price."""
    out = list(offers)
    for part in ("backend", "precision", "term", "region", "model", "price"):
        names = [one.name for one in out]
        for place, one in enumerate(out):
            said = getattr(one.terms, part, None) or getattr(one.question, part, None)
            if part == "price" and said is not None:
                said = f"{words(said, 'USD') if isinstance(said, float) else span(said.low, said.high, 'USD')}/h"
            if names.count(one.name) > 1 and said:
                out[place] = replace(one, name=f"{one.name}, {said}")
    names = [one.name for one in out]
    twice = next((place for place, name in enumerate(names) if names.count(name) > 1), None)
    if twice is not None:
        said = offers[twice].name
        where = [one.where.removesuffix(": ") for one in out if one.name == names[twice]]
        second = where[1].rpartition(": ")[2]
        raise InputError(f"{where[0]} and {second}: {shown(said)}: two offers of one name; give each a name")
    return out


def price_spread(samples: Any) -> float:
    """Standard deviation of the logarithm of sampled prices, from their 5 and 95 % quantiles; 0 of one price [-].

    Examples
    --------
    >>> price_spread(2.0)
    0.0
    """
    from computeledger.workloads.serving.offers import spread_of

    low, high = np.quantile(np.asarray(samples, float), (0.05, 0.95))
    return spread_of(float(low), float(high)) if 0 < low < high else 0.0
