"""The view of claims: what was said, what the formulas give, the verdict and why, and what is concluded from it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from computeledger.interfaces.plots.claims import ratios_figure, tally_figure
from computeledger.interfaces.plots.palette import BAD, CONDITIONAL, GOOD, VERDICTS
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View
from computeledger.interfaces.working import ground_words
from computeledger.questions.answer import Answer
from computeledger.questions.answers.claims import ClaimsAnswer, ratio_of
from computeledger.questions.claims import ClaimsQuestion
from computeledger.questions.wording import headline_words, joined, listed
from computeledger.sources import load_sources
from computeledger.units import DAY_S, HOUR_S, MINUTE_S, format_count, format_percent, format_si, format_usd

#: By verdict, what does not hold first: the heading, one claim, several claims, and what the verdict means.
_VERDICTS = {
    "fails": ("does not hold", "does not hold", "do not hold", "the formula gives something else"),
    "holds_if": ("holds on a condition", "holds on a condition", "hold on a condition",
                 "as stated it does not hold; under a named condition it does"),
    "holds": ("holds", "holds", "hold", "the formula gives what was said, within the rounding that the words allow"),
    "derived": ("derived", "is derived", "are derived",
                "the document gives the inputs and the number is ours; nothing to hold or fail"),
    "input": ("input", "is an input", "are inputs", "taken as given; no formula here decides it"),
    "not_checkable": ("not checkable", "is not checkable", "are not checkable",
                      "too little is stated to recompute it"),
}  # fmt: skip
#: By verdict on what the document concludes: the words of a cell, and what the verdict means.
_CONCLUSIONS = {
    "falls": ("falls", "the right number takes it away"),
    "does_not_follow": ("does not follow", "the number may be right; the conclusion needs more than it"),
    "stands": ("stands", "it survives the right number"),
    "not_judged": ("number only", "no conclusion of the document is judged"),
}
#: Verdicts that a formula decides, and conclusions that are judged, with the colour of each.
_JUDGED = ("fails", "holds_if", "holds")
_CONCLUDED = {
    "falls": ("fall", BAD), "does_not_follow": ("do not follow", CONDITIONAL), "stands": ("stand", GOOD)
}  # fmt: skip
#: Verdicts in the words of a legend.
_SEVERAL = {"fails": "do not hold", "holds_if": "on a condition", "holds": "hold", "derived": "derived",
            "input": "inputs", "not_checkable": "not checkable"}  # fmt: skip
_JUDGEMENT = "Conclusions that the documents draw from these figures, where one is judged."
_RATIOS = (
    "Each mark is a claim: what the formula gives over what was said. What does not hold has a row each, with both "
    "numbers, its words and its code, what its "
    "words allow in grey and the recomputed range as a line: a claim about every case fails where one end misses. "
    "Point at a mark for its words and the reason. A claim of at least or at most may hold far from 1; one with zero "
    "or without a number has no ratio."
)
_TALLY = "Shares of each document's numbers. " + " ".join(
    f"{said[0].upper()}{said[1:]}: {_VERDICTS[name][3]}." for name, said in _SEVERAL.items()
)
#: What a reader calls each of the source documents.
_DOCUMENTS = {
    "rlvr-gpu-time": "RL in GPU-time",
    "scaling-rl-web-text": "scaling RL on web text",
    "compute-ledger": "the three ledgers",
    "training-systems": "thread on training systems",
    "roofline-lecture": "lecture on the roofline",
}
#: Verdicts in the columns of the table of documents, and what stands over each.
_COLUMNS = {
    "hold": ("holds",), "on a condition": ("holds_if",), "do not hold": ("fails",),
    "undecided": ("derived", "input", "not_checkable"),
}  # fmt: skip
#: Up to this many claims come with their working unasked.
_WITH_WORKING = 4
#: What a count is of, where it is many.
_PLURAL = {"chip": "chips", "GPU": "GPUs", "token": "tokens", "yr": "years", "param": "params"}
_HINT = (
    "computeledger claims ID shows a claim with its formula, inputs and sources; --verdict holds_if lists those that "
    "have that verdict, --all every claim"
)


def view(answer: Answer, working: bool) -> View:
    """Claims by verdict, what does not hold first."""
    document = answer.to_dict(working=working)
    claims = document["claims"]
    few = len(claims) <= _WITH_WORKING
    is_all = isinstance(answer, ClaimsAnswer) and answer.question == ClaimsQuestion()
    return View(
        title="Claims, recomputed",
        headline=_headline(claims, document["counts"]),
        context=_context(claims, document["counts"]),
        notes=_rest_on(document["counts"]),
        tiles=_tiles(document["counts"]),
        plots=() if few else _plots(claims),
        tables=(*(() if few else (_by_document(claims),)), _table(claims, is_all)) if claims else (),
        working=tuple(_working(one) for one in claims) if working or few else (),
        overline="claims",
        sources=tuple(sorted({fact["source"] for one in claims for fact in one["facts"]} & set(load_sources()))),
        tile_heading="claims",
        band_heading="meaning",
    )


def _tiles(counts: Mapping[str, Mapping[str, int]]) -> tuple[Tile, ...]:
    """What was judged: by verdict, and the conclusions that do not stand."""
    verdicts, concluded = counts["verdicts"], counts["conclusions"]
    judged = sum(concluded[name] for name in _CONCLUDED)
    shaky = Tile("conclusions that do not stand", str(concluded["falls"] + concluded["does_not_follow"]),
                 f"of {judged} judged: they fall, or do not follow from the number")  # fmt: skip
    return (
        *(Tile(_VERDICTS[name][0], str(verdicts[name]), _VERDICTS[name][3]) for name in _JUDGED if verdicts[name]),
        *((shaky,) if judged else ()),
    )


def _plots(claims: Sequence[Mapping[str, Any]]) -> tuple[Plot, ...]:
    """Verdicts and conclusions by document, and how far off the claims are."""
    verdicts = {name: (said, VERDICTS[name]) for name, said in _SEVERAL.items()}
    found = [(_DOCUMENTS[one["document"]], one["verdict"]) for one in claims]
    reached = [(_DOCUMENTS[one["document"]], one["conclusion"]["verdict"]) for one in claims]
    out = [Plot("verdicts", "Verdicts by document", _TALLY, tally_figure(found, verdicts))]
    if any(name in _CONCLUDED for _, name in reached):
        out.append(Plot("conclusions", "What the documents conclude", _JUDGEMENT, tally_figure(reached, _CONCLUDED)))
    if any(one["verdict"] in _JUDGED and ratio_of(one) for one in claims):
        names = {"holds_if": "hold on a condition (here as stated)", "holds": "hold"}
        numbers = {one["id"]: f"said {_said(one)}, is {_found(one)}" for one in claims}
        figure = ratios_figure(claims, names, numbers)
        out.append(Plot("ratios", "Said against recomputed", _RATIOS, figure, is_wide=True))
    return tuple(out)


def _headline(claims: Sequence[Mapping[str, Any]], counts: Mapping[str, Mapping[str, int]]) -> str:
    if len(claims) == 1:
        return headline_words(f"Claim {claims[0]['id']}", _verdict(claims[0]))
    n_documents = len({one["document"] for one in claims})
    subject = f"We checked {format_count(len(claims), 'number')} from {format_count(n_documents, 'text')} on compute"
    return headline_words(subject, ", ".join(_verdicts(counts["verdicts"])[:2]))


def _verdicts(number: Mapping[str, int]) -> list[str]:
    """How many claims have which verdict: those that hold first, then those that do not."""
    order = dict.fromkeys(("holds", *_VERDICTS))
    said = [f"{number[name]} {_VERDICTS[name][1 if number[name] == 1 else 2]}" for name in order if number[name]]
    return said or ["none of this kind"]


def _context(claims: Sequence[Mapping[str, Any]], counts: Mapping[str, Mapping[str, int]]) -> str:
    """Which texts these are, what else was found, and how many conclusions stand."""
    n_claims = len(claims)
    number, concluded = counts["verdicts"], counts["conclusions"]
    words = (("stands", "stands", "stand"), ("falls", "falls", "fall"),
             ("does_not_follow", "does not follow", "do not follow"))  # fmt: skip
    judged = [f"{concluded[key]} {one if concluded[key] == 1 else many}" for key, one, many in words if concluded[key]]
    names = [_DOCUMENTS[name] for name, _ in Counter(one["document"] for one in claims).most_common()]
    others = _verdicts(number)[2:]
    parts = [f"The texts: {listed(names)}."] if n_claims > 1 else []
    parts += [f"Of the other numbers, {listed(others)}."] if others and n_claims > 1 else []
    parts += [f"Of the conclusions judged, {', '.join(judged)}."] if judged and n_claims > 1 else []
    return " ".join(parts)


def _rest_on(counts: Mapping[str, Mapping[str, int]]) -> tuple[str, ...]:
    """What those that hold rest on."""
    by = counts["holds_by"]
    if sum(by.values()) <= 1:
        return ()
    facts, own = by["published_facts"], by["own_premises"]
    return (f"{facts} of those that hold rest on published facts, {own} on their own premises",)


def _by_document(claims: Sequence[Mapping[str, Any]]) -> Table:
    """How many claims of each document have which verdict."""
    totals = Counter(one["document"] for one in claims)
    number = Counter((one["document"], one["verdict"]) for one in claims)
    rows = [
        [_DOCUMENTS[name], str(total), *(str(sum(number[name, one] for one in kinds)) for kinds in _COLUMNS.values())]
        for name, total in totals.most_common()
    ]
    return Table("By document", ("document", "all #", *(f"{name} #" for name in _COLUMNS)), rows, is_detail=True)


def _in_short(claims: Sequence[Mapping[str, Any]]) -> Table:
    """What does not hold."""
    rows: list[list[str | Cell]] = [
        [one["id"], Cell(one["claim"], below=_why(one) if _touches(one) else ""), _said(one), _found(one)]
        for one in claims
        if one["verdict"] == "fails"
    ]
    columns = ("claim", "", "said", "the formula gives")
    return Table(f"The {len(rows)} that do not hold", columns, rows, note=_HINT)


def _table(claims: Sequence[Mapping[str, Any]], is_all: bool) -> Table:
    rows: list[list[str | Cell]] = [
        [
            Cell(one["id"], below=_verdict(one), id=one["id"]),
            Cell(_said(one), below=_recomputed(one)),
            Cell(_CONCLUSIONS[one["conclusion"]["verdict"]][0]),
            Cell(one["claim"], below=_why(one), details=_reason(one)),
        ]
        for verdict in _VERDICTS
        for one in claims
        if one["verdict"] == verdict
    ]
    columns = ("claim", "said and recomputed", "conclusion", "what it says, and why")
    return Table("Claims", columns, rows, "claim", is_stacked=True, in_short=_in_short(claims) if is_all else None)


def _verdict(claim: Mapping[str, Any]) -> str:
    """The verdict in words, and whether it rests on nothing but the claim's own premises."""
    word = _VERDICTS[claim["verdict"]][0]
    return f"{word}, own premises" if claim["verdict"] == "holds" and claim["basis"] == "its own premises" else word


def _said(claim: Mapping[str, Any]) -> str:
    return claim_numbers(claim["claimed"], claim["unit"], claim["relation"])


def _found(claim: Mapping[str, Any]) -> str:
    return claim_numbers(claim["recomputed"], claim["unit"])


def _recomputed(claim: Mapping[str, Any]) -> str:
    """The recomputed number, and what it is without the condition that the verdict rests on."""
    found = "" if claim["recomputed"] is None else f"recomputed {_found(claim)}"
    return "; ".join(part for part in (found, _as_stated(claim)) if part)


def _as_stated(claim: Mapping[str, Any]) -> str:
    """What the formula gives as the claim stands, where the verdict rests on a condition."""
    stated = claim["recomputed_as_stated"]
    return "" if stated is None else f"as stated {claim_numbers(stated, claim['unit'])}"


def _why(claim: Mapping[str, Any]) -> str:
    """Why a claim does not simply hold, in one sentence: its condition, or the first of its reasons."""
    if claim["verdict"] == "holds":
        return ""
    return f"Holds if {claim['condition']}." if claim["condition"] else f"Why: {_sentences(claim['reason'])[0]}"


def _sentences(text: str) -> tuple[str, str]:
    """The first sentence of a text, and the others."""
    first, end, rest = re.sub(r"(?<=[.!?]) (?=[A-Z])", _BREAK, text, count=1).partition(_BREAK)
    return first, rest if end else ""


_BREAK = "\x00"


def _touches(claim: Mapping[str, Any]) -> bool:
    """Whether the recomputed range reaches what was said: a reader asks why it does not hold then."""
    ratio = ratio_of(claim)
    return ratio is not None and ratio[0] <= 1 <= ratio[2]


def _reason(claim: Mapping[str, Any]) -> str:
    """What is left to say of the reasons, and what is concluded."""
    reason = claim["reason"]
    if claim["verdict"] != "holds" and not claim["condition"]:
        reason = _sentences(reason)[1]
    told = claim["conclusion"]
    judged = (
        f" Concluded: {told['says']} {_CONCLUSIONS[told['verdict']][0].capitalize()}: {told['reason']}"
        if told["says"]
        else ""
    )
    return f"{reason}{judged} [{_DOCUMENTS[claim['document']]}]".lstrip()


def _working(claim: Mapping[str, Any]) -> dict[str, Any]:
    """The formula that a claim is held against, figures beside it, and the facts that it takes."""
    ends = [claim["expected_low"], claim["expected_high"]]
    terms = []
    if None not in ends:
        terms.append(_term("expected", claim_numbers(ends, claim["unit"]), "by an independent calculation"))
    terms += [_term(one["label"], claim_numbers(one["value"], one["unit"]), one["working"]) for one in claim["beside"]]
    for fact in claim["facts"]:
        note = f" ({fact['note']})" if fact["note"] else ""
        ground = ground_words("fact", f"{fact['source']}, {fact['locator']}, {fact['date']}{note}")
        terms.append({"name": fact["name"], "text": fact["given"], "band": "", **ground})
    return {
        "name": f"{claim['id']}.claim", "title": f"{claim['id']}: {_VERDICTS[claim['verdict']][0]}",
        "text": _found(claim), "band": _as_stated(claim), "formula": claim["working"] or "no formula", "terms": terms,
    }  # fmt: skip


def _term(name: str, text: str, ground: str) -> dict[str, str]:
    said = {"origin": "figure", "ground": ground, "source": "", "href": "", "of": ""}
    return {"name": name, "text": text, "band": "", **said}


def claim_numbers(value: float | Sequence[float] | None, unit: str, relation: str = "equals") -> str:
    """A number or a range of a claim, a dash where there is none.

    Examples
    --------
    >>> claim_numbers(3.2856e24, "FLOP"), claim_numbers(62500.0, "USD/GPU"), claim_numbers(2.76e-5, "probability")
    ('3.29e24 FLOP', '$62.5K/GPU', '0.0028 %')
    >>> claim_numbers([0.0233, 0.0392], "s"), claim_numbers(2e5, "H100e", "at_most"), claim_numbers(None, "s")
    ('23.3 – 39.2 ms', 'at most 200K H100e', '–')
    """
    if value is None:
        return "–"
    words = {"at_least": "at least ", "at_most": "at most "}.get(relation, "")
    low, high = (_number(end, unit) for end in (value if isinstance(value, Sequence) else (value, value)))
    return words + (joined(low, high) or low)


def _number(value: float, unit: str) -> str:
    amount, slash, over = unit.partition("/")
    if unit in ("fraction", "probability"):
        return format_percent(value)
    if amount == "USD":
        return format_usd(value) + slash + over
    if unit == "s":
        return _time(value)
    if unit == "1/s":
        return f"{format_si(value)}/s"
    if amount in ("FLOP", "W", "byte", "bit"):
        return format_si(value, {"byte": "B"}.get(amount, amount)) + slash + over
    if amount in ("ratio", "-", "B0", "C_RL", "D_inf") or unit == "batch reduction":
        return format_si(value)
    return f"{format_si(value)} {_PLURAL.get(amount, amount)}{slash}{over}"


def _time(value: float) -> str:
    for size, name in ((DAY_S, "days"), (HOUR_S, "h"), (MINUTE_S, "min")):
        if value >= size:
            number = format_si(value / size)
            return f"{number} {name.removesuffix('s') if number == '1' else name}"
    return format_si(value, "s")
