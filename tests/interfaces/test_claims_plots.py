"""Charts of claims: every claim is drawn once, in the colour of its verdict, at the ratio that it has."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, get_args

import pytest

import computeledger as cl
from computeledger.interfaces.plots import palette
from computeledger.interfaces.plots.claims import ratios_figure, tally_figure
from computeledger.questions.answers.claims import ratio_of
from computeledger.validation.claims.check import Verdict, load_claims

CLAIMS = cl.claims().to_dict()["claims"]


def test_every_verdict_has_a_colour_and_what_fails_is_not_green() -> None:
    assert set(palette.VERDICTS) == set(get_args(Verdict))
    red, green = (palette.VERDICTS[name] for name in ("fails", "holds"))
    assert int(red[1:3], 16) > 2 * int(red[3:5], 16) and int(green[3:5], 16) > 2 * int(green[1:3], 16)


def test_bars_count_every_claim_once() -> None:
    view = cl.claims().view()
    figure = next(one.figure for one in view.plots if one.name == "verdicts")
    assert sum(map(sum, zip(*(trace["x"] for trace in figure["data"]), strict=True))) == pytest.approx(5, abs=1e-2)
    kinds = {name: (name, color) for name, color in palette.VERDICTS.items()}
    counted = tally_figure([(one["document"], one["verdict"]) for one in CLAIMS], kinds)
    told = [text for trace in counted["data"] for text in trace["hovertext"]]
    assert sum(int(one.split(": ")[1].split(" of ")[0]) for one in told) == len(CLAIMS)


def test_every_claim_with_two_numbers_is_a_mark_at_its_ratio() -> None:
    said = {one["id"]: (one["id"], one["claim"]) for one in CLAIMS}
    figure = ratios_figure(CLAIMS, {"fails": "more fail", "holds_if": "hold if", "holds": "hold"}, said)
    marks: list[dict[str, Any]] = [trace for trace in figure["data"] if trace["mode"] == "markers"]
    shown = {
        text.split("</b>")[0][3:]: x for trace in marks for text, x in zip(trace["hovertext"], trace["x"], strict=True)
    }
    for one in CLAIMS:
        ratio = ratio_of(one) if one["verdict"] in ("fails", "holds_if", "holds") else None
        assert (one["id"] in shown) == (ratio is not None)
        if ratio is not None:
            is_wide = one["relation"] in ("at_least", "at_most") or isinstance(one["claimed"], list)
            at = 1.0 if one["verdict"] == "holds" and is_wide else 1 / ratio[1]
            assert shown[one["id"]] == pytest.approx(at, rel=1e-3)
    words = [note["text"] for note in figure["layout"]["annotations"]]
    counts = Counter(one["verdict"] for one in CLAIMS)
    for name, verdict in (("more fail", "fails"), ("hold if", "holds_if"), ("hold", "holds")):
        (strip,) = [text for text in words if re.search(rf"</b> {name}( \(|$)", text)]
        rows = sum(text.startswith("<b>C") for text in words) if verdict == "fails" else 0
        assert int(re.findall(r"\d+", strip)[0]) + rows == counts[verdict], "those that the chart cannot draw count too"
    failing = sorted((one for one in CLAIMS if one["verdict"] == "fails"), key=_off, reverse=True)
    named = [text.split("</b>")[0][3:] for text in words if text.startswith("<b>C")]
    assert named == [one["id"] for one in failing][: len(named)], "the furthest off have a row each, in this order"


def _off(claim: dict[str, Any]) -> float:
    ratio = ratio_of(claim)
    assert ratio is not None
    return max(ratio[1], 1 / ratio[1])


def test_what_does_not_hold_has_plain_words() -> None:
    """A short sentence that a phone has room for and one reason."""
    known = load_claims()
    failing = [known[one["id"]] for one in CLAIMS if one["verdict"] == "fails"]
    assert all(0 < len(one.short) <= 40 and 0 < len(one.plainly) <= 60 for one in failing)


def test_the_headline_counts_every_number_and_a_number_too_high_stands_right() -> None:
    view = cl.claims().view()
    whole, fails, holds, on_condition = [int(one) for one in re.findall(r"\b\d+\b(?!\u00d7)", view.headline)]
    parts = [holds, on_condition, fails, len(CLAIMS) - whole]
    assert whole == fails + holds + on_condition
    worst = max(max(ratio[1], 1 / ratio[1]) for one in CLAIMS if one["verdict"] == "fails" and (ratio := ratio_of(one)))
    assert f"the worst {worst:.2g}\u00d7 off" in view.headline
    assert "a lecture, a thread and three other texts" in view.context
    assert [int(one.text) for one in view.tiles] == parts, "the four counts, each with its meaning"
    marks = next(one.figure for one in view.plots if one.name == "ratios")["data"]
    told = {x: text for trace in marks if trace["mode"] == "markers"
            for x, text in zip(trace["x"], trace["hovertext"], strict=True)}  # fmt: skip
    assert all("too low" not in text if x > 1 else "too high" not in text for x, text in told.items())


def test_a_terminal_shows_claims_in_short_and_all_where_asked(computeledger: Any, monkeypatch: Any) -> None:
    """Two screens, one row for what does not hold; every claim with --all, and one whole by its id."""
    monkeypatch.setenv("COLUMNS", "80")
    short, whole, one = (computeledger("claims", *more).stdout for more in ((), ("--all",), ("C115",)))
    ids = [claim["id"] for claim in CLAIMS]
    fails = [claim["id"] for claim in CLAIMS if claim["verdict"] == "fails"]
    assert len(short.splitlines()) <= 80
    assert [name for name in ids if f" {name} " in short] == fails
    assert all(f" {name} " in whole for name in ids)
    assert "Why: Eight times is the second step" in " ".join(short.split()), "a range that reaches what was said"
    assert CLAIMS[ids.index("C115")]["reason"].split(";")[0] in " ".join(one.split())
    assert not any(claim["document"] in short for claim in CLAIMS), "documents go by their names"


def test_a_range_that_reaches_what_was_said_is_off_at_its_far_end() -> None:
    """Said of each step, and true of one of them: 'always', and how far the other is off."""
    cells = {row[0].id: row[2] for row in cl.claims().view().tables[0].rows}
    assert (cells["C127"].text, cells["C127"].below) == (
        "said always 8\u00d7, is 8\u00d7 \u2013 21.5\u00d7", "up to 2.7\u00d7\u00a0too low",
    )  # fmt: skip
    assert cells["C131"].below == "up to 3.3\u00d7\u00a0too low"
    assert cells["C142"].below.startswith("89\u00d7")
    assert "e+" not in " ".join(one.below for one in cells.values())
