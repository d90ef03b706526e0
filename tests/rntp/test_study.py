"""A study: what it refuses, what its parts share, and the table of a short one carried out for real."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from rntp.interfaces.cli import main
from rntp.interfaces.tables.study import _seconds, against, print_study, spread
from rntp.models import make_tokenizer
from rntp.positions import Place
from rntp.recipe_file import fingerprint, read_recipe
from rntp.results import read_results
from rntp.rows import choose_rows
from rntp.sampling import Sampling
from rntp.study import carry_out, read_study, recipe_of
from rntp.thinking import habit
from tests.gates import ROOT
from tests.rntp.test_experiment import SHORT, _Knows

SHIP = ROOT / "recipes" / "must_think" / "config.toml"
STUDIES = sorted((ROOT / "recipes" / "must_think" / "studies").glob("*.toml"))


def written(folder: Path, *variants: str, head: str = "") -> Path:
    """A short study in a folder."""
    path = folder / "short.toml"
    shared = json.dumps(SHORT)
    parts = "\n".join(f"[[variants]]\n{one}" for one in variants)
    path.write_text(f'recipe = "{SHIP}"\noutput = "{folder / "out"}"\nplaces = 4\nset = {shared}\n{head}\n{parts}\n')
    return path


def test_studies_that_ship_can_be_read() -> None:
    assert len(STUDIES) >= 4
    for path in STUDIES:
        study = read_study(path)
        assert len({one.folder for one in study.variants}) == len(study.variants) and study.seeds


@pytest.mark.parametrize(
    ("variants", "head", "problem"),
    [
        ((), "", r"no \[\[variants\]\]"),
        (('name = "a"',), "seeds = [3]", "at least two"),
        (('name = "a"', 'name = "A"'), "", "a name of its own"),
        (('name = "a"\nset = ["model.layers=3"]',), "", "pretraining that all share"),
        (('name = "a"', 'name = "b"\nsoup = ["c"]'), "", "soup of 'c': allowed: a"),
        (('name = "a"\nset = ["rl.step=3"]',), "", "did you mean 'steps'"),
        (('name = "a"\nseeds = [5]',), "", "not among the study's"),
        (('name = "a"\nsed = []',), "", "did you mean"),
    ],
)
def test_a_study_that_cannot_be_is_refused_in_one_line(tmp_path, capsys, variants, head, problem) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["study", str(written(tmp_path, *variants, head=head))])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and len(said.strip().splitlines()) == 1
    assert re.search(problem, said)


def test_variants_begin_from_one_pretraining(tmp_path) -> None:
    study = read_study(written(tmp_path, 'name = "a"', 'name = "Half of it"\nset = ["rl.steps=1"]'))
    bases = {recipe_of(study, one, 1).model.path for one in study.variants}
    assert len(bases) == 1
    made = (SHIP.parent / bases.pop()).resolve()
    assert made == Path(recipe_of(study, None, 1).output).resolve() / "base"
    assert [recipe_of(study, one, 0).rl.steps for one in study.variants] == [2, 1]


def test_pretraining_is_kept_when_only_rl_changes(tmp_path) -> None:
    study = read_study(written(tmp_path, 'name = "a"'))
    kept, changed = (
        fingerprint(recipe_of(replace(study, set=(*study.set, one)), None, 0))
        for one in ("rl.prompts_per_step=3", "pretrain.learning_rate=1e-4")
    )
    assert kept == fingerprint(recipe_of(study, None, 0)) != changed


def test_distinct_places_are_gone_over_again(tmp_path) -> None:
    study = read_study(written(tmp_path, 'name = "a"'))
    recipe = read_recipe(SHIP, list(study.set))
    words = make_tokenizer(recipe.model, recipe.thought, ["the gannet left york on tue ."])
    some = replace(recipe, positions=replace(recipe.positions, distinct=2), rl=replace(recipe.rl, steps=4))
    rows = choose_rows(some, None, words)
    assert len(rows) == 8 and len({row["document"] for row in rows}) == 2


def test_a_study_is_carried_out_and_its_table_read_again(tmp_path, monkeypatch, capsys) -> None:
    torch.set_num_threads(1)
    for name in ("rntp.gap.reader", "rntp.experiment.reader"):  # a model of six steps reads no thought
        monkeypatch.setattr(name, lambda model, *_: _Knows(model, {}))
    path = written(
        tmp_path,
        'name = "as it is"\nsamples = 2',
        'name = "another reward"\ngroup = "reward"\nset = ["reward.name=probability"]\nseeds = [1]',
        'name = "soup"\nsoup = ["as it is", "more"]',
        'name = "more"\nset = ["rl.learning_rate=1e-3"]',
    )
    told: list[str] = []
    found = carry_out(read_study(path), lambda name, *_: told.append(name), jobs=1, thread_count=1)
    assert [(row["variant"], row["seed"]) for row in found["rows"]] == [
        ("as it is", 0), ("as it is", 1), ("another reward", 1), ("soup", 0), ("soup", 1), ("more", 0), ("more", 1),
    ]  # fmt: skip
    assert len(told) == 9 and told[-2:] == ["soup, seed 0", "soup, seed 1"]
    rows = {(row["variant"], row["seed"]): row for row in found["rows"]}
    assert rows["as it is", 0]["beta_flop"] > 0 and rows["soup", 0]["beta_flop"] is None
    assert list(rows["as it is", 0]["measured"]["coverage"]["before"]) == ["1", "2"]
    results = tmp_path / "out" / "results.json"
    assert json.loads(json.dumps(found)) == read_results(results)
    again = carry_out(read_study(path), lambda *_: None, jobs=1, thread_count=1)
    assert again["rows"][0]["wall_s"] == rows["as it is", 0]["wall_s"]
    print_study(read_results(results))
    said = capsys.readouterr().out
    assert "as it is" in said and "reward" in said and "k = 2" in said


def test_the_range_over_seeds_is_shown_and_noise_is_called_noise() -> None:
    def row(low: float, high: float) -> dict:
        return {"measured": {"intervals": {"gap_closed_fraction": {"low": low, "high": high}}}}

    first = [row(0.4, 0.5), row(0.45, 0.55)]
    assert [against([row(*ends)], first) for ends in ((0.5, 0.9), (0.56, 0.9), (0.1, 0.39))] == [
        "within noise", "more", "less",
    ]  # fmt: skip
    assert spread([1.0, None, 3.0], "{:.0f}".format) == ("2", "1 to 3") and spread([None], str) == ("–", "")
    assert spread([749.0, 751.0], _seconds) == ("750 s", "749 to 751")
    assert spread([500.0, 1500.0], _seconds) == ("1 ks", "500 s to 1.5 ks")


def test_an_empty_thought_is_no_thinking() -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_positions=16, n_embd=8, n_layer=1, n_head=2)).eval()
    with torch.no_grad():
        model.lm_head.weight.zero_()
        model.transformer.ln_f.weight.zero_()
        model.transformer.ln_f.bias.fill_(1.0)
        model.lm_head.weight[8].fill_(50.0)
    some = [Place((1, 2), (3, 4), "a", 2), Place((3,), (4, 5), "b", 1)]
    said = habit(model, model, some, Sampling(7, 8, 3))
    assert said["thinks_fraction"] == 0.0 and said["mean_tokens"] == 0.0
