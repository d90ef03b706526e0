"""The grounds of an answer as JSON: facts, figures with their formulas, efficiency factors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from computeledger.arrays import Range
from computeledger.facts.schema import Fact
from computeledger.physics.calibration.serving import DEFAULT_ENGINE
from computeledger.physics.calibration.training import load_all_factors
from computeledger.workloads.result import Figure, Term, quantity


def stated_term(name: str, value: Any, unit: str, origin: str = "figure", ground: str = "") -> dict[str, Any]:
    """An input of a formula whose value is that of a document: a number, or quantiles with their unit."""
    return {"name": name, "value": value, "unit": unit, "origin": origin, "ground": ground}


def stated_figure(name: str, value: Any, unit: str, formula: str, terms: list[dict[str, Any]]) -> dict[str, Any]:
    """A figure with its working, whose value is that of a document."""
    return {"name": name, "value": value, "unit": unit, "formula": formula, "terms": terms}


def term_document(term: Term) -> dict[str, Any]:
    """An input of a formula."""
    return stated_term(term.name, quantity(term.value, term.unit), term.unit, term.origin, term.ground)


def figure_document(figure: Figure) -> dict[str, Any]:
    """A figure with its working."""
    terms = [term_document(term) for term in figure.terms]
    return stated_figure(figure.name, quantity(figure.value, figure.unit), figure.unit, figure.formula, terms)


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
