"""The measurement of a GPU, on a CPU: every part runs, its time ends, failures are kept apart, predictions exist."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from computeledger.actuals.recording.run import RunMachine
from computeledger.validation.measured_table import shipped_text
from rntp.gpu import report as reporting
from rntp.gpu.budget import allowance_s
from rntp.gpu.device import MemoryLedger
from rntp.gpu.facts import TABLES
from rntp.gpu.parts import DECODE, MEMORY, MFU, PREFILL, STEP, Job, Part, Row, Rows
from rntp.gpu.predict import Predictor, places_of
from rntp.gpu.report import REPORT, Task, carry_out, in_process, measure_gpu, tasks_of
from rntp.gpu.settings import DRY, REAL, Shape, write_configurations
from rntp.gpu.table import lines_of, markdown, notes_of
from rntp.interfaces.cli import main
from tests.commands import call


def _out_of_memory(_job: Job, shape: Shape) -> Rows:
    yield Row("training", shape.name, STEP, 0.5, "s", {"sequences": 1, "sequence_tokens": 8, "steps": 1})
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


def test_a_dry_run_measures_and_predicts_and_a_part_that_fails_fails_alone(tmp_path: Path) -> None:
    """In this process; the second model is left out, for time."""
    threads, failing = torch.get_num_threads(), Part("training", 1.0, _out_of_memory)

    def runner(task: Task, allowed_s: float) -> str:
        if task.shape.name != "tiny":
            return ""
        return carry_out(replace(task, part=failing) if task.part.name == "training" else task, allowed_s)

    try:
        found = measure_gpu(tmp_path, dry=True, budget_s=30.0, runner=runner, told=lambda _line: None)
    finally:
        torch.set_num_threads(threads)
    assert json.loads((tmp_path / REPORT).read_text())["rows"] == found["rows"]
    assert found["failed"] == ["training tiny"]
    assert "training tiny: failed: OutOfMemoryError: CUDA out of memory" in markdown(found)
    assert "vllm tiny: left out: vllm is not installed" in notes_of(found)
    first = markdown(found).splitlines()[2]
    assert first.startswith("Dry run: shapes and figures mean nothing; ") and "64 x 512" in first
    assert markdown({**found, "dry": False}).splitlines()[2].startswith("Measured with: models of random weights: tiny")
    measured = {(row["quantity"], row["setting"].get("phase")): row for row in found["rows"]}
    assert {phase for _, phase in measured} > {"generation", "thought scoring", "baseline", "update"}
    assert measured[DECODE, None]["predictions"]["calibrated"]["predicted"] > 0
    for phase in ("generation", "update"):  # counted beside the closed form without attention
        assert 0.8 < measured["FLOP per step", phase]["predictions"]["calibrated"]["predicted_over_measured"] < 1.25
    assert measured["beta_gpu_time", None]["predictions"]["calibrated"]["predicted"] > 0
    assert len(lines_of(found)) < len(found["rows"])
    for name, table in TABLES.items():
        with (tmp_path / "facts" / name).open() as file:
            rows = list(csv.DictReader(file))
        assert ",".join(rows[0]) == shipped_text(table).partition("\n")[0].strip()
        assert all(float(row["value"]) > 0 for row in rows)


def test_the_data_sheet_predicts_every_kind_of_row(tmp_path: Path) -> None:
    write_configurations(REAL, tmp_path)
    (place,) = places_of(tmp_path, "h100-sxm5-80gb")
    one = Predictor(tmp_path, {shape.name: shape for shape in REAL.shapes}, place)

    def predicted(part: str, model: str, quantity: str, **setting: float) -> float:
        value = one.predict(Row(part, model, quantity, 1.0, "", dict(setting)))
        assert value is not None
        return value

    point = {"batch": 16, "input_tokens": 512}
    small, large = (predicted("vllm", name, DECODE, **point, output_tokens=32) for name in ("0.5B", "1.5B"))
    assert 0 < small < large
    assert predicted("serving", "0.5B", PREFILL, **point) > 0
    step = {"sequences": 4, "sequence_tokens": 1024}
    assert 0.1 < predicted("training", "1.5B", MFU, **step) < 1
    assert 16 * 1.54e9 < predicted("training", "1.5B", MEMORY, **step) < 80e9


def test_time_is_shared_out_and_what_one_leaves_over_goes_on() -> None:
    tasks = tasks_of(REAL, Path("gpu"), dry=False)
    assert len(tasks) == 9
    left = 495.0
    for place in range(len(tasks)):  # every task takes all it is allowed
        left -= allowance_s(tasks[place:], left)
    assert left == pytest.approx(0.0)
    quick = allowance_s(tasks[1:], 495.0 - 1.0)
    assert quick > allowance_s(tasks[1:], 495.0 - allowance_s(tasks, 495.0))


def test_a_busy_machine_does_not_end_the_first_part_of_a_dry_run(tmp_path: Path) -> None:
    """It has a process of its own, whose start alone takes most of a share where many others run."""
    allowed: list[float] = []

    def runner(_task: Task, allowed_s: float) -> str:
        allowed.append(allowed_s)
        return ""

    assert measure_gpu(tmp_path, dry=True, budget_s=540.0, runner=runner, told=lambda _line: None)["failed"] == []
    assert allowed[0] > 480 and allowed[1] < 100


def test_a_process_that_outlives_its_time_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "_GRACE_S", 0.0)
    (task, *_) = tasks_of(DRY, tmp_path, dry=True)
    assert in_process(task, 0.05) == "took more than its 0 s and was ended"


def test_memory_goes_to_the_innermost_phase() -> None:
    peaks = iter([9.0, 1.0, 5.0, 3.0, 7.0, 2.0])
    books = MemoryLedger(None, None, RunMachine(), peak=lambda: next(peaks))
    with books.phase("update"), books.phase("thought scoring"):
        pass
    assert [(one.phase, one.peak_memory_bytes) for one in books.entries] == [("thought scoring", 5.0), ("update", 3.0)]


def test_without_a_gpu_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = call(main, ["gpu", "--output", str(tmp_path / "gpu")], tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "rntp: make gpu: no CUDA GPU is here; make gpu DRY=1 runs every part on a CPU with tiny models"
    ]


@pytest.mark.stress
def test_the_dry_run_as_a_command(tmp_path: Path) -> None:
    done = call(main, ["gpu", "--dry", "--json"], tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "runs" / "gpu" / REPORT).is_file()
    assert {part["failed"] for part in json.loads(done.stdout)["parts"]} == {""}
