"""A model by its size or by a variant's name, in every command, in a plan and in the app: answered, and said how."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from computeledger.interfaces.cli import main
from computeledger.interfaces.web.answers import Question, answered
from tests.commands import call

PLAN = """
model = "100B-A10B"
system = "h200-nvl8"
price = "$2/h"
[pretraining]
tokens = "10T tokens"
utilization = "40%"
[rl]
skip = "not planned"
[inference]
skip = "not served"
"""
COMMANDS = [
    "serve --model 100B-A10B --system h200-nvl8 --precision fp8 --layout tp8 --batch 8",
    "sweep --model 100B-A10B --system h200-nvl8",
    "pretrain --model 100B-A10B --system h200-nvl8 --layout tp8-dp8",
    "rl --model 100B-A10B --system h200-nvl8 --gpus 64 --rollout-tokens 4K",
    "simulate serve --model 100B-A10B --system h200-nvl8 --layout tp8 --arrivals poisson:1 --requests 50",
    "plan PLAN.toml",
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split(" --")[0])
def test_every_command_takes_a_size_and_says_what_it_assumed(command: str, tmp_path: Path) -> None:
    (tmp_path / "PLAN.toml").write_text(PLAN, "utf-8")
    done = call(main, [*shlex.split(command), "--json"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert [one for one in json.loads(done.stdout)["remarks"] if one.startswith("shape by rule from 100B total")]
    shown = call(main, shlex.split(command), tmp_path)
    assert shown.stdout.count("shape by rule") == 1


def test_a_size_has_no_launch_command(tmp_path: Path) -> None:
    done = call(main, shlex.split("serve --model 70B --system h200-nvl8 --emit vllm"), tmp_path)
    assert done.returncode == 2
    assert done.stderr == "computeledger: --emit vllm: 70B is a size, and no engine can load one: name a checkpoint\n"


def test_a_variants_checkpoint_is_the_one_that_is_launched(tmp_path: Path) -> None:
    done = call(main, shlex.split("serve --model Qwen/Qwen3-14B-AWQ --system h200-nvl8 --emit vllm"), tmp_path)
    assert (done.returncode, "Qwen/Qwen3-14B-AWQ" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("100B-A10B", 200, b"shape by rule from 100B total"),
        ("Qwen/Qwen3-14B-AWQ", 200, b"its own configuration was not read"),
        ("100B-A10B layer=3", 422, b"did you mean 'layers'"),
        ("someone/their-model", 422, b"not one of the choices"),
        ("./config.json", 422, b"not one of the choices"),
    ],
)
def test_the_app_takes_the_same_texts_but_no_files(text: str, status: int, said: bytes, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text("{}", "utf-8")
    reply = answered(Question("view", "serve", (("model", text), ("system", "h200-nvl8"))))
    assert (reply.status, said in reply.body) == (status, True)
