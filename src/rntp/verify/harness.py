"""Runs inside a sandbox, beside the program under test, and calls its functions.

What is expected of a function never enters the sandbox: only the arguments do, and the answers are compared outside.
"""

from __future__ import annotations

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


def plain(value: Any) -> Any:
    """What JSON can hold of an answer; anything else becomes text that equals nothing expected.

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
        _answers(work, report)
    except SystemExit:
        os._exit(97)
    except BaseException:  # noqa: BLE001 - the program's own error, told as it would tell it
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
