"""Answer ``computeledger calibrate``: measure this machine, fit its profile, say how well it fits."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from computeledger.actuals.machine.files import About, factors_document, machine_files
from computeledger.actuals.machine.fit import MachineFit, fit_machine
from computeledger.actuals.machine.kernels import Kernels
from computeledger.actuals.machine.microbenchmarks import (
    BUSY_FRACTION,
    CPU_SCALE,
    GPU_SCALE,
    Measurement,
    choose_kernels,
    measure,
    spread_fraction,
)
from computeledger.actuals.machine.reductions import measure_all_reduce
from computeledger.errors import InputError, shown
from computeledger.facts.load import load_accelerator
from computeledger.fields import Given
from computeledger.physics.calibration.efficiency import load_factors, median_of
from computeledger.questions.answer import Answer, from_python
from computeledger.questions.calibrate import CalibrateQuestion
from computeledger.units import format_percent
from computeledger.writing import write_bytes


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class CalibrateAnswer(Answer):
    """A machine's peaks and the constants of its profile, with what they leave unexplained."""

    question: CalibrateQuestion
    fit: MachineFit
    about: About
    kernels: Kernels
    measurements: tuple[Measurement, ...]
    spread_fraction: float
    waiting_fraction: float | None
    is_complete: bool

    @property
    def busy(self) -> str:
        """That other work ran beside the measurement, and by what it is told; empty where none did."""
        signs = []
        if self.spread_fraction > BUSY_FRACTION:
            signs.append(f"repeats lie {format_percent(self.spread_fraction)} above the least")
        if self.waiting_fraction is not None and self.waiting_fraction > BUSY_FRACTION:
            signs.append(f"other processes held the processor {format_percent(self.waiting_fraction)} of the time")
        said = f"{', and '.join(signs)}; above {format_percent(BUSY_FRACTION)} measure again when it is idle"
        return f"the machine was busy: {said}" if signs else ""

    @property
    def warning(self) -> str | None:
        """That the machine was busy, and that the budget of time left cases out."""
        budget, n = f"{self.question.budget:g} s", len(self.measurements)
        cut = "" if self.is_complete else f"a budget of {budget} held {n} cases of all: a longer one fits better"
        return "; ".join(one for one in (self.busy, cut) if one) or None

    def write(self, folder: str) -> list[str]:
        """Write profile, system and accelerator into a folder, which is made if need be; the paths."""
        _check_folder(folder)
        target = Path(folder)
        target.mkdir(exist_ok=True)
        files = machine_files(self.fit, self.about)
        for name, text in files.items():
            write_bytes(str(target / name), text.encode(), "--write")
        return [str(target / name) for name in files]

    def contents(self, *, working: bool = False) -> dict[str, Any]:  # noqa: ARG002 (its residuals are always there)
        """As ``computeledger calibrate --json`` prints it."""
        fit, about, kernels, folder = self.fit, self.about, self.kernels, self.question.write
        document = {
            "name": about.name,
            "date": about.date,
            "data": about.data,
            "like": about.like,
            "device": {
                "name": about.device_name,
                "kind": kernels.device,
                "backend": kernels.name,
                "version": kernels.version,
                "threads": kernels.threads,
                "memory_bytes": about.memory_bytes,
                "measured_as_bf16": fit.precision,
                "clock": "wall" if kernels.wall else "processor",
            },
            "peak_flop_per_s": dict(fit.peak_flop_per_s),
            "hbm_bytes_per_s": fit.hbm_bytes_per_s,
            "factors": factors_document(fit),
            "link": None if fit.link is None else asdict(fit.link),
            "residuals": {kind: asdict(one) for kind, one in fit.residuals.items()},
            "residual_median": fit.residual_median,
            "measurements": [{**asdict(one), "shape": dict(one.shape)} for one in self.measurements],
            "spread_fraction": self.spread_fraction,
            "waiting_fraction": self.waiting_fraction,
            "busy": bool(self.busy),
            "warning": self.warning,
        }
        written = {} if folder is None else {"files": [str(Path(folder) / name) for name in machine_files(fit, about)]}
        return document | written


def calibrate(question: CalibrateQuestion | None = None, /, **given: Given) -> CalibrateAnswer:
    """Measure this machine and fit its efficiency profile.

    Parameters
    ----------
    question : CalibrateQuestion, optional
        What is asked; keywords change single fields of it.
    **given : str, float or path
        Fields of :class:`~computeledger.questions.calibrate.CalibrateQuestion`, such as the ``budget`` of time [s] and
        the folder to ``write`` profile, system and accelerator to.

    Returns
    -------
    CalibrateAnswer
        With the fit, its residuals, every measurement, and a warning where the machine was busy or the budget too short
        for every case.

    Raises
    ------
    InputError
        For a library or device that is not there, and a folder that cannot be written.

    Examples
    --------
    >>> calibrate(backend="numpy", device="cuda")
    Traceback (most recent call last):
    computeledger.errors.InputError: device cuda: NumPy runs on the CPU only; install PyTorch for the GPU
    """
    return from_python(CalibrateQuestion, answer_calibrate, question, given)


def answer_calibrate(
    question: CalibrateQuestion, progress: Callable[[float], None] = lambda _done: None
) -> CalibrateAnswer:
    """Answer ``computeledger calibrate``; ``progress`` hears which fraction of the rounds is done."""
    chip = load_accelerator(question.accelerator) if question.accelerator else None
    load_factors(question.like)
    _check(question)
    kernels = choose_kernels(question.backend, question.device, question.threads)
    begun = time.perf_counter(), time.process_time()
    measured = measure(kernels, CPU_SCALE if kernels.device == "cpu" else GPU_SCALE, question.budget, progress)
    found = list(measured.cases)
    spread = spread_fraction(found)  # of one process: those of an all-reduce wait for one another
    ran = (time.process_time() - begun[1]) / (time.perf_counter() - begun[0])
    found += measure_all_reduce(kernels, question.processes)
    peaks = {name: fact.value for name, fact in chip.peak_flop_per_s.items()} if chip else None
    about = About(
        name=question.name,
        date=datetime.date.today().isoformat(),
        data=f"{kernels.name} {kernels.version}, {kernels.device}, {kernels.threads} threads, {len(found)} cases, "
        f"spread {format_percent(spread)}",
        device_name=kernels.device_name,
        like=question.like,
        accelerator=chip.id if chip else "",
        memory_bytes=kernels.memory_bytes,
        power_w=None if question.power is None else median_of(question.power),
    )
    answer = CalibrateAnswer(
        question=question,
        fit=fit_machine(found, peaks, chip.hbm_bytes_per_s.value if chip else None),
        about=about,
        kernels=kernels,
        measurements=tuple(found),
        spread_fraction=spread,
        waiting_fraction=None if kernels.wall else max(0.0, 1 - ran),
        is_complete=measured.is_complete,
    )
    if question.write is not None:
        answer.write(question.write)
    return answer


def _check(question: CalibrateQuestion) -> None:
    """Refuse before minutes are spent what could not be written after them."""
    fit = MachineFit({"bf16": 1.0}, 1.0, {}, {}, 0.0, None)
    machine_files(fit, About(question.name, "", "", "a", "", "", 0.0, None))
    if question.write is not None:
        _check_folder(question.write)


def _check_folder(folder: str) -> None:
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise InputError(f"--write {shown(folder)}: is a file; a folder is needed")
    if not target.parent.is_dir():
        raise InputError(f"--write {shown(folder)}: the folder {target.parent} does not exist")
