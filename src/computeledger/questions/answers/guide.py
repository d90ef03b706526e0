"""Answer what can be asked: questions in the words of the field, each with the command or page that answers it."""

from __future__ import annotations

import functools
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from itertools import pairwise
from typing import Any

from computeledger.errors import InputError, check_kind, shown
from computeledger.questions.answer import Answer

_WORD = re.compile(r"[a-z0-9@.]+")
#: Words of a query that tell no question from another.
_COMMON = frozenset(
    ("a", "an", "and", "are", "as", "at", "be", "by", "can", "could", "do", "does", "for", "from", "get", "has",
     "have", "how", "i", "if", "in", "is", "it", "its", "let", "many", "me", "much", "my", "need", "needed", "of",
     "on", "one", "or", "our", "should", "so", "than", "that", "the", "there", "this", "to", "use", "was", "we",
     "what", "when", "where", "which", "who", "why", "will", "with", "would", "you", "your")
)  # fmt: skip
#: What a word counts for where it is asked, and where it only names the subject or stands in what answers.
_FIELDS = ((1.0, ("ask",)), (0.5, ("subject",)), (0.3, ("command", "page", "scope", "limit")))
#: Share of the best match's weight that a question needs to be shown.
_CLOSE = 0.6


@dataclass(frozen=True, slots=True)
class GuideEntry:
    """One question, and what answers it: a command, a page of the documentation, or why nothing here does.

    Attributes
    ----------
    item
        Its number in the order in which the source documents raise it; none of a question that they do not raise.
    scope
        Why it is none of this project's questions.
    limit
        What the answer leaves open; alone, why there is none yet.
    """

    subject: str
    ask: str
    item: int | None = None
    command: str = ""
    page: str = ""
    scope: str = ""
    limit: str = ""


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class GuideAnswer(Answer):
    """Questions that hold the words of a query, or the rarest of them, best first."""

    query: str
    found: tuple[GuideEntry, ...]
    missed: tuple[str, ...] = ()

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (a list has none)
        """As ``computeledger guide --json`` prints it."""
        return {"query": self.query, "missed": list(self.missed), "questions": [asdict(one) for one in self.found]}


@functools.cache
def guide_entries() -> tuple[GuideEntry, ...]:
    """Every question, by subject.

    Examples
    --------
    >>> len(guide_entries()), guide_entries()[0].subject
    (185, 'The three ledgers')
    """
    text = resources.files("computeledger.questions").joinpath("guide.toml").read_text("utf-8")
    subjects: list[Mapping[str, Any]] = tomllib.loads(text)["subject"]
    return tuple(GuideEntry(subject=one["name"], **entry) for one in subjects for entry in one["question"])


def guide(query: str = "") -> GuideAnswer:
    """What can be asked, and the command or page that answers it.

    Parameters
    ----------
    query : str
        Words, or their beginnings; where no question holds all of them, those that hold the rarest are found.

    Returns
    -------
    GuideAnswer
        Best first, or by subject where nothing is asked; each with what answers it and what that leaves open.

    Raises
    ------
    InputError
        For words that no question holds.

    Examples
    --------
    >>> [one.command for one in guide("rent H100 year").found]
    ["computeledger frontier systems '$6bn a year at $2.50 per GPU-hour of h100-sxm5-80gb'"]
    """
    check_kind(query, str, "words, such as 'cached prefix'")
    given = _WORD.findall(query.lower().replace("center", "centre"))
    words = [one for one in given if one not in _COMMON] or given
    if not words:
        return GuideAnswer(query, guide_entries())
    held = {one: _weights(one, words) for one in guide_entries()}
    rarity = {word: math.log(len(held) / max(sum(word in has for has in held.values()), 1)) for word in words}
    weights = {one: sum(weight * rarity[word] for word, weight in has.items()) for one, has in held.items()}
    best = max(weights.values())
    if best == 0:
        subjects = dict.fromkeys(one.subject for one in guide_entries())
        raise InputError(f"guide {shown(query)}: no question holds that; subjects are: {'; '.join(subjects)}")
    found = tuple(sorted((one for one in held if weights[one] >= _CLOSE * best), key=weights.__getitem__, reverse=True))
    return GuideAnswer(query, found, tuple(word for word in words if word not in held[found[0]]))


def _weights(entry: GuideEntry, words: Sequence[str]) -> dict[str, float]:
    """What each word of a query counts for, where a word of the question begins with it, in the singular too."""
    found: dict[str, float] = {}
    for weight, names in _FIELDS:
        text = _WORD.findall(" ".join(getattr(entry, name) for name in names).lower())
        text += [first + second for first, second in pairwise(text)]  # a data center is a datacenter
        for word in words:
            if any(one.startswith((word, word.removesuffix("s"))) for one in text):
                found.setdefault(word, weight)
    return found
