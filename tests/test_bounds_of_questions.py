"""Every number that a question or a plan takes has an upper bound, and a number beyond it is one line that says it."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Iterator

import pytest

import computeledger.questions
import computeledger.workloads.questions
from computeledger.economics.plan.keys import KINDS, SECTIONS, TOP, TRAFFIC
from computeledger.errors import QuantityError
from computeledger.fields import MOST_OF, SWITCH, TEXT, TEXTS, WHOLE, Asked, Field, fields_of, read_value
from computeledger.interfaces.cli import main
from computeledger.units import DIMENSIONS


def questions(parent: type[Asked] = Asked) -> Iterator[type[Asked]]:
    for package in (computeledger.questions, computeledger.workloads.questions):
        for one in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if not one.ispkg:
                importlib.import_module(one.name)
    for child in parent.__subclasses__():
        yield child
        yield from questions(child)


def numbers() -> dict[str, Field]:
    """Declared numbers of every question, and of every section of a plan."""
    found = {f"{one.__name__}.{name}": field for one in questions() for name, field in fields_of(one).items()}  # type: ignore[arg-type]
    tables = {**SECTIONS, "top": TOP, "traffic": TRAFFIC, "kinds": KINDS}
    found |= {f"[{part}] {name}": field for part, keys in tables.items() for name, field in keys.items()}
    return {name: one for name, one in found.items() if one.dimension not in (TEXT, SWITCH, TEXTS)}


def test_every_number_of_every_question_and_plan_has_an_upper_bound() -> None:
    found = numbers()
    assert len(found) > 200
    assert [name for name, one in found.items() if not math.isfinite(one.largest)] == []
    assert set(MOST_OF) == {*DIMENSIONS, WHOLE}


@pytest.mark.parametrize(("name", "one"), numbers().items(), ids=str)
def test_a_number_beyond_its_bound_is_refused_with_it(name: str, one: Field) -> None:
    beyond = max(2 * one.largest, one.largest + 2)
    with pytest.raises(QuantityError, match="at most"):
        read_value(one, [beyond] if one.is_list else beyond, name)


@pytest.mark.parametrize(
    "command",
    [
        ["pretrain", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--tokens", "1e40"],
        ["serve", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--price", "$1e12/h"],
        ["rl", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--rollout-tokens", "1e30"],
    ],
    ids=" ".join,
)
def test_a_slip_of_the_finger_is_one_line(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(command)
    printed = capsys.readouterr()
    assert stopped.value.code == 2 and "must be at most" in printed.err and printed.err.count("\n") == 1
