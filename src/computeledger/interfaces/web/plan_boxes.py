"""Plans that the page *Life* starts from: what their boxes show, and the plan that changed boxes make of them."""

from __future__ import annotations

import dataclasses
import functools
import json
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from computeledger.arrays import Range
from computeledger.economics.plan.keys import REQUIRED_SECTIONS, SECTIONS, TOP
from computeledger.economics.plan.read import INCOME, Plan, read_plan
from computeledger.facts.load import load_model, load_system
from computeledger.fields import Field
from computeledger.interfaces.web.controls import control_of
from computeledger.interfaces.web.spec import Control, Values
from computeledger.units import format_si, parse_quantity

#: Keys without a box that fall away with a box of their section: what a plan states of its own case alone.
_RESTS_ON = {
    "gpus": ("layout", "training_layout", "batch", "live_limit", "microbatch_sequences", "virtual_stages", "recompute"),
    "rate": ("tokens",), "life": ("tokens",), "tpot": ("batch",),
    "input_tokens": ("kinds",), "cached_tokens": ("kinds",), "output_tokens": ("kinds",),
}  # fmt: skip
#: Of any box of a section.
_STATED = ("gpu_hours", "utilization")
#: Boxes that make another plan of it: nothing without a box holds any more but the traffic, which a plan needs.
_ANOTHER = ("model", "system")
_TRAFFIC = "inference.tokens"
#: Units that a plan's bare number has anyway.
_UNWRITTEN = ("fraction", "rollouts")
_DIMENSIONS = {"$/h": "usd_per_hour", "days": "s", "ms": "s"}
#: Whole numbers from here on are written with a suffix.
_LONG = 1e5
#: Plans by name, in the order of the list.
PLANS = ("deepseek-v3", "llama-3.1-405b")


def key_of(name: str) -> tuple[str, Field]:
    """The key that a box shows, dotted, and its field; a box may go by an earlier name, which stays in addresses.

    Examples
    --------
    >>> key_of("rl.rollout")[0], key_of("price")[0]
    ('rl.rollout_tokens', 'price')
    """
    section, _, key = name.rpartition(".")
    keys = SECTIONS[section] if section else TOP
    one = next(one for one in keys.values() if key in (one.name, *one.aliases))
    return f"{section}.{one.name}".lstrip("."), one


def box(name: str, label: str, **look: Any) -> Control:
    """The box of a plan's key: unit, slider and help are the key's own where ``look`` does not say otherwise.

    Examples
    --------
    >>> box("rl.group_size", "Rollouts per prompt").high, box("inference.life", "Life", unit="days").help
    (256, 'How long the traffic lasts.')
    """
    one = key_of(name)[1]
    own: dict[str, Any] = {"kind": "number", "default": "", "blank": one.blank or "the plan's"}
    own["group"] = name.partition(".")[0]
    if one.slider is None and look.get("unit") == "fraction":
        own |= {"low": 0.0, "high": 1.0}
    return dataclasses.replace(control_of(one, {**own, "label": label, **look}), name=name, option="")


@functools.cache
def plan_toml(name: str) -> str:
    """Text of a plan that the app carries, the same as the file of this name in ``examples/``.

    Examples
    --------
    >>> plan_toml("deepseek-v3").splitlines()[1]
    'title = "DeepSeek-V3 as published"'
    """
    folder = resources.files("computeledger.interfaces.web").joinpath("plans")
    return folder.joinpath(f"{name}.toml").read_text("utf-8")


@functools.cache
def _published(name: str) -> Plan:
    """A plan that the app carries."""
    return read_plan(tomllib.loads(plan_toml(name)), name)


def boxes_of(name: str, controls: Sequence[Control]) -> Values:
    """What the boxes show of a plan.

    Examples
    --------
    >>> boxes_of("deepseek-v3", (Control("inference.life", "Life", unit="days"), Control("rl.gpus", "GPUs")))
    {'inference.life': '183..365', 'rl.gpus': '512'}
    """
    plan = _published(name)
    return {one.name: _box(plan, one) for one in controls}


def _box(plan: Plan, control: Control) -> str:
    section, _, key = key_of(control.name)[0].rpartition(".")
    own = plan.income if section == INCOME else plan.sections[section] if section else plan.top
    value = "" if own is None else own.values.get(key, "")
    if key == "model":
        return load_model(str(value)).id
    if key == "system":
        return load_system(str(value)).id
    if isinstance(value, str):
        return value
    size = parse_quantity(f"1 {control.unit}", _DIMENSIONS[control.unit]) if control.unit in _DIMENSIONS else 1.0
    sides = (value.low, value.high) if isinstance(value, Range) else (value,)
    return "..".join(_written(one / float(size)) for one in sides)  # type: ignore[arg-type]


def _written(value: float) -> str:
    """A number as a box shows it: a count whole, anything else to three digits."""
    return f"{value:.0f}" if value < _LONG and value == int(value) else format_si(value).replace(" ", "")


def plan_tables(values: Values, controls: Sequence[Control]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Tables of the plan that the boxes describe.

    Examples
    --------
    >>> gpus = Control("rl.gpus", "GPUs", unit="GPUs")
    >>> tables, dropped = plan_tables({"plan": "deepseek-v3", "rl.gpus": "1024"}, (gpus,))
    >>> tables["rl"]["gpus"], tables["pretraining"]["gpu_hours"], dropped
    ('1024 GPUs', '2.664M GPU-hours', ('rl.gpu_hours',))
    """
    name = values["plan"]
    tables = tomllib.loads(plan_toml(name))
    changed = {
        key_of(one)[0]: values.get(one, "")
        for one, text in boxes_of(name, controls).items()
        if values.get(one, "") != text
    }
    boxed = {key_of(one.name)[0] for one in controls}
    gone = {dotted: None for dotted in _hidden(tables, boxed) if _falls(dotted, changed)}
    for dotted in gone:
        _put(tables, dotted, "")
    units = {key_of(one.name)[0]: "" if one.unit in _UNWRITTEN else one.unit for one in controls}
    for dotted, text in changed.items():
        plain = text[-1:].isdigit() or text[-1:] in "kKMGBTP"
        _put(tables, dotted, f"{text} {units[dotted]}" if text and plain and units[dotted] else text)
    tables = {key: one for key, one in tables.items() if one or key in REQUIRED_SECTIONS}
    if changed:
        tables["title"] = f"A scenario, from: {tables['title']}"
    return tables, tuple(gone)


def _hidden(tables: Mapping[str, Any], boxed: set[str]) -> list[str]:
    """Dotted keys that no box shows."""
    dotted = [f"{name}.{key}" for name, section in tables.items() if isinstance(section, dict) for key in section]
    return [one for one in dotted if one not in boxed]


def _falls(dotted: str, changed: Mapping[str, str]) -> bool:
    """Whether a key without a box falls away with the boxes that changed."""
    section, _, key = dotted.partition(".")
    near = [one.partition(".")[2] for one in changed if one.startswith(f"{section}.")]
    return (
        (dotted != _TRAFFIC and any(one in changed for one in _ANOTHER))
        or (key in _STATED and bool(near))
        or any(key in _RESTS_ON.get(one, ()) for one in near)
    )


def _put(tables: dict[str, Any], dotted: str, text: str) -> None:
    """Set a key, or take it away where the text is empty."""
    section, _, key = dotted.rpartition(".")
    place = tables.setdefault(section, {}) if section else tables
    if text:
        place[key] = text
    else:
        place.pop(key, None)


def plan_text(tables: Mapping[str, Any]) -> str:
    """Tables, and lists of tables, as the text of a PLAN.toml or another file.

    Examples
    --------
    >>> print(plan_text({"price": "2 $/h", "inference": {"life": "1 year", "kinds": {"output": "100%"}}}), end="")
    price = "2 $/h"
    <BLANKLINE>
    [inference]
    life = "1 year"
    <BLANKLINE>
    [inference.kinds]
    output = "100%"
    >>> print(plan_text({"offer": [{"system": "h100-nvl8"}, {"api": "a/b"}]}), end="")
    [[offer]]
    system = "h100-nvl8"
    <BLANKLINE>
    [[offer]]
    api = "a/b"
    """
    return "\n".join(_lines(tables, "")).lstrip("\n") + "\n"


def _lines(table: Mapping[str, Any], name: str) -> list[str]:
    tables = {key: [one] if isinstance(one, dict) else one for key, one in table.items() if _is_tables(one)}
    out = [f"{key} = {_toml(value)}" for key, value in table.items() if key not in tables]
    for key, several in tables.items():
        dotted = f"{name}.{key}".lstrip(".")
        header = f"[{dotted}]" if isinstance(table[key], dict) else f"[[{dotted}]]"
        out += [line for one in several for line in ("", header, *_lines(one, dotted))]
    return out


def _is_tables(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and all(isinstance(one, dict) for one in value))


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
