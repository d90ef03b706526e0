"""Real systems whose makers published what they do: the question that states each, and its figures beside ours."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeVar

from computeledger.errors import ComputeLedgerError
from computeledger.fields import Given, Record, question_from
from computeledger.validation.measured_table import curated_rows

_Q = TypeVar("_Q", bound=Record)


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """What was published, and where it stands in the document of an answer."""

    label: str
    key: str
    unit: str
    value: float


@dataclass(frozen=True, slots=True)
class RealSystem:
    """A system as its makers describe it: the texts of a question, and what they measured."""

    name: str
    command: str
    asked: Mapping[str, str]
    source: str
    url: str
    note: str
    figures: tuple[PublishedFigure, ...]


@functools.cache
def real_systems(command: str) -> tuple[RealSystem, ...]:
    """Those that a command answers about.

    Examples
    --------
    >>> [one.figures[0].value for one in real_systems("serve")]
    [1814.0, 4548.0105]
    """
    text = resources.files("computeledger.validation.published").joinpath("real_systems.toml").read_text("utf-8")
    return tuple(_read(one) for one in tomllib.loads(text)["system"] if one["command"] == command)


def real_system_of(question: Record, command: str) -> RealSystem | None:
    """The real system that a question states, if it states one.

    Examples
    --------
    >>> from computeledger.workloads.questions.rl import RLQuestion
    >>> real_system_of(RLQuestion(model="qwen3-8b", system="h100-nvl8", rollout_tokens=4096), "rl") is None
    True
    """
    return next((one for one in real_systems(command) if _states(question, one.asked)), None)


def _states(question: _Q, asked: Mapping[str, str]) -> bool:
    """Whether a question says of each field what the system's makers say."""
    given: dict[str, Given] = dict(asked)
    theirs = question_from(type(question), given)
    return all(getattr(question, name) == getattr(theirs, name) for name in asked)


def _read(one: Mapping[str, Any]) -> RealSystem:
    rows = curated_rows(one["table"])
    figures = [
        PublishedFigure(each["label"], each["key"], each.get("unit", ""), _value(rows, each)) for each in one["figure"]
    ]
    source = one["figure"][0]["where"]["source"]
    return RealSystem(one["name"], one["command"], one["asked"], source, one["url"], one["note"], tuple(figures))


def _value(rows: list[dict[str, str]], figure: Mapping[str, Any]) -> float:
    """The one row that a figure names."""
    found = [row for row in rows if all(row[name] == text for name, text in figure["where"].items())]
    if len(found) != 1:
        raise ComputeLedgerError(f"{figure['label']}: {len(found)} rows of the table are it, not one")
    return float(found[0]["value"]) * float(figure.get("times", 1))
