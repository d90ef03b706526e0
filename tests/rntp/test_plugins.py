"""Functions of a lab's own are found by name, wherever they stand, or refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from computeledger.errors import InputError
from rntp.plugins import CORPORA, JUDGES, POSITIONS, REWARDS, check_call, is_known, resolve, source_hash
from tests.rntp.installed import install

NONE: dict[str, Callable[..., Any]] = {}
MINE = "from beside import half\ndef value(scores, options):\n    return half\ndef other(scores):\n    return 1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "beside.py").write_text("half = 0.5\n")
    (tmp_path / "broken.py").write_text("def value(:\n")
    (tmp_path / "lacks.py").write_text("import no_such_package\n")
    (tmp_path / "stops.py").write_text("x = 1\n1 / 0\n")
    return tmp_path


@pytest.mark.parametrize("name", ["mine.py:value", "mine:value"])
def test_a_file_beside_the_recipe_is_read_and_may_import_those_beside_it(folder: Path, name: str) -> None:
    assert resolve(REWARDS, name, folder, NONE)(0, 0) == 0.5


def test_a_module_is_looked_for_where_the_command_is_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert resolve(REWARDS, "mine:value", folder / "elsewhere", NONE)(0, 0) == 0.5


def test_a_file_that_changed_is_read_anew_and_has_another_hash(folder: Path) -> None:
    before = resolve(REWARDS, "mine.py:value", folder, NONE)
    assert resolve(REWARDS, "mine.py:value", folder, NONE) is before
    first = source_hash(before, "mine.py:value")
    (folder / "mine.py").write_text(MINE.replace("return half", "return half + 1"))
    after = resolve(REWARDS, "mine.py:value", folder, NONE)
    assert after(0, 0) == 1.5 and source_hash(after, "mine.py:value") != first


def test_files_of_one_name_in_two_folders_are_two_modules(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(f"def value():\n    return {name!r}\n")
    assert [resolve(JUDGES, "mine:value", tmp_path / name, NONE)() for name in ("one", "two")] == ["one", "two"]


def test_an_installed_package_offers_functions_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder, monkeypatch, {REWARDS: {"half": "mine:value", "gone": "mine:values", "text": "mine:__doc__"}})
    assert resolve(REWARDS, "half", Path("elsewhere"), NONE)(0, 0) == 0.5
    assert is_known(REWARDS, "half", []) and not is_known(CORPORA, "half", [])
    for name, message in [
        ("hal", "unknown reward 'hal': did you mean 'half'?"),
        ("gone", "reward 'gone': mine:values: AttributeError: module 'mine' has no attribute 'values'"),
        ("text", "reward 'text': its entry point is no function"),
    ]:
        with pytest.raises(InputError, match=message):
            resolve(REWARDS, name, folder, NONE)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("valu", "unknown reward 'valu': did you mean 'value'? One of your own is MODULE:FUNCTION or FILE.py:FUNCTION"),
        ("mine.py:valu", "reward 'mine.py:valu': mine.py has no function 'valu': did you mean 'value'?"),
        ("mine.py:half", "mine.py has no function 'half': allowed: other, value"),
        ("mine.py:", "reward 'mine.py:': MODULE:FUNCTION or FILE.py:FUNCTION is needed"),
        ("other.py:value", "no file is named 'other.py' beside the recipe"),
        ("other:value", "no module is named 'other', installed or beside the recipe"),
        ("json.other:value", "no module is named 'json.other'"),
        ("not-a-name:value", "'not-a-name' is no name of a module"),
        ("broken.py:value", "broken.py cannot be imported: SyntaxError: "),
        ("lacks:value", "lacks cannot be imported: ModuleNotFoundError: No module named 'no_such_package' (lacks.py, "),
        ("stops.py:value", "stops.py cannot be imported: ZeroDivisionError: division by zero (stops.py, line 2)"),
    ],
)
def test_what_cannot_be_found_is_refused_in_one_line(folder: Path, name: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        resolve(REWARDS, name, folder, {"value": len})
    assert message in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_modul:value", "no module is named 'my_modul', installed or beside the recipe; did you mean 'my_module'?"),
        ("my_modul.py:value", "no file is named 'my_modul.py' beside the recipe; did you mean 'my_module.py'?"),
        ("my_module.py:rule", "my_module.py has no function 'rule': allowed: Rule_of_mine, every_line"),
        ("my_module:rule", "my_module has no function 'rule': allowed: Rule_of_mine, every_line"),
    ],
)
def test_what_is_nearly_right_is_named_and_no_import_of_a_file(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "my_module.py").write_text(
        "import numpy as np\nfrom rntp.corpus import Chunk\nfrom pathlib import Path\nfrom functools import reduce\n"
        "def every_line(chunk, spec, generator): return np.array([1])\nclass Rule_of_mine: pass\ndef _hidden(): ...\n"
    )
    with pytest.raises(InputError) as refused:
        resolve(POSITIONS, name, tmp_path, {})
    assert str(refused.value).endswith(message)


def test_a_function_with_other_arguments_is_refused(folder: Path) -> None:
    other = resolve(REWARDS, "mine.py:other", folder, NONE)
    with pytest.raises(InputError, match=r"'mine\.py:other': takes \(scores\), and is given \(scores, options\)"):
        check_call(REWARDS, "mine.py:other", other, "scores", "options")

    def generator(seed: int, count: int = 1) -> None: ...

    check_call(CORPORA, "generator", generator, seed=0, count=2)
    with pytest.raises(InputError, match="unexpected keyword argument 'cuont'"):
        check_call(CORPORA, "generator", generator, seed=0, cuont=2)


def test_a_function_without_a_file_is_refused_where_its_changes_must_be_noticed() -> None:
    with pytest.raises(InputError, match="has no file"):
        source_hash(len, "builtins:len")
