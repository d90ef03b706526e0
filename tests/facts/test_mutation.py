"""A shipped number that is off by a tenth is noticed: by the checks in memory, and by the suite on changed files.

The checks judge every fact in both directions, and twenty facts drawn with each of several seeds. The stress case
writes the change into a copy of the package and runs the suite on it, as somebody would who mistyped a file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from tests.facts import checks
from tests.gates import ROOT, SOURCE

SAMPLE = 20
WANTED = 15
SEEDS = range(12)
Item = TypeVar("Item")
DATA = Path("computeledger/facts/data")
FACT = re.compile(
    r'^(?P<before>"?[\w.-]+"? = \{ value = )(?P<value>[\d._e+-]+)(?P<after>, unit = .*source = .*)$', re.MULTILINE
)


def noticed(key: str, factor: float) -> bool:
    """Whether any check finds the change of one fact."""
    facts = checks.changed(checks.shipped_facts(), key, factor)
    return any(check(facts) for check in checks.CHECKS)


def chosen(items: Sequence[Item], seed: int) -> list[tuple[Item, float]]:
    """Twenty of the items, each with a factor of 0.9 or 1.1."""
    chance = np.random.default_rng(seed)
    places = chance.choice(len(items), SAMPLE, replace=False)
    return [
        (items[place], float(factor)) for place, factor in zip(places, chance.choice((0.9, 1.1), SAMPLE), strict=True)
    ]


def drawn(seed: int) -> list[tuple[str, float]]:
    """Twenty facts with the direction of their change."""
    return chosen(sorted(checks.shipped_facts()), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_of_twenty_changed_facts_fifteen_are_noticed(seed: int) -> None:
    missed = [key for key, factor in drawn(seed) if not noticed(key, factor)]
    assert SAMPLE - len(missed) >= WANTED, missed


def test_nine_of_ten_facts_are_watched() -> None:
    """The whole population, both ways."""
    facts = checks.shipped_facts()
    missed = [(key, factor) for key in facts for factor in (0.9, 1.1) if not noticed(key, factor)]
    assert len(missed) <= 0.07 * 2 * len(facts), missed


def written_facts(folder: Path) -> list[tuple[Path, re.Match[str]]]:
    """Every line of a data file that is one fact."""
    kinds = ("accelerators", "systems", "prices", "ownership", "tiers", "models")
    paths = sorted(path for kind in kinds for path in (folder / kind).glob("*.toml"))
    return [(path, match) for path in paths for match in FACT.finditer(path.read_text("utf-8"))]


def test_the_lines_that_the_stress_case_changes_are_the_facts() -> None:
    found = written_facts(SOURCE / DATA)
    assert len(found) == len(checks.shipped_facts())


@pytest.mark.stress
@pytest.mark.parametrize("seed", [1, 2])
def test_the_suite_fails_on_changed_files(tmp_path: Path, seed: int) -> None:
    """Twenty copies of the data, one number in each a tenth off: the facts' tests fail on at least fifteen."""
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    missed = []
    for (path, match), factor in chosen(written_facts(tmp_path / "src" / DATA), seed):
        text = path.read_text("utf-8")
        value = float(match["value"].replace("_", "")) * factor
        path.write_text(f"{text[: match.start('value')]}{value:.8g}{text[match.end('value') :]}", "utf-8")
        if suite_passes(tmp_path):
            missed.append(f"{path.name}: {match[0][:60]}")
        path.write_text(text, "utf-8")
    assert suite_passes(tmp_path)
    assert SAMPLE - len(missed) >= WANTED, missed


def suite_passes(folder: Path) -> bool:
    """Run the facts' quick tests on a copy of the package."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/facts"]
    skip = ["--ignore=tests/facts/test_mutation.py"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*command, *skip], cwd=folder, env=environment, capture_output=True, check=False)
    return done.returncode == 0
