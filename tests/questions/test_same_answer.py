"""A question has one answer: asked in Python, on the command line, in the app and in a plan, it is the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import computeledger as cl
from computeledger.economics.plan import phases
from computeledger.economics.plan.ledger import estimate_ledger
from computeledger.economics.plan.read import read_plan
from computeledger.errors import InputError
from computeledger.fields import fields_of
from computeledger.interfaces.cli import main
from computeledger.interfaces.web.app import create_app
from computeledger.interfaces.web.pages import PAGES
from computeledger.questions.answer import Quantity
from computeledger.questions.answers.serving.answer import ServeAnswer
from tests.commands import call

FEW = settings(
    max_examples=4, phases=(Phase.generate,), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
PRETRAIN = st.fixed_dictionaries({
    "model": st.sampled_from(["meta-llama/Meta-Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"]),
    "system": st.just("h100-nvl8"),
    "gpus": st.sampled_from(["16", "64"]),
    "tokens": st.sampled_from(["1T tokens", "2T..3T tokens"]),
    "sequence_tokens": st.sampled_from(["4096 tokens", "8K tokens"]),
    "global_batch_tokens": st.sampled_from(["2M tokens", "4,194,304 tokens"]),
    "precision": st.sampled_from(["bf16", "fp8"]),
    "recompute": st.sampled_from([None, "selective"]),
    "price": st.sampled_from([None, "$2..3/h"]),
})  # fmt: skip
RL = st.fixed_dictionaries({
    "model": st.sampled_from(["meta-llama/Meta-Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"]),
    "system": st.just("h100-nvl8"),
    "gpus": st.sampled_from(["16", "64"]),
    "rollout_tokens": st.sampled_from(["1000 tokens", "2K..6K tokens"]),
    "prompts_per_step": st.sampled_from(["64", "128"]),
    "group_size": st.sampled_from(["8", "16"]),
    "steps": st.sampled_from(["100", "1000"]),
    "verifier_time": st.sampled_from(["100ms", "2s"]),
    "max_lag": st.sampled_from(["0", "2"]),
    "price": st.sampled_from(["$2/h", "$2..3/h"]),
})  # fmt: skip
SERVE = st.fixed_dictionaries({
    "model": st.sampled_from(["meta-llama/Meta-Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"]),
    "system": st.sampled_from(["h100-nvl8", "h200-nvl8"]),
    "layout": st.sampled_from([None, "tp2"]),
    "batch": st.sampled_from([None, "16"]),
    "input_tokens": st.sampled_from(["2K tokens", "1K..4K tokens"]),
    "output_tokens": st.sampled_from(["500 tokens", "1K tokens"]),
    "cached_tokens": st.sampled_from(["0 tokens", "4K tokens"]),
    "kv_precision": st.sampled_from(["bf16", "fp8"]),
    "tpot": st.sampled_from([None, "40ms"]),
    "price": st.sampled_from(["$2/h", "$2..3/h"]),
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


def in_a_plan(section: str, asked: dict[str, Any], n_samples: int, **more: str) -> tuple[dict[str, Any], phases.Phase]:
    """The same fields as a plan's section: single numbers, since a plan draws its ranges from streams of its own."""
    single = {name: re.sub(r"([\d.]+[KMT]?)\.\.[\d.]+[KMT]?", r"\1", text) for name, text in asked.items() if text}
    top: dict[str, Any] = {name: single[name] for name in ("model", "system", "price") if name in single}
    fields = {name: text for name, text in single.items() if name not in top}
    skipped = {name: {"skip": "not asked"} for name in ("pretraining", "rl", "inference") if name != section}
    plan = read_plan({**top, **skipped, section: {**fields, **more}})
    return single, estimate_ledger(plan, n_samples).phases[section]


def quantiles(found: Any) -> list[float]:
    """Of a figure in a plan."""
    return [float(np.quantile(found, share)) for share in (0.05, 0.5, 0.95)]


def said(one: Quantity) -> list[float]:
    """The same of an answer."""
    return [one.p05, one.p50, one.p95]


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
        if value == theirs[path]:
            continue
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
    single, phase = in_a_plan("pretraining", asked, answer.question.samples)
    again = cl.pretrain(**single)
    assert quantiles(phase.details["step_s"][0]) == pytest.approx(said(again.step_s), rel=1e-9)
    assert quantiles(phase.gpu_hours) == pytest.approx(said(again.gpu_hours), rel=1e-9)


@FEW
@given(asked=RL)
def test_an_rl_question(asked: dict[str, Any], app: TestClient) -> None:
    answer = cl.rl(**asked)
    document = answer.to_dict()
    agree(document, commanded("rl", asked))
    agree(document, commanded("rl", {CONTROLS.get(key, key): text for key, text in asked.items()}))
    agree(document, in_the_app(app, "rl", asked))
    assert answer.step_s.p50 == document["step_s"]["p50"]
    single, phase = in_a_plan("rl", asked, answer.question.samples, prompt_tokens="500 tokens")
    again = cl.rl(**single)
    assert quantiles(phase.details["step_s"][0]) == pytest.approx(said(again.step_s), rel=1e-9)
    assert quantiles(phase.details["beta_gpu_time"][0]) == pytest.approx(said(again.beta_gpu_time), rel=1e-9)
    assert quantiles(phase.gpu_hours) == pytest.approx(said(again.gpu_hours), rel=1e-9)


@FEW
@given(asked=SERVE)
def test_a_serving_question(asked: dict[str, Any], app: TestClient) -> None:
    answer = cl.serve(**asked)
    document = answer.to_dict()
    agree(document, commanded("serve", asked))
    agree(document, commanded("serve", {name.removesuffix("_tokens"): text for name, text in asked.items()}))
    agree(document, in_the_app(app, "serve", asked))
    single, phase = in_a_plan("inference", asked, answer.question.samples, tokens="1B tokens")
    again = cl.serve(**single)
    assert isinstance(again, ServeAnswer)
    assert quantiles(phase.details["inference: tpot_s"][0]) == pytest.approx(said(again.tpot_s), rel=1e-9)
    assert quantiles(phase.details["inference: ttft_s"][0]) == pytest.approx(said(again.ttft_s), rel=1e-9)
    cost = quantiles(phase.details["inference: usd_per_mtok_output"][0])
    assert cost == pytest.approx(said(again.usd_per_mtok_output), rel=1e-9)


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
