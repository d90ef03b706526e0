"""Write the pages that are made from the project itself: sources, the help of every command, the file tree, schemas.

``make docs-pages`` runs this; a test compares the pages with what it would write.
"""

from __future__ import annotations

import ast
import csv
import html
import importlib
import json
import math
import pkgutil
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import click

from computeledger.economics.plan.keys import KINDS, NEEDED, SECTIONS, TOP, TRAFFIC
from computeledger.economics.prices.points import open_models
from computeledger.facts.formats import FORMATS
from computeledger.fields import Field, said_default
from computeledger.frontier.epoch_files import COPY_DATE, CREDIT, shipped_sites
from computeledger.frontier.fits import weights_fractions
from computeledger.frontier.forecast import backtest, forecast_series, run_series, site_series
from computeledger.frontier.growth import largest_systems
from computeledger.frontier.trends import year_of
from computeledger.interfaces.cli import cli
from computeledger.questions import answers
from computeledger.questions.answer import Answer, schema_name
from computeledger.questions.answers.guide import GuideEntry, guide_entries
from computeledger.sources import Source, load_sources
from computeledger.stores.books import store
from rntp.interfaces.cli import cli as rntp
from rntp.interfaces.tables.mixture import grid as mixture_grid
from rntp.interfaces.tables.study import grid, markdown, seeds_of
from rntp.interfaces.tables.transfer import grid as transfer_grid
from rntp.results import MIXTURE_SCHEMA, SCHEMA, TRANSFER_SCHEMA, read_results

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
#: Folders of tables that name a source in every row.
_TABLES = ("economics/quality", "economics/routing", "economics/thinking", "facts/data/frontier")


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
                label = f"{kind} {name}" if kind in ("prices", "ownership", "tiers", "calibration") else name
                groups.setdefault(_GROUPS.get(kind, _OTHER), []).append(label)
    for model in open_models().values():
        out[model.source].setdefault(_GROUPS["models"], []).append(model.name)
    for one in FORMATS.values():
        out[one.source].setdefault(_GROUPS["models"], []).append(one.name)
    for name, key in table_sources():
        out[key].setdefault(_OTHER, []).append(name)
    return out


def table_sources() -> list[tuple[str, str]]:
    """Table and key of every source that a table names."""
    found = set()
    for folder in _TABLES:
        for entry in resources.files("computeledger").joinpath(folder).iterdir():
            if entry.name.endswith(".csv"):
                rows = csv.DictReader(entry.read_text("utf-8").splitlines())
                name = entry.name.removesuffix(".csv")
                found |= {(name, row[key]) for row in rows for key in ("source", "units_source") if row.get(key)}
    return sorted(found)


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
    lines += [
        "Every command takes `--json` and then prints exactly one JSON document; `rntp verify run` one per line.",
        "",
    ]
    lines += [
        "A command that answers a question takes `--brief` instead: one line, the main figure with its 90 % interval,"
    ]
    lines += ["two spaces, and what it is; where no one figure is the answer, the headline.", ""]
    lines += ["Bad input gets one line and exit code 2.", ""]
    for name, group in (("computeledger", cli), ("rntp", rntp)):
        lines += _help(group, click.Context(group, info_name=name, terminal_width=WIDTH, **group.context_settings))
    lines += ["## Keys of a plan", "", "Fields of the questions of the commands, and what only a plan has.", ""]
    for section, keys in {"top": TOP, **SECTIONS, "inference.traffic": TRAFFIC, "inference.kinds": KINDS}.items():
        lines += _keys(section, keys)
    return "\n".join(lines)


def _keys(section: str, keys: Mapping[str, Field]) -> list[str]:
    """A table of a section's keys."""
    head = "At the top" if section == "top" else f"`[{section}]`"
    rows = [
        f"| `{name}` | {one.help} | {'needed' if name in NEEDED.get(section, ()) else said_default(one)} |"
        for name, one in keys.items()
    ]
    start = f'<details class="more" markdown="1"><summary>{head} ({len(rows)} keys)</summary>'
    return [start, "", "| key | what it is | where it is left out |", "|---|---|---|", *rows, "", "</details>", ""]


def _help(group: click.Group, top: click.Context) -> list[str]:
    """A section per command; its options are closed until one asks for them."""
    lines: list[str] = []
    for context in commands(group, top):
        printed = ["```text", context.get_help().rstrip(), "```", ""]
        lines += [f"## {context.command_path}", ""]
        if isinstance(context.command, click.Group):
            lines += printed
            continue
        usage = html.escape(" ".join([context.command_path, *context.command.collect_usage_pieces(context)]))
        lines += [html.escape(context.command.get_short_help_str(200), quote=False), ""]
        lines += [f'<details class="printed" markdown="1"><summary>{usage}</summary>', "", *printed, "</details>", ""]
    return lines


def questions_page() -> str:
    """Every question of the guide by subject, above what answers it."""
    said = (
        "Questions of the field in its own words, by subject. Below each stands the command to copy and to change to "
        "your case, or the page that has the answer; *open* is what is not answered, *out of scope* why it never is. "
        "On a terminal `computeledger guide WORDS` finds the same: `computeledger guide cached prefix`."
    )
    lines = ["# What you can ask, and where it is answered", "", GENERATED, "", said, ""]
    for subject, entries in groupby(guide_entries(), lambda one: one.subject):
        lines += [f"## {subject}", ""]
        for one in entries:
            lines += ["<br>\n  ".join([f"- **{one.ask}**", *_answered(one)]), ""]
    return "\n".join(lines)


def _answered(entry: GuideEntry) -> Iterator[str]:
    """What answers a question, a line each."""
    if entry.command:
        yield f"`{entry.command}`"
    if entry.page:
        yield f"[{_heading(entry.page)}]({entry.page})"
    if entry.scope:
        yield f"*Out of scope:* {entry.scope}"
    if entry.limit:
        yield f"*Open:* {entry.limit}"


def _heading(page: str) -> str:
    """Title of a page, and the heading that an anchor names."""
    name, _, anchor = page.partition("#")
    headings = re.findall(r"^#+ (.+)$", (DOCS / name).read_text("utf-8"), re.MULTILINE)
    named = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-"): one for one in headings}
    return f"{headings[0]}: {named[anchor]}" if anchor else headings[0]


def described(path: Path) -> str:
    """What a file or folder is, in the words of its docstring or first comment."""
    file = path / "__init__.py" if path.is_dir() else path
    if file.suffix == ".py" and file.exists():
        first = (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").partition("\n\n")[0].replace("\n", " ")
    elif file.suffix == ".toml":
        first = file.read_text("utf-8").partition("\n")[0].removeprefix("# ")
    else:
        first = _PLAIN.get(f"{path.parent.name}/{path.name}", _PLAIN.get(path.name, ""))
    return re.split(r"(?<!\.)\.(?: |$)", first.replace("``", ""), maxsplit=1)[0].strip()


#: Folders and files that carry no docstring.
_PLAIN = {
    "data": "Facts in TOML, one file per id, and their sources",
    "validation/data": "Published measurements that ship with the package",
    "templates": "Templates, styles and scripts of the HTML pages",
    "vendored": "A small build of the drawing library plotly.js, with its license, version and sums",
    "py.typed": "Says that the package carries types",
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


def architecture_page() -> str:
    """The page of the architecture with the file tree as it is."""
    text = (DOCS / "architecture.md").read_text("utf-8")
    lines = "\n".join(tree(DOCS.parent / "src"))
    return re.sub(r"(?<=\nsrc/\n).*?(?=\ntests/ )", lambda _: lines, text, count=1, flags=re.DOTALL)


#: Keys of every command's document, as tests/interfaces/test_json_keys.py holds the commands to them.
_KEYS = DOCS.parent / "tests" / "interfaces" / "json_keys.json"
#: Documents that are made without an answer.
_WITHOUT_ANSWER = ("books-add", "books-export", "cite")
_QUANTITY = {
    "description": "A figure: a number, or where inputs are uncertain its quantiles with their unit.",
    "type": ["number", "object", "null"],
    "properties": {
        **{name: {"type": "number"} for name in ("p05", "p10", "p50", "p90", "p95")}, "unit": {"type": "string"}
    },
    "required": ["p05", "p10", "p50", "p90", "p95", "unit"],
}  # fmt: skip


def document_kinds() -> list[str]:
    """Names of the schemas of all documents that commands print."""
    for module in pkgutil.walk_packages(answers.__path__, f"{answers.__name__}."):
        importlib.import_module(module.name)
    kinds = _kinds(Answer)
    if not any(one.__module__ == store.__name__ for one in kinds):
        raise ValueError("the answers of the books are missing")
    return sorted({*(one.schema() for one in kinds), *map(schema_name, _WITHOUT_ANSWER)})


def _kinds(parent: type[Answer]) -> list[type[Answer]]:
    """Kinds of answers that stand in the package; one whose kinds print for it has none of its own."""
    below = [kind for child in parent.__subclasses__() for kind in _kinds(child)]
    own = [] if parent is Answer or below or not parent.__module__.startswith("computeledger.") else [parent]
    return [*own, *below]


#: Keys of a document that it has where its question asks for them, or where there is something to say.
_AT_TIMES = {
    "anchor", "pareto", "price_date", "probability", "probability_by", "remarks", "traffic", "working",
}  # fmt: skip


def schemas_page() -> str:
    """JSON Schema of the documents that commands print: the keys that each kind has, and which are figures."""
    trees: dict[str, Any] = {}
    always: dict[str, set[str]] = {}
    for tree in json.loads(_KEYS.read_text("utf-8")).values():
        kind = next(iter(tree["schema"]))
        _merge(trees.setdefault(kind, {}), {**tree, "schema": {}})
        # errors are there of the quantities that were measured
        names = {name.partition("[")[0] for name, below in tree.items() if "median_abs_error" not in below}
        always[kind] = always.get(kind, names) & names
    defs = {
        name.removeprefix("computeledger/"): {"required": sorted(always[name] - _AT_TIMES), **_described(tree)}
        for name, tree in sorted(trees.items())
    }
    chosen = [
        {"if": {"properties": {"schema": {"const": f"computeledger/{name}"}}},
         "then": {"$ref": f"#/$defs/{name.replace('/', '~1')}"}}
        for name in defs
    ]  # fmt: skip
    page = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Documents of Compute Ledger's commands",
        "description": "What a command prints with --json. Every key that stands here is kept within its version; a "
        "document has those that its kind requires and those that its question asks for, and may have more.",
        "type": "object",
        "required": ["schema"],
        "properties": {"schema": {"enum": document_kinds()}},
        "allOf": chosen,
        "$defs": {"quantity": _QUANTITY, **defs},
    }
    return json.dumps(page, indent=1) + "\n"


def _merge(into: dict[str, Any], tree: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of two trees."""
    for name, below in tree.items():
        _merge(into.setdefault(name, {}), below)
    return into


def _described(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A tree of keys as a schema; names that are data (a phase, a chip) stand for any name."""
    if set(tree) == set(_QUANTITY["required"]):
        return {"$ref": "#/$defs/quantity"}
    named: dict[str, Any] = {}
    for name, below in tree.items():
        for _ in range(name.count("[]")):
            below = {"": below}  # noqa: PLW2901 (a list of lists is a tree around a tree)
        _merge(named.setdefault(name.partition("[")[0], {}), below)
    items = named.pop("", None)
    found = {} if items is None else {"items": _described(items)}
    if all(re.fullmatch(r"[A-Za-z]\w*", name) for name in named):
        return {**found, **({"properties": {name: _described(one) for name, one in named.items()}} if named else {})}
    every: dict[str, Any] = {}
    for one in named.values():
        _merge(every, one)
    return {**found, "additionalProperties": _described(every)}


class Panel(NamedTuple):
    """One plot of a picture with a logarithmic vertical axis; the horizontal one is of years, or logarithmic too."""

    left: float
    across: tuple[float, float]
    up: tuple[float, float]
    top: float = 40
    width: float = 270
    height: float = 210

    def x(self, value: float) -> float:
        """Horizontal place of a year or a logarithm."""
        return round(self.left + self.width * (value - self.across[0]) / (self.across[1] - self.across[0]), 1)

    def y(self, log10: float) -> float:
        """Vertical place of a logarithm."""
        return round(self.top + self.height * (1 - (log10 - self.up[0]) / (self.up[1] - self.up[0])), 1)

    def frame(self, title: str, labels: Callable[[int], str], years: Iterable[int] = ()) -> list[str]:
        """Title, a line for each power of ten, a mark for each year."""
        parts = [f'<text x="{self.left}" y="{self.top - 16}" font-weight="bold">{title}</text>']
        for power in range(math.ceil(self.up[0]), math.floor(self.up[1]) + 1):
            y = self.y(power)
            parts.append(f'<line x1="{self.left}" x2="{self.left + self.width}" y1="{y}" y2="{y}" stroke="#e1e4e7"/>')
            parts.append(f'<text x="{self.left - 6}" y="{y + 4}" text-anchor="end">{labels(power)}</text>')
        below = self.top + self.height + 18
        parts += [
            f'<text x="{self.x(one)}" y="{below}" text-anchor="middle" font-size="10">{one}</text>' for one in years
        ]
        return parts


def picture(title: str, parts: Iterable[str], height: float = 300) -> str:
    """A whole SVG file."""
    box = f'viewBox="0 0 720 {height:g}" font-family="sans-serif" font-size="12"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
        f"<title>{title}</title>",
        f'<rect width="720" height="{height:g}" fill="#ffffff"/>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


BLUE, RED, GREEN = "#0072B2", "#D55E00", "#009E73"


def backtest_image() -> str:
    """The back-test as a picture: forecast, its 90 % interval, and what came, by quarter."""
    parts = []
    for place, one in enumerate(backtest().parts):
        middle, spread = one.predicted.middle, one.predicted.spread
        ends = float((middle - spread).min()) - 0.1, float((middle + spread).max()) + 0.1
        panel = Panel(60 + 350 * place, (-0.45, 5.4), ends)
        parts += panel.frame(f"{one.series.name} [{one.series.unit}]", "1e{}".format)
        for number, date in enumerate(one.dates):
            x = panel.x(number)
            low, high = (panel.y(float(middle[number] + side * spread[number])) for side in (-1, 1))
            parts.append(f'<line x1="{x}" x2="{x}" y1="{low}" y2="{high}" stroke="{BLUE}" stroke-width="3"/>')
            parts.append(f'<circle cx="{x}" cy="{panel.y(float(middle[number]))}" r="4" fill="{BLUE}"/>')
            y = panel.y(float(one.observed[number]))
            parts.append(f'<path d="M{x - 5} {y}h10M{x} {y - 5}v10" stroke="{RED}" stroke-width="3"/>')
            parts.append(f'<text x="{x}" y="268" text-anchor="middle" font-size="10">{date[:7]}</text>')
    parts.append('<text x="60" y="290">line and dot: 90 % interval and median of the forecast; cross: what came</text>')
    return picture("Back-test from 2024-12-31: 90 % interval, forecast and outcome by quarter", parts)


def trends_image() -> str:
    """Training compute and the power of the largest site: what is known, and the forecast with its interval."""
    parts = []
    for place, series in enumerate((run_series(), site_series())):
        ends, found = forecast_series(series, "2028-12-31")
        years = [year_of(one) for one in ends]
        low, high = found.middle - found.spread, found.middle + found.spread
        panel = Panel(60 + 350 * place, (2020.4, 2029.1), (float(series.log10.min()) - 0.2, float(high.max()) + 0.1))
        parts += panel.frame(f"{series.name} [{series.unit}]", "1e{}".format, range(2021, 2030, 2))
        there = [f"{panel.x(x)},{panel.y(float(y))}" for x, y in zip(years, high, strict=True)]
        back = [f"{panel.x(x)},{panel.y(float(y))}" for x, y in zip(reversed(years), low[::-1], strict=True)]
        parts.append(f'<polygon points="{" ".join(there + back)}" fill="{BLUE}" fill-opacity="0.2"/>')
        middle = [f"{panel.x(x)},{panel.y(float(y))}" for x, y in zip(years, found.middle, strict=True)]
        parts.append(f'<polyline points="{" ".join(middle)}" fill="none" stroke="{BLUE}" stroke-width="2"/>')
        steps = [f"{panel.x(series.years[0])},{panel.y(series.log10[0])}"]
        for (x, before), now in zip(zip(series.years[1:], series.log10, strict=False), series.log10[1:], strict=True):
            steps += [f"{panel.x(x)},{panel.y(before)}", f"{panel.x(x)},{panel.y(now)}"]
        parts.append(f'<polyline points="{" ".join(steps)}" fill="none" stroke="{RED}" stroke-width="2.4"/>')
    parts.append('<text x="60" y="290">steps: largest known by quarter; line, band: forecast, 90 % interval</text>')
    return picture("Training compute and power of the largest site, with forecasts", parts)


def sites_image() -> str:
    """Power of the sites that are largest now over time, and what they cost against their compute."""
    now = {one.name: one for one in largest_systems()}
    largest = sorted(now, key=lambda name: -(now[name].facility_w or 0.0))[:6]
    panel = Panel(60, (2024.4, 2026.9), (7.0, 9.3))
    parts = panel.frame("facility power of the six largest sites [W]", "1e{}".format, (2025, 2026))
    colors = (RED, BLUE, GREEN, "#B5648F", "#A87B2D", "#46688A")
    for place, (name, color) in enumerate(zip(largest, colors, strict=True)):
        dated = [one for one in shipped_sites() if one.name == name and one.facility_w and one.date <= COPY_DATE]
        path = ""
        for one in dated:
            x, y = panel.x(year_of(one.date)), panel.y(math.log10(one.facility_w or 1.0))
            path += f"M{x} {y}" if not path else f"H{x}V{y}"
        parts.append(f'<path d="{path}H{panel.x(year_of(COPY_DATE))}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="185" y="{176 + 14 * place}" font-size="11" fill="{color}">{name}</text>')
    panel = Panel(410, (4.2, 6.3), (8.8, 10.8))
    parts += panel.frame("capital [$] against H100-equivalents, 8 bit", "1e{}".format)
    for power in (5, 6):
        parts.append(f'<text x="{panel.x(power)}" y="268" text-anchor="middle" font-size="10">1e{power}</text>')
    for one in now.values():
        x, y = (math.log10(value or 1.0) for value in (one.h100e_8bit, one.capex_usd))
        if x > panel.across[0] and y > panel.up[0]:
            parts.append(f'<circle cx="{panel.x(x)}" cy="{panel.y(y)}" r="4" fill="{BLUE}" fill-opacity="0.7"/>')
    parts.append(f'<text x="60" y="290">{CREDIT.partition(" (")[0]}, copy of {COPY_DATE}; projections left out</text>')
    return picture("Power of the largest sites over time, and cost against compute", parts)


def fits_image() -> str:
    """What fits where: 8-bit weights over what an engine fills of a scale-up domain."""
    fits = weights_fractions()
    models, systems = (list(dict.fromkeys(getattr(one, name) for one in fits)) for name in ("model", "system"))
    parts = []
    for one in fits:
        x, y = 170 + 76 * systems.index(one.system), 34 + 30 * models.index(one.model)
        share = float(one.weights_fraction)
        color, ink = (RED, "#ffffff") if share > 1 else (f"rgba(0,114,178,{0.08 + 0.7 * share:.2f})", "#1b2026")
        parts.append(f'<rect x="{x}" y="{y}" width="74" height="28" fill="{color}"/>')
        parts.append(f'<text x="{x + 37}" y="{y + 18}" text-anchor="middle" fill="{ink}">{100 * share:.3g} %</text>')
    parts += [f'<text x="164" y="{52 + 30 * row}" text-anchor="end">{name}</text>' for row, name in enumerate(models)]
    parts += [f'<text x="{207 + 76 * place}" y="24" text-anchor="middle" font-size="10">{name}</text>'
              for place, name in enumerate(systems)]  # fmt: skip
    said = "8-bit weights over what an engine fills of one scale-up domain; orange: does not fit"
    parts.append(f'<text x="20" y="236">{said}</text>')
    return picture("What fits where", parts, 250)


def experiments_page() -> str:
    """The page of the experiments with the tables of the studies' results."""
    text = (DOCS / "rntp_experiments.md").read_text("utf-8")
    return re.sub(r"<!-- study (\S+) (\S+) -->\n.*?<!-- end -->", _study_table, text, flags=re.DOTALL)


def _study_table(found: re.Match[str]) -> str:
    """A table between its markers."""
    path = DOCS / "experiments" / f"{found[1]}.json"
    others = {"transfer": (transfer_grid, TRANSFER_SCHEMA), "mixture": (mixture_grid, MIXTURE_SCHEMA)}
    table, schema = others.get(found[1], (grid, SCHEMA))
    one = table(read_results(path, schema), found[2])
    if one is None:
        raise SystemExit(f"docs/experiments/{found[1]}.json: nothing was measured for a table {found[2]!r}")
    return f"<!-- study {found[1]} {found[2]} -->\n{markdown(one)}\n<!-- end -->"


#: Panels of the learning curves: results, variant, title, updates of a run.
CURVES = (
    ("ships_log", "as in the recipe", "ship's log"),
    ("dance", "as in the recipe", "dance"),
    ("program", "as in the recipe", "program"),
    ("ships_log", "one model thinks and predicts", "ship's log, one model"),
    ("mixed", "16 places in an update", "all, prose between"),
    ("mixed", "half as many", "the same, half the places"),
)


def curves_image() -> str:
    """Learning curves: share of the gap closed where it is trained, a line for each seed."""
    parts: list[str] = []
    for place, (name, variant, title) in enumerate(CURVES):
        rows = seeds_of(read_results(DOCS / "experiments" / f"{name}.json"))["", variant]
        row, column = divmod(place, 3)
        parts += [f'<g transform="translate(0 {250 * row})">', *_curves(50 + 228 * column, title, rows), "</g>"]
    said = "gain on new documents over the gap [%], means of a tenth of the updates; blue, red, green: seeds 0, 1, 2;"
    parts.append(f'<text x="50" y="528" font-size="11">{said}</text>')
    parts.append(
        '<text x="50" y="543" font-size="11">the last two over all places, half of them in prose: no gap</text>'
    )
    return picture("Learning curves, three seeds each", parts, 555)


def _curves(left: float, title: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    steps = max(one["step"] for row in rows for one in row["curve"])
    panel = Panel(left, (0, steps), (0, 1), width=190, height=200)
    yield f'<text x="{panel.left}" y="24" font-weight="bold">{title}</text>'
    for tenth in range(0, 11, 2):
        y = panel.y(tenth / 10)
        yield f'<line x1="{panel.left}" x2="{panel.left + 190}" y1="{y}" y2="{y}" stroke="#e1e4e7"/>'
        yield f'<text x="{panel.left - 6}" y="{y + 4}" text-anchor="end" font-size="10">{10 * tenth}</text>'
    for step in (0, steps // 2, steps):
        yield f'<text x="{panel.x(step)}" y="256" text-anchor="middle" font-size="10">{step}</text>'
    for row, color in zip(rows, (BLUE, RED, GREEN), strict=False):
        gap, size = row["measured"]["gap_nats"], row["curve"][0]["step"]
        points = [f"{panel.x(one['step'] - size / 2)},{panel.y(one['gain_nats'] / gap)}" for one in row["curve"]]
        yield f'<polyline points="{" ".join(points)}" fill="none" stroke="{color}" stroke-width="2"/>'


PAGES = {"sources.md": sources_page, "cli.md": cli_page, "questions.md": questions_page,
         "architecture.md": architecture_page, "answers.schema.json": schemas_page,
         "rntp_experiments.md": experiments_page,
         "images/rntp-curves.svg": curves_image, "images/backtest.svg": backtest_image,
         "images/frontier-trends.svg": trends_image, "images/frontier-sites.svg": sites_image,
         "images/what-fits-where.svg": fits_image}  # fmt: skip


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
