"""Transfer: arms are trained once, measured on every family the same ways, and compared at the same documents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from computeledger.errors import InputError
from rntp import transfer
from rntp.corpus import split
from rntp.evaluate import places_of
from rntp.interfaces.tables.transfer import grids
from rntp.models import make_model, make_tokenizer
from rntp.must_think.families import FAMILIES
from rntp.outcomes import asked_at
from rntp.recipe import ModelSpec, ThoughtSpec
from rntp.sampling import Sampling
from tests.gates import ROOT

FILE = ROOT / "recipes" / "must_think" / "transfer" / "transfer.toml"
TINY = """
recipe = "{recipe}"
output = "{output}"
seeds = [0]
places = 8
device_s = 0.1
set = [
    "model.hidden_size=8", "model.heads=1", "model.kv_heads=1", "model.layers=1", "model.intermediate_size=8",
    "model.tokenizer_documents=300", "pretrain.steps=2", "pretrain.batch_sequences=4", "rl.steps=2", "thought.budget=6",
    "rl.prompts_per_step=2", "rl.group_size=2", "report.places=0",
]
arms = [{{ name = "before", way = "untrained" }}, {{ name = "text", way = "{way}", texts = ["dance"] }}]
common = {{ supervised_s = 0.1, verified_s = {verified}, texts = ["dance"] }}
"""


def written(folder: Path, way: str = "next-token", verified: float = 0.0) -> Path:
    file = folder / "tiny.toml"
    recipe = FILE.parent.parent / "families.toml"
    file.write_text(TINY.format(recipe=recipe, output=folder / "out", way=way, verified=verified), "utf-8")
    return file


@pytest.mark.parametrize(
    ("way", "verified"),
    [("next-token", 0.0), pytest.param("rntp", 0.1, marks=pytest.mark.stress),
     pytest.param("rlvr", 0.1, marks=pytest.mark.stress)],
)  # fmt: skip
def test_arms_are_trained_measured_and_gone_on_with(tmp_path: Path, way: str, verified: float) -> None:
    asked, said = transfer.read_transfer(written(tmp_path, way, verified)), []
    results = transfer.carry_out(asked, lambda *told: said.append(told))
    assert said == [("before, seed 0", 1, 2), ("text, seed 0", 2, 2)]
    trained = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    assert transfer.carry_out(asked, lambda *_: None) == results
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")} == trained
    assert len(results["rows"]) == 2 * 2 * (len(FAMILIES) + 1)
    assert all(set(row["over"]) == (set() if row["arm"] == "before" else {"before"}) for row in results["rows"])
    assert all(len(one.rows) for one in grids(results))


def test_every_thought_begins_with_the_right_first_step(tmp_path: Path) -> None:
    recipe = transfer._recipe(transfer.read_transfer(FILE), 0)
    for name, family in FAMILIES.items():
        where = transfer._on(recipe, [name], transfer._ONLY_BARE, tmp_path)
        assert where.corpus is not None
        some = [one.text for one, _ in zip(split(where.corpus, where.folder, 0), range(300), strict=False)]
        words = make_tokenizer(ModelSpec(tokenizer="word"), ThoughtSpec(), [*some, "start so"])
        shape = ModelSpec(hidden_size=8, heads=1, kv_heads=1, layers=1, intermediate_size=8)
        model = make_model(shape, words).eval()
        places = places_of(where, model, words, 4)
        start, end = words.convert_tokens_to_ids(["<think>", "</think>"])
        asked = asked_at(words, places, Sampling(start, end, 48, thoughts=1, stop_ids=(words.eos_token_id,)))
        for given, states in zip(*transfer.beginnings(asked), strict=True):
            said = words.decode(list(given)).split()
            assert said[0] == "start" and said[2] == "first" and {said[1], said[-1]} <= set(family.states)
            assert 5 <= len(states) <= 10 and states[0] == len(given) - 1


def test_a_gain_as_large_as_the_gap_closes_it() -> None:
    gap = np.linspace(1.0, 2.0, 5).tolist()
    seeds = [{"a": {"gap_nats": gap, "gain_nats": gap}, "b": {"gap_nats": gap, "gain_nats": [0.0] * 5}}]
    closed = transfer._values(seeds, ["a", "b"])["gap closed"]
    assert closed.shape == (1, 10) and closed[:, :5].mean() == pytest.approx(1.0) and not closed[:, 5:].any()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('way = "untrained"', 'way = "rntp"', "the first is held against"),
        ('"dance"]', '"dances"]', "dance"),
        ("seeds = [0]", "seeds = []", "at least one"),
        ('name = "text"', 'name = "before"', "a name of its own"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    file = written(tmp_path)
    file.write_text(file.read_text("utf-8").replace(old, new), "utf-8")
    with pytest.raises(InputError, match=said):
        transfer.read_transfer(file)
