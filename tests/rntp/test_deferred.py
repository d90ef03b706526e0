"""Packages that a library imports whether they are used or not load at their first use."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rntp.deferred import deferred


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a package with one module, that nothing has loaded."""
    package = tmp_path / "slow_to_load"
    package.mkdir()
    (package / "__init__.py").write_text("run, made = 'open', []\n")
    (package / "inner.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("slow_to_load", "slow_to_load.inner"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "slow_to_load"


def imported(name: str) -> Any:
    """What an import statement binds."""
    return importlib.import_module(name)


def test_a_package_loads_at_its_first_use_and_is_the_one_that_everybody_gets(slow: str) -> None:
    with deferred({slow: {"run": None}}):
        bound = imported(slow)
        assert importlib.util.find_spec(slow) is not None
        assert [bound.run] == [None]
    assert slow not in sys.modules
    assert bound.run == "open"
    imported(slow).made.append(1)
    assert bound.made == [1]
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        bound.absent  # noqa: B018


def test_what_is_used_while_it_is_deferred_is_refused(slow: str) -> None:
    with deferred({slow: {}}):
        with pytest.raises(AttributeError, match=r"slow_to_load\.run is asked for while slow_to_load is deferred"):
            imported(slow).run  # noqa: B018
        with pytest.raises(ModuleNotFoundError):
            imported(f"{slow}.inner")
    assert imported(f"{slow}.inner").value == 7


def test_a_package_that_is_loaded_or_absent_stays_so(slow: str) -> None:
    real = imported(slow)
    with deferred({slow: {"run": None}, "no_such_package_here": {}}):
        assert imported(slow) is real and type(real) is ModuleType
        with pytest.raises(ModuleNotFoundError):
            imported("no_such_package_here")
    assert sys.modules[slow] is real


def test_an_error_within_leaves_nothing_behind(slow: str) -> None:
    with pytest.raises(KeyError), deferred({slow: {}}):
        raise KeyError
    assert slow not in sys.modules
