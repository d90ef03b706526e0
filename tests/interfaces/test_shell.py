"""Completion in a shell and the manual page: both out of the commands as they are declared."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import BashComplete

from computeledger.interfaces.cli import COMMANDS, cli


@pytest.mark.parametrize(("shell", "said"), [("bash", "complete -o"), ("zsh", "#compdef"), ("fish", "complete ")])
def test_a_shell_gets_its_script(shell: str, said: str, computeledger: Any) -> None:
    done = computeledger("completion", shell)
    assert done.returncode == 0 and said in done.stdout and "_COMPUTELEDGER_COMPLETE" in done.stdout
    if shutil.which(shell):
        read = subprocess.run([shell, "-n"], input=done.stdout, capture_output=True, text=True, check=False)
        assert (read.returncode, read.stderr) == (0, ""), "the shell reads it"


def test_another_shell_is_refused_in_one_line(computeledger: Any) -> None:
    done = computeledger("completion", "bsh")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "did you mean 'bash'?" in done.stderr


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("computeledger pre", {"pretrain"}),
        ("computeledger facts fre", {"freshness"}),
        ("computeledger man --he", {"--help"}),
    ],
)
def test_what_the_script_asks_for_is_completed(typed: str, offered: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    said = BashComplete(cli, {}, "computeledger", "_COMPUTELEDGER_COMPLETE").complete()
    assert {line.partition(",")[2] for line in said.splitlines()} == offered


def test_the_manual_page_has_every_command_and_man_reads_it(computeledger: Any, tmp_path: Path) -> None:
    page = computeledger("man").stdout
    named = set(re.findall(r"^\.SS computeledger ([\w\\-]+)", page, re.MULTILINE))
    assert named == {one.replace("-", "\\-") for one in COMMANDS}
    assert r".B \-\-older\-than TIME" in page
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    file = tmp_path / "computeledger.1"
    file.write_text(page, "utf-8")
    read = subprocess.run(["man", "--warnings", "-l", str(file)], capture_output=True, text=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")
    text = " ".join(read.stdout.split())
    assert "computeledger facts freshness [OPTIONS]" in text and "EXIT STATUS" in text
