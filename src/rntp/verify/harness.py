"""Runs inside a sandbox, beside the program under test: calls its functions, or runs a pytest file against it.

What is expected of a function never enters the sandbox: only the arguments do, and the answers are compared outside.
A pytest file does share its interpreter with the program. Its report is believed only where every test that the file
defines has reported, asserts still fail as they should, and what asserts rest on is what it was.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
import types
from typing import Any

#: Ends of a line that are ours and not the program's, so that nothing it prints is taken for one.
MARK = "\x1e"
#: Exit code of a program that cannot be compiled; the same as in zygote.py, which this file cannot import.
SYNTAX = 96


#: Modules that a pytest verdict rests on.
_RESTS_ON = (
    "builtins", "operator", "math", "unittest.case", "_pytest.python_api", "_pytest.raises", "_pytest.runner",
    "_pytest.outcomes", "_pytest.assertion.rewrite", "_pytest.assertion.util", "_pytest.reports", "_pytest.python",
    "_pytest.main", "pluggy._callers", "pluggy._hooks",
)  # fmt: skip


def plain(value: Any) -> Any:
    """What JSON can hold of an answer; anything else becomes text that equals nothing expected.

    Parameters
    ----------
    value : Any
        What a function returned.

    Returns
    -------
    Any
        Sets become sorted lists, tuples lists, other objects a marked text.

    Examples
    --------
    >>> plain({"a": (1, {3, 2})})
    {'a': [1, [2, 3]]}
    """
    kind = type(value)
    if kind in (bool, int, float, str) or value is None:
        return value
    if kind in (list, tuple):
        return [plain(item) for item in value]
    if kind in (set, frozenset):
        return sorted((plain(item) for item in value), key=repr)
    if kind is dict:
        return {key if type(key) is str else repr(key): plain(item) for key, item in value.items()}
    return f"{MARK}{kind.__name__}"


def _module(source: str) -> types.ModuleType:
    module = types.ModuleType("solution")
    module.__file__ = "solution.py"
    sys.modules["solution"] = module
    try:
        code = compile(source, "solution.py", "exec")
    except SyntaxError as error:
        sys.stderr.write(f"{type(error).__name__}: line {error.lineno}: {error.msg}\n")
        sys.stderr.flush()
        os._exit(SYNTAX)
    exec(code, module.__dict__)  # noqa: S102 - the program under test, sandboxed
    return module


def _answers(work: dict[str, Any], report: Any) -> None:
    """Call a function once per case and report each answer as it comes."""
    module = _module(work["source"])
    target: Any = module
    for part in work["function"].split("."):
        target = getattr(target() if isinstance(target, type) else target, part)
    for case in work["cases"]:
        try:
            line = {"value": plain(target(*case.get("args", ()), **case.get("kwargs", {})))}
        except Exception as error:  # noqa: BLE001 - whatever it raises is the answer to this case
            line = {"raised": type(error).__name__, "message": str(error)[:200]}
        report.write(json.dumps(line, default=repr) + MARK + "\n")
        report.flush()


def _foundations() -> dict[str, int]:
    """Identity of what a test's verdict rests on."""
    out = {}
    for name in _RESTS_ON:
        module = sys.modules.get(name)
        for key, value in list(vars(module).items()) if module is not None else ():
            if callable(value):
                out[f"{name}.{key}"] = id(value)
                members = vars(value).items() if isinstance(value, type) else ()
                kinds = (classmethod, staticmethod, property, types.FunctionType)
                out.update({f"{name}.{key}.{inner}": id(one) for inner, one in members if isinstance(one, kinds)})
    return out


def _still_fail() -> bool:
    """Whether asserts fail as they should."""
    import unittest

    import pytest

    case = unittest.TestCase()
    if not (_refuted(lambda: case.assertEqual(1, 2)) and _refuted(lambda: case.assertTrue(0))):  # noqa: PT009
        return False

    def silent() -> None:
        with pytest.raises(ValueError, match="x"):
            pass

    return _refuted(silent) and pytest.approx(1.0) != 2.0


def _refuted(action: Any) -> bool:
    try:
        action()
    except BaseException as error:  # noqa: BLE001 - pytest's own failures are no Exceptions
        return type(error).__name__ in ("AssertionError", "Failed")
    return False


class _Recorder:
    """Outcomes of a pytest run, by test."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the worst of a test's three phases."""
        if report.outcome != "passed" or report.when == "call":
            name = report.nodeid.split("::", 1)[-1]
            if self.outcomes.get(name, "passed") == "passed":
                self.outcomes[name] = report.outcome


def _pytest(work: dict[str, Any], report: Any) -> None:
    """Run a pytest file and report the outcome of each test."""
    sys.path[:0] = work["paths"]
    import pytest

    for name in ("unittest.case", "_pytest.raises"):
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    before, recorder, mark, token = _foundations(), _Recorder(), MARK, work.pop("token")
    dumps, write, flush = json.dumps, report.write, report.flush
    arguments = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:doctest",
        "--rootdir=/box",
        "-c",
        "/dev/null",
        "--noconftest",
    ]
    pytest.main([*arguments, "/box/test_solution.py"], plugins=[recorder])
    after = _foundations()
    changed = sorted(key for key, value in before.items() if after.get(key) != value)
    line = {"token": token, "outcomes": recorder.outcomes, "changed": changed[:5], "sound": _still_fail()}
    write(dumps(line) + mark + "\n")
    flush()


def main() -> None:
    """Read the work from standard input, and report where the program's own output does not go.

    Examples
    --------
    >>> callable(main)
    True
    """
    work = json.loads(sys.stdin.read())
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path.insert(0, "/box")
    try:
        (_pytest if work["kind"] == "pytest" else _answers)(work, report)
    except SystemExit:
        os._exit(97)
    except BaseException:  # noqa: BLE001 - the program's own error, told as it would tell it
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
