"""The books: what goes in comes out, many processes at once, a kill at any moment, exports, bad input."""

from __future__ import annotations

import csv
import hashlib
import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from computeledger.actuals.run_ledger import Entry, LedgerWriter
from computeledger.errors import InputError
from computeledger.stores.books import store as book_store
from computeledger.stores.books.files import read_record
from computeledger.stores.books.store import Record, add_records, export_table, list_entries, read_entry, trends
from tests.gates import ROOT

pytest.importorskip("duckdb")


def record(name: str, happened: str = "2026-10-01T00:00:00+00:00", hours: float = 10.0, **amounts: float) -> Record:
    phases = {"update": {"gpu_hours": hours}}
    digest = hashlib.sha256(f"{name} {happened}".encode()).hexdigest()
    return Record("run", name, happened, {"gpu_hours": hours, **amounts}, phases, {"name": name}, digest)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A run of three steps on 8 devices."""
    path = tmp_path / "run.jsonl"
    writer = LedgerWriter(path)
    for step in range(3):
        begun = f"2026-09-0{step + 1}T12:00:00+02:00"
        sampled = {"sampled": 1e6}
        writer.append(Entry("mine", "rl", "generation", 90.0, 8, step, tokens_by_kind=sampled, flop=9e15,
                            peak_flop_per_s=1e15, started=begun))  # fmt: skip
        writer.append(Entry("mine", "rl", "update", 30.0, 8, step, flop=9e16, peak_flop_per_s=1e15))
    writer.close()
    return path


def test_a_run_and_a_plan_are_written_down(computeledger, ledger: Path, tmp_path: Path) -> None:
    book = str(tmp_path / "b.duckdb")
    plan = str(ROOT / "examples" / "deepseek-v3.toml")
    added = computeledger("books", "add", plan, str(ledger), "--book", book, "--price", "$2/h", "--json")
    assert added.returncode == 0, added.stderr
    assert json.loads(added.stdout)["added"] == [1, 2]
    listed = json.loads(computeledger("books", "list", "--book", book, "--json").stdout)
    of_plan, of_run = listed["entries"]
    expected = json.loads(computeledger("plan", plan, "--json").stdout)
    assert of_plan["gpu_hours"] == pytest.approx(expected["total"]["gpu_hours"]["p50"])
    assert of_plan["usd"] == pytest.approx(expected["total"]["usd"]["p50"])
    hours = 3 * 120 * 8 / 3600
    assert of_run["gpu_hours"] == pytest.approx(hours)
    assert of_run["usd"] == pytest.approx(2 * hours)
    assert of_run["happened"] == "2026-09-01T10:00:00Z"
    assert of_run["utilization_fraction"] == pytest.approx(99e15 / (1e15 * 120 * 8))
    shown = json.loads(computeledger("books", "show", "2", "--book", book, "--json").stdout)
    assert shown["document"]["tokens_sampled"] == 3e6
    assert shown["phases"]["generation"]["tokens"] == 3e6


def test_a_plan_s_answer_and_a_reconciliation_are_told_by_content(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    phases = {"rl": {"gpu_hours": {"p50": 4.0}, "usd": 8.0}}
    path.write_text(json.dumps({"title": "T", "phases": phases, "total": {"gpu_hours": {"p50": 4.0}}, "balance": {}}))
    assert read_record(path, None, None, "").kind == "plan"
    actual = {"gpu_hours": 5.0, "usd": 10.0}
    phases = {"rl": {"budget": {"gpu_hours": 4.0}, "actual": actual, "variance": {}}}
    path.write_text(json.dumps({"phases": phases, "contradictions": []}))
    found = read_record(path, None, "mine", "")
    assert (found.kind, found.name, found.amounts["gpu_hours"], found.amounts["usd"]) == (
        "reconciliation", "mine", 5.0, 10.0,
    )  # fmt: skip


def test_trends_weigh_utilisation_by_time_and_count_a_copy_once(tmp_path: Path) -> None:
    book = tmp_path / "b.duckdb"
    add_records(book, [
        record("a", hours=30.0, usd=60.0, utilization_fraction=0.4),
        record("b", hours=10.0, usd=30.0, utilization_fraction=0.2),
        record("b", hours=10.0, usd=30.0, utilization_fraction=0.2),
        record("c", "2026-11-02T00:00:00+00:00", hours=5.0),
    ])  # fmt: skip
    october, november = trends(book)
    assert (october["month"], october["entries"], october["gpu_hours"]) == ("2026-10", 2, 40.0)
    assert october["usd_per_gpu_hour"] == pytest.approx(90 / 40)
    assert october["utilization_fraction"] == pytest.approx((30 * 0.4 + 10 * 0.2) / 40)
    assert november["usd"] is None
    assert november["utilization_fraction"] is None
    assert [one["copy_of"] for one in list_entries(book)] == [None, None, 2, None]


def test_exports_hold_every_row(tmp_path: Path) -> None:
    book = tmp_path / "b.duckdb"
    add_records(book, [record(f"run {number}, 'quoted'", hours=float(number)) for number in range(1, 6)])
    assert export_table(book, tmp_path / "it's.csv", "entries") == 5
    with (tmp_path / "it's.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["name"] for row in rows] == [f"run {number}, 'quoted'" for number in range(1, 6)]
    parquet = pytest.importorskip("pyarrow.parquet")
    assert export_table(book, tmp_path / "p.parquet", "phases") == 5
    assert parquet.read_table(tmp_path / "p.parquet").column("gpu_hours").to_pylist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_all_records_or_none(tmp_path: Path) -> None:
    book = tmp_path / "b.duckdb"
    add_records(book, [record("good")])
    bad = Record("run", "bad", "no date", {}, {}, {}, "0")
    with pytest.raises(Exception, match="no date"):
        add_records(book, [record("fine"), bad])
    assert [one["name"] for one in list_entries(book)] == ["good"]


def test_a_document_that_was_changed_is_noticed(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    book = tmp_path / "b.duckdb"
    add_records(book, [record("one")])
    with duckdb.connect(str(book)) as connection:
        connection.execute('UPDATE entries SET document = \'{"name": "other"}\'')
    with pytest.raises(InputError, match="is damaged"):
        read_entry(book, 1)


def add_at_once(book: Path, ledger: Path, entries: int, processes: int) -> None:
    """Add by so many processes of the command line at a time; every entry is whole."""

    def add(number: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "computeledger", "books", "add", str(ledger), "--book", str(book)]
        return subprocess.run(
            [*command, "--name", f"run {number}"], capture_output=True, text=True, check=False, timeout=300
        )

    with ThreadPoolExecutor(processes) as pool:
        done = list(pool.map(add, range(entries)))
    assert [one.stderr for one in done if one.returncode] == []
    listed = list_entries(book)
    assert [one["id"] for one in listed] == list(range(1, entries + 1))
    assert {one["name"] for one in listed} == {f"run {number}" for number in range(entries)}
    assert all(read_entry(book, one["id"]).document["tokens_sampled"] == 3e6 for one in listed)


def test_processes_that_add_at_once_lose_nothing(ledger: Path, tmp_path: Path) -> None:
    add_at_once(tmp_path / "b.duckdb", ledger, 8, 4)


@pytest.mark.stress
def test_two_hundred_adds_of_eight_processes(ledger: Path, tmp_path: Path) -> None:
    add_at_once(tmp_path / "b.duckdb", ledger, 200, 8)


WRITER = """
import itertools, sys
from pathlib import Path
from computeledger.stores.books.store import Record, add_records
for number in itertools.count():
    two = [Record("run", f"{number}", "2026-10-01T00:00:00+00:00", {}, {"update": {"usd": 1.0}},
                  {"text": "x" * 500_000}, f"{number}") for _ in range(2)]
    print(add_records(Path(sys.argv[1]), two)[-1], flush=True)
"""


def kill_while_writing(book: Path, kills: int) -> None:
    """Kill a writer at random moments; what it reported is there, and pairs are whole."""
    rng = np.random.default_rng(0)
    for _ in range(kills):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(book)], stdout=subprocess.PIPE, text=True) as writer:
            time.sleep(rng.uniform(0.1, 1.5))
            writer.send_signal(signal.SIGKILL)
            reported = (writer.communicate()[0] or "").split()
        if not book.exists():
            assert not reported
            continue
        there = [one["id"] for one in list_entries(book)]
        assert there == list(range(1, len(there) + 1))
        assert len(there) % 2 == 0
        assert len(there) >= max([int(one) for one in reported], default=0)
        assert all(len(read_entry(book, number).document["text"]) == 500_000 for number in there[-2:])
    assert add_records(book, [record("after")])


def test_a_kill_in_the_middle_of_a_write_leaves_readable_books(tmp_path: Path) -> None:
    kill_while_writing(tmp_path / "b.duckdb", 3)


@pytest.mark.stress
def test_sixty_kills_leave_readable_books(tmp_path: Path) -> None:
    kill_while_writing(tmp_path / "b.duckdb", 60)


def test_another_process_that_holds_the_books_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = tmp_path / "b.duckdb"
    add_records(book, [record("one")])
    code = f"import fcntl, time; f = open({str(book) + '.lock'!r}, 'w'); fcntl.flock(f, 2); print(1, flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}; time.sleep(60)"], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        monkeypatch.setattr(book_store, "PATIENCE_S", 0.05)
        with pytest.raises(InputError, match="another process has held the books"):
            list_entries(book)
        holder.kill()
    monkeypatch.setattr(book_store, "PATIENCE_S", 60.0)
    assert len(list_entries(book)) == 1


def test_bad_input_is_one_line_and_leaves_nothing(computeledger, ledger: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.duckdb").write_text("no books\n" * 1000)
    (tmp_path / "notes.txt").write_text("no plan\n")
    book = tmp_path / "b.duckdb"
    add_records(book, [record("one")])
    cases = [
        (["list", "--book", str(tmp_path / "none.duckdb")], "no books there"),
        (["list", "--book", str(tmp_path / "bad.duckdb")], "not a valid DuckDB database file"),
        (["add", str(tmp_path / "notes.txt"), "--book", str(book)], "needed is a plan"),
        (["add", str(tmp_path / "none.toml"), "--book", str(book)], "no such file"),
        (
            ["add", str(ledger), "--price", "$1..$2/h", "--book", str(book)],
            "--price '$1..$2/h': expected one number, not a range",
        ),
        (["show", "7", "--book", str(book)], "entry 7 is not in"),
        (["export", str(tmp_path / "x.xlsx"), "--book", str(book)], "the name's ending says the format"),
    ]
    for arguments, message in cases:
        done = computeledger("books", *arguments)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "none.duckdb").exists()
    assert not (tmp_path / "x.xlsx").exists()
    assert len(list_entries(book)) == 1
