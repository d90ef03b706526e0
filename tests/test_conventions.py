"""The house rules that a linter does not know, checked on the text and the syntax tree of every file."""

from __future__ import annotations

import ast
import functools
import io
import math
import re
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gates import ROOT, SOURCE, long_cases, module_names, project_files, source_files, units

MAX_FILE_LINES = 600
MAX_BODY_LINES = 60
MAX_PARAMETERS = 6
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BINARY = {".webp", ".png", ".svg", ".ico", ".woff2", ".lock", ".csv", ".parquet", ".gz"}

#: (file, number) -> why a number that looks like a conversion is none
NOT_A_CONVERSION: dict[tuple[str, float], str] = {
    ("src/rntp/verify/launcher.py", 1e9): "runs alone in a sandbox, where units.py is not: the scheduler counts in ns",
    ("src/rntp/verify/zygote.py", 1e9): "the same",
    ("src/rntp/verify/seccomp.py", 2.0**30): "the bit that marks a system call of the x32 interface",
    (
        "src/computeledger/workloads/questions/pretrain.py",
        1e12,
    ): "tokens of a run, a default: questions load no numpy, which units.py does",
}


def where(path: Path, line: int) -> str:
    """Place of a finding, as an editor opens it."""
    return f"{path.relative_to(ROOT)}:{line}"


@functools.cache
def trees() -> list[tuple[Path, ast.Module]]:
    """Syntax tree of every source file."""
    return [(path, ast.parse(path.read_text("utf-8"))) for path in source_files()]


@functools.cache
def nodes(tree: ast.Module) -> list[ast.AST]:
    """Every node of a tree: to walk it takes longer than what is asked of each."""
    return list(ast.walk(tree))


@pytest.fixture(autouse=True, scope="module")
def trees_for_this_file() -> Iterator[None]:
    """What the other files of tests need the memory for."""
    yield
    trees.cache_clear()
    nodes.cache_clear()


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function after its docstring."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Names of a function's parameters."""
    arguments = function.args
    names = [argument.arg for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]
    return [name for name in names if name not in ("self", "cls")]


def takes_options(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether click calls the function: it then has one parameter per option of its command."""
    return path.parent.name == "cli" and bool(function.decorator_list)


def budget_problems(path: Path, tree: ast.Module) -> Iterator[str]:
    """Files, functions and parameter lists over budget."""
    length = len(path.read_text("utf-8").splitlines())
    if length > MAX_FILE_LINES:
        yield f"{where(path, 1)} has {length} lines, at most {MAX_FILE_LINES}"
    for node in nodes(tree):
        if not isinstance(node, FUNCTIONS):
            continue
        if (lines := body_lines(node)) > MAX_BODY_LINES:
            yield f"{where(path, node.lineno)} {node.name} has a body of {lines} lines, at most {MAX_BODY_LINES}"
        if (count := len(parameters(node))) > MAX_PARAMETERS and not takes_options(path, node):
            yield f"{where(path, node.lineno)} {node.name} takes {count} parameters, at most {MAX_PARAMETERS}"


def safety_problems(path: Path, tree: ast.Module) -> Iterator[str]:
    """Asserts on input, swallowed errors, records that can change."""
    for node in nodes(tree):
        if isinstance(node, ast.Assert):
            yield f"{where(path, node.lineno)} asserts: raise an error of computeledger.errors"
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
            )
            silent = all(isinstance(inner, ast.Pass | ast.Continue) for inner in node.body)
            if node.type is None or (broad and silent):
                yield f"{where(path, node.lineno)} swallows errors: name the one that is expected"
        if isinstance(node, ast.ClassDef):
            for decorator in node.decorator_list:
                text = ast.unparse(decorator)
                if text.split("(")[0].endswith("dataclass") and "frozen=True" not in text:
                    yield f"{where(path, node.lineno)} {node.name} is a record that can change: frozen=True"


def public_names(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Line, kind and name of everything public that a file defines."""
    for node in nodes(tree):
        if isinstance(node, FUNCTIONS) and not node.name.startswith("_"):
            yield node.lineno, "function", node.name
            yield from ((node.lineno, "parameter", name) for name in parameters(node))
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.lineno, "class", node.name
            for inner in node.body:
                if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                    yield inner.lineno, "field", inner.target.id


def name_problems(path: Path, tree: ast.Module) -> Iterator[str]:
    """Names that the nomenclature does not allow."""
    if path.stem in ("utils", "util", "helpers", "helper", "misc", "common"):
        yield f"{where(path, 1)} is named after nothing: say what is in it"
    for line, kind, name in public_names(tree):
        # compute is a noun in compute_s and compute_optimal_tokens
        # get_command is click's
        if kind == "function" and re.match(r"(get_(?!command$)|calc_|calculate_)|compute_(?!s$|optimal_)", name):
            yield f"{where(path, line)} {name}: name the quantity, not the act"
        if name.startswith("_") or kind not in ("parameter", "field"):
            continue
        if instead := units().refusal(name):
            yield f"{where(path, line)} {name}: not a unit for names; write {instead}"
        for over in units().unknown(name):
            yield f"{where(path, line)} {name}: per_{over} is not in docs/nomenclature.md"


def number(node: ast.expr) -> float | None:
    """Value of a literal number, or of a power of two literals."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, exponent = number(node.left), number(node.right)
        if base in (2.0, 10.0, 1000.0, 1024.0) and exponent is not None:
            return math.pow(base, exponent)
    return None


POWERS = {10.0**power for power in (9, 12, 15, 18)} | {2.0**power for power in (20, 30, 40, 50)}
TIMES = {3600.0, 86400.0, 604800.0, 8760.0, 8766.0, 31536000.0, 31557600.0}
#: harmless by themselves, conversions where they multiply or divide
FACTORS = {1e3, 1e6, 1e-3, 1e-6, 1e-9, 60.0, 24.0, 365.0, 365.25, 730.0, 730.5, 1024.0}


def conversion_problems(path: Path, tree: ast.Module) -> Iterator[str]:
    """Unit conversions written out, which only units.py may hold."""
    if path == SOURCE / "computeledger" / "units.py":
        return
    relative = path.relative_to(ROOT).as_posix()
    found: dict[tuple[int, int], float] = {}
    for node in nodes(tree):
        if isinstance(node, ast.expr) and (value := number(node)) in POWERS | TIMES:
            found[node.lineno, node.col_offset] = value or 0.0
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv):
            for side in (node.left, node.right):
                if (value := number(side)) in FACTORS:
                    found[side.lineno, side.col_offset] = value or 0.0
    for (line, _), value in sorted(found.items()):
        if (relative, value) not in NOT_A_CONVERSION:
            yield f"{where(path, line)} {value:g} converts a unit: name it in units.py"


@pytest.mark.parametrize("check", [budget_problems, safety_problems, name_problems, conversion_problems])
def test_source(check: Callable[[Path, ast.Module], Iterator[str]]) -> None:
    found = [problem for path, tree in trees() for problem in check(path, tree)]
    assert not found, "\n".join(["", *found])


def test_every_exception_to_the_conversions_is_needed() -> None:
    for (name, value), reason in NOT_A_CONVERSION.items():
        assert reason
        tree = ast.parse((ROOT / name).read_text("utf-8"))
        assert value in {number(node) for node in ast.walk(tree) if isinstance(node, ast.expr)}


BAD = """
def get_time(a, b, c, d, e, f, tpot_ms, kv_bytes_per_furlong):
    assert a
    try:
        return b * 1e3 + 2**30 + 3600
    except Exception:
        pass

@dataclass
class Result:
    peak_tflops: float
"""


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (budget_problems, ["get_time takes 8 parameters"]),
        (safety_problems, ["asserts", "can change", "swallows"]),
        (
            name_problems,
            ["get_time: name the quantity", "peak_tflops: not a unit", "per_furlong", "tpot_ms: not a unit"],
        ),
        (conversion_problems, ["1000 converts", "1.07374e+09 converts", "3600 converts"]),
    ],
)
def test_the_gate_sees_what_is_wrong(check: Callable[[Path, ast.Module], Iterator[str]], expected: list[str]) -> None:
    found = list(check(Path(__file__), ast.parse(BAD)))
    for part in expected:
        assert any(part in problem for problem in found), part
    assert len(found) == len(expected)


def lines_with(pattern: re.Pattern[str]) -> Iterator[tuple[Path, int, str]]:
    """Every line of every text file of the project in which a pattern is found."""
    for path in project_files():
        text = "" if path.suffix in BINARY else path.read_text("utf-8")
        if pattern.search(text):
            for number, line in enumerate(text.splitlines(), 1):
                if pattern.search(line):
                    yield path, number, line


def test_no_machine_path_and_no_registry_host() -> None:
    # the names are taken apart so that this file does not hold them
    folders = [f"/{name}/" for name in ("wo" + "rk", "fa" + "rm", "ro" + "ot")]
    hosts = ["py" + "pi[.]org", "python" + "hosted", "registry[.]npm", "deb[.]deb" + "ian", "files[.]python"]
    pattern = re.compile("|".join([*folders, *hosts]))
    assert [where(path, line) for path, line, _ in lines_with(pattern)] == []


def test_every_long_case_is_still_a_case() -> None:
    """A case that was renamed would be run by `make test` again, unseen."""
    gone = []
    for case in long_cases():
        name, test = case.split("::", 1)
        path, function = ROOT / name, test.split("[")[0].rpartition(".")[2]  # of a doctest: its dotted name
        text = path.read_text("utf-8") if path.exists() else ""
        page = re.search(r"-(docs/[\w./-]+\.md)\]$", case)
        if f"def {function}(" not in text or (page and not (ROOT / page[1]).exists()):
            gone.append(case)
    assert len(long_cases()) > 40 and gone == []


def test_nothing_is_left_for_later() -> None:
    marks = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "NotImplemented" + "Error"]) + r")\b")
    skips = re.compile(r"mark\.(sk" + r"ip|xf" + r"ail)\b|assert Tr" + "ue")
    found = [where(path, line) for path, line, _ in lines_with(marks) if path.name != "LICENSE"]
    found += [where(path, line) for path, line, _ in lines_with(skips) if path.suffix == ".py"]
    assert found == []


def imported(tree: ast.Module) -> set[str]:
    """Top-level packages that a file imports."""
    names = [alias.name for node in nodes(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes(tree) if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def one_line_statements(text: str) -> Iterator[int]:
    """Lines on which the formatter is switched off for a statement of one line, or for the rest of the file."""
    begun = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and re.match(r"#\s*fmt:\s*(skip|off)", token.string):
            if "off" in token.string or token.start[0] == begun:
                yield token.start[0]
        elif token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            begun = 0 if token.type == tokenize.NEWLINE else begun
        elif token.type != tokenize.COMMENT:
            begun = begun or token.start[0]


def test_the_formatter_is_switched_off_only_for_statements_of_rows() -> None:
    assert list(one_line_statements("a = [\n    1, 2,\n    3, 4,\n]  # fmt: skip\n")) == []
    assert list(one_line_statements("a = 1\nb = 2  # fmt: skip\n# fmt: off\n")) == [2, 3]
    python = {path: path.read_text("utf-8") for path in project_files() if path.suffix == ".py"}
    switched = {path: text for path, text in python.items() if "fmt:" in text}
    assert [where(path, line) for path, text in switched.items() for line in one_line_statements(text)] == []


def test_the_core_imports_numpy_at_most() -> None:
    # numba makes machine code of long simulations: simulation/compiled.py loads it by name, and only for them
    allowed = {*sys.stdlib_module_names, "numpy", "computeledger"}
    core = [(path, tree) for path, tree in trees() if path.is_relative_to(SOURCE / "computeledger")]
    found = {
        str(path.relative_to(SOURCE)): sorted(extra)
        for path, tree in core
        if "interfaces" not in path.parts and (extra := imported(tree) - allowed)
    }
    # calibrate measures PyTorch itself, and books are a file of DuckDB; each in one function that loads it when called
    assert found == {
        "computeledger/actuals/machine/microbenchmarks.py": ["torch"],
        "computeledger/stores/books/store.py": ["duckdb"],
    }


def test_the_core_contract_lists_every_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    listed = next(contract["source_modules"] for contract in contracts if contract["id"] == "core")
    below = {".".join(name.split(".")[:2]) for name in module_names() if name.count(".") > 0}
    assert sorted(listed) == sorted(below - {"computeledger.interfaces"})


def tree_of_docs() -> dict[str, str]:
    """Path and description of each line of the file tree on the page of the architecture, paths relative to src."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    tree = next((block for block in blocks if re.search(r"^src/", block, re.MULTILINE)), "")
    entries: dict[str, str] = {}
    folders: list[tuple[int, str]] = []
    for line in tree.splitlines():
        drawn = re.match(r"[\s│├└─]*", line)
        indent = drawn.end() if drawn else 0
        name, _, text = line[indent:].partition(" ")
        if not name:
            continue
        folders = [(depth, folder) for depth, folder in folders if depth < indent]
        path = "".join(folder for _, folder in folders) + name
        if name.endswith("/"):
            folders.append((indent, name))
        if path.startswith("src/") and path != "src/":
            entries[path.removeprefix("src/")] = text.strip()
    return entries


def summary(path: Path) -> str:
    """First line of a file's docstring; of a package's, for a folder."""
    file = path / "__init__.py" if path.is_dir() else path
    return (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").partition("\n")[0]


def test_the_tree_shows_every_source_file() -> None:
    listed = tree_of_docs()
    files = {path.relative_to(SOURCE).as_posix() for path in source_files() if path.name != "__init__.py"}
    packages = {f"{path.parent.relative_to(SOURCE).as_posix()}/" for path in SOURCE.rglob("__init__.py")}
    missing = sorted((files | packages) - set(listed))
    assert not missing, "\n".join(
        [
            "not in docs/architecture.md (`make docs-pages` writes the tree):",
            *(f"{name}  {summary(SOURCE / name)}" for name in missing),
        ]
    )
    assert [name for name in listed if not (SOURCE / name).exists()] == []
    assert [name for name, text in listed.items() if not text] == []
