"""Drawing library and typeface that are shipped: the files that their README names."""

from __future__ import annotations

import hashlib
import re
from importlib import resources

import pytest
from plotly.offline import get_plotlyjs_version

from computeledger.interfaces.page import plotly_name, plotly_packed, plotly_script
from computeledger.interfaces.web.static_files import TYPEFACE, static_file


def recorded(name: str) -> str:
    """A row of the README's table."""
    text = resources.files("computeledger.interfaces").joinpath("vendored", "README.md").read_text("utf-8")
    found = re.search(rf"^\| {re.escape(name)} \| (.+) \|$", text, re.MULTILINE)
    assert found
    return found[1]


def test_the_library_is_the_one_that_its_readme_names() -> None:
    script = plotly_script().encode()
    assert hashlib.sha256(script).hexdigest() == recorded("SHA-256, unpacked")
    assert f"v{recorded('version')}\n".encode() in script[:200]
    assert recorded("version").split(".")[0] == get_plotlyjs_version().split(".")[0]
    assert len(plotly_packed()) < 500_000


def test_a_browser_gets_it_packed_and_keeps_it_for_good() -> None:
    answer = static_file(plotly_name(), {"accept-encoding": "gzip, br"})
    assert answer.body == plotly_packed()
    assert answer.headers["content-encoding"] == "gzip"
    assert "immutable" in answer.headers["cache-control"]
    assert static_file(plotly_name(), {}).body == plotly_script().encode()


@pytest.mark.parametrize("name", TYPEFACE)
def test_the_typeface_is_the_one_that_the_readme_names(name: str) -> None:
    answer = static_file(name, {})
    assert answer.media_type == "font/woff2"
    assert hashlib.sha256(answer.body).hexdigest() == recorded(f"SHA-256, {name}")
    assert "immutable" in answer.headers["cache-control"]
    assert name in static_file("app.css", {}).body.decode()


def test_what_may_change_is_asked_for_again_and_sent_once() -> None:
    first = static_file("app.js", {"accept-encoding": "gzip"})
    assert first.headers["cache-control"] == "no-cache"
    again = static_file("app.js", {"accept-encoding": "gzip", "if-none-match": first.headers["etag"]})
    assert (again.status_code, again.body) == (304, b"")
