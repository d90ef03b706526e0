"""Plans: a PLAN.toml read into checked quantities."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from computeledger.arrays import Range, Uncertain
from computeledger.economics.plan.keys import (
    KINDS,
    REQUIRED_SECTIONS,
    SECTIONS,
    TOP,
    TRAFFIC,
    Key,
    efficiency_keys,
)
from computeledger.errors import InputError, PlanError, nearest, shown
from computeledger.files import MOST_TOML_BYTES, parse_toml, read_user_text
from computeledger.units import parse_quantity

Value = Uncertain | str


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a plan with checked values.

    Attributes
    ----------
    name : str
        Dotted name, for messages and sample names.
    values : mapping of str to float, Range or str
        By key, in SI.
    kinds : Section or None
        Tokens by kind.
    traffic : tuple of Section
        Streams of an inference section.
    """

    name: str
    values: Mapping[str, Value]
    kinds: Section | None = None
    traffic: tuple[Section, ...] = ()

    def text(self, key: str) -> str | None:
        """A value that is a word.

        Parameters
        ----------
        key : str
            Of the section.

        Returns
        -------
        str or None
            None where the section is silent or holds a quantity.

        Examples
        --------
        >>> section = Section("rl", {"mode": "synchronous", "gpus": 8.0})
        >>> section.text("mode"), section.text("gpus")
        ('synchronous', None)
        """
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def parts(self) -> Iterator[Section]:
        """The section, its tokens by kind, and its streams with theirs.

        Yields
        ------
        Section
            Each with values of its own.

        Examples
        --------
        >>> streams = (Section("inference.traffic1", {}, Section("inference.traffic1.kinds", {})),)
        >>> [part.name for part in Section("inference", {}, None, streams).parts()]
        ['inference', 'inference.traffic1', 'inference.traffic1.kinds']
        """
        yield self
        if self.kinds is not None:
            yield self.kinds
        for stream in self.traffic:
            yield from stream.parts()

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.values.items()), self.kinds, self.traffic))


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked plan.

    Attributes
    ----------
    name : str
        File it was read from.
    top : Section
        Title and defaults of the sections.
    sections : mapping of str to Section
        By name.
    efficiency : Section
        Efficiency factors that the plan overrides.
    """

    name: str
    top: Section
    sections: Mapping[str, Section] = field(default_factory=dict)
    efficiency: Section = field(default_factory=lambda: Section("efficiency", {}))

    def value(self, section: Section, key: str) -> Value | None:
        """A section's value, or the plan's own where the section is silent.

        Parameters
        ----------
        section : Section
            Of this plan.
        key : str
            Of the section.

        Returns
        -------
        float, Range, str or None
            None where both are silent.

        Examples
        --------
        >>> plan = Plan("x", Section("plan", {"system": "h100-nvl8"}))
        >>> plan.value(Section("rl", {}), "system")
        'h100-nvl8'
        """
        return section.values.get(key, self.top.values.get(key))

    def uncertain(self) -> dict[str, Uncertain]:
        """Every quantity of the plan, for sampling.

        Returns
        -------
        dict of str to float or Range
            By dotted name, in SI.

        Examples
        --------
        >>> rl = Section("rl", {"gpus": 8.0, "layout": "tp8"})
        >>> Plan("x", Section("plan", {"price": 2.0}), {"rl": rl}).uncertain()
        {'plan.price': 2.0, 'rl.gpus': 8.0}
        """
        parts = [part for one in (self.top, self.efficiency, *self.sections.values()) for part in one.parts()]
        return {
            f"{part.name}.{key}": value
            for part in parts
            for key, value in part.values.items()
            if not isinstance(value, str)
        }


def load_plan(path: str | Path) -> Plan:
    """Read and check a plan file.

    Parameters
    ----------
    path : str or Path
        A TOML file; paths of models and systems in it are its neighbours.

    Returns
    -------
    Plan
        With every quantity in SI.

    Raises
    ------
    PlanError
        In one line: file, section, key, what was given and what is allowed.

    Examples
    --------
    >>> load_plan("nowhere.toml")
    Traceback (most recent call last):
    computeledger.errors.PlanError: nowhere.toml: no such file
    """
    if not str(path):
        raise PlanError("the plan's file name is missing: it is empty")
    file = Path(path)
    try:
        text = read_user_text(file, MOST_TOML_BYTES)
        tables = parse_toml(text, str(path))
    except InputError as error:
        raise PlanError(str(error)) from None
    try:
        return read_plan(_beside(file.parent, tables), str(path))
    except PlanError as error:
        raise PlanError(f"{path}{_line_words(text, str(error))}: {error}") from None


def _line_words(text: str, message: str) -> str:
    """``:12`` where the message names a key that stands on one line of its section, else nothing."""
    named = re.match(r"(?:\[([\w.]+)[^\]]*\] )?(?:unknown key '(\w+)'|(\w+) = )", message)
    if named is None:
        return ""
    wanted, key, section = named[1] or "", named[2] or named[3], ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+\s*([\w.]+)\s*\]+", line):
            section = header[1]
        elif section == wanted and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
            return f":{number}"
    return ""


def _beside(folder: Path, table: Mapping[str, Any], section: str = "") -> dict[str, Any]:
    """The same tables with the models and systems that are files beside the plan as paths from here."""
    out: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            out[key] = _beside(folder, value, f"{section}.{key}".lstrip("."))
        elif isinstance(value, list) and (key == "traffic" or all(isinstance(one, dict) for one in value)):
            out[key] = [_beside(folder, one, key) if isinstance(one, dict) else one for one in value]
        elif isinstance(value, (bool, list, datetime.date, datetime.time)):
            label = f"[{section}] " if section else ""
            raise PlanError(f"{label}{key} = {shown(value)}: expected a number, or a text in quotes")
        elif key in ("model", "system") and isinstance(value, str) and _is_file(folder / value):
            out[key] = str(folder / value)
        else:
            out[key] = value
    return out


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # longer than a file name can be: an id then
        return False


def read_plan(tables: Mapping[str, Any], name: str = "plan") -> Plan:
    """Check parsed TOML.

    Parameters
    ----------
    tables : mapping
        As :func:`computeledger.files.parse_toml` gives it.
    name : str
        What to call the plan.

    Returns
    -------
    Plan
        With every quantity in SI.

    Raises
    ------
    PlanError
        In one line: section, key, what was given and what is allowed.

    Examples
    --------
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8",
    ...                   "pretraining": {"tokens": "15T tokens", "utilization": "40%"},
    ...                   "rl": {"skip": "base model only"}, "inference": {"skip": "not served"}})
    >>> plan.sections["pretraining"].values
    {'tokens': 15000000000000.0, 'utilization': 0.4}
    >>> read_plan({"model": "deepseek-v3"})
    Traceback (most recent call last):
    computeledger.errors.PlanError: [pretraining] is missing; a phase that the plan leaves out says why: skip = "..."
    """
    if not isinstance(tables, Mapping):
        raise PlanError(f"read_plan takes the tables of a plan, not {shown(tables)}; load_plan reads a file")
    top = {key: value for key, value in tables.items() if not isinstance(value, dict)}
    sections = {key: value for key, value in tables.items() if isinstance(value, dict)}
    allowed = [*SECTIONS, "efficiency"]
    for key in sections:
        if key not in allowed:
            raise PlanError(f"unknown section [{key}]: {nearest(key, allowed)}")
    for key in REQUIRED_SECTIONS:
        if key not in sections:
            raise PlanError(f'[{key}] is missing; a phase that the plan leaves out says why: skip = "..."')
    read = {key: _section(key, sections[key]) for key in SECTIONS if key in sections}
    efficiency = Section("efficiency", _values("efficiency", sections.get("efficiency", {}), efficiency_keys()))
    plan = Plan(name, Section("plan", _values("plan", top, TOP)), read, efficiency)
    _check(plan)
    return plan


def _section(name: str, table: Mapping[str, Any]) -> Section:
    plain = {key: value for key, value in table.items() if key not in ("kinds", "traffic") or name != "inference"}
    kinds, traffic = (table.get("kinds"), table.get("traffic", [])) if name == "inference" else (None, [])
    if not isinstance(traffic, list) or not all(isinstance(one, dict) for one in traffic):
        raise PlanError("[inference] traffic: write [[inference.traffic]] once per stream")
    streams = tuple(
        Section(
            f"inference.traffic{index}",
            _values(f"[inference.traffic] {index}", {k: v for k, v in one.items() if k != "kinds"}, TRAFFIC),
            _kinds(f"inference.traffic{index}.kinds", one.get("kinds")),
        )
        for index, one in enumerate(traffic, start=1)
    )
    return Section(name, _values(name, plain, SECTIONS[name]), _kinds("inference.kinds", kinds), streams)


def _kinds(name: str, table: Any) -> Section | None:
    if table is None:
        return None
    if not isinstance(table, dict) or not table:
        raise PlanError(f"[{name}]: give tokens or shares of {', '.join(KINDS)}")
    shares = all(not isinstance(value, str) or value.strip().endswith("%") for value in table.values())
    keys = {key: Key("fraction", "", "", zero=True) for key in KINDS} if shares else KINDS
    values = _values(name, table, keys)
    if all(value == 0 for key, value in values.items() if key != "cached"):
        raise PlanError(f"[{name}]: no tokens beside cached ones; give those that users write or the model generates")
    if shares:
        exact = [value for value in values.values() if isinstance(value, float)]
        if len(exact) != len(values) or abs(sum(exact) - 1) > 1e-6:
            raise PlanError(f"[{name}]: shares must be single numbers that add up to 100 %")
        return Section(name, {**values, "shares": "yes"})
    return Section(name, values)


def _values(section: str, table: Any, keys: Mapping[str, Key]) -> dict[str, Value]:
    label = "" if section == "plan" else section if section.startswith("[") else f"[{section}]"
    out: dict[str, Value] = {}
    for key, given in table.items():
        if key not in keys:
            raise PlanError(f"{label} unknown key {key!r}: {nearest(key, keys)}".strip())
        try:
            out[key] = _value(given, keys[key])
        except InputError as error:
            raise PlanError(f"{label} {key} = {error}".strip()) from None
    return out


def _value(given: Any, key: Key) -> Value:
    if key.kind == "text":
        if not isinstance(given, str) or not given.strip():
            raise PlanError(f"{given!r}: expected a text such as {key.example!r}")
        return key.read(given) if key.read is not None else given
    if "|" in key.kind:
        choices = key.kind.split("|")
        if given not in choices:
            raise PlanError(f"{given!r}: {nearest(str(given), choices)} (allowed: {', '.join(choices)})")
        return str(given)
    if isinstance(given, str) and given in key.words:
        return given
    if not isinstance(given, (str, int, float)) or isinstance(given, bool):
        raise PlanError(f"{given!r}: expected a quantity such as {key.example!r}")
    if key.words and isinstance(given, str) and given.strip().isalpha():
        raise PlanError(f"{given!r}: expected a quantity such as {key.example!r}, or {' or '.join(key.words)}")
    value = parse_quantity(given, key.kind)
    if not key.zero and (value.low if isinstance(value, Range) else value) <= 0:
        raise PlanError(f"{given!r}: must be more than zero")
    if (value.high if isinstance(value, Range) else value) > key.most:
        raise PlanError(f"{given!r}: must be at most {key.most:,.0f}")
    if key.whole and not isinstance(value, Range) and value != int(value):
        raise PlanError(f"{given!r}: expected a whole number")
    return value


def _check(plan: Plan) -> None:
    """What no single key can tell: sections that say too little, or say a thing twice."""
    for name, section in plan.sections.items():
        if "skip" in section:
            if len(section.values) > 1 or section.kinds or section.traffic:
                raise PlanError(f"[{name}] skip stands alone: it says that there is no such phase")
            continue
        if name != "experiments":
            for key in ("model", "system"):
                if plan.value(section, key) is None:
                    raise PlanError(f"[{name}] {key} is missing: give it there or at the top of the plan")
        _CHECKS[name](section)
    _check_references(plan)


def _check_pretraining(section: Section) -> None:
    if section.text("schedule") not in (None, "1f1b") and "virtual_stages" in section:
        raise PlanError(f"[{section.name}] virtual_stages: a {section.text('schedule')} schedule has none")
    _need(section, ("tokens",))
    _at_most_one(section, ("gpu_hours", "utilization"))
    _check_balanced(section)
    if not any(key in section for key in ("gpu_hours", "utilization", "gpus")):
        raise PlanError("[pretraining] gpus is missing (or gpu_hours, or utilization)")


def _check_rl(section: Section) -> None:
    _one_of(section, ("tokens", "steps"))
    _at_most_one(section, ("gpu_hours", "utilization", "beta_gpu_time"))
    if ("verifier_time" in section) != ("verifier_cores" in section):
        raise PlanError("[rl] verifier_time and verifier_cores belong together: give both or neither")
    tail = section.values.get("longest_over_mean")
    if not isinstance(tail, str | None) and (tail.low if isinstance(tail, Range) else tail) < 1:
        raise PlanError("[rl] longest_over_mean is below 1: the longest rollout is not shorter than the mean")
    _check_balanced(section)
    _need(section, ("rollout", "prompt", "prompts_per_step", "group_size", "gpus"))


def _check_balanced(section: Section) -> None:
    if section.text("tokens") == "balanced" and "gpu_hours" in section:
        raise PlanError(f'[{section.name}] tokens = "balanced" and gpu_hours contradict each other: give one of them')


def _check_inference(section: Section) -> None:
    _at_most_one(section, ("gpu_hours", "utilization"))
    if section.traffic:
        whole = [key for key in ("tokens", "rate", "life") if key in section] + ["kinds"] * (section.kinds is not None)
        if whole:
            raise PlanError(f"[inference] {whole[0]} stands beside [[inference.traffic]]: give it in each stream")
        names = [stream.text("name") for stream in section.traffic if "name" in stream]
        for name in names:
            if names.count(name) > 1:
                raise PlanError(f"[inference.traffic] name = {name!r} is given twice")
    for stream in section.traffic or (section,):
        _check_stream(stream, section)


def _check_experiments(section: Section) -> None:
    _one_of(section, ("gpu_hours", "gpu_time_of_pretraining"))


_CHECKS = {
    "pretraining": _check_pretraining,
    "rl": _check_rl,
    "inference": _check_inference,
    "experiments": _check_experiments,
}


def _check_references(plan: Plan) -> None:
    """What rests on a section that is skipped."""
    pretraining, rl, inference = (plan.sections[name] for name in REQUIRED_SECTIONS)
    if "skip" in inference and pretraining.text("tokens") == "balanced":
        raise PlanError('[pretraining] tokens = "balanced" needs an [inference] section to balance with')
    if "skip" in pretraining and rl.text("tokens") == "balanced":
        raise PlanError('[rl] tokens = "balanced" needs a [pretraining] section to balance with')
    if "skip" in pretraining and "gpu_time_of_pretraining" in plan.sections.get("experiments", {}):
        raise PlanError("[experiments] gpu_time_of_pretraining needs a [pretraining] section; give gpu_hours instead")


def _check_stream(stream: Section, inference: Section) -> None:
    label = stream.name.replace("inference.traffic", "inference.traffic ")
    by_amount = stream.kinds is not None and stream.kinds.text("shares") is None
    if not by_amount:
        if "rate" in stream or "life" in stream:
            _need(stream, ("rate", "life"))
        given = [key for key in ("tokens", "rate") if key in stream]
        if len(given) != 1:
            raise PlanError(f"[{label}] give tokens, or rate and life, or [inference.kinds] in tokens")
    elif "tokens" in stream or "rate" in stream:
        raise PlanError(f"[{label}] tokens are given twice: whole and by kind")
    for key in ("input", "output"):
        if key not in stream and key not in inference:
            raise PlanError(f"[{label}] {key} is missing: tokens of a request, such as {key} = '1000 tokens'")


def _need(section: Section, keys: tuple[str, ...]) -> None:
    for key in keys:
        if key not in section:
            example = SECTIONS[section.name.split(".")[0]][key].example
            raise PlanError(f"[{section.name}] {key} is missing, such as {key} = {example!r}")


def _one_of(section: Section, keys: tuple[str, ...]) -> None:
    if not any(key in section for key in keys):
        raise PlanError(f"[{section.name}] {' or '.join(keys)} is missing")
    _at_most_one(section, keys)


def _at_most_one(section: Section, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if key in section]
    if len(given) > 1:
        raise PlanError(f"[{section.name}] {' and '.join(given)} contradict each other: give one of them")
