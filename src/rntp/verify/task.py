"""Tasks and completions, and the two files that hold them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from computeledger.errors import ECHO_CHARACTERS, InputError, nearest, shown
from computeledger.files import check_kept, read_json_lines
from computeledger.units import GIB
from rntp.verify.limits import Limits, read_limits

#: domain -> keys that a task of it may have beside id, domain, environment and limits
KEYS: dict[str, frozenset[str]] = {
    "code": frozenset({"language", "tests", "compare", "stop_early", "function", "cases", "pytest"}),
    "math": frozenset({"answer", "unit", "tolerance", "set_relations"}),
    "puzzle": frozenset({"task", "seed", "index", "config", "threshold"}),
    "science": frozenset({"answer", "tolerance", "unit", "kind", "choices"}),
    "text": frozenset({"answer", "scorer"}),
}
#: Where nobody says otherwise; a symbolic comparison that takes longer does not end.
_DEFAULTS = {name: Limits(wall_s=5.0, memory_bytes=int(GIB)) for name in ("math", "puzzle")}
#: Names under which a task may bring its question.
_QUESTIONS = ("prompt", "question")
_COMMON = frozenset({"id", "domain", "environment", "limits", *_QUESTIONS, "metadata"})


@dataclass(frozen=True, slots=True)
class Judge:
    """A function of somebody's own that scores answers: its name, and where its file is looked for.

    A recipe names it, never a file of tasks: what reads a file of somebody else's must not run what it says.
    """

    name: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to check answers against."""

    id: str
    domain: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    environment: str = ""
    judge: Judge | None = None
    question: str = ""


def read_task(given: Any, default: Limits | None = None) -> Task:
    """Read a task from its document.

    Examples
    --------
    >>> read_task({"id": "1", "domain": "math", "answer": "42"}).spec["answer"]
    '42'
    >>> read_task({"id": "1", "domain": "maths"})
    Traceback (most recent call last):
    computeledger.errors.InputError: task '1': unknown domain 'maths': did you mean 'math'?
    """
    if not isinstance(given, Mapping):
        raise InputError(f"task: a table is needed, not {shown(given)}")
    name = _identity(given, "task")
    domain = given.get("domain")
    if not isinstance(domain, str) or domain not in KEYS:
        raise InputError(f"task {shown(name)}: unknown domain {shown(domain)}: {nearest(str(domain), KEYS)}")
    allowed = KEYS[domain] | _COMMON
    for key in set(given) - allowed:  # a data set may say more of a task than is needed, but a slip is not passed over
        if difflib.get_close_matches(key[:ECHO_CHARACTERS].lower(), allowed, n=1, cutoff=0.75):
            raise InputError(f"task {shown(name)}: unknown {shown(key)} in domain {domain}: {nearest(key, allowed)}")
    try:
        limits = read_limits(given.get("limits", {}), default or _DEFAULTS.get(domain))
    except InputError as error:
        raise InputError(f"task {shown(name)}: {error}") from None
    spec = {key: given[key] for key in given if key in KEYS[domain]}
    asked = next((one for key in _QUESTIONS if isinstance(one := given.get(key), str) and one), "")
    return Task(name, domain, spec, limits, str(given.get("environment") or domain), question=asked)


def _identity(given: Mapping[str, Any], kind: str) -> str:
    name = given.get("id")
    if isinstance(name, int) and not isinstance(name, bool):
        return str(name)
    if not isinstance(name, str) or not name:
        raise InputError(f"{kind}: an id is needed, not {shown(name)}")
    return name


def required(task: Task, key: str, kind: type | tuple[type, ...]) -> Any:
    """Take a key that a task of its domain must have.

    Examples
    --------
    >>> required(Task("1", "math", {"answer": "42"}), "answer", str)
    '42'
    """
    value = task.spec.get(key)
    if value is None or not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(f"task {shown(task.id)}: {key} {shown(value)} cannot be used in domain {task.domain}")
    return value


def load_tasks(path: Path, default: Limits | None = None) -> dict[str, Task]:
    """Read a file of tasks, one JSON document per line.

    Examples
    --------
    >>> load_tasks(Path("nowhere.jsonl"))
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.jsonl: no such file
    """
    out: dict[str, Task] = {}
    check_kept(path)
    for number, document in read_json_lines(path):
        try:
            task = read_task(document, default)
        except InputError as error:
            raise InputError(f"{path}: line {number}: {error}") from None
        if task.id in out:
            raise InputError(f"{path}: line {number}: the id {shown(task.id)} stands twice")
        out[task.id] = task
    return out


def load_completions(path: Path) -> Iterator[tuple[str, str]]:
    """Read a file of completions as it streams by, one JSON document per line.

    Examples
    --------
    >>> next(load_completions(Path("nowhere.jsonl")))
    Traceback (most recent call last):
    computeledger.errors.InputError: nowhere.jsonl: no such file
    """
    for number, document in read_json_lines(path):
        if not isinstance(document, Mapping) or not isinstance(document.get("text"), str):
            raise InputError(f'{path}: line {number}: a completion is {{"id": ..., "text": ...}}')
        try:
            name = _identity(document, "completion")
        except InputError as error:
            raise InputError(f"{path}: line {number}: {error}") from None
        yield name, document["text"]
