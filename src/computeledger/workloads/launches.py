"""A configuration as frameworks take it, from templates that are data; what they cannot express is said."""

from __future__ import annotations

import functools
import json
import string
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class Launch:
    """What a framework is told."""

    framework: str
    script: str
    arguments: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]
    body: str = ""

    @property
    def text(self) -> str:
        """What can be pasted into a shell or a file: remarks as comments, a line each, and the command or the file."""
        return "\n".join([*(f"# {remark}" for remark in self.remarks), self.command])

    @property
    def command(self) -> str:
        """The command, one argument per line, or what stands in the file."""
        if self.body:
            return self.body
        lines = [f"{name} {value}".strip() for name, value in self.arguments]
        return " \\\n    ".join([f"torchrun $LAUNCH {self.script}", *lines])

    def to_dict(self) -> dict[str, Any]:
        """As answers print it."""
        return {
            "framework": self.framework,
            "command": self.command,
            "arguments": {name.removeprefix("--"): value or True for name, value in self.arguments},
            "remarks": list(self.remarks),
            "text": self.text,
        }


def _names(text: str) -> tuple[str, ...]:
    """Values that a text of a template names."""
    return tuple(name for _, name, _, _ in string.Formatter().parse(text) if name)


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a framework and the values that it takes; ``where`` names values that have to be known as well."""

    key: str
    value: str
    map: Mapping[str, str] = field(default_factory=dict)
    bare: bool = False
    where: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Values that it names."""
        return _names(self.value)


@dataclass(frozen=True, slots=True)
class Limit:
    """A value beyond which a framework cannot express a configuration."""

    name: str
    holds: tuple[str, ...]
    says: str


@dataclass(frozen=True, slots=True)
class Template:
    """How a framework is told a configuration; its head may name the ``entry`` of the run's mode.

    ``cannot`` is said beside the launch, ``refuses`` is refused: the framework would not start, or start another run.
    ``hints`` are notes where a value is known; ``fsdp`` names the degrees that its FSDP trainer has beside its own, and
    ``kinds`` are words of the head by the kind of trainer.
    """

    source: str
    form: str
    head: str
    notes: tuple[str, ...]
    options: tuple[Option, ...]
    cannot: tuple[Limit, ...]
    tail: str = ""
    entry: Mapping[str, str] = field(default_factory=dict)
    refuses: tuple[Limit, ...] = ()
    hints: tuple[Limit, ...] = ()
    fsdp: tuple[str, ...] | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)


@functools.cache
def load_templates(package: str) -> Mapping[str, Template]:
    """Load every template of a package, by framework."""
    text = resources.files(package).joinpath("launches.toml").read_text("utf-8")
    out = {}
    for name, table in tomllib.loads(text).items():
        options = tuple(Option(**{**one, "where": tuple(one.get("where", ()))}) for one in table.pop("options"))
        limits = {
            kind: tuple(Limit(one["name"], tuple(one.get("holds", ("",))), one["says"]) for one in table.pop(kind, ()))
            for kind in ("cannot", "refuses", "hints")
        }
        lists = {key: tuple(table[key]) for key in ("notes", "fsdp") if key in table}
        out[name] = Template(**{**table, **lists, **limits}, options=options)
    return out


def refused(template: Template, said: Mapping[str, str]) -> Iterator[str]:
    """Why a framework would not start a configuration, or start another one."""
    yield from (limit.says.format(**said) for limit in template.refuses if said[limit.name] not in limit.holds)


def fill(framework: str, template: Template, said: Mapping[str, str], beside: Sequence[str] = ()) -> Launch:
    """Write the values of a configuration as a template has them; ``beside`` stands after its notes."""
    missing = [limit.says.format(**said) for limit in template.cannot if said[limit.name] not in limit.holds]
    written = []
    for option in template.options:
        if not all(said[name] for name in option.where):
            continue
        value = _written(option, said)
        if value is None:
            missing.append(f"{option.names[0].replace('_', ' ')} {said[option.names[0]]}")
        elif value or (option.bare and said[option.names[0]]):
            written.append((option.key, value))
    kind = template.kinds.get(said.get("kind", ""), "").format(**said)
    named = {**said, "entry": template.entry.get(said.get("mode", ""), ""), "kind_words": kind}
    remarks = [
        f"{framework} as of {template.source.split(', ', 1)[1]}",
        *(words for one in template.notes if (words := one.format(**named))),
        *(hint.says.format(**named) for hint in template.hints if said[hint.name] not in hint.holds),
        *beside,
        *(f"cannot be expressed here: {one}" for one in dict.fromkeys(missing)),
    ]
    head = template.head.format(**named)
    is_told = all(said[name] for name in _names(template.tail))
    tail = template.tail.format(**said) if is_told else ""
    return Launch(framework, head, tuple(written), tuple(remarks), _body(template.form, head, written, tail))


def _written(option: Option, said: Mapping[str, str]) -> str | None:
    """The value of an option; empty where nothing is to be said, None where it cannot be."""
    if any(not said[name] for name in option.names):
        return ""
    value = option.value.format(**said)
    return option.map.get(value) if option.map else value


def _body(form: str, head: str, written: list[tuple[str, str]], tail: str) -> str:
    """What is pasted into a shell, or the file."""
    if form == "json":
        return json.dumps(_nested(written), indent=2)
    if form == "yaml":
        return "\n".join(_yaml(_nested(written)))
    pairs = [f"{key}={value}" if form == "overrides" else f"{key} {value}".strip() for key, value in written]
    return " \\\n    ".join([head, *pairs, *([tail] if tail else [])])


Tree = dict[str, "Tree | str | int | bool"]


def _nested(written: list[tuple[str, str]]) -> Tree:
    out: Tree = {}
    for key, value in written:
        *above, last = key.split(".")
        at = out
        for name in above:
            inner = at.setdefault(name, {})
            if isinstance(inner, dict):
                at = inner
        at[last] = {"true": True, "false": False}.get(value, int(value) if value.isdigit() else value)
    return out


def _yaml(tree: Tree, indent: str = "") -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _yaml(value, indent + "  ")
        else:
            yield f"{indent}{key}: {str(value).lower() if isinstance(value, bool) else value}"
