"""Parts of a serving answer: its breakdown, the page, tiers, launch commands, two pools, margins."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from computeledger.facts.load import load_model, load_system
from computeledger.interfaces.cli import main
from computeledger.interfaces.notebook import notebook_text
from computeledger.interfaces.render.html import report
from computeledger.physics.parallelism import Layout
from computeledger.physics.roofline import Machine, Precision
from computeledger.questions.answers.serving.answer import serve
from computeledger.questions.wording import point, show
from computeledger.workloads.serving.estimate import ServingScenario, estimate_serving
from computeledger.workloads.serving.pools import DisaggregatedScenario, estimate_disaggregated
from tests.printed import words_of

DEEPSEEK = ["serve", "--model", "deepseek-v3", "--system", "h200-nvl8", "--samples", "64"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run a command; its output."""

    def call(*arguments: str) -> str:
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        printed = capsys.readouterr()
        assert stopped.value.code == 0, printed.err
        return printed.out

    return call


@pytest.fixture
def ask(run):
    """Run a command; its document."""

    def call(*arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(run(*arguments, "--json"))
        return found

    return call


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]):
    """Run a command that must be refused; its one line."""

    def call(*arguments: str) -> str:
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        printed = capsys.readouterr()
        assert stopped.value.code == 2 and printed.err.count("\n") == 1
        return printed.err

    return call


def test_the_parts_add_up_and_no_operation_beats_its_limit(ask) -> None:
    document = ask(*DEEPSEEK, "--layout", "tp8-ep8", "--batch", "64", "--working")
    found = document["breakdown"]
    for phase in ("decode", "prefill"):
        step = found[phase]
        assert sum(one["time_s"] for one in step["operations"]) + sum(step["beside_s"].values()) == pytest.approx(
            step["time_s"]
        )
        assert all(0 <= one["limit_fraction"] <= 1 + 1e-9 for one in step["operations"] if one["time_s"] > 0)
        for one in step["operations"]:
            parts = max(one["compute_s"], one["memory_s"]) + one["network_s"] + one["overhead_s"]
            assert parts == pytest.approx(one["time_s"])
    # the parts stand at the middle of every input, the answer is the median over samples
    for name in ("tpot", "ttft"):
        assert sum(found[name].values()) == pytest.approx(point(document[f"{name}_s"]), rel=0.1)


def test_what_stands_beside_the_operations_has_a_name(ask, run) -> None:
    """Drafting takes time of its own; the correction to measurements is signed and never a row of time not modelled."""
    question = (*DEEPSEEK, "--layout", "tp8-ep8", "--batch", "64", "--draft-tokens", "3", "--tokens-per-step", "2.5")
    beside = ask(*question, "--working")["breakdown"]
    assert beside["decode"]["beside_s"]["drafting"] > 0
    assert "drafting" not in beside["prefill"]["beside_s"]
    assert set(beside["decode"]["beside_s"]) <= {"drafting", "measured correction", "usual tuning"}
    assert "not modelled" not in run(*question, "--working")


PRODUCTION = (
    "serve", "--model", "deepseek-v3", "--system", "h800-nvl8", "--input-tokens", "1583", "--cached-tokens", "2000",
    "--output-tokens", "1000", "--tpot", "50ms", "--price", "$2/h",
)  # fmt: skip


def test_one_pool_names_two_where_they_give_clearly_more(ask, run) -> None:
    one, two = (ask(*PRODUCTION, "--gpus", "352", *mode) for mode in ((), ("--mode", "disaggregated")))
    named = one["two_pools"]
    assert named["gain_ratio"] > 2
    assert named["output_tokens_per_s_per_gpu"] == pytest.approx(point(two["output_tokens_per_s_per_gpu"]), rel=0.05)
    assert "--mode disaggregated" in run(*PRODUCTION, "--gpus", "352")
    assert "two_pools" not in ask(*DEEPSEEK, "--gpus", "8"), "one worker fills them"
    assert "two_pools" not in two


def test_times_to_first_token_by_statistic(ask, refused) -> None:
    question = (*DEEPSEEK, "--layout", "tp8-ep8", "--batch", "64")
    steady = ask(*question)
    assert "ttft_statistics_s" not in steady
    mean, median = (ask(*question, "--rounds", "5", "--statistic", name) for name in ("mean", "median"))
    every = {name: point(one) for name, one in mean["ttft_statistics_s"].items()}
    assert every["mean"] == pytest.approx(point(mean["ttft_s"]))
    assert every["median"] == pytest.approx(point(median["ttft_s"]))
    assert every["median"] == pytest.approx(point(steady["ttft_s"])) and every["last"] > every["p90"] > every["mean"]
    alike = ask(*question, "--rounds", "5", "--equal-lengths", "--backend", "sglang")
    assert alike["rounds_per_burst"] == 1 and alike["ttft_statistics_s"]["median"]["p50"] > every["median"]
    assert "add --rounds" in refused(*question, "--statistic", "median")
    assert "allowed: last, mean, median, p90" in refused(*question, "--rounds", "2", "--statistic", "mode")


@pytest.mark.parametrize("weights", ["int4", "int8", "w8a16", "w4a8", "fp4-a16"])
def test_formats_are_said_as_they_are(ask, run, weights: str) -> None:
    question = ("serve", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--layout", "tp1", "--batch", "8")
    found = ask(*question, "--precision", weights, "--tuning", "recipe")
    assert found["precision"]["attention"] == weights
    assert found["interval"]["class"] == "new pair or model"
    assert found["memory_bytes"]["weights"] < 0.6 * ask(*question)["memory_bytes"]["weights"]
    if weights != "int8":
        assert f"{weights} (multiplied in" in run(*question, "--precision", weights)


@pytest.mark.parametrize(("batch", "fits"), [(55, True), (56, False), (5000, False)])
def test_python_says_of_a_batch_what_the_command_says(ask, refused, batch: int, fits: bool) -> None:
    """A batch beyond memory was answered in Python as if it could run."""
    lengths = ("--input-tokens", "4096", "--output-tokens", "4096")
    question = ("serve", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--layout", "tp1", *lengths)
    asked = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 4096.0, 4096.0, batch)
    result = estimate_serving(asked, Machine(load_system("h100-nvl8")))
    assert bool(result.fits) is fits
    assert ("it does not fit the memory" in notebook_text(result)) is not fits
    if fits:
        assert ask(*question, "--batch", str(batch))["largest_batch"] == result.memory.largest_batch == batch
    else:
        assert "does not fit; the largest batch that fits is 55" in refused(*question, "--batch", str(batch))


def test_fitting_is_said_by_option_and_by_pool() -> None:
    machine, batches = Machine(load_system("h100-nvl8")), np.array([1.0, 55.0, 56.0])
    one = ServingScenario(load_model("llama-3.1-8b"), Layout(), Precision(), 4096.0, 4096.0, batches)
    assert estimate_serving(one, machine).fits.tolist() == [True, True, False]
    pools = DisaggregatedScenario(replace(one, batch=1.0), Layout(), 1.0, 1.0, np.array([8.0, 4000.0]))
    found = estimate_disaggregated(pools, machine)
    assert found.fits.tolist() == (found.decode_batch <= 55).tolist() == [True, False]
    assert not estimate_serving(replace(one, model=load_model("llama-3.1-70b")), machine).fits.any()


def test_training_and_plans_say_which_formats_they_take(refused) -> None:
    question = ("pretrain", "--model", "llama-3.1-8b", "--system", "h100-nvl8", "--gpus", "8", "--tokens", "1T")
    assert "precision of training 'int4'" in refused(*question, "--precision", "int4")


def test_a_chip_never_measured_says_so(ask) -> None:
    question = ("serve", "--model", "llama-3.1-8b", "--layout", "tp1", "--batch", "8", "--price", "$2/h")
    systems = ("8xmi325x", "h100-nvl8")
    strange, measured = (ask(*question, "--tuning", "recipe", "--system", name) for name in systems)
    assert strange["interval"]["class"] == "chip never measured"
    spread = [one["tpot_s"]["p95"] / one["tpot_s"]["p05"] for one in (strange, measured)]
    assert spread[0] > 1.3 * spread[1]


def test_elasticities_are_those_of_physics(ask) -> None:
    """A memory-bound operation is as fast as the memory; all constants of one operation's rate weigh the same."""
    found = ask(*DEEPSEEK, "--layout", "tp8-ep8", "--batch", "64", "--working")["breakdown"]
    constants = {one["name"]: one for one in found["constants"]}
    moved = constants["hbm_bytes_per_s"]["elasticity"]
    assert moved["decode: attention projections"] == pytest.approx(-1, abs=0.01)
    assert constants["weight_bandwidth_fraction"]["elasticity"]["decode: output head"] == pytest.approx(-1, abs=0.01)
    assert all(one["kind"] in ("fact", "assumption", "calibration") and one["why"] for one in constants.values())
    assert moved["tpot_s"] < 0 < constants["serving_ratio"]["elasticity"]["tpot_s"]


def test_the_page_is_whole(run, tmp_path: Path) -> None:
    page = tmp_path / "serving.html"
    run(*DEEPSEEK, "--gpus", "8", "--html", str(page))
    text = page.read_text("utf-8")
    assert " src=" not in text and "default-src 'none'" in text
    for part in ("Decode step", "Prefill step", "Pareto front", "Rests on", "Working", "What it rests on"):
        assert part in text
    for name in ("pareto", "step", "roofline", "memory"):
        assert f'data-plot="{name}"' in text


def test_a_hostile_name_stays_text() -> None:
    answer = serve(model="deepseek-v3", system="h200-nvl8", layout="tp8-ep8", batch=64, samples=16)
    text = report(replace(answer.view(), title="<script>alert(1)</script>", plots=()))
    assert "<script>alert" not in text and "&lt;script&gt;" in text


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_page_fits_its_window(run, tmp_path: Path, browser: Any, scheme, width) -> None:
    page = tmp_path / "serving.html"
    run(*DEEPSEEK, "--gpus", "8", "--html", str(page))
    view = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    problems: list[str] = []
    view.on("console", lambda message: problems.append(message.text))
    view.goto(page.as_uri())
    wide = view.evaluate("document.documentElement.scrollWidth")
    spilt = view.evaluate(
        "[...document.querySelectorAll('.tiles dd, .facts li')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    )
    words = words_of(view.pdf(prefer_css_page_size=True))
    view.close()
    assert "·ComputeLedger" in words  # at the foot of each sheet
    assert wide <= width and problems == [] and spilt == 0


def test_tiers_of_memory(ask) -> None:
    found = ask(*DEEPSEEK, "--layout", "tp8-ep8", "--batch", "16", "--cached-tokens", "16k", "--kv-tiers")["kv_tiers"]
    assert found["tiers"][0]["id"] == "hbm" and found["cheapest"][-1]["to_s"] is None
    flash = next(one for one in found["tiers"] if one["id"] == "nvme-4tb")
    assert flash["hold_or_recompute_s"]["p05"] < flash["hold_or_recompute_s"]["p95"]
    assert set(found["facts"]["hbm3e-stack"]) == {"capacity_bytes", "read_bytes_per_s", "usd_per_byte"}
    stages = [one["hbm_bytes"] for one in found["memory_design"]]
    assert stages == sorted(stages, reverse=True)


def test_a_larger_discount_pays_for_longer(ask) -> None:
    tiers = [*DEEPSEEK, "--layout", "tp8-ep8", "--batch", "16", "--kv-tiers", "--cache-discount"]
    small, large = (ask(*tiers, share)["kv_tiers"]["tiers"][1]["discount_pays_s"]["p50"] for share in ("5%", "50%"))
    assert small < large


def test_long_times_are_in_minutes() -> None:
    assert [show(one, "s") for one in (268.0, 2050.0, 9430.0)] == ["268 s", "34.2 min", "2.62 h"]


def flags(text: str) -> dict[str, str]:
    """Arguments of the last command of a text."""
    command = [line for line in text.splitlines() if not line.startswith("#")]
    words = shlex.split(" ".join(line.rstrip("\\") for line in command))
    return {
        one: (words[place + 1] if place + 1 < len(words) and not words[place + 1].startswith("--") else "")
        for place, one in enumerate(words)
        if one.startswith("--")
    }


def test_launch_commands_say_the_same_in_each_engines_words(run, ask) -> None:
    """vLLM: ranks x tp, batch per rank; SGLang: tp counts all GPUs, batch of all ranks (their documentation)."""
    asked = [*DEEPSEEK, "--layout", "tp2-dp4-ep8", "--batch", "128", "--kv-precision", "fp8"]
    vllm, sglang = (flags(run(*asked, "--emit", engine)) for engine in ("vllm", "sglang"))
    assert vllm["--tensor-parallel-size"] == "2" and vllm["--data-parallel-size"] == "4"
    assert vllm["--max-num-seqs"] == "32" and "--enable-expert-parallel" in vllm and vllm["--kv-cache-dtype"] == "fp8"
    assert sglang["--tp-size"] == "8" and sglang["--dp-size"] == "4" and "--enable-dp-attention" in sglang
    assert sglang["--max-running-requests"] == "128" and sglang["--ep-size"] == "8"
    held = ask(*asked)["memory_bytes"]
    share = float(vllm["--gpu-memory-utilization"])
    assert held["total"] / held["capacity"] <= share <= 0.97
    assert held["weights"] / held["capacity"] < float(sglang["--mem-fraction-static"]) < share


def test_an_unknown_engine_is_refused_with_engines_alone(refused) -> None:
    assert "ideal" not in refused(*DEEPSEEK, "--emit", "foo")


def test_a_launch_comes_with_the_answer_where_more_is_asked(run, tmp_path: Path) -> None:
    page = tmp_path / "serving.html"
    asked = [*DEEPSEEK, "--layout", "tp8-ep8", "--batch", "16", "--emit", "vllm"]
    text = run(*asked, "--kv-tiers", "--html", str(page))
    assert "Hold or compute again" in text and "vllm serve" in text and "Time per output token" in text
    assert "Hold or compute again" in page.read_text("utf-8")
    assert "Time per output token" not in run(*asked)


def test_a_stated_point_is_held_against_its_limits(ask, run) -> None:
    asked = [*DEEPSEEK, "--layout", "tp8-ep8", "--batch", "64"]
    median_s = point(ask(*asked)["tpot_s"])
    for factor, meets in ((0.99, False), (1.01, True)):
        limits = ["--tpot", f"{median_s * factor}s", "--ttft", "1h"]
        found = ask(*asked, *limits)["meets"]
        assert found["tpot"]["meets"] is meets and 0.2 < found["tpot"]["probability"] < 0.8
        assert found["ttft"]["probability"] == 1
        assert f"TPOT {'meets' if meets else 'does not meet'} the limit" in run(*asked, *limits)


def test_the_physical_limit_is_no_engine(run) -> None:
    text = run(*DEEPSEEK, "--layout", "tp8-ep8", "--batch", "64", "--backend", "ideal")
    assert "interval class" not in text and "fitted" not in text


def test_stages_are_said(run) -> None:
    asked = [*DEEPSEEK, "--batch", "8", "--all", "--layout"]
    assert "through all stages" in run(*asked, "tp8-pp2-ep8")
    assert "on the busiest GPU" in run(*asked, "tp8-ep8")


def test_the_winner_is_on_the_printed_front(run) -> None:
    """With --all; without it one line says that there is a front."""
    asked = [*DEEPSEEK, "--gpus", "8", "--tpot", "30ms"]
    short, text = run(*asked), run(*asked, "--all")
    assert "--all prints a step of decoding and of prefill by operation, and the Pareto front of" in " ".join(
        short.split()
    )
    assert len(short.splitlines()) < 0.75 * len(text.splitlines())
    assert sum(line.startswith(" \u2192 ") for line in text.splitlines()) == 1


def test_an_anchor_shows_what_it_said(run, tmp_path: Path) -> None:
    page = tmp_path / "serving.html"
    anchor = ["--anchor", "batch=64,isl=4096,osl=1024,tpot=60ms"]
    text = " ".join(run(*DEEPSEEK, "--layout", "tp8-ep8", "--batch", "64", *anchor, "--html", str(page)).split())
    assert "measured TPOT is " in text and "times what the model gives here, instead of" in text
    said = page.read_text("utf-8")
    assert "engine vllm" in said and "measurements): " in said and "times what the model gives here" in said


def test_a_precision_without_units_is_noted(run) -> None:
    asked = [*DEEPSEEK, "--layout", "tp8-ep8", "--batch", "8"]
    assert "has no fp4 units" in run(*asked, "--precision", "fp4")
    assert "has no fp" not in run(*asked)
    assert "weights alone are narrow: 4.5 bits are read, products run in bf16" in run(*asked, "--precision", "int4-g32")


def test_a_launch_can_be_pasted(run, tmp_path: Path) -> None:
    """The text is a program: comments and one command, which here is a stand-in that prints its arguments."""
    import subprocess

    text = run(*DEEPSEEK, "--gpus", "8", "--emit", "trtllm")
    stand_in = tmp_path / "trtllm-serve"
    stand_in.write_text('#!/bin/sh\necho "$@"\n')
    stand_in.chmod(0o755)
    done = subprocess.run(
        ["bash", "-eu"], input=text, cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("deepseek-ai/DeepSeek-V3 --tp_size 8")
    assert "kv_cache_config:" in (tmp_path / "serving.yaml").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--emit", "vlm"], "did you mean 'vllm'"),
        (["--layout", "tp2-dp4-ep8", "--batch", "8", "--emit", "trtllm"], "attention data parallelism"),
        (["--layout", "tp8-ep4", "--batch", "8", "--emit", "vllm"], "not over 4"),
        (["--precision", "bf16", "--gpus", "16", "--emit", "vllm"], "name a checkpoint stored in bf16"),
        (
            ["--mode", "disaggregated", "--batch", "8"],
            "state --prefill-layout and --layout too",
        ),
        (["--kv-tiers", "--layout", "tp8-ep8", "--batch", "8", "--price", "$0/h"], "greater than 0"),
        (["--emit", "vllm", "--backend", "ideal"], "the physical limit is no engine"),
        (["--cache-discount", "5%"], "--kv-tiers"),
        (["--tpot", "0ms"], "must be greater than 0"),
        (["--rounds", "1.5"], "one whole number"),
    ],
)
def test_what_cannot_be_done_is_said(refused, arguments, message) -> None:
    assert message in refused(*DEEPSEEK, *arguments)


def test_a_search_says_whether_its_winner_is_ahead(ask, run) -> None:
    asked = [
        "serve",
        "--model",
        "deepseek-v3",
        "--system",
        "gb200-nvl72",
        "--gpus",
        "72",
        "--tpot",
        "25ms",
        "--samples",
        "64",
    ]
    document = ask(*asked)
    margins = document["margins"]
    chances = [one["better_probability"] for one in margins["rivals"]]
    assert chances == sorted(chances, reverse=True) and all(0 <= one <= 0.5 for one in chances)
    assert margins["n_not_distinguishable"] == sum(one > 0.1 for one in chances)
    assert 0 < margins["meets_limit_probability"]["tpot"] < 1
    assert document["layout"] not in {one["layout"] for one in margins["rivals"]}
    assert "istinguishable from" in run(*asked) or "head of" in run(*asked)


def test_two_pools_are_matched_and_within_the_limits(ask) -> None:
    document = ask("serve", "--model", "deepseek-v3", "--system", "gb200-nvl72", "--gpus", "72", "--mode",
                   "disaggregated", "--tpot", "25ms", "--ttft", "2s", "--samples", "64")  # fmt: skip
    pools = document["pools"]
    used = sum(one["n_workers"] * one["n_gpus_per_worker"] for one in pools.values())
    assert used == document["n_gpus_per_replica"] <= 72 and used + document["n_idle_gpus"] == 72
    assert all(one["prefill_busy_fraction"] < 0.9 for one in document["pareto"])
    assert point(document["prefill_busy_fraction"]) < 0.95
    assert all(one["memory_bytes"]["total"] <= one["memory_bytes"]["capacity"] for one in pools.values())
    rate = "output_tokens_per_s_per_gpu"
    assert point(document[rate]) > 0.8 * max(one[rate] for one in document["pareto"] if one["tpot_s"] <= 0.025)
    assert document["physical_limit"]["tpot_s"] < document["tpot_s"]["p50"]


LONG = [
    "serve",
    "--system",
    "h100-nvl8",
    "--layout",
    "tp1",
    "--batch",
    "1",
    "--input-tokens",
    "100k",
    "--samples",
    "16",
]


def test_a_longer_context_is_the_users_assumption_and_says_so(ask, run, refused) -> None:
    assert "--context-tokens" in refused(*LONG, "--model", "qwen3-8b")
    stated = [*LONG, "--model", "qwen3-8b", "--context-tokens", "131072"]
    document = ask(*stated)
    assert document["assumptions"]["context_tokens"] == 131072
    assert "131,072 tokens is your assumption" in " ".join(run(*stated).split())
    assert "rope scaling" in run(*stated, "--emit", "vllm")
    own = ask(*LONG, "--model", "qwen3-4b-instruct-2507")  # 262,144 by its own configuration
    assert "context_tokens" not in own["assumptions"]


def test_a_launch_starts_the_checkpoint_that_was_named(run) -> None:
    """An alias answers with another model's entry; what is started has the weights that were asked for."""
    base = ["serve", "--system", "h100-nvl8", "--layout", "tp1", "--batch", "8", "--samples", "16", "--emit", "vllm"]
    assert "serve meta-llama/Llama-3.1-8B-Instruct " in run(*base, "--model", "llama-3.1-8b-instruct")
    assert "serve meta-llama/Meta-Llama-3.1-8B " in run(*base, "--model", "meta-llama-3.1-8b")


def test_an_answer_says_that_its_constants_are_those_of_other_chips(run) -> None:
    asked = ["serve", "--model", "llama-3.1-8b", "--batch", "8", "--backend", "vllm", "--samples", "64", "--json"]
    of_the_fit, other = (json.loads(run(*asked, "--system", one)) for one in ("h100-nvl8", "h20-nvl8"))
    assert not of_the_fit["remarks"]
    assert [one.partition(":")[2].strip() for one in other["remarks"]] == [
        "products lose 0.24 times as much per FLOP of the peak, memory reaches 0.82 times their share of its bandwidth"
    ]
