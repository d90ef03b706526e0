"""The run ledger survives kills, a full disk and damage; what it writes is what its JSON Schema says."""

from __future__ import annotations

import dataclasses
import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from statistics import stdev
from typing import Any

import jsonschema
import pytest

from computeledger.actuals.run_ledger import (
    PHASES_OF_RUN,
    TOKEN_KINDS,
    Entry,
    LedgerWriter,
    entry_of,
    line_of,
    read_ledger,
)
from computeledger.actuals.run_summary import summary
from computeledger.actuals.sums import Sums
from computeledger.errors import InputError
from tests.gates import ROOT

SCHEMA = json.loads((ROOT / "docs" / "run_ledger.schema.json").read_text("utf-8"))
FULL = Entry(
    run="mine", workload="rl", phase="generation", duration_s=2.5, devices=8, step=3, attempt=1,
    tokens_by_kind={"sampled": 4096.0, "input": 512.0}, flop=1e15, executed_flop=1.1e15, moved_bytes=2e9, energy_j=5e3,
    sequences=512.0, peak_memory_bytes=6e10,
    device="H200", peak_flop_per_s=989.5e12, peak_source="data sheet", n_params_active=7_000_000_000,
    versions={"torch": "2.13.0"}, started="2026-11-21T12:00:00.000+00:00",
)  # fmt: skip


def test_the_schema_is_the_record() -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for entry in (FULL, *(Entry("r", work, phase, 0.0) for work in PHASES_OF_RUN for phase in PHASES_OF_RUN[work])):
        document = json.loads(line_of(entry))
        assert list(validator.iter_errors(document)) == []
        assert entry_of(line_of(entry)) == entry
    assert set(SCHEMA["properties"]) == {"schema"} | {part.name for part in dataclasses.fields(Entry)}
    assert list(SCHEMA["properties"]["tokens_by_kind"]["properties"]) == list(TOKEN_KINDS)
    assert set(SCHEMA["properties"]["workload"]["enum"]) == set(PHASES_OF_RUN)
    listed = {
        rule["if"]["properties"]["workload"]["const"]: rule["then"]["properties"]["phase"] for rule in SCHEMA["allOf"]
    }
    assert {name: tuple(rule["enum"]) for name, rule in listed.items()} == PHASES_OF_RUN


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("phase", "generatoin", "did you mean 'generation'"),
        ("workload", "RL", "did you mean 'rl'"),
        ("duration_s", float("nan"), "finite"),
        ("duration_s", -1.0, "finite"),
        ("duration_s", "2 s", "finite"),
        ("tokens_by_kind", {"thoughts": 1}, "allowed"),
        ("devices", 1.5, "whole"),
        ("step", True, "finite"),
        ("device", 3, "text"),
        ("workload", [], "text"),
        ("flop", 10**400, "finite"),
        ("versions", {"torch": 2}, "texts"),
    ],
)
def test_a_wrong_entry_is_refused(field: str, value: object, message: str) -> None:
    change: Any = {field: value}
    with pytest.raises(InputError, match=message):
        dataclasses.replace(FULL, **change)


def test_damaged_lines_are_counted_and_named(tmp_path: Path) -> None:
    line = line_of(FULL)
    newer = line.replace("run-ledger/1", "run-ledger/2")
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(
        "\n".join([line, "", newer, line[:50], '{"a": 1}', line]).encode() + b"\n\xff\n" + line[:9].encode()
    )
    reading = read_ledger(path)
    assert reading.entries == (FULL, FULL)
    assert [one.line for one in reading.damaged] == [3, 4, 5, 7, 8]
    assert "run-ledger/1" in reading.damaged[0].reason and reading.damaged[-1].reason.startswith("cut off")
    path.write_bytes(line[:9].encode())
    assert (read_ledger(path).entries, len(read_ledger(path).damaged)) == ((), 1)
    path.write_text("a log of something else\n")
    with pytest.raises(InputError, match=r"ledger.jsonl is no run ledger: line 1"):
        read_ledger(path)


def test_any_corruption_leaves_right_entries_or_one_error(tmp_path: Path) -> None:
    whole = "".join(f"{line_of(dataclasses.replace(FULL, step=step))}\n" for step in range(20)).encode()
    draw = random.Random(0)  # noqa: S311 (which bytes are damaged)
    path = tmp_path / "ledger.jsonl"
    untouched = {line_of(dataclasses.replace(FULL, step=step)) for step in range(20)}
    for _ in range(300):
        data = bytearray(whole)
        start, length = draw.randrange(len(data)), draw.randrange(1, 400)
        kind = draw.choice(["cut", "flip", "splice"])
        if kind == "cut":
            del data[start:]
        elif kind == "flip":
            data[start] ^= 1 << draw.randrange(8)
        else:
            data[start : start + length] = data[: draw.randrange(200)]
        path.write_bytes(bytes(data))
        try:
            reading = read_ledger(path)
        except InputError:
            continue
        lines = bytes(data).split(b"\n")
        intact = [one.decode() for one in lines if one.decode("utf-8", "replace") in untouched]
        assert [line_of(entry) for entry in reading.entries if line_of(entry) in untouched] == intact
        assert len(reading.entries) + len(reading.damaged) == sum(bool(one.strip()) for one in lines)


WRITER = """
import dataclasses, sys
from computeledger.actuals.run_ledger import Entry, LedgerWriter
from pathlib import Path
writer = LedgerWriter(Path(sys.argv[1]))
for step in range(10**9):
    writer.append(Entry("killed", "rl", "update", 1.0, step=step))
    print(step, flush=True)
"""


def test_a_kill_loses_nothing_that_was_reported(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(200):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        reading = read_ledger(path)
        assert reading.damaged == () and [e.step or 0 for e in reading.entries][-1] >= last
    with path.open("a") as file:
        file.write(line_of(FULL)[:40])  # what a kill in the middle of a write leaves
    writer = LedgerWriter(path)
    writer.append(FULL)
    writer.close()
    reading = read_ledger(path)
    assert reading.entries[-1] == FULL and len(reading.damaged) == 1


FULL_DISK = """
import resource, signal, sys
from computeledger.actuals.run_ledger import Entry, LedgerWriter, read_ledger
from computeledger.errors import InputError
from pathlib import Path
path = Path(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
writer = LedgerWriter(path)
room(1000)
for step in range(20):
    writer.append(Entry("full", "rl", "update", 1.0, step=step))
reading = read_ledger(path)
assert reading.damaged == () and 0 < len(reading.entries) < 20, reading
assert writer.unwritten == 20 - len(reading.entries)
room(2000)
writer.append(Entry("full", "rl", "update", 1.0, step=20))
assert len(reading.entries) < len(read_ledger(path).entries) < 21
try:
    writer.close()
except InputError as error:
    print(error)
assert [entry.step for entry in read_ledger(path).entries] == list(range(len(read_ledger(path).entries)))
"""


def test_a_full_disk_leaves_whole_lines_and_is_said(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "ledger.jsonl")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ledger.jsonl: file too large: ") and "entries of the ledger are lost" in done.stdout


def test_beta_by_hand() -> None:
    n, sampled = 1000, 500.0
    parts = {"generation": (3.0, 2e6), "update": (5.0, 6e6), "idle": (2.0, None)}
    entries = [Entry("r", "rl", name, s, 4, step=1, flop=f, n_params_active=n, peak_flop_per_s=1e6,
                     tokens_by_kind={"sampled": sampled, "kept": 250} if name == "generation" else {})
               for name, (s, f) in parts.items()]  # fmt: skip
    entries += [Entry("r", "rl", "evaluation", 50.0, 4, step=1, flop=1e9)]
    entries += [Entry("r", "rl", "next-token reference", 1.0, 4, step=1, tokens_by_kind={"trained": 100.0})]
    out = summary(entries)
    assert out["beta_flop"] == pytest.approx(8e6 / n / sampled)
    assert out["beta_gpu_time"] == pytest.approx(6 * (10 * 4 / sampled) / (4 / 100))
    assert out["beta_gpu_time_busy"] == pytest.approx(6 * (8 * 4 / sampled) / (4 / 100))
    assert out["per_kept_token"]["beta_gpu_time"] == pytest.approx(2 * out["beta_gpu_time"])
    assert out["phases"]["generation"]["utilization_fraction"] == pytest.approx(2e6 / (1e6 * 12))
    assert out["phases"]["idle"]["utilization_fraction"] is None
    more = [Entry("r", "rl", "next-token reference", s, 4, step=2, tokens_by_kind=t)
            for s, t in ((9.0, {}), (2.0, {"trained": 100.0}), (3.0, {"trained": 100.0}))]  # fmt: skip
    reference = summary([*entries, *more])["reference"]  # the one without tokens warms up
    assert reference["device_s_per_token"] == pytest.approx(24 / 300) and reference["measurements"] == 3
    assert reference["standard_error_fraction"] == pytest.approx(stdev([1, 2, 3]) / 3**0.5 / 2)
    sums = Sums()
    sums.add([*entries, *more])
    assert sums.actuals()["rl"].reference_s_per_token == pytest.approx(24 / 300)
    pretrained = [Entry("r", "pretraining", "forward-backward", 3.0, 4, tokens_by_kind={"trained": 100.0}),
                  Entry("r", "pretraining", "optimizer", 1.0, 4)]  # fmt: skip
    assert summary([*entries[:3], *pretrained])["reference"]["device_s_per_token"] == pytest.approx(16 / 100)
    assert summary(pretrained)["workload"] == "pretraining"
    assert summary(entries[:3])["beta_gpu_time"] is None
