"""A head-to-head: budgets of device-time, what is right, differences that can be told, and short arms for real."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import TrainerControl

from rntp.arms import Arm, compared
from rntp.device_time import SPENT, DeviceTime
from rntp.effects import BETTER, UNKNOWN, WORSE, mean_effect, paired_effect
from rntp.interfaces.tables.study import grid, print_study
from rntp.must_think import dance, program, ships_log
from rntp.must_think.family import states, story_of
from rntp.must_think.verified import right_answer, tasks
from rntp.outcomes import MEASURES
from rntp.run_folder import read_metrics
from rntp.study import carry_out, read_study, recipe_of
from rntp.verify.text import check_text
from tests.rntp.test_study import written


def test_the_budget_is_kept_over_attempts_and_leaves_out_what_is_beside() -> None:
    now = iter((0.0, 10.0, 11.0, 13.0, 14.0, 17.0))
    spent = DeviceTime(5.0, lambda: next(now))
    spent.spent_s = 0.5  # of an earlier attempt
    control, nothing = TrainerControl(), SimpleNamespace()
    spent.on_train_begin(nothing, nothing, control)  # at 10
    with spent.beside():  # 11 to 13
        pass
    spent.on_step_end(nothing, nothing, control)  # at 14
    assert spent.spent_s == pytest.approx(2.5) and not control.should_training_stop
    spent.on_step_end(nothing, nothing, control)  # at 17
    assert spent.spent_s == pytest.approx(5.5) and control.should_training_stop


@pytest.mark.parametrize("family", [ships_log.FAMILY, dance.FAMILY, program.FAMILY], ids=lambda one: one.name)
def test_right_answers_are_all_ends_of_the_state_and_no_other(family) -> None:
    told = random.Random(1)  # noqa: S311 - no secret
    for _ in range(20):
        story = story_of(family, told, told.randint(1, 9))
        right, last = right_answer(family, story.told([family.words[0]] * len(story.steps))), states(family, story)[-1]
        for state in family.states:
            ends = [family.end(told, state) for _ in range(3)]
            assert [bool(re.fullmatch(right, one)) for one in ends] == [state == last] * 3


def test_the_same_documents_are_text_and_questions() -> None:
    found = list(tasks(one for one, _ in zip(ships_log.documents(3), range(40), strict=False)))
    told = {one.id: one for one, _ in zip(ships_log.documents(3), range(40), strict=False)}
    assert 5 < len(found) < 40
    for one in found:
        text = told[one["id"]].text
        assert text.startswith(one["prompt"]) and re.fullmatch(one["answer"], text[len(one["prompt"]) :].strip())


def test_differences_are_told_where_interval_and_seeds_agree() -> None:
    chance = np.random.default_rng(0)
    before = chance.normal(size=(3, 200))
    better = paired_effect(before + 0.5 + chance.normal(size=(3, 200)), before)
    assert better.verdict == BETTER and 0.3 < better.low < 0.5 < better.high < 0.7
    assert better.cohens_d == pytest.approx(0.5, abs=0.1)
    assert paired_effect(before, before + 1.0).verdict == WORSE
    one_against = paired_effect(before + np.array([[0.9], [0.9], [-0.01]]), before)
    assert one_against.verdict == UNKNOWN  # a seed on the other side
    same = paired_effect(before, before)
    assert (same.mean, same.cohens_d, same.verdict) == (0.0, 0.0, UNKNOWN)
    # documents alone: the bootstrap's interval is that of the closed form
    wide = mean_effect(before[:1])
    assert (wide.high - wide.low) / 2 == pytest.approx(1.96 * before[:1].std() / np.sqrt(200), rel=0.1)


def test_arms_are_compared_within_their_group_and_lose_their_documents() -> None:
    def row(variant: str, group: str, seed: int, value: float) -> dict:
        values = {name: [value, value + 0.1 * seed, value] for name in MEASURES}
        return {
            "variant": variant, "group": group, "seed": seed, "arm": {}, "took": {},
            "measured": {"per_document": values, "coverage": {}},
        }  # fmt: skip

    rows = [row(*given) for given in (("a", "", 0, 0.1), ("a", "", 1, 0.1), ("b", "", 0, 0.5), ("b", "", 1, 0.5),
                                      ("c", "other", 3, 0.2))]  # fmt: skip
    found = compared(rows)
    assert {(one["variant"], one["against"]) for one in found["effects"]} == {("b", "a")}
    right = next(one for one in found["effects"] if one["measure"] == "right")
    assert right["mean"] == pytest.approx(0.4) and right["verdict"] == BETTER
    assert all("per_document" not in one["measured"] for one in rows)


def test_short_arms_are_carried_out_and_shown(tmp_path: Path, capsys, monkeypatch) -> None:
    torch.set_num_threads(1)
    here = lambda _trainer, pairs: [check_text(*pair).score for pair in pairs]  # noqa: E731 - no process of its own
    monkeypatch.setattr("rntp.judges.answers.Checks.scores", here)
    path = written(
        tmp_path,
        'name = "before"\narm = {}',
        'name = "NTP"\nsamples = 2\narm = {device_s = 0.01, ntp_fraction = 1}',
        'name = "mixed"\nseeds = [1]\narm = {device_s = 0.02, ntp_fraction = 0.5, rlvr_fraction = 0.5, problems = 4}',
    )
    study = read_study(path)
    found = carry_out(replace(study, set=(*study.set, "rl.steps=50")), lambda *_: None, jobs=1, thread_count=1)
    rows = {(row["variant"], row["seed"]): row for row in found["rows"]}
    mixed = rows["mixed", 1]["took"]
    assert mixed["rl"]["steps"] < 50 and mixed["rl"][SPENT] >= 0.01 <= mixed["ntp"][SPENT]
    folder = Path(recipe_of(study, study.variants[2], 1).output)
    assert len((folder / "tasks.jsonl").read_text().splitlines()) == 4
    assert read_metrics(folder / "run")[-1][SPENT] == mixed["rl"][SPENT]
    assert rows["before", 0]["took"] == {} and Arm(**rows["mixed", 1]["arm"]) == study.variants[2].arm
    for name in ("arms", "effects", "arms_coverage"):
        assert grid(found, name) is not None
    print_study(found)
    assert "against NTP" in capsys.readouterr().out
