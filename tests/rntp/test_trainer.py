"""The trainer against the plain loop, against itself after a kill, and in two processes; what it mixes and refuses."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from trl import GRPOTrainer

from computeledger.actuals.recording.run import RunLedger, RunMachine
from computeledger.actuals.run_ledger import PHASES_OF_RUN
from computeledger.errors import InputError
from rntp import loop
from rntp.checkpoints import checkpoints, clear, last_checkpoint
from rntp.deferred import TRACKERS
from rntp.errors import TrainingError
from rntp.mixture import Problem, Rows, mixed_rows
from rntp.models import load_model
from rntp.recipe import EnvironmentSpec, LoraSpec, Recipe, RewardSpec, ThoughtSpec
from rntp.recipe_file import read_recipe
from rntp.reward import Rewarded
from rntp.run import _held_out, _held_out_places
from rntp.run_folder import BASE, FINAL
from rntp.trainer import SCORER, Extras, RntpTrainer
from rntp.verify.task import Task
from tests.gates import ROOT
from tests.rntp import sharded, tiny
from tests.rntp.gradients import one_update
from tests.rntp.killed import attempt

DOCUMENTS = [place.context_ids for place in tiny.places(7)]


def text(count: int = 12) -> Rows:
    """Places of text alone."""
    return mixed_rows(tiny.places(12), {}, {"text": 1.0}, count)


class Seeded(RntpTrainer):
    """Samples each update's thoughts from a seed of its own, as the loop is made to do."""

    def _think(self, inputs: list[dict[str, Any]]) -> Any:
        torch.manual_seed(1000 + self.state.global_step)
        return super()._think(inputs)


def losses(trainer: RntpTrainer) -> list[float]:
    """Of every update."""
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def plain(recipe: Recipe, made: Any, optimizer: Any = None) -> list[loop.Step]:
    """The same run by the loop."""
    start, end = (tiny.TOKENIZER.encode(name)[0] for name in (recipe.thought.start, recipe.thought.end))
    steps = loop.train(
        made, loop.Markers(start, end, tiny.TOKENIZER.eos_token_id), tiny.places(12), recipe, DOCUMENTS, optimizer
    )
    done = []
    for number in range(recipe.rl.steps):
        torch.manual_seed(1000 + number)
        done.append(next(steps))
    return done


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"reward": RewardSpec(nll_weight=0.5), "ntp_weight": 1.0, "ntp_sequences": 3, "ntp_tokens": 8},
        {"thought": ThoughtSpec(budget=12, truncation="drop", length_weight=0.1), "temperature": 1.3},
        {"thought": ThoughtSpec(budget=12, truncation="keep", kl_weight=0.3), "reward": RewardSpec(scorer="frozen")},
        {"advantage": "leave-one-out", "scale": "none", "micro_batch": 4, "ntp_weight": 0.5, "ntp_sequences": 3},
        {"average": "thoughts", "thought": ThoughtSpec(budget=12, kl_weight=0.3), "micro_batch": 8},
        {"gradient_checkpointing": True, "reward": RewardSpec("tests.rntp.own:gain", nll_weight=0.5)},
    ],
    ids=[
        "default",
        "gold and text",
        "drop and length",
        "keep, frozen and KL",
        "small passes",
        "by thought",
        "recomputed, own reward",
    ],
)
def test_losses_and_weights_are_the_plain_loop_s(given: dict[str, Any], tmp_path: Path) -> None:
    recipe = tiny.recipe(tmp_path, **given)
    trained, other = tiny.model(), tiny.model()
    trainer = Seeded(trained, tiny.TOKENIZER, text(), recipe, None, Extras(documents=DOCUMENTS))
    # plain steps: what Adam makes of a gradient that is zero but for rounding is not what is compared
    trainer.optimizer = torch.optim.SGD(trained.parameters(), lr=0.5)
    trainer.train()
    steps = plain(recipe, other, torch.optim.SGD(other.parameters(), lr=0.5))
    assert losses(trainer) == pytest.approx([step.loss for step in steps], abs=1e-5)
    assert len({round(loss, 4) for loss in losses(trainer)}) > 1
    moved = [(a - b).abs().max() for a, b in zip(trained.parameters(), tiny.model().parameters(), strict=True)]
    assert max(moved) > 1e-3
    for a, b in zip(trained.parameters(), other.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_adam_moves_the_weights_as_in_the_plain_loop(tmp_path: Path) -> None:
    recipe = tiny.recipe(tmp_path, ntp_weight=1.0)
    trained, other = tiny.model(), tiny.model()
    trainer = Seeded(trained, tiny.TOKENIZER, text(), recipe, None, Extras(documents=DOCUMENTS))
    trainer.train()
    assert losses(trainer) == pytest.approx([step.loss for step in plain(recipe, other)], abs=1e-5)


def figures(folder: Path, reward: RewardSpec, **given: Any) -> tuple[list[float], list[float]]:
    """Losses and mean gains of a few updates from the same thoughts."""
    kept = ThoughtSpec(budget=12, truncation="keep")
    recipe = tiny.recipe(folder, reward=reward, thought=kept, **given)
    trainer = Seeded(tiny.model(), tiny.TOKENIZER, text(), recipe)
    trainer.train()
    return losses(trainer), [entry["gain"] for entry in trainer.state.log_history if "gain" in entry]


def test_the_baseline_moves_the_gain_and_not_the_update(tmp_path: Path) -> None:
    made = {
        name: figures(tmp_path / name, RewardSpec(baseline=name, ema_decay=0.5))
        for name in ("scorer", "policy", "ema", "frozen")
    }
    plain, gains = made["scorer"]
    assert made["policy"] == made["scorer"]
    for name in ("ema", "frozen"):
        assert made[name][0] == pytest.approx(plain, abs=1e-5)
        assert made[name][1][0] == pytest.approx(gains[0], abs=1e-5)  # every model is the same before the first update
        assert abs(made[name][1][2] - gains[2]) > 1e-3
    assert abs(made["ema"][1][2] - made["frozen"][1][2]) > 1e-3


def test_credit_by_token_is_the_credit_of_thoughts_where_nothing_is_scaled(tmp_path: Path) -> None:
    whole = figures(tmp_path / "a", RewardSpec(per_token=True), scale="none")
    by_token = figures(tmp_path / "b", RewardSpec(per_token=True, credit="token"), scale="none")
    scaled = figures(tmp_path / "c", RewardSpec(per_token=True, credit="token"))
    assert by_token[0] == pytest.approx(whole[0], abs=1e-6) and by_token[1] == pytest.approx(whole[1], abs=1e-6)
    assert scaled[0] != pytest.approx(whole[0], abs=1e-3)


def test_several_updates_of_a_batch_weigh_it_by_what_sampled_it(tmp_path: Path) -> None:
    """The log-probabilities of sampling come from the scoring pass, and are those of TRL's own pass."""
    apart = []

    class Noted(RntpTrainer):
        def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
            made = super()._generate_and_score_completions(inputs)
            parts = [torch.cat([made[f"prompt_{kind}"], made[f"completion_{kind}"]], 1) for kind in ("ids", "mask")]
            with torch.no_grad():
                trl, _, _ = GRPOTrainer._get_per_token_logps_and_entropies(
                    self, self.model, *parts, made["completion_ids"].shape[1]
                )
            apart.append(float(((made["old_per_token_logps"] - trl) * made["completion_mask"]).abs().max()))
            return made

    recipe = tiny.recipe(tmp_path, steps=4, updates_per_batch=2, save_steps=2, learning_rate=0.05)
    trainer = Noted(tiny.model(), tiny.TOKENIZER, text(), recipe)
    trainer.train()
    assert len(apart) == 2
    assert max(apart) < 1e-5
    clipped = [entry["clip_ratio/region_mean"] for entry in trainer.state.log_history if "loss" in entry]
    assert clipped[0] == clipped[2] == 0 < max(clipped[1], clipped[3])


@pytest.mark.parametrize("name", ["probability", "similarity-chrf", "self-evaluation", "entropy-weighted-gain"])
def test_every_kind_of_reward_trains(name: str, tmp_path: Path) -> None:
    recipe = tiny.recipe(tmp_path, reward=RewardSpec(name=name, scorer="ema", ema_decay=0.5), steps=2)
    trained = tiny.model()
    trainer = RntpTrainer(trained, tiny.TOKENIZER, text(), recipe)
    trainer.train()
    assert all(np.isfinite(losses(trainer)))
    # the scorer follows at half the distance, twice
    first, last = (next(one.parameters()).detach().clone() for one in (tiny.model(), trained))
    with trainer._means[SCORER].in_place():
        mean = next(trained.parameters()).detach().clone()
    assert torch.equal(next(trained.parameters()), last)
    assert 0 < float((mean - last).abs().max()) < float((first - last).abs().max())


def test_thoughts_that_a_frozen_scorer_likes_become_more_frequent(tmp_path: Path) -> None:
    frozen, thought = RewardSpec(scorer="frozen"), ThoughtSpec(budget=6, truncation="keep")
    recipe = tiny.recipe(tmp_path, steps=25, group_size=8, learning_rate=5e-3, reward=frozen, thought=thought)
    trainer = RntpTrainer(tiny.model(), tiny.TOKENIZER, mixed_rows(tiny.places(4), {}, {"text": 1.0}, 100), recipe)
    trainer.train()
    gains = [entry["gain"] for entry in trainer.state.log_history if "gain" in entry]
    assert np.mean(gains[-5:]) > np.mean(gains[:5]) + 0.15


class Answered(RntpTrainer):
    """Answers every second problem with its word, and keeps what was made of it."""

    seen: list[tuple[list[dict[str, Any]], dict[str, Any]]]

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        made = super()._generate_and_score_completions(inputs)
        self.seen = [*getattr(self, "seen", []), ([self.rows[row["row"]] for row in inputs], made)]
        return made

    def _sample(self, prompts: list[list[int]], each: int) -> Any:
        ids, log_probs = super()._sample(prompts, each)
        if each == 1:
            ids = [[tiny.FIRST + place % 2, tiny.TOKENIZER.eos_token_id] for place in range(len(prompts))]
        return ids, log_probs


def test_verified_answers_are_mixed_in_and_rewarded_by_their_verdict(tmp_path: Path) -> None:
    word = tiny.TOKENIZER.decode([tiny.FIRST])
    task = Task("t", "text", {"answer": word, "scorer": "exact"}, environment="words")
    rows = mixed_rows(tiny.places(12), {"words": [Problem(task, (7, 8, 9))]}, {"text": 1.0, "words": 1.0}, 12, seed=1)
    recipe = tiny.recipe(tmp_path, environments=(EnvironmentSpec(name="words", puzzle="x", answer_tokens=3),))
    books = RunLedger(None, tiny.model().config, RunMachine())
    trainer = Answered(tiny.model(), tiny.TOKENIZER, rows, recipe, books)
    trainer.train()
    seen = trainer.seen
    assert {row["source"] for inputs, _ in seen for row in inputs} == {"text", "words"}
    for inputs, made in seen:
        verified = [place for place, row in enumerate(inputs) if row["task"] is not None]
        rank = [verified.index(place) % 2 for place in verified]
        # right answers above wrong ones, and nothing of a problem in the gold
        assert all((made["advantages"][place] > 0) == (not r) for place, r in zip(verified, rank, strict=True))
        assert not made["gold_mask"][verified].any()
        ends = made["completion_ids"][verified].gather(1, made["completion_mask"][verified].sum(1, keepdim=True) - 1)
        assert (ends == tiny.TOKENIZER.eos_token_id).all()
        # an end that was written for the model is not trained on
        end = made["completion_ids"] == tiny.TOKENIZER.convert_tokens_to_ids("</think>")
        assert ((end * made["completion_mask"]).sum(1) >= 1).all()
        assert made["num_items_in_batch"] == made["tool_mask"].sum()
    summary = books.summary()
    assert set(summary["phases"]) >= {"generation", "thought scoring", "baseline", "verification", "update", "data"}
    assert summary["beta_flop"] > 6


def test_a_thought_s_length_is_without_its_answer_and_costs_a_verified_row_too(tmp_path: Path) -> None:
    class Kept(Answered):
        def _advantages(self, inputs: Any, thoughts: Any, values: Any, unaided: Any) -> Any:
            self.kept = (thoughts, values.values.copy())
            return super()._advantages(inputs, thoughts, values, unaided)

    task = Task("t", "text", {"answer": "w1"}, environment="words")
    rows = mixed_rows((), {"words": [Problem(task, (7, 8, 9))]}, {"words": 1.0}, 4)
    spec = EnvironmentSpec(name="words", puzzle="x", answer_tokens=3)
    thought = ThoughtSpec(budget=12, length_weight=0.25)
    recipe = tiny.recipe(tmp_path, environments=(spec,), steps=1, thought=thought)
    trainer = Kept(tiny.model(), tiny.TOKENIZER, rows, recipe, None, Extras(verify=lambda pairs: [1.0] * len(pairs)))
    trainer.train()
    thoughts, values = trainer.kept
    assert max(thoughts.lengths) <= 12 and len(set(thoughts.lengths)) > 1
    assert values == pytest.approx(1 - 0.25 * np.array(thoughts.lengths))
    logged = next(entry for entry in trainer.state.log_history if "loss" in entry)
    assert logged["thought/tokens"] == pytest.approx(np.mean(thoughts.lengths))
    assert logged["answer/tokens"] == 2 and logged["completion/tokens"] == pytest.approx(logged["thought/tokens"] + 2)


def test_a_running_mean_that_scores_needs_no_frozen_copy(tmp_path: Path) -> None:
    made = RntpTrainer(tiny.model(), tiny.TOKENIZER, text(), tiny.recipe(tmp_path, reward=RewardSpec(scorer="ema")))
    assert made._frozen is None and set(made._decays) == {SCORER}
    both = tiny.recipe(tmp_path, reward=RewardSpec(scorer="ema"), thought=ThoughtSpec(budget=12, kl_weight=0.1))
    assert RntpTrainer(tiny.model(), tiny.TOKENIZER, text(), both)._frozen is not None


def test_a_verifier_that_failed_gives_no_reward_and_no_advantage(tmp_path: Path) -> None:
    task = Task("t", "text", {"answer": "w1"}, environment="words")
    rows = mixed_rows((), {"words": [Problem(task, (7, 8, 9))]}, {"words": 1.0}, 4)
    recipe = tiny.recipe(tmp_path, environments=(EnvironmentSpec(name="words", puzzle="x"),), steps=1)

    def broken(pairs: list[tuple[Task, str]]) -> list[float | None]:
        return [None] * len(pairs)

    trained = tiny.model()
    RntpTrainer(trained, tiny.TOKENIZER, rows, recipe, None, Extras(verify=broken)).train()
    assert all(torch.equal(a, b) for a, b in zip(trained.parameters(), tiny.model().parameters(), strict=True))


def test_a_loss_that_is_no_number_leaves_the_last_checkpoint_whole(tmp_path: Path) -> None:
    class Breaks(RntpTrainer):
        def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
            return super()._compute_loss(model, inputs) * (torch.nan if self.state.global_step == 2 else 1.0)

    trainer = Breaks(tiny.model(), tiny.TOKENIZER, text(), tiny.recipe(tmp_path, save_steps=1))
    with pytest.raises(TrainingError, match=r"step 3: the loss is nan; the last good checkpoint is .*checkpoint-2"):
        trainer.train()
    assert [folder.name for folder in checkpoints(tmp_path)] == ["checkpoint-1", "checkpoint-2"]


def test_a_reward_that_is_no_number_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = RntpTrainer(tiny.model(), tiny.TOKENIZER, text(), tiny.recipe(tmp_path))
    monkeypatch.setattr(trainer, "_reward", lambda scores: Rewarded(scores.log_probs.sum(1) * np.nan))
    with pytest.raises(TrainingError, match=r"step 1: a reward is no number; there is no checkpoint yet"):
        trainer.train()


def test_weights_that_are_no_numbers_are_not_saved(tmp_path: Path) -> None:
    trainer = RntpTrainer(tiny.model(), tiny.TOKENIZER, text(), tiny.recipe(tmp_path, save_steps=1, learning_rate=1e38))
    with pytest.raises(TrainingError, match=r"step 2: .*no numbers"):
        trainer.train()
    assert all(np.isfinite(weights(folder)).all() for folder in checkpoints(tmp_path))


def weights(folder: Path) -> np.ndarray:
    """All weights of a checkpoint in one row."""
    from safetensors.numpy import load_file

    held = load_file(folder / "model.safetensors")
    return np.concatenate([held[name].ravel() for name in sorted(held)])


def test_a_full_disk_leaves_the_last_checkpoint_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = RntpTrainer(tiny.model(), tiny.TOKENIZER, text(), tiny.recipe(tmp_path, save_steps=1))

    def full(folder: Path) -> None:
        if folder.name == "checkpoint-2":
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(trainer, "_save_more", full)
    with pytest.raises(TrainingError, match=r"No space left.*last good checkpoint is .*checkpoint-1"):
        trainer.train()
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-1"]


def test_a_checkpoint_that_was_cut_does_not_count(tmp_path: Path) -> None:
    RntpTrainer(tiny.model(), tiny.TOKENIZER, text(), tiny.recipe(tmp_path, save_steps=1)).train()
    assert [folder.name for folder in checkpoints(tmp_path)] == ["checkpoint-2", "checkpoint-3"]
    cut = tmp_path / "checkpoint-3" / "optimizer.pt"
    cut.write_bytes(cut.read_bytes()[:-1])
    found = last_checkpoint(tmp_path)
    assert found is not None
    assert found.name == "checkpoint-2"
    clear(tmp_path)
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-2"]


#: What starts two processes without a GPU.
TWO = ("-m", "accelerate.commands.launch", "--config_file", str(ROOT / "recipes" / "accelerate" / "cpu.yaml"),
       "--num_processes", "2", "--main_process_port", "0")  # fmt: skip


def launched(*arguments: str) -> str:
    """What Python prints, given these arguments."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"reward": RewardSpec(nll_weight=0.5), "ntp_weight": 1.0, "micro_batch": 4},
        {"reward": RewardSpec(baseline="ema")},
    ],
    ids=["plain", "gold", "baseline apart"],
)
def test_the_books_count_what_torch_counts_in_a_run(given: dict[str, Any], tmp_path: Path) -> None:
    """All of a run: sampling, scoring, and the update with its padding and its head, whose logits are made twice."""
    made = tiny.model()
    made.set_attn_implementation("eager")  # torch counts no FLOP for the fused attention of a CPU
    books = RunLedger(None, made.config, RunMachine())
    trainer = RntpTrainer(made, tiny.TOKENIZER, text(), tiny.recipe(tmp_path, **given), books, Extras(DOCUMENTS))
    # what torch leaves out: the fused head's gradients are added in place
    added = {torch.ops.aten.addmm_: lambda _to, a, b, **_said: 2 * a[0] * a[1] * b[1]}
    with FlopCounterMode(display=False, custom_mapping=added) as counter:
        trainer.train()
    work = {
        phase: sum(e.executed_flop or 0.0 for e in books.entries if e.phase == phase) for phase in PHASES_OF_RUN["rl"]
    }
    assert sum(work.values()) == pytest.approx(counter.get_total_flops(), rel=0.01)
    assert work["update"] > 0.4 * sum(work.values())


Forked = Callable[[str], tuple[str, Path]]


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Forked:
    """What the processes of a job said, and the folder that they wrote to; everything is loaded once for all jobs."""
    folder = tmp_path_factory.mktemp("forked")
    launched(str(Path(__file__).with_name("forked.py")), str(folder))

    def said(job: str) -> tuple[str, Path]:
        text = (folder / f"{job}.txt").read_text("utf-8")
        assert set((folder / f"{job}.ended").read_text("utf-8").split()) == {"0"}, text[-3000:]
        return text, folder

    return said


def test_killed_anywhere_and_resumed_a_run_ends_with_the_same_weights(forked: Forked, tmp_path: Path) -> None:
    """Killed in step 4, then while the checkpoint of step 4 is written, then left alone."""
    said, folder = forked("killed")
    begun = re.findall("^from .*$", said, re.MULTILINE)
    assert begun == ["from the start", "from checkpoint-2", "from checkpoint-2"]
    attempt(tmp_path / "whole", 0)
    whole, killed = (
        weights(parent / name / "checkpoint-6") for parent, name in ((tmp_path, "whole"), (folder, "killed"))
    )
    assert np.abs(whole - killed).max() < 1e-6
    assert np.abs(whole - weights(tmp_path / "whole" / "checkpoint-4")).max() > 1e-3


def test_trackers_that_no_recipe_asks_for_are_not_loaded_with_the_trainer(forked: Forked) -> None:
    """Together they take 4 s of processor time, in every process."""
    assert all(importlib.util.find_spec(name) for name in TRACKERS)
    assert (forked("killed")[1] / "loaded.txt").read_text() == ""


def test_two_processes_make_the_gradients_of_one(forked: Forked, tmp_path: Path) -> None:
    """A group lies across both, one of them has more problems than the other, and each makes two passes."""
    said, folder = forked("gradients")
    assert re.findall("of the group left: (.)", said) == ["0", "0"]
    assert sorted(re.findall("[01] of 2", said)) == ["0 of 2", "1 of 2"]
    alone = one_update(tmp_path / "one", 0)
    assert [row["source"] for row in alone.rows] == ["text", "words", "words"]
    one, two = alone.gradients, np.load(folder / "gradients.npy")
    assert np.abs(one).max() > 1e-2
    assert np.abs(one - two).max() < 1e-5


def test_a_server_that_two_processes_share_answers_the_right_prompts(forked: Forked) -> None:
    """TRL gathers the prompts and gives each process the slice of its rank: as many are needed from each."""
    said, _ = forked("served")
    counts = [(int(asked), int(right)) for asked, right in re.findall(r"asked (\d+) right (\d+)", said)]
    assert len(counts) == 2 and counts[0][0] != counts[1][0]
    assert all(asked == right for asked, right in counts)


def test_sharded_weights_become_those_of_whole_ones_and_are_saved_once(forked: Forked) -> None:
    """FSDP2 on two processes without a GPU, over gloo, against DDP; and gone on with from a checkpoint."""
    for kind in ("fsdp", "ddp"):
        said, folder = forked(kind)
        assert re.findall(r"sharded (\w+) resumed (\w+)", said) == [(str(kind == "fsdp"), "True")] * 2
    one, two = (weights(folder / kind / "final") for kind in ("fsdp", "ddp"))
    assert np.abs(one - two).max() < 1e-6
    names = {path.name for path in (folder / "fsdp" / "checkpoint-2").iterdir()}
    assert "pytorch_model_fsdp.bin" in names and "model.safetensors" not in names and "config.json" in names


def test_two_processes_train_the_adapter_that_one_would(forked: Forked, tmp_path: Path) -> None:
    said, folder = forked("ddp-lora")
    assert re.findall(r"sharded (\w+) resumed (\w+)", said) == [("False", "True")] * 2
    sharded.trained(tmp_path, lora=LoraSpec(rank=4)).save_final(tmp_path / "final", tmp_path / "ema")
    one, two = (weights(path / "final") for path in (tmp_path, folder / "ddp-lora"))
    assert np.abs(one - two).max() < 1e-5 < np.abs(two - weights(folder / "ddp" / "final")).max()


def test_a_run_goes_on_with_another_number_of_processes(forked: Forked, tmp_path: Path) -> None:
    """From one to two and back: the step's prompts and thoughts are the recipe's, whatever the number is."""
    for job in ("one", "more", "ddp"):
        _, folder = forked(job)
    whole = weights(folder / "one" / "checkpoint-3")
    more = weights(folder / "more" / "final")
    fewer = sharded.trained(tmp_path, str(folder / "ddp" / "checkpoint-2"))
    fewer.save_final(tmp_path / "final", tmp_path / "ema")
    assert np.abs(whole - weights(folder / "one" / "checkpoint-2")).max() > 1e-3
    assert np.abs(whole - more).max() < 1e-5
    assert np.abs(whole - weights(tmp_path / "final")).max() < 1e-5


def test_two_processes_evaluate_what_one_would(tmp_path: Path) -> None:
    """The held-out figures at the end of a run are those of one process that is given the same two models."""
    torch.set_num_threads(1)
    path, folder = ROOT / "recipes" / "tiny_text" / "config.toml", tmp_path / "run"
    changes = (f"output={folder}", "pretrain.steps=8", "rl.steps=2", "rl.learning_rate=0.01", "report.places=6")
    settings = [part for change in changes for part in ("--set", change)]
    held_out = json.loads(launched(*TWO, "-m", "rntp", "train", str(path), "--json", *settings))["held_out"]
    recipe = read_recipe(path, changes)
    model, tokenizer = load_model(folder / FINAL, recipe.thought)
    before, _ = load_model(folder / BASE, recipe.thought)
    held_out_places = _held_out_places(recipe, before.eval(), tokenizer)
    alone = _held_out(recipe, model.eval(), tokenizer, folder / BASE, held_out_places)
    assert alone is not None and alone["places"] == held_out["places"] == 6
    assert held_out["thoughts"] == pytest.approx(alone["thoughts"])
    for role in ("base", "policy"):
        assert held_out["loss"][role] == pytest.approx(alone["loss"][role], rel=1e-5)
    assert held_out["settled"]["gain"]["mean"] == pytest.approx(alone["settled"]["gain"]["mean"], rel=1e-4)
    assert abs(held_out["loss"]["policy"]["without"] - held_out["loss"]["base"]["without"]) > 1e-3


def test_the_shipped_launch_files_are_read_by_accelerate() -> None:
    from accelerate.commands.config.config_args import load_config_from_file

    made = {path.stem: load_config_from_file(str(path)) for path in (ROOT / "recipes" / "accelerate").glob("*.yaml")}
    assert {name: one.distributed_type.value for name, one in made.items()} == {"cpu": "MULTI_GPU", "fsdp2": "FSDP"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"thought": ThoughtSpec(start="<reason>")}, "marker '<reason>' is not one token"),
        ({"steps": 4}, "4 steps need 16 prompts, not 12"),
        ({"ntp_weight": 1.0}, "documents for the next-token term"),
        ({"reward": RewardSpec(nll_weight=1.0), "temperature": 0.7}, "nll_weight with temperature 0.7"),
        ({"micro_batch": 5}, "cannot be shared"),
        ({"updates_per_batch": 2, "save_steps": 3}, "multiple of updates_per_batch"),
    ],
)
def test_what_would_fail_later_is_refused_at_once(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        RntpTrainer(tiny.model(), tiny.TOKENIZER, text(), tiny.recipe(tmp_path, **given))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), {}, {"text": 1.0}), "no place to think at"),
        (((), {"maths": []}, {"maths": 1.0}), "environment 'maths' has no problem"),
        (((), {}, {"text": 0.0}), "weight above 0"),
        (((), {"maths": []}, {"math": 1.0}), "did you mean 'maths'"),
    ],
)
def test_rows_that_cannot_be_drawn_are_refused(arguments: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mixed_rows(*arguments, 3)


def test_rows_are_the_same_for_the_same_seed_and_mixed_by_weight() -> None:
    problems = {"words": [Problem(Task("t", "text", {"answer": "x"}, environment="words"), (7, 8))]}
    weights_ = {"text": 3.0, "words": 1.0}
    one, same, other = (mixed_rows(tiny.places(5), problems, weights_, 200, seed=seed) for seed in (1, 1, 2))
    first, again, last = ([row["source"] for row in rows] for rows in (one, same, other))
    assert first == again != last and 130 < first.count("text") < 170
    # the places come round in their order
    read = [row["document"] for row in one if row["source"] == "text"]
    assert read[:6] == [f"document {n % 5}" for n in range(6)]


def test_a_step_that_learns_nothing_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"min_gain": 1e6}, "every group was left out; a lower"),
        ({"thought": ThoughtSpec(budget=1)}, "every thought reached [thought] budget"),
        ({}, ""),
    ]
    for given, reason in cases:
        caplog.clear()
        rows = mixed_rows(tiny.places(12), {}, {"text": 1.0}, 12)
        RntpTrainer(tiny.model(), tiny.TOKENIZER, rows, tiny.recipe(tmp_path, **given)).train()
        said = [one.getMessage() for one in caplog.records if one.name == "rntp"]
        assert len(said) == bool(reason) and all("\n" not in one for one in said)
        assert not reason or re.match(
            rf"rntp: warning: RL learns nothing from the thoughts of step \d: {re.escape(reason)}", said[0]
        )
