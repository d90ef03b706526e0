"""Real programs, accepted and wrong: written by hand, and their mutants, whose verdicts a bare run tells."""

from __future__ import annotations

import ast
import copy
import itertools
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rntp.verify.programs import same_output


@dataclass(frozen=True)
class Problem:
    """A problem: inputs, a reference program, and programs that look right and are not."""

    name: str
    inputs: tuple[str, ...]
    reference: str
    wrong: tuple[str, ...]
    cpp: str = ""
    wrong_cpp: str = ""


HEAD = "#include <bits/stdc++.h>\nusing namespace std;\n"

_FILE = Path(__file__).with_suffix(".toml")
PROBLEMS = tuple(
    Problem(**{**one, "inputs": tuple(one["inputs"]), "wrong": tuple(one["wrong"])})
    for one in tomllib.loads(_FILE.read_text("utf-8"))["problem"]
)

_PAIRS = (
    (ast.Add, ast.Sub), (ast.Mult, ast.Add), (ast.FloorDiv, ast.Mult), (ast.Mod, ast.FloorDiv), (ast.Lt, ast.LtE),
    (ast.LtE, ast.Lt), (ast.Gt, ast.GtE), (ast.GtE, ast.Gt), (ast.Eq, ast.NotEq), (ast.NotEq, ast.Eq),
    (ast.And, ast.Or),
    (ast.Or, ast.And), (ast.Sub, ast.Add),
)  # fmt: skip
_SWAPS: dict[type[ast.AST], type[ast.AST]] = dict(_PAIRS)


def mutants(source: str) -> Iterator[str]:
    """Every program that differs in one operator, comparison or small number."""
    tree = ast.parse(source)
    for (place, node), step in itertools.product(enumerate(ast.walk(tree)), (1, -1)):
        changed = copy.deepcopy(tree)
        twin: Any = list(ast.walk(changed))[place]
        if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _SWAPS:
            twin.op = _SWAPS[type(node.op)]()
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
            twin.ops[0] = _SWAPS[type(node.ops[0])]()
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            twin.value = node.value + step
        else:
            continue
        if step == -1 and not isinstance(node, ast.Constant):
            continue
        yield ast.unparse(changed)


def bare(source: str, stdin: str) -> tuple[str, str]:
    """What a plain run of a program prints and how it ends: ok, error, or timeout after two processor seconds."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (2, 2)); exec({!r}, {{'__name__': '__main__'}})"
    line = [sys.executable, "-I", "-S", "-c", limit.format(source)]
    done = subprocess.run(line, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return "", "timeout"
    return done.stdout, "ok" if done.returncode == 0 else "error"


def bare_status(source: str, tests: list[tuple[str, str]]) -> tuple[float, str]:
    """Score and status that plain runs give a program."""
    statuses = []
    for stdin, expected in tests:
        printed, ended = bare(source, stdin)
        good = "correct" if same_output(expected, printed) else "wrong"
        statuses.append({"timeout": "timeout", "error": "runtime_error"}.get(ended, good))
    first = next((status for status in statuses if status != "correct"), "correct")
    return statuses.count("correct") / len(statuses), first


def cases_of(problem: Problem) -> list[tuple[str, str]]:
    """Inputs, with what the reference prints."""
    return [(stdin, bare(problem.reference, stdin)[0]) for stdin in problem.inputs]
