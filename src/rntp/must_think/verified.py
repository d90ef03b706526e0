"""Stories as questions: what an answer must look like to be right, where chance decides some of its words."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

from rntp.corpus import Document
from rntp.must_think.families import family_of
from rntp.must_think.family import Family, read, states

#: Ends of one state that are compared: a word that never differs is the state's own.
_DRAWS = 64


def right_answer(family: Family, context: str) -> str:
    """Describe the right ends of a story: the words that its last state decides, and any word where chance does.

    Examples
    --------
    >>> from rntp.must_think.ships_log import FAMILY
    >>> found = right_answer(FAMILY, "the gannet left york on tue . first 5 sailing , .")
    >>> bool(re.fullmatch(found, "at last it came to hull on sun , the day of frost ."))
    True
    >>> bool(re.fullmatch(found, "at last it came to hull on mon , the day of rain ."))
    False
    """
    last = states(family, read(context))[-1]
    ends = [family.end(random.Random(number), last).split() for number in range(_DRAWS)]  # noqa: S311 - no secret
    words = zip(*ends, strict=True)
    return r"\s+".join(re.escape(some[0]) if len(set(some)) == 1 else r"\S+" for some in words)


def tasks(documents: Iterable[Document]) -> Iterator[dict[str, Any]]:
    """Ask each marked document for its end: the same text as a question with an answer that can be checked.

    Examples
    --------
    >>> from rntp.must_think.ships_log import documents
    >>> one = next(tasks(document for document in documents(0) if document.kind == "bare-5"))
    >>> one["prompt"].split()[0], one["domain"], one["scorer"]
    ('the', 'text', 'pattern')
    """
    for one in documents:
        if one.marks:
            context = one.text[: one.marks[0]]
            answer = right_answer(family_of(one.id), context)
            yield {"id": one.id, "domain": "text", "scorer": "pattern", "prompt": context, "answer": answer}
