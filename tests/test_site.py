"""The documentation site builds without a warning, and its pages fetch nothing from the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.gates import ROOT

_FETCHED = re.compile(
    r'<(?:script|img|iframe)[^>]+src="(https?:[^"]+)|<link[^>]+rel="stylesheet"[^>]+href="(https?:[^"]+)'
)


def test_the_site_builds_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=400,
        check=False,
    )  # fmt: skip
    assert (built.returncode, built.stderr.strip()) == (0, "")
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 20
    fetched = {
        address for page in pages for pair in _FETCHED.findall(page.read_text("utf-8")) for address in pair if address
    }
    assert fetched == set()
