"""A package of somebody else's, installed as far as entry points go."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, offered: Mapping[str, Mapping[str, str]]) -> None:
    """Offer entry points, by group and name, of modules in a folder; what they import is forgotten after the test."""
    for module in {value.partition(":")[0] for names in offered.values() for value in names.values()}:
        monkeypatch.setitem(sys.modules, module, None)
        del sys.modules[module]
    about = folder / "offered-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
    groups = (
        [f"[{group}]", *(f"{name} = {value}" for name, value in names.items())] for group, names in offered.items()
    )
    (about / "entry_points.txt").write_text("\n".join(line for group in groups for line in [*group, ""]))
    monkeypatch.syspath_prepend(folder)
