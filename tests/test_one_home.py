"""One home per assumption, default and formula: a second one fails here."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src"
PACKAGES = ("computeledger",)


def constants(path: Path) -> Iterator[tuple[str, str]]:
    """Public constants of a module with what they are assigned."""
    for node in ast.parse(path.read_text("utf-8")).body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = [name for one in node.targets for name in (one.elts if isinstance(one, ast.Tuple) else [one])]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        for name in targets:
            if isinstance(name, ast.Name) and name.id.isupper() and not name.id.startswith("_"):
                assert isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
                yield name.id, ast.unparse(node.value)


def is_number(text: str) -> bool:
    """Whether an expression is made of numbers alone, and so an assumption."""
    tree = ast.parse(text, mode="eval").body
    nodes = list(ast.walk(tree))
    leaves = [node for node in nodes if isinstance(node, ast.Constant)]
    is_enumeration = any(isinstance(node, ast.Call) and ast.unparse(node.func) == "range" for node in nodes)
    return bool(leaves) and not is_enumeration and all(isinstance(leaf.value, int | float) for leaf in leaves)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_public_constant_has_one_home(package: str) -> None:
    """The same name in two modules is one assumption with two values, or two things that share a name."""
    homes: dict[str, dict[str, str]] = defaultdict(dict)
    for path in sorted((SRC / package).rglob("*.py")):
        for name, value in constants(path):
            homes[name][str(path.relative_to(SRC))] = value
    twice = []
    for name, found in sorted(homes.items()):
        is_assumption = any(is_number(value) for value in found.values())
        is_copied = len(set(found.values())) < len(found)
        if len(found) > 1 and (is_assumption or is_copied):
            twice.append(f"{name}: {', '.join(found)}")
    assert not twice, "\n".join(twice)
