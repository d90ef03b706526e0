"""Every quantitative claim of the source documents, recomputed and judged.

``claims.toml`` holds what was said and which of the project's formulas answers it; the verdict follows from the two
numbers. Nothing here knows a result in advance.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, cast

import numpy as np

from computeledger.arrays import Num
from computeledger.errors import nearest, unknown_id
from computeledger.facts.reading import Document, read_file
from computeledger.progress import counted
from computeledger.validation.claims.expressions import Evaluated, evaluate

Interval = tuple[float, float]
Verdict = Literal["holds", "holds_if", "fails", "input", "not_checkable"]

RELATIONS = ("equals", "at_least", "at_most", "everywhere")
#: The tolerance is one unit in the last digit that the claim gives, within these ends (a choice): 250,000 is held to
#: 4 %, 2,353 to 1 %, and 4e27 to an eighth.
LEAST_TOLERANCE_FRACTION, MOST_TOLERANCE_FRACTION = 0.01, 0.125
#: Where the claim itself says "about" (a choice).
ABOUT_TOLERANCE_FRACTION = 0.25
_ABOUT = re.compile(r"\b(about|roughly|plausibly|approximately|nearly|or so|say)\b", re.IGNORECASE)

_REQUIRED = ("document", "kind", "claim", "unit", "reason")
_OPTIONAL = (
    "claimed", "expected_low", "expected_high", "relation", "value", "condition", "if_value",
    "evidence", "status", "beside",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claim:
    """What a source document says, and how to recompute it."""

    id: str
    document: str
    kind: str
    claim: str
    reason: str
    unit: str
    claimed: Interval | None = None
    expected_low: float | None = None
    expected_high: float | None = None
    relation: str = "equals"
    value: Any = None
    if_value: Any = None
    evidence: Any = None
    condition: str = ""
    status: str = ""
    beside: tuple[Mapping[str, Any], ...] = ()

    @property
    def tolerance_fraction(self) -> float:
        """Rounding that the claim's digits and words allow, by one rule for all [-].

        Examples
        --------
        >>> claims = load_claims()
        >>> [claims[claim_id].tolerance_fraction for claim_id in ("C070", "C044", "C101")]
        [0.04, 0.25, 0.01]
        """
        if _ABOUT.search(self.claim):
            return ABOUT_TOLERANCE_FRACTION
        units = [10.0 ** _last_digit(one) / abs(one) for one in self.claimed or () if one]
        return min(max([LEAST_TOLERANCE_FRACTION, *units]), MOST_TOLERANCE_FRACTION)


def _last_digit(number: float) -> int:
    """Power of ten of the last digit that is not a trailing zero."""
    digits, _, power = f"{number:.6e}".partition("e")
    return int(power) - len(digits.rstrip("0").partition(".")[2])


@dataclass(frozen=True, slots=True)
class Beside:
    """A figure next to a claim."""

    label: str
    unit: str
    evaluated: Evaluated


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A claim with its verdict."""

    claim: Claim
    verdict: Verdict
    recomputed: Interval | None
    as_stated: Interval | None
    working: Evaluated | None
    beside: tuple[Beside, ...]


@functools.cache
def load_claims() -> Mapping[str, Claim]:
    """Load the claims.

    Examples
    --------
    >>> len(load_claims()), load_claims()["C122"].claimed
    (174, (64.0, 64.0))
    """
    document = read_file(resources.files("computeledger.validation.claims").joinpath("claims.toml"), shipped=True)
    return {claim_id: read_claim(document, claim_id) for claim_id in document.table}


def read_claim(document: Document, claim_id: str) -> Claim:
    """Build a claim from its table.

    Examples
    --------
    >>> from computeledger.facts.reading import parse_document
    >>> read_claim(parse_document("claims.toml", "[C1]", shipped=True), "C1")
    Traceback (most recent call last):
    computeledger.errors.FactError: claims.toml: C1: document, kind, claim, unit, reason missing
    """
    table = dict(document.table[claim_id])
    missing = [key for key in _REQUIRED if key not in table]
    if missing:
        raise document.error(claim_id, f"{', '.join(missing)} missing")
    for key in table:
        if key not in (*_REQUIRED, *_OPTIONAL):
            raise document.error(f"{claim_id}.{key}", f"unknown field; {nearest(key, (*_REQUIRED, *_OPTIONAL))}")
    if sum(key in table for key in ("value", "evidence", "status")) != 1:
        raise document.error(claim_id, "needs exactly one of value, evidence and status")
    if ("condition" in table) != ("if_value" in table):
        raise document.error(claim_id, "condition and if_value belong together")
    for key, allowed in (("status", ("input", "not_checkable")), ("relation", RELATIONS)):
        if key in table and table[key] not in allowed:
            raise document.error(f"{claim_id}.{key}", f"{table[key]!r}: {nearest(str(table[key]), allowed)}")
    claimed = table.pop("claimed", None)
    return Claim(
        id=claim_id,
        claimed=None if claimed is None else _interval(np.asarray(claimed, float)),
        beside=tuple(table.pop("beside", ())),
        **table,
    )


def _interval(value: Num) -> Interval:
    return float(np.min(value)), float(np.max(value))


def agrees(claim: Claim, found: Num) -> bool:
    """Whether a recomputed value bears a claim out.

    Examples
    --------
    >>> agrees(load_claims()["C122"], 50.0), agrees(load_claims()["C104"], 0.998002)
    (False, True)
    """
    said = claim.claimed or (
        -np.inf if claim.expected_low is None else claim.expected_low,
        np.inf if claim.expected_high is None else claim.expected_high,
    )
    least, most = 1.0 - claim.tolerance_fraction, 1.0 + claim.tolerance_fraction
    low, high = _interval(found)
    if claim.relation == "at_least":
        return low >= said[0] * least
    if claim.relation == "at_most":
        return high <= said[1] * most
    found_inside = low >= said[0] * least and high <= said[1] * most
    said_inside = said[0] >= low * least and said[1] <= high * most
    return found_inside or (said_inside and claim.relation != "everywhere")


def check_claim(claim: Claim) -> CheckedClaim:
    """Recompute a claim and judge it.

    Examples
    --------
    >>> checked = check_claim(load_claims()["C132"])
    >>> checked.verdict, checked.as_stated, checked.recomputed
    ('holds_if', (3.0, 3.0), (1.0, 1.0))
    """
    beside = tuple(Beside(one["label"], one["unit"], evaluate(one["value"])) for one in claim.beside)
    if claim.status:
        return CheckedClaim(claim, cast("Verdict", claim.status), None, None, None, beside)
    if claim.evidence is not None:
        seen = evaluate(claim.evidence)
        return CheckedClaim(claim, "holds" if agrees(claim, seen.value) else "fails", None, None, seen, beside)
    stated = evaluate(claim.value)
    as_stated = _interval(stated.value)
    if agrees(claim, stated.value):
        return CheckedClaim(claim, "holds", as_stated, as_stated, stated, beside)
    if claim.condition:
        other = evaluate(claim.if_value)
        if agrees(claim, other.value):
            return CheckedClaim(claim, "holds_if", _interval(other.value), as_stated, other, beside)
    return CheckedClaim(claim, "fails", as_stated, as_stated, stated, beside)


def check_claims(ids: Iterable[str] = ()) -> list[CheckedClaim]:
    """Recompute and judge claims.

    Examples
    --------
    >>> [checked.verdict for checked in check_claims(["c103", "C104"])]
    ['fails', 'holds']
    """
    claims = load_claims()
    wanted = list(dict.fromkeys(given.strip().upper() for given in ids)) or list(claims)
    for claim_id in wanted:
        if claim_id not in claims:
            raise unknown_id("claim", claim_id, claims)
    return [check_claim(claims[claim_id]) for claim_id in counted(wanted, "claims")]
