"""What would fail late is refused before anything is trained; what failed leaves no trace; positions on the books."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from computeledger.actuals.run_ledger import read_ledger
from computeledger.actuals.run_summary import BESIDE_RL, summary
from computeledger.errors import InputError
from rntp.checkpoints import last_checkpoint
from rntp.control_runs import token_budget
from rntp.corpus import Document
from rntp.interfaces.answers.evaluate import _Found, _rows
from rntp.models import load_model
from rntp.preflight import check_recipe, check_tokens
from rntp.problems import asked_problems, parted, problems
from rntp.recipe import EnvironmentSpec, Recipe
from rntp.recipe_file import fingerprint, parse_recipe, read_recipe
from rntp.run import LEARNING, run
from rntp.run_folder import check, prepare
from rntp.sampling import Sampling
from tests.gates import ROOT
from tests.rntp import tiny

TEXT = ROOT / "recipes" / "tiny_text" / "config.toml"
FAST = ("pretrain.steps=2", "rl.steps=3", "rl.save_steps=1", "rl.prompts_per_step=2", "rl.group_size=2",
        "thought.budget=4", "positions.gold_tokens=6", "positions.context_tokens=12", "model.hidden_size=16",
        "model.intermediate_size=32", "model.layers=1", "model.tokenizer_documents=2")  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two threads on a busy machine are slower than one."""
    torch.set_num_threads(1)


def eight_files(folder: Path) -> Path:
    """Eight texts of which the hash holds none out at a fifth."""
    made = 0
    for number in range(1000):
        if made == 8:
            break
        text = f"Text number {number} is here. " * 12
        if Document(text, "a").draw >= 0.2:
            (folder / f"{number}.txt").write_text(text)
            made += 1
    return folder


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("report.trackers=['tensorbord']",), "[report] trackers 'tensorbord': did you mean 'tensorboard'?"),
        (("rl.engine=vllm-server",), "[rl] engine 'vllm-server': vllm is not installed"),
        (("rl.micro_batch=3",), "cannot be shared"),
        (("rl.updates_per_batch=2",), "a multiple of updates_per_batch"),
        (("positions.rule=proxy", "positions.proxy=nowhere"), "[positions] proxy 'nowhere': no folder"),
        (("controls.judge=nowhere",), "[controls] judge 'nowhere': no folder"),
        (("reward.nll_weight=1", "rl.temperature=0.5"), "nll_weight with [rl] temperature 0.5"),
        (("rl.device_s=9", "rl.schedule=cosine"), "device_s with schedule 'cosine'"),
        (("positions.kinds=['prose']",), "finds no place in"),
        (("environments=[{name='sums', tasks='tasks.jsonl'}]",), "no such file"),
    ],
)
def test_what_would_fail_after_pretraining_is_refused_before_it(
    settings: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with pytest.raises((InputError, FileNotFoundError)) as failed:
        run(read_recipe(TEXT, [f"output={folder}", *FAST, *settings]))
    assert message in str(failed.value) and len(str(failed.value).splitlines()) == 1
    assert not list(folder.glob("**/*.safetensors")) and not list(folder.glob("**/state.pt"))
    # the corrected recipe needs no --fresh
    check(folder, read_recipe(TEXT, [f"output={folder}", *FAST]), fresh=False)


def test_a_missing_tracker_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise RuntimeError("TensorBoardCallback requires tensorboard\nto be installed.")

    monkeypatch.setitem(INTEGRATION_TO_CALLBACK, "tensorboard", missing)
    recipe = read_recipe(TEXT, [f"output={tmp_path}", "report.trackers=['tensorboard']"])
    with pytest.raises(InputError, match=r"trackers 'tensorboard': .* requires tensorboard to be installed\."):
        check_recipe(recipe)


def test_no_held_out_document_is_said_before_training_and_reporting_less_is_the_same_run(tmp_path: Path) -> None:
    eight_files(tmp_path)
    given = (f"output={tmp_path / 'run'}", *FAST, "corpus.kind=text", f"corpus.source={tmp_path}/*.txt",
             "corpus.options={}", "corpus.held_out_fraction=0.2", "model.tokenizer=word")  # fmt: skip
    with pytest.raises(InputError, match=r"no held-out document at held_out_fraction 0\.2"):
        run(read_recipe(TEXT, given))
    assert not (tmp_path / "run").exists()
    less = read_recipe(TEXT, [*given, "report.places=0"])
    assert fingerprint(less) == fingerprint(read_recipe(TEXT, given))
    assert run(less)["held_out"] is None


def test_a_recipe_whose_run_failed_may_be_corrected_and_one_that_trained_not(tmp_path: Path) -> None:
    one, other = Recipe(name="a", output=str(tmp_path)), Recipe(name="a", seed=1, output=str(tmp_path))
    prepare(tmp_path, one, fresh=False)
    (tmp_path / "base.part").mkdir()
    (tmp_path / "ledger.jsonl").write_text("")
    check(tmp_path, other, fresh=False)
    prepare(tmp_path, other, fresh=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recipe.json"]
    (tmp_path / "base").mkdir()
    with pytest.raises(InputError, match=r"another recipe .seed 1 there, 0 here."):
        check(tmp_path, one, fresh=False)


@pytest.mark.parametrize("name", ["tiny_text", "tiny_math", "tiny_mixed", "real_text"])
def test_a_copied_recipe_reads_nothing_beside_its_folder(name: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "recipes" / name, tmp_path / "elsewhere" / name)
    recipe = read_recipe(tmp_path / "elsewhere" / name / "config.toml", [f"output={tmp_path / 'run'}"])
    check_recipe(recipe)
    for one in recipe.environments:
        if one.tasks:
            assert asked_problems(one, tiny.TOKENIZER, 4, recipe.folder)[1] == "held out"


def test_choosing_positions_is_on_the_books_and_is_not_done_again(tmp_path: Path) -> None:
    """Its time and FLOP are in beta and in the budget of plain training, once, however often the run is ended."""
    settings = [*FAST, "report.places=0", "positions.rule=learnability-band", "positions.high=50"]
    recipe = read_recipe(TEXT, [f"output={tmp_path / 'run'}", *settings])

    def ended(stage: str, step: int, _steps: int, _figures: Any) -> None:
        if (stage, step) == (LEARNING, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(recipe, report=ended)
    assert last_checkpoint(tmp_path / "run") is not None
    out = run(recipe)
    entries = read_ledger(tmp_path / "run" / "ledger.jsonl").entries
    chosen = [entry for entry in entries if entry.phase == "position selection"]
    assert len(chosen) == 1 and chosen[0].flop is not None and chosen[0].flop > 0
    assert "sampled" not in chosen[0].tokens_by_kind  # no rollout of the policy
    assert out["phases"]["position selection"]["fraction"] > 0
    without = [entry for entry in entries if entry.phase != "position selection"]
    less = summary(without, "rl")
    assert out["beta_flop"] == pytest.approx(
        less["beta_flop"] + chosen[0].flop / (out["tokens_sampled"] * chosen[0].n_params_active)
    )
    assert out["beta_gpu_time"] > less["beta_gpu_time"]
    assert token_budget("ntp-equal-time", entries) - token_budget("ntp-equal-time", without) == pytest.approx(
        chosen[0].device_s / out["reference"]["device_s_per_token"]
    )
    assert "position selection" not in BESIDE_RL
    assert "not transferable" in out["beta_gpu_time_note"]
    # the same positions when they are chosen again
    before = json.loads((tmp_path / "run" / "positions.json").read_text())
    other = replace(recipe, output=str(tmp_path / "again"))
    shutil.copytree(tmp_path / "run" / "base", tmp_path / "again" / "base")
    shutil.copy(tmp_path / "run" / "recipe.json", tmp_path / "again" / "recipe.json")
    run(other)
    assert json.loads((tmp_path / "again" / "positions.json").read_text()) == before


@pytest.mark.parametrize("rule", ["entropy-band", "learnability-band", "proxy"])
def test_mixed_training_chooses_by_a_rule_that_asks_a_model(rule: str, tmp_path: Path) -> None:
    made = tiny.model()
    made.save_pretrained(tmp_path / "base")
    tiny.TOKENIZER.save_pretrained(tmp_path / "base")
    high = 1.0 if rule == "entropy-band" else 50.0
    (tmp_path / "words.txt").write_text(" ".join(f"w{n % 40}" for n in range(300)))
    given = {
        "model": {"path": "base"},
        "corpus": {"kind": "text", "source": ["words.txt"], "held_out_fraction": 0.0},
        "thought": {"budget": 4},
        "positions": {"rule": rule, "high": high, "proxy": "base", "context_tokens": 12, "gold_tokens": 4},
        "rl": {"group_size": 2, "device": "cpu"},
    }
    recipe = parse_recipe(given, tmp_path)
    found = _Found(tmp_path / "base", None, recipe, tmp_path / "base", None)
    start, end = (tiny.TOKENIZER.encode(name)[0] for name in ("<think>", "</think>"))
    model, tokenizer = load_model(tmp_path / "base", recipe.thought)
    rows = _rows("mixed-sft", found, model.eval(), tokenizer, Sampling(start, end, 4))
    plain, thought = next(rows), next(rows)
    assert start not in plain and list(thought).count(start) == 1


def test_tasks_of_a_file_are_held_out_and_the_evaluation_says_so() -> None:
    spec = EnvironmentSpec("sums", tasks="tasks.jsonl", answer_tokens=2)
    folder = ROOT / "recipes" / "tiny_math"
    lines = [json.loads(line)["id"] for line in (folder / "tasks.jsonl").read_text().splitlines()]
    trained = [
        one.task.id.split("#")[0]
        for _, one in zip(range(200), problems(spec, tiny.TOKENIZER, 99, folder), strict=False)
    ]
    asked, seen = asked_problems(spec, tiny.TOKENIZER, 64, folder, seed=7)
    never = {one.task.id for one in asked}
    assert seen == "held out" and len(asked) == len(never) == 9 and len(lines) == 81
    assert never.isdisjoint(trained) and len(set(trained)) == 72
    everything = replace(spec, held_out_fraction=0.0)
    some, seen = asked_problems(everything, tiny.TOKENIZER, 64, folder)
    assert seen == "trained on" and len({one.task.id for one in some}) == 64
    assert parted([], 0.5) == ((), ())


def test_questions_of_a_file_are_all_measured_before_the_first_is_asked(tmp_path: Path) -> None:
    rows = [{"id": str(n), "domain": "math", "answer": "1", "prompt": "w1 " * (3 if n < 9 else 40)} for n in range(10)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    spec = EnvironmentSpec("sums", tasks="tasks.jsonl", held_out_fraction=0.0)
    recipe = Recipe(environments=(spec,), folder=tmp_path)
    with pytest.raises(InputError, match="question of task '9' has 41 tokens"):
        check_tokens(recipe, tiny.TOKENIZER, 100)
