"""Code against programs whose verdicts are known: written by hand, or run bare."""

from __future__ import annotations

import pytest

from computeledger.errors import InputError
from rntp.verify.engine import Engine, verify
from rntp.verify.extract import program_of
from rntp.verify.programs import same_output, same_value
from rntp.verify.task import read_task
from rntp.verify.verdict import Verdict
from tests.rntp.corpus import HEAD, PROBLEMS, Problem, bare_status, cases_of, mutants

LIMITS = {"wall_s": 4, "cpu_s": 2}
ADD = {"tests": [{"stdin": "1 2\n", "stdout": "3\n"}, {"stdin": "5 5\n", "stdout": "10\n"}]}
RIGHT = "a, b = map(int, input().split())\nprint(a + b)"


def checked(engine: Engine, spec: dict, text: str) -> Verdict:
    return engine.verify(read_task({"id": "1", "domain": "code", "limits": LIMITS, **spec}), text)


@pytest.mark.parametrize("problem", PROBLEMS[3::5], ids=lambda problem: problem.name)
def test_python_accepted_and_wrong(problem: Problem, warm: Engine) -> None:
    tests = cases_of(problem)
    spec = {"tests": [{"stdin": stdin, "stdout": stdout} for stdin, stdout in tests]}
    assert checked(warm, spec, problem.reference).score == 1.0
    for source in problem.wrong:
        assert checked(warm, spec, source).status != "correct", source


@pytest.mark.stress
@pytest.mark.parametrize("isolation", ["fresh", "warm"])
def test_every_program_is_judged_as_a_bare_run_judges_it(isolation: str, compiler: None) -> None:
    differ, count = [], 0
    with Engine(isolation) as engine:
        for problem in PROBLEMS:
            tests = cases_of(problem)
            spec = {"tests": [{"stdin": stdin, "stdout": stdout} for stdin, stdout in tests]}
            for source in (problem.reference, *problem.wrong, *mutants(problem.reference)):
                made, known = checked(engine, spec, source), bare_status(source, tests)
                if {made.status, known[1]} != {"memory", "timeout"} and (made.score, made.status) != known:
                    differ.append((problem.name, source, made, known))
                count += 1
            for source, good in ((problem.cpp, True), (problem.wrong_cpp, False)):
                if source:
                    made = checked(engine, {**spec, "language": "cpp"}, HEAD + source)
                    assert (made.status == "correct") is good, (problem.name, source, made)
                    count += 1
    assert differ == []
    assert count >= 200


@pytest.mark.parametrize(
    ("text", "status", "score"),
    [
        (f"Here:\n```python\n{RIGHT}\n```\nIt adds.", "correct", 1.0),
        ("print(3)", "wrong", 0.5),
        ("def f(:", "compile_error", 0.0),
        ("raise SystemExit(3)", "runtime_error", 0.0),
        ("a = [0] * 10**12", "memory", 0.0),
        ("while 1: pass", "timeout", 0.0),
        ("```bash\nls\n```", "format", 0.0),
        ("   ", "format", 0.0),
        ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: 'int'\nprint(P(3).x)\nexit()", "wrong", 0.5),
    ],
)
def test_statuses(text: str, status: str, score: float, fresh: Engine) -> None:
    made = checked(fresh, {**ADD, "stop_early": True, "limits": {"wall_s": 2, "cpu_s": 1}}, text)
    assert (made.status, made.score) == (status, score)


def test_cpp(compiler: None, fresh: Engine, warm: Engine) -> None:
    source = '#include <cstdio>\nint main() { int a, b; scanf("%d %d", &a, &b); printf("%d", a + b); }'
    assert checked(fresh, {**ADD, "language": "cpp"}, f"```cpp\n{source}\n```").score == 1.0
    assert checked(warm, {**ADD, "language": "cpp"}, source.replace("a + b", "3")).score == 0.5
    broken = checked(warm, {**ADD, "language": "cpp"}, "int main() { return x; }")
    assert broken.status == "compile_error" and "x" in broken.detail
    assert checked(warm, {**ADD, "language": "cpp"}, "int main() { *(volatile int *)8 = 1; }").status == "runtime_error"


CASES = {
    "function": "f",
    "cases": [
        {"args": [1, 2], "expected": 3},
        {"args": [0, 0], "expected": 0},
        {"kwargs": {"a": 2, "b": 2}, "expected": 4},
    ],
}


@pytest.mark.parametrize(
    ("source", "score", "status"),
    [
        ("def f(a, b): return a + b", 1.0, "correct"),
        ("def f(a, b):\n    print('noise')\n    return a + b", 1.0, "correct"),
        ("def f(a, b): return 3 if a == 1 else a / b", 1 / 3, "runtime_error"),
        ("def f(a, b):\n    import os\n    return a + b if a else os._exit(0)", 2 / 3, "runtime_error"),
        ("def g(a, b): return a + b", 0.0, "runtime_error"),
        ("def f(a, b", 0.0, "compile_error"),
    ],
)
def test_functions(source: str, score: float, status: str, warm: Engine) -> None:
    made = checked(warm, CASES, source)
    assert made.score == pytest.approx(score) and made.status == status, made


def test_pytest_files(fresh: Engine) -> None:
    file = (
        "import pytest\nfrom solution import f\n"
        "@pytest.mark.parametrize('a', [1, 2])\ndef test_a(a): assert f(a, a) == 2 * a\n"
        "def test_b(): assert f(0, 1) == 1\n"
    )
    spec = {"pytest": file, "limits": {"wall_s": 20, "cpu_s": 10}}
    assert checked(fresh, spec, "def f(a, b): return a + b").score == 1.0
    assert checked(fresh, spec, "def f(a, b): return 2 * a").score == 0.5
    assert checked(fresh, spec, "import pytest\ndef f(a, b): return a + b").score == 1.0


@pytest.mark.parametrize(
    ("spec", "part"),
    [
        ({"tests": [], "cases": []}, "one of tests, cases and pytest"),
        ({"tests": [{"stdin": 1}]}, "a test is"),
        ({**ADD, "language": "rust"}, "language 'rust': "),
        ({**ADD, "compare": "line"}, "did you mean 'lines'"),
        ({"cases": [{}], "function": "f"}, "a case is"),
        ({"pytest": "def test_a(:"}, "line 1"),
        ({"pytest": "x = 1"}, "no test"),
        ({"pytest": "import nosuch.part\ndef test_a(): pass"}, "imports nosuch, which is not installed"),
        ({**CASES, "language": "cpp"}, "cpp takes tests"),
    ],
)
def test_bad_tasks_are_refused(spec: dict, part: str) -> None:
    with pytest.raises(InputError, match="task '1': ") as caught:
        verify({"id": "1", "domain": "code", **spec}, "x = 1")
    assert part in str(caught.value)


def test_without_bubblewrap_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with Engine() as engine:
        made = checked(engine, ADD, RIGHT)
    assert made.score is None and made.status == "infrastructure"
    assert "bubblewrap is missing" in made.detail


def test_a_broken_sandbox_is_no_verdict(sandbox_works: None, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n", "utf-8")
    broken.chmod(0o755)
    tmp_path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with Engine() as engine:
        made = checked(engine, ADD, RIGHT)
    assert made.score is None and made.status == "infrastructure", made


def test_the_last_program_in_the_language_counts() -> None:
    text = (
        "<think>```python\nbad\n```</think>\n```python\nfirst\n```\nor better\n```py\nsecond\n```\n```cpp\nint x;\n```"
    )
    assert program_of(text, "python") == "second\n"
    assert program_of(text, "cpp") == "int x;\n"
    assert program_of("```python\ncut off", "python") == "cut off"


def test_outputs_and_values_are_compared_by_what_they_say() -> None:
    assert same_output("a\nb\n", "a \nb\n\n\n") and not same_output("a b", "a  b")
    assert same_output("a b", "a  b", "tokens") and not same_output("a\n", "a", "exact")
    assert same_output("1.0 x", "1.0000001 x", "numbers") and not same_output("1", "1 2", "numbers")
    assert same_value({"a": [1, None]}, {"a": [1, None]}) and not same_value([1], [1, 2]) and not same_value(1, True)
