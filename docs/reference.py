"""Pages of the Python reference, made from the docstrings while the site is built.

One page lists the public names of ``import computeledger``; one page for each room documents its modules. They show the
source; the search does not find words in it, which would be most of its index. The reference is most of the build: with
``SITE_EVERY=8`` every eighth module of a room stands for all.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import computeledger

_SOURCE = Path(__file__).resolve().parent.parent / "src"
_SHOWN = re.compile(r'<details class="mkdocstrings-source">.*?</details>', re.DOTALL)
_PLACE = re.compile(r"<!-- source (\d+) -->")
ROOMS = {
    "ground": ("Ground floor", "computeledger", False),
    "facts": ("Facts", "computeledger/facts", True),
    "physics": ("Physics", "computeledger/physics", True),
    "workloads": ("Workloads", "computeledger/workloads", True),
    "questions": ("Questions and answers", "computeledger/questions", True),
    "simulation": ("Simulation", "computeledger/simulation", True),
    "economics": ("Economics", "computeledger/economics", True),
    "frontier": ("Frontier", "computeledger/frontier", True),
    "actuals": ("Actuals", "computeledger/actuals", True),
    "validation": ("Validation", "computeledger/validation", True),
    "stores": ("Stores", "computeledger/stores", True),
    "rntp": ("RL on text", "rntp", True),
}


_ABOUT = """\
`import computeledger as cl` gives these names; each is loaded when it is first used. A function named like a command
takes its options as keywords, or a question record, and returns the same answer. The other pages document all
modules."""


def modules_of(room: str) -> list[str]:
    """Modules that the page of a room documents."""
    _, folder, is_deep = ROOMS[room]
    modules = sorted((_SOURCE / folder).glob("**/*.py" if is_deep else "*.py"))
    names = [".".join(path.relative_to(_SOURCE).with_suffix("").parts) for path in modules if path.stem[0] != "_"]
    return [one for one in names if "interfaces" not in one]


def public_names() -> dict[str, str]:
    """Names of ``import computeledger``, each with the module that documents it."""
    return {name: getattr(computeledger, name).__module__ for name in computeledger.__all__}


def index_page(pages: Mapping[str, str]) -> str:
    """The page of public names: functions, then classes, each linked to its entry where a page documents its module."""
    lines = ["# Public names", "", _ABOUT]
    homes = public_names()
    for title, is_class in (("Functions", False), ("Classes", True)):
        lines += ["", f"## {title}", "", "| name | what it is |", "|---|---|"]
        for name in sorted((one for one in homes if one[0].isupper() is is_class), key=str.lower):
            home, shown = homes[name], f"`{name}`"
            if home in pages:
                shown = f"[{shown}]({pages[home]}.md#{home}.{name})"
            sentence = (inspect.getdoc(getattr(computeledger, name)) or "").partition("\n\n")[0]
            lines.append(f"| {shown} | {' '.join(sentence.split()).replace('``', '`')} |")
    return "\n".join([*lines, ""])


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each room that exists."""
    pages: dict[str, str] = {}
    for name, (title, _, _) in ROOMS.items():
        if names := modules_of(name)[:: int(os.environ.get("SITE_EVERY", "1"))]:
            pages |= dict.fromkeys(names, name)
            text = "\n".join([f"# {title}", "", *(f"::: {one}\n" for one in names)])
            files.append(File.generated(config, f"reference/{name}.md", content=text))
    files.append(File.generated(config, "reference/api.md", content=index_page(pages)))
    return files


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Take the source out until the search has read the page."""
    del config, files
    shown = page.meta["shown"] = _SHOWN.findall(content)
    place = iter(range(len(shown)))
    return _SHOWN.sub(lambda _: f"<!-- source {next(place)} -->", content)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Put it back."""
    del config
    return _PLACE.sub(lambda found: page.meta["shown"][int(found[1])], output)
