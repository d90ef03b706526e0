"""Commands called in the process of the tests: to start Python and load the facts takes longer than most of them."""

from __future__ import annotations

import contextlib
import io
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

Main = Callable[[Sequence[str]], None]


def call(main: Main, arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Exit code and texts of a command in a folder, as a process would leave them."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
    return subprocess.CompletedProcess(list(arguments), code, out.getvalue(), err.getvalue())
