"""The benchmarks start: each answers --help as a script of its folder, which then comes first among the imports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gates import ROOT

FOLDER = ROOT / "benchmarks"
SCRIPTS = sorted(FOLDER.glob("*.py"))

#: Runs each file named as ``python FILE --help`` does, one after the other: the slow imports are shared.
ASKED_FOR_HELP = """
import runpy, sys
folder, *files = sys.argv[1:]
sys.path[0] = folder
for file in files:
    sys.argv = [file, "--help"]
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as stop:
        assert not stop.code, (file, stop.code)
    else:
        raise AssertionError(f"{file} does not answer --help")
"""

#: The smallest settings of those that need neither another tool nor tables of measurements.
SMALLEST = (
    "invert.py --samples 2000",
    "invert_coverage.py --sheets 1 --samples 2000",
    "invert_coverage.py --made-up --sheets 1 --samples 2000",
    "money.py --repeats 1",
    "readers.py --megabytes 1",
    "recording.py --steps 3 --rounds 1",
    "rl_on_text.py --steps 3",
    "round_trip.py recipes/tiny_math/config.toml --runs 2 --steps 2",
    "simulate.py --requests 2000",
    "simulate.py --requests 2000 --kind rl",
    "sweep.py --evaluations 1000",
    "training_search.py --rounds 1",
    "verify.py --json --seconds 0.3",
    "web.py --moves 8 --rounds 1 --questions 4",
)


def test_every_benchmark_answers_help() -> None:
    line = [sys.executable, "-c", ASKED_FOR_HELP, str(FOLDER), *map(str, SCRIPTS)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: ") == len(SCRIPTS)


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
