"""The ship's log: its sums are right, its kinds have the shares asked for, and a thought is checked word by word."""

from __future__ import annotations

import importlib.util
import itertools
import random
import sys
from collections import Counter
from types import ModuleType

import pytest

from rntp.corpus import documents, split
from rntp.recipe import CorpusSpec
from tests.gates import ROOT

FOLDER = ROOT / "recipes" / "must_think"


@pytest.fixture(scope="module")
def log() -> ModuleType:
    """The generator beside the recipe."""
    spec = importlib.util.spec_from_file_location("ships_log", FOLDER / "ships_log.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["ships_log"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_documents_have_their_shares_and_one_gold_day(log: ModuleType) -> None:
    some = list(itertools.islice(log.documents(3), 4000))
    kinds = Counter(one.kind.partition("-")[0] for one in some)
    shares = {"bare": 0.45, "dated": 0.20, "recap": 0.15, "useless": 0.16, "worked": 0.04}
    assert kinds.keys() == shares.keys()
    assert all(abs(kinds[kind] / len(some) - share) < 0.02 for kind, share in shares.items())
    for one in some:
        opening, _, rest = one.text.partition(" . ")
        start, legs = (
            log.DAYS.index(opening.split()[-1]),
            [int(word) for word in rest.split(" . ")[0].split() if word.isdigit()],
        )
        day = (start + sum(legs)) % 7
        assert one.text.endswith(f" on {log.DAYS[day]} , the day of {log.THINGS[day]} .")
        assert [one.text[mark:].startswith(" at last it came to ") for mark in one.marks] == [
            True
        ] * one.kind.startswith("bare")
    assert len({one.text for one in some}) > 0.99 * len(some)
    assert [one.text for one in itertools.islice(log.documents(3), 9)] == [one.text for one in some[:9]]


def test_thoughts_are_checked_word_by_word(log: ModuleType) -> None:
    chance = random.Random(0)  # noqa: S311 - a seeded test
    for n in range(1, 11):
        voyage = log.voyage(chance, n)
        context = voyage.told(["sailing"] * n)
        thought = log.worked(voyage, chance).split()
        assert log.checked(context, " ".join(thought)) == (True, True, True)
        day = log.DAYS[(log.DAYS.index(thought[4]) + 1) % 7]
        slipped = [*thought[:4], day, *thought[5:]]
        assert log.checked(context, " ".join(slipped)) == (True, False, True)
        assert log.checked(context, " ".join([*thought[:-1], "rain"])) == (True, True, False)
        assert log.checked(context, log.useless(voyage, chance)).steps is False
        assert log.checked(context, "") == (False, False, False)


def test_the_recipe_reads_its_generator() -> None:
    spec = CorpusSpec("generator", ("ships_log.py:documents",), options={"longest": 3}, held_out_fraction=0.2)
    some = list(itertools.islice(documents(spec, FOLDER, 1), 300))
    assert {one.kind for one in some if one.kind.startswith("bare")} == {"bare-1", "bare-2", "bare-3"}
    trained = {one.text for one in itertools.islice(split(spec, FOLDER, 1), 200)}
    assert not trained & {one.text for one in itertools.islice(split(spec, FOLDER, 2, held_out=True), 200)}
