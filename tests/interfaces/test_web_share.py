"""What a reader gives to others, and what the page says while an answer is not that of the boxes."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from computeledger.facts.editions import load_prices
from computeledger.interfaces.web.pages import page_named
from tests.axe import issues
from tests.interfaces.driving import settled, shown

pytestmark = pytest.mark.browser
_SMALL = "model=meta-llama%2FMeta-Llama-3.1-8B&system=h100-nvl8&layout=tp1"
#: Where each part of an answer stands.
_PLACES = (
    "['headline', 'context', 'share', 'evidence', 'now', 'scenarios'].map(id => {"
    " const { x, y, width, height } = document.getElementById(id).getBoundingClientRect();"
    " return [id, x, y, width, height]; })"
)
_OPACITY = "id => Number(getComputedStyle(document.getElementById(id)).opacity)"


def test_share_copies_every_box_and_warns_of_an_address_of_this_computer(visit: Any) -> None:
    page = visit(f"/serve?{_SMALL}&batch=4", 390)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#open-actions").click()
    assert page.locator("#share").bounding_box()["height"] >= 44
    page.locator("#share").click()
    page.wait_for_selector("#actions", state="hidden")
    page.wait_for_selector("#shared:visible")
    copied = page.evaluate("navigator.clipboard.readText()")
    asked = parse_qs(urlsplit(copied).query, keep_blank_values=True)
    controls = [one for one in page_named("serve").controls if one.kind != "switch"]
    boxes = {one.name: page.locator(f"#c-{one.name}").input_value() for one in controls}
    assert (asked.pop("edition"), asked.pop("rest")) == ([load_prices().id], ["empty"])
    assert {name: text[0] for name, text in asked.items()} == {
        one.name: boxes[one.name] for one in controls if boxes[one.name] or one.default
    }
    assert len(copied) < 400
    assert "works only on this computer" in page.locator("#shared").inner_text()
    assert page.locator("#shared button").bounding_box()["height"] >= 44
    with page.expect_download() as report:
        page.locator("#shared button").click()
    assert report.value.suggested_filename == "computeledger-serve-meta-llama-3.1-8b-h100-nvl8.html"
    headline = page.locator("#headline").inner_text()
    again = visit(urlsplit(copied)._replace(scheme="", netloc="").geturl())
    assert again.locator("#headline").inner_text() == headline
    assert again.locator("#undo").is_disabled() and not again.locator("#e-").is_visible()
    other = visit(f"/serve?{_SMALL}&batch=4&edition=2020-01")
    assert "Shared with the prices of 2020-01" in other.locator("#e-").inner_text()


def test_a_shared_address_leaves_boxes_empty_that_have_a_default_here(visit: Any) -> None:
    left = "task.failure_usd"
    named = {one.name: one.default for one in page_named("route").controls if one.default and one.name != left}
    page = visit(f"/route?{urlencode({**named, 'rest': 'empty'})}")
    assert page.locator(f"[name='{left}']").input_value() == ""
    assert visit(f"/route?{urlencode(named)}").locator(f"[name='{left}']").input_value() == "60"


def test_an_answer_that_is_not_that_of_the_boxes_fades_and_nothing_moves(visit: Any) -> None:
    page = visit(f"/serve?{_SMALL}&batch=4")
    held: list[Any] = []

    def hold(route: Any) -> None:
        held.append(route)

    page.route(re.compile("/view/serve"), hold)
    before, places = shown(page), page.evaluate(_PLACES)
    page.locator("#c-batch").fill("16")
    page.locator("#c-batch").press("Enter")
    page.wait_for_selector("#answer.updating[aria-busy=true]")
    page.wait_for_function(f"({_OPACITY})('scenarios') < 0.5 && ({_OPACITY})('headline') < 0.5")
    assert page.locator("#state").inner_text() == "Updating\u2026"
    assert page.evaluate(_PLACES) == places
    assert page.evaluate(_OPACITY, "c-batch") == 1 and page.locator("#c-batch").input_value() == "16"
    held.pop().continue_()
    settled(page, before)
    assert page.locator("#answer").get_attribute("aria-busy") is None
    assert page.evaluate(_OPACITY, "scenarios") == 1 and not page.locator("#state").is_visible()
    page.locator("#c-batch").fill("32")
    page.locator("#c-batch").press("Enter")
    page.wait_for_selector("#busy:visible")
    refusal = json.dumps({"control": "", "message": "no layout fits"})
    held.pop().fulfill(status=422, body=refusal, content_type="application/json")
    page.wait_for_selector("#answer.stale")
    assert page.locator("#state").inner_text() == "Not updated: the last answer"
    quiet = page.evaluate("getComputedStyle(document.getElementById('headline')).color")
    assert quiet == page.evaluate("getComputedStyle(document.querySelector('h1')).color")
    assert issues(page, ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")) == []
    page.unroute(re.compile("/view/serve"))


def test_who_takes_back_what_was_typed_sees_the_answer_at_full_strength(visit: Any) -> None:
    page = visit(f"/serve?{_SMALL}&batch=4")
    page.locator("#c-batch").fill("{")
    page.wait_for_selector("#answer.stale")
    assert page.locator("#state").inner_text() == "Not updated yet"
    page.locator("#c-batch").fill("4")
    page.wait_for_selector("#answer:not(.stale)")
    assert not page.locator("#state").is_visible()


def test_a_picture_names_its_sources_and_its_file_the_model_and_the_system(visit: Any) -> None:
    page = visit(f"/serve?{_SMALL}&batch=4")
    with page.expect_download() as picture:
        page.locator("figure[data-plot=pareto] button:text('SVG')").click()
    assert picture.value.suggested_filename == "computeledger-serve-meta-llama-3.1-8b-h100-nvl8-pareto.svg"
    drawn = picture.value.path().read_text()
    assert "Sources: " in drawn and f"Prices: edition {load_prices().id}" in drawn
