"""Launch output is a shell program: bash parses it, and a stub in the program's place records its arguments."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import computeledger as cl
from computeledger.interfaces.cli import main
from tests.commands import call
from tests.gates import ROOT

DEEPSEEK = ("serve", "--model", "deepseek-v3", "--system", "h200-nvl8", "--layout", "tp8", "--samples", "16")
LLAMA = ("serve", "--model", "llama-3.1-70b", "--system", "h200-nvl8", "--layout", "tp8", "--batch", "8",
         "--samples", "16")  # fmt: skip
DRAFTS = ("--draft-tokens", "3", "--tokens-per-step", "2.5")
PRETRAIN = ("pretrain", "--system", "h100-nvl8", "--samples", "16", "--emit", "megatron")


def printed(arguments: Sequence[str]) -> str:
    """What a command prints."""
    done = call(main, arguments, ROOT)
    assert (done.returncode, done.stderr) == (0, ""), arguments
    return done.stdout


def started(text: str, folder: Path) -> list[list[str]]:
    """Run a text with stubs in place of the programs: name and arguments of each start."""
    parsed = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert (parsed.returncode, parsed.stderr) == (0, ""), text
    for name in ("vllm", "python3", "trtllm-serve", "torchrun"):
        stub = folder / name
        stub.write_text(f'#!/bin/sh\nprintf "%s\\0" {name} "$@" >> "{folder}/argv"\nprintf "\\n" >> "{folder}/argv"\n')
        stub.chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "LAUNCH": "--nproc-per-node 8", "DRAFT_MODEL": "you/a head"}
    done = subprocess.run(
        ["bash", "-eu"], input=text, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), text
    return [line.strip("\0").split("\0") for line in (folder / "argv").read_text("utf-8").splitlines()]


@pytest.mark.parametrize(
    ("arguments", "program", "said"),
    [
        ((*DEEPSEEK, "--batch", "16", *DRAFTS, "--emit", "vllm"), "vllm",
         ["--speculative-config", '{"method":"mtp","num_speculative_tokens":3}']),
        ((*LLAMA, *DRAFTS, "--emit", "vllm"), "vllm",
         ["--speculative-config", '{"method":"eagle3","model":"you/a head","num_speculative_tokens":3}']),
        ((*DEEPSEEK, "--batch", "16", *DRAFTS, "--emit", "sglang"), "python3",
         ["--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3", "--speculative-eagle-topk", "1",
          "--speculative-num-draft-tokens", "4"]),
        ((*LLAMA, *DRAFTS, "--emit", "sglang"), "python3",
         ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "you/a head"]),
        ((*LLAMA, *DRAFTS, "--emit", "trtllm"), "trtllm-serve", ["--config", "serving.yaml"]),
        ((*PRETRAIN, "--model", "llama-3.1-8b", "--gpus", "64"), "torchrun",
         ["--nproc-per-node", "8", "pretrain_gpt.py"]),
        ((*PRETRAIN, "--model", "qwen3-30b-a3b", "--layout", "tp4-pp4-dp4-ep8"), "torchrun", ["--num-experts", "128"]),
        ((*PRETRAIN, "--model", "deepseek-v3", "--layout", "pp16-dp128-ep64", "--precision", "fp8"), "torchrun",
         ["--pipeline-model-parallel-layout"]),
    ],
    ids=lambda value: " ".join(value[2::2][:2]) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_a_launch_starts_what_the_answer_is_of(
    arguments: Sequence[str], program: str, said: list[str], tmp_path: Path
) -> None:
    (argv,) = started(printed(arguments), tmp_path)
    assert argv[0] == program
    place = argv.index(said[0])
    assert argv[place : place + len(said)] == said
    if program == "trtllm-serve":
        file = (tmp_path / "serving.yaml").read_text("utf-8")
        assert "speculative_config:\n  decoding_type: Eagle3\n  max_draft_len: 3\n" in file
        assert "speculative_model: you/a head\n" in file


def test_mtp_in_tensorrt_llm_says_how_older_releases_call_it(tmp_path: Path) -> None:
    """Names as its page on speculative decoding and pull request 12341 have them."""
    text = printed(
        [*DEEPSEEK[:5], "--samples", "16", "--layout", "dp8-ep8", "--batch", "16", *DRAFTS, "--emit", "trtllm"]
    )
    started(text, tmp_path)
    file = (tmp_path / "serving.yaml").read_text("utf-8")
    assert "speculative_config:\n  decoding_type: MTP\n  max_draft_len: 3\n" in file
    assert "speculative_model" not in file
    assert "# TensorRT-LLM before March 2026 calls max_draft_len of MTP num_nextn_predict_layers" in text


def test_two_pools_start_two_servers(tmp_path: Path) -> None:
    text = printed(
        [*DEEPSEEK[:5], "--gpus", "32", "--samples", "16", "--mode", "disaggregated", "--emit", "vllm", *DRAFTS]
    )
    servers = started(text, tmp_path)
    assert [argv[:2] for argv in servers] == [["vllm", "serve"]] * 2
    assert all("--speculative-config" in argv for argv in servers)


def test_a_search_that_misses_its_own_aim_does_not_print_it() -> None:
    asked = ["serve", "--model", "llama-3.1-405b", "--system", "a100-nvl8", "--input-tokens", "64K", "--samples", "16"]
    done = call(main, [*asked, "--json"], ROOT)
    document = json.loads(done.stdout)
    assert document["tpot_s"]["p50"] > 0.05
    assert "slowest_tpot_s_of_the_search" not in document["assumptions"]
    assert "no layout takes 50 ms" in document["assumptions"]["choice_of_the_search"]


def test_without_drafts_nothing_is_said_of_them() -> None:
    assert "spec" not in printed([*LLAMA, "--emit", "vllm"]) and "drafted" not in printed([*LLAMA, "--emit", "vllm"])


def test_a_load_says_how_many_replicas_to_start() -> None:
    text = printed([*DEEPSEEK, "--requests-per-s", "20", "--emit", "vllm"])
    fleet = call(main, [*DEEPSEEK, "--requests-per-s", "20", "--emit", "vllm", "--backend", "vllm", "--json"], ROOT)
    replicas = json.loads(fleet.stdout)["fleet"]["n_replicas"]
    assert replicas > 1
    assert f"# for the load asked about: start {replicas} replicas, {8 * replicas} GPUs in all" in text


def test_half_a_draft_cannot_be_launched() -> None:
    done = call(main, [*LLAMA, "--draft-tokens", "2.5", "--tokens-per-step", "2", "--emit", "vllm"], ROOT)
    assert done.returncode == 2 and "a whole number of tokens" in done.stderr


@pytest.mark.parametrize(
    ("engine", "off"), [("sglang", "--disable-radix-cache"), ("trtllm", "enable_block_reuse: false"),
                        ("vllm", "--no-enable-prefix-caching")],
)  # fmt: skip
def test_a_prefix_cache_is_left_out_only_where_it_was_asked(engine: str, off: str) -> None:
    """No cached prefix in the question is no reason to start an engine without its cache."""
    asked: dict[str, Any] = {"model": "qwen3-8b", "system": "h100-nvl8", "layout": "tp1", "batch": 8, "emit": engine}
    plain, without = (cl.serve(**asked, **more).to_dict()["launch"]["text"] for more in ({}, {"no_prefix_cache": True}))
    assert off not in plain and off in without
