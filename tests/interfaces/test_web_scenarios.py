"""Scenarios by name: kept in the browser, several drawn over the present one, and carried by the link."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.axe import issues
from tests.interfaces.driving import settled, shown

pytestmark = pytest.mark.browser
_SMALL = "model=meta-llama%2FMeta-Llama-3.1-8B&system=h100-nvl8&layout=tp1"


def pressed(page: Any, selector: str, place: int = 0) -> None:
    before = shown(page)
    page.locator(selector).nth(place).click()
    settled(page, before)


def test_three_scenarios_are_kept_compared_and_shared(visit: Any) -> None:
    page = visit(f"/serve?{_SMALL}&batch=4")
    page.locator("#kept summary").click()
    for name, batch in (("Four", "4"), ("Sixteen", "16"), ("Sixty-four", "64")):
        if batch != "4":
            before = shown(page)
            page.locator("#c-batch").fill(batch)
            page.locator("#c-batch").press("Enter")
            settled(page, before)
        page.locator("#kept-name").fill(name)
        page.locator("#kept-name").press("Enter")
    assert page.locator("#kept li .by").all_inner_texts() == ["Four", "Sixteen", "Sixty-four"]
    pressed(page, "#kept li input")
    assert page.locator("#pinned h2").first.inner_text() == "Four"
    changes = page.locator("#differs td[data-name=change]").all_inner_texts()
    assert changes[0] == "" and re.fullmatch(
        r"\u2212\d+\u00a0%", changes[1]
    )  # the box, then the speed of a larger batch
    pressed(page, "#kept li input", 1)
    assert not page.locator("#pinned").is_visible()
    rows = {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in
            page.locator("#differs tbody tr").all()}  # fmt: skip
    assert page.locator("#differs thead th").all_inner_texts() == ["", "This scenario", "Four", "Sixteen"]
    assert rows["Batch"] == ["64", "4", "16"]
    assert rows["Output cost"][0].split("\n")[0] == page.locator("#now .tiles .value").nth(0).inner_text()
    assert len(set(rows["Speed for one user"])) == len(set(rows["Output cost"])) == 3
    page.wait_for_function("document.querySelector('#now [data-plot=pareto] .canvas').data")
    names = "document.querySelector('#now [data-plot=pareto] .canvas').data.map((one) => one.name)"
    assert {"Four", "Sixteen"} <= set(page.evaluate(names))
    assert issues(page, ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")) == []
    link = page.evaluate("location.pathname + location.search")
    page.evaluate("localStorage.clear()")
    again = visit(link)
    assert again.locator("#differs thead th").all_inner_texts() == ["", "This scenario", "Four", "Sixteen"]
    again.locator("#kept summary").click()
    assert again.locator("#kept li").all_inner_texts() == ["Four\nKeep", "Sixteen\nKeep"]
    again.locator("#kept li .quiet").first.click()
    pressed(again, "#kept li input", 1)
    assert again.locator("#kept li .by").all_inner_texts() == ["Four"]
    again.reload()
    settled(again, "0")
    assert again.evaluate("JSON.parse(localStorage.getItem('scenarios:serve'))[0].name") == "Four"


def test_a_link_compares_no_more_than_six_and_leaves_out_what_cannot_be_answered(visit: Any) -> None:
    several = "".join(f"&vs=B{batch}%7C{_SMALL.replace('&', '%26')}%26batch%3D{batch}" for batch in range(1, 9))
    page = visit(f"/serve?{_SMALL}&batch=32{several}")
    assert page.locator("#differs thead th").count() == 2 + 6
    assert "6 scenarios are compared at once; the address has 2 more" in page.locator("#e-").inner_text()
    page = visit(f"/serve?{_SMALL}&batch=32&vs=Bad%7Cmodel%3Dnosuch")
    assert "Left out of the comparison: Bad" in page.locator("#e-").inner_text()
    assert page.locator("#headline").inner_text() and not page.locator("#pinned").is_visible()
