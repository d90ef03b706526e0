"""What commands print on the pages, folded where it is long: its first line, and the rest at a click."""

from __future__ import annotations

import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

#: Lines of a block that is shown whole.
SHOWN = 40
_PRINTED = re.compile(r'<div class="language-text highlight"><pre>.*?</pre></div>', re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
#: The help of a command is folded on its own page, by docs/generate.py.
_FOLDED = re.compile(r"<details\b.*?</details>", re.DOTALL)


def folded(content: str) -> str:
    """A page's HTML with its long printed blocks closed."""

    def fold(found: re.Match[str]) -> str:
        lines = _TAG.sub("", found[0]).strip().splitlines()
        if len(lines) <= SHOWN:
            return found[0]
        first = lines[0] if len(lines[0]) <= 100 else f"{lines[0][:100]}..."
        return f'<details class="printed"><summary>{first} <em>({len(lines)} lines)</em></summary>{found[0]}</details>'

    parts, at = [], 0
    for whole in _FOLDED.finditer(content):
        parts += [_PRINTED.sub(fold, content[at : whole.start()]), whole[0]]
        at = whole.end()
    return "".join([*parts, _PRINTED.sub(fold, content[at:])])


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fold what a page shows; the list of the commands stays open on theirs."""
    del config, files
    return content if page.file.src_uri == "cli.md" else folded(content)
