"""Recipes are read whole or refused with one line that says what is allowed."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any

import pytest

from computeledger.errors import InputError
from rntp.arguments import grpo_config
from rntp.positions import RULE_FUNCTIONS
from rntp.recipe import REWARDS, RULES, Recipe
from rntp.recipe_file import document, fingerprint, parse_recipe, read_recipe
from rntp.reward import REWARDS as REWARD_FUNCTIONS
from tests.gates import ROOT

RECIPES = sorted((ROOT / "recipes").glob("*/config.toml"))
WHOLE: dict[str, Any] = {"name": "a", "model": {"path": "m"}, "corpus": {"source": ["a.txt"]}}


def test_names_in_a_recipe_are_those_that_exist() -> None:
    assert set(RULES) == set(RULE_FUNCTIONS)
    assert set(REWARDS) == set(REWARD_FUNCTIONS)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.parent.name)
def test_shipped_recipes_survive_writing_and_reading(path: Path) -> None:
    recipe = read_recipe(path)
    again = parse_recipe(document(recipe), recipe.folder)
    assert again == recipe
    assert fingerprint(again) == fingerprint(recipe)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rll": {"steps": 1}}, "unknown table 'rll': did you mean 'rl'?"),
        ({"rl": {"steps": "many"}}, "[rl] steps 'many': a whole number is needed"),
        ({"rl": {"group_size": 1}}, "[rl] group_size 1: a whole number from 2 to 65,536 is needed"),
        ({"rl": {"steps": True}}, "[rl] steps true: a whole number is needed"),
        ({"reward": {"name": "likelihood-gain"}}, "'likelihood-gain': did you mean 'log-likelihood-gain'?"),
        ({"positions": {"rule": "entropy"}}, "unknown [positions] rule 'entropy': did you mean 'entropy-band'?"),
        ({"positions": {"rule": "proxy"}}, "rule 'proxy' needs proxy"),
        ({"positions": {"gold_tokens": 1}}, "gold_tokens 1: at least 2 are needed"),
        ({"positions": {"skip_first_gold": 2}}, "at least 3 are needed, more than skip_first_gold 2"),
        ({"rl": {"learning_rate": float("inf")}}, "[rl] learning_rate inf: a finite number is needed"),
        ({"thought": {"length_weight": float("inf")}}, "length_weight inf: a finite number is needed"),
        ({"positions": {"low": 0.9, "high": 0.1}}, "low 0.9 is above high 0.1"),
        ({"thought": {"end": "<think>"}}, "two different markers are needed"),
        ({"corpus": {}}, "[corpus] source is empty"),
        ({"corpus": {"source": ["a"], "weight": 0}}, "weight 0 leaves nothing to train on"),
        ({"corpus": None}, "nothing to train on"),
        ({"model": {}}, "a model from scratch needs [pretrain]"),
        ({"model": {"hidden_size": 30}, "pretrain": {}}, "hidden_size 30: a multiple of 8"),
        ({"model": {"context_tokens": 100}, "pretrain": {}}, "100 is too short: context 512 + thought 64"),
        ({"environments": [{"name": "a"}]}, "one of tasks, puzzle and source is needed"),
        ({"environments": [{"name": "text", "tasks": "a"}]}, "a name of its own is needed"),
        ({"environments": {"name": "a"}}, "a list is needed"),
        ({"controls": {"names": ["ntp"]}}, "unknown [controls] names 'ntp'"),
        ({"vllm": {"address": "http://a:8000"}}, "is for [rl] engine 'vllm-server', not 'transformers'"),
        ({"vllm": {"tensor_parallel": 2}, "rl": {"engine": "vllm-server"}}, "a server is started with its own"),
        ({"folder": "elsewhere"}, "unknown key 'folder'"),
        ({"reward": {"name": "exact-prefix", "credit": "token"}}, "is one number for a whole thought; by token: log-"),
        ({"preset": "rltp"}, "unknown preset 'rltp': did you mean 'rlp'"),
        ({"preset": ["rlp"]}, "unknown preset"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    given = {key: value for key, value in (WHOLE | change).items() if value is not None}
    with pytest.raises(InputError) as refused:
        parse_recipe(given)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_reference_names_every_setting() -> None:
    page = (ROOT / "docs" / "rntp.md").read_text("utf-8")
    missing = []
    for table in dataclasses.fields(Recipe):
        kind = typing.get_type_hints(Recipe)[table.name]
        spec = next((one for one in (kind, *typing.get_args(kind)) if dataclasses.is_dataclass(one)), None)
        for setting in dataclasses.fields(spec) if spec is not None else ():
            named = f"`{setting.name}`" in page or not setting.compare
            missing += [f"{table.name}.{setting.name}"] * (not named)
    assert missing == []


def test_settings_change_a_recipe_and_bad_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text('[model]\npath = "m"\n[corpus]\nsource = "a.txt"\n')
    recipe = read_recipe(path, ["rl.steps=7", "reward.name=probability", "positions.kinds=['a', 'b']"])
    assert (recipe.name, recipe.rl.steps, recipe.reward.name) == ("one", 7, "probability")
    assert recipe.positions.kinds == ("a", "b") and recipe.corpus is not None and recipe.corpus.source == ("a.txt",)
    for setting, message in [
        ("rl.steps", "table.key=value"),
        ("model.path.a=1", "no table"),
        ("rl.stepps=1", "'steps'"),
    ]:
        with pytest.raises(InputError, match=message):
            read_recipe(path, [setting])
    path.write_text("[model\n")
    with pytest.raises(InputError, match=r"one\.toml"):
        read_recipe(path)


def test_settings_reach_trl() -> None:
    own = {"memory_fraction": 0.5, "tensor_parallel": 2, "context_tokens": 4096}
    colocated = parse_recipe({**WHOLE, "rl": {"engine": "vllm-colocate", "device": "cpu"}, "vllm": own})
    made = grpo_config(colocated, processes=4)
    assert (made.vllm_gpu_memory_utilization, made.vllm_tensor_parallel_size) == (0.5, 2)
    assert made.vllm_max_model_length == 4096
    with pytest.raises(InputError, match="tensor_parallel 2: a divisor of the 1 processes"):
        grpo_config(colocated)
    clipped = parse_recipe({**WHOLE, "rl": {"clip": 0.1, "clip_high": 0.3, "average": "thoughts", "device": "cpu"}})
    trl = grpo_config(clipped)
    assert (trl.epsilon, trl.epsilon_high, trl.loss_type) == (0.1, 0.3, "grpo") and made.epsilon_high in (None, 0.2)
    served = {**WHOLE, "rl": {"engine": "vllm-server", "device": "cpu"}}
    there = parse_recipe({**served, "vllm": {"address": "http://10.0.0.7:8000"}})
    assert grpo_config(there).vllm_server_base_url == "http://10.0.0.7:8000"
    assert fingerprint(there) == fingerprint(parse_recipe(served))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("recipes/tiny_maths/config.toml", "recipes/tiny_math/config.toml"),
        ("recipes/must_think/danse.toml", "recipes/must_think/dance.toml"),
        ("recipes/tiny_math/confg.toml", "recipes/tiny_math/config.toml"),
    ],
)
def test_a_recipe_that_is_not_there_names_the_one_that_was_meant(given: str, meant: str) -> None:
    with pytest.raises(InputError) as refused:
        read_recipe(ROOT / given)
    assert str(refused.value) == f"{ROOT / given}: no such file; did you mean {str(ROOT / meant)!r}?"
    with pytest.raises(InputError, match=r"no such file$"):
        read_recipe(ROOT / "recipes" / "entirely_different" / "something.toml")
