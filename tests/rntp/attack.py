"""Runs the attacks of benchmarks/attacks.toml, and says whether each was contained and the machine left as it was."""

from __future__ import annotations

import os
import socket
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rntp.verify.cgroup import find_hierarchy
from rntp.verify.engine import Engine
from rntp.verify.task import Task, read_task
from tests.gates import ROOT

ATTACKS: list[dict[str, Any]] = tomllib.loads((ROOT / "benchmarks" / "attacks.toml").read_text("utf-8"))["attack"]
LIMITS = {"wall_s": 1.0, "cpu_s": 1.0, "memory_bytes": 134217728, "tmp_bytes": 33554432, "output_bytes": 1048576}
HONEST = """
import os
processes = [name for name in os.listdir("/proc") if name.isdigit()]
left = os.listdir("/tmp") + os.listxattr("/tmp")
open("/tmp/own", "w").write("own")
readable = open("/tmp/own").read() == "own"
print("held" if not left and readable and len(processes) <= 3 else (left, readable, processes))
"""
PYTEST = """
import pytest
from unittest.mock import Mock
from solution import f

def test_sum():
    assert f(1, 2) == 3

def test_lent_things():
    assert f((one for one in (1, 2)), 3) == 6
    asked = Mock(return_value=1)
    f(asked, 2)
    asked.assert_called_once_with(17)

def test_refusal():
    with pytest.raises(TypeError):
        f(1, "a")
    with pytest.raises(TypeError):
        f("a", 1)
    with pytest.raises(ZeroDivisionError):
        1 / f(1, -1) if f(1, -1) == 0 else f(None, None)
    with pytest.raises(ValueError):
        f(1, 1)
"""
EXPECTED: dict[str, dict[str, Any]] = {
    "stdout": {"tests": [{"stdin": "", "stdout": "held"}]},
    "function": {"function": "f", "cases": [{"args": [1, 2], "expected": 3}, {"args": [2, 2], "expected": 4}]},
    "pytest": {"pytest": PYTEST},
}


@dataclass(frozen=True)
class Outside:
    """What an attack aims at."""

    canary: Path
    port: int


@contextmanager
def outside(folder: Path) -> Iterator[Outside]:
    """A file and a listening port."""
    canary = folder / "canary.txt"
    canary.write_text("untouched", "utf-8")
    canary.chmod(0o666)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Outside(canary, server.getsockname()[1])


def task_of(attack: dict[str, Any]) -> Task:
    """The task that an attack is judged by."""
    kind = attack.get("kind", "stdout")
    wall = {**LIMITS, "wall_s": 20.0, "cpu_s": 10.0} if kind == "pytest" else LIMITS
    document = {"id": attack["name"], "domain": "code", "limits": wall, **EXPECTED[kind]}
    return read_task({**document, "language": attack.get("language", "python")})


def footprint() -> tuple[int, int, int, int]:
    """Processes of ours, control groups of ours, mounts, and files in the temporary folder."""
    processes = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line, group = (entry / "cmdline").read_bytes(), os.getpgid(int(entry.name))
            except OSError:
                continue
            # launchers and the outer half of bubblewrap stay in our process group; a job left over keeps its group
            ours = any(name in line for name in (b"bwrap", b"launcher.py", b"zygote.py"))
            processes += ours and group == os.getpgrp()
    hierarchy = find_hierarchy()
    folders = set(hierarchy.folders.values()) if hierarchy else set()
    groups = sum(1 for folder in folders for _ in folder.glob(f"rntp-{os.getpid()}-*"))
    mounts = len(Path("/proc/self/mountinfo").read_text("utf-8").splitlines())
    return processes, groups, mounts, sum(1 for _ in Path("/tmp").glob("rntp*"))


def attempt(engine: Engine, attack: dict[str, Any], aim: Outside) -> str:
    """What went wrong, or nothing."""
    source = attack["source"].replace("CANARY", str(aim.canary)).replace("PORT", str(aim.port))
    made = engine.verify(task_of(attack), source.replace("PID", str(os.getpid())))
    if made.status not in attack["status"] or "ESCAPED" in made.detail:
        return f"{attack['name']}: {made.status}: {made.detail}"
    if made.status != "correct" and made.score == 1.0:
        return f"{attack['name']}: scored {made.score}"
    if aim.canary.read_text("utf-8") != "untouched":
        return f"{attack['name']}: wrote to the host"
    return ""


def honest(engine: Engine) -> str:
    """What an honest job finds wrong after an attack, or nothing."""
    made = engine.verify(task_of({"name": "honest"}), HONEST)
    return "" if made.status == "correct" else f"the next job: {made.status}: {made.detail}"
