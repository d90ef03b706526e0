"""Answer which claims of the source documents hold, each with its working."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np

from computeledger.fields import Given
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.claims import ClaimsQuestion
from computeledger.validation.claims.check import CheckedClaim, Verdict, check_claims
from computeledger.validation.claims.conclusions import ConclusionVerdict
from computeledger.validation.claims.expressions import Evaluated
from computeledger.validation.claims.scale import Interval

#: Verdicts that a formula decides.
_JUDGED: tuple[Verdict, ...] = ("holds", "holds_if", "fails")
_OF_A_FACT = ("given", "source", "date", "locator", "note")


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ClaimsAnswer(Answer):
    """Claims with their verdicts."""

    question: ClaimsQuestion
    checked: tuple[CheckedClaim, ...]

    def contents(self, *, working: bool = False) -> dict[str, Any]:
        """As ``computeledger claims --json`` prints it; every claim comes with its working."""
        del working
        return {"counts": self.counts, "claims": [_document(one) for one in self.checked]}

    @property
    def counts(self) -> dict[str, Any]:
        """How many claims a formula decides, verdicts, what those that hold rest on, and verdicts on conclusions.

        Examples
        --------
        >>> claims(ids=["C067", "C088", "C125"]).counts["verdicts"]
        {'holds': 1, 'holds_if': 0, 'fails': 1, 'derived': 1, 'input': 0, 'not_checkable': 0}
        """
        verdicts = Counter(one.verdict for one in self.checked)
        held = Counter(one.basis for one in self.checked if one.verdict == "holds")
        concluded = Counter(one.conclusion.verdict for one in self.checked)
        return {
            "judged": sum(verdicts[name] for name in _JUDGED),
            "verdicts": {name: verdicts[name] for name in get_args(Verdict)},
            "holds_by": {"published_facts": held["published facts"], "own_premises": held["its own premises"]},
            "conclusions": {name: concluded[name] for name in get_args(ConclusionVerdict)},
        }


def claims(question: ClaimsQuestion | None = None, /, **given: Given) -> ClaimsAnswer:
    """Every quantitative claim of the source documents, recomputed by this project's formulas.

    Parameters
    ----------
    question : ClaimsQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str or sequence of str
        Fields of :class:`~computeledger.questions.claims.ClaimsQuestion`.

    Returns
    -------
    ClaimsAnswer
        Each claim with what was said, what the formulas give, a verdict that follows from the two, and whether what the
        document concludes from it stands.

    Raises
    ------
    InputError
        For an unknown claim or verdict.

    Examples
    --------
    >>> [one.verdict for one in claims(ids=["C132", "C103"]).checked]
    ['holds_if', 'fails']
    """
    return from_python(ClaimsQuestion, answer_claims, question, given)


def answer_claims(question: ClaimsQuestion) -> ClaimsAnswer:
    """Answer ``computeledger claims``."""
    checked = check_claims(question.ids)
    wanted = (
        one
        for one in checked
        if question.verdict in (None, one.verdict)
        and question.conclusion in (None, one.conclusion.verdict)
        and _has_words(one, question.words)
    )
    return ClaimsAnswer(question, tuple(wanted))


def _has_words(checked: CheckedClaim, words: str | None) -> bool:
    """Whether all words stand in a claim, its code, its reason or the words of a chart for it."""
    claim = checked.claim
    text = f"{claim.id} {claim.claim} {claim.reason} {claim.short} {claim.plainly}".lower()
    return all(word in text for word in (words or "").lower().split())


def _document(checked: CheckedClaim) -> dict[str, Any]:
    """One claim: ``recomputed`` is under the condition where the verdict is ``holds_if``."""
    claim = checked.claim
    conditional = checked.verdict == "holds_if"
    evaluated = [*([checked.working] if checked.working else []), *(one.evaluated for one in checked.beside)]
    return {
        "id": claim.id,
        "document": claim.document,
        "kind": claim.kind,
        "claim": claim.claim,
        "claimed": _ends(claim.claimed),
        "relation": claim.wording.relation,
        "precision": claim.wording.precision,
        "agrees_within_factor": claim.wording.factor,
        "recomputed": _ends(checked.recomputed),
        "condition": claim.condition if conditional else "",
        "recomputed_as_stated": _ends(checked.as_stated) if conditional else None,
        "expected_low": claim.expected_low,
        "expected_high": claim.expected_high,
        "unit": claim.unit,
        "verdict": checked.verdict,
        "basis": checked.basis,
        "reason": claim.reason,
        "conclusion": asdict(checked.conclusion),
        "working": checked.working.written if checked.working is not None else "",
        "beside": [_beside(one.label, one.unit, one.evaluated) for one in checked.beside],
        "facts": _facts(evaluated),
    }


def _beside(label: str, unit: str, evaluated: Evaluated) -> dict[str, Any]:
    ends = float(np.min(evaluated.value)), float(np.max(evaluated.value))
    return {"label": label, "unit": unit, "value": _ends(ends), "working": evaluated.written}


def _ends(interval: Interval | None) -> float | list[float] | None:
    if interval is None:
        return None
    return interval[0] if interval[0] == interval[1] else list(interval)


def _facts(evaluated: Iterable[Evaluated]) -> list[dict[str, Any]]:
    """Published numbers behind a claim, each with its source."""
    facts = {reference: asdict(fact) for one in evaluated for reference, fact in one.facts.items()}
    return [{"name": name, **{key: fact[key] for key in _OF_A_FACT}} for name, fact in facts.items()]


def ratio_of(claim: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Recomputed over said at the low end, at the geometric mean and at the high end; with a condition, as stated.

    Parameters
    ----------
    claim : Mapping
        As :meth:`ClaimsAnswer.to_dict` has it.

    Returns
    -------
    tuple of float or None
        None where a side has no number above 0 [-].

    Examples
    --------
    >>> claim = {"verdict": "fails", "claimed": 2.0, "recomputed": [2.0, 8.0], "recomputed_as_stated": None}
    >>> ratio_of(claim)
    (1.0, 2.0, 4.0)
    """
    found = claim["recomputed"] if claim["recomputed_as_stated"] is None else claim["recomputed_as_stated"]
    sides = [value if isinstance(value, list) else [value, value] for value in (claim["claimed"], found)]
    if any(end is None or end <= 0 for side in sides for end in side):
        return None
    low, high = sorted(end / said for said, end in zip(*sides, strict=True))
    return low, math.sqrt(low * high), high
