"""The one place that opens a user's file: what it refuses, in one line, before the file can fill the memory."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from computeledger import files
from computeledger.actuals import run_ledger
from computeledger.actuals.run_ledger import read_ledger
from computeledger.errors import InputError
from computeledger.interfaces.cli import main
from rntp.verify.run import finished
from rntp.verify.task import load_tasks
from tests.commands import call
from tests.gates import ROOT, source_files

#: (file, function) -> why it opens a file by itself
NO_USERS_FILE = {
    ("computeledger/files.py", "open_user_file"): "the place",
    ("computeledger/facts/reading.py", "read_file"): "a shipped file; a user's goes through read_user_text",
    ("computeledger/actuals/run_ledger.py", "LedgerWriter"): "writes",
    ("computeledger/actuals/machine/kernels.py", "processor_name"): "a file of the system",
    ("computeledger/stores/books/store.py", "_lock_handle"): "a lock, never read",
    ("computeledger/interfaces/options.py", "run_group"): "the null device, written",
    ("computeledger/interfaces/page.py", "assets"): "shipped",
    ("computeledger/interfaces/web/static_files.py", "_file"): "shipped",
    ("computeledger/interfaces/web/plan_boxes.py", "plan_toml"): "shipped",
    ("computeledger/validation/accuracy/table.py", "constants_key"): "shipped",
    ("computeledger/validation/measured_table.py", "shipped_text"): "shipped",
    ("computeledger/workloads/frameworks/__init__.py", "load_framework"): "shipped",
    ("computeledger/writing.py", "write_report"): "the start of what it would overwrite, a regular file",
    ("rntp/plugins.py", "source_hash"): "modules that were imported",
    ("rntp/ahead.py", "read_state"): "a part of a checkpoint, beside its weights",
    ("rntp/checkpoints.py", "mark_complete"): "writes, and flushes what was written",
    ("rntp/corpus.py", "python_library"): "Python's own library",
    ("rntp/pretraining.py", "_save"): "writes",
    ("rntp/gpu/report.py", "carry_out"): "writes",
    ("rntp/gpu/report.py", "in_process"): "writes a log",
    ("rntp/run.py", "_Told"): "writes",
    ("rntp/verify/run.py", "_Results"): "writes",
}
#: Folders and files of which no part reads a user's file.
OF_THE_SYSTEM = {
    "computeledger/interfaces/web/engines.py": "the system's account of a process",
    "rntp/verify/cgroup.py": "files of the kernel",
    "rntp/verify/launcher.py": "files of the kernel, and the null device",
    "rntp/verify/zygote.py": "inside the sandbox",
    "rntp/verify/programs.py": "our own program, to be run in the sandbox",
    "rntp/verify/program_side.py": "inside the sandbox",
    "rntp/verify/judge_side.py": "inside the sandbox",
    "rntp/verify/sandbox.py": "our own program, to be run in the sandbox",
}
OPENS = {"open", "read_text", "read_bytes", "loadtxt", "genfromtxt", "fromfile", "memmap"}


def opened(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.Call]]:
    """Calls that open a file, each with the function or class of the module that it stands in."""
    for node in ast.iter_child_nodes(tree):
        name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else ""
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            text = ast.unparse(node.func) if called in OPENS else ""
            if text and "resources.files" not in text and "shipped_file(" not in text:
                yield within or name, node
        yield from opened(node, within or name)


def test_users_files_are_opened_in_one_place() -> None:
    found = []
    for path in source_files():
        file = path.relative_to(ROOT / "src").as_posix()
        if file in OF_THE_SYSTEM:
            continue
        text = path.read_text("utf-8")
        for name, node in opened(ast.parse(text)) if any(word in text for word in OPENS) else ():
            if (file, name) not in NO_USERS_FILE:
                found.append(f"{file}:{node.lineno} {ast.unparse(node)[:60]}: go through computeledger.files")
    assert found == []


def refused(read: Callable[[Path], object], path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("read", [files.read_toml, files.read_json, lambda path: list(files.read_table(path))])
def test_what_is_no_regular_file_is_refused_before_it_is_read(read: Callable[[Path], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server, chdir(tmp_path):
        server.bind("socket")
        for name in ("pipe", "link"):
            assert refused(read, tmp_path / name) == f"{tmp_path / name}: not a regular file"
        refused(read, tmp_path / "socket")
    assert "is a folder" in refused(read, tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    refused(read, tmp_path / "loop")


class chdir:  # noqa: N801 (as contextlib has it; the name of a socket is short)
    """In a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.before = folder, Path.cwd()

    def __enter__(self) -> None:
        os.chdir(self.folder)

    def __exit__(self, *_: object) -> None:
        os.chdir(self.before)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 5000, ":1: nested too deeply, more than 64 levels"),
        ("x = 1\n" + "a." * 50_000 + "a = 1", ":2: nested too deeply, more than 64 levels"),
        ("\n\n[a." + "b." * 70 + "c]", ":3: nested too deeply, more than 64 levels"),
        ("a = " + "9" * 5000, ":1: a whole number has too many digits, more than 300"),
        ("b = 1\na = 0x" + "f" * 5000, ":1: a whole number has too many digits, more than 300"),
        ("k" * 300 + " = 1", ":1: a key of more than 200 characters"),
        ("a = 1\na = 2", ":2: not valid TOML: Cannot overwrite a value"),
        ("#" * 600_000, ": larger than 512 KiB, the most that is read of such a file"),
    ],
)
def test_toml_beyond_the_limits(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    assert refused(files.read_toml, path) == f"{path}{message}"


def test_brackets_and_dots_in_texts_and_numbers_are_no_depth(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    text = "[[[[" * 40 + "a.b." * 40
    path.write_text(f"a = '{text}'\nb = \"{text}\\\"\" # {text}\nc = '''{text}\n'{text}'''\nd = [{'1.5, ' * 200}]\n")
    assert files.read_toml(path)["d"] == [1.5] * 200
    (tmp_path / "a.json").write_text(f'{{"a": "{text}\\"{text}"}}')
    assert files.read_json(tmp_path / "a.json") == {"a": f'{text}"{text}'}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 70 + "]" * 70, ":1: nested too deeply, more than 64 levels"),
        ('{"a":\n' * 100_000, ":65: nested too deeply, more than 64 levels"),
        ("[\n" + "9" * 5000 + "]", ":2: a whole number has too many digits, more than 300"),
        ("[" + "{}," * 1_100_000 + "1]", ":1: more than 2,000,000 values"),
        ('{"a": 1,\n}', ":2: not valid JSON: Expecting property name enclosed in double quotes"),
        ("", ":1: not valid JSON: Expecting value"),
    ],
)
def test_json_beyond_the_limits(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    assert refused(files.read_json, path) == f"{path}{message}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,b\n1,2\n\xff,3\n", ":3: not UTF-8 text (byte 0 of the line)"),
        (b"a,b\n1," + b"x" * 140_000 + b"\n", ":2: not a table (field larger than field limit (131072))"),
        (b'a,b\n1,"2\n' + b"3,4\n" * 40_000, ":32770: not a table (field larger than field limit (131072))"),
        (b"a,b\n1,2,3\n", ":2: more cells (3) than the header has columns (2)"),
        (b"a,b\n" + b"x" * 4_000_001, ":2: a line of more than 4 MiB"),
        (b"a," * 2000 + b"b\n", ": 2,001 columns, more than 1,000"),
        (b"b\n1\n", ": the column 'a' is missing; needed: a"),
        (b"", ": the column 'a' is missing; needed: a"),
    ],
)
def test_tables_beyond_the_limits(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    assert refused(lambda path: list(files.read_table(path, ["a"])), path) == f"{path}{message}"


def test_a_table_with_a_mark_and_other_ends_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbfa , b\r\n1,"x\r\ny"\r\n\r\n2\r\n')
    assert list(files.read_table(path)) == [(3, {"a": "1", "b": "x\r\ny"}), (5, {"a": "2", "b": ""})]


def test_a_line_without_end_is_passed_over_by_logs_and_streams_by(tmp_path: Path) -> None:
    """Of a file of half a gigabyte no reader holds more than a line."""
    from computeledger.actuals.readers.tally import Tally, lines_of

    path = tmp_path / "run.log"
    with path.open("wb") as file:
        file.write(b"first\n")
        file.truncate(2**29)
        file.seek(2**29)
        file.write(b"\nlast\n")
    tally = Tally()
    tracemalloc.start()
    try:
        assert [text for _, text in lines_of(path, tally)] == ["first", "last"]
        for read in (files.read_toml, files.read_json):
            assert "larger than" in refused(read, path)
        path.write_bytes(b"")
        os.truncate(path, 2**29)
        assert "a line of more than" in refused(lambda path: list(files.read_json_lines(path)), path)
        assert tracemalloc.get_traced_memory()[1] < 200 * 2**20
    finally:
        tracemalloc.stop()
    assert tally.damaged["longer than any line a tool writes"].line == 2


FULL_DISK = """
import resource, sys
from computeledger.interfaces.cli import main
size = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A plan as it was worked out: an entry of the books that takes no time to make."""
    done = call(main, ["plan", str(ROOT / "examples" / "deepseek-v3.toml"), "--samples", "64", "--json"], ROOT)
    file = tmp_path_factory.mktemp("planned") / "plan.json"
    file.write_text(done.stdout, "utf-8")
    return str(file)


@pytest.mark.parametrize("size", [0, 4096, 20_000])
def test_a_full_disk_is_one_line_and_the_books_are_as_before(tmp_path: Path, size: int, planned: str) -> None:
    def books(*arguments: str, size: int | None = None) -> subprocess.CompletedProcess[str]:
        """In this process, or in one of its own where no file may grow beyond a size."""
        if size is None:
            return call(main, ["books", *arguments], tmp_path)
        command = [sys.executable, "-c", FULL_DISK, str(size), "books", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    plan, book = planned, "b.duckdb"
    first = books("add", plan, "--book", book, size=size)
    assert (first.returncode, first.stderr.count("\n")) == (2, 1), first.stderr
    assert "Traceback" not in first.stderr
    assert not (tmp_path / book).exists()
    assert books("add", plan, "--book", book).returncode == 0
    before = books("list", "--book", book, "--json").stdout
    again = books("add", plan, "--book", book, size=min(size, 4096))
    assert (again.returncode, again.stderr.count("\n")) == (2, 1), again.stderr
    assert books("list", "--book", book, "--json").stdout == before


def test_books_are_listed_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, computeledger: Callable[..., subprocess.CompletedProcess[str]],
    planned: str,
) -> None:  # fmt: skip
    plan, book = planned, str(tmp_path / "b.duckdb")
    assert computeledger("books", "add", plan, "--book", book).returncode == 0
    (tmp_path / "b.duckdb.lock").unlink()
    real = os.open

    def read_only(path: str, flags: int, *mode: int) -> int:
        """As a folder answers that is mounted read-only."""
        if flags & os.O_CREAT:
            raise OSError(30, "Read-only file system")
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", read_only)
    listed = computeledger("books", "list", "--book", book, "--json")
    assert listed.returncode == 0, listed.stderr
    refused_add = computeledger("books", "add", plan, "--book", book)
    assert refused_add.returncode == 2
    assert "cannot be written (read-only file system)" in refused_add.stderr


def test_files_whose_lines_are_all_kept_have_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"id": "a", "domain": "text", "answer": "b"}\n' * 3, "utf-8")
    monkeypatch.setattr(files, "MOST_KEPT_BYTES", 100)
    for read in (load_tasks, read_ledger, finished):
        with pytest.raises(InputError, match="the most that is kept; split it"):
            read(path)


def test_a_file_of_damaged_lines_is_no_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text("x\n" * 50, "utf-8")
    monkeypatch.setattr(run_ledger, "MOST_DAMAGED", 10)
    with pytest.raises(InputError, match=r"ledger\.jsonl:12: more than 10 lines before it are no entries"):
        read_ledger(path)
