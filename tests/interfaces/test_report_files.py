"""Where a report is written: over a page at most, whatever the answer was read from; dates in its tables stay whole."""

from __future__ import annotations

from pathlib import Path

import pytest

import computeledger as cl
from computeledger.errors import InputError
from computeledger.interfaces.render.html import report
from computeledger.interfaces.view import Cell, Table, View


@pytest.mark.parametrize("kept", [b"DUCK\x00\x00 a database", b"model = 'x'\n", b"%PDF-1.7"])
def test_a_report_is_not_written_over_a_file_that_is_no_page(kept: bytes, tmp_path: Path) -> None:
    """An answer without a question, such as that of the books, does not know what it was read from."""
    file = tmp_path / "books.duckdb"
    file.write_bytes(kept)
    answer = cl.serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp1", batch=1, samples=2)
    with pytest.raises(InputError, match="is a file that is no HTML page; the report needs another name"):
        answer.to_html(file)
    assert file.read_bytes() == kept


def test_a_report_is_written_over_an_earlier_one_or_an_empty_file(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.touch()
    answer = cl.serve(model="llama-3.1-8b", system="h100-nvl8", layout="tp1", batch=1, samples=2)
    for _ in range(2):
        answer.to_html(file)
        assert file.read_text("utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(("text", "is_whole"), [("2026-11-23", True), ("2026-11", True), ("tp1-pp8", False)])
def test_a_date_does_not_break(text: str, is_whole: bool) -> None:
    page = report(View("", tables=(Table("", ("when", "then"), [["x", text], ["y", Cell(text)]]),)))
    assert (f'<span class="date">{text}</span>' in page) is is_whole
    assert ".date { white-space: nowrap; }" in page
