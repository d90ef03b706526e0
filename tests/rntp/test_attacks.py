"""Hostile programs: contained, the machine as it was, the next job clean. A sample here, all in the stress run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from rntp.verify.engine import Engine
from tests.rntp.attack import ATTACKS, Outside, attempt, footprint, honest, outside

#: Fast ones of every kind, each in the mode where it could do more harm.
FRESH = (
    "memory bomb", "fork bomb", "output flood", "error flood", "file descriptor flood", "disk fill with one file",
    "reading host files", "writing outside", "kernel settings", "network over TCP", "nested namespaces", "mounts",
    "system calls that reach beyond", "ptrace of the parent", "a failure of the machine", "a status of its own",
    "leftover background process", "pytest: the judge's builtins through the frame of a generator",
)  # fmt: skip
WARM = (
    "memory bomb", "fork bomb", "disk fill with deep folders", "nested namespaces", "signals to the parent",
    "signals to everybody", "ptrace of the parent", "tricks with /proc", "symbolic links", "os._exit(0)",
    "leftover process that holds the output", "function: forged answers", "looking for the expected output",
    "freedom from the memory killer", "marks on the temporary folder: default access list and attributes",
)  # fmt: skip
NEEDS_COMPILER = {attack["name"] for attack in ATTACKS if attack.get("language") == "cpp"}


@pytest.fixture(scope="module")
def aim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    with outside(tmp_path_factory.mktemp("host")) as found:
        yield found


def named(name: str) -> dict:
    return next(attack for attack in ATTACKS if attack["name"] == name)


@pytest.mark.parametrize("name", FRESH)
def test_contained_in_a_fresh_sandbox(name: str, fresh: Engine, aim: Outside) -> None:
    assert attempt(fresh, named(name), aim) == ""
    assert honest(fresh) == ""


@pytest.mark.parametrize("name", WARM)
def test_contained_in_a_warm_sandbox(name: str, warm: Engine, aim: Outside) -> None:
    assert attempt(warm, named(name), aim) == ""
    assert honest(warm) == ""


def test_nothing_is_left(sandbox_works: None, tmp_path: Path) -> None:
    before = footprint()
    with outside(tmp_path) as aim, Engine("fresh") as one, Engine("warm") as other:
        for engine in (one, other):
            assert attempt(engine, named("leftover background process"), aim) == ""
            assert honest(engine) == ""
        assert footprint()[0] > before[0]
    assert footprint() == before


@pytest.mark.stress
@pytest.mark.parametrize("isolation", ["fresh", "warm"])
def test_every_attack(isolation: str, compiler: None, tmp_path: Path) -> None:
    before = footprint()
    with outside(tmp_path) as aim, Engine(isolation) as engine:
        assert honest(engine) == ""
        found = [problem for attack in ATTACKS for problem in (attempt(engine, attack, aim), honest(engine)) if problem]
    assert found == []
    assert footprint() == before


@pytest.mark.stress
def test_a_thousand_mixed_attacks_leave_nothing(compiler: None, tmp_path: Path) -> None:
    before, chance = footprint(), random.Random(0)  # noqa: S311 - a seeded choice
    quick = [attack for attack in ATTACKS if attack.get("kind") != "pytest" and not attack.get("slow")]
    problems = []
    with outside(tmp_path) as aim, Engine("fresh") as one, Engine("warm") as other:
        for turn in range(1000):
            engine = chance.choice((one, other))
            problems.append(attempt(engine, chance.choice(quick), aim))
            if turn % 10 == 0:
                problems.append(honest(engine))
    assert [problem for problem in problems if problem] == []
    assert footprint() == before
