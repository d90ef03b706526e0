"""Rewards and rules of a lab's own: named in a recipe, checked before training, known to the run that used them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from computeledger.errors import InputError
from rntp.corpus import Chunk
from rntp.interfaces.cli import main
from rntp.positions import chosen, places, positions
from rntp.preflight import check_recipe
from rntp.problems import problems
from rntp.recipe import SCORERS, EnvironmentSpec, PositionSpec, Recipe
from rntp.recipe_file import document, fingerprint, parse_recipe, read_recipe
from rntp.reward import reward_named, try_reward
from rntp.run_folder import BASE, check, prepare, read_json
from rntp.verify import text, verify
from rntp.verify.pool import LocalPool, Plan, stream
from tests.gates import ROOT
from tests.rntp.installed import install

TEXT = ROOT / "recipes" / "tiny_text"
WHOLE: dict[str, Any] = {"name": "a", "model": {"path": "m"}, "corpus": {"source": ["a.txt"]}}
CODE = """
import numpy as np
def zero(scores, options): return scores.mask.sum(axis=1) * 0.0
def listed(scores, options): return [options.own["weight"]] * len(scores.gold_ids)
def per_token(scores, options): return scores.log_probs
def alone(scores, options): return 1.0
def holes(scores, options): return zero(scores, options) + [0, 0, np.nan, 0]
def words(scores, options): return ["good"] * 4
def slips(scores, options): return scores.losses
def one(scores): return scores.mask.sum(axis=1)
def ends(chunk, spec, generator): return [len(chunk.ids) - 3, 9, 9, 2, 0]
def drawn(chunk, spec, generator): return generator.choice(len(chunk.ids), spec.options["count"])
def likely(chunk, spec, generator, measured): return np.flatnonzero(measured > 20)
def halves(chunk, spec, generator): return [9.5]
def beyond(chunk, spec, generator): return [10, 99]
def nested(chunk, spec, generator): return [[10]]
def breaks(chunk, spec, generator): return chunk.tokens
def length(task, completion): return len(completion) / 100
"""
CHUNK = Chunk(tuple(range(30)), tuple(range(30)), "x = 1\n" * 5, "d", "sums")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(CODE)
    return tmp_path


def rule(folder: Path, name: str, **given: Any) -> PositionSpec:
    return PositionSpec(f"mine.py:{name}", folder=folder, **given)


def test_a_text_stands_for_the_table_that_it_names(folder: Path) -> None:
    recipe = parse_recipe({**WHOLE, "reward": "my_module:my_reward", "positions": "several"}, folder)
    assert (recipe.reward.name, recipe.positions.rule) == ("my_module:my_reward", "several")
    assert recipe.positions.folder == folder and "folder" not in document(recipe)["positions"]
    path = folder / "config.toml"
    for table in ("[reward]\nk = 3\n", 'reward.k = 3\nreward.name = "probability"\n'):
        path.write_text(f'{table}[model]\npath = "m"\n[corpus]\nsource = "a"\n')
        for setting in (
            "reward=my_module:my_reward",
            "reward.name=my_module:my_reward",
            'reward="my_module:my_reward"',
        ):
            assert (
                read_recipe(path, [setting, "reward.per_token=true"]).reward
                == parse_recipe({**WHOLE, "reward": {"name": "my_module:my_reward", "k": 3, "per_token": True}}).reward
            )
    path.write_text('reward = "probability"\n[model]\npath = "m"\n[corpus]\nsource = "a"\n')
    assert read_recipe(path, ["reward.k=2"]).reward.k == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": "likelihood-gain"}, "did you mean 'log-likelihood-gain'? One of your own is MODULE:FUNCTION"),
        ({"reward": 3}, "reward: a table is needed, not 3"),
        ({"positions": "mine.py:"}, "unknown [positions] rule 'mine.py:'"),
        ({"positions": {"measure": "entropy"}}, "is for a rule of your own; 'random' measures what it needs"),
        ({"positions": {"rule": "a:b", "measure": "proxy-loss"}}, "rule 'a:b' needs proxy, the folder of a model"),
        ({"positions": {"rule": "a:b", "measure": "loss"}}, "unknown [positions] measure 'loss'"),
    ],
)
def test_what_cannot_be_meant_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_recipe(WHOLE | change)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("per_token", r"gave an array of shape \(4, 5\): one number for each of 4 thoughts is needed, shape \(4,\)"),
        ("alone", r"gave an array of shape \(\): one number for each"),
        ("holes", "gave nan for thought 2: a finite number is needed"),
        ("words", "ValueError: could not convert string to float"),
        ("slips", r"AttributeError: 'GoldScores' object has no attribute 'losses' \(mine\.py, line 9\)"),
        ("one", r"takes \(scores\), and is given \(scores, options\)"),
        ("listed", r"KeyError: 'weight' \(mine\.py, line 4\)"),
        ("zeros", "mine.py has no function 'zeros': did you mean 'zero'"),
    ],
)
def test_a_reward_that_cannot_be_used_is_refused_before_training(folder: Path, name: str, message: str) -> None:
    recipe = parse_recipe(
        {**WHOLE, "output": "out", "reward": f"mine.py:{name}", "positions": {"gold_tokens": 5}}, folder
    )
    with pytest.raises(InputError, match=rf"reward 'mine\.py:{name}': ({message})"):
        check_recipe(recipe)


def test_settings_of_a_reward_come_from_the_recipe(folder: Path) -> None:
    recipe = parse_recipe({**WHOLE, "reward": {"name": "mine.py:listed", "options": {"weight": 3}}}, folder)
    try_reward(recipe.reward, folder, 5)
    assert parse_recipe(document(recipe), folder) == recipe


def test_a_package_s_reward_and_rule_are_named_in_a_recipe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder, monkeypatch, {"rntp.rewards": {"zero": "mine:zero"}, "rntp.positions": {"ends": "mine:ends"}})
    recipe = parse_recipe({**WHOLE, "reward": "zero", "positions": "ends"})
    assert reward_named("zero") is not None and positions(CHUNK, recipe.positions, np.random.default_rng(0)).size == 2
    with pytest.raises(InputError, match=r"unknown \[reward\] name 'zeros': did you mean 'zero'"):
        parse_recipe({**WHOLE, "reward": "zeros"})


def test_positions_of_a_rule_are_put_in_order_and_kept_inside(folder: Path) -> None:
    assert positions(CHUNK, rule(folder, "ends"), np.random.default_rng(0)).tolist() == [9, 27]
    assert positions(CHUNK, rule(folder, "ends", kinds=("prose",)), np.random.default_rng(0)).size == 0
    some = rule(folder, "drawn", options={"count": 6})
    first, second = ([place.position for place in places([CHUNK] * 3, some, seed)] for seed in (1, 2))
    assert first == [place.position for place in places([CHUNK] * 3, some, 1)] != second


def test_a_rule_is_given_what_it_asks_a_model(folder: Path) -> None:
    spec = rule(folder, "likely", measure="entropy")
    assert chosen(CHUNK, spec, (0, 0), lambda chunk, allowed: np.arange(30.0)).tolist() == list(range(21, 29))
    with pytest.raises(InputError, match="needs the entropy of each token"):
        chosen(CHUNK, spec, (0, 0))
    with pytest.raises(
        InputError, match=r"takes \(chunk, spec, generator, measured\), and is given \(chunk, spec, gen"
    ):
        chosen(CHUNK, rule(folder, "likely"), (0, 0))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("halves", r"gave an array of float64, shape \(1,\): one row of whole numbers is needed"),
        ("nested", r"gave an array of int64, shape \(1, 1\): one row of whole numbers is needed"),
        ("beyond", "gave 99: the chunk has tokens 0 to 29"),
        ("breaks", r"AttributeError: 'Chunk' object has no attribute 'tokens' \(mine\.py, line 17\)"),
    ],
)
def test_positions_that_are_none_are_refused_by_the_rule_s_name(folder: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"positions: rule 'mine\.py:{name}': {message}"):
        positions(CHUNK, rule(folder, name), np.random.default_rng(0))


def test_a_run_is_not_gone_on_with_by_other_code(folder: Path) -> None:
    run = folder / "run"

    def recipe(**change: Any) -> Recipe:
        return parse_recipe({**WHOLE, "output": str(run), "reward": "mine.py:zero", **change}, folder)

    prepare(run, recipe(), fresh=False)
    (run / BASE).mkdir()
    check(run, recipe(), fresh=False)
    written = read_json(run / "recipe.json")
    assert written is not None and list(written["code"]) == ["reward.name"]
    with pytest.raises(InputError, match=r"reward\.name 'mine\.py:zero' there, 'probability' here"):
        check(run, recipe(reward="probability"), fresh=False)
    (folder / "mine.py").write_text(CODE.replace("* 0.0", "* 1.0"))
    with pytest.raises(InputError, match=r"another recipe \(the code of reward\.name has changed\); --fresh"):
        check(run, recipe(), fresh=False)
    check(run, recipe(), fresh=True)
    (folder / "mine.py").unlink()
    with pytest.raises(InputError, match=r"reward 'mine\.py:zero': no file is named 'mine\.py' beside the recipe"):
        fingerprint(recipe())


def test_own_code_is_hashed_and_shipped_names_are_not(folder: Path) -> None:
    plain = parse_recipe(WHOLE)
    assert fingerprint(plain) == fingerprint(parse_recipe({**WHOLE, "reward": "log-likelihood-gain"}))
    names = {fingerprint(parse_recipe({**WHOLE, "positions": f"mine.py:{name}"}, folder)) for name in ("ends", "drawn")}
    assert len(names | {fingerprint(plain)}) == 3


def test_the_page_shows_the_file_that_it_trains_with() -> None:
    assert (TEXT / "own.py").read_text("utf-8") in (ROOT / "docs" / "rntp.md").read_text("utf-8")


def test_the_command_trains_with_a_reward_and_a_rule_of_one_s_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["reward=own.py:capped_gain", "positions=own.py:every_equals_sign", f"output={tmp_path / 'run'}"]
    settings += ["pretrain.steps=1", "rl.steps=1", "rl.prompts_per_step=1", "report.places=0"]
    with pytest.raises(SystemExit) as ended:
        main(["train", str(TEXT / "config.toml"), *(part for one in settings for part in ("--set", one))])
    assert ended.value.code == 0, capsys.readouterr().err
    written = read_json(tmp_path / "run" / "recipe.json")
    assert written is not None and sorted(written["code"]) == ["positions.rule", "reward.name"]
    capsys.readouterr()
    (tmp_path / "bad.toml").write_text((TEXT / "config.toml").read_text("utf-8"))
    with pytest.raises(SystemExit) as ended:
        main(["train", str(tmp_path / "bad.toml"), "--set", "reward=own:capped_gain"])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and "no module is named 'own', installed or beside" in said


def test_a_judge_scores_the_answers_of_an_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "tasks.jsonl").write_text('{"id": "1", "domain": "code", "language": "python", "prompt": "a"}\n')
    spec = EnvironmentSpec("poems", tasks="tasks.jsonl", judge="mine.py:length", held_out_fraction=0)

    class Letters:
        bos_token_id = None

        def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
            return {"input_ids": [ord(one) for one in text]}

    task = next(iter(problems(spec, Letters(), 50, folder))).task
    assert verify(task, "four").score == 0.04 and verify(task, "four").status == "wrong"
    with LocalPool(1) as pool:  # in a process that has not seen the file
        assert [record.verdict.score for record in stream([(task, "of five")], pool, Plan(ordered=True))] == [0.07]
    with pytest.raises(InputError, match=r"judge 'mine\.py:length': gave 1\.5 for task 'poems/1': a number from 0 to"):
        verify(task, "a" * 150)
    with pytest.raises(InputError, match=r"judge 'mine\.py:lengths': mine\.py has no function 'lengths': did you mean"):
        problems(replace(spec, judge="mine.py:lengths"), Letters(), 50, folder)
    assert set(SCORERS) <= set(text._SCORERS)


def test_a_file_of_tasks_names_shipped_and_installed_judges_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder, monkeypatch, {"rntp.judges": {"length": "mine:length"}})
    given = {"id": "1", "domain": "text", "answer": "x"}
    assert verify({**given, "scorer": "length"}, "four").score == 0.04
    for name in ("mine:length", "mine.py:length", "lengthy", 3):
        with pytest.raises(InputError, match="unknown scorer"):
            verify({**given, "scorer": name}, "four")
    with pytest.raises(InputError, match="did you mean 'length'"):
        parse_recipe({**WHOLE, "environments": [{"name": "e", "tasks": "t", "judge": "lengths"}]})
    with pytest.raises(InputError, match="judge is for tasks"):
        parse_recipe({**WHOLE, "environments": [{"name": "e", "puzzle": "t", "judge": "length"}]})
