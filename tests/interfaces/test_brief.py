"""``--brief``: one line for scripts, of every command that answers a question."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import click
import pytest

from computeledger.interfaces.cli import cli

#: Commands that print no answer: they write entries or files, or serve the app.
_NO_ANSWERS = {"books add", "books export", "cite", "completion", "man", "mcp", "web"}


def _commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


def test_every_command_that_answers_takes_it() -> None:
    lacking = {
        name
        for name, command in _commands(cli)
        if not any(isinstance(one, click.Option) and "--brief" in one.opts for one in command.params)
    }
    assert lacking == _NO_ANSWERS


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "serve --model llama-3.1-8b --system h100-nvl8 --layout tp1 --batch 16 --samples 64",
            r"\$\S+/Mtok \(\$\S+ to \$\S+/Mtok\)  Output cost, .*Llama-3.1-8B on h100-nvl8, tp1.*",
        ),
        ("pretrain --model llama-3.1-8b --system h100-nvl8 --layout dp64 --samples 64",
         r"\S+ days \(\S+ to \S+ days\)  Takes, failures included, .*Llama-3.1-8B on 64 GPUs of h100-nvl8"),
        ("frontier forecast 1e28 --by 2028-12-31",
         r"\d{4}-\d\d-\d\d \(\d{4}-\d\d-\d\d to \d{4}-\d\d-\d\d\)  Median date, A run of .*"),
        ("route examples/money/route-support.toml",
         r"\$0\.541  A completed task costs, the large model alone, of \d+ policies compared"),
        ("facts diff 2025-03 2026-11", r"2025-03 and 2026-11: \d+ facts differ, \d+ are equal"),
        ("facts show h200-sxm5-141gb", r"NVIDIA H200 SXM5 141GB: \d+ facts with their sources"),
    ],
)  # fmt: skip
def test_one_line_and_nothing_else(line: str, said: str, computeledger: Any) -> None:
    ended = computeledger(*shlex.split(line), "--brief")
    assert ended.returncode == 0, ended.stderr
    assert re.fullmatch(f"{said}\n", ended.stdout), ended.stdout


@pytest.mark.parametrize("other", ["--json", "--working", "--emit vllm"])
def test_it_is_refused_beside_what_prints_more(other: str, computeledger: Any) -> None:
    asked = "serve --model llama-3.1-8b --system h100-nvl8 --layout tp1 --batch 16"
    ended = computeledger(*shlex.split(f"{asked} {other} --brief"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"computeledger: --brief prints one line: give it without {other.split(maxsplit=1)[0]}\n"
