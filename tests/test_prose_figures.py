"""Figures that pages quote are those of the shipped calibrations."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
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
    assert f"moves the truth of a predicted ratio by {low} to {high} %" in page


def test_the_changelog_counts_the_claims() -> None:
    verdicts = Counter(one.verdict for one in check_claims())
    said = (verdicts.total(), verdicts["holds"], verdicts["holds_if"], verdicts["fails"])
    sentence = r"the (\d+) quantitative claims .* (\d+) hold, (\d+) hold under a\s+named condition, (\d+) do not"
    found = re.search(sentence, (ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert found is not None and tuple(map(int, found.groups())) == said


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
