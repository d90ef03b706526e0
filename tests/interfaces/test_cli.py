"""The command line as a person meets it: answers, and one clear line for every mistake."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from computeledger.interfaces.cli import SECTIONS, main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PLAN = (EXAMPLES / "small-team-rl.toml").read_text("utf-8")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    out = capsys.readouterr()
    return int(stop.value.code or 0), out.out, out.err


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = run(capsys, *arguments, "--json")
    # on a busy machine long work says how far it is
    assert (code, re.sub(r"^computeledger: \d+ of \d+ .*\n", "", err, flags=re.MULTILINE)) == (0, "")
    document: dict[str, Any] = json.loads(out)
    return document


def point(value: Any) -> float:
    return float(value["p50"] if isinstance(value, dict) else value)


LONG = 5000
SERVE = ("serve", "--model", "llama-3.1-8b", "--system", "h100-nvl8")
PRETRAIN = ("pretrain", "--model", "llama-3.1-8b", "--system", "h100-nvl8")

BAD_COMMANDS = {
    "unknown command": (("serv",), "serv"),
    "unknown model": (("serve", "--model", "deepseek-v33", "--system", "h200-nvl8"), "deepseek-v3"),
    "unknown system": (("serve", "--model", "deepseek-v3", "--system", "h200-nvl9"), "h200-nvl8"),
    "ambiguous chip": (("facts", "show", "h100"), "h100-sxm5-80gb"),
    "accelerator for a system": (("serve", "--model", "deepseek-v3", "--system", "h100-sxm5-80gb"), "h100-nvl8"),
    "missing model": (("serve", "--system", "h100-nvl8"), "--model"),
    "misspelt option": ((*SERVE, "--bach", "8"), "--batch"),
    "zero batch": ((*SERVE, "--batch", "0"), "--batch 0"),
    "negative batch": ((*SERVE, "--batch", "-3"), "-3"),
    "fractional batch": ((*SERVE, "--batch", "2.5"), "2.5"),
    "batch beyond memory": ((*SERVE, "--batch", "100000"), "does not fit"),
    "zero gpus": ((*SERVE, "--gpus", "0"), "--gpus 0"),
    "word for a number": ((*SERVE, "--input-tokens", "many"), "--input-tokens 'many'"),
    "zero input": ((*SERVE, "--input-tokens", "0"), "--input-tokens"),
    "negative input": ((*SERVE, "--input-tokens", "-5"), "-5"),
    "reversed range": ((*SERVE, "--output-tokens", "2K..1K"), "2K..1K"),
    "wrong unit": ((*SERVE, "--tpot", "5 tokens"), "tokens"),
    "context exceeded": ((*SERVE, "--input-tokens", "1M"), "131,072"),
    "unknown precision": ((*SERVE, "--precision", "fp6"), "fp6"),
    "unknown kv precision": ((*SERVE, "--kv-precision", "fp5"), "fp5"),
    "layout part": ((*SERVE, "--layout", "tp8-zz2"), "zz2"),
    "layout twice": ((*SERVE, "--layout", "tp8-tp2"), "tp is given twice"),
    "heads do not divide": ((*SERVE, "--layout", "tp5"), "tp must divide 32"),
    "ep on a dense model": ((*SERVE, "--layout", "tp8-ep8"), "dense"),
    "too many stages": ((*SERVE, "--layout", "pp64"), "32 layers"),
    "layout against gpus": ((*SERVE, "--layout", "tp8", "--gpus", "4"), "8 GPUs"),
    "context parallel decode": ((*SERVE, "--layout", "tp2-cp2"), "cp1"),
    "experts do not divide": (
        ("serve", "--model", "deepseek-v3", "--system", "gb200-nvl72", "--layout", "tp1-dp72-ep72"),
        "256 experts",
    ),
    "model does not fit": (("serve", "--model", "deepseek-v3", "--system", "h100-nvl8", "--gpus", "8"), "does not fit"),
    "impossible speed": ((*SERVE, "--tpot", "1us"), "fastest"),
    "impossible fleet": ((*SERVE, "--requests-per-s", "10", "--tpot", "1us"), "no layout meets"),
    "impossible first token": ((*SERVE, "--ttft", "1ms"), "reaches that TTFT"),
    "load beyond the gpus": ((*SERVE, "--requests-per-s", "1000", "--gpus", "8"), "leave --gpus out"),
    "price without unit sense": ((*SERVE, "--price", "3 tokens"), "tokens"),
    "recompute word": ((*PRETRAIN, "--recompute", "partial"), "partial"),
    "training does not fit": (
        ("pretrain", "--model", "llama-3.1-405b", "--system", "h100-nvl8", "--gpus", "8"),
        "does not train",
    ),
    "samples": ((*SERVE, "--samples", "1"), "samples"),
    "samples not a number": ((*SERVE, "--samples", "few"), "few"),
    "no plan": (("plan", "nowhere.toml"), "nowhere.toml: no such file"),
    "plan is a folder": (("plan", "."), "is a folder"),
    "plan's name is empty": (("plan", ""), "file name is missing"),
    "plan's name is too long": (("plan", "x" * LONG), "file name too long"),
    "cited plan is a folder": (("cite", "."), "is a folder"),
    "cited source is too long": (("cite", "x" * LONG), f"'{'x' * 80}...'"),
    "cited path is too long": (("cite", "x/" * LONG), f"'{'x/' * 40}...'"),
    "shown id is too long": (("facts", "show", "x" * LONG), f"'{'x' * 80}...'"),
    "shown path is too long": (("facts", "show", "x/" * LONG), "file name too long"),
    "model is too long": (("serve", "--model", "x" * LONG, "--system", "h100-nvl8"), f"'{'x' * 80}...'"),
    "empty search": (("facts", "search", ""), "query is empty"),
    "blank search": (("facts", "search", " ", " "), "query is empty"),
    "zero layouts": ((*PRETRAIN, "--top", "0"), "--top 0: expected one whole number, at least 1"),
    "negative seed": ((*SERVE, "--seed", "-1"), "--seed '-1': must not be negative"),
    "negative seed of a plan": (("plan", str(EXAMPLES / "small-team-rl.toml"), "--seed", "-1"), "must not be negative"),
    "too many samples": ((*SERVE, "--samples", "1000001"), "at most 1,000,000"),
    "range for a count": ((*SERVE, "--batch", "1..4"), "--batch 1..4"),
    "decimal comma": ((*PRETRAIN, "--tokens", "1,5T tokens"), "write 1.5"),
    "dollars for tokens": ((*PRETRAIN, "--tokens", "$1T tokens"), "dollars"),
    "no such magnitude": ((*PRETRAIN, "--tokens", "1e308 tokens"), "no quantity is that large"),
    "html without a name": (("plan", str(EXAMPLES / "small-team-rl.toml"), "--html", ""), "file name is missing"),
    "plan left out": (("plan",), "PLAN.toml: needed"),
    "offers left out": (("compare",), "computeledger: OFFERS.toml: needed; `computeledger compare --help`"),
    "a system left out": (("frontier", "systems"), "computeledger: SPEC: needed; "),
    "an option in place of a file": (("compare", "--model", "qwen3-8b"), "write `computeledger compare OFFERS.toml`; "),
    "a page of the app": (("life",), "unknown command 'life': did you mean 'plan'?"),
    "another page of the app": (("offers",), "did you mean 'compare'?"),
    "a command like none": (("zzzz",), "unknown command 'zzzz': `computeledger --help` lists all"),
    "a system below zero": (
        ("frontier", "systems", "-400 MW facility of gb200-gpu"),
        "gpu': must be positive",
    ),
    "compute below zero": (("frontier", "forecast", "-5"), "FLOP '-5': must be positive"),
    "a limit below zero": ((*SERVE, "--tpot", "-30ms"), "--tpot '-30ms': must not be negative\n"),
    "a limit without a unit": ((*SERVE, "--tpot", "30"), "--tpot '30': a unit is missing, write 30ms or 30s\n"),
    "unknown source": (("cite", "nvidia-h1000"), "unknown source"),
    "an option twice": ((*SERVE, "--batch", "4", "--batch", "8"), "--batch: given 2 times; it takes one value"),
    "an option of a subcommand twice": (
        ("facts", "model", "qwen3-8b", "--kv-precision", "fp8", "--kv-precision", "fp8"),
        "given 2",
    ),
    "a flag that its engine has not": ((*SERVE, "--from-command", "vllm serve m --max-seqs 8"), "--max-num-seqs"),
    "another tool's option": (("serve", "--format", "json"), "unknown option '--format': did you mean '--json'?"),
    "another word for an option": (("serve", "--isl", "1K"), "did you mean '--input-tokens'?"),
    "no option is near": (("frontier", "forecast", "--flop", "1e28"), "forecast --help` lists those it takes"),
    "a word where an option is missing": (("fit", "serving", "FOLDER"), "'FOLDER': did you mean --data FOLDER?"),
    "an option near none": (("serve", "--zzzz", "1"), "'--zzzz': `computeledger serve --help` lists those it takes"),
    "a bad value before what is missing": (("serve", "--gpus", "eight"), "--gpus 'eight'"),
    "html into no folder": (
        ("plan", str(EXAMPLES / "small-team-rl.toml"), "--html", "no/such/folder/x.html"),
        "does not exist",
    ),
}


@pytest.mark.parametrize("group", ["frontier", "facts", "prices", "books"])
@pytest.mark.parametrize("columns", ["80", "120"])
def test_help_of_a_group_cuts_no_summary(
    group: str, columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = run(capsys, group, "--help")[1]
    assert "..." not in out.partition("Commands:")[2] and max(map(len, out.splitlines())) <= int(columns)


@pytest.mark.parametrize("case", BAD_COMMANDS)
def test_bad_command_is_one_line_and_exit_2(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, names = BAD_COMMANDS[case]
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert names in err
    assert "Traceback" not in err


BAD_PLANS = {
    "not TOML": ("title = ", "not valid TOML"),
    "missing section": (PLAN.replace("[rl]", "[research]").split("[research]")[0], "[rl] is missing"),
    "unknown section": (PLAN + "\n[inferense]\n", "inference"),
    "misspelt key": (PLAN.replace("rollout_tokens =", "rolout_tokens ="), "rollout"),
    "misspelt top key": ("modle = 'x'\n" + PLAN, "model"),
    "unit-less tokens": (PLAN.replace('"2B..10B tokens"', "2e9"), "unit is missing"),
    "unit-less range": (PLAN.replace('"2B..10B tokens"', '"2B..10B"'), "unit is missing"),
    "unit-less price": (PLAN.replace('"$2.5..$3.5/h"', "3"), "unit is missing"),
    "wrong unit": (PLAN.replace('"2B..10B tokens"', '"2 MW"'), "unknown unit"),
    "negative": (PLAN.replace("steps = 500", "steps = -500"), "negative"),
    "reversed range": (PLAN.replace("3..8", "8..3"), "low end"),
    "share above one": (PLAN.replace("10%..40%", "10%..140%"), "0..1"),
    "not a number": (PLAN.replace("steps = 500", "steps = nan"), "nan"),
    "infinite": (PLAN.replace("steps = 500", "steps = inf"), "inf"),
    "true for a number": (PLAN.replace("steps = 500", "steps = true"), "[rl] steps = true: expected a number"),
    "date for a number": (PLAN.replace("steps = 500", "steps = 2026-01-01"), "[rl] steps = the date 2026-01-01"),
    "time for a number": (PLAN.replace("steps = 500", "steps = 07:32:00"), "steps = the time 07:32:00"),
    "list for a number": (PLAN.replace("steps = 500", "steps = [1, 2]"), "steps = [1, 2]"),
    "nested brackets": (PLAN + "\n[deep]\na = " + "[" * LONG, "nested too deeply"),
    "nested tables": (PLAN + "\n[deep]\n" + "a." * LONG + "a = 1", "nested too deeply"),
    "too many digits": (PLAN.replace("steps = 500", "steps = " + "1" * LONG), "too many digits"),
    "many digits": (PLAN.replace("steps = 500", "steps = " + "1" * 200), "no quantity is that large"),
    "long model": (PLAN.replace("Qwen/Qwen3-8B", "x" * LONG), f"'{'x' * 80}...'"),
    "long path of a model": (PLAN.replace("Qwen/Qwen3-8B", "x/" * LONG), "file name too long"),
    "long system": (PLAN.replace('"h100-nvl8"', f'"{"x" * LONG}"'), f"'{'x' * 80}...'"),
    "long quantity": (PLAN.replace("steps = 500", f"steps = '{'x' * LONG}'"), f"'{'x' * 80}...'"),
    "no file name": (PLAN.replace("Qwen/Qwen3-8B", "x\\u0000.toml"), "not a file name"),
    "no such magnitude": (PLAN.replace("2B..10B tokens", "1e308 tokens"), "no quantity is that large"),
    "no such range": (PLAN.replace("2B..10B tokens", "1e-300..1e300 tokens"), "no quantity is that small"),
    "unknown model": (PLAN.replace("Qwen/Qwen3-8B", "Qwen/Qwen3-9B"), "Qwen3-8B"),
    "unknown system": (PLAN.replace('"h100-nvl8"', '"h100"'), "h100-nvl8"),
    "bad layout": (PLAN.replace('"tp4-dp2"', '"tp3-dp2"'), "tp must divide"),
    "layout against gpus": (PLAN.replace('"tp4-dp2"', '"tp8-dp4"'), "8 GPUs"),
    "bad mode": (PLAN.replace("[rl]\n", '[rl]\nmode = "sideways"\n'), "synchronous"),
    "missing key": (PLAN.replace('rollout_tokens = "2K..5K tokens"\n', ""), "rollout_tokens is missing"),
    "tokens and steps": (PLAN.replace("[rl]\n", '[rl]\ntokens = "1B tokens"\n'), "contradict"),
    "rate without life": (PLAN.replace('tokens = "2B..10B tokens"', 'rate = "1M tokens/s"'), "life is missing"),
    "traffic twice": (
        PLAN.replace("[inference]\n", '[inference]\nrate = "1M tokens/s"\nlife = "1 month"\n'),
        "give tokens",
    ),
    "shares do not add up": (PLAN + "\n[inference.kinds]\noutput = '50%'\ncached = '20%'\n", "100 %"),
    "unknown kind": (PLAN + "\n[inference.kinds]\noutputs = '1B tokens'\n", "output"),
    "skip and more": (PLAN.replace("[pretraining]\n", "[pretraining]\ngpus = 8\n"), "skip stands alone"),
    "balanced with nothing": (PLAN.replace("steps = 500", 'tokens = "balanced"'), "needs a [pretraining]"),
    "experiments empty": (PLAN.replace('gpu_hours = "500..2000 GPU-hours"\n', ""), "is missing"),
    "unknown factor": (PLAN + "\n[efficiency]\nexpert_inbalance = 1.0\n", "expert_imbalance"),
    "batch does not fit": (PLAN.replace("[inference]\n", "[inference]\nbatch = 64000\n"), "does not fit"),
}


@pytest.mark.parametrize("case", BAD_PLANS)
def test_bad_plan_is_one_line_and_nothing_is_written(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, names = BAD_PLANS[case]
    plan = tmp_path / "plan.toml"
    plan.write_text(text, "utf-8")
    code, out, err = run(capsys, "plan", str(plan), "--html", str(tmp_path / "report.html"))
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1
    assert names in err
    assert [file.name for file in tmp_path.iterdir()] == ["plan.toml"]


BAD_CONFIGS = {
    "truncated JSON": ('{"model_type": "llama", "hidden_size": 40', "config.json"),
    "unknown architecture": ('{"model_type": "perceiver", "hidden_size": 8}', "perceiver"),
    "not an object": ("[1, 2]", "config.json"),
    "empty": ("", "config.json"),
    "nested brackets": ("[" * 200_000, "nested too deeply"),
    "nested field": ('{"model_type": ' + "[" * 200_000, "nested too deeply"),
    "too many digits": ('{"model_type": "llama", "hidden_size": ' + "9" * LONG + "}", "too many digits"),
    "many digits": ('{"model_type": "llama", "hidden_size": ' + "9" * 30 + "}", "too many digits"),
}


@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_bad_model_file_is_one_line(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, names = BAD_CONFIGS[case]
    config = tmp_path / "config.json"
    config.write_text(text, "utf-8")
    code, out, err = run(capsys, "facts", "model", str(config))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert names in err


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *(("plan", name) for name in ("pipe", "plan.toml", "x" * 300, "folder")),
        *(("claims", name) for name in ("pipe", "x" * 300, "folder")),
    ],
)
def test_a_report_replaces_nothing_but_a_report(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN, "utf-8")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    arguments = ("plan", str(plan), "--samples", "16") if command == "plan" else ("claims",)
    code, out, err = run(capsys, *arguments, "--html", str(tmp_path / name))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert (tmp_path / "pipe").is_fifo()
    assert plan.read_text("utf-8") == PLAN
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "pipe", "plan.toml"]


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("route FILE", "money/route-support.toml"),
        ("invert FILE --samples 1000", "money/price-sheet.toml"),
        ("prices show FILE", "money/price-sheet.toml"),
        ("simulate rl FILE --steps 1", "small-team-rl.toml"),
        ("cost --system FILE --samples 16", "systems/h100-nvl4.toml"),
    ],
)
def test_no_command_writes_over_a_file_that_it_read(
    command: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / Path(file).name
    own.write_bytes((EXAMPLES / file).read_bytes())
    other = tmp_path / "same.html"
    other.symlink_to(own)
    for target in (own, other):
        code, out, err = run(capsys, *command.replace("FILE", str(own)).split(), "--html", str(target))
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert "is a file that was read" in err
    assert own.read_bytes() == (EXAMPLES / file).read_bytes()


def test_a_report_replaces_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.html"
    report.write_text("old", "utf-8")
    plan = str(EXAMPLES / "small-team-rl.toml")
    code, _, err = run(capsys, "plan", plan, "--samples", "16", "--html", str(report))
    assert (code, err) == (0, "")
    assert report.read_text("utf-8").startswith("<!")
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("group", [(), ("facts",)])
def test_a_group_alone_prints_its_help(group: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, *group) == run(capsys, *group, "--help")


def test_plan_contract(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "plan", str(EXAMPLES / "deepseek-v3.toml"))
    assert list(document["phases"]) == ["pretraining", "rl", "inference"]
    for phase in document["phases"].values():
        assert {"tokens", "flop", "gpu_hours", "utilization_fraction", "usd", "energy_j"} <= set(phase)
    assert {"total", "balance", "drivers", "editions"} <= set(document)
    uncertain = document["total"]["gpu_hours"]
    assert set(uncertain) == {"p05", "p10", "p50", "p90", "p95", "unit"}
    assert uncertain["p05"] < uncertain["p50"] < uncertain["p95"]


def test_published_figures_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek-V3's report: 2.664M H800 GPU-hours, $5.328M at $2 (table 1); 6 x 37B x 14.8T = 3.29e24 within 3 %."""
    phase = answer(capsys, "plan", str(EXAMPLES / "deepseek-v3.toml"))["phases"]["pretraining"]
    assert point(phase["gpu_hours"]) == pytest.approx(2.664e6)
    assert point(phase["usd"]) == pytest.approx(5.328e6)
    assert point(phase["flop"]) == pytest.approx(6 * 37e9 * 14.8e12, rel=0.03)


def test_published_systems_run_as_stated(capsys: pytest.CaptureFixture[str]) -> None:
    """With what the sources state, DeepSeek-V3 fits and takes the published GPU-hours; 405B fits into 80 GB."""
    phase = answer(capsys, "plan", str(EXAMPLES / "deepseek-v3.toml"), "--samples", "256")["phases"]["pretraining"]
    assert phase["choices"]["layout"] == (
        "tp1-pp16-dp128-ep64, microbatch 1, recompute layernorm,mla_up_proj,moe_act (plan)"
    )
    modelled = phase["details"]["modelled_gpu_hours"]
    assert modelled["p05"] < 2.664e6 < modelled["p95"]
    assert point(modelled) == pytest.approx(2.664e6, rel=0.15)
    phase = answer(capsys, "plan", str(EXAMPLES / "llama-3.1-405b.toml"), "--samples", "256")["phases"]["pretraining"]
    assert "tight" not in phase["choices"]["layout"], "the driver of an H100 reports 85.0 GB"


@pytest.mark.parametrize("name", ["llama-3.1-405b", "frontier-fermi", "small-team-rl", "rl-heavy"])
def test_shipped_plans_run_from_anywhere(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = answer(capsys, "plan", str(EXAMPLES / f"{name}.toml"), "--samples", "256")
    assert point(document["total"]["gpu_hours"]) > 0
    for currency in ("flop", "gpu_time"):
        assert sum(point(share) for share in document["shares"][currency].values()) == pytest.approx(1, abs=0.05)


def test_same_seed_same_answer(capsys: pytest.CaptureFixture[str]) -> None:
    plan = ("plan", str(EXAMPLES / "small-team-rl.toml"), "--samples", "128")
    assert answer(capsys, *plan) == answer(capsys, *plan)
    assert answer(capsys, *plan) != answer(capsys, *plan, "--seed", "1")


def test_serve_contract(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, *SERVE, "--batch", "32", "--layout", "tp1")
    keys = {
        "ttft_s",
        "tpot_s",
        "output_tokens_per_s_per_user",
        "output_tokens_per_s_per_gpu",
        "usd_per_mtok_input",
        "usd_per_mtok_cached_read",
        "usd_per_mtok_output",
        "bound",
        "components",
        "memory_bytes",
    }
    assert keys <= set(document)
    assert document["bound"] in {"compute", "memory", "network", "overhead"}
    for name in ("tpot_s", "ttft_s"):
        assert point(document["physical_limit"][name]) < document[name]["p05"], name
    shares = [one["share_fraction"] for one in document["components"]["decode"]]
    assert sum(shares) == pytest.approx(1, abs=1e-6)


def test_serve_searches_and_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    searched = answer(capsys, *SERVE, "--tpot", "20ms")
    assert point(searched["tpot_s"]) <= 0.0201
    assert len(searched["pareto"]) > 3
    fleet = answer(capsys, *SERVE, "--requests-per-s", "50", "--ttft", "2s", "--tpot", "30ms")["fleet"]
    assert fleet["n_gpus"] == fleet["n_replicas"] * fleet["replica"]["n_gpus"]


def test_stated_options_hold_in_a_search(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, *PRETRAIN, "--recompute", "full", "--microbatch-sequences", "2")
    assert (document["recompute"], document["microbatch_sequences"]) == ("full", 2)
    soon = answer(capsys, *SERVE, "--ttft", "150ms", "--input-tokens", "8192")
    assert point(soon["ttft_s"]) <= 0.16


def test_the_chosen_layout_is_the_cheapest_per_request(capsys: pytest.CaptureFixture[str]) -> None:
    """Long prompts, short answers: prefill is most of the cost, so decode alone must not choose."""
    document = answer(capsys, *SERVE, "--input-tokens", "8000", "--output-tokens", "50", "--tpot", "30ms")
    costs = [
        8000 * one["usd_per_mtok_input"] + 50 * one["usd_per_mtok_output"]
        for one in document["pareto"]
        if one["tpot_s"] <= 0.03
    ]
    chosen = next(
        one for one in document["pareto"] if (one["layout"], one["batch"]) == (document["layout"], document["batch"])
    )
    assert 8000 * chosen["usd_per_mtok_input"] + 50 * chosen["usd_per_mtok_output"] == pytest.approx(min(costs))


def test_pretrain_contract(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, *PRETRAIN, "--tokens", "1T tokens")
    assert sum(point(part) for part in document["components"].values()) == pytest.approx(
        point(document["step_s"]), rel=0.02
    )
    assert point(document["hfu_fraction"]) >= point(document["mfu_fraction"])
    assert document["fits"]
    assert len(document["best_layouts"]) == 10


def test_facts_model_contract(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "facts", "model", "deepseek-v3")
    assert document["kv_bytes_per_token"] == 70272
    assert document["n_params_total"] == pytest.approx(671e9, rel=0.01)
    assert {"n_params_active", "n_params_active_with_embeddings", "attention", "experts"} <= set(document)


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", str(EXAMPLES / "small-team-rl.toml"), "--working"),
        (*SERVE, "--batch", "8", "--working"),
        PRETRAIN,
        ("facts", "model", "deepseek-v3"),
        ("facts", "show", "h100-sxm5-80gb"),
        ("facts", "search", "gb200 bandwidth"),
    ],
)
def test_tables_print(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) > 5
    assert not re.search(r"\bnan\b|\binf\b|None", out)


def test_cite_names_what_a_plan_used(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "cite", str(EXAMPLES / "small-team-rl.toml"))
    assert document["keys"]
    assert document["bibtex"].count("@misc{") == len(document["keys"])


def test_plan_schema_accepts_the_shipped_plans(capsys: pytest.CaptureFixture[str]) -> None:
    import tomllib

    import jsonschema

    code, out, _ = run(capsys, "plan", "--schema")
    assert code == 0
    plans = [file for file in EXAMPLES.glob("*.toml") if file.name != "offers.toml"]  # that one is of `compare`
    assert plans
    for file in plans:
        jsonschema.validate(tomllib.loads(file.read_text("utf-8")), json.loads(out))


def test_a_switch_of_a_plan_takes_true_and_false() -> None:
    from computeledger.economics.plan.keys import SECTIONS, read_key

    for key, given in itertools.product(("partial_rollouts", "in_flight"), (True, False)):
        assert read_key(SECTIONS["rl"][key], given, f"{key} =") == ("yes" if given else "no")


def test_help_and_module_run() -> None:
    done = subprocess.run([sys.executable, "-m", "computeledger", "--help"], capture_output=True, text=True, check=True)
    for command in ("plan", "serve", "pretrain", "facts", "cite"):
        assert command in done.stdout


def test_commands_stand_in_the_sections_of_the_app() -> None:
    from computeledger.interfaces.web.pages import PAGES

    section = {name: title for title, homes in SECTIONS.items() for name in homes}
    pages = {"life": "plan"}
    shared = {pages.get(page.name, page.name): page.section for page in PAGES}
    assert len(shared.keys() & section.keys()) > 10
    assert [name for name, title in shared.items() if section.get(name, title) != title] == []


def test_the_help_of_a_command_says_first_what_is_needed_then_each_group_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from computeledger.fields import fields_of
    from computeledger.workloads.questions.serve import ServeQuestion

    code, out, _ = run(capsys, "serve", "--help")
    heads = [line.removesuffix(":") for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert code == 0 and heads[:5] == ["Needed", "What", "How", "Load", "Promise"] and heads[-1] == "Options"
    assert {*heads} == {one.group for one in fields_of(ServeQuestion).values() if one.group} | {"Needed", "Options"}
    assert len(heads) == len({*heads})
    needed = out.partition("Needed:")[2].partition("What:")[0]
    assert "--model" in needed and "--system" in needed and "--gpus" not in needed
