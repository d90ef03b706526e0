"""The app in Firefox, where it is installed: pages load and fit, plots are drawn, a drag moves the figure."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest

from computeledger.interfaces.web.pages import PAGES
from tests.interfaces import firefox

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not firefox.NAME, reason="Firefox is not installed")]
_IN_SUITE = ("serve", "claims")
_PAGES = [pytest.param(one.name, marks=[pytest.mark.stress] * (one.name not in _IN_SUITE)) for one in PAGES]
_AXE = """const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
const { violations } = await axe.run({ runOnly: tags, resultTypes: ["violations"] });
const isSerious = (one) => ["serious", "critical"].includes(one.impact);
return violations.filter(isSerious).map((one) => [one.id, one.nodes[0].html]);"""


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[firefox.Firefox]:
    with firefox.running(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.parametrize("name", _PAGES)
def test_a_page_is_sound_on_a_desk_and_on_a_phone(name: str, window: Any, address: str) -> None:
    axe = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    for width in (1280, 500):  # no window of Firefox is narrower
        window.go(f"{address}/{name}", width)
        assert window.run("return document.getElementById('headline').innerText")
        assert window.run("return document.documentElement.scrollWidth <= innerWidth")
        assert window.run(f"{axe}; {_AXE}") == []


def test_a_drag_changes_the_headline(window: Any, address: str) -> None:
    window.go(f"{address}/serve?layout=tp8&batch=16", 1280)
    before, after = window.run("""const said = () => document.getElementById("headline").innerText, first = said();
      const root = document.documentElement, slider = document.querySelector('.control[data-name="batch"] .slider');
      slider.value = Number(slider.value) + 100;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
      while (said() === first) await new Promise((go) => setTimeout(go, 20));
      return [first, said()];""")
    assert before != after
