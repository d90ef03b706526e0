"""Code: programs against standard input and output, function cases and pytest files, in a sandbox.

What is expected is compared outside: a program cannot reach it, however it is written. The score is the share of tests
that pass; the status is that of the first test that does not.
"""

from __future__ import annotations

import ast
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from computeledger.errors import InputError, nearest, shown
from computeledger.units import GIB, MIB
from rntp.verify import harness, zygote
from rntp.verify.bubblewrap import BOX, PACKAGES, TMP
from rntp.verify.extract import program_of
from rntp.verify.limits import Limits
from rntp.verify.sandbox import Job, Outcome
from rntp.verify.task import Task
from rntp.verify.verdict import COMPILE, CORRECT, FORMAT, MEMORY, RUNTIME, TIMEOUT, WRONG, Verdict, verdict

COMPARISONS = ("lines", "tokens", "exact", "numbers")
#: Compiling may take more than running; what the compiler writes is bounded as well.
COMPILING = Limits(wall_s=20.0, cpu_s=10.0, memory_bytes=int(GIB), tmp_bytes=int(256 * MIB), output_bytes=int(64 * MIB))
_CPP = (
    "/usr/bin/g++", "-std=c++20", "-O2", "-pipe", "-x", "c++", f"{BOX}/main.cpp", "-o", f"{TMP}/main",
)  # fmt: skip
_SCRIPT = f'"$@" >&2 && exec cat {TMP}/main'
_JUDGE_PARTS = ("exchange", "judge_side", "lent", "program_side")
#: What judges a pytest file, by its place below the sandbox's folder, and how it begins.
_JUDGE = {
    "rntp/__init__.py": os.devnull,
    "rntp/verify/__init__.py": os.devnull,
    **{f"rntp/verify/{name}.py": str(Path(__file__).with_name(f"{name}.py")) for name in _JUDGE_PARTS},
}
_BEGIN = f"import sys\nsys.path.insert(0, {BOX!r})\nfrom rntp.verify.judge_side import main\nmain()\n"
_ENDINGS = {"timeout": TIMEOUT, "memory": MEMORY, "output": RUNTIME, "signal": RUNTIME}


#: What runs a job: in a fresh sandbox or a warm one.
Runner = Callable[[Job], Outcome]


@dataclass(frozen=True, slots=True)
class Runners:
    """Where programs run."""

    runs: Runner
    fresh: Runner
    packages: Mapping[str, str] = field(default_factory=dict)


def same_output(expected: str, given: str, compare: str = "lines") -> bool:
    r"""Compare what a program printed with what it should have.

    Examples
    --------
    >>> same_output("1 2\n3\n", "1 2 \n3"), same_output("1 2\n3", "1\n2 3"), same_output("1 2\n3", "1\n2 3", "tokens")
    (True, False, True)
    >>> same_output("0.333333", "0.33333333", "numbers")
    True
    """
    if compare == "exact":
        return expected == given
    if compare == "lines":
        return _lines(expected) == _lines(given)
    ours, theirs = expected.split(), given.split()
    if compare == "tokens":
        return ours == theirs
    return len(ours) == len(theirs) and all(a == b or _close(a, b) for a, b in zip(ours, theirs, strict=True))


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _close(expected: str, given: str) -> bool:
    try:
        return math.isclose(float(expected), float(given), rel_tol=1e-6, abs_tol=1e-6)
    except ValueError:
        return False


def same_value(expected: Any, given: Any) -> bool:
    """Compare a function's answer with what JSON says it should be; floats within 1e-9.

    Examples
    --------
    >>> same_value([1, 2.0], [1.0, 2]), same_value([0.3], [0.1 + 0.2]), same_value("1", 1), same_value(1.0, True)
    (True, True, False, False)
    >>> same_value(1.5, 10**400)
    False
    """
    if isinstance(expected, list) and isinstance(given, list):
        return len(expected) == len(given) and all(map(same_value, expected, given))
    if isinstance(expected, dict) and isinstance(given, dict):
        return expected.keys() == given.keys() and all(same_value(expected[key], given[key]) for key in expected)
    if isinstance(expected, float) or isinstance(given, float):
        return _same_number(expected, given)
    return type(expected) is type(given) and bool(expected == given)


def _same_number(expected: Any, given: Any) -> bool:
    """Numbers of which one is a float; truth values are none."""
    if not {type(expected), type(given)} <= {int, float}:
        return False
    try:
        return expected == given or math.isclose(expected, given, rel_tol=1e-9, abs_tol=1e-12)
    except OverflowError:  # a whole number beyond every float
        return False


def check_program(task: Task, completion: str, runners: Runners) -> Verdict:
    """Check the program in a completion.

    Examples
    --------
    >>> check_program(Task("1", "code", {"tests": [{"stdin": "", "stdout": "1"}]}), " ", Runners(None, None)).status
    'format'
    """
    language = task.spec.get("language", "python")
    if language not in ("python", "cpp"):
        message = f"task {shown(task.id)}: language {shown(language)}: {nearest(str(language), ['python', 'cpp'])}"
        raise InputError(message)
    compare = task.spec.get("compare", "lines")
    if compare not in COMPARISONS:
        raise InputError(f"task {shown(task.id)}: compare {shown(compare)}: {nearest(str(compare), COMPARISONS)}")
    kinds: dict[str, Callable[[Task, str, Runners], Verdict]] = {
        "tests": _check_tests, "cases": _check_cases, "pytest": _check_pytest,
    }  # fmt: skip
    given = [key for key in kinds if task.spec.get(key)]
    if len(given) != 1:
        raise InputError(f"task {shown(task.id)}: one of tests, cases and pytest is needed")
    if language == "cpp" and given != ["tests"]:
        raise InputError(f"task {shown(task.id)}: {given[0]} are for python; cpp takes tests")
    source = program_of(completion, language)
    if source is None or not source.strip() or "\0" in source:
        return verdict(0.0, f"no {language} program in the completion", FORMAT)
    return kinds[given[0]](task, source, runners)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _tests(task: Task) -> list[tuple[str, str]]:
    out = []
    for test in _table_list(task, "tests"):
        stdin, stdout = test.get("stdin", ""), test.get("stdout")
        if not isinstance(stdin, str) or not isinstance(stdout, str):
            raise InputError(f'task {shown(task.id)}: a test is {{"stdin": text, "stdout": text}}')
        out.append((stdin, stdout))
    return out


def _table_list(task: Task, key: str) -> list[Mapping[str, Any]]:
    given = task.spec[key]
    if not isinstance(given, list) or not all(isinstance(one, Mapping) for one in given):
        raise InputError(f"task {shown(task.id)}: {key}: a list of tables is needed")
    return given


def _check_tests(task: Task, source: str, runners: Runners) -> Verdict:
    """Programs against standard input and output."""
    tests, program, compiled = _tests(task), _encoded(source), task.spec.get("language") == "cpp"
    if compiled:
        built = _compile(program, runners.fresh)
        if isinstance(built, Verdict):
            return built
        program = built
    place = f"{BOX}/main" if compiled else f"{BOX}/main.py"
    results: list[tuple[str, str]] = []
    for stdin, expected in tests:
        outcome = runners.runs(Job(program, _encoded(stdin), task.limits, compiled=compiled, place=place))
        results.append(_judged(outcome, expected, task.spec.get("compare", "lines")))
        hopeless = results[-1][0] == COMPILE and len(results) == 1
        if hopeless or (results[-1][0] != CORRECT and task.spec.get("stop_early")):
            break
    return _tallied(results, len(tests))


def _judged(outcome: Outcome, expected: str, compare: str) -> tuple[str, str]:
    """Status and reason of one test."""
    if outcome.ended != "exit" or outcome.code != 0:
        return _failed(outcome)
    given = outcome.stdout.decode("utf-8", "replace")
    if same_output(expected, given, compare):
        return CORRECT, ""
    return WRONG, f"expected {shown(expected[:80])}, got {shown(given[:80])}"


def _failed(outcome: Outcome) -> tuple[str, str]:
    """Status and reason of a run that did not end well."""
    last = outcome.stderr.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
    if outcome.ended == "exit" and outcome.code == zygote.SYNTAX:
        return COMPILE, last
    reason = {
        "timeout": f"stopped after {outcome.wall_s:.2f} s, {outcome.cpu_s:.2f} s of processor time",
        "memory": "used more memory than allowed", "output": "printed or wrote more than allowed",
        "signal": f"ended by signal {outcome.code}", "exit": f"exit code {outcome.code}",
    }[outcome.ended]  # fmt: skip
    return _ENDINGS.get(outcome.ended, RUNTIME), f"{reason}: {last}" if last else reason


def _tallied(results: Sequence[tuple[str, str]], n_tests: int) -> Verdict:
    """The share that passed, and the first reason why one did not."""
    passed = sum(status == CORRECT for status, _ in results)
    first = next(((place, *result) for place, result in enumerate(results) if result[0] != CORRECT), None)
    if first is None:
        return verdict(1.0, f"{passed} of {n_tests} tests")
    return verdict(passed / n_tests, f"{passed} of {n_tests} tests; test {first[0] + 1}: {first[2]}", first[1])


def _compile(source: bytes, fresh: Runner) -> bytes | Verdict:
    """Compile once, in a sandbox; the program comes out through its output."""
    line = ("/usr/bin/sh", "-c", _SCRIPT, "sh", *_CPP)
    outcome = fresh(Job(source, limits=COMPILING, command=line, place=f"{BOX}/main.cpp"))
    if outcome.ended == "exit" and outcome.code == 0 and outcome.stdout.startswith(b"\x7fELF"):
        return outcome.stdout
    if b"g++: not found" in outcome.stderr or b"g++: No such file" in outcome.stderr:
        raise InputError("g++ is missing, and C++ programs need it (Debian: apt-get install g++)")
    text = outcome.stderr.decode("utf-8", "replace")
    first = next((line for line in text.splitlines() if "error" in line), text.strip())
    return verdict(0.0, first or _failed(outcome)[1], COMPILE)


def _check_cases(task: Task, source: str, runners: Runners) -> Verdict:
    """A function against cases; one process answers them until one ends it, and another goes on after that one."""
    function, cases = task.spec.get("function"), _table_list(task, "cases")
    if not isinstance(function, str) or not all(part.isidentifier() for part in function.split(".")):
        raise InputError(f"task {shown(task.id)}: function {shown(function)}: the name of a function is needed")
    if not all("expected" in case for case in cases):
        raise InputError(f'task {shown(task.id)}: a case is {{"args": [...], "expected": ...}}')
    program, results = Path(harness.__file__).read_bytes(), list[tuple[str, str]]()
    while len(results) < len(cases):
        left = cases[len(results) :]
        asked = [{key: case[key] for key in ("args", "kwargs") if key in case} for case in left]
        work = {"source": source, "function": function, "cases": asked}
        outcome = runners.runs(Job(program, _encoded(json.dumps(work)), task.limits))
        answers = _reports(outcome)
        results += [_case_judged(case, answer) for case, answer in zip(left, answers, strict=False)]
        if len(answers) < len(left):
            ended = replace(outcome, code=outcome.code or 1) if outcome.ended == "exit" else outcome
            results.append(_failed(ended))
            if not answers and outcome.ended == "exit":
                break  # it never came to a case: nor would it the next time
        if task.spec.get("stop_early") and any(status != CORRECT for status, _ in results):
            break
    return _tallied(results[: len(cases)], len(cases))


def _reports(outcome: Outcome) -> list[dict[str, Any]]:
    """Whole lines that the harness has reported."""
    out: list[dict[str, Any]] = []
    for line in outcome.stdout.decode("utf-8", "replace").split(harness.MARK + "\n")[:-1]:
        try:
            report = json.loads(line)
        except (ValueError, RecursionError):  # no JSON, a number of more digits than Python reads, too deep
            return out
        if not isinstance(report, dict):
            return out
        out.append(report)
    return out


def _case_judged(case: Mapping[str, Any], answer: Mapping[str, Any]) -> tuple[str, str]:
    if "value" not in answer:
        return RUNTIME, f"raised {answer.get('raised')}: {answer.get('message')}"
    if same_value(case["expected"], answer["value"]):
        return CORRECT, ""
    return WRONG, f"expected {str(case['expected'])[:80]}, got {str(answer['value'])[:80]}"


def test_names(source: str) -> list[str]:
    r"""Names of the tests that a pytest file defines, as pytest reports them without parameters.

    Examples
    --------
    >>> test_names("def test_a(): pass\nclass TestB:\n  def test_c(self): pass")
    ['test_a', 'TestB::test_c']
    """
    out = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            out.append(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
            kept = node.name.startswith("Test") or any("TestCase" in ast.unparse(base) for base in node.bases)
            out += [f"{node.name}::{name}" for name in inner if kept and name.startswith("test")]
    return out


def _missing(source: str, folders: Sequence[str]) -> str:
    """The first module that a test file needs and nobody has: the task's fault, for which no program is scored."""
    for node in ast.parse(source).body:
        modules = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module or ""]
        for name in (module.partition(".")[0] for module in modules):
            is_known = name == "solution" or name in sys.stdlib_module_names
            if not is_known and PathFinder.find_spec(name, folders) is None:
                return name
    return ""


def _check_pytest(task: Task, source: str, runners: Runners) -> Verdict:
    """A pytest file that imports ``solution``."""
    tests = task.spec["pytest"]
    if not isinstance(tests, str):
        raise InputError(f"task {shown(task.id)}: pytest: the text of a test file is needed")
    try:
        names = test_names(tests)
    except SyntaxError as error:
        raise InputError(f"task {shown(task.id)}: pytest: line {error.lineno}: {error.msg}") from None
    if not names:
        raise InputError(f"task {shown(task.id)}: pytest: the file defines no test")
    if missing := _missing(tests, list(runners.packages.values())):
        raise InputError(f"task {shown(task.id)}: pytest: the file imports {missing}, which is not installed here")
    work = {"tests": tests, "paths": [place for place in runners.packages if place.startswith(PACKAGES)]}
    files = {f"{BOX}/solution.py": _encoded(source), f"{BOX}/test_solution.py": b""}  # the tests are in no file
    files |= {f"{BOX}/{place}": Path(file).read_bytes() for place, file in _JUDGE.items()}
    limits = replace(task.limits, open_files=max(task.limits.open_files, 64))
    outcome = runners.fresh(Job(_BEGIN.encode(), _encoded(json.dumps(work)), limits, files=files))
    reports = _reports(outcome)
    if outcome.ended != "exit" or outcome.code != 0 or len(reports) != 1:
        ended = replace(outcome, code=outcome.code or 1) if outcome.ended == "exit" else outcome
        return verdict(0.0, *reversed(_failed(ended)))
    return _pytest_judged(names, reports[0]["outcomes"])


def _pytest_judged(names: Sequence[str], outcomes: Mapping[str, Sequence[str]]) -> Verdict:
    runs: dict[str, list[Sequence[str]]] = {name: [] for name in names}
    for name, ended in outcomes.items():
        runs.setdefault(name.split("[", 1)[0], []).append(ended)
    passed = [name for name, ends in runs.items() if ends and all(outcome == "passed" for outcome, _ in ends)]
    if len(passed) == len(runs):
        return verdict(1.0, f"{len(passed)} of {len(runs)} tests")
    first = next(name for name in runs if name not in passed)
    why = next((message for outcome, message in runs[first] if outcome != "passed"), "it did not run")
    return verdict(len(passed) / len(runs), f"{len(passed)} of {len(runs)} tests; {first} did not pass: {why}")


def packages_of(module: str) -> str:
    """Find the folder that a package of this environment is imported from.

    Examples
    --------
    >>> Path(packages_of("rntp"), "rntp").is_dir()
    True
    """
    from importlib.util import find_spec

    spec = find_spec(module) if module not in sys.modules else sys.modules[module].__spec__
    if spec is None or spec.origin is None:
        raise InputError(f"the package {module} is missing: pip install 'computeledger[verify]'")
    origin = Path(spec.origin)
    return str((origin.parents[1] if origin.name == "__init__.py" else origin.parent).resolve())
