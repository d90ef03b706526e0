"""Figures that pages quote are those of the shipped calibrations."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from computeledger.validation.claims.check import check_claims
from computeledger.workloads.serving.margins import load_neighbour_errors
from tests.gates import ROOT

PACKAGE = ROOT / "src" / "computeledger"
#: The log dates its figures; every other page speaks of what ships.
PAGES = sorted({ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "LOG.md"})


def shipped(name: str) -> dict[str, Any]:
    return tomllib.loads((PACKAGE / name).read_text("utf-8"))


SERVING = shipped("physics/calibration/serving.toml")
N_SERVING = str(sum(len(SERVING[part]) for part in ("shared", "trtllm", "vllm", "sglang")))
#: A fitted constant of training names the configurations that it moves; what follows from others does not.
TRAINING = shipped("physics/calibration/training.toml")
MOVES = "published configurations whose step it moves"
N_TRAINING = str(sum(one.get("data", "").endswith(MOVES) for one in TRAINING.values()))
N_FRAMEWORKS = str(len(TRAINING["frameworks"]))
N_RUNS = str(sum(TRAINING["slices"][kind]["n"] for kind in ("dense", "moe")))
RL = shipped("physics/calibration/rl.toml")["constants"]
N_RL = str(sum("prior" in one for one in RL.values()))
N_POINTS = SERVING["about"]["data"].split()[0]
LEFT_OUT = re.findall(r"median ([\d.]+)%", SERVING["about"]["residual"])[0]
LEFT_OUT_P90 = re.findall(r"90th percentile ([\d.]+)%", SERVING["about"]["residual"])[0]
N_PAIRS = shipped("workloads/serving/residuals.toml")["data"].split()[0]

# page, pattern with a group for each figure, and what the calibration files say
QUOTED = (
    ("README.md", r"(\d+) constants of serving are fitted on ([\d,]+) published", (N_SERVING, N_POINTS)),
    ("README.md", r"a fifth of the InferenceX points \| ([\d.]+) % / ([\d.]+) %", (LEFT_OUT, LEFT_OUT_P90)),
    ("README.md", r"from (\d+) constants and the effects of (\d+) frameworks on (\d+) published runs",
     (N_TRAINING, N_FRAMEWORKS, N_RUNS)),
    ("CHANGELOG.md", r"(\d+) constants fitted on ([\d,]+) published measurements .* by ([\d.]+) %",
     (N_SERVING, N_POINTS, LEFT_OUT)),
    ("docs/decisions.md", r"(\d+) for serving, (\d+) for training, (\d+) for RL", (N_SERVING, N_TRAINING, N_RL)),
    ("docs/decisions.md", r"measured on ([\d,]+) pairs of options", (N_PAIRS,)),
    ("docs/serving.md", r"measured on ([\d,]+) pairs of options", (N_PAIRS,)),
    ("docs/book/2-batch.md", r"(\d+) constants fitted on ([\d,]+) points; .* median error is ([\d.]+) %",
     (N_SERVING, N_POINTS, LEFT_OUT)),
    ("docs/book/5-training.md", r"from (\d+) constants and the effects of (\d+) frameworks on (\d+) published runs",
     (N_TRAINING, N_FRAMEWORKS, N_RUNS)),
)  # fmt: skip


@pytest.mark.parametrize(("page", "pattern", "expected"), QUOTED)
def test_a_page_quotes_what_the_calibration_says(page: str, pattern: str, expected: tuple[str, ...]) -> None:
    found = re.search(pattern, (ROOT / page).read_text("utf-8"))
    assert found is not None, f"{page} no longer says {pattern}: change this table with it"
    assert found.groups() == expected, found.group()


def test_neighbours_differ_by_what_the_page_says() -> None:
    law = load_neighbour_errors()
    scales = sorted(float(law.scale(*apart)) for apart in ((1.0, 0.0), (0.0, 1.0)))
    low, high = (f"{100 * one:.0f}" for one in scales)
    page = (ROOT / "docs" / "serving.md").read_text("utf-8")
    assert f"moves the true ratio away from the predicted one by {low} to {high} %" in " ".join(page.split())


def test_the_changelog_and_the_page_count_the_claims() -> None:
    checked = check_claims()
    verdicts = Counter(one.verdict for one in checked)
    said = (verdicts.total(), verdicts["holds"], verdicts["holds_if"], verdicts["fails"], verdicts["derived"])
    sentence = (
        r"the (\d+) quantitative claims .* (\d+) hold, (\d+) hold under a\s+named condition, (\d+) do not,\s+"
        r"(\d+) are derivations"
    )
    found = re.search(sentence, (ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert found is not None and tuple(map(int, found.groups())) == said
    concluded = Counter(one.conclusion.verdict for one in checked)
    page = (ROOT / "docs" / "claims.md").read_text("utf-8")
    found = re.search(r"(\d+)\s+stand,\s+(\d+)\s+fall\s+and\s+(\d+)\s+do\s+not\s+follow", page)
    assert found is not None
    assert [*map(int, found.groups())] == [concluded[one] for one in ("stands", "falls", "does_not_follow")]


def test_no_page_counts_constants_or_pairs_unheld() -> None:
    """A count that the table above does not hold would drift."""
    counted = re.compile(r"\b\d+ constants\b|[\d,]+ pairs of (?:options|neighbours|aggregated)")
    held = {page: [pattern for name, pattern, _ in QUOTED if name == page] for page, _, _ in QUOTED}
    loose = []
    for path in PAGES:
        page, text = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        spans = [one.span() for pattern in held.get(page, ()) for one in re.finditer(pattern, text)]
        loose += [
            f"{page}: {one.group()}"
            for one in counted.finditer(text)
            if not any(low <= one.start() < high for low, high in spans)
        ]
    assert loose == []


_PRINTED = re.compile(r"^```text\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"^```(?!text).*?^```|`[^`]+`|\]\([^)]*\)|https?://\S+", re.DOTALL | re.MULTILINE)
#: A number of four digits and more that no comma parts, and that no name, option, path or decimal holds.
_LONG_NUMBER = re.compile(r"(?<![\w.,/=:#@+$-])\d{4,}(?![\w,/:-]|\.\d)")
#: Where digits are a name: years, tickets and pull requests, chips; and what a shell or a configuration is told.
_NAMED = re.compile(
    r"\b(?:19|20)\d\d\b|^ *\d+ and \d+$|\b(?:issue|request|RTX(?: PRO)?|RX) \d+(?: and)?|^ *\d+(?: |$)|\b[34]090\b"
    r"|default: \d+"
)
_TOLD = re.compile(r"^ *(?:--\S|\w+: |.*\\$|export |\w+=)")
#: American spellings of what the pages spell as in Britain; optimizer and tokenizer are the field's.
_AMERICAN = re.compile(
    r"\b(?:(?:util|parallel|amort|real|organ|normal|initial|serial|synchron|special|quant|recogn|summar|vector|minim|maxim)"
    r"iz(?:e[ds]?|ing|ations?)|optimize[ds]?|analyze[ds]?|model(?:ed|ing)|label(?:ed|ing)|behaviors?|colors?|favors?|"
    r"neighbors?|centers?|gray|fibers?|canceled|catalogs?|toward)\b",
    re.IGNORECASE,
)
#: Names of others.
_THEIRS = ("Data Center", "ai-data-center")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_printed_numbers_above_999_are_parted(page: Path) -> None:
    """5,218, never 5218: what commands and pages print is read, not typed in again."""
    lines = [line for block in _PRINTED.findall(page.read_text("utf-8")) for line in block.splitlines()]
    told = [_NAMED.sub("", line) for line in lines if not _TOLD.match(line)]
    assert [line.strip() for line in told if _LONG_NUMBER.search(line)] == []


@pytest.mark.parametrize("page", [one for one in PAGES if one.name != "sources.md"], ids=lambda page: page.name)
def test_pages_are_spelt_one_way(page: Path) -> None:
    text = re.sub(r"-\n\s+", "-", _CODE.sub("", page.read_text("utf-8")))  # an option is not parted
    for name in _THEIRS:
        text = text.replace(name, "")
    found = [
        one[0]
        for one in _AMERICAN.finditer(text)
        if text[one.start() - 1] not in "-_./" and text[one.end()] not in "-_("
    ]
    assert found == []
