"""Limits on times: the share of the requests that keeps one is chosen beside its box, and both are one text."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from computeledger.interfaces.web.pages import PAGES
from tests.interfaces.driving import settled, shown

_TWO = "&".join(f"{place}.system=" for place in range(3, 7))


def test_boxes_of_limits_have_shares_and_no_others_do() -> None:
    shared = {(page.name, one.name) for page in PAGES for one in page.controls if one.shares}
    assert shared == {(page, name) for page in ("compare", "serve") for name in ("ttft", "tpot", "e2e")}
    # Life's plan takes no share, and its box of the same field offers none
    firsts = {one.name: one.shares[0] for page in PAGES for one in page.controls if one.shares}
    assert firsts["ttft"] == firsts["tpot"] == ("", "median")
    assert firsts["e2e"][0] == "p99"  # a limit on a whole request is refused without a share


@pytest.mark.browser
def test_a_share_and_its_box_are_the_text_that_a_command_takes(visit: Any) -> None:
    page = visit(f"/compare?{_TWO}&ttft=p90:2s")
    box, share = page.locator("#c-ttft"), page.locator("#s-ttft")
    asked = lambda: parse_qs(urlsplit(page.url).query).get("ttft")  # noqa: E731
    assert (box.input_value(), share.input_value()) == ("2s", "p90")
    before = shown(page)
    share.select_option(label="median")
    settled(page, before)
    assert asked() is None and box.input_value() == "2s"
    before = shown(page)
    box.fill("95 %: 3")
    box.press("Enter")
    settled(page, before)
    assert (box.input_value(), share.input_value(), asked()) == ("3s", "p95", ["p95:3s"])
    before = shown(page)
    page.locator("#undo").click()
    settled(page, before)
    assert (box.input_value(), share.input_value()) == ("2s", "")


@pytest.mark.browser
def test_a_bare_number_gets_the_unit_of_its_box(visit: Any) -> None:
    page = visit(f"/compare?{_TWO}")
    before = shown(page)
    page.locator("#c-tpot").fill("25")
    page.locator("#c-tpot").press("Enter")
    settled(page, before)
    assert page.locator("#c-tpot").input_value() == "25ms"
