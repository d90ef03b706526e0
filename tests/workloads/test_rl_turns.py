"""Rollouts with turns: limits that hold exactly, what more of something can never do, and the closed form's clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from computeledger.arrays import median
from computeledger.economics.plan.ledger import estimate_ledger
from computeledger.economics.plan.read import read_plan
from computeledger.economics.plan.rl_clock import PlannedRun, planned_run
from computeledger.errors import InputError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.rl import RLFactors
from computeledger.physics.parallelism import Layout, stack_layouts
from computeledger.physics.roofline import Machine, Precision
from computeledger.questions.answers.rl.answer import rl
from computeledger.questions.answers.rl.returns import rl_returns
from computeledger.simulation.rl.clock import RLClockResult, simulate_rl
from computeledger.simulation.rl.tables import DROPPED, F_STEP
from computeledger.simulation.state import Q_PROMPT, Q_WRITTEN
from computeledger.workloads.rl.confidence import NEW_RUN
from computeledger.workloads.rl.coverage import CoverageFit, crossing
from computeledger.workloads.rl.generation import in_order
from computeledger.workloads.rl.lengths import lengths_of_mean
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.serving.estimate import ServingScenario

AGENT: dict[str, Any] = {
    "model": "qwen3-8b", "system": "h100-nvl8", "gpus": 16, "rollout_tokens": "3K", "rollout_limit_tokens": "9K",
    "prompt_tokens": "1K", "prompts_per_step": 32, "group_size": 8, "samples": 32,
}  # fmt: skip


def step_s(**changes: Any) -> float:
    return rl(**{**AGENT, **changes}).step_s.p50


def test_a_single_turn_is_no_turn() -> None:
    plain = rl(**AGENT).to_dict()
    one = rl(**AGENT, turns=1, observation_tokens="2K", tool_latency="30s").to_dict()
    for key in ("step_s", "gpu_hours", "beta_flop", "phases"):
        assert np.allclose(_numbers(one[key]), _numbers(plain[key]), rtol=1e-9), key
    known = {**AGENT, "model": "llama-3.1-8b"}
    assert rl(**known, turns=1).setting.run.confidence != rl(**known, turns=8).setting.run.confidence == NEW_RUN
    assert step_s(turns=12, training_gpus=8, max_lag=2) == pytest.approx(step_s(training_gpus=8, max_lag=2), rel=1e-9)
    assert step_s(turns=12) == pytest.approx(step_s(), rel=1e-9), "turns that observe and wait for nothing"


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for part in value.values() for number in _numbers(part)]
    return [float(value)] if isinstance(value, int | float) else []


def test_more_of_it_never_helps() -> None:
    turns = {"turns": 10, "observation_tokens": "300 tokens", "tool_latency": "4s"}
    base = step_s(**turns)
    assert base > step_s(turns=10, observation_tokens="300 tokens") > step_s()
    assert base > step_s(turns=10, tool_latency="4s") > step_s() + 30, "nine calls of four seconds wait, one by one"
    assert step_s(**turns | {"tool_latency": "exponential:4s"}) > base
    few = [step_s(**turns, environments=n) for n in (16, 64, 256)]
    assert few[0] > few[1] > few[2] == pytest.approx(base, rel=1e-9), "256 rollouts: one environment for each"
    assert few[0] > 4 * few[2]
    assert step_s(**turns, failed_fraction=0.2) > 1.05 * base
    lagged = turns | {"training_gpus": 8, "max_lag": 1}
    assert step_s(**lagged, reread_cache=True) >= step_s(**lagged)


def test_too_few_environments_are_the_bottleneck() -> None:
    turns: dict[str, Any] = {"turns": 10, "tool_latency": "60s"}
    few, enough = rl(**AGENT, **turns, environments=16), rl(**AGENT, **turns)
    assert few.to_dict()["binding_phase"] == "environments" != enough.to_dict()["binding_phase"]
    needed = few.to_dict()["episodes"]["environments"]
    assert needed["more_save_fraction"] == pytest.approx(1 - enough.typical.step_s / few.typical.step_s, rel=1e-6)
    assert enough.to_dict()["episodes"]["environments"]["more_save_fraction"] == pytest.approx(0.0, abs=1e-9)
    facts = dict(few.view(working=False).facts)
    assert facts["Bottleneck"].startswith("environments: one for each episode shortens a step by 82.1")
    assert facts["The next GPUs"].endswith("save less than 0.1 % of a step")


def test_environments_that_keep_pace_do() -> None:
    turns: dict[str, Any] = {
        "turns": 10,
        "observation_tokens": "300 tokens",
        "tool_latency": "4s",
        "environment_cores": 2,
    }
    episodes = rl(**AGENT, **turns).to_dict()["episodes"]
    needed = episodes["environments"]
    pace = needed["keep_pace"]
    assert step_s(**turns, environments=pace) <= 1.03 * step_s(**turns)
    assert step_s(**turns, environments=pace / 2) > 1.05 * step_s(**turns)
    assert needed["cores"] == 2 * pace and needed["busy"]["p50"] < pace
    assert episodes["calls_per_step"] == pytest.approx(9 * 256, rel=1e-6)
    longer = episodes["horizons"]
    assert [round(one["turns"]) for one in longer] == [10, 20, 40]
    assert longer[2]["episode_gpu_s"] > 3 * longer[0]["episode_gpu_s"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"turns": "0.5"}, "turns '0.5': must be at least 1"),
        ({"turns": "lognorm:3:4"}, "did you mean 'lognormal'"),
        ({"tool_latency": "3s"}, "state turns"),
        ({"turns": 4, "tool_latency": "uniform:3s:1s"}, "rising numbers above 0"),
        ({"turns": "uniform:4:8", "rollout_p95_tokens": "5K", "rollout_limit_tokens": None}, "no other tail"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        rl(**{**AGENT, **given})


def planned(steps: int, **section: Any) -> tuple[float, PlannedRun, RLClockResult]:
    """The closed form's step, the run and its simulation."""
    plan = read_plan({
        "model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h", "pretraining": {"skip": "open weights"},
        "inference": {"skip": "not served"}, "rl": {"steps": 10, "gpus": 16, "layout": "tp1", **section},
    })  # fmt: skip
    run = planned_run(plan, steps)
    closed = median(estimate_ledger(plan, 16).phases["rl"].details["step_s"][0])
    return closed, run, simulate_rl(run.scenario, run.rollouts)


def scenarios(seed: int, n: int) -> list[dict[str, Any]]:
    """Runs as people have them: synchronous or with a lag, long tails, turns with tools."""
    rng = np.random.default_rng(seed)
    found = []
    for place in range(n):
        lag = (0, 1, 2, 4)[place % 4]
        one: dict[str, Any] = {
            "prompts_per_step": int(rng.choice([16, 32])), "group_size": int(rng.choice([8, 16])),
            "rollout_tokens": f"{rng.integers(1000, 4000)} tokens", "prompt_tokens": f"{rng.integers(100, 800)} tokens",
            "longest_over_mean": round(float(rng.uniform(1.5, 5.0)), 1),
        }  # fmt: skip
        if place % 3:
            wait = rng.uniform(1.0, 10.0)
            told = (f"{wait:.1f}s", f"uniform:{wait / 2:.1f}s:{1.5 * wait:.1f}s", f"exponential:{wait:.1f}s")
            one |= {"turns": str(rng.integers(3, 12)), "observation_tokens": f"{rng.integers(50, 400)} tokens"}
            one |= {"tool_latency": str(rng.choice(told))}
        found.append(one | ({"max_lag": lag, "training_gpus": 8} if lag else {}))
    return found


@pytest.mark.parametrize("section", scenarios(0, 12), ids=str)
def test_closed_form_and_clock_agree(section: dict[str, Any]) -> None:
    """Within 10 % on the step once the pipeline is full."""
    closed, _, result = planned(60 if "max_lag" in section else 6, **section)
    assert closed == pytest.approx(result.steady_step_s, rel=0.1)


TURNS = {
    "prompts_per_step": 8, "group_size": 8, "rollout_tokens": "1K tokens", "prompt_tokens": "200 tokens", "turns": "6",
    "observation_tokens": "100 tokens", "tool_latency": "exponential:3s",
}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [{}, {"max_lag": 2, "training_gpus": 8}, {"max_lag": 2, "training_gpus": 8, "reread_cache": "yes"},
     {"max_lag": 1, "training_gpus": 8, "drained": "yes"}, {"oversampling": 1.5},
     {"oversampling": 1.5, "partial_rollouts": "yes"}, {"environments": 16},
     {"max_lag": 2, "training_gpus": 8, "replica_failures": "30s", "replica_repair": "5s"}],
    ids=str,
)  # fmt: skip
def test_turns_are_conserved(changes: dict[str, Any]) -> None:
    """Every trained rollout has made its calls, observed their answers and written all it was to write."""
    _, run, result = planned(5, **TURNS, **changes)
    trained, world = result.trained, result.world
    calls = run.rollouts.calls
    assert len(set(trained.tolist())) == 5 * 64 and calls.mean() == pytest.approx(5, rel=0.1)
    assert np.array_equal(world.req[trained, Q_WRITTEN], run.rollouts.output_tokens[trained])
    seen = run.rollouts.prompt_tokens + 100 * calls
    assert np.array_equal(world.req[trained, Q_PROMPT], seen[trained])
    gpu_s = result.gpu_s()
    assert sum(gpu_s.values()) == pytest.approx(16 * result.end_s) and min(gpu_s.values()) > -1e-6 * result.end_s
    assert (result.run.fate[:, F_STEP] == DROPPED).any() == (changes.get("oversampling", 1) > 1 and len(changes) == 1)
    if "environments" in changes:
        under_way = result.timeline()["generating"]
        assert under_way.max() <= 16


def test_caches_that_do_not_fit_are_read_again() -> None:
    """The same run with room for few contexts takes longer, in both."""
    few = {**TURNS, "prompts_per_step": 32, "gpus": 8, "layout": "tp1", "tool_latency": "20s"}
    times = []
    for prompt in ("200 tokens", "12K tokens"):
        closed, _, result = planned(3, **few | {"prompt_tokens": prompt})
        times.append((closed, result.steady_step_s))
    assert all(long > 1.2 * short for long, short in zip(times[1], times[0], strict=True))


def test_where_coverage_crosses(tmp_path: Any) -> None:
    """A trained model that is ahead at one sample is overtaken; the command finds where."""
    laws = {"base": CoverageFit(-1.6, -0.4, 0.0), "trained": CoverageFit(-0.9, -0.2, 0.0)}
    met = crossing(laws["base"], laws["trained"])
    assert met is not None and met.is_base_ahead
    assert float(laws["base"].coverage(met.k)) == pytest.approx(float(laws["trained"].coverage(met.k)))
    for name, law in laws.items():
        rows = [f"{k},{float(law.coverage(k))}" for k in (1, 4, 16, 64)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["k,coverage", *rows]))
    given = {"coverage": str(tmp_path / "base.csv"), "trained": str(tmp_path / "trained.csv")}
    found = rl_returns(**given).to_dict()["crossing"]
    assert found["k"] == pytest.approx(met.k, rel=1e-6) and found["ahead_beyond"] == "base"
    with pytest.raises(InputError, match="goes with"):
        rl_returns(published=True, trained=given["trained"])


def test_price_ratio_is_an_input_and_a_budget_has_a_path() -> None:
    found = rl(**AGENT, pretraining_flop=3e26, price_ratio=8, budget_flop=1e26).to_dict()
    assert found["equal_gpu_time"]["rl_flop_by_price_ratio"] == pytest.approx(3e26 / 8)
    demand = found["demand"]
    per_step = found["gpu_hours"]["p50"] / found["steps"]
    assert demand["gpu_hours"]["p50"] == pytest.approx(demand["steps"] * per_step, rel=1e-6)
    assert demand["usd"]["p50"] > 0 and demand["days"]["p50"] == pytest.approx(
        demand["gpu_hours"]["p50"] / 16 / 24, rel=1e-6
    )


def test_scale_up_is_answered_where_the_trainer_does_not_fit() -> None:
    asked: dict[str, Any] = {
        "model": "deepseek-v3",
        "system": "h200-nvl8",
        "gpus": 8,
        "rollout_tokens": "8K",
        "samples": 16,
    }
    with pytest.raises(InputError, match="fit"):
        rl(**asked)
    answer = rl(**asked, scale_up=True)
    own = answer.to_dict()["scale_up"][0]
    assert own["fits"] and own["rollouts"] > 100
    assert any("does not fit 8 GPUs" in one for one in answer.remarks)
    assert own["longest_trace_tokens"] > own["context_tokens"], "of the hardware, whatever the model's context"


def test_a_replica_that_holds_no_rollout_never_ends() -> None:
    """Layouts of a search that do not fit are endless, without a word of arithmetic."""
    machine = Machine(load_system("h100-nvl8"))
    engine = ServingScenario(
        load_model("llama-3.1-70b"),
        stack_layouts([Layout(), Layout(tp=8)], trailing_axes=0),
        Precision(),
        1.0,
        1.0,
        64.0,
    )
    sampling = Sampling(lengths_of_mean(1000.0, 3000.0), 200.0)
    made = in_order(engine, sampling, (256.0, 2, np.array([32.0, 4.0])), (machine, RLFactors()), (10.0, 1.0, 10.0))
    assert np.isfinite(made.wall_s).tolist() == [False, True]


def test_an_answer_with_turns_is_shown_whatever_is_a_range() -> None:
    asked = {**AGENT, "rollout_tokens": "1K..2K", "tool_latency": "2s..8s", "turns": "6..12", "environments": "64..256"}
    view = rl(**asked, observation_tokens="100..400").view(working=True)
    facts = dict(view.facts)
    assert "wait for tools" in facts["Episodes"] and "CPU cores" in facts["Environments that keep pace"]
    assert "What a longer horizon costs" in [table.title for table in view.tables]
