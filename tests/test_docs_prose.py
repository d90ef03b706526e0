"""The pages read easily: no paragraph is longer than a screen of a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gates import ROOT

#: The log is a record of its days and stays as it was written.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "LOG.md"),
]
FEWER_THAN = 90
_FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_NO_PROSE = ("|", "#", "<")  # rows of a table, headings, HTML
_ITEM = re.compile(r"(?:[*+-]|\d+\.) ")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and items of lists, each with its first line; code, tables, headings and addresses left out."""
    for pattern in (_FENCED, _COMMENT):
        text = pattern.sub(lambda found: "\n" * found[0].count("\n"), text)
    first = 0
    words: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        stripped = line.strip()
        is_item = _ITEM.match(stripped)
        if words and (not stripped or is_item or stripped.startswith(_NO_PROSE)):
            yield first, _LINK.sub(r"\1", " ".join(words))
            words = []
        if stripped and not stripped.startswith(_NO_PROSE):
            first = first if words else number
            words.append(stripped[is_item.end() :] if is_item else stripped)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paragraphs_are_short(page: Path) -> None:
    counted = [(number, len(text.split())) for number, text in paragraphs(page.read_text("utf-8"))]
    assert counted
    assert [one for one in counted if one[1] >= FEWER_THAN] == [], "split it, or say it in fewer words"


def test_paragraphs_are_what_a_reader_sees() -> None:
    text = """# A title

Two [words](a/long/address.md)
and three more.
<!-- a
comment -->
* an item
  that goes on
* another

    its second paragraph

| a | row |
```python
code = 1

```
"""
    assert list(paragraphs(text)) == [
        (3, "Two words and three more."),
        (7, "an item that goes on"),
        (9, "another"),
        (11, "its second paragraph"),
    ]
