"""The page *Claims*: statements of the source documents, held against the formulas."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.cli_validate import claims
from computeledger.interfaces.documents_claims import claims_document
from computeledger.interfaces.plots_bars import strip_figure
from computeledger.interfaces.web.ask import ask
from computeledger.interfaces.web.spec import Answer, Control, Page, Plot, Table, Values, View
from computeledger.interfaces.wording import words
from computeledger.validation.claims import check_claims

_VERDICTS = {
    "holds": "holds",
    "holds_if": "holds under a condition",
    "fails": "does not hold",
    "input": "an input, nothing to check",
    "not_checkable": "cannot be checked",
}
_SAID = {"holds": "hold", "holds_if": "hold under a condition", "fails": "do not hold", "input": "are inputs",
         "not_checkable": "cannot be checked"}  # fmt: skip
_CONTROLS = (
    Control("verdict", "Verdict", "choice", choices=("", *_VERDICTS), blank="all"),
    Control("id", "One claim", "text", help="Its id, such as C12."),
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
        [one["id"], one["claim"], _value(one["claimed"], one["unit"]), _value(one["recomputed"], one["unit"]),
         _VERDICTS[one["verdict"]], one["reason"] or one["condition"]]
        for one in found
    ]  # fmt: skip
    shares = {_VERDICTS[name]: counts[name] / max(len(found), 1) for name in _VERDICTS}
    columns = ["claim", "what it says", "claimed #", "recomputed #", "verdict", "why"]
    return View(
        f"Of {len(found)} claims: {said}."
        if len(found) > 1
        else f"{found[0]['id']}: {_VERDICTS[found[0]['verdict']]}.",
        plots=(Plot("verdicts", "Verdicts", "Shares of the claims shown.", strip_figure(shares)),),
        tables=(Table("Claims", columns, rows),),
    )


def _value(value: Any, unit: str) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return " to ".join(words(one, unit) for one in value)
    return words(value, unit)


PAGE = Page(
    "claims", "Claims", "Do the source documents' own figures hold?", _CONTROLS, _answer, _view,
    presets={"What does not hold": {"verdict": "fails"}, "What holds under a condition": {"verdict": "holds_if"}},
)  # fmt: skip
