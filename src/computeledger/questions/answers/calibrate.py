"""From parsed options to a machine's profile: measure, fit, say how well it fits. No formula here."""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from computeledger.actuals.kernels import Kernels
from computeledger.actuals.machine_files import About, factors_document, machine_files
from computeledger.actuals.machine_fit import MachineFit, fit_machine
from computeledger.actuals.microbenchmarks import (
    BUSY_FRACTION,
    CPU_SCALE,
    GPU_SCALE,
    Measurement,
    choose_kernels,
    measure,
    spread_fraction,
)
from computeledger.actuals.reductions import measure_all_reduce
from computeledger.arrays import Range
from computeledger.errors import InputError, shown
from computeledger.facts.load import load_accelerator
from computeledger.physics.calibration.efficiency import load_factors, middle
from computeledger.units import format_percent
from computeledger.writing import write_bytes


def answer_calibrate(
    options: Mapping[str, Any], progress: Callable[[float], None]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Answer ``computeledger calibrate``: the document, and the texts of the files."""
    chip = load_accelerator(options["accelerator"]) if options["accelerator"] else None
    load_factors(options["like"])
    _check(options)
    kernels = choose_kernels(options["backend"], options["device"], options["threads"])
    begun = time.perf_counter(), time.process_time()
    found = measure(kernels, CPU_SCALE if kernels.device == "cpu" else GPU_SCALE, middle(options["budget"]), progress)
    spread = spread_fraction(found)  # of one process: those of an all-reduce wait for one another
    ran = (time.process_time() - begun[1]) / (time.perf_counter() - begun[0])
    waiting = None if kernels.wall else max(0.0, 1 - ran)
    found += measure_all_reduce(kernels, options["processes"])
    peaks = {name: fact.value for name, fact in chip.peak_flop_per_s.items()} if chip else None
    fit = fit_machine(found, peaks, chip.hbm_bytes_per_s.value if chip else None)
    power = options["power"]
    about = About(
        name=options["name"],
        date=datetime.date.today().isoformat(),
        data=f"{kernels.name} {kernels.version}, {kernels.device}, {kernels.threads} threads, {len(found)} cases, "
        f"spread {format_percent(spread)}",
        device_name=kernels.device_name,
        like=options["like"],
        accelerator=chip.id if chip else "",
        memory_bytes=kernels.memory_bytes,
        power_w=None if power is None else middle(power),
    )
    return _document(fit, about, kernels, found) | _disturbance(spread, waiting), machine_files(fit, about)


def _check(options: Mapping[str, Any]) -> None:
    """Refuse before minutes are spent what could not be written after them."""
    if isinstance(options["budget"], Range):
        raise InputError("--budget: one duration is needed, not a range")
    machine_files(
        MachineFit({"bf16": 1.0}, 1.0, {}, {}, 0.0, None), About(options["name"], "", "", "a", "", "", 0.0, None)
    )
    if options["folder"] is not None:
        target = Path(options["folder"])
        if target.exists() and not target.is_dir():
            raise InputError(f"--write {shown(options['folder'])}: is a file; a folder is needed")
        if not target.parent.is_dir():
            raise InputError(f"--write {shown(options['folder'])}: the folder {target.parent} does not exist")


def write_files(folder: str, files: Mapping[str, str]) -> list[str]:
    """Write each file whole into a folder, which is made if need be."""
    target = Path(folder)
    target.mkdir(exist_ok=True)
    for name, text in files.items():
        write_bytes(str(target / name), text.encode(), "--write")
    return [str(target / name) for name in files]


def _document(fit: MachineFit, about: About, kernels: Kernels, found: list[Measurement]) -> dict[str, Any]:
    return {
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
        "link": None if fit.link is None else dataclasses.asdict(fit.link),
        "residuals": {kind: dataclasses.asdict(one) for kind, one in fit.residuals.items()},
        "residual_median": fit.residual_median,
        "measurements": [{**dataclasses.asdict(one), "shape": dict(one.shape)} for one in found],
    }


def _disturbance(spread: float, waiting: float | None) -> dict[str, Any]:
    """Whether other work ran beside the measurement, and by what it is told."""
    limit = format_percent(BUSY_FRACTION)
    signs = []
    if spread > BUSY_FRACTION:
        signs.append(f"repeats lie {format_percent(spread)} above the least")
    if waiting is not None and waiting > BUSY_FRACTION:
        signs.append(f"other processes held the processor {format_percent(waiting)} of the time")
    warning = f"the machine was busy: {', and '.join(signs)}; above {limit} measure again when it is idle"
    return {
        "spread_fraction": spread,
        "waiting_fraction": waiting,
        "busy": bool(signs),
        "warning": warning if signs else None,
    }
