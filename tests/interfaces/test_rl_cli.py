"""The command rl: its contract, its other questions, and one line for bad input."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import computeledger as cl
from computeledger.interfaces.cli import cli, main
from computeledger.interfaces.view import Cell
from computeledger.questions.wording import figure_words
from computeledger.workloads.rl.returns import reward_sigmoid

RUN = ["rl", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--gpus", "16", "--rollout", "1000", "--samples", "64"]


def ask(*arguments: str) -> dict:
    result = CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    document: dict = json.loads(result.stdout)
    return document


def point(value: float | dict) -> float:
    return value["p50"] if isinstance(value, dict) else value


def test_contract() -> None:
    document = ask(*RUN, "--verifier-time", "1..3s", "--verifier-cores", "64", "--pretraining-flop", "1e24")
    assert list(document)[5:12] == [
        "step_s", "phases", "beta_flop", "beta_gpu_time", "utilization_fraction", "fits", "split",
    ]  # fmt: skip
    assert document["bound"] in {"compute", "memory", "network", "overhead", "cpu"}
    assert document["fits"] is True
    for part in document["phases"].values():
        assert set(part) == {"gpu_hours", "fraction"}
    assert sum(point(part["fraction"]) for part in document["phases"].values()) == pytest.approx(1, abs=0.02)
    assert document["step_s"]["p05"] < document["step_s"]["p95"]
    parts = document["beta"]["flop_by_phase"]
    assert sum(point(part) for part in parts.values()) == pytest.approx(point(document["beta_flop"]))
    assert point(document["equal_gpu_time"]["rl_flop"]) < 1e24


@pytest.mark.parametrize("split", [{}, {"training_gpus": 4, "max_lag": 1}], ids=["in turns", "apart"])
def test_one_timeline_draws_what_the_document_says(split: dict) -> None:
    """Every span of every side once, one after the other; GPU-hours once; one table of phases."""
    answer = cl.rl(model="llama-3.1-8b", system="h100-nvl8", gpus=16, rollout_tokens=1000, samples=64, **split)
    document, view = answer.to_dict(), answer.view()
    assert [plot.name for plot in view.plots] == ["timeline", "utilization"]
    drawn = view.plots[0].figure["data"]
    called = {"once per step": "start and end of a step"}
    spans = [  # what takes under a thousandth of the GPU-time is not drawn
        (called.get(name, name), value) for lane in document["timeline_s"].values() for name, value in lane.items()
        if name in document["phases"] and point(document["phases"][name]["fraction"]) >= 1e-3
    ]  # fmt: skip
    assert [trace["name"] for trace in drawn] == [name for name, _ in spans]
    assert [trace["x"][0] for trace in drawn] == pytest.approx([point(length) for _, length in spans], rel=1e-3)
    for one, after in pairwise(drawn):
        assert after["base"][0] in (0.0, pytest.approx(one["base"][0] + one["x"][0], rel=2e-3))
    assert all(bool(trace["marker"]["pattern"]["shape"]) is ("waiting" in trace["name"]) for trace in drawn)
    used = [point(part) for part in document["phase_utilization_fraction"].values()]
    used.append(document["assumptions"]["pretraining_mfu"])  # what a sampled token is compared with
    assert view.plots[1].figure["data"][0]["x"] == pytest.approx(sorted(used, reverse=True), rel=1e-3)
    (table,) = [one for one in view.tables if "phase" in one.columns and "in a step #" in one.columns]
    shown = {row[0]: row[1].text for row in table.rows if isinstance(row[1], Cell)}
    assert len(spans) > 4
    assert {name: shown[name] for name, _ in spans} == {name: figure_words(value, "s") for name, value in spans}
    assert all("waiting" in name for name in shown.keys() - dict(spans).keys()), "only waits are too short to be drawn"
    assert "log shows generation" in table.note or split  # what it holds beside the phase


def test_a_text_that_rewards() -> None:
    options = ["--prompt", "500", "--gold", "32", "--train-on-gold", "--next-token", "100K", "--logprob-passes", "0"]
    document = ask(*RUN, *options, "--flop", "1e24", "--working")
    assert {"thought scoring", "baseline"} <= set(document["phases"])
    parts = {name: point(part) for name, part in document["beta"]["flop_by_phase"].items()}
    sampled = 128 * 16 * 1000
    assert parts["thought scoring"] == pytest.approx(2 * 128 * (500 + 16 * 1032) / sampled)
    assert parts["update"] == pytest.approx(6 * (128 * 16 * 1532 + 1e5) / sampled)
    assert sum(parts.values()) == pytest.approx(point(document["beta_flop"]))
    demand = document["demand"]
    places = point(demand["tokens"]) / 16_000
    assert point(demand["places"]) == pytest.approx(places)
    assert point(demand["text_tokens"]) == pytest.approx(532 * places)
    whole = ask(*RUN, *options, "--flop", "1e24", "--text-per-place", "1024")["demand"]
    assert point(whole["text_tokens"]) == pytest.approx(1024 * places)
    assert point(whole["gpu_hours"]) == pytest.approx(
        point(document["gpu_hours"]) / point(document["flop"]) * 1e24, rel=1e-6
    )
    assert whole["passes_over_the_stock"]["p05"] < 1024 * places / 3e14 < whole["passes_over_the_stock"]["p95"]


def test_search_scale_up_levers_and_working() -> None:
    document = ask(*RUN, "--max-lag", "4", "--in-flight", "--search", "--levers", "--scale-up", "--working")
    costs = [one["gpu_s_per_kept_token"] for one in document["split_options"]]
    assert costs == sorted(costs)
    assert document["next_gpu"]["best"] in {"generation", "training", "both"}
    hbm = {one["system"]: one["hbm_bytes"] for one in document["scale_up"]}
    assert hbm["h200-nvl8"] == pytest.approx(1.13e12, rel=0.01)
    assert hbm["gb200-nvl72"] == pytest.approx(13.4e12, rel=0.02)
    assert {one["name"] for one in document["working"]} >= {"rl.beta_flop", "rl.beta_gpu_time", "rl.step"}
    assert document["efficiency"]["rl_training_ratio"]["kind"] == "calibration"


def test_published() -> None:
    document = ask("rl", "--published")
    assert len(document["published"]) == 31
    assert 18 < document["beta_gpu_time"]["min"] < 20


def test_what_rl_buys(tmp_path: Path) -> None:
    compute = np.geomspace(200, 16_000, 12)
    reward = np.asarray(reward_sigmoid(compute, 0.25, 0.61, 2500.0, 1.97))
    lines = [f"{c},{r}" for c, r in zip(compute, reward, strict=True)]
    (tmp_path / "reward.csv").write_text("\n".join(["compute,reward", *lines]))
    document = ask("rl", "--reward", str(tmp_path / "reward.csv"), "--forecast", "32000")
    assert document["reward"]["sigmoid"]["values"]["asymptote"] == pytest.approx(0.61, abs=1e-3)
    assert document["forecast"]["power law"]["p50"] != document["forecast"]["sigmoid"]["p50"]
    (tmp_path / "tries.csv").write_text("samples,correct\n64,1\n64,4\n64,0\n64,30\n")
    document = ask("rl", "--coverage", str(tmp_path / "tries.csv"), "--forecast", "128")
    assert document["pass_at_k"][0]["coverage"] == pytest.approx(35 / 256)
    assert document["coverage"]["b"] < 0


def test_python_and_reports_answer_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text("k,coverage\n1,0.2\n2,0.3\n4,0.42\n8,0.55\n16,0.66\n")
    points, page = str(tmp_path / "points.csv"), tmp_path / "coverage.html"
    found = cl.rl_returns(coverage=points, forecast=32)
    assert found.to_dict() == ask("rl", "--coverage", points, "--forecast", "32", "--html", str(page))
    said = f"{found.to_dict()['forecast']['coverage']:.1%}".replace("%", "")
    assert said in found.view().headline and said in page.read_text("utf-8")
    with pytest.raises(cl.InputError, match=r"^give one of published, reward and coverage"):
        cl.rl_returns(forecast=32)


def test_lengths_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "lengths.txt").write_text("500\n1500\n1000\n")
    run = [part for part in RUN if part not in {"--rollout", "1000"}]
    document = ask(*run, "--rollout-lengths", str(tmp_path / "lengths.txt"))
    assert point(document["rollout_tokens"]["mean"]) == pytest.approx(1000, rel=0.01)


@pytest.mark.parametrize(
    "extra", [[], ["--working"], ["--gold", "32", "--working"], ["--scale-up", "--levers", "--search"]]
)
def test_tables_print(extra: list[str]) -> None:
    result = CliRunner().invoke(cli, [*RUN, *extra], catch_exceptions=False)
    assert "What a sampled token costs, by phase" in result.stdout


BAD = {
    "no model": (["rl", "--rollout", "1000"], "--model: needed"),
    "no length": (RUN[:7], "give one of --rollout"),
    "two lengths": ([*RUN, "--rollout-p50", "9"], "give one of --rollout"),
    "beyond the context": ([*RUN, "--longest", "200K"], "exceed the context"),
    "mean beyond the longest": ([*RUN, "--longest", "500"], "exceeds the longest"),
    "turns beyond their limit": ([*RUN, "--turns", "10", "--turn-limit", "2"], "less than the mean of 10 turns"),
    "more than was drafted": ([*RUN, "--tokens-per-step", "5"], "between 1 and one more than the drafted tokens (1)"),
    "negative lag": ([*RUN, "--max-lag", "-1"], "must not be negative"),
    "no verifier": ([*RUN, "--verifier-time", "1s", "--verifier-cores", "0"], "must be at least 1"),
    "sides of other GPUs": (
        [*RUN, "--max-lag", "1", "--generation-gpus", "4", "--training-gpus", "4"],
        "together 8, and --gpus says 16",
    ),
    "one program": ([*RUN, "--framework", "deepspeed-chat", "--max-lag", "4"], "on the same GPUs in turns"),
    "cores of no environment": ([*RUN, "--environment-cores", "4"], "state --turns"),
    "cores of no verdict": ([*RUN, "--verifier-cores", "64"], "state --verifier-time"),
    "cores said twice": ([*RUN, "--verifier", "100%:1s:8", "--verifier-cores", "64"], "leave it out"),
    "a ratio to nothing": ([*RUN, "--price-ratio", "2"], "state --pretraining-flop"),
    "a message beyond its turn": (
        [*RUN, "--agents", "2", "--turns", "10", "--message-tokens", "500"],
        "a turn writes 100 tokens",
    ),
    "observed beyond the context": (
        [*RUN, "--turns", "50", "--observation-tokens", "9K", "--rollout-limit-tokens", "2K"],
        "prompt and longest rollout, with what its calls observe",
    ),
    "half a verifier": ([*RUN, "--verifier", "30%:2s"], "SHARE:TIME:CORES"),
    "zero cores": ([*RUN, "--verifier", "30%:2s:0"], "at least 1 core"),
    "too few started": ([*RUN, "--oversampling", "0.5"], "at least 1"),
    "all train": ([*RUN, "--training-gpus", "16"], "some must generate"),
    "no room": (
        ["rl", "--model", "llama-3.1-405b", "--system", "h100-nvl8", "--gpus", "8", "--rollout", "1000"],
        "405B",
    ),
    "no continuation": ([*RUN, "--next-token", "9K"], "state --continuation-tokens"),
    "both at once": ([*RUN, "--max-lag", "1", "--in-flight", "--drained"], "exclude one another"),
    "a forecast of nothing": (["rl", "--forecast", "9"], "give one of --published, --reward and --coverage"),
    "no table": (["rl", "--reward", "nowhere.csv"], "no such file"),
    "unknown engine": ([*RUN, "--backend", "nobody"], "nobody"),
    "recompute": ([*RUN, "--recompute", "some"], "selective"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, message = BAD[name]
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    printed = capsys.readouterr().err.strip()
    assert message in printed
    assert "\n" not in printed


def test_a_forecast_too_far_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "\n".join(f"{c},{0.1 + 0.01 * n}" for n, c in enumerate((1, 2, 4, 8, 16, 32, 64)))
    (tmp_path / "reward.csv").write_text(f"compute,reward\n{rows}\n")
    with pytest.raises(SystemExit):
        main(["rl", "--reward", str(tmp_path / "reward.csv"), "--forecast", "1000"])
    assert "as far" in capsys.readouterr().err
