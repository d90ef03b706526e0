"""A figure that stands alone: framed by other pages, which nothing else of the app is, and holding nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from computeledger.interfaces.web.app import create_app
from tests.axe import issues
from tests.interfaces.driving import settled

_SMALL = "model=meta-llama/Meta-Llama-3.1-8B&system=h100-nvl8&layout=tp1&batch=16"


def test_a_figure_may_be_framed_and_nothing_else() -> None:
    client = TestClient(create_app(), base_url="http://localhost")
    paths = ("/figure/serve/pareto", "/serve", "/", "/view/serve?batch=x", "/static/figure.js", "/figures")
    for path, framed in zip(paths, (True, *(False,) * 5), strict=True):
        policy = client.get(path).headers["content-security-policy"]
        assert ("frame-ancestors *" in policy) == framed and ("frame-ancestors 'none'" in policy) != framed, path
        assert policy.startswith("default-src 'self'")
    foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    assert client.get("/figure/serve/pareto", headers=foreign).status_code == 200
    assert client.get("/view/serve", headers={**foreign, "sec-fetch-mode": "cors"}).status_code == 403


def test_no_text_of_an_address_stands_in_the_page() -> None:
    client = TestClient(create_app(), base_url="http://localhost")
    said = client.get("/figure/serve/<script>alert(1)</script>?batch=<script>alert(2)").text
    assert "alert(" not in client.get("/figure/serve/%3Cscript%3Ealert(1)?batch=%3Cscript%3Ealert(2)").text
    assert "alert(" not in said
    assert client.get("/figure/nosuch/pareto").status_code == 404
    answer = client.get("/figure/serve/pareto").text
    assert len(answer) < 40_000, "without the names of all models"
    closed = TestClient(create_app("secret"), base_url="http://example.org")
    assert closed.get("/figure/serve/pareto").status_code == 401


@pytest.mark.browser
def test_an_embedded_figure_is_that_of_its_page_and_nothing_else(visit: Any) -> None:
    page = visit(f"/serve?{_SMALL}", 900)
    drawn = "document.querySelector('[data-plot=pareto] .canvas')"
    wanted = page.evaluate(f"{drawn}.data.map((one) => [one.name, Array.from(one.y)])")
    copied = "navigator.clipboard.writeText = async (text) => { window.copied = text; }"
    page.evaluate(copied)
    page.locator("[data-plot=pareto] button[aria-label^=embed]").click()
    page.wait_for_function("window.copied")
    page.evaluate("void (navigator.clipboard.writeText = async () => { throw new Error('no'); })")
    page.locator("[data-plot=pareto] button[aria-label^=embed]").click()
    by_hand = page.locator("[data-plot=pareto] .by-hand")
    assert "Not copied" in by_hand.inner_text() and by_hand.locator("input").input_value().startswith("<iframe")
    frame = page.evaluate("new DOMParser().parseFromString(window.copied, 'text/html').querySelector('iframe').src")
    page.goto(f"{frame}&vs=Four%7C{_SMALL.replace('&', '%26').replace('16', '4')}")
    settled(page, "0")
    page.wait_for_selector(".canvas .main-svg")
    found = page.evaluate("document.querySelector('.canvas').data.map((one) => [one.name, Array.from(one.y)])")
    assert found[: len(wanted)] == wanted and "Four" in [name for name, _ in found[len(wanted) :]]
    assert page.locator("h1").inner_text() == "What speed costs"
    assert "Batch 16" in page.locator("#scenario").inner_text()
    assert page.locator("button, input, select, nav, footer").count() == 0 and page.locator("figure").count() == 1
    assert page.locator("a").count() == 1 and "batch=16" in page.locator("a").get_attribute("href")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert issues(page, ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")) == []
    page.goto(frame.replace("pareto", "nosuch"))
    page.wait_for_selector("#e-:not([hidden])")
    assert "there are: pareto, " in page.locator("#e-").inner_text()
