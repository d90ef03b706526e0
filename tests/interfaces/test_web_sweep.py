"""A sweep of one figure against one box: what each value's own command says, with bounds, drawn and stopped."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from fastapi.testclient import TestClient

from computeledger.interfaces.web import sweeping
from computeledger.interfaces.web.app import create_app
from computeledger.interfaces.web.pages import PAGES
from tests.interfaces.driving import settled

_SMALL = {"model": "meta-llama/Meta-Llama-3.1-8B", "system": "h100-nvl8", "layout": "tp1"}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(), base_url="http://localhost")


def test_every_value_is_what_its_own_command_says(client: TestClient, computeledger: Any) -> None:
    found = client.get("/sweep/serve", params={**_SMALL, "sweep": "batch", "figure": "Output cost"}).json()
    assert sweeping._FEW <= len(found["points"]) <= 2 * sweeping.N_VALUES
    loop = re.fullmatch(r'for value in (.+); do (computeledger .+) "--batch=\$value" --brief; done', found["command"])
    assert loop and loop[1].split() == [one["text"] for one in found["points"]]
    for one in (found["points"][0], found["points"][-1]):
        said = computeledger(*shlex.split(loop[2])[1:], f"--batch={one['text']}", "--json")
        cost = json.loads(said.stdout)["usd_per_mtok_output"]
        assert [one["low"], one["value"], one["high"]] == [cost["p05"], cost["p50"], cost["p95"]]
    assert all("does not fit" in line for line in found["missing"])
    assert "dotted" not in found["plot"]["caption"] and not found["plot"]["figure"]["layout"]["shapes"]  # an empty box
    drawn = found["plot"]["figure"]["data"][-1]
    assert drawn["y"] == pytest.approx([one["value"] for one in found["points"]], rel=1e-3)


def test_a_second_figure_asks_nothing_anew(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {**_SMALL, "sweep": "batch"}
    first = client.get("/sweep/serve", params=asked).json()
    misses = sweeping._asked.cache_info().misses
    second = client.get("/sweep/serve", params={**asked, "figure": first["figures"][-1]}).json()
    assert sweeping._asked.cache_info().misses == misses
    assert [one["at"] for one in second["points"]] == [one["at"] for one in first["points"]]
    assert "--json" in second["command"] and "\u2191" in second["plot"]["figure"]["layout"]["annotations"][0]["text"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({}, "'': no box of numbers"),
        ({"sweep": "model"}, "'model': no box of numbers"),
        ({"sweep": "../etc"}, "no box of numbers"),
        ({"sweep": "batch", "figure": "Outptu cost"}, "did you mean 'Output cost'?"),
        ({"sweep": "batch", "input-tokens": "many"}, "no value of Batch has an answer"),
        ({"sweep": "batch", "nosuch": "1"}, "no control of this page"),
        ({"sweep": "batch", "figure": "<b>" + "x" * 5000}, "no figure of this answer"),
    ],
)
def test_what_cannot_be_swept_is_said_in_a_line(query: dict[str, str], said: str, client: TestClient) -> None:
    answer = client.get("/sweep/serve", params={**_SMALL, **query})
    assert answer.status_code == 422, answer.text
    message = answer.json()["message"]
    assert said in message and "\n" not in message and len(message) < 600


def test_values_lie_within_the_bounds_of_every_box() -> None:
    for control in (one for page in PAGES for one in page.controls if one.kind == "number"):
        values = sweeping.values_of(control, control.low, control.high)
        assert 2 <= len(values) <= sweeping.N_VALUES and list(values) == sorted(set(values)), control.name
        slack = 2 if control.is_power else 1.06  # a power of two, and two digits, beside the end of a slider
        assert control.low / slack <= values[0] and values[-1] <= control.high * slack, control.name


@pytest.mark.browser
def test_a_sweep_is_drawn_from_its_box_and_told_when_the_scenario_changes(visit: Any) -> None:
    page = visit("/serve?layout=tp1&model=meta-llama/Meta-Llama-3.1-8B&system=h100-nvl8&batch=16")
    page.locator(".control[data-name=batch]").hover()
    page.locator(".control[data-name=batch] .sweep-by").click()
    page.wait_for_selector("#sweep .canvas .main-svg")
    assert page.locator("#sweep h3").inner_text() == "Output cost against Batch"
    assert page.locator("#sweep-draw").inner_text() == "Draw"
    assert page.locator("#sweep code").inner_text().startswith("for value in 1 2 3 ")
    page.locator("#c-output-tokens").fill("512")
    page.locator("#c-output-tokens").press("Enter")
    page.wait_for_function("document.querySelector('#sweep-state').textContent.startsWith('The scenario has changed')")
    settled(page, "0")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.browser
def test_a_sweep_can_be_stopped(visit: Any) -> None:
    page = visit("/serve?layout=tp1&model=meta-llama/Meta-Llama-3.1-8B&system=h100-nvl8&batch=16")
    page.route("**/sweep/**", lambda _route: None)  # an answer that never comes
    page.locator("#sweep-draw").click()
    assert page.locator("#sweep-draw").inner_text() == "Stop"
    page.locator("#sweep-draw").click()
    page.wait_for_function("document.querySelector('#sweep-state').textContent === 'Stopped.'")
    assert page.locator("#sweep-draw").inner_text() == "Draw"
