"""The benchmarks start: each answers --help as a script of its folder, which then comes first among the imports."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gates import ROOT

FOLDER = ROOT / "benchmarks"
SCRIPTS = sorted(FOLDER.glob("*.py"))


#: The smallest settings of those that need neither another tool nor tables of measurements.
SMALLEST = (
    "invert.py --samples 2000",
    "invert_coverage.py --sheets 1 --samples 2000",
    "invert_coverage.py --made-up --sheets 1 --samples 2000",
    "money.py --repeats 1",
    "readers.py --megabytes 1",
    "recording.py --steps 3 --rounds 1",
    "rl_memory.py --hidden 32",
    "rl_on_text.py --steps 3",
    "round_trip.py recipes/tiny_math/config.toml --runs 2 --steps 2",
    "simulate.py --requests 2000",
    "simulate.py --requests 2000 --kind rl",
    "sweep.py --evaluations 1000",
    "training_search.py --rounds 1",
    "verify.py --json --seconds 0.3",
    "watch.py --scrapes 4",
    "web.py --moves 8 --rounds 1 --questions 4",
)


def test_every_benchmark_answers_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As ``python FILE --help`` does; what they import is loaded once for all."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    for file in SCRIPTS:
        monkeypatch.setattr(sys, "argv", [str(file), "--help"])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(file), run_name="__main__")
        assert not stopped.value.code, file
    assert capsys.readouterr().out.count("usage: ") == len(SCRIPTS)


def test_no_benchmark_shadows_a_package() -> None:
    packages = {path.name for path in (ROOT / "src").iterdir()} | set(sys.stdlib_module_names)
    assert [path.name for path in SCRIPTS if path.stem in packages] == []


def test_make_bench_runs_what_is_there() -> None:
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\nbench:")[2].partition("\n\n")[0]
    named = re.findall(r"benchmarks/(\w+\.py)", recipe)
    assert len(named) == recipe.count("\n")
    assert set(named) <= {path.name for path in SCRIPTS}


@pytest.mark.stress
@pytest.mark.parametrize("line", SMALLEST)
def test_a_benchmark_runs_to_its_end(line: str, tmp_path: Path) -> None:
    name, *options = line.split()
    with (tmp_path / "printed").open("w+") as printed:
        done = subprocess.run(
            [sys.executable, str(FOLDER / name), *options],
            cwd=ROOT,
            stdout=printed,
            stderr=subprocess.STDOUT,
            check=False,
        )
        printed.seek(0)
        assert done.returncode == 0, printed.read()


def test_every_benchmark_is_tried() -> None:
    elsewhere = {"curate.py": "writes the shipped tables", "peers.py": "installs another tool",
                     "peers_gathered.py": "installs it too", "peers_promise.py": "installs it too",
                 "peers_aiconfigurator.py": "runs inside that tool"}  # fmt: skip
    assert {line.split()[0] for line in SMALLEST} | set(elsewhere) == {path.name for path in SCRIPTS}
