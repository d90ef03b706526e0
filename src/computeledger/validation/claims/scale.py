"""The one scale of the claims: how far a recomputed number may lie from a stated one, by the claim's own words.

Every factor here is a choice, made once for all claims; a claim holds its figure and its words, and no tolerance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Interval = tuple[float, float]
Precision = Literal["exact", "figure", "about", "order of magnitude"]
Relation = Literal["equals", "at_least", "at_most", "everywhere"]

#: A stated and a recomputed number agree where the larger is at most this many times the smaller (choices).
AGREEMENT_FACTORS: dict[Precision, float] = {
    "exact": 1.01,
    "figure": 1.10,
    "about": 1.25,
    "order of magnitude": 10**0.5,
}
#: From this many digits on, a figure is exact.
EXACT_DIGITS = 3
#: Words of a claim that make its figure a bound, or a figure of every case.
RELATIONS: dict[str, Relation] = {
    "at least": "at_least", "more than": "at_least", "above": "at_least", "reach": "at_least",
    "cannot be faster than": "at_least",
    "at most": "at_most", "below": "at_most", "lower": "at_most", "exceeds": "at_most",
    "every": "everywhere", "each": "everywhere", "all": "everywhere",
}  # fmt: skip
_ABOUT = re.compile(r"\b(about|roughly|plausibly|approximately|nearly|or so|say)\b", re.IGNORECASE)
_MAGNITUDE = re.compile(r"\borders? of magnitude\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wording:
    """How a claim states its figure."""

    precision: Precision
    relation: Relation = "equals"

    @property
    def factor(self) -> float:
        """The larger of two numbers that agree is at most so many times the smaller [-]."""
        return AGREEMENT_FACTORS[self.precision]


def wording(text: str, said: Interval | None, words: str = "") -> Wording:
    """How a figure is stated: by the hedge in its sentence, else by its digits; a bound without a hedge is exact.

    Examples
    --------
    >>> wording("100,000 H100 take about 150 MW", (150e6, 150e6)).precision
    'about'
    >>> wording("trays stay below 200,000 H100", (2e5, 2e5), "below")
    Wording(precision='exact', relation='at_most')
    >>> [wording("it is", (said, said)).precision for said in (2.2, 4.605)]
    ['figure', 'exact']
    """
    relation = RELATIONS[words] if words else "equals"
    if _MAGNITUDE.search(text):
        return Wording("order of magnitude", relation)
    if _ABOUT.search(text):
        return Wording("about", relation)
    is_exact = relation in ("at_least", "at_most") or any(_digits(one) >= EXACT_DIGITS for one in said or ())
    return Wording("exact" if is_exact else "figure", relation)


def _digits(number: float) -> int:
    """Digits of a number without trailing zeros."""
    return len(f"{number:.6e}".partition("e")[0].rstrip("0").replace(".", "").replace("-", ""))


def agree(said: Interval, found: Interval, how: Wording) -> bool:
    """Whether recomputed numbers bear a statement out.

    They have to lie inside what was said. Where one figure was said of a quantity that has an interval, and not of
    every case, it is enough that the figure lies in the interval.

    Examples
    --------
    >>> plain = Wording("figure")
    >>> agree((2.2, 2.2), (2.33, 2.33), plain), agree((10.0, 260.0), (8.64, 259.0), plain)
    (True, False)
    >>> agree((24.0, 24.0), (23.0, 39.0), plain), agree((24.0, 24.0), (23.0, 39.0), Wording("figure", "everywhere"))
    (True, False)
    """
    least, most = said[0] / how.factor, said[1] * how.factor
    if how.relation == "at_least":
        return found[0] >= least
    if how.relation == "at_most":
        return found[1] <= most
    if least <= found[0] and found[1] <= most:
        return True
    is_one_figure = said[0] == said[1] and how.relation == "equals"
    return is_one_figure and found[0] <= most and found[1] >= least
