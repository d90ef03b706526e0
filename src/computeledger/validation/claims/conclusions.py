"""What a source document concludes from a claim, judged beside the number: it stands, it falls, it does not follow.

The number's verdict is computed; this one is a judgement, with one sentence of reason each (``conclusions.toml``).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Literal, cast, get_args

from computeledger.errors import nearest
from computeledger.facts.reading import Document, read_file

ConclusionVerdict = Literal["stands", "falls", "does_not_follow", "not_judged"]
_FIELDS = ("says", "verdict", "reason")


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What is concluded, and whether it survives the right number."""

    verdict: ConclusionVerdict = "not_judged"
    says: str = ""
    reason: str = ""


@functools.cache
def load_conclusions() -> Mapping[str, Conclusion]:
    """Judged conclusions by claim; of every other claim only the number is judged.

    Examples
    --------
    >>> load_conclusions()["C142"].verdict
    'falls'
    """
    name = "conclusions.toml"
    document = read_file(resources.files("computeledger.validation.claims").joinpath(name), shipped=True)
    return {claim_id: read_conclusion(document, claim_id) for claim_id in document.table}


def read_conclusion(document: Document, claim_id: str) -> Conclusion:
    """Build a conclusion from its table.

    Examples
    --------
    >>> from computeledger.facts.reading import parse_document
    >>> read_conclusion(parse_document("conclusions.toml", "[C1]", shipped=True), "C1")
    Traceback (most recent call last):
    computeledger.errors.FactError: conclusions.toml: C1: needs says, verdict and reason, and nothing else
    """
    table = document.table[claim_id]
    if set(table) != set(_FIELDS):
        raise document.error(claim_id, f"needs {', '.join(_FIELDS[:2])} and {_FIELDS[2]}, and nothing else")
    verdict, allowed = str(table["verdict"]), get_args(ConclusionVerdict)[:-1]
    if verdict not in allowed:
        raise document.error(f"{claim_id}.verdict", f"{verdict!r}: {nearest(verdict, allowed)}")
    return Conclusion(cast("ConclusionVerdict", verdict), str(table["says"]), str(table["reason"]))
