"""Serving measurements of sources to which nothing is fitted: typed, with their address and date, and all askable."""

from __future__ import annotations

import re

import pytest

from computeledger.sources import check_date
from computeledger.validation.measured_table import curated_rows, shipped_names
from computeledger.validation.serving.open_points import open_case
from computeledger.validation.tables import compare_table

NAME = "serving_elsewhere.csv"
ROWS = curated_rows(NAME)


def test_every_row_is_typed_with_its_address_and_date() -> None:
    assert set(ROWS[0]) == set(curated_rows("local_curated.csv")[0]), "columns as the other table of this kind"
    assert len({row["id"] for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row["url"].startswith("https://") and row["licence"] and row["note"], row["id"]
        assert re.fullmatch(r"\d{4}-\d\d", check_date(row["date"], row["id"])), row["id"]
        assert row["grade"] in ("A", "B") and float(row["value"]) > 0, row["id"]
        pinned = re.search(r"/blob/[0-9a-f]{40}/|/(pull|issues)/\d+$", row["url"])
        assert pinned or "github.com" not in row["url"], f"{row['id']}: not a permanent address"


def test_the_unit_is_that_of_the_metric() -> None:
    units = {row["metric"]: row["unit"] for row in ROWS}
    assert {(row["metric"], row["unit"]) for row in ROWS} == set(units.items())
    assert all(unit == ("token/s" if "per_s" in metric else "s") for metric, unit in units.items())


def test_every_row_is_a_question() -> None:
    cases = {row["id"]: open_case(row) for row in ROWS}
    assert all(case.measured > 0 and case.scenario.batch > 0 for case in cases.values())


def test_a_load_given_as_a_rate_says_how_many_requests_were_in_flight() -> None:
    rated = [row for row in ROWS if row["requests_per_s"]]
    assert len(rated) > 30
    for row in rated:
        assert row["concurrency"] and row["grade"] == "B", row["id"]
        assert "Little" in row["note"] or row["rounds"], row["id"]


def test_a_burst_is_one_round() -> None:
    bursts = [row for row in ROWS if "at once" in row["note"] and "requests/s" not in row["note"]]
    assert len(bursts) > 60 and {float(row["rounds"]) for row in bursts} == {1.0}


def test_sources_differ_in_engine_chip_and_age() -> None:
    assert len({row["source"] for row in ROWS}) >= 25
    assert len({row["accelerator"] for row in ROWS}) >= 20
    assert {"vllm", "sglang", "trtllm", "lmdeploy"} < {row["engine"] for row in ROWS}
    dates = sorted(row["date"] for row in ROWS)
    assert dates[0] < "2024" and dates[-1] > "2026"


def test_a_shipped_table_is_validated_by_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert NAME in shipped_names()
    comparison = compare_table(NAME, n_samples=4)
    assert len(comparison.rows) == len(ROWS) and not comparison.skipped
