"""Schedules of the learning rate, running means of the weights, bfloat16, recomputed activations, passes of a step."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from computeledger.errors import InputError
from rntp.mixture import mixed_rows
from rntp.recipe import RlSpec
from rntp.recipe_file import fingerprint, parse_recipe
from rntp.trainer import RntpTrainer
from tests.rntp import tiny
from tests.rntp.test_trainer import Seeded, losses

RATE, STEPS, WARMUP = 1e-2, 6, 2
BASE = {"model": {"path": "m"}, "corpus": {"source": ["a"]}}


def trained(folder: Path, kind: type[RntpTrainer] = RntpTrainer, **given: Any) -> RntpTrainer:
    """A short run of the tiny model."""
    recipe = tiny.recipe(folder, **given)
    rows = mixed_rows(tiny.places(12), {}, {"text": 1.0}, recipe.rl.steps * recipe.rl.prompts_per_step)
    trainer = kind(tiny.model(), tiny.TOKENIZER, rows, recipe)
    trainer.train()
    return trainer


def weights(trainer: RntpTrainer) -> torch.Tensor:
    """All weights in one row."""
    return torch.cat([one.detach().ravel() for one in trainer.model.parameters()])


#: Rate over the largest one, after so many updates.
FORMULAS: dict[str, tuple[dict[str, Any], Callable[[int], float]]] = {
    "constant": ({}, lambda _n: 1.0),
    "linear": ({}, lambda n: (STEPS - n) / (STEPS - WARMUP)),
    "linear to a fraction": (
        {"schedule": "linear", "final_fraction": 0.2}, lambda n: 0.2 + 0.8 * (STEPS - n) / (STEPS - WARMUP),
    ),
    "cosine": ({}, lambda n: (1 + math.cos(math.pi * (n - WARMUP) / (STEPS - WARMUP))) / 2),
    "cosine to a fraction": (
        {"schedule": "cosine", "final_fraction": 0.2},
        lambda n: 0.2 + 0.8 * (1 + math.cos(math.pi * (n - WARMUP) / (STEPS - WARMUP))) / 2,
    ),
    "inverse_sqrt": ({}, lambda n: math.sqrt(WARMUP / n)),
    "warmup_stable_decay": ({"decay_steps": 2}, lambda n: min(1.0, (STEPS - n) / 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMULAS)
def test_the_rate_of_every_step_is_the_formula_s(name: str, tmp_path: Path) -> None:
    given, formula = FORMULAS[name]
    small: dict[str, Any] = {
        "steps": STEPS,
        "warmup_steps": WARMUP,
        "prompts_per_step": 1,
        "group_size": 2,
        "learning_rate": RATE,
    }
    trainer = trained(tmp_path, **{"schedule": name, **small, **given})
    said = [entry["learning_rate"] for entry in trainer.state.log_history if "loss" in entry]
    assert said == pytest.approx([RATE * (n / WARMUP if n < WARMUP else formula(n)) for n in range(STEPS)])


def test_a_stable_rate_falls_to_its_fraction_over_the_last_tenth(tmp_path: Path) -> None:
    small: dict[str, Any] = {"steps": 10, "prompts_per_step": 1, "group_size": 2, "learning_rate": RATE}
    trainer = trained(tmp_path, schedule="warmup_stable_decay", final_fraction=0.5, **small)
    assert [entry["learning_rate"] for entry in trainer.state.log_history if "loss" in entry] == [RATE] * 10
    assert trainer.lr_scheduler.get_last_lr() == pytest.approx([RATE * 0.5] * 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": "cosin"}, r"unknown \[rl\] schedule 'cosin': did you mean 'cosine'"),
        ({"final_fraction": 0.1}, r"final_fraction 0.1: schedule 'constant' falls to no fraction"),
        ({"schedule": "linear", "decay_steps": 3}, r"decay_steps 3: is of schedule 'warmup_stable_decay', not of 'lin"),
        ({"schedule": "warmup_stable_decay", "steps": 5, "warmup_steps": 5}, r"warmup_steps 5 and decay_steps 1: tog"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_recipe({**BASE, "rl": given})


def test_new_settings_at_their_defaults_leave_the_fingerprint() -> None:
    given = {"decay_steps": 0, "final_fraction": 0.0, "ema_decay": 0.0}
    assert fingerprint(parse_recipe({**BASE, "rl": given})) == fingerprint(parse_recipe(BASE))
    assert {name: getattr(RlSpec(), name) for name in given} == given


def test_the_running_mean_of_the_policy_is_kept_beside_and_resumed(tmp_path: Path) -> None:
    kept: list[torch.Tensor] = []

    class Noted(RntpTrainer):
        def follow(self) -> None:
            kept.append(weights(self).clone())
            super().follow()

    made: dict[str, Any] = {"steps": 4, "save_steps": 2, "ema_decay": 0.5}
    whole = trained(tmp_path, Noted, **made)
    begun = torch.cat([one.detach().ravel() for one in tiny.model().parameters()])
    expected = begun
    for now in kept:
        expected = 0.5 * expected + 0.5 * now
    whole.save_final(tmp_path / "final", tmp_path / "ema")
    final, mean = (AutoModelForCausalLM.from_pretrained(tmp_path / name) for name in ("final", "ema"))
    found = torch.cat([one.detach().ravel() for one in mean.parameters()])
    assert (found - expected).abs().max() < 1e-6 < 1e-3 < (found - begun).abs().max()  # noqa: PLR0133 - two bounds
    last = torch.cat([one.detach().ravel() for one in final.parameters()])
    assert torch.equal(last, weights(whole)) and (last - found).abs().max() > 1e-3
    recipe = tiny.recipe(tmp_path, **made)
    again = RntpTrainer(tiny.model(), tiny.TOKENIZER, mixed_rows(tiny.places(12), {}, {"text": 1.0}, 16), recipe)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    one, two = (trainer._means["policy"].state() for trainer in (whole, again))
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-6


def test_recomputed_activations_and_small_passes_give_the_same_weights(tmp_path: Path) -> None:
    """Plain steps are compared: Adam makes much of a gradient that is zero but for rounding."""

    class Plain(Seeded):
        def create_optimizer(self, *_given: Any) -> Any:
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5)
            return self.optimizer

    one = weights(trained(tmp_path / "one", Plain))
    again = weights(trained(tmp_path / "again", Plain, gradient_checkpointing=True))
    parts = weights(trained(tmp_path / "parts", Plain, micro_batch=4))
    assert (one - again).abs().max() < 1e-6
    assert (one - parts).abs().max() < 1e-5
    begun = torch.cat([value.detach().ravel() for value in tiny.model().parameters()])
    assert (one - begun).abs().max() > 1e-3


def test_bfloat16_trains_and_scores_within_two_hundredths_of_float32(tmp_path: Path) -> None:
    """Products are in 16 bits, weights and their optimizer in 32; what is sampled may differ, so gains are compared."""
    one, two = (trained(tmp_path / name, Seeded, precision=name, steps=2) for name in ("float32", "bfloat16"))
    assert next(two.model.parameters()).dtype == torch.float32
    assert all(map(math.isfinite, losses(two)))
    begun = torch.cat([value.detach().ravel() for value in tiny.model().parameters()])
    assert (weights(two) - begun).abs().max() > 1e-3
    said = [next(entry for entry in trainer.state.log_history if "loss" in entry) for trainer in (one, two)]
    assert said[1]["loss"] == pytest.approx(said[0]["loss"], abs=0.02)
    assert said[1]["entropy"] == pytest.approx(said[0]["entropy"], rel=0.01)
