"""Metrics that an experiment tracker kept: files of W&B, MLflow and TensorBoard.

What they hold are steps with numbers by name. Whose names they are says how they are read: verl's and the Trainer's as
those tools' own files, Megatron-LM's and torchtitan's here.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from importlib import import_module, util
from pathlib import Path
from typing import Any
from urllib.parse import quote

from computeledger.actuals.readers import trainer_state, verl
from computeledger.actuals.readers.steps import Line, Timed, placed, training_entries
from computeledger.actuals.readers.tally import Hints, Tally, amount, known_devices
from computeledger.actuals.run_ledger import Entry
from computeledger.errors import InputError
from computeledger.files import MOST_ROWS, open_user_file
from computeledger.units import KILO

#: Framing of W&B's files: LevelDB's log in blocks of this size, after a header of seven bytes.
_BLOCK, _HEADER = 32_768, 7
_FULL, _FIRST, _LAST = 1, 2, 4
#: Framing of TensorBoard's: a length and its check before each event, the check of the event after it.
_EVENT_HEAD, _EVENT_FOOT = 12, 4
#: Records and messages longer than this are none that a tracker writes.
_MOST_MESSAGE = 16_000_000


@dataclass(frozen=True, slots=True)
class Kept:
    """Numbers of one step of a run, and when they were kept [s]."""

    run: str
    step: int
    at_s: float | None
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TrackerReader:
    """A tracker: its name, what its files hold near their beginning, and who reads them."""

    tool: str
    mark: bytes
    kept: Callable[[Path, Tally], Iterator[Kept]]

    def read(self, path: Path, hints: Hints, tally: Tally) -> Iterator[Entry]:
        """Read a file, run by run."""
        for run, rows in _by_run(self.kept(path, tally)).items():
            own = replace(hints, run=run or hints.run)
            yield from _entries(rows, own, tally)


def _by_run(kept: Iterable[Kept]) -> dict[str, list[Kept]]:
    """Rows of each run in the order of their steps, those of one step joined."""
    steps: dict[str, dict[int, Kept]] = {}
    for count, one in enumerate(kept):
        if count > MOST_ROWS:
            raise InputError(f"more than {MOST_ROWS:,} rows of metrics")
        rows = steps.setdefault(one.run, {})
        before = rows.get(one.step)
        rows[one.step] = one if before is None else replace(one, metrics={**before.metrics, **one.metrics})
    return {run: [rows[step] for step in sorted(rows)] for run, rows in steps.items()}


def _entries(rows: list[Kept], hints: Hints, tally: Tally) -> Iterator[Entry]:
    names = {name for one in rows for name in one.metrics}
    if any(name.startswith("timing_s/") for name in names):
        lines = ((k, json.dumps({"step": one.step, "data": dict(one.metrics)})) for k, one in enumerate(rows, 1))
        yield from verl.entries(lines, hints, tally)
    elif names & {"iteration-time", "time_metrics/end_to_end(s)"}:
        yield from training_entries(_timed(placed(_lines(rows), tally), hints, tally), hints.run, tally)
    elif names & {"loss", "train/loss", "reward", "train/reward"}:
        yield from trainer_state.entries(_trainer_lines(rows), hints, tally, "the tracker's file")
    else:
        raise InputError(
            "its metrics are of no trainer that is known here: verl, Trainer, TRL, Megatron-LM, torchtitan"
        )


def _lines(rows: Iterable[Kept]) -> Iterator[Line]:
    """Steps of a trainer that keeps the time of a step, in the mean of those since the row before."""
    for number, one in enumerate(rows, 1):
        found = one.metrics
        took_s = found.get("iteration-time", found.get("time_metrics/end_to_end(s)"))
        if took_s is not None:
            rate = found.get("throughput(tps)", found.get("wps", 0.0))
            values = (took_s, found.get("batch-size", 0.0), rate)
            yield Line(number, one.step, "", f"{one.step} {sorted(found.items())}", one.at_s, values)


def _timed(lines: Iterable[Any], hints: Hints, tally: Tally) -> Iterator[Timed]:
    for one in lines:
        took_s, sequences, rate = one.line.values
        devices = known_devices(None, hints, "the tracker's file")
        if rate:  # torchtitan's is of one GPU
            tokens = rate * devices * took_s
        elif sequences and hints.sequence_tokens:
            tokens = sequences * hints.sequence_tokens
        elif sequences:
            raise InputError("its metrics do not say how long a sequence is: give --sequence-tokens")
        else:
            tally.damage("a step without its tokens", one.line.number)
            continue
        yield Timed(one, took_s * one.n_steps, devices, tokens * one.n_steps, 0.0)


def _trainer_lines(rows: list[Kept]) -> Iterator[tuple[int, str]]:
    """Rows as records of a Trainer's history; its trackers put ``train/`` and ``eval/`` before the names."""
    records = []
    for one in rows:
        record: dict[str, Any] = {}
        for name, value in one.metrics.items():
            plain = name.removeprefix("train/")
            record[f"eval_{name.removeprefix('eval/')}" if name.startswith("eval/") else plain] = value
        record["step"] = int(record.pop("global_step", one.step))
        records.append((record, one.at_s))
    if not any(record.keys() & {"step_time", "train_runtime"} for record, _ in records):
        _time_between(records)
    for number, (record, _) in enumerate(records, 1):
        yield number, json.dumps(record)


def _time_between(records: list[tuple[dict[str, Any], float | None]]) -> None:
    """Give steps the time between two rows, where no row states any; the first one's is that of the second."""
    steps = [(one, at_s) for one, at_s in records if at_s is not None and one.keys() & {"loss", "reward"}]
    for (before, from_s), (after, to_s) in itertools.pairwise(steps):
        n_steps = after["step"] - before["step"]
        if n_steps > 0 and to_s >= from_s:
            after["step_time"] = (to_s - from_s) / n_steps
            before.setdefault("step_time", after["step_time"])


def wandb_rows(path: Path, tally: Tally) -> Iterator[Kept]:
    """Rows of a ``.wandb`` file, as an offline or a synced run leaves it."""
    record = _needed("wandb.proto.wandb_internal_pb2", "W&B").Record
    for number, message in enumerate(_wandb_messages(path, tally), 1):
        one = record()
        try:
            one.ParseFromString(message)
        except ValueError:
            tally.damage("a record that cannot be read", number)
            continue
        if not one.HasField("history"):
            continue
        values = {item.key or ".".join(item.nested_key): item.value_json for item in one.history.item}
        numbers = {name: value for name, text in values.items() if (value := _number(text)) is not None}
        step = int(numbers.get("_step", one.history.step.num))
        metrics = {name: value for name, value in numbers.items() if not name.startswith("_")}
        yield Kept("", step, numbers.get("_timestamp"), metrics)


def _number(text: str) -> float | None:
    return amount(text) if text[:1] in "0123456789.-" else None


def _wandb_messages(path: Path, tally: Tally) -> Iterator[bytes]:
    """Messages of the file's log, block by block; one that is longer than a block stands in pieces."""
    held = b""
    with open_user_file(path) as stream:
        at = len(stream.read(_HEADER))  # counts in the first block
        while data := stream.read(_BLOCK - at):
            place, at = 0, 0
            while place + _HEADER <= len(data):
                size, kind = struct.unpack_from("<HB", data, place + 4)
                piece = data[place + _HEADER : place + _HEADER + size]
                if len(piece) < size or len(held) > _MOST_MESSAGE:
                    tally.damage("cut off within a record", 1)
                    return
                place += _HEADER + size
                held = piece if kind in (_FULL, _FIRST) else held + piece
                if kind in (_FULL, _LAST):
                    yield held
                    held = b""
    if held:
        tally.damage("cut off within a record", 1)


def tensorboard_rows(path: Path, tally: Tally) -> Iterator[Kept]:
    """Rows of a TensorBoard event file."""
    loader = _needed("tensorboard.backend.event_processing.event_file_loader", "TensorBoard")
    util = _needed("tensorboard.util.tensor_util", "TensorBoard")
    try:
        for event in loader.EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                found = util.make_ndarray(value.tensor) if value.HasField("tensor") else None
                if found is not None and found.size == 1 and found.dtype.kind == "f":
                    number = amount(str(float(found.reshape(()))))
                    if number is not None:
                        yield Kept("", int(event.step), float(event.wall_time), {value.tag: number})
    except (ValueError, RuntimeError) as error:
        tally.damage(f"events that cannot be read ({type(error).__name__})", 1)
    if _ends_within_an_event(path):  # the loader takes that for a file that is still written
        tally.damage("cut off within a record", 1)


def _ends_within_an_event(path: Path) -> bool:
    """Whether a file of TFRecords stops before the end of its last: a length, its check, the data, their check."""
    with open_user_file(path) as stream:
        size = stream.seek(0, 2)
        at = 0
        while at + _EVENT_HEAD <= size:
            stream.seek(at)
            (length,) = struct.unpack("<Q", stream.read(8))
            if not length:  # no event is empty
                return True
            at += _EVENT_HEAD + length + _EVENT_FOOT
    return at != size


def mlflow_rows(path: Path, tally: Tally) -> Iterator[Kept]:
    """Rows of MLflow's SQLite database, of every run in it that was not deleted."""
    address = f"file:{quote(str(path.resolve()))}?mode=ro"
    wanted = ("SELECT m.run_uuid, m.step, m.timestamp, m.key, m.value FROM metrics m JOIN runs r USING (run_uuid) "
              "WHERE r.lifecycle_stage = 'active' AND NOT m.is_nan ORDER BY m.run_uuid, m.step")  # fmt: skip
    under_way = "SELECT COUNT(*) FROM runs WHERE lifecycle_stage = 'active' AND status = 'RUNNING'"
    try:
        with closing(sqlite3.connect(address, uri=True)) as base:
            if base.execute(under_way).fetchone()[0]:
                tally.remark("a run that had not ended: its steps so far are counted", 1)
            for run, step, at_ms, name, value in base.execute(wanted):
                yield Kept(str(run), int(step), float(at_ms) / KILO, {str(name): float(value)})
    except sqlite3.Error as error:
        raise InputError(f"no database of MLflow that can be read ({error})") from None


def _needed(module: str, tool: str) -> Any:
    package = module.partition(".")[0]
    if util.find_spec(package) is None:
        raise InputError(f"a file of {tool} needs {package}: install it with pip install 'computeledger[trackers]'")
    return import_module(module)


TRACKERS: tuple[TrackerReader, ...] = (
    TrackerReader("W&B run", b":W&B", wandb_rows),
    TrackerReader("MLflow database", b"SQLite format 3\x00", mlflow_rows),
    TrackerReader("TensorBoard events", b"brain.Event:", tensorboard_rows),
)
