"""The closed form of a step's rollouts against the clock that simulates each of them, on the same decode steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from computeledger.arrays import median
from computeledger.economics.plan.ledger import estimate_ledger
from computeledger.economics.plan.read import read_plan
from computeledger.economics.plan.rl_clock import planned_run
from computeledger.facts.load import load_model, load_system
from computeledger.physics.calibration.efficiency import efficiency
from computeledger.physics.parallelism import parse_layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.simulation.rl.clock import simulate_rl
from computeledger.simulation.rl.tables import S_GENERATED, S_RELEASED
from computeledger.workloads.rl.confidence import KNOWN_RUN, rl_factors_of
from computeledger.workloads.rl.generation import generate
from computeledger.workloads.rl.lengths import empirical_lengths
from computeledger.workloads.rl.turns import Sampling
from computeledger.workloads.serving.estimate import ServingScenario


@pytest.mark.parametrize("tail", [1.5, 4.0])
def test_closed_form_and_clock_agree(tail: float) -> None:
    """Within 7 % on the lengths that the clock drew: in the closed form no replica has more than its share of work."""
    plan = read_plan({
        "model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
        "pretraining": {"skip": "open weights"}, "inference": {"skip": "not served"},
        "rl": {"gpus": 8, "steps": 10, "prompts_per_step": 32, "group_size": 16, "rollout": "1K tokens",
               "prompt": "150 tokens", "longest_over_mean": tail, "layout": "tp1", "training_layout": "tp8"},
    })  # fmt: skip
    run = planned_run(plan, 4)
    result = simulate_rl(run.scenario, run.rollouts)
    steps = result.run.steps[:4]
    # the clock loads new weights before a replica generates; the closed form counts that apart
    clock_s = float(np.mean(steps[:, S_GENERATED] - steps[:, S_RELEASED])) - run.scenario.sync.load_s
    machine = Machine(load_system("h100-nvl8"), efficiency())
    engine = ServingScenario(load_model("llama-3.1-8b"), parse_layout("tp1"), Precision(), 150.0, 1000.0, 4096.0)
    each = np.asarray(run.rollouts.output_tokens[: 4 * 512], float).reshape(4, 512)
    walls = []
    for drawn in each:
        sampling = Sampling(empirical_lengths(drawn), 150.0, 16.0)
        made = generate(replace(engine, batch=4096.0), sampling, (512.0, 8.0), (machine, rl_factors_of(KNOWN_RUN)))
        walls.append(float(made.wall_s))
    assert np.mean(walls) == pytest.approx(clock_s, rel=0.07), (np.mean(walls), clock_s)


def test_plan_and_clock_agree_on_a_step() -> None:
    """The same constants of an RL framework in both: within 10 % where light tails leave nothing to queue for."""
    stated = read_plan({
        "model": "qwen3-8b", "system": "h100-nvl8", "price": "$2/h",
        "pretraining": {"skip": "open weights"}, "inference": {"skip": "not served"},
        "rl": {"gpus": 8, "steps": 10, "prompts_per_step": 64, "group_size": 8, "rollout": "3K tokens",
               "prompt": "300 tokens", "longest_over_mean": 3.0, "layout": "tp1", "training_layout": "tp4-dp2"},
    })  # fmt: skip
    run = planned_run(stated, 4)
    clock_s = simulate_rl(run.scenario, run.rollouts).step_s
    assert clock_s == pytest.approx(median(estimate_ledger(stated, 64).phases["rl"].details["step_s"][0]), rel=0.1)
