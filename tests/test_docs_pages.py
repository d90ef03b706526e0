"""The pages that docs/generate.py writes are what it would write now; the reference and the pictures are complete."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.gates import ROOT, docs_module

GENERATOR = docs_module("generate")


@pytest.mark.parametrize("name", sorted(GENERATOR.PAGES))
def test_a_generated_page_is_current(name: str) -> None:
    path = ROOT / "docs" / name
    assert path.exists(), f"docs/{name} is missing: run `make docs-pages`"
    was, now = path.read_text("utf-8").splitlines(), GENERATOR.PAGES[name]().splitlines()
    # a comparison of whole pages would print both; the lines that differ are enough
    stale = [number for number, pair in enumerate(zip_longest(was, now), 1) if pair[0] != pair[1]]
    assert stale == [], f"docs/{name} is not current: run `make docs-pages`"


def test_every_source_and_every_command_has_its_place() -> None:
    sources, commands = GENERATOR.sources_page(), GENERATOR.cli_page()
    assert all(f"| `{key}` |" in sources for key in GENERATOR.load_sources())
    assert "**unverified**" in sources
    for name in ("plan", "serve", "pretrain", "cost", "facts diff", "facts search", "facts show", "cite"):
        assert f"## computeledger {name}\n" in commands


def test_every_source_is_cited_by_something() -> None:
    assert [key for key, groups in GENERATOR.citations().items() if not groups] == []


def imported(page: Path) -> Iterator[tuple[str, str]]:
    """Modules and names that a page's blocks of Python import from the project."""
    for block in page.read_text("utf-8").split("```python\n")[1:]:
        code = block.partition("\n```")[0]
        if ">>> " in code:
            continue
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PROJECT:
                yield from ((node.module, one.name) for one in node.names)


PROJECT = ("computeledger", "rntp")


def test_the_reference_documents_every_public_name() -> None:
    """Names of ``import computeledger``, and what the pages import from it and from rntp."""
    rooms = docs_module("reference")
    documented = {one for room in rooms.ROOMS for one in rooms.modules_of(room)}
    names = rooms.public_names()
    assert len(names) > 100 and {name: home for name, home in names.items() if home not in documented} == {}
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name != "extending.md"]  # it patches packages
    shown = {
        (home, name)
        for page in pages
        for home, name in imported(page)
        if home not in PROJECT and ".interfaces" not in home  # commands, notebooks and the app are not called from code
    }
    assert len(shown) > 50
    missing = {(home, name) for home, name in shown if not {home, f"{home}.{name}"} & documented}
    # a package gives names of its modules on
    resolved = {(getattr(importlib.import_module(home), name).__module__, name) for home, name in missing}
    assert {(home, name) for home, name in resolved if home not in documented} == set()


def test_the_page_of_public_names_says_what_each_is() -> None:
    rooms = docs_module("reference")
    homes = rooms.public_names()
    rows = rooms.index_page(dict.fromkeys(homes.values(), "room")).splitlines()
    entries = [row.split(" | ") for row in rows if row.startswith("| [")]
    assert len(entries) == len(homes) and all(len(row) == 2 and row[1].endswith(". |") for row in entries)
    assert f"| [`serve`](room.md#{homes['serve']}.serve) | How fast and how cheap a model is served" in "\n".join(rows)


def test_every_plot_has_its_picture_and_pictures_stay_small() -> None:
    """`make docs-pictures` takes them; pages show all of them."""
    pictures = docs_module("pictures")
    images = ROOT / "docs" / "images"
    assert {path.stem for path in (images / "plots").iterdir()} == set(pictures.plots_of(ROOT / "docs"))
    assert {path.stem for path in (images / "app").iterdir()} == set(pictures.APP_PAGES)
    start = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert all(f"(images/app/{name}.webp)" in start for name in pictures.APP_PAGES)
    assert sum(path.stat().st_size for path in images.rglob("*.webp")) < 600_000
