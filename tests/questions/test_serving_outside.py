"""Serving as a reader met it: outputs of one token, bursts, two pools, anchors, engines and limits."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.questions.wording import anchor_words

LLAMA: dict[str, Any] = {"model": "llama-3.1-8b", "system": "h100-nvl8", "samples": 64}
POOLS: dict[str, Any] = {
    **LLAMA, "mode": "disaggregated", "layout": "tp1", "prefill_layout": "tp1", "gpus": 8, "batch": 16,
}  # fmt: skip


def test_two_pools_give_the_statistic_that_was_asked_for() -> None:
    first = {name: cl.serve(**POOLS, rounds=2, statistic=name).ttft_s.p50 for name in ("mean", "median", "p90", "last")}
    assert first["median"] < first["mean"] < first["p90"] < first["last"]
    found = cl.serve(**POOLS, rounds=2, statistic="p90")
    document = found.to_dict()
    assert document["ttft_statistics_s"]["p90"]["p50"] == document["ttft_s"]["p50"]
    assert any("one start for 2 rounds" in note for note in found.view().notes)
    assert "ttft_statistics_s" not in cl.serve(**POOLS).to_dict()


def test_a_run_of_output_alone_tells_of_short_prompts(tmp_path: Path) -> None:
    """With one sequence the cache of a few hundred tokens is nothing beside the weights of a step."""
    path = tmp_path / "bench.json"
    test = {"n_prompt": 0, "n_gen": 128, "n_depth": 0, "avg_ts": 142.0, "model_type": "llama 8B Q4_K - Medium"}
    path.write_text(json.dumps([{**test, "model_n_params": 8.03e9}]))
    asked: dict[str, Any] = {"model": "llama-3.1-8b", "system": "1xrtx-4090", "precision": "gguf-q4_k_m", "batch": 1}
    asked |= {"input_tokens": 512, "output_tokens": 128, "backend": "llama.cpp", "price": 1.0, "samples": 64}
    by_file, by_hand = (
        cl.serve(**asked, anchor=one).to_dict()["anchor"] for one in (str(path), "batch=1,isl=512,osl=128,tpot=7.042ms")
    )
    ends = [one["interval_after"]["tpot"] for one in (by_file, by_hand)]
    assert ends[0]["p95"] / ends[0]["p05"] == pytest.approx(ends[1]["p95"] / ends[1]["p05"], rel=0.02)


def test_narrowed_is_said_of_narrower_intervals_alone() -> None:
    asked = {**LLAMA, "layout": "tp1", "batch": 32}
    near = cl.serve(**asked, anchor="batch=32,isl=1024,osl=1024,tpot=12ms").to_dict()["anchor"]
    assert anchor_words(near).startswith("shifted and narrowed by")
    same = near | {"interval_after": near["interval_before"]}
    assert anchor_words(same).startswith("shifted by")


def test_a_sweep_carries_an_anchor_as_serve_does() -> None:
    asked: dict[str, Any] = {
        "model": "llama-3.1-8b",
        "system": "h100-nvl8",
        "gpus": 1,
        "input_tokens": 1024,
        "output_tokens": 256,
    }
    anchor = "batch=8,isl=1024,osl=256,tpot=9ms,layout=tp1"
    served, swept = cl.serve(**asked, anchor=anchor), cl.sweep(**asked, anchor=anchor)
    assert swept.best[0].batch == served.batch
    assert swept.to_dict()["anchor"]["interval_after"] == served.to_dict()["anchor"]["interval_after"]


def test_the_batch_is_filled_up_to_the_limit() -> None:
    """A limit a little tighter costs a little more, and the next larger batches of the layout break it."""
    asked: dict[str, Any] = {"model": "deepseek-v3", "system": "8xh200", "samples": 64}
    found = [cl.serve(**asked, tpot=f"{limit}ms") for limit in range(40, 51)]
    costs = [float(one.chosen.usd_per_mtok_output) for one in found]
    assert all(1 <= tight / loose < 1.09 for tight, loose in itertools.pairwise(costs))
    for one, limit in zip(found, range(40, 51), strict=True):
        more = cl.serve(**asked, layout=str(one.layout), batch=math.ceil(1.04 * one.batch))
        assert one.chosen.tpot_s <= limit / 1000 < more.chosen.tpot_s


def test_drafts_of_which_none_is_kept_only_cost() -> None:
    plain, drafted = cl.serve(**LLAMA, batch=8), cl.serve(**LLAMA, batch=8, draft_tokens=1, tokens_per_step=1)
    assert drafted.tpot_s.p50 > plain.tpot_s.p50
    with pytest.raises(InputError, match="draft_tokens needs tokens_per_step"):
        cl.serve(**LLAMA, batch=8, draft_tokens=1)


def test_no_launch_is_printed_for_another_engine() -> None:
    with pytest.raises(InputError, match="the answer is sglang's"):
        cl.serve(**LLAMA, batch=8, backend="sglang", emit="vllm")


@pytest.mark.parametrize(("engine", "system"), [("mlx", "8xmi300x"), ("neuronx", "h100-nvl8"), ("sglang", "4xtpu-v6e")])
def test_an_engine_that_does_not_run_there_is_remarked(engine: str, system: str) -> None:
    asked = {**LLAMA, "system": system, "batch": 1, "layout": "tp1", "price": 2.0}
    for how in ({"backend": engine}, {"emit": engine}):
        if "emit" not in how or engine != "neuronx":  # which has no launcher here
            assert any("nobody can run this" in one for one in cl.serve(**asked, **how).to_dict()["remarks"])


def test_parts_of_a_fleet_sum_to_its_bill_and_no_limit_of_money_is_above_it() -> None:
    asked = {**LLAMA, "requests_per_s": 60, "input_tokens": 1024, "output_tokens": 256}
    found = cl.serve(**asked, tpot="40ms", price=3.0).to_dict()
    per_request = (1024 * found["usd_per_mtok_input"]["p50"] + 256 * found["usd_per_mtok_output"]["p50"]) / 1e6
    assert per_request == pytest.approx(found["fleet"]["n_gpus"] * 3.0 / 3600 / 60, rel=1e-3)
    assert found["fleet"]["usd_per_request"] == pytest.approx(per_request, rel=1e-3)
    assert found["fleet"]["usd_per_hour"] == pytest.approx(3.0 * found["fleet"]["n_gpus"])
    for name in ("usd_per_mtok_input", "usd_per_mtok_output"):
        assert found["physical_limit"][name] <= found[name]["p05"]
    assert found["physical_limit"]["output_tokens_per_s_per_gpu"] >= found["output_tokens_per_s_per_gpu"]["p95"]


def test_one_token_has_no_time_per_further_token() -> None:
    answer = cl.serve(**LLAMA, layout="tp1", batch=32, input_tokens=1024, output_tokens=1)
    document = answer.to_dict()
    assert (
        document["tpot_s"] is document["output_tokens_per_s_per_user"] is document["physical_limit"]["tpot_s"] is None
    )
    in_flight = document["requests_per_s_per_replica"]["p50"] * document["ttft_s"]["p50"]
    assert in_flight == pytest.approx(32, rel=0.05)
    assert "one token after" in answer.view(working=True).headline
    assert not any("per output token" in tile.label for tile in answer.view().tiles)


def test_a_cap_on_the_prefill_pool_is_said() -> None:
    assert cl.serve(**POOLS).to_dict()["assumptions"]["most_prefill_busy_fraction"] == pytest.approx(0.8)
    with pytest.raises(InputError, match="busy for at most 80% of the time"):
        cl.serve(**POOLS | {"gpus": 2, "batch": 32, "input_tokens": 8192, "output_tokens": 16})
