"""A search of shares: what is refused, who goes on, runs that are made longer, and a short search for real."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from computeledger.errors import InputError
from rntp import mixture_search
from rntp.interfaces.tables.mixture import MIXTURE_TABLES, grid, print_mixture
from rntp.mixture_search import BEFORE, CHOOSING, EQUAL, FOUND, JUDGING, SOUP, candidates, carry_out, mixed, read_search
from rntp.recipe import EnvironmentSpec, Recipe
from rntp.recipe_file import fingerprint, read_recipe
from rntp.run import run
from rntp.run_folder import FINAL, RECIPE, SUMMARY, check, lengthen, prepare, read_json, read_metrics
from tests.gates import ROOT
from tests.rntp.test_experiment import SHORT

FILE = ROOT / "recipes" / "must_think" / "mixture.toml"
FAMILIES = ROOT / "recipes" / "must_think" / "families.toml"
SHIP = ROOT / "recipes" / "must_think" / "config.toml"


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two threads on a busy machine are slower than one."""
    torch.set_num_threads(1)


def written(folder: Path, *lines: str) -> Path:
    path = folder / "short.toml"
    head = {"recipe": str(FAMILIES), "output": str(folder / "out"), "places": 8, "soup_trials": 0}
    keys = "\n".join(f"{name} = {json.dumps(value)}" for name, value in head.items())
    path.write_text("\n".join([keys, *lines]), "utf-8")
    return path


def test_the_search_that_ships_can_be_read() -> None:
    asked = read_search(FILE)
    assert len(candidates(asked)) == 10 and all(abs(sum(one) - 1) < 1e-9 for one in candidates(asked))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (('sources = ["dance"]',), "at least two"),
        (('sources = ["dance", "danse"]',), "did you mean 'dance'"),
        (('sources = ["dance", "text"]',), "its families are named beside"),
        (('sources = ["dance", "program"]', "draws = 3"), "one of the two"),
        (('sources = ["dance", "program"]', "rungs_s = [3.0, 2.0]"), "times that grow"),
        (('sources = ["dance", "program"]', "[matters]", "danse = 1"), "did you mean 'dance'"),
        (('sources = ["dance", "program"]', "[matters]", "dance = 0"), "above 0"),
        (('sources = ["dance", "program"]', "seeds = [1, 1]"), "each once"),
    ],
)
def test_a_search_that_cannot_be_is_refused(tmp_path: Path, lines, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_search(written(tmp_path, *lines))


def test_shares_become_weights_of_families_text_and_tasks(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(mixture_search, "_ASKED", 20)
    recipe = read_recipe(FAMILIES, [f"output={tmp_path}", "rl.steps=4"])
    recipe = replace(recipe, environments=(EnvironmentSpec("sums", tasks="a"), EnvironmentSpec("chains", tasks="b")))
    found = mixed(recipe, ("dance", "program", "sums", "verified"), (0.3, 0.1, 0.4, 0.2))
    assert found.corpus.weight == pytest.approx(0.4)
    assert found.corpus.options["names"] == ["dance", "program"] and found.corpus.options["weights"] == [0.3, 0.1]
    assert [(one.name, one.weight) for one in found.environments] == [("sums", 0.4), ("verified", 0.2)]
    asked = [json.loads(line)["id"].rpartition(" ")[0] for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    assert set(asked) == {"dance", "program"}  # no family that is no source
    none = mixed(recipe, ("dance", "sums"), (0.0, 1.0))
    assert none.corpus.weight == 0 and [one.weight for one in none.environments] == [1.0]


def test_the_best_go_on_and_are_judged_on_documents_that_nothing_was_chosen_by(tmp_path: Path, monkeypatch) -> None:
    """Training stood in for by a quality of the shares, which the choosing half flatters."""
    best = np.array([0.5, 0.25, 0.25])
    asked = replace(
        read_search(written(tmp_path, 'sources = ["dance", "program", "verified"]', "grid = 4")),
        rungs_s=(1.0, 2.0, 4.0), seeds=(0, 1), matters={"dance": 1, "program": 3},
    )  # fmt: skip
    trained: list[tuple[str, float]] = []

    def documents(shares, device_s: float) -> list[dict]:
        chance = np.random.default_rng(round(1e6 * float(np.dot(shares, [1, 2, 3]))))
        quality = 1 - float(np.abs(np.array(shares) - best).sum()) * (1 + 1 / device_s) / 4
        found = []
        for seed in asked.seeds:
            one = {name: np.full(20, quality) + 0.01 * chance.normal(size=20) + 0.001 * seed for name in asked.matters}
            for values in one.values():
                values[CHOOSING] += 0.05  # a half that flatters
            found.append({name: values.tolist() for name, values in one.items()})
        return found

    def reached(_self, name: str, shares, device_s: float) -> list[dict]:
        trained.append((name, device_s))
        return documents(shares, device_s)

    monkeypatch.setattr(mixture_search, "pretrained", lambda *_, **__: None)
    monkeypatch.setattr(mixture_search._Work, "reached", reached)
    monkeypatch.setattr(mixture_search._Work, "before", lambda _self: documents((0, 0, 1), 1.0))
    monkeypatch.setattr(mixture_search, "_soups", lambda *_: {SOUP: ("all", documents((0, 1, 0), 4.0))})
    Path(asked.output).mkdir()
    found = carry_out(asked, lambda _: None)
    assert [len(rung["candidates"]) for rung in found["rungs"]] == [15, 5, 2]
    assert found["found"]["shares"] == best.tolist()
    first = {one["name"] for one in found["rungs"][0]["candidates"][:5]}
    assert {one["name"] for one in found["rungs"][1]["candidates"]} == first
    rows = {row["way"]: row for row in found["judged"]}
    assert set(rows) == {BEFORE, FOUND, EQUAL, "dance alone", "program alone", "verified alone", SOUP}
    assert rows[FOUND]["mean"] == pytest.approx(1.0, abs=0.01) and rows[FOUND]["chosen_on"] > 1.04
    assert ("alone-dance", 4 / 3) in trained and found["targets"] == {"dance": 0.25, "program": 0.75}
    assert {one["against"]: one["verdict"] for one in found["effects"]}[SOUP] == "better"
    for name in MIXTURE_TABLES:
        assert grid(found, name).rows
    print_mixture(found)


def test_targets_count_by_their_weight_and_not_by_their_documents() -> None:
    asked = mixture_search.Search(sources=("dance", "program"), matters={"dance": 1, "program": 3})
    work = mixture_search._Work(asked, print)
    measured = [{"dance": [1.0] * 40, "program": [0.0, 0.5] * 5}, {"dance": [0.0] * 40, "program": [1.0, 0.5] * 5}]
    assert work.score(measured, CHOOSING) == pytest.approx(0.25 * 0.5 + 0.75 * 0.5)
    assert work.values(measured, JUDGING).mean(axis=1) == pytest.approx([0.25 + 0.75 * 0.5, 0.75 * 0.5])


def longer(folder: Path, steps: int, *more: str) -> Recipe:
    return read_recipe(SHIP, [*SHORT, f"output={folder}", f"rl.steps={steps}", *more])


def test_a_run_is_made_longer_as_if_it_had_been_longer_from_the_first(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run(longer(whole, 4))
    run(longer(parts, 2))
    with pytest.raises(InputError, match=r"\(rl\.steps 2 there, 4 here\); --longer goes on with it, --fresh begins"):
        run(longer(parts, 4))
    run(longer(parts, 4), longer=True)
    rows = [[{**row, "step_time": 0} for row in read_metrics(one)] for one in (whole, parts)]
    assert [row["step"] for row in rows[1]] == [1, 2, 3, 4]
    assert [row["loss"] for row in rows[0]] == pytest.approx([row["loss"] for row in rows[1]], rel=1e-5)
    assert read_json(parts / SUMMARY)["steps"] == 4
    assert read_json(parts / RECIPE)["fingerprint"] == fingerprint(longer(parts, 4))


def test_what_may_not_be_made_longer(tmp_path: Path) -> None:
    def ended(recipe: Recipe) -> None:
        prepare(tmp_path, recipe, fresh=True)
        (tmp_path / FINAL).mkdir(exist_ok=True)

    ended(longer(tmp_path, 4))
    with pytest.raises(InputError, match="cannot be made shorter, to 2"):
        lengthen(tmp_path, longer(tmp_path, 2))
    lengthen(tmp_path, longer(tmp_path, 8, "rl.learning_rate=1e-2"))  # another recipe: check says so
    assert read_json(tmp_path / RECIPE)["recipe"]["rl"]["steps"] == 4
    for more, reason in [
        ("rl.schedule=linear", r"longer: \[rl\] schedule 'linear' knew the last step; only 'constant' can go on; "),
        ("positions.rule=entropy-band", r"longer: \[positions\] rule 'entropy-band' chose its positions for 4 steps"),
    ]:
        ended(longer(tmp_path, 4, more))
        with pytest.raises(InputError, match=reason) as refused:
            lengthen(tmp_path, longer(tmp_path, 8, more))
        assert ("schedule" in str(refused.value)) != ("[positions]" in str(refused.value))  # the reason alone


@pytest.mark.parametrize("change", ["rl.steps=2", "rl.learning_rate=1e-2", "rl.schedule=linear", "rl.device_s=5"])
def test_longer_is_named_only_where_it_would_go_on(change: str, tmp_path: Path) -> None:
    prepare(tmp_path, longer(tmp_path, 4), fresh=True)
    (tmp_path / FINAL).mkdir()
    with pytest.raises(InputError, match="--fresh begins anew") as refused:
        check(tmp_path, longer(tmp_path, 8, change), fresh=False)
    assert "--longer" not in str(refused.value)
    with pytest.raises(InputError, match="; --longer goes on with it, --fresh begins anew, or give another output"):
        check(tmp_path, longer(tmp_path, 8), fresh=False)


@pytest.mark.stress
def test_a_short_search_for_real(tmp_path: Path) -> None:
    path = written(
        tmp_path, 'sources = ["dance", "verified"]', "grid = 1", "rungs_s = [0.05, 0.1]", "seeds = [0]",
        f"set = {json.dumps([*SHORT, 'rl.steps=3', 'model.tokenizer_documents=300'])}",
        "[matters]", "dance = 1", '"ship\'s log" = 1',
    )  # fmt: skip
    said: list[str] = []
    asked = read_search(path)
    found = carry_out(asked, said.append)
    assert len(said) == 7 and carry_out(asked, lambda _: None) == found
    assert len(found["rungs"][-1]["candidates"]) == 1 and found["searched_device_s"] > 0
