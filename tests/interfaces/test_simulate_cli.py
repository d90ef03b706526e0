"""The commands simulate serve and simulate rl: their contract, their files, and one line for bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.interfaces.cli import main
from computeledger.questions.executors import open_executor
from computeledger.simulation.compiled import can_compile, compiled
from computeledger.simulation.measures import Slo
from computeledger.simulation.rl.clock import simulate_rl
from computeledger.simulation.rl.loop import rl_loop
from computeledger.simulation.serving.clock import simulate_serving
from computeledger.simulation.serving.loop import serve_loop
from computeledger.simulation.serving.search import sweep_loads
from computeledger.stores.records import record_bytes
from tests.gates import ROOT
from tests.simulation import test_limits, test_reference, test_rl
from tests.simulation.reference import draw

SERVE = ["simulate", "serve", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--layout", "tp1"]
TIMES = ("ttft_s", "tpot_s", "itl_s", "end_to_end_s")


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--json"])
    assert stop.value.code == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def check_contract(document: dict[str, Any]) -> None:
    assert {"throughput", "goodput_requests_per_s", "saturated", "utilization_fraction"} <= set(document)
    for name in TIMES:
        points = document["percentiles"][name]
        assert 0 <= points["p50"] <= points["p90"] <= points["p99"]
    assert sum(part["fraction"] for part in document["phases"].values()) == pytest.approx(1.0)
    assert isinstance(document["saturated"], bool)
    assert 0 < document["utilization_fraction"] < 1


def test_serve_answers_its_contract(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    records, page = tmp_path / "r.csv", tmp_path / "r.html"
    document = answer(
        capsys, *SERVE, "--replicas", "2", "--arrivals", "poisson:4", "--requests", "200", "--ttft", "1s",
        "--tpot", "50ms", "--find-load", "--records", str(records), "--html", str(page),
    )  # fmt: skip
    check_contract(document)
    assert document["most_load"]["requests_per_s"] > 4
    assert len(records.read_text().splitlines()) == 1 + document["load"]["requests"] > 200
    assert document["most_load"]["requests_per_s"] < document["capacity"]["p50"]
    assert "https://" not in page.read_text().split("<script>")[0]
    assert "Goodput against load" in page.read_text()


def test_python_and_the_command_answer_alike(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = cl.simulate_serve(
        model="llama-3.1-8b", system="h100-nvl8", layout="tp1", arrivals="poisson:4", requests=50, input_tokens=512
    )
    asked = ["--arrivals", "poisson:4", "--requests", "50", "--input-tokens", "512"]
    assert found.to_dict() == answer(capsys, *SERVE, *asked)
    assert len(found.records()["arrival_s"]) == found.to_dict()["load"]["requests"]
    busy = replace(found, is_saturated=True)
    assert "Overloaded" in str(busy._repr_html_()) and "Overloaded" not in str(found._repr_html_())
    with pytest.raises(InputError, match=r"^give workload FILE"):
        cl.simulate_serve(model="llama-3.1-8b", system="h100-nvl8")
    plan = ROOT / "examples" / "rl-async.toml"
    run = cl.simulate_rl(plan, steps=2, lags=[1])
    assert run.to_dict() == answer(capsys, "simulate", "rl", str(plan), "--steps", "2", "--lags", "1")
    assert cl.simulate_rl(cl.load_plan(plan), steps=2).step_s == run.step_s
    assert cl.simulate_rl(run.question, steps=3).result.scenario.n_steps == 3
    copy = tmp_path / "plan.toml"
    copy.write_text(plan.read_text())
    with pytest.raises(InputError, match="is a file that was read"):
        cl.simulate_rl(copy, steps=1).to_html(copy)


@pytest.mark.parametrize("prompt", ["1024", "16384"])
@pytest.mark.parametrize("chunk", [(), ("--chunk-tokens", "512"), ("--chunk-tokens", "32768")])
def test_a_lone_request_takes_what_serve_says(
    capsys: pytest.CaptureFixture[str], prompt: str, chunk: tuple[str, ...]
) -> None:
    """Without a queue, both answers are one, however large the chunk is that a prompt might have filled."""
    asked = ("--input-tokens", prompt, "--output-tokens", "257", *chunk)
    clock = answer(capsys, *SERVE, "--arrivals", "even:0.01", "--requests", "3", *asked)
    static = answer(
        capsys, "serve", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--layout", "tp1", "--batch", "1", *asked
    )
    assert clock["percentiles"]["tpot_s"]["p50"] == pytest.approx(static["tpot_s"]["p50"], rel=1e-3)
    assert clock["percentiles"]["ttft_s"]["p50"] == pytest.approx(static["ttft_s"]["p50"], rel=0.01)


@pytest.mark.parametrize("backend", ["vllm", "sglang", "generic"])
def test_a_replica_holds_what_serve_and_memory_say(backend: str) -> None:
    """Shares of memory are the engine's in every answer: 80 sequences in one and 57 in another were of two rules."""
    asked = {"model": "gpt-oss-120b", "system": "1xh100-sxm5-80gb", "layout": "tp1", "backend": backend}
    lengths = {"input_tokens": 4096, "output_tokens": 1024}
    held = cl.serve(**asked, **lengths, batch=1).result.memory.largest_batch
    fleet = cl.simulate_serve(**asked, **lengths, arrivals="poisson:0.2", requests=20).fleet
    assert fleet.timed[0].pool.limits.live == held
    kept = fleet.timed[0].pool.limits
    assert held * 5120 <= kept.kv_tokens - held * kept.state_tokens <= (held + 1) * 5120 * 1.01
    if backend == "vllm":
        (fit, *_) = cl.memory(model="gpt-oss-120b", system="1xh100-sxm5-80gb", context_tokens=5120).fits
        assert fit.largest_batch == held


def test_too_much_load_has_no_percentiles_of_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A queue that never stops growing makes any time to first token: none is that of the load."""
    asked: dict[str, Any] = {
        "model": "llama-3.1-8b",
        "system": "1xh100-sxm5-80gb",
        "layout": "tp1",
        "requests": 100,
        "ttft": "2s",
    }
    much = cl.simulate_serve(**asked, arrivals="poisson:20", input_tokens=2000, output_tokens=500)
    said, carried = much.to_dict(), much.capacity.value
    assert set(said["percentiles"]["ttft_s"].values()) == set(said["percentiles"]["end_to_end_s"].values()) == {None}
    assert said["percentiles"]["tpot_s"]["p50"] > 0 and said["distribution"]["ttft_s"] == []
    assert said["good_fraction"] == said["goodput_requests_per_s"] == 0
    assert said["overload"]["queue_grows_requests_per_s"] == pytest.approx(20 - carried)
    enough = said["overload"]["replicas_that_carry_it"]
    assert (enough - 1) * carried <= 20 < enough * carried
    found = cl.simulate_serve(much.question, replicas=enough)
    assert not found.is_saturated and found.to_dict()["overload"] is None and found.percentiles["ttft_s"]["p99"] < 10
    with pytest.raises(SystemExit):
        main([*SERVE[:2], "--model", "llama-3.1-8b", "--system", "1xh100-sxm5-80gb", "--arrivals", "poisson:40",
              "--requests", "50"])  # fmt: skip
    printed = " ".join(capsys.readouterr().out.split())
    assert "Overloaded: the queue grows by" in printed and "no end" in printed and "mrequests" not in printed


def test_rl_answers_its_contract(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plan, page = ROOT / "examples" / "small-team-rl.toml", tmp_path / "r.html"
    document = answer(capsys, "simulate", "rl", str(plan), "--steps", "3", "--html", str(page))
    check_contract(document)
    assert document["staleness_steps"]["max"] == 0
    assert document["step_s"] > 0
    assert len(document["steps"]["trained_s"]) == 3
    assert "Staleness" in page.read_text()


SMALL = ["--arrivals", "poisson:4", "--requests", "20"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --workload FILE"),
        ([*SMALL, "--trace", "x.csv"], "no such file"),
        (["--trace", "nowhere.csv"], "no such file"),
        ([*SMALL, "--input-tokens", "200000"], "exceed the context"),
        ([*SMALL, "--input-tokens", "lognormal:200000:300000"], "exceed the context"),
        ([*SMALL, "--input-tokens", "-5"], "must not be negative"),
        ([*SMALL, "--good-fraction", "1.5"], "--good-fraction"),
        ([*SMALL, "--goodput", "95%"], "--goodput: nothing changes without a limit"),
        (
            [*SMALL, "--target-requests", "5", "--tick", "5s"],
            "--target-requests, --tick: nothing changes without --auto",
        ),
        ([*SMALL, "--repair", "5min"], "--repair: nothing changes without --failures"),
        (
            [*SMALL, "--find-load", "--goodput", "95%", "--ttft", "1ms"],
            "0.95 of requests are to be good, and 0 of lone",
        ),
        ([*SMALL, "--sweep", "1"], "at least 2"),
        ([*SMALL, "--replicas", "0"], "at least 1"),
        ([*SMALL, "--max-batch", "0"], "at least 1"),
        ([*SMALL, "--routing", "prefixes"], "did you mean 'prefix'"),
        ([*SMALL, "--seed", "-1"], "must not be negative"),
        ([*SMALL, "--records", "out.xlsx"], "ending says the format"),
        ([*SMALL, "--autoscale", "3", "--replicas", "2"], "1..2"),
        ([*SMALL, "--pace", "0"], "greater than 0"),
        ([*SMALL, "--load-curve", "9:1,3:2"], "hours must rise"),
        ([*SMALL, "--workers", "2", "--cluster", "tcp://x:1"], "contradict"),
    ],
)
def test_bad_input_gets_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*SERVE, *arguments])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_loads_of_a_scaled_fleet_are_named_apart(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*SERVE, *SMALL, "--find-load", "--autoscale", "1", "--replicas", "2"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert "Largest stable load, all replicas up" in printed and "Largest load of this run" in printed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("max_lag = -1", "must not be negative"),
        ("verifier_cores = 0", "must be at least 1"),
        ('rollout_limit = "400K tokens"', "exceed the context"),
        ('partial_rollouts = "maybe"', "'yes' or 'no'"),
        ('mode = "synchronous"\nmax_lag = 2', "contradict"),
        ("generation_gpus = 64", "of 8 GPUs some must generate, and some train"),
        ("remote_gpus = 4", "needs remote_bandwidth"),
    ],
)
def test_a_bad_plan_gets_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, message: str) -> None:
    text = (ROOT / "examples" / "small-team-rl.toml").read_text()
    drop = {part.split(" = ")[0] for part in line.splitlines()}
    kept = [row for row in text.splitlines() if row.split(" = ")[0] not in drop]
    at = kept.index("[rl]") + 1
    plan = tmp_path / "plan.toml"
    plan.write_text("\n".join([*kept[:at], *line.splitlines(), *kept[at:]]))
    with pytest.raises(SystemExit) as stop:
        main(["simulate", "rl", str(plan), "--steps", "2"])
    error = capsys.readouterr().err
    assert stop.value.code == 2, error
    assert message in error
    assert error.count("\n") == 1


def test_records_in_three_formats(tmp_path: Path) -> None:
    columns = {"a": np.arange(3), "b": np.array([1.5, np.nan, 3.0])}
    assert record_bytes("x.csv", columns).decode().splitlines() == ["a,b", "0,1.5", "1,", "2,3.0"]
    (tmp_path / "x.npz").write_bytes(record_bytes("x.npz", columns))
    assert np.load(tmp_path / "x.npz")["a"].tolist() == [0, 1, 2]
    arrow = pytest.importorskip("pyarrow.parquet", reason="no Parquet reader here")
    (tmp_path / "x.parquet").write_bytes(record_bytes("x.parquet", columns))
    assert arrow.read_table(tmp_path / "x.parquet").to_pydict()["a"] == [0, 1, 2]


def test_the_same_answer_here_and_in_processes() -> None:
    fleet, load = test_limits.fleet(1, 4), test_limits.load(60)
    here = sweep_loads(fleet, load, Slo(1.0), (0.5, 1.0))
    with open_executor(2, None) as pool:
        assert sweep_loads(fleet, load, Slo(1.0), (0.5, 1.0), pool) == here


def test_a_cluster_that_is_not_there_is_said() -> None:
    with pytest.raises(InputError, match="--cluster"), open_executor(1, "tcp://127.0.0.1:1"):
        pass


@pytest.mark.stress
@pytest.mark.skipif(not can_compile(), reason="numba is not installed")
def test_machine_code_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table of the state, bit by bit."""
    plain = [simulate_serving(*test_reference.as_scenario(draw(seed))).world for seed in range(60)]
    runs = [test_rl.run(test_rl.scenario(**changes)) for changes in test_rl.VARIANTS]
    monkeypatch.setattr("computeledger.simulation.compiled.COMPILE_EVENTS", 0)
    for seed, world in enumerate(plain):
        same = simulate_serving(*test_reference.as_scenario(draw(seed))).world
        assert np.array_equal(same.when, world.when, equal_nan=True)
        assert np.array_equal(same.gaps, world.gaps)
    for changes, before in zip(test_rl.VARIANTS, runs, strict=True):
        after = simulate_rl(test_rl.scenario(**changes), before.rollouts)
        assert np.array_equal(after.run.steps, before.run.steps, equal_nan=True)
    assert compiled(serve_loop) is not serve_loop
    assert compiled(rl_loop) is not rl_loop
