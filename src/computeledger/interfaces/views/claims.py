"""The view of claims: what was said, what the formulas give, the verdict and why, and what is concluded from it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from computeledger.interfaces.plots.claims import off_words, ratios_figure, tally_figure
from computeledger.interfaces.plots.palette import BAD, CONDITIONAL, GOOD, GOOD_BY_ITSELF, VERDICTS
from computeledger.interfaces.view import Cell, Plot, Table, Tile, View
from computeledger.interfaces.views.display_names import in_names
from computeledger.interfaces.working import ground_words
from computeledger.questions.answer import Answer
from computeledger.questions.answers.claims import ClaimsAnswer, ratio_of
from computeledger.questions.claims import ClaimsQuestion
from computeledger.questions.wording import headline_words, joined, listed
from computeledger.sources import load_sources
from computeledger.units import DAY_S, HOUR_S, MINUTE_S, format_count, format_percent, format_si, format_usd
from computeledger.validation.claims.check import load_claims

#: By verdict, what does not hold first: the heading, one claim, several claims, and what the verdict means.
VERDICT_WORDS = {
    "fails": ("does not hold", "does not hold", "do not hold", "the formula gives something else"),
    "holds_if": ("holds on a condition", "holds on a condition", "hold on a condition",
                 "as stated it does not hold; under a named condition it does"),
    "holds": ("holds", "holds", "hold", "the formula gives what was said, within the rounding that the words allow"),
    "derived": ("cannot be checked, derived", "cannot be checked", "cannot be checked: they are derived",
                "the document gives the inputs and the number is ours; nothing to hold or fail"),
    "input": ("cannot be checked, an input", "cannot be checked", "cannot be checked: they are inputs",
              "taken as given; no formula here decides it"),
    "not_checkable": ("cannot be checked, too little stated", "cannot be checked",
                      "cannot be checked: too little is stated",
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
_JUDGEMENT = "Conclusions that the texts draw from these figures, where one is judged."
_RATIOS = (
    "What was said over what the formula gives; where that is a range, a line. A range, or a number said of every "
    "case, holds only if all that the formula gives lies inside it. Tap or point at a mark for the claim and the "
    "reason."
)
_TALLY = (
    "Facts are published ones. Own inputs: the formula gives what was said from the text's own figures, whether or not "
    "these are right. The texts go by their subject."
)
#: What a reader calls each of the source documents.
_DOCUMENTS = {
    "rlvr-gpu-time": "RL in GPU-time",
    "scaling-rl-web-text": "scaling RL on web text",
    "compute-ledger": "the three ledgers",
    "training-systems": "thread on training systems",
    "roofline-lecture": "lecture on the roofline",
}
#: Kinds of claim, in words.
_KINDS = {"identity": "sums", "empirical": "figures about the world", "estimate": "estimates"}
#: By column of verdicts: the label of its tile, and what it means.
_MEANINGS = {
    "hold": ("Hold", ""),
    "on a condition": ("On a condition", "true only under a named condition"),
    "do not hold": ("Do not hold", "the formula gives something else"),
    "cannot be checked": ("Cannot be checked", "too little is stated, or it is an input"),
}
#: Verdicts in the columns of the table of documents, and what stands over each.
_UNDECIDED = "cannot be checked"
_COLUMNS = {
    "hold": ("holds",), "on a condition": ("holds_if",), "do not hold": ("fails",),
    _UNDECIDED: ("derived", "input", "not_checkable"),
}  # fmt: skip
#: What those that hold rest on, in a legend, with the colour of each.
_BASES = {
    "published facts": ("hold by facts", GOOD),
    "its own premises": ("hold on own inputs", GOOD_BY_ITSELF),
}
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
    searched = answer.question.words if isinstance(answer, ClaimsAnswer) else None
    return View(
        title="Claims, recomputed",
        headline=_headline(claims, document["counts"], searched),
        context=f"{_furthest_words(claims)} {_WHY}" if is_all else _furthest_words(claims) or _texts_words(claims),
        tiles=() if len({one["verdict"] for one in claims}) == 1 else _tiles(document["counts"]),
        plots=() if few else _plots(claims),
        tables=(
            *((_table(claims, is_all),) if claims else ()),
            *((_recomputed(claims[0]),) if len(claims) == 1 else ()),
            *(() if few else (_by_document(claims, is_all), _by_kind(claims))),
        ),
        working=tuple(_working(one) for one in _in_order(claims)) if working or few else (),
        overline="claims",
        sources=tuple(sorted({fact["source"] for one in claims for fact in one["facts"]} & set(load_sources()))),
        tile_heading="claims",
        band_heading="meaning",
    )


def _tiles(counts: Mapping[str, Mapping[str, int]]) -> tuple[Tile, ...]:
    """How many claims have which verdict, and what that means; of those that hold, what they were checked against."""
    number, by = counts["verdicts"], counts["holds_by"]
    held = f"{by['published_facts']} by published facts, {by['own_premises']} on their own inputs"
    found = {said: sum(number[kind] for kind in kinds) for said, kinds in _COLUMNS.items()}
    return tuple(Tile(_MEANINGS[said][0], str(n), _MEANINGS[said][1] or held) for said, n in found.items() if n)


def _plots(claims: Sequence[Mapping[str, Any]]) -> tuple[Plot, ...]:
    """How far off the claims are, then verdicts and conclusions by document."""
    verdicts = _BASES | {said: (said, VERDICTS[kinds[0]]) for said, kinds in _COLUMNS.items() if kinds != ("holds",)}
    kind_of = {kind: said for said, kinds in _COLUMNS.items() for kind in kinds}
    found = [
        (_DOCUMENTS[one["document"]], one["basis"] if one["verdict"] == "holds" else kind_of[one["verdict"]])
        for one in claims
    ]
    reached = [(_DOCUMENTS[one["document"]], one["conclusion"]["verdict"]) for one in claims]
    out = []
    if any(one["verdict"] in _JUDGED and ratio_of(one) for one in claims):
        names = {"fails": "more that do not hold", "holds_if": "hold on a condition (as stated)", "holds": "hold"}
        known = load_claims()
        said = {one["id"]: (_sentence_case(known[one["id"]].short or one["claim"]), _drawn(one)) for one in claims}
        figure = ratios_figure(claims, names, said)
        out.append(Plot("ratios", "How far off each number is", _RATIOS, figure))
    if len({kind for _, kind in found}) > 1:
        out.append(Plot("verdicts", "What holds in each text", _TALLY, tally_figure(found, verdicts)))
    if any(name in _CONCLUDED for _, name in reached):
        figure = tally_figure(reached, _CONCLUDED)
        out.append(Plot("conclusions", "What the texts conclude", _JUDGEMENT, figure, is_detail=True))
    return tuple(out)


def _headline(claims: Sequence[Mapping[str, Any]], counts: Mapping[str, Any], searched: str | None) -> str:
    if len(claims) == 1:
        said = ", ".join(one for one in (VERDICT_WORDS[claims[0]["verdict"]][1], _both(claims[0])) if one != _NOTHING)
        return headline_words(f"Claim {claims[0]['id']}", said)
    if not claims:
        return f"No number on AI compute {f'with {searched.strip()}' if searched else 'of this kind'} was found"
    within = f"on AI compute{f' with {searched.strip()}' if searched else ''}"
    if len({one["verdict"] for one in claims}) == 1:
        texts = format_count(len({one["document"] for one in claims}), "text")
        said = VERDICT_WORDS[claims[0]["verdict"]][2]
        return f"{format_count(len(claims), 'number')} {within} from {texts} {said}"
    n = counts["judged"]
    if not n:
        return headline_words(f"{format_count(len(claims), 'number')} {within}", "none can be checked")
    return headline_words(f"{format_count(n, 'checkable number')} {within}", _counts(claims, counts["verdicts"]))


def _counts(claims: Sequence[Mapping[str, Any]], number: Mapping[str, int]) -> str:
    """Of those that can be checked how many do not hold, how far off the worst is, and how many hold."""
    fails, on_condition, holds = (number[kind] for kind in _JUDGED)
    said = []
    if fails:
        ratios = [ratio[1] for one in claims if one["verdict"] == "fails" and (ratio := ratio_of(one))]
        times = f"{max(max(one, 1 / one) for one in ratios):.2g}\u00d7 off" if ratios else ""
        off = "" if not ratios else f", {times}" if fails == 1 else f", the worst {times}"
        said.append(f"{fails} {'does' if fails == 1 else 'do'} not hold{off}")
    if holds:
        said.append(f"{holds} {'holds' if holds == 1 else 'hold'}")
    if on_condition:
        verb = "" if holds else "holds " if on_condition == 1 else "hold "
        said.append(f"{on_condition} {verb}on a condition")
    return "; ".join((*said[:1], ", ".join(said[1:]))).removesuffix("; ") if fails else ", ".join(said)


def _furthest_words(claims: Sequence[Mapping[str, Any]]) -> str:
    """Of several claims that do not hold the one that is furthest off, in which text, and what the formula gives."""
    failing = [one for one in claims if one["verdict"] == "fails" and ratio_of(one)]
    if not failing or not claims[1:]:
        return ""
    one = min(failing, key=_by_distance)
    off = f"Furthest off, {_off(one)}" if failing[1:] else _off(one)
    text = _DOCUMENTS[one["document"]]
    whose = f"the {text}" if text.startswith(_KINDS_OF_TEXT) else f"the text on {text}"
    told = load_claims()[one["id"]].short or one["claim"]
    return _unbroken(f"{off}: {whose} says that {told}; the formula gives {_found(one)}.")


def _sentence_case(text: str) -> str:
    """A text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def _texts_words(claims: Sequence[Mapping[str, Any]]) -> str:
    """Which texts some claims are from."""
    names = [_DOCUMENTS[name] for name, _ in Counter(one["document"] for one in claims).most_common()]
    kinds = [f"a {name}" for name in names if name.startswith(_KINDS_OF_TEXT)]
    others = [name for name in names if not name.startswith(_KINDS_OF_TEXT)]
    on = f"{'texts' if others[1:] else 'a text'} on {listed(others)}" if others else ""
    return f"From {listed([*kinds, *([on] if on else [])])}." if len(claims) > 1 else ""


#: Where the claims are from.
_WHY = "All are from a lecture, a thread and three other texts."
#: What the name of a text may begin with.
_KINDS_OF_TEXT = ("thread", "lecture")


def _by_document(claims: Sequence[Mapping[str, Any]], is_all: bool) -> Table:
    """How many claims of each text have which verdict; a terminal prints them where all is asked for."""
    said = [(_DOCUMENTS[one["document"]], one["verdict"]) for one in claims]
    found = _counted("The texts", "text", said, _COLUMNS, _TALLY)
    columns = [[int(str(row[place])) for row in found.rows] for place in range(1, len(found.columns))]
    total = ["all of them", *(str(sum(column)) for column in columns)]
    whole = replace(found, rows=[*found.rows, total] if found.rows[1:] else found.rows)
    return replace(whole, in_short=Table("", (), ()) if is_all else None)


def _by_kind(claims: Sequence[Mapping[str, Any]]) -> Table:
    """How many claims of each kind that a formula decides have which verdict."""
    said = [(_KINDS[one["kind"]], one["verdict"]) for one in claims if one["verdict"] in _JUDGED]
    columns = {name: kinds for name, kinds in _COLUMNS.items() if kinds[0] in _JUDGED}
    return _counted("By kind of number", "kind", said, columns, "")


def _counted(
    title: str, of: str, said: Sequence[tuple[str, str]], columns: Mapping[str, tuple[str, ...]], note: str
) -> Table:
    totals, number = Counter(name for name, _ in said), Counter(said)
    rows = [
        [name, str(total), *(str(sum(number[name, one] for one in kinds)) for kinds in columns.values())]
        for name, total in totals.most_common()
    ]
    return Table(title, (of, "all #", *(f"{name} #" for name in columns)), rows, is_detail=True, note=note)


def _in_short(claims: Sequence[Mapping[str, Any]]) -> Table:
    """What does not hold, the furthest off first."""
    rows: list[list[str | Cell]] = [
        [
            one["id"],
            Cell(one["claim"], below=f"Why: {_why(one)}" if _touches(one) else ""),
            _said(one),
            _found(one),
            _off(one),
        ]
        for one in sorted(claims, key=_by_distance)
        if one["verdict"] == "fails"
    ]
    columns = ("claim", "", "said", "the formula gives", "error")
    return Table(f"The {len(rows)} that do not hold", columns, rows, note=_HINT)


def _table(claims: Sequence[Mapping[str, Any]], is_all: bool) -> Table:
    rows: list[list[str | Cell]] = [
        [
            Cell(one["id"], below=_verdict(one), id=one["id"], tone=VERDICTS[one["verdict"]]),
            Cell(_unbroken(one["claim"]), below=_plainly(one), details=_reason(one)),
            Cell(_both(one), below=_off(one)),
            _CONCLUSIONS[one["conclusion"]["verdict"]][0] if one["conclusion"]["verdict"] in _CONCLUDED else "",
        ]
        for one in _in_order(claims)
    ]
    columns = ("claim", "what it says, and why", "said, and found", "its conclusion")
    return Table("Claims", columns, rows, "claim", is_stacked=True, in_short=_in_short(claims) if is_all else None)


def _recomputed(claim: Mapping[str, Any]) -> Table:
    """What a claim was recomputed from, for a page; a terminal prints the same as its working."""
    found = _working(claim)
    rows: list[list[str | Cell]] = [["what it is", found["text"], found["formula"]]]
    rows += [
        [term["name"], term["text"], Cell(term["source"] or term["ground"], term["href"],
                                          below=term["ground"] if term["source"] else "")]
        for term in found["terms"]
    ]  # fmt: skip
    title = "What it was recomputed from"
    return Table(title, ("", "value", "from"), rows, is_stacked=True, in_short=Table("", (), ()))


def _in_order(claims: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Claims as the list has them: by verdict, and of those that do not hold the furthest off first."""
    return [
        one
        for verdict in VERDICT_WORDS
        for one in sorted(claims, key=_by_distance if verdict == "fails" else _as_listed)
        if one["verdict"] == verdict
    ]


def _unbroken(text: str) -> str:
    """A text in which no line ends between a number and its percent sign."""
    return re.sub(r"(?<=\d) %", "\u00a0%", text)


def _by_distance(claim: Mapping[str, Any]) -> float:
    ratio = ratio_of(claim)
    return -max(ratio[1], 1 / ratio[1]) if ratio else 0.0


def _as_listed(_claim: Mapping[str, Any]) -> float:
    return 0.0


def _verdict(claim: Mapping[str, Any]) -> str:
    """The verdict in words, whether the claim asks little, and whether it rests on its own premises alone."""
    word = VERDICT_WORDS[claim["verdict"]][0]
    if claim["verdict"] != "holds":
        return word
    loose = _LOOSELY.get(claim["precision"], "") or _LOOSELY.get(claim["relation"], "")
    own = "own premises" if claim["basis"] == "its own premises" else ""
    return ", ".join(part for part in (word, loose, own) if part)


#: How little a claim asks of its number, by its precision or its relation.
_LOOSELY = {"order of magnitude": "as an order of magnitude", "at_least": "as a bound", "at_most": "as a bound"}


def _said(claim: Mapping[str, Any]) -> str:
    return claim_numbers(claim["claimed"], claim["unit"], claim["relation"])


def _found(claim: Mapping[str, Any]) -> str:
    return claim_numbers(claim["recomputed"], claim["unit"])


def _both(claim: Mapping[str, Any]) -> str:
    """What was said and what is, as far as there is either; a long unit that they share is written once."""
    said, found = _said(claim), _found(claim)
    number, _, unit = said.rpartition(" ")
    is_shared = len(unit) > _LONG_UNIT and found.endswith(f" {unit}")
    told = "" if claim["claimed"] is None else f"said {number if is_shared else said}"
    return ", ".join(part for part in (told, "" if claim["recomputed"] is None else f"is {found}") if part) or _NOTHING


def _drawn(claim: Mapping[str, Any]) -> str:
    """What was said and what is, as a chart has it; where the range reaches what was said, that it holds for some."""
    return f"{_both(claim)}{'; holds for some only' if _touches(claim) else ''}"


#: What stands where nothing was said and nothing is.
_NOTHING = "\u2013"
#: Letters of a unit that a phone has no room for twice.
_LONG_UNIT = 8


def _off(claim: Mapping[str, Any]) -> str:
    """What is without the condition that the verdict rests on, and how far that is off."""
    ratio = ratio_of(claim) if claim["verdict"] in ("fails", "holds_if") else None
    return "; ".join(part for part in (_as_stated(claim), _how_far(claim, ratio) if ratio else "") if part)


def _how_far(claim: Mapping[str, Any], ratio: tuple[float, float, float]) -> str:
    """How far a claim is off; where a part of the range agrees with it, how far the rest is at most."""
    if not _overlaps(claim):
        return off_words(1 / ratio[1])
    low, _, high = ratio
    return f"up to {off_words(1 / (high if high * low > 1 else low))}"


def _overlaps(claim: Mapping[str, Any]) -> bool:
    """Whether the range that the formula gives as a claim stands has numbers in common with what was said."""
    found = claim["recomputed"] if claim["recomputed_as_stated"] is None else claim["recomputed_as_stated"]
    said, given = (value if isinstance(value, list) else [value, value] for value in (claim["claimed"], found))
    return bool(given[0] < given[1] and given[0] <= said[1] and said[0] <= given[1])


def _as_stated(claim: Mapping[str, Any]) -> str:
    """What the formula gives as the claim stands, where the verdict rests on a condition."""
    stated = claim["recomputed_as_stated"]
    return "" if stated is None else f"as stated {claim_numbers(stated, claim['unit'])}"


def _why(claim: Mapping[str, Any]) -> str:
    """Why a claim has its verdict, in one sentence: its condition, or the first of its reasons."""
    return f"Holds if {claim['condition']}." if claim["condition"] else _sentences(claim["reason"])[0]


def _plainly(claim: Mapping[str, Any]) -> str:
    """Why a claim has its verdict, in plain words where it does not hold."""
    said = load_claims()[claim["id"]].plainly
    return said if said and claim["verdict"] == "fails" else _why(claim)


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
    """What is left to say of the reasons, what is concluded, and in which text."""
    reason = claim["reason"] if _plainly(claim) not in claim["reason"] else _sentences(claim["reason"])[1]
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
    terms += [
        _term(one["label"], claim_numbers(one["value"], one["unit"]), formula_words(one["working"]))
        for one in claim["beside"]
    ]
    for fact in claim["facts"]:
        note = f" ({fact['note']})" if fact["note"] else ""
        ground = ground_words("fact", f"{fact['source']}, {fact['locator']}, {fact['date']}{note}")
        terms.append({"name": formula_words(fact["name"]), "text": fact["given"], "band": "", **ground})
    return {
        "name": f"{claim['id']}.claim", "title": f"{claim['id']}: {VERDICT_WORDS[claim['verdict']][0]}",
        "text": _found(claim), "band": _as_stated(claim), "terms": terms,
        "formula": formula_words(claim["working"]) or "no formula",
    }  # fmt: skip


#: A name of a formula or an input, or of a fact behind the record that has it.
_NAME = re.compile(r"(?:(?P<of>[\w./-]+):)?(?P<key>[A-Za-z]\w*(?:\.\w+)*)(?=[^\w:./-]|$)")
#: Parts of names that words say otherwise.
_SPELT = (
    (r"^n params (\w+)", r"\1 parameters"), (r"^n gpus scale up", "GPUs of a scale-up domain"),
    (r"\busd\b", "USD"), (r"\bmtok\b", "Mtok"), (r"\bflop\b", "FLOP"),
    (r"^n ", "number of "), (r"\b(hbm|kv|rl|moe)\b", lambda found: found[1].upper()), (r"\bgpu(s?)\b", r"GPU\1"),
)  # fmt: skip


def formula_words(formula: str) -> str:
    """A formula in which names are words.

    Examples
    --------
    >>> formula_words("price_ratio(usd_per_mtok = observed:usd_per_mtok_output_grok_3, context_tokens = 200K tokens)")
    'price ratio(USD per Mtok = USD per Mtok output grok 3, context tokens = 200K tokens)'
    >>> formula_words("h100-sxm5-80gb:hbm_bytes / h100-sxm5-80gb:peak_flop_per_s.fp8")
    'HBM bytes of H100 / peak FLOP per s fp8 of H100'
    """
    return _NAME.sub(_name_words, formula)


def _name_words(found: re.Match[str]) -> str:
    if found["of"] is None and "_" not in found["key"] and found["key"] != "flop":
        return found[0]
    said = re.sub("[_.]", " ", found["key"])
    for pattern, words in _SPELT:
        said = re.sub(pattern, words, said)
    return said if found["of"] in (None, "observed") else f"{said} of {in_names(found['of'])}"


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
    words = {"at_least": "at least ", "at_most": "at most ", "everywhere": "always "}.get(relation, "")
    low, high = (_number(end, unit) for end in (value if isinstance(value, Sequence) else (value, value)))
    return words + (joined(low, high) or low)


def _number(value: float, unit: str) -> str:
    amount, slash, over = unit.partition("/")
    return re.sub(r"\.?0+(?=e\d)", "", _with_unit(value, unit, amount, slash + over))


def _with_unit(value: float, unit: str, amount: str, per: str) -> str:
    if unit in ("fraction", "probability"):
        return format_percent(value)
    if amount == "USD":
        return format_usd(value) + per
    if unit == "s":
        return _time(value)
    if unit == "1/s":
        return f"{format_si(value)}/s"
    if amount in ("FLOP", "W", "byte", "bit"):
        return format_si(value, {"byte": "B"}.get(amount, amount)) + per
    if amount == "ratio":
        return f"{format_si(value)}\u00d7{per}"
    if amount in ("-", "B0", "C_RL", "D_inf") or unit == "batch reduction":
        return format_si(value)
    return f"{format_si(value)} {_PLURAL.get(amount, amount)}{per}"


def _time(value: float) -> str:
    for size, name in ((DAY_S, "days"), (HOUR_S, "h"), (MINUTE_S, "min")):
        if value >= size:
            number = format_si(value / size)
            return f"{number} {name.removesuffix('s') if number == '1' else name}"
    return format_si(value, "s")
