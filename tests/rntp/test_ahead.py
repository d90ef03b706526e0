"""Thoughts drawn one batch ahead: by which weights, how they are weighed, gone on with, counted and refused."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from computeledger.actuals.recording.run import RunLedger, RunMachine
from computeledger.errors import InputError
from rntp import loop
from rntp.arguments import grpo_config
from rntp.checkpoints import last_checkpoint
from rntp.errors import TrainingError
from rntp.mixture import Problem, Rows, mixed_rows
from rntp.recipe import EnvironmentSpec, Recipe, RewardSpec, ThoughtSpec
from rntp.recipe_file import parse_recipe
from rntp.trainer import DRAWN_FILE, Extras, RntpTrainer
from rntp.verify.task import Task
from tests.rntp import tiny
from tests.rntp.http_engine import Engine, flat, serving, stand_in
from tests.rntp.test_recipe import WHOLE
from tests.rntp.test_server import SYNCED, Watched, ratios, recipe, thoughts

KEPT = ThoughtSpec(budget=6, truncation="keep")


def text(count: int = 12) -> Rows:
    """Places of text alone."""
    return mixed_rows(tiny.places(12), {}, {"text": 1.0}, count)


class Seeded(RntpTrainer):
    """Draws each batch from a seed of its own."""

    drawn = 0

    def _think(self, inputs: Any) -> Any:
        torch.manual_seed(1000 + self.drawn)
        self.drawn += 1
        return super()._think(inputs)


def by_hand(made: Recipe, model: Any) -> list[list[list[int]]]:
    """The same run in plain PyTorch: batch n + 1 is drawn before update n. Gives the thoughts."""
    rl = made.rl
    start, end = (tiny.TOKENIZER.encode(name)[0] for name in (made.thought.start, made.thought.end))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    places = tiny.places(12)
    batches = [[p for p in places[4 * n : 4 * n + 4] for _ in range(rl.group_size)] for n in range(rl.steps)]

    def drawn(number: int) -> tuple[list[list[int]], list[list[int]], torch.Tensor]:
        rows = batches[number]
        torch.manual_seed(1000 + number)
        prompts = [[*row.context_ids, start] for row in rows]
        found = loop._sample(model, prompts, [end, tiny.TOKENIZER.eos_token_id], made.thought.budget, 1.0)
        said = [[start, *ids, *[end] * (ids[-1] != end)] for ids in found]
        with torch.no_grad():
            return found, said, loop._read(model, [[*r.context_ids, *t] for r, t in zip(rows, said, strict=True)])

    ahead, kept = drawn(0), []
    for number, rows in enumerate(batches):
        found, said, then = ahead
        kept.append(found)
        if number + 1 < rl.steps:
            ahead = drawn(number + 1)
        with torch.no_grad():
            now = loop._read(model, [[*r.context_ids, *t] for r, t in zip(rows, said, strict=True)])
            values = loop._rewards(model, rows, said, made.positions.skip_first_gold)
        worth = loop._settled(values, [ids[-1] == end for ids in found], rl.group_size, made.thought.truncation)
        weighed: Any = []
        for row, ids, advantage, before, after in zip(
            rows, found, loop._advantages(worth, leave_one_out=False, scaled=True), then, now, strict=True
        ):
            part = slice(len(row.context_ids), len(row.context_ids) + len(ids))
            weighed.append(advantage * (after - before)[part].exp().clamp(max=3.0))
        batch = loop._Batch(rows, said, list(map(len, found)), [True] * len(rows), weighed)
        optimizer.zero_grad()
        loop._policy_loss(model, model, batch, made).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), rl.max_grad_norm)
        optimizer.step()
    return kept


def test_thoughts_are_those_of_the_weights_before_the_last_update_and_weighed_by_hand(tmp_path: Path) -> None:
    made = tiny.recipe(tmp_path, ahead=1, thought=KEPT)
    trained, other, same = tiny.model(), tiny.model(), tiny.model()

    class Kept(Seeded):
        batches: list[Any] = []  # noqa: RUF012 - of this test

        def _drawn(self, numbers: Any) -> Any:
            taken = super()._drawn(numbers)
            self.batches.append(taken[1])
            return taken

    trainer = Kept(trained, tiny.TOKENIZER, text(), made)
    trainer.optimizer = torch.optim.SGD(trained.parameters(), lr=0.5)
    trainer.train()
    wanted = by_hand(made, other)
    found = [[ids[:n] for ids, n in zip(one.completions, one.lengths, strict=True)] for one in Kept.batches]
    assert found == wanted
    for a, b in zip(trained.parameters(), other.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    assert by_hand(replace(made, rl=replace(made.rl, steps=2)), same)[1] == wanted[1]
    means = [row["importance/mean"] for row in trainer.state.log_history if "importance/mean" in row]
    assert means[0] == pytest.approx(1.0, abs=1e-5) and 1e-4 < max(abs(one - 1) for one in means) < 0.3


def test_where_nothing_is_learnt_it_is_the_run_without_it(tmp_path: Path) -> None:
    figures = []
    for ahead in (0, 1):
        made = tiny.recipe(tmp_path, ahead=ahead, learning_rate=0.0, thought=KEPT)
        trainer = Seeded(tiny.model(), tiny.TOKENIZER, text(), made)
        trainer.train()
        rows = trainer.state.log_history[:3]
        figures.append([[row[name] for name in ("loss", "grad_norm", "gain", "thought/tokens")] for row in rows])
    assert np.array(figures[1]) == pytest.approx(np.array(figures[0]), abs=1e-5)
    assert min(row[1] for row in figures[0]) > 1e-2


def test_the_ratio_makes_a_mean_over_old_samples_one_over_new_ones(tmp_path: Path) -> None:
    """All tokens that may come next, each by its probability: E_old[ratio f] = E_new[f] while no ratio is cut."""
    trainer = RntpTrainer(tiny.model(), tiny.TOKENIZER, text(), tiny.recipe(tmp_path))
    generator = torch.Generator().manual_seed(0)
    logits, f = torch.randn(2, 50, generator=generator), torch.randn(50, generator=generator)
    old, new = torch.log_softmax(logits[0], 0), torch.log_softmax(logits[0] + 0.3 * logits[1], 0)
    ratio = trainer._importance(new[:, None], [[one] for one in old.tolist()])[:, 0]
    assert (old.exp() * ratio).sum() == pytest.approx(1.0, abs=1e-5)
    assert (old.exp() * ratio * f).sum() == pytest.approx(float((new.exp() * f).sum()), abs=1e-5)
    assert abs(float((old.exp() * f).sum() - (new.exp() * f).sum())) > 1e-3
    far = torch.log_softmax(logits[0] + 4 * logits[1], 0)
    cut = trainer._importance(far[:, None], [[one] for one in old.tolist()])
    assert cut.max() == 3.0 and (old.exp() * cut[:, 0]).sum() < 1.0


class Stopped(RntpTrainer):
    """Ends in an update, as by a fault."""

    at = -1

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        if self.state.global_step == self.at:
            raise TrainingError("stopped")
        return super()._compute_loss(model, inputs)


def mixed(folder: Path, **given: Any) -> Stopped:
    """Text and problems; two updates of each batch."""
    task = Task("t", "text", {"answer": "x"}, environment="words")
    problems = [Problem(task, (7, 8, 9 + n)) for n in range(3)]
    rows = mixed_rows(tiny.places(12), {"words": problems}, {"text": 2.0, "words": 1.0}, 12, seed=1)
    words = (EnvironmentSpec(name="words", puzzle="x", answer_tokens=3),)
    made = tiny.recipe(
        folder, steps=6, updates_per_batch=2, save_steps=2, environments=words, thought=KEPT, ahead=1, **given
    )

    def verdicts(pairs: list[tuple[Task, str]]) -> list[float | None]:
        return [len(answer) / 50 for _, answer in pairs]

    return Stopped(tiny.model(), tiny.TOKENIZER, rows, made, None, Extras((), verdicts))


def test_stopped_and_resumed_a_run_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole = mixed(tmp_path / "whole")
    whole.train()
    first = mixed(tmp_path / "kept")  # made now: it sets the seed
    first.at = 3
    with pytest.raises(TrainingError):
        first.train()
    shutil.copytree(tmp_path / "kept", tmp_path / "lost")
    (tmp_path / "lost" / "checkpoint-2" / DRAWN_FILE).unlink()
    apart = {}
    for name in ("kept", "lost"):
        again = mixed(tmp_path / name)
        again.train(resume_from_checkpoint=str(last_checkpoint(tmp_path / name) or tmp_path / name / "checkpoint-2"))
        apart[name] = float((flat(again.model) - flat(whole.model)).abs().max())
    assert apart["kept"] < 1e-6
    assert apart["lost"] > 1e-4  # what is drawn anew is something else
    assert not (tmp_path / "kept" / "checkpoint-6" / DRAWN_FILE).exists()


def test_the_books_count_what_torch_counts(tmp_path: Path) -> None:
    made = tiny.model()
    made.set_attn_implementation("eager")  # torch counts no FLOP for the fused attention of a CPU
    books = RunLedger(None, made.config, RunMachine())
    trainer = RntpTrainer(made, tiny.TOKENIZER, text(), tiny.recipe(tmp_path, ahead=1), books)
    added = {torch.ops.aten.addmm_: lambda _to, a, b, **_said: 2 * a[0] * a[1] * b[1]}
    with FlopCounterMode(display=False, custom_mapping=added) as counter:
        trainer.train()
    assert sum(one.executed_flop or 0.0 for one in books.entries) == pytest.approx(counter.get_total_flops(), rel=0.01)
    passes = [one.step for one in books.entries if one.phase == "log-probs"]
    assert passes == [0, 0, 1]  # two batches before the first update


def test_it_learns(tmp_path: Path) -> None:
    frozen = RewardSpec(scorer="frozen")
    made = tiny.recipe(tmp_path, steps=20, group_size=6, learning_rate=1e-2, reward=frozen, thought=KEPT, ahead=1)
    rows = mixed_rows(tiny.places(4), {}, {"text": 1.0}, 80)
    trainer = RntpTrainer(tiny.model(), tiny.TOKENIZER, rows, made)
    trainer.train()
    gains = [entry["gain"] for entry in trainer.state.log_history if "gain" in entry]
    assert np.mean(gains[-5:]) > np.mean(gains[:5]) + 0.15


class Counting(Watched):
    """Lets go of a waiting server after each update."""

    updates: threading.Semaphore

    def follow(self) -> None:
        super().follow()
        self.updates.release()


def served(engine: Engine, made: Recipe, patch: pytest.MonkeyPatch) -> Counting:
    """A trainer of a double of vLLM's server."""
    stand_in(patch, engine)
    rows = text(made.rl.steps * made.rl.prompts_per_step)
    trainer = Counting(tiny.model(), tiny.TOKENIZER, rows, made, RunLedger(None, tiny.model().config))
    trainer.updates = threading.Semaphore(0)
    return trainer


def test_a_server_samples_while_the_trainer_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(tiny.model(seed=2))
    with serving(engine) as address:
        trainer = served(engine, recipe(tmp_path, address, ahead=1, steps=3, save_steps=1), monkeypatch)

        def wait() -> None:
            """Answer what is asked ahead after an update: it would never come if the trainer waited for the answer."""
            assert len(engine.weights) == 1 or trainer.updates.acquire(timeout=20), "no update meanwhile"

        engine.before = wait
        trainer.train()
    first, second, third = trainer.before
    assert [torch.equal(one, other) for one, other in zip(engine.weights, (first, first, second), strict=True)] == (
        [True] * 3
    )
    assert (first - second).abs().max() > 1e-3 < (second - third).abs().max()
    assert [path for path, _ in engine.asked].count(SYNCED[1]) == 2
    assert [ids for made in trainer.made for ids in thoughts(made)] == engine.answers
    assert (ratios(trainer.made[0]) - 1).abs().max() < 1e-4
    assert all((ratios(made) - 1).abs().max() > 1e-2 for made in trainer.made[1:])
    generation = [one for one in trainer.books.entries if one.phase == "generation"]
    assert sum(one.tokens_by_kind.get("sampled", 0) for one in generation) == sum(map(len, engine.answers))
    assert sum(one.tokens_by_kind.get("sampled", 0) for one in trainer.books.entries) == sum(map(len, engine.answers))
    kept = sorted(path.parent.name for path in tmp_path.glob(f"checkpoint-*/{DRAWN_FILE}"))
    assert kept == ["checkpoint-2"]  # the last has none, the first is no longer kept


def test_a_server_that_fails_meanwhile_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(tiny.model())
    with serving(engine) as address:
        trainer = served(engine, recipe(tmp_path, address, ahead=1, steps=3), monkeypatch)
        engine.before = lambda: engine.instead.update({"/v1/completions": (400, "gone")})
        with pytest.raises(TrainingError, match=r"step [12]: vLLM server .* Request failed: 400, gone; there is no"):
            trainer.train()
    assert len(trainer.made) == 1


def test_what_it_does_not_go_with_is_refused(tmp_path: Path) -> None:
    several = [{"name": "a", "source": "rntp.must_think.lookup:make"}]
    for given, message in (
        ({"rl": {"ahead": 2}}, "[rl] ahead 2: a whole number from 0 to 1 is needed"),
        (
            {"rl": {"ahead": 1}, "environments": several},
            "ahead 1: 0 is needed, as environment 'a' answers turn by turn",
        ),
    ):
        with pytest.raises(InputError) as refused:
            parse_recipe({**WHOLE, **given})
        assert message in str(refused.value)
    with pytest.raises(InputError, match="ahead 1: one process is needed, not 2; 0 goes with any number"):
        grpo_config(tiny.recipe(tmp_path, ahead=1), processes=2)
