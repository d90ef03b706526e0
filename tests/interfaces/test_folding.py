"""Long tables and details are folded on pages and in reports; nothing is left out of the document for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import computeledger as cl
from computeledger.interfaces.render.html import report
from computeledger.interfaces.view import Cell, Table, View

_VISIBLE = "place => [...place.querySelectorAll('tbody tr')].filter(one => one.checkVisibility()).length"
_ROWS: list[list[str | Cell]] = [[f"row {place}", Cell(str(place), details=f"why {place}")] for place in range(40)]
_VIEW = View(
    "Many rows", tables=(Table("Many", ("of", "value #"), _ROWS), Table("Few", ("of",), [["a"]], is_detail=True))
)


def test_a_report_is_whole_as_it_is_written() -> None:
    """A reader without JavaScript, and one who prints, has every row and every word."""
    text = report(_VIEW)
    assert all(f">row {place}<" in text and f">why {place}<" in text for place in range(len(_ROWS)))
    assert 'class="folded"' not in text
    folded = re.findall(r"<details[^>]*>", text)
    assert len(folded) == len(_ROWS) + 1 and all(one.endswith(" open>") for one in folded)


@pytest.mark.browser
@pytest.mark.parametrize("has_script", [True, False])
def test_a_report_folds_with_javascript_alone(has_script: bool, browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report(_VIEW), "utf-8")
    context = browser.new_context(java_script_enabled=has_script)
    page = context.new_page()
    page.goto(file.as_uri())
    rows = page.locator("section", has_text="Many").first.locator("tbody tr:visible")
    assert rows.count() == (10 if has_script else len(_ROWS))
    assert page.get_by_text("why 3", exact=True).is_visible() is not has_script
    page.emulate_media(media="print")
    assert rows.count() == len(_ROWS)
    context.close()


@pytest.mark.browser
def test_a_long_table_opens_whole(visit: Any) -> None:
    n = len(cl.claims().checked)
    page = visit("/claims")
    place = page.locator("#now .tables section").filter(has=page.locator("button.fold")).first
    button = place.locator("button.fold")
    place.locator("summary").first.click()
    assert (button.inner_text(), button.get_attribute("aria-expanded")) == (f"Show all {n} rows", "false")
    assert place.evaluate(_VISIBLE) == 10
    assert page.locator(f"#{button.get_attribute('aria-controls')} tbody tr").count() == n
    assert not place.locator(".find").count(), "the page has a search of its own"
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true" and place.evaluate(_VISIBLE) == n
    button.click()
    assert place.evaluate(_VISIBLE) == 10
    page.emulate_media(media="print")
    assert place.evaluate(_VISIBLE) == n
