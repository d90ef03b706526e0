"""Facts found by words: what they name first, then what only mentions them."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Sequence
from itertools import combinations

from computeledger.errors import InputError, check_kind
from computeledger.facts.load import load_system, system_ids
from computeledger.facts.reading import ASSUMPTION
from computeledger.facts.schema import Fact
from computeledger.questions.answers.facts import FactsAnswer, FoundFact, SearchAnswer, searched_records
from computeledger.sources import load_sources

#: Words people search with, by a pattern of the fact's name.
_WORDS = {
    "bytes_per_s": "bandwidth speed",
    "hbm_bytes$": "memory capacity",
    "hbm_bytes_per_s": "memory",
    "capacity_bytes": "memory storage capacity",
    "peak_flop_per_s": "compute peak throughput",
    "_w$": "power watt",
    "usd": "price cost dollar",
    "capex": "purchase capital",
    "carbon": "emissions co2 grid",
    "latency": "delay",
    "tokens": "training data",
    "n_params": "parameters size",
}
#: What all records of a kind are searched by, and their kind.
KINDS = {"accelerators": "accelerator", "models": "model", "sites": "site", "nodes": "node", "systems": "system",
         "interruptions": "reliability", "editions": "edition"}  # fmt: skip
#: How near a word of a query is to a fact: a word of its record's or its own name, the beginning of one, or only in its
#: note, value or source; and what is in neither.
_EXACT, _BEGINS, _MENTIONED, _FAR = 0, 1, 2, 9


def search_facts(query: str) -> SearchAnswer:
    """Facts that every word of a query is about, then those that only mention it.

    Parameters
    ----------
    query : str
        Words, or their beginnings. Whole words of the record's and the fact's names come first, then beginnings, then
        words of the note, the value and the source. One that names a kind, such as sites, finds all of that kind.

    Returns
    -------
    SearchAnswer
        Each fact with the record that it belongs to.

    Raises
    ------
    InputError
        For an empty query.

    Examples
    --------
    >>> first = search_facts("h200 bandwidth").found[0]
    >>> first.id, first.fact.given, first.fact.source
    ('h200-sxm5-141gb', '4.8 TB/s', 'epoch-ml-hardware')
    """
    check_kind(query, str, "words, such as 'h200 bandwidth'")
    words = _tokens(query)
    if not words:
        raise InputError("the query is empty: give a word such as bandwidth")
    if (kind := KINDS.get(" ".join(words), "")) != "":
        every = (FoundFact(one.id, kind, name, fact, one.name) for one in searched_records() if one.kind == kind
                 for name, fact in one.facts.items())  # fmt: skip
        return SearchAnswer(query, tuple(every), kind=kind)
    found = _searched(words)
    meant = "" if found else " ".join(_meant_words(words))
    return SearchAnswer(query, tuple(sorted(found, key=lambda one: _rank(words, one))), meant=meant)


def _searched(words: Sequence[str]) -> list[FoundFact]:
    every = (_held(words, record, name, fact) for record in searched_records() for name, fact in record.facts.items())
    return [one for one in every if one is not None]


def _meant_words(words: Sequence[str]) -> Sequence[str]:
    """The most words of a query, each as the facts spell it, that one fact mentions; of as many, the last ones.

    Examples
    --------
    >>> _meant_words(["h200", "memry"]), _meant_words(["zzzz", "memry"])
    (('h200', 'memory'), ('memory',))
    """
    vocabulary = _vocabulary()
    spelt = [next(iter(difflib.get_close_matches(word, vocabulary, 1)), "") for word in words[:_MOST_WORDS]]
    known = [word for word in dict.fromkeys(spelt) if len(word) >= _LETTERS]
    choices = (chosen for n in range(len(known), 0, -1) for chosen in reversed(list(combinations(known, n))))
    return next((chosen for chosen in choices if _searched(chosen)), ())


#: Words of a query that are spelt anew, and letters of one that says something.
_MOST_WORDS, _LETTERS = 5, 3


@functools.cache
def _vocabulary() -> tuple[str, ...]:
    """Every word of a record's and a fact's name."""
    said = (f"{one.id} {one.name} {name} {_meant(name)}" for one in searched_records() for name in one.facts)
    return tuple(sorted({word for text in said for word in _tokens(text)}))


def _held(words: Sequence[str], record: FactsAnswer, name: str, fact: Fact) -> FoundFact | None:
    """A fact with how near it is to the words; None where one of them is nowhere in it."""
    of, what = (_tokens(text) for text in (f"{record.id} {record.name}", f"{name} {_meant(name)}"))
    near = [min(_nearness(word, of), _nearness(word, what)) for word in words]
    if max(near) == _FAR:
        noted = _tokens(_noted(fact))
        near = [one if one < _FAR else min(_FAR, _MENTIONED + _nearness(word, noted))
                for word, one in zip(words, near, strict=True)]  # fmt: skip
    if max(near) == _FAR:
        return None
    both = all(any(_nearness(word, tokens) < _FAR for word in words) for tokens in (of, what))
    return FoundFact(record.id, record.kind, name, fact, record.name, min(max(near), _MENTIONED), both)


def _tokens(text: str) -> list[str]:
    """Words of a text, as a search compares them."""
    return re.findall(r"[a-z0-9]+", text.lower())


def _nearness(word: str, tokens: Sequence[str]) -> int:
    """Whether a word is one of these, begins one, or neither."""
    if word in tokens:
        return _EXACT
    return _BEGINS if any(token.startswith(word) for token in tokens) else _FAR


def _meant(name: str) -> str:
    """What people call a fact of this name."""
    return " ".join(more for part, more in _WORDS.items() if re.search(part, name))


def _noted(fact: Fact) -> str:
    """What is said of a fact beside its name."""
    source = load_sources().get(fact.source)
    return f"{fact.given} {fact.note} {fact.source} {source.title if source else ''}"


def _rank(words: Sequence[str], found: FoundFact) -> tuple[int, int, bool, bool]:
    """The nearest first; of those as near, records that the words name, chips of shipped systems, assumptions last."""
    own = _tokens(found.id)
    named = min(_nearness(word, own) for word in words)
    is_rare = found.kind == "accelerator" and found.id not in _chips_of_systems()
    return found.nearness, named, is_rare, found.fact.source == ASSUMPTION


@functools.cache
def _chips_of_systems() -> frozenset[str]:
    """Forms of a chip that the shipped systems are made of."""
    return frozenset(load_system(one).accelerator.id for one in system_ids())
