"""A load with a promise in percentiles: the fewest GPUs that keep it, by simulation."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import computeledger as cl
from computeledger.errors import InputError
from computeledger.fields import Promise, fields_of, read_value
from computeledger.interfaces.cli import cli
from computeledger.interfaces.views.promise import promise_tables
from computeledger.questions.wording import percent
from computeledger.workloads.questions.serve import ServeQuestion

SHAPE = {"model": "llama-3.1-8b", "system": "h100-nvl8", "input_tokens": 512, "output_tokens": 64}


@functools.cache
def promised(**given: Any) -> dict[str, Any]:
    """The document of a promise on one small model; every answer is made once."""
    asked = SHAPE | {"requests_per_s": 60.0, "ttft": "p95:0.5s", "tpot": "p95:25ms", "layout": "tp1"} | given
    return cl.serve(**asked).to_dict()  # type: ignore[arg-type]


def test_the_command_answers_what_a_buyer_asks() -> None:
    """One JSON document with the fleet, what it attains, and what it costs; parts agree with one another."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SHAPE.items()]
    asked = ["--requests-per-s", "60", "--ttft", "p95:0.5s", "--tpot", "p95:25ms", "--e2e", "p99:3s", "--layout", "tp1"]
    ran = CliRunner().invoke(cli, ["serve", *options, *asked, "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert found["gpus"] == found["replicas"] == found["n_replicas"]
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        shares = [found["attained"][name][key] for key in ("p50", "p90", "p95", "p99")]
        assert shares == sorted(shares)
        assert shares[0] > 0
    assert found["attained"]["ttft_s"]["p95"] <= 0.5
    assert found["attained"]["tpot_s"]["p95"] <= 0.025
    assert found["attained"]["e2e_s"]["p99"] <= 3.0
    assert 0.9 * 60 < found["goodput_requests_per_s"] <= 60
    assert found["usd_per_request"] == pytest.approx(found["fleet"]["usd_per_request"])
    kept = found["promise"]
    assert [one["quantity"] for one in kept["limits"]] == ["ttft_s", "tpot_s", "e2e_s"]
    assert all(one["attained_p05_s"] <= one["attained_s"] for one in kept["limits"])
    assert 0 < kept["kept_probability"] < 1
    assert kept["replicas_at_90_percent"] >= found["replicas"]


def test_the_fleet_is_the_one_that_the_simulation_simulates() -> None:
    """``simulate serve`` of the same fleet attains the same; one replica fewer breaks the promise."""
    found = promised()
    same = {**SHAPE, "layout": "tp1", "arrivals": "poisson:60", "max_batch": found["promise"]["max_batch"]}
    again = cl.simulate_serve(**same, replicas=found["replicas"])
    for name, key in (("ttft_s", "ttft_s"), ("tpot_s", "tpot_s"), ("end_to_end_s", "e2e_s")):
        assert again.percentiles[name]["p50"] == pytest.approx(found["attained"][key]["p50"], rel=0.03)
        assert again.percentiles[name]["p95"] == pytest.approx(found["attained"][key]["p95"], rel=0.08)
    fewer = cl.simulate_serve(**same, replicas=found["replicas"] - 1)
    assert fewer.is_saturated or fewer.percentiles["ttft_s"]["p95"] > 0.5 or fewer.percentiles["tpot_s"]["p95"] > 0.025


@pytest.mark.parametrize(
    "harder",
    [{"requests_per_s": 120.0, "tpot": "p95:12ms"}, {"ttft": "p99:0.4s", "arrival_spread": 3.0}],
)
def test_a_harder_promise_takes_no_fewer_gpus(harder: dict[str, Any]) -> None:
    """More load, shorter limits, higher percentiles and burstier arrivals."""
    assert promised(**harder)["gpus"] >= promised()["gpus"]


def test_a_quiet_fleet_attains_what_the_closed_form_says_of_a_lone_request() -> None:
    """With a cached prefix and without, half of the requests of a fleet without queues take what ``serve`` says."""
    for cached in (0, 8000):
        asked = {**SHAPE, "layout": "tp1", "cached_tokens": cached}
        found = cl.serve(**asked, requests_per_s=0.2, ttft="p95:20s", tpot="p95:200ms").to_dict()  # type: ignore[arg-type]
        alone = cl.serve(**asked, batch=1).to_dict()  # type: ignore[arg-type]
        assert found["replicas"] == 1
        for name in ("tpot_s", "ttft_s"):
            assert found["attained"][name]["p50"] == pytest.approx(alone[name]["p50"], rel=0.02)


def test_the_curve_rises_to_where_the_promise_breaks() -> None:
    """Attained percentiles grow with the load, and the headroom lies between a load that keeps and one that breaks."""
    found = promised()["promise"]
    rates = [one["requests_per_s"] for one in found["curve"]]
    assert rates == sorted(rates)
    kept = [one["requests_per_s"] for one in found["curve"] if one["keeps"]]
    broken = [one["requests_per_s"] for one in found["curve"] if not one["keeps"]]
    assert max(kept) < min(broken)
    if found["headroom_fraction"] is not None:
        assert max(kept) <= 60 * (1 + found["headroom_fraction"]) <= min(broken)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ttft": "p95:2s"}, "add --requests-per-s"),
        ({"ttft": "p95:2s", "requests_per_s": 5, "batch": 8}, "^--batch 8.*leave out --batch"),
        ({"ttft": "p95:2s", "requests_per_s": 5, "tpot": "p95:40ms", "output_tokens": 1}, "leave out --tpot"),
        ({"ttft": "p95:2s,p99:4s", "requests_per_s": 5}, "one percentile for each limit"),
        (
            {"ttft": "p95:2s", "requests_per_s": 5, "mode": "aggregated", "prefill_system": "b200-nvl8"},
            "^--mode aggregated: --prefill-system is of two pools",
        ),
        ({"ttft": "p95:2s", "requests_per_s": 5, "rounds": 2}, "--rounds"),
        ({"e2e": "30s", "requests_per_s": 5}, "p99:30s"),
        ({"arrival_spread": 2.0, "requests_per_s": 5}, "--arrival-spread"),
        ({"ttft": "p30:2s", "requests_per_s": 5}, "p50 to p99.9"),
        ({"ttft": "p95:", "requests_per_s": 5}, "p95:"),
        ({"ttft": "95:2s", "requests_per_s": 5}, "such as p95:1s"),
        ({"ttft": "p95:1s..2s", "requests_per_s": 5}, "not a range"),
        ({"ttft": Promise(0.2, 2.0), "requests_per_s": 5}, "p50 to p99.9"),
        ({"goodput": "95%", "requests_per_s": 5}, "within which limits"),
        ({"goodput": "95%", "ttft": "2s"}, "add --requests-per-s"),
        ({"goodput": "100%", "ttft": "2s", "requests_per_s": 5}, "at most 0.999"),
    ],
)
def test_a_promise_that_says_nothing_is_refused(given: dict[str, Any], said: str) -> None:
    """One line that names what is missing or allowed."""
    with pytest.raises(InputError, match=said):
        ServeQuestion(model="llama-3.1-8b", system="h100-nvl8", **given)


@pytest.mark.parametrize(
    "text", ["p95:1s", "P95:1s", "p95 1s", "95% 1s", "95 %: 1s", "p95<1s", "95%<1000ms", "p95 ≤ 1s", "p95%: 1 s"]
)
def test_a_percentile_is_read_as_people_write_it(text: str) -> None:
    read = ServeQuestion(model="llama-3.1-8b", system="h100-nvl8", requests_per_s=5, ttft=text, e2e=text)  # type: ignore[arg-type]
    assert read.ttft == read.e2e == Promise(0.95, 1.0)


@pytest.mark.parametrize(
    "text", ["p95", "95%", "95x 1s", "1s p95", "95:1s", "p95:", "p95:x", "soon", "p20 1s", "120% 1s"]
)
def test_a_percentile_that_cannot_be_read_names_the_way(text: str) -> None:
    with pytest.raises(InputError, match="p95:1s"):
        ServeQuestion(model="llama-3.1-8b", system="h100-nvl8", requests_per_s=5, ttft=text)  # type: ignore[arg-type]


def test_among_layouts_of_as_many_gpus_the_surest_is_chosen() -> None:
    """Every layout that keeps the promise has a chance of its own, and the answer's is that of the first."""
    kept = promised(requests_per_s=250.0, layout=None, mode="aggregated")["promise"]
    rows = [(one["gpus"], -one["kept_probability"]) for one in kept["finalists"] if one["kept_probability"]]
    assert len(rows) > 1
    assert rows == sorted(rows)
    assert kept["kept_probability"] == -rows[0][1]
    sure = kept["at_90_percent"]
    assert sure["gpus"] >= rows[0][0]
    for one in sure["limits"]:
        assert one["attained_s"] < one["attained_p90_s"] <= one["limit_s"], "kept at the slow times of one case in ten"
        assert sure["attained"][one["quantity"]]["p95"] == pytest.approx(one["attained_s"], rel=0.01)


def test_a_chance_that_no_number_of_replicas_gives_is_said_in_one_line() -> None:
    """Replicas shorten queues: where slow times alone break a limit, the answer says which, not a fleet that idles."""
    asked: dict[str, Any] = {**SHAPE, "layout": "tp1", "requests_per_s": 20.0, "ttft": "p95:2s", "tpot": "p95:9ms"}
    answer = cl.serve(**asked)
    kept = answer.to_dict()["promise"]
    left = kept["out_of_reach_at_90_percent"]
    assert kept["at_90_percent"] is None and left["quantity"] == "tpot_s"
    assert left["attained_s"] > left["limit_s"] == pytest.approx(0.009)
    assert "More replicas do not make it 90 %" in answer.view().context
    assert promised()["promise"]["out_of_reach_at_90_percent"] is None


def test_a_surer_fleet_may_have_another_layout_and_a_tighter_limit_takes_no_fewer_gpus() -> None:
    """On H200 the layout of the fewest GPUs is too slow in a third of the cases at any number; a wider one is not."""
    asked: dict[str, Any] = {"model": "qwen3-32b", "system": "h200-nvl8", "input_tokens": 2000, "output_tokens": 300,
                             "requests_per_s": 20, "ttft": "p95:1s", "mode": "aggregated"}  # fmt: skip
    loose, tight = (
        cl.serve(**asked, tpot=limit).to_dict()["promise"]["at_90_percent"] for limit in ("30ms", "p95:30ms")
    )
    assert loose["layout"] != "tp2" and loose["gpus"] <= tight["gpus"]


def test_without_a_prefix_cache_prompts_are_read_whole() -> None:
    """A cached prefix costs its reading; turned off, the same prompt takes more GPUs."""
    held, read = (promised(cached_tokens=8000, ttft="p95:3s", no_prefix_cache=off) for off in (False, True))
    assert read["gpus"] > held["gpus"]
    assert read["cached_tokens"] == 0


def test_the_gpus_that_an_answer_names_are_enough_to_ask_for() -> None:
    """At hand they give the same fleet; the physical limit has no interval, so its promise has no chance."""
    found = promised(layout=None)
    again = promised(layout=None, gpus=found["gpus"])
    assert (again["layout"], again["replicas"]) == (found["layout"], found["replicas"])
    ideal = promised(backend="ideal")
    assert ideal["promise"]["kept_probability"] is None
    assert ideal["gpus"] <= promised()["gpus"]


def test_what_no_layout_keeps_names_the_limit_that_would_be_kept() -> None:
    """A limit below the fastest step, and one that is kept; GPUs at hand that are too few."""
    with pytest.raises(InputError, match=r"tpot p95:1ms: no layout keeps it .* alone on tp1 p95 gets ") as told:
        promised(tpot="p95:1ms")
    would = re.search(r"; tpot (p95:\S+) would be kept", str(told.value))
    assert would is not None
    assert promised(tpot=would[1])["gpus"] > promised()["gpus"]
    with pytest.raises(InputError, match=r"gpus 1: that promise needs \d+ GPUs"):
        promised(gpus=1)


def test_one_output_token_has_no_time_per_token() -> None:
    """The document is JSON, and what no request has is null."""
    found = promised(output_tokens=1, tpot=None)
    json.dumps(found, allow_nan=False, default=float)
    assert set(found["attained"]["tpot_s"].values()) == {None}
    assert [one["quantity"] for one in found["promise"]["limits"]] == ["ttft_s"]
    assert found["attained"]["ttft_s"] == found["attained"]["e2e_s"]


@pytest.mark.parametrize("n", [1, 20])
def test_a_trace_of_few_requests_is_remarked(n: int, tmp_path: Path) -> None:
    """A percentile is that of ten requests beyond it at least."""
    trace = tmp_path / "trace.csv"
    rows = [f"2024-05-10 00:00:{at:02d}.000000,512,64" for at in range(n)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]), encoding="utf-8")
    asked = {name: SHAPE[name] for name in ("model", "system")} | {"workload": str(trace), "requests_per_s": 4}
    found = cl.serve(**asked, layout="tp1", ttft="p50:2s").to_dict()  # type: ignore[arg-type]
    assert any("p50 needs 20" in one for one in found["remarks"]) == (n < 20)


def test_a_goodput_is_the_share_within_all_limits() -> None:
    """Sized so that enough requests keep all limits at once: each limit alone is kept at least as often."""
    found = promised(goodput=0.95, ttft="0.5s", tpot="25ms", e2e="2.5s")
    good = found["promise"]["goodput"]
    assert good["attained_fraction"] >= good["share_fraction"] == 0.95
    assert good["attained_p05_fraction"] <= good["attained_fraction"] <= good["attained_p95_fraction"]
    (table,) = (one for one in promise_tables(found) if one.title == "The promise, and what is attained")
    fast, slow = (percent(good[f"attained_{key}_fraction"]) for key in ("p95", "p05"))
    assert list(table.rows[0][-2:]) == [fast, slow]  # each column is one simulation: fast times make a large share
    assert found["goodput_requests_per_s"] == pytest.approx(60 * good["attained_fraction"])
    kept = [one for one in found["promise"]["curve"] if one["keeps"]]
    assert all(one["good_fraction"] >= 0.95 for one in kept)
    apart = promised(ttft="p95:0.5s", tpot="p95:25ms", e2e="p95:2.5s")
    assert found["gpus"] >= apart["gpus"]
    assert promised(goodput=0.99, ttft="0.5s", tpot="25ms", e2e="2.5s")["gpus"] >= found["gpus"]


def test_a_goodput_of_one_limit_is_that_percentile() -> None:
    """With one limit, the share within all limits and the percentile are the same promise."""
    first = promised(goodput=0.95, ttft="0.4s", tpot="0.5s")
    second = promised(ttft="p95:0.4s", tpot="p95:0.5s")
    assert first["gpus"] == second["gpus"]
    assert first["attained"] == second["attained"]


def test_simulated_and_promised_goodput_agree() -> None:
    """``simulate serve`` of the fleet counts as many requests within the same limits."""
    found = promised(goodput=0.95, ttft="0.5s", tpot="25ms", e2e="2.5s")
    again = cl.simulate_serve(
        **SHAPE, layout="tp1", arrivals="poisson:60", max_batch=found["promise"]["max_batch"],  # type: ignore[arg-type]
        replicas=found["replicas"], ttft="0.5s", tpot="25ms", e2e="2.5s", goodput="95%",
    ).to_dict()  # fmt: skip
    assert again["good_fraction"] == pytest.approx(found["promise"]["goodput"]["attained_fraction"], abs=0.02)


@pytest.mark.parametrize(
    ("speed", "time"),
    [("25tokens/s", "40ms"), ("20..40 tok/s", "25..50ms"), ("p95:25tokens/s", "p95:40ms")],
)
def test_a_speed_for_each_user_is_a_time_per_token(speed: str, time: str) -> None:
    read = fields_of(ServeQuestion)["tpot"]
    assert read_value(read, speed, "--tpot") == read_value(read, time, "--tpot")


@pytest.mark.parametrize("speed", ["0tokens/s", "-25tokens/s", "25tokens/min/s"])
def test_a_speed_that_is_none_is_refused(speed: str) -> None:
    with pytest.raises(InputError, match="--tpot"):
        read_value(fields_of(ServeQuestion)["tpot"], speed, "--tpot")
