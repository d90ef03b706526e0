"""From a plan and logs to a reconciliation as a document: the call that the command line and the web share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from computeledger.actuals.plan_calibration import (
    PlanCalibration,
    calibration_of,
    calibration_text,
    read_calibration,
)
from computeledger.actuals.readers import power
from computeledger.actuals.readers.all_tools import read_actuals, reader_of
from computeledger.actuals.readers.tally import Hints, Tally, counted
from computeledger.actuals.reconcile import Money, Reconciliation, Settled, Variance, reconcile
from computeledger.actuals.sums import LEDGERS, Sums
from computeledger.economics.plan.read import load_plan
from computeledger.errors import InputError, shown
from computeledger.questions.wording import MFU_WORDS, UTILIZATION_WORDS
from computeledger.units import HOUR_S, MEGA, format_si
from computeledger.workloads.result import quantities

Document = dict[str, Any]
#: A file from here on takes long enough to say that it is being read.
LARGE_BYTES = 100 * MEGA

VARIANCE_WORDS = {
    "volume": "more or fewer tokens, at the planned GPU-time per token",
    "utilization": "more or less GPU-time per token, at the planned price",
    "unplanned": "phases that no plan has (idle, checkpoints, evaluation, work done again), at the planned price",
    "price": "another price, for every GPU-hour",
}
#: Two shares of the peak that one run has, and why they differ.
SHARE_WORDS = {
    "utilization_fraction": UTILIZATION_WORDS,
    "mfu_fraction": f"{MFU_WORDS}, over the GPU-time of planned work",
}


def _silent(_words: str) -> None:
    """No progress."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file of actuals after it was read."""

    path: str
    tool: str
    entries: int
    phases: tuple[str, ...]
    tally: Tally
    has_energy: bool


def answer_reconcile(
    plan_file: str,
    files: Sequence[str],
    hints: Hints,
    price: float | None,
    calibration_file: str,
    progress: Callable[[str], None] = _silent,
) -> tuple[Document, str]:
    """Reconcile a plan with logs: the document, and the text of the calibration (empty where there is none)."""
    plan = load_plan(plan_file)
    sums, read = read_files(files, hints, progress)
    tallies = {phase: _joined([one.tally for one in read if phase in one.phases]) for phase in LEDGERS.values()}
    found = reconcile(plan, sums.actuals(), tallies, price)
    sure = _without_contradictions(found)
    calibration = calibration_of(sure, _data(read), calibration_file)
    document = reconciliation_document(found, read, hints)
    document["calibration"] = _calibration_document(calibration) if calibration.phases else None
    return document, calibration_text(calibration) if calibration.phases else ""


def check_calibration_file(path: str) -> None:
    """Refuse to write over a file that is no calibration."""
    if Path(path).exists():
        try:
            read_calibration(path)
        except InputError as error:
            raise InputError(f"--calibration {error}; it is left as it is: give another name") from None


def read_files(
    files: Sequence[str], hints: Hints, progress: Callable[[str], None] = _silent
) -> tuple[Sums, list[ReadFile]]:
    """Sum up files; logs of power come last, as they belong to the workload of the others."""
    sums = Sums()
    read: list[ReadFile] = []
    found = [(name, reader_of(Path(name))) for name in files]
    for index, (name, _) in enumerate(found):
        if any(Path(name).samefile(other) for other, _ in found[:index]):
            raise InputError(f"{shown(name)}: is given twice, and would count twice")
    for name, reader in sorted(found, key=lambda pair: pair[1].tool == power.TOOL):
        own = replace(hints, run=Path(name).stem)
        if reader.tool == power.TOOL:
            own = replace(own, workload=_powered(name, sums, [one for one in read if one.tool != power.TOOL]))
        size_bytes = Path(name).stat().st_size
        if size_bytes >= LARGE_BYTES:
            progress(f"reading {name} ({format_si(size_bytes, 'B')})")
        tally, workloads, count, has_energy = Tally(), dict[str, None](), 0, False
        for entry in read_actuals(Path(name), own, tally):
            sums.add((entry,))
            workloads[entry.workload] = None
            count += 1
            has_energy = has_energy or entry.energy_j is not None
        read.append(ReadFile(name, reader.tool, count, tuple(LEDGERS[one] for one in workloads), tally, has_energy))
    return sums, read


def _powered(name: str, sums: Sums, others: Sequence[ReadFile]) -> str:
    """The workload that a power log belongs to; none where there is no other log."""
    workloads = sums.workloads()
    if len(workloads) > 1:
        raise InputError(f"{shown(name)}: a power log of which of {', '.join(workloads)}? give them apart")
    counted_in = [one.path for one in others if one.has_energy]
    if counted_in:
        raise InputError(f"{shown(name)}: {shown(counted_in[0])} counts energy itself: leave one of them out")
    return next(iter(workloads), "")


def _joined(tallies: Sequence[Tally]) -> Tally:
    """What several files say of themselves, as one."""
    out = Tally()
    for tally in tallies:
        for name, one in tally.observed.items():
            before = out.observed.get(name)
            if before is None:
                out.observed[name] = one
            else:
                ends = {"least": min(before.least, one.least), "most": max(before.most, one.most)}
                out.observed[name] = replace(
                    one, count=before.count + one.count, total=before.total + one.total, **ends
                )
    return out


def _data(read: Sequence[ReadFile]) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for one in read:
        for phase in one.phases:
            out.setdefault(phase, []).append(Path(one.path).name)
    return out


def _without_contradictions(found: Reconciliation) -> Reconciliation:
    """A run that cannot have been teaches nothing."""
    broken = {one.phase for one in found.contradictions}
    return replace(found, phases={name: one for name, one in found.phases.items() if name not in broken})


def reconciliation_document(found: Reconciliation, read: Sequence[ReadFile], hints: Hints) -> Document:
    """The shape that ``reconcile --json`` prints, without the calibration."""
    phases = {name: _phase_document(found, one) for name, one in found.phases.items()}
    remarks = list(found.remarks)
    held = {count for one in found.phases.values() for count in one.took.devices}
    if hints.devices is not None and hints.devices not in held:
        remarks.append(f"--gpus {hints.devices} was not needed: every log says how many it held")
    total = {
        "budget": {name: sum(one["budget"][name] for one in phases.values()) for name in ("gpu_hours", "usd")},
        "actual": {name: sum(one["actual"][name] for one in phases.values()) for name in ("gpu_hours", "usd")},
        "variance": {name: sum(one["variance"][name] for one in phases.values()) for name in VARIANCE_WORDS},
    }
    return {
        "plan": found.ledger.plan.name,
        "title": found.ledger.plan.top.text("title") or found.ledger.plan.name,
        "phases": phases,
        "total": total,
        "contradictions": [asdict(one) for one in found.contradictions],
        "remarks": remarks,
        "files": [_file_document(one) for one in read],
        "definitions": {**VARIANCE_WORDS, **SHARE_WORDS},
    }


def _phase_document(found: Reconciliation, one: Settled) -> Document:
    phase = found.ledger.phases.get(one.name)
    names = {"tokens": "tokens", "gpu_hours": "GPU-hours", "utilization_fraction": "", "usd": "USD", "energy_j": "J"}
    took = one.took
    whole_s = took.gpu_hours * HOUR_S
    return {
        "budget": _money(one.budget),
        "actual": _money(one.actual) | {"energy_measured_j": one.measured_energy_j},
        "variance": _variance(one.usd),
        "variance_gpu_hours": _variance(one.gpu_hours),
        "budget_interval": quantities({name: (getattr(phase, name), unit) for name, unit in names.items()})
        if phase
        else None,
        "inside_interval": dict(one.inside),
        "is_planned": one.is_planned,
        "parts": {
            name: {"gpu_hours": seconds / HOUR_S, "fraction": seconds / whole_s if whole_s else 0.0}
            for name, seconds in sorted(took.gpu_s_by_phase.items(), key=lambda pair: -pair[1])
        },
        "unplanned_gpu_hours": took.unplanned_gpu_hours,
        "utilization_interval": list(one.utilization_range) if one.utilization_range else None,
        "runs": list(took.runs),
        "devices": list(took.devices),
        "steps": took.steps,
    }


def _money(money: Money) -> Document:
    return asdict(money)


def _variance(one: Variance) -> Document:
    return {"volume": one.volume, "utilization": one.utilization, "price": one.price, "unplanned": one.unplanned}


def _file_document(one: ReadFile) -> Document:
    return {
        "file": one.path,
        "tool": one.tool,
        "entries": one.entries,
        "phases": list(one.phases),
        "damaged": counted(one.tally.damaged),
        "remarks": counted(one.tally.remarks),
        "observed": {
            name: {"n": value.count, "mean": value.mean, "least": value.least, "most": value.most}
            for name, value in one.tally.observed.items()
        },
    }


def _calibration_document(calibration: PlanCalibration) -> Document:
    phases: Mapping[str, Any] = {
        name: {
            "utilization": {
                "p05": one.utilization.low,
                "p50": float(one.utilization.quantile(0.0)),
                "p95": one.utilization.high,
            },
            "model": one.model,
            "accelerator": one.accelerator,
            "data": list(one.data),
        }
        for name, one in calibration.phases.items()
    }
    return {"file": calibration.name, "date": calibration.date, "phases": dict(phases)}
