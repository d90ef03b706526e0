"""Where a page leads: the next pages with its scenario, the documentation, and three hints on a first visit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient

from computeledger.interfaces.web import docs_site
from computeledger.interfaces.web.app import create_app
from computeledger.interfaces.web.onward import ONWARD, readings, ways_on
from computeledger.interfaces.web.pages import PAGES, page_named
from computeledger.interfaces.web.spec import checked
from tests.axe import issues
from tests.interfaces.driving import settled


def test_every_page_leads_on_and_takes_along_what_the_next_page_reads(repository: Path) -> None:
    assert set(ONWARD) == {page.name for page in PAGES}
    for page in PAGES:
        asked = [page.defaults({}), *(page.defaults(dict(values)) | dict(values) for values in page.presets.values())]
        for other, carried in ways_on(page):
            assert other.name != page.name
            for values in asked:
                given = {theirs: values[own] for own, theirs in carried.items() if re.fullmatch("[^,;]+", values[own])}
                assert checked(other, given).items() >= given.items(), (page.name, other.name)
    for way in ONWARD.values():
        for one in way.readings:
            title = (repository / "docs" / f"{one.path}.md").read_text("utf-8").splitlines()[0]
            assert title.startswith("# "), one.path


def test_the_documentation_is_linked_where_it_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_site, "docs_folder", lambda: None)
    assert readings(page_named("serve")) == []
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "2-batch.html").write_text("<title>x</title>", "utf-8")
    monkeypatch.setattr(docs_site, "docs_folder", lambda: tmp_path)
    assert readings(page_named("serve")) == [("/docs/book/2-batch.html", "The book, 2: Batch and the price of speed")]
    shown = TestClient(create_app(), base_url="http://localhost").get("/serve").text
    assert 'href="/docs/book/2-batch.html"' in shown and "howto/engineer" not in shown


@pytest.mark.browser
def test_links_take_the_scenario_along_and_hints_end_with_escape(visit: Any) -> None:
    page = visit("/serve?layout=tp1&model=meta-llama/Meta-Llama-3.1-8B&system=h100-nvl8&batch=16")
    assert page.locator(".tour").count() == 0, "a program that drives a browser is shown none by itself"
    page.locator("#first-steps").click()
    for place in ("1", "2", "3"):
        assert page.locator(".tour-at").inner_text() == f"{place} of 3"
        assert page.locator(".toured").count() == 1
        if place == "1":
            assert issues(page, ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")) == []
        if place != "3":
            page.locator(".tour-next").click()
    page.keyboard.press("Escape")
    assert page.locator(".tour").count() == page.locator(".toured").count() == 0
    assert page.evaluate("localStorage.getItem('first-steps')") == "seen"
    link = page.locator("#onward a").first
    asked = parse_qs(urlsplit(link.get_attribute("href")).query)
    assert asked == {"model": ["meta-llama/Meta-Llama-3.1-8B"], "system": ["h100-nvl8"]}
    link.click()
    page.wait_for_function("location.pathname === '/memory'")
    settled(page, "0")
    assert page.locator("#headline").inner_text().startswith("Llama-3.1-8B")


@pytest.mark.browser
def test_hints_come_once_on_a_first_visit(visit: Any) -> None:
    visit("/facts?words=h200")
    page = visit("/facts?words=h200")  # in a profile of its own, so that no later test has what is said of it here
    page.context.add_init_script("Object.defineProperty(navigator, 'webdriver', { get: () => false })")
    page.reload()
    page.wait_for_selector(".tour")
    page.locator(".tour button").first.click()
    page.reload()
    settled(page, "0")
    assert page.locator(".tour").count() == 0
