"""The keys of every command's JSON document: what programs read, and what a change may not lose unseen.

python -m tests.interfaces.json_keys writes them anew.
"""

from __future__ import annotations

import json
import shlex
import tempfile
import tomllib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from computeledger.interfaces.cli import main
from tests.commands import call

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
KEPT, COMMANDS = HERE / "json_keys.json", HERE / "json_keys.toml"
#: Offers that are compared in a second.
FEW_OFFERS = HERE / "few_offers.toml"


def commands() -> dict[str, list[str]]:
    """Arguments of each command, by its name."""
    return {name: shlex.split(text) for name, text in tomllib.loads(COMMANDS.read_text("utf-8")).items()}


def paths(value: Any, at: str = "") -> Iterator[str]:
    """Paths to every value of a document; items of a list share one."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from paths(part, f"{at}.{key}" if at else str(key))
    elif isinstance(value, list) and value:
        for part in value:
            yield from paths(part, f"{at}[]")
    else:
        yield at


def document_of(arguments: list[str], folder: Path) -> dict[str, Any]:
    """The document of the last of the commands between ``&&``; what they write lands in the folder, out of the tree."""
    if not (folder / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples")
        (folder / FEW_OFFERS.name).symlink_to(FEW_OFFERS)
    lines = [list(line) for is_end, line in groupby(arguments, "&&".__eq__) if not is_end]
    lines[-1].append("--json")
    for line in lines:
        done = call(main, line, folder)
        if done.returncode:
            raise RuntimeError(f"{line}: {done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def keys_of(document: dict[str, Any]) -> list[str]:
    """Paths in a document; that of its schema has the schema's name."""
    rest = {name: part for name, part in document.items() if name != "schema"}
    return sorted({f"schema.{document['schema']}", *paths(rest)})


def folded(found: list[str]) -> Any:
    """Paths as a tree, so that each key is written once."""
    tree: dict[str, Any] = {}
    for path in found:
        at = tree
        for part in path.split("."):
            at = at.setdefault(part, {})
    return tree


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        kept = {name: folded(keys_of(document_of(arguments, Path(scratch)))) for name, arguments in commands().items()}
    # answers of fits, which take measurements, stay as they are
    kept = json.loads(KEPT.read_text("utf-8")) | kept
    KEPT.write_text(json.dumps(kept, indent=0, separators=(",", ":")) + "\n", "utf-8")
