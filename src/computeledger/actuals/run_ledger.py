"""The run ledger: what a run did, phase by phase, as lines of JSON that any tool can write.

One line per phase of a step (:class:`Entry`). A file whose last line was cut by a kill is read without it: the reader
counts and names what is damaged. :mod:`computeledger.actuals.run_summary` sums up.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from computeledger.errors import InputError, nearest, shown
from computeledger.files import bounded_lines, check_kept, open_user_file, parse_json
from computeledger.units import LARGEST

#: What every line says in ``schema``.
SCHEMA = "run-ledger/1"

#: Phases that any workload may have; ``step`` is one that its tool does not divide.
COMMON_PHASES = ("step", "data", "communication", "checkpoint", "evaluation", "restart", "other", "idle")
#: Workload -> its phases, in the field's terms.
PHASES_OF_RUN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "rl": (
            "generation", "thought scoring", "baseline", "verification", "log-probs", "update", "weight sync",
            "position selection", "next-token reference", *COMMON_PHASES,
        ),
        "pretraining": ("forward-backward", "optimizer", *COMMON_PHASES),
        "serving": ("prefill", "decode", *COMMON_PHASES),
    }
)  # fmt: skip

#: Lines that are no entries, beyond which a file is no ledger.
MOST_DAMAGED = 100_000

#: Kind of token -> what is counted.
TOKEN_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "input": "prompt or context tokens read for the first time",
        "cached": "prompt tokens that a cache already held",
        "output": "tokens generated for a user",
        "sampled": "tokens the policy sampled, whether or not they were trained on",
        "kept": "sampled tokens that the loss took",
        "gold": "tokens of the text whose likelihood was scored",
        "trained": "tokens that a forward and backward pass went over",
    }
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One phase of one step of a run."""

    run: str
    workload: str
    phase: str
    duration_s: float
    devices: int = 1
    step: int | None = None
    attempt: int = 0
    tokens_by_kind: Mapping[str, float] = field(default_factory=dict)
    flop: float | None = None
    executed_flop: float | None = None
    moved_bytes: float | None = None
    energy_j: float | None = None
    sequences: float | None = None
    peak_memory_bytes: float | None = None
    device: str = ""
    peak_flop_per_s: float | None = None
    peak_source: str = ""
    n_params_active: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    started: str = ""

    def __post_init__(self) -> None:
        if not _is_plain(self):
            self._refuse()

    def _refuse(self) -> None:
        """Raise what is wrong with the entry, if anything is."""
        for name in ("run", "workload", "phase", "device", "peak_source", "started"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"{name} {shown(getattr(self, name))}: a text is needed")
        if self.workload not in PHASES_OF_RUN:
            raise InputError(f"workload {shown(self.workload)}: {nearest(self.workload, PHASES_OF_RUN)}")
        allowed = PHASES_OF_RUN[self.workload]
        if self.phase not in allowed:
            raise InputError(f"phase {shown(self.phase)} of {self.workload}: {nearest(self.phase, allowed)}")
        for kind in self.tokens_by_kind:
            if kind not in TOKEN_KINDS:
                raise InputError(f"tokens of kind {shown(kind)}: {nearest(str(kind), TOKEN_KINDS)}")
        for name, value in _numbers(self):
            if not _is_amount(value):
                raise InputError(f"{name} {shown(value)}: a finite number from 0 is needed")
        for name in ("devices", "step", "attempt", "n_params_active"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                raise InputError(f"{name} {shown(value)}: a whole number is needed")
        if not all(isinstance(one, str) for one in self.versions.values()):
            raise InputError("versions: texts are needed")

    @property
    def device_s(self) -> float:
        """Wall time of the phase times its devices [s]."""
        return self.duration_s * self.devices


def _is_plain(entry: Entry) -> bool:
    """Whether an entry is of the kind that readers of large logs make by the million, and as it must be."""
    if not (
        entry.executed_flop is entry.moved_bytes is entry.energy_j is entry.peak_flop_per_s is None
        and entry.sequences is entry.peak_memory_bytes is entry.n_params_active is None
        and entry.device == entry.peak_source == entry.started == ""
        and not entry.versions
        and type(entry.run) is type(entry.workload) is type(entry.phase) is str
        and entry.phase in PHASES_OF_RUN.get(entry.workload, ())
    ):
        return False
    for count in (entry.devices, entry.attempt, 0 if entry.step is None else entry.step):
        if type(count) is not int or count < 0:
            return False
    for amount in (entry.duration_s, 0.0 if entry.flop is None else entry.flop, *entry.tokens_by_kind.values()):
        if type(amount) is not float or not 0.0 <= amount < math.inf:
            return False
    return entry.tokens_by_kind.keys() <= TOKEN_KINDS.keys()


def _numbers(entry: Entry) -> Iterator[tuple[str, object]]:
    names = (
        "duration_s", "devices", "step", "attempt", "flop", "executed_flop", "moved_bytes", "energy_j",
        "sequences", "peak_memory_bytes", "peak_flop_per_s", "n_params_active",
    )  # fmt: skip
    values = ((name, getattr(entry, name)) for name in names)
    yield from ((name, value) for name, value in values if value is not None or name in ("duration_s", "devices"))
    yield from ((f"tokens of kind {kind}", value) for kind, value in entry.tokens_by_kind.items())


def _is_amount(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= LARGEST


_FIELDS = {part.name: part for part in dataclasses.fields(Entry)}
_NEEDED = ("run", "workload", "phase", "duration_s")


def line_of(entry: Entry) -> str:
    """Write an entry as a line of a ledger."""
    document: dict[str, Any] = {"schema": SCHEMA}
    for name in _FIELDS:
        value = getattr(entry, name)
        value = dict(value) if isinstance(value, Mapping) else value
        if name in (*_NEEDED, "devices") or not (
            value is None or value in ("", {}) or (name == "attempt" and not value)
        ):
            document[name] = value
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def entry_of(line: str) -> Entry:
    """Read a line of a ledger."""
    document = parse_json(line, "")
    if not isinstance(document, dict):
        raise InputError(f"{shown(document)} is no entry: an object is needed")
    if document.get("schema") != SCHEMA:
        raise InputError(f"schema {shown(document.get('schema'))}: {SCHEMA!r} is needed")
    values = {name: value for name, value in document.items() if name != "schema"}
    if missing := [name for name in _NEEDED if name not in values]:
        raise InputError(f"{missing[0]} is missing")
    if unknown := [name for name in values if name not in _FIELDS]:
        raise InputError(f"field {shown(unknown[0])}: {nearest(unknown[0], _FIELDS)}")
    for name in ("tokens_by_kind", "versions"):
        if not isinstance(values.get(name, {}), dict):
            raise InputError(f"{name} {shown(values[name])}: a table is needed")
    return Entry(**values)


@dataclass(frozen=True, slots=True)
class Damage:
    """A line of a ledger that is no entry."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A ledger as it was read."""

    entries: tuple[Entry, ...]
    damaged: tuple[Damage, ...]


def read_ledger(path: Path) -> Reading:
    """Read a ledger; damaged lines are named, not dropped in silence."""
    entries, damaged = list[Entry](), list[Damage]()
    check_kept(path)
    with open_user_file(path) as stream:
        for number, raw in bounded_lines(stream):
            if len(damaged) > MOST_DAMAGED:
                raise InputError(f"{path}:{number}: more than {MOST_DAMAGED:,} lines before it are no entries")
            if raw is None:
                damaged.append(Damage(number, "longer than any line of a ledger"))
            elif raw.strip():
                try:
                    entries.append(entry_of(raw.decode("utf-8")))
                except (InputError, UnicodeDecodeError) as error:
                    reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
                    damaged.append(Damage(number, reason if raw.endswith(b"\n") else f"cut off: {reason}"))
    # a run killed within its first write leaves one line, cut
    if damaged and not entries and not (len(damaged) == 1 and damaged[0].reason.startswith("cut off")):
        raise InputError(f"{path.name} is no run ledger: line {damaged[0].line}: {damaged[0].reason}")
    return Reading(tuple(entries), tuple(damaged))


class LedgerWriter:
    """Appends entries to a ledger, each as one whole line.

    A line goes to the system in one write, so a killed process leaves at most its last line cut, and the next writer
    begins on a line of its own. Where the disk is full the piece that was written is taken back and the entry is kept
    in memory until a later write succeeds; :meth:`close` raises if some could never be written. A file has one writer.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: list[str] = []
        self._problem = OSError()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            why = "not a directory" if isinstance(error, FileExistsError) else (error.strerror or "no file").lower()
            raise InputError(f"{path}: no ledger can be written there: {why}") from None
        size = os.fstat(self._file).st_size
        self._cut = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"

    @property
    def unwritten(self) -> int:
        """Entries that wait for room on the disk [-]."""
        return len(self._waiting)

    def append(self, entry: Entry) -> None:
        """Write an entry, and first those that wait."""
        self._waiting.append(line_of(entry))
        self._write_waiting()

    def _write_waiting(self) -> None:
        try:
            while self._waiting:
                self._write(f"{self._waiting[0]}\n")
                self._waiting.pop(0)
        except OSError as error:
            self._problem = error

    def _write(self, line: str) -> None:
        data = (b"\n" if self._cut else b"") + line.encode()
        before = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, data)
            while written < len(data):  # what a second write adds says why the first was short
                written += os.write(self._file, data[written:])
        except OSError:
            os.ftruncate(self._file, before)
            raise
        self._cut = False

    def close(self) -> None:
        """Close the file."""
        if self._file < 0:
            return
        self._write_waiting()
        os.close(self._file)
        self._file = -1
        if self._waiting:
            why = (self._problem.strerror or "cannot be written").lower()
            raise InputError(f"{self.path.name}: {why}: {len(self._waiting)} entries of the ledger are lost")
