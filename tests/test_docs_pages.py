"""The pages that docs/generate.py writes are what it would write now."""

from __future__ import annotations

from itertools import zip_longest

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
