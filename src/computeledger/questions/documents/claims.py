"""Checked claims as one JSON document, for the command line and the page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from computeledger.validation.claims.check import CheckedClaim, Interval
from computeledger.validation.claims.expressions import Evaluated


def claims_document(checked: Iterable[CheckedClaim]) -> dict[str, Any]:
    """Claims with verdict, reason and working."""
    return {"claims": [claim_document(one) for one in checked]}


def claim_document(checked: CheckedClaim) -> dict[str, Any]:
    """One claim: ``recomputed`` is under the condition where the verdict is ``holds_if``."""
    claim = checked.claim
    conditional = checked.verdict == "holds_if"
    return {
        "id": claim.id,
        "document": claim.document,
        "kind": claim.kind,
        "claim": claim.claim,
        "claimed": _number(claim.claimed),
        "relation": claim.relation,
        "tolerance_fraction": claim.tolerance_fraction,
        "recomputed": _number(checked.recomputed),
        "condition": claim.condition if conditional else "",
        "recomputed_as_stated": _number(checked.as_stated) if conditional else None,
        "expected_low": claim.expected_low,
        "expected_high": claim.expected_high,
        "unit": claim.unit,
        "verdict": checked.verdict,
        "reason": claim.reason,
        "working": checked.working.written if checked.working is not None else "",
        "beside": [
            {
                "label": one.label,
                "unit": one.unit,
                "value": _number(_ends(one.evaluated)),
                "working": one.evaluated.written,
            }
            for one in checked.beside
        ],
        "facts": _facts([*([checked.working] if checked.working else []), *(one.evaluated for one in checked.beside)]),
    }


def _number(interval: Interval | None) -> float | list[float] | None:
    if interval is None:
        return None
    return interval[0] if interval[0] == interval[1] else list(interval)


def _ends(evaluated: Evaluated) -> Interval:
    return float(np.min(evaluated.value)), float(np.max(evaluated.value))


def _facts(evaluated: Iterable[Evaluated]) -> list[dict[str, Any]]:
    """Published numbers behind a claim, each with its source."""
    facts = {reference: fact for one in evaluated for reference, fact in one.facts.items()}
    return [
        {
            "name": name,
            "given": fact.given,
            "source": fact.source,
            "date": fact.date,
            "locator": fact.locator,
            "note": fact.note,
        }
        for name, fact in facts.items()
    ]
