"""Anchors of two pools: held for their own layouts, and what they say is what the answer and the simulation take."""

from __future__ import annotations

from typing import Any

import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.questions.answers.serving.pools import PoolsAnswer

GIVEN: dict[str, Any] = {
    "model": "llama-3.1-8b", "system": "h100-nvl8", "mode": "disaggregated", "prefill_layout": "tp1", "layout": "tp2",
    "batch": 48, "input_tokens": 2048, "output_tokens": 256, "gpus": 8, "samples": 256,
}  # fmt: skip


def served(**given: Any) -> PoolsAnswer:
    answer = cl.serve(**{**GIVEN, **given})
    assert isinstance(answer, PoolsAnswer)
    return answer


def written(answer: PoolsAnswer, ratio: float) -> str:
    """The answer's own point as it would be measured, so much slower."""
    one, times = answer.chosen, (ratio * answer.chosen.tpot_s, ratio * answer.chosen.ttft_s)
    pools = f"prefill={one.n_prefill}x{one.prefill_layout},decode={one.n_decode}x{one.decode_layout}"
    return f"{pools},batch={one.concurrency:g},isl=2048,osl=256,tpot={times[0]:g}s,ttft={times[1]:g}s"


def test_what_was_measured_is_what_the_answer_takes_there() -> None:
    """A deployment a fifth slower at the answer's own point: nearly so, within a narrower interval, simulated too."""
    plain = served()
    anchor = written(plain, 1.2)
    found = served(anchor=anchor)
    for name in ("tpot_s", "ttft_s"):
        before, after = getattr(plain, name), getattr(found, name)
        assert 1.1 < after.p50 / before.p50 < 1.25
        assert after.p95 / after.p05 < before.p95 / before.p05
    told = found.to_dict()["anchor"]
    assert told["n"] == 1
    assert set(told["measured_over_predicted"]) == {"tpot", "ttft"}
    load = {
        name: GIVEN[name] for name in ("model", "system", "prefill_layout", "layout", "input_tokens", "output_tokens")
    }
    fleet = {**load, "prefill_replicas": found.chosen.n_prefill, "replicas": found.chosen.n_decode, "requests": 500}
    lone, slow = (cl.simulate_serve(**fleet, arrivals="poisson:0.5", **more) for more in ({}, {"anchor": anchor}))
    assert 1.08 < slow.percentiles["tpot_s"]["p50"] / lone.percentiles["tpot_s"]["p50"] < 1.25
    assert slow.percentiles["ttft_s"]["p50"] > 1.02 * lone.percentiles["ttft_s"]["p50"]


@pytest.mark.parametrize(
    ("anchor", "more", "said"),
    [
        ("batch=32,isl=2048,osl=256,tpot=9ms", {}, "the question is of two pools: write their workers"),
        ("prefill=1xtp2,decode=1xtp2,batch=32,isl=2048,osl=256,tpot=9ms", {}, "says little of other layouts"),
        ("prefill=1xtp1,batch=32,isl=2048,osl=256,tpot=9ms", {}, "two pools are both written"),
        ("prefill=threextp1,decode=1xtp2,batch=32,isl=2048,osl=256,tpot=9ms", {}, "a number of workers"),
        ("prefill=1xtp1,decode=1xtp2,batch=32,isl=2048,osl=256,tpot=9ms",
         {"mode": "aggregated", "prefill_layout": None}, "the question is of one pool"),
        ("prefill=1xtp1,decode=1xtp2,batch=32,isl=2048,osl=256,tpot=9ms",
         {"requests_per_s": 4, "batch": None, "prefill_system": "h200-nvl8"}, "anchor is read on one kind of chip"),
    ],
)  # fmt: skip
def test_what_was_measured_elsewhere_is_refused(anchor: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        served(anchor=anchor, **more)
