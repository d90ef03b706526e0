"""What a described system trains, does RL with and serves: the step rebuilt by hand, and limits that must hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import computeledger as cl
from computeledger.arrays import median
from computeledger.facts.load import load_model, load_system
from computeledger.frontier.abilities import trains
from computeledger.frontier.decoding import reinforces, serves
from computeledger.frontier.shapes import shaped_model
from computeledger.frontier.steps import cut_gpus, run_model, run_step, run_steps, training_machine
from computeledger.frontier.systems import described_system
from computeledger.physics.parallelism import Layout, parse_layout
from computeledger.physics.roofline import Precision
from computeledger.physics.training.batch import Batch
from computeledger.physics.transformer import n_params_active, n_params_total
from computeledger.units import MONTH_S
from computeledger.workloads.pretraining.candidates import Limits, candidates
from computeledger.workloads.pretraining.estimate import PretrainingScenario
from computeledger.workloads.pretraining.search import evaluate


@given(st.floats(10.0, 14.0), st.floats(4.0, 36.0))
def test_a_shaped_model_has_the_parameters_asked_for(log10: float, ratio: float) -> None:
    dense, mixture = shaped_model("d", 10**log10), shaped_model("m", 10**log10, ratio * 10**log10)
    assert n_params_active(dense) == pytest.approx(10**log10, rel=0.01)
    assert n_params_active(mixture) == pytest.approx(10**log10, rel=0.02)
    assert n_params_total(mixture) == pytest.approx(ratio * 10**log10, rel=0.05)


@given(st.floats(1.0, 1e7))
def test_a_job_leaves_few_gpus_over(n_gpus: float) -> None:
    job, odd = cut_gpus(n_gpus)
    assert job <= n_gpus and job % odd == 0 and (job // odd).bit_count() == 1
    assert job >= 0.8 * int(n_gpus)


def test_the_step_is_the_search_s_own() -> None:
    """The system's step is what the search of ``pretrain`` finds on the same chips."""
    system, model = load_system("h100-nvl8"), shaped_model("m", 405e9)
    found = run_step(model, described_system("16384 chips of h100-sxm5-80gb").generations, 15.6e12, (2.0**24, 1.0))
    scenario = PretrainingScenario(model, Layout(), Precision(), Batch(8192.0, 2048.0))
    best = evaluate(scenario, candidates(scenario, 16384, Limits(8)), training_machine(system)).best(1)[0]
    assert found.step_s == best.step_s and found.parts[0].layout == str(best.layout)
    assert found.busy_s == pytest.approx(15.6e12 / 2**24 * best.step_s)
    assert 0.35 < found.mfu_fraction < 0.47  # published: 38 to 43 %


def test_larger_worlds_make_shorter_steps_at_the_critical_batch() -> None:
    """The documents: the scale-up world decides how short a step can be."""
    steps = {}
    for chip in ("h100-sxm5-80gb", "gb200-gpu"):
        system = described_system(f"64K chips of {chip}")
        run = run_steps(trains(system, 3 * MONTH_S)["dense"], system.generations)
        assert run[0].batch_over_critical < 0.5 < run[1].batch_over_critical == 1 < run[2].batch_over_critical
        assert run[0].batch_tokens == pytest.approx(16.8e6, rel=0.15)  # the plateau that was measured, in whole ranks
        assert run[0].mfu_fraction < run[1].mfu_fraction < run[2].mfu_fraction < 0.6
        assert all(one.calendar_s > one.busy_s for one in run)
        assert int(parse_layout(run[0].parts[0].layout).tp) <= median(
            system.generations[0].system.n_gpus_scale_up.value
        )
        steps[chip] = run[0].step_s
    assert steps["gb200-gpu"] < 0.8 * steps["h100-sxm5-80gb"]


def test_a_given_rate_of_failures_takes_the_place_of_the_published_ones() -> None:
    """Half of the published median stops a run half as often; published ends make a wider range than one rate."""
    spec = "100K chips of h100-sxm5-80gb"
    usual, rare = (cl.systems(spec=spec, samples=16, interruptions_per_gpu_year=one) for one in (None, "0.1"))
    rates = [one.to_dict()["assumptions"]["interruptions_per_gpu_year"] for one in (usual, rare)]
    before, after = (one.steps["dense"][1] for one in (usual, rare))
    between = after.mean_time_between_failures_s / before.mean_time_between_failures_s
    assert between == pytest.approx(rates[0]["median"] / 0.1) and before.step_s == after.step_s
    assert before.calendar_s > after.calendar_s > after.busy_s == before.busy_s
    wide, narrow = (one.calendar_high_s / one.calendar_low_s for one in (before, after))
    assert wide > 1.3 * narrow and rates[0]["low"] < rates[0]["high"]
    assert "(0.1 per GPU and year: one every " in rare.view().context


def test_mixed_generations_share_the_batch_and_the_slowest_waits() -> None:
    system = described_system("16384 chips of h100-sxm5-80gb + 4608 chips of gb200-gpu")
    found = run_step(shaped_model("m", 405e9), system.generations, 15.6e12, (2.0**25, 1.0))
    assert [one.accelerator for one in found.parts] == ["h100-sxm5-80gb", "gb200-gpu"]
    assert found.step_s == max(one.step_s for one in found.parts)
    assert found.batch_tokens == sum(one.batch_tokens for one in found.parts)
    assert found.mfu_fraction < max(one.mfu_fraction for one in found.parts)


def test_what_cannot_be_says_why() -> None:
    """Nothing falls back: a chip without a system, a model too large, a replica larger than the system."""
    none = described_system("1K chips of tpu-v4").generations
    model = load_model("deepseek-v3")
    assert "no shipped scale-up domain is made of tpu-v4" in run_step(model, none, 1e12, (4e6, 1.0)).problem
    assert all("tpu-v4" in one.problem for one in (serves(model, none[0]), reinforces(model, none[0])))
    small = described_system("8 chips of h100-sxm5-80gb")
    assert "GB may be filled of its 85.0 GB" in run_steps(trains(small, MONTH_S)["moe"], small.generations)[0].problem
    assert serves(model, small.generations[0]).problem == "a replica takes 16 chips or more"
    assert not reinforces(model, small.generations[0]).fits_scale_up


def test_rl_fits_as_the_memory_says() -> None:
    """671B parameters in 8 bit: no room in 640 GB, room for thousands of rollouts in 13.4 TB."""
    model = load_model("deepseek-v3")
    here, there = (described_system(f"1K chips of {chip}").generations[0] for chip in ("a100-sxm4-80gb", "gb200-gpu"))
    assert reinforces(model, here).weights_bytes > reinforces(model, here).world_hbm_bytes
    found = reinforces(model, there)
    assert found.is_efficient and found.rollouts_per_world > 1000 and found.longest_trace_tokens >= 16384
    assert reinforces(
        run_model(trains(described_system("100K chips of gb200-gpu"), 4 * MONTH_S)["moe"], "moe"), there
    ).problem


def test_every_generation_is_answered(run_json: Any) -> None:
    spec = "150K chips of h100-sxm5-80gb + 30K chips of gb200-gpu"
    document = run_json("frontier", "systems", spec, "--json")
    for name, rate in (("rl", "sampled_tokens_per_s"), ("serves", "output_tokens_per_s")):
        rows = document[name]["by"]
        assert [(row["model"], row["accelerator"]) for row in rows] == [
            (model, chip)
            for model in ("deepseek-ai/DeepSeek-V3", "dense", "moe")
            for chip in ("h100-sxm5-80gb", "gb200-gpu")
        ]
        assert document[name][rate] == sum(row[rate] for row in rows[:2])
    run = document["trains"]["dense"]
    assert run["batches"][1]["batch_over_critical"] == 1
    assert run["step_s"] == run["batches"][1]["step_s"]
    assert len(run["batches"][0]["parts"]) == 2
