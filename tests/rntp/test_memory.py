"""What a run needs is estimated low, never far too low, and refused in one line where the machine has less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from computeledger.errors import DoesNotFitError, InputError
from rntp import memory
from rntp.live_bytes import LiveBytes
from rntp.memory import check_memory, needs
from rntp.models import make_model, outline
from rntp.pretraining import next_token_loss
from rntp.recipe import LoraSpec, ModelSpec, PretrainSpec, Recipe, RlSpec, ThoughtSpec
from rntp.recipe_file import read_recipe
from rntp.run import run
from rntp.run_folder import FINAL, prepare
from tests.gates import ROOT
from tests.rntp import tiny

CPU = torch.device("cpu")
MATH = ROOT / "recipes" / "tiny_math" / "config.toml"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": ModelSpec(hidden_size=65536, layers=400)}, "a smaller [model], or [lora], needs less"),
        (
            {"model": ModelSpec(hidden_size=65536, layers=400), "lora": LoraSpec(), "pretrain": PretrainSpec()},
            ": a smaller [model] needs less",
        ),
        ({"pretrain": PretrainSpec(batch_sequences=10**9)}, "a batch of 1,000,000,000 sequences 26.6 TB"),
        ({"rl": RlSpec(group_size=65536, prompts_per_step=1000)}, "a pass over 65,536,000 thoughts"),
        ({"rl": RlSpec(group_size=65536, prompts_per_step=1000, micro_batch=8)}, "sampling 65,536,000 thoughts at a"),
        ({"thought": ThoughtSpec(budget=2**24), "rl": RlSpec(micro_batch=8)}, "a pass over 8 thoughts 1.24 TB"),
    ],
)
def test_what_cannot_fit_is_one_line_with_both_figures(
    change: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "host_memory_bytes", lambda: 64e9)
    with pytest.raises(DoesNotFitError) as refused:
        check_memory(Recipe(**change), None, CPU)
    assert message in str(refused.value) and "this machine has 64 GB" in str(refused.value)
    assert str(refused.value).startswith("this needs about ") and "\n" not in str(refused.value)


def test_processes_share_a_machine_and_an_adapter_needs_no_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    large = Recipe(model=ModelSpec(hidden_size=4096, layers=12, heads=32, intermediate_size=12288))
    monkeypatch.setattr(memory, "host_memory_bytes", lambda: 64e9)
    check_memory(large, None, CPU)
    with pytest.raises(DoesNotFitError, match="this machine has 32 GB for each process"):
        check_memory(large, None, CPU, processes=2)
    adapted = Recipe(model=large.model, lora=LoraSpec())
    assert max(one.weights_bytes for one in needs(adapted, None)) * 4 == max(
        one.weights_bytes for one in needs(large, None)
    )


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*/config.toml")), ids=lambda path: path.parent.name)
def test_shipped_recipes_need_less_than_two_gigabytes(path: Path) -> None:
    assert all(one.all_bytes < 2e9 for one in needs(read_recipe(path), None))


def test_the_estimate_of_a_pass_is_low_but_not_by_far() -> None:
    shape = ModelSpec(tokenizer="word", hidden_size=64, heads=4, intermediate_size=256, layers=4, vocabulary=64)
    spec = Recipe(model=shape, pretrain=PretrainSpec(batch_sequences=8 * 32))
    model, rows = make_model(shape, tiny.TOKENIZER), [[7 + n % 9 for n in range(33)]] * 8
    with LiveBytes() as live:
        loss = next_token_loss(model, rows)
        kept = live.live_bytes
    loss.backward()
    estimate = next(iter(needs(spec, None))).pass_bytes  # as many tokens, each a sequence of its own
    assert estimate * len(tiny.TOKENIZER) / 64 < kept < 4 * estimate


def test_an_outline_has_the_modules_and_sizes_of_the_model(tmp_path: Path) -> None:
    model, made = tiny.model(), outline(tiny.SHAPE, Path(), len(tiny.TOKENIZER))
    shapes = [{name: one.shape for name, one in each.named_parameters()} for each in (model, made)]
    assert shapes[0] == shapes[1] and {one.device.type for one in made.parameters()} == {"meta"}
    model.save_pretrained(tmp_path)
    read = outline(ModelSpec(path=tmp_path.name), tmp_path.parent, 0)
    assert {name: one.shape for name, one in read.named_parameters()} == shapes[0]
    with pytest.raises(InputError, match=r"no folder with a config\.json is named 'elsewhere/nowhere'"):
        outline(ModelSpec(path="nowhere"), Path("elsewhere"), 0)


def test_a_model_too_large_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    large = ("model.hidden_size=65536", "model.intermediate_size=262144", "model.layers=64")
    with pytest.raises(DoesNotFitError, match="this needs about"):
        run(read_recipe(MATH, [f"output={tmp_path / 'run'}", *large]))
    assert not list(tmp_path.glob("**/*.safetensors"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("lora.target_modules=['q_prj']", "[lora] target_modules 'q_prj': did you mean 'q_proj'?"),
        ("report.trackers=['tensorbord']", "[report] trackers 'tensorbord': did you mean 'tensorboard'?"),
    ],
)
def test_a_wrong_name_is_said_first_in_a_new_folder_and_in_a_used_one(
    change: str, message: str, tmp_path: Path
) -> None:
    new, used = tmp_path / "new", tmp_path / "used"
    prepare(used, read_recipe(MATH, [f"output={used}"]), fresh=False)
    (used / FINAL).mkdir()
    for folder in (new, used):
        with pytest.raises(InputError) as refused:
            run(read_recipe(MATH, [f"output={folder}", "rl.steps=7", change]))
        assert str(refused.value) == message
    assert not new.exists()
