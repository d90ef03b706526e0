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
from computeledger.validation.claims.conclusions import load_conclusions, read_conclusion
from computeledger.validation.claims.expressions import evaluate
from computeledger.validation.claims.observations import load_observations
from computeledger.validation.claims.scale import AGREEMENT_FACTORS, Interval, Precision, Wording, agree
from tests.printed import words_of

CHECKED = {checked.claim.id: checked for checked in check_claims()}

#: The expected ends are written with two or three digits.
TOLERANCE = 0.01

#: What does not hold as it stands, and how.
FINDINGS = {
    **dict.fromkeys(("C025", "C030", "C033", "C080", "C081", "C088", "C100", "C101", "C103", "C110", "C115", "C120",
                     "C122", "C127", "C128", "C131", "C142", "C171"), "fails"),
    **dict.fromkeys(("C029", "C039", "C064", "C113", "C117", "C119", "C124", "C132", "C133", "C135", "C136", "C137",
                     "C140", "C143", "C145", "C146", "C173"), "holds_if"),
}  # fmt: skip

#: Where the study restated the claim as what to expect, and the project's operations say otherwise.
RESTATED = {"C100", "C146"}

#: Words without enough to compute from, and one figure against which only a speculative estimate stands.
WORDS = {"C028", "C035", "C098", "C152", "C157", "C172", "C174"}


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
    elif checked.claim.claimed is None:
        assert checked.verdict == "derived"  # the number is ours: there is nothing that could hold
    else:
        assert checked.verdict in ("holds", "input")


def test_one_scale_judges_every_claim() -> None:
    """Same wording and same relative error, same verdict: within a wording no verdict crosses another's error."""
    errors: dict[Wording, dict[str, list[float]]] = {}
    for one in CHECKED.values():
        said, found = one.claim.claimed, one.as_stated
        if said is not None and found is not None and said[0] == said[1] and found[0] == found[1] > 0:
            verdict = "holds" if one.verdict == "holds" else "fails"
            if one.verdict != "not_checkable":
                how = one.claim.wording
                error = {"at_least": said[0] / found[0], "at_most": found[0] / said[0]}.get(how.relation)
                errors.setdefault(how, {"holds": [], "fails": []})[verdict].append(
                    error or max(said[0] / found[0], found[0] / said[0])
                )
    assert sum(map(len, (one["holds"] + one["fails"] for one in errors.values()))) > 80
    for how, seen in errors.items():
        assert max(seen["holds"], default=0) <= how.factor * (1 + 1e-9), how
        assert min(seen["fails"], default=np.inf) > how.factor, how


@pytest.mark.parametrize("precision", AGREEMENT_FACTORS)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 3e26])
def test_the_scale_knows_ratios_alone(precision: Precision, scale: float) -> None:
    inside, outside = AGREEMENT_FACTORS[precision] * 0.999, AGREEMENT_FACTORS[precision] * 1.001
    for factor, expected in ((inside, True), (1 / inside, True), (outside, False), (1 / outside, False)):
        assert agree((scale, scale), (scale * factor,) * 2, Wording(precision)) is expected
    assert agree((scale, scale), (scale * 99, scale * 100), Wording(precision, "at_least"))
    assert not agree((scale, scale), (scale * 99, scale * 100), Wording(precision, "at_most"))


def test_wordings_come_from_the_claim() -> None:
    """Digits, hedges and quoted bounds decide, and nobody can write a tolerance or a relation into a claim."""
    claims = load_claims()
    told = {"C070": "figure", "C025": "figure", "C101": "exact", "C044": "about", "C130": "order of magnitude"}
    assert {claim_id: claims[claim_id].wording.precision for claim_id in told} == told
    assert [claims["C013"].wording.relation, claims["C060"].wording.relation] == ["at_least", "at_most"]
    text = '[C1]\ndocument = "d"\nkind = "k"\nclaim = "c"\nunit = "-"\nreason = "r"\nvalue = 1\n'
    for line, words in (
        ("tolerance_fraction = 0.5", "unknown field"),
        ('words = "every"', "not in the claim's own words"),
    ):
        with pytest.raises(FactError, match=words):
            read_claim(parse_document("claims.toml", text + line, shipped=True), "C1")


def test_what_is_concluded_is_judged_beside_the_number() -> None:
    """A number may fail where the conclusion stands, and hold where it does not follow."""
    judged = {one.claim.id: (one.verdict, one.conclusion.verdict) for one in CHECKED.values()}
    assert judged["C088"] == ("fails", "stands") and judged["C138"] == ("holds", "does_not_follow")
    assert judged["C142"] == ("fails", "falls") and judged["C067"] == ("holds", "not_judged")
    assert set(load_conclusions()) <= set(CHECKED)
    for claim_id, one in load_conclusions().items():
        assert one.says.endswith(".") and one.reason.endswith("."), claim_id
    text = '[C1]\nsays = "a"\nverdict = "fall"\nreason = "b"'
    with pytest.raises(FactError, match="did you mean 'falls'"):
        read_conclusion(parse_document("conclusions.toml", text, shipped=True), "C1")


def test_counts_are_those_of_the_claims() -> None:
    counts = claims().counts
    assert sum(counts["verdicts"].values()) == sum(counts["conclusions"].values()) == len(CHECKED)
    assert sum(counts["holds_by"].values()) == counts["verdicts"]["holds"]
    assert claims(conclusion="falls").counts["conclusions"] == {
        "stands": 0, "falls": counts["conclusions"]["falls"], "does_not_follow": 0, "not_judged": 0,
    }  # fmt: skip
    ratios = {one: np.array(CHECKED[one].recomputed) / np.array(CHECKED[one].claim.claimed) for one in CHECKED
              if CHECKED[one].verdict == "fails"}  # fmt: skip
    furthest = max(ratios, key=lambda one: abs(np.log(ratios[one].mean())))
    assert f" says that {CHECKED[furthest].claim.short}; the formula gives " in claims(verdict="fails").view().context
    by = counts["holds_by"]
    headline, held = claims().view().headline, claims().view().tiles[0].band
    assert f"{counts['verdicts']['holds']} hold, {counts['verdicts']['holds_if']} on a condition" in headline
    assert held == f"{by['published_facts']} by published facts, {by['own_premises']} on their own inputs"
    assert CHECKED["C067"].basis == "its own premises" and CHECKED["C004"].basis == "published facts"


def test_every_chip_means_every_chip() -> None:
    """A claim about all generations is held to the worst of them, the newest one included."""
    chips = CHECKED["C115"].working
    assert chips is not None and "rubin-gpu:peak_flop_per_s.bf16" in chips.facts
    assert all(CHECKED[claim_id].claim.wording.relation == "everywhere" for claim_id in ("C115", "C120"))


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
    assert list(document) == ["schema", "counts", "claims"]
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
    done = computeledger("claims", "--all")
    assert done.returncode == 0, done.stderr
    assert [claim_id for claim_id in CHECKED if not re.search(rf"^ ?{claim_id} ", done.stdout, re.MULTILINE)] == []


def test_one_claim_shows_its_working(computeledger: Any) -> None:
    done = computeledger("claims", "C088")
    assert "pretraining FLOP(" in done.stdout and "DeepSeek-V3 Technical Report" in " ".join(done.stdout.split())


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
        ('value = 1\nwords = "about"', "words: 'about'"),
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


@pytest.mark.parametrize(
    ("said", "how", "found", "expected"),
    [
        ((20.1, 20.1), Wording("figure"), (23.0, 39.0), False),
        ((24.0, 24.0), Wording("figure"), (23.0, 39.0), True),
        ((1.5, 1.5), Wording("figure", "everywhere"), (1.5, 2.0), False),
        ((1.5, 1.5), Wording("figure"), (1.5, 2.0), True),
        ((2.0, 6.0), Wording("figure"), (2.9, 8.6), False),
        ((10.0, 260.0), Wording("figure"), (8.6, 259.0), False),  # a range that is too narrow
        ((20.1, 20.1), Wording("about"), (23.0, 39.0), True),
        ((2.0, 9.0), Wording("figure"), (2.9, 8.6), True),
        ((6.0, 6.0), Wording("exact", "at_least"), (5.0, 8.0), False),
        ((6.0, 6.0), Wording("exact", "at_most"), (5.0, 5.5), True),
    ],
)
def test_agreement(said: Interval, how: Wording, found: Interval, expected: bool) -> None:
    assert agree(said, found, how) is expected


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
