"""Boxes of a page in groups: what is open, what a closed one says, and how a box is found."""

from __future__ import annotations

from typing import Any

import pytest

from computeledger.interfaces.web.pages import PAGES
from computeledger.interfaces.web.shell import page_html
from tests.interfaces.driving import settled, shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_hints_name_boxes_and_no_options_of_a_command(page: Any) -> None:
    said = {one.name: f"{one.help} {one.blank} {one.label}" for one in page.controls}
    assert {name: text for name, text in said.items() if "--" in text} == {}


def test_a_page_of_many_boxes_opens_its_first_groups_and_every_box_stands_once() -> None:
    serve = next(page for page in PAGES if page.name == "serve")
    html = page_html(serve, PAGES)
    groups = html.split('<details class="group"')[1:]
    opened = [one.count('data-name="') for one in groups if one.startswith(" open")]
    assert sum(opened) <= 16 < len(serve.controls) == html.count('data-name="')
    assert groups[: len(opened)] == [one for one in groups if one.startswith(" open")]


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_a_closed_group_says_what_is_set_and_a_search_opens_what_it_finds(width: int, visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16&backend=sglang", width)
    if width < 600:
        page.locator("#open-controls").click()
    group = page.locator("details.group", has=page.locator("#c-backend"))
    assert not group.evaluate("group => group.open") and "changed" in str(group.get_attribute("class"))
    assert group.locator(".set").text_content() == "changed: Engine sglang"
    page.locator("#find-box").fill("KV precision")
    assert page.locator(".control:visible").count() == 1 and page.locator("#c-kv-precision").is_visible()
    before = shown(page)
    page.locator("#c-kv-precision").select_option("fp8")
    settled(page, before)
    page.locator("#find-box").fill("load")  # labels before the names of groups
    assert page.locator("#c-requests-per-s").is_visible() and not page.locator("#c-model").is_visible()
    page.locator("#find-box").fill("")
    assert page.locator("#c-model").is_visible() and not page.locator("#c-kv-precision").is_visible()
    before = shown(page)
    page.locator("#reset").click()
    settled(page, before)
    assert page.locator("details.group.changed").count() == 0


@pytest.mark.browser
def test_a_box_with_an_error_is_in_sight_and_the_error_names_boxes(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16&turns=4")
    assert "The link cannot be answered" in page.locator("#e-").inner_text()
    page.locator("details.group", has=page.locator("#c-turns")).locator("summary").click()
    before = shown(page)
    page.locator("#c-turns").fill("4")
    page.keyboard.press("Enter")
    settled(page, before)
    said = page.locator("#e-turns").inner_text()
    assert "\u201cLoad\u201d" in said and "--" not in said
