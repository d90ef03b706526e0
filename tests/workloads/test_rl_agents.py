"""Agents that one policy plays: exact limits, what more of them can never do, and the closed form's clock."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from computeledger.errors import InputError
from computeledger.interfaces.cli import main
from computeledger.questions.answers.rl.answer import RLAnswer, rl
from computeledger.simulation.rl.clock import RLClockResult, simulate_rl
from computeledger.simulation.rl.scenario import RLClockScenario, Rollouts, Trainer
from computeledger.simulation.state import Q_FINISHED, Limits, Pool, constant_step_times
from tests.commands import call
from tests.workloads.test_rl_turns import planned

RUN: dict[str, Any] = {
    "model": "qwen3-8b", "system": "h100-nvl8", "gpus": 16, "rollout_tokens": "2K", "prompt_tokens": "400 tokens",
    "prompts_per_step": 8, "group_size": 8, "turns": 5, "samples": 16,
}  # fmt: skip


def played(**changes: Any) -> RLAnswer:
    return rl(**{**RUN, **changes})


def step_s(**changes: Any) -> float:
    return float(played(**changes).typical.step_s)


def test_one_agent_is_none() -> None:
    tool = {"observation_tokens": "200 tokens", "tool_latency": "3s"}
    assert played(**tool, agents=1).to_dict() == played(**tool).to_dict()


def test_agents_at_once_that_say_nothing_are_rollouts_more() -> None:
    """No message and no turn to wait for: three agents are three times the prompts."""
    silent = {"agents": 3, "agents_at_once": True, "message_tokens": 0}
    assert step_s(**silent) == pytest.approx(step_s(prompts_per_step=24), rel=1e-9)
    assert played(**silent).beta_flop.p50 == pytest.approx(played().beta_flop.p50)


def test_agents_that_take_turns_wait_for_one_another() -> None:
    heard = {"message_tokens": "100 tokens"}
    at_once, one_by_one = (step_s(agents=4, agents_at_once=both, **heard) for both in (True, False))
    assert one_by_one > at_once > step_s()
    episode = played(agents=4, **heard).to_dict()["episodes"]["episode_s"]
    alone = played().to_dict()["episodes"]["episode_s"]
    assert 3 * alone < episode < 5 * alone, "four agents, one of them writing"
    steps = [step_s(), *(step_s(agents=n, **heard) for n in (2, 4, 8))]
    assert steps == sorted(steps)
    assert step_s(agents=4, message_tokens="400 tokens") > one_by_one
    assert step_s(agents=4, tool_latency="5s", **heard) > one_by_one + 4 * 4 * 5, "four agents with four calls each"


def test_only_those_who_learn_are_trained_on() -> None:
    both, one = played(agents=2), played(agents=2, trained_agents=1)
    for name in ("log-probs", "update"):
        halves = [answer.typical.flop_by_phase[name] for answer in (one, both)]
        assert 2 * halves[0] == pytest.approx(halves[1])
    assert one.typical.flop_by_phase["generation"] == both.typical.flop_by_phase["generation"]
    assert one.typical.kept_tokens == both.typical.kept_tokens / 2
    assert one.typical.step_s < both.typical.step_s
    assert both.environments is not None and both.environments.at_most == 64, "an environment for each episode"


def simulated(agents: int, takes_turns: bool) -> RLClockResult:
    """One episode on steps that take a tenth of a second, and prompts and observations that take half of one."""
    pool = Pool(1, constant_step_times(8, 0.1, 0.5), Limits(8, 100_000, 0, 0, 512))
    run = RLClockScenario(pool, 1.0, 1.0, Trainer(1.0, 1.0, 0.0, 0.0), True, n_steps=1, rollouts_per_step=agents,
                          agents=agents, trained_agents=agents, takes_turns=takes_turns)  # fmt: skip
    ones, calls = np.ones(agents, np.int64), np.full(agents, 2)
    return simulate_rl(run, Rollouts(10 * ones, 12 * ones, np.zeros(agents), ones > 0, calls, 5, np.zeros(1)))


def test_simulated_turns_are_exact() -> None:
    """Three turns of four tokens: the first comes with what is read, in 0.5 s, each of the others in 0.1 s."""
    for agents in (1, 2, 4):
        ends = simulated(agents, takes_turns=True).world.when[:, Q_FINISHED]
        assert ends == pytest.approx([0.8 * (2 * agents + place + 1) for place in range(agents)])
        assert simulated(agents, takes_turns=False).world.when[:, Q_FINISHED] == pytest.approx([2.4] * agents)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"agents": 2, "turns": None}, "state turns of at least 2"),
        ({"agents": 2, "turns": 1}, "state turns of at least 2"),
        ({"trained_agents": 1}, "state agents 2"),
        ({"agents": 2, "trained_agents": 3}, "at most 2"),
        ({"agents": 2, "oversampling": 1.5}, "end together"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        played(**given)


def runs(seed: int, n: int) -> list[dict[str, Any]]:
    """Two to four agents, in turn and at once, some of them trained, with and without tools and a lag."""
    rng = np.random.default_rng(seed)
    found = []
    for place in range(n):
        agents = int(rng.integers(2, 5))
        one: dict[str, Any] = {
            "agents": agents, "trained_agents": int(rng.integers(1, agents + 1)), "group_size": 8,
            "prompts_per_step": int(rng.choice([4, 8, 16])), "turns": str(rng.integers(3, 9)),
            "rollout_tokens": f"{rng.integers(800, 3000)} tokens", "prompt_tokens": f"{rng.integers(100, 600)} tokens",
            "longest_over_mean": round(float(rng.uniform(1.2, 3.0)), 1),
        }  # fmt: skip
        one |= {"message_tokens": f"{rng.integers(20, 200)} tokens"} if rng.random() < 0.5 else {}
        one |= {"tool_latency": f"{rng.uniform(0.5, 4.0):.1f}s"} if rng.random() < 0.5 else {}
        one |= {"agents_at_once": "yes"} if rng.random() < 0.3 else {}
        found.append(one | ({"max_lag": 2, "training_gpus": 8} if place % 3 == 2 else {}))
    return found


@pytest.mark.parametrize("section", runs(3, 6), ids=str)
def test_closed_form_and_clock_agree(section: dict[str, Any]) -> None:
    """Within 10 % on the step; of a lagged run once the pipeline is full."""
    closed, _, result = planned(30 if "max_lag" in section else 3, **section)
    assert closed == pytest.approx(result.steady_step_s, rel=0.1)


def test_the_command_says_who_plays(tmp_path: Path) -> None:
    said = "rl --model qwen3-8b --system h100-nvl8 --gpus 16 --rollout-tokens 2K --turns 5 --agents 2 --samples 16"
    found = call(main, [*shlex.split(said), "--trained-agents", "1"], tmp_path)
    assert found.returncode == 0, found.stderr
    assert "2 agents (1 trained), each 5 turns" in found.stdout
