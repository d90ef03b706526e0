"""The app on a phone: the answer first, the controls in a sheet below it, in the order in which Tab meets them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interfaces.driving import drag, has_focus

pytestmark = pytest.mark.browser


def test_on_a_phone_the_headline_stays_in_sight_above_the_controls(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16", 390)
    assert page.locator("#controls").is_hidden()
    said = page.locator("#headline").inner_text()
    page.locator("#open-controls").click()
    has_focus(page, "#controls")
    page.keyboard.press("Tab")
    has_focus(page, "#close-controls")
    page.locator(".control[data-name='batch'] .slider").scroll_into_view_if_needed()
    drag(page, "batch", 440)
    assert page.locator("#headline").inner_text() != said
    top, bottom, sheet = page.evaluate("""() => {
      const { top, bottom } = document.getElementById("headline").getBoundingClientRect();
      return [top, bottom, document.getElementById("controls").getBoundingClientRect().top];
    }""")
    assert 0 <= top < bottom < sheet
    page.keyboard.press("Escape")
    has_focus(page, "#open-controls")
    assert page.locator("#controls").is_hidden()


def test_on_a_phone_three_lines_follow_the_headline_and_the_keyboard_opens_the_others(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16", 390)
    lines = "(() => { const one = document.getElementById('context'); return one.clientHeight / 21 })()"
    assert page.locator("#context").inner_text().endswith("."), "those who hear the page hear all of it"
    if page.locator("#context-more").is_hidden():
        page.evaluate("document.getElementById('context').append(' and so on'.repeat(20))")
        page.set_viewport_size({"width": 380, "height": 844})
        page.wait_for_selector("#context-more")
    assert round(page.evaluate(lines)) == 3
    page.locator("#context-more").focus()
    page.keyboard.press("Enter")
    assert page.locator("#context-more").get_attribute("aria-expanded") == "true"
    assert page.evaluate(lines) > 3.5
    page.keyboard.press("Enter")
    assert round(page.evaluate(lines)) == 3
    page.set_viewport_size({"width": 1280, "height": 844})
    page.wait_for_selector("#context-more", state="hidden")


def test_on_a_phone_back_closes_the_controls_and_leaves_the_scenario(visit: Any) -> None:
    page = visit("/serve?layout=tp8&batch=16", 390)
    page.locator("#open-controls").click()
    page.go_back()  # nothing was changed yet
    page.wait_for_selector("#controls", state="hidden")
    page.locator("#open-controls").click()
    drag(page, "batch", 440)
    asked = page.locator("#c-batch").input_value()
    page.go_back()
    page.wait_for_selector("#controls", state="hidden")
    has_focus(page, "#open-controls")
    page.wait_for_function("batch => location.search.includes(`batch=${batch}`)", arg=asked)
    page.locator("#open-controls").click()
    page.locator("#undo").click()  # the page's own way back stays in the sheet
    page.wait_for_function("document.querySelector('#c-batch').value === '16'")
    assert page.locator("#controls").is_visible()


def test_the_keyboard_meets_the_controls_where_they_are_seen(visit: Any) -> None:
    """Before the answer on a wide screen; behind it on a phone, even where a window is made narrower."""
    page = visit("/facts")
    first = "document.getElementById('controls').compareDocumentPosition(document.getElementById('answer')) & 4"
    assert page.evaluate(first)
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function(f"!({first})")


@pytest.mark.parametrize("path", ["claims", "accuracy", "think", "frontier"])
def test_a_tap_on_a_mark_opens_a_label_that_stays_and_lies_inside_its_plot(
    browser: Any, address: str, path: str
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto(f"{address}/{path}")
    marks = page.locator(".canvas").first.locator(".scatterlayer .point")
    marks.first.wait_for(state="attached")
    for place in (0, marks.count() - 1):
        mark = marks.nth(place)
        mark.evaluate("one => scrollBy(0, one.getBoundingClientRect().top - 422)")
        page.wait_for_timeout(300)
        box = mark.bounding_box()
        assert box is not None
        page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(500)  # as long as a browser takes to say that a pointer left
        left, right, start, end = page.evaluate("""() => {
          const plot = document.querySelector(".canvas"), label = plot.querySelector(".hovertext");
          return [label, plot].flatMap((one) => [one.getBoundingClientRect().left, one.getBoundingClientRect().right]);
        }""")
        assert start <= left < right <= end
    page.locator("#headline").tap()
    page.wait_for_selector(".hovertext", state="detached")
    context.close()


def test_the_first_tap_on_a_dot_names_it_and_the_second_opens_its_source(browser: Any, address: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto(f"{address}/accuracy")
    mark = page.locator(".canvas").first.locator(".scatterlayer .point").nth(40)
    mark.wait_for(state="attached")
    page.evaluate("() => { window.opened = []; window.open = (address) => window.opened.push(address); }")
    mark.evaluate("one => scrollBy(0, one.getBoundingClientRect().top - 422)")
    page.wait_for_timeout(300)
    for opened in (0, 1):
        box = mark.bounding_box()
        assert box is not None
        page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_timeout(900)
        assert page.evaluate("window.opened.length") == opened
    context.close()
