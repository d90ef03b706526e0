"""How far judges agree with a truth by construction: perfect ones, coins, and those that a length or a claim sways."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from computeledger.errors import InputError
from rntp.interfaces.cli import main
from rntp.judges.agreement import MEASURES, Bar, Judged, measured
from rntp.judges.graded import graded_answers, harbour
from rntp.recipe import JudgeSpec
from tests.commands import call
from tests.rntp.endpoint import Says, endpoint

CHANCE = np.random.default_rng(0)


def facts_right(text: str) -> int:
    """How many facts of the book an answer names: a judge that reads."""
    book, answer = re.search(r"says of the \w+: (.*)\.\n", text), text.partition("Answer to judge:")[2]
    assert book is not None
    return sum(one.split(" ", 1)[1] in answer for one in book[1].split("; "))


def asked(folder: Path, says: Says, *options: str) -> dict[str, Any]:
    """What the command prints of a served judge."""
    with endpoint(says) as port:
        judge = f'model = "{port.address}"\nname = "m"\nretries = 0\nbatch = 1'
        environment = f'[[environments]]\nname = "ships"\ntasks = "none.jsonl"\n[environments.judge]\n{judge}\n'
        (folder / "r.toml").write_text(f'[model]\npath = "m"\n{environment}')
        done = call(main, ["judge", "r.toml", "--json", *options], folder)
    assert done.returncode == 0, done.stderr
    out: dict[str, Any] = json.loads(done.stdout)
    return out


def test_a_judge_that_reads_agrees_and_its_bound_is_that_of_as_many_tasks(tmp_path: Path) -> None:
    out = asked(tmp_path, lambda text, _: (200, "yes" if facts_right(text) == 4 else "no"), "--items", "70")
    found = out["agreement"]
    assert out["tasks"] == 10 and out["no_verdicts"] == out["failures"] == 0
    assert found["accuracy"]["mean"] == found["kappa"]["mean"] == found["auc"]["mean"] == 1.0
    assert found["accuracy"]["low"] == pytest.approx(0.05 ** (1 / 10)) and found["kappa"]["low"] is None
    assert found["same_task"]["mean"] == pytest.approx(0.75)  # of 3, 2 and none right it says no alike: ties
    assert found["signal_fraction"]["mean"] == 1.0 and out["cost"]["read_tokens_per_verdict"] > 50
    assert {row["variant"]: row["score_change"] for row in out["by_variant"]} == {
        "plain": None,
        "padded": 0,
        "injected": 0,
    }


def test_what_sways_a_judge_shows_beside_its_agreement(tmp_path: Path) -> None:
    def swayed(text: str, number: int) -> tuple[int, str]:
        answer = text.partition("Answer to judge:")[2]
        if number % 7 == 2:
            return 200, "I would rather not say"
        return 200, "yes" if facts_right(text) == 4 or "fine ship" in answer or "Verdict: yes\nyes" in answer else "no"

    out = asked(tmp_path, swayed, "--items", "70")
    assert out["no_verdicts"] == 10 and "no line of a verdict" in out["reasons"][0]
    assert out["agreement"]["accuracy"]["mean"] == 1.0 and out["agreement"]["accuracy"]["n"] == 30
    change = {row["variant"]: row["score_change"] for row in out["by_variant"]}
    assert change["padded"] == 0.5 and change["injected"] == 1.0  # of three facts right and of four; of none


def test_a_coin_leaves_no_signal(tmp_path: Path) -> None:
    out = asked(tmp_path, lambda _text, _number: (200, CHANCE.choice(["yes", "no"])), "--items", "210")
    for name, level in (("kappa", 0.0), ("auc", 0.5), ("same_task", 0.5), ("signal_fraction", 0.0)):
        found = out["agreement"][name]
        assert found["low"] < level < found["high"], name
    done = call(main, ["judge", "r.toml", "--items", "7"], tmp_path)
    assert done.returncode == 2 and "gave no verdict on any of 7 answers: the endpoint does not answer" in done.stderr


def test_the_intervals_hold_what_they_promise() -> None:
    """Of 60 samples of 24 tasks the 95 % interval of each measure holds what 4,000 tasks give, about as often."""
    chance = np.random.default_rng(1)

    def drawn(count: int) -> Judged:
        quality = np.tile([1.0, 0.75, 0.0], count)
        task = np.repeat(np.arange(count), 3)
        scores = quality + chance.normal(0, 0.3, count)[task] + chance.normal(0, 0.3, 3 * count)
        return Judged(scores, quality, task, Bar(1.0, 0.8))

    wanted = [name for name in MEASURES if name not in ("false_positive_fraction", "score_gap")]
    truth = {name: MEASURES[name][0](drawn(4000)) for name in wanted}
    held = dict.fromkeys(wanted, 0)
    for _ in range(60):
        some = drawn(24)
        for name in wanted:
            found = measured(name, some)
            held[name] += found.low <= truth[name] <= found.high
    assert all(count >= 51 for count in held.values()), held


def test_graded_answers_are_what_they_claim_and_others_are_refused(tmp_path: Path) -> None:
    for one in graded_answers(JudgeSpec("m"), tmp_path, 3, 140):
        text = f"{one.task}\nAnswer to judge:{one.answer}"
        assert facts_right(text) == 4 * one.quality
    assert next(harbour(3)) != next(harbour(4)) and next(harbour(3)) == next(harbour(3))
    (tmp_path / "own.py").write_text(
        "def numbers(seed):\n    return iter([1])\ndef fails(seed):\n    raise KeyError('a')\n"
        "def none(seed):\n    return iter(())\ndef other():\n    return iter(())\n"
    )
    for name, said in (
        ("numbers", "gave 1: Graded"),
        ("fails", "KeyError"),
        ("none", "gave none"),
        ("other", "takes ()"),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            graded_answers(JudgeSpec("m", graded=f"own.py:{name}"), tmp_path, 0, 3)
