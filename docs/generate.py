"""Write the pages that are made from the project itself: sources, the help of every command, the README's file tree.

``make docs-pages`` runs this; a test compares the pages with what it would write.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import click

from computeledger.economics.price_points import open_models
from computeledger.frontier.forecast import backtest
from computeledger.interfaces.cli import cli
from computeledger.sources import Source, load_sources
from rntp.interfaces.cli import cli as rntp

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
    for model in open_models().values():
        out[model.source].setdefault(_GROUPS["models"], []).append(model.name)
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
    lines = ["# Command line", "", GENERATED, ""]
    lines += ["Every command takes `--json` and then prints exactly one JSON document; `rntp verify run` one per line."]
    lines += ["Bad input gets one line and exit code 2.", ""]
    for name, group in (("computeledger", cli), ("rntp", rntp)):
        lines += _help(group, click.Context(group, info_name=name, terminal_width=WIDTH, **group.context_settings))
    return "\n".join(lines)


def _help(group: click.Group, top: click.Context) -> list[str]:
    """A section per command."""
    lines: list[str] = []
    for context in commands(group, top):
        lines += [f"## {context.command_path}", "", "```text", context.get_help().rstrip(), "```", ""]
    return lines


def described(path: Path) -> str:
    """What a file or folder is, in the words of its docstring or first comment."""
    file = path / "__init__.py" if path.is_dir() else path
    if file.suffix == ".py" and file.exists():
        first = (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").partition("\n\n")[0].replace("\n", " ")
    elif file.suffix == ".toml":
        first = file.read_text("utf-8").partition("\n")[0].removeprefix("# ")
    else:
        first = _PLAIN.get(path.name, "")
    sentence = re.split(r"\. |\.$", first.replace("``", ""), maxsplit=1)[0].strip()
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


#: Folders and files that carry no docstring.
_PLAIN = {
    "data": "facts in TOML, one file per id, and their sources",
    "templates": "of the HTML pages",
    "py.typed": "the package carries types",
}


def tree(folder: Path, depth: int = 1) -> Iterator[str]:
    """Lines of the file tree: folders first, then files, each with what it is."""
    entries = [one for one in folder.iterdir() if one.name != "__pycache__" and _is_listed(one)]
    for entry in sorted(entries, key=lambda one: (one.is_file(), one.name)):
        name = f"{'  ' * depth}{entry.name}{'/' if entry.is_dir() else ''}"
        yield f"{name:<28} {described(entry)}".rstrip()
        if entry.is_dir() and (entry / "__init__.py").exists():
            yield from tree(entry, depth + 1)


def _is_listed(path: Path) -> bool:
    package = (path / "__init__.py").exists() or path.name in _PLAIN
    return package or (path.suffix in (".py", ".toml") and path.name != "__init__.py")


def readme_page() -> str:
    """The README with the file tree as it is."""
    text = (DOCS.parent / "README.md").read_text("utf-8")
    lines = "\n".join(tree(DOCS.parent / "src"))
    return re.sub(r"(?<=\nsrc/\n).*?(?=\ntests/ )", lambda _: lines, text, count=1, flags=re.DOTALL)


def backtest_image() -> str:
    """The back-test as a picture: forecast, its 90 % interval, and what came, by quarter."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 300" font-family="sans-serif" font-size="12">',
        "<title>Back-test from 2024-12-31: 90 % interval, forecast and outcome by quarter</title>",
        '<rect width="720" height="300" fill="#ffffff"/>',
    ]
    for place, one in enumerate(backtest().parts):
        left, middle, spread = 60 + 350 * place, one.predicted.middle, one.predicted.spread
        low, high = float((middle - spread).min()) - 0.1, float((middle + spread).max()) + 0.1

        def height(value: float, low: float = low, high: float = high) -> float:
            """Vertical place of a logarithm."""
            return round(250 - 210 * (value - low) / (high - low), 1)

        parts.append(f'<text x="{left}" y="24" font-weight="bold">{one.series.name} [{one.series.unit}]</text>')
        for power in range(int(low) + 1, int(high) + 1):
            y = height(power)
            parts.append(f'<line x1="{left}" x2="{left + 270}" y1="{y}" y2="{y}" stroke="#e1e4e7"/>')
            parts.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">1e{power}</text>')
        for number, date in enumerate(one.dates):
            x = left + 20 + 46 * number
            ends = [height(float(middle[number] + side * spread[number])) for side in (-1, 1)]
            parts.append(f'<line x1="{x}" x2="{x}" y1="{ends[0]}" y2="{ends[1]}" stroke="#0072B2" stroke-width="3"/>')
            parts.append(f'<circle cx="{x}" cy="{height(float(middle[number]))}" r="4" fill="#0072B2"/>')
            y = height(float(one.observed[number]))
            parts.append(f'<path d="M{x - 5} {y}h10M{x} {y - 5}v10" stroke="#D55E00" stroke-width="3"/>')
            parts.append(f'<text x="{x}" y="272" text-anchor="middle" font-size="10">{date[:7]}</text>')
    parts.append('<text x="60" y="294">line and dot: 90 % interval and median of the forecast; cross: what came</text>')
    return "\n".join([*parts, "</svg>", ""])


PAGES = {"sources.md": sources_page, "cli.md": cli_page, "../README.md": readme_page,
         "images/backtest.svg": backtest_image}  # fmt: skip


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
