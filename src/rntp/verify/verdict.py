"""What a check answers: a score, and a status that keeps a broken machine apart from a wrong answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from computeledger.errors import InputError, nearest, shown

CORRECT, WRONG, FORMAT = "correct", "wrong", "format"
TIMEOUT, MEMORY, RUNTIME, COMPILE = "timeout", "memory", "runtime_error", "compile_error"
INFRASTRUCTURE = "infrastructure"
#: In the order in which a summary shows them.
STATUSES = (CORRECT, WRONG, FORMAT, TIMEOUT, MEMORY, RUNTIME, COMPILE, INFRASTRUCTURE)
#: Characters of a detail that are kept.
DETAIL = 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one check."""

    score: float | None
    status: str
    wall_s: float
    detail: str
    cpu_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no verdict."""
        if self.status not in STATUSES:
            raise InputError(f"unknown status {shown(self.status)}: {nearest(str(self.status), STATUSES)}")
        if (self.score is None) != (self.status == INFRASTRUCTURE):
            raise InputError(f"status {self.status} with score {shown(self.score)}: only infrastructure has no score")
        if self.score is not None and not 0.0 <= self.score <= 1.0:
            raise InputError(f"score {shown(self.score)}: from 0 to 1 is needed")

    @property
    def seconds(self) -> float:
        """Time of the check [s]."""
        return self.wall_s

    def timed(self, wall_s: float, cpu_s: float) -> Verdict:
        """The same verdict with what it took."""
        return replace(self, wall_s=wall_s, cpu_s=cpu_s)

    def document(self) -> dict[str, Any]:
        """The verdict as it stands in a file."""
        return {"score": self.score, "status": self.status, "seconds": round(self.wall_s, 6), "detail": self.detail}


def verdict(score: float, detail: str = "", status: str | None = None) -> Verdict:
    """Build a verdict that is yet to be timed: correct at score 1, wrong below, unless the status is named.

    Examples
    --------
    >>> verdict(0.5, "1 of 2 tests").status
    'wrong'
    """
    line = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in " ".join(detail[: 8 * DETAIL].split()))
    return Verdict(score, status or (CORRECT if score >= 1.0 else WRONG), 0.0, line[:DETAIL])


def no_verdict(reason: str) -> Verdict:
    """Build what stands for a check that could not be made.

    Examples
    --------
    >>> no_verdict("the worker died").score is None
    True
    """
    return Verdict(None, INFRASTRUCTURE, 0.0, " ".join(reason.split())[:DETAIL])
