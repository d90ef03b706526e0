"""The live page of a watched server, in a browser."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from computeledger.actuals.live.endpoint import address_of
from computeledger.interfaces.watch.loop import Clock, Watch, steps
from computeledger.interfaces.watch.page import Board
from computeledger.interfaces.watch.served import serve_board
from computeledger.questions.answers.watch.answer import WatchAnswer
from computeledger.questions.answers.watch.session import new_session
from computeledger.questions.watch import WatchQuestion
from tests.axe import issues
from tests.interfaces.test_watch import MODEL, Machine, vllm


def watched() -> list[WatchAnswer]:
    """Three answers 10 s apart: a server of 20 sequences that becomes slower."""
    tokens, scrapes = 0.0, [vllm()]
    for gap_s in (0.02, 0.03, 0.05):
        tokens += 20 * 10.0 / gap_s
        scrapes.append(vllm(tokens, tokens / 250, gap_s))
    machine = Machine(*scrapes)
    question = WatchQuestion(urls=("http://gpu-1:8000",), every=10.0, **MODEL)
    session = new_session(question, [address_of(one) for one in question.urls])
    with asyncio.Runner() as runner:
        clock = Clock(lambda: machine.now_s, machine.wait)
        return list(steps(Watch(session, machine.fetch, runner, clock), 4))[1:]


@pytest.fixture(scope="module")
def answers() -> list[WatchAnswer]:
    """In a thread of their own: a browser's tests leave a loop running in this one."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(watched).result()


def test_it_takes_what_is_new_and_says_when_nothing_comes(answers: list[WatchAnswer], tab: Any) -> None:
    """Figures and curves move without loading the page anew."""
    board = Board(every_s=0.1)
    port, stop = serve_board(board, 0)
    begun = datetime.datetime(2026, 11, 28, 12, tzinfo=datetime.UTC)
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    try:
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.get_by_text("No scrape has been answered yet").wait_for()
        board.show(answers[0], begun)
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.locator("[data-plot=tpot_s] .scatterlayer .point").first.wait_for()
        tab.evaluate("window.isSamePage = true")
        for n, answer in enumerate(answers[1:], 1):
            board.show(answer, begun + datetime.timedelta(seconds=10 * n))
        tab.wait_for_function("document.querySelectorAll('[data-plot=tpot_s] .scatterlayer .point').length === 3")
        last = answers[-1].row("tpot_s")
        assert last is not None
        row = next(one for one in answers[-1].view().tables[0].rows if one[0] == last.label)
        assert row[1] in tab.locator("tbody tr", has_text=last.label).first.inner_text()
        assert tab.locator("p.lead, h1").all_inner_texts()
        assert tab.evaluate("window.isSamePage")
        assert issues(tab, ["wcag2a", "wcag2aa"]) == []
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        board.show(
            dataclasses.replace(answers[-1], silence="no answer since 12:00:30 UTC (status 404, 3 times)"), begun
        )
        tab.locator("#live[data-silent]", has_text="no answer since 12:00:30 UTC").wait_for()
        tab.locator(".lead", has_text="status 404, 3 times").wait_for()
        board.show(answers[-1], begun + datetime.timedelta(seconds=40))
        tab.locator("#live:not([data-silent])", has_text="Live: updated").wait_for()
    finally:
        stop()
    tab.get_by_text("does not answer since").wait_for()
    assert errors == []
