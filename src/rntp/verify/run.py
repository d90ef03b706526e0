"""Files: tasks and completions in, verdicts out as they are made, and a run that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from computeledger.errors import InputError, shown
from computeledger.files import MOST_BYTES, bounded_lines, check_kept, open_user_file, parse_json
from rntp.verify.ledger import Entry, entry_of, summary_of
from rntp.verify.pool import Plan, Record, stream
from rntp.verify.task import Task, load_completions
from rntp.verify.verdict import FORMAT, INFRASTRUCTURE, verdict


@dataclass(frozen=True, slots=True)
class Pair:
    """A completion and its task."""

    task: Task
    completion: str
    number: int
    digest: str


def pairs_of(tasks: Mapping[str, Task], completions: Path) -> Iterator[Pair]:
    """Pair completions with their tasks, in the order of the file.

    Examples
    --------
    >>> next(pairs_of({}, Path("nowhere.jsonl")))
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.jsonl: no such file
    """
    seen: Counter[str] = Counter()
    for name, text in load_completions(completions):
        if name not in tasks:
            raise InputError(f"{completions}: the completion {shown(name)} has no task")
        yield Pair(tasks[name], text, seen[name], _digest(tasks[name], text))
        seen[name] += 1


def _digest(task: Task, text: str) -> str:
    """Of what decides a verdict."""
    said = json.dumps([task.id, task.domain, dict(task.spec), repr(task.limits), text], sort_keys=True)
    return hashlib.blake2s(said.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def document_of(record: Record, number: int, digest: str) -> dict[str, Any]:
    """Put a record into the words of a results file.

    Examples
    --------
    >>> document_of(Record(0, Task("7", "text"), verdict(1.0)), 0, "ab")["id"]
    '7'
    """
    return {
        "id": record.task.id, **record.verdict.document(), "domain": record.task.domain,
        "environment": record.task.environment, "completion": number, "cpu_s": round(record.verdict.cpu_s, 6),
        "queue_s": round(record.queue_s, 6), "tries": record.tries, "digest": digest,
    }  # fmt: skip


def finished(results: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """Read what an earlier run has left; its infrastructure failures and a torn last line are to be done again.

    Examples
    --------
    >>> finished(Path("nowhere.jsonl"))
    {}
    """
    out: dict[tuple[str, int], dict[str, Any]] = {}
    if not results.exists():
        return out
    torn = whole = 0
    check_kept(results)
    with open_user_file(results) as stream:
        for _, raw in bounded_lines(stream, MOST_BYTES):
            try:
                document = parse_json((raw or b"").decode(), "")
            except (InputError, UnicodeDecodeError):
                torn += 1  # the line at which the run was stopped
                continue
            whole += 1
            if not isinstance(document, dict) or "summary" in document:
                continue
            if not {"id", "status", "completion", "digest"} <= set(document) or not (
                isinstance(document["id"], str) and isinstance(document["completion"], int)
            ):
                raise InputError(f"{results}: holds something else than the results of a run")
            if document["status"] != INFRASTRUCTURE:
                out[document["id"], document["completion"]] = document
    if torn > 1 and not whole:
        raise InputError(f"{results}: holds something else than the results of a run")
    return out


@dataclass(frozen=True, slots=True)
class Files:
    """What a run reads and writes."""

    tasks: Mapping[str, Task]
    completions: Path
    results: Path | None = None


def run_files(
    files: Files,
    executor: Executor,
    plan: Plan,
    report: Callable[[dict[str, Any]], None],
    rollouts_per_s: float | None = None,
) -> dict[str, Any]:
    """Check a file of completions and sum up.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from tempfile import NamedTemporaryFile
    >>> with ThreadPoolExecutor(1) as threads, NamedTemporaryFile() as empty:
    ...     run_files(Files({}, Path(empty.name)), threads, Plan(), print)["n"]
    0
    """
    before = finished(files.results) if files.results else {}
    entries, started = list[Entry](), time.monotonic()
    given: set[str] = set()
    kept: dict[tuple[str, int], dict[str, Any]] = {}
    todo: list[Pair] = []
    for pair in pairs_of(files.tasks, files.completions):
        given.add(pair.task.id)
        key = (pair.task.id, pair.number)
        if key in before and before[key]["digest"] == pair.digest:
            kept[key] = before[key]
        else:
            todo.append(pair)
    if before and not kept:
        raise InputError(f"{files.results}: holds verdicts on other completions; name another file, or remove it")
    for document in kept.values():
        entries.append(entry_of(document))
        report(document)
    with _Results(files.results, kept) as results:
        for document in _documents(files, given, todo, executor, plan):
            entries.append(entry_of(document))
            results.write(document)
            report(document)
        stopped = plan.stop.is_set()
        out = summary_of(entries, time.monotonic() - started, rollouts_per_s, len(kept))
        out |= {"resumed": len(kept), "stopped": stopped}
        if not stopped:
            results.write({"summary": out})
    return out


def _documents(
    files: Files, given: set[str], todo: list[Pair], executor: Executor, plan: Plan
) -> Iterator[dict[str, Any]]:
    """Verdicts on what is to be done; a task without any completion has one too."""
    for record in stream(((pair.task, pair.completion) for pair in todo), executor, plan):
        pair = todo[record.place]
        yield document_of(record, pair.number, pair.digest)
    for name, task in files.tasks.items():
        if name not in given and not plan.stop.is_set():
            yield document_of(Record(0, task, verdict(0.0, "no completion", FORMAT), 0.0), 0, "")


class _Results:
    """The results file, written line by line."""

    def __init__(self, path: Path | None, kept: Mapping[tuple[str, int], dict[str, Any]]) -> None:
        self.path, self.kept = path, kept
        self.file: IO[str] | None = None

    def __enter__(self) -> Self:
        if self.path is not None:
            # what is kept is written anew beside the old file, which is replaced whole: no torn line survives
            fresh = self.path.with_name(f".{self.path.name}.new")
            self.file = fresh.open("w", encoding="utf-8")
            for document in self.kept.values():
                self.write(document)
            self.file.flush()
            fresh.replace(self.path)
        return self

    def write(self, document: Mapping[str, Any]) -> None:
        """Write one line, at once."""
        if self.file is not None:
            self.file.write(json.dumps(document) + "\n")
            self.file.flush()

    def __exit__(self, *_error: object) -> None:
        if self.file is not None:
            self.file.close()
