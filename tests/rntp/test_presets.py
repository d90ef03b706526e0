"""Presets: what the papers used, said once with its source, and able to run."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from rntp.arguments import grpo_config
from rntp.recipe_file import document, fingerprint, parse_recipe, presets, read_recipe
from rntp.run import run
from rntp.run_folder import read_json, read_metrics
from tests.gates import ROOT

WHOLE: dict[str, Any] = {"name": "a", "model": {"path": "m"}, "corpus": {"source": ["a.txt"]}}
TEXT = ROOT / "recipes" / "tiny_text" / "config.toml"
LINE = re.compile(r"(\w+) = (.+?) +# (.+)")


def said(path: Path) -> list[tuple[str, str, str]]:
    """Every setting of a preset's file, its value as written, and its source."""
    out, table = [], ""
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("["):
            table = line.strip("[]")
        elif table and line:
            found = LINE.fullmatch(line)
            assert found is not None, f"{path.name}: no source: {line}"
            out.append((f"{table}.{found[1]}", found[2], found[3]))
    return out


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_setting_of_a_preset_is_in_the_recipe_and_on_the_page_with_its_source(name: str) -> None:
    recipe, page = parse_recipe({**WHOLE, "preset": name}), (ROOT / "docs" / "rntp.md").read_text("utf-8")
    for place, value, source in said(presets()[name]):
        table, _, key = place.partition(".")
        assert getattr(getattr(recipe, table), key) == tomllib.loads(f"x = {value}")["x"]
        assert f"| `{place}` | {value.strip(chr(34))} | {source} |" in page, place
    assert grpo_config(recipe).beta == 0.0


def test_what_a_recipe_says_goes_before_its_preset() -> None:
    recipe = parse_recipe({**WHOLE, "preset": "rlp", "rl": {"group_size": 4}, "reward": "probability"})
    assert (recipe.rl.group_size, recipe.rl.temperature, recipe.reward.name) == (4, 0.7, "probability")
    assert recipe.reward.baseline == "ema" and recipe.thought.budget == 2048
    again = parse_recipe(document(recipe))
    assert again == recipe and again.preset == "rlp" == document(recipe)["preset"]
    spelt_out = {key: value for key, value in document(recipe).items() if key != "preset"}
    assert fingerprint(parse_recipe(spelt_out)) == fingerprint(recipe)


def test_a_preset_that_is_set_changes_the_method_and_leaves_the_sizes() -> None:
    recipe = read_recipe(TEXT, ["rl.learning_rate=3e-4", "preset=rlp", "rl.temperature=0.9"])
    assert (recipe.rl.learning_rate, recipe.rl.temperature, recipe.rl.group_size) == (1e-6, 0.9, 16)
    assert (recipe.reward.scorer, recipe.positions.rule, recipe.preset) == ("policy", "random", "rlp")
    assert (recipe.rl.prompts_per_step, recipe.thought.budget, recipe.positions.context_tokens) == (4, 12, 48)


@pytest.mark.parametrize("name", sorted(presets()))
def test_a_preset_runs(name: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    settings = ["preset=" + name, "rl.steps=2", "rl.prompts_per_step=2", "rl.group_size=3", "pretrain.steps=4"]
    recipe = read_recipe(TEXT, [*settings, "report.places=0", f"output={tmp_path / 'run'}"])
    run(recipe)
    assert [row["step"] for row in read_metrics(tmp_path / "run")] == [1, 2]
    written = read_json(tmp_path / "run" / "recipe.json")
    assert (
        written is not None and written["recipe"]["preset"] == name and written["recipe"]["rl"]["learning_rate"] == 1e-6
    )
