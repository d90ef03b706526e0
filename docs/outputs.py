"""Write below Python blocks and commands of the pages what they print, where a block of text stands there already.

``make docs-pages`` runs this; the tests compare. A new block gets an empty block of text below it first. Below a
command, a text that ends in a line ``...`` keeps its number of lines: the first ones of what is printed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
_BLOCK = re.compile(
    r"(?<!-->\n)^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?", re.DOTALL | re.MULTILINE
)
_COMMAND = re.compile(
    r"^```console\n\$ (?P<line>computeledger [^\n]+)\n```\n\n```text\n(?P<printed>.*?)^```\n", re.DOTALL | re.MULTILINE
)
#: Columns of a terminal that pages show.
COLUMNS = 100
CUT = "..."


def tidy(printed: str) -> str:
    """What was printed, without spaces at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def with_outputs(text: str, name: str) -> str:
    """A page with what its blocks print now; they run in order and share their names."""
    namespace: dict[str, Any] = {"__name__": "__main__"}

    def run(block: re.Match[str]) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block["code"], name, "exec"), namespace)  # noqa: S102 - the project's own pages
        if block["printed"] is None:
            return block[0]
        return f"```python\n{block['code']}```\n\n```text\n{tidy(out.getvalue())}```\n"

    return _BLOCK.sub(run, text)


def excerpt(printed: str, shown: str) -> str:
    """What a page shows of a command's output: all of it, or its first lines as many as were shown before a cut."""
    lines, before = tidy(printed).splitlines(keepends=True), shown.splitlines()
    return "".join([*lines[: len(before) - 1], f"{CUT}\n"] if before[-1:] == [CUT] else lines)


def with_printed(text: str) -> str:
    """A page with what its commands print now on a terminal of :data:`COLUMNS`."""

    def run(block: re.Match[str]) -> str:
        done = subprocess.run(  # noqa: S603 - the project's own pages
            [sys.executable, "-m", *shlex.split(block["line"])], stdout=subprocess.PIPE, text=True, check=True
        )
        return f"```console\n$ {block['line']}\n```\n\n```text\n{excerpt(done.stdout, block['printed'])}```\n"

    return _COMMAND.sub(run, text)


def main() -> None:
    """Write every page that shows what is printed, or those named; blocks run in a copy of the root by links."""
    every = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
    pages = [Path(name).resolve() for name in sys.argv[1:]] or every
    with tempfile.TemporaryDirectory() as folder:
        for one in DOCS.parent.iterdir():
            if not one.name.startswith("."):
                Path(folder, one.name).symlink_to(one)
        os.chdir(folder)
        os.environ["COLUMNS"] = str(COLUMNS)
        for page in pages:
            text = page.read_text("utf-8")
            if "\n```\n\n```text\n" in text:
                page.write_text(with_printed(with_outputs(text, page.name)), "utf-8")
        os.chdir(DOCS.parent)


if __name__ == "__main__":
    main()
