"""No key of a command's JSON document goes unseen: the commands answer with the keys that are kept beside this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.json_keys import KEPT, commands, folded, keys_of

#: Answers that take seconds.
_LONG = {"compare", "compare-few", "validate", "simulate-serve-load", "invert-sheet", "plan-text"}
_QUESTIONS = [
    pytest.param(name, arguments, id=name, marks=[pytest.mark.stress] if name in _LONG else [])
    for name, arguments in commands().items()
]


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    """By name of the question."""
    return dict(json.loads(KEPT.read_text("utf-8")))


@pytest.mark.parametrize(("name", "arguments"), _QUESTIONS)
def test_a_command_answers_with_its_keys(name: str, arguments: list[str], kept: dict[str, Any], tmp_path: Path) -> None:
    assert folded(keys_of(arguments, tmp_path)) == kept[name]
