"""How fast the app answers: a drag on Serve and Life in Chromium, first use and its bytes, twenty users, memory.

    python benchmarks/web.py [--json] [--moves 100] [--rounds 12] [--questions 1000]

The app runs as users start it; every move asks a question it has not seen. Moves are of sliders, rounds those of the
twenty users, questions those between which the growth of the memory is taken.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

import httpx
import psutil
from playwright.sync_api import Page, sync_playwright

USERS, PAUSE_S = 20, 1.0
#: Controls that are dragged in turn: each move recomputes another part of the answer, from the middle of its slider.
DRAGS = {
    "serve": ("batch", "input-tokens", "output-tokens", "price"),
    "life": ("inference.rate", "rl.rollout", "pretraining.tokens", "price", "inference.output", "rl.steps"),
}
PLACES = range(400, 700)
#: A batch of 4 to 48 and outputs of 128 to 1,024 tokens: more does not fit beside the other values and is refused.
PLACES_OF = {"batch": range(150, 400), "inference.output": range(250, 500)}


@contextmanager
def running() -> Iterator[tuple[str, psutil.Process]]:
    """The app on a free port, and its process."""
    command = [sys.executable, "-m", "computeledger", "web", "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own line
    assert process.stdout is not None
    found = re.search(r"http://\S+:\d+", process.stdout.readline())
    assert found is not None
    while True:
        with suppress(httpx.TransportError):
            if httpx.get(f"{found[0]}/static/icon.svg").status_code == 200:
                break
    try:
        yield found[0], psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(20)


@dataclass(frozen=True, slots=True)
class FirstUse:
    """A page in a browser that was never there."""

    #: From opening the address until the controls are at work and the first question is asked.
    controls_s: float
    #: From then until an answer stands with its first plot drawn; the other plots follow one by one.
    first_plot_s: float
    #: What was sent for the page with every plot drawn: headers, styles, scripts, answer.
    page_bytes: float


def first_use(page: Page, address: str, name: str) -> FirstUse:
    """Open a page for the first time."""
    start = time.perf_counter()
    page.goto(f"{address}/{name}", wait_until="commit")
    page.wait_for_function("document.documentElement.dataset.asking || document.documentElement.dataset.shown")
    controls_s = time.perf_counter() - start
    page.wait_for_selector(".canvas .main-svg")
    first_plot_s = time.perf_counter() - start - controls_s
    page.wait_for_function("[...document.querySelectorAll('.canvas')].every((one) => one.querySelector('.main-svg'))")
    sent = page.evaluate(
        "['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))"
        ".reduce((sum, one) => sum + one.transferSize, 0)"
    )
    return FirstUse(controls_s, first_plot_s, sent)


def drag_s(page: Page, address: str, name: str, moves: int) -> list[tuple[float, float]]:
    """From a slider's movement to the updated plots, for each move to a place where the slider never was.

    The first time ends when every plot in the window is drawn and shown, beside every figure and table of the page; the
    second when those up to 200 pixels outside the window, which the page draws once the browser is idle, are drawn too.
    Plots further away are drawn when they come near, and count in neither.
    """
    page.goto(f"{address}/{name}")
    page.wait_for_selector(".canvas .main-svg")
    page.wait_for_function("document.documentElement.dataset.behind === undefined")
    script = """async ([control, place]) => {
      const root = document.documentElement, before = root.dataset.shown;
      const slider = document.querySelector(`.control[data-name="${control}"] .slider`);
      const start = performance.now();
      slider.value = place;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
      while (root.dataset.shown === before) await new Promise((go) => setTimeout(go, 1));
      await new Promise((go) => requestAnimationFrame(() => setTimeout(go, 0)));
      if (document.querySelector("#answer.stale")) throw new Error(`refused: ${slider.getAttribute("aria-valuetext")}`);
      const inView = performance.now() - start;
      while (root.dataset.behind !== undefined) await new Promise((go) => setTimeout(go, 1));
      return [inView / 1000, (performance.now() - start) / 1000];
    }"""
    draw = random.Random(1)  # noqa: S311
    places = {one: iter(draw.sample(PLACES_OF.get(one, PLACES), moves)) for one in DRAGS[name]}
    controls = itertools.islice(itertools.cycle(DRAGS[name]), moves)
    taken = [page.evaluate(script, [control, next(places[control])]) for control in controls]
    return [(in_view, with_near) for in_view, with_near in taken]


async def users_s(address: str, rounds: int) -> list[float]:
    """Waiting times of twenty users who each ask a new question a second after the last answer."""
    taken: list[float] = []

    async def user(number: int, client: httpx.AsyncClient) -> None:
        draw = random.Random(number)  # noqa: S311
        await asyncio.sleep(draw.uniform(0, PAUSE_S))
        for _ in range(rounds):
            page = "life" if draw.random() < 0.25 else "serve"
            query = (
                {"inference.rate": f"{draw.randint(1000, 90000)}K"}
                if page == "life"
                else {"batch": str(draw.randint(8, 400)), "input-tokens": str(draw.randint(500, 9000))}
            )
            start = time.perf_counter()
            answer = await client.get(f"{address}/view/{page}", params=query)
            taken.append(time.perf_counter() - start)
            assert answer.status_code in (200, 422), answer.text[:200]
            await asyncio.sleep(PAUSE_S)

    async with httpx.AsyncClient(timeout=60) as client:
        await asyncio.gather(*(user(number, client) for number in range(USERS)))
    return taken


def memory_growth(address: str, process: psutil.Process, questions: int) -> int:
    """Bytes that the app's memory grows by over the second half of some new questions [byte]."""
    held = []
    with httpx.Client(timeout=60) as client:
        for count in range(questions):
            answer = client.get(
                f"{address}/view/serve", params={"layout": "tp8", "batch": "32", "input-tokens": str(256 + count)}
            )
            assert answer.status_code == 200, answer.text[:200]
            if count + 1 in (questions // 2, questions):
                family = [process, *process.children(recursive=True)]
                held.append(int(sum(one.memory_info().rss for one in family)))
    return held[1] - held[0]


def p95(values: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(values, n=20)[-1]


def measure(chromium: str, moves: int, rounds: int, questions: int) -> dict[str, float]:
    """Every figure."""
    with running() as (address, process):
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1400, "height": 900}, bypass_csp=True)
            first = first_use(page, address, "life")
            drags = {name: drag_s(page, address, name, moves) for name in DRAGS}
            browser.close()
        users = asyncio.run(users_s(address, rounds))
        growth = memory_growth(address, process, questions)
    found = {f"slider_p95_{name}_s": p95([in_view for in_view, _ in values]) for name, values in drags.items()}
    return {
        "slider_p95_s": max(found.values()), **found,
        "slider_median_s": statistics.median([in_view for values in drags.values() for in_view, _ in values]),
        "slider_with_near_p95_s": max(p95([with_near for _, with_near in values]) for values in drags.values()),
        "first_interactive_s": first.controls_s + first.first_plot_s, **asdict(first),
        "users20_p95_s": p95(users), "memory_growth_bytes": growth,
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--moves", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--questions", type=int, default=1000)
    options = parser.parse_args()
    browsers = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
    chromium = next(filter(None, map(shutil.which, browsers)), None)
    if chromium is None:
        print("not measured: no Chromium on the path (Debian: apt-get install chromium)", file=sys.stderr)
        return
    figures = measure(chromium, options.moves, options.rounds, options.questions)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for key, value in figures.items():
        print(f"{key:24} {value:,.3f}")


if __name__ == "__main__":
    main()
