"""The page *Claims*: statements of the source documents, held against the formulas."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.cli.validate import claims
from computeledger.interfaces.plots.bars import strip_figure
from computeledger.interfaces.tables_claims import claim_number
from computeledger.interfaces.web.ask import ask
from computeledger.interfaces.web.spec import Answer, Cell, Control, Page, Plot, Table, Values, View, cited
from computeledger.questions.documents.claims import claims_document
from computeledger.questions.wording import joined
from computeledger.validation.claims.check import check_claims

_VERDICTS = {
    "holds": "holds",
    "holds_if": "holds under a condition",
    "fails": "does not hold",
    "input": "an input, nothing to check",
    "not_checkable": "cannot be checked",
}
_SAID = {"holds": "hold", "holds_if": "hold under a condition", "fails": "do not hold", "input": "are inputs",
         "not_checkable": "cannot be checked"}  # fmt: skip
#: Formulas beside the main one that still read as a line.
_FEW = 3
_CONTROLS = (
    Control("verdict", "Verdict", "choice", choices=("", *_VERDICTS), blank="all"),
    Control("id", "One claim", "text", blank="all", help="Its id, such as C030."),
)


def _answer(values: Values, _working: bool) -> Answer:
    return ask(["claims"], claims, _document, values, working=False)


def _document(options: Mapping[str, Any]) -> dict[str, Any]:
    return _checked(options["ids"], options["verdict"])


@functools.lru_cache(maxsize=16)
def _checked(ids: tuple[str, ...], verdict: str | None) -> dict[str, Any]:
    return claims_document(check_claims(ids, verdict))


def _view(answer: Answer) -> View:
    found = answer.document["claims"]
    counts = Counter(one["verdict"] for one in found)
    said = ", ".join(f"{counts[name]} {text}" for name, text in _SAID.items() if counts[name])
    rows = [
        [one["id"], Cell(one["claim"], below=one["document"]), _value(one["claimed"], one["unit"]),
         Cell(_value(one["recomputed"], one["unit"]), below=_conditional(one)), _VERDICTS[one["verdict"]],
         Cell(one["reason"] or one["condition"], below=_formula(one))]
        for one in found
    ]  # fmt: skip
    shares = {_VERDICTS[name]: counts[name] / max(len(found), 1) for name in _VERDICTS}
    columns = ["claim", "what it says", "claimed", "recomputed", "verdict", "why, and formula"]
    return View(
        f"Of {len(found)} claims: {said}."
        if len(found) > 1
        else f"{found[0]['id']}: {_VERDICTS[found[0]['verdict']]}.",
        plots=(Plot("verdicts", "Verdicts", "Shares of the claims shown.", strip_figure(shares)),),
        tables=(Table("Claims", columns, rows), *_facts(found)),
    )


def _conditional(one: Mapping[str, Any]) -> str:
    """What the formula gives as the claim stands, where the verdict rests on a condition."""
    if one["recomputed_as_stated"] is None:
        return ""
    return f"as stated {_value(one['recomputed_as_stated'], one['unit'])}"


def _formula(one: Mapping[str, Any]) -> str:
    """The formula that the claim is held against, and those beside it."""
    beside = [f"{other['label']}: {other['working']}" for other in one["beside"]]
    return "; ".join(part for part in ([one["working"], *beside] if len(beside) <= _FEW else [one["working"]]) if part)


def _facts(found: Sequence[Mapping[str, Any]]) -> tuple[Table, ...]:
    """Published numbers that the formulas took, each once."""
    known = {fact["name"]: fact for one in found for fact in one["facts"]}
    rows = [[name, fact["given"], cited(fact["source"], fact["locator"]), fact["date"]] for name, fact in known.items()]
    columns = ["fact", "as published", "source", "date #"]
    return (Table("Facts that the formulas take", columns, rows),) if rows else ()


def _value(value: Any, unit: str) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        low, high = (claim_number(one, unit) for one in value)
        return joined(low, high) or low
    return claim_number(value, unit)


PAGE = Page(
    "claims", "Claims", "Do the source documents' own figures hold?", _CONTROLS, _answer, _view,
    presets={"Every claim": {}, "What does not hold": {"verdict": "fails"},
             "What holds under a condition": {"verdict": "holds_if"}},
)  # fmt: skip
