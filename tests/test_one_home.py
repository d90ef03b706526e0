"""One home per assumption, default and formula: a second one fails here."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from computeledger.physics.blackboard.ledgers import PRETRAINING_UTILIZATION_FRACTION
from computeledger.units import parse_quantity
from computeledger.workloads.questions.setup import OF_PEAK

SRC = Path(__file__).resolve().parents[1] / "src"
PACKAGES = ("computeledger", "rntp")
#: Programs inside the sandbox: each starts alone, and what two of them must agree on stands in both.
ALONE = ("harness", "judge_side", "zygote")


def constants(path: Path) -> Iterator[tuple[str, str]]:
    """Public constants of a module with what they are assigned; a module without a line that begins as one has none."""
    text = path.read_text("utf-8")
    for node in ast.parse(text).body if re.search(r"^[(\[]?[A-Z]", text, re.MULTILINE) else ():
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            for one in node.targets:
                names = one.elts if isinstance(one, ast.Tuple) else [one]
                is_row = isinstance(one, ast.Tuple) and isinstance(node.value, ast.Tuple)
                values = node.value.elts if is_row and isinstance(node.value, ast.Tuple) else [node.value] * len(names)
                pairs += zip(names, values, strict=True)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs = [(node.target, node.value)]
        for name, value in pairs:
            if isinstance(name, ast.Name) and name.id.isupper() and not name.id.startswith("_"):
                yield name.id, ast.unparse(value)


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
    for path in sorted(one for one in (SRC / package).rglob("*.py") if one.stem not in ALONE):
        for name, value in constants(path):
            homes[name][str(path.relative_to(SRC))] = value
    twice = []
    for name, found in sorted(homes.items()):
        is_assumption = any(is_number(value) for value in found.values())
        is_copied = len(set(found.values())) < len(found)
        if len(found) > 1 and (is_assumption or is_copied):
            twice.append(f"{name}: {', '.join(found)}")
    assert not twice, "\n".join(twice)


def test_the_commands_state_the_utilization_that_the_physics_assumes() -> None:
    assert parse_quantity(OF_PEAK, "fraction") == PRETRAINING_UTILIZATION_FRACTION


def test_programs_inside_the_sandbox_agree() -> None:
    held = {name: dict(constants(SRC / "rntp" / "verify" / f"{name}.py")) for name in ALONE}
    assert held["harness"]["MARK"] == held["judge_side"]["MARK"]
    assert len({one["SYNTAX"] for one in held.values()}) == 1
