"""Where a page leads: pages that take its model and its system along, and what the documentation says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from computeledger.interfaces.web.docs_site import DOCS, docs_file
from computeledger.interfaces.web.pages import page_named
from computeledger.interfaces.web.spec import Page

#: Boxes that go along where the next page has one of that name.
_CARRIED = ("model", "system")
#: Boxes that have another name there, or go along to that page alone.
_ALSO: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("serve", "compare"): {
        "system": "1.system",
        **{name: name for name in ("input-tokens", "output-tokens", "ttft", "tpot", "requests-per-s")},
    },
    ("serve", "memory"): {"precision": "precision"},
    ("memory", "serve"): {"precision": "precision"},
    ("pretrain", "rl"): {"gpus": "gpus"},
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A page of the documentation: its address without the ending, and its title."""

    path: str
    title: str


_ENGINEER = Reading("howto/engineer", "How to: engineer")
_STRATEGIST = Reading("howto/strategist", "How to: strategist")
_PRICES = Reading("book/8-prices", "The book, 8: What prices leak")
_MONEY = Reading("money", "Split a budget, read prices, route")
_SERVING = Reading("serving", "Serve a model")


@dataclass(frozen=True, slots=True)
class _Way:
    pages: tuple[str, ...]
    readings: tuple[Reading, ...]


ONWARD: Mapping[str, _Way] = {
    "life": _Way(
        ("pretrain", "rl", "serve"), (Reading("book/7-three-ledgers", "The book, 7: The three ledgers"), _STRATEGIST)
    ),
    "serve": _Way(
        ("memory", "compare", "pretrain"),
        (Reading("book/2-batch", "The book, 2: Batch and the price of speed"), _SERVING, _ENGINEER),
    ),
    "compare": _Way(
        ("serve", "memory"), (Reading("compare", "Compare offers"), Reading("howto/buyer", "How to: buyer"))
    ),
    "memory": _Way(
        ("serve", "compare"), (Reading("book/3-context", "The book, 3: KV and context"), _SERVING, _ENGINEER)
    ),
    "pretrain": _Way(
        ("rl", "life", "serve"),
        (Reading("book/5-training", "The book, 5: Training"), Reading("pretraining", "Pretrain a model")),
    ),
    "rl": _Way(
        ("serve", "pretrain", "life"),
        (
            Reading("book/6-rl", "The book, 6: The RL ledger"),
            Reading("rl", "Run RL"),
            Reading("howto/rl-lead", "How to: RL lead"),
        ),
    ),
    "prices": _Way(("sheet", "route"), (_PRICES, _MONEY)),
    "sheet": _Way(("prices", "serve"), (_PRICES, _MONEY)),
    "route": _Way(("think", "compare"), (_MONEY,)),
    "think": _Way(("route", "serve"), (_MONEY,)),
    "frontier": _Way(
        ("pretrain", "life"),
        (Reading("book/9-frontier", "The book, 9: The frontier"), Reading("frontier", "The frontier"), _STRATEGIST),
    ),
    "accuracy": _Way(("claims", "facts"), (Reading("validation", "Validation"),)),
    "claims": _Way(("accuracy", "facts"), (Reading("claims", "Claims"),)),
    "facts": _Way(("accuracy", "claims"), (Reading("sources", "Sources"),)),
}


def ways_on(page: Page) -> list[tuple[Page, dict[str, str]]]:
    """The next pages, each with the boxes that go along and what they are called there.

    Examples
    --------
    >>> [(one.name, carried) for one, carried in ways_on(page_named("memory"))][0]
    ('serve', {'model': 'model', 'system': 'system', 'precision': 'precision'})
    """
    return [(page_named(name), _carried(page, page_named(name))) for name in ONWARD[page.name].pages]


def _carried(page: Page, other: Page) -> dict[str, str]:
    here, there = ({one.name: one.kind for one in which.controls} for which in (page, other))
    same = {name: name for name in _CARRIED if name in here and here.get(name) in ("choice", "text") and name in there}
    return same | dict(_ALSO.get((page.name, other.name), {}))


def readings(page: Page) -> list[tuple[str, str]]:
    """Addresses and titles of what the documentation says of a page, where it is built.

    Examples
    --------
    >>> all(address.startswith("/docs/") for address, _ in readings(page_named("serve")))
    True
    """
    found = [(f"{one.path}.html", one.title) for one in ONWARD[page.name].readings]
    return [(f"{DOCS}/{path}", title) for path, title in found if docs_file(path) is not None]
