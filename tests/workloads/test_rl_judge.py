"""A served model that judges rollouts: limits that hold exactly, more GPUs that never harm, the closed form's clock."""

from __future__ import annotations

import itertools
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from computeledger.economics.plan.ledger import estimate_ledger
from computeledger.economics.plan.read import read_plan
from computeledger.errors import InputError, QuantityError
from computeledger.interfaces.cli import main
from computeledger.physics.roofline import Machine
from computeledger.questions.answers.rl.answer import RLAnswer, rl
from computeledger.simulation.rl.clock import simulate_rl
from computeledger.simulation.rl.scenario import check_run
from computeledger.workloads.rl.judge import Judge, most_in_flight, served_judge, verdicts_per_s
from computeledger.workloads.serving.estimate import estimate_serving
from tests.commands import call
from tests.workloads.test_rl_turns import planned

RUN: dict[str, Any] = {
    "model": "qwen3-8b", "system": "h100-nvl8", "gpus": 16, "rollout_tokens": "2K", "prompt_tokens": "400 tokens",
    "prompts_per_step": 32, "group_size": 8, "samples": 16,
}  # fmt: skip
LAGGED = {"training_gpus": 8, "max_lag": 2}
JUDGE = {"judge": "qwen3-8b", "judge_tokens": "600 tokens"}


def judged(**changes: Any) -> RLAnswer:
    return rl(**{**RUN, **JUDGE, **changes})


def test_scores_on_many_gpus_cost_a_prefill() -> None:
    for placement in ({}, LAGGED):
        plain, scored = rl(**RUN, **placement), judged(**placement, judge_tokens=0, judge_gpus=512)
        assert plain.typical.step_s <= scored.typical.step_s < 1.01 * plain.typical.step_s
        assert scored.judge_gpus is not None and scored.judge_gpus < 16
        assert "judge" not in plain.to_dict() and "judge" not in plain.to_dict()["phases"]


def test_a_judge_is_as_fast_as_it_is_served() -> None:
    answer = judged(judge_gpus=2, judge_calls=2)
    one, machine = answer.setting.run.typical, answer.setting.run.typical_machines.generation
    assert isinstance(one.judge, Judge) and isinstance(machine, Machine)
    most = most_in_flight(one.judge, one.transcripts, machine)
    served = estimate_serving(served_judge(one.judge, one.transcripts, most), machine)
    assert verdicts_per_s(one.judge, one.transcripts, machine) == served.requests_per_s
    verdicts = answer.typical.judging
    assert verdicts is not None
    assert verdicts.all_s * verdicts.replicas * served.requests_per_s == pytest.approx(2 * 256)
    # a group's prompt is read once, every rollout whole, and each verdict is written
    assert one.transcripts.read_tokens == pytest.approx(2000 + 400 / 8)
    assert answer.to_dict()["beta"]["flop_by_phase"]["judge"] == pytest.approx(2 * (2050 + 1200) / 2000)


def test_more_gpus_never_harm_and_more_work_never_helps() -> None:
    for placement in ({}, LAGGED):
        steps = [float(judged(**placement, judge_gpus=n).typical.step_s) for n in (1, 2, 3, 4, 8, 16)]
        assert all(more <= fewer * (1 + 1e-12) for fewer, more in itertools.pairwise(steps)), steps
        assert steps[0] > steps[-1] > float(rl(**RUN, **placement).typical.step_s)
        longer = judged(**placement, judge_gpus=1, judge_tokens="2K tokens")
        assert longer.typical.step_s > steps[0] and longer.to_dict()["binding_phase"] == "judge"


@pytest.mark.parametrize(
    "placement", [{}, {"judge_gpus": 3}, LAGGED | {"judge_gpus": 2}, {"training_gpus": 4}], ids=str
)
def test_gpu_time_adds_up(placement: dict[str, Any]) -> None:
    answer = judged(**placement)
    result, n_gpus = answer.typical, 16 + placement.get("judge_gpus", 0)
    assert float(sum(result.phases_gpu_s.values())) == pytest.approx(float(result.step_s) * n_gpus)
    assert all(float(part) > -1e-6 for part in result.phases_gpu_s.values())
    assert answer.to_dict()["n_gpus"] == n_gpus
    assert answer.gpu_hours.p50 == pytest.approx(1000 * n_gpus * answer.step_s.p50 / 3600, rel=1e-9)


def test_gpus_that_keep_pace_do() -> None:
    answer = judged(judge_gpus=1, judge_tokens="2K tokens")
    assert answer.judge_gpus is not None

    def step_s(gpus: float) -> float:
        return float(judged(judge_gpus=int(gpus), judge_tokens="2K tokens").typical.step_s)

    assert step_s(answer.judge_gpus) <= 1.02 * step_s(4096.0) < step_s(answer.judge_gpus / 2)


def test_gpus_that_keep_pace_are_one_number_of_the_run() -> None:
    asked = {"judge": "qwen3-32b", "judge_tokens": "1K"}
    answers = {n: judged(**asked, judge_gpus=n) for n in (5, 8, 24, 32, 64)}
    (pace,) = {one.judge_gpus for one in answers.values()}
    assert pace is not None
    assert judged(**asked, judge_gpus=int(pace)).typical.step_s <= 1.03 * answers[64].typical.step_s
    # five GPUs, of which a replica takes four: the other one is said, and paid
    assert "replicas of tp2 take 4 of 5 GPUs that judge: the other one is idle and paid" in answers[5].remarks
    assert answers[5].to_dict()["n_gpus"] == 21 and not any("that judge" in one for one in answers[8].remarks)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"judge": None}, "said of a judge: state judge"),
        (LAGGED, "state judge_gpus, or max_lag 0"),
        ({"judge": "llama-3.1-405b", "judge_gpus": 4}, "4 GPUs do not hold it"),
        ({"judge_tokens": "60K"}, "exceed its context"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        judged(**given)


def runs(seed: int, n: int) -> list[dict[str, Any]]:
    """Judges that keep pace, nearly do, and fall behind; scores, verdicts and votes; in turn, apart, with a lag."""
    rng = np.random.default_rng(seed)
    found = []
    for place in range(n):
        lag = (0, 0, 2, 1)[place % 4]
        one: dict[str, Any] = {
            "prompts_per_step": int(rng.choice([8, 16])), "group_size": 16, "judge": "llama-3.1-8b",
            "rollout_tokens": f"{rng.integers(800, 3000)} tokens", "prompt_tokens": f"{rng.integers(100, 600)} tokens",
            "longest_over_mean": round(float(rng.uniform(1.5, 4.0)), 1),
            "judge_tokens": f"{rng.choice([0, 200, 500, 1000])} tokens", "judge_calls": int(rng.choice([1, 1, 3])),
        }  # fmt: skip
        if place % 4:
            one["judge_gpus"] = int(rng.choice([1, 1, 2, 4]))
        found.append(one | ({"max_lag": lag, "training_gpus": 8} if lag else {}))
    return found


@pytest.mark.parametrize("section", runs(1, 8), ids=str)
def test_closed_form_and_clock_agree(section: dict[str, Any]) -> None:
    """Within 10 % on the step; of a lagged run once the pipeline is full."""
    closed, _, result = planned(40 if "max_lag" in section else 4, **section)
    assert closed == pytest.approx(result.steady_step_s, rel=0.1)
    assert sum(result.gpu_s().values()) == pytest.approx(result.scenario.n_gpus * result.end_s)


def test_dropped_rollouts_free_the_step() -> None:
    """Oversampled rollouts whose verdict comes too late are dropped; a judge in turn under a lag is refused."""
    section = {"prompts_per_step": 8, "group_size": 8, "rollout_tokens": "800 tokens", "prompt_tokens": "200 tokens"}
    _, run, result = planned(
        3, **section, oversampling=1.5, judge="llama-3.1-8b", judge_gpus=1, judge_tokens="500 tokens"
    )
    assert result.dropped_tokens > 0 and len(set(result.trained.tolist())) == 3 * 64
    again = simulate_rl(run.scenario, run.rollouts)
    assert again.end_s == result.end_s
    pool = run.scenario.judge
    assert pool is not None
    lagged = replace(run.scenario, judge=replace(pool, own_gpus=0.0), is_colocated=False, policy_lag_steps=1)
    with pytest.raises(QuantityError, match="state judge GPUs"):
        check_run(lagged)


def test_plan_counts_the_judge() -> None:
    top = {"model": "qwen3-8b", "system": "h100-nvl8", "price": "$2/h", "pretraining": {"skip": "open weights"},
           "inference": {"skip": "not served"}}  # fmt: skip
    section = {"steps": 10, "gpus": 16, "rollout_tokens": "2K tokens", "prompt_tokens": "400 tokens",
               "prompts_per_step": 32, "group_size": 8}  # fmt: skip
    plain = estimate_ledger(read_plan({**top, "rl": section}), 16).phases["rl"]
    both = {"judge": "qwen3-8b", "judge_gpus": 4, "judge_tokens": "600 tokens"}
    judged_phase = estimate_ledger(read_plan({**top, "rl": section | both}), 16).phases["rl"]
    assert np.median(judged_phase.gpu_hours) > 1.2 * np.median(plain.gpu_hours)
    assert np.median(judged_phase.flop) > np.median(plain.flop) and "judge_fraction" in judged_phase.details


def test_the_command_says_who_judges(tmp_path: Path) -> None:
    said = "rl --model qwen3-8b --system h100-nvl8 --gpus 16 --rollout-tokens 2K --judge qwen3-32b --judge-gpus 2 "
    found = call(main, [*shlex.split(said), "--judge-tokens", "1K", "--samples", "16"], tmp_path)
    assert found.returncode == 0, found.stderr
    assert "2 judge" in found.stdout and "Qwen/Qwen3-32B on its own 2 GPUs" in found.stdout
    assert "it sets the pace of a step" in found.stdout and "keep pace" in found.stdout
