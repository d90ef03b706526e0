"""Every quantitative claim of the source documents, recomputed and judged.

``claims.toml`` holds what was said and which of the project's formulas answers it; the verdict follows from the two
numbers. Nothing here knows a result in advance.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, cast

import numpy as np

from computeledger.arrays import Num
from computeledger.errors import nearest, unknown_id
from computeledger.facts.reading import Document, read_file
from computeledger.progress import counted
from computeledger.validation.claims.conclusions import Conclusion, load_conclusions
from computeledger.validation.claims.expressions import Evaluated, evaluate
from computeledger.validation.claims.scale import RELATIONS, Interval, Wording, agree, wording

Verdict = Literal["holds", "holds_if", "fails", "derived", "input", "not_checkable"]
Basis = Literal["published facts", "its own premises", ""]

#: What a source says of a figure that it does not stand behind: such evidence decides nothing.
_SPECULATIVE = "marked speculative"

_REQUIRED = ("document", "kind", "claim", "unit", "reason")
_OPTIONAL = (
    "claimed", "expected_low", "expected_high", "words", "value", "condition", "if_value", "evidence", "status",
    "beside", "short", "plainly",
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
    words: str = ""
    value: Any = None
    if_value: Any = None
    evidence: Any = None
    condition: str = ""
    status: str = ""
    beside: tuple[Mapping[str, Any], ...] = ()
    short: str = ""
    plainly: str = ""

    @property
    def wording(self) -> Wording:
        """How the claim states its figure, from its own words and digits.

        Examples
        --------
        >>> claims = load_claims()
        >>> [claims[claim_id].wording.precision for claim_id in ("C070", "C044", "C101", "C130")]
        ['figure', 'about', 'exact', 'order of magnitude']
        """
        return wording(self.claim, self.claimed, self.words)


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
    conclusion: Conclusion

    @property
    def basis(self) -> Basis:
        """What the recomputed number rests on: published facts, or nothing but the document's own premises."""
        if self.working is None:
            return ""
        return "published facts" if self.working.facts else "its own premises"


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
    for key, allowed in (("status", ("input", "not_checkable")), ("words", tuple(RELATIONS))):
        if key in table and table[key] not in allowed:
            raise document.error(f"{claim_id}.{key}", f"{table[key]!r}: {nearest(str(table[key]), allowed)}")
    if table.get("words", "") not in table["claim"]:
        raise document.error(f"{claim_id}.words", f"{table['words']!r} is not in the claim's own words")
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
    """Whether a recomputed value bears out the figure that a claim states, by the one scale.

    Examples
    --------
    >>> agrees(load_claims()["C122"], 50.0), agrees(load_claims()["C104"], 0.998002)
    (False, True)
    """
    return claim.claimed is not None and agree(claim.claimed, _interval(found), claim.wording)


def check_claim(claim: Claim) -> CheckedClaim:
    """Recompute a claim and judge it.

    Examples
    --------
    >>> checked = check_claim(load_claims()["C132"])
    >>> checked.verdict, checked.as_stated, checked.recomputed
    ('holds_if', (3.0, 3.0), (1.0, 1.0))
    """
    beside = tuple(Beside(one["label"], one["unit"], evaluate(one["value"])) for one in claim.beside)
    conclusion = load_conclusions().get(claim.id, Conclusion())
    if claim.status:
        return CheckedClaim(claim, cast("Verdict", claim.status), None, None, None, beside, conclusion)
    working = evaluate(claim.value if claim.evidence is None else claim.evidence)
    as_stated = None if claim.value is None else _interval(working.value)
    verdict = _verdict(claim, working)
    if verdict == "fails" and claim.condition:
        other = evaluate(claim.if_value)
        if agrees(claim, other.value):
            return CheckedClaim(claim, "holds_if", _interval(other.value), as_stated, other, beside, conclusion)
    return CheckedClaim(claim, verdict, as_stated, as_stated, working, beside, conclusion)


def _verdict(claim: Claim, working: Evaluated) -> Verdict:
    """The verdict on a claim as it stands."""
    if claim.claimed is None:
        return "derived"
    if any(_SPECULATIVE in fact.note for fact in working.facts.values()):
        return "not_checkable"
    return "holds" if agrees(claim, working.value) else "fails"


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
