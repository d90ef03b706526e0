"""One question, one answer: commands, plans, Python and the web API agree where they answer the same thing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from computeledger.arrays import median, sample
from computeledger.economics.plan.ledger import Ledger, estimate_ledger
from computeledger.economics.plan.read import read_plan
from computeledger.facts.architecture import TARGETS
from computeledger.facts.load import load_model, load_system
from computeledger.fields import fields_of
from computeledger.interfaces.cli import main
from computeledger.physics.blackboard.ledgers import PRETRAINING_UTILIZATION_FRACTION
from computeledger.physics.calibration.efficiency import efficiency, load_factors
from computeledger.physics.calibration.serving import DEFAULT_ENGINE
from computeledger.physics.parallelism import parse_layout
from computeledger.physics.roofline import Machine, parse_precision
from computeledger.physics.training.batch import ACTIVATIONS, MOMENTS, RECIPES, RECOMPUTE, SHARDING
from computeledger.physics.training.optimizers import OPTIMIZERS
from computeledger.questions.answers.serving.document import serve_figures
from computeledger.workloads.engines import backends
from computeledger.workloads.launches import load_templates
from computeledger.workloads.pretraining.estimate import DEFAULT_GLOBAL_BATCH_TOKENS, DEFAULT_SEQUENCE_TOKENS
from computeledger.workloads.pretraining.launches import PACKAGE
from computeledger.workloads.pretraining.pipeline import SCHEDULES
from computeledger.workloads.questions.pretrain import PretrainQuestion
from computeledger.workloads.questions.rl import RLQuestion
from computeledger.workloads.rl.scenario import VERIFIER_CORES
from computeledger.workloads.serving.estimate import ServingResult, ServingScenario, estimate_serving
from computeledger.workloads.serving.intervals import interval_class, interval_of
from tests.commands import call

SAMPLES = 32
FEW = settings(
    max_examples=3, phases=(Phase.generate,), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
MANY = settings(max_examples=40, phases=(Phase.generate,), deadline=None, suppress_health_check=list(HealthCheck))
SKIP = {"skip": "not asked"}


def answered(*words: object) -> dict[str, Any]:
    """The JSON document of a command."""
    done = call(main, [*(str(word) for word in words), "--json"], Path.cwd())
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def planned(top: dict[str, Any], **sections: dict[str, Any]) -> Ledger:
    """The ledgers of a plan, with as many samples as the commands draw."""
    every = {"pretraining": SKIP, "rl": SKIP, "inference": SKIP, **sections}
    return estimate_ledger(read_plan({**top, "price": "$2/h", **every}), SAMPLES)


def median_of(value: Any) -> float:
    """Median of a quantity, in a document or along the sample axis."""
    if isinstance(value, dict):
        return float(value["p50"])
    return float(median(value))


def agree(said: dict[str, Any], value: Any, tolerance: float = 1e-9) -> None:
    """A command's quantiles are those of the samples of a plan."""
    import numpy as np

    for name, share in (("p05", 0.05), ("p50", 0.5), ("p95", 0.95)):
        assert said[name] == pytest.approx(float(np.quantile(value, share)), rel=tolerance), name


# --- RL: rl, plan, simulate rl ------------------------------------------------------------------------------------

RUNS = st.fixed_dictionaries({
    "model": st.sampled_from(["llama-3.1-8b", "qwen3-30b-a3b"]),
    "gpus": st.sampled_from([16, 32]),
    "prompts": st.sampled_from([32, 96]),
    "rollout": st.integers(800, 6000),
    "prompt": st.integers(100, 1500),
    "lag": st.sampled_from([0, 0, 2]),
    "verifier_s": st.sampled_from([0.0, 2.0]),
    "updates": st.sampled_from([1, 2]),
})  # fmt: skip


def one_rl_run(run: dict[str, Any], tolerance: float) -> None:
    said = answered(
        "rl", "--model", run["model"], "--system", "h100-nvl8", "--gpus", run["gpus"], "--prompts", run["prompts"],
        "--group-size", 8, "--rollout", run["rollout"], "--prompt", run["prompt"], "--max-lag", run["lag"],
        "--updates", run["updates"], "--steps", 100, "--price", "$2/h", "--samples", SAMPLES,
        *(("--verifier-time", f"{run['verifier_s']}s") if run["verifier_s"] else ()),
    )  # fmt: skip
    section = {
        "gpus": run["gpus"], "steps": 100, "prompts_per_step": run["prompts"], "group_size": 8,
        "rollout": f"{run['rollout']} tokens", "prompt": f"{run['prompt']} tokens", "max_lag": run["lag"],
        "updates_per_batch": run["updates"],
        # the closed form knows no spread of the verdicts' times: asked the same, the simulation draws none
        **({"verifier_time": f"{run['verifier_s']} s", "verifier_cores": 1024, "verifier_spread": 0}
           if run["verifier_s"] else {}),
    }  # fmt: skip
    top = {"model": run["model"], "system": "h100-nvl8"}
    phase = planned(top, rl=section).phases["rl"]
    agree(said["step_s"], phase.details["step_s"][0])
    agree(said["gpu_hours"], phase.gpu_hours)
    agree(said["beta_gpu_time"], phase.details["beta_gpu_time"][0])
    assert said["beta_flop"] == pytest.approx(phase.details["beta_flop"][0])
    for name, share in said["phases"].items():
        assert median_of(share["fraction"]) == pytest.approx(
            median_of(phase.details[f"{name}_fraction"][0]), abs=1e-9
        ), name
    if not run["lag"]:  # under a lag batches are trained in order, which the closed form leaves out
        assert median_of(said["step_s"]) == pytest.approx(simulated_rl(top, section), rel=tolerance)


def simulated_rl(top: dict[str, Any], section: dict[str, Any]) -> float:
    """Step of the simulation, once its pipeline is full."""
    from computeledger.economics.plan.rl_clock import planned_run
    from computeledger.simulation.rl.clock import simulate_rl

    run = planned_run(read_plan({**top, "price": "$2/h", "pretraining": SKIP, "inference": SKIP, "rl": section}), 6)
    return simulate_rl(run.scenario, run.rollouts).steady_step_s


@FEW
@given(RUNS)
def test_rl_plan_and_simulation_answer_one_run(run: dict[str, Any]) -> None:
    """The step, GPU-hours, both betas and the shares of phases; the simulation draws its rollouts."""
    one_rl_run(run, 0.15)


@pytest.mark.stress
@MANY
@given(RUNS)
def test_many_rl_runs(run: dict[str, Any]) -> None:
    one_rl_run(run, 0.15)


# --- pretraining: pretrain, plan ----------------------------------------------------------------------------------

TRAININGS = st.fixed_dictionaries({
    "model": st.sampled_from(["llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3"]),
    "gpus": st.sampled_from([256, 512]),
    "batch": st.sampled_from([None, 1_000_000, 8_388_608]),
    "sequence": st.sampled_from([None, 8192]),
    "precision": st.sampled_from([None, "fp8"]),
    "recompute": st.sampled_from([None, "full"]),
    "layout": st.sampled_from([None, "tp4-pp4-ep4"]),
})  # fmt: skip


def one_training(run: dict[str, Any]) -> None:
    layout = run["layout"] if run["model"] != "llama-3.1-8b" or run["layout"] is None else "tp2-pp2"
    options = {
        "layout": layout, "precision": run["precision"], "recompute": run["recompute"],
        "global-batch-tokens": run["batch"], "sequence-tokens": run["sequence"],
    }  # fmt: skip
    said = answered(
        "pretrain", "--model", run["model"], "--system", "h100-nvl8", "--gpus", run["gpus"], "--tokens", "1T",
        "--price", "$2/h", "--samples", SAMPLES,
        *(word for name, value in options.items() if value for word in (f"--{name}", value)),
    )  # fmt: skip
    stated = {
        "layout": layout, "recompute": run["recompute"],
        "global_batch": run["batch"] and f"{run['batch']} tokens", "sequence": run["sequence"] and "8192 tokens",
    }  # fmt: skip
    section = {"gpus": run["gpus"], "tokens": "1T tokens", **{key: value for key, value in stated.items() if value}}
    top = {"model": run["model"], "system": "h100-nvl8"}
    top |= {"precision": run["precision"]} if run["precision"] else {}
    phase = planned(top, pretraining=section).phases["pretraining"]
    assert phase.choices["layout"].startswith(f"{said['layout']},"), (phase.choices["layout"], said["layout"])
    agree(said["gpu_hours"], phase.gpu_hours)
    agree(said["mfu_fraction"], phase.details["mfu_fraction"][0])
    agree(said["utilization_fraction"], phase.utilization_fraction)
    agree(said["usd"], phase.usd)


@FEW
@given(TRAININGS)
def test_pretrain_and_plan_answer_one_run(run: dict[str, Any]) -> None:
    """The layout that a search finds, GPU-hours, MFU, utilisation and dollars."""
    one_training(run)


@pytest.mark.stress
@MANY
@given(TRAININGS)
def test_many_trainings(run: dict[str, Any]) -> None:
    one_training(run)


# --- serving: serve, plan, Python, web API, sweep, simulate serve -----------------------------------------------------

LOADS = st.fixed_dictionaries({
    "model": st.sampled_from([("llama-3.1-8b", "tp1"), ("llama-3.1-70b", "tp4"), ("qwen3-30b-a3b", "tp2-ep2")]),
    "system": st.sampled_from(["h100-nvl8", "h200-nvl8"]),
    "batch": st.integers(1, 64),
    "input": st.integers(200, 8000),
    "output": st.integers(50, 2000),
})  # fmt: skip


@pytest.fixture(scope="module")
def client() -> Any:
    testing = pytest.importorskip("fastapi.testclient")
    from computeledger.interfaces.web.app import create_app

    return testing.TestClient(create_app(), base_url="http://127.0.0.1")


def one_load(run: dict[str, Any], client: Any) -> None:
    (model, layout), system = run["model"], run["system"]
    asked = {
        "model": model, "system": system, "layout": layout, "batch": run["batch"], "input-tokens": run["input"],
        "output-tokens": run["output"], "precision": "bf16", "price": "$2/h",
    }  # fmt: skip
    words = [word for name, value in asked.items() for word in (f"--{name}", value)]
    said = answered("serve", *words, "--samples", SAMPLES)
    section = {
        "tokens": "1T tokens", "layout": layout, "batch": run["batch"], "precision": "bf16",
        "input": f"{run['input']} tokens", "output": f"{run['output']} tokens",
    }  # fmt: skip
    phase = planned({"model": model, "system": system}, inference=section).phases["inference"]
    for name in ("tpot_s", "ttft_s", "usd_per_mtok_output", "usd_per_mtok_input"):
        agree(said[name], phase.details[f"inference: {name}"][0])
    for name, (value, _) in serve_figures(by_functions(run)).items():
        agree(said[name], value)
    stated = {name: str(value) for name, value in {**asked, "model": said["model"]}.items()}  # the page takes no alias
    web = client.get("/api/serve", params=stated)
    assert web.status_code == 200, web.text
    # no page has --samples: both draw as many as the command does by itself
    assert web.json() == answered("serve", *(word for name, value in stated.items() for word in (f"--{name}", value)))


def by_functions(run: dict[str, Any]) -> ServingResult:
    """The same load in Python: the factors of the engine and the interval of the question's class, sampled."""
    (name, layout), system = run["model"], load_system(run["system"])
    model = load_model(name)
    kind = "alone" if run["batch"] == 1 else "aggregated"
    sure = interval_of(interval_class(model, "bf16", system, DEFAULT_ENGINE, kind))
    inputs = {f"efficiency.{key}": factor.value for key, factor in load_factors(DEFAULT_ENGINE).items()}
    inputs |= {"efficiency.serving_ratio": sure.tpot, "efficiency.first_token_ratio": sure.ttft}
    scenario = ServingScenario(
        model, parse_layout(layout), parse_precision("bf16", model.is_moe), float(run["input"]), float(run["output"]),
        float(run["batch"]), usd_per_gpu_hour=2.0,
    )  # fmt: skip
    return estimate_serving(scenario, Machine(system, efficiency(DEFAULT_ENGINE, sample(inputs, SAMPLES))))


def one_quiet_replica(run: dict[str, Any]) -> None:
    """A request alone on a replica: the decode steps and the prefill of batch 1, with nobody to interfere."""
    (model, layout), system = run["model"], run["system"]
    where = ("--model", model, "--system", system, "--layout", layout, "--precision", "bf16")
    quiet = answered(
        "simulate", "serve", *where, "--arrivals", "even:0.001", "--requests", 3,
        "--input-tokens", run["input"], "--output-tokens", run["output"],
    )["percentiles"]  # fmt: skip
    scenario = ServingScenario(
        load_model(model), parse_layout(layout), parse_precision("bf16"), float(run["input"]), float(run["output"]), 1.0
    )
    alone = estimate_serving(scenario, Machine(load_system(system), efficiency("vllm")))
    assert quiet["tpot_s"]["p50"] == pytest.approx(float(alone.decode_s), rel=0.03)


@FEW
@given(LOADS)
def test_serve_plan_and_the_web_answer_one_load(client: Any, run: dict[str, Any]) -> None:
    """Every figure, quantile by quantile, of command, plan and Python; the web's document is the command's."""
    one_load(run, client)


@FEW
@given(LOADS)
def test_a_quiet_replica_is_served_at_batch_one(run: dict[str, Any]) -> None:
    one_quiet_replica(run)


@pytest.mark.stress
@MANY
@given(LOADS)
def test_many_loads(client: Any, run: dict[str, Any]) -> None:
    one_load(run, client)
    one_quiet_replica(run)


SEARCHES = st.fixed_dictionaries({
    "model": st.sampled_from(["llama-3.1-8b", "llama-3.1-70b", "qwen3-30b-a3b"]),
    "system": st.sampled_from(["h100-nvl8", "h200-nvl8", "b200-nvl8"]),
    "precision": st.sampled_from([None, "fp8"]),
    "kv-precision": st.sampled_from([None, "fp8"]),
    "input-tokens": st.integers(200, 8000),
    "output-tokens": st.integers(50, 2000),
    "gpus": st.sampled_from([None, 4, 8]),
    "tpot": st.sampled_from([None, "15ms", "60ms"]),
    "price": st.sampled_from([None, "$2/h"]),
})  # fmt: skip


def one_search(run: dict[str, Any]) -> None:
    """Every figure that a sweep prints of its best option is that of serve's winner: times at the medians, costs the
    medians of serve's samples.
    """
    words = [word for name, value in run.items() if value is not None for word in (f"--{name}", value)]
    swept = answered("sweep", *words)
    if not swept["best"]:  # nothing is fast enough: serve says so in one line, as its own tests hold
        assert len(swept["without_answer"]) == 1
        assert call(main, ["serve", *(str(word) for word in words), "--json"], Path.cwd()).returncode == 2
        return
    best = swept["best"][0]
    found = answered("serve", *words)
    winner = found["winner"]
    assert best["layout"] == winner["layout"]
    assert best["usd_per_mtok_output"] == pytest.approx(found["usd_per_mtok_output"]["p50"], rel=1e-9)
    figures = set(best) - {
        "model",
        "system",
        "precision",
        "engine",
        "interval_class",
        "layout",
        "input_tokens",
        "output_tokens",
    }
    assert figures <= set(winner) and len(figures) == 7
    for name in figures:
        assert best[name] == pytest.approx(winner[name], rel=1e-9), name


@FEW
@given(SEARCHES)
def test_a_sweep_finds_what_serve_finds(run: dict[str, Any]) -> None:
    """The best option of a combination: its layout, batch and every figure."""
    one_search(run)


@pytest.mark.stress
@MANY
@given(SEARCHES)
def test_many_searches(run: dict[str, Any]) -> None:
    one_search(run)


# --- defaults -------------------------------------------------------------------------------------------------------


def test_options_have_the_defaults_of_their_one_home() -> None:
    """``--help`` imports no numpy, so that options repeat what the workloads define; here they are held to it."""
    from computeledger.interfaces.web.pages.rl import PAGE

    rl = fields_of(RLQuestion)
    pretrain = fields_of(PretrainQuestion)
    assert rl["verifier_cores"].default == VERIFIER_CORES
    assert rl["mfu"].default == PRETRAINING_UTILIZATION_FRACTION
    assert rl["recompute"].choices == RECOMPUTE
    assert pretrain["sequence_tokens"].default == DEFAULT_SEQUENCE_TOKENS
    assert pretrain["global_batch_tokens"].default == DEFAULT_GLOBAL_BATCH_TOKENS
    assert pretrain["global_batch_tokens"].blank == f"{DEFAULT_GLOBAL_BATCH_TOKENS / 1e6:g}M"
    choices = {
        "schedule": (*SCHEDULES, "any"), "sharding": SHARDING, "activation_precision": ACTIVATIONS,
        "moment_precision": MOMENTS, "recipe": RECIPES, "lora_targets": TARGETS, "optimizer": OPTIMIZERS,
        "emit": ("megatron", *load_templates(PACKAGE)),
    }  # fmt: skip
    assert {name: pretrain[name].choices for name in choices} == choices
    controls = {one.name: one for one in PAGE.controls}
    assert float(controls["verifier-cores"].default) == VERIFIER_CORES
    assert set(controls["backend"].choices) == {"", *backends()}, "empty: the framework's engine"
