"""Long work: it says how far it is, and the server ends it when its reader goes; in a real browser, Stop does."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from computeledger.interfaces.web import answers as web
from computeledger.interfaces.web.app import create_app
from computeledger.progress import Progress, StoppedError, counted, listening

BLOCKS = 400
#: How long a test waits for what must come: a busy machine is not a wrong result.
PATIENCE_S = 120


class Work:
    """An answer in blocks that takes longer than any reader of these tests stays; counts what it did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer = web._view_bytes
        self.blocks, self.total, self.begun, self.ended = 0, BLOCKS, threading.Event(), threading.Event()
        self.is_slow, self.block_s = threading.Event(), 0.5
        monkeypatch.setitem(web._RENDERED, "view", (self, "application/json"))

    def __call__(self, name: str, query: tuple[tuple[str, str], ...]) -> bytes:
        if self.is_slow.is_set():
            self.ended.clear()
            try:
                for _ in counted(range(self.total), "blocks"):
                    self.blocks += 1
                    self.begun.set()
                    time.sleep(self.block_s)
            finally:
                self.ended.set()
        return self.answer(name, query)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


@pytest.fixture
def address(work: Work) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(create_app(), port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


def _given_up(address: str, work: Work) -> None:
    """Asks without hearing of the progress, and goes once the work has begun."""
    place = httpx.URL(address)
    with socket.create_connection((place.host, place.port or 0)) as line:
        line.sendall(f"GET /view/facts HTTP/1.1\r\nHost: {place.host}:{place.port}\r\n\r\n".encode())
        assert work.begun.wait(PATIENCE_S)


def _left(address: str, work: Work) -> None:
    accept = {"Accept": "application/x-ndjson"}
    with httpx.stream("GET", f"{address}/view/facts", headers=accept, timeout=PATIENCE_S) as answer:
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        lines = answer.iter_lines()
        heard = [json.loads(next(lines)) for _ in range(4)]
    assert heard[0]["total"] == BLOCKS and heard[0]["what"] == "blocks"
    assert heard[0]["done"] < heard[-1]["done"] <= work.blocks < BLOCKS


@pytest.mark.parametrize("leave", [_given_up, _left])
def test_the_work_ends_when_its_reader_goes(leave: Callable[[str, Work], None], work: Work, address: str) -> None:
    work.is_slow.set()
    leave(address, work)
    assert work.ended.wait(PATIENCE_S)
    assert 0 < work.blocks < BLOCKS


class Leaves(Progress):
    """A reader who goes when he hears that some part is worked on."""

    def __init__(self, part: str) -> None:
        self.part, self.heard = part, list[str]()
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "what" and value:
            self.heard.append(value)
            self.is_stopped = value == self.part


@pytest.mark.parametrize(
    ("name", "query", "part"),
    [
        ("rl", {"max-lag": "1"}, "cuts of the GPUs"),
        ("rl", {"training-layout": "tp8-dp8"}, "the run with its samples"),
        ("frontier", {"about": "a run"}, "the system that a run needs"),
        ("frontier", {"about": "a run"}, "serving on that system"),
    ],
)
def test_a_reader_may_go_at_every_part_of_a_long_answer(name: str, query: dict[str, str], part: str) -> None:
    for kept in (web._view_bytes, web._worked_out):
        kept.cache_clear()  # another test may have asked the same
    reader = Leaves(part)
    with listening(reader), pytest.raises(StoppedError):
        web._view_bytes(name, tuple(query.items()))
    assert reader.heard[-1] == part


def _lines(address: str, query: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{address}/view/facts?{query}", headers={"Accept": "application/x-ndjson"}, timeout=PATIENCE_S)
    assert answer.status_code == 200
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_long_answer_follows_its_progress_and_a_short_one_comes_alone(work: Work, address: str) -> None:
    plain = httpx.get(f"{address}/view/facts", timeout=PATIENCE_S)  # kept from now on
    short = httpx.get(f"{address}/view/facts", headers={"Accept": "application/x-ndjson"}, timeout=PATIENCE_S)
    assert short.text == plain.text
    assert short.headers["content-type"] == "application/json"
    work.total, work.block_s = 24, 0.05
    work.is_slow.set()
    *progress, last = _lines(address, "")
    done = [one["done"] for one in progress]
    assert done == sorted(done) and done[0] < done[-1] <= 24
    assert last == {"status": 200, "body": short.json()}
    *progress, last = _lines(address, "colour=red")
    assert progress and last["status"] == 422 and "no control of this page" in last["body"]["message"]


@pytest.mark.browser
def test_stop_ends_the_work_and_the_last_answer_stays(work: Work, address: str, browser: Any) -> None:
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE_S)
    page.goto(f"{address}/facts")
    page.wait_for_function("Number(document.documentElement.dataset.shown || 0) > 0")
    kept = page.locator("#headline").inner_text()
    work.is_slow.set()
    page.locator("#c-words").fill("b200")
    page.locator("#c-words").press("Enter")
    page.wait_for_function("/^[1-9]\\d* of 400 blocks$/.test(document.getElementById('busy-text').textContent)")
    page.wait_for_function("""() => {
      const [part, whole] = [".bar i", ".bar"].map((one) => document.querySelector(one).getBoundingClientRect().width);
      return 0 < part && part < whole / 2;
    }""")
    page.locator("#stop").click()
    assert work.ended.wait(PATIENCE_S)
    assert 0 < work.blocks < BLOCKS
    page.wait_for_selector("#busy", state="hidden")
    assert page.locator("#headline").inner_text() == kept
    assert "stopped" in page.locator("#said").inner_text()
    context.close()


@pytest.mark.browser
def test_a_slow_question_is_given_up_for_the_one_that_a_reader_settles_on(
    work: Work, address: str, browser: Any
) -> None:
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE_S)
    page.goto(f"{address}/facts")
    page.wait_for_function("Number(document.documentElement.dataset.shown || 0) > 0")
    work.is_slow.set()
    page.locator("#c-words").fill("b200")
    page.locator("#c-words").press("Enter")
    page.wait_for_function("/^[1-9]\\d* of 400 blocks$/.test(document.getElementById('busy-text').textContent)")
    work.is_slow.clear()
    page.locator("#c-words").fill("gb200")
    page.locator("#c-words").press("Enter")
    assert work.ended.wait(PATIENCE_S)
    assert 0 < work.blocks < BLOCKS
    page.wait_for_function("document.documentElement.dataset.shown === '2' && !document.documentElement.dataset.asking")
    assert "gb200" in page.locator("#now tbody").first.inner_text().lower()
    assert page.locator("#said").inner_text() == ""
    context.close()


@pytest.mark.browser
def test_a_wrong_value_entered_before_the_first_answer_stays_with_its_error(
    work: Work, address: str, browser: Any
) -> None:
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE_S)
    work.is_slow.set()
    page.goto(f"{address}/compare")
    page.wait_for_function("/^[1-9]\\d* of 400 blocks$/.test(document.getElementById('busy-text').textContent)")
    work.is_slow.clear()
    page.locator("#c-ttft").fill("95x 1s")
    page.locator("#c-ttft").press("Enter")
    page.wait_for_selector("#e-ttft:not([hidden])")
    page.wait_for_function("!document.documentElement.dataset.asking")
    page.wait_for_timeout(500)
    assert page.locator("#c-ttft").input_value() == "95x 1s"
    assert "p95:1s" in page.locator("#e-ttft").inner_text()
    context.close()
