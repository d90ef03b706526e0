"""The grounds of an answer as JSON: facts, figures with their formulas, efficiency factors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from computeledger.arrays import Range
from computeledger.facts.schema import Fact
from computeledger.physics.calibration.serving import DEFAULT_ENGINE
from computeledger.physics.calibration.training import load_all_factors
from computeledger.workloads.result import Figure, Term, quantity


def term_document(term: Term) -> dict[str, Any]:
    """An input of a formula."""
    return {
        "name": term.name,
        "value": quantity(term.value, term.unit),
        "unit": term.unit,
        "origin": term.origin,
        "ground": term.ground,
    }


def figure_document(figure: Figure) -> dict[str, Any]:
    """A figure with its working."""
    return {
        "name": figure.name,
        "value": quantity(figure.value, figure.unit),
        "unit": figure.unit,
        "formula": figure.formula,
        "terms": [term_document(term) for term in figure.terms],
    }


def working_document(figures: Iterable[Figure], price: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Figures with their working; the price of a GPU-hour carries its source."""
    found = [figure_document(one) for one in figures]
    given = price["origin"] == "given"
    ground = "--price" if given else f"{price['source']}, {price['date']}, {price.get('locator', '')}".rstrip(", ")
    for term in (term for one in found for term in one["terms"] if term["name"] == "price"):
        term |= {"origin": "plan" if given else "fact", "ground": ground}
    return found


def efficiency_document(profile: str = DEFAULT_ENGINE, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Efficiency factors with their grounds; what a plan overrides is the plan's."""
    out = {}
    given = overrides or {}
    for name, factor in load_all_factors(profile).items():
        if name in given:
            value = given[name]
            low, high = (value.low, value.high) if isinstance(value, Range) else (value, value)
            out[name] = {
                "low": low,
                "high": high,
                "kind": "plan",
                "why": f"the plan's own: efficiency.{name}",
                "source": "assumption",
            }
            continue
        ends = (
            (factor.value.low, factor.value.high) if isinstance(factor.value, Range) else (factor.value, factor.value)
        )
        out[name] = {"low": ends[0], "high": ends[1], "kind": factor.kind, "why": factor.why, "source": factor.source}
    return out


def fact_document(fact: Fact) -> dict[str, Any]:
    """A fact with its provenance."""
    out: dict[str, Any] = {
        "value": fact.value,
        "unit": fact.unit,
        "given": fact.given,
        "source": fact.source,
        "date": fact.date,
        "locator": fact.locator,
    }
    if fact.low is not None:
        out |= {"low": fact.low, "high": fact.high}
    return {**out, "note": fact.note} if fact.note else out
