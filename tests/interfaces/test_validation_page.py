"""The command ``validate``: its contract, its page, its tables."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from computeledger.interfaces.cli import cli
from computeledger.interfaces.plots.validation import slices_figure
from computeledger.validation.compare import Comparison

SUMMARY = {
    "n", "median_abs_error", "mean_abs_error", "p90_abs_error", "bias", "coverage_80", "coverage_90", "width_90"
}  # fmt: skip
COLUMNS = "mode,model_path,system,backend,precision"


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped serving points as a file of the user's."""
    from computeledger.validation import tables

    source = Path(tables.__file__).with_name("data") / "serving_curated.csv"
    file = tmp_path_factory.mktemp("points") / "points.csv"
    file.write_text(source.read_text("utf-8"), "utf-8")
    return file


def run(*words: str) -> str:
    result = CliRunner().invoke(cli, ["validate", "--samples", "32", *words])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def document(points: Path) -> dict[str, Any]:
    """What the command prints of them with --json."""
    return dict(json.loads(run("--data", str(points), "--by", COLUMNS, "--worst", "2", "--json")))


@pytest.fixture(scope="module")
def page_of_all(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the shipped measurements."""
    file = tmp_path_factory.mktemp("report") / "page.html"
    run("--html", str(file))
    return file


def test_the_contract(points: Path, document: dict[str, Any]) -> None:
    assert set(document) - {"schema", "rows"} == {"tpot", "ttft", "by", "skipped", "worst"}
    assert set(document["tpot"]) == set(document["ttft"]) == SUMMARY
    assert list(document["by"]) == COLUMNS.split(",")
    for values in document["by"].values():
        assert sum(one["tpot"]["n"] for one in values.values()) == document["tpot"]["n"]
    n_read = len(points.read_text("utf-8").splitlines()) - 1
    assert document["tpot"]["n"] + sum(document["skipped"].values()) == n_read


def test_worst_rows_come_with_their_breakdown(document: dict[str, Any]) -> None:
    first, second = document["worst"]["tpot"]
    assert abs(first["ratio"] - 1) > 0.3
    parts = next(one for one in (first, second) if "breakdown" in one)["breakdown"]["parts"]
    assert sum(part["share_fraction"] for part in parts) == pytest.approx(1)
    assert {part["bound"] for part in parts} <= {"compute", "memory", "network", "overhead"}


def test_the_shipped_set_needs_no_file_and_prints() -> None:
    text = run("--by", "source", "--worst", "1")
    for words in ("time per output token", "output tokens/s per GPU", "In doubt", "Not predicted", "made of"):
        assert words in text


def test_long_names_are_elided_and_no_line_runs_through_them() -> None:
    names = ["a" * 60 + "-2025-nodes-8", "b" * 60 + "-2026"]
    ones = np.ones(2)
    comparison = Comparison([{"source": one} for one in names], {"tpot": ones}, {"tpot": np.ones((2, 3))}, {})
    drawn = slices_figure(comparison, "tpot", "source")
    *notes, around = drawn["layout"]["annotations"]
    assert around["text"].startswith("within ±20")
    assert len(notes) == 2 and all("\u2026" in one["text"] and len(one["text"]) < 80 for one in notes)
    lines = [*drawn["data"][0]["y"], None, *drawn["data"][1]["y"]]
    ends = [pair for pair in pairwise(lines) if None not in pair]
    assert not any(low < one["y"] < high for low, high in ends for one in notes)


def test_the_page_stands_alone_and_escapes(points: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.csv"
    text = points.read_text("utf-8").splitlines()
    hostile.write_text("\n".join([text[0] + ",note", *(line + ",<script>alert(1)</script>" for line in text[1:]), ""]))
    page = tmp_path / "page.html"
    run("--data", str(hostile), "--by", "backend,note", "--html", str(page))
    html = page.read_text("utf-8")
    assert "<script>alert(1)</script>" not in html
    assert not re.search(r'(?:src|href)="(?!#|data:)', html.partition("<script>")[0])
    rest = html.partition('<script type="application/json" id="data">')[2]
    data = json.loads(rest.partition("</script>")[0])
    figure = data["figures"]["tpot/backend"]
    marks = [one for one in figure["data"] if one["mode"] == "markers"]
    assert len(marks) > 1 and all(len(one["x"]) == len(one["y"]) == len(one["error_y"]["array"]) for one in marks)
    assert figure["layout"]["xaxis"]["type"] == figure["layout"]["yaxis"]["type"] == "log"
    assert figure["layout"]["xaxis"]["range"] == figure["layout"]["yaxis"]["range"]


WINDOWS = ((1280, "light"), (390, "dark"))


@pytest.mark.browser
@pytest.mark.parametrize(
    ("width", "scheme", "step"),
    [*((*one, 5) for one in WINDOWS), *(pytest.param(*one, 1, marks=pytest.mark.stress) for one in WINDOWS)],
)
def test_in_a_browser(browser: Any, page_of_all: Path, width: int, scheme: str, step: int) -> None:
    """A choice draws a plot inside the window; the page asks for nothing and complains of nothing.

    Every so many of all choices of all plots: each plot and each choice has its turn. `make stress` draws them all.
    """
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme, offline=True)
    page = context.new_page()
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("requestfailed", lambda request: told.append(request.url))
    page.goto(page_of_all.as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached")
    first = page.locator("figure").first
    before = first.locator(".canvas").inner_html()
    first.locator("select").select_option(index=1)
    page.wait_for_function("before => document.querySelector('figure .canvas').innerHTML !== before", arg=before)
    figures = page.locator("figure").all()
    pairs = [(figure, choice) for figure in figures for choice in figure.locator("option").all_text_contents()]
    drawn = pairs[::step]
    assert {id(figure) for figure, _ in drawn} == {id(figure) for figure in figures}
    assert {choice for _, choice in drawn} == {choice for _, choice in pairs}
    for figure, choice in drawn:
        figure.locator("select").select_option(choice)
        box = figure.locator(".main-svg").first.bounding_box()
        assert box["width"] > 250 and box["height"] > 100 and box["x"] + box["width"] <= width
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width
    assert told == []
    context.close()


def test_bad_input_is_one_line(points: Path, tmp_path: Path) -> None:
    file, few = tmp_path / "a.csv", tmp_path / "few.csv"
    file.write_text("a\n1\n", "utf-8")
    few.write_text("".join(points.read_text("utf-8").splitlines(keepends=True)[:4]), "utf-8")
    asked = {"a.csv": ["--data", str(file)], "nowhere.csv": ["--data", "nowhere.csv"],
             "colour": ["--data", str(few), "--by", "colour"]}  # fmt: skip
    for named, words in asked.items():
        result = CliRunner().invoke(cli, ["validate", "--samples", "8", *words])
        assert result.exit_code != 0
        said = f"{result.output}{result.exception}"
        assert named in said and said.count("\n") <= 1, said
