"""The start page: what this is, six questions with their answers, how far off they are, and the documentation."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from fastapi.testclient import TestClient

from computeledger.interfaces.web import docs_site
from computeledger.interfaces.web.app import create_app
from computeledger.interfaces.web.pages import PAGES
from computeledger.interfaces.web.start import EXAMPLES, WAYS, WHAT, Example, asked_first
from computeledger.validation.accuracy.table import published


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(), base_url="http://localhost")


class _Links(HTMLParser):
    """Addresses of a page's links, and of the lines that it asks for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.lines: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a":
            self.links.append(given["href"] or "")
            self.lines += [given["data-line"] or ""] if "data-line" in given else []


def test_what_its_examples_ask_is_what_is_answered_before_anybody_asks(client: TestClient) -> None:
    asked = [(one.kind, one.page, list(one.items)) for one in asked_first()]
    for line in _Links(client.get("/").text).lines:
        address = urlsplit(line)
        assert ("line", address.path.removeprefix("line/"), parse_qsl(address.query)) in asked


@pytest.mark.parametrize("name", [name for name, _ in WAYS])
def test_a_page_that_it_leads_to_answers_for_a_model_alone(name: str, client: TestClient) -> None:
    text = client.get("/").text
    assert f'action="{name}"' in text
    answer = client.get(f"/line/{name}", params={"model": "Qwen3-8B"})
    assert answer.status_code == 200, answer.text[:300]
    assert "Qwen3-8B" in answer.json()["headline"]
    refused = client.get(f"/line/{name}", params={"model": "Qwen3-8C"})
    assert refused.status_code == 422 and "did you mean 'qwen3-8b'" in refused.json()["message"]


@pytest.mark.parametrize("text", ["GPT-5", "Claude Opus 4", "o3", "Gemini 2.5 Pro", "deepsek v3", "GPT-99"])
def test_a_name_that_no_open_model_has_is_told_ways_on_that_answer(text: str, client: TestClient) -> None:
    refused = client.get("/named/serve", params={"model": text})
    advice = refused.json()["advice"]
    assert refused.status_code == 422 and text in advice["said"]
    for _, address in (*advice["ways"], *advice["opened"]):
        page, _, query = address.removeprefix("/").partition("?")
        assert client.get(f"/named/{page}?{query}").status_code == 200, address
    assert client.get("/named/serve", params={"model": "Qwen3-8B"}).json() == {}
    assert client.get("/line/sheet?" + "price=1.25%2F10&speed=&date=2025-08-07").status_code == 200


def test_it_says_what_this_is_and_leads_on(client: TestClient) -> None:
    text = client.get("/").text
    found = _Links(text)
    assert f"<h1>{WHAT}.</h1>" in text
    assert len(found.lines) == len(EXAMPLES) == 6
    assert {f"/{page.name}" for page in PAGES} < set(found.links)
    assert not any(link.startswith(("http://127", "http://localhost")) for link in found.links)
    n = sum(len(published(name, "usual").promised().rows) for name in ("serving", "training", "rl"))
    (said,) = re.findall(r"against ([\d,]+) measured times per token", text)
    assert 500 < int(said.replace(",", "")) <= n, "times to first token are told apart"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.page)
def test_an_example_is_answered_in_one_line_as_its_page_says(client: TestClient, example: Example) -> None:
    address = f"{example.page}?{example.query}"
    line = client.get(f"/line/{address}").json()
    view = client.get(f"/view/{address}").json()
    assert line["headline"] == view["headline"] and "\n" not in line["headline"]
    subject, _, rest = line["headline"].partition(": ")
    assert subject and "(90\u00a0%: " in rest, "its subject, its answer and its interval"


def test_the_documentation_is_shown_where_it_is_built(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of the built site and no others; where it is not built the page says where its text is."""
    monkeypatch.setattr(docs_site, "docs_folder", lambda: None)
    assert "make docs" in client.get("/docs/index.html").text
    monkeypatch.setattr("computeledger.interfaces.web.start.docs_folder", lambda: None)
    assert "<code>make docs</code>" not in client.get("/").text
    (tmp_path / "secret.txt").write_text("mine")
    site = tmp_path / "site"
    (site / "book").mkdir(parents=True)
    (site / "book" / "index.html").write_text("<p>chapters</p>")
    (site / "out").symlink_to(tmp_path / "secret.txt")
    monkeypatch.setattr(docs_site, "docs_folder", lambda: site)
    shown = client.get("/docs/book/")
    assert (shown.status_code, shown.text) == (200, "<p>chapters</p>")
    assert "unsafe-inline" in shown.headers["content-security-policy"].split("script-src")[1].split(";")[0]
    for name in ("out", "../secret.txt", "%2e%2e/secret.txt", "..%2fsecret.txt", "nothing.html", "%00"):
        assert client.get(f"/docs/{name}").status_code == 404, name
