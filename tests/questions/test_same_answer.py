"""A question has one answer: asked in Python, on the command line and in the app, it is the same to the last digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import computeledger as cl
from computeledger.errors import InputError
from computeledger.fields import fields_of
from computeledger.interfaces.cli import main
from computeledger.interfaces.web.app import create_app
from computeledger.interfaces.web.pages import PAGES
from tests.commands import call

FEW = settings(
    max_examples=4, phases=(Phase.generate,), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
PRETRAIN = st.fixed_dictionaries({
    "model": st.sampled_from(["meta-llama/Meta-Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"]),
    "system": st.just("h100-nvl8"),
    "gpus": st.sampled_from(["16", "64"]),
    "tokens": st.sampled_from(["1T", "2T..3T"]),
    "sequence_tokens": st.sampled_from(["4096", "8K"]),
    "global_batch_tokens": st.sampled_from(["2M", "4,194,304"]),
    "precision": st.sampled_from(["bf16", "fp8"]),
    "recompute": st.sampled_from([None, "selective"]),
    "price": st.sampled_from([None, "$2..3/h"]),
})  # fmt: skip
RL = st.fixed_dictionaries({
    "model": st.sampled_from(["meta-llama/Meta-Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"]),
    "system": st.just("h100-nvl8"),
    "gpus": st.sampled_from(["16", "64"]),
    "rollout_tokens": st.sampled_from(["1000", "2K..6K"]),
    "prompts_per_step": st.sampled_from(["64", "128"]),
    "group_size": st.sampled_from(["8", "16"]),
    "steps": st.sampled_from(["100", "1000"]),
    "verifier_time": st.sampled_from(["100ms", "2s"]),
    "max_lag": st.sampled_from(["0", "2"]),
})  # fmt: skip
#: Controls of the app that keep the names of earlier addresses.
CONTROLS = {"rollout_tokens": "rollout", "prompts_per_step": "prompts"}


@pytest.fixture(scope="module")
def app() -> TestClient:
    """The local web app."""
    return TestClient(create_app(), base_url="http://localhost")


def commanded(command: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What the command prints as JSON."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in asked.items() if value is not None]
    done = call(main, [command, *words, "--json"], Path.cwd())
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def in_the_app(app: TestClient, page: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What the app answers; boxes that the question leaves open are emptied."""
    boxes = {control.name: "" for one in PAGES if one.name == page for control in one.controls}
    given = {CONTROLS.get(key, key).replace("_", "-"): text or "" for key, text in asked.items()}
    done = app.get(f"/api/{page}", params={**boxes, **given})
    assert done.status_code == 200, done.text
    return dict(done.json())


def numbers(value: Any, at: str = "") -> dict[str, Any]:
    """Every value of a document by its path."""
    if isinstance(value, dict):
        return {path: one for key, part in value.items() for path, one in numbers(part, f"{at}.{key}").items()}
    if isinstance(value, list):
        return {path: one for n, part in enumerate(value) for path, one in numbers(part, f"{at}[{n}]").items()}
    return {at: value}


def agree(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Two documents say the same."""
    mine, theirs = numbers(one), numbers(other)
    assert mine.keys() == theirs.keys()
    for path, value in mine.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            assert value == pytest.approx(theirs[path], rel=1e-9), path
        else:
            assert value == theirs[path], path


@FEW
@given(asked=PRETRAIN)
def test_a_pretraining_question(asked: dict[str, Any], app: TestClient) -> None:
    answer = cl.pretrain(**asked)
    document = answer.to_dict()
    agree(document, commanded("pretrain", asked))
    agree(document, in_the_app(app, "pretrain", asked))
    assert answer.step_s.p50 == document["step_s"]["p50"]
    assert cl.pretrain(answer.question, tokens=1e12).days.p50 < 1.001 * answer.days.p50


@FEW
@given(asked=RL)
def test_an_rl_question(asked: dict[str, Any], app: TestClient) -> None:
    answer = cl.rl(**asked)
    document = answer.to_dict()
    agree(document, commanded("rl", asked))
    agree(document, commanded("rl", {CONTROLS.get(key, key): text for key, text in asked.items()}))
    agree(document, in_the_app(app, "rl", asked))
    assert answer.step_s.p50 == document["step_s"]["p50"]


def test_fields_say_what_they_are() -> None:
    declared = cl.PretrainQuestion.__dataclass_fields__["tokens"].metadata
    assert (declared["dimension"], declared["help"]) == ("tokens", "Tokens of the run.")
    assert (
        "where rollouts are cut" in cl.RLQuestion.__dataclass_fields__["rollout_limit_tokens"].metadata["help"].lower()
    )
    assert fields_of(cl.PretrainQuestion)["global_batch_tokens"].option == "--global-batch-tokens"


def test_errors_spell_fields_as_python_does() -> None:
    with pytest.raises(InputError, match=r"^lora_targets needs lora_rank$"):
        cl.pretrain(model="llama-3.1-8b", system="h100-nvl8", lora_targets="all")
