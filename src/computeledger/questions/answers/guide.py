"""Answer what can be asked: questions in the words of the field, each with the command or page that answers it."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

from computeledger.errors import InputError, check_kind, shown
from computeledger.questions.answer import Answer

_WORD = re.compile(r"[a-z0-9@.]+")
#: Words of a query that tell no question from another.
_COMMON = frozenset(
    ("a", "an", "and", "are", "at", "be", "by", "do", "does", "for", "how", "i", "if", "in", "is", "it", "many",
     "much", "my", "of", "on", "or", "the", "to", "what", "when", "which", "with")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GuideEntry:
    """One question, and what answers it: a command, a page of the documentation, or why nothing here does.

    Attributes
    ----------
    item
        Its number in the order in which the source documents raise it.
    scope
        Why it is none of this project's questions.
    limit
        What the answer leaves open; alone, why there is none yet.
    """

    item: int
    subject: str
    ask: str
    command: str = ""
    page: str = ""
    scope: str = ""
    limit: str = ""


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class GuideAnswer(Answer):
    """Questions that hold the words of a query, or most of them."""

    query: str
    found: tuple[GuideEntry, ...]
    missed: tuple[str, ...] = ()

    def to_dict(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (a list has none)
        """As ``computeledger guide --json`` prints it."""
        return {"query": self.query, "missed": list(self.missed), "questions": [asdict(one) for one in self.found]}


@functools.cache
def guide_entries() -> tuple[GuideEntry, ...]:
    """Every question, by subject.

    Examples
    --------
    >>> len(guide_entries()), guide_entries()[0].subject
    (172, 'The three ledgers')
    """
    text = resources.files("computeledger.questions").joinpath("guide.toml").read_text("utf-8")
    subjects: list[Mapping[str, Any]] = tomllib.loads(text)["subject"]
    return tuple(GuideEntry(subject=one["name"], **entry) for one in subjects for entry in one["question"])


def guide(query: str = "") -> GuideAnswer:
    """What can be asked, and the command or page that answers it.

    Parameters
    ----------
    query : str
        Words, or their beginnings; where no question holds all of them, those that hold the most are found.

    Returns
    -------
    GuideAnswer
        Questions by subject, each with what answers it and what that leaves open.

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
    given = _WORD.findall(query.lower())
    words = [one for one in given if one not in _COMMON] or given
    # what is asked goes before what answers it: many commands name the same chip
    held = _held(words, "subject", "ask") or _held(words, "subject", "ask", "command", "page", "scope", "limit")
    if words and not held:
        subjects = dict.fromkeys(one.subject for one in guide_entries())
        raise InputError(f"guide {shown(query)}: no question holds that; subjects are: {'; '.join(subjects)}")
    most = max(map(len, held.values()), default=0)
    found = tuple(one for one in guide_entries() if len(held.get(one, ())) == most)
    return GuideAnswer(query, found, tuple(word for word in words if not all(word in held[one] for one in found)))


def _held(words: Sequence[str], *fields: str) -> dict[GuideEntry, frozenset[str]]:
    """Words of a query with which words of a question's fields begin, in the singular too; without any, no entry."""
    texts = {one: _WORD.findall(" ".join(getattr(one, name) for name in fields).lower()) for one in guide_entries()}
    ends = {word: (word, word.removesuffix("s")) for word in words}
    held = {
        entry: frozenset(word for word in words if any(one.startswith(ends[word]) for one in text))
        for entry, text in texts.items()
    }
    return {entry: has for entry, has in held.items() if has}
