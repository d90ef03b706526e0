"""Tokens that a step of speculative decoding yields, by method, model and length of the draft: published records."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from computeledger.errors import FactError
from computeledger.facts.catalog import shipped_file
from computeledger.facts.reading import read_file
from computeledger.sources import check_date, load_sources

#: Where the record of a drafting head's own vocabulary stands.
_HEAD = "eagle3 head"


@dataclass(frozen=True, slots=True)
class AcceptanceCurve:
    """What one publication says of a method on a model and a kind of text.

    Attributes
    ----------
    method, model, task : str
        ``mtp``, ``eagle``, ``eagle3``, ``ngram`` or ``draft``; the model that verifies; the text.
    draft_tokens : tuple of int
        Tokens drafted per step [token].
    tokens_per_step : tuple of float
        What a step yields on average, its own token included [token].
    source, date, locator, note : str
        Key of the source, ISO date, place in it, what was converted.
    """

    method: str
    model: str
    task: str
    draft_tokens: tuple[int, ...]
    tokens_per_step: tuple[float, ...]
    source: str
    date: str
    locator: str
    note: str = ""

    def __post_init__(self) -> None:
        if self.source not in load_sources() or not self.locator:
            raise FactError(f"speculation.toml: {self.method} {self.model}: no source {self.source} with a locator")
        check_date(self.date, f"speculation.toml: {self.method} {self.model}")
        for drafts, tokens in zip(self.draft_tokens, self.tokens_per_step, strict=True):
            if not 1 <= tokens <= drafts + 1:
                raise FactError(f"speculation.toml: {self.model}: {tokens} tokens of a step with {drafts} drafts")

    @property
    def family(self) -> str:
        """The model's name without its publisher, in small letters."""
        return self.model.rpartition("/")[2].lower()


@functools.cache
def load_acceptance() -> tuple[AcceptanceCurve, ...]:
    """Load every published curve.

    Examples
    --------
    >>> [one.tokens_per_step for one in load_acceptance() if one.source == "vllm-pull-16035"]
    [(1.89, 2.08)]
    """
    table = read_file(shipped_file("speculation.toml"), shipped=True).table
    curves = []
    for name, one in table.items():
        if name != _HEAD:
            series = {key: tuple(one[key]) for key in ("draft_tokens", "tokens_per_step")}
            curves.append(AcceptanceCurve(**{**one, **series}))
    return tuple(curves)


def draft_vocabulary() -> int:
    """Tokens that an EAGLE-3 head scores: the most frequent ones of its model's vocabulary."""
    return int(read_file(shipped_file("speculation.toml"), shipped=True).table[_HEAD]["draft_vocabulary"])
