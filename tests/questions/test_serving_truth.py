"""A serving answer contradicts neither its own physical limit nor its own chances."""

from __future__ import annotations

import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.questions.wording import anchor_words
from computeledger.workloads.serving.search import SLOWEST_TPOT_S

_ON_H100 = {"model": "qwen3-32b", "system": "h100-nvl8"}


@pytest.mark.parametrize(
    "load",
    [
        {"batch": 64, "max_batch": 16},
        {"batch": 64, "max_batch": 16, "rounds": 4},
        {"batch": 600, "max_batch": 128, "rounds": 1, "statistic": "last"},
        {"batch": 64, "chunk_tokens": 512},
        {"batch": 1, "chunk_tokens": 512},
    ],
)
def test_no_quantile_passes_the_limit(load: dict[str, int | str]) -> None:
    found = cl.serve(**_ON_H100, layout="tp4", samples=1024, **load).to_dict()
    limit = found["physical_limit"]
    for time in ("ttft_s", "tpot_s"):
        assert found[time]["p05"] >= limit[time]
    for name in ("output_tokens_per_s_per_gpu", "output_tokens_per_s_per_user"):
        assert found[name]["p95"] <= limit[name]


def test_requests_that_wait_are_as_sure_as_the_steps_that_they_wait_for() -> None:
    found = cl.serve(**_ON_H100, layout="tp4", batch=64, max_batch=16).to_dict()
    first, each = (found[name]["p95"] / found[name]["p05"] for name in ("ttft_s", "tpot_s"))
    assert first == pytest.approx(each, rel=0.1)  # 98 % of the wait is three turns of decode steps


def test_no_first_token_is_in_time_where_the_fleet_does_not_carry_the_load() -> None:
    found = cl.serve(**_ON_H100, requests_per_s="40/s", ttft="100s").to_dict()
    assert found["meets"]["ttft"]["probability"] <= found["fleet"]["carries_probability"] < 0.9


def test_a_fleet_is_sized_for_the_pace_of_every_search() -> None:
    found = cl.serve(**_ON_H100, requests_per_s="40/s").to_dict()
    assert found["fleet"]["replica"]["tpot_s"] <= SLOWEST_TPOT_S
    assert found["assumptions"]["slowest_tpot_s_of_the_search"] == SLOWEST_TPOT_S
    slow = cl.serve(**_ON_H100, requests_per_s="40/s", tpot="200ms").to_dict()
    assert slow["fleet"]["n_gpus"] < found["fleet"]["n_gpus"]
    with pytest.raises(InputError, match=r"no layout meets TTFT 2 ms: none meets the TTFT"):
        cl.serve(**_ON_H100, requests_per_s="40/s", ttft="2ms")


@pytest.mark.parametrize(("engine", "layout"), [("lmdeploy", "tp4-pp2"), ("tgi", "tp2-pp2"), ("sglang-jax", "pp2")])
def test_an_engine_is_offered_no_parallelism_that_it_lacks(engine: str, layout: str) -> None:
    with pytest.raises(InputError, match=engine):
        cl.serve(**_ON_H100, backend=engine, layout=layout, batch=8)
    found = cl.serve(**_ON_H100, backend=engine).to_dict()
    assert not any("pp" in one["layout"] for one in found["pareto"])


def test_measurements_alike_state_what_each_error_rests_on() -> None:
    alike = cl.serve(**_ON_H100, layout="tp4", batch=8).to_dict()["measured_alike"]
    assert sum(one["n"] for one in alike["by"].values()) <= alike["n"]
    assert all(one["n"] >= 4 and 0 <= one["coverage_90"] <= 1 for one in alike["by"].values())


def test_an_anchor_is_told_by_the_ratios_before_and_after() -> None:
    asked = {**_ON_H100, "layout": "tp4", "batch": "32"}
    before = cl.serve(**asked).to_dict()
    after = cl.serve(**asked, anchor="batch=32,isl=4096,osl=1024,tpot=40ms").to_dict()
    ends = after["anchor"]["interval_after"]["tpot"]
    said = anchor_words(after["anchor"])
    assert f"the answer takes {ends['p50']:.3g} ({ends['p05']:.3g} to {ends['p95']:.3g}) times" in said
    assert "throughput and all costs follow" in said and after["ttft_s"] == before["ttft_s"]
    assert after["usd_per_mtok_input"]["p50"] > before["usd_per_mtok_input"]["p50"]


def test_what_does_nothing_is_said() -> None:
    idle = cl.serve(**_ON_H100, layout="tp4", batch=8, two_batches=True, rounds=2, equal_lengths=True, samples=64)
    said = " ".join(idle.to_dict()["remarks"])
    assert "--two-batches hides tokens" in said and "--equal-lengths changes nothing on vllm" in said
    assert not cl.serve(**_ON_H100, layout="tp4", batch=8, samples=64).to_dict()["remarks"]


def test_an_anchor_of_another_unit_is_doubted() -> None:
    asked = {**_ON_H100, "layout": "tp4", "batch": "32"}
    far, near = (
        anchor_words(cl.serve(**asked, anchor=f"batch=32,isl=4096,osl=1024,tpot={one}").to_dict()["anchor"])
        for one in ("200ms", "40ms")
    )
    assert "check its unit" in far and "check its unit" not in near


def test_a_search_says_within_which_speed() -> None:
    free, told = (cl.serve(**_ON_H100, **one).view().context for one in ({}, {"tpot": "50ms"}))
    assert " per GPU-hour" in free and "the cheapest within the default limit of 50\u00a0ms a token (" in free
    assert "default" not in told
