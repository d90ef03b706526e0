"""Two pools among the finalists of a promise: sized by worker, simulated, and compared with one pool."""

from __future__ import annotations

import functools
import itertools
import json
from typing import Any

import pytest
from click.testing import CliRunner

import computeledger as cl
from computeledger.errors import InputError
from computeledger.fields import Promise
from computeledger.interfaces.cli import cli
from computeledger.questions.wording import point
from computeledger.simulation.serving.arrivals import Arrivals, DrawnLoad
from computeledger.simulation.serving.clock import ServingClock
from computeledger.simulation.serving.promise import (
    MOST_SIMULATED,
    PromisedLoad,
    Unit,
    alone,
    attained,
    fewest_workers,
    simulated_part,
)
from computeledger.simulation.serving.steady import capacities
from computeledger.simulation.state import Limits, Pool, constant_step_times
from computeledger.workloads.questions.serve import ServeQuestion

SHAPE = {"model": "llama-3.1-8b", "system": "h100-nvl8", "input_tokens": 2048, "output_tokens": 128}
STATED = {"mode": "disaggregated", "prefill_layout": "tp1", "layout": "tp2"}


@functools.cache
def promised(**given: Any) -> dict[str, Any]:
    """The document of a promise on one small model; every answer is made once."""
    asked = {"requests_per_s": 40.0, "ttft": "p95:0.5s", "tpot": "p95:15ms"} | given
    return cl.serve(**SHAPE, **asked).to_dict()  # type: ignore[arg-type]


def test_the_command_sizes_both_pools() -> None:
    """One JSON document with the workers of both, their launch commands, and whether two pools pay."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SHAPE.items()]
    asked = ["--requests-per-s", "40", "--ttft", "p95:0.5s", "--tpot", "p95:15ms", "--emit", "vllm"]
    ran = CliRunner().invoke(cli, ["serve", *options, *asked, "--mode", "disaggregated", "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    pools, fleet = found["pools"], found["fleet"]
    assert (pools["prefill"]["n_workers"], pools["decode"]["n_workers"]) == (
        found["prefill_replicas"],
        found["replicas"],
    )
    assert (
        found["gpus"] == fleet["n_gpus"] == sum(one["n_workers"] * one["n_gpus_per_worker"] for one in pools.values())
    )
    assert found["attained"]["ttft_s"]["p95"] <= 0.5
    assert found["attained"]["tpot_s"]["p95"] <= 0.015
    assert found["usd_per_request"] == pytest.approx(fleet["usd_per_request"])
    assert 0 < found["promise"]["kept_probability"] < 1
    assert found["promise"]["headroom_fraction"] is None or "it holds up to" in found["launch"]["text"]
    assert "loaded" not in found["launch"]["text"]  # prefill workers' busy share says nothing of a promise
    assert f"start {pools['prefill']['n_workers']} of these" in found["launch"]["text"]
    assert found["launch"]["text"].count("--kv-transfer-config") == 2
    assert found["modes"]["aggregated"]["refused"]


def test_the_fleet_is_the_one_that_the_simulation_simulates() -> None:
    """``simulate serve`` of both pools attains the same; one worker fewer of either breaks the promise."""
    found = promised(**STATED)
    counts = {"replicas": found["replicas"], "prefill_replicas": found["prefill_replicas"]}
    same = {**SHAPE, "layout": "tp2", "prefill_layout": "tp1", "arrivals": "poisson:40"}
    again = cl.simulate_serve(**same, **counts)  # type: ignore[arg-type]
    for name, key in (("ttft_s", "ttft_s"), ("tpot_s", "tpot_s"), ("end_to_end_s", "e2e_s")):
        assert again.percentiles[name]["p50"] == pytest.approx(found["attained"][key]["p50"], rel=0.03)
        assert again.percentiles[name]["p95"] == pytest.approx(found["attained"][key]["p95"], rel=0.08)
    for name, n in counts.items():
        if n > 1:
            fewer = cl.simulate_serve(**same, **(counts | {name: n - 1}))  # type: ignore[arg-type]
            late = fewer.percentiles["ttft_s"]["p95"] > 0.5 or fewer.percentiles["tpot_s"]["p95"] > 0.015
            assert fewer.is_saturated or late


def test_the_answer_is_the_mode_of_fewer_gpus() -> None:
    """Two pools are never chosen where they need more; each mode is what it is when asked for alone."""
    both = promised()
    alone = {mode: promised(mode=mode)["gpus"] for mode in ("aggregated", "disaggregated")}
    assert {mode: both["modes"][mode]["gpus"] for mode in alone} == alone
    assert both["gpus"] == min(alone.values())
    assert both["mode"] == both["promise"]["finalists"][0]["mode"]
    short = promised(tpot="p95:60ms", requests_per_s=4.0)  # one GPU does it all: a second worker cannot pay
    assert (short["gpus"], short["mode"]) == (1, "aggregated")
    assert "do not pay" in short["modes"]["why"]


def test_more_load_takes_no_fewer_gpus() -> None:
    """Of both pools together, and of a harder promise."""
    sizes = [promised(mode="disaggregated", requests_per_s=rate)["gpus"] for rate in (10.0, 40.0, 120.0)]
    assert sizes == sorted(sizes)
    assert promised(mode="disaggregated", tpot="p95:10ms")["gpus"] >= sizes[1]


def test_the_sizes_are_the_best_of_all() -> None:
    """Every pair of counts tried by hand keeps nothing on fewer GPUs, also where a limit couples both pools."""
    reading = Pool(1, constant_step_times(1, 0.1, 0.2), Limits(1, 1000, 0, 0, 512))
    decoding = Pool(1, constant_step_times(4, 0.1, 0.0), Limits(4, 1000, 0, 0, 512))
    fleet = ServingClock((reading, decoding), (1, 1))
    load = DrawnLoad(Arrivals("poisson", 6.0), ("100", "11"))
    limits = {"ttft_s": Promise(0.9, 0.8), "end_to_end_s": Promise(0.9, 2.4)}
    asked, unit, gpus = PromisedLoad(load, limits), Unit(fleet, capacities(fleet, load)), (2, 1)
    found = fewest_workers(unit, asked, (2, 2), gpus, 40)
    assert found is not None
    kept = [
        2 * n + m
        for n, m in itertools.product(range(1, 5), range(1, 7))
        if attained(unit, ((n, m), 6.0), asked).keeps(limits)
    ]
    assert 2 * found.counts[0] + found.counts[1] == min(kept)
    assert fewest_workers(unit, asked, (2, 2), gpus, min(kept) - 1) is None


@pytest.mark.parametrize("counts", [(1, 1), (3, 400), (400, 3), (1, 200), (64, 64), (97, 131)])
def test_the_part_that_is_simulated_keeps_the_ratio(counts: tuple[int, int]) -> None:
    """No pool of it has less than its share of the load, nor much more; small fleets are simulated whole."""
    part, share = simulated_part(counts)
    for n, whole in zip(part, counts, strict=True):
        assert 1.0 - 1e-9 <= share * whole / n <= 1.031
    assert sum(counts) > 2 * MOST_SIMULATED or part == counts


def test_plain_limits_size_both_pools_too() -> None:
    """Medians at even arrivals: fewer GPUs than a promise of the same limits, more for more load, none too many."""
    sizes = []
    for rate in (40.0, 160.0):
        asked = {**SHAPE, "requests_per_s": rate, "ttft": 0.5, "tpot": 0.015, "mode": "disaggregated"}
        found = cl.serve(**asked).to_dict()  # type: ignore[arg-type]
        sizes.append(found["fleet"]["n_gpus"])
        assert found["ttft_s"]["p50"] <= 0.5
        assert found["requests_per_s_per_replica"]["p50"] == pytest.approx(rate, rel=0.01)
        assert 0 < found["fleet"]["load_fraction"] <= 1
    assert sizes[0] <= promised(mode="disaggregated")["gpus"]
    assert sizes == sorted(sizes)
    with pytest.raises(InputError, match=r"gpus 2: that load needs \d+ GPUs in two pools"):
        cl.serve(**asked, gpus=2)  # type: ignore[arg-type]


def test_pools_of_different_chips_are_sized_by_cost() -> None:
    """The same chips named twice are the same answer; cheaper prefill workers cost less and leave decoding as it is."""
    alike, named = promised(**STATED), promised(**STATED, prefill_system="h100-nvl8")
    for key in ("gpus", "replicas", "prefill_replicas", "attained", "usd_per_request", "joules_per_token"):
        assert named[key] == alike[key]
    other = promised(**STATED, prefill_system="a100-nvl8", prefill_price=1.0)
    assert other["prefill_replicas"] > alike["prefill_replicas"]  # fewer FLOP/s for every prompt
    assert other["replicas"] == alike["replicas"]
    workers = [
        other["pools"][name]["n_workers"] * other["pools"][name]["n_gpus_per_worker"] for name in ("prefill", "decode")
    ]
    price = alike["fleet"]["usd_per_hour"] / alike["fleet"]["n_gpus"]
    assert other["fleet"]["usd_per_hour"] == pytest.approx(workers[0] * 1.0 + workers[1] * price, rel=1e-6)
    per_request = sum(point(other[f"usd_per_mtok_{kind}"]) * n / 1e6 for kind, n in (("input", 2048), ("output", 128)))
    assert per_request == pytest.approx(other["usd_per_request"], rel=0.02)


def test_a_cache_that_moves_slowly_makes_requests_longer() -> None:
    """A stated rate is that of ``simulate serve``: twice the time to move takes twice as long beyond the rest."""
    whole_s = [
        promised(**STATED, ttft="p95:3s", tpot="p95:60ms", transfer_bytes_per_s=rate)["attained"]["e2e_s"]["p50"]
        for rate in (1e15, 2e9, 1e9)
    ]
    moved_s = 2048 * 131072 / 2e9  # 8B holds 128 KiB per token
    assert whole_s[1] - whole_s[0] == pytest.approx(moved_s, rel=0.1)
    assert whole_s[2] - whole_s[0] == pytest.approx(2 * moved_s, rel=0.1)


@pytest.mark.parametrize(
    ("model", "layout", "given"),
    [
        ("llama-3.1-70b", "tp4", {"transfer_bytes_per_s": 5e9}),
        ("deepseek-v3", "tp8-ep8", {}),  # a latent cache lies whole on every rank: no NIC carries a share of it
        ("qwen3-next-80b-a3b", "tp4", {}),  # a state is handed over once, not once per token
    ],
)
def test_first_tokens_of_both_fidelities_contain_the_hand_over(model: str, layout: str, given: dict[str, Any]) -> None:
    """Whoever decodes sends the first token: a lone request takes as long in closed form and simulated."""
    shape = {"model": model, "system": "h200-nvl8", "layout": layout, "prefill_layout": layout} | given
    shape |= {"input_tokens": 4096, "output_tokens": 64}
    closed = cl.serve(**shape, mode="disaggregated", requests_per_s=0.01)
    alone = cl.simulate_serve(**shape, prefill_replicas=1, replicas=1, arrivals="even:0.01", requests=20)
    assert alone.percentiles["ttft_s"]["p50"] == pytest.approx(closed.ttft_s.p50, rel=0.01)
    assert alone.percentiles["tpot_s"]["p50"] == pytest.approx(closed.tpot_s.p50, rel=0.01)


@pytest.mark.parametrize("given", [{"gpus": 8}, {"requests_per_s": 40.0, "prefill_system": "h200-nvl8"}])
def test_both_pools_are_taken_apart(given: dict[str, Any]) -> None:
    """Parts add up to both times and operations to their steps; a faster memory makes tokens faster."""
    asked = {**SHAPE, **given, "mode": "disaggregated", "samples": 16}
    answer = cl.serve(**asked)
    document = answer.to_dict(working=True)
    found = document["breakdown"]
    for name in ("tpot", "ttft"):
        assert sum(found[name].values()) == pytest.approx(document[f"{name}_s"]["p50"], rel=0.05)
    assert found["ttft"]["hand-over"] > 0 and found["ttft"]["queue"] >= 0
    for step in (found["decode"], found["prefill"]):
        whole_s = sum(one["time_s"] for one in step["operations"]) + sum(step["beside_s"].values())
        assert whole_s == pytest.approx(step["time_s"])
    moved = {one["name"]: one["elasticity"] for one in reversed(found["constants"])}
    assert moved["hbm_bytes_per_s"]["tpot_s"] < -0.3
    if "gpus" in given:  # a load that is given fills larger batches where steps are slower
        assert abs(moved["serving_ratio"].get("ttft_s", 0.0)) < 0.05, "a first token has a ratio of its own"
    assert {one["name"] for one in document["working"]} > {"ttft_s", "queue_s", "usd_per_mtok_input"}
    assert "hand-over" in repr(answer.view(working=True).working)


def test_prompts_are_simulated_on_chips_of_their_own() -> None:
    """The same system named twice changes nothing; another reads prompts at its own speed and price."""
    asked: dict[str, Any] = {
        **SHAPE,
        "layout": "tp1",
        "replicas": 2,
        "prefill_replicas": 2,
        "arrivals": "poisson:8",
        "requests": 400,
    }
    alike, same, faster = (
        cl.simulate_serve(**asked, **given).to_dict()
        for given in ({}, {"prefill_system": "h100-nvl8"}, {"prefill_system": "b200-nvl8", "prefill_price": 1.0})
    )
    assert same.pop("prefill")["system"] == "h100-nvl8"
    assert same == alike
    assert faster["percentiles"]["ttft_s"]["p50"] < alike["percentiles"]["ttft_s"]["p50"]
    price = alike["usd"] / alike["load"]["span_s"] / 4
    hours_usd = faster["usd"] / faster["load"]["span_s"]
    assert hours_usd == pytest.approx(2 * price + 2 * 1.0 / 3600, rel=1e-6)
    with pytest.raises(InputError, match="prefill_system needs prefill_replicas"):
        cl.simulate_serve(**(asked | {"prefill_replicas": None, "prefill_system": "b200-nvl8"}))


def test_plain_limits_of_both_take_the_fewer_gpus() -> None:
    """``--mode both`` answers with the mode of fewer GPUs and says by how many."""
    asked = {**SHAPE, "requests_per_s": 160.0, "ttft": 0.5, "tpot": 0.015}
    both, *alone = (cl.serve(**asked, mode=mode) for mode in ("both", "aggregated", "disaggregated"))  # type: ignore[arg-type]
    sizes = [one.n_gpus for one in alone]
    modes = both.to_dict()["modes"]
    assert both.n_gpus == min(sizes)
    assert [modes[mode]["gpus"] for mode in ("aggregated", "disaggregated")] == sizes
    assert ("do not pay" in modes["why"]) == (sizes[1] >= sizes[0])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"transfer_bytes_per_s": 1e9}, "transfer-bytes-per-s is of two pools"),
        ({"prefill_system": "h200-nvl8"}, "add --requests-per-s"),
        ({"prefill_system": "h200-nvl8", "requests_per_s": 5, "mode": "both"}, "--mode disaggregated"),
        ({"prefill_price": 2.0, "requests_per_s": 5}, "--prefill-system"),
        ({"mode": "both"}, "add --requests-per-s"),
        ({"mode": "both", "requests_per_s": 5, "layout": "tp1"}, "--layout is of one pool"),
        ({"mode": "aggregated", "requests_per_s": 5, "ttft": "p95:2s", "prefill_layout": "tp1"}, "prefill-layout"),
        ({"mode": "two"}, "aggregated"),
    ],
)
def test_ways_that_contradict_one_another_are_refused(given: dict[str, Any], said: str) -> None:
    """One line that names what to leave out."""
    with pytest.raises(InputError, match=said):
        ServeQuestion(model="llama-3.1-8b", system="h100-nvl8", **given)


def test_a_benchmark_of_two_pools_sends_the_rate_asked_about() -> None:
    """Not a number of requests in flight, which would send as much as the fleet takes."""
    sent = promised(**STATED, emit="vllm-bench")["launch"]["text"]
    assert "--request-rate 40" in sent
    assert "--max-concurrency" not in sent


def test_bursts_need_more_workers_than_even_requests_and_are_not_refused() -> None:
    """Workers that stand idle between bursts keep what twice as many as the mean load needs do not."""
    one = Pool(1, constant_step_times(1, 0.05, 0.2), Limits(1, 1000, 0, 0, 512))
    fleet = ServingClock((one, one), (1, 1))
    needed = []
    for spread in (0.0, 1.0, 8.0):
        load = DrawnLoad(Arrivals("gamma", 2.0, spread), ("100", "2"))
        asked = PromisedLoad(load, {"ttft_s": Promise(0.9, 0.8)})
        unit = Unit(fleet, capacities(fleet, load))
        assert alone(unit, asked).keeps(asked.promises)
        found = fewest_workers(unit, asked, (1, 1), (1, 1), 10_000)
        assert found is not None and found.keeps(asked.promises)
        needed.append(sum(found.counts))
    assert needed == sorted(needed) and needed[-1] > 4 * needed[0], needed


def test_a_looser_share_takes_no_more_gpus() -> None:
    """A run near saturation looks well while it is short: which pool lacks a worker shows in a longer one."""
    asked: dict[str, Any] = {"model": "Qwen3-32B", "system": "mi300x-8", "requests_per_s": 40, "input_tokens": 2000,
             "output_tokens": 300, "tpot": "25ms"}  # fmt: skip
    half, most = (cl.serve(**asked, ttft=f"p{share}:1s").to_dict()["fleet"]["n_gpus"] for share in (50, 95))
    assert half <= most
