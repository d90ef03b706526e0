"""Figures that can show their working: value, formula, inputs, and where each input comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from computeledger.arrays import Num, quantiles
from computeledger.facts.schema import Fact

#: Where an input comes from that a question states or leaves to its default.
ASKED = "as asked, or by default"


@dataclass(frozen=True, slots=True)
class Term:
    """An input of a formula."""

    name: str
    value: Num
    unit: str
    origin: str = "figure"
    ground: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A result with its formula."""

    name: str
    value: Num
    unit: str
    formula: str
    terms: tuple[Term, ...] = ()


def fact_term(name: str, fact: Fact, value: Num | None = None) -> Term:
    """Make a fact an input of a formula.

    Examples
    --------
    >>> fact = Fact(3.35e12, "bytes_per_s", "3.35 TB/s", "nvidia-h100", "2023-03", "table 1")
    >>> fact_term("W", fact).ground
    'nvidia-h100, 2023-03, table 1'
    """
    ground = f"{fact.source}, {fact.date}, {fact.locator}" + (f" ({fact.note})" if fact.source == "assumption" else "")
    origin = "assumption" if fact.source == "assumption" else "plan" if fact.source == "user" else "fact"
    return Term(name, fact.value if value is None else value, fact.unit, origin, ground)


def quantity(value: Num, unit: str) -> dict[str, Any] | float:
    """Render a quantity for JSON.

    Examples
    --------
    >>> import numpy as np
    >>> quantity(2.0, "s")
    2.0
    >>> quantity(np.linspace(0.0, 100.0, 21), "s")
    {'p05': 5.0, 'p10': 10.0, 'p50': 50.0, 'p90': 90.0, 'p95': 95.0, 'unit': 's'}
    """
    points = quantiles(value)
    return points if isinstance(points, float) else {**points, "unit": unit}


def quantities(values: Mapping[str, tuple[Num, str]]) -> dict[str, Any]:
    """Render several quantities for JSON.

    Examples
    --------
    >>> quantities({"ttft_s": (0.25, "s"), "usd": (3.0, "USD")})
    {'ttft_s': 0.25, 'usd': 3.0}
    """
    return {name: quantity(value, unit) for name, (value, unit) in values.items()}


def sources_of(figures: Iterable[Figure]) -> set[str]:
    """Collect the source keys that figures rest on.

    Examples
    --------
    >>> sources_of([Figure("a", 1.0, "s", "b", (Term("b", 1.0, "s", "fact", "nvidia-h100, 2023-03, table 1"),))])
    {'nvidia-h100'}
    """
    return {
        term.ground.partition(",")[0] for one in figures for term in one.terms if term.origin in ("fact", "calibration")
    }
