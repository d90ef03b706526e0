"""The claims as one HTML page that needs nothing from the network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from computeledger.interfaces.page import assets, page_template, version
from computeledger.interfaces.tables_claims import VERDICT_WORDS, claim_numbers, counts_words, found, said
from computeledger.sources import load_sources

_MEANINGS = {
    "holds": "the formula gives what was said, within the rounding that the words allow",
    "holds_if": "as stated it does not, under a named condition it does",
    "fails": "the formula gives something else",
    "input": "taken as given; no formula here decides it",
    "not_checkable": "too little is stated to recompute it",
}


def claims_report(document: Mapping[str, Any]) -> str:
    """Render checked claims.

    Examples
    --------
    >>> "<title>" in claims_report({"claims": []})
    True
    """
    claims = [_shown(claim) for claim in document["claims"]]
    counts = Counter(claim["verdict"] for claim in claims)
    documents = list(dict.fromkeys(claim["document"] for claim in claims))
    keys = sorted({fact["source"] for claim in claims for fact in claim["facts"]} & set(load_sources()))
    return page_template("claims.html").render(
        summary=counts_words(document["claims"]),
        tiles=[(verdict, words, counts[verdict], _MEANINGS[verdict]) for verdict, words in VERDICT_WORDS.items()],
        findings=[claim for verdict in ("fails", "holds_if") for claim in claims if claim["verdict"] == verdict],
        groups=[(name, [claim for claim in claims if claim["document"] == name]) for name in documents],
        n_claims=len(claims),
        sources=[load_sources()[key] for key in keys],
        version=version(),
        style=assets("report.css", "claims.css"),
        script=assets("claims.js"),
    )


def _shown(claim: Mapping[str, Any]) -> dict[str, Any]:
    """A claim with its numbers as people read them."""
    stated = claim["recomputed_as_stated"]
    return {
        **claim,
        "words": VERDICT_WORDS[claim["verdict"]],
        "said": _dashed(said(claim)),
        "found": _dashed(found(claim)),
        "as_stated": None if stated is None else _dashed(claim_numbers(stated, claim["unit"])),
        "expected": _dashed(claim_numbers([claim["expected_low"], claim["expected_high"]], claim["unit"]))
        if None not in (claim["expected_low"], claim["expected_high"])
        else "",
        "beside": [{**one, "text": _dashed(claim_numbers(one["value"], one["unit"]))} for one in claim["beside"]],
    }


def _dashed(text: str) -> str:
    """A range with the dash of running text."""
    return text.replace(" .. ", " – ")
