"""Pictures that the pages show, taken from the app and from the built site, in Chromium.

``make docs-pictures`` writes them to ``docs/images/app`` (four pages of the app) and ``docs/images/plots`` (every live
plot, for readers without JavaScript). Take them again when the app or a plot looks different. Light scheme, WebP.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, sync_playwright

DOCS = Path(__file__).resolve().parent
IMAGES = DOCS / "images"
SITE = DOCS.parent / "site"
#: Pages of the app, each with its address.
APP_PAGES = {
    "life": "life",
    "serve": "serve?model=deepseek-ai/DeepSeek-V3&system=h200-nvl8",
    "rl": "rl",
    "frontier": "frontier",
}
_WIDTH, _HEIGHT = 1280, 1240
_QUALITY = 70
_START_S = 120.0
#: The app has answered, and every plot in the window is drawn.
_DRAWN = """() => {
  const { shown, asking } = document.documentElement.dataset;
  const plots = [...document.querySelectorAll(".canvas")];
  const seen = plots.filter((one) => one.getBoundingClientRect().top < innerHeight);
  return shown && !asking && seen.length > 0 && seen.every((one) => one.querySelector(".main-svg"));
}"""
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
_ASKED = re.compile(r"<!-- plot: (\w+) -->")


def plots_of(pages: Path) -> dict[str, str]:
    """Live plots by name, each with a page that shows it; of several, the one deepest in the folders."""
    found: dict[str, str] = {}
    for path in sorted(pages.rglob("*.md"), key=lambda one: len(one.parts)):
        for name in _ASKED.findall(path.read_text("utf-8")):
            found[name] = path.relative_to(pages).with_suffix(".html").as_posix()
    return found


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def served_site() -> Iterator[str]:
    """Address of the built site while it is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def served_app() -> Iterator[str]:
    """Address of the app while it runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "computeledger", "web", "--port", str(port), "--no-browser", "--workers", "1"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 - the project's own app
    try:
        wait_for(address)
        yield address
    finally:
        running.terminate()
        running.wait(10)


def wait_for(address: str) -> None:
    """Return when an address answers; an app that does not start in two minutes is an error."""
    end = time.monotonic() + _START_S
    while True:
        try:
            with urlopen(address):  # noqa: S310 - this machine
                return
        except URLError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def write_picture(tab: Page, clip: dict[str, float], path: Path) -> None:
    """Part of a page as WebP, which Chromium itself writes."""
    asked = {"format": "webp", "quality": _QUALITY, "clip": {**clip, "scale": 1}, "captureBeyondViewport": True}
    data: Any = tab.context.new_cdp_session(tab).send("Page.captureScreenshot", asked)["data"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(data))
    sys.stdout.write(f"{path.relative_to(DOCS)}: {path.stat().st_size / 1e3:.0f} kB\n")


def take_app(browser: Browser) -> None:
    """The top of four pages of the app, with their answers."""
    # the app forbids what a wait from outside needs: a script made from text
    tab = browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT}, bypass_csp=True)
    with served_app() as address:
        for name, page in APP_PAGES.items():
            tab.goto(f"{address}/{page}")
            tab.wait_for_function(_DRAWN, timeout=1e3 * _START_S)
            write_picture(tab, {"x": 0, "y": 0, "width": _WIDTH, "height": _HEIGHT}, IMAGES / "app" / f"{name}.webp")
    tab.close()


def take_plots(browser: Browser) -> None:
    """Every live plot where its slider stands first; title, slider and caption are the page's own words."""
    tab = browser.new_page(viewport={"width": 1000, "height": 800})
    with served_site() as address:
        for name, page in plots_of(DOCS).items():
            tab.goto(f"{address}/{page}")
            plot = tab.locator(f"#plot-{name} .live-plot")
            plot.locator(".main-svg").first.wait_for()
            if box := plot.bounding_box():
                clip = {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}
                write_picture(tab, clip, IMAGES / "plots" / f"{name}.webp")
    tab.close()


def main() -> None:
    """Take them all."""
    chromium = which("chromium-headless-shell") or which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_ARGUMENTS))
        take_plots(browser)
        take_app(browser)
        browser.close()


if __name__ == "__main__":
    main()
