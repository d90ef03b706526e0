"""Lists of the pages are lists in the site: no mark of an item stands inside a paragraph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gates import ROOT

markdown = pytest.importorskip("markdown", reason="the site's tools are not installed")
yaml = pytest.importorskip("yaml", reason="the site's tools are not installed")
pytest.importorskip("pymdownx", reason="the site's tools are not installed")

_CODE = re.compile(r"<(code|math)\b.*?</\1>", re.DOTALL)
_PARAGRAPH = re.compile(r"<p\b[^>]*>(.*?)</p>", re.DOTALL)
#: Before words a mark is one at the start of a line; before bold or italic words it is one anywhere.
_MARK = re.compile(r"^ *(?:[*+-]|\d\.) (?=\D)|(?<=\s)[*+-] (?=<(?:strong|em)>)", re.MULTILINE)


def extensions() -> tuple[list[str], dict[str, dict[str, object]]]:
    """The extensions that ``mkdocs.yml`` names, and how it sets them."""
    section = (
        (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nmarkdown_extensions:\n")[2].partition("\nvalidation:")[0]
    )
    named = [one if isinstance(one, dict) else {one: {}} for one in yaml.safe_load(section)]
    settings = {name: set_so for one in named for name, set_so in one.items()}
    return list(settings), settings


def stray_marks(text: str) -> Iterator[str]:
    """Marks of items inside the paragraphs of a page, with the words after them."""
    names, settings = extensions()
    shown = markdown.markdown(text, extensions=names, extension_configs=settings)
    for paragraph in _PARAGRAPH.findall(_CODE.sub("code", shown)):
        for mark in _MARK.finditer(paragraph):
            yield paragraph[mark.start() : mark.end() + 40].strip()


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_no_mark_of_a_list_is_left_in_a_paragraph(page: Path) -> None:
    assert list(stray_marks(page.read_text("utf-8"))) == [], "leave a line empty above the item"


@pytest.mark.parametrize("mark", ["*", "-"])
def test_an_item_below_an_indented_paragraph_needs_an_empty_line(mark: str) -> None:
    above = f"{mark} one\n{mark} two\n\n    its second paragraph\n"
    assert list(stray_marks(f"{above}{mark} three\n")) == [f"{mark} three"]
    assert list(stray_marks(f"{above}\n{mark} **three**\n{mark} four\n")) == []
    assert list(stray_marks("text, * **bold**\n")) == ["* <strong>bold</strong>"]
