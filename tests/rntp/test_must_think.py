"""Texts that must be thought about: their ends are right, kinds have their shares, thoughts are checked by word."""

from __future__ import annotations

import fnmatch
import itertools
import random
from collections import Counter

import numpy as np
import pytest

from computeledger.errors import InputError
from rntp.corpus import documents, split
from rntp.must_think import arithmetic, dance, families, mixed, program, puzzle, ships_log
from rntp.must_think import family as law
from rntp.must_think.families import FAMILIES, family_of
from rntp.recipe import CorpusSpec
from rntp.recipe_file import read_recipe
from tests.gates import ROOT

FOLDER = ROOT / "recipes" / "must_think"
MODULES = {"ship's log": ships_log, "dance": dance, "program": program, "arithmetic": arithmetic, "puzzle": puzzle}
SHARES = {"bare": 0.45, "dated": 0.20, "recap": 0.15, "useless": 0.16, "worked": 0.04}


def followed(name: str, opening: str, steps: list[str]) -> str:
    """The last state, worked out without the family's own rule."""
    words = opening.split()
    if name == "ship's log":
        return ships_log.DAYS[(ships_log.DAYS.index(words[-2]) + sum(map(int, steps))) % 7]
    if name == "dance":
        place = dance.PLACES.index(words[-2])
        for step in steps:
            place = dance.FIGURES[step][place]
        return dance.PLACES[place]
    if name == "arithmetic":
        shown = program.VALUES.index(words[-2]) + eval(" ".join(steps).replace("plus", "+").replace("minus", "-"))  # noqa: S307 - signs and digits
        return program.VALUES[shown % 7]
    if name == "puzzle":
        ring = list(puzzle.VESSELS)  # the vessel whose coin stands at each place
        hidden = ring.index(words[-2])
        for step in steps:
            axis = puzzle.VESSELS.index(step)
            for reach in (1, 2, 3):
                one, other = (axis + reach) % 7, (axis - reach) % 7
                ring[one], ring[other] = ring[other], ring[one]
        return puzzle.VESSELS[ring.index(puzzle.VESSELS[hidden])]
    held = {"x": program.VALUES.index(words[4]), "y": program.VALUES.index(words[7])}
    orders = {"up": "v + 1", "down": "v - 1", "skip": "v + 2", "double": "v * 2", "triple": "v * 3", "negate": "-v"}
    for step in steps:
        variable, order = step.split()
        held[variable] = eval(orders[order], {"v": held[variable]}) % 7  # noqa: S307 - the six formulas above
    return program.VALUES[held[words[1]]]


@pytest.mark.parametrize("name", MODULES)
def test_documents_have_their_shares_and_the_right_end(name: str) -> None:
    some = list(itertools.islice(MODULES[name].documents(3), 3000))
    kinds = Counter(one.kind.partition("-")[0] for one in some)
    assert kinds.keys() == SHARES.keys()
    assert all(abs(kinds[kind] / len(some) - share) < 0.03 for kind, share in SHARES.items())
    for one in some:
        opening, _, rest = one.text.partition(" . ")
        legs = rest.split(" , .")[0].split(" , ")
        state = followed(name, f"{opening} .", [" ".join(leg.split()[1:-1]) for leg in legs])
        ending = one.text.rpartition("</think>")[2].removesuffix(" .").rpartition(" . ")[2]
        assert set(ending.split()) & set(FAMILIES[name].states) == {state} and family_of(one.id).name == name
        assert len(one.marks) == one.kind.startswith("bare")
        assert all(law.read(one.text[:mark]).opening == f"{opening} ." for mark in one.marks)
    assert len({one.text for one in some}) > 0.99 * len(some)
    assert [one.text for one in itertools.islice(MODULES[name].documents(3), 9)] == [one.text for one in some[:9]]


def test_long_bare_stories_are_marked_among_several_of_a_document() -> None:
    some = list(itertools.islice(ships_log.documents(3, stories=3), 300))
    assert {len(one.marks) for one in some} >= {0, 1, 2}
    for one in some:
        assert one.text.count("the day of") == 3 and one.kind == f"{len(one.marks)} places"
        stories = [law.read(one.text[:mark]) for mark in one.marks]
        assert all(len(story.steps) >= 5 for story in stories)
        for mark, story in zip(one.marks, stories, strict=True):
            end = one.text[mark:].split()
            assert followed("ship's log", story.opening, list(story.steps)) == end[end.index("on") + 1]
    with pytest.raises(InputError, match="at least 1"):
        next(ships_log.documents(3, stories=0))


@pytest.mark.parametrize("name", FAMILIES)
def test_thoughts_are_checked_word_by_word(name: str) -> None:
    family, chance = FAMILIES[name], random.Random(0)  # noqa: S311 - a seeded test
    for n in range(1, 11):
        story = law.story_of(family, chance, n)
        context = story.told(["word"] * n)
        thought = law.oracle(family, context).split()
        assert law.checked(family, context, " ".join(thought)) == (True, True, True)
        first = 3 + len(story.steps[0].split())
        other = next(state for state in family.states if state != thought[first])
        slipped = [*thought[:first], other, *thought[first + 1 :]]
        assert law.checked(family, context, " ".join(slipped)) == (True, False, True)
        assert law.checked(family, context, " ".join([*thought[:-1], "rain"])) == (True, True, False)
        assert law.checked(family, context, law.useless(family, story, chance)).steps is False
        assert law.checked(family, context, "") == (False, False, False)
        assert law.read(f"some words . {context}") == story


def test_prose_stands_between_the_stories_and_is_marked_too() -> None:
    some = list(itertools.islice(mixed.documents(1), 2000))
    kinds = Counter(one.kind.partition("/")[0] for one in some)
    assert abs((kinds["prose"] + kinds["musing"]) / 2000 - 0.25) < 0.04 and set(mixed.TOLD) < kinds.keys()
    for one in some:
        for mark in one.marks:
            if one.kind == mixed.PROSE:
                assert one.text[:mark].endswith(" .") and one.text[mark + 1 :].partition(" .")[0] in mixed.sentences()
            else:
                assert law.read(one.text[:mark]).steps and one.text[mark:].startswith((" at last", " as the", " then"))


@pytest.mark.parametrize("name", ["arithmetic", "puzzle"])
def test_where_a_story_begins_says_nothing_of_its_end(name: str) -> None:
    family, chance = FAMILIES[name], random.Random(0)  # noqa: S311 - a seeded test
    steps = sorted({family.step(chance) for _ in range(2000)})
    move = np.zeros((7, 7))
    for place, state in enumerate(family.states):
        for step in steps:
            move[place, family.states.index(family.follow("", state, step))] += 1 / len(steps)
    after = np.linalg.matrix_power(move, 5)
    assert -np.sum(after * np.log(after), axis=1).min() > np.log(7) - 1e-6
    assert -np.sum(move * np.log(move + (move == 0)), axis=1).min() > np.log(6) - 1e-9  # nor do all steps but one


def test_documents_of_several_families_are_those_of_each() -> None:
    some = list(itertools.islice(families.documents(5, names=("dance", "puzzle")), 400))
    assert {one.kind.partition("/")[0] for one in some} == {"dance", "puzzle"}
    for one in some:
        assert family_of(one.id).name == one.kind.partition("/")[0]
        for mark in one.marks:
            family, context = family_of(one.id), one.text[:mark]
            assert law.oracle(family, context).split()[-1] in one.text[mark:].split()
    with pytest.raises(InputError, match="dance"):
        next(families.documents(0, names=("dances",)))


def test_ordinals_may_begin_anywhere() -> None:
    some = itertools.islice(ships_log.documents(0, shifted=True, longest=5), 300)
    seen = {law.read(one.text[: one.marks[0]]).ordinals[0] for one in some if one.marks}
    assert len(seen) > 15


@pytest.mark.parametrize(("options", "said"), [({"longest": 21}, "1 to 20"), ({"shares": {"dated": 2}}, "at most 1")])
def test_a_law_that_cannot_be_told_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        next(ships_log.documents(0, **options))


#: What names a recipe, and is none.
NO_RECIPE = ("mixture",)


@pytest.mark.parametrize(
    "path", sorted(one for one in FOLDER.glob("*.toml") if one.stem not in NO_RECIPE), ids=lambda path: path.stem
)
def test_every_recipe_reads_its_generator(path) -> None:
    recipe = read_recipe(path, ["output=nowhere"])
    assert recipe.corpus is not None
    kinds = {one.kind for one in itertools.islice(split(recipe.corpus, path.parent, 1), 2000)}
    assert [one for one in recipe.positions.kinds if not fnmatch.filter(kinds, one)] == []


def test_a_generator_is_named_by_its_module() -> None:
    spec = CorpusSpec("generator", ("rntp.must_think.dance:documents",), options={"longest": 3})
    some = list(itertools.islice(documents(spec, FOLDER, 1), 300))
    assert {one.kind for one in some if one.kind.startswith("bare")} == {"bare-1", "bare-2", "bare-3"}
    with pytest.raises(InputError, match="no module is named"):
        next(documents(CorpusSpec("generator", ("rntp.nothing:documents",))))
    with pytest.raises(InputError, match="no function 'document'"):
        next(documents(CorpusSpec("generator", ("rntp.must_think.dance:document",))))
