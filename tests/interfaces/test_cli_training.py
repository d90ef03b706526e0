"""The command pretrain: its contract, what is given holds, bad input in one line, the page it writes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import computeledger as cl
from computeledger.interfaces.cli import main
from computeledger.interfaces.render.html import report
from computeledger.interfaces.views.step import timeline_rows
from computeledger.questions.answers.pretraining.answer import pretrain

BASE = ("pretrain", "--system", "h100-nvl8", "--samples", "64")
MODEL = ("--model", "llama-3.1-8b")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main([*BASE, *(() if "--model" in arguments else MODEL), *arguments])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    document: dict[str, Any] = json.loads(out)
    return document


def test_the_run_on_the_calendar(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "--gpus", "64")
    assert document["effective_days"]["p50"] > document["days"]["p50"]
    assert document["goodput_fraction"]["p95"] < 1
    assert sum(one["p50"] for one in document["goodput"]["shares"].values()) == pytest.approx(1, abs=0.03)
    assert document["energy_j"]["unit"] == "J"
    assert {"level", "step_ratio", "faster_fraction", "schedule"} <= set(document["best_layouts"][0])
    assert set(document["stops"]) >= {"interruptions_per_gpu_s", "restart_s"}
    assert document["efficiency_profile"] == "calibrated" and document["memory_bytes"]["usable"] < 80e9


def test_a_precision_that_the_chip_lacks_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """H100s have no fp4 units: fp4 weights go through the fp8 ones, and the first lines say so."""
    given = ("--gpus", "8", "--precision", "fp4")
    assert answer(capsys, *given)["multiplied_in"] == {"fp4": "fp8"}
    assert "fp4 (multiplied in fp8)" in run(capsys, *given)[1]
    assert answer(capsys, "--gpus", "8", "--precision", "fp8")["multiplied_in"] == {}


def test_sequences_beyond_the_context_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    beyond = ("--gpus", "8", "--sequence-tokens", "262144", "--global-batch-tokens", "4M")
    assert "exceed the context of meta-llama/Meta-Llama-3.1-8B: 131,072" in run(capsys, *beyond)[1].replace("\n", " ")
    assert (
        answer(capsys, "--gpus", "8", "--sequence-tokens", "131072", "--global-batch-tokens", "4M")["beyond_context"]
        == ""
    )


def test_a_working_shows_the_factors_that_were_used(capsys: pytest.CaptureFixture[str]) -> None:
    shown = answer(capsys, "--gpus", "8", "--working")["efficiency"]
    assert shown["host_step_s"]["kind"] == "calibration" and "before the fit" in shown["host_step_s"]["why"]
    before = shown["host_step_s"]["why"].partition("before the fit ")[2].partition(";")[0]
    assert before.endswith(("µs", "ms"))


def test_what_is_given_holds(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--gpus", "64", "--recompute", "full", "--virtual-stages", "2", "--microbatch-sequences", "2")
    document = answer(capsys, *given)
    for one in [document, *document["best_layouts"]]:
        assert (one["recompute"], one["virtual_stages"], one["microbatch_sequences"]) == ("full", 2, 2)
    calm = answer(
        capsys, "--gpus", "64", "--restart", "5 min", "--stragglers", "0", "--interruptions-per-gpu-year", "0.1"
    )
    assert calm["stops"]["restart_s"] == {"low": 300.0, "high": 300.0, "why": "given"}
    assert calm["goodput"]["shares"]["straggler"] == 0
    assert answer(capsys, "--layout", "tp2", "--gpus", "64")["layout"] == "tp2-dp32"


def test_reversible_layers_and_other_optimizers_are_asked(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--layout", "tp2-pp2-dp2", "--microbatch-sequences", "1", "--sequence-tokens", "8192")
    full, back, muon = (
        answer(capsys, *given, "--recompute", mode, "--optimizer", name)
        for mode, name in (("full", "adamw"), ("reversible", "adamw"), ("full", "muon"))
    )
    assert (back["recompute"], muon["optimizer"]) == ("reversible", "muon")
    assert back["memory_bytes"]["activations"] < full["memory_bytes"]["activations"]
    assert back["step_s"] == full["step_s"] and back["hfu_fraction"] == full["hfu_fraction"]
    assert muon["memory_bytes"]["optimizer"] < full["memory_bytes"]["optimizer"]
    assert muon["components"]["optimizer"]["p50"] > 2 * full["components"]["optimizer"]["p50"]
    code, out, _ = run(capsys, *given, "--recompute", "reversible")
    assert code == 0 and "reversible layers are another architecture" in " ".join(out.split())
    plan = {
        "model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
        "pretraining": {"tokens": "1T tokens", "gpus": 64, "recompute": "reversible", "optimizer": "muon"},
        "rl": {"skip": "base model only"}, "inference": {"skip": "not served"},
    }  # fmt: skip
    assert "recompute reversible" in cl.plan(plan).ledger.phases["pretraining"].choices["layout"]


def test_what_is_in_host_memory_is_asked_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--layout", "dp8", "--microbatch-sequences", "1", "--recompute", "full", "--sharding", "zero-2")
    here, there = answer(capsys, *given), answer(capsys, *given, "--offload", "optimizer,activations")
    assert (here["offload"], there["offload"]) == ("", "activations,optimizer")
    assert "host_bytes" not in here and there["host_bytes"] < there["host_usable_bytes"]
    assert there["memory_bytes"]["total"] < here["memory_bytes"]["total"] / 2
    assert there["step_s"]["p50"] > here["step_s"]["p50"]
    code, out, _ = run(capsys, *given, "--offload", "optimizer")
    assert code == 0 and "Host memory per GPU" in out and "optimizer in host memory" in " ".join(out.split())


def test_uneven_routing_costs_what_capacity_allows(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--model", "qwen3-30b-a3b", "--gpus", "16", "--layout", "tp1-dp16-ep8", "--microbatch-sequences", "1",
             "--recompute", "none")  # fmt: skip
    even, uneven, dropped = (
        answer(capsys, *given, *more)
        for more in ((), ("--expert-imbalance", "1.6"), ("--expert-imbalance", "1.6", "--capacity-factor", "1.2"))
    )
    assert even["step_s"]["p50"] < dropped["step_s"]["p50"] < uneven["step_s"]["p50"]
    held = [one["memory_bytes"]["activations"] for one in (even, dropped, uneven)]
    assert held == sorted(held) and held[0] < held[2] < 1.6 * held[0]
    assert even["expert_imbalance"] == 1 and "dropped_fraction" not in uneven
    assert 0 < dropped["dropped_fraction"] < 0.2
    assert "expert_imbalance" not in answer(capsys, "--layout", "dp8")
    code, out, _ = run(capsys, *given, "--expert-imbalance", "1.6", "--capacity-factor", "1.2")
    assert code == 0 and "of the routed tokens" in " ".join(out.split())


def test_least_gpu_hours_takes_no_more_than_least_time(capsys: pytest.CaptureFixture[str]) -> None:
    fast = answer(capsys, "--gpus", "512", "--global-batch-tokens", "512K")
    lean = answer(capsys, "--gpus", "512", "--global-batch-tokens", "512K", "--objective", "gpu-hours")
    assert lean["n_gpus"] < fast["n_gpus"]
    assert lean["effective_gpu_hours"]["p50"] < fast["effective_gpu_hours"]["p50"]


def test_an_anchor_of_the_same_configuration_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--gpus", "64", "--layout", "tp2")
    before = answer(capsys, *given)
    measured = 0.8 * before["tokens_per_s_per_gpu"]["p50"]
    after = answer(capsys, *given, "--anchor", f"tokens_per_s_per_gpu={measured}")
    assert after["tokens_per_s_per_gpu"]["p50"] == pytest.approx(measured, rel=0.03)
    width = [math.log(one["step_s"]["p95"] / one["step_s"]["p05"]) for one in (before, after)]
    assert width[1] < 0.6 * width[0]
    assert after["anchor"]["same_configuration"]


def test_scaling_growing_launch_and_adapters(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(
        capsys, "--gpus", "64", "--tokens", "1T", "--global-batch-tokens", "16M", "--scaling", "--growing-batch",
        "--emit", "megatron",
    )  # fmt: skip
    assert [one["n_gpus"] for one in document["scaling"]["strong"]] == [8, 16, 32, 64, 128, 256, 512]
    assert document["scaling"]["weak"][-1]["beyond_critical_batch"]
    grown = document["growing_batch"]
    assert grown["phases"][-1]["end_tokens"] == 1e12
    assert grown["effective_days"]["larger"] <= grown["effective_days"]["here"]
    _, text, beside = run(capsys, "--layout", "tp2-dp4", "--levers", "--emit", "megatron")
    assert "What each lever of memory frees" in beside and "What each" not in text
    assert "--tensor-model-parallel-size" in text and text.startswith("# megatron as of commit")
    layout = document["layout"]
    assert f"tp{document['launch']['arguments']['tensor-model-parallel-size']}-" in f"{layout}-"
    lora = answer(capsys, "--lora-rank", "8", "--tokens", "1G")
    assert lora["lora"]["n_params_trained"] == 41_943_040 / 2
    assert lora["memory_bytes"]["gradients"] < 1e9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--schedule", "1f2b"), "did you mean '1f1b'"),
        (("--emit", "nemo"), "allowed: deepspeed, fsdp2, maxtext, megatron, megatron-bridge, torchtitan"),
        (("--schedule", "dualpipe", "--gpus", "64", "--emit", "megatron"), "no dualpipe schedule"),
        (("--framework", "torchtitan", "--emit", "maxtext"), "give --framework maxtext, or leave it out"),
        (("--offload", "optimizer", "--optimizer", "muon"), "too slow; allowed: adamw, sgd, lion"),
        (("--objective", "gpu-hours", "--layout", "tp2"), "does not go with --layout"),
        (("--lora-targets", "all"), "needs --lora-rank"),
        (("--lora-rank", "0"), "expected one whole number, at least 1"),
        (("--microbatch-sequences", "3"), "try a global batch of 3932160 tokens (960 sequences)"),
        (("--schedule", "zero-bubble", "--gpus", "1"), "at least 2 GPUs"),
        (("--schedule", "zero-bubble", "--virtual-stages", "2"), "no virtual stages"),
        (("--schedule", "dualpipe", "--gpus", "24", "--layout", "tp1-pp3-dp8"), "even number of stages"),
        (("--recompute", "layernrom"), "did you mean 'layernorm'"),
        (("--offload", "optimiser"), "did you mean 'optimizer'"),
        (("--offload", "optimizer,weights", "--sharding", "zero-1"), "needs --sharding zero-3"),
        (("--offload", "optimizer", "--optimizer", "muon"), "whole matrices"),
        (("--sharding", "zero2"), "did you mean 'zero-2'"),
        (("--activation-precision", "fp4"), "did you mean 'fp8'"),
        (("--mtp-layers", "0"), "expected one whole number, at least 1"),
        (("--restart", "10 days", "--gpus", "16384"), "does not advance"),
        (("--stragglers", "150%"), "must lie in 0..1"),
        (("--anchor", "tokens_per_s_per_gpu=1e6"), "faster than the physical limit"),
        (("--anchor", "tokens_per_s_per_gpu=100, gpus=16"), "give the layout"),
        (("--anchor", "gpus=8"), "give one of"),
        (("--html", ""), "a file name is missing"),
        (("--model", "llama-3.1-405b"), "it fits on 128 GPUs"),
    ],
)
def test_bad_input_gets_one_line(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err and err.count("\n") == 1


def test_every_table_prints(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "step.html"
    code, out, err = run(
        capsys, "--gpus", "64", "--layout", "tp2-pp4", "--virtual-stages", "2", "--working", "--scaling",
        "--growing-batch", "--emit", "megatron", "--html", str(page), "--anchor", "mfu=35%",
    )  # fmt: skip
    assert (code, err) == (0, "")
    for words in (
        "Goodput",
        "Timeline of one pipeline",
        "By phase",
        "Weak scaling",
        "torchrun",
        "Anchor",
        "within noise",
    ):
        assert words in out
    text = page.read_text("utf-8")
    assert text.startswith("<!DOCTYPE html>") and "http-equiv" in text and "Daly" in text


def test_a_page_escapes_what_it_is_given() -> None:
    answer = pretrain(model="llama-3.1-8b", system="h100-nvl8", gpus=8, samples=16)
    shown = answer.view(working=True)
    assert "<script>alert" not in report(replace(shown, title="<script>alert(1)</script>"))


def test_a_timeline_in_the_terminal() -> None:
    bars = [[0, "forward", 0, 0, 0.0, 1.0], [1, "forward", 0, 0, 1.0, 2.0], [1, "backward", 0, 0, 2.0, 4.0]]
    rows = timeline_rows({"bars": bars, "n_stages": 2, "pipeline_end_s": 4.0}, 8)
    assert [cells for _, cells in rows] == ["00······", "··00aaaa"]


@pytest.mark.browser
def test_the_page_draws(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "step.html"
    pretrain(model="llama-3.1-8b", system="h100-nvl8", gpus=64, layout="tp2-pp4", samples=64).to_html(file)
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark", offline=True)
    page = context.new_page()
    told: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-drawn='6']", state="attached")
    assert told == [] and asked == [file.as_uri()]
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
    assert page.locator("#figure-timeline .scatterlayer path.js-fill").count() >= 3
    context.close()
