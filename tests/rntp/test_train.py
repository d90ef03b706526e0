"""Recipes trained for real, a few steps each; ended and gone on with; refused with one line where they cannot run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from computeledger.actuals.recording.run import PhaseBook
from computeledger.errors import InputError
from rntp import problems as problems_module
from rntp.checkpoints import last_checkpoint
from rntp.errors import TrainingError
from rntp.interfaces.cli import main
from rntp.interfaces.tables.train import print_run
from rntp.measures import entropies, losses, measure_for
from rntp.models import counted_by, load_model
from rntp.recipe import Recipe
from rntp.recipe_file import read_recipe
from rntp.rows import choose_rows, select
from rntp.run import LEARNING, PRETRAINING, run
from rntp.run_folder import METRICS, read_metrics
from tests.gates import ROOT

MATH = ROOT / "recipes" / "tiny_math" / "config.toml"
SHORT = ("pretrain.steps=40", "pretrain.save_steps=15", "rl.steps=4", "rl.save_steps=2", "rl.prompts_per_step=2")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two threads on a busy machine are slower than one."""
    torch.set_num_threads(1)


def recipe_at(folder: Path, *settings: str, path: Path = MATH) -> Recipe:
    """A recipe that writes to a folder."""
    return read_recipe(path, [f"output={folder}", *settings])


def stop_at(stage: str, step: int) -> Any:
    """A report that ends the run."""

    def report(now: str, at: int, _steps: int, _figures: Mapping[str, float]) -> None:
        if (now, at) == (stage, step):
            raise KeyboardInterrupt

    return report


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """Of a model that has been saved."""
    return load_file(folder / "model.safetensors")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    torch.set_num_threads(1)
    run(recipe_at(folder, *SHORT))
    return folder


def test_the_command_ends_with_the_ledger_of_the_run(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [argument for change in (f"output={whole}", *SHORT) for argument in ("--set", change)]
    with pytest.raises(SystemExit) as ended:
        main(["train", str(MATH), "--json", *changes])
    assert ended.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert {"beta_flop", "beta_gpu_time", "phases", "steps", "wall_s", "checkpoint"} <= set(said)
    assert said["steps"] == 4 and said["beta_flop"] > 6 and Path(said["checkpoint"]) == whole / "final"
    assert said["reference"]["measurements"] == 3  # spread over the run
    assert sum(phase["fraction"] for phase in said["phases"].values()) == pytest.approx(1)
    assert all({"gpu_hours", "fraction"} <= set(phase) for phase in said["phases"].values())
    with pytest.raises(SystemExit):
        main(["train", str(MATH), *changes])
    assert "4 steps of RL" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("tiny_text", ()),
        ("tiny_mixed", ()),
        ("must_think", ("pretrain.steps=10", "rl.steps=2", "rl.prompts_per_step=2", "rl.group_size=4",
                        "report.places=4", "corpus.held_out_fraction=0.3")),
        ("real_text", ("pretrain.steps=4", "model.tokenizer_documents=5", "rl.steps=2", "rl.prompts_per_step=2",
                       "rl.group_size=4", "report.places=4", "corpus.documents=60")),
    ],
)  # fmt: skip
def test_shipped_recipes_train(
    name: str,
    settings: tuple[str, ...],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name == "tiny_mixed":
        request.getfixturevalue("sandbox_works")
    recipe = recipe_at(tmp_path / "run", *settings, path=ROOT / "recipes" / name / "config.toml")
    told: list[tuple[str, int]] = []
    summary = run(recipe, report=lambda stage, step, _steps, _figures: told.append((stage, step)))
    assert recipe.pretrain is not None
    assert [step for stage, step in told if stage == PRETRAINING] == list(range(1, recipe.pretrain.steps + 1))
    assert [step for stage, step in told if stage == LEARNING] == list(range(1, recipe.rl.steps + 1))
    before, after = (weights(tmp_path / "run" / part) for part in ("base", "final"))
    assert any(not torch.equal(before[key], after[key]) for key in before)
    assert summary["held_out"]["places"] == recipe.report.places
    assert summary["held_out"]["loss"]["base"]["without"] > 0
    print_run(summary)
    assert "given the thoughts of after" in capsys.readouterr().out
    sources = {name for name in summary["learnt"] if name.startswith("reward/")}
    assert "reward/text" in sources and (name != "tiny_mixed" or len(sources) > 1)


def test_a_run_that_was_ended_twice_ends_with_the_same_weights(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for stage, step in ((PRETRAINING, 37), (LEARNING, 3)):
        with pytest.raises(KeyboardInterrupt):
            run(recipe_at(folder, *SHORT), report=stop_at(stage, step))
    begun: list[tuple[str, int]] = []
    run(recipe_at(folder, *SHORT), report=lambda stage, step, _steps, _figures: begun.append((stage, step)))
    assert begun == [(LEARNING, 3), (LEARNING, 4)]
    assert [row["step"] for row in read_metrics(folder)] == [1, 2, 3, 4]
    for part in ("base", "final"):
        expected, found = weights(whole / part), weights(folder / part)
        assert max(float((expected[key] - found[key]).abs().max()) for key in expected) <= 1e-6


def test_a_folder_is_another_recipe_s_or_no_run_s(whole: Path, tmp_path: Path) -> None:
    kept = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    with pytest.raises(InputError, match=r"another recipe \(rl.steps 4 there, 5 here\)"):
        run(recipe_at(whole, *SHORT, "rl.steps=5"))
    (tmp_path / "mine.txt").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(InputError, match="holds other files and no run"):
            run(recipe_at(tmp_path), fresh=fresh)
    assert run(recipe_at(whole, *SHORT))["steps"] == 4
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == kept


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    full: list[str] = []

    def fill(stage: str, step: int, _steps: int, _figures: Mapping[str, float]) -> None:
        if (stage, step) == (PRETRAINING, 20) and stage not in full:
            full.append(stage)
            (folder / "base.part" / "state.part").symlink_to("/dev/full")
        if (stage, step) == (LEARNING, 3):
            (folder / METRICS).unlink()
            (folder / METRICS).symlink_to("/dev/full")

    with pytest.raises(TrainingError, match=r"no space left on device; the checkpoint of step 15 is whole"):
        run(recipe_at(folder, *SHORT), report=fill)
    with pytest.raises(TrainingError, match=r"no room left on the disk; the last good checkpoint is .*checkpoint-2"):
        run(recipe_at(folder, *SHORT), report=fill)
    (folder / METRICS).unlink()
    assert run(recipe_at(folder, *SHORT))["checkpoint"] == str(folder / "final")


def test_a_loss_that_is_no_number_stops_pretraining(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"the loss is nan at step .* of pretraining; "):
        run(recipe_at(tmp_path / "run", *SHORT, "pretrain.learning_rate=1e3", "pretrain.weight_decay=1e3"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("corpus.kind=text", "corpus.source=[]"), "source is empty"),
        (("corpus.kind=text", "corpus.source=nothing/*.txt"), "no file is named 'nothing/[*].txt'"),
        (("reward.name=likely",), "unknown .reward. name 'likely'"),
        (("corpus.weight=1",), "64 is too short: context 512 [+] thought 10"),
        (("model.path=nowhere",), "no folder with a config.json"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_trained(
    settings: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        run(recipe_at(tmp_path / "run", *settings))
    assert not list((tmp_path / "run").glob("**/*.safetensors"))


def test_a_local_model_is_checked_against_the_recipe(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = (f"model.path={whole / 'base'}", *SHORT)
    with pytest.raises(InputError, match="context of 64 tokens is too short: context 512"):
        run(recipe_at(tmp_path / "a", *given, "corpus.weight=1"))
    with pytest.raises(InputError, match="has 7 tokens, and the model's context leaves room for 2"):
        run(recipe_at(tmp_path / "b", *given, "thought.budget=58"))
    monkeypatch.setattr(problems_module, "has_sandbox", lambda: False)
    puzzle = "environments=[{name='chains', puzzle='chain_sum'}]"
    with pytest.raises(InputError, match="environment 'chains': needs bubblewrap"):
        run(recipe_at(tmp_path / "c", *given, puzzle))


def test_rules_that_ask_the_model(whole: Path) -> None:
    settings = (f"model.path={whole / 'base'}", "corpus.weight=1", "positions.context_tokens=10", "thought.budget=6",
                "positions.gold_tokens=8", "positions.min_context_tokens=3", "rl.steps=2", "rl.prompts_per_step=2",
                "rl.group_size=4", "environments=[]")  # fmt: skip
    model, tokenizer = load_model(whole / "base", Recipe().thought)
    torch.manual_seed(0)
    for rule in ("entropy-band", "learnability-band", "proxy"):
        high = "positions.high=0.3" if rule == "entropy-band" else "positions.high=50"
        more = (f"positions.rule={rule}", f"positions.proxy={whole / 'base'}", high)
        recipe = recipe_at(whole, *settings, *more)
        book = PhaseBook(counted_by(model))
        rows = choose_rows(recipe, model.eval(), tokenizer, select(recipe, model, tokenizer, book))
        assert book.work is not None and book.work.flop > 0, rule
        assert len(rows) == 4 and all(len(row["context_ids"]) >= 3 for row in rows), rule
    chunk = next(iter(_chunks(tokenizer)))
    assert np.isnan(entropies(model, chunk)[0]) and (entropies(model, chunk)[1:] <= np.log(len(tokenizer))).all()
    whole_loss = model(torch.tensor([chunk.ids]), labels=torch.tensor([chunk.ids])).loss.item()
    assert np.nanmean(losses(model, chunk)) == pytest.approx(whole_loss, rel=1e-5)
    assert measure_for(recipe_at(whole, *settings), model, tokenizer) is None


def _chunks(tokenizer: Any) -> Any:
    from rntp.corpus import Document, chunks

    return chunks([Document("what is 3 plus 4 ? <think> i say 9 </think> 9", "a")], tokenizer, 40)


def test_the_last_checkpoint_is_whole(whole: Path) -> None:
    last = last_checkpoint(whole)
    assert last is not None and last.name == "checkpoint-4"
    expected, found = weights(last), weights(whole / "final")
    assert all(torch.equal(expected[key], found[key]) for key in expected)
