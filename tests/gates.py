"""What the gates read: the tree of files, the package's modules and the units of the nomenclature page."""

from __future__ import annotations

import functools
import importlib.util
import pkgutil
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
NOMENCLATURE = ROOT / "docs" / "nomenclature.md"


def source_files() -> list[Path]:
    """Every Python file under src."""
    return sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)


@functools.cache
def project_files() -> list[Path]:
    """Every file that git tracks or would add; in an unpacked archive, every file but what tools leave behind."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.split("\0")  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        left = re.compile(r"(^|/)(\.[^/]*_?cache|\.venv|__pycache__|dist|build|\.hypothesis)(/|$)")
        listed = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*")]
        listed = [name for name in listed if not left.search(name)]
    return sorted(ROOT / name for name in listed if name and (ROOT / name).is_file())


@functools.cache
def long_cases() -> frozenset[str]:
    """Ids of the cases that only `make stress` runs for the time they take; blocks of pages without their line."""
    listed = (ROOT / "tests" / "long_cases.txt").read_text("utf-8").splitlines()
    return frozenset(line.split(" ", 1)[1] for line in listed if not line.startswith("#"))


def module_names(package: str = "computeledger") -> list[str]:
    """Dotted names of the package's modules, without importing them."""
    folder = SOURCE / package.replace(".", "/")
    names = [package] if (folder / "__init__.py").exists() else []
    for found in pkgutil.iter_modules([str(folder)]):
        name = f"{package}.{found.name}"
        names += module_names(name) if found.ispkg else [name]
    return sorted(name for name in names if not name.endswith("__main__"))


@functools.cache
def docs_module(name: str) -> ModuleType:
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"docs/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one."""
    return re.split(r"^#+ ", text.split(f" {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def _table(text: str, heading: str) -> list[list[str]]:
    """Rows of the table under a heading, cells stripped."""
    lines = [line for line in _section(text, heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@dataclass(frozen=True)
class Units:
    """The units of the nomenclature page."""

    amounts: dict[str, str]
    over: dict[str, str]
    scopes: frozenset[str]
    others: frozenset[str]
    coefficients: frozenset[str]
    refused: dict[str, str]

    def is_unit(self, text: str) -> bool:
        """Whether a bracket holds a unit: ``-``, ``1/s``, an amount, or an amount over others."""
        if text == "-":
            return True
        first, *rest = text.split("/")
        amounts = {*self.amounts.values(), *self.others, *(["1"] if rest else [])} - {"-"}
        return first in amounts and all(part in {*self.over.values(), *self.others, *amounts} - {"1"} for part in rest)

    def ending(self, name: str) -> str | None:
        """Unit that a name ends in; None where it names none."""
        amount, over = self._parts(name)
        if (
            name in self.coefficients
            or amount is None
            or any(part not in self.over and part not in self.scopes for part in over)
        ):
            return None
        return "/".join([self.amounts[amount], *(self.over[part] for part in over if part in self.over)])

    def unknown(self, name: str) -> list[str]:
        """What an amount is counted over that the page does not list."""
        amount, over = self._parts(name)
        return [] if amount is None else [part for part in over if part not in self.over and part not in self.scopes]

    def _parts(self, name: str) -> tuple[str | None, list[str]]:
        # a name may go on after usd_per_mtok: input, output, cached_read, cache_write
        head, *over = re.sub(r"(usd_per_mtok)_\w+$", r"\1", name).split("_per_")
        return max((word for word in self.amounts if re.search(rf"(^|_){word}$", head)), key=len, default=None), over

    def refusal(self, name: str) -> str | None:
        """What to write instead of a unit that a name must not end in."""
        if self.ending(name) is not None:
            return None
        return self.refused.get(name.partition("_per_")[0].rpartition("_")[-1])


@functools.cache
def units() -> Units:
    """Read the nomenclature page."""
    text = NOMENCLATURE.read_text("utf-8")
    code = re.compile(r"`([^`]+)`")
    rows = _table(text, "Not at the end of a name")
    refused = {word: instead for words, instead in rows for word in code.findall(words)}
    return Units(
        amounts={code.findall(row[0])[0]: row[1] for row in _table(text, "Amounts")},
        over={code.findall(row[0])[0]: row[1] for row in _table(text, "Counted over")},
        scopes=frozenset(word for row in _table(text, "Scope") for word in code.findall(row[0])),
        others=frozenset(code.findall(_section(text, "Other units in docstrings"))),
        coefficients=frozenset(code.findall(_section(text, "Coefficients"))),
        refused=refused,
    )
