"""An anchor that says more never teaches less: naming what the question has anyway changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.interfaces.web.app import create_app
from computeledger.interfaces.web.pages.serve import PAGE
from computeledger.interfaces.web.spec import Answer as PageAnswer
from computeledger.physics.calibration.anchors import load_anchor_calibration
from computeledger.physics.parallelism import parse_layout
from computeledger.physics.roofline import parse_precision
from computeledger.physics.training.batch import Batch, Stack
from computeledger.questions.answers.plan import plan
from computeledger.questions.answers.serving.answer import serve
from computeledger.questions.answers.serving.sweep import sweep
from computeledger.questions.answers.setup import draw_machine
from computeledger.questions.answers.simulation.serving import simulate_serve
from computeledger.workloads.pretraining.anchor import (
    anchored_result,
    interval_of_step,
    log_width,
    place_of,
    step_lesson,
)
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.questions.setup import Sampled
from computeledger.workloads.serving.anchor import read_anchors

SCENARIOS = {
    "interleaved": PretrainingScenario(
        load_model("qwen3-30b-a3b"), parse_layout("tp4-pp4-dp4-ep8"), parse_precision("bf16", moe=True),
        Batch(4096.0, 1024.0, 2.0, "full", 3.0),
    ),
    "sharded, fp8 activations": PretrainingScenario(
        load_model("llama-3.1-8b"), parse_layout("tp2-dp8"), parse_precision("fp8"),
        Batch(8192.0, 256.0, 1.0, "none", 1.0, True, Stack(recipe="block", activation_precision="fp8")),
    ),
    "DualPipe": PretrainingScenario(
        load_model("deepseek-v3"), parse_layout("pp16-dp128-ep64"), parse_precision("fp8", moe=True),
        Batch(4096.0, 15360.0, 1.0, "selective", 1.0, False, Stack(schedule="dualpipe", mtp_layers=1)),
    ),
}  # fmt: skip


def own_words(one: PretrainingScenario) -> dict[str, str]:
    """What an anchor may say of a scenario, with the scenario's own values."""
    batch = one.batch
    return {
        "layout": str(one.layout), "gpus": f"{one.layout.n_gpus}", "microbatch": f"{batch.microbatch_sequences:g}",
        "virtual_stages": f"{batch.virtual_stages:g}", "recompute": batch.recompute, "precision": one.precision.name,
        "model": one.model.id, "sequence": f"{batch.sequence_tokens:g}",
        "global_batch": f"{batch.sequence_tokens * batch.global_sequences:.0f}",
    }  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_the_question_has_anyway_may_be_named_or_left_out(name: str) -> None:
    scenario = SCENARIOS[name]
    _, machine, _ = draw_machine(load_system("h800-nvl8"), {}, "vllm", Sampled(samples=64))
    alone = anchored_result(["mfu=12%"], scenario, machine)[1]
    words = own_words(scenario)
    said = [*combinations(words, 1), *combinations(words, 2), tuple(words)]
    for keys in said:
        text = ", ".join(["mfu=12%", *(f"{key}={words[key]}" for key in keys)])
        held = anchored_result([text], scenario, machine)[1]
        assert held.steps[0].is_same and held.steps[0].scenario == alone.steps[0].scenario, text
        assert held.lesson == alone.lesson, text


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("spread", [0.01, 0.1, 0.5])
def test_a_measurement_never_widens(spread: float, same: bool) -> None:
    scenario = SCENARIOS["DualPipe"]
    other = replace(scenario, layout=parse_layout("pp8-dp32-ep32"))
    before = interval_of_step(np.exp(np.random.default_rng(0).normal(0.0, spread, 4000)))
    known = place_of(scenario if same else other)
    lesson = step_lesson(before, [1.3], [known], place_of(scenario), load_anchor_calibration().step)
    assert log_width(lesson.after) <= log_width(before) * (1 + 1e-12)


def test_an_anchor_of_nothing_says_so() -> None:
    with pytest.raises(InputError, match="nothing is given; write key=value"):
        read_anchors([" "])
    with pytest.raises(InputError, match="a unit is missing, write 21ms or 21s"):
        read_anchors(["batch=32, isl=1024, osl=512, tpot=21"])


ANCHOR = "batch=8,isl=1024,osl=256,tpot=12ms,layout=tp1"
ON_ONE = {"model": "llama-3.1-8b", "system": "h100-nvl8"}


def test_every_question_about_serving_learns_the_same_from_a_measurement(tmp_path: Path) -> None:
    """``serve``, ``sweep``, ``simulate serve``, a plan and the app's page: one shift, shown before and after."""
    plan_file = tmp_path / "plan.toml"
    (tmp_path / "bench.json").write_text(
        '{"completed": 80, "total_input_tokens": 81920, "total_output_tokens": 20480, "max_concurrency": 8, '
        '"mean_tpot_ms": 12.0, "request_rate": 9}'
    )
    plan_file.write_text(
        'model = "llama-3.1-8b"\nsystem = "h100-nvl8"\n[pretraining]\nskip = "-"\n[rl]\nskip = "-"\n[inference]\n'
        'tokens = "1T tokens"\ninput_tokens = "1024 tokens"\noutput_tokens = "256 tokens"\nlayout = "tp1"\n'
        'batch = 8\nanchor = ["bench.json"]\n'
    )
    asked = {**ON_ONE, "anchor": ANCHOR}
    answers = [
        serve(**asked, layout="tp1", batch=8, input_tokens=1024, output_tokens=256, samples=64),
        sweep(**asked, gpus=1, input_tokens=1024, output_tokens=256),
        simulate_serve(**asked, layout="tp1", arrivals="poisson:1", requests=50),
        plan(plan_file, samples=64),
        PAGE.answer({**asked, "layout": "tp1", "batch": "8", "input-tokens": "1024", "output-tokens": "256"}, False),
    ]
    said = [one.document if isinstance(one, PageAnswer) else one.to_dict() for one in answers]
    shifts = [one["anchor"]["carried_over"]["tpot"] for one in said]
    assert shifts == pytest.approx([shifts[0]] * 5) and shifts[0] > 1.2
    for one in said:
        before, after = (one["anchor"][f"interval_{when}"]["tpot"] for when in ("before", "after"))
        assert after["p50"] / before["p50"] == pytest.approx(shifts[0])
        assert after["p95"] / after["p05"] <= before["p95"] / before["p05"] * (1 + 1e-9)
    for answer in answers[:4]:
        assert any("times what the model gives here, instead of" in note for note in answer.view().notes)
    alone = simulate_serve(**ON_ONE, layout="tp1", arrivals="poisson:1", requests=50)
    slower = said[2]["percentiles"]["tpot_s"]["p50"] / alone.percentiles["tpot_s"]["p50"]
    assert slower == pytest.approx(shifts[0], rel=0.1)


def test_the_page_holds_several_measurements_in_one_field_and_in_its_address() -> None:
    two = f"{ANCHOR}; batch=64,isl=1024,osl=256,tpot=20ms,layout=tp1"
    found = PAGE.answer({**ON_ONE, "layout": "tp1", "batch": "8", "anchor": two}, False)
    assert found.document["anchor"]["n"] == 2 and "--anchor=" in found.command


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: sweep(model="llama-3.1-8b,qwen3-8b", system="h100-nvl8", anchor=ANCHOR), "model lists 2"),
        (lambda: sweep(**ON_ONE, anchor="batch=8,isl=1024,osl=256,tpot=12ms"), "state the layout"),
        (lambda: serve(**ON_ONE, mode="disaggregated", gpus=8, anchor=ANCHOR), "the question is of two pools"),
        (lambda: simulate_serve(**ON_ONE, arrivals="poisson:1", backend="ideal", anchor=ANCHOR), "physical limit"),
        (lambda: sweep(**ON_ONE, backend="ideal", anchor=ANCHOR), "physical limit"),
        (lambda: plan(PLAN | {"inference": PLAN["inference"] | {"anchor": 3}}), "a list of texts such as 'batch=32"),
        (lambda: plan(PLAN | {"inference": PLAN["inference"] | {"anchor": ["batch=8"]}}), r"\[inference\] anchor"),
    ],
)
def test_a_measurement_that_does_not_fit_the_question_is_refused(ask: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ask()


PLAN: dict[str, Any] = {
    **ON_ONE, "pretraining": {"skip": "-"}, "rl": {"skip": "-"},
    "inference": {"tokens": "1T tokens", "input_tokens": "1K tokens", "output_tokens": "256 tokens"},
}  # fmt: skip


def test_a_machines_profile_stands_alone_and_must_exist() -> None:
    for ask in (sweep, simulate_serve):
        with pytest.raises(InputError, match="own kernels have"):
            ask(**ON_ONE, profile="mine.toml", anchor=ANCHOR, **({} if ask is sweep else {"arrivals": "poisson:1"}))
        with pytest.raises(InputError, match="no such file"):
            ask(**ON_ONE, profile="nowhere.toml", **({} if ask is sweep else {"arrivals": "poisson:1"}))


def test_the_app_reads_measurements_and_never_a_file() -> None:
    client = TestClient(create_app(), base_url="http://localhost")
    query = {**ON_ONE, "layout": "tp1", "batch": "8"}
    told = client.get("/api/serve", params={**query, "anchor": ANCHOR})
    assert told.status_code == 200 and told.json()["anchor"]["carried_over"]["tpot"] > 1.2
    refused = client.get("/api/serve", params={**query, "anchor": "/etc/hosts"}).json()
    assert refused["control"] == "anchor" and "files cannot be named here" in refused["message"]
