"""The documentation site builds without a warning, and its pages fetch nothing from the network."""

from __future__ import annotations

import functools
import html
import logging
import os
import re
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.axe import issues
from tests.gates import ROOT, SOURCE, docs_module

_FETCHED = re.compile(
    r'<(?:script|img|iframe)[^>]+src="(https?:[^"]+)|<link[^>]+rel="stylesheet"[^>]+href="(https?:[^"]+)'
)


def built(folder: Path, every: int) -> Path:
    """The site, with every so many of the modules that the reference documents."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-d", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "SITE_EVERY": str(every)}, capture_output=True,
        text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr  # strict: 1 where there is a warning
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once; an eighth of the reference, which is most of the build."""
    return built(tmp_path_factory.mktemp("site"), 8)


def fetched(site: Path) -> set[str]:
    """Addresses that pages load something from."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    return {
        address for page in pages for pair in _FETCHED.findall(page.read_text("utf-8")) for address in pair if address
    }


def test_the_site_builds_strictly_and_fetches_nothing(site: Path) -> None:
    assert fetched(site) == set()


@pytest.mark.stress
def test_the_whole_site_builds_strictly_and_no_link_is_dead(tmp_path: Path) -> None:
    whole = built(tmp_path / "site", 1)
    assert (fetched(whole), dead_links(whole)) == (set(), [])
    reference = "".join(page.read_text("utf-8") for page in (whole / "reference").glob("*.html"))
    rooms = docs_module("reference")
    missing = [one for room in rooms.ROOMS for one in rooms.modules_of(room) if f'id="{one}"' not in reference]
    assert missing == []


def test_every_docstring_of_the_reference_is_read_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """What would stop the strict build of the whole reference, without drawing it."""
    import griffe

    rooms = docs_module("reference")
    loader = griffe.GriffeLoader(search_paths=[SOURCE], docstring_parser=griffe.Parser.numpy)
    packages = {name: loader.load(name) for name in ("computeledger", "rntp")}
    caplog.clear()
    n_read = 0
    for name in {one for room in rooms.ROOMS for one in rooms.modules_of(room)}:
        package, *path = name.split(".")
        left = [packages[package][".".join(path)] if path else packages[package]]
        while left:
            one = left.pop()
            n_read += one.docstring is not None and len(one.docstring.parsed) > 0
            left += [part for key, part in one.members.items() if key[0] != "_" and not part.is_alias]
    assert n_read > 2000
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []


def test_the_plots_of_the_book_draw_and_move(site: Path, browser: Any) -> None:
    """Every live plot, in Chromium: a drawing at each end of its slider, and another one there."""
    asked = [path for path in sorted((ROOT / "docs" / "book").glob("*.md")) if "<!-- plot:" in path.read_text("utf-8")]
    assert len(asked) == len(list((ROOT / "docs" / "book").glob("[0-9]*.md")))  # every chapter has one
    errors: list[str] = []
    tab = browser.new_page(viewport={"width": 390, "height": 844})
    tab.on("pageerror", lambda error: errors.append(str(error)))
    for path in asked:
        tab.goto((site / "book" / f"{path.stem}.html").as_uri())
        lines = tab.locator("figure.live .live-plot :is(.scatterlayer, .barlayer)")
        lines.first.wait_for()
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), path.name
        drawn = [lines.first.inner_html()]
        for key in ("Home", "End"):
            tab.locator("figure.live input").press(key)
            drawn.append(lines.first.inner_html())
        assert all(drawn), path.name
        assert drawn[1] != drawn[2], path.name
    tab.close()
    assert errors == []


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


#: A start page, a chapter with a plot, long code and tables, wide tables, an example.
_READ = ("index", "book/2-batch", "cli", "validation", "notebook")


_WINDOWS = tuple(product((1280, 390), ("light", "dark")))


@pytest.mark.parametrize(
    ("width", "scheme", "read", "searched"),
    [
        (1280, "light", _READ[:3], _READ[:1]),
        (390, "dark", _READ[3:] + _READ[1:2], _READ[1:2]),
        *(pytest.param(*one, _READ, _READ, marks=pytest.mark.stress) for one in _WINDOWS),
    ],
)
def test_axe_finds_no_serious_issue_on_the_site(
    width: int, scheme: str, read: tuple[str, ...], searched: tuple[str, ...], site: Path, browser: Any
) -> None:
    """Also with the search open, which is the same on every page; and nothing is wider than the window."""
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    served = functools.partial(_Quiet, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), served)  # a page that is read as a file has no search
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = []
    tab = context.new_page()  # one for all: what it has compiled stays
    for name in read:
        tab.goto(f"http://127.0.0.1:{server.server_port}/{name}.html")
        tab.wait_for_selector("[data-md-component=search]:not([hidden])", state="attached")
        # nothing fades in: axe measures contrast
        tab.add_style_tag(content="*, ::before, ::after { transition: none !important; animation: none !important; }")
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        for is_searching in (False, True) if name in searched else (False,):
            tab.evaluate("on => { document.getElementById('__search').checked = on; }", is_searching)
            found += [(name, is_searching, *one) for one in issues(tab, tags)]
    context.close()
    server.shutdown()
    server.server_close()
    assert found == []


def dead_links(site: Path) -> list[tuple[str, str]]:
    """Pages, files and anchors that the site itself should have; addresses elsewhere are not asked."""
    pages = {path: path.read_text("utf-8") for path in site.rglob("*.html") if path.name != "404.html"}
    names = {path: set(re.findall(r'\sid="([^"]+)"', text)) for path, text in pages.items()}
    dead = []
    for path, text in pages.items():
        for href in set(re.findall(r'<a\s[^>]*href="([^"]+)"', text)):
            address, _, anchor = html.unescape(href).partition("#")
            if re.match(r"[a-z]+:|//", address):
                continue
            there = (path.parent / unquote(address)).resolve() if address else path
            there = there / "index.html" if there.is_dir() else there
            if not there.is_file() or (anchor and there in names and unquote(anchor) not in names[there]):
                dead.append((path.name, href))
    return dead


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    assert dead_links(site) == []


def test_the_site_is_never_built_quietly() -> None:
    """With ``-q`` warnings are not counted, and the strict build lets dead links through."""
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    builds = [line.split() for line in lines if line.startswith("\t") and "mkdocs build" in line]
    assert builds and all(set(words).isdisjoint({"-q", "--quiet", "--no-strict"}) for words in builds)
    assert "\nstrict: true\n" in (ROOT / "mkdocs.yml").read_text("utf-8")


def test_addresses_of_the_app_lead_to_it_where_the_app_shows_the_site(site: Path, browser: Any) -> None:
    """Below /docs/ they are links without a port; elsewhere text; with a setting, links from the build on."""
    page = (site / "book" / "2-batch.html").read_text("utf-8")
    tab = browser.new_page()
    tab.route("http://app.test/**", lambda route: route.fulfill(
        path=site / route.request.url.partition("/docs/")[2].partition("?")[0]))  # fmt: skip
    tab.goto("http://app.test/docs/book/2-batch.html", wait_until="domcontentloaded")
    assert str(tab.locator("a.app-link").first.evaluate("link => link.href")).startswith("http://app.test/serve?model=")
    tab.goto((site / "book" / "2-batch.html").as_uri(), wait_until="domcontentloaded")
    assert tab.locator("a.app-link").first.get_attribute("href") is None
    tab.close()
    assert page.count('class="app-link"') == 1
    text = "in the app (<code>computeledger web</code>): <code>/frontier?spec=1 GW</code>"
    links = docs_module("app_links").linked(text, "https://app.test/")
    assert 'href="https://app.test/frontier?spec=1%20GW"' in links


_WRAPPED = """() => [...document.querySelectorAll(".language-python pre code")].filter((code) => {
  const lines = code.textContent.trimEnd().split("\\n"), style = getComputedStyle(code);
  const height = code.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
  return lines.every((line) => line.length <= 120) && height > (lines.length + 0.5) * parseFloat(style.lineHeight);
}).length"""


def test_code_fits_a_desk_and_printed_tables_keep_their_columns_on_a_phone(site: Path, browser: Any) -> None:
    """Lines of 120 characters stand on one line at 1440 px; at 390 px a table scrolls within its frame."""
    tab = browser.new_page(viewport={"width": 1440, "height": 900})
    for name in ("book/7-three-ledgers", "book/9-frontier"):
        tab.goto((site / f"{name}.html").as_uri())
        assert tab.evaluate(_WRAPPED) == 0, name
    tab.set_viewport_size({"width": 390, "height": 844})
    printed = tab.locator(".language-text pre code.columns").first
    assert printed.evaluate("one => [getComputedStyle(one).whiteSpace, one.tabIndex]") == ["pre", 0]
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.close()


def test_a_phone_wraps_help_and_tables_and_a_link_opens_what_is_closed(site: Path, browser: Any) -> None:
    """Options stand above their words, wide tables are cards, and nothing of either is moved aside."""
    tab = browser.new_page(viewport={"width": 390, "height": 844})
    tab.goto(f"{(site / 'cli.html').as_uri()}#computeledger-serve")
    opened = tab.locator("details.printed[open]")
    opened.locator(".entry").first.wait_for()
    assert opened.count() == 1 and opened.locator(".entry").count() > 30
    assert opened.locator("pre > code").evaluate("one => one.scrollWidth <= one.clientWidth + 1")
    assert "--tpot" in str(opened.inner_text())
    tab.goto((site / "sources.html").as_uri())
    tab.locator("table.cards td[data-label=what]").first.wait_for()
    assert tab.locator(".md-typeset__scrollwrap.aside").count() == 0
    tab.close()


def test_long_printed_blocks_are_closed_and_lose_no_line() -> None:
    folds = docs_module("folds")
    block = '<div class="language-text highlight"><pre><span></span><code>{}</code></pre></div>'
    short, long = (block.format("\n".join(map(str, range(lines)))) for lines in (folds.SHOWN, folds.SHOWN + 1))
    assert folds.folded(short) == short
    assert folds.folded(f"<p>{long}</p>") == (
        f'<p><details class="printed"><summary>0 <em>({folds.SHOWN + 1} lines)</em></summary>{long}</details></p>'
    )


def test_formulas_are_drawn_and_the_book_goes_on(site: Path) -> None:
    """Formulas are MathML, no code; every chapter leads to the next; no page knows a port."""
    chapters = sorted((site / "book").glob("[0-9]*.html"), key=lambda path: int(path.name.split("-")[0]))
    for chapter, following in pairwise(chapters):
        text = chapter.read_text("utf-8")
        assert f'href="{following.name}"' in text.partition("md-footer")[2], chapter.name
        assert ":8765" not in text
    for page in (site / "book").glob("*.html"):  # what is left as indented code would be a formula that was not read
        assert 'class="highlight"><pre><span></span><code>' not in page.read_text("utf-8"), page.name
    text = (site / "book" / "2-batch.html").read_text("utf-8")
    assert "<msup><mi>B</mi><mo>*</mo></msup>" in text
    assert "<mfrac><mrow><mi>F</mi></mrow><mrow><mi>W</mi></mrow></mfrac>" in text
