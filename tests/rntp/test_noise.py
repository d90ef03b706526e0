"""Noise in texts: where it falls, what a right thought is still worth, and a law that is judged on levels left out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from computeledger.errors import InputError
from rntp import noise
from rntp.interfaces.tables.noise import NOISE_TABLES
from rntp.interfaces.tables.study import grid, print_study
from rntp.models import make_tokenizer
from rntp.must_think import ships_log
from rntp.must_think.family import oracle, read, states
from rntp.must_think.verified import tasks
from rntp.noise import Cell, damaged_fraction, fit_noise, payoffs, worthless
from rntp.outcomes import MEASURES
from rntp.recipe import Recipe
from rntp.recipe_file import read_recipe
from rntp.run_folder import SUMMARY, write_json
from rntp.study import carry_out, read_study
from tests.rntp.test_study import SHIP, written

COUNT = 1500


def texts(**law: float) -> list[str]:
    return [one.text for one in itertools.islice(ships_log.documents(5, **law), COUNT)]


def test_label_noise_ends_a_share_of_stories_in_any_state_and_changes_nothing_else() -> None:
    clean, some, more = texts(), texts(label_noise=0.3), texts(label_noise=0.6)
    for share, noisy in ((0.3, some), (0.6, more)):
        changed = [(one, other) for one, other in zip(clean, noisy, strict=True) if one != other]
        assert len(changed) / COUNT == pytest.approx(share * 6 / 7, abs=0.04)  # one in seven is right by chance
        for one, other in changed:
            differs = [pair for pair in zip(one.split(), other.split(), strict=True) if pair[0] != pair[1]]
            assert len(differs) == 2 and differs[0][1] in ships_log.DAYS and differs[1][1] in ships_log.THINGS
            assert ships_log.DAYS.index(differs[0][1]) == ships_log.THINGS.index(differs[1][1])
    kept = [place for place, one in enumerate(clean) if one == more[place]]
    assert all(clean[place] == some[place] for place in kept)  # what a lower level changes a higher one changes too


def test_text_noise_hits_words_of_the_steps_at_its_rate() -> None:
    clean, noisy = texts(), texts(text_noise=0.1)
    stories = [(one.split(" , .")[0], other.split(" , .")[0]) for one, other in zip(clean, noisy, strict=True)]
    steps = [(one.partition(" . ")[2].split(), other.partition(" . ")[2].split()) for one, other in stories]
    words = sum(word != "," for one, _ in steps for word in one)
    dropped = sum(len(one) - len(other) for one, other in steps)
    assert dropped / words == pytest.approx(0.05, abs=0.01)
    assert {word for _, other in steps for word in other} <= {word for one, _ in steps for word in one}
    assert all(one.partition(" . ")[0] == other.partition(" . ")[0] for one, other in zip(clean, noisy, strict=True))
    assert all(one.split()[-8:] == other.split()[-8:] for one, other in zip(clean, noisy, strict=True))


@pytest.mark.parametrize("law", [{"label_noise": 1.5}, {"text_noise": -0.1}, {"label_noise": "half"}])
def test_noise_has_bounds(law) -> None:
    with pytest.raises(InputError, match="a number from 0 to 1"):
        next(ships_log.documents(0, **law))


def test_a_story_with_noise_in_its_text_is_no_question() -> None:
    with pytest.raises(InputError, match="story"):
        list(tasks(itertools.islice(ships_log.documents(0, text_noise=0.5), 50)))


def test_damage_is_that_of_stories() -> None:
    clean = itertools.islice(ships_log.documents(1), COUNT)
    noisy = itertools.islice(ships_log.documents(1, text_noise=0.1), COUNT)
    hit, told = 0, 0
    for one, other in zip(clean, noisy, strict=True):
        if one.kind == "bare-8":
            told += 1
            numbers = [[word for word in text.split() if word.isdigit()] for text in (one.text, other.text)]
            hit += numbers[0] != numbers[1]
    assert hit / told == pytest.approx(damaged_fraction(0.1, [8]), abs=0.15) and told > 40


def test_a_right_thought_earns_nothing_from_the_noise_at_which_true_and_wrong_ends_balance(
    monkeypatch, tmp_path
) -> None:
    """A scorer that believes thoughts to 0.82: closed form of both rewards, whatever else the text says."""
    recipe = read_recipe(SHIP, [f"output={tmp_path}"])
    told = [one.text for one in itertools.islice(ships_log.documents(0), 300)]
    words = make_tokenizer(recipe.model, recipe.thought, told)
    believed, guessed = 0.82, 1 / 7

    def scored(_model, places: Sequence, thoughts, _sampling):
        out = np.zeros((len(places), max(len(one.gold_ids) for one in places)))
        for row, place in enumerate(places):
            gold = words.decode(place.gold_ids).split()
            context = words.decode(place.context_ids, skip_special_tokens=True).strip()
            right = oracle(ships_log.FAMILY, context).split()[-1]
            day = gold.index("on") + 1
            is_right = gold[day] == right
            chance = guessed if thoughts is None else believed if is_right else (1 - believed) / 6
            out[row, day] = math.log(chance)
            assert right == states(ships_log.FAMILY, read(context))[-1]
        return SimpleNamespace(log_probs=out)

    model = SimpleNamespace(eval=lambda: None)
    monkeypatch.setattr(noise, "load_model", lambda *_: (model, words))
    monkeypatch.setattr(noise, "gold_scores", scored)
    found = payoffs(recipe, Path("base"), ["probability", "log-likelihood-gain"])
    assert found["probability"] == pytest.approx((believed - guessed, 0.0))
    true = math.log(believed / guessed)
    mean = (true + 6 * math.log((1 - believed) / 6 / guessed)) / 7
    assert found["log-likelihood-gain"] == pytest.approx((true, mean))
    assert worthless([found["probability"]]) == pytest.approx(1.0)
    assert worthless([found["log-likelihood-gain"]]) == pytest.approx(true / (true - mean))
    assert true / (true - mean) < 0.7
    with pytest.raises(InputError, match="has not learnt the single step"):
        worthless([(-0.1, -0.2)])


def cells(exponent: float, *, visits: bool = False) -> list[Cell]:
    """Cells that follow the law, two seeds around it."""
    out = []
    for reward, limit in (("probability", 1.0), ("log-likelihood-gain", 0.6)):
        for level in (0.0, 0.2, 0.4, 0.8):
            for updates, seen in ((12, 1.0), (48, 1.0), (96, 1.0), *([(48, 24.0)] if visits else [])):
                worth = 1 - level / limit
                done = 1 - math.exp(-updates * abs(worth) ** exponent * 5 / (4 + seen) / 20)
                closed = 0.1 + (0.8 if worth > 0 else -0.1) * done
                out.append(Cell(reward, level, 0.0, updates, seen, (closed - 0.01, closed + 0.01)))
    return out


@pytest.mark.parametrize(("exponent", "visits"), [(1.0, True), (2.0, False)])
def test_the_law_finds_the_exponent_that_made_the_cells(exponent: float, visits: bool) -> None:
    found = fit_noise(cells(exponent, visits=visits), 0.1, {"probability": 1.0, "log-likelihood-gain": 0.6}, [5])
    assert found["constants"]["exponent"] == pytest.approx(exponent, abs=0.1)
    assert found["seed_rms"] == pytest.approx(0.01)
    forms = {one["exponent"]: one["left_out_rms"] for one in found["forms"]}
    assert forms[exponent] < 0.02 and forms[None] < 0.03
    assert all(forms[other] > 2 * forms[exponent] for other in (0.0, 1.0, 2.0) if other != exponent)
    if visits:
        assert found["constants"]["visits"] == pytest.approx(5.0, rel=0.15)
    with pytest.raises(InputError, match="2 levels of label noise"):
        fit_noise([one for one in cells(1.0) if one.label_noise < 0.3], 0.1, {}, [5])


def test_a_study_of_noise_ends_in_a_law_and_its_tables(tmp_path, monkeypatch, capsys) -> None:
    """Training stood in for by cells that follow the law."""

    def carried(recipe: Recipe, _base, arm, _plan) -> None:
        options = recipe.corpus.options
        level = options.get("label_noise", 0.0) or damaged_fraction(options.get("text_noise", 0.0), range(5, 11))
        closed = 0.1 + 0.8 * (1 - math.exp(-recipe.rl.steps * (1 - level) / 20)) * bool(arm.device_s)
        values = {name: [closed, closed] for name in MEASURES} | {"gap_nats": [1.0, 1.0]}
        folder = Path(recipe.output)
        folder.mkdir(parents=True)
        write_json(folder / SUMMARY, {"took": {}, "measured": {"per_document": values, "coverage": {}}})

    def variant(name: str, noisy: str = "") -> str:
        return f'name = "{name}"\nset = ["rl.steps=24"{noisy and f", {noisy!r}"}]\narm = {{ device_s = 1 }}'

    monkeypatch.setattr("rntp.study.carry_out_arm", carried)
    monkeypatch.setattr("rntp.study.pretrained", lambda *_: None)
    monkeypatch.setattr("rntp.study.payoffs", lambda *_: {"log-likelihood-gain": (0.7, 0.0)})
    labels = [variant(f"label {level}", f"corpus.options.label_noise={level}") for level in (0.4, 0.8)]
    path = written(
        tmp_path, 'name = "before"\narm = {}', variant("none"), *labels,
        variant("text", "corpus.options.text_noise=0.1"), head='fit = "noise"',
    )  # fmt: skip
    found = carry_out(read_study(path), lambda *_: None, jobs=1, thread_count=1)
    assert found["fit"]["before"] == pytest.approx(0.1) and found["fit"]["text_rms"] < 0.05
    for name in NOISE_TABLES:
        assert grid(found, name) is not None
    shown = grid(found, "noise")
    assert shown.head == ["none", "label 40 %", "label 80 %", "text 10 %"] and len(shown.rows) == 1
    print_study(found)
    assert "exponent 2" in capsys.readouterr().out


def test_a_fit_needs_arms(tmp_path) -> None:
    with pytest.raises(InputError, match="needs an arm in every variant"):
        read_study(written(tmp_path, 'name = "a"', head='fit = "noise"'))
