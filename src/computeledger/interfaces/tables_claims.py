"""Claims as a terminal table, and one claim with its working."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.padding import Padding
from rich.text import Text

from computeledger.interfaces.tables import DIM, console, new_table
from computeledger.units import DAY_S, HOUR_S, MINUTE_S, format_percent, format_si, format_usd

VERDICT_WORDS = {
    "holds": "holds",
    "holds_if": "holds if",
    "fails": "does not hold",
    "input": "input",
    "not_checkable": "not checkable",
}
_STYLES = {
    "holds": "bright_green",
    "holds_if": "bright_yellow",
    "fails": "bright_red",
    "input": DIM,
    "not_checkable": DIM,
}
_COUNTED = {
    "holds": ("holds", "hold"),
    "holds_if": ("holds under a condition", "hold under a condition"),
    "fails": ("does not hold", "do not hold"),
    "input": ("is an input", "are inputs"),
    "not_checkable": ("cannot be checked", "cannot be checked"),
}
#: Up to this many claims, each shows its reason; up to a few, its working too.
_WITH_REASON, _WITH_WORKING = 40, 4
#: What a count is of, where it is many.
_PLURAL = {"chip": "chips", "GPU": "GPUs", "token": "tokens", "yr": "years", "param": "params"}


def claim_number(value: float, unit: str) -> str:
    """A number of a claim as people read it.

    Examples
    --------
    >>> claim_number(3.2856e24, "FLOP"), claim_number(62500.0, "USD/GPU"), claim_number(2.76e-5, "probability")
    ('3.29e24 FLOP', '$62.5K/GPU', '0.0028 %')
    """
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


def claim_numbers(value: float | Sequence[float] | None, unit: str, relation: str = "equals") -> str:
    """A number or a range of a claim, a dash where there is none.

    Examples
    --------
    >>> claim_numbers([0.0233, 0.0392], "s"), claim_numbers(2e5, "H100e", "at_most"), claim_numbers(None, "s")
    ('23.3 .. 39.2 ms', 'at most 200K H100e', '–')
    """
    if value is None:
        return "–"
    words = {"at_least": "at least ", "at_most": "at most "}.get(relation, "")
    if not isinstance(value, Sequence):
        return words + claim_number(value, unit)
    low, high = (claim_number(end, unit) for end in value)
    if low == high:
        return words + low
    first, _, last = low.rpartition(" ")
    return words + (f"{first} .. {high}" if first and high.endswith(f" {last}") else f"{low} .. {high}")


def print_claims(document: Mapping[str, Any]) -> None:
    """Print claims: what was said, what the formulas give, the verdict."""
    out = console()
    claims = document["claims"]
    out.print(Text(counts_words(claims), style="bold"))
    if len(claims) <= _WITH_WORKING:
        for claim in claims:
            _print_one(out, claim)
        return
    table = new_table("", "id", "verdict", "said", "recomputed", "claim")
    for claim in claims:
        text = Text(claim["claim"])
        if len(claims) <= _WITH_REASON:
            text.append(f"\n{_because(claim)}", style=DIM)
        table.add_row(claim["id"], verdict_text(claim), Text(said(claim)), Text(found(claim)), text)
    out.print(table)
    hint = (
        "computeledger claims ID shows formula, inputs and sources; --verdict fails shows what does not hold, and why"
    )
    out.print(Text(hint, style=DIM))


def counts_words(claims: Sequence[Mapping[str, Any]]) -> str:
    """How many claims have which verdict."""
    counts = Counter(claim["verdict"] for claim in claims)
    parts = [f"{counts[key]} {words[counts[key] != 1]}" for key, words in _COUNTED.items() if counts[key]]
    return f"{len(claims)} claim{'s' if len(claims) != 1 else ''}" + (f": {', '.join(parts)}" if parts else "")


def said(claim: Mapping[str, Any]) -> str:
    """What a claim says, as a number."""
    return claim_numbers(claim["claimed"], claim["unit"], claim["relation"])


def found(claim: Mapping[str, Any]) -> str:
    """What the formulas give, as a number."""
    return claim_numbers(claim["recomputed"], claim["unit"])


def verdict_text(claim: Mapping[str, Any]) -> Text:
    """The verdict in words and colour."""
    return Text(VERDICT_WORDS[claim["verdict"]], style=_STYLES[claim["verdict"]])


def _because(claim: Mapping[str, Any]) -> str:
    condition = f"If {claim['condition']}. " if claim["condition"] else ""
    return condition + str(claim["reason"])


def _print_one(out: Any, claim: Mapping[str, Any]) -> None:
    out.print()
    head = (
        Text(f"{claim['id']}  ", style="bold").append(verdict_text(claim)).append(f"  {claim['document']}", style=DIM)
    )
    out.print(head)
    out.print(Padding(Text(f"{claim['claim']}."), (0, 0, 0, 2)))
    rows = new_table("", "", "")
    for name, text in _lines(claim):
        rows.add_row(Text(name, style=DIM), Text(text))
    out.print(Padding(rows, (0, 0, 0, 2)))


def _lines(claim: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is known of a claim, one line each."""
    yield "said", said(claim)
    if claim["condition"]:
        yield "as stated", claim_numbers(claim["recomputed_as_stated"], claim["unit"])
        yield "holds if", claim["condition"]
    yield "recomputed", found(claim)
    yield "why", claim["reason"]
    if claim["working"]:
        yield "working", claim["working"]
    for one in claim["beside"]:
        yield "beside", f"{one['label']}: {claim_numbers(one['value'], one['unit'])}"
    for fact in claim["facts"]:
        yield "fact", f"{fact['name']} = {fact['given']} ({fact['source']}, {fact['locator']}, {fact['date']})"
