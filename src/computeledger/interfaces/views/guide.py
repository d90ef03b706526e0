"""The view of the guide: questions by subject, each above what answers it."""

from __future__ import annotations

import textwrap
from itertools import groupby
from typing import TYPE_CHECKING

from computeledger.interfaces.view import View

if TYPE_CHECKING:
    from computeledger.questions.answers.guide import GuideAnswer, GuideEntry

#: Columns of a sentence; commands stay on one line, to be copied.
_COLUMNS = 78


def view(answer: GuideAnswer, working: bool) -> View:
    """Questions by subject; commands unbroken."""
    del working
    number = len(answer.found)
    notes = [f"No question holds every word; left out: {', '.join(answer.missed)}."] if answer.missed else []
    if answer.query:
        notes.append("computeledger guide, without words, lists every question")
    return View(
        title="What you can ask, and what answers it",
        headline=f"{answer.query or 'Everything'}: {number} question{'' if number == 1 else 's'}",
        notes=tuple(notes),
        blocks=tuple(
            (subject, "\n".join(map(_block, entries)) + "\n")
            for subject, entries in groupby(answer.found, lambda one: one.subject)
        ),
    )


def _block(entry: GuideEntry) -> str:
    lines = [*textwrap.wrap(entry.ask, _COLUMNS)]
    if entry.command:
        lines.append(f"    {entry.command}")
    if entry.page:
        lines.append(f"    docs/{entry.page}")
    for label, text in (("out of scope", entry.scope), ("open", entry.limit)):
        if text:
            lines += textwrap.wrap(f"{label}: {text}", _COLUMNS, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)
