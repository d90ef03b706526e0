"""Bytes in GB or in GiB: the reader's choice, the same figures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from computeledger.interfaces.web.answers import Question, answered
from tests.interfaces.driving import settled, shown

_ASKED = (("model", "meta-llama/Meta-Llama-3.1-8B"), ("system", "h100-nvl8"))
_GIB = 2**30


def view(*more: tuple[str, str]) -> dict[str, Any]:
    reply = answered(Question("view", "memory", (*_ASKED, *more)))
    assert reply.status == 200, reply.body
    found: dict[str, Any] = json.loads(reply.body)
    return found


def test_gibibytes_are_the_same_bytes() -> None:
    decimal, binary = view(), view(("units", "binary"))
    assert "85\u00a0GB" in decimal["headline"] and "79.2\u00a0GiB" in binary["headline"]
    axes = [one["plots"][0]["figure"]["layout"]["xaxis"]["title"]["text"] for one in (decimal, binary)]
    assert axes == ["GB on each GPU", "GiB on each GPU"]
    bars = [one["plots"][0]["figure"]["data"][0]["x"] for one in (decimal, binary)]
    assert [size * _GIB / 1e9 for size in bars[1]] == pytest.approx(bars[0], rel=1e-3)
    assert view() == decimal


def test_units_that_nobody_shows_are_refused_in_a_line() -> None:
    reply = answered(Question("view", "memory", (*_ASKED, ("units", "imperial"))))
    assert reply.status == 422 and b"not one of the choices decimal, binary" in reply.body


@pytest.mark.browser
def test_the_choice_of_units_is_kept_and_reaches_figures_and_working(visit: Any) -> None:
    page = visit("/memory?model=meta-llama%2FMeta-Llama-3.1-8B&system=h100-nvl8")
    before = shown(page)
    page.locator("#units").click()
    settled(page, before)
    assert "GiB" in page.locator("#headline").inner_text() and page.locator("#units").inner_text() == "Bytes in GB"
    page.reload()
    page.wait_for_function("document.documentElement.dataset.shown")
    assert "79.2\u00a0GiB" in page.locator("#headline").inner_text()
    page.locator(".why").first.click()
    page.wait_for_selector("#working-list details")
    page.evaluate("localStorage.clear()")
