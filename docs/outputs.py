"""Write below each Python block of the pages what it prints, where a block of text stands there already.

``make docs-pages`` runs this; the tests compare. A new block gets an empty block of text below it first.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
_BLOCK = re.compile(
    r"(?<!-->\n)^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?", re.DOTALL | re.MULTILINE
)


def with_outputs(text: str, name: str) -> str:
    """A page with what its blocks print now; they run in order and share their names."""
    namespace: dict[str, Any] = {"__name__": "__main__"}

    def run(block: re.Match[str]) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block["code"], name, "exec"), namespace)  # noqa: S102 - the project's own pages
        if block["printed"] is None:
            return block[0]
        return f"```python\n{block['code']}```\n\n```text\n{out.getvalue()}```\n"

    return _BLOCK.sub(run, text)


def main() -> None:
    """Write every page that shows what is printed, from the repository's root."""
    os.chdir(DOCS.parent)
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text("utf-8")
        if "\n```\n\n```text\n" in text:
            page.write_text(with_outputs(text, page.name), "utf-8")


if __name__ == "__main__":
    main()
