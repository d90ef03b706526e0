"""A watched server that no longer answers: nothing of what it did last is shown as what it does."""

from __future__ import annotations

import asyncio
import datetime
import io
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from computeledger.actuals.live.endpoint import address_of
from computeledger.errors import EndpointError
from computeledger.interfaces.cli import main
from computeledger.interfaces.cli.watch import print_screenful
from computeledger.interfaces.fitting import Page
from computeledger.interfaces.view import brief
from computeledger.interfaces.watch.dashboard import dashboard
from computeledger.interfaces.watch.exposition import Collector
from computeledger.interfaces.watch.loop import Clock, Watch, steps
from computeledger.interfaces.watch.page import Board
from computeledger.questions.answers.watch.answer import WatchAnswer
from computeledger.questions.answers.watch.session import new_session
from computeledger.questions.watch import WatchQuestion
from tests.commands import call
from tests.interfaces.metrics_server import metrics_server, text
from tests.interfaces.test_watch import MODEL, Machine, spans

DOWN = EndpointError("http://gpu-1:8000/metrics: answers with status 404")
SAID = r"no answer since \d\d:\d\d:\d\d UTC \(status 404, 3 times\)"
LLAMA = [f"llamacpp:tokens_predicted_total {64 * n}\nllamacpp:tokens_predicted_seconds_total {2 * n}\n" for n in (1, 2)]


@pytest.fixture(autouse=True)
def own_loop() -> Iterator[None]:
    """No loop of others: tests of a browser in the same process leave theirs running."""
    held = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(held)


def answered(*texts: str | EndpointError, **asked: object) -> list[WatchAnswer]:
    """What each scrape of these says."""
    machine = Machine(*texts)
    question = WatchQuestion(urls=("http://gpu-1:8000",), every=10.0, **(MODEL | asked))
    session = new_session(question, [address_of(one) for one in question.urls])
    with asyncio.Runner() as runner:
        clock = Clock(lambda: machine.now_s, machine.wait)
        return list(steps(Watch(session, machine.fetch, runner, clock), len(texts)))


@pytest.fixture(scope="module")
def found() -> list[WatchAnswer]:
    """Two answers, then three failures; in a thread of its own, before whose tests a browser's loop may be running."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(answered, *spans(0.02), DOWN, DOWN, DOWN).result()


def test_a_dead_server_is_the_headline_and_has_no_figures(found: list[WatchAnswer]) -> None:
    before, after = found[1], found[-1]
    assert before.row("tpot_s").actual == pytest.approx(0.02)
    assert before.silence == "" and "no answer" not in before.view().headline
    view = after.view()
    assert re.search(SAID, view.headline) and re.search(SAID, brief(view))
    assert view.title.startswith("No answer since ")  # the page's heading, and the browser's tab
    assert not view.tiles and view.evidence is None and after.binding is None and not after.levers
    assert after.rows and all(one.actual is None and one.predicted is not None for one in after.rows)


def test_the_page_and_prometheus_say_that_it_is_dead(found: list[WatchAnswer]) -> None:
    board = Board()
    for answer in found:
        board.show(answer, datetime.datetime.now(datetime.UTC))
    assert re.search(rf'id="live"[^>]*data-silent="{SAID}">no answer since', board.page(is_whole=False))
    samples = {
        (one.name, *one.labels.values()): one.value for each in Collector(board).collect() for one in each.samples
    }
    assert samples["computeledger_endpoint_up", "http://gpu-1:8000/metrics"] == 0.0
    assert not any(key[1:] == ("actual",) for key in samples) and any(key[1:] == ("median",) for key in samples)
    assert not any("ratio" in key[0] and "over" in key[0] for key in samples)
    assert "computeledger_endpoint_up" in {one["targets"][0]["expr"] for one in dashboard()["panels"]}


def test_an_address_that_never_answered_says_so_everywhere(tmp_path: Path) -> None:
    with metrics_server(text("", "404 Not Found")) as server:
        done = call(main, ["watch", server.url, "--every", "0.1s", "--scrapes", "3"], tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert re.search(SAID, done.stderr)
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and all(
        re.match(r"\d\d:\d\d:\d\d  http.*no answer since .*status 404", one) for one in lines
    )
    board, silent = Board(), new_session(WatchQuestion(urls=("http://h:1",)), [address_of("http://h:1")]).watched[0]
    silent.fail("http://h:1/metrics: answers with status <404>")
    board.hear_nothing([silent.endpoint])
    assert "(status &lt;404&gt;, once)" in board.page(is_whole=True)
    assert [one.value for each in Collector(board).collect() for one in each.samples] == [0.0, 1.0]


def test_a_failure_between_answers_is_a_line_with_its_time(tmp_path: Path) -> None:
    first, second = spans(0.02)
    with metrics_server(text(first), text("", "404 Not Found"), text(second)) as server:
        done = call(main, ["watch", server.url, "--every", "0.1s", "--scrapes", "3"], tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 3 and all(re.match(r"\d\d:\d\d:\d\d  ", one) for one in lines)
    assert ["no answer since" in one for one in lines] == [False, True, False]


def test_a_screen_is_cut_to_the_terminal_from_the_headline_on(found: list[WatchAnswer]) -> None:
    view = found[1].view()
    out = Page(file=io.StringIO(), width=100)
    print_screenful(view, 12, out)
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 11 and lines[0].startswith("vLLM at http://gpu-1:8000")
    assert re.fullmatch(r"\.\.\. \d+ lines more: --serve PORT shows all of it on a page", lines[-1])


def test_what_a_prediction_of_llama_cpp_lacks_is_said() -> None:
    last = answered(*LLAMA)[-1]
    wanted = "the metrics of llama.cpp tell no lengths of requests: add --input-tokens and --output-tokens"
    assert any(wanted in one for one in last.remarks), last.remarks
    half = answered(*LLAMA, input_tokens=64)[-1]
    assert any("lengths of requests: add --output-tokens" in one for one in half.remarks)
