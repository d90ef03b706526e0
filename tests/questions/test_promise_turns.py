"""A promise over conversations: the fleet that is sized is the one that is simulated."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.questions.answers.serving import promise
from computeledger.questions.answers.serving.answer import ServeAnswer
from computeledger.questions.answers.serving.finalists import Finalist
from computeledger.questions.answers.serving.pools import PoolsAnswer
from computeledger.simulation.serving.promise import Attained, PromisedLoad

SHAPE: dict[str, Any] = {
    "model": "llama-3.1-8b", "system": "h100-nvl8", "layout": "tp1", "input_tokens": 2000, "output_tokens": 100,
    "turns": "6", "tool_latency": "3s", "observation_tokens": 200, "shared_tokens": 500,
}  # fmt: skip


@functools.cache
def promised(**given: Any) -> ServeAnswer:
    """One small fleet; every answer is made once."""
    answer = cl.serve(**{**SHAPE, "requests_per_s": 34.0, "ttft": "p95:1s", "tpot": "p95:40ms", **given})
    assert isinstance(answer, ServeAnswer)
    return answer


def test_the_fleet_is_the_one_that_the_simulation_simulates() -> None:
    """``simulate serve`` of the same turns on the same replicas attains the same, and finds as much in caches."""
    found = promised().to_dict()
    same = cl.simulate_serve(
        **SHAPE, arrivals="poisson:34", routing="session", requests=20_000, replicas=found["replicas"],
        max_batch=found["promise"]["max_batch"],
    )  # fmt: skip
    for name, key in (("ttft_s", "ttft_s"), ("tpot_s", "tpot_s"), ("end_to_end_s", "e2e_s")):
        assert same.percentiles[name]["p50"] == pytest.approx(found["attained"][key]["p50"], rel=0.03)
        assert same.percentiles[name]["p95"] == pytest.approx(found["attained"][key]["p95"], rel=0.08)
    hits = sum(found["conversations"]["hit_fraction"].values())
    assert hits == pytest.approx(same.to_dict()["cached_fraction"], abs=0.01)


def test_hits_are_derived_and_save_gpus() -> None:
    """Closed form and simulation agree on what turns find; the fleet without a cache is larger, as the answer says."""
    lone = promised(requests_per_s=8.0).to_dict()
    told = lone["conversations"]
    assert lone["replicas"] == 1
    assert sum(told["expected_hit_fraction"].values()) == pytest.approx(sum(told["hit_fraction"].values()), abs=0.03)
    found = promised().to_dict()
    talks = found["conversations"]
    # of several replicas a turn may go where fewer wait
    assert sum(talks["hit_fraction"].values()) < sum(talks["expected_hit_fraction"].values()) + 0.01
    assert talks["turns"] == 6
    assert talks["per_s"] == pytest.approx(34 / 6)
    bare = promised(no_prefix_cache=True).to_dict()
    assert sum(bare["conversations"]["hit_fraction"].values()) == 0
    assert sum(bare["conversations"]["expected_hit_fraction"].values()) == 0
    assert bare["gpus"] > found["gpus"]
    assert abs(bare["gpus"] - talks["gpus_without_cache"]) <= 1  # its batch may be limited otherwise


def test_one_turn_is_a_request_of_its_own() -> None:
    """Conversations of one turn need what requests on their own do."""
    one = {"turns": "1", "tool_latency": None, "observation_tokens": 0.0, "shared_tokens": 0}
    alone = one | {"turns": None}
    first, second = (promised(**given).to_dict() for given in (one, alone))
    assert first["gpus"] == second["gpus"]
    assert first["attained"]["tpot_s"]["p50"] == pytest.approx(second["attained"]["tpot_s"]["p50"], rel=0.03)


def test_two_pools_of_conversations_are_those_that_the_simulation_simulates() -> None:
    """Prefill workers hold prompts: closed form, promise and ``simulate serve`` find as much, less than one pool."""
    shape = {**SHAPE, "prefill_layout": "tp1"}
    answer = cl.serve(**shape, requests_per_s=20.0, ttft="p95:1s", tpot="p95:25ms", mode="disaggregated")
    assert isinstance(answer, PoolsAnswer)
    found = answer.to_dict()
    talks, counts = found["conversations"], (found["prefill_replicas"], found["replicas"])
    same = cl.simulate_serve(
        **shape, arrivals="poisson:20", routing="session", requests=20_000, prefill_replicas=counts[0],
        replicas=counts[1],
    )  # fmt: skip
    for name in ("ttft_s", "tpot_s"):
        assert same.percentiles[name]["p50"] == pytest.approx(found["attained"][name]["p50"], rel=0.03)
        assert same.percentiles[name]["p95"] == pytest.approx(found["attained"][name]["p95"], rel=0.08)
    hits = sum(talks["hit_fraction"].values())
    assert hits == pytest.approx(same.to_dict()["cached_fraction"], abs=0.01)
    assert hits == pytest.approx(sum(talks["expected_hit_fraction"].values()), abs=0.03)
    one = promised(requests_per_s=8.0).to_dict()["conversations"]
    assert hits < sum(one["expected_hit_fraction"].values()) - 0.02
    assert talks["gpus_without_cache"] > found["gpus"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"requests_per_s": None, "ttft": None, "tpot": None}, "simulated for a promise"),
        ({"mode": "both"}, "layout is of one pool"),
        ({"pool_cache": "1TB"}, "pool.cache with"),
        ({"cached_tokens": 100}, "shared.tokens"),
        ({"workload": "azure-conv-2023"}, "workload with"),
    ],
)
def test_what_is_not_built_is_refused(given: dict[str, Any], said: str) -> None:
    """With the option that helps."""
    with pytest.raises(InputError, match=said):
        promised.__wrapped__(**given)


def test_a_promise_that_less_load_breaks_takes_more_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept at the load asked about and broken below it is chance: the fleet grows until no smaller load breaks it."""
    curves = promise._curve
    few = promised().to_dict()["replicas"]

    def noisy(chosen: Finalist, asked: PromisedLoad) -> list[Attained]:
        points, best = curves(chosen, asked), chosen.best
        broken = replace(
            best, requests_per_s=0.95 * best.requests_per_s, steady=replace(best.steady, is_saturated=True)
        )
        return [*points, broken] if best.n_replicas <= few + 1 else points

    monkeypatch.setattr(promise, "_curve", noisy)
    found = cl.serve(**SHAPE, requests_per_s=34.0, ttft="p95:1s", tpot="p95:40ms").to_dict()
    assert found["replicas"] == few + 2
    assert all(one["keeps"] for one in found["promise"]["curve"] if one["load_ratio"] <= 1)
