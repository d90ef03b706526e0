"""The report: whole in one file, nothing from the network, nothing of a plan becomes markup, readable in a browser."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from computeledger.economics.plan.ledger import Ledger, estimate_ledger
from computeledger.economics.plan.read import load_plan, read_plan
from computeledger.interfaces.render.html import report as report_of_view
from computeledger.interfaces.views.plan import ledger_view
from computeledger.interfaces.working import named_as_tiles, working_view
from computeledger.questions.answers.plan import PlanAnswer, plan_document
from computeledger.questions.plan import PlanQuestion
from computeledger.questions.wording import PHASE_NAMES
from computeledger.sources import load_sources
from tests.printed import sheets, words_of

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)> {{ 7 * 7 }} & “quotes\""


class Page(HTMLParser):
    """Elements, ids and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open[-1] if self._open else "", []).append(data)

    def values(self, attribute: str) -> Iterator[tuple[str, str]]:
        for tag, attributes in self.elements:
            value = attributes.get(attribute)
            if value is not None:
                yield tag, value


def report_of(ledger: Ledger) -> str:
    return report_of_view(PlanAnswer(PlanQuestion(plan=ledger.plan), ledger).view(working=True))


@pytest.fixture(scope="module")
def ledger(repository: Path) -> Ledger:
    return estimate_ledger(load_plan(repository / "examples" / "deepseek-v3.toml"), n_samples=512)


@pytest.fixture(scope="module")
def report(ledger: Ledger) -> str:
    return report_of(ledger)


@pytest.fixture(scope="module")
def page(report: str) -> Page:
    return Page(report)


def test_nothing_is_loaded(page: Page) -> None:
    assert [value for _, value in page.values("src")] == []
    linked = [(tag, value) for tag, value in page.values("href") if not value.startswith("#")]
    assert {tag for tag, value in linked if value != "data:,"} <= {"a"}
    assert "@import" not in "".join(page.texts["style"]) and "url(" not in "".join(page.texts["style"])
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none'")


def test_every_link_inside_the_page_has_a_target(page: Page) -> None:
    ids = [value for _, value in page.values("id")]
    assert len(ids) == len(set(ids))
    assert {value[1:] for _, value in page.values("href") if value.startswith("#")} <= set(ids)
    for attribute in ("aria-labelledby", "aria-describedby", "for"):
        assert {value for _, value in page.values(attribute)} <= set(ids)


def test_every_phase_figure_and_source_is_there(report: str, ledger: Ledger, page: Page) -> None:
    document = plan_document(ledger, working=True)
    text = html.unescape(report[: report.index("application/json")])
    assert document["title"] in text
    for name in ledger.phases:
        assert PHASE_NAMES[name] in text
    for figure in named_as_tiles(working_view(document), ledger_view(document, ledger).tiles):
        assert f'<span class="name">{figure["title"]}</span>' in text
        assert figure["formula"] in text
    ids = {value for _, value in page.values("id")}
    for key in document["sources"]:
        assert f"source-{key}" in ids and load_sources()[key].title in text
        assert f"@misc{{{key}," in text
    for name in ("money", "shares", "phases", "roofline", "bounds", "speed", "drivers"):
        assert f"caption-{name}" in ids
    assert f"{ledger.n_samples} samples, seed {ledger.seed}" in text


def test_headings_descend_one_level_at_a_time(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_tables_name_their_headers(page: Page) -> None:
    assert all(attributes.get("scope") for tag, attributes in page.elements if tag == "th")


def test_nothing_of_a_plan_becomes_markup() -> None:
    plan = read_plan({
        "title": HOSTILE, "model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2..$3/h",
        "pretraining": {"tokens": "15T tokens", "utilization": "30%..40%"}, "rl": {"skip": HOSTILE},
        "inference": {"input": "1K tokens", "output": "500 tokens", "layout": "tp1", "batch": 8, "traffic": [
            {"name": HOSTILE, "tokens": "1T..3T tokens"}, {"name": "<b>b</b>", "tokens": "1T tokens"}]},
    }, "<i>plan</i>")  # fmt: skip
    text = report_of(estimate_ledger(plan, n_samples=64))
    found = Page(text)
    assert [tag for tag, _ in found.elements].count("script") == 5
    assert not {"img", "b", "iframe"} & {tag for tag, _ in found.elements}
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    assert "{{ 7 * 7 }}" in text
    data = json.loads(next(part for part in found.texts["script"] if part.startswith('{"figures"')))
    names = {trace.get("name", "") for trace in data["figures"]["speed"]["data"]}
    assert html.escape(HOSTILE, quote=False) in names


def test_parity_in_gpu_time_is_told_beside_flop(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    text = report_of(estimate_ledger(load_plan("examples/frontier-fermi.toml"), n_samples=64))
    assert "phases take equal GPU-time" in text
    assert "in FLOP, Pretraining takes" in text


def plan_with(**sections: Any) -> Ledger:
    skipped = {name: {"skip": "not here"} for name in ("pretraining", "rl", "inference")}
    plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h", **skipped, **sections})
    return estimate_ledger(plan, n_samples=64)


@pytest.mark.parametrize(
    "sections",
    [
        {"pretraining": {"tokens": "15T tokens", "utilization": "40%"}},
        {
            "pretraining": {"tokens": "15T tokens", "gpu_hours": "1M GPU-hours"},
            "experiments": {"gpu_hours": "1K GPU-hours"},
        },
        {
            "inference": {
                "tokens": "1T tokens",
                "input": "1K tokens",
                "output": "1K tokens",
                "layout": "tp1",
                "batch": 8,
            }
        },
        {},
    ],
)
def test_plans_with_little_in_them(sections: dict[str, Any]) -> None:
    text = report_of(plan_with(**sections))
    assert Page(text).texts["h1"]
    assert "not here" in text


def test_the_plan_overrides_an_efficiency_factor() -> None:
    ledger = plan_with(
        pretraining={"tokens": "15T tokens", "utilization": "40%"}, efficiency={"scale_up_fraction": 0.6}
    )
    assert "the plan's own: efficiency.scale_up_fraction" in html.unescape(report_of(ledger))


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_in_a_browser(browser: Any, report: str, tmp_path: Path, width: int, scheme: str) -> None:
    file = tmp_path / "report.html"
    file.write_text(report, "utf-8")
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme, offline=True)
    page = context.new_page()
    told: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached")
    assert told == []
    assert asked == [file.as_uri()]
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    canvases = page.locator("[data-plot]")
    assert canvases.count() == 7
    for place in range(canvases.count()):
        box = canvases.nth(place).locator(".main-svg").first.bounding_box()
        assert box["width"] > 250 and box["height"] > 150 and box["x"] + box["width"] <= width
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    page.fill("#search", "facility power")
    shown = page.locator("details.figure:not([hidden])")
    assert 0 < shown.count() < page.locator("details.figure").count()
    assert "figures" in page.inner_text("#found")
    context.close()


@pytest.mark.browser
def test_on_paper(browser: Any, report: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report, "utf-8")
    context = browser.new_context(viewport={"width": 1280, "height": 844}, color_scheme="dark", offline=True)
    page = context.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached")
    pdf = page.pdf(prefer_css_page_size=True, print_background=True)
    words = words_of(pdf)
    assert sheets(pdf) <= 24
    for part in ("GPU-hours", "FLOP against GPU-time", "intensity, FLOP per byte of memory traffic", "@misc{"):
        assert part.replace(" ", "") in words
    figures = page.locator("details.figure td").all_text_contents()  # folded away on the screen
    assert [one for one in figures if "".join(one.split()) not in words] == []
    assert "Skipto" not in words and "Search" not in words
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.querySelector('[data-plot=phases] text').style.fill") == "rgb(27, 32, 38)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    context.close()
