"""Write the pages that are made from the project itself: sources with what cites them, and the help of every command.

``make docs-pages`` runs this; a test compares the pages with what it would write.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import click

from computeledger.interfaces.cli import cli
from computeledger.sources import Source, load_sources

DOCS = Path(__file__).resolve().parent
GENERATED = "<!-- Written by docs/generate.py (make docs-pages); edits here are lost. -->"
#: Records that are named before the rest is only counted.
NAMED = 6
#: Columns of the printed help.
WIDTH = 100

_GROUPS = {
    "accelerators": "Accelerators and systems",
    "systems": "Accelerators and systems",
    "prices": "Prices, ownership, memory and storage",
    "ownership": "Prices, ownership, memory and storage",
    "tiers": "Prices, ownership, memory and storage",
    "models": "Models",
}
_OTHER = "Laws, factors and observations"


def toml_files(folder: Traversable, kind: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Kind, name and content of every TOML file of the package."""
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir() and not entry.name.startswith(("_", ".")):
            yield from toml_files(entry, entry.name)
        elif entry.name.endswith(".toml") and entry.name not in ("sources.toml", "aliases.toml"):
            yield kind, entry.name.removesuffix(".toml").replace("--", "/", 1), tomllib.loads(entry.read_text("utf-8"))


def cited(table: Any) -> Iterator[tuple[str, str]]:
    """Source key and note of every entry of a parsed file."""
    if isinstance(table, dict):
        if isinstance(table.get("source"), str):
            yield table["source"], str(table.get("note", ""))
        for key, value in table.items():
            if key != "config_json":
                yield from cited(value)
    elif isinstance(table, list):
        for value in table:
            yield from cited(value)


def citations() -> dict[str, dict[str, list[str]]]:
    """Source key -> group -> records that cite it, by name or in a note."""
    out: dict[str, dict[str, list[str]]] = {key: {} for key in load_sources()}
    for kind, name, table in toml_files(resources.files("computeledger")):
        entries = list(cited(table))
        notes = " ".join(note for _, note in entries)
        for key, groups in out.items():
            if any(source == key for source, _ in entries) or f"{key})" in notes:
                label = f"{kind} {name}" if kind in ("prices", "ownership", "tiers") else name
                groups.setdefault(_GROUPS.get(kind, _OTHER), []).append(label)
    return out


def sources_page() -> str:
    """Every source, grouped by what cites it most, with the records that do."""
    lines = ["# Sources", "", GENERATED, ""]
    lines += ["Every number that ships names one of these keys, a date and a place in the source:"]
    lines += ["`computeledger facts show ID`."]
    lines += ["`computeledger cite KEY` prints BibTeX. What was not read at the source itself says **unverified**.", ""]
    found = citations()
    for group in [*dict.fromkeys(_GROUPS.values()), _OTHER]:
        members = [source for key, source in sorted(load_sources().items()) if _home(found[key]) == group]
        if members:
            lines += [f"## {group}", "", "| key | what | date | licence | cited by |", "|---|---|---|---|---|"]
            lines += [_row(source, found[source.key]) for source in members]
            lines.append("")
    return "\n".join(lines)


def _home(groups: dict[str, list[str]]) -> str:
    return max(groups, key=lambda group: len(groups[group]), default=_OTHER)


def _row(source: Source, groups: dict[str, list[str]]) -> str:
    records = sorted({name for names in groups.values() for name in names})
    named = ", ".join(f"`{name}`" for name in records[:NAMED])
    more = f" and {len(records) - NAMED} more" if len(records) > NAMED else ""
    title = f"[{source.title}]({source.url}), {source.publisher}".replace("|", "\\|")
    unread = "" if source.verified else " **unverified**"
    return f"| `{source.key}` | {title}{unread} | {source.date} | {source.license} | {named}{more} |"


def commands(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """The context of a command and of every command below it."""
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from commands(below, click.Context(below, info_name=name, parent=context, terminal_width=WIDTH))


def cli_page() -> str:
    """The help of every command, as it is printed."""
    top = click.Context(cli, info_name="computeledger", terminal_width=WIDTH, **cli.context_settings)
    lines = ["# Command line", "", GENERATED, ""]
    lines += ["Every command takes `--json` and then prints exactly one JSON document."]
    lines += ["Bad input gets one line and exit code 2.", ""]
    for context in commands(cli, top):
        lines += [f"## {context.command_path}", "", "```text", context.get_help().rstrip(), "```", ""]
    return "\n".join(lines)


PAGES = {"sources.md": sources_page, "cli.md": cli_page}


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
