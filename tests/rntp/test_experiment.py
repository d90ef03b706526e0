"""An experiment: what is right in thoughts, who scores them, and the table of a short one carried out for real."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from computeledger.errors import InputError
from rntp import experiment as experiments
from rntp.experiment import Plan, experiment
from rntp.gap import Models, Reader, held_against, measure, oracle_thoughts, partners, reader, words_of
from rntp.interfaces.cli import main
from rntp.interfaces.tables.experiment import print_experiment
from rntp.models import make_model, make_tokenizer
from rntp.must_think import ships_log
from rntp.positions import Place
from rntp.recipe import ModelSpec, Recipe, ThoughtSpec
from rntp.recipe_file import read_recipe
from rntp.sampling import Sampling
from tests.gates import ROOT

SHIP = ROOT / "recipes" / "must_think" / "config.toml"
SHORT = (
    "pretrain.steps=6", "pretrain.batch_sequences=4", "model.hidden_size=16", "model.heads=2", "model.kv_heads=2",
    "model.intermediate_size=16", "rl.steps=2", "rl.prompts_per_step=2", "rl.group_size=2", "thought.budget=6",
    "report.places=0", "corpus.held_out_fraction=0.2",
)  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two threads on a busy machine are slower than one."""
    torch.set_num_threads(1)


def recipe_at(folder: Path) -> Recipe:
    """A short experiment in a folder."""
    return read_recipe(SHIP, [f"output={folder}", *SHORT])


def places(words) -> list[Place]:
    """Two places of the ship's log."""
    out = []
    for number, (day, legs) in enumerate((("tue", "first 5 sailing ,"), ("fri", "first 2 resting ,"))):
        context = f"the gannet left york on {day} . {legs} ."
        gold = "at last it came to hull on sun , the day of frost ."
        out.append(
            Place(tuple(words(context)["input_ids"]), tuple(words(gold)["input_ids"]), f"ship's log {number}", 9)
        )
    return out


@pytest.fixture(scope="module")
def words():
    texts = (one.text for one, _ in zip(ships_log.documents(0), range(500), strict=False))
    return make_tokenizer(ModelSpec(tokenizer="word", vocabulary=128), ThoughtSpec(), texts)


@pytest.fixture(scope="module")
def sampling(words) -> Sampling:
    start, end = words.convert_tokens_to_ids(["<think>", "</think>"])
    return Sampling(start, end, 8, thoughts=1, stop_ids=(words.eos_token_id,))


def test_the_thought_without_a_slip_is_made_in_the_models_tokens(words, sampling) -> None:
    thoughts = oracle_thoughts(words, places(words), sampling)
    assert [words_of(words, one[1:-1]) for one in thoughts] == [
        "start tue first 5 sun so sun",
        "start fri first 2 sun so sun",
    ]
    assert {(one[0], one[-1]) for one in thoughts} == {(sampling.start_id, sampling.end_id)}


def test_a_judge_with_its_own_tokens_scores_the_same_words(words, sampling) -> None:
    other = make_tokenizer(
        ModelSpec(tokenizer="word", vocabulary=128), ThoughtSpec(), [" ".join(sorted(words.get_vocab()))]
    )
    spec = ModelSpec(hidden_size=16, heads=2, kv_heads=2, layers=1, intermediate_size=16)
    model = make_model(spec, words).eval()
    same = reader(model, words, words)
    assert same.ids == {} and other.get_vocab().keys() == words.get_vocab().keys()
    turned = make_model(spec, other).eval()
    order = torch.tensor(
        [words.get_vocab()[word] for word in sorted(other.get_vocab(), key=lambda word: other.get_vocab()[word])]
    )
    state = model.state_dict()
    turned.load_state_dict(
        {name: value[order] if value.shape[:1] == order.shape else value for name, value in state.items()}
    )
    judge, some = reader(turned, other, words), places(words)
    thoughts = oracle_thoughts(words, some, sampling)
    for rows in (None, thoughts):
        assert np.allclose(judge.sums(some, rows, sampling), same.sums(some, rows, sampling), atol=1e-5)
    rare = make_tokenizer(
        ModelSpec(tokenizer="word"), ThoughtSpec(), [" ".join(sorted(set(words.get_vocab()) - {"mon"}))]
    )
    assert set(reader(turned, rare, words).ids.values()) <= set(rare.get_vocab().values())
    assert reader(turned, rare, words).ids[words.get_vocab()["mon"]] == rare.unk_token_id
    with pytest.raises(InputError, match="same words"):
        reader(turned, make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), ["a"]), words)


def test_swapped_thoughts_stay_within_their_kind() -> None:
    kinds = ["a", "b", "a", "a", "b", "c"]
    found = partners([Place((1,), (2,), str(number), 1, kind) for number, kind in enumerate(kinds)])
    assert [kinds[one] for one in found] == kinds
    assert [number == one for number, one in enumerate(found)] == [False] * 5 + [True]


class _Knows(Reader):
    """A scorer that likes the right conclusion, and nothing else."""

    def sums(self, some, thoughts, sampling):
        return np.array(
            [-3.0 if thoughts is not None and len(row) > 3 else -5.0 for row in thoughts or [()] * len(some)]
        )


def test_the_table_says_how_much_of_the_gap_is_closed(words, sampling, monkeypatch) -> None:
    monkeypatch.setattr("rntp.gap.reader", lambda model, *_: _Knows(model, {}))
    monkeypatch.setattr("rntp.gap.Reader", _Knows)
    model = make_model(ModelSpec(hidden_size=16, heads=2, kv_heads=2, layers=1, intermediate_size=16), words).eval()
    found = measure(Models(words, model, model, _Knows(model, {}), {"rival": model}), places(words), sampling)
    assert found["gap_nats"] == pytest.approx(2.0) and found["scored_tokens"] == 26
    assert found["intervals"]["empty_thought_gap_closed_fraction"]["mean"] == pytest.approx(0.0)
    after = found["nats_per_continuation"]["frozen scorer"]["thought after RL"]
    assert found["intervals"]["gap_closed_fraction"]["mean"] == pytest.approx((after + 5) / 2)
    assert found["gain_nats_per_token"] == pytest.approx((after + 5) * 2 / 26)
    assert found["thoughts"]["after RL"]["steps_right_fraction"] == 0.0
    monkeypatch.setattr(_Knows, "sums", lambda self, some, thoughts, sampling: np.zeros(len(some)))
    with pytest.raises(InputError, match="pretraining has not taught"):
        measure(Models(words, model, model, None, {}), places(words), sampling)


def test_bars_are_reached_from_the_right_side() -> None:
    found = held_against({"gap_closed_fraction": 0.8, "ntp_equal_time_gap_closed_fraction": 0.15})
    assert [one["reached"] for one in found.values()] == [True, False]


def test_an_experiment_is_carried_out_and_gone_on_with(tmp_path, monkeypatch, capsys) -> None:
    recipe = recipe_at(tmp_path / "one")
    apart = replace(recipe, output=str(tmp_path / "apart"), seed=7)
    experiments.pretrained(apart, Plan(), fresh=False)
    judge = Path(apart.output) / "base"
    stopped: list[str] = []

    def stop(stage: str, step: int, *_: object) -> None:
        if (stage, step) == ("ntp-equal-time", 1) and not stopped:
            stopped.append(stage)
            raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "token_budget", lambda *_: 2000.0)
    for name in ("rntp.gap.reader", "rntp.experiment.reader"):  # a model of six steps reads no thought
        monkeypatch.setattr(name, lambda model, *_: _Knows(model, {}))
    with pytest.raises(KeyboardInterrupt):
        experiment(recipe, Plan(4, judge), stop)
    summary = experiment(recipe, Plan(4, judge), stop)
    assert json.loads((tmp_path / "one" / "summary.json").read_text()) == summary
    wanted = (
        "gain_nats_per_token", "gap_closed_fraction", "swapped_thought_loss_fraction", "independent_scorer_fraction",
        "ntp_equal_time_gap_closed_fraction", "beta_flop", "beta_gpu_time", "wall_s",
    )  # fmt: skip
    assert all(isinstance(summary[name], float) for name in wanted)
    assert [path.parent.name for path in tmp_path.glob("*/summary.json")] == ["one"]
    assert experiment(recipe, Plan(4, judge), stop) == summary
    print_experiment(summary)
    assert "of the gap between" in capsys.readouterr().out


def test_what_cannot_be_measured_is_refused(tmp_path, capsys) -> None:
    run_of = recipe_at(tmp_path / "one")
    with pytest.raises(InputError, match="needs --judge"):
        experiment(replace(run_of, model=replace(run_of.model, path="there")), Plan(), print)
    folder = tmp_path / "trained"
    folder.mkdir()
    (folder / "recipe.json").write_text("{}")
    with pytest.raises(SystemExit) as ended:
        main(["experiment", str(SHIP), "--set", f"output={folder}"])
    assert ended.value.code == 2 and "holds a run of rntp train" in capsys.readouterr().err
