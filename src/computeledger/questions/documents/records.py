"""Results as JSON documents, one shape for the command line, the report and the web."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from computeledger.arrays import Range, median
from computeledger.economics.plan.keys import KINDS, SECTIONS, TOP, TRAFFIC
from computeledger.economics.plan.ledger import Ledger
from computeledger.economics.plan.phases import Phase
from computeledger.facts.reading import dimension_of
from computeledger.facts.schema import Fact
from computeledger.physics.calibration.serving import DEFAULT_ENGINE
from computeledger.physics.calibration.training import load_all_factors
from computeledger.physics.roofline import BOUNDS, Operation, bound, bound_times_s, total_s
from computeledger.physics.serving.memory import ServingMemory
from computeledger.questions.document import UNITS, picked, unit_of
from computeledger.workloads.result import Figure, Term, quantities, quantity

PHASE_QUANTITIES = ("tokens", "flop", "gpu_hours", "utilization_fraction", "usd", "energy_j")


def phase_document(phase: Phase) -> dict[str, Any]:
    """A ledger's phase."""
    return {
        **picked(phase, *PHASE_QUANTITIES, "accelerator", "model", "peak_flop_per_s"),
        "peak_precision": "bf16",
        "choices": dict(phase.choices),
        "details": quantities(phase.details),
    }


def plan_document(ledger: Ledger, working: bool = False) -> dict[str, Any]:
    """A plan's ledger as JSON, the shape that ``plan --json`` prints.

    Parameters
    ----------
    ledger : Ledger
        From :func:`computeledger.economics.plan.ledger.estimate_ledger`.
    working : bool
        Whether every figure's formula, inputs and grounds come along.

    Returns
    -------
    dict
        Phases, totals, shares, balance, drivers, assumptions, editions and sources.

    Examples
    --------
    >>> from computeledger.economics.plan.ledger import estimate_ledger
    >>> from computeledger.economics.plan.read import read_plan
    >>> plan = read_plan({"model": "llama-3.1-8b", "system": "h100-nvl8", "price": "$2/h",
    ...                   "pretraining": {"tokens": "15T tokens", "utilization": "40%"},
    ...                   "rl": {"skip": "none"}, "inference": {"skip": "none"}})
    >>> list(plan_document(estimate_ledger(plan, n_samples=16))["phases"])
    ['pretraining']
    """
    three = {name: phase for name, phase in ledger.phases.items() if name != "experiments"}
    skipped = {name: one.text("skip") for name, one in ledger.plan.sections.items() if "skip" in one}
    document: dict[str, Any] = {
        "title": ledger.plan.top.text("title") or ledger.plan.name,
        "phases": {name: phase_document(phase) for name, phase in three.items()},
        "skipped": skipped,
        "experiments": phase_document(ledger.phases["experiments"]) if "experiments" in ledger.phases else None,
        "total": {
            name: quantity(ledger.total(name), unit_of(name)) for name in ("flop", "gpu_hours", "usd", "energy_j")
        },
        "shares": {
            "flop": quantities({name: (share, "") for name, share in ledger.shares("flop").items()}),
            "gpu_time": quantities({name: (share, "") for name, share in ledger.shares("gpu_hours").items()}),
        },
        "balance": quantities(ledger.balance),
        "drivers": [
            {
                "name": one.name,
                "low": one.value.low,
                "high": one.value.high,
                "unit": driver_unit(one.name),
                "rank_correlation": {"gpu_hours": one.gpu_hours_correlation, "usd": one.usd_correlation},
            }
            for one in ledger.drivers
        ],
        "assumptions": [term_document(term) for term in ledger.assumptions],
        "editions": dict(ledger.editions),
        "sources": list(ledger.sources),
        "n_samples": ledger.n_samples,
        "seed": ledger.seed,
    }
    if working:
        everything = [*(figure for phase in ledger.phases.values() for figure in phase.figures), *ledger.figures]
        document["working"] = [figure_document(figure) for figure in everything]
        document["efficiency"] = efficiency_document(overrides=ledger.plan.efficiency.values)
    return document


def driver_unit(name: str) -> str:
    """Unit of an uncertain input, told from its name."""
    head, _, key = name.rpartition(".")
    if head == "efficiency":
        return "s" if key.endswith("_s") else ""
    if head.startswith("price"):
        return "USD/h"
    if head.startswith("power"):
        return "W"
    if head.startswith("ownership"):
        dimension = dimension_of(key)
        return UNITS.get(dimension, dimension)
    keys = {**TOP, **KINDS, **TRAFFIC, **SECTIONS.get(head, {})}
    kind = keys[key].kind if key in keys else ""
    return "fraction" if kind == "fraction" else UNITS.get(kind, "")


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


def operations_document(operations: Iterable[Operation]) -> list[dict[str, Any]]:
    """Operations of a step: work, time, what binds."""
    out = []
    every = list(operations)
    whole = np.maximum(total_s(every), 1e-300)
    for one in every:
        time_s = one.time_s
        if median(time_s) == 0:
            continue
        out.append(
            {
                "name": one.name,
                "flop": median(one.flop),
                "bytes": median(one.bytes),
                "network_bytes": median(one.network_bytes),
                "time_s": quantity(time_s, "s"),
                "share_fraction": float(np.mean(time_s / whole)),
                "bound": main_bound([one]),
                "intensity_flop_per_byte": median(one.intensity_flop_per_byte) if np.all(one.bytes) else None,
                "reached_flop_per_s": median(one.reached_flop_per_s),
            }
        )
    return out


def main_bound(operations: Iterable[Operation]) -> str:
    """What binds most often over the samples."""
    found = bound(operations)
    return max(BOUNDS, key=lambda name: np.count_nonzero(found == name))


def memory_document(held: ServingMemory) -> dict[str, Any]:
    """HBM of the busiest GPU by tenant."""
    return {
        "weights": median(held.weights_bytes),
        "kv_cache": median(held.kv_cache_bytes),
        "activations": median(held.activations_bytes),
        "workspace": median(held.workspace_bytes),
        "total": median(held.total_bytes),
        "capacity": held.capacity_bytes,
    }


def bound_fractions(operations: Iterable[Operation]) -> dict[str, float]:
    """Share of a step's time by what binds, at the median."""
    parts = {name: median(part) for name, part in bound_times_s(operations).items()}
    whole = max(sum(parts.values()), 1e-300)
    return {name: part / whole for name, part in parts.items()}


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
