"""One command's worth of measurement: every part in a process of its own with an end to its time, then the report.

A part that fails takes nothing with it: the others run, and the report says why it failed. What a part had measured by
then is kept. A process that outlives its time is ended, with all that it started.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from computeledger.actuals.recording.devices import installed_versions
from computeledger.errors import InputError, shown
from computeledger.files import read_user_text
from rntp.gpu.budget import Deadline, allowance_s
from rntp.gpu.device import Device, measured_machine, sheet_of
from rntp.gpu.facts import Origin, write_facts
from rntp.gpu.learning import learning_rows
from rntp.gpu.parts import Job, Part, Row, calibrate_rows, serving_rows, training_rows, vllm_rows
from rntp.gpu.predict import Predictor, places_of, predictions
from rntp.gpu.settings import DRY, FACTS, MODELS, REAL, RUNS, Settings, Shape, sizes_of, write_configurations
from rntp.machine import PACKAGES
from rntp.quiet import hush
from rntp.run_folder import write_json

REPORT, MEASURED = "report.json", "measured.jsonl"
#: Kept for predictions and for writing [s], and what a process may take beyond its end before it is killed [s].
_RESERVE_S, _GRACE_S = 45.0, 10.0
#: In their order: what later ones are held against comes first, what may be missing last.
PARTS = (
    Part("calibrate", 2.0, calibrate_rows), Part("serving", 1.0, serving_rows), Part("training", 1.0, training_rows),
    Part("rntp", 2.0, learning_rows), Part("vllm", 1.5, vllm_rows),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Task:
    """A part of one model; its process writes rows into ``file``."""

    part: Part
    shape: Shape
    output: Path
    dry: bool

    @property
    def name(self) -> str:
        """Of the part, and of the model where it has one."""
        return self.part.name if self.part.name == "calibrate" else f"{self.part.name} {self.shape.name}"

    @property
    def share(self) -> float:
        """Weight among the tasks."""
        return self.part.share

    @property
    def file(self) -> Path:
        """Where rows are written as they are measured."""
        return self.output / f"{self.name.replace(' ', '-')}.jsonl"


#: Carries a task out in so many seconds; gives the reason why it failed, empty where it did not.
Runner = Callable[[Task, float], str]


def tasks_of(settings: Settings, output: Path, *, dry: bool) -> list[Task]:
    """List what is measured, model after model.

    Parameters
    ----------
    settings : Settings
        With the models.
    output : Path
        Folder of the report.
    dry : bool
        Whether it is the dry run.

    Returns
    -------
    list of Task
        In their order.

    Examples
    --------
    >>> [one.name for one in tasks_of(REAL, Path("gpu"), dry=False)][:3]
    ['calibrate', 'serving 0.5B', 'training 0.5B']
    """
    first, *others = PARTS
    tasks = [Task(first, settings.shapes[0], output, dry)]
    early, last = others[:-1], others[-1:]
    for parts in (early, last):  # an engine that starts slowly comes after all that need none
        tasks += [Task(part, shape, output, dry) for shape in settings.shapes for part in parts]
    return tasks


def settings_of(*, dry: bool) -> Settings:
    """Choose the sizes.

    Parameters
    ----------
    dry : bool
        Whether it is the dry run.

    Returns
    -------
    Settings
        Tiny ones for a dry run.

    Examples
    --------
    >>> settings_of(dry=True).shapes[0].name
    'tiny'
    """
    return DRY if dry else REAL


def carry_out(task: Task, allowed_s: float) -> str:
    """Measure in this process; rows are written as they come.

    Parameters
    ----------
    task : Task
        What is measured.
    allowed_s : float
        Time for it [s].

    Returns
    -------
    str
        Why it failed, empty where it did not.
    """
    device = Device(torch.device("cpu" if task.dry else "cuda"))
    job = Job(settings_of(dry=task.dry), device, task.output, Deadline(time.monotonic() + allowed_s))
    try:
        with task.file.open("a", encoding="utf-8") as file:
            for row in task.part.rows(job, task.shape):
                file.write(f"{json.dumps(asdict(row))}\n")
                file.flush()
    except Exception as error:  # noqa: BLE001 - whatever a part fails of, the others are to run, and the report says it
        return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return ""


def in_process(task: Task, allowed_s: float) -> str:
    """Measure in a process of its own, which is killed with all it started once its time is up.

    Parameters
    ----------
    task : Task
        What is measured.
    allowed_s : float
        Time for it, the start of the process included [s].

    Returns
    -------
    str
        Why it failed, empty where it did not.
    """
    begun = time.monotonic()
    asked = [str(task.output), task.name, f"{begun + allowed_s}", "dry" if task.dry else ""]
    # one GPU: the trainer would spread a pass over several
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    own = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "CUDA_VISIBLE_DEVICES": chosen}
    command = [sys.executable, "-m", "rntp.gpu", *asked]
    with (
        (task.output / "log.txt").open("a", encoding="utf-8") as log,
        subprocess.Popen(  # noqa: S603 - this interpreter, with arguments of its own
            command, env=os.environ | own, stdout=subprocess.PIPE, stderr=log, start_new_session=True, text=True
        ) as started,
    ):
        try:
            said, _ = started.communicate(timeout=allowed_s + _GRACE_S)
        except subprocess.TimeoutExpired:
            return f"took more than its {allowed_s:.0f} s and was ended"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
    if started.returncode == 0:
        return ""
    last = said.strip().splitlines()
    return last[-1] if last else f"ended with exit code {started.returncode}; its log is {task.output / 'log.txt'}"


def child(arguments: Sequence[str]) -> int:
    """Carry one task out, as :func:`in_process` asks for it; the reason of a failure is printed.

    Parameters
    ----------
    arguments : sequence of str
        Folder, name of the task, its end on the monotonic clock, and whether it is the dry run.

    Returns
    -------
    int
        Exit code.
    """
    hush()
    output, name, end, dry = arguments
    every = tasks_of(settings_of(dry=bool(dry)), Path(output), dry=bool(dry))
    task = next(one for one in every if one.name == name)
    reason = carry_out(task, max(float(end) - time.monotonic(), 0.0))
    if reason:
        sys.stdout.write(f"{reason}\n")
    return 1 if reason else 0


def _rows(task: Task) -> list[Row]:
    """Rows that a task has written; a piece of a line that a kill left is none."""
    if not task.file.is_file():
        return []
    lines = read_user_text(task.file).split("\n")[:-1]
    return [Row(**json.loads(line)) for line in lines]


def measure_gpu(
    output: Path, *, dry: bool, budget_s: float, runner: Runner | None = None, told: Callable[[str], None] = print
) -> dict[str, Any]:
    """Measure everything and write the report.

    Parameters
    ----------
    output : Path
        Folder of the report; what an earlier one left there is removed.
    dry : bool
        Tiny models on the CPU.
    budget_s : float
        Time for all of it [s].
    runner : callable, optional
        Carries a task out; a process of its own when left out, but for all tasks of a dry run but the first.
    told : callable
        Hears which part has begun.

    Returns
    -------
    dict
        What ``report.json`` holds.

    Raises
    ------
    InputError
        There is no CUDA GPU, and it is no dry run.
    """
    begun = time.monotonic()
    if not dry and not torch.cuda.is_available():
        raise InputError("make gpu: no CUDA GPU is here; make gpu DRY=1 runs every part on a CPU with tiny models")
    settings = settings_of(dry=dry)
    _prepare(output)
    write_configurations(settings, output)
    deadline = Deadline(begun + budget_s - min(_RESERVE_S, budget_s / 4))
    waiting, rows, states = tasks_of(settings, output, dry=dry), list[Row](), list[dict[str, Any]]()
    while waiting:
        task = waiting[0]
        # a dry run measures nothing: however busy the machine, its one process of its own may take what time there is
        allowed_s = deadline.left_s if dry and not states else allowance_s(waiting, deadline.left_s)
        told(f"{task.name}: at most {allowed_s:.0f} s")
        started = time.monotonic()
        carried = runner or (carry_out if dry and states else in_process)
        reason = carried(task, max(allowed_s - _GRACE_S, allowed_s / 2))
        found = _rows(task)
        rows += found
        states.append({
            "part": task.name, "took_s": time.monotonic() - started, "allowed_s": allowed_s, "failed": reason,
            "rows": sum(not row.note for row in found),
            "notes": [row.note for row in found if row.note],
        })  # fmt: skip
        waiting = waiting[1:]
    report = _report(settings, output, rows, states, dry=dry)
    report["took_s"] = time.monotonic() - begun
    write_json(output / REPORT, report)
    return report


def _prepare(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise InputError(f"--output {shown(str(output))}: is a file; a folder is needed")
    if output.is_dir() and any(output.iterdir()) and not (output / MODELS).is_dir():
        raise InputError(f"--output {shown(str(output))}: holds other files and no report; choose another folder")
    for name in (MODELS, RUNS, FACTS, "calibration"):
        shutil.rmtree(output / name, ignore_errors=True)
    for file in [*output.glob("*.jsonl"), *output.glob("report.*"), output / "log.txt"]:
        file.unlink(missing_ok=True)
    output.mkdir(parents=True, exist_ok=True)


def _report(
    settings: Settings, output: Path, rows: list[Row], states: list[dict[str, Any]], *, dry: bool
) -> dict[str, Any]:
    device = torch.device("cpu" if dry else "cuda")
    sheet, machine = sheet_of(device), measured_machine(device, output)
    shapes = {shape.name: shape for shape in settings.shapes}
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    versions = installed_versions(PACKAGES) | dict(machine.versions)
    software = ", ".join(f"{name} {version}" for name, version in versions.items())
    origin = Origin(date, machine.device, sheet or machine.device, software)
    predictors = [Predictor(output, shapes, place) for place in places_of(output, sheet)]
    return {
        "date": date, "dry": dry, "sizes": sizes_of(settings), "device": machine.device, "accelerator": sheet,
        "peak_flop_per_s": machine.peak_flop_per_s, "peak_source": machine.peak_source, "versions": versions,
        "models": {name: shape.model for name, shape in shapes.items()},
        "parts": states, "failed": [one["part"] for one in states if one["failed"]],
        "rows": [
            {key: value for key, value in asdict(row).items() if key != "note"}
            | {"predictions": predictions(row, predictors)}
            for row in rows if not row.note
        ],
        "facts": write_facts(rows, shapes, origin, output),
    }  # fmt: skip
