"""RL in closed form: beta's limits, what waits, what asynchrony buys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from computeledger.errors import DoesNotFitError
from computeledger.facts.load import load_model, load_system
from computeledger.physics.efficiency import efficiency
from computeledger.physics.efficiency_training import training_efficiency
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.physics.training import Batch
from computeledger.workloads.pretraining import PretrainingScenario, estimate_pretraining
from computeledger.workloads.rl import RLResult, RLScenario, estimate_rl, search_rollout
from computeledger.workloads.serving import ServingScenario, estimate_serving

MODEL, MACHINE = load_model("llama-3.1-8b"), Machine(load_system("h100-nvl8"), efficiency(), training_efficiency())
ENGINE = ServingScenario(MODEL, Layout(), Precision(), 200.0, 2000.0, 64.0)
UPDATE = estimate_pretraining(PretrainingScenario(MODEL, Layout(dp=8), Precision(), Batch(8192.0, 64.0)), MACHINE)
RUN = RLScenario(2000.0, 200.0, 4.0, 512.0, 8.0)


def rl(run: RLScenario = RUN, engine: ServingScenario = ENGINE) -> RLResult:
    return estimate_rl(run, estimate_serving(engine, MACHINE), UPDATE, MACHINE)


def test_ideal_flop_count() -> None:
    """Generation 2, one log-prob pass 2, one update 6: 10 per token where the prompt is short."""
    assert float(rl(replace(RUN, prompt_tokens=0.0)).beta_flop) == pytest.approx(10)
    assert float(rl(replace(RUN, prompt_tokens=0.0, logprob_passes=0.0, kept_fraction=0.5)).beta_flop) == pytest.approx(
        5
    )


def test_gpu_time_is_conserved() -> None:
    result = rl()
    assert float(sum(result.phases_gpu_s.values())) == pytest.approx(float(result.step_s * RUN.n_gpus))
    assert float(result.gpu_s_per_token * result.sampled_tokens_per_step) == pytest.approx(float(result.gpu_s_per_step))


def test_beta_in_gpu_time_exceeds_beta_in_flop() -> None:
    """Decode is slower per FLOP than training: no published row reaches the FLOP count (19-44 for dense 8-32B)."""
    result = rl()
    assert 15 < float(result.beta_gpu_time) < 60


def test_asynchrony_never_costs_gpu_time_and_verifiers_never_help_by_leaving() -> None:
    slow = replace(RUN, verifier_cpu_s=5.0, verifier_cores=16.0)
    assert rl(replace(slow, mode="asynchronous")).step_s < rl(slow).step_s
    assert rl(replace(slow, verifier_cores=1024.0)).step_s <= rl(slow).step_s


def test_heavier_tail_waits_longer() -> None:
    waits = [
        float(rl(replace(RUN, longest_over_mean=tail)).phases_gpu_s["waiting for the longest rollouts"])
        for tail in (1, 2, 8)
    ]
    assert waits[0] == 0
    assert waits == sorted(waits)


def test_rollout_search_bounds_the_live_batch() -> None:
    """All rollouts of a step start together: the live batch is rollouts over replicas, not what memory would hold."""
    layout, batch = search_rollout(ENGINE, [Layout(), Layout(tp=2), Layout(tp=8)], RUN, MACHINE)
    assert batch <= RUN.rollouts_per_step / (RUN.n_gpus // int(layout.n_gpus))
    ahead = replace(RUN, mode="asynchronous", steps_in_flight=2.0)
    assert (
        search_rollout(ENGINE, [Layout()], ahead, MACHINE)[1] == 2 * search_rollout(ENGINE, [Layout()], RUN, MACHINE)[1]
    )


def test_no_room_is_refused() -> None:
    with pytest.raises(DoesNotFitError, match="replica"):
        search_rollout(ENGINE, [Layout(tp=8)], replace(RUN, n_gpus=4.0), MACHINE)
