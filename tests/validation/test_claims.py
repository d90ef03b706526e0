"""The claims: all present, recomputed by the project's formulas, judged by the two numbers."""

from __future__ import annotations

import csv
import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from computeledger.economics.scaling import laws as scaling
from computeledger.errors import FactError, InputError
from computeledger.facts.reading import parse_document
from computeledger.fields import fields_of
from computeledger.interfaces.render.html import report
from computeledger.interfaces.views.claims import claim_numbers
from computeledger.physics.blackboard import ledgers as blackboard
from computeledger.physics.blackboard import serving as blackboard_serving
from computeledger.physics.blackboard import training as blackboard_training
from computeledger.questions.answers.claims import ClaimsAnswer, claims
from computeledger.questions.claims import ClaimsQuestion
from computeledger.validation.claims import expressions
from computeledger.validation.claims.check import (
    Claim,
    Verdict,
    agrees,
    check_claim,
    check_claims,
    load_claims,
    read_claim,
)
from computeledger.validation.claims.expressions import evaluate, load_observations
from tests.printed import words_of

CHECKED = {checked.claim.id: checked for checked in check_claims()}

#: The expected ends are written with two or three digits.
TOLERANCE = 0.01

#: What the study of the documents found, and the verdict of each finding.
FINDINGS = {
    "C030": "fails", "C033": "fails", "C047": "fails", "C070": "fails", "C080": "fails",
    "C081": "fails", "C088": "fails", "C100": "fails", "C101": "fails", "C103": "fails",
    "C115": "fails", "C120": "fails", "C122": "fails", "C127": "fails", "C131": "fails",
    "C142": "fails", "C146": "holds_if", "C152": "fails", "C171": "fails", "C173": "holds_if", "C029": "holds_if",
    "C039": "holds_if", "C064": "holds_if", "C113": "holds_if", "C117": "holds_if", "C119": "holds_if",
    "C124": "holds_if", "C132": "holds_if", "C133": "holds_if", "C135": "holds_if", "C136": "holds_if",
    "C137": "holds_if", "C138": "holds_if", "C140": "holds_if", "C143": "holds_if", "C145": "holds_if",
}  # fmt: skip

#: Where the study restated the claim as what to expect, and the project's operations say otherwise.
RESTATED = {"C100", "C146"}

#: Words without enough to compute from.
WORDS = {"C028", "C035", "C098", "C157", "C172", "C174"}


def source_rows(folder: Path) -> list[dict[str, str]]:
    """The rows that the claims were written from."""
    with (folder / "source_claims.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_claim_is_here() -> None:
    assert list(load_claims()) == [f"C{number:03}" for number in range(1, 175)]


def test_the_ids_documents_and_expectations_are_the_source_s(shared_data: Path) -> None:
    rows = source_rows(shared_data)
    claims = load_claims()
    assert [row["id"] for row in rows] == list(claims)[:169]  # five more were found missing in the documents
    for row in rows:
        claim = claims[row["id"]]
        assert (claim.document, claim.kind) == (row["document"], row["kind"])
        assert claim.expected_low == (float(row["expected_low"]) if row["expected_low"] else None), row["id"]
        assert claim.expected_high == (float(row["expected_high"]) if row["expected_high"] else None), row["id"]


def test_the_words_are_our_own(shared_data: Path) -> None:
    claims = load_claims()
    same = [row["id"] for row in source_rows(shared_data) if row["claim"].strip() == claims[row["id"]].claim]
    assert same == []


def test_identities_agree_with_an_independent_recomputation(shared_data: Path) -> None:
    compared = 0
    for row in source_rows(shared_data):
        found = CHECKED[row["id"]].recomputed
        if (
            row["kind"] != "identity"
            or found is None
            or not re.fullmatch(r"\d+(\.\d+)?(e[+-]?\d+)?", row["recomputed"])
        ):
            continue
        assert found == pytest.approx((float(row["recomputed"]),) * 2, rel=0.01), row["id"]
        compared += 1
    assert compared >= 60


@pytest.mark.parametrize("claim_id", CHECKED)
def test_recomputed_lies_in_the_expected_range(claim_id: str) -> None:
    checked = CHECKED[claim_id]
    claim = checked.claim
    if checked.recomputed is None:
        assert checked.verdict in ("input", "not_checkable") or claim.evidence is not None
        return
    low, high = checked.recomputed
    if claim_id in RESTATED:
        assert claim.claimed is not None and claim.claimed[0] == claim.expected_low
        return
    assert claim.expected_low is None or low >= claim.expected_low * (1 - TOLERANCE)
    assert claim.expected_high is None or high <= claim.expected_high * (1 + TOLERANCE)


@pytest.mark.parametrize("claim_id", CHECKED)
def test_verdicts(claim_id: str) -> None:
    checked = CHECKED[claim_id]
    if claim_id in FINDINGS:
        assert checked.verdict == FINDINGS[claim_id]
    elif claim_id in WORDS:
        assert checked.verdict == "not_checkable"
    else:
        assert checked.verdict in ("holds", "input")


def test_one_rule_gives_every_claim_its_tolerance() -> None:
    """Digits and the word "about" decide, and nobody can write a tolerance into a claim."""
    claims = load_claims()
    told = {"C070": 0.04, "C122": 1 / 64, "C004": 1 / 13, "C044": 0.25, "C115": 0.25, "C120": 0.25, "C003": 0.25}
    assert {claim_id: claims[claim_id].tolerance_fraction for claim_id in told} == pytest.approx(told)
    text = (
        '[C1]\ndocument = "d"\nkind = "k"\nclaim = "c"\nunit = "-"\nreason = "r"\nvalue = 1\ntolerance_fraction = 0.5'
    )
    with pytest.raises(FactError, match="unknown field"):
        read_claim(parse_document("claims.toml", text, shipped=True), "C1")


def test_every_chip_means_every_chip() -> None:
    """A claim about all generations is held to the worst of them, the newest one included."""
    chips = CHECKED["C115"].working
    assert chips is not None and "rubin-gpu:peak_flop_per_s.bf16" in chips.facts
    assert all(CHECKED[claim_id].claim.relation == "everywhere" for claim_id in ("C115", "C120"))


def test_what_holds_under_a_condition_fails_without_it() -> None:
    for checked in CHECKED.values():
        if checked.verdict == "holds_if":
            assert checked.claim.condition and checked.as_stated != checked.recomputed
            assert not agrees(checked.claim, np.array(checked.as_stated))
            assert agrees(checked.claim, np.array(checked.recomputed))


@pytest.mark.parametrize("factor", [0.9, 1.1])
@pytest.mark.parametrize(
    ("module", "name", "moved"),
    [
        (blackboard, "pretraining_flop", {"C011", "C088", "C111"}),
        (blackboard, "tokens_inference_balanced", {"C014", "C132", "C133"}),
        (blackboard_training, "cluster_flop", {"C003", "C036", "C039", "C074", "C109"}),
        (blackboard_training, "h100e", {"C059", "C062", "C069", "C114"}),
        (blackboard_serving, "drain_s", {"C120", "C145"}),
        (blackboard_serving, "optimal_batch", {"C115", "C116", "C117", "C119"}),
        (scaling, "inference_tokens_at_optimum", {"C169"}),
    ],
)
def test_a_wrong_formula_moves_its_claims(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, moved: set[str], factor: float
) -> None:
    right: Callable[..., Any] = getattr(module, name)

    def wrong(*given: Any, **arguments: Any) -> Any:
        return right(*given, **arguments) * factor

    wrong.__signature__ = inspect.signature(right)  # type: ignore[attr-defined]
    monkeypatch.setattr(module, name, wrong)
    assert moved <= {one.claim.id for one in check_claims() if one.as_stated != CHECKED[one.claim.id].as_stated}


def test_every_recomputation_rests_on_a_formula_a_fact_or_an_operation() -> None:
    for checked in CHECKED.values():
        if checked.recomputed is not None:
            assert checked.working is not None
            assert re.search(r"\w\(\w+ = | x | / |observed:", checked.working.written), checked.claim.id


def test_no_verdict_depends_on_the_expected_values_where_a_number_was_said() -> None:
    for claim in load_claims().values():
        if claim.claimed is not None and not claim.status:
            fields = {name: getattr(claim, name) for name in claim.__dataclass_fields__}
            other = Claim(**{**fields, "expected_low": 1e99, "expected_high": 2e99})
            assert check_claim(other).verdict == CHECKED[claim.id].verdict


def arguments_of(expression: Any) -> Iterator[tuple[str, Any]]:
    """Every argument in an expression, at any depth."""
    if isinstance(expression, list):
        for part in expression:
            yield from arguments_of(part)
    elif isinstance(expression, dict):
        for name, value in expression.items():
            yield from ((name, part) for part in (value if isinstance(value, list) else [value]))
            yield from arguments_of(value)


def test_peaks_and_bandwidths_come_from_facts() -> None:
    # what the documents themselves put in their place: 300 over 1, 2.5 H100 in a chip, and their figure for Trainium2
    stated = {1, 2.5, 300, "0.65 PFLOP/s"}
    typed = {
        value
        for claim in load_claims().values()
        for expression in (claim.value, claim.if_value)
        for name, value in arguments_of(expression)
        if name in ("peak_flop_per_s", "h100_peak_flop_per_s", "hbm_bytes_per_s", "hbm_bytes")
    }
    assert {value for value in typed if not str(value).startswith("@")} == stated


def test_every_observation_is_used() -> None:
    text = (Path(expressions.__file__).parent / "claims.toml").read_text("utf-8")
    assert [name for name in load_observations() if f'"@observed:{name}"' not in text] == []


CONTRACT = {"id", "claimed", "recomputed", "expected_low", "expected_high", "unit", "verdict", "reason"}


def test_the_json_contract(computeledger: Any) -> None:
    done = computeledger("claims", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert list(document) == ["claims"]
    assert len(document["claims"]) == 174
    for claim in document["claims"]:
        assert set(claim) >= CONTRACT
        assert claim["verdict"] in get_args(Verdict)
        assert claim["reason"] and claim["unit"]
        for key in ("claimed", "recomputed"):
            value = claim[key]
            assert value is None or isinstance(value, float) or (len(value) == 2 and value[0] < value[1]), claim["id"]


def test_the_command_filters(computeledger: Any) -> None:
    done = computeledger("claims", "c103", "C122", "C104", "--verdict", "fails", "--json")
    assert [claim["id"] for claim in json.loads(done.stdout)["claims"]] == ["C103", "C122"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["C999"], "unknown claim 'C999'"), (["--verdict", "fail"], "did you mean 'fails'?")],
)
def test_the_command_refuses(computeledger: Any, arguments: list[str], words: str) -> None:
    done = computeledger("claims", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr and len(done.stderr.splitlines()) == 1


def test_the_table_shows_every_claim(computeledger: Any) -> None:
    done = computeledger("claims")
    assert done.returncode == 0, done.stderr
    assert [claim_id for claim_id in CHECKED if not re.search(rf"^ ?{claim_id} ", done.stdout, re.MULTILINE)] == []


def test_one_claim_shows_its_working(computeledger: Any) -> None:
    done = computeledger("claims", "C088")
    assert "pretraining_flop(" in done.stdout and "DeepSeek-V3 Technical Report" in " ".join(done.stdout.split())


def test_the_page_is_whole(tmp_path: Path, computeledger: Any) -> None:
    done = computeledger("claims", "--html", str(tmp_path / "claims.html"))
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "claims.html").read_text("utf-8").partition("<script>")[0]
    assert all(f'id="{claim_id}"' in page for claim_id in CHECKED)
    assert not re.search(r'(src|href)="(?!#|https?://|data:)', page)
    assert "<script src" not in page and 'rel="stylesheet"' not in page


def test_the_page_escapes_what_it_shows() -> None:
    (one,) = check_claims(["C001"])
    hostile = dataclasses.replace(one, claim=dataclasses.replace(one.claim, claim="<b>bold</b>", reason="<b>why</b>"))
    assert "<b>" not in report(ClaimsAnswer(ClaimsQuestion(), (hostile,)).view(working=True))


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits(tmp_path: Path, browser: Any, width: int) -> None:
    file = tmp_path / "claims.html"
    claims().to_html(file)
    page = browser.new_page(viewport={"width": width, "height": 900})
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.fill("#search", "does not hold")
    assert page.inner_text("#found") == f"{sum(v == 'fails' for v in FINDINGS.values())} of 174 figures"
    page.fill("#search", "C103")
    assert page.locator("details.figure:visible").count() == 1
    assert problems == []
    page.close()


@pytest.mark.browser
def test_paper_shows_each_formula_and_its_facts(tmp_path: Path, browser: Any) -> None:
    file = tmp_path / "claims.html"
    claims(ids=["C001", "C003", "C004"]).to_html(file)
    page = browser.new_page(color_scheme="dark")
    page.goto(file.as_uri())
    words = words_of(page.pdf(prefer_css_page_size=True, print_background=True))
    folded = page.locator("details.figure td, details.figure .formula").all_text_contents()
    page.close()
    assert len(folded) > 5
    assert [one for one in folded if "".join(one.split()) not in words] == []
    assert "Claims,recomputed·ComputeLedger" in words


GOOD = 'document = "d"\nkind = "identity"\nclaim = "c"\nunit = "ratio"\nreason = "r"\n'


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "exactly one of value, evidence and status"),
        ('value = 1\nstatus = "input"', "exactly one of value, evidence and status"),
        ('value = 1\ncondition = "x"', "belong together"),
        ('status = "unknown"', "status: 'unknown'"),
        ("value = 1\nclaimd = 2", "did you mean 'claimed'"),
        ('value = 1\nrelation = "about"', "relation: 'about'"),
    ],
)
def test_a_malformed_claim_does_not_load(lines: str, words: str) -> None:
    with pytest.raises(FactError, match=re.escape(words)):
        read_claim(parse_document("claims.toml", f"[C1]\n{GOOD}{lines}\n", shipped=True), "C1")


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ({"formula": "no_such_formula"}, "none of the project's"),
        ({"formula": "drain_s", "capacity_bytes": 1}, "missing a required argument: 'bytes_per_s'"),
        ("@h100-sxm5-80gb", "ID:FIELD"),
        ("@h100-sxm5-80gb:name", "names no number"),
        ("@h100-sxm5-80gb:peak_flop_per_s.fp4", "unknown field 'fp4'"),
        ("@observed:nothing", "unknown field 'nothing'"),
        ("100B", "several ways"),
        ({"sum": [1, 2]}, "product = [A, B]"),
        ({"product": [1]}, "product = [A, B]"),
        ({}, "product = [A, B]"),
        ("many", "no quantity"),
        (True, "no expression"),
        ([], "empty list"),
    ],
)
def test_a_malformed_expression_is_refused(expression: Any, words: str) -> None:
    with pytest.raises(FactError, match=re.escape(words)):
        evaluate(expression)


def test_an_unknown_verdict_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'holds"):
        claims(verdict="hold")
    assert fields_of(ClaimsQuestion)["verdict"].choices == get_args(Verdict)


def one(claimed: tuple[float, float], relation: str = "equals", words: str = "c") -> Claim:
    """A claim of which only the comparison matters."""
    return Claim("C1", "d", "identity", words, "r", "ratio", claimed, None, None, relation)


@pytest.mark.parametrize(
    ("claim", "found", "expected"),
    [
        (one((20.1, 20.1)), [23.0, 39.0], False),
        (one((24.0, 24.0)), [23.0, 39.0], True),
        (one((1.5, 1.5), "everywhere"), [1.5, 2.0], False),
        (one((1.5, 1.5)), [1.5, 2.0], True),
        (one((2.0, 6.0)), [2.9, 8.6], False),
        (one((20.1, 20.1), words="about c"), [23.0, 39.0], True),
        (one((2.0, 9.0)), [2.9, 8.6], True),
        (one((6.0, 6.0), "at_least"), [5.0, 8.0], False),
        (one((6.0, 6.0), "at_most"), [5.0, 5.5], True),
        (one((100.0, 100.0)), [116.0], False),
        (one((100.0, 100.0)), [112.0], True),
        (one((101.0, 101.0)), [102.5], False),
        (one((101.0, 101.0), words="c or so"), [120.0], True),
    ],
)
def test_agreement(claim: Claim, found: list[float], expected: bool) -> None:
    assert agrees(claim, np.array(found)) is expected


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (16.0, "bit/s", "16 bit/s"),
        ([300.0, 86400.0], "s", "5 min – 1 day"),
        (50.0, "1/s", "50/s"),
        ([4e4, 5e4], "USD/chip", "$40K – $50K/chip"),
        (1234.5, "W/GPU", "1.23 kW/GPU"),
        ([295.1, 295.2], "token", "295 tokens"),
    ],
)
def test_numbers_as_people_read_them(value: Any, unit: str, text: str) -> None:
    assert claim_numbers(value, unit) == text
