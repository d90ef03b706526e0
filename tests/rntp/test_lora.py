"""An adapter of low rank: it begins as nothing, is trained as by the plain loop, and is merged where it is saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel, get_peft_model
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from computeledger.actuals.recording.run import RunLedger, RunMachine
from computeledger.errors import InputError
from computeledger.facts.huggingface import parse_config
from computeledger.physics.transformer import n_params_active
from rntp.adapter import check_lora, lora_config, merged
from rntp.cost import Shapes, cost, scenario_of
from rntp.mixture import Rows, mixed_rows
from rntp.models import planned_config
from rntp.preflight import check_recipe
from rntp.recipe import LoraSpec, Recipe, RewardSpec, ThoughtSpec
from rntp.recipe_file import fingerprint, parse_recipe, read_recipe
from rntp.run import run
from rntp.scoring import Rollouts, score_shared
from rntp.trainer import SCORER, RntpTrainer
from tests.rntp import tiny
from tests.rntp.test_before_training import FAST, TEXT
from tests.rntp.test_trainer import Seeded, losses, plain

#: Large enough that three updates show.
SPEC = LoraSpec(rank=4, alpha=8.0)
FROZEN = {"reward": RewardSpec(scorer="frozen"), "thought": ThoughtSpec(budget=12, truncation="keep", kl_weight=0.3)}
IDS = torch.arange(tiny.FIRST, tiny.FIRST + 20)[None]


def with_adapter(output: Path, **given: Any) -> Recipe:
    """The tiny recipe with an adapter."""
    spec = given.pop("lora", SPEC)
    return replace(tiny.recipe(output, **given), lora=spec)


def text(count: int = 12) -> Rows:
    """Places of text alone."""
    return mixed_rows(tiny.places(12), {}, {"text": 1.0}, count)


def adapted(recipe: Recipe, moved: float = 0.0) -> Any:
    """The tiny model with the adapter that a trainer of the recipe begins with, or moved from there by chance."""
    torch.manual_seed(recipe.seed)
    made = get_peft_model(tiny.model(), lora_config(recipe.lora))
    for one in (one for one in made.parameters() if one.requires_grad and moved):
        torch.nn.init.normal_(one, std=moved)
    return made.eval()


def test_an_adapter_begins_as_the_frozen_model(tmp_path: Path) -> None:
    recipe, base = with_adapter(tmp_path), tiny.model().eval()
    made = adapted(recipe)
    rows = [place for place in tiny.places(4) for _ in range(2)]
    thoughts = [[1, *range(7, 9 + n), 2] for n in range(8)]
    rollouts = Rollouts([row.context_ids for row in rows], thoughts, [row.gold_ids for row in rows])
    one, two = score_shared(made, rollouts), score_shared(base, rollouts)
    assert (one.gold.log_probs - two.gold.log_probs).abs().max() < 1e-6
    moved = adapted(recipe, moved=0.3)
    assert (score_shared(moved, rollouts).gold.log_probs - two.gold.log_probs).abs().max() > 1e-2
    with moved.disable_adapter():
        assert (score_shared(moved, rollouts).gold.log_probs - two.gold.log_probs).abs().max() < 1e-6


def test_losses_and_adapters_are_the_plain_loop_s(tmp_path: Path) -> None:
    """The loop copies the model before RL, to score and for the divergence; the trainer switches its adapter off."""
    recipe = with_adapter(tmp_path, **FROZEN)
    trainer = Seeded(tiny.model(), tiny.TOKENIZER, text(), recipe)
    assert trainer._frozen is None
    trained = [one for one in trainer.model.parameters() if one.requires_grad]
    trainer.optimizer = torch.optim.SGD(trained, lr=0.5)
    trainer.train()
    other = adapted(recipe)
    loop = [one for one in other.parameters() if one.requires_grad]
    begun = [one.detach().clone() for one in loop]
    steps = plain(recipe, other, torch.optim.SGD(loop, lr=0.5))
    assert losses(trainer) == pytest.approx([step.loss for step in steps], abs=1e-5)
    assert max(float((a.detach() - b).abs().max()) for a, b in zip(trained, begun, strict=True)) > 1e-3
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(trained, loop, strict=True))
    frozen = [one for name, one in trainer.model.named_parameters() if ".lora_" not in name]
    assert all(torch.equal(a, b) for a, b in zip(frozen, tiny.model().parameters(), strict=True))


def test_what_is_saved_is_the_model_with_the_adapter_merged_and_the_adapter(tmp_path: Path) -> None:
    trainer = RntpTrainer(tiny.model(), tiny.TOKENIZER, text(), with_adapter(tmp_path))
    trainer.train()
    trainer.save_final(tmp_path / "final", tmp_path / "ema")
    tiny.model().save_pretrained(tmp_path / "base")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "final").eval()
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "base").eval()
    assert not any("lora" in name for name in loaded.state_dict())
    with torch.no_grad():
        expected, before = trainer.model.eval()(input_ids=IDS).logits, base(input_ids=IDS).logits
        assert (loaded(input_ids=IDS).logits - expected).abs().max() < 1e-5
        assert (before - expected).abs().max() > 1e-3
        beside = PeftModel.from_pretrained(base, str(tmp_path / "final" / "adapter")).eval()
        assert (beside(input_ids=IDS).logits - expected).abs().max() < 1e-5


def test_a_layer_that_keeps_its_weights_transposed_is_merged_too() -> None:
    torch.manual_seed(0)
    base = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=32, n_embd=8, n_layer=2, n_head=2)).eval()
    with pytest.warns(UserWarning, match="fan_in_fan_out"):
        made = get_peft_model(base, lora_config(SPEC)).eval()
    for name, one in made.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(one)
    again = GPT2LMHeadModel(base.config).eval()
    again.load_state_dict(merged(made, made.state_dict()))
    with torch.no_grad():
        assert torch.allclose(again(input_ids=IDS[:, :8]).logits, made(input_ids=IDS[:, :8]).logits, atol=1e-5)


@pytest.mark.parametrize("scorer", ["ema", "frozen"])
def test_a_run_that_is_resumed_ends_with_the_same_adapter(scorer: str, tmp_path: Path) -> None:
    recipe = with_adapter(tmp_path, steps=4, save_steps=2, reward=RewardSpec(scorer=scorer, ema_decay=0.5))
    made = [RntpTrainer(tiny.model(), tiny.TOKENIZER, text(16), recipe) for _ in range(2)]
    made[0].train()
    assert sorted(path.name for path in (tmp_path / "checkpoint-2").glob("*.safetensors")) == [
        "adapter_model.safetensors"
    ]
    made[1].train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    one, two = (dict(trainer.model.named_parameters()) for trainer in made)
    assert max(float((one[name] - two[name]).detach().abs().max()) for name in one) < 1e-6
    if scorer == "ema":
        means = [trainer._means[SCORER].state() for trainer in made]
        assert set(means[0]) == {name for name in one if ".lora_" in name}
        assert max(float((means[0][name] - means[1][name]).abs().max()) for name in means[0]) < 1e-6


def test_dropout_is_of_the_updates_alone(tmp_path: Path) -> None:
    said = []
    for rate in (0.0, 0.5):
        spec = LoraSpec(rank=4, alpha=8.0, dropout=rate)
        trainer = Seeded(tiny.model(), tiny.TOKENIZER, text(), with_adapter(tmp_path / str(rate), steps=2, lora=spec))
        trainer.train()
        said.append([row for row in trainer.state.log_history if "loss" in row])
    without, dropped = said
    for name in ("gain", "reward_spread", "thought/tokens"):
        assert without[0][name] == pytest.approx(dropped[0][name], abs=1e-6)
    assert without[0]["grad_norm"] != pytest.approx(dropped[0]["grad_norm"], rel=1e-2)
    assert without[1]["gain"] != pytest.approx(dropped[1]["gain"], abs=1e-6)


@pytest.mark.parametrize(
    "given", [{}, FROZEN, {"gradient_checkpointing": True}], ids=["policy", "frozen", "recomputed"]
)
def test_the_books_count_what_torch_counts(given: dict[str, Any], tmp_path: Path) -> None:
    """4 N and 6 a for each token of an update, 2 N where the adapter is off."""
    made, recipe, passed = tiny.model(), with_adapter(tmp_path, **given), []
    made.set_attn_implementation("eager")  # torch counts no FLOP for the fused attention of a CPU
    books = RunLedger(None, made.config, RunMachine())

    class Noted(RntpTrainer):
        def _count_update(self, book: Any, inputs: dict[str, Any]) -> None:
            passed.append(inputs["prompt_ids"].numel() + inputs["completion_ids"].numel())
            super()._count_update(book, inputs)

    trainer = Noted(made, tiny.TOKENIZER, text(), recipe, books)
    added = {torch.ops.aten.addmm_: lambda _to, a, b, **_said: 2 * a[0] * a[1] * b[1]}
    with FlopCounterMode(display=False, custom_mapping=added) as counter:
        trainer.train()
    counted = sum(entry.executed_flop or 0.0 for entry in books.entries)
    # the formula takes the gradient of every layer's input, and that of the first layer is asked for by nobody, unless
    # its activations are computed again
    first = made.model.layers[0].self_attn
    inputs = [one.base_layer.weight.numel() + one.lora_A.default.weight.numel() for one in
              (first.q_proj, first.k_proj, first.v_proj)]  # fmt: skip
    unasked = 0 if recipe.rl.gradient_checkpointing else 2 * sum(inputs) * sum(passed)
    assert counted - unasked == pytest.approx(counter.get_total_flops(), rel=0.01)
    whole = RunLedger(None, tiny.model().config, RunMachine())
    with whole.phase("update") as book:
        book.train(np.array([8.0, 16.0]))
    with books.phase("update") as beside:
        beside.train(np.array([8.0, 16.0]))
    n, a = (
        sum(one.numel() for one in made.parameters() if one.requires_grad is is_trained) for is_trained in (False, True)
    )
    n -= made.get_input_embeddings().weight.numel() + sum(one.numel() for one in made.parameters() if one.dim() == 1)
    assert book.work is not None and beside.work is not None
    assert book.work.flop - beside.work.flop == pytest.approx((2 * n - 6 * a) * 24, rel=0.01)


def test_a_recipe_with_an_adapter_runs_(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    settings = [f"output={folder}", *FAST, "report.places=2", "lora={rank=2}", "reward.scorer=frozen"]
    recipe = read_recipe(TEXT, settings)
    assert recipe.lora == LoraSpec(rank=2)
    assert fingerprint(recipe) != fingerprint(read_recipe(TEXT, [*settings[:-2], settings[-1]]))
    found = run(recipe)
    assert found["steps"] == 3 and found["held_out"]["places"] == 2
    assert (folder / "final" / "model.safetensors").is_file()
    assert json.loads((folder / "final" / "adapter" / "adapter_config.json").read_text())["r"] == 2
    assert found["beta_gpu_time_note"].endswith("the same adapter: 4 N + 6 a FLOP a token, not 6 N")
    assert cost(folder, None)["phases"]["update"]["beta_flop"]["predicted"] > 0


def test_the_planner_is_told_of_the_adapter(tmp_path: Path) -> None:
    recipe, made = with_adapter(tmp_path), tiny.model()
    model, shapes = parse_config(planned_config(made), "tiny"), Shapes(20.0, 5.0, 8.0, 3.0, 0.0)
    n = n_params_active(model)
    a = sum(one.numel() for one in adapted(recipe).parameters() if one.requires_grad)
    alone, beside = (scenario_of(one, model, shapes).flop_by_phase for one in (replace(recipe, lora=None), recipe))
    assert beside["update"] / alone["update"] == pytest.approx((4 * n + 6 * a) / (6 * n))
    assert beside["generation"] / alone["generation"] == pytest.approx((n + a) / n)
    some = replace(recipe, lora=LoraSpec(rank=4, target_modules=("q_proj", "v_proj")))
    assert alone["update"] > beside["update"] > scenario_of(some, model, shapes).flop_by_phase["update"]


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: parse_recipe({"lora": {"rank": 0}}), r"\[lora\] rank 0: a whole number from 1 to 65,536 is needed"),
        (lambda: check_lora(LoraSpec(target_modules=("qproj",)), tiny.model()), "'qproj': did you mean 'q_proj'"),
        (lambda: check_lora(LoraSpec(target_modules=("lm_head",)), tiny.model()), r"\[lora\] target_modules 'lm_head'"),
    ],
)
def test_what_cannot_be_adapted_is_refused(refused: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        refused()


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"\[lora\]: peft is not installed: pip install 'computeledger\[lora\]'"):
        check_recipe(read_recipe(TEXT, [f"output={tmp_path}", *FAST, "lora={}"]))


def test_an_adapter_of_sharded_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(InputError, match=r"\[lora\]: FSDP releases a frozen head"):
        check_lora(SPEC)
