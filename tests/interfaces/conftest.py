"""The app, served, and its pages in a browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interfaces.driving import settled


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The app, served by a thread of this process on a free port."""
    import uvicorn

    from computeledger.interfaces.web.app import create_app

    server = uvicorn.Server(uvicorn.Config(create_app(), port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


def fresh(browser: Any) -> Any:
    """A page in a browser profile of its own."""
    context = browser.new_context(bypass_csp=True, accept_downloads=True)
    context.set_default_timeout(120_000)  # a machine that trains beside it answers late
    return context.new_page()


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[Any]:
    """A page for one test after another: its process, and what it has compiled of the plots' library, stay."""
    page = fresh(browser)
    yield page
    page.context.close()


@pytest.fixture
def visit(browser: Any, tab: Any, address: str) -> Iterator[Any]:
    """Open a page of the app as a new reader, in a profile that holds nothing; console errors fail the test."""
    pages, errors = [], []

    def heard(message: Any) -> None:
        if message.type == "error":
            errors.append(message.text)

    def failed(error: Any) -> None:
        errors.append(str(error))

    def go(path: str, width: int = 1280, scheme: str = "light") -> Any:
        page = tab if tab.url == "about:blank" else fresh(browser)
        pages.append(page)
        page.on("console", heard)
        page.on("pageerror", failed)
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(media="null", color_scheme=scheme, reduced_motion="null")
        page.mouse.move(0, 0)
        page.goto(address + path)
        settled(page, "0")
        return page

    yield go
    for page in pages:
        if page is not tab:
            page.context.close()
    if tab.url != "about:blank":
        tab.evaluate("localStorage.clear(), sessionStorage.clear()")
        tab.context.clear_cookies()
        tab.goto("about:blank")
        tab.remove_listener("console", heard)
        tab.remove_listener("pageerror", failed)
    assert [one for one in errors if "422" not in one] == []
